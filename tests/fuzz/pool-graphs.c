// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Operations of fuzz-pool on captures. One is under way at a time, of one stream, and what any operation does on that
 * stream is part of it. A launch comes after the work of all streams, as a program that has results of a graph at hand
 * would see to it; other work may come beside it.
 */
#include <errno.h>
#include <string.h>

#include "program.h"

bool program_stream_outside(const struct program *p, uint8_t byte, struct CUstream_st **stream)
{
	*stream = program_stream(p, byte);
	if (p->capture.stream && *stream == p->capture.stream)
		*stream = program_stream(p, byte % p->n_streams + 1);
	return !p->capture.stream || *stream != p->capture.stream;
}

static void come_after_all(struct program *p, struct CUstream_st *stream)
{
	for (unsigned int i = 0; i < p->n_streams; i++) {
		if (p->streams[i] != stream && !model_is_captured(p->m, p->streams[i]))
			assert_ok(vpmm_host_stream_wait(stream, p->streams[i]));
	}
}

/* Whoever has what the graph writes comes after this launch. */
static void hand_over(struct model *m, const struct graph *graph)
{
	for (guint i = 0; i < m->live->len; i++) {
		struct model_allocation *a = m->live->pdata[i];

		if (!model_has_graph(a, graph->id))
			continue;
		for (guint j = 0; j < a->users->len; j++) {
			struct CUstream_st *user = a->users->pdata[j];

			if (user != graph->last && !model_is_captured(m, user))
				assert_ok(vpmm_host_stream_wait(user, graph->last));
		}
		if (!model_is_captured(m, a->stream))
			a->stream = graph->last;
	}
}

static void launch_one(struct program *p, struct graph *graph, struct CUstream_st *stream)
{
	come_after_all(p, stream);
	assert_ok(vpmm_host_graph_launch(graph->graph, stream));
	graph->last = stream;
	for (unsigned int i = 0; i < p->pools; i++)
		hand_over(&p->m[i], graph);
}

static bool is_there(const struct program *p, uint64_t id)
{
	bool found = p->capture.stream && p->capture.id == id;

	for (unsigned int i = 0; i < p->n_graphs; i++)
		found |= p->graphs[i].id == id;
	return found;
}

/*
 * A graph may overwrite what one has left that joined its group after it. If that is gone and not launched any more,
 * the program writes it again: for graphs after it, or in the end for all.
 */
static void restore(struct program *p, const struct graph *graph, struct CUstream_st *stream, bool all)
{
	come_after_all(p, stream);
	for (unsigned int i = 0; i < p->pools; i++) {
		struct model *m = &p->m[i];

		for (guint j = 0; j < m->live->len; j++) {
			const struct model_allocation *a = m->live->pdata[j];

			if (model_has_graph(a, graph->id) && a->maker && (all || a->maker < graph->id) &&
			    !is_there(p, a->maker))
				model_restore(m, a, stream);
		}
		if (all)
			hand_over(m, graph);
	}
}

/* Graphs of a group overwrite what the others have left, so all are launched, in the order in which they joined. */
static void launch_group(struct program *p, uint64_t group, struct CUstream_st *stream)
{
	for (unsigned int i = 0; i < p->n_graphs; i++) {
		if (p->graphs[i].group != group)
			continue;
		restore(p, &p->graphs[i], stream, false);
		launch_one(p, &p->graphs[i], stream);
	}
	for (unsigned int i = 0; i < p->n_graphs; i++) {
		if (p->graphs[i].group == group)
			restore(p, &p->graphs[i], stream, true);
	}
}

static void launch(struct program *p, struct graph *graph, struct CUstream_st *stream)
{
	if (graph->group)
		launch_group(p, graph->group, stream);
	else
		launch_one(p, graph, stream);
}

static void join(struct program *p)
{
	for (unsigned int i = 0; i < p->pools; i++)
		model_join_group(&p->m[i], p->group);
}

/* What the stream has to do yet, nobody can be told to wait for until the capture ends, and launches have to. */
static void begin(struct program *p, struct model *m, uint8_t a, struct CUstream_st *stream)
{
	uint64_t id = 0;

	for (unsigned int i = 0; p->n_graphs && i < p->n_streams; i++) {
		if (p->streams[i] != stream)
			assert_ok(vpmm_host_stream_wait(p->streams[i], stream));
	}
	assert_ok(vpmm_host_capture_begin(stream));
	assert_ok(vpmm_capture_id(m->f.pool, stream, &id));
	g_assert_cmpuint(id, !=, 0);
	p->capture.stream = stream;
	p->capture.id = id;
	p->group = (a & 7) < 3 ? 0 : a & 1 ? 1 : 2;
	if (a & 8)
		join(p);
}

/* What it has allocated is there from the first launch on. */
static void end(struct program *p)
{
	struct CUstream_st *stream = p->capture.stream;
	struct graph *graph = &p->graphs[p->n_graphs++];

	/* Nothing happens if it has joined already. */
	join(p);
	graph->id = p->capture.id;
	graph->group = p->group;
	assert_ok(vpmm_host_capture_end(stream, &graph->graph));
	p->capture.stream = NULL;
	launch_one(p, graph, stream);
}

/* The default streams are in the way of captures. */
void fuzz_capture(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	model_disarm(m);
	if (p->capture.stream)
		end(p);
	else if (!p->defaults && p->n_graphs < MOST_GRAPHS)
		begin(p, m, a, program_stream(p, b));
}

