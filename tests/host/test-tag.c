// SPDX-License-Identifier: LGPL-2.1-or-later
/* Tags: names, threads, counts, limits, and that pausable ones share no memory with others. */
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/tag-fixture.h"

static void test_names(void)
{
	char longest[65];
	vpmm_tag tag, other;

	memset(longest, 'x', 64);
	longest[64] = '\0';
	tag = tag_get("names", 0);
	g_assert_cmpuint(tag_get("names", 0), ==, tag);
	other = tag_get("names too", VPMM_TAG_PAUSABLE);
	g_assert_cmpuint(other, !=, tag);
	assert_error(vpmm_tag_open("names", VPMM_TAG_PAUSABLE, &other), EINVAL, "names");
	assert_error(vpmm_tag_open("names", 0x10, &other), EINVAL, "flags");
	assert_error(vpmm_tag_open(NULL, 0, &other), EINVAL, "NULL");
	assert_error(vpmm_tag_open("", 0, &other), EINVAL, "empty");
	assert_error(vpmm_tag_open("a\nb", 0, &other), EINVAL, "control characters: expected");
	assert_error(vpmm_tag_open(longest, 0, &other), EINVAL, "name");
	assert_error(vpmm_tag_open("names", 0, NULL), EINVAL, "NULL");
	longest[63] = '\0';
	tag_get(longest, 0);
}

static void *read_tag(void *data)
{
	(void)data;
	return GUINT_TO_POINTER(vpmm_tag_set(0));
}

static void test_threads(void)
{
	vpmm_tag a = tag_get("a", 0), b = tag_get("b", VPMM_TAG_PAUSABLE);
	GThread *thread;

	g_assert_cmpuint(vpmm_tag_set(a), ==, 0);
	g_assert_cmpuint(vpmm_tag_set(b | VPMM_TAG_DROP), ==, a);
	thread = g_thread_new("other", read_tag, NULL);
	g_assert_cmpuint(GPOINTER_TO_UINT(g_thread_join(thread)), ==, 0);
	errno = 0;
	g_assert_cmpuint(vpmm_tag_set(12345), ==, (b | VPMM_TAG_DROP));
	g_assert_cmpint(errno, ==, EINVAL);
	g_assert_cmpuint(vpmm_tag_set(VPMM_TAG_STAY), ==, (b | VPMM_TAG_DROP));
	g_assert_cmpuint(vpmm_tag_set(0), ==, 0);
}

/* Of each kind of tag, in each kind of pool: what is counted is what there is. */
static void test_counts(void)
{
	const struct vpmm_opts opts[] = { { FIXTURE_PACKED }, { FIXTURE_OPTS } };
	const unsigned int flags[] = { 0, VPMM_TAG_PAUSABLE };
	const size_t sizes[] = { 1000, PAGE, 3 * PAGE + 1 };
	struct vpmm_tag_stats stats;
	struct fixture f;
	vpmm_tag tag;
	void *ptrs[3];

	for (int i = 0; i < 4; i++) {
		fixture_open(&f, opts[i / 2]);
		tag = tag_get(flags[i % 2] ? "pausable" : "label", flags[i % 2]);
		fixture_malloc(&f, 1, f.streams[0]);
		for (int j = 0; j < 3; j++)
			ptrs[j] = tag_malloc(f.pool, tag, sizes[j], 1, f.streams[0]);
		stats = tag_stats(f.pool, tag);
		g_assert_cmpuint(stats.blocks, ==, 3);
		g_assert_cmpuint(stats.requested, ==, 1000 + 4 * PAGE + 1);
		g_assert_cmpuint(stats.live, >=, stats.requested);
		g_assert_cmpuint(stats.peak_live, ==, stats.live);
		g_assert_cmpuint(stats.mapped, >=, stats.live);
		g_assert_cmpuint(stats.paused + stats.saved + stats.limit, ==, 0);
		g_assert_cmpuint(stats.live + PAGE, ==, fixture_stats(&f).live + fixture_stats(&f).small_live);
		g_assert_cmpuint(fixture_stats(&f).requested, ==, stats.requested + PAGE);
		for (int j = 0; j < 3; j++)
			fixture_free(&f, ptrs[j], f.streams[0]);
		assert_error(vpmm_free(f.pool, ptrs[0], f.streams[0]), EINVAL, "");
		stats = tag_stats(f.pool, tag);
		g_assert_cmpuint(stats.blocks + stats.requested + stats.live, ==, 0);
		g_assert_cmpuint(stats.peak_live, >=, 4 * PAGE + 1001);
		assert_ok(vpmm_pool_reset_peaks(f.pool));
		g_assert_cmpuint(tag_stats(f.pool, tag).peak_live, ==, 0);
		fixture_close(&f);
	}
}

