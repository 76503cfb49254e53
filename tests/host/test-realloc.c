// SPDX-License-Identifier: LGPL-2.1-or-later
/* vpmm_realloc(): contents, places, and whose memory it is afterwards. */
#include <errno.h>
#include <string.h>

#include "host/capture-fixture.h"
#include "host/realloc-fixture.h"
#include "support/fault.h"

#define KIB ((size_t)1024)

/* Each kind of pool. */
static const struct kind kinds[] = { KINDS_SETTINGS };

/* Sizes that a block is given one after another: within a slab, out of it, through pages, and back. */
static const size_t sizes[] = { 1000, 3000, 700, 100 * 1024, 300 * 1024, PAGE - 512, PAGE + 512, 5 * PAGE,
				5 * PAGE - 100, 3 * PAGE, 7 * PAGE, PAGE, 200 * 1024, 1000, 4 * PAGE };

/*
 * All work is pending until the end: what was written before each change is there after it, whether neighbours are in
 * the way or not.
 */
static void contents(const struct kind *kind, bool crowded, bool uncached)
{
	struct text written[G_N_ELEMENTS(sizes)], read[G_N_ELEMENTS(sizes)];
	struct fixture f;
	void *ptr = NULL;

	fixture_open_faulty(&f, kind->opts);
	if (uncached)
		fixture_uncache(&f);
	for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
		ptr = resize(&f, ptr, sizes[i], f.streams[0]);
		if (i)
			check_on(f.streams[0], ptr, MIN(sizes[i], sizes[i - 1]), &read[i], written[i - 1].seed);
		write_on(f.streams[0], ptr, sizes[i], &written[i]);
		if (crowded)
			fixture_malloc_bytes(&f, 1 + sizes[i] / 3, f.streams[i % 2]);
	}
	fixture_complete(f.streams[0]);
	for (size_t i = 1; i < G_N_ELEMENTS(sizes); i++)
		g_assert_true(read[i].right);
	g_assert_null(resize(&f, ptr, 0, f.streams[0]));
	fixture_close(&f);
}

static void test_contents(gconstpointer kind)
{
	contents(kind, false, false);
}

static void test_contents_crowded(gconstpointer kind)
{
	contents(kind, true, false);
}

static void test_contents_uncached(gconstpointer kind)
{
	contents(kind, true, true);
}

static void test_malloc_and_free(void)
{
	struct fixture f;
	void *ptr = NULL;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	ptr = resize(&f, ptr, 3 * PAGE, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 3 * PAGE);
	ptr = resize(&f, ptr, 0, f.streams[0]);
	g_assert_null(ptr);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 0);
	g_assert_null(resize(&f, ptr, 0, f.streams[0]));
	g_assert_cmpuint(fixture_stats(&f).mallocs, ==, 1);
	g_assert_cmpuint(fixture_stats(&f).frees, ==, 1);
	fixture_close(&f);
}

static void test_bad(void)
{
	struct fixture f;
	char *ptr;
	void *given;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	ptr = fixture_malloc(&f, 2, f.streams[0]);
	assert_error(vpmm_realloc(f.pool, NULL, PAGE, NULL), EINVAL, "vpmm_realloc: ptr is NULL");
	given = ptr + 512;
	assert_error(vpmm_realloc(f.pool, &given, PAGE, f.streams[0]), EINVAL, "no allocation of this pool");
	assert_error(vpmm_realloc(f.pool, &given, 0, f.streams[0]), EINVAL, "vpmm_realloc: ");
	g_assert_true(given == ptr + 512);
	given = ptr;
	assert_error(vpmm_realloc(f.pool, &given, PAGE, (struct CUstream_st *)0x3), EINVAL, "vpmm_realloc: ");
	assert_error(vpmm_realloc(f.pool, &given, SIZE_MAX / 2, f.streams[0]), ENOMEM, "vpmm_realloc: ");
	g_assert_true(given == ptr);
	fixture_free(&f, ptr, f.streams[0]);
	assert_error(vpmm_realloc(f.pool, &given, PAGE, f.streams[0]), EINVAL, "no allocation of this pool");
	g_assert_cmpuint(fixture_stats(&f).live, ==, 0);
	fixture_close(&f);
}

