// SPDX-License-Identifier: LGPL-2.1-or-later
/* Exchanges whole extents for smaller ones before a block pins them. */
#include "core/core.h"
#include "policy/exchange.h"
#include "policy/gather-plan.h"
#include "policy/growth.h"
#include "policy/policy.h"
#include "policy/trim.h"
#include "policy/tuning.h"

/**
 * struct broken - the whole extents that a block would break, at its start and at its end
 * @count: how many
 * @extents: the extents
 * @from: the first page of each that the block needs
 * @bytes: bytes of those pages
 * @left: bytes of all that the block would pin, and not use
 */
struct broken {
	guint count;
	struct extent *extents[2];
	uint64_t from[2];
	size_t bytes[2];
	size_t left;
};

/* @place: of the whole extent at one end of the block. */
static void add_broken(struct core *core, struct broken *broken, const struct place *place, uint64_t addr, uint64_t end)
{
	struct extent *extent = place->extent;
	uint64_t from = MAX(place->addr, addr), to = MIN(place->addr + extent->size, end);
	size_t before = (from - place->addr) / core->settings.page_size * core->settings.page_size;

	if (to - from == extent->size)
		return;
	broken->extents[broken->count] = extent;
	broken->from[broken->count] = place->addr + before;
	broken->bytes[broken->count] = core_page_up(core, to - place->addr - before);
	broken->left += extent->size - broken->bytes[broken->count];
	broken->count++;
}

static struct broken find_broken(struct core *core, uint64_t addr, size_t size)
{
	const struct place *first = extent_place_mapped(&core->extents, addr);
	const struct place *last = extent_place_mapped(&core->extents, addr + size - 1);
	struct broken broken = { .count = 0 };

	if (extent_is_whole(first->extent))
		add_broken(core, &broken, first, addr, addr + size);
	if (first != last && extent_is_whole(last->extent))
		add_broken(core, &broken, last, addr, addr + size);
	return broken;
}

/* Whether at least half as much would be pinned as an extent has that is created for the block. */
static bool is_coarse(const struct broken *broken, size_t created)
{
	return broken->left * 2 >= created;
}

/* A little may be pinned, as an exchange takes driver calls. */
static bool is_too_much(const struct core *core, const struct broken *broken)
{
	return core->extents.coarse_bytes + broken->left >
	       core->extents.bytes / 1000 * (uint64_t)tuning_exchange_from;
}

bool exchange_is_due(struct core *core, const struct request *request, uint64_t addr)
{
	struct broken broken;

	if (request->frugal)
		return false;
	broken = find_broken(core, addr, request->size);
	return broken.left && is_too_much(core, &broken) && is_coarse(&broken, gather_new_size(core, request->size));
}

bool exchange_is_allowed(struct core *core, const struct request *request, uint64_t addr)
{
	struct broken broken = find_broken(core, addr, request->size);
	size_t without = 0, with = 0;

	for (guint i = 0; i < broken.count; i++) {
		without += broken.extents[i]->size;
		with += broken.bytes[i];
	}
	return growth_allows(core, request->size, without, with);
}

bool exchange_is_possible(struct core *core, const struct request *request, uint64_t addr)
{
	struct broken broken = find_broken(core, addr, request->size);
	bool possible = true;

	for (guint i = 0; i < broken.count; i++)
		possible = possible && trim_is_free(core, broken.extents[i]);
	return possible;
}

void exchange_note(struct core *core, uint64_t addr, size_t size, bool again)
{
	struct broken broken = find_broken(core, addr, size);

	if (!broken.left || !is_coarse(&broken, again ? gather_last_size(core, size) : gather_new_size(core, size)))
		return;
	for (guint i = 0; i < broken.count; i++)
		extent_set_coarse(&core->extents, broken.extents[i]);
}

/* Maps new memory where the extent was; the rest of its addresses stays a hole. */
static int replace(struct core *core, struct extent *extent, uint64_t from, size_t bytes, size_t piece)
{
	int err = trim_extent(core, extent);

	if (!err)
		err = growth_map(core, &core->regions, from, bytes, piece);
	core->counts.grows += !err;
	return err;
}

int exchange_carry_out(struct core *core, const struct request *request, uint64_t addr)
{
	struct broken broken = find_broken(core, addr, request->size);
	size_t piece = gather_new_size(core, request->size);
	int err = 0;

	for (guint i = 0; i < broken.count && !err; i++)
		err = replace(core, broken.extents[i], broken.from[i], broken.bytes[i], piece);
	return err;
}

void exchange_price(struct core *core, const struct request *request, uint64_t addr, struct vpmm_forecast *forecast)
{
	struct broken broken = find_broken(core, addr, request->size);
	size_t piece = gather_new_size(core, request->size);

	forecast->way = VPMM_WAY_GROW;
	for (guint i = 0; i < broken.count; i++) {
		forecast->grown += broken.bytes[i];
		forecast->calls += 2 * ((broken.bytes[i] + piece - 1) / piece) + 1;
	}
}