/* A block keeps its tag; so does one that had none. */
static void test_realloc(void)
{
	vpmm_tag tag = tag_get("pausable", VPMM_TAG_PAUSABLE), label = tag_get("label", 0);
	void *ptr, *grown = NULL, *plain;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	ptr = tag_malloc(f.pool, tag, PAGE, 7, f.streams[0]);
	plain = fixture_malloc(&f, 1, f.streams[0]);
	vpmm_tag_set(label);
	assert_ok(vpmm_realloc(f.pool, &ptr, 5 * PAGE, f.streams[0]));
	assert_ok(vpmm_realloc(f.pool, &plain, 2 * PAGE, f.streams[0]));
	g_assert_true(tag_is_filled(ptr, PAGE, 7));
	g_assert_cmpuint(tag_stats(f.pool, tag).live, ==, 5 * PAGE);
	g_assert_cmpuint(tag_stats(f.pool, label).blocks, ==, 0);
	assert_ok(vpmm_malloc_growable(f.pool, &grown, PAGE, 8 * PAGE, f.streams[0]));
	assert_ok(vpmm_realloc(f.pool, &grown, 6 * PAGE, f.streams[0]));
	g_assert_cmpuint(tag_stats(f.pool, label).live, ==, 6 * PAGE);
	vpmm_tag_set(0);
	assert_ok(vpmm_realloc(f.pool, &ptr, PAGE / 2, f.streams[0]));
	g_assert_cmpuint(tag_stats(f.pool, tag).live, ==, PAGE / 2);
	assert_ok(vpmm_realloc(f.pool, &ptr, 0, f.streams[0]));
	g_assert_cmpuint(tag_stats(f.pool, tag).live, ==, 0);
	fixture_close(&f);
}

static void test_limit(void)
{
	const unsigned int flags[] = { 0, VPMM_TAG_PAUSABLE };
	struct fixture f;
	vpmm_tag tag;
	void *ptr, *more;

	for (int i = 0; i < 2; i++) {
		fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
		tag = tag_get(flags[i] ? "pausable" : "label", flags[i]);
		assert_ok(vpmm_tag_limit(f.pool, tag, 4 * PAGE));
		g_assert_cmpuint(tag_stats(f.pool, tag).limit, ==, 4 * PAGE);
		ptr = tag_malloc(f.pool, tag, 3 * PAGE, 3, f.streams[0]);
		more = &more;
		vpmm_tag_set(tag);
		assert_error(vpmm_malloc(f.pool, &more, 2 * PAGE, f.streams[0]), ENOMEM, "tag");
		g_assert_true(more == &more);
		assert_error(vpmm_realloc(f.pool, &ptr, 5 * PAGE, f.streams[0]), ENOMEM, "tag");
		g_assert_true(g_str_has_prefix(vpmm_last_error(), "vpmm_realloc: "));
		g_assert_cmpuint(tag_stats(f.pool, tag).live, ==, 3 * PAGE);
		assert_ok(vpmm_realloc(f.pool, &ptr, 4 * PAGE, f.streams[0]));
		vpmm_tag_set(0);
		assert_ok(vpmm_malloc(f.pool, &more, 2 * PAGE, f.streams[0]));
		assert_ok(vpmm_tag_limit(f.pool, tag, 0));
		tag_malloc(f.pool, tag, 9 * PAGE, 3, f.streams[0]);
		fixture_close(&f);
	}
	assert_error(vpmm_tag_limit(NULL, 0, 1), EINVAL, "tag 0");
}

struct heard {
	vpmm_tag tag;
	unsigned int times;
	struct vpmm_tag_stats stats;
};

static void hear(void *data, struct vpmm_pool *pool, size_t size, const char *message)
{
	struct heard *heard = data;

	(void)size;
	(void)message;
	heard->times++;
	heard->stats = tag_stats(pool, heard->tag);
}

