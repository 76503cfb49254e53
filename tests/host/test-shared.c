// SPDX-License-Identifier: LGPL-2.1-or-later
/* Ranges that the CPU and the device share: what each sees, where pages are, and what they cost. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls/pool.h"
#include "shared/serve.h"
#include "shared/shared.h"
#include "support/fixture.h"
#include "vpmm-shared.h"

/* How touches are noticed; the kernel may not allow the first. */
static const struct way {
	const char *name;
	bool calls;			/* system calls can be given such an address */
} ways[] = {
	{ "userfaultfd", true },
	{ "user", false },
	{ "signal", false },
};

static bool open_way(struct fixture *f, const struct way *way, struct vpmm_opts opts, char **at, size_t size)
{
	void *addr;
	int err;

	g_setenv("VPMM_SHARED_TOUCH", way->name, TRUE);
	fixture_open(f, opts);
	err = vpmm_shared_alloc(f->pool, &addr, size, VPMM_SHARED_FINE);
	g_unsetenv("VPMM_SHARED_TOUCH");
	if (err == -ENOTSUP) {
		fixture_close(f);
		g_test_skip("the kernel does not allow it");
		return false;
	}
	assert_ok(err);
	*at = addr;
	return true;
}

static void *range_of(struct fixture *f, size_t size)
{
	void *addr = NULL;

	assert_ok(vpmm_shared_alloc(f->pool, &addr, size, VPMM_SHARED_FINE));
	return addr;
}

static struct vpmm_shared_stats stats_of(struct fixture *f)
{
	struct vpmm_shared_stats stats = { .size = sizeof(stats) };

	assert_ok(vpmm_shared_stats(f->pool, &stats));
	return stats;
}

static struct vpmm_page page_of(struct fixture *f, const void *addr)
{
	struct vpmm_page page;

	g_assert_cmpint(vpmm_locate(f->pool, addr, 1, &page), ==, 1);
	return page;
}

/* A kernel that adds to a number, seen where the device sees it. */
static void add_one(void *data)
{
	++*(unsigned int *)data;
}

static void kernel_adds(struct CUstream_st *stream, unsigned int *number)
{
	assert_ok(vpmm_host_stream_launch(stream, add_one, vpmm_host_view(number)));
}

static void test_empty(gconstpointer data)
{
	struct vpmm_page pages[4];
	struct vpmm_shared_stats stats;
	struct fixture f;
	char *at;

	if (!open_way(&f, data, (struct vpmm_opts){ FIXTURE_PACKED }, &at, 4 * PAGE))
		return;
	stats = stats_of(&f);
	g_assert_cmpuint(stats.ranges, ==, 1);
	g_assert_cmpuint(stats.host, ==, 0);
	g_assert_cmpuint(stats.device, ==, PAGE);
	g_assert_cmpint(vpmm_locate(f.pool, at, 4 * PAGE, pages), ==, 4);
	for (int i = 0; i < 4; i++) {
		g_assert_true(pages[i].addr == at + i * PAGE);
		g_assert_cmpuint(pages[i].flags, ==, VPMM_PAGE_EMPTY);
	}
	/* The device reads zeros, and the CPU too, which takes memory for that page. */
	g_assert_cmpint(*(char *)vpmm_host_view(at + PAGE), ==, 0);
	g_assert_cmpint(at[3 * PAGE - 1], ==, 0);
	g_assert_cmpuint(stats_of(&f).host, ==, PAGE);
	g_assert_cmpuint(page_of(&f, at + 2 * PAGE).flags, ==, 0);
	g_assert_cmpuint(page_of(&f, at).flags, ==, VPMM_PAGE_EMPTY);
	assert_ok(vpmm_shared_free(f.pool, at, f.streams[0]));
	fixture_close(&f);
}

/* One pointer: a list is built by the CPU, walked and changed by a kernel, read again by the CPU. */
struct node {
	struct node *next;
	int value;
};

static void walk(void *data)
{
	struct node *node = data;

	while (node) {
		node->value *= 2;
		node = node->next ? vpmm_host_view(node->next) : NULL;
	}
}

