// SPDX-License-Identifier: LGPL-2.1-or-later
/* VPMM_TRACE and vpmm-replay together: a random program of all calls comes to the same once more. */
#include <glib/gstdio.h>
#include <unistd.h>

#include "device.h"
#include "fail.h"
#include "replay.h"
#include "support/fixture.h"
#include "trace.h"

#define POOL .size = sizeof(struct vpmm_opts), .backend = "host", .va_size = (size_t)16 << 30

#define BLOCKS 48
#define GRAPHS 3
#define OPERATIONS 1500
#define SEEDS 5

struct block {
	void *ptr;
	size_t max;			/* of a growable one */
	bool captured;			/* it is a graph's, too */
	guint tag;			/* of @tags; 0: none */
};

struct graph {
	struct vpmm_host_graph *graph;
	uint64_t id;
};

enum calls {
	AT_ONCE,	/* those after which a free takes effect at once, so that the pool's peak is the program's */
	ALL,
	PENDING,	/* all, and the streams have work, so that what the pool does depends on when that completes */
	TAGGED,		/* the same under tags, which are paused and resumed */
};

#define TAGS 4

struct program {
	struct vpmm_pool *pool;
	struct CUstream_st *streams[STREAMS];
	struct CUstream_st *capturing[2];
	struct block blocks[BLOCKS];
	struct graph graphs[GRAPHS];
	GRand *rand;
	enum calls calls;
	vpmm_tag tags[TAGS];		/* none, one that is not pausable, and those that are */
	bool asleep[TAGS];
};

static guint below(struct program *p, guint most)
{
	return (guint)g_rand_int_range(p->rand, 0, (gint32)most);
}

static struct CUstream_st *any_stream(struct program *p)
{
	return p->streams[below(p, STREAMS)];
}

static size_t any_size(struct program *p)
{
	return 1 + below(p, 1u << below(p, 24));
}

/* Allocates from now on under any tag that is awake. Return: its number. */
static guint enter_tag(struct program *p)
{
	static const vpmm_tag words[] = { 0, 0, 0, VPMM_TAG_DROP, VPMM_TAG_STAY };
	guint tag = p->calls == TAGGED ? below(p, TAGS) : 0;

	tag = p->asleep[tag] ? 0 : tag;
	vpmm_tag_set(tag ? p->tags[tag] | words[below(p, G_N_ELEMENTS(words))] : 0);
	return tag;
}

static void allocate(struct program *p, struct block *block)
{
	struct CUstream_st *stream = any_stream(p);
	size_t size = any_size(p);

	*block = (struct block){ .max = below(p, 8) ? 0 : size + any_size(p), .tag = enter_tag(p) };
	if (block->max)
		assert_ok(vpmm_malloc_growable(p->pool, &block->ptr, size, block->max, stream));
	else
		assert_ok(vpmm_malloc_flags(p->pool, &block->ptr, size, stream, below(p, 4) ? 0 : below(p, 4)));
}

static void release(struct program *p, struct block *block)
{
	assert_ok(vpmm_free(p->pool, block->ptr, p->calls == AT_ONCE || below(p, 5) ? any_stream(p) : VPMM_STREAM_ANY));
	block->ptr = NULL;
}

static void resize(struct program *p, struct block *block)
{
	size_t size = any_size(p);

	assert_ok(vpmm_realloc(p->pool, &block->ptr, block->max ? MIN(size, block->max) : size, any_stream(p)));
}

/* Two streams under capture allocate, resize, use and free, and leave some of it to the program. */
static void call_captured(struct program *p)
{
	struct CUstream_st *stream = p->capturing[below(p, 2)];
	struct block *block = &p->blocks[below(p, BLOCKS)];

	if (!block->ptr) {
		*block = (struct block){ .captured = true, .tag = enter_tag(p) };
		assert_ok(vpmm_malloc(p->pool, &block->ptr, any_size(p), stream));
	} else if (p->asleep[block->tag]) {
		return;
	} else if (block->captured && below(p, 2)) {
		assert_ok(vpmm_free(p->pool, block->ptr, stream));
		block->ptr = NULL;
	} else {
		block->captured = true;
		assert_ok(vpmm_use(p->pool, block->ptr, stream));
	}
}

static void resize_captured(struct program *p)
{
	void *ptr;

	enter_tag(p);
	assert_ok(vpmm_malloc(p->pool, &ptr, any_size(p), p->capturing[0]));
	assert_ok(vpmm_realloc(p->pool, &ptr, any_size(p), p->capturing[0]));
	assert_ok(vpmm_free(p->pool, ptr, p->capturing[0]));
}

static void retire_graph(struct program *p, struct graph *graph)
{
	if (!graph->graph)
		return;
	assert_ok(vpmm_host_graph_destroy(graph->graph));
	assert_ok(vpmm_graph_retire(p->pool, graph->id, any_stream(p)));
	graph->graph = NULL;
}

