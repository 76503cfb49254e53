// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * What a stream has to wait for before it has a part of an extent, at whatever addresses that is mapped: beside the
 * region maps, the test keeps for each piece of each extent who has it, or who freed it last, and compares.
 */
#include <errno.h>
#include <stdbool.h>

#include "calls/pool.h"
#include "core/alias.h"
#include "core/wait-set.h"
#include "support/fixture.h"
#include "support/setting.h"

/* No slab serves so little. */
#define PIECE (PAGE / 8)
#define STEPS 3000
#define MOST_LIVE 40
#define LOOKS 8

/* The program that repeats itself: steps of a pass, passes, blocks at most. */
#define PROGRAM 200
#define PASSES 18
#define SLOTS 24
#define SEEDS 6

/* Who has a piece, or where in a stream it was freed; @seq: 0: nobody need wait for anything. */
struct piece {
	bool live;
	const struct stream *stream;
	uint64_t seq;
};

struct held {
	char *ptr;
	size_t size;
};

struct walk {
	struct fixture f;
	GRand *rand;
	GArray *blocks;
	GHashTable *pieces;	/* of struct piece: an array for each extent */
	guint shared;		/* looks at extents that are neither whole nor all allocated, at several addresses */
	guint waits;		/* looks that found something to wait for */
};

static void inside(struct walk *w) NO_LOCK_ANALYSIS;
static void inside(struct walk *w)
{
	struct core *core = &w->f.pool->core;

	lock_acquire(&core->lock);
	assert_ok(core->backend->ops->enter(core->backend));
}

static void outside(struct walk *w) NO_LOCK_ANALYSIS;
static void outside(struct walk *w)
{
	struct core *core = &w->f.pool->core;

	core->backend->ops->leave(core->backend);
	lock_release(&core->lock);
}

static gint any(struct walk *w, gint end)
{
	return g_rand_int_range(w->rand, 0, end);
}

static struct piece *piece_at(struct walk *w, const char *ptr)
{
	const struct place *place = extent_place(&w->f.pool->core.extents, (uintptr_t)ptr);
	struct extent *extent;
	struct piece *pieces;

	g_assert_nonnull(place);
	extent = place->extent;
	pieces = g_hash_table_lookup(w->pieces, extent);
	if (!pieces) {
		pieces = g_new0(struct piece, extent->size / PIECE);
		g_hash_table_insert(w->pieces, extent, pieces);
	}
	return &pieces[((uintptr_t)ptr - place->addr) / PIECE];
}

static void set_pieces(struct walk *w, const struct held *block, struct piece value)
{
	for (size_t at = 0; at < block->size; at += PIECE) {
		struct piece *piece = piece_at(w, block->ptr + at);

		/* Nobody gets what another has. */
		g_assert_true(piece->live != value.live);
		*piece = value;
	}
}

static void step_malloc(struct walk *w)
{
	struct held block = { .size = (size_t)(1 + any(w, any(w, 4) ? 16 : 100)) * PIECE };

	block.ptr = fixture_malloc_bytes(&w->f, block.size, w->f.streams[any(w, STREAMS)]);
	set_pieces(w, &block, (struct piece){ .live = true });
	g_array_append_val(w->blocks, block);
}

/* Where the stream is at, after a free that it has just recorded. */
static struct piece freed_on(struct walk *w, struct CUstream_st *handle)
{
	struct core *core = &w->f.pool->core;
	const struct event *event;
	struct stream *stream;

	inside(w);
	assert_ok(stream_get(&core->streams, handle, &stream));
	event = g_queue_peek_tail(&stream->pending);
	outside(w);
	g_assert_nonnull(event);
	return (struct piece){ .stream = stream, .seq = event->seq };
}

static void step_free(struct walk *w)
{
	guint index = (guint)any(w, (gint)w->blocks->len);
	struct held block = g_array_index(w->blocks, struct held, index);
	struct CUstream_st *stream = w->f.streams[any(w, STREAMS)];

	assert_ok(vpmm_host_stream_submit(stream));
	fixture_free(&w->f, block.ptr, stream);
	set_pieces(w, &block, freed_on(w, stream));
	g_array_remove_index_fast(w->blocks, index);
}