static void test_list(gconstpointer data)
{
	struct node *nodes, *node;
	struct fixture f;
	char *at;
	int sum = 0;

	if (!open_way(&f, data, (struct vpmm_opts){ FIXTURE_PACKED }, &at, 4 * PAGE))
		return;
	nodes = (struct node *)at;
	for (int i = 0; i < 4; i++) {
		node = (struct node *)(at + i * PAGE + 64 * i);
		node->value = i + 1;
		node->next = i < 3 ? (struct node *)(at + (i + 1) * PAGE + 64 * (i + 1)) : NULL;
	}
	g_assert_cmpint(vpmm_migrate(f.pool, at, 4 * PAGE, VPMM_DEVICE, f.streams[0], NULL, NULL), ==, 4);
	g_assert_cmpint(page_of(&f, at).location, ==, VPMM_DEVICE);
	assert_ok(vpmm_host_stream_launch(f.streams[0], walk, vpmm_host_view(nodes)));
	/* The touch waits for the kernel, as the stream uses the range. */
	for (node = nodes; node; node = node->next)
		sum += node->value;
	g_assert_cmpint(sum, ==, 20);
	g_assert_cmpint(page_of(&f, at).location, ==, VPMM_HOST);
	g_assert_cmpuint(stats_of(&f).to_device, ==, 4 * PAGE);
	g_assert_cmpuint(stats_of(&f).to_host, ==, 4 * PAGE);
	/* On the host too the kernel and the CPU have the same memory. */
	assert_ok(vpmm_host_stream_launch(f.streams[0], walk, vpmm_host_view(nodes)));
	fixture_complete(f.streams[0]);
	g_assert_cmpint(nodes->value, ==, 4);
	assert_ok(vpmm_shared_free(NULL, at, f.streams[0]));
	fixture_close(&f);
}

/* The kernel, copying for the program, finds pages as the program does. */
static void test_system_calls(gconstpointer data)
{
	const struct way *way = data;
	struct fixture f;
	char *at, byte;
	int pipes[2];
	ssize_t got;

	if (!open_way(&f, data, (struct vpmm_opts){ FIXTURE_PACKED }, &at, 4 * PAGE))
		return;
	if (!way->calls) {
		vpmm_shared_free(f.pool, at, NULL);
		fixture_close(&f);
		return;
	}
	g_assert_cmpint(pipe(pipes), ==, 0);
	g_assert_cmpint(write(pipes[1], "x", 1), ==, 1);
	got = read(pipes[0], at, 1);
	g_assert_cmpint(got, ==, 1);
	g_assert_cmpint(vpmm_migrate(f.pool, at, 1, VPMM_DEVICE, f.streams[0], NULL, NULL), ==, 1);
	got = write(pipes[1], at, 1);
	g_assert_cmpint(got, ==, 1);
	g_assert_cmpint(read(pipes[0], &byte, 1), ==, 1);
	g_assert_cmpint(byte, ==, 'x');
	close(pipes[0]);
	close(pipes[1]);
	assert_ok(vpmm_shared_free(f.pool, at, NULL));
	fixture_close(&f);
}

/* A page that submitted work may use does not go before that has completed. */
static void test_waits_for_users(void)
{
	struct fixture f;
	unsigned int *number, n;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	number = range_of(&f, PAGE);
	*number = 1;
	assert_ok(vpmm_use(f.pool, number, f.streams[1]));
	kernel_adds(f.streams[1], number);
	kernel_adds(f.streams[2], number);
	g_assert_cmpint(vpmm_migrate(f.pool, number, 1, VPMM_DEVICE, f.streams[0], NULL, NULL), ==, 1);
	assert_ok(vpmm_host_stream_pending(f.streams[1], &n));
	g_assert_cmpuint(n, ==, 0);
	/* Nobody has said that this one uses it. */
	assert_ok(vpmm_host_stream_pending(f.streams[2], &n));
	g_assert_cmpuint(n, ==, 1);
	g_assert_cmpuint(*number, ==, 2);

	/* One that is retired was waited for, and is not asked any more. */
	kernel_adds(f.streams[1], number);
	assert_ok(vpmm_stream_retire(f.pool, f.streams[1]));
	g_assert_cmpuint(*number, ==, 3);
	kernel_adds(f.streams[1], number);
	g_assert_cmpint(vpmm_migrate(f.pool, number, 1, VPMM_DEVICE, f.streams[0], NULL, NULL), ==, 1);
	assert_ok(vpmm_host_stream_pending(f.streams[1], &n));
	g_assert_cmpuint(n, ==, 1);
	fixture_complete(f.streams[1]);
	fixture_complete(f.streams[2]);
	g_assert_cmpuint(*number, ==, 5);
	assert_ok(vpmm_shared_free(f.pool, number, f.streams[0]));
	fixture_close(&f);
}

/* Names a stream while pages move, and tells when the call has returned. */
struct namer {
	struct fixture *f;
	unsigned int *number;
	struct CUstream_st *stream;
	bool migrates;
	pthread_t thread;
	_Atomic bool named;
};

static void *name_stream(void *data)
{
	struct namer *namer = data;

	/* A page that is empty has nowhere to go. */
	if (namer->migrates)
		g_assert_cmpint(vpmm_migrate(namer->f->pool, namer->number + PAGE / sizeof(int), 1, VPMM_DEVICE,
					     namer->stream, NULL, NULL), ==, 0);
	else
		assert_ok(vpmm_use(namer->f->pool, namer->number, namer->stream));
	namer->named = true;
	return NULL;
}