/* A request that fails was never live, also while a callback learns of the failure; what it was to resize stays so. */
static void test_while_it_fails(void)
{
	struct heard heard = { .times = 0 };
	void *ptr, *more = NULL;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 4 * PAGE, .exhausted = hear,
					     .pressure_data = &heard });
	heard.tag = tag_get("label", 0);
	ptr = tag_malloc(f.pool, heard.tag, 3 * PAGE, 1, f.streams[0]);
	vpmm_tag_set(heard.tag);
	for (unsigned int i = 1; i <= 2; i++) {
		assert_error(i == 1 ? vpmm_malloc(f.pool, &more, 3 * PAGE, f.streams[0]) :
			     vpmm_realloc(f.pool, &ptr, 6 * PAGE, f.streams[0]), ENOMEM, "limit");
		g_assert_cmpuint(heard.times, ==, i);
		g_assert_cmpuint(heard.stats.blocks, ==, 1);
		g_assert_cmpuint(heard.stats.requested, ==, 3 * PAGE);
		g_assert_cmpuint(heard.stats.live, ==, 3 * PAGE);
		g_assert_cmpuint(heard.stats.peak_live, ==, 3 * PAGE);
	}
	vpmm_tag_set(0);
	fixture_close(&f);
}

/* Of a tag that is paused the driver's blocks have memory, but not those that were freed and whose free is deferred. */
static void test_paused_beside_driver(void)
{
	struct vpmm_tag_stats stats;
	struct fixture f;
	void *small[2];
	vpmm_tag tag;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .small = VPMM_SMALL_DRIVER });
	tag = tag_get("pausable", VPMM_TAG_PAUSABLE);
	tag_malloc(f.pool, tag, 3 * PAGE, 1, f.streams[0]);
	for (unsigned int i = 0; i < 2; i++)
		small[i] = tag_malloc(f.pool, tag, 1000, 2, f.streams[0]);
	assert_ok(vpmm_use(f.pool, small[0], f.streams[1]));
	assert_ok(vpmm_pause(f.pool, tag, 0));
	assert_ok(vpmm_host_stream_submit(f.streams[1]));
	assert_ok(vpmm_free(f.pool, small[0], f.streams[0]));
	g_assert_cmpuint(fixture_stats(&f).held, ==, 1000);
	stats = tag_stats(f.pool, tag);
	g_assert_cmpuint(stats.live, ==, 3 * PAGE + 1000);
	g_assert_cmpuint(stats.kept, ==, 1000);
	g_assert_cmpuint(stats.mapped, ==, 1000);
	g_assert_cmpuint(stats.paused, ==, 3 * PAGE);
	g_assert_cmpuint(fixture_stats(&f).paused, ==, stats.paused);
	assert_ok(vpmm_resume(f.pool, tag, f.streams[0]));
	fixture_close(&f);
}

static int malloc_growable(struct vpmm_pool *pool, void **ptr, struct CUstream_st *stream)
{
	return vpmm_malloc_growable(pool, ptr, 1000, 8 * PAGE, stream);
}

static int malloc_shareable(struct vpmm_pool *pool, void **ptr, struct CUstream_st *stream)
{
	return vpmm_malloc_flags(pool, ptr, 1000, stream, VPMM_SHAREABLE);
}

static int malloc_aligned(struct vpmm_pool *pool, void **ptr, struct CUstream_st *stream)
{
	return vpmm_malloc_aligned(pool, ptr, 1000, PAGE / 2, stream);
}

static int malloc_idle(struct vpmm_pool *pool, void **ptr, struct CUstream_st *stream)
{
	return vpmm_malloc_flags(pool, ptr, 1000, stream, VPMM_IDLE);
}

/* Blocks that have a page for less; @paged: in a pool that leaves less than a page to the driver. */
static const struct whole {
	const char *name;
	int (*call)(struct vpmm_pool *pool, void **ptr, struct CUstream_st *stream);
	bool paged;
} wholes[] = {
	{ "growable", malloc_growable, false },
	{ "growable-paged", malloc_growable, true },
	{ "shareable", malloc_shareable, false },
	{ "shareable-paged", malloc_shareable, true },
	{ "aligned", malloc_aligned, true },
	{ "idle", malloc_idle, true },
};

