// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Captures of one stream or two, graphs that are launched again and again, and graphs that are retired. What a graph
 * touches belongs to it, whatever becomes of it outside: each launch finds it as the one before, or whoever came
 * between, has left it.
 */
#include <errno.h>
#include <inttypes.h>

#include "model/contents-work.h"
#include "model/contents.h"

#define MOST_GRAPHS 4

static bool has(const struct graph *g, const struct block *b)
{
	return g_ptr_array_find(b->graphs, g, NULL);
}

static void add(struct graph *g, struct block *b)
{
	if (has(g, b))
		return;
	g_ptr_array_add(g->blocks, b);
	g_ptr_array_add(b->graphs, g);
	b->node_last = NULL;
	b->shared = true;
}

static void set_captured(struct stream *s, bool captured)
{
	pthread_mutex_lock(&s->lock);
	s->captured = captured;
	pthread_mutex_unlock(&s->lock);
}

/* Any time will do, until the graph is retired. What it has made by now was not the group's, as far as is known. */
static void join(struct worker *w, struct graph *g)
{
	if (g->group)
		return;
	g->group = CONTENTS_GROUPS * w->index + (guint)g_rand_int_range(w->rand, 0, CONTENTS_GROUPS) + 1;
	g->joined = ++w->joins;
	for (unsigned int i = 0; i < w->run->n_pools; i++)
		contents_ok(w->run, vpmm_capture_group(w->run->pools[i], g->id, g->group));
}

static void begin(struct worker *w)
{
	struct stream *s = stream_any(w), *joined;
	uint64_t id;

	if (!s || w->graphs->len == MOST_GRAPHS)
		return;
	w->capture = (struct capture){ .graph = g_new0(struct graph, 1), .origin = s };
	w->capture.graph->blocks = g_ptr_array_new();
	set_captured(s, true);
	pthread_rwlock_wrlock(&w->run->begins);
	contents_ok(w->run, vpmm_host_capture_begin(s->handle));
	pthread_rwlock_unlock(&w->run->begins);
	for (unsigned int i = 0; i < w->run->n_pools; i++) {
		contents_ok(w->run, vpmm_capture_id(w->run->pools[i], s->handle, &id));
		if (!id || (i && id != w->capture.graph->id))
			contents_fail(w->run, "step %u: the id of a capture is %" PRIu64, w->step, id);
		w->capture.graph->id = id;
	}
	if (contents_one_in(w, 4))
		join(w, w->capture.graph);
	joined = contents_one_in(w, 2) ? stream_any(w) : NULL;
	if (!joined)
		return;
	set_captured(joined, true);
	pthread_rwlock_wrlock(&w->run->begins);
	contents_ok(w->run, vpmm_host_stream_wait(joined->handle, s->handle));
	pthread_rwlock_unlock(&w->run->begins);
	w->capture.joined = joined;
}

/* One that is told to wait for what is outside has failed, and nothing more can be submitted. */
static bool spoil(struct worker *w)
{
	struct stream *outside = stream_any(w);

	if (!outside)
		return false;
	if (vpmm_host_stream_wait(w->capture.origin->handle, outside->handle) != -EBUSY)
		contents_fail(w->run, "step %u: a capture can wait for what is outside", w->step);
	w->capture.broken = true;
	return true;
}

void graph_end(struct worker *w)
{
	struct capture *c = &w->capture;
	int err;

	if (!c->graph)
		return;
	if (c->joined && !c->broken)
		contents_ok(w->run, vpmm_host_stream_wait(c->origin->handle, c->joined->handle));
	err = vpmm_host_capture_end(c->origin->handle, &c->graph->graph);
	if (err != (c->broken ? -EINVAL : 0))
		contents_fail(w->run, "step %u: vpmm_host_capture_end: %d, %s", w->step, err, vpmm_last_error());
	set_captured(c->origin, false);
	if (c->joined)
		set_captured(c->joined, false);
	g_ptr_array_add(w->graphs, c->graph);
	c->graph = NULL;
}

static struct stream *captured_stream(struct worker *w)
{
	return w->capture.joined && contents_one_in(w, 2) ? w->capture.joined : w->capture.origin;
}

/* It is there from the first launch on. */
static void adopt(struct worker *w, struct block *b, struct stream *s)
{
	add(w->capture.graph, b);
	b->made_by = w->capture.graph;
	b->group = b->made_by->group;
	b->joined = b->made_by->joined;
	b->node_last = s;
	b->unborn = true;
}

static void allocate(struct worker *w)
{
	struct stream *s = captured_stream(w);
	struct block *b = block_new(w, s, contents_one_in(w, 4) ? VPMM_ZERO : 0);

	if (b)
		adopt(w, b, s);
}

/* What belongs to no stream and to no graph is like any other block, and there already. */
static void allocate_idle(struct worker *w)
{
	struct stream *s = captured_stream(w);
	struct block *b = block_new(w, s, contents_one_in(w, 8) ? VPMM_SHAREABLE : VPMM_IDLE);

	/* The pool may not have such memory. */
	if (b && b->graphed)
		adopt(w, b, s);
}

