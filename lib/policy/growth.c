// SPDX-License-Identifier: LGPL-2.1-or-later
/* How much device memory a pool may create: the peak of live bytes, and VPMM_OVERLAP beyond that. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/account.h"
#include "core/chunk.h"
#include "core/core.h"
#include "core/region.h"
#include "policy/growth.h"
#include "policy/policy.h"
#include "policy/state.h"
#include "policy/tuning.h"

static uint64_t percent_of(uint64_t bytes, unsigned int percent)
{
	return bytes / 100 * percent + bytes % 100 * percent / 100;
}

static uint64_t largest_block(const struct allowance *a)
{
	return MAX(a->now.block, a->before.block);
}

/*
 * With one block over the peak, a stream goes on while others use what it would wait for. A second one is so that both
 * need not be done at the same moment: of the mean size if many streams wait, and less if few do, as how far they are
 * apart grows with the root of their number. A program that has two buffers itself, and asks for the next block before
 * it frees the one before, has that second one.
 */
static uint64_t guess(const struct core *core, uint64_t most)
{
	const struct allowance *a = &core->packed->allowance;
	guint streams = MAX(MAX(a->now.streams, a->before.streams), 2), waits = a->now.waits + a->before.waits;
	double mean = (double)(a->now.bytes + a->before.bytes) / MAX(waits, 1);
	double more = mean * sqrt((double)streams / (double)tuning_auto_streams);
	guint begun = a->now.begun + a->before.begun, bare = a->now.bare + a->before.bare;
	guint few = (guint)tuning_auto_bare;
	uint64_t bytes = largest_block(a);

	if (!few || (bare >= few && bare * few >= begun))
		bytes = MAX(bytes + (uint64_t)more, MAX(a->now.row, a->before.row));
	if (2 * largest_block(a) <= percent_of(most, (unsigned int)tuning_auto_cheap))
		bytes = MAX(bytes, 2 * largest_block(a));
	/* A block shares its first and its last page with others. */
	return waits ? bytes + core->settings.page_size : 0;
}

uint64_t allowance_bytes(const struct core *core, uint64_t most)
{
	if (core->settings.overlap != VPMM_OVERLAP_AUTO)
		return percent_of(most, (unsigned int)core->settings.overlap);
	/* No more than the peak once more; but room for one block always is. */
	return MIN(guess(core, most), MAX(most, largest_block(&core->packed->allowance) + core->settings.page_size));
}

static void note_row(struct core *core, const struct request *request, bool waited)
{
	struct allowance *a = &core->packed->allowance;
	uint64_t live = core_live(core);

	if (a->row.stream != request->stream->id || live < a->row.live + request->size) {
		/* More blocks than a batch has are results, which stay. */
		if (a->row.waited && a->row.blocks <= (guint)tuning_auto_row)
			a->now.row = MAX(a->now.row, a->row.bytes);
		a->row = (struct allowance_row){ .stream = request->stream->id, .waited = waited };
	}
	a->row.bytes += core_page_up(core, request->size);
	a->row.live = live;
	a->row.blocks++;
}

/* Whether a stream has what it waited for before. */
static bool has_another(struct core *core, guint i, uint64_t id)
{
	const struct allowance *a = &core->packed->allowance;
	const struct region *region = region_find_malloc(&core->regions, a->waited_for[i]);

	return a->waited[i] == id && region && !region->held && region->stream && region->stream->id == id;
}

/*
 * Counts the streams that wait in turn, too: those that did since this one did last. One that is new does not count, as
 * it may be in place of one that is gone.
 */
static void note_wait(struct core *core, const struct request *request, uint64_t addr)
{
	struct allowance *a = &core->packed->allowance;
	uint64_t size = core_page_up(core, request->size), id = request->stream->id;
	bool first = a->row.blocks == 1;
	guint i = 0;

	while (i < ALLOWANCE_STREAMS - 1 && a->waited[i] != id)
		i++;
	if (a->waited[i] == id)
		a->now.streams = MAX(a->now.streams, MIN(i + 1, (guint)tuning_auto_streams));
	/* It has parts of two pages that others share. */
	size += size == request->size ? 0 : core->settings.page_size;
	a->now.waits++;
	a->now.begun += first;
	a->now.bare += first && !has_another(core, i, id);
	a->now.bytes += size;
	a->now.block = MAX(a->now.block, size);
	memmove(&a->waited[1], &a->waited[0], i * sizeof(a->waited[0]));
	memmove(&a->waited_for[1], &a->waited_for[0], i * sizeof(a->waited_for[0]));
	a->waited[0] = id;
	a->waited_for[0] = addr;
}

