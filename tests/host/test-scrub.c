// SPDX-License-Identifier: LGPL-2.1-or-later
/* Memory is cleared before it is handed out, where the settings say so. */
#include <errno.h>
#include <string.h>

#include "backend/backend.h"
#include "calls/pool.h"
#include "support/fault.h"
#include "support/fixture.h"

#define ROUNDS 4000
#define SLOTS 24

static const struct vpmm_opts stream_packed = { FIXTURE_PACKED, .scrub = VPMM_SCRUB_STREAM };
static const struct vpmm_opts stream_paged = { FIXTURE_OPTS, .scrub = VPMM_SCRUB_STREAM };
static const struct vpmm_opts always_packed = { FIXTURE_PACKED, .scrub = VPMM_SCRUB_ALWAYS };
static const struct vpmm_opts always_paged = { FIXTURE_OPTS, .scrub = VPMM_SCRUB_ALWAYS };

static void test_info(gconstpointer data)
{
	struct vpmm_info info = { .size = sizeof(info) };
	const struct vpmm_opts *opts = data;
	struct fixture f;

	fixture_open(&f, *opts);
	assert_ok(vpmm_pool_info(f.pool, &info));
	g_assert_cmpint(info.scrub, ==, opts->scrub);
	fixture_close(&f);
}

/* By default memory holds what its last user left, whichever stream that was, and nothing is cleared. */
static void test_none(void)
{
	struct fixture f;
	char *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS });
	fixture_leave_secret(&f, PAGE, f.streams[0]);
	ptr = fixture_malloc(&f, 1, f.streams[1]);
	g_assert_cmpint(ptr[PAGE / 2], ==, FIXTURE_SECRET);
	g_assert_cmpuint(fixture_stats(&f).scrubbed, ==, 0);
	fixture_close(&f);
}

static void test_stream_fresh(gconstpointer opts)
{
	struct fixture f;

	fixture_open(&f, *(const struct vpmm_opts *)opts);
	g_assert_true(fixture_is_clear(fixture_malloc(&f, 3, f.streams[0]), 3 * PAGE));
	g_assert_cmpuint(fixture_stats(&f).scrubbed, ==, 3 * PAGE);
	fixture_close(&f);
}

/* The one stream of a pool has not had what is new, and next to its own, either. */
static void test_stream_fresh_beside_own(gconstpointer opts)
{
	struct vpmm_opts with_pages = *(const struct vpmm_opts *)opts;
	struct fixture f;
	char *ptr;

	with_pages.pages = 8;
	fixture_open(&f, with_pages);
	fixture_leave_secret(&f, PAGE, f.streams[0]);
	ptr = fixture_malloc(&f, 8, f.streams[0]);
	g_assert_true(fixture_is_clear(ptr, 8 * PAGE));
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 8 * PAGE);
	fixture_close(&f);
}

/* From its cache, and by way of the maps: what it freed itself a stream has back as it was. */
static void test_stream_own(gconstpointer opts)
{
	uint64_t before;
	struct fixture f;
	char *ptr;

	fixture_open(&f, *(const struct vpmm_opts *)opts);
	fixture_leave_secret(&f, 2 * PAGE, f.streams[0]);
	before = fixture_stats(&f).scrubbed;
	ptr = fixture_malloc(&f, 2, f.streams[0]);
	g_assert_cmpint(ptr[PAGE], ==, FIXTURE_SECRET);
	fixture_free(&f, ptr, f.streams[0]);
	ptr = fixture_malloc(&f, 1, f.streams[0]);
	g_assert_cmpint(ptr[PAGE / 2], ==, FIXTURE_SECRET);
	g_assert_cmpuint(fixture_stats(&f).scrubbed, ==, before);
	fixture_close(&f);
}

static void test_stream_other(gconstpointer opts)
{
	struct fixture f;
	uint64_t before;
	char *ptr;

	fixture_open(&f, *(const struct vpmm_opts *)opts);
	fixture_uncache(&f);
	fixture_leave_secret(&f, 2 * PAGE, f.streams[0]);
	before = fixture_stats(&f).scrubbed;
	ptr = fixture_malloc(&f, 2, f.streams[1]);
	g_assert_true(fixture_is_clear(ptr, 2 * PAGE));
	g_assert_cmpuint(fixture_stats(&f).scrubbed - before, ==, 2 * PAGE);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 2 * PAGE);
	fixture_close(&f);
}