/*
 * Whether the capture may touch it at all, and if so behind what it has done with it already. No graph has what may be
 * paused when it is launched.
 */
static bool reach(struct worker *w, struct block *b, struct stream *s)
{
	if (b->word)
		return false;
	if (b->made_by != w->capture.graph && (b->unborn || !b->written || b->group))
		return false;
	if (b->node_last && has(w->capture.graph, b) && b->node_last != s)
		contents_ok(w->run, vpmm_host_stream_wait(s->handle, b->node_last->handle));
	return true;
}

static void touch(struct worker *w)
{
	struct stream *s = captured_stream(w);
	struct block *b = block_any(w);

	if (!b || !reach(w, b, s))
		return;
	if (!has(w->capture.graph, b)) {
		contents_ok(w->run, vpmm_use(w->run->pools[b->pool], b->shadow->ptr, s->handle));
		add(w->capture.graph, b);
		work_note(w, b, s, "name under capture");
	}
	b->node_last = s;
	work_capture(w, b, s, contents_one_in(w, 2) ? WRITE : VERIFY);
}

static void release(struct worker *w)
{
	struct stream *s = captured_stream(w);
	struct block *b = block_any(w);

	if (!b || b->of_driver || !reach(w, b, s))
		return;
	work_note(w, b, s, "free under capture");
	contents_ok(w->run, contents_end(w, vpmm_free(w->run->pools[b->pool], b->shadow->ptr, s->handle)));
	add(w->capture.graph, b);
	b->freed_by = w->capture.graph;
	block_released(w, b);
}

/* Each launch makes the copy; the old block is the graph's from then on. */
static void resize(struct worker *w)
{
	struct stream *s = captured_stream(w);
	struct block *b = block_any(w), *now;

	if (!b || b->of_driver || b->apart || b->max || !reach(w, b, s))
		return;
	/* The program will launch this behind the other graph, but the host backend takes that for no order. */
	if (b->untold && !block_settle(w, b))
		return;
	now = block_replace(w, b, s, b->shadow->size / 2 + (size_t)g_rand_int_range(w->rand, 1, (gint32)PAGE));
	if (!now)
		return;
	add(w->capture.graph, b);
	b->freed_by = w->capture.graph;
	adopt(w, now, s);
	now->graphed = true;
	work_capture(w, now, s, KEPT);
	work_capture(w, now, s, WRITE);
}

static bool behind_records(struct block *b, struct stream *s, bool covered_too)
{
	for (guint i = 0; i < b->records->len; i++) {
		const struct record *r = &g_array_index(b->records, struct record, i);

		if ((covered_too || r->covered < r->last) && !stream_behind(s, r->stream, r->last))
			return false;
	}
	return true;
}

static bool behind_launches(const struct block *b, struct stream *s)
{
	for (guint i = 0; i < b->graphs->len; i++) {
		const struct graph *g = b->graphs->pdata[i];

		if (g->last && !stream_behind(s, g->last, g->last_at))
			return false;
	}
	return true;
}

/* What graphs of a group have made since a graph joined it, that graph may overwrite. */
static bool overwrites(const struct graph *g, const struct block *b)
{
	return g->group && b->group == g->group && b->joined > g->joined;
}

static struct group *group_of(struct worker *w, const struct graph *g)
{
	return &w->groups[(g->group - 1) % CONTENTS_GROUPS];
}

/*
 * Graphs of a group run one after another, behind whoever reads what the launch overwrites. That may be a block that
 * was freed or resized since: what reads it can be pending still.
 */
static bool behind_group(struct worker *w, const struct graph *g, struct stream *s)
{
	const struct group *group = group_of(w, g);

	if (group->last && !stream_behind(s, group->last, group->last_at))
		return false;
	for (guint i = 0; i < w->blocks->len; i++) {
		struct block *b = w->blocks->pdata[i];

		if (overwrites(g, b) && (!behind_records(b, s, true) || !behind_launches(b, s)))
			return false;
	}
	return true;
}

/* A launch does with each block what any work might. */
static bool may_launch(struct worker *w, const struct graph *g, struct stream *s)
{
	if (g->group && !behind_group(w, g, s))
		return false;
	if (g->last && !stream_behind(s, g->last, g->last_at))
		return false;
	for (guint i = 0; i < g->blocks->len; i++) {
		struct block *b = g->blocks->pdata[i];

		if (b->first && b->first != s && !stream_behind(s, b->first, b->born))
			return false;
		if (!behind_records(b, s, true) || !behind_launches(b, s))
			return false;
	}
	return true;
}

static void wrote(struct block *b, struct stream *s, uint64_t position)
{
	struct record *r = block_record(b, s);

	r->last = MAX(r->last, position);
	r->wrote = MAX(r->wrote, position);
}

