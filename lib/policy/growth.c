// SPDX-License-Identifier: LGPL-2.1-or-later
/* How much device memory a pool may create: it holds no more than the peak of live bytes. */
#include "core/account.h"
#include "core/chunk.h"
#include "core/core.h"
#include "policy/allowance.h"
#include "policy/growth.h"
#include "policy/state.h"

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
		core->counts.grown += bytes;
		account_note_taken(core);
	}
	g_ptr_array_free(extents, TRUE);
	return err;
}
