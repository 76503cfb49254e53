// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The legacy default stream beside a capture, which no event can be recorded on: what is asked for it is done all the
 * same.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "calls/pool.h"
#include "host/capture-fixture.h"
#include "host/host-streams.h"
#include "host/tag-fixture.h"
#include "support/fault.h"

static const struct kind kinds[] = { KINDS_EACH };

/* The driver's allocator wants the stream of a free behind the allocation. */
static const struct kind own_kinds[] = { KIND_PACKED, KIND_SLAB, KIND_PAGED };

static bool is_stuck(struct CUstream_st *stream)
{
	return vpmm_host_stream_complete(stream, 1) == -EBUSY;
}

static bool overlap(const char *a, const char *b, size_t size)
{
	return a < b + size && b < a + size;
}

/* The default stream is at work, another is captured, and the default stream frees. */
static char *freed_beside(struct fixture *f, size_t size, struct CUstream_st *handle)
{
	char *ptr = fixture_malloc_bytes(f, size, f->streams[1]);

	submit(NULL);
	begin(f, f->streams[0]);
	fixture_free(f, ptr, handle);
	return ptr;
}

static void free_is_kept(const struct kind *kind, struct CUstream_st *handle)
{
	struct fixture f;
	char *a, *b;

	fixture_open(&f, kind->opts);
	a = freed_beside(&f, kind->size, handle);
	g_assert_cmpuint(fixture_stats(&f).held, >=, kind->size);
	assert_error(vpmm_free(f.pool, a, NULL), EINVAL, "no allocation");
	finish(f.streams[0]);

	/* Any call does what was left to do. */
	b = fixture_malloc_bytes(&f, kind->size, f.streams[2]);

	g_assert_cmpuint(fixture_stats(&f).held, <=, kind->size);
	submit(f.streams[2]);
	g_assert_true(!overlap(a, b, kind->size) || is_stuck(f.streams[2]));
	fixture_complete(NULL);
	fixture_complete(f.streams[2]);
	fixture_free(&f, b, f.streams[2]);
	fixture_free(&f, fixture_malloc_bytes(&f, kind->size, f.streams[2]), f.streams[2]);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 0);
	fixture_close(&f);
}

static void test_free_is_kept(gconstpointer kind)
{
	free_is_kept(kind, NULL);
}

static void test_free_by_its_handle(gconstpointer kind)
{
	free_is_kept(kind, VPMM_HOST_STREAM_LEGACY);
}

/* Whoever gets the memory comes after the default stream's work. */
static void test_next_comes_after(void)
{
	struct fixture f;
	char *a;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	a = freed_beside(&f, 3 * PAGE, NULL);
	finish(f.streams[0]);

	g_assert_true(fixture_malloc(&f, 3, f.streams[2]) == a);

	submit(f.streams[2]);
	g_assert_true(is_stuck(f.streams[2]));
	fixture_complete(NULL);
	fixture_complete(f.streams[2]);
	fixture_close(&f);
}

/* Once the capture has ended, a use that was noted beside it is one like others. */
static void test_used_is_resized(gconstpointer kind)
{
	const struct kind *k = kind;
	struct fixture f;
	void *ptr;

	fixture_open(&f, k->opts);
	ptr = fixture_malloc_bytes(&f, k->size, f.streams[1]);
	begin(&f, f.streams[0]);
	assert_ok(vpmm_use(f.pool, ptr, NULL));
	finish(f.streams[0]);
	submit(NULL);
	assert_ok(vpmm_realloc(f.pool, &ptr, 2 * k->size, f.streams[1]));
	submit(f.streams[1]);
	g_assert_true(is_stuck(f.streams[1]));
	fixture_complete(NULL);
	fixture_complete(f.streams[1]);
	fixture_free(&f, ptr, f.streams[1]);
	fixture_close(&f);
}