/* Such blocks count as the pool counts them, and the limit of the tag bounds that. */
static void test_whole(gconstpointer data)
{
	const struct vpmm_opts opts[] = { { FIXTURE_PACKED, .export_as = VPMM_EXPORT_FD },
					  { FIXTURE_OPTS, .export_as = VPMM_EXPORT_FD } };
	const unsigned int flags[] = { 0, VPMM_TAG_PAUSABLE };
	const struct whole *it = data;
	struct vpmm_stats stats;
	void *ptrs[2], *none;
	struct fixture f;
	vpmm_tag tag;

	for (int i = 0; i < 2; i++) {
		fixture_open(&f, opts[it->paged]);
		tag = tag_get(flags[i] ? "pausable" : "label", flags[i]);
		assert_ok(vpmm_tag_limit(f.pool, tag, 2 * PAGE));
		vpmm_tag_set(tag);
		for (int j = 0; j < 2; j++)
			assert_ok(it->call(f.pool, &ptrs[j], f.streams[0]));
		assert_error(it->call(f.pool, &none, f.streams[0]), ENOMEM, ": limit: ");
		vpmm_tag_set(0);
		stats = fixture_stats(&f);
		g_assert_cmpuint(stats.live + stats.shareable, ==, 2 * PAGE);
		g_assert_cmpuint(tag_stats(f.pool, tag).live, ==, 2 * PAGE);
		g_assert_cmpuint(tag_stats(f.pool, tag).requested, ==, 2000);
		for (int j = 0; j < 2; j++)
			fixture_free(&f, ptrs[j], f.streams[0]);
		g_assert_cmpuint(tag_stats(f.pool, tag).live, ==, 0);
		fixture_close(&f);
	}
}

/* What a block keeps when it shrinks counts. */
static void test_whole_resized(void)
{
	vpmm_tag tag = tag_get("label", 0);
	struct fixture f;
	void *grown;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = 4 * PAGE });
	vpmm_tag_set(tag);
	assert_ok(vpmm_malloc_growable(f.pool, &grown, 4 * PAGE, 8 * PAGE, f.streams[0]));
	assert_ok(vpmm_tag_limit(f.pool, tag, 6 * PAGE));
	for (size_t size = PAGE; size <= 6 * PAGE; size += 5 * PAGE) {
		assert_ok(vpmm_realloc(f.pool, &grown, size, f.streams[0]));
		g_assert_cmpuint(tag_stats(f.pool, tag).live, ==, fixture_stats(&f).live);
	}
	assert_error(vpmm_realloc(f.pool, &grown, 6 * PAGE + 1, f.streams[0]), ENOMEM, ": limit: ");
	assert_ok(vpmm_realloc(f.pool, &grown, 3 * PAGE, f.streams[0]));
	g_assert_cmpuint(tag_stats(f.pool, tag).live, ==, fixture_stats(&f).live);
	assert_error(vpmm_realloc(f.pool, &grown, 7 * PAGE, f.streams[0]), ENOMEM, ": limit: ");
	g_assert_cmpuint(tag_stats(f.pool, tag).live, ==, fixture_stats(&f).live);
	vpmm_tag_set(0);
	fixture_close(&f);
}

/* In a capture the driver's allocator serves no small block, which has a page then. */
static void test_whole_captured(void)
{
	vpmm_tag tag = tag_get("label", 0);
	struct vpmm_host_graph *graph;
	void *captured, *none;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS });
	vpmm_tag_set(tag);
	assert_ok(vpmm_host_capture_begin(f.streams[0]));
	assert_ok(vpmm_malloc(f.pool, &captured, 1000, f.streams[0]));
	assert_ok(vpmm_tag_limit(f.pool, tag, PAGE));
	assert_error(vpmm_malloc(f.pool, &none, 1000, f.streams[0]), ENOMEM, ": limit: ");
	vpmm_tag_set(0);
	assert_ok(vpmm_host_capture_end(f.streams[0], &graph));
	fixture_keep_graph(graph);
	g_assert_cmpuint(tag_stats(f.pool, tag).live, ==, PAGE);
	g_assert_cmpuint(fixture_stats(&f).live, ==, PAGE);
	fixture_close(&f);
}

