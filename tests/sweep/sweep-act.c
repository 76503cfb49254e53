// SPDX-License-Identifier: LGPL-2.1-or-later
/* What situations and actions are made of. */
#include "calls/pool.h"
#include "sweep/sweep.h"

static uint64_t next_seed(void)
{
	static uint64_t seed;

	return ++seed * UINT64_C(0xD1342543DE82EF95);
}

/* The contents may be cleared or copied behind what is pending. A stream under capture has nothing pending. */
static void settle_all(struct sweep *s, int stream)
{
	for (int i = 0; i < STREAMS; i++) {
		if (s->held & 1u << i)
			sweep_finish(s, i);
	}
	if (s->on->settle && !(s->captured & 1u << stream))
		s->on->settle(s->streams[stream]);
}

/* The program has a block from now on, and writes to it. */
static void have(struct sweep *s, void *ptr, size_t size, int stream)
{
	struct sweep_block block = { .ptr = ptr, .size = size, .requested = size, .seed = next_seed(), .word = s->word };

	if (s->on->settle && !s->held && !(s->captured & 1u << stream))
		s->on->settle(s->streams[stream]);
	if (s->works)
		settle_all(s, stream);
	s->on->fill(ptr, size, block.seed);
	g_array_append_val(s->blocks, block);
}

static int allocate(struct sweep *s, size_t size, size_t max, int stream, unsigned int flags)
{
	vpmm_tag before = s->word ? vpmm_tag_set(s->word) : 0;
	void *ptr;
	int err;

	err = max ? vpmm_malloc_growable(s->pool, &ptr, size, max, s->streams[stream]) :
	      vpmm_malloc_flags(s->pool, &ptr, size, s->streams[stream], flags);
	if (s->word)
		vpmm_tag_set(before);
	if (!err)
		have(s, ptr, size, stream);
	return err;
}

int sweep_aligned(struct sweep *s, size_t size, size_t alignment, int stream)
{
	void *ptr;
	int err;

	err = vpmm_malloc_aligned(s->pool, &ptr, size, alignment, s->streams[stream]);
	if (!err)
		have(s, ptr, size, stream);
	return err;
}

int sweep_malloc(struct sweep *s, size_t size, int stream)
{
	return allocate(s, size, 0, stream, 0);
}

int sweep_zero(struct sweep *s, size_t size, int stream)
{
	return allocate(s, size, 0, stream, VPMM_ZERO);
}

int sweep_idle(struct sweep *s, size_t size, int stream, unsigned int flags)
{
	return allocate(s, size, 0, stream, VPMM_IDLE | flags);
}

int sweep_growable(struct sweep *s, size_t size, size_t max, int stream)
{
	return allocate(s, size, max, stream, 0);
}

static struct CUstream_st *handle_of(struct sweep *s, int stream)
{
	if (stream >= 0)
		return s->streams[stream];
	return stream == SWEEP_ANY ? VPMM_STREAM_ANY : NULL;
}

int sweep_free(struct sweep *s, void *ptr, int stream)
{
	int err;

	err = vpmm_free(s->pool, ptr, handle_of(s, stream));
	for (guint i = 0; i < s->blocks->len && !err; i++) {
		if (g_array_index(s->blocks, struct sweep_block, i).ptr == ptr)
			g_array_remove_index_fast(s->blocks, i--);
	}
	return err;
}

static guint find_block(struct sweep *s, const void *ptr)
{
	guint i = 0;

	while (g_array_index(s->blocks, struct sweep_block, i).ptr != ptr) {
		i++;
		g_assert_cmpuint(i, <, s->blocks->len);
	}
	return i;
}

int sweep_realloc(struct sweep *s, void **ptr, size_t size, int stream)
{
	guint i = find_block(s, *ptr);
	struct sweep_block *block = &g_array_index(s->blocks, struct sweep_block, i);
	size_t kept = MIN(block->size, size);
	int err;

	/* The last word that is kept is one that is looked at. */
	if (!s->captured)
		s->on->fill(*ptr, kept, block->seed);
	err = vpmm_realloc(s->pool, ptr, size, s->streams[stream]);
	if (err)
		return err;
	/* A capture copies nothing before the launch of its graph. */
	if (s->captured & 1u << stream) {
		g_array_remove_index_fast(s->blocks, i);
		return 0;
	}
	settle_all(s, stream);
	block->ptr = *ptr;
	block->size = kept;
	block->requested = size;
	return 0;
}