/* The block's own stream had freed it before, without an event, and got it back. */
static void test_earlier_free_is_uncovered(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *a, *b;

	fixture_open(&f, kind->opts);
	fixture_malloc_bytes(&f, kind->size, f.streams[1]);
	a = fixture_malloc_bytes(&f, kind->size, f.streams[1]);
	submit(f.streams[1]);
	fixture_free(&f, a, f.streams[1]);
	a = fixture_malloc_bytes(&f, kind->size, f.streams[1]);
	begin(&f, f.streams[0]);
	fixture_free(&f, a, NULL);
	finish(f.streams[0]);

	for (int i = 0; i < 3; i++) {
		b = fixture_malloc_bytes(&f, kind->size, f.streams[2]);
		submit(f.streams[2]);
		g_assert_true(!overlap(a, b, kind->size) || is_stuck(f.streams[2]));
		fixture_malloc_bytes(&f, kind->size, f.streams[1]);
	}
	fixture_complete(f.streams[1]);
	fixture_complete(f.streams[2]);
	fixture_close(&f);
}

static void test_own_block(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *a;

	fixture_open(&f, kind->opts);
	fixture_malloc_bytes(&f, kind->size, f.streams[1]);
	a = fixture_malloc_bytes(&f, kind->size, NULL);
	submit(NULL);
	fixture_free(&f, a, NULL);
	a = fixture_malloc_bytes(&f, kind->size, NULL);
	begin(&f, f.streams[0]);
	fixture_free(&f, a, NULL);
	g_assert_cmpuint(fixture_stats(&f).held, >=, kind->size);
	finish(f.streams[0]);

	fixture_complete(NULL);
	fixture_malloc_bytes(&f, 2 * kind->size, f.streams[1]);

	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	fixture_close(&f);
}

/* What the default stream gets meanwhile has no work pending, as it cannot be made to wait. */
static void test_malloc(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *a, *b;

	fixture_open(&f, kind->opts);
	a = fixture_malloc_bytes(&f, kind->size, f.streams[1]);
	submit(f.streams[1]);
	fixture_free(&f, a, f.streams[1]);
	begin(&f, f.streams[0]);

	b = fixture_malloc_bytes(&f, kind->size, NULL);

	g_assert_false(overlap(a, b, kind->size));
	memset(b, 1, kind->size);
	fixture_free(&f, b, NULL);
	b = fixture_malloc_bytes(&f, kind->size, NULL);
	finish(f.streams[0]);
	fixture_free(&f, b, NULL);
	fixture_complete(f.streams[1]);
	fixture_free(&f, fixture_malloc_bytes(&f, 2 * kind->size, f.streams[1]), f.streams[1]);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 0);
	fixture_close(&f);
}

static void test_malloc_cannot_be_cleared(gconstpointer data)
{
	const struct kind *kind = data;
	struct vpmm_opts opts = kind->opts;
	void *ptr = NULL;
	struct fixture f;

	opts.scrub = VPMM_SCRUB_ALWAYS;
	fixture_open(&f, opts);
	begin(&f, f.streams[0]);

	assert_error(vpmm_malloc(f.pool, &ptr, kind->size, NULL), EBUSY, "cleared");

	g_assert_null(ptr);
	assert_ok(vpmm_pool_check(f.pool));
	finish(f.streams[0]);
	fixture_close(&f);
}

/* It is not even tried, as that would invalidate the capture. */
static void test_zero(gconstpointer data)
{
	const struct kind *kind = data;
	void *ptr = NULL;
	struct fixture f;

	fixture_open(&f, kind->opts);
	fixture_malloc_bytes(&f, kind->size, f.streams[1]);
	begin(&f, f.streams[0]);

	assert_error(vpmm_malloc_flags(f.pool, &ptr, kind->size, NULL, VPMM_ZERO), EBUSY, "vpmm_malloc_flags");
	assert_error(vpmm_malloc_flags(f.pool, &ptr, kind->size, NULL, VPMM_ZERO | VPMM_IDLE), EBUSY, "cleared");

	g_assert_null(ptr);
	assert_ok(vpmm_pool_check(f.pool));
	finish(f.streams[0]);
	fixture_free(&f, fixture_malloc_bytes(&f, 2 * kind->size, f.streams[1]), f.streams[1]);
	g_assert_cmpuint(fixture_stats(&f).requested, ==, kind->size);
	fixture_close(&f);
}