/* The block of another stream, no larger than it was. */
static void take_over(struct fixture *f, void *ptr, size_t size, size_t whole, size_t from)
{
	char *got;

	assert_ok(vpmm_host_stream_wait(f->streams[1], f->streams[0]));
	assert_ok(vpmm_realloc(f->pool, &ptr, size, f->streams[1]));
	fixture_free(f, ptr, f->streams[1]);
	got = fixture_malloc_bytes(f, whole, f->streams[1]);
	g_assert_true(fixture_is_clear(got + from, whole - from));
}

/* What a stream has left behind the end of its block does not become another's with the block. */
static void test_stream_handed(gconstpointer opts)
{
	size_t whole = opts == &stream_paged ? 2 * PAGE : 1024, less = whole - 264;
	struct fixture f;
	void *ptr;

	fixture_open(&f, *(const struct vpmm_opts *)opts);
	fixture_uncache(&f);
	fixture_leave_secret(&f, whole, f.streams[0]);
	take_over(&f, fixture_malloc_bytes(&f, less, f.streams[0]), less - 8, whole, less);
	assert_ok(vpmm_malloc_growable(f.pool, &ptr, PAGE, 2 * PAGE, f.streams[0]));
	fixture_complete(f.streams[0]);
	memset(ptr, FIXTURE_SECRET, PAGE);
	assert_ok(vpmm_realloc(f.pool, &ptr, PAGE / 2, f.streams[0]));
	take_over(&f, ptr, PAGE / 4, PAGE, PAGE / 2);
	fixture_close(&f);
}

/* What another stream takes of a stream's own leaves the rest its own. */
static void test_stream_part(gconstpointer opts)
{
	size_t size = opts == &stream_paged ? 2 * PAGE : PAGE / 32;
	void *blocks[3], *other;
	struct fixture f;
	uint64_t before;

	fixture_open(&f, *(const struct vpmm_opts *)opts);
	fixture_uncache(&f);
	for (int i = 0; i < 3; i++)
		blocks[i] = fixture_malloc_bytes(&f, size, f.streams[0]);
	for (int i = 0; i < 3; i++)
		fixture_free(&f, blocks[i], f.streams[0]);
	other = fixture_malloc_bytes(&f, size, f.streams[1]);
	g_assert_true(other == blocks[0]);
	before = fixture_stats(&f).scrubbed;
	fixture_malloc_bytes(&f, size, f.streams[0]);
	fixture_malloc_bytes(&f, size, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).scrubbed, ==, before);
	fixture_close(&f);
}

/* What one stream had and another freed is neither's own. */
static void test_stream_freed_by_other(gconstpointer opts)
{
	for (int taker = 0; taker < 3; taker++) {
		struct fixture f;
		char *ptr;

		fixture_open(&f, *(const struct vpmm_opts *)opts);
		ptr = fixture_malloc(&f, 1, f.streams[0]);
		memset(ptr, FIXTURE_SECRET, PAGE);
		fixture_free(&f, ptr, f.streams[1]);
		ptr = fixture_malloc(&f, 1, f.streams[taker]);
		g_assert_true(fixture_is_clear(ptr, PAGE));
		g_assert_cmpuint(fixture_stats(&f).mapped, ==, PAGE);
		fixture_close(&f);
	}
}

/* The stream that gets the memory comes after the one that had it, and so does what clears it. */
static void test_stream_in_order(gconstpointer opts)
{
	struct fixture f;
	char *ptr, *again;

	fixture_open(&f, *(const struct vpmm_opts *)opts);
	fixture_uncache(&f);
	ptr = fixture_malloc(&f, 4, f.streams[0]);
	memset(ptr, FIXTURE_SECRET, 4 * PAGE);
	assert_ok(vpmm_host_stream_submit(f.streams[0]));
	assert_ok(vpmm_host_stream_submit(f.streams[1]));
	fixture_free(&f, ptr, f.streams[0]);
	again = fixture_malloc(&f, 4, f.streams[1]);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 4 * PAGE);

	fixture_complete(f.streams[0]);
	g_assert_cmpint(ptr[0], ==, FIXTURE_SECRET);
	fixture_complete(f.streams[1]);
	g_assert_true(fixture_is_clear(again, 4 * PAGE));
	fixture_close(&f);
}

static void write_secret(void *data)
{
	memset(data, FIXTURE_SECRET, 3 * PAGE);
}

