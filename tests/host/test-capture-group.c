// SPDX-License-Identifier: LGPL-2.1-or-later
/* What captures of a group have freed serves those that joined it later, and no other request. */
#include <errno.h>

#include "calls/pool.h"
#include "host/capture-group-fixture.h"

static const struct kind kinds[] = { KINDS_EACH };

/* Whether the next capture of the group gets any byte of a range. */
static bool capture_reaches(struct fixture *f, const char *ptr, size_t size)
{
	bool found;

	begin_in(f, f->streams[0], GROUP);
	found = reaches(f, ptr, size, f->streams[0]);
	finish(f->streams[0]);
	return found;
}

static void test_errors(void)
{
	struct fixture f;
	uint64_t id;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	id = begin(&f, f.streams[0]);
	assert_error(vpmm_capture_group(f.pool, 0, GROUP), EINVAL, "capture is 0");
	assert_error(vpmm_capture_group(f.pool, id, 0), EINVAL, "group is 0");
	assert_ok(vpmm_capture_group(f.pool, id, GROUP));
	assert_ok(vpmm_capture_group(f.pool, id, GROUP));
	assert_error(vpmm_capture_group(f.pool, id, GROUP + 1), EINVAL, "in group 7");
	finish(f.streams[0]);
	retire(&f, id, f.streams[0]);
	g_assert_cmpuint(g_hash_table_size(f.pool->pending.graphs), ==, 0);
	g_assert_cmpuint(g_hash_table_size(f.pool->pending.groups), ==, 0);
	fixture_close(&f);
}

/* An id that nobody is captured under has nothing, and goes when it is retired, or with the pool. */
static void test_unknown(void)
{
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_ok(vpmm_capture_group(f.pool, 123456, GROUP));
	assert_ok(vpmm_capture_group(f.pool, 123457, GROUP));
	retire(&f, 123456, f.streams[0]);
	g_assert_cmpuint(g_hash_table_size(f.pool->pending.graphs), ==, 1);
	fixture_close(&f);
}

/* The next capture of the group has it, on whatever stream; no other does. */
static void test_shared(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	uint64_t ids[3];
	char *a, *b;

	fixture_open(&f, kind->opts);
	ids[0] = capture_scratch(&f, kind->size, &a);
	ids[1] = begin(&f, f.streams[0]);
	g_assert_true(fixture_malloc_bytes(&f, kind->size, f.streams[0]) != a);
	finish(f.streams[0]);
	ids[2] = begin_in(&f, f.streams[1], GROUP);
	b = fixture_malloc_bytes(&f, kind->size, f.streams[1]);
	g_assert_true(b == a);
	fixture_free(&f, b, f.streams[1]);
	g_assert_true(fixture_malloc_bytes(&f, kind->size, f.streams[1]) == a);
	finish(f.streams[1]);
	for (int i = 0; i < 3; i++)
		retire(&f, ids[i], f.streams[2]);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	fixture_close(&f);
}

/* Another group does not. */
static void test_other_group(void)
{
	struct fixture f;
	char *a;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	capture_scratch(&f, PAGE, &a);
	begin_in(&f, f.streams[0], GROUP + 1);
	g_assert_true(fixture_malloc_bytes(&f, PAGE, f.streams[0]) != a);
	finish(f.streams[0]);
	fixture_close(&f);
}

/* What a capture freed before it joined is shared as well; so is what it freed after it has ended. */
static void test_joins_late(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	uint64_t id;
	char *a, *b, *c;

	fixture_open(&f, kind->opts);
	id = begin(&f, f.streams[0]);
	a = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	assert_ok(vpmm_capture_group(f.pool, id, GROUP));
	g_assert_true(fixture_malloc_bytes(&f, kind->size, f.streams[0]) == a);
	fixture_free(&f, a, f.streams[0]);
	finish(f.streams[0]);
	id = begin(&f, f.streams[0]);
	b = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	fixture_free(&f, b, f.streams[0]);
	finish(f.streams[0]);
	assert_ok(vpmm_capture_group(f.pool, id, GROUP));
	begin_in(&f, f.streams[0], GROUP);
	c = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	g_assert_true(c == a || c == b);
	c = c == a ? b : a;
	g_assert_true(fixture_malloc_bytes(&f, kind->size, f.streams[0]) == c);
	finish(f.streams[0]);
	fixture_close(&f);
}

