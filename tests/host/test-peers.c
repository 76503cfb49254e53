// SPDX-License-Identifier: LGPL-2.1-or-later
/* Other devices that access a pool's memory: what is there, what comes later, and what moves. */
#include <errno.h>

#include "backend/backend.h"
#include "calls/pool.h"
#include "host/export-fixture.h"
#include "host/tag-fixture.h"
#include "support/fault.h"
#include "support/kinds.h"

#define DEVICES 4

static const struct kind kinds[] = { KINDS_EACH };

static bool reaches(int device, const void *ptr, size_t size)
{
	int err = vpmm_host_check_access(device, ptr, size);

	g_assert_true(!err || err == -EACCES);
	return !err;
}

/* The devices of the set, bits by ordinal, can access it, and no others. */
static void assert_reached(const void *ptr, size_t size, unsigned int devices)
{
	for (int device = 0; device < DEVICES; device++) {
		if (reaches(device, ptr, size) != (devices >> device & 1))
			g_error("device %d %s access %zu bytes at %p", device,
				devices >> device & 1 ? "cannot" : "can", size, ptr);
	}
}

static void set_one(struct fixture *f, int device)
{
	assert_ok(vpmm_pool_set_peers(f->pool, &device, 1));
	assert_ok(vpmm_pool_check(f->pool));
}

static void set_two(struct fixture *f, int first, int second)
{
	const int devices[] = { first, second };

	assert_ok(vpmm_pool_set_peers(f->pool, devices, 2));
	assert_ok(vpmm_pool_check(f->pool));
}

static uint64_t peers_of(struct fixture *f)
{
	struct vpmm_info info = { .size = sizeof(info) };

	assert_ok(vpmm_pool_info(f->pool, &info));
	return info.peers;
}

/* What was allocated before, and what is after. */
static void test_set(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *before, *after;

	fixture_open(&f, kind->opts);
	before = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	assert_reached(before, kind->size, 0x1);

	set_two(&f, 3, 1);
	after = fixture_malloc_bytes(&f, 5 * kind->size, f.streams[1]);

	assert_reached(before, kind->size, 0xb);
	assert_reached(after, 5 * kind->size, 0xb);
	g_assert_cmpuint(peers_of(&f), ==, 0xa);
	fixture_free(&f, before, f.streams[0]);
	fixture_free(&f, after, f.streams[1]);
	fixture_close(&f);
}

/* The devices of a call take the place of those before; none takes the place of all. */
static void test_replace(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *ptr;

	fixture_open(&f, kind->opts);
	ptr = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	set_two(&f, 1, 2);

	set_one(&f, 3);
	assert_reached(ptr, kind->size, 0x9);
	assert_ok(vpmm_pool_set_peers(f.pool, NULL, 0));
	assert_reached(ptr, kind->size, 0x1);
	g_assert_cmpuint(peers_of(&f), ==, 0);

	fixture_free(&f, ptr, f.streams[0]);
	ptr = fixture_malloc_bytes(&f, 7 * kind->size, f.streams[0]);
	assert_reached(ptr, 7 * kind->size, 0x1);
	fixture_free(&f, ptr, f.streams[0]);
	fixture_close(&f);
}

/* A block that grows where it is, and one that moves, with its memory mapped twice meanwhile. */
static void test_grow(void)
{
	void *growable, *moved, *neighbour;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_ok(vpmm_malloc_growable(f.pool, &growable, PAGE, 40 * PAGE, f.streams[0]));
	moved = fixture_malloc(&f, 40, f.streams[0]);
	neighbour = fixture_malloc(&f, 1, f.streams[0]);
	set_one(&f, 2);

	assert_ok(vpmm_realloc(f.pool, &growable, 30 * PAGE, f.streams[0]));
	assert_ok(vpmm_realloc(f.pool, &moved, 80 * PAGE, f.streams[0]));
	assert_reached(growable, 30 * PAGE, 0x5);
	assert_reached(moved, 80 * PAGE, 0x5);
	set_one(&f, 1);
	assert_reached(growable, 30 * PAGE, 0x3);
	assert_reached(moved, 80 * PAGE, 0x3);

	fixture_free(&f, growable, f.streams[0]);
	fixture_free(&f, moved, f.streams[0]);
	fixture_free(&f, neighbour, f.streams[0]);
	fixture_close(&f);
}