static void start_namer(void *data, struct vpmm_move *moves, size_t count, struct CUstream_st *stream)
{
	struct namer *namer = data;
	int err;

	(void)moves;
	(void)count;
	(void)stream;
	err = pthread_create(&namer->thread, NULL, name_stream, namer);
	g_assert_cmpint(err, ==, 0);
	/* Time enough for a call that does not wait; one that waits is only right the more surely. */
	g_usleep(100000);
	g_assert_false(namer->named);
}

/* A stream that is named while the gate is closed would run past it, so naming it waits until the pages have moved. */
static void test_named_meanwhile(void)
{
	const struct vpmm_migrate_ops ops = { sizeof(ops), start_namer, NULL };
	struct fixture f;
	unsigned int *number;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	number = range_of(&f, 2 * PAGE);
	for (int i = 0; i < 2; i++) {
		struct namer namer = { &f, number, f.streams[1 + i], i, 0, false };

		*number = 1;
		g_assert_cmpint(vpmm_migrate(f.pool, number, 1, VPMM_DEVICE, f.streams[0], &ops, &namer), ==, 1);
		pthread_join(namer.thread, NULL);
		g_assert_true(namer.named);
		/* From then on its work is waited for. */
		kernel_adds(namer.stream, number);
		g_assert_cmpuint(*number, ==, 2);
	}
	assert_ok(vpmm_shared_free(f.pool, number, f.streams[0]));
	fixture_close(&f);
}

static void test_skips(void)
{
	struct fixture f;
	char *at;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	at = range_of(&f, 8 * PAGE);
	at[0] = at[PAGE] = at[2 * PAGE] = at[6 * PAGE] = 1;
	assert_ok(vpmm_advise(f.pool, at + PAGE, 1, VPMM_ADVISE_PREFER_HOST));
	g_assert_cmpuint(page_of(&f, at + PAGE).flags, ==, VPMM_PAGE_PREFER_HOST);
	/* Of eight pages four are empty, one stays by advice. */
	g_assert_cmpint(vpmm_migrate(f.pool, at, 8 * PAGE, VPMM_DEVICE, f.streams[0], NULL, NULL), ==, 3);
	g_assert_cmpuint(stats_of(&f).skipped, ==, 5);
	g_assert_cmpint(vpmm_migrate(f.pool, at, 8 * PAGE, VPMM_DEVICE, f.streams[0], NULL, NULL), ==, 0);
	/* To have a kernel write to them, empty pages get memory. */
	g_assert_cmpint(vpmm_fault(f.pool, at, 8 * PAGE, VPMM_DEVICE, 0), ==, 4);
	((char *)vpmm_host_view(at + 4 * PAGE))[5] = 7;
	g_assert_cmpint(at[4 * PAGE + 5], ==, 7);
	g_assert_cmpint(at[4 * PAGE + 6], ==, 0);
	g_assert_cmpint(vpmm_migrate(f.pool, at, 8 * PAGE, VPMM_HOST, f.streams[0], NULL, NULL), ==, 6);
	g_assert_cmpint(at[0] + at[PAGE] + at[2 * PAGE] + at[6 * PAGE], ==, 4);
	assert_ok(vpmm_shared_free(f.pool, at, f.streams[0]));
	fixture_close(&f);
}

/* Memory that other pages had reads as zero where nobody has written. */
static void test_no_leftovers(void)
{
	struct fixture f;
	char *at;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (int round = 0; round < 2; round++) {
		at = range_of(&f, 2 * PAGE);
		g_assert_true(fixture_is_clear(at, PAGE));
		g_assert_cmpint(vpmm_fault(f.pool, at + PAGE, PAGE, VPMM_DEVICE, 0), ==, 1);
		g_assert_true(fixture_is_clear(vpmm_host_view(at + PAGE), PAGE));
		memset(at, FIXTURE_SECRET, 2 * PAGE);
		g_assert_cmpint(vpmm_migrate(f.pool, at, 2 * PAGE, VPMM_DEVICE, NULL, NULL, NULL), ==, 2);
		assert_ok(vpmm_shared_free(f.pool, at, NULL));
	}
	/* The second range had the memory of the first. */
	g_assert_cmpuint(stats_of(&f).host, ==, 2 * PAGE);
	g_assert_cmpuint(stats_of(&f).host_unused, ==, 2 * PAGE);
	fixture_close(&f);
}