/* A pool's limit bounds all of its arenas, and what one has free another gets before a request fails. */
static void test_pool_limit(void)
{
	vpmm_tag tag = tag_get("pausable", VPMM_TAG_PAUSABLE);
	void *ptrs[2], *ptr;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 8 * PAGE });
	ptrs[0] = tag_malloc(f.pool, tag, 4 * PAGE, 1, f.streams[0]);
	ptrs[1] = fixture_malloc(&f, 3, f.streams[0]);
	assert_error(vpmm_malloc(f.pool, &ptr, 2 * PAGE, f.streams[0]), ENOMEM, "limit");
	fixture_free(&f, ptrs[0], f.streams[0]);
	ptr = fixture_malloc(&f, 5, f.streams[1]);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 8 * PAGE);
	fixture_free(&f, ptr, f.streams[1]);
	fixture_free(&f, ptrs[1], f.streams[1]);
	tag_malloc(f.pool, tag, 7 * PAGE, 1, f.streams[2]);
	g_assert_cmpuint(fixture_stats(&f).mapped, <=, 8 * PAGE);
	fixture_close(&f);
}

/* What a trim is to keep it keeps of the pool and its tags together, allocated memory included, whoever has that. */
static void test_trim(void)
{
	vpmm_tag tag = tag_get("pausable", VPMM_TAG_PAUSABLE);
	void *ptrs[2], *live;
	size_t released;
	struct fixture f;

	for (int i = 0; i < 2; i++) {
		fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE });
		fixture_uncache(&f);
		/* The one has allocated memory, and the other free memory. */
		live = tag_malloc(f.pool, i ? 0 : tag, 10 * PAGE, 1, f.streams[0]);
		ptrs[0] = tag_malloc(f.pool, i ? tag : 0, 6 * PAGE, 1, f.streams[0]);
		fixture_free(&f, ptrs[0], f.streams[0]);
		assert_ok(vpmm_stream_retire(f.pool, f.streams[0]));
		g_assert_cmpuint(fixture_stats(&f).mapped, ==, 16 * PAGE);
		assert_ok(vpmm_pool_trim(f.pool, 16 * PAGE, &released));
		g_assert_cmpuint(released, ==, 0);
		assert_ok(vpmm_pool_trim(f.pool, 12 * PAGE, &released));
		g_assert_cmpuint(released, ==, 4 * PAGE);
		assert_ok(vpmm_pool_trim(f.pool, 10 * PAGE, &released));
		g_assert_cmpuint(released, ==, 2 * PAGE);
		g_assert_cmpuint(fixture_stats(&f).mapped, ==, 10 * PAGE);
		fixture_free(&f, live, f.streams[0]);
		fixture_close(&f);
	}
	/* A paused tag holds nothing. */
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE });
	fixture_uncache(&f);
	ptrs[0] = tag_malloc(f.pool, tag, 4 * PAGE, 1, f.streams[0]);
	ptrs[1] = fixture_malloc(&f, 6, f.streams[0]);
	fixture_free(&f, ptrs[1], f.streams[0]);
	assert_ok(vpmm_stream_retire(f.pool, f.streams[0]));
	assert_ok(vpmm_pause(f.pool, tag, 0));
	assert_ok(vpmm_pool_trim(f.pool, 4 * PAGE, &released));
	g_assert_cmpuint(released, ==, 2 * PAGE);
	assert_ok(vpmm_resume(f.pool, tag, f.streams[0]));
	fixture_free(&f, ptrs[0], f.streams[0]);
	fixture_close(&f);
}

/* Calls on blocks and pools reach what a tag has. */
static void test_calls(void)
{
	vpmm_tag tag = tag_get("pausable", VPMM_TAG_PAUSABLE);
	struct vpmm_allocation found = { .size = sizeof(found) };
	size_t released;
	struct fixture f;
	char *dump, *ptr;

	assert_ok(vpmm_pool_create(&f.pool, &(struct vpmm_opts){ FIXTURE_PACKED }));
	for (int i = 0; i < STREAMS; i++)
		assert_ok(vpmm_host_stream_create(&f.streams[i]));
	f.log = NULL;
	vpmm_tag_set(tag);
	assert_ok(vpmm_malloc_flags(f.pool, (void **)&ptr, PAGE, f.streams[0], VPMM_ZERO));
	vpmm_tag_set(0);
	g_assert_true(fixture_is_clear(ptr, PAGE));
	assert_ok(vpmm_lookup(ptr + 5, &found));
	g_assert_true(found.pool == f.pool && found.base == ptr && found.bytes == PAGE);
	assert_ok(vpmm_use(f.pool, ptr, f.streams[1]));
	dump = fixture_dump(&f);
	g_assert_nonnull(strstr(dump, "tag: pausable\n"));
	free(dump);
	assert_ok(vpmm_stream_retire(f.pool, f.streams[1]));
	assert_ok(vpmm_free(NULL, ptr, f.streams[0]));
	assert_ok(vpmm_pool_trim(f.pool, 0, &released));
	g_assert_cmpuint(released, ==, PAGE);
	g_assert_cmpuint(tag_stats(f.pool, tag).mapped, ==, 0);
	for (int i = 0; i < STREAMS; i++)
		assert_ok(vpmm_host_stream_destroy(f.streams[i]));
	vpmm_pool_destroy(f.pool);
	fixture_assert_nothing_left();
}

