// SPDX-License-Identifier: LGPL-2.1-or-later
/* Exchanges whole extents for smaller ones before a block pins them. */
#include "core/core.h"
#include "policy/exchange.h"
#include "policy/gather.h"
#include "policy/growth.h"
#include "policy/policy.h"
#include "policy/trim.h"
#include "policy/tuning.h"

/*
 * Whether a block is the only allocation in the extent at one of its ends, and leaves a page or more of it. @there:
 * whether the block is allocated already.
 */
static bool is_broken(const struct core *core, const struct place *place, uint64_t addr, uint64_t end, bool there)
{
	const struct extent *extent = place->extent;
	uint64_t from = MAX(place->addr, addr), to = MIN(place->addr + extent->size, end);

	return extent->counts && !extent->split && extent->live == (there ? to - from : 0) &&
	       extent->size - (to - from) >= core->settings.page_size;
}

static void add_broken(const struct core *core, struct exchange *x, const struct place *place, uint64_t addr,
		       uint64_t end) __attribute__((noinline));
static void add_broken(const struct core *core, struct exchange *x, const struct place *place, uint64_t addr,
		       uint64_t end)
{
	struct extent *extent = place->extent;
	uint64_t from = MAX(place->addr, addr), to = MIN(place->addr + extent->size, end);
	size_t before = (from - place->addr) / core->settings.page_size * core->settings.page_size;

	x->extents[x->count] = extent;
	x->from[x->count] = place->addr + before;
	x->bytes[x->count] = core_page_up(core, to - place->addr - before);
	x->left += extent->size - x->bytes[x->count];
	x->count++;
}

/* Return: whether anything would be left of the extents that a block breaks. */
static bool find_broken(struct core *core, uint64_t addr, size_t size, bool there, struct exchange *x)
{
	const struct place *first = extent_place_mapped(&core->extents, addr), *last = first;
	uint64_t end = addr + size;

	if (end > first->addr + first->extent->size)
		last = extent_place_mapped(&core->extents, end - 1);
	x->count = 0;
	x->left = 0;
	if (is_broken(core, first, addr, end, there))
		add_broken(core, x, first, addr, end);
	if (first != last && is_broken(core, last, addr, end, there))
		add_broken(core, x, last, addr, end);
	return x->left;
}

/* Whether at least half as much would be pinned as an extent has that is created for the block. */
static bool is_coarse(const struct exchange *x, size_t created)
{
	return x->left * 2 >= created;
}

/* A little may be pinned, as an exchange takes driver calls. */
static bool is_too_much(const struct core *core, const struct exchange *x)
{
	return core->extents.coarse_bytes + x->left > core->extents.bytes / 1000 * (uint64_t)tuning_exchange_from;
}

bool exchange_is_due(struct core *core, const struct request *request, uint64_t addr, struct exchange *x)
{
	if (request->frugal || !find_broken(core, addr, request->size, false, x))
		return false;
	return is_too_much(core, x) && is_coarse(x, gather_new_size(core, request->size));
}

bool exchange_is_allowed(struct core *core, const struct request *request, const struct exchange *x)
{
	size_t without = 0, with = 0;

	for (guint i = 0; i < x->count; i++) {
		without += x->extents[i]->size;
		with += x->bytes[i];
	}
	return growth_allows(core, request->size, without, with);
}

bool exchange_is_possible(struct core *core, const struct exchange *x)
{
	bool possible = true;

	for (guint i = 0; i < x->count; i++)
		possible = possible && trim_is_free(core, x->extents[i]);
	return possible;
}

void exchange_note(struct core *core, uint64_t addr, size_t size)
{
	struct exchange x;

	if (!find_broken(core, addr, size, true, &x) || !is_coarse(&x, gather_new_size(core, size)))
		return;
	for (guint i = 0; i < x.count; i++)
		extent_set_coarse(&core->extents, x.extents[i]);
}

/* Maps new memory where the extent was; the rest of its addresses stays a hole. */
static int replace(struct core *core, struct extent *extent, uint64_t from, size_t bytes, size_t piece)
{
	int err = trim_extent(core, extent);

	if (!err)
		err = growth_map(core, &core->regions, from, bytes, piece);
	return err;
}

int exchange_carry_out(struct core *core, const struct request *request, const struct exchange *x)
{
	size_t piece = gather_new_size(core, request->size);
	int err = 0;

	for (guint i = 0; i < x->count && !err; i++)
		err = replace(core, x->extents[i], x->from[i], x->bytes[i], piece);
	return err;
}

void exchange_price(struct core *core, const struct request *request, const struct exchange *x,
		    struct vpmm_forecast *forecast)
{
	size_t piece = gather_new_size(core, request->size);

	forecast->way = VPMM_WAY_GROW;
	for (guint i = 0; i < x->count; i++) {
		forecast->grown += x->bytes[i];
		forecast->calls += 2 * ((x->bytes[i] + piece - 1) / piece) + 1;
	}
}