static void capture(struct program *p)
{
	struct graph *graph = &p->graphs[below(p, GRAPHS)];

	retire_graph(p, graph);
	assert_ok(vpmm_host_capture_begin(p->capturing[0]));
	assert_ok(vpmm_host_stream_wait(p->capturing[1], p->capturing[0]));
	assert_ok(vpmm_capture_id(p->pool, p->capturing[0], &graph->id));
	if (below(p, 2))
		assert_ok(vpmm_capture_group(p->pool, graph->id, 1 + below(p, 2)));
	for (guint i = below(p, 12); i > 0; i--)
		call_captured(p);
	resize_captured(p);
	assert_ok(vpmm_host_stream_wait(p->capturing[0], p->capturing[1]));
	assert_ok(vpmm_host_capture_end(p->capturing[0], &graph->graph));
}

/* Completes a piece of work of the stream, unless that waits for another. Returns whether there are more. */
static bool complete(struct CUstream_st *stream)
{
	unsigned int pending;

	assert_ok(vpmm_host_stream_pending(stream, &pending));
	if (pending)
		vpmm_host_stream_complete(stream, 1);
	return pending;
}

static void work(struct program *p)
{
	struct CUstream_st *stream = any_stream(p);

	if (below(p, 2))
		assert_ok(vpmm_host_stream_submit(stream));
	else
		complete(stream);
}

static void pause_or_resume(struct program *p)
{
	guint tag = 2 + below(p, TAGS - 2);

	if (p->asleep[tag])
		assert_ok(vpmm_resume(p->pool, p->tags[tag], VPMM_STREAM_ANY));
	else
		assert_ok(vpmm_pause(p->pool, p->tags[tag], below(p, 2) ? VPMM_PAUSE_DROP : 0));
	p->asleep[tag] = !p->asleep[tag];
}

static void call(struct program *p)
{
	struct block *block = &p->blocks[below(p, BLOCKS)];
	guint which = below(p, 40);

	if (p->calls == TAGGED && !below(p, 50))
		pause_or_resume(p);
	else if (which == 0 && p->calls != AT_ONCE)
		capture(p);
	else if (which == 1)
		assert_ok(vpmm_stream_retire(p->pool, any_stream(p)));
	else if (which == 2)
		assert_ok(vpmm_pool_trim(p->pool, any_size(p), NULL));
	else if (!block->ptr)
		allocate(p, block);
	else if (which < 10 && !p->asleep[block->tag] && p->calls != AT_ONCE)
		assert_ok(vpmm_use(p->pool, block->ptr, any_stream(p)));
	else if (which < 20 && !p->asleep[block->tag] && !block->captured)
		resize(p, block);
	else
		release(p, block);
	if (p->calls >= PENDING)
		work(p);
}

static void complete_all(struct program *p)
{
	bool more = true;

	while (more) {
		more = false;
		for (int i = 0; i < STREAMS; i++)
			more |= complete(p->streams[i]);
	}
}

static void open_tags(struct program *p)
{
	static const char *const names[TAGS] = { NULL, "a label, 100% of it", "weights", "cache" };

	for (int i = 1; i < TAGS; i++)
		assert_ok(vpmm_tag_open(names[i], i > 1 ? VPMM_TAG_PAUSABLE : 0, &p->tags[i]));
}

/* Runs the program. Its statistics are those before what it leaves is freed. */
static struct vpmm_stats record(const char *name, guint32 seed, enum calls calls)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };
	struct program p = { .rand = g_rand_new_with_seed(seed), .calls = calls };

	assert_ok(vpmm_pool_create(&p.pool, &(struct vpmm_opts){ POOL, .trace = name }));
	for (int i = 0; i < STREAMS; i++)
		assert_ok(vpmm_host_stream_create(&p.streams[i]));
	for (int i = 0; i < 2; i++)
		assert_ok(vpmm_host_stream_create(&p.capturing[i]));
	open_tags(&p);
	for (int i = 0; i < OPERATIONS; i++)
		call(&p);
	vpmm_tag_set(0);
	assert_ok(vpmm_pool_stats(p.pool, &stats));
	complete_all(&p);
	vpmm_pool_destroy(p.pool);
	for (int i = 0; i < GRAPHS; i++) {
		if (p.graphs[i].graph)
			assert_ok(vpmm_host_graph_destroy(p.graphs[i].graph));
	}
	for (int i = 0; i < 2; i++)
		assert_ok(vpmm_host_stream_destroy(p.capturing[i]));
	for (int i = 0; i < STREAMS; i++)
		assert_ok(vpmm_host_stream_destroy(p.streams[i]));
	g_rand_free(p.rand);
	fixture_assert_nothing_left();
	return stats;
}

