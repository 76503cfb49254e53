// SPDX-License-Identifier: LGPL-2.1-or-later
/* Pauses and resumes an arena: all of it, or nothing changes. */
#include <errno.h>
#include <string.h>

#include "calls/arena.h"
#include "calls/note.h"
#include "calls/pause.h"
#include "core/account.h"
#include "core/cache-flush.h"
#include "core/hollow.h"
#include "pending/deferred-free.h"
#include "pending/pending.h"
#include "policy/trim.h"
#include "util/env.h"
#include "util/error.h"
#include "util/text.h"

/* What dropped bytes come back as under VPMM_PAUSE_POISON. */
#define POISON 0xff

/**
 * struct transfer - bytes that the device copies, or clears
 * @to: where to
 * @from: where from; 0: clear them
 * @size: bytes
 */
struct transfer {
	uint64_t to;
	uint64_t from;
	uint64_t size;
};

static void set_state(struct vpmm_pool *pool, enum arena_state state)
{
	lock_assert_held(&pool->core.lock);
	pool->core.resting = state != ARENA_AWAKE;
	g_atomic_int_set(&pool->arena->state, state);
}

/* Other pools of the budget can have what was given back while contents are copied. */
static void unlock_told(struct vpmm_pool *pool) RELEASE(pool->core.lock);
static void unlock_told(struct vpmm_pool *pool)
{
	account_tell(&pool->core);
	lock_release(&pool->core.lock);
}

/* Before another thread can allocate under the tag, or once none can. */
static void note_pause(struct vpmm_pool *pool, enum record_op op, bool drop)
{
	note(pool, VPMM_STREAM_ANY, .op = (uint8_t)op, .tag = (uint8_t)pool->arena->tag,
	     .flags = RECORD_ANY | (drop ? RECORD_DROP : 0));
}

/* Ranges that follow one another are one. */
static void add_live_range(GArray *ranges, uint64_t addr, uint64_t size)
{
	struct arena_range *last = ranges->len ? &g_array_index(ranges, struct arena_range, ranges->len - 1) : NULL;
	struct arena_range range = { .addr = addr, .size = size };

	if (last && last->addr + last->size == addr)
		last->size += size;
	else
		g_array_append_val(ranges, range);
}

static void plan_map(const struct tags *tags, const struct region_map *map, bool drop, GArray *saved, GArray *dropped)
{
	for (guint i = 0; i < map->chunks->len; i++) {
		const struct chunk *chunk = map->chunks->pdata[i];

		for (const struct region *region = chunk->first; region; region = region->next) {
			if (region->kind == REGION_MALLOC)
				add_live_range(drop || tags_drops(tags, region->addr) ? dropped : saved, region->addr,
					  region->size);
		}
	}
}

/* Of all that is allocated: what is to be saved, and what is not. */
static void plan(struct tags *tags, struct core *core, bool drop, GArray *saved, GArray *dropped)
{
	g_array_set_size(saved, 0);
	g_array_set_size(dropped, 0);
	lock_acquire(&tags->lock);
	plan_map(tags, &core->regions, drop, saved, dropped);
	plan_map(tags, &core->spans, drop, saved, dropped);
	lock_release(&tags->lock);
}

static uint64_t bytes_in(const GArray *ranges)
{
	uint64_t bytes = 0;

	for (guint i = 0; i < ranges->len; i++)
		bytes += g_array_index(ranges, struct arena_range, i).size;
	return bytes;
}

uint64_t pause_measure(struct tags *tags, struct vpmm_pool *arena)
{
	GArray *saved = g_array_new(FALSE, FALSE, sizeof(struct arena_range));
	GArray *dropped = g_array_new(FALSE, FALSE, sizeof(struct arena_range));
	uint64_t bytes;

	lock_acquire(&arena->core.lock);
	plan(tags, &arena->core, false, saved, dropped);
	lock_release(&arena->core.lock);
	bytes = bytes_in(saved);
	g_array_free(saved, TRUE);
	g_array_free(dropped, TRUE);
	return bytes;
}

static void add_transfer(GArray *transfers, uint64_t to, uint64_t from, uint64_t size)
{
	struct transfer transfer = { .to = to, .from = from, .size = size };

	g_array_append_val(transfers, transfer);
}

/* How many bytes from an address on are mapped, or are not: *@mapped says which. At most @most. */
static uint64_t stretch(struct extent_map *map, uint64_t addr, uint64_t most, bool *mapped)
{
	uint64_t at = addr;

	*mapped = extent_place(map, addr);
	do {
		const struct place *place = extent_place(map, at);

		if (!place != !*mapped)
			break;
		at = place ? place->addr + place->extent->size : (at / map->page_size + 1) * map->page_size;
	} while (at - addr < most);
	return MIN(at - addr, most);
}