/* Blocks that go to another process's pool and come from one; here both are in one process. */
static void test_share(void)
{
	struct ends e;
	char *sent, *received;
	size_t size;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	sent = shareable_malloc(&e.from, SIZE);
	set_one(&e.to, 1);
	assert_ok(vpmm_send(e.from.pool, sent, e.sockets[0]));
	received = receive_block(&e, &size);
	assert_reached(received, size, 0x3);
	assert_reached(sent, SIZE, 0x1);

	set_one(&e.from, 2);
	set_one(&e.to, 3);

	assert_reached(sent, SIZE, 0x5);
	assert_reached(received, size, 0x9);
	fixture_free(&e.from, sent, NULL);
	fixture_free(&e.to, received, NULL);
	ends_close(&e);
}

struct owned {
	void *ptr;
	size_t size;
};

#define BLOCKS 24

static void change_block(struct fixture *f, struct owned *block, GRand *rand)
{
	struct CUstream_st *stream = f->streams[g_rand_int_range(rand, 0, STREAMS)];
	size_t size = (size_t)g_rand_int_range(rand, 1, 16 * (gint32)PAGE);

	if (block->ptr && g_rand_boolean(rand)) {
		assert_ok(vpmm_free(f->pool, block->ptr, stream));
		block->ptr = NULL;
		return;
	}
	assert_ok(vpmm_realloc(f->pool, &block->ptr, size, stream));
	block->size = size;
	if (g_rand_boolean(rand))
		assert_ok(vpmm_host_stream_submit(stream));
}

static unsigned int change_peers(struct fixture *f, GRand *rand)
{
	unsigned int devices = 0x1;
	int list[DEVICES];
	size_t count = 0;

	for (int device = 1; device < DEVICES; device++) {
		if (g_rand_boolean(rand)) {
			list[count++] = device;
			devices |= 1u << device;
		}
	}
	assert_ok(vpmm_pool_set_peers(f->pool, list, count));
	return devices;
}

/* Memory moves to addresses of old, old addresses serve again, and blocks are cut and joined. */
static void test_random(gconstpointer data)
{
	const struct kind *kind = data;
	GRand *rand = g_rand_new_with_seed(5);
	struct owned blocks[BLOCKS] = { 0 };
	unsigned int devices = 0x1;
	struct fixture f;

	fixture_open(&f, kind->opts);
	for (int i = 0; i < 1500; i++) {
		struct owned *block = &blocks[g_rand_int_range(rand, 0, BLOCKS)];

		change_block(&f, block, rand);
		if (block->ptr)
			assert_reached(block->ptr, block->size, devices);
		if (i % 8 == 0)
			vpmm_host_stream_complete(f.streams[g_rand_int_range(rand, 0, STREAMS)], UINT_MAX);
		if (i % 50)
			continue;
		devices = change_peers(&f, rand);
		for (int j = 0; j < BLOCKS; j++) {
			if (blocks[j].ptr)
				assert_reached(blocks[j].ptr, blocks[j].size, devices);
		}
		assert_ok(vpmm_pool_check(f.pool));
	}
	for (int i = 0; i < BLOCKS; i++)
		fixture_free(&f, blocks[i].ptr, f.streams[0]);
	/* One may wait for another. */
	for (int i = 0; i < STREAMS * STREAMS; i++)
		vpmm_host_stream_complete(f.streams[i % STREAMS], UINT_MAX);
	fixture_close(&f);
	g_rand_free(rand);
}