/* Threads with tags of their own, beside one without. */
static void test_beside(void)
{
	struct tag_worker workers[3];
	GThread *threads[3];
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (int i = 0; i < 3; i++) {
		workers[i] = (struct tag_worker){ f.pool, i == 2 ? 0 : tag_get(i ? "pausable" : "label", (unsigned int)i),
						  .turns = 400 };
		threads[i] = g_thread_new("worker", tag_work, &workers[i]);
	}
	for (int i = 0; i < 3; i++)
		g_thread_join(threads[i]);
	g_assert_cmpuint(tag_stats(f.pool, workers[0].tag).live + tag_stats(f.pool, workers[1].tag).live, ==, 0);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 0);
	fixture_close(&f);
}

static void *allocate_first(void *data)
{
	struct vpmm_pool *pool = data;
	void *ptr;

	vpmm_tag_set(tag_get("pausable", VPMM_TAG_PAUSABLE));
	assert_ok(vpmm_malloc(pool, &ptr, PAGE, NULL));
	return ptr;
}

static int retire(struct vpmm_pool *pool)
{
	return vpmm_stream_retire(pool, NULL);
}

/*
 * A call for all of a pool may run while another thread allocates its first tagged block. TSan would tell: it makes no
 * call behind it, which would order the two.
 */
static void test_first(void)
{
	static int (*const calls[])(struct vpmm_pool *pool) = { vpmm_pool_check, retire, vpmm_pool_reset_peaks };
	struct vpmm_pool *pool;
	GThread *thread;

	for (size_t i = 0; i < G_N_ELEMENTS(calls); i++) {
		assert_ok(vpmm_pool_create(&pool, &(struct vpmm_opts){ FIXTURE_PACKED }));
		thread = g_thread_new("first", allocate_first, pool);
		assert_ok(calls[i](pool));
		assert_ok(vpmm_free(pool, g_thread_join(thread), NULL));
		vpmm_pool_destroy(pool);
	}
}

/* A child that was forked gets an error, and waits for no lock. */
static void test_fork(void)
{
	vpmm_tag tag = tag_get("pausable", VPMM_TAG_PAUSABLE);
	struct vpmm_tag_stats stats = { .size = sizeof(stats) };
	struct vpmm_pool *pool;
	void *ptr;
	int status;
	pid_t pid;

	assert_ok(vpmm_pool_create(&pool, &(struct vpmm_opts){ FIXTURE_PACKED }));
	vpmm_tag_set(tag);
	assert_ok(vpmm_malloc(pool, &ptr, PAGE, NULL));
	pid = fork();
	if (!pid)
		_exit(vpmm_malloc(pool, &ptr, PAGE, NULL) == -EBUSY && vpmm_free(pool, ptr, NULL) == -EBUSY &&
		      vpmm_tag_stats(pool, tag, &stats) == -EBUSY && vpmm_pause(pool, tag, 0) == -EBUSY &&
		      vpmm_resume(pool, tag, NULL) == -EBUSY && vpmm_tag_open("x", 0, &tag) == -EBUSY ? 0 : 1);
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	g_assert_cmpint(status, ==, 0);
	vpmm_tag_set(0);
	assert_ok(vpmm_free(pool, ptr, NULL));
	vpmm_pool_destroy(pool);
}