void *sweep_last(struct sweep *s)
{
	return g_array_index(s->blocks, struct sweep_block, s->blocks->len - 1).ptr;
}

void *sweep_have(struct sweep *s, size_t size, int stream)
{
	assert_ok(sweep_malloc(s, size, stream));
	return sweep_last(s);
}

void sweep_drop(struct sweep *s, void *ptr, int stream)
{
	assert_ok(sweep_free(s, ptr, stream));
}

void sweep_have_pieces(struct sweep *s, int busy)
{
	void *a = sweep_have(s, 2 * PAGE, 0), *b, *c;

	sweep_have(s, PAGE, 0);
	b = sweep_have(s, 2 * PAGE, 1);
	sweep_have(s, PAGE / 2, 0);
	c = sweep_have(s, PAGE, 2);
	for (int i = 1; i <= busy; i++)
		sweep_busy(s, i);
	sweep_drop(s, a, 0);
	sweep_drop(s, b, 1);
	sweep_drop(s, c, 2);
}

void sweep_busy(struct sweep *s, int stream)
{
	if (s->idle)
		return;
	assert_ok(s->on->device->hold(s->streams[stream]));
	if (!s->held)
		s->waits_before = sweep_host_waits(s);
	s->held |= 1u << stream;
}

void sweep_finish(struct sweep *s, int stream)
{
	assert_ok(s->on->device->finish(s->streams[stream]));
	s->waited |= sweep_waits_for_held(s);
	s->held &= ~(1u << stream);
}

uint64_t sweep_host_waits(struct sweep *s)
{
	return backend_fault_calls(s->be, BACKEND_OP_event_sync) + backend_fault_calls(s->be, BACKEND_OP_sync);
}

bool sweep_waits_for_held(struct sweep *s)
{
	return s->waited || (s->held && sweep_host_waits(s) > s->waits_before);
}

void sweep_capture(struct sweep *s, int stream)
{
	assert_ok(s->on->device->capture_begin(s->streams[stream]));
	s->captured |= 1u << stream;
	s->before = s->graph;
	assert_ok(vpmm_capture_id(s->pool, s->streams[stream], &s->graph));
	g_assert_cmpuint(s->graph, !=, 0);
}

int sweep_end_try(struct sweep *s, int stream)
{
	void *graph;
	int err = s->on->device->capture_end(s->streams[stream], &graph);

	if (!err)
		g_ptr_array_add(s->graphs, graph);
	s->captured &= ~(1u << stream);
	return err;
}

void sweep_end(struct sweep *s, int stream)
{
	assert_ok(sweep_end_try(s, stream));
}

void sweep_destroy_graphs(struct sweep *s)
{
	for (guint i = 0; i < s->graphs->len; i++)
		assert_ok(s->on->device->graph_destroy(s->graphs->pdata[i]));
	g_ptr_array_set_size(s->graphs, 0);
}

int sweep_create(struct sweep *s)
{
	struct settings settings;
	int err;

	assert_ok(settings_from_opts(&settings, &s->opts));
	err = pool_new(&s->pool, s->be, &settings);
	/* What a cache serves is not cleared. */
	if (!err)
		s->pool->core.settings.cache = s->cache && s->opts.scrub != VPMM_SCRUB_ALWAYS;
	return err;
}

void sweep_override(struct vpmm_opts *opts, const struct vpmm_opts *with)
{
	opts->va_size = with->va_size ? with->va_size : opts->va_size;
	opts->pages = with->pages;
	opts->reuse = with->reuse;
	opts->extent_max = with->extent_max ? with->extent_max : opts->extent_max;
	opts->small = with->small ? with->small : opts->small;
	opts->frag_ratio = with->frag_ratio;
	opts->overhead = with->overhead;
	opts->limit = with->limit;
	opts->limit_percent = with->limit_percent;
	opts->keep = with->keep;
	opts->scrub = with->scrub;
	opts->export_as = with->export_as;
	opts->peers = with->peers;
}