/* One for each piece of host memory, and for each stretch of what is mapped: what was freed since may not be. */
static void transfer_range(struct core *core, const struct arena_range *range, const GPtrArray *pieces, guint *piece,
			   uint64_t *used, bool save, GArray *transfers)
{
	for (uint64_t done = 0, size; done < range->size; done += size) {
		const struct store_piece *host = pieces->pdata[*piece];
		uint64_t addr = range->addr + done, at = host->at + *used;
		bool mapped;

		size = stretch(&core->extents, addr, MIN(range->size - done, host->size - *used), &mapped);
		if (mapped)
			add_transfer(transfers, save ? at : addr, save ? addr : at, size);
		*used += size;
		if (*used == host->size) {
			++*piece;
			*used = 0;
		}
	}
}

static GArray *transfers_new(void)
{
	return g_array_new(FALSE, FALSE, sizeof(struct transfer));
}

static void transfer_saved(struct vpmm_pool *pool, bool save, GArray *transfers)
{
	const struct arena *arena = pool->arena;
	uint64_t used = 0;
	guint piece = 0;

	lock_assert_held(&pool->core.lock);
	for (guint i = 0; i < arena->saved->len; i++)
		transfer_range(&pool->core, &g_array_index(arena->saved, struct arena_range, i), arena->pieces, &piece,
			       &used, save, transfers);
}

/* @poison: host memory to copy from; NULL: clear. */
static void transfer_dropped(struct vpmm_pool *pool, const struct store_piece *poison, GArray *transfers)
{
	for (guint i = 0; i < pool->arena->dropped->len; i++) {
		const struct arena_range *range = &g_array_index(pool->arena->dropped, struct arena_range, i);
		bool mapped;

		for (uint64_t done = 0, size; done < range->size; done += size) {
			size = MIN(range->size - done, poison ? poison->size : UINT64_MAX);
			size = stretch(&pool->core.extents, range->addr + done, size, &mapped);
			if (mapped)
				add_transfer(transfers, range->addr + done, poison ? poison->at : 0, size);
		}
	}
}

static int submit_transfers(struct backend *be, const GArray *transfers, struct CUstream_st *stream)
{
	int err = 0;

	for (guint i = 0; i < transfers->len && !err; i++) {
		const struct transfer *it = &g_array_index(transfers, struct transfer, i);

		err = it->from ? be->ops->copy(be, it->to, it->from, it->size, stream) :
		      be->ops->clear(be, it->to, it->size, stream);
	}
	return err;
}

static int submit_and_wait(struct backend *be, const GArray *transfers, struct CUstream_st *stream)
{
	struct backend_event *event;
	struct error_kept kept;
	int err;

	err = be->ops->event_create(be, &event);
	if (err)
		return err;
	err = submit_transfers(be, transfers, stream);
	if (!err)
		err = be->ops->event_record(be, event, stream);
	if (!err)
		err = be->ops->event_sync(be, event);
	/* What was submitted must not go on beside what undoes it. Once more if it fails, as nobody else will wait. */
	if (err) {
		error_keep(&kept);
		if (be->ops->sync(be))
			be->ops->sync(be);
		error_restore(&kept);
	}
	be->ops->event_destroy(be, event);
	return err;
}

/* On a stream of its own, which waits for no other. No lock is held. */
static int carry_out(struct backend *be, const GArray *transfers)
{
	struct CUstream_st *stream;
	int err;

	if (!transfers->len)
		return 0;
	err = be->ops->stream_create(be, &stream);
	if (err)
		return err;
	err = submit_and_wait(be, transfers, stream);
	be->ops->stream_destroy(be, stream);
	return err;
}

/* Cached blocks become free, and what is free as a whole goes back. */
static int shrink_arena(struct vpmm_pool *pool)
{
	int err = pending_await_device(&pool->pending, false);

	return err ? err : trim_at_rest(&pool->core, 0, NULL);
}

/* *@done: it is paused already. */
static int begin_pause(struct tags *tags, struct vpmm_pool *pool, bool drop, bool *done)
{
	int err;

	lock_assert_held(&pool->core.lock);
	*done = pool->arena->state == ARENA_PAUSED;
	if (*done)
		return 0;
	if (arena_is_changing(pool))
		return arena_judge(pool);
	set_state(pool, ARENA_PAUSING);
	err = shrink_arena(pool);
	if (err)
		set_state(pool, ARENA_AWAKE);
	else
		plan(tags, &pool->core, drop, pool->arena->saved, pool->arena->dropped);
	return err;
}

static int save(struct tags *tags, struct vpmm_pool *pool)
{
	uint64_t bytes = bytes_in(pool->arena->saved);
	GArray *transfers;
	int err;

	err = store_take(&tags->store, bytes, pool->arena->pieces);
	if (err)
		return error_add(err, "%s of contents to save", amount(bytes).text);
	transfers = transfers_new();
	lock_acquire(&pool->core.lock);
	transfer_saved(pool, true, transfers);
	lock_release(&pool->core.lock);
	err = carry_out(pool->core.backend, transfers);
	g_array_free(transfers, TRUE);
	return err;
}

static int end_pause(struct vpmm_pool *pool, int err)
{
	lock_assert_held(&pool->core.lock);
	if (!err)
		err = hollow_out(&pool->core);
	if (err && pool->core.extents.hollow) {
		error_add(err, "undoing failed too, so the tag is paused, and vpmm_resume() can be tried");
		/* Its contents are in its memory, so none come back cleared. */
		g_array_set_size(pool->arena->dropped, 0);
	}
	set_state(pool, pool->core.extents.hollow ? ARENA_PAUSED : ARENA_AWAKE);
	return err;
}