static void test_host_keep(void)
{
	struct fixture f;
	char *at;

	g_setenv("VPMM_HOST_KEEP", "2M", TRUE);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	at = range_of(&f, 4 * PAGE);
	memset(at, 1, 4 * PAGE);
	g_assert_cmpuint(stats_of(&f).host, ==, 4 * PAGE);
	g_assert_cmpint(vpmm_migrate(f.pool, at, 4 * PAGE, VPMM_DEVICE, NULL, NULL, NULL), ==, 4);
	g_assert_cmpuint(stats_of(&f).host, ==, PAGE);
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	g_assert_cmpuint(stats_of(&f).host, ==, 0);
	g_assert_cmpint(at[PAGE], ==, 1);
	assert_ok(vpmm_shared_free(f.pool, at, NULL));
	g_setenv("VPMM_HOST_KEEP", "many", TRUE);
	fixture_close(&f);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_error(vpmm_shared_alloc(f.pool, (void **)&at, PAGE, 0), EINVAL, "VPMM_HOST_KEEP");
	g_unsetenv("VPMM_HOST_KEEP");
	fixture_close(&f);
}

/* Touches that run in one direction have the pages ahead come along, fewer when they jump. */
static void test_read_ahead(void)
{
	uint64_t straight, jumping;
	struct fixture f;
	char *at;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	at = range_of(&f, 32 * PAGE);
	memset(at, 1, 32 * PAGE);
	g_assert_cmpint(vpmm_migrate(f.pool, at, 32 * PAGE, VPMM_DEVICE, NULL, NULL, NULL), ==, 32);
	straight = stats_of(&f).faults;
	for (int i = 0; i < 32; i++)
		g_assert_cmpint(at[i * PAGE], ==, 1);
	straight = stats_of(&f).faults - straight;
	g_assert_cmpuint(straight, <=, 12);
	g_assert_cmpuint(stats_of(&f).read_ahead, >=, 20);

	g_assert_cmpint(vpmm_migrate(f.pool, at, 32 * PAGE, VPMM_DEVICE, NULL, NULL, NULL), ==, 32);
	jumping = stats_of(&f).read_ahead;
	for (int i = 31; i >= 0; i--)
		g_assert_cmpint(at[i * PAGE], ==, 1);
	jumping = stats_of(&f).read_ahead - jumping;
	g_assert_cmpuint(jumping, <=, 16);
	assert_ok(vpmm_shared_free(f.pool, at, NULL));
	fixture_close(&f);
}

struct taken {
	size_t count;
	size_t done;
	bool skip;
	bool copy;
};

static void alloc_and_copy(void *data, struct vpmm_move *moves, size_t count, struct CUstream_st *stream)
{
	struct taken *taken = data;

	(void)stream;
	taken->count += count;
	for (size_t i = 0; i < count; i++) {
		if (taken->skip && i == 0) {
			moves[i].flags |= VPMM_MOVE_SKIP;
		} else if (taken->copy) {
			/* A copy engine of one's own: this one adds one to the first byte. */
			memcpy(moves[i].to, moves[i].from, moves[i].size);
			++*(char *)moves[i].to;
			moves[i].flags |= VPMM_MOVE_COPIED;
		}
	}
}

static void finalize_and_map(void *data, const struct vpmm_move *moves, size_t count)
{
	struct taken *taken = data;

	for (size_t i = 0; i < count; i++)
		taken->done += !!(moves[i].flags & VPMM_MOVE_DONE);
}

static void test_take_part(void)
{
	const struct vpmm_migrate_ops ops = { sizeof(ops), alloc_and_copy, finalize_and_map };
	struct taken taken = { .skip = true };
	struct fixture f;
	char *at;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	at = range_of(&f, 4 * PAGE);
	memset(at, 1, 4 * PAGE);
	g_assert_cmpint(vpmm_migrate(f.pool, at, 4 * PAGE, VPMM_DEVICE, NULL, &ops, &taken), ==, 3);
	g_assert_cmpuint(taken.count, ==, 4);
	g_assert_cmpuint(taken.done, ==, 3);
	g_assert_cmpint(page_of(&f, at).location, ==, VPMM_HOST);
	taken = (struct taken){ .copy = true };
	g_assert_cmpint(vpmm_migrate(f.pool, at, 4 * PAGE, VPMM_HOST, NULL, &ops, &taken), ==, 3);
	g_assert_cmpint(at[0] + at[PAGE] + at[2 * PAGE] + at[3 * PAGE], ==, 7);
	g_assert_cmpint(at[PAGE + 1], ==, 1);

	/* What takes part may be told of in the pages that move themselves. */
	taken = (struct taken){ 0 };
	memcpy(at, &ops, sizeof(ops));
	g_assert_cmpint(vpmm_migrate(f.pool, at, PAGE, VPMM_DEVICE, NULL, (void *)at, &taken), ==, 1);
	g_assert_cmpuint(taken.done, ==, 1);
	assert_ok(vpmm_shared_free(f.pool, at, NULL));
	fixture_close(&f);
}