/* Nobody but the pool knows of the clear, so a stream that frees comes after it, and whoever has the memory next. */
static void test_freed_before_clear(gconstpointer opts)
{
	struct fixture f;
	char *a, *b;

	fixture_open(&f, *(const struct vpmm_opts *)opts);
	assert_ok(vpmm_host_stream_submit(f.streams[0]));
	a = fixture_malloc(&f, 3, f.streams[0]);
	fixture_free(&f, a, f.streams[1]);
	b = fixture_malloc(&f, 3, f.streams[1]);
	assert_ok(vpmm_host_stream_launch(f.streams[1], write_secret, b));
	g_assert_cmpint(vpmm_host_stream_complete(f.streams[1], 1), ==, a == b ? -EBUSY : 0);
	fixture_complete(f.streams[0]);
	fixture_complete(f.streams[1]);
	g_assert_cmpint(b[0], ==, FIXTURE_SECRET);
	g_assert_cmpint(b[3 * PAGE - 1], ==, FIXTURE_SECRET);
	fixture_close(&f);
}

/* Blocks that were put together are as their pieces: one's own where all of them are. */
static void test_stream_gathered(gconstpointer opts)
{
	for (int other = 0; other < 2; other++) {
		struct fixture f;
		void *blocks[5];
		uint64_t before;
		char *ptr;

		fixture_open(&f, *(const struct vpmm_opts *)opts);
		for (int i = 0; i < 5; i++) {
			blocks[i] = fixture_malloc(&f, 2, f.streams[i == 2 ? other : 0]);
			memset(blocks[i], FIXTURE_SECRET, 2 * PAGE);
		}
		for (int i = 0; i < 5; i += 2)
			fixture_free(&f, blocks[i], f.streams[i == 2 ? other : 0]);
		before = fixture_stats(&f).scrubbed;
		ptr = fixture_malloc(&f, 6, f.streams[0]);
		g_assert_cmpuint(fixture_stats(&f).mapped, ==, 10 * PAGE);
		g_assert_cmpuint(fixture_stats(&f).scrubbed - before, ==, other ? 6 * PAGE : 0);
		g_assert_true(fixture_is_clear(ptr, 6 * PAGE) == other);
		fixture_close(&f);
	}
}

/* A page that small requests of one stream have had is another's like any memory. */
static void test_stream_small(void)
{
	struct fixture f;
	char *ptr;

	fixture_open(&f, stream_packed);
	fixture_leave_secret(&f, 5000, f.streams[0]);
	ptr = fixture_malloc_bytes(&f, 5000, f.streams[0]);
	g_assert_cmpint(ptr[4999], ==, FIXTURE_SECRET);
	fixture_free(&f, ptr, f.streams[0]);
	for (int i = 0; i < 4; i++)
		g_assert_true(fixture_is_clear(fixture_malloc_bytes(&f, 3000, f.streams[1]), 3000));
	fixture_close(&f);
}

/* What the driver's allocator had in mind cannot be told, so all of it is cleared. */
static void test_driver(gconstpointer opts)
{
	struct fixture f;
	char *ptr;

	fixture_open(&f, *(const struct vpmm_opts *)opts);
	for (int i = 1; i <= 3; i++) {
		ptr = fixture_malloc_bytes(&f, 1000, f.streams[0]);
		g_assert_true(fixture_is_clear(ptr, 1000));
		g_assert_cmpuint(fixture_stats(&f).scrubbed, ==, (uint64_t)i * 1000);
		memset(ptr, FIXTURE_SECRET, 1000);
		fixture_free(&f, ptr, f.streams[0]);
	}
	fixture_close(&f);
}

static void test_always(gconstpointer opts)
{
	struct fixture f;

	fixture_open(&f, *(const struct vpmm_opts *)opts);
	for (int i = 1; i <= 3; i++) {
		char *ptr = fixture_malloc(&f, 2, f.streams[0]);

		g_assert_true(fixture_is_clear(ptr, 2 * PAGE));
		g_assert_cmpuint(fixture_stats(&f).scrubbed, ==, (uint64_t)i * 2 * PAGE);
		memset(ptr, FIXTURE_SECRET, 2 * PAGE);
		fixture_free(&f, ptr, f.streams[0]);
	}
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 2 * PAGE);
	fixture_close(&f);
}