/* A step of a model: two blocks, the second of which is a result, and a temporary one that takes their place. */
static void capture_step(struct fixture *f, size_t size)
{
	char *a, *b, *c;

	begin_in(f, f->streams[0], GROUP);
	a = fixture_malloc_bytes(f, 3 * size, f->streams[0]);
	b = fixture_malloc_bytes(f, 2 * size, f->streams[0]);
	c = fixture_malloc_bytes(f, 4 * size, f->streams[0]);
	fixture_free(f, b, f->streams[0]);
	fixture_free(f, c, f->streams[0]);
	c = fixture_malloc_bytes(f, 5 * size, f->streams[0]);
	fixture_free(f, a, f->streams[0]);
	fixture_free(f, c, f->streams[0]);
	finish(f->streams[0]);
}

/* Graphs of all batch sizes take what that of the largest takes. */
static void test_takes_the_largest(gconstpointer data)
{
	const struct kind *kind = data;
	size_t size = kind->size < PAGE ? 8 * kind->size : kind->size;
	struct vpmm_stats first, last;
	struct fixture f;

	fixture_open(&f, kind->opts);
	capture_step(&f, size);
	first = fixture_stats(&f);
	for (size_t part = 8; part > 0; part--)
		capture_step(&f, size * part / 8);
	last = fixture_stats(&f);
	g_assert_cmpuint(last.mapped, ==, first.mapped);
	g_assert_cmpuint(last.held, ==, first.held);
	g_assert_cmpuint(last.live, ==, first.live);
	fixture_close(&f);
}

/* Memory is split for smaller requests of later captures, and merged for larger ones. */
static void test_split_and_merged(gconstpointer data)
{
	const struct kind *mode = data;
	struct fixture f;
	char *all, *parts[4], *again;

	fixture_open(&f, mode->opts);
	capture_scratch(&f, 8 * PAGE, &all);
	begin_in(&f, f.streams[0], GROUP);
	for (int i = 0; i < 4; i++) {
		parts[i] = fixture_malloc(&f, 2, f.streams[0]);
		g_assert_true(parts[i] >= all && parts[i] + 2 * PAGE <= all + 8 * PAGE);
		for (int j = 0; j < i; j++)
			g_assert_true(parts[i] != parts[j]);
	}
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	for (int i = 0; i < 4; i++)
		fixture_free(&f, parts[i], f.streams[0]);
	finish(f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 8 * PAGE);
	begin_in(&f, f.streams[1], GROUP);
	again = fixture_malloc(&f, 8, f.streams[1]);
	g_assert_true(again == all);
	finish(f.streams[1]);
	fixture_close(&f);
}

/* Small results do not break up what a large block of a later graph needs. */
static void test_small_apart(void)
{
	struct fixture f;
	char *all;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	capture_scratch(&f, 8 * PAGE, &all);
	begin_in(&f, f.streams[0], GROUP);
	fixture_malloc_bytes(&f, 512, f.streams[0]);
	g_assert_true(fixture_malloc(&f, 8, f.streams[0]) == all);
	finish(f.streams[0]);
	fixture_close(&f);
}

/* What is not freed by the end of a capture is a result, and no later capture gets it before it is freed. */
static void test_results(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *result;

	fixture_open(&f, kind->opts);
	result = capture_result(&f, kind->size);
	g_assert_false(capture_reaches(&f, result, kind->size));
	fixture_free(&f, result, f.streams[1]);
	g_assert_true(capture_result(&f, kind->size) == result);
	fixture_close(&f);
}

/* A graph cannot wait for who still reads a result: the group gets it when that is done. */
static void test_results_in_use(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *result;

	fixture_open(&f, kind->opts);
	result = capture_result(&f, kind->size);
	assert_ok(vpmm_use(f.pool, result, f.streams[2]));
	assert_ok(vpmm_host_stream_submit(f.streams[1]));
	assert_ok(vpmm_host_stream_submit(f.streams[2]));
	fixture_free(&f, result, f.streams[1]);
	for (int i = 0; i < 2; i++) {
		g_assert_true(capture_result(&f, kind->size) != result);
		fixture_complete(f.streams[1 + i]);
	}
	g_assert_true(capture_result(&f, kind->size) == result);
	fixture_close(&f);
}