/* The arena is awake, and its lock is still held: the next pause puts its own pieces into the list. */
static GPtrArray *detach_pieces(struct vpmm_pool *pool)
{
	GPtrArray *pieces = pool->arena->pieces;

	lock_assert_held(&pool->core.lock);
	pool->arena->pieces = g_ptr_array_new();
	return pieces;
}

static void give_pieces(struct tags *tags, GPtrArray *pieces)
{
	struct error_kept kept;

	error_keep(&kept);
	store_give(&tags->store, pieces);
	error_restore(&kept);
	g_ptr_array_free(pieces, TRUE);
}

int pause_arena(struct tags *tags, struct vpmm_pool *pool, unsigned int flags)
{
	struct arena *arena = pool->arena;
	GPtrArray *pieces = NULL;
	bool done;
	int err;

	lock_acquire(&pool->core.lock);
	err = begin_pause(tags, pool, flags & VPMM_PAUSE_DROP, &done);
	unlock_told(pool);
	if (err || done)
		return err;
	err = save(tags, pool);
	lock_acquire(&pool->core.lock);
	err = end_pause(pool, err);
	if (arena->state == ARENA_PAUSED)
		note_pause(pool, RECORD_PAUSE, flags & VPMM_PAUSE_DROP);
	atomic_store(&arena->saved_bytes, arena->state == ARENA_PAUSED ? bytes_in(arena->saved) : 0);
	if (arena->state == ARENA_AWAKE)
		pieces = detach_pieces(pool);
	unlock_told(pool);
	if (pieces)
		give_pieces(tags, pieces);
	return err;
}

/*
 * Blocks that were freed meanwhile get no memory. Cached blocks that no event covers, and deferred frees, become free
 * by a wait for the device. A capture makes that impossible, and they get memory then.
 */
static int shrink_paused(struct vpmm_pool *pool)
{
	struct error_kept kept;

	cache_flush_all(&pool->core);
	error_keep(&kept);
	if ((cache_bytes(&pool->core) || hold_pending(&pool->pending)) && pending_await_device(&pool->pending, false))
		error_restore(&kept);
	return trim_at_rest(&pool->core, 0, NULL);
}

static int begin_resume(struct vpmm_pool *pool, bool *done)
{
	int err = 0;

	lock_assert_held(&pool->core.lock);
	*done = pool->arena->state == ARENA_AWAKE;
	if (*done)
		return 0;
	if (arena_is_changing(pool))
		return arena_judge(pool);
	set_state(pool, ARENA_RESUMING);
	if (hollow_is_complete(&pool->core))
		err = shrink_paused(pool);
	if (!err)
		err = hollow_fill(&pool->core);
	if (err)
		set_state(pool, ARENA_PAUSED);
	return err;
}

/* Host memory full of it, or none. */
static int take_poison(struct tags *tags, struct vpmm_pool *pool, GPtrArray *pieces)
{
	bool wanted;
	int err;

	err = env_switch("VPMM_PAUSE_POISON", &wanted);
	if (err || !wanted || !pool->arena->dropped->len)
		return err;
	err = store_take(&tags->store, 1, pieces);
	if (!err) {
		const struct store_piece *piece = pieces->pdata[0];

		memset((void *)(uintptr_t)piece->at, POISON, piece->size);
	}
	return err;
}

static int restore(struct tags *tags, struct vpmm_pool *pool)
{
	GPtrArray *poison = g_ptr_array_new();
	GArray *transfers = transfers_new();
	int err;

	err = take_poison(tags, pool, poison);
	if (!err) {
		lock_acquire(&pool->core.lock);
		transfer_saved(pool, false, transfers);
		if (poison->len || pool->core.settings.scrub != VPMM_SCRUB_NONE)
			transfer_dropped(pool, poison->len ? poison->pdata[0] : NULL, transfers);
		lock_release(&pool->core.lock);
		err = carry_out(pool->core.backend, transfers);
	}
	give_pieces(tags, poison);
	g_array_free(transfers, TRUE);
	return err;
}

int resume_arena(struct tags *tags, struct vpmm_pool *pool)
{
	GPtrArray *pieces = NULL;
	bool done;
	int err;

	lock_acquire(&pool->core.lock);
	err = begin_resume(pool, &done);
	unlock_told(pool);
	if (err || done)
		return err;
	err = restore(tags, pool);
	lock_acquire(&pool->core.lock);
	if (err) {
		hollow_empty(&pool->core);
		set_state(pool, ARENA_PAUSED);
	} else {
		hollow_end(&pool->core);
		account_note_taken(&pool->core);
		note_pause(pool, RECORD_RESUME, false);
		set_state(pool, ARENA_AWAKE);
		atomic_store(&pool->arena->saved_bytes, 0);
		pieces = detach_pieces(pool);
	}
	unlock_told(pool);
	if (pieces)
		give_pieces(tags, pieces);
	return err;
}
