// SPDX-License-Identifier: LGPL-2.1-or-later
/* What a range of addresses becomes: split, merged, allocated, free, a zombie, unmapped. */
#include "core/region-index.h"
#include "core/region.h"
#include "util/circle.h"

static void region_link(struct region *region, struct region *below)
{
	region->prev = below;
	region->next = below->next;
	if (region->next)
		region->next->prev = region;
	below->next = region;
}

static void region_link_below(struct region *region, struct region *above)
{
	region->prev = above->prev;
	region->next = above;
	if (region->prev)
		region->prev->next = region;
	else
		region->chunk->first = region;
	above->prev = region;
}

struct region *region_split(struct region_map *map, struct region *region, size_t size)
{
	struct region *upper = region_new(map, region->chunk, region->kind, region->addr + size, region->size - size);

	upper->fresh = region->fresh;
	upper->stray = region->stray;
	upper->reserved = region->reserved;
	region_set_stream(upper, region->stream);
	upper->id = region->id;
	region_guard(upper, region->event);
	region_link(upper, region);
	if (region->kind == REGION_FREE || region->kind == REGION_LOOSE) {
		region_resize(map, region, region->addr, size);
	} else {
		region_unindex(map, region);
		region->size = size;
		region_index(map, region);
	}
	if (region->kind == REGION_FREE)
		region_enlist(map, upper, region);
	region_index(map, upper);
	return upper;
}

struct region *region_cut(struct region_map *map, struct region *region, size_t size)
{
	return size < region->size ? region_split(map, region, size) : NULL;
}

void region_join(struct region_map *map, struct region *region, struct region *upper)
{
	region_unindex(map, upper);
	region_unindex(map, region);
	region_swallow(map, region, upper);
	region_index(map, region);
}

struct region *region_set_unmapped(struct region_map *map, struct region *region)
{
	struct region *prev = region->prev, *next = region->next;

	region_leave(map, region);
	region_unguard(region);
	region_set_stream(region, NULL);
	region->stray = false;
	region->kind = REGION_UNMAPPED;
	if (next && next->kind == REGION_UNMAPPED && next->reserved == region->reserved) {
		region_leave(map, next);
		region_swallow(map, region, next);
	}
	if (prev && prev->kind == REGION_UNMAPPED && prev->reserved == region->reserved) {
		region_leave(map, prev);
		region_swallow(map, prev, region);
		region = prev;
	}
	region_index(map, region);
	return region;
}

struct region *region_isolate(struct region_map *map, uint64_t addr, size_t size)
{
	struct region *region = region_listed_at(map, addr);
	struct region *next;

	if (region->addr < addr)
		region = region_split(map, region, addr - region->addr);
	region_cut(map, region, size);
	while (region->size < size) {
		next = region->next;
		region_cut(map, next, size - region->size);
		region_leave(map, region);
		region_leave(map, next);
		region_swallow(map, region, next);
		region_index(map, region);
		if (region->kind == REGION_FREE)
			region_enlist(map, region, NULL);
	}
	return region;
}

/* Whether a range is one end of a region that can become smaller in its place. */
static bool region_is_end(const struct region_map *map, const struct region *region, uint64_t addr, size_t size)
{
	bool shrinks = region->kind == REGION_FREE || region->kind == REGION_LOOSE ||
		       (map->keeps && region->kind == REGION_ZOMBIE);

	return shrinks && size < region->size &&
	       (addr == region->addr || addr + size == region->addr + region->size);
}

static void region_shrink(struct region_map *map, struct region *region, uint64_t addr, size_t size)
{
	if (region->kind == REGION_FREE) {
		region_resize(map, region, addr, size);
		return;
	}
	map->bytes[region->kind] -= region->size - size;
	region_move(region, addr);
	region->size = size;
}

/* Splits an allocated region off one end of another, and returns it, in no index yet. */
static struct region *region_carve(struct region_map *map, struct region *region, uint64_t addr, size_t size)
{
	struct region *end;

