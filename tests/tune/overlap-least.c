// SPDX-License-Identifier: LGPL-2.1-or-later
/* The least memory that a program needs not to be slower: a model of an allocator that knows the future. */
#include <glib.h>

#include "host/streams.h"
#include "overlap.h"

/* The search ends when it is as near as this part of what is live. */
#define NEARNESS 128

/* A block that was freed: what its bytes have to wait for. */
struct past {
	uint64_t ends;			/* when that is over, in the ideal run */
	struct backend_event *events[OVERLAP_STREAMS_MAX];	/* of the streams that used it */
};

/* Bytes that were freed. */
struct piece {
	uint64_t bytes;
	struct past *past;
};

struct model {
	const struct overlap_ideal *ideal;
	uint64_t unused;		/* bytes of the budget that no block had yet */
	GArray *pieces;
};

static void past_free(struct past *past)
{
	for (int i = 0; i < OVERLAP_STREAMS_MAX; i++)
		host_event_unref(past->events[i]);
	g_free(past);
}

/* Whether one end is better than another for work that begins at a time. */
static bool is_better(uint64_t end, uint64_t other, uint64_t begins)
{
	if ((end <= begins) != (other <= begins))
		return end <= begins;
	return end <= begins ? end > other : end < other;
}

static struct piece *best_piece(const struct model *model, uint64_t begins)
{
	struct piece *best = NULL;

	for (guint i = 0; i < model->pieces->len; i++) {
		struct piece *piece = &g_array_index(model->pieces, struct piece, i);

		if (!best || is_better(piece->past->ends, best->past->ends, begins))
			best = piece;
	}
	return best;
}

static void wait_for(struct CUstream_st *stream, const struct past *past)
{
	for (int i = 0; i < OVERLAP_STREAMS_MAX; i++) {
		if (past->events[i])
			g_assert_cmpint(host_stream_wait(0, stream, past->events[i]), ==, 0);
	}
}

static void model_malloc(void *data, const struct overlap_run *run, uint32_t block)
{
	const struct overlap_block *b = &g_array_index(run->program->blocks, struct overlap_block, block);
	struct model *model = data;
	uint64_t begins = model->ideal->begins[block], bytes = b->bytes, part;

	while (bytes) {
		struct piece *piece = best_piece(model, begins);

		if (model->unused && (!piece || piece->past->ends > begins)) {
			part = MIN(bytes, model->unused);
			model->unused -= part;
			bytes -= part;
			continue;
		}
		if (!piece)
			g_error("a budget that is less than what is live");
		wait_for(run->streams[b->stream], piece->past);
		part = MIN(bytes, piece->bytes);
		piece->bytes -= part;
		bytes -= part;
		if (!piece->bytes) {
			past_free(piece->past);
			g_array_remove_index_fast(model->pieces,
						  (guint)(piece - (struct piece *)(void *)model->pieces->data));
		}
	}
}

static void model_free(void *data, const struct overlap_run *run, uint32_t block)
{
	const struct overlap_block *b = &g_array_index(run->program->blocks, struct overlap_block, block);
	struct piece piece = { .bytes = b->bytes, .past = g_new0(struct past, 1) };
	struct model *model = data;

	piece.past->ends = model->ideal->ends[block];
	for (uint32_t i = 0; i < run->program->streams; i++) {
		if (!(b->users & 1u << i))
			continue;
		piece.past->events[i] = host_event_create();
		g_assert_cmpint(host_event_record(0, piece.past->events[i], run->streams[i]), ==, 0);
	}
	g_array_append_val(model->pieces, piece);
}

/* What the program takes with so many bytes. */
static uint64_t makespan(const struct overlap *p, const struct overlap_ideal *ideal, uint64_t bytes)
{
	static const struct overlap_memory memory = { .malloc = model_malloc, .free = model_free };
	struct model model = { .ideal = ideal, .unused = bytes };
	uint64_t ns;

	model.pieces = g_array_new(FALSE, FALSE, sizeof(struct piece));
	ns = overlap_run(p, 0, &memory, &model);
	for (guint i = 0; i < model.pieces->len; i++)
		past_free(g_array_index(model.pieces, struct piece, i).past);
	g_array_free(model.pieces, TRUE);
	return ns;
}

uint64_t overlap_least(const struct overlap *p, const struct overlap_ideal *ideal, double slower)
{
	uint64_t allowed = (uint64_t)((double)ideal->ns * slower), low = p->peak, high = p->peak;

	while (makespan(p, ideal, high) > allowed) {
		low = high;
		high += high / 2;
	}
	while (high - low > p->peak / NEARNESS) {
		uint64_t middle = low + (high - low) / 2;

		if (makespan(p, ideal, middle) > allowed)
			low = middle;
		else
			high = middle;
	}
	return high;
}