/* What is wrong is named, and nothing changes. */
static void test_bad(void)
{
	static const struct {
		int devices[2];
		int err;
		const char *word;
	} rows[] = {
		{ { 1, 0 }, EINVAL, "vpmm_pool_set_peers: device 0 is the pool's own" },
		{ { 1, 1 }, EINVAL, "vpmm_pool_set_peers: device 1 is there twice" },
		{ { 1, -2 }, EINVAL, "vpmm_pool_set_peers: device -2: expected an ordinal" },
		{ { 1, 4 }, ENODEV, "vpmm_pool_set_peers: there is no host device 4" },
		{ { 1, INT_MAX }, ENODEV, "there is no host device 2147483647" },
	};
	struct fixture f;
	char *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	ptr = fixture_malloc(&f, 1, f.streams[0]);
	set_one(&f, 2);
	for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
		assert_error(vpmm_pool_set_peers(f.pool, rows[i].devices, 2), rows[i].err, rows[i].word);
		assert_reached(ptr, PAGE, 0x5);
		g_assert_cmpuint(peers_of(&f), ==, 0x4);
	}
	assert_error(vpmm_pool_set_peers(f.pool, NULL, 2), EINVAL, "devices is NULL, and count is 2");
	assert_reached(ptr, PAGE, 0x5);
	fixture_free(&f, ptr, f.streams[0]);
	fixture_close(&f);
}

/* A call of the driver fails half way, for the second of two ranges. */
static void open_apart(struct fixture *f, char **first, char **second)
{
	fixture_open_faulty(f, (struct vpmm_opts){ FIXTURE_PACKED });
	*first = fixture_malloc(f, 1, f->streams[0]);
	*second = fixture_malloc_bytes(f, 1000, f->streams[0]);
	set_one(f, 1);
}

static void close_apart(struct fixture *f, char *first, char *second)
{
	fixture_free(f, first, f->streams[0]);
	fixture_free(f, second, f->streams[0]);
	fixture_close(f);
}

struct failing {
	const char *name;
	enum backend_op op;
	unsigned int count;
};

static const struct failing failing[] = {
	{ "gain", BACKEND_OP_access, 1 },
	{ "gain-twice", BACKEND_OP_access, 2 },
	{ "lose", BACKEND_OP_deny, 1 },
	{ "lose-twice", BACKEND_OP_deny, 2 },
};

static void test_undone(gconstpointer data)
{
	const struct failing *row = data;
	char *first, *second, *third;
	const int device = 2;
	struct fixture f;

	open_apart(&f, &first, &second);
	backend_fault_arm(f.pool->core.backend, row->op, 1, row->count, -ENOMEM);

	assert_error(vpmm_pool_set_peers(f.pool, &device, 1), ENOMEM, "vpmm_pool_set_peers: ");
	g_assert_null(strstr(vpmm_last_error(), "undoing"));
	assert_reached(first, PAGE, 0x3);
	assert_reached(second, 1000, 0x3);
	third = fixture_malloc(&f, 3, f.streams[0]);
	assert_reached(third, 3 * PAGE, 0x3);
	fixture_free(&f, third, f.streams[0]);
	close_apart(&f, first, second);
}

/* So does all that undoes it: the error says so, and the next call puts things right. */
static void test_not_undone(void)
{
	const int device = 2;
	char *first, *second;
	struct fixture f;

	open_apart(&f, &first, &second);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_access, 1, UINT_MAX, -ENOMEM);
	assert_error(vpmm_pool_set_peers(f.pool, &device, 1), ENOMEM, "undoing failed too");
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_access, 0, 0, 0);

	set_one(&f, 1);
	assert_reached(first, PAGE, 0x3);
	assert_reached(second, 1000, 0x3);
	close_apart(&f, first, second);
}