/* A request that cannot be cleared fails, and all is as before. */
static void test_clear_fails(gconstpointer opts)
{
	static const size_t sizes[] = { 1000, 2 * PAGE, 5 * PAGE };
	struct vpmm_stats before, after;
	struct fixture f;
	void *ptr = &f;

	fixture_open_faulty(&f, *(const struct vpmm_opts *)opts);
	fixture_leave_secret(&f, PAGE, f.streams[1]);
	fixture_leave_secret(&f, 2 * PAGE, f.streams[1]);
	for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
		before = fixture_stats(&f);
		backend_fault_arm(f.pool->core.backend, BACKEND_OP_clear, 0, 1, -EIO);
		assert_error(vpmm_malloc(f.pool, &ptr, sizes[i], f.streams[0]), EIO, "clearing");
		assert_ok(vpmm_pool_check(f.pool));
		g_assert_true(ptr == &f);
		after = fixture_stats(&f);
		g_assert_cmpuint(after.live, ==, before.live);
		g_assert_cmpuint(after.small_live, ==, before.small_live);
		g_assert_cmpuint(after.mallocs, ==, before.mallocs);
		g_assert_cmpuint(after.scrubbed, ==, before.scrubbed);

		g_assert_true(fixture_is_clear(fixture_malloc_bytes(&f, sizes[i], f.streams[0]), sizes[i]));
		g_assert_cmpuint(fixture_stats(&f).mapped, ==, after.mapped);
	}
	fixture_close(&f);
}

/* What the stream waits for others for is theirs again, and whoever has it next waits too. */
static void test_clear_fails_pending(gconstpointer opts)
{
	struct fixture f;
	void *ptr;
	char *mine;

	fixture_open_faulty(&f, *(const struct vpmm_opts *)opts);
	fixture_uncache(&f);
	ptr = fixture_malloc(&f, 2, f.streams[0]);
	memset(ptr, FIXTURE_SECRET, 2 * PAGE);
	fixture_free_at_work(&f, ptr, f.streams[0]);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_create, 0, 2, -ENOMEM);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_clear, 0, 1, -EIO);
	assert_error(vpmm_malloc(f.pool, &ptr, 2 * PAGE, f.streams[1]), EIO, "clearing");
	assert_ok(vpmm_pool_check(f.pool));

	mine = fixture_malloc(&f, 2, f.streams[2]);
	fixture_submit_waits(f.streams[2]);
	fixture_complete(f.streams[0]);
	fixture_complete(f.streams[2]);
	g_assert_true(fixture_is_clear(mine, 2 * PAGE));
	fixture_close(&f);
}

static bool resize_fails(const struct vpmm_opts *opts, size_t size, enum backend_op op, unsigned int skip)
{
	struct fixture f;
	void *ptr;
	int err;

	fixture_open_faulty(&f, *opts);
	fixture_uncache(&f);
	ptr = fixture_malloc_bytes(&f, size, f.streams[0]);
	fixture_malloc(&f, 1, f.streams[0]);
	memset(ptr, FIXTURE_SECRET, size);
	backend_fault_arm(f.pool->core.backend, op, skip, 1, -EIO);
	err = vpmm_realloc(f.pool, &ptr, 3 * PAGE, f.streams[1]);
	backend_fault_arm(f.pool->core.backend, op, 0, 0, 0);
	vpmm_host_stream_complete(f.streams[1], UINT_MAX);
	if (err)
		g_assert_true(fixture_is_clear(fixture_malloc(&f, 3, f.streams[1]), 3 * PAGE));
	fixture_close(&f);
	return err;
}

/* What a resize copies for a stream and then takes back is no memory of that stream's own: the block is another's. */
static void test_resize_fails(gconstpointer opts)
{
	static const enum backend_op ops[] = { BACKEND_OP_copy, BACKEND_OP_event_record, BACKEND_OP_event_create };
	unsigned int failed = 0;

	for (unsigned int i = 0; i < 4 * G_N_ELEMENTS(ops); i++) {
		failed += resize_fails(opts, PAGE / 32, ops[i / 4], i % 4);
		failed += resize_fails(opts, 2 * PAGE, ops[i / 4], i % 4);
	}
	g_assert_cmpuint(failed, >, 0);
}

/*
 * Nor is memory that a move by mapping was to take, and that another stream has left: that has a copy of the block's
 * ends now.
 */