	if (addr == region->addr) {
		region_shrink(map, region, addr + size, region->size - size);
		end = region_new(map, region->chunk, REGION_MALLOC, addr, size);
		region_link_below(end, region);
	} else {
		region_shrink(map, region, region->addr, region->size - size);
		end = region_new(map, region->chunk, REGION_MALLOC, addr, size);
		region_link(end, region);
	}
	return end;
}

/* A range within one region: what is below it and above it stays. */
static struct region *region_cut_out(struct region_map *map, struct region *region, uint64_t addr, size_t size)
{
	if (region->addr < addr)
		region = region_split(map, region, addr - region->addr);
	region_cut(map, region, size);
	region_leave(map, region);
	region_unguard(region);
	return region;
}

/* The region of a range begins: with the first one that lies in it, or with a new one in front of @region. */
static struct region *region_gather_first(struct region_map *map, struct region *region, uint64_t addr, uint64_t end)
{
	struct region *first;

	if (region->addr + region->size > end) {
		first = region_new(map, region->chunk, REGION_MALLOC, addr, region->addr - addr);
		region_link_below(first, region);
		return first;
	}
	region_leave(map, region);
	region_unguard(region);
	region->size += region->addr - addr;
	region_move(region, addr);
	return region;
}

/*
 * Makes a range one region, in no index, whatever kinds it consists of. The regions at its ends become smaller in their
 * places.
 */
static struct region *region_gather(struct region_map *map, struct region *region, uint64_t addr, size_t size)
{
	uint64_t end = addr + size;

	if (region->addr + region->size > end || (region->addr < addr && region->addr + region->size == end))
		return region_cut_out(map, region, addr, size);
	if (region->addr < addr) {
		region_shrink(map, region, region->addr, addr - region->addr);
		region = region->next;
	}
	region = region_gather_first(map, region, addr, end);
	while (region->size < size) {
		struct region *next = region->next;
		size_t part = size - region->size;

		if (part < next->size) {
			region_shrink(map, next, end, next->size - part);
			region->size += part;
		} else {
			region_leave(map, next);
			region_swallow(map, region, next);
		}
	}
	return region;
}

struct region *region_take(struct region_map *map, uint64_t addr, size_t size, struct stream *stream,
			   struct event *event)
{
	struct region *region = region_listed_at(map, addr);

	if (!event_pending(event))
		event = NULL;
	event_ref(event);
	if (region_is_end(map, region, addr, size))
		region = region_carve(map, region, addr, size);
	else
		region = region_gather(map, region, addr, size);
	region_set_stream(region, stream);
	region->kind = REGION_MALLOC;
	region->id = ++map->newest;
	region_guard(region, event);
	event_unref(event);
	region_index(map, region);
	return region;
}

/* Without events, adjacent zombies do not differ. */
static bool is_alike(const struct region *region, const struct region *other)
{
	return other && other->kind == REGION_ZOMBIE && !other->event && !other->stray &&
	       other->reserved == region->reserved;
}

static struct region *region_merge_zombies(struct region_map *map, struct region *region)
{
	struct region *prev = region->prev, *next = region->next;

	if (is_alike(region, next)) {
		region_leave(map, next);
		region_swallow(map, region, next);
	}
	if (is_alike(region, prev)) {
		region_leave(map, prev);
		region_swallow(map, prev, region);
		region = prev;
	}
	return region;
}

/* The region is in no index. */
static struct region *become_zombie(struct region_map *map, struct region *region)
{
	region->kind = REGION_ZOMBIE;
	if (map->keeps && !region->stray && !event_pending(region->event)) {
		region_unguard(region);
		region_set_stream(region, NULL);
		region = region_merge_zombies(map, region);
	}
	region_index(map, region);
	return region;
}

struct region *region_set_zombie(struct region_map *map, struct region *region)
{
	region_leave(map, region);
	return become_zombie(map, region);
}

struct region *region_vacate(struct region_map *map, struct region *region, uint64_t addr, size_t size)
{
	struct region *part;

