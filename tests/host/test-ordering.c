// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Clears and copies of the library's own come before whatever is done with the memory next: also after a failure, on
 * another stream, and in a graph. The host backend finds what does not; vpmm_pool_check() reports it.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "calls/pool.h"
#include "support/fault.h"
#include "support/fixture.h"

#define ALWAYS FIXTURE_PACKED, .scrub = VPMM_SCRUB_ALWAYS
#define MIB ((size_t)1 << 20)

static void fail_next(struct fixture *f, enum backend_op op, unsigned int skip, unsigned int count)
{
	backend_fault_arm(f->pool->core.backend, op, skip, count, -EIO);
}

/* The call fails, and then the driver works again. */
#define assert_fails(f, op, call) \
	do { \
		g_assert_cmpint(call, ==, -EIO); \
		fail_next(f, op, 0, 0); \
		assert_ok(vpmm_pool_check((f)->pool)); \
	} while (0)

static void resize(struct fixture *f, char **ptr, size_t size, int stream)
{
	void *p = *ptr;

	assert_ok(vpmm_realloc(f->pool, &p, size, f->streams[stream]));
	assert_ok(vpmm_pool_check(f->pool));
	*ptr = p;
}

static void busy(struct fixture *f, int stream)
{
	assert_ok(vpmm_host_stream_submit(f->streams[stream]));
}

static void complete(struct fixture *f)
{
	for (int i = 0; i < 2 * STREAMS; i++)
		vpmm_host_stream_complete(f->streams[i % STREAMS], UINT_MAX);
}

/* Another stream takes what it can have without a word of the one at work. */
static void take(struct fixture *f, int stream)
{
	for (size_t size = 512; size <= 8 * MIB; size *= 4)
		fixture_malloc_bytes(f, size, f->streams[stream]);
}

/* Cleared on a stream at work, and with another block behind it. */
static char *have_cleared(struct fixture *f, size_t size, int stream)
{
	void *ptr;

	fixture_leave_secret(f, size, f->streams[stream]);
	busy(f, stream);
	assert_ok(vpmm_malloc_flags(f->pool, &ptr, size, f->streams[stream], VPMM_ZERO));
	return ptr;
}

/* A copy comes after the copy before, on whatever stream that was. */
static void test_copied_twice(void)
{
	struct fixture f;
	char *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	ptr = fixture_malloc_bytes(&f, 3 * MIB, f.streams[0]);
	fixture_malloc_bytes(&f, MIB, f.streams[0]);
	memset(ptr, 0x5a, 3 * MIB);
	busy(&f, 1);
	resize(&f, &ptr, 5 * MIB, 1);
	fixture_malloc_bytes(&f, MIB, f.streams[0]);
	resize(&f, &ptr, 1000, 2);
	complete(&f);
	g_assert_true(fixture_is_filled(ptr, 1000, 0x5a));
	fixture_close(&f);
}

/* And after the clear, of a block of the pool's or of the driver's. */
static void test_cleared_copied(gconstpointer small)
{
	struct fixture f;
	char *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED,
					     .small = small ? VPMM_SMALL_DRIVER : VPMM_SMALL_POOL });
	ptr = have_cleared(&f, small ? 1000 : 3 * MIB, 0);
	resize(&f, &ptr, small ? 3 * MIB : 1000, 1);
	complete(&f);
	g_assert_true(fixture_is_clear(ptr, 1000));
	fixture_close(&f);
}

/* What the driver serves is freed after the clear. */
static void test_cleared_freed(void)
{
	struct fixture f;
	char *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .small = VPMM_SMALL_DRIVER });
	ptr = have_cleared(&f, 1000, 0);
	fixture_free(&f, ptr, f.streams[1]);
	busy(&f, 1);
	fixture_assert_waits(f.streams[1]);
	complete(&f);
	fixture_close(&f);
}

/* A graph cannot wait, so the host does. */
static void test_cleared_captured(void)
{
	struct vpmm_host_graph *graph;
	struct fixture f;
	char *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	ptr = have_cleared(&f, 3 * MIB, 0);
	assert_ok(vpmm_host_capture_begin(f.streams[1]));
	resize(&f, &ptr, 5 * MIB, 1);
	assert_ok(vpmm_host_capture_end(f.streams[1], &graph));
	assert_ok(vpmm_host_graph_launch(graph, f.streams[1]));
	fixture_complete(f.streams[1]);
	g_assert_true(fixture_is_clear(ptr, 3 * MIB));
	assert_ok(vpmm_host_graph_destroy(graph));
	fixture_close(&f);
}