/* More streams than a gate can hold back are refused when they are named; once one is gone, another can be. */
static void test_many_users(void)
{
	struct CUstream_st *stream;
	struct fixture f;
	GPtrArray *users;
	char *at;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	at = range_of(&f, PAGE);
	users = ((struct range *)f.pool->shared->ranges->pdata[0])->users;
	assert_ok(vpmm_use(f.pool, at, f.streams[0]));
	stream = f.streams[1];
	/* Handles that nobody uses, in place of thousands of streams. */
	while (users->len < BACKEND_GATE_STREAMS)
		g_ptr_array_add(users, &((char *)f.pool)[users->len]);
	assert_ok(vpmm_use(f.pool, at, f.streams[0]));
	assert_error(vpmm_use(f.pool, at, stream), ENOTSUP, "vpmm_stream_retire");
	assert_error(vpmm_migrate(f.pool, at, PAGE, VPMM_DEVICE, stream, NULL, NULL), ENOTSUP, "streams use");
	g_ptr_array_set_size(users, BACKEND_GATE_STREAMS - 1);
	assert_ok(vpmm_use(f.pool, at, stream));
	g_ptr_array_set_size(users, 1);
	assert_ok(vpmm_shared_free(f.pool, at, f.streams[0]));
	fixture_close(&f);
}

/* More than the device: what is coldest goes to the host, and the program gets its memory. */
static void test_more_than_device(void)
{
	struct fixture f;
	char *at, *other;
	void *block;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 9 * PAGE });
	at = range_of(&f, 6 * PAGE);
	other = range_of(&f, 6 * PAGE);
	for (int i = 0; i < 6; i++)
		at[i * PAGE] = other[i * PAGE] = (char)(i + 1);
	g_assert_cmpint(vpmm_migrate(f.pool, at, 6 * PAGE, VPMM_DEVICE, f.streams[0], NULL, NULL), ==, 6);
	assert_ok(vpmm_advise(f.pool, at, PAGE, VPMM_ADVISE_PREFER_DEVICE));
	/* One page more is what empty ones read, so two are left. */
	g_assert_cmpint(vpmm_migrate(f.pool, other, 6 * PAGE, VPMM_DEVICE, f.streams[0], NULL, NULL), ==, 6);
	g_assert_cmpuint(stats_of(&f).evicted, ==, 4);
	g_assert_cmpuint(stats_of(&f).device, <=, 9 * PAGE);
	g_assert_cmpint(page_of(&f, at).location, ==, VPMM_DEVICE);
	for (int i = 0; i < 6; i++)
		g_assert_cmpint(*(char *)vpmm_host_view(at + i * PAGE), ==, i + 1);

	/* And so does a block of the pool. */
	block = fixture_malloc(&f, 5, f.streams[0]);
	memset(block, 9, 5 * PAGE);
	g_assert_cmpuint(stats_of(&f).device, <=, 4 * PAGE);
	for (int i = 0; i < 6; i++)
		g_assert_cmpint(*(char *)vpmm_host_view(other + i * PAGE), ==, i + 1);
	g_assert_cmpint(vpmm_malloc(f.pool, &block, 9 * PAGE, f.streams[0]), ==, -ENOMEM);

	/* One range alone that is larger than the device: what does not fit is skipped, and faulting says so. */
	assert_ok(vpmm_shared_free(f.pool, other, f.streams[0]));
	g_assert_cmpint(vpmm_fault(f.pool, at, 6 * PAGE, VPMM_DEVICE, 0), ==, -ENOMEM);
	for (int i = 0; i < 6; i++)
		g_assert_cmpint(at[i * PAGE], ==, i + 1);
	assert_ok(vpmm_shared_free(f.pool, at, f.streams[0]));
	fixture_close(&f);
}

/* A registration cache, as network cards need: it may use an address only while it has it registered. */
struct registration {
	struct fixture *f;
	char *start;
	char *end;
	int updates;
	int unmaps;
};

static void update(struct vpmm_mirror *mirror, void *data, enum vpmm_mirror_action action, void *start, void *end)
{
	struct registration *cache = data;
	struct vpmm_page page;

	g_assert_nonnull(mirror);
	cache->updates++;
	cache->unmaps += action == VPMM_MIRROR_UNMAP;
	/* It is told before the change. */
	if (action == VPMM_MIRROR_MOVE) {
		g_assert_cmpint(vpmm_locate(NULL, start, 1, &page), ==, 1);
		g_assert_cmpuint(page.sequence, ==, 1);
	}
	cache->start = start;
	cache->end = end;
}

