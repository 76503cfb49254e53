// SPDX-License-Identifier: LGPL-2.1-or-later
/* VPMM_ZERO: memory that the caller wants cleared, and the clear as work of the library that others come after. */
#include <errno.h>
#include <string.h>

#include "backend/backend.h"
#include "calls/pool.h"
#include "support/fault.h"
#include "support/fixture.h"

/* Each kind of pool, and each way of it to serve a request. */
static const struct kind {
	const char *name;
	struct vpmm_opts opts;
	size_t size;
	unsigned int flags;
} kinds[] = {
	{ "packed", { FIXTURE_PACKED }, 3 * PAGE, VPMM_ZERO },
	{ "span", { FIXTURE_PACKED }, 100 * 1024, VPMM_ZERO },
	{ "paged", { FIXTURE_OPTS }, 3 * PAGE, VPMM_ZERO },
	{ "driver", { FIXTURE_OPTS }, 100 * 1024, VPMM_ZERO },
	/* Where the settings clear, there is one clear more of the library's. */
	{ "scrub-packed", { FIXTURE_PACKED, .scrub = VPMM_SCRUB_STREAM }, 3 * PAGE, 0 },
	{ "scrub-always", { FIXTURE_PACKED, .scrub = VPMM_SCRUB_ALWAYS }, 3 * PAGE, 0 },
	{ "scrub-paged", { FIXTURE_OPTS, .scrub = VPMM_SCRUB_STREAM }, 3 * PAGE, 0 },
};

static char *malloc_zero(struct fixture *f, size_t size, struct CUstream_st *stream)
{
	void *ptr = NULL;

	assert_ok(vpmm_malloc_flags(f->pool, &ptr, size, stream, VPMM_ZERO));
	assert_ok(vpmm_pool_check(f->pool));
	return ptr;
}

static void test_zero(gconstpointer opts)
{
	struct fixture f;
	char *ptr = NULL;

	fixture_open(&f, *(const struct vpmm_opts *)opts);
	fixture_leave_secret(&f, PAGE, f.streams[0]);
	assert_ok(vpmm_malloc_flags(f.pool, (void **)&ptr, PAGE, f.streams[0], 0));
	g_assert_cmpint(ptr[1], ==, FIXTURE_SECRET);
	fixture_free(&f, ptr, f.streams[0]);
	assert_ok(vpmm_malloc_flags(f.pool, (void **)&ptr, PAGE, f.streams[0], VPMM_ZERO));
	g_assert_true(fixture_is_clear(ptr, PAGE));
	g_assert_cmpuint(fixture_stats(&f).scrubbed, ==, PAGE);
	assert_ok(vpmm_malloc_flags(f.pool, (void **)&ptr, 1000, f.streams[0], VPMM_ZERO));
	g_assert_true(fixture_is_clear(ptr, 1000));
	g_assert_cmpuint(fixture_stats(&f).scrubbed, ==, PAGE + 1000);
	assert_ok(vpmm_malloc_flags(f.pool, (void **)&ptr, 0, f.streams[0], VPMM_ZERO));
	g_assert_null(ptr);
	fixture_close(&f);
}

/* What the pool clears anyway is cleared once. */
static void test_zero_always(void)
{
	struct fixture f;
	void *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .scrub = VPMM_SCRUB_ALWAYS });
	assert_ok(vpmm_malloc_flags(f.pool, &ptr, PAGE, f.streams[0], VPMM_ZERO));
	g_assert_cmpuint(fixture_stats(&f).scrubbed, ==, PAGE);
	fixture_close(&f);
}

static void test_zero_bad(void)
{
	struct fixture f;
	void *ptr = &f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_error(vpmm_malloc_flags(f.pool, NULL, PAGE, NULL, VPMM_ZERO), EINVAL, "ptr is NULL");
	assert_error(vpmm_malloc_flags(f.pool, &ptr, PAGE, NULL, 0xa), EINVAL, "flags are 0xa");
	assert_error(vpmm_malloc_flags(f.pool, &ptr, SIZE_MAX / 2, NULL, VPMM_ZERO), ENOMEM, "vpmm_malloc_flags: ");
	g_assert_true(ptr == &f);
	g_assert_cmpuint(fixture_stats(&f).mallocs, ==, 0);
	fixture_close(&f);
}