/* All work is done, and the pool knows that. */
static void step_complete(struct walk *w)
{
	struct core *core = &w->f.pool->core;
	GHashTableIter iter;
	gpointer extent, pieces;
	bool busy = true;

	while (busy) {
		busy = false;
		for (int i = 0; i < STREAMS; i++)
			busy |= vpmm_host_stream_complete(w->f.streams[i], UINT_MAX) == -EBUSY;
	}
	inside(w);
	assert_ok(stream_poll_busy(&core->streams, false));
	g_assert_null(core->streams.busy.head);
	outside(w);
	g_hash_table_iter_init(&iter, w->pieces);
	while (g_hash_table_iter_next(&iter, &extent, &pieces)) {
		for (size_t i = 0; i < ((struct extent *)extent)->size / PIECE; i++)
			((struct piece *)pieces)[i].seq = 0;
	}
}

/* The latest of the pieces that were freed on a stream; 0: there is none. */
static uint64_t latest_of(const struct piece *pieces, size_t count, const struct stream *stream)
{
	uint64_t latest = 0;

	for (size_t i = 0; i < count; i++) {
		if (pieces[i].stream == stream)
			latest = MAX(latest, pieces[i].seq);
	}
	return latest;
}

static uint64_t seq_in(const struct order *order, const struct stream *stream)
{
	for (guint i = 0; i < order_waits(order); i++) {
		const struct event *event = order->others->pdata[i];

		if (event->stream == stream)
			return event->seq;
	}
	return 0;
}

/* Each stream that has freed some of it, and no other; a later event of it will do as well. */
static void compare_order(struct walk *w, const struct piece *pieces, size_t count, const struct order *order)
{
	struct stream_map *streams = &w->f.pool->core.streams;
	guint others = 0;

	for_each_stream(stream, streams) {
		uint64_t latest = latest_of(pieces, count, stream);

		if (!latest || stream == order->stream)
			continue;
		others++;
		g_assert_cmpuint(seq_in(order, stream), >=, latest);
	}
	g_assert_cmpuint(order_waits(order), ==, others);
	w->waits += others > 0;
}

static bool has_live(const struct piece *pieces, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (pieces[i].live)
			return true;
	}
	return false;
}

/* A part of an extent that one stream is to have. */
static void look(struct walk *w, struct extent *extent)
{
	struct core *core = &w->f.pool->core;
	gint count = (gint)(extent->size / PIECE), from = any(w, count), to = from + 1 + any(w, count - from);
	const struct piece *pieces = g_hash_table_lookup(w->pieces, extent);
	struct stream *stream;
	struct order order;
	bool can;

	if (!pieces)
		return;
	assert_ok(stream_get(&core->streams, w->f.streams[any(w, STREAMS)], &stream));
	order_init(&order, stream);
	can = alias_order(core, extent, (size_t)from * PIECE, (size_t)to * PIECE, &order);
	g_assert_cmpint(can, ==, !has_live(pieces + from, (size_t)(to - from)));
	if (can) {
		compare_order(w, pieces + from, (size_t)(to - from), &order);
		w->shared += extent->live && extent->places->next;
	}
	order_clear(&order);
}

static void look_around(struct walk *w)
{
	struct core *core = &w->f.pool->core;

	inside(w);
	for (int i = 0; i < LOOKS && core->extents.all.length; i++)
		look(w, g_queue_peek_nth(&core->extents.all, (guint)any(w, (gint)core->extents.all.length)));
	outside(w);
}

static const struct row {
	const char *name;
	struct vpmm_opts opts;
} rows[] = {
	{ "packed", { FIXTURE_PACKED } },
	{ "pages", { FIXTURE_PACKED, .extent_max = PAGE } },
	{ "few-pages", { FIXTURE_PACKED, .extent_max = 4 * PAGE } },
};