/* Whatever the rounding gives away is the block's already. */
static void test_rounding(void)
{
	struct fixture f;
	char *ptr;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	ptr = fixture_malloc_bytes(&f, PAGE + 100, f.streams[0]);
	g_assert_true(resize(&f, ptr, PAGE + 512, f.streams[1]) == ptr);
	g_assert_cmpuint(fixture_stats(&f).frees, ==, 0);
	/* It belongs to the stream that has resized it all the same. */
	fixture_free(&f, ptr, f.streams[1]);
	g_assert_true(fixture_malloc_bytes(&f, PAGE + 512, f.streams[1]) == ptr);
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 0);
	fixture_close(&f);
}

/* What the block loses is free at once for its stream, and for another behind it. */
static void test_shrinks_where_it_is(gconstpointer kind)
{
	struct fixture f;
	char *ptr, *next;

	fixture_open_faulty(&f, ((const struct kind *)kind)->opts);
	ptr = fixture_malloc(&f, 5, f.streams[0]);
	assert_ok(vpmm_host_stream_submit(f.streams[0]));
	g_assert_true(resize(&f, ptr, 2 * PAGE, f.streams[0]) == ptr);
	g_assert_cmpuint(copies(&f), ==, 0);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 2 * PAGE);
	next = fixture_malloc(&f, 3, f.streams[1]);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 5 * PAGE);
	assert_ok(vpmm_host_stream_submit(f.streams[1]));
	if (((const struct kind *)kind)->opts.reuse != VPMM_REUSE_BLOCK)
		g_assert_cmpint(vpmm_host_stream_complete(f.streams[1], UINT_MAX), ==, -EBUSY);
	fixture_complete(f.streams[0]);
	fixture_free(&f, next, f.streams[1]);
	fixture_free(&f, ptr, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 0);
	fixture_close(&f);
}

/* A free neighbour is taken in, and a stream that had it is waited for on the device. */
static void test_grows_where_it_is(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *ptr, *next;

	fixture_open_faulty(&f, kind->opts);
	ptr = fixture_malloc(&f, 5, f.streams[0]);
	g_assert_true(resize(&f, ptr, 2 * PAGE, f.streams[0]) == ptr);
	next = fixture_malloc(&f, 3, f.streams[1]);
	g_assert_true(next == ptr + 2 * PAGE);
	fixture_free_at_work(&f, next, f.streams[1]);
	g_assert_true(resize(&f, ptr, 4 * PAGE, f.streams[0]) == ptr);
	g_assert_cmpuint(copies(&f), ==, 0);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 4 * PAGE);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 5 * PAGE);
	kind_submit_behind(kind, f.streams[0]);
	fixture_complete(f.streams[1]);
	fixture_complete(f.streams[0]);
	fixture_close(&f);
}

/* In a slab likewise. */
static void test_slab(void)
{
	struct fixture f;
	char *ptr;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	ptr = fixture_malloc_bytes(&f, 20 * KIB, f.streams[0]);
	g_assert_true(resize(&f, ptr, 10 * KIB, f.streams[0]) == ptr);
	g_assert_true(resize(&f, ptr, 15 * KIB, f.streams[0]) == ptr);
	g_assert_cmpuint(copies(&f), ==, 0);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 15 * KIB);
	fixture_close(&f);
}

/* It belongs to the stream that has resized it: the stream's cache takes it and serves it. */
static void test_changes_hands(gconstpointer kind)
{
	struct fixture f;
	void *ptr;

	fixture_open_faulty(&f, ((const struct kind *)kind)->opts);
	ptr = fixture_malloc(&f, 5, f.streams[0]);
	assert_ok(vpmm_host_stream_wait(f.streams[1], f.streams[0]));
	ptr = resize(&f, ptr, 3 * PAGE, f.streams[1]);
	fixture_free(&f, ptr, f.streams[1]);
	g_assert_true(fixture_malloc(&f, 3, f.streams[1]) == ptr);
	fixture_close(&f);
}

/*
 * The stream of the block had freed it without an event before it got it back. No other stream can be ordered after
 * that, so what it resizes goes elsewhere, and the memory to nobody before the first one is past it.
 */