/* A pausable tag cannot follow, and the pool cannot go back: the error is the first one. */
static void test_tag_not_undone(void)
{
	vpmm_tag tag = tag_get("a", VPMM_TAG_PAUSABLE);
	const int device = 2;
	char *own, *tagged;
	struct fixture f;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	own = fixture_malloc(&f, 1, f.streams[0]);
	tagged = tag_malloc(f.pool, tag, PAGE, 1, f.streams[0]);
	set_one(&f, 1);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_access, 1, 1, -ENOMEM);
	backend_fault_arm_next(f.pool->core.backend, 0, UINT_MAX, -EIO);
	assert_error(vpmm_pool_set_peers(f.pool, &device, 1), ENOMEM, "undoing failed too");
	backend_fault_arm_next(f.pool->core.backend, 0, 0, 0);

	set_one(&f, 1);
	assert_reached(own, PAGE, 0x3);
	assert_reached(tagged, PAGE, 0x3);
	fixture_close(&f);
}

/* The driver is called for mappings only where a device comes or goes. */
static void test_no_more_calls(void)
{
	uint64_t before, change;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	fixture_free(&f, fixture_malloc(&f, 1, f.streams[0]), f.streams[0]);
	before = fixture_stats(&f).accesses;
	assert_ok(vpmm_pool_set_peers(f.pool, NULL, 0));
	g_assert_cmpuint(fixture_stats(&f).accesses, ==, before);

	set_one(&f, 1);
	change = fixture_stats(&f).accesses;
	g_assert_cmpuint(change, >, before);
	set_one(&f, 1);
	g_assert_cmpuint(fixture_stats(&f).accesses, ==, change);
	fixture_close(&f);
}

struct changer {
	struct fixture *f;
	_Atomic bool done;
};

/* Changes the peers until the others are done. */
static gpointer keep_changing(gpointer data)
{
	GRand *rand = g_rand_new_with_seed(7);
	struct changer *c = data;

	do
		change_peers(c->f, rand);
	while (!c->done);
	g_rand_free(rand);
	return NULL;
}

/* What is allocated while the peers change is accessible to those that there are at last. */
static void test_threads(void)
{
	char *ptrs[BLOCKS];
	struct changer c;
	struct fixture f;
	GThread *thread;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	c = (struct changer){ .f = &f };
	thread = g_thread_new(NULL, keep_changing, &c);
	for (int round = 0; round < 40; round++) {
		for (int i = 0; i < BLOCKS; i++)
			ptrs[i] = fixture_malloc_bytes(&f, (size_t)(round * i % 7 + 1) * PAGE / 3, f.streams[i % 2]);
		for (int i = 0; i < BLOCKS && round < 39; i++)
			fixture_free(&f, ptrs[i], f.streams[i % 2]);
	}
	c.done = true;
	g_thread_join(thread);
	set_one(&f, 2);

	for (int i = 0; i < BLOCKS; i++) {
		assert_reached(ptrs[i], (size_t)(39 * i % 7 + 1) * PAGE / 3, 0x5);
		fixture_free(&f, ptrs[i], f.streams[i % 2]);
	}
	fixture_close(&f);
}

/* Memory that is created with the pool, too. */
static void test_opts(void)
{
	struct fixture f;
	char *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .pages = 3, .peers = VPMM_PEERS_ALL });
	ptr = fixture_malloc(&f, 5, f.streams[0]);
	assert_reached(ptr, 5 * PAGE, 0xf);
	g_assert_cmpuint(peers_of(&f), ==, 0xe);
	fixture_free(&f, ptr, f.streams[0]);
	fixture_close(&f);

	/* The own device in the set does not count. */
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .peers = 0x5 });
	g_assert_cmpuint(peers_of(&f), ==, 0x4);
	fixture_close(&f);
}

static void test_opts_bad(void)
{
	struct vpmm_opts opts = { FIXTURE_PACKED, .peers = 0x102 };
	struct vpmm_pool *pool = NULL;

	assert_error(vpmm_pool_create(&pool, &opts), ENODEV, "peers (VPMM_PEERS): there is no host device 8");
	g_assert_null(pool);
	fixture_assert_nothing_left();
}