static void test_random(gconstpointer data)
{
	struct walk w = { .rand = g_rand_new_with_seed(49) };

	fixture_open(&w.f, ((const struct row *)data)->opts);
	fixture_uncache(&w.f);
	w.blocks = g_array_new(FALSE, FALSE, sizeof(struct held));
	w.pieces = g_hash_table_new_full(NULL, NULL, NULL, g_free);
	for (guint i = setting("VPMM_TEST_STEPS", STEPS); i > 0; i--) {
		if (!any(&w, 50))
			step_complete(&w);
		else if (w.blocks->len && (w.blocks->len == MOST_LIVE || any(&w, 2)))
			step_free(&w);
		else
			step_malloc(&w);
		look_around(&w);
	}
	g_assert_cmpuint(w.shared, >, 0);
	g_assert_cmpuint(w.waits, >, 0);
	step_complete(&w);
	g_hash_table_destroy(w.pieces);
	g_array_free(w.blocks, TRUE);
	g_rand_free(w.rand);
	fixture_close(&w.f);
}

/* A step of a program that repeats itself: it frees what it has in a slot, or allocates there. */
struct step {
	guint slot;
	size_t size;
};

static void take_step(struct walk *w, void **slots, const struct step *step)
{
	struct CUstream_st *stream = w->f.streams[0];
	void **slot = &slots[step->slot];

	if (*slot)
		assert_ok(vpmm_free(w->f.pool, g_steal_pointer(slot), stream));
	else
		assert_ok(vpmm_malloc(w->f.pool, slot, step->size, stream));
}

/* Somebody who reads what is free: the check, the statistics, a request that the program does not make. */
static void disturb(struct walk *w)
{
	switch (any(w, 3)) {
	case 0:
		assert_ok(vpmm_pool_check(w->f.pool));
		break;
	case 1:
		fixture_stats(&w->f);
		break;
	case 2:
		fixture_free(&w->f, fixture_malloc_bytes(&w->f, (size_t)(1 + any(w, 60)) * PIECE, w->f.streams[0]),
			     w->f.streams[0]);
		break;
	}
}

/* Whether an extent is loose at several mappings: more is allocated, free or loose than there is. */
static bool is_open(const struct core *core)
{
	const uint64_t *bytes = core->regions.bytes;

	return bytes[REGION_MALLOC] + bytes[REGION_FREE] + bytes[REGION_LOOSE] > core->extents.bytes;
}

/*
 * Which mapping of an extent is free is left open while a single stream repeats its blocks, and right for all who read
 * it: between passes, within one, and for a second stream.
 */
static guint repeat(const struct row *row, guint seed)
{
	struct walk w = { .rand = g_rand_new_with_seed(seed) };
	struct step steps[PROGRAM];
	void *slots[SLOTS] = { NULL };
	guint open = 0;

	fixture_open(&w.f, row->opts);
	for (int i = 0; i < PROGRAM; i++)
		steps[i] = (struct step){ (guint)any(&w, SLOTS), (size_t)(1 + any(&w, 100)) * PIECE };
	for (int pass = 0; pass < PASSES; pass++) {
		for (int i = 0; i < PROGRAM; i++) {
			take_step(&w, slots, &steps[i]);
			open += is_open(&w.f.pool->core);
			if (pass >= PASSES / 2 && pass % 3 == 2 && !any(&w, 20))
				disturb(&w);
		}
		for (guint slot = 0; slot < SLOTS; slot++) {
			if (slots[slot])
				take_step(&w, slots, &(struct step){ slot, 0 });
		}
		assert_ok(pass % 4 == 3 ? vpmm_pool_check(w.f.pool) : 0);
	}
	for (int i = 0; i < PROGRAM; i++)
		take_step(&w, slots, &steps[i]);
	fixture_free(&w.f, fixture_malloc_bytes(&w.f, 3 * PAGE, w.f.streams[1]), w.f.streams[1]);
	assert_ok(vpmm_pool_check(w.f.pool));
	for (guint slot = 0; slot < SLOTS; slot++) {
		if (slots[slot])
			take_step(&w, slots, &(struct step){ slot, 0 });
	}
	g_rand_free(w.rand);
	fixture_close(&w.f);
	return open;
}

static void test_repeated(gconstpointer data)
{
	guint open = 0;

	for (guint seed = 0; seed < SEEDS; seed++)
		open += repeat(data, seed);
	g_assert_cmpuint(open, >, 0);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	fixture_add_rows("/alias/random", rows, test_random);
	fixture_add_rows("/alias/repeated", rows, test_repeated);
	return g_test_run();
}