static void test_mirror(void)
{
	const struct vpmm_mirror_ops ops = { sizeof(ops), update };
	struct registration cache = { 0 };
	struct vpmm_mirror *mirror;
	struct fixture f;
	char *at;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	at = range_of(&f, 4 * PAGE);
	memset(at, 1, 4 * PAGE);
	assert_ok(vpmm_mirror_register(f.pool, &mirror, &ops, &cache));
	g_assert_cmpint(vpmm_migrate(f.pool, at + PAGE, 2 * PAGE, VPMM_DEVICE, NULL, NULL, NULL), ==, 2);
	g_assert_cmpint(cache.updates, ==, 1);
	g_assert_true(cache.start == at + PAGE && cache.end == at + 3 * PAGE);
	g_assert_cmpuint(page_of(&f, at + PAGE).sequence, ==, 2);
	vpmm_mirror_unregister(mirror);
	g_assert_cmpint(at[PAGE], ==, 1);
	g_assert_cmpint(cache.updates, ==, 1);
	assert_ok(vpmm_mirror_register(f.pool, &mirror, &ops, &cache));
	assert_ok(vpmm_shared_free(f.pool, at, NULL));
	g_assert_cmpint(cache.unmaps, ==, 1);
	vpmm_mirror_unregister(mirror);

	/* A pool that ends first tells the mirror, which goes later. */
	range_of(&f, PAGE);
	assert_ok(vpmm_mirror_register(f.pool, &mirror, &ops, &cache));
	fixture_close(&f);
	g_assert_cmpint(cache.unmaps, ==, 2);
	vpmm_mirror_unregister(mirror);
}

/* The child has no range, and is told so; the parent's goes on. */
static void test_fork(void)
{
	struct fixture f;
	void *other;
	char *at;
	int status;
	pid_t child;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	at = range_of(&f, 2 * PAGE);
	at[0] = 3;
	child = fork();
	if (!child) {
		if (vpmm_shared_alloc(f.pool, &other, PAGE, 0) != -EBUSY || vpmm_locate(NULL, at, 1, NULL) != -EBUSY ||
		    vpmm_migrate(f.pool, at, 1, VPMM_DEVICE, NULL, NULL, NULL) != -EBUSY || vpmm_host_view(at))
			_exit(1);
		signal(SIGSEGV, SIG_DFL);
		_exit(at[PAGE] == 0 ? 2 : 3);
	}
	g_assert_cmpint(waitpid(child, &status, 0), ==, child);
	/* A sanitizer turns the signal into an exit. */
	g_assert_false(WIFEXITED(status) && WEXITSTATUS(status) <= 3);
	g_assert_cmpint(at[0] + at[PAGE], ==, 3);
	assert_ok(vpmm_shared_free(f.pool, at, NULL));
	fixture_close(&f);
}

/* A pool goes with its ranges; a reset leaves what the host has. */
static void test_ends(void)
{
	struct fixture f;
	char *at;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	at = range_of(&f, 4 * PAGE);
	at[0] = at[PAGE] = 1;
	g_assert_cmpint(vpmm_migrate(f.pool, at, PAGE, VPMM_DEVICE, f.streams[0], NULL, NULL), ==, 1);
	kernel_adds(f.streams[0], (unsigned int *)at);
	fixture_close(&f);
}

static void touch_again(const void *one, const void *other)
{
	GArray *touched = g_array_new(FALSE, FALSE, sizeof(uint64_t));
	uint64_t addrs[] = { (uintptr_t)one, (uintptr_t)other };

	g_array_append_vals(touched, addrs, 2);
	serve_touches(touched);
	g_array_free(touched, TRUE);
}

/* The kernel lets a touch go on after what served it, which ThreadSanitizer does not see. */
static __attribute__((no_sanitize("thread"))) void put(char *at, char value)
{
	*at = value;
}

static void test_reset(void)
{
	struct fixture f;
	char *at;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	at = range_of(&f, 4 * PAGE);
	at[0] = at[PAGE] = 1;
	g_assert_cmpint(vpmm_migrate(f.pool, at, PAGE, VPMM_DEVICE, NULL, NULL, NULL), ==, 1);
	assert_ok(vpmm_host_reset());
	/* What was on the device is gone with it; the touch is answered. */
	g_assert_cmpint(at[0], ==, 0);
	g_assert_cmpint(at[PAGE], ==, 1);
	assert_error(vpmm_migrate(f.pool, at, PAGE, VPMM_HOST, NULL, NULL, NULL), ESTALE, "reset");
	/* Touches that come late, of what the CPU has by now, take nothing from it. */
	put(at, 5);
	touch_again(at, at + PAGE);
	g_assert_cmpint(at[0], ==, 5);
	g_assert_cmpint(at[PAGE], ==, 1);
	vpmm_pool_destroy(f.pool);
	g_string_free(f.log, TRUE);
}

/* A device that fails for good: the touch ends the program, as a file's page that cannot be read would. */
static sigjmp_buf lost;

static void on_bus(int number)
{
	siglongjmp(lost, number);
}