/* One list serves the default pools of all devices in it. */
static void default_pools(void)
{
	void *zero, *one;

	assert_ok(vpmm_malloc(NULL, &zero, PAGE, NULL));
	assert_ok(vpmm_host_set_device(1));
	assert_ok(vpmm_malloc(NULL, &one, PAGE, NULL));

	assert_reached(zero, PAGE, 0x3);
	assert_reached(one, PAGE, 0x3);
	assert_ok(vpmm_pool_set_peers(NULL, NULL, 0));
	assert_reached(zero, PAGE, 0x3);
	assert_reached(one, PAGE, 0x2);
	assert_ok(vpmm_free(NULL, zero, NULL));
	assert_ok(vpmm_free(NULL, one, NULL));
}

static void test_default(void)
{
	if (g_test_subprocess()) {
		g_setenv("VPMM_BACKEND", "host", TRUE);
		g_setenv("VPMM_VA_SIZE", "1G", TRUE);
		g_setenv("VPMM_PEERS", "0,1", TRUE);
		default_pools();
		return;
	}
	g_test_trap_subprocess(NULL, 0, G_TEST_SUBPROCESS_INHERIT_STDERR);
	g_test_trap_assert_passed();
}

static void test_check_access(void)
{
	struct fixture f;
	char *ptr, here;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	ptr = fixture_malloc(&f, 2, f.streams[0]);

	assert_ok(vpmm_host_check_access(0, ptr + 5, 2 * PAGE - 5));
	assert_error(vpmm_host_check_access(1, ptr, 1), EACCES, "host device 1 cannot access all of the 1 bytes");
	assert_error(vpmm_host_check_access(0, ptr, (size_t)1 << 40), EACCES, "cannot access");
	assert_error(vpmm_host_check_access(0, ptr, SIZE_MAX), EACCES, "cannot access");
	assert_error(vpmm_host_check_access(0, &here, 1), EACCES, "cannot access");
	assert_error(vpmm_host_check_access(0, ptr, 0), EINVAL, "size is 0");
	assert_error(vpmm_host_check_access(DEVICES, ptr, 1), EINVAL, "there is no device 4");
	assert_error(vpmm_host_check_access(-1, ptr, 1), EINVAL, "there is no device -1");
	fixture_free(&f, ptr, f.streams[0]);
	fixture_close(&f);
	assert_error(vpmm_host_check_access(0, ptr, 1), EACCES, "cannot access");
}

/* Memory of the driver's allocator is found by any of its bytes, until it is freed. */
static void test_check_access_small(void)
{
	struct fixture f;
	char *first, *second;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS });
	first = fixture_malloc_bytes(&f, 1024, f.streams[0]);
	second = fixture_malloc_bytes(&f, 1024, f.streams[0]);

	assert_ok(vpmm_host_check_access(0, second + 1000, 24));
	assert_error(vpmm_host_check_access(0, first, 4096), EACCES, "cannot access");
	fixture_free(&f, second, f.streams[0]);
	assert_error(vpmm_host_check_access(0, second + 1000, 24), EACCES, "cannot access");
	assert_ok(vpmm_host_check_access(0, first, 1024));
	fixture_free(&f, first, f.streams[0]);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_setenv("VPMM_HOST_DEVICES", G_STRINGIFY(DEVICES), TRUE);
	fixture_add_rows("/peers/set", kinds, test_set);
	fixture_add_rows("/peers/replace", kinds, test_replace);
	fixture_add_rows("/peers/random", kinds, test_random);
	g_test_add_func("/peers/grow", test_grow);
	g_test_add_func("/peers/share", test_share);
	g_test_add_func("/peers/bad", test_bad);
	fixture_add_rows("/peers/undone", failing, test_undone);
	g_test_add_func("/peers/not-undone", test_not_undone);
	g_test_add_func("/peers/tag-not-undone", test_tag_not_undone);
	g_test_add_func("/peers/no-more-calls", test_no_more_calls);
	g_test_add_func("/peers/threads", test_threads);
	g_test_add_func("/peers/opts", test_opts);
	g_test_add_func("/peers/opts-bad", test_opts_bad);
	g_test_add_func("/peers/default", test_default);
	g_test_add_func("/peers/check-access", test_check_access);
	g_test_add_func("/peers/check-access-small", test_check_access_small);
	return g_test_run();
}