/* Whatever fails on the way, nobody is left with memory that he knows nothing of. */
static void test_zero_fails(void)
{
	static const enum backend_op ops[] = { BACKEND_OP_clear, BACKEND_OP_enter };
	struct vpmm_stats before;
	struct fixture f;
	void *ptr = &f;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	fixture_leave_secret(&f, PAGE, f.streams[0]);
	for (size_t i = 0; i < G_N_ELEMENTS(ops); i++) {
		before = fixture_stats(&f);
		/* The allocation enters first. */
		backend_fault_arm(f.pool->core.backend, ops[i], ops[i] == BACKEND_OP_enter, 1, -EIO);
		assert_error(vpmm_malloc_flags(f.pool, &ptr, PAGE, f.streams[0], VPMM_ZERO), EIO, "vpmm_malloc_flags");
		assert_ok(vpmm_pool_check(f.pool));
		g_assert_true(ptr == &f);
		g_assert_cmpuint(fixture_stats(&f).live, ==, fixture_stats(&f).held);
		g_assert_cmpuint(fixture_stats(&f).mallocs, ==, before.mallocs);
		g_assert_cmpuint(fixture_stats(&f).frees, ==, before.frees);
		fixture_leave_secret(&f, 2 * PAGE, f.streams[0]);
		g_assert_cmpuint(fixture_stats(&f).live, ==, 0);
	}
	fixture_close(&f);
}

/* More blocks than a page has of the smallest size here, and how many bytes of each are written. */
#define BLOCKS 24
#define WRITTEN 4096

static void write_secret(void *data)
{
	memset(data, FIXTURE_SECRET, WRITTEN);
}

/*
 * A third stream allocates until it has the memory that was freed, or would have if it was to be had, and writes to all
 * of that as soon as it can. When all streams are done, what it wrote is there.
 */
static void assert_next_owner_keeps_its_data(struct fixture *f, size_t size)
{
	char *blocks[BLOCKS];
	int err;

	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = fixture_malloc_bytes(f, size, f->streams[2]);
		assert_ok(vpmm_host_stream_launch(f->streams[2], write_secret, blocks[i]));
		err = vpmm_host_stream_complete(f->streams[2], UINT_MAX);
		g_assert_true(!err || err == -EBUSY);
	}
	for (int i = 0; i < STREAMS; i++)
		fixture_complete(f->streams[i]);
	for (int i = 0; i < BLOCKS; i++) {
		g_assert_cmpint(blocks[i][0], ==, FIXTURE_SECRET);
		g_assert_false(memcmp(blocks[i], blocks[i] + 1, WRITTEN - 1));
	}
}

/* On a stream that the memory was not allocated for; the driver's allocator wants it behind the allocation. */
static void free_elsewhere(struct fixture *f, const struct kind *kind, void *ptr)
{
	if (kind->size < PAGE && kind->opts.small == VPMM_SMALL_DRIVER)
		assert_ok(vpmm_host_stream_wait(f->streams[1], f->streams[0]));
	fixture_free(f, ptr, f->streams[1]);
}

static void freed_elsewhere(const struct kind *kind, bool cached)
{
	struct fixture f;
	char *ptr;

	fixture_open(&f, kind->opts);
	if (cached)
		fixture_leave_secret(&f, kind->size, f.streams[0]);
	assert_ok(vpmm_host_stream_submit(f.streams[0]));
	ptr = malloc_zero(&f, kind->size, f.streams[0]);
	free_elsewhere(&f, kind, ptr);
	assert_next_owner_keeps_its_data(&f, kind->size);
	fixture_close(&f);
}

/* Nobody has used the memory, so any stream may free it, and whoever has it next is ordered after the clear. */
static void test_freed_elsewhere(gconstpointer kind)
{
	freed_elsewhere(kind, false);
}

/* The same of a block that the stream had before and has from its cache. */
static void test_freed_elsewhere_again(gconstpointer kind)
{
	freed_elsewhere(kind, true);
}

