// SPDX-License-Identifier: LGPL-2.1-or-later
#include "calls/pool.h"
#include "core/alias.h"
#include "core/wait-set.h"

bool alias_order(struct vpmm_pool *pool, const struct extent *extent, size_t from, size_t to, struct order *order)
{
	for (const struct place *place = extent->places; place; place = place->next) {
		struct region *region = region_at(&pool->regions, place->addr + from);
		uint64_t end = place->addr + to;

		if (!region)
			return false;
		for (; region && region->addr < end; region = region->next) {
			if (region->kind == REGION_MALLOC)
				return false;
			if (region->kind == REGION_FREE)
				order_add(order, region);
		}
	}
	return true;
}

/* Whether a range within one place is free there as it is. */
static bool is_free_here(struct vpmm_pool *pool, uint64_t addr, uint64_t end, struct order *order)
{
	struct region *region = region_at(&pool->regions, addr);

	if (!region)
		return false;
	for (; region && region->addr < end; region = region->next) {
		if (region->kind != REGION_FREE)
			return false;
		order_add(order, region);
	}
	return true;
}

bool alias_reaches(struct vpmm_pool *pool, uint64_t addr, size_t size, struct order *order)
{
	uint64_t stamp = ++pool->extents.stamp;
	uint64_t end = addr + size;

	while (addr < end) {
		struct place *place = extent_place(&pool->extents, addr);
		struct extent *extent = place ? place->extent : NULL;
		uint64_t stop;

		/* One extent cannot be at two places of one block. */
		if (!extent || extent->stamp == stamp)
			return false;
		extent->stamp = stamp;
		stop = MIN(end, place->addr + extent->size);
		if (!is_free_here(pool, addr, stop, order) &&
		    !alias_order(pool, extent, addr - place->addr, stop - place->addr, order))
			return false;
		addr = stop;
	}
	return true;
}

/* What is free of some bytes of an extent at one place becomes free at another. */
static void move_free(struct vpmm_pool *pool, const struct place *place, const struct place *to, size_t from,
		      size_t until)
{
	struct region_map *regions = &pool->regions;
	uint64_t addr = place->addr + from, end = place->addr + until;

	while (addr < end) {
		struct region *region = region_at(regions, addr);
		uint64_t stop = MIN(end, region->addr + region->size);

		if (region->kind == REGION_FREE) {
			struct region *old = region_isolate(regions, addr, stop - addr);
			struct stream *stream = old->stream;
			struct event *event = event_ref(old->event);

			region_set_zombie(regions, old);
			region_set_free(regions, region_isolate(regions, addr - place->addr + to->addr, stop - addr),
					stream, event);
			event_unref(event);
		}
		addr = stop;
	}
}

static void claim_part(struct vpmm_pool *pool, const struct place *place, size_t from, size_t until)
{
	struct extent *extent = place->extent;

	if (!extent->live) {
		from = 0;
		until = extent->size;
	}
	for (const struct place *other = extent->places; other; other = other->next) {
		if (other != place)
			move_free(pool, other, place, from, until);
	}
	extent->split = extent->live;
}

void alias_claim(struct vpmm_pool *pool, uint64_t addr, size_t size)
{
	uint64_t end = addr + size;

	while (addr < end) {
		struct place *place = extent_place_mapped(&pool->extents, addr);
		uint64_t stop = MIN(end, place->addr + place->extent->size);
		struct region *region = region_at(&pool->regions, addr);

		if (region->kind != REGION_FREE || region->addr + region->size < stop)
			claim_part(pool, place, addr - place->addr, stop - place->addr);
		addr = stop;
	}
}

void alias_unify(struct vpmm_pool *pool, uint64_t addr, size_t size)
{
	uint64_t end = addr + size;

	while (addr < end) {
		struct place *place = extent_place_mapped(&pool->extents, addr);

		if (place->extent->split && !place->extent->live)
			claim_part(pool, place, 0, place->extent->size);
		addr = place->addr + place->extent->size;
	}
}

/* Nothing is allocated or free at a place, and nobody works through it any more. */
static bool place_is_dead(struct vpmm_pool *pool, const struct place *place)
{
	const struct region *region = region_at(&pool->regions, place->addr);

	return region && region->kind == REGION_ZOMBIE && !region->event &&
	       place->addr + place->extent->size <= region->addr + region->size;
}

int alias_trim(struct vpmm_pool *pool)
{
	GList *link;
	int err;

	err = stream_poll_busy(&pool->streams, true);
	if (err)
		return err;
	for (link = pool->extents.all.head; link; link = link->next) {
		struct extent *extent = link->data;
		struct place *place, *next;

		for (place = extent->places; place; place = next) {
			uint64_t addr = place->addr;

			next = place->next;
			if (!extent->counts || !place_is_dead(pool, place))
				continue;
			err = extent_unmap(&pool->extents, addr, extent->size, NULL);
			if (err)
				return err;
			region_set_unmapped(&pool->regions, region_isolate(&pool->regions, addr, extent->size));
		}
	}
	return 0;
}