/* The default stream cannot be recorded beside a capture, so what it frees is not the group's before the next. */
static void test_freed_on_default_stream(void)
{
	struct fixture f;
	char *result;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	result = capture_result(&f, PAGE);
	begin_in(&f, f.streams[0], GROUP);
	fixture_free(&f, result, NULL);
	g_assert_true(fixture_malloc(&f, 1, f.streams[0]) != result);
	finish(f.streams[0]);
	fixture_free(&f, fixture_malloc(&f, 1, f.streams[1]), f.streams[1]);
	g_assert_true(capture_result(&f, PAGE) == result);
	fixture_close(&f);
}

/* Of two captures at the same time, the graph of the first is launched first, and has nothing of the second. */
static void test_at_the_same_time(void)
{
	struct fixture f;
	char *a, *b;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	begin_in(&f, f.streams[0], GROUP);
	begin_in(&f, f.streams[1], GROUP);
	b = fixture_malloc(&f, 1, f.streams[1]);
	fixture_free(&f, b, f.streams[1]);
	a = fixture_malloc(&f, 1, f.streams[0]);
	g_assert_true(a != b);
	fixture_free(&f, a, f.streams[0]);
	/* The smallest, and lowest, is one of both. */
	g_assert_true(fixture_malloc(&f, 1, f.streams[1]) != fixture_malloc(&f, 1, f.streams[1]));
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	g_assert_false(reaches(&f, b, PAGE, f.streams[0]));
	finish(f.streams[0]);
	finish(f.streams[1]);
	fixture_close(&f);
}

/* Branches of a capture run at the same time, but each of them after the graphs before. */
static void test_branches(void)
{
	struct fixture f;
	char *a, *b;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	capture_scratch(&f, 2 * PAGE, &a);
	begin_in(&f, f.streams[0], GROUP);
	assert_ok(vpmm_host_stream_wait(f.streams[1], f.streams[0]));
	b = fixture_malloc(&f, 2, f.streams[1]);
	g_assert_true(b == a);
	fixture_free(&f, b, f.streams[1]);
	g_assert_true(fixture_malloc(&f, 2, f.streams[0]) != a);
	g_assert_true(fixture_malloc(&f, 2, f.streams[1]) == a);
	assert_ok(vpmm_host_stream_wait(f.streams[0], f.streams[1]));
	finish(f.streams[0]);
	fixture_close(&f);
}

/* What a branch freed that did not allocate it is for later captures, and not for its own. */
static void test_freed_on_branch(void)
{
	struct fixture f;
	char *a;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	begin_in(&f, f.streams[0], GROUP);
	assert_ok(vpmm_host_stream_wait(f.streams[1], f.streams[0]));
	a = fixture_malloc(&f, 1, f.streams[0]);
	fixture_free(&f, a, f.streams[1]);
	g_assert_true(fixture_malloc(&f, 1, f.streams[0]) != a);
	g_assert_true(fixture_malloc(&f, 1, f.streams[1]) != a);
	assert_ok(vpmm_host_stream_wait(f.streams[0], f.streams[1]));
	finish(f.streams[0]);
	g_assert_true(capture_result(&f, PAGE) == a);
	fixture_close(&f);
}

/* What is from before the captures, or of a graph that is in no group, is not shared; once that is retired, it is. */
static void test_of_others(void)
{
	struct fixture f;
	char *before, *used;
	uint64_t other;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	before = fixture_malloc(&f, 1, f.streams[0]);
	begin_in(&f, f.streams[0], GROUP);
	used = fixture_malloc(&f, 1, f.streams[0]);
	fixture_free(&f, before, f.streams[0]);
	finish(f.streams[0]);
	other = begin(&f, f.streams[1]);
	assert_ok(vpmm_use(f.pool, used, f.streams[1]));
	finish(f.streams[1]);
	fixture_free(&f, used, f.streams[0]);
	g_assert_false(capture_reaches(&f, before, PAGE));
	g_assert_false(capture_reaches(&f, used, PAGE));
	retire(&f, other, f.streams[1]);
	g_assert_true(capture_result(&f, PAGE) == used);
	fixture_close(&f);
}