static void overwrite_group(struct worker *w, const struct graph *g)
{
	if (!g->group)
		return;
	*group_of(w, g) = (struct group){ .last = g->last, .last_at = g->last_at };
	for (guint i = 0; i < w->live->len; i++) {
		struct block *b = w->live->pdata[i];

		if (!overwrites(g, b))
			continue;
		b->written = false;
		wrote(b, g->last, g->last_at);
	}
}

static void launch(struct worker *w)
{
	struct graph *g = w->graphs->pdata[g_rand_int_range(w->rand, 0, (gint32)w->graphs->len)];
	struct stream *s = stream_any(w);

	if (!g->graph || !s || !may_launch(w, g, s))
		return;
	contents_ok(w->run, vpmm_host_graph_launch(g->graph, s->handle));
	g->last_at = work_submit(w, NULL, s, TICK);
	g->last = s;
	overwrite_group(w, g);
	for (guint i = 0; i < g->blocks->len; i++) {
		struct block *b = g->blocks->pdata[i];

		work_note(w, b, s, "launch");
		if (b->made_by != g)
			continue;
		b->unborn = false;
		b->written = true;
	}
}

/* What is freed under the capture is freed by this call, so it comes behind what was not captured as well. */
static bool may_retire(const struct graph *g, struct stream *s)
{
	if (g->last && !stream_behind(s, g->last, g->last_at))
		return false;
	for (guint i = 0; i < g->blocks->len; i++) {
		struct block *b = g->blocks->pdata[i];

		if (b->freed_by == g && !behind_records(b, s, false))
			return false;
		if (b->of_driver && !stream_behind(s, b->first, b->born))
			return false;
	}
	return true;
}

/* From now on its launches are work like any other. */
static void forget(struct worker *w, struct graph *g, struct stream *s)
{
	for (guint i = 0; i < g->blocks->len; i++) {
		struct block *b = g->blocks->pdata[i];

		work_note(w, b, s, "retire graph");
		g_ptr_array_remove_fast(b->graphs, g);
		if (b->made_by == g) {
			b->made_by = NULL;
			b->unborn = false;
		}
		if (b->freed_by == g)
			b->freed_by = NULL;
		if (g->last)
			wrote(b, g->last, g->last_at);
	}
}

/*
 * Nobody but the program orders its launches before what others of the group capture. The host backend, which looks for
 * work that is in no order, knows groups as long as their graphs exist.
 */
static bool is_grouped_and_busy(struct worker *w, const struct graph *g)
{
	return g->group && g->last && !stream_has_run(w, g->last, g->last_at);
}

bool graph_retire(struct worker *w, guint index)
{
	struct graph *g = w->graphs->pdata[index];
	bool early = contents_one_in(w, 2), told = !contents_one_in(w, 3) || is_grouped_and_busy(w, g);
	struct stream *s = stream_any(w);

	/* Nobody tells of a graph that is only destroyed, nor of a capture that has failed. */
	if (!s || (told && !may_retire(g, s)))
		return false;
	if (g->graph && early)
		contents_ok(w->run, vpmm_host_graph_destroy(g->graph));
	for (unsigned int i = 0; told && i < w->run->n_pools; i++)
		contents_make(w, i, vpmm_graph_retire(w->run->pools[i], g->id, s->handle));
	if (g->graph && !early)
		contents_ok(w->run, vpmm_host_graph_destroy(g->graph));
	g->graph = NULL;
	for (guint i = 0; !told && i < g->blocks->len; i++)
		((struct block *)g->blocks->pdata[i])->untold = true;
	forget(w, g, s);
	g_ptr_array_remove_index_fast(w->graphs, index);
	return true;
}

void graph_free(gpointer data)
{
	struct graph *g = data;

	if (g->graph)
		vpmm_host_graph_destroy(g->graph);
	g_ptr_array_free(g->blocks, TRUE);
	g_free(g);
}

static void capture_step(struct worker *w)
{
	switch (g_rand_int_range(w->rand, 0, 14)) {
	case 0:
		if (contents_one_in(w, 8) && !spoil(w))
			return;
		graph_end(w);
		break;
	case 1: case 2:
		release(w);
		break;
	case 3:
		resize(w);
		break;
	case 4: case 5: case 6: case 7:
		allocate(w);
		break;
	case 8:
		if (contents_one_in(w, 2))
			allocate_idle(w);
		break;
	case 9:
		if (contents_one_in(w, 4))
			join(w, w->capture.graph);
		break;
	default:
		touch(w);
	}
}

void graph_step(struct worker *w)
{
	if (w->capture.graph && !contents_one_in(w, 4))
		capture_step(w);
	else if (!w->capture.graph && contents_one_in(w, 3))
		begin(w);
	else if (w->graphs->len && !contents_one_in(w, 6))
		launch(w);
	else if (w->graphs->len)
		graph_retire(w, (guint)g_rand_int_range(w->rand, 0, (gint32)w->graphs->len));
}