/* To give a little back is not worth driver calls, nor is a little more worth a line in the log. */
static void tell_change(struct core *core)
{
	struct allowance *a = &core->packed->allowance;
	uint64_t bytes = allowance_bytes(core, account_most(&core->account)), before = a->stepped;

	if (bytes == before || (bytes < before && bytes > before / 2))
		return;
	if (bytes < before)
		a->surplus += before - bytes;
	else
		a->surplus -= MIN(a->surplus, bytes - before);
	a->stepped = bytes;
	if (bytes > before && bytes < 2 * before)
		return;
	log_add(&core->log, VPMM_LOG_INFO, "overlap: streams wait for each other, for %" PRIu64
		" bytes at most: the pool may hold %" PRIu64 " bytes over the peak", largest_block(a), bytes);
}

void allowance_note(struct core *core, const struct request *request, bool waited, uint64_t addr)
{
	struct allowance *a = &core->packed->allowance;

	lock_assert_held(&core->lock);
	if (request->stream->captured)
		return;
	note_row(core, request, waited);
	if (waited)
		note_wait(core, request, addr);
	/* Old waits are forgotten, because a program may need less than it did at its start. */
	if (++a->requests >= (guint)tuning_auto_requests) {
		a->before = a->now;
		a->now = (struct allowance_seen){ 0 };
		a->requests = 0;
	}
	tell_change(core);
}

/* The bytes that the pool may hold: the peak, or what the latest trim left until there is a higher peak. */
static uint64_t most_held(struct core *core)
{
	uint64_t peak = account_most(&core->account);

	return peak > core->packed->growth.past ? peak : core->packed->growth.held;
}

/* The bytes that it may hold, but for what streams would wait for, once it has served a request. */
static uint64_t most_with(struct core *core, size_t size)
{
	return MAX(most_held(core), core_live(core) + size);
}

/* Bytes that can be created up to a limit, whole pages. */
static size_t room_below(struct core *core, uint64_t limit)
{
	uint64_t mapped = core_mapped(core), room;

	/* Do not create what VPMM_KEEP would release at once, or plan with what the limit forbids. */
	limit = MIN(limit, core_keep(core));
	room = limit > mapped ? MIN(limit - mapped, extent_room(&core->extents)) : 0;
	return room / core->settings.page_size * core->settings.page_size;
}

uint64_t growth_most(struct core *core, size_t size)
{
	uint64_t most = most_with(core, size);

	return most + allowance_bytes(core, most);
}

bool growth_allows(struct core *core, size_t size, size_t without, size_t with)
{
	return core_mapped(core) - without + with <= most_with(core, size);
}

void growth_start(struct core *core, size_t size)
{
	core->packed->growth.past = size;
	core->packed->growth.held = size;
}

size_t growth_room(struct core *core, size_t size)
{
	return room_below(core, most_with(core, size));
}

size_t growth_room_overlap(struct core *core, size_t size)
{
	return room_below(core, growth_most(core, size));
}

void growth_note_trim(struct core *core, uint64_t released)
{
	core->packed->growth.past = account_most(&core->account);
	/* Most of the extents that the gaps were counted beside are gone. */
	if (released > core_mapped(core))
		core->packed->worst = (struct gaps){ 0 };
	/* What was taken over the peak is bounded by itself. */
	core->packed->growth.held = MIN(core_mapped(core), core->packed->growth.past);
}

int growth_map(struct core *core, struct region_map *map, uint64_t addr, size_t bytes, size_t piece)
{
	bool counts = map == &core->regions;
	GPtrArray *extents = g_ptr_array_new();
	int err;

	lock_assert_held(&core->lock);
	piece = MIN(piece, bytes);
	err = extent_judge(&core->extents, bytes, piece);
	if (!err)
		err = extent_create(&core->extents, bytes, piece, counts, extents);
	if (!err)
		err = chunk_map(core, map, addr, extents);
	if (!err) {
		region_set_free(map, region_isolate(map, addr, bytes), NULL, NULL);
		counts_add_grown(&core->counts, bytes);
		account_note_taken(core);
	}
	g_ptr_array_free(extents, TRUE);
	return err;
}