/* A block of a graph of no group outlives it: to the group it is as one from before the captures. */
static void test_outlives_graph(void)
{
	struct fixture f;
	char *block;
	uint64_t other;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	other = begin(&f, f.streams[0]);
	block = fixture_malloc(&f, 1, f.streams[0]);
	finish(f.streams[0]);
	retire(&f, other, f.streams[0]);
	begin_in(&f, f.streams[0], GROUP);
	assert_ok(vpmm_use(f.pool, block, f.streams[0]));
	fixture_free(&f, block, f.streams[0]);
	finish(f.streams[0]);
	g_assert_false(capture_reaches(&f, block, PAGE));
	fixture_close(&f);
}

/* A small block that the driver's allocator has made is held for the graph that freed it, and not shared. */
static void test_of_driver(void)
{
	struct fixture f;
	char *small;
	uint64_t id;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS });
	small = fixture_malloc_bytes(&f, 1000, f.streams[0]);
	id = begin_in(&f, f.streams[0], GROUP);
	fixture_free(&f, small, f.streams[0]);
	finish(f.streams[0]);
	g_assert_true(capture_result(&f, 1000) != small);
	retire(&f, id, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	fixture_close(&f);
}

static const struct kind modes[] = {
	{ "packed", { FIXTURE_PACKED } },
	{ "paged", { FIXTURE_OPTS } },
	{ "block", { FIXTURE_PACKED, .reuse = VPMM_REUSE_BLOCK } },
	{ "paged-block", { FIXTURE_OPTS, .reuse = VPMM_REUSE_BLOCK } },
};

/* A tag that is new has its blocks shared in the group, too, as that had been joined before. */
static void test_new_tag(void)
{
	struct fixture f;
	uint64_t ids[2];
	vpmm_tag tag;
	char *a;

	assert_ok(vpmm_tag_open("new", VPMM_TAG_PAUSABLE, &tag));
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	ids[0] = begin_in(&f, f.streams[0], GROUP);
	vpmm_tag_set(tag);
	a = fixture_malloc(&f, 2, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	finish(f.streams[0]);
	ids[1] = begin_in(&f, f.streams[1], GROUP);
	g_assert_true(fixture_malloc(&f, 2, f.streams[1]) == a);
	vpmm_tag_set(0);
	fixture_free(&f, a, f.streams[1]);
	finish(f.streams[1]);
	for (int i = 0; i < 2; i++)
		retire(&f, ids[i], f.streams[2]);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/capture-group/errors", test_errors);
	g_test_add_func("/capture-group/unknown", test_unknown);
	fixture_add_rows("/capture-group/shared", kinds, test_shared);
	g_test_add_func("/capture-group/other-group", test_other_group);
	fixture_add_rows("/capture-group/joins-late", kinds, test_joins_late);
	fixture_add_rows("/capture-group/takes-the-largest", kinds, test_takes_the_largest);
	fixture_add_rows("/capture-group/split", modes, test_split_and_merged);
	g_test_add_func("/capture-group/small-apart", test_small_apart);
	fixture_add_rows("/capture-group/results", kinds, test_results);
	fixture_add_rows("/capture-group/results-in-use", kinds, test_results_in_use);
	g_test_add_func("/capture-group/default-stream", test_freed_on_default_stream);
	g_test_add_func("/capture-group/at-the-same-time", test_at_the_same_time);
	g_test_add_func("/capture-group/branches", test_branches);
	g_test_add_func("/capture-group/freed-on-branch", test_freed_on_branch);
	g_test_add_func("/capture-group/of-others", test_of_others);
	g_test_add_func("/capture-group/outlives-graph", test_outlives_graph);
	g_test_add_func("/capture-group/of-driver", test_of_driver);
	g_test_add_func("/capture-group/new-tag", test_new_tag);
	return g_test_run();
}