static void test_failed_device(void)
{
	struct sigaction action = { .sa_handler = on_bus, .sa_flags = SA_NODEFER }, was;
	struct fixture f;
	char *at;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	at = range_of(&f, 2 * PAGE);
	at[0] = 1;
	g_assert_cmpint(vpmm_migrate(f.pool, at, PAGE, VPMM_DEVICE, NULL, NULL, NULL), ==, 1);
	g_assert_cmpint(sigaction(SIGBUS, &action, &was), ==, 0);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_copy, 0, UINT_MAX, -EIO);
	if (!sigsetjmp(lost, 1)) {
		at[0]++;
		g_assert_not_reached();
	}
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_copy, 0, 0, 0);
	g_assert_cmpint(sigaction(SIGBUS, &was, NULL), ==, 0);
	g_assert_cmpuint(stats_of(&f).retries, >, 1);
	assert_ok(vpmm_shared_free(f.pool, at, NULL));
	fixture_close(&f);
}

/* A fault that is none of ours is the program's own. */
static sigjmp_buf back;
static volatile sig_atomic_t caught;

static void on_fault(int number)
{
	(void)number;
	caught++;
	siglongjmp(back, 1);
}

static void test_chained(void)
{
	struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_NODEFER }, was, now;
	struct fixture f;
	char *at;

	g_assert_cmpint(sigaction(SIGSEGV, &action, &was), ==, 0);
	if (!open_way(&f, &ways[2], (struct vpmm_opts){ FIXTURE_PACKED }, &at, PAGE))
		return;
	at[0] = 1;
	g_assert_cmpint(caught, ==, 0);
	if (!sigsetjmp(back, 1))
		*(volatile char *)(uintptr_t)PAGE = 1;
	g_assert_cmpint(caught, ==, 1);
	assert_ok(vpmm_shared_free(f.pool, at, NULL));
	fixture_close(&f);
	g_assert_cmpint(sigaction(SIGSEGV, &was, &now), ==, 0);
	g_assert_true(now.sa_handler == on_fault);
}

/* The checker finds a page whose memory is elsewhere than its state says. */
static void test_check(void)
{
	struct fixture f;
	struct page *page;
	char *at;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	at = range_of(&f, PAGE);
	at[0] = 1;
	assert_ok(vpmm_pool_check(f.pool));
	page = &((struct range *)f.pool->shared->ranges->pdata[0])->pages[0];
	page->state = PAGE_DEVICE;
	assert_error(vpmm_pool_check(f.pool), EUCLEAN, "host memory");
	page->state = PAGE_HOST;
	f.pool->shared->stats.host_unused++;
	assert_error(vpmm_pool_check(f.pool), EUCLEAN, "unused host memory");
	f.pool->shared->stats.host_unused--;
	assert_ok(vpmm_shared_free(f.pool, at, NULL));
	fixture_close(&f);
}

static void test_arguments(void)
{
	struct vpmm_allocation allocation = { .size = sizeof(allocation) };
	struct vpmm_shared_stats stats = { .size = 1 };
	const struct vpmm_opts opts = { FIXTURE_PACKED };
	struct vpmm_pool *other;
	struct fixture f;
	struct CUstream_st *gone;
	void *at = NULL;
	int local;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_error(vpmm_shared_alloc(f.pool, NULL, PAGE, 0), EINVAL, "addr");
	assert_error(vpmm_shared_alloc(f.pool, &at, 0, 0), EINVAL, "size");
	assert_error(vpmm_shared_alloc(f.pool, &at, PAGE, 8), EINVAL, "flags");
	assert_error(vpmm_shared_alloc(f.pool, &at, SIZE_MAX / 2, 0), ENOMEM, "bytes");
	g_assert_null(at);
	assert_error(vpmm_migrate(f.pool, &local, 1, VPMM_DEVICE, NULL, NULL, NULL), EINVAL, "shared range");
	assert_error(vpmm_migrate(NULL, &local, 1, VPMM_DEVICE, NULL, NULL, NULL), EINVAL, "shared range");
	assert_error(vpmm_locate(NULL, &local, 1, NULL), EINVAL, "shared range");
	at = range_of(&f, PAGE);
	assert_error(vpmm_migrate(f.pool, at, PAGE + 1, VPMM_DEVICE, NULL, NULL, NULL), EINVAL, "shared range");
	assert_error(vpmm_migrate(f.pool, at, 0, VPMM_DEVICE, NULL, NULL, NULL), EINVAL, "shared range");
	assert_error(vpmm_migrate(f.pool, at, 1, (enum vpmm_location)7, NULL, NULL, NULL), EINVAL, "location");
	assert_error(vpmm_migrate(f.pool, at, 1, VPMM_DEVICE, VPMM_STREAM_ANY, NULL, NULL), EINVAL, "VPMM_STREAM_ANY");
	assert_error(vpmm_migrate(f.pool, at, 1, VPMM_DEVICE, VPMM_HOST_STREAM_PER_THREAD, NULL, NULL), ENOTSUP,
		     "default stream");
	assert_ok(vpmm_host_stream_create(&gone));
	assert_ok(vpmm_host_stream_destroy(gone));
	assert_error(vpmm_migrate(f.pool, at, 1, VPMM_DEVICE, gone, NULL, NULL), EINVAL, "not a stream");
	assert_error(vpmm_use(f.pool, at, gone), EINVAL, "not a stream");
	assert_ok(vpmm_pool_create(&other, &opts));
	assert_error(vpmm_use(other, at, f.streams[0]), EINVAL, "");
	assert_ok(vpmm_use(NULL, at, f.streams[0]));
	vpmm_pool_destroy(other);
	assert_error(vpmm_shared_free(f.pool, at, gone), EINVAL, "not a stream");
	assert_error(vpmm_fault(f.pool, at, 1, VPMM_DEVICE, 1), EINVAL, "flags");
	assert_error(vpmm_advise(f.pool, at, 1, (enum vpmm_advice)9), EINVAL, "advice");
	assert_error(vpmm_shared_stats(f.pool, &stats), EINVAL, "size");
	assert_error(vpmm_shared_free(f.pool, (char *)at + 1, NULL), EINVAL, "starts");
	assert_error(vpmm_free(f.pool, at, NULL), EINVAL, "");
	g_assert_null(vpmm_host_view(&local));
	assert_ok(vpmm_lookup((char *)at + 5, &allocation));
	g_assert_true(allocation.base == at && allocation.pool == f.pool && allocation.bytes == PAGE);
	assert_ok(vpmm_shared_free(f.pool, NULL, NULL));
	assert_ok(vpmm_shared_free(f.pool, at, VPMM_STREAM_ANY));
	assert_error(vpmm_shared_free(f.pool, at, NULL), EINVAL, "starts");
	fixture_close(&f);
}