/* Nor can it wait for a graph that had the block before, even if that is retired. */
static void test_retired_captured(void)
{
	struct vpmm_host_graph *graph;
	unsigned int pending;
	struct fixture f;
	uint64_t id;
	char *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_ok(vpmm_host_capture_begin(f.streams[0]));
	assert_ok(vpmm_capture_id(f.pool, f.streams[0], &id));
	assert_ok(vpmm_malloc_flags(f.pool, (void **)&ptr, 3 * MIB, f.streams[0], VPMM_ZERO));
	assert_ok(vpmm_host_capture_end(f.streams[0], &graph));
	busy(&f, 1);
	assert_ok(vpmm_host_graph_launch(graph, f.streams[1]));
	assert_ok(vpmm_graph_retire(f.pool, id, f.streams[1]));
	assert_ok(vpmm_host_graph_destroy(graph));
	assert_ok(vpmm_host_capture_begin(f.streams[0]));
	resize(&f, &ptr, 5 * MIB, 0);
	assert_ok(vpmm_host_stream_pending(f.streams[1], &pending));
	g_assert_cmpuint(pending, ==, 0);
	assert_ok(vpmm_host_capture_end(f.streams[0], &graph));
	assert_ok(vpmm_host_graph_destroy(graph));
	fixture_close(&f);
}

/* It is the program that launches graphs of a group one after another, and the library clears what they share. */
static void test_cleared_group(void)
{
	struct vpmm_host_graph *graphs[2];
	struct fixture f;
	uint64_t id;
	char *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (int i = 0; i < 2; i++) {
		assert_ok(vpmm_host_stream_submit(f.streams[1]));
		assert_ok(vpmm_host_capture_begin(f.streams[0]));
		assert_ok(vpmm_capture_id(f.pool, f.streams[0], &id));
		assert_ok(vpmm_capture_group(f.pool, id, 1));
		assert_ok(vpmm_malloc_flags(f.pool, (void **)&ptr, PAGE, f.streams[0], VPMM_ZERO));
		fixture_free(&f, ptr, f.streams[0]);
		assert_ok(vpmm_host_capture_end(f.streams[0], &graphs[i]));
		assert_ok(vpmm_host_graph_launch(graphs[i], f.streams[1]));
	}
	complete(&f);
	assert_ok(vpmm_pool_check(f.pool));
	for (int i = 0; i < 2; i++)
		assert_ok(vpmm_host_graph_destroy(graphs[i]));
	fixture_close(&f);
}

/* A growable block that becomes smaller within its pages waits for the streams that use it. */
static void test_growable_waits(void)
{
	struct fixture f;
	void *ptr;
	char *p;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_ok(vpmm_malloc_growable(f.pool, &ptr, MIB, 64 * MIB, f.streams[0]));
	assert_ok(vpmm_use(f.pool, ptr, f.streams[1]));
	busy(&f, 1);
	p = ptr;
	resize(&f, &p, 2 * MIB, 0);
	busy(&f, 0);
	fixture_complete(f.streams[0]);
	resize(&f, &p, 100000, 0);
	busy(&f, 0);
	fixture_assert_waits(f.streams[0]);
	complete(&f);
	fixture_close(&f);
}

/* With VPMM_SCRUB=stream another stream does not see what is behind the former size in the same page. */
static void test_scrub_behind(void)
{
	struct fixture f;
	char *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS, .scrub = VPMM_SCRUB_STREAM });
	fixture_leave_secret(&f, 2 * PAGE, f.streams[0]);
	ptr = fixture_malloc_bytes(&f, PAGE + 1, f.streams[0]);
	g_assert_true(ptr[2 * PAGE - 1] == FIXTURE_SECRET);
	resize(&f, &ptr, PAGE + 1, 1);
	resize(&f, &ptr, 2 * PAGE, 1);
	complete(&f);
	g_assert_true(fixture_is_clear(ptr + PAGE + 1, PAGE - 1));
	fixture_close(&f);
}

/* Behind pending work of a block that grows where it is, or becomes larger by less than it has, an event is missing. */
static void fail_growth(size_t from, size_t to, enum backend_op op)
{
	struct fixture f;
	void *ptr;

	fixture_open_faulty(&f, (struct vpmm_opts){ ALWAYS });
	fixture_malloc_bytes(&f, 4096, f.streams[1]);
	ptr = fixture_malloc_bytes(&f, from, f.streams[0]);
	if (to > from + MIB)
		fixture_free(&f, fixture_malloc_bytes(&f, to - from, f.streams[0]), f.streams[0]);
	complete(&f);
	busy(&f, 0);
	fail_next(&f, op, 0, UINT_MAX);
	assert_fails(&f, op, vpmm_realloc(f.pool, &ptr, to, f.streams[0]));
	take(&f, 1);
	/* Nobody has used it. */
	fixture_free(&f, ptr, f.streams[1]);
	take(&f, 1);
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	complete(&f);
	fixture_close(&f);
}