static void test_uncovered(void)
{
	struct text before, after, read;
	struct fixture f;
	void *ptr, *other;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	fixture_malloc(&f, 1, f.streams[1]);
	ptr = fixture_malloc(&f, 1, f.streams[0]);
	write_on(f.streams[0], ptr, PAGE, &before);
	fixture_free(&f, ptr, f.streams[0]);
	g_assert_true(fixture_malloc(&f, 1, f.streams[0]) == ptr);
	other = resize(&f, ptr, PAGE / 2, f.streams[1]);
	other = resize(&f, other, 2 * PAGE, f.streams[1]);
	write_on(f.streams[1], other, 2 * PAGE, &after);
	check_on(f.streams[1], other, 2 * PAGE, &read, after.seed);
	if (vpmm_host_stream_complete(f.streams[1], UINT_MAX) == 0)
		g_assert_true(read.right);
	fixture_complete(f.streams[0]);
	fixture_complete(f.streams[1]);
	check_on(f.streams[1], other, 2 * PAGE, &read, after.seed);
	fixture_complete(f.streams[1]);
	g_assert_true(read.right);
	fixture_close(&f);
}

/* What another stream does with the block comes first, wherever the block goes, and the memory is freed behind it. */
static void used(const struct kind *kind, size_t from, size_t to, bool crowded)
{
	struct text written, read, foreign;
	struct fixture f;
	void *ptr, *next, *neighbour;

	fixture_open_faulty(&f, kind->opts);
	ptr = fixture_malloc_bytes(&f, from, f.streams[0]);
	neighbour = crowded ? fixture_malloc_bytes(&f, from, f.streams[0]) : NULL;
	assert_ok(vpmm_use(f.pool, ptr, f.streams[1]));
	write_on(f.streams[1], ptr, from, &written);
	ptr = resize(&f, ptr, to, f.streams[0]);
	check_on(f.streams[0], ptr, MIN(from, to), &read, written.seed);
	g_assert_cmpint(vpmm_host_stream_complete(f.streams[0], UINT_MAX), ==, -EBUSY);
	next = fixture_malloc_bytes(&f, from, f.streams[2]);
	write_on(f.streams[2], next, from, &foreign);
	vpmm_host_stream_complete(f.streams[2], UINT_MAX);
	fixture_complete(f.streams[1]);
	fixture_complete(f.streams[0]);
	g_assert_true(read.right);
	fixture_complete(f.streams[2]);
	check_on(f.streams[2], next, from, &foreign, foreign.seed);
	fixture_complete(f.streams[2]);
	g_assert_true(foreign.right);
	fixture_free(&f, next, f.streams[2]);
	fixture_free(&f, neighbour, f.streams[0]);
	/* It has no users any more: its free waits for nobody. */
	assert_ok(vpmm_host_stream_submit(f.streams[1]));
	fixture_free(&f, ptr, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 0);
	g_assert_cmpuint(g_hash_table_size(f.pool->pending.uses), ==, 0);
	fixture_close(&f);
}

static void test_used(gconstpointer kind)
{
	used(kind, 5 * PAGE, 2 * PAGE, false);
	used(kind, 2 * PAGE, 5 * PAGE, true);
	used(kind, 1000, 3000, true);
	used(kind, 1000, 2 * PAGE, true);
}

/* The block stays as it is, and the stream its user, if the resize would have to wait across the edge of a capture. */
static void refused(const struct kind *kind, int captured, const char *word)
{
	struct vpmm_host_graph *graph;
	struct fixture f;
	void *ptr, *given;

	fixture_open_faulty(&f, kind->opts);
	ptr = given = fixture_malloc(&f, 2, f.streams[0]);
	assert_ok(vpmm_use(f.pool, ptr, f.streams[1]));
	begin(&f, f.streams[captured]);
	assert_error(vpmm_realloc(f.pool, &given, 5 * PAGE, f.streams[0]), EBUSY, word);
	assert_error(vpmm_realloc(f.pool, &given, PAGE, f.streams[0]), EBUSY, word);
	g_assert_true(given == ptr);
	assert_ok(vpmm_pool_check(f.pool));
	graph = end(f.streams[captured]);
	assert_ok(vpmm_host_graph_destroy(graph));
	ptr = resize(&f, ptr, PAGE, f.streams[0]);
	fixture_free(&f, ptr, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 0);
	fixture_close(&f);
}