/* Two passes on one pool: what the first leaves is not in the way of the second. */
static void rerun(const struct trace *trace, bool verify, struct replay_result results[2])
{
	struct device_opts opts = { .streams = trace->streams, .marks = trace->allocs, .verify = verify,
				    .lag = verify, .lag_us = 50 };
	struct replay_setup setup = { .trace = trace, .page_size = PAGE, .passes = 2 };

	if (device_host.open(&opts, &setup.dev) ||
	    allocator_vpmm_create(&(struct vpmm_opts){ POOL }, &setup.allocator))
		g_error("%s", fail_text());
	for (unsigned int i = 0; i < 2; i++)
		g_assert_true(replay_pass(&setup, i + 1, &results[i]));
	setup.allocator->ops->destroy(setup.allocator);
	setup.dev->ops->close(setup.dev);
	fixture_assert_nothing_left();
}

static char *new_name(void)
{
	char *name;
	int fd = g_file_open_tmp("vpmm-rerun-XXXXXX.gz", &name, NULL);

	g_assert_cmpint(fd, >=, 0);
	close(fd);
	return name;
}

static struct trace *load(const char *name)
{
	struct trace *trace = NULL;

	if (trace_load(name, NULL, NULL, &trace))
		g_error("%s", fail_text());
	return trace;
}

static void assert_same(const struct vpmm_stats *a, const struct vpmm_stats *b)
{
	g_assert_cmpuint(a->peak_requested, ==, b->peak_requested);
	g_assert_cmpuint(a->requested, ==, b->requested);
	g_assert_cmpuint(a->peak_live, ==, b->peak_live);
	g_assert_cmpuint(a->live, ==, b->live);
	g_assert_cmpuint(a->mallocs, ==, b->mallocs);
	g_assert_cmpuint(a->frees, ==, b->frees);
}

/*
 * If nothing is pending, the pool does the same again. If work is, at other times in the replay than in the recording,
 * blocks may be elsewhere, but each has its contents.
 */
static void rerun_seeds(enum calls mode, bool pending)
{
	for (guint32 seed = 0; seed < SEEDS; seed++) {
		char *name = new_name();
		struct vpmm_stats recorded = record(name, seed, mode);
		struct trace *trace = load(name);
		struct replay_result again[2];

		rerun(trace, pending, again);
		g_assert_cmpuint(again[0].errors + again[1].errors, ==, 0);
		g_assert_cmpuint(trace->n_tags, ==, mode == TAGGED ? TAGS - 1 : 0);
		if (mode != TAGGED)
			g_assert_cmpuint(again[0].peak_live, <=, recorded.peak_requested);
		g_assert_cmpuint(again[1].peak_live, ==, again[0].peak_live);
		if (mode == AT_ONCE)
			g_assert_cmpuint(again[0].peak_live, ==, recorded.peak_requested);
		if (!pending)
			assert_same(&again[0].stats, &recorded);
		trace_free(trace);
		g_unlink(name);
		g_free(name);
	}
}

static void test_at_once(void)
{
	rerun_seeds(AT_ONCE, false);
}

static void test_all(void)
{
	rerun_seeds(ALL, false);
}

static void test_pending(void)
{
	rerun_seeds(PENDING, true);
}

/* Blocks that were paused with their contents have them afterwards, in the replay too. */
static void test_tagged(void)
{
	rerun_seeds(TAGGED, true);
}

/* Whatever a program asks for is a trace that can be read. */
static void test_largest(void)
{
	static const size_t pages[] = { PAGE, SIZE_MAX };

	for (size_t i = 0; i < G_N_ELEMENTS(pages); i++) {
		char *name = new_name();
		struct vpmm_opts opts = { POOL, .trace = name };
		struct replay_result again[2];
		struct vpmm_pool *pool;
		struct trace *trace;
		void *block, *none;

		opts.page_size = pages[i];
		assert_ok(vpmm_pool_create(&pool, &opts));
		assert_ok(vpmm_malloc(pool, &block, PAGE, NULL));
		g_assert_cmpint(vpmm_malloc(pool, &none, SIZE_MAX, NULL), ==, -ENOMEM);
		g_assert_cmpint(vpmm_malloc(pool, &none, (size_t)PTRDIFF_MAX + 1, NULL), ==, -ENOMEM);
		g_assert_cmpint(vpmm_realloc(pool, &block, SIZE_MAX, NULL), ==, -ENOMEM);
		assert_ok(vpmm_pool_trim(pool, SIZE_MAX, NULL));
		assert_ok(vpmm_free(pool, block, NULL));
		vpmm_pool_destroy(pool);

		trace = load(name);
		rerun(trace, false, again);
		g_assert_cmpuint(again[0].errors + again[1].errors, ==, 0);
		trace_free(trace);
		g_unlink(name);
		g_free(name);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/rerun/at-once", test_at_once);
	g_test_add_func("/rerun/all", test_all);
	g_test_add_func("/rerun/pending", test_pending);
	g_test_add_func("/rerun/tagged", test_tagged);
	g_test_add_func("/rerun/largest", test_largest);
	return g_test_run();
}