/* The stream that cleared it frees it, and another has it next. */
static void test_freed_in_order(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *ptr;

	fixture_open(&f, kind->opts);
	assert_ok(vpmm_host_stream_submit(f.streams[0]));
	ptr = malloc_zero(&f, kind->size, f.streams[0]);
	fixture_free(&f, ptr, f.streams[0]);
	assert_next_owner_keeps_its_data(&f, kind->size);
	fixture_close(&f);
}

/* The program has nothing pending itself, so the pool does not go before its clear is done. */
static void test_destroyed(gconstpointer data)
{
	const struct kind *kind = data;
	unsigned int pending;
	struct fixture f;

	fixture_open(&f, kind->opts);
	assert_ok(vpmm_host_stream_submit(f.streams[0]));
	malloc_zero(&f, kind->size, f.streams[0]);
	vpmm_pool_destroy(f.pool);
	assert_ok(vpmm_host_stream_pending(f.streams[0], &pending));
	g_assert_cmpuint(pending, ==, 0);
	assert_ok(vpmm_pool_create(&f.pool, &kind->opts));
	fixture_close(&f);
}

/* Which records of events fail, of those that an allocation makes. */
struct faults {
	unsigned int skip;
	unsigned int count;
};

/* An allocation with such faults, and with every wait for the device failing. Returns whether a record has failed. */
static bool malloc_faulty(struct fixture *f, const struct kind *kind, struct faults faults, void **ptr)
{
	struct backend *be = f->pool->core.backend;
	uint64_t records = backend_fault_calls(be, BACKEND_OP_event_record);
	int err;

	backend_fault_arm(be, BACKEND_OP_event_record, faults.skip, faults.count, -EIO);
	backend_fault_arm(be, BACKEND_OP_sync, 0, UINT_MAX, -EIO);
	err = vpmm_malloc_flags(f->pool, ptr, kind->size, f->streams[0], kind->flags);
	g_assert_true(!err || err == -EIO);
	backend_fault_arm(be, BACKEND_OP_event_record, 0, 0, 0);
	backend_fault_arm(be, BACKEND_OP_sync, 0, 0, 0);
	assert_ok(vpmm_pool_check(f->pool));
	if (err)
		*ptr = NULL;
	return backend_fault_calls(be, BACKEND_OP_event_record) - records > faults.skip;
}

static bool next_owner_keeps_its_data(const struct kind *kind, struct faults faults)
{
	struct fixture f;
	void *ptr = NULL;
	bool failed;

	fixture_open_faulty(&f, kind->opts);
	assert_ok(vpmm_host_stream_submit(f.streams[0]));
	failed = malloc_faulty(&f, kind, faults, &ptr);
	free_elsewhere(&f, kind, ptr);
	assert_next_owner_keeps_its_data(&f, kind->size);
	fixture_close(&f);
	return failed;
}

/* Once the stream has called again and is past the clear, the memory serves requests. */
static bool nothing_is_lost(const struct kind *kind, struct faults faults)
{
	struct vpmm_stats before, after;
	struct fixture f;
	void *ptr = NULL;
	bool failed;

	fixture_open_faulty(&f, kind->opts);
	failed = malloc_faulty(&f, kind, faults, &ptr);
	assert_ok(vpmm_free(f.pool, ptr, f.streams[0]));
	before = fixture_stats(&f);
	g_assert_cmpuint(before.live, ==, before.held);
	fixture_complete(f.streams[0]);
	for (int i = 0; i < 2; i++)
		fixture_free(&f, fixture_malloc_bytes(&f, kind->size, f.streams[0]), f.streams[0]);
	after = fixture_stats(&f);
	g_assert_cmpuint(after.held, ==, 0);
	g_assert_cmpuint(after.live, ==, 0);
	g_assert_cmpuint(after.mapped, ==, before.mapped);
	fixture_close(&f);
	return failed;
}

static void with_faults(const struct kind *kind, bool (*run)(const struct kind *kind, struct faults faults))
{
	for (unsigned int count = 1; count <= 2; count++) {
		struct faults faults = { .count = count };

		while (run(kind, faults))
			faults.skip++;
	}
}

/* Memory whose clear is pending goes to nobody, even if that could neither be marked nor waited for. */
static void test_two_faults(gconstpointer kind)
{
	with_faults(kind, next_owner_keeps_its_data);
}