/* A stream under capture cannot be waited for. */
static void test_used_unreachable(gconstpointer kind)
{
	refused(kind, 1, "cannot be waited for");
}

/* A graph cannot wait for a stream outside of it. */
static void test_captured_used(gconstpointer kind)
{
	refused(kind, 0, "a graph cannot wait");
}

/* A retired user is waited for up to where it was retired. */
static void test_user_retired(gconstpointer kind)
{
	struct text written, read;
	struct fixture f;
	void *ptr;

	fixture_open_faulty(&f, ((const struct kind *)kind)->opts);
	ptr = fixture_malloc(&f, 2, f.streams[0]);
	assert_ok(vpmm_use(f.pool, ptr, f.streams[1]));
	write_on(f.streams[1], ptr, 2 * PAGE, &written);
	assert_ok(vpmm_stream_retire(f.pool, f.streams[1]));
	ptr = resize(&f, ptr, 3 * PAGE, f.streams[0]);
	check_on(f.streams[0], ptr, 2 * PAGE, &read, written.seed);
	g_assert_cmpint(vpmm_host_stream_complete(f.streams[0], UINT_MAX), ==, -EBUSY);
	fixture_complete(f.streams[1]);
	fixture_complete(f.streams[0]);
	g_assert_true(read.right);
	fixture_close(&f);
}

/* Under capture it is copied in each launch, and the old memory is the graph's. */
static void test_captured(gconstpointer kind)
{
	struct text written, read;
	struct vpmm_host_graph *graph;
	struct fixture f;
	void *ptr, *old;
	uint64_t id;

	fixture_open_faulty(&f, ((const struct kind *)kind)->opts);
	old = ptr = fixture_malloc(&f, 2, f.streams[0]);
	id = begin(&f, f.streams[0]);
	ptr = resize(&f, ptr, PAGE, f.streams[0]);
	g_assert_true(ptr != old);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 2 * PAGE);
	graph = end(f.streams[0]);
	write_on(f.streams[1], old, 2 * PAGE, &written);
	assert_ok(vpmm_host_graph_launch(graph, f.streams[1]));
	check_on(f.streams[1], ptr, PAGE, &read, written.seed);
	fixture_complete(f.streams[1]);
	g_assert_true(read.right);
	assert_ok(vpmm_host_graph_destroy(graph));
	fixture_free(&f, ptr, f.streams[1]);
	assert_ok(vpmm_graph_retire(f.pool, id, f.streams[1]));
	g_assert_cmpuint(fixture_stats(&f).live, ==, 0);
	fixture_close(&f);
}

/* A block that a graph uses stays the graph's, and the program gets another one. */
static void test_of_graph(gconstpointer kind)
{
	struct text written, read;
	struct vpmm_host_graph *graph;
	struct fixture f;
	void *ptr, *old;
	uint64_t id;

	fixture_open_faulty(&f, ((const struct kind *)kind)->opts);
	id = begin(&f, f.streams[0]);
	old = fixture_malloc(&f, 2, f.streams[0]);
	graph = end(f.streams[0]);
	write_on(f.streams[1], old, 2 * PAGE, &written);
	ptr = resize(&f, old, PAGE, f.streams[1]);
	g_assert_true(ptr != old);
	check_on(f.streams[1], ptr, PAGE, &read, written.seed);
	fixture_complete(f.streams[1]);
	g_assert_true(read.right);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 2 * PAGE);
	assert_ok(vpmm_host_graph_destroy(graph));
	assert_ok(vpmm_graph_retire(f.pool, id, f.streams[1]));
	g_assert_cmpuint(fixture_stats(&f).live, ==, PAGE);
	fixture_close(&f);
}

/* Nothing of a stranger is in what the block gains, nor is anything of it in what it loses. */
static void test_scrubbed(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;

	if (!kind->opts.scrub)
		return g_test_skip("the pool does not clear");
	fixture_open_faulty(&f, kind->opts);
	fixture_leave_secret(&f, 8 * PAGE, f.streams[1]);
	assert_scrubbed(&f, fixture_malloc(&f, 2, f.streams[0]), 2 * PAGE);
	fixture_close(&f);
}