static void test_growth_fails(void)
{
	fail_growth(4 * MIB, 8 * MIB, BACKEND_OP_event_create);
	fail_growth(4 * MIB, 8 * MIB, BACKEND_OP_event_record);
}

static void test_keep_fails(void)
{
	fail_growth(3 * MIB + 100, 3 * MIB + 500, BACKEND_OP_event_create);
	fail_growth(3 * MIB + 100, 3 * MIB + 500, BACKEND_OP_event_record);
}

/* A realloc that has nothing to clear needs no event, and so nothing of the driver that could fail. */
static void keep_without(enum vpmm_scrub scrub, size_t from, size_t to)
{
	struct backend *be;
	struct fixture f;
	uint64_t before;
	void *ptr;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED, .scrub = scrub });
	be = f.pool->core.backend;
	ptr = fixture_malloc_bytes(&f, from, f.streams[0]);
	before = backend_fault_calls(be, BACKEND_OP_event_create);
	assert_ok(vpmm_realloc(f.pool, &ptr, to, f.streams[0]));
	g_assert_cmpuint(backend_fault_calls(be, BACKEND_OP_event_create), ==, before);
	fixture_close(&f);
}

static void test_keep_without(void)
{
	keep_without(VPMM_SCRUB_NONE, 3 * MIB + 100, 3 * MIB + 500);
	keep_without(VPMM_SCRUB_STREAM, 3 * MIB + 500, 3 * MIB + 100);
	keep_without(VPMM_SCRUB_ALWAYS, 3 * MIB + 500, 3 * MIB + 100);
}

/* So it is when a growable block grows, with one failure or with those of the undoing as well. */
static void test_growable_fails(gconstpointer count)
{
	struct fixture f;
	void *ptr;

	fixture_open_faulty(&f, (struct vpmm_opts){ ALWAYS });
	busy(&f, 0);
	assert_ok(vpmm_malloc_growable(f.pool, &ptr, 1000, 16 * MIB, f.streams[0]));
	fail_next(&f, BACKEND_OP_event_record, 1, GPOINTER_TO_UINT(count));
	assert_fails(&f, BACKEND_OP_event_record, vpmm_realloc(f.pool, &ptr, 5 * MIB, f.streams[0]));
	if (GPOINTER_TO_UINT(count) > 1)
		assert_ok(vpmm_realloc(f.pool, &ptr, 5 * MIB, f.streams[1]));
	assert_ok(vpmm_pool_check(f.pool));
	fixture_free(&f, ptr, f.streams[1]);
	take(&f, 1);
	complete(&f);
	fixture_close(&f);
}

/* What the driver fails to take back of a copy that has failed is no allocation of the program. */
static void test_copy_small_fails(void)
{
	struct vpmm_stats stats;
	struct fixture f;
	void *ptr;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED, .small = VPMM_SMALL_DRIVER });
	assert_ok(vpmm_malloc(f.pool, &ptr, 1000, f.streams[0]));
	fail_next(&f, BACKEND_OP_copy, 0, 1);
	fail_next(&f, BACKEND_OP_small_free, 0, UINT_MAX);
	assert_fails(&f, BACKEND_OP_small_free, vpmm_realloc(f.pool, &ptr, 2000, f.streams[0]));
	stats = fixture_stats(&f);
	g_assert_cmpuint(stats.mallocs - stats.frees, ==, 1);
	fixture_free(&f, ptr, f.streams[0]);
	fixture_close(&f);
}

/* The source of a copy stays mapped, whatever fails behind the copy. */
static void test_copy_fails(void)
{
	struct fixture f;
	bool failed = true;

	for (unsigned int skip = 0; failed; skip++) {
		void *ptr;

		fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE });
		ptr = fixture_malloc_bytes(&f, 4 * PAGE, f.streams[0]);
		busy(&f, 0);
		fail_next(&f, BACKEND_OP_event_record, skip, 1);
		failed = vpmm_realloc(f.pool, &ptr, 1000, f.streams[0]);
		fail_next(&f, BACKEND_OP_event_record, 0, 0);
		fixture_free(&f, ptr, f.streams[1]);
		assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
		take(&f, 1);
		complete(&f);
		fixture_close(&f);
		g_assert_cmpuint(skip, <, 20);
	}
}