static void test_move_fails(void)
{
	struct fixture f;
	void *ptr;
	char *got;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE, .limit = 12 * PAGE,
						    .scrub = VPMM_SCRUB_STREAM });
	fixture_uncache(&f);
	fixture_malloc_bytes(&f, PAGE / 2 + 512, f.streams[0]);
	ptr = fixture_malloc(&f, 4, f.streams[0]);
	fixture_malloc(&f, 2, f.streams[0]);
	memset(ptr, FIXTURE_SECRET, 4 * PAGE);
	fixture_free(&f, fixture_malloc(&f, 5, f.streams[1]), f.streams[1]);
	vpmm_host_stream_complete(f.streams[1], UINT_MAX);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_event_record, 0, UINT_MAX, -EIO);
	g_assert_cmpint(vpmm_realloc(f.pool, &ptr, 7 * PAGE, f.streams[0]), ==, -EIO);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_event_record, 0, 0, 0);
	vpmm_host_stream_complete(f.streams[0], UINT_MAX);
	fixture_free(&f, fixture_malloc_bytes(&f, 512, f.streams[0]), f.streams[0]);
	while (!vpmm_malloc(f.pool, (void **)&got, PAGE / 2, f.streams[1]))
		g_assert_null(memchr(got, FIXTURE_SECRET, PAGE / 2));
	fixture_close(&f);
}

/* The program knows nothing of the clear, and may have nothing pending itself when it destroys the pool. */
static void test_driver_destroyed(gconstpointer opts)
{
	unsigned int pending;
	struct fixture f;

	fixture_open(&f, *(const struct vpmm_opts *)opts);
	assert_ok(vpmm_host_stream_submit(f.streams[0]));
	fixture_malloc_bytes(&f, 1000, f.streams[0]);
	vpmm_pool_destroy(f.pool);
	assert_ok(vpmm_host_stream_pending(f.streams[0], &pending));
	g_assert_cmpuint(pending, ==, 0);
	assert_ok(vpmm_pool_create(&f.pool, opts));
	fixture_close(&f);
}

/* Memory that the driver would not take back is its pool's until that goes. */
static void test_small_not_taken_back(void)
{
	struct fixture f;
	void *ptr = &f;

	fixture_open_faulty(&f, stream_paged);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_clear, 0, 1, -EIO);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_small_free, 0, 1, -EBUSY);
	assert_error(vpmm_malloc(f.pool, &ptr, 1000, f.streams[0]), EIO, "clearing");
	g_assert_true(ptr == &f);
	fixture_close(&f);
}

struct slot {
	uint64_t *ptr;
	size_t words;
	int stream;
};

/* Nothing that a stream is given holds anything but zeroes, or what it has written itself. */
static void assert_own(const struct slot *slot)
{
	for (size_t i = 0; i < slot->words; i += 32)
		g_assert_true(!slot->ptr[i] || slot->ptr[i] == (uint64_t)slot->stream + 1);
}

static size_t random_size(void)
{
	switch (g_test_rand_int_range(0, 4)) {
	case 0:
		return (size_t)g_test_rand_int_range(1, 100) * 512;
	case 1:
		return (size_t)g_test_rand_int_range(1, 5) * PAGE;
	default:
		return (size_t)g_test_rand_int_range(1, 6000) * 1024;
	}
}

static void slot_free(struct fixture *f, struct slot *slot)
{
	int by = g_test_rand_int_range(0, 8) ? slot->stream : g_test_rand_int_range(0, STREAMS);

	assert_ok(vpmm_free(f->pool, slot->ptr, f->streams[by]));
	slot->ptr = NULL;
}

static void slot_malloc(struct fixture *f, struct slot *slot)
{
	size_t size = random_size();
	void *ptr;

	slot->stream = g_test_rand_int_range(0, STREAMS);
	slot->words = size / sizeof(*slot->ptr);
	assert_ok(vpmm_malloc(f->pool, &ptr, size, f->streams[slot->stream]));
	slot->ptr = ptr;
	assert_own(slot);
	for (size_t i = 0; i < slot->words; i += 32)
		slot->ptr[i] = (uint64_t)slot->stream + 1;
}

static void test_stream_random(gconstpointer opts)
{
	struct slot slots[SLOTS] = { 0 };
	struct fixture f;

	fixture_open(&f, *(const struct vpmm_opts *)opts);
	for (int i = 0; i < ROUNDS; i++) {
		struct slot *slot = &slots[g_test_rand_int_range(0, SLOTS)];

		if (slot->ptr)
			slot_free(&f, slot);
		else
			slot_malloc(&f, slot);
		if (i % 256 == 0)
			assert_ok(vpmm_pool_check(f.pool));
	}
	g_assert_cmpuint(fixture_stats(&f).scrubbed, >, 0);
	fixture_close(&f);
}