/* The last of them, as a tag is for ever. */
static void test_most(void)
{
	vpmm_tag tag = 0;
	char name[16];
	int err = 0;

	for (int i = 0; i < 256 && !err; i++) {
		g_snprintf(name, sizeof(name), "tag %d", i);
		err = vpmm_tag_open(name, 0, &tag);
	}
	g_assert_cmpint(err, ==, -ENOSPC);
	g_assert_cmpuint(tag, ==, 255);
}

/* The most that a pool and its arenas took together is exact, whenever statistics are read. */
static void test_peak(void)
{
	vpmm_tag tag = tag_get("peak", VPMM_TAG_PAUSABLE);
	void *tagged, *other;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (size_t pages = 3; pages <= 4; pages++) {
		tagged = tag_malloc(f.pool, tag, 2 * PAGE, 1, f.streams[0]);
		if (pages == 4)
			assert_ok(vpmm_pause(f.pool, tag, 0));
		other = fixture_malloc(&f, pages, f.streams[0]);
		if (pages == 4)
			assert_ok(vpmm_resume(f.pool, tag, VPMM_STREAM_ANY));
		assert_ok(vpmm_free(f.pool, tagged, f.streams[0]));
		assert_ok(vpmm_free(f.pool, other, f.streams[0]));
		assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
		g_assert_cmpuint(fixture_stats(&f).peak_taken, ==, (2 + pages) * PAGE);
		assert_ok(vpmm_pool_reset_peaks(f.pool));
		g_assert_cmpuint(fixture_stats(&f).peak_taken, ==, fixture_stats(&f).mapped);
	}
	fixture_close(&f);
}

/* A block that a log callback frees, and allocates anew, while a free of it fails. */
struct again {
	struct vpmm_pool *pool;
	vpmm_tag tag;
	void *ptr;
};

static void free_and_allocate(void *data, int level, const char *message)
{
	struct again *again = data;
	void *ptr = again->ptr;

	(void)level;
	(void)message;
	assert_ok(vpmm_free(again->pool, ptr, NULL));
	again->ptr = tag_malloc(again->pool, again->tag, PAGE, 1, NULL);
	g_assert_true(again->ptr == ptr);
}

/* The count of a tag is right again once the block that has the address is freed. */
static void test_freed_meanwhile(void)
{
	struct again again = { .tag = tag_get("freed meanwhile", 0) };
	const struct vpmm_opts opts = { FIXTURE_PACKED, .log = free_and_allocate, .log_data = &again,
					.log_level = VPMM_LOG_ERROR };
	int nowhere;

	assert_ok(vpmm_pool_create(&again.pool, &opts));
	again.ptr = tag_malloc(again.pool, again.tag, PAGE, 1, NULL);
	assert_error(vpmm_free(again.pool, again.ptr, (struct CUstream_st *)&nowhere), EINVAL, "not a stream");
	g_assert_cmpuint(tag_stats(again.pool, again.tag).blocks, ==, 1);
	assert_ok(vpmm_free(again.pool, again.ptr, NULL));
	g_assert_cmpuint(tag_stats(again.pool, again.tag).blocks, ==, 0);
	g_assert_cmpuint(tag_stats(again.pool, again.tag).live, ==, 0);
	vpmm_pool_destroy(again.pool);
	fixture_assert_nothing_left();
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/tag/names", test_names);
	g_test_add_func("/tag/threads", test_threads);
	g_test_add_func("/tag/counts", test_counts);
	g_test_add_func("/tag/realloc", test_realloc);
	g_test_add_func("/tag/limit", test_limit);
	g_test_add_func("/tag/while-it-fails", test_while_it_fails);
	g_test_add_func("/tag/paused-beside-driver", test_paused_beside_driver);
	fixture_add_rows("/tag/whole", wholes, test_whole);
	g_test_add_func("/tag/whole-resized", test_whole_resized);
	g_test_add_func("/tag/whole-captured", test_whole_captured);
	g_test_add_func("/tag/pool-limit", test_pool_limit);
	g_test_add_func("/tag/trim", test_trim);
	g_test_add_func("/tag/peak", test_peak);
	g_test_add_func("/tag/calls", test_calls);
	g_test_add_func("/tag/beside", test_beside);
	g_test_add_func("/tag/first", test_first);
	g_test_add_func("/tag/fork", test_fork);
	g_test_add_func("/tag/freed-meanwhile", test_freed_meanwhile);
	g_test_add_func("/tag/most", test_most);
	return g_test_run();
}