/* What a block had before it became smaller is gone when it becomes larger again, wherever it is then. */
static void test_scrubbed_behind(void)
{
	static const size_t ends[] = { 5000, 4700, 2 * PAGE, 3 * PAGE };
	struct fixture f;
	char *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .scrub = VPMM_SCRUB_ALWAYS });
	for (size_t i = 0; i < G_N_ELEMENTS(ends); i++) {
		for (size_t j = 0; j < G_N_ELEMENTS(ends); j++) {
			ptr = fixture_malloc_bytes(&f, ends[i], f.streams[0]);
			memset(ptr, FIXTURE_SECRET, ends[i]);
			ptr = resize(&f, ptr, ends[i] - 200, f.streams[0]);
			ptr = resize(&f, ptr, ends[j], f.streams[j % 2]);
			g_assert_true(ends[j] <= ends[i] - 200 ||
				      fixture_is_clear(ptr + ends[i] - 200, ends[j] - (ends[i] - 200)));
			fixture_free(&f, ptr, f.streams[0]);
		}
	}
	fixture_close(&f);
}

/* The device has room for the larger block, and not for both. */
static void test_no_room_for_both(gconstpointer data)
{
	const struct kind *kind = data;
	struct vpmm_opts opts = kind->opts;
	struct fixture f;
	char *ptr, *old;
	void *given;

	opts.limit = 8 * PAGE;
	fixture_open_faulty(&f, opts);
	old = fixture_malloc(&f, 8, f.streams[0]);
	old = resize(&f, old, 4 * PAGE, f.streams[0]);
	/* The free half is in the cache of a stream that has work, and as good as taken. */
	ptr = fixture_malloc(&f, 4, f.streams[1]);
	fixture_free_at_work(&f, ptr, f.streams[1]);
	ptr = resize(&f, old, 7 * PAGE, f.streams[0]);
	g_assert_true(ptr == old);
	given = ptr;
	assert_error(vpmm_realloc(f.pool, &given, 9 * PAGE, f.streams[0]), ENOMEM, "vpmm_realloc: ");
	g_assert_true(given == ptr);
	fixture_close(&f);
}

static int give(void *data, struct vpmm_pool *pool, size_t size)
{
	void **spare = data;

	if (!*spare)
		return 0;
	g_assert_cmpuint(size, ==, 6 * PAGE);
	assert_ok(vpmm_free(pool, *spare, NULL));
	*spare = NULL;
	return 1;
}

/* The program is asked for memory, as by vpmm_malloc(). */
static void test_asks(void)
{
	void *spare = NULL;
	struct fixture f;
	void *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 8 * PAGE, .pressure = give,
					     .pressure_data = &spare });
	ptr = fixture_malloc(&f, 2, f.streams[0]);
	spare = fixture_malloc(&f, 6, f.streams[0]);
	resize(&f, ptr, 6 * PAGE, f.streams[0]);
	g_assert_null(spare);
	fixture_close(&f);
}

/* Whichever call of the driver fails, the block is where it was, with its contents. */
static void test_fails(gconstpointer data)
{
	const struct kind *kind = data;
	static const enum backend_op ops[] = { BACKEND_OP_copy, BACKEND_OP_event_record, BACKEND_OP_event_create };
	struct text written, read;
	struct fixture f;
	void *ptr, *given;

	for (size_t i = 0; i < 2 * G_N_ELEMENTS(ops); i++) {
		fixture_open_faulty(&f, kind->opts);
		ptr = given = fixture_malloc(&f, 2, f.streams[0]);
		fixture_malloc(&f, 2, f.streams[0]);
		write_on(f.streams[0], ptr, 2 * PAGE, &written);
		backend_fault_arm(f.pool->core.backend, ops[i / 2], i % 2, 1, -EIO);
		if (vpmm_realloc(f.pool, &given, 4 * PAGE, f.streams[0])) {
			g_assert_true(given == ptr);
			g_assert_cmpuint(fixture_stats(&f).live - fixture_stats(&f).held, ==, 4 * PAGE);
		}
		backend_fault_arm(f.pool->core.backend, ops[i / 2], 0, 0, 0);
		assert_ok(vpmm_pool_check(f.pool));
		check_on(f.streams[0], given, 2 * PAGE, &read, written.seed);
		fixture_complete(f.streams[0]);
		g_assert_true(read.right);
		fixture_free(&f, given, f.streams[0]);
		fixture_close(&f);
	}
}