	if (addr > region->addr)
		region_cut(map, region, addr + size - region->addr);
	if (!region_is_end(map, region, addr, size))
		return region_set_zombie(map, region);
	part = region_carve(map, region, addr, size);
	region_set_stream(part, region->stream);
	region_guard(part, region->event);
	return become_zombie(map, part);
}

void region_set_stray(struct region_map *map, struct region *region)
{
	region->stray = true;
	region_set_zombie(map, region);
}

void region_set_begin(struct region *region, struct event *event)
{
	region_unguard(region);
	region_guard(region, event);
}

void region_reserve(struct region_map *map, struct region *hole)
{
	region_unindex(map, hole);
	hole->reserved = true;
	region_index(map, hole);
	map->growables++;
}

/* Merges the region with what it does not differ from any more. */
static void unreserve_one(struct region_map *map, struct region *region)
{
	region_unindex(map, region);
	region->reserved = false;
	if (map->keeps && region->kind == REGION_ZOMBIE && !region->event && !region->stray)
		region = region_merge_zombies(map, region);
	region_index(map, region);
	if (region->kind == REGION_UNMAPPED)
		region_set_unmapped(map, region);
}

void region_unreserve(struct region_map *map, struct region *region)
{
	struct region *next;

	/* The last may merge with the hole behind it, and what follows that may be reserved for another block. */
	for (bool more = region && region->reserved; more; region = next) {
		next = region->next;
		more = next && next->reserved;
		unreserve_one(map, region);
	}
	map->growables--;
}

void region_hand(struct region *region, struct stream *stream, struct event *event)
{
	event_ref(event);
	region_unguard(region);
	region_set_stream(region, stream);
	if (event_pending(event))
		region_guard(region, event);
	event_unref(event);
}

void region_set_lost(struct region_map *map, struct region *region, struct stream *stream, struct event *event)
{
	region_hand(region, stream, event);
	region->reserved = true;
	region_set_zombie(map, region);
}

void region_extend(struct region_map *map, struct region *region, size_t more)
{
	struct region *part = region_isolate(map, region->addr + region->size, more);

	region_leave(map, part);
	region_unindex(map, region);
	region_swallow(map, region, part);
	region_index(map, region);
}

/* The event no longer links the region; drop the reference. */
static void region_pass_kept(struct region_map *map, struct region *region)
{
	if (region->kind == REGION_LOOSE || (region->kind == REGION_FREE && map->streams->sole == region->stream)) {
		region_unguard(region);
		map->alone = true;
	} else if (region->kind == REGION_FREE) {
		region_set_free(map, region, NULL, NULL);
	} else if (region->kind == REGION_ZOMBIE) {
		region->stream->zombies--;
		map->bytes[REGION_ZOMBIE] -= region->size;
		region_unguard(region);
		region_set_stream(region, NULL);
		region = region_merge_zombies(map, region);
		map->bytes[REGION_ZOMBIE] += region->size;
	}
}

/* Only one part of the joined event is pending: from now on the region waits for that. */
static void region_wait_for_last(struct region_map *map, struct region *region)
{
	struct event *last = event_ref(event_left(region->event));

	if (region->kind == REGION_FREE) {
		region_set_free(map, region, last->stream, last);
	} else {
		region_unindex(map, region);
		region_unguard(region);
		if (region->kind == REGION_ZOMBIE)
			region_set_stream(region, last->stream);
		region_guard(region, last);
		region_index(map, region);
	}
	event_unref(last);
}

void region_pass(void *guarded)
{
	struct region *region = guarded;
	struct region_map *map = region->chunk->map;

	if (event_pending(region->event)) {
		/* Other maps do not merge what passes: the paged policy waits with regions at hand. */
		if (map->keeps)
			region_wait_for_last(map, region);
	} else if (map->keeps) {
		region_pass_kept(map, region);
	} else if (region->kind == REGION_FREE) {
		g_tree_insert(map->passed, region, region);
	} else if (region->kind == REGION_ZOMBIE) {
		region->stream->zombies--;
		circle_append(&map->dead, &region->guarded);
	}
}