static void test_realloc(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	void *ptr;

	fixture_open(&f, kind->opts);
	ptr = fixture_malloc_bytes(&f, kind->size, f.streams[1]);
	begin(&f, f.streams[0]);

	assert_error(vpmm_realloc(f.pool, &ptr, 2 * kind->size, NULL), EBUSY, "vpmm_realloc");

	assert_ok(vpmm_pool_check(f.pool));
	finish(f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).requested, ==, kind->size);
	assert_ok(vpmm_realloc(f.pool, &ptr, 2 * kind->size, NULL));
	fixture_close(&f);
}

/* The default stream uses a block, and the free of another stream is behind that. */
static void test_use(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *a, *b;

	fixture_open(&f, kind->opts);
	a = fixture_malloc_bytes(&f, kind->size, f.streams[1]);
	submit(NULL);
	begin(&f, f.streams[0]);
	assert_ok(vpmm_use(f.pool, a, NULL));
	fixture_free(&f, a, f.streams[1]);
	g_assert_cmpuint(fixture_stats(&f).held, >=, kind->size);
	finish(f.streams[0]);

	b = fixture_malloc_bytes(&f, kind->size, f.streams[2]);

	submit(f.streams[2]);
	g_assert_true(!overlap(a, b, kind->size) || is_stuck(f.streams[2]));
	fixture_complete(NULL);
	fixture_complete(f.streams[2]);
	fixture_free(&f, fixture_malloc_bytes(&f, 2 * kind->size, f.streams[2]), f.streams[2]);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	fixture_close(&f);
}

/* Used by a graph as well: both have to be done with it. */
static void test_of_a_graph(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	uint64_t id;
	char *a;

	fixture_open(&f, kind->opts);
	a = fixture_malloc_bytes(&f, kind->size, f.streams[1]);
	id = begin(&f, f.streams[0]);
	assert_ok(vpmm_use(f.pool, a, f.streams[0]));
	fixture_free(&f, a, NULL);
	finish(f.streams[0]);
	fixture_malloc_bytes(&f, kind->size, f.streams[1]);
	g_assert_cmpuint(fixture_stats(&f).held, >=, kind->size);

	assert_ok(vpmm_graph_retire(f.pool, id, f.streams[1]));

	fixture_malloc_bytes(&f, 2 * kind->size, f.streams[1]);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	fixture_close(&f);
}

/* Memory runs out while the capture goes on: the device is waited for. */
static void test_exhausted(void)
{
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 3 * PAGE });
	freed_beside(&f, 3 * PAGE, NULL);

	fixture_malloc(&f, 3, f.streams[2]);

	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	finish(f.streams[0]);
	fixture_close(&f);
}

/* The driver fails to record it: the next call tries again. */
static void test_record_fails(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;

	fixture_open_faulty(&f, kind->opts);
	freed_beside(&f, kind->size, NULL);
	finish(f.streams[0]);
	fixture_complete(NULL);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_event_record, 0, 1, -EIO);

	for (int i = 0; i < 3; i++)
		fixture_free(&f, fixture_malloc_bytes(&f, (size_t)(2 + i) * kind->size, f.streams[2]), f.streams[2]);

	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	fixture_close(&f);
}

static void test_destroy(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;

	fixture_open(&f, kind->opts);
	freed_beside(&f, kind->size, NULL);
	finish(f.streams[0]);
	fixture_complete(NULL);
	fixture_close(&f);
}

#define TAG_PAGES 12

/* What the default stream used of a tag is freed beside a capture. No call without the tag ends that free. */
static void free_of_tag(struct fixture *f, vpmm_tag tag, bool paused)
{
	void *ptr = tag_malloc(f->pool, tag, TAG_PAGES * PAGE, 1, f->streams[1]);

	assert_ok(vpmm_use(f->pool, ptr, NULL));
	if (paused)
		assert_ok(vpmm_pause(f->pool, tag, 0));
	begin(f, f->streams[0]);
	fixture_free(f, ptr, f->streams[1]);
	finish(f->streams[0]);
	g_assert_cmpuint(fixture_stats(f).held, ==, TAG_PAGES * PAGE);
}