/* Pages that a large block was to move to are nobody's before the copies are done. */
static void test_remap_fails(gconstpointer op)
{
	enum backend_op failing = GPOINTER_TO_INT(op);
	struct fixture f;
	void *ptr;
	char *p;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE, .limit = 12 * PAGE });
	fixture_malloc_bytes(&f, PAGE / 2 + 512, f.streams[0]);
	p = fixture_malloc(&f, 6, f.streams[0]);
	resize(&f, &p, 4 * PAGE, 0);
	fixture_malloc(&f, 2, f.streams[0]);
	busy(&f, 0);
	fail_next(&f, failing, failing == BACKEND_OP_copy, UINT_MAX);
	ptr = p;
	assert_fails(&f, failing, vpmm_realloc(f.pool, &ptr, 7 * PAGE, f.streams[0]));
	for (int i = 0; i < 3 && !vpmm_malloc(f.pool, &ptr, PAGE / 2, f.streams[1]); i++)
		assert_ok(vpmm_pool_check(f.pool));
	complete(&f);
	fixture_close(&f);
}

/* Otherwise no test here could fail. In a process of its own, as what was found is never forgotten. */
static void test_finds(gconstpointer use)
{
	struct fixture f;
	struct backend *be;
	uint64_t own = 0, other = 0;
	char *ptr;

	if (!g_test_subprocess()) {
		g_test_trap_subprocess(NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
		g_test_trap_assert_passed();
		return;
	}
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	be = f.pool->core.backend;
	ptr = use ? fixture_malloc_bytes(&f, MIB, f.streams[0]) : have_cleared(&f, MIB, 0);
	if (use)
		fixture_free_at_work(&f, ptr, f.streams[0]);
	assert_ok(be->ops->enter(be));
	assert_ok(be->ops->stream_id(be, f.streams[0], &own));
	assert_ok(be->ops->stream_id(be, f.streams[1], &other));
	be->ops->leave(be);
	be->ops->hand_out(be, (uintptr_t)ptr, MIB, own);
	assert_ok(vpmm_pool_check(f.pool));
	be->ops->hand_out(be, (uintptr_t)ptr, MIB, other);
	assert_error(vpmm_pool_check(f.pool), EUCLEAN, use ? "a use of" : "a clear of");
	/* What is left would be reported as well. */
	_exit(0);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_data_func("/ordering/finds-clear", NULL, test_finds);
	g_test_add_data_func("/ordering/finds-use", GINT_TO_POINTER(1), test_finds);
	g_test_add_func("/ordering/copied-twice", test_copied_twice);
	g_test_add_data_func("/ordering/cleared-copied", NULL, test_cleared_copied);
	g_test_add_data_func("/ordering/cleared-copied-small", GINT_TO_POINTER(1), test_cleared_copied);
	g_test_add_func("/ordering/cleared-freed-small", test_cleared_freed);
	g_test_add_func("/ordering/cleared-captured", test_cleared_captured);
	g_test_add_func("/ordering/retired-captured", test_retired_captured);
	g_test_add_func("/ordering/cleared-group", test_cleared_group);
	g_test_add_func("/ordering/growable-waits", test_growable_waits);
	g_test_add_func("/ordering/scrub-behind", test_scrub_behind);
	g_test_add_func("/ordering/growth-fails", test_growth_fails);
	g_test_add_func("/ordering/keep-fails", test_keep_fails);
	g_test_add_func("/ordering/keep-without", test_keep_without);
	g_test_add_data_func("/ordering/growable-fails", GUINT_TO_POINTER(1), test_growable_fails);
	g_test_add_data_func("/ordering/growable-fails-twice", GUINT_TO_POINTER(2), test_growable_fails);
	g_test_add_func("/ordering/copy-fails", test_copy_fails);
	g_test_add_func("/ordering/copy-fails-small", test_copy_small_fails);
	g_test_add_data_func("/ordering/remap-fails/event", GINT_TO_POINTER(BACKEND_OP_event_create), test_remap_fails);
	g_test_add_data_func("/ordering/remap-fails/record", GINT_TO_POINTER(BACKEND_OP_event_record), test_remap_fails);
	g_test_add_data_func("/ordering/remap-fails/copy", GINT_TO_POINTER(BACKEND_OP_copy), test_remap_fails);
	return g_test_run();
}