/* A clear may still be pending when the realloc fails. Its stream was not named, and need not be there later. */
static void test_fails_on_other(void)
{
	struct CUstream_st *other;
	struct fixture f;
	void *ptr;

	for (unsigned int skip = 0; skip < 4; skip++) {
		fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED, .scrub = VPMM_SCRUB_ALWAYS });
		ptr = fixture_malloc(&f, 2, f.streams[0]);
		fixture_complete(f.streams[0]);
		assert_ok(vpmm_host_stream_create(&other));
		backend_fault_arm(f.pool->core.backend, BACKEND_OP_event_record, skip, UINT_MAX, -EIO);
		vpmm_realloc(f.pool, &ptr, 4 * PAGE, other);
		backend_fault_arm(f.pool->core.backend, BACKEND_OP_event_record, 0, 0, 0);
		fixture_complete(other);
		assert_ok(vpmm_host_stream_destroy(other));
		ptr = resize(&f, ptr, 6 * PAGE, f.streams[0]);
		fixture_free(&f, ptr, f.streams[0]);
		fixture_close(&f);
	}
}

/* It belongs among the small ones then, but there is no page for those. */
static void test_shrinks_without_memory(void)
{
	struct fixture f;
	void *ptr;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 3 * PAGE });
	ptr = fixture_malloc(&f, 2, f.streams[0]);
	fixture_malloc(&f, 1, f.streams[0]);
	g_assert_true(resize(&f, ptr, 1000, f.streams[0]) == ptr);
	g_assert_cmpuint(fixture_stats(&f).live, ==, PAGE + 1024);
	fixture_close(&f);
}

/* What a stream freed of its own is not cleared for it. */
static void test_not_scrubbed(void)
{
	struct fixture f;
	uint64_t scrubbed;
	void *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .scrub = VPMM_SCRUB_STREAM });
	ptr = resize(&f, fixture_malloc(&f, 5, f.streams[0]), 2 * PAGE, f.streams[0]);
	scrubbed = fixture_stats(&f).scrubbed;
	resize(&f, ptr, 4 * PAGE, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).scrubbed, ==, scrubbed);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/realloc/malloc-and-free", test_malloc_and_free);
	g_test_add_func("/realloc/bad", test_bad);
	g_test_add_func("/realloc/rounding", test_rounding);
	g_test_add_func("/realloc/slab", test_slab);
	g_test_add_func("/realloc/uncovered", test_uncovered);
	g_test_add_func("/realloc/asks", test_asks);
	g_test_add_func("/realloc/fails-on-other", test_fails_on_other);
	g_test_add_func("/realloc/shrinks-without-memory", test_shrinks_without_memory);
	g_test_add_func("/realloc/not-scrubbed", test_not_scrubbed);
	g_test_add_func("/realloc/scrubbed-behind", test_scrubbed_behind);
	fixture_add_rows("/realloc/contents", kinds, test_contents);
	fixture_add_rows("/realloc/contents-crowded", kinds, test_contents_crowded);
	fixture_add_rows("/realloc/contents-uncached", kinds, test_contents_uncached);
	fixture_add_rows("/realloc/shrinks-where-it-is", kinds, test_shrinks_where_it_is);
	fixture_add_rows("/realloc/grows-where-it-is", kinds, test_grows_where_it_is);
	fixture_add_rows("/realloc/changes-hands", kinds, test_changes_hands);
	fixture_add_rows("/realloc/used", kinds, test_used);
	fixture_add_rows("/realloc/used-unreachable", kinds, test_used_unreachable);
	fixture_add_rows("/realloc/user-retired", kinds, test_user_retired);
	fixture_add_rows("/realloc/captured", kinds, test_captured);
	fixture_add_rows("/realloc/captured-used", kinds, test_captured_used);
	fixture_add_rows("/realloc/of-graph", kinds, test_of_graph);
	fixture_add_rows("/realloc/scrubbed", kinds, test_scrubbed);
	fixture_add_rows("/realloc/no-room-for-both", kinds, test_no_room_for_both);
	fixture_add_rows("/realloc/fails", kinds, test_fails);
	return g_test_run();
}