/* A request without the tag gets the memory rather than fail. */
static void test_tag_exhausted(void)
{
	vpmm_tag tag = tag_get("default", VPMM_TAG_PAUSABLE);
	struct fixture f;

	g_setenv("VPMM_HOST_CAPACITY", "32M", TRUE);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	g_unsetenv("VPMM_HOST_CAPACITY");
	free_of_tag(&f, tag, false);
	fixture_malloc(&f, 14, f.streams[2]);
	g_assert_cmpuint(tag_stats(f.pool, tag).mapped, ==, 0);
	fixture_close(&f);
}

/* A small block of the driver's allocator keeps as much of the device as that takes at once. */
static void test_tag_small(void)
{
	vpmm_tag tag = tag_get("default", VPMM_TAG_PAUSABLE);
	struct fixture f;
	void *ptr;

	g_setenv("VPMM_HOST_CAPACITY", "64M", TRUE);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .small = VPMM_SMALL_DRIVER });
	g_unsetenv("VPMM_HOST_CAPACITY");
	ptr = tag_malloc(f.pool, tag, 4096, 1, f.streams[1]);
	assert_ok(vpmm_use(f.pool, ptr, NULL));
	begin(&f, f.streams[0]);
	fixture_free(&f, ptr, f.streams[1]);
	finish(f.streams[0]);
	fixture_malloc(&f, 20, f.streams[2]);
	fixture_close(&f);
}

/* A pause does not save it, and it gets no memory again. */
static void test_tag_paused(void)
{
	vpmm_tag tag = tag_get("default", VPMM_TAG_PAUSABLE);
	struct fixture f;

	for (int before = 0; before < 2; before++) {
		fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
		free_of_tag(&f, tag, before);
		assert_ok(vpmm_pause(f.pool, tag, 0));
		g_assert_cmpuint(tag_stats(f.pool, tag).saved, ==, before ? TAG_PAGES * PAGE : 0);
		assert_ok(vpmm_resume(f.pool, tag, f.streams[1]));
		g_assert_cmpuint(tag_stats(f.pool, tag).mapped, ==, 0);
		fixture_close(&f);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	fixture_add_rows("/capture-default/free-is-kept", kinds, test_free_is_kept);
	fixture_add_rows("/capture-default/free-by-its-handle", kinds, test_free_by_its_handle);
	g_test_add_func("/capture-default/next-comes-after", test_next_comes_after);
	fixture_add_rows("/capture-default/earlier-free-is-uncovered", own_kinds, test_earlier_free_is_uncovered);
	fixture_add_rows("/capture-default/own-block", kinds, test_own_block);
	fixture_add_rows("/capture-default/malloc", kinds, test_malloc);
	fixture_add_rows("/capture-default/malloc-cannot-be-cleared", kinds, test_malloc_cannot_be_cleared);
	fixture_add_rows("/capture-default/zero", kinds, test_zero);
	fixture_add_rows("/capture-default/realloc", kinds, test_realloc);
	fixture_add_rows("/capture-default/use", kinds, test_use);
	fixture_add_rows("/capture-default/used-is-resized", kinds, test_used_is_resized);
	fixture_add_rows("/capture-default/of-a-graph", kinds, test_of_a_graph);
	g_test_add_func("/capture-default/exhausted", test_exhausted);
	fixture_add_rows("/capture-default/record-fails", kinds, test_record_fails);
	fixture_add_rows("/capture-default/destroy", kinds, test_destroy);
	g_test_add_func("/capture-default/tag-exhausted", test_tag_exhausted);
	g_test_add_func("/capture-default/tag-small", test_tag_small);
	g_test_add_func("/capture-default/tag-paused", test_tag_paused);
	return g_test_run();
}