static void test_two_faults_lose_nothing(gconstpointer kind)
{
	with_faults(kind, nothing_is_lost);
}

/* What cannot be cleared under capture stays with the graph, as if it was freed there. */
static void test_fails_captured(gconstpointer data)
{
	static const enum backend_op ops[] = { BACKEND_OP_clear, BACKEND_OP_enter };
	const struct kind *kind = data;

	for (size_t i = 0; i < G_N_ELEMENTS(ops); i++) {
		struct vpmm_host_graph *graph;
		struct fixture f;
		void *ptr = &f;
		uint64_t id = 0;

		fixture_open_faulty(&f, kind->opts);
		assert_ok(vpmm_host_capture_begin(f.streams[0]));
		assert_ok(vpmm_capture_id(f.pool, f.streams[0], &id));
		/* The allocation enters first, and an attempt to free it last. */
		backend_fault_arm(f.pool->core.backend, ops[i], ops[i] == BACKEND_OP_enter, 2, -EIO);
		assert_error(vpmm_malloc_flags(f.pool, &ptr, kind->size, f.streams[0], VPMM_ZERO), EIO, "fails");
		backend_fault_arm(f.pool->core.backend, ops[i], 0, 0, 0);
		assert_ok(vpmm_pool_check(f.pool));
		g_assert_true(ptr == &f);
		g_assert_cmpuint(fixture_stats(&f).held, >=, kind->size);
		g_assert_cmpuint(fixture_stats(&f).live, ==, fixture_stats(&f).held);
		assert_ok(vpmm_host_capture_end(f.streams[0], &graph));
		assert_ok(vpmm_host_graph_destroy(graph));
		assert_ok(vpmm_graph_retire(f.pool, id, f.streams[0]));
		g_assert_cmpuint(fixture_stats(&f).live, ==, 0);
		fixture_close(&f);
	}
}

/* Beside a capture the default stream cannot clear, and a block that cannot be freed either belongs to no graph. */
static void test_fails_beside_capture(gconstpointer data)
{
	const struct kind *kind = data;
	struct vpmm_host_graph *graph;
	struct fixture f;
	void *ptr = &f;

	fixture_open_faulty(&f, kind->opts);
	assert_ok(vpmm_host_capture_begin(f.streams[0]));
	/* The allocation enters first, and an attempt to free it last. */
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_enter, 1, 2, -EIO);
	assert_error(vpmm_malloc_flags(f.pool, &ptr, kind->size, NULL, VPMM_ZERO), EIO, "fails");
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_enter, 0, 0, 0);
	assert_ok(vpmm_pool_check(f.pool));
	g_assert_true(ptr == &f);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 0);
	assert_ok(vpmm_host_capture_end(f.streams[0], &graph));
	assert_ok(vpmm_host_graph_destroy(graph));
	fixture_close(&f);
}

/* Every kind, but for those whose settings clear, unless @scrub. */
static void add(const char *name, bool scrub, GTestDataFunc test)
{
	for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
		char *path = g_strdup_printf("/zero/%s/%s", name, kinds[i].name);

		if (scrub || kinds[i].flags)
			g_test_add_data_func(path, &kinds[i], test);
		g_free(path);
	}
}

int main(int argc, char **argv)
{
	static const struct vpmm_opts packed = { FIXTURE_PACKED }, paged = { FIXTURE_OPTS };

	g_test_init(&argc, &argv, NULL);
	g_test_add_data_func("/zero/cleared/packed", &packed, test_zero);
	g_test_add_data_func("/zero/cleared/paged", &paged, test_zero);
	g_test_add_func("/zero/always", test_zero_always);
	g_test_add_func("/zero/bad", test_zero_bad);
	g_test_add_func("/zero/fails", test_zero_fails);
	add("freed-elsewhere", false, test_freed_elsewhere);
	add("freed-elsewhere-again", false, test_freed_elsewhere_again);
	add("freed-in-order", false, test_freed_in_order);
	add("destroyed", false, test_destroyed);
	add("two-faults", true, test_two_faults);
	add("two-faults-lose-nothing", true, test_two_faults_lose_nothing);
	add("fails-captured", false, test_fails_captured);
	add("fails-beside-capture", false, test_fails_beside_capture);
	return g_test_run();
}