/* A bad value is an error that names the variable; none at all is the default. */
static void test_environment(void)
{
	static const char *const variables[] = { "VPMM_HOST_KEEP", "VPMM_SHARED_TOUCH" };
	struct fixture f;
	void *at = NULL;

	for (size_t i = 0; i < G_N_ELEMENTS(variables); i++) {
		fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
		g_setenv(variables[i], "some", TRUE);
		assert_error(vpmm_shared_alloc(f.pool, &at, PAGE, 0), EINVAL, variables[i]);
		g_assert_null(at);
		g_setenv(variables[i], "", TRUE);
		at = range_of(&f, PAGE);
		g_unsetenv(variables[i]);
		assert_ok(vpmm_shared_free(f.pool, at, NULL));
		at = NULL;
		fixture_close(&f);
	}
}

/* Large ranges have large pages, unless asked otherwise. */
static void test_page_sizes(void)
{
	static const struct {
		size_t size;
		size_t page;
	} rows[] = { { PAGE, PAGE }, { 255 * PAGE, PAGE }, { 256 * PAGE, 2 * PAGE }, { 4096 * PAGE, 16 * PAGE } };
	struct fixture f;
	void *at;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
		assert_ok(vpmm_shared_alloc(f.pool, &at, rows[i].size, 0));
		g_assert_cmpuint(page_of(&f, at).size, ==, rows[i].page);
		assert_ok(vpmm_shared_free(f.pool, at, NULL));
	}
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	fixture_add_rows("/shared/empty", ways, test_empty);
	fixture_add_rows("/shared/list", ways, test_list);
	fixture_add_rows("/shared/system-calls", ways, test_system_calls);
	g_test_add_func("/shared/waits-for-users", test_waits_for_users);
	g_test_add_func("/shared/named-meanwhile", test_named_meanwhile);
	g_test_add_func("/shared/skips", test_skips);
	g_test_add_func("/shared/no-leftovers", test_no_leftovers);
	g_test_add_func("/shared/host-keep", test_host_keep);
	g_test_add_func("/shared/read-ahead", test_read_ahead);
	g_test_add_func("/shared/take-part", test_take_part);
	g_test_add_func("/shared/many-users", test_many_users);
	g_test_add_func("/shared/more-than-device", test_more_than_device);
	g_test_add_func("/shared/mirror", test_mirror);
	g_test_add_func("/shared/fork", test_fork);
	g_test_add_func("/shared/ends", test_ends);
	g_test_add_func("/shared/reset", test_reset);
	g_test_add_func("/shared/failed-device", test_failed_device);
	g_test_add_func("/shared/chained", test_chained);
	g_test_add_func("/shared/page-sizes", test_page_sizes);
	g_test_add_func("/shared/check", test_check);
	g_test_add_func("/shared/arguments", test_arguments);
	g_test_add_func("/shared/environment", test_environment);
	return g_test_run();
}