void fuzz_captured(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	static const size_t sizes[] = { 4096, PAGE / 2, PAGE, 3 * PAGE };
	struct CUstream_st *stream = p->capture.stream;
	guint index = m->live->len ? b % m->live->len : 0;

	if (!stream)
		return;
	if (a & 1 && m->live->len < MOST_LIVE) {
		model_malloc_flags(m, sizes[a >> 4 & 3] + b * (size_t)512, stream, a & 8 ? VPMM_ZERO : 0);
	} else if (m->live->len && a & 2) {
		model_use(m, index, stream);
	} else if (m->live->len) {
		model_move(m, index, stream);
		if (a & 4)
			model_verify(m, index);
		model_free(m, index);
	}
}

void fuzz_launch(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	struct CUstream_st *stream;

	if (p->n_graphs && program_stream_outside(p, b, &stream))
		launch(p, &p->graphs[a % p->n_graphs], stream);
}

static void destroy(struct program *p, unsigned int index)
{
	assert_ok(vpmm_host_graph_destroy(p->graphs[index].graph));
	memmove(&p->graphs[index], &p->graphs[index + 1], (--p->n_graphs - index) * sizeof(*p->graphs));
}

static void come_after(struct CUstream_st *stream, struct CUstream_st *other)
{
	if (stream != other)
		assert_ok(vpmm_host_stream_wait(stream, other));
}

static void retire(struct program *p, unsigned int index, struct CUstream_st *stream)
{
	struct graph *graph = &p->graphs[index];

	come_after(stream, graph->last);
	for (unsigned int i = 0; i < p->pools; i++) {
		model_retire_graph(&p->m[i], graph->id, stream);
		model_check(&p->m[i]);
	}
	destroy(p, index);
}

/* The pools hear of it when its last launch is over; if @late, a program that retires it then does no harm. */
static void lose(struct program *p, unsigned int index, struct CUstream_st *stream, bool late)
{
	struct graph graph = p->graphs[index];

	come_after(stream, graph.last);
	destroy(p, index);
	if (late)
		program_complete(p);
	for (unsigned int i = 0; i < p->pools; i++) {
		model_lose_graph(&p->m[i], graph.id);
		model_check(&p->m[i]);
		if (late)
			model_retire_graph(&p->m[i], graph.id, stream);
	}
}

/*
 * A call that cannot be captured invalidates the capture. What it was to write, the program writes now; and what it has
 * freed of others, it retires if @late: only the program knows the work at that.
 */
static void fail(struct program *p, bool late)
{
	struct CUstream_st *stream = p->capture.stream;
	struct graph failed = { .id = p->capture.id, .group = p->group, .last = stream };

	join(p);
	g_assert_cmpint(vpmm_host_stream_submit(NULL), ==, -EBUSY);
	g_assert_cmpint(vpmm_host_capture_end(stream, &failed.graph), ==, -EINVAL);
	p->capture.stream = NULL;
	restore(p, &failed, stream, true);
	for (unsigned int i = 0; i < p->pools; i++) {
		model_lose_graph(&p->m[i], failed.id);
		model_check(&p->m[i]);
		if (late)
			model_retire_graph(&p->m[i], failed.id, stream);
	}
}

/* What a graph has read that was freed since, nobody writes again once it is gone; so those of groups go with it. */
static unsigned int last_to_retire(const struct program *p, unsigned int index)
{
	unsigned int last = p->n_graphs - 1;

	while (last > index && !p->graphs[index].group && !p->graphs[last].group)
		last--;
	return last;
}

/* How many graphs go with one of them, if all can. */
static unsigned int count_to_retire(const struct program *p, const struct model *m, unsigned int index)
{
	unsigned int last = last_to_retire(p, index);

	for (unsigned int i = index; i <= last; i++) {
		if (model_is_captured(m, p->graphs[i].last))
			return 0;
	}
	return last - index + 1;
}

void fuzz_retire_graph(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	struct CUstream_st *stream;

	if (!p->n_graphs || !program_stream_outside(p, b, &stream))
		return;
	for (unsigned int count = count_to_retire(p, m, a % p->n_graphs), index = a % p->n_graphs; count--;)
		retire(p, index, stream);
}

/* Graphs that nobody retires, or a capture that comes to nothing. */
void fuzz_lose_graph(struct program *p, struct model *m, uint8_t a, uint8_t b)
{
	bool late = a & 0x20;
	struct CUstream_st *stream;

	for (unsigned int i = 0; i < p->pools; i++)
		model_disarm(&p->m[i]);
	if (a & 0x40 && p->capture.stream)
		fail(p, late);
	if (a & 0x40 || !p->n_graphs || !program_stream_outside(p, b, &stream))
		return;
	for (unsigned int count = count_to_retire(p, m, a % p->n_graphs), index = a % p->n_graphs; count--;)
		lose(p, index, stream, late);
}

void program_drop_graphs(struct program *p, const struct model *but)
{
	if (p->capture.stream)
		end(p);
	program_complete(p);
	while (p->n_graphs) {
		for (unsigned int i = 0; i < p->pools; i++) {
			if (&p->m[i] != but)
				model_retire_graph(&p->m[i], p->graphs[0].id, p->streams[0]);
		}
		destroy(p, 0);
	}
}