/* What was free while a tag was paused is new from the device afterwards, as its stream has not had that memory. */
static void test_stream_resumed(gconstpointer opts)
{
	static const size_t sizes[] = { 4096, PAGE };
	uint64_t before;
	struct fixture f;
	vpmm_tag tag;

	assert_ok(vpmm_tag_open("scrub", VPMM_TAG_PAUSABLE, &tag));
	for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
		size_t size = sizes[i];
		void *ptr, *kept;

		fixture_open(&f, *(const struct vpmm_opts *)opts);
		vpmm_tag_set(tag);
		/* Of one extent or slab, a part stays allocated. */
		assert_ok(vpmm_malloc(f.pool, &ptr, 4 * size, f.streams[0]));
		assert_ok(vpmm_free(f.pool, ptr, f.streams[0]));
		assert_ok(vpmm_malloc(f.pool, &kept, size, f.streams[0]));
		memset(kept, FIXTURE_SECRET, size);
		assert_ok(vpmm_pause(f.pool, tag, 0));
		assert_ok(vpmm_resume(f.pool, tag, VPMM_STREAM_ANY));
		before = fixture_stats(&f).scrubbed;
		assert_ok(vpmm_malloc(f.pool, &ptr, 2 * size, f.streams[0]));
		vpmm_tag_set(0);
		g_assert_true(fixture_is_clear(ptr, 2 * size));
		g_assert_cmpuint(fixture_stats(&f).scrubbed, >=, before + 2 * size);
		g_assert_cmpint(((char *)kept)[size - 1], ==, FIXTURE_SECRET);
		assert_ok(vpmm_pool_check(f.pool));
		fixture_close(&f);
	}
}

static void add(const char *name, const struct vpmm_opts *packed, const struct vpmm_opts *paged, GTestDataFunc test)
{
	char *path = g_strdup_printf("/scrub/%s/packed", name);

	g_test_add_data_func(path, packed, test);
	g_free(path);
	path = g_strdup_printf("/scrub/%s/paged", name);
	g_test_add_data_func(path, paged, test);
	g_free(path);
}

int main(int argc, char **argv)
{
	static const struct vpmm_opts none_packed = { FIXTURE_PACKED }, none_paged = { FIXTURE_OPTS };

	g_test_init(&argc, &argv, NULL);
	add("freed-before-clear/stream", &stream_packed, &stream_paged, test_freed_before_clear);
	add("freed-before-clear/always", &always_packed, &always_paged, test_freed_before_clear);
	add("info/none", &none_packed, &none_paged, test_info);
	add("info/stream", &stream_packed, &stream_paged, test_info);
	add("info/always", &always_packed, &always_paged, test_info);
	g_test_add_func("/scrub/none", test_none);
	add("stream/fresh", &stream_packed, &stream_paged, test_stream_fresh);
	add("stream/fresh-beside-own", &stream_packed, &stream_paged, test_stream_fresh_beside_own);
	add("stream/own", &stream_packed, &stream_paged, test_stream_own);
	add("stream/other", &stream_packed, &stream_paged, test_stream_other);
	add("stream/handed", &stream_packed, &stream_paged, test_stream_handed);
	add("stream/part", &stream_packed, &stream_paged, test_stream_part);
	add("stream/freed-by-other", &stream_packed, &stream_paged, test_stream_freed_by_other);
	add("stream/in-order", &stream_packed, &stream_paged, test_stream_in_order);
	add("stream/gathered", &stream_packed, &stream_paged, test_stream_gathered);
	g_test_add_func("/scrub/stream/small", test_stream_small);
	add("stream/resumed", &stream_packed, &stream_paged, test_stream_resumed);
	add("stream/random", &stream_packed, &stream_paged, test_stream_random);
	g_test_add_data_func("/scrub/driver/stream", &stream_paged, test_driver);
	g_test_add_data_func("/scrub/driver/always", &always_paged, test_driver);
	g_test_add_data_func("/scrub/driver/destroyed/stream", &stream_paged, test_driver_destroyed);
	g_test_add_data_func("/scrub/driver/destroyed/always", &always_paged, test_driver_destroyed);
	add("always", &always_packed, &always_paged, test_always);
	add("clear-fails/stream", &stream_packed, &stream_paged, test_clear_fails);
	add("clear-fails/always", &always_packed, &always_paged, test_clear_fails);
	add("clear-fails/pending", &stream_packed, &stream_paged, test_clear_fails_pending);
	add("resize-fails", &stream_packed, &stream_paged, test_resize_fails);
	g_test_add_func("/scrub/move-fails", test_move_fails);
	g_test_add_func("/scrub/clear-fails/small-not-taken-back", test_small_not_taken_back);
	return g_test_run();
}
