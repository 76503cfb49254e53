// SPDX-License-Identifier: LGPL-2.1-or-later
/* What a range of addresses becomes: split, merged, allocated, free, a zombie, unmapped. */
#include "core/region-index.h"
#include "core/region.h"
#include "util/links.h"

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

/* Changes the range of a free region. Whether it changes its place by size is left to the next who reads the tree. */
static void region_resize(struct region_map *map, struct region *region, uint64_t addr, size_t size)
{
	if (!map->keeps) {
		region_unindex(map, region);
		region_move(region, addr);
		region->size = size;
		region_index(map, region);
		return;
	}
	region_be_late(map, region);
	map->bytes[REGION_FREE] += size - region->size;
	gaps_remove(&map->gaps, region->size);
	gaps_add(&map->gaps, size);
	region_move(region, addr);
	region->size = size;
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
	if (region->kind == REGION_FREE) {
		region_resize(map, region, region->addr, size);
		region_enlist(map, upper, region);
	} else {
		region_unindex(map, region);
		region->size = size;
		region_index(map, region);
	}
	region_index(map, upper);
	return upper;
}

struct region *region_cut(struct region_map *map, struct region *region, size_t size)
{
	return size < region->size ? region_split(map, region, size) : NULL;
}

/* Takes a region out of the indices of its kind, before it changes to another. Address and size stay. */
static void region_leave(struct region_map *map, struct region *region)
{
	region_unindex(map, region);
	if (region->kind == REGION_FREE)
		region_delist(map, region);
	region->fresh = false;
}

static void region_unlink(struct region *region)
{
	if (region->prev)
		region->prev->next = region->next;
	else
		region->chunk->first = region->next;
	if (region->next)
		region->next->prev = region->prev;
}

/* Merges two neighbours; both are out of the indices. */
static void region_swallow(struct region_map *map, struct region *lower, struct region *upper)
{
	lower->size += upper->size;
	region_unlink(upper);
	region_delete(map, upper);
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

void region_set_malloc(struct region_map *map, struct region *region, struct stream *stream)
{
	region_leave(map, region);
	if (!event_pending(region->event))
		region_unguard(region);
	region_set_stream(region, stream);
	region->kind = REGION_MALLOC;
	region->id = ++map->newest;
	region_index(map, region);
}

/* Whether one of two events of memory that several streams used can stand for both. */
static bool events_merge(const struct event *a, const struct event *b)
{
	return event_covers(a, b) || event_covers(b, a);
}

bool region_merges(const struct region_map *map, const struct region *region, const struct stream *stream,
		   const struct event *event)
{
	if (region->stream != stream)
		return false;
	if (region_map_ages(map) && region->event != event && event_pending(region->event) &&
	    event_pending(event))
		return false;
	return !event || !event->count || events_merge(region->event, event);
}

/*
 * Whether free memory of @stream may merge with a region. It may not if a stream would then have to wait for another
 * that it need not wait for.
 */
static bool region_is_free_for(const struct region_map *map, const struct region *region, const struct stream *stream,
			       const struct event *event)
{
	if (!region || region->kind != REGION_FREE)
		return false;
	return region_merges(map, region, stream, event) ||
	       (map->keeps && map->streams->sole && (!region->stream || !stream));
}

/*
 * The later of two events of one stream, or of the same streams: when it has passed, so has the other. Moves the
 * caller's reference to it.
 */
static struct event *event_keep_later(struct event *held, struct event *other)
{
	if (!other || (held && event_covers(held, other)))
		return held;
	event_ref(other);
	event_unref(held);
	return other;
}

/*
 * Merges a neighbour that is in no index into a free region, which becomes as young as the neighbour and gets the
 * later event.
 */
static void region_absorb(struct region_map *map, struct region *region, struct region *part, struct stream *stream,
			  struct event *event)
{
	bool moves = !map->keeps || region->stream != stream;
	uint64_t addr = MIN(region->addr, part->addr);
	size_t size = region->size + part->size;
	bool youngest = !moves && !region->set_age.next && !region->map_age.next;

	region_unlink(part);
	region_delete(map, part);
	if (!youngest)
		region_delist(map, region);
	if (moves)
		region_unindex(map, region);
	else
		region_resize(map, region, addr, size);
	event = event_keep_later(event_ref(event), region->event);
	if (event != region->event) {
		region_unguard(region);
		region_guard(region, event);
	}
	event_unref(event);
	region_set_stream(region, stream);
	region_move(region, addr);
	region->size = size;
	region->fresh = false;
	region->id = ++map->newest;
	if (moves)
		region_index(map, region);
	if (!youngest)
		region_enlist(map, region, NULL);
}

/* Makes a region free, and merges it with its neighbours as they are now. */
static struct region *set_free_once(struct region_map *map, struct region *region, struct stream *stream,
				    struct event *event)
{
	struct region *prev, *next;

	if (map->keeps && !event_pending(event)) {
		stream = map->streams->sole;
		event = NULL;
		map->alone = map->alone || stream;
	}
	event_ref(event);
	region_leave(map, region);
	region->reserved = false;
	region_unguard(region);
	prev = region_is_free_for(map, region->prev, stream, event) ? region->prev : NULL;
	if (prev && !stream)
		stream = prev->stream;
	if (prev)
		event = event_keep_later(event, prev->event);
	next = region_is_free_for(map, region->next, stream, event) ? region->next : NULL;
	if (next && !stream)
		stream = next->stream;
	if (prev && next) {
		region_leave(map, next);
		event = event_keep_later(event, next->event);
		region_swallow(map, region, next);
	}
	if (prev || next) {
		struct region *kept = prev ? prev : next;

		region_absorb(map, kept, region, stream, event);
		event_unref(event);
		return kept;
	}
	region->kind = REGION_FREE;
	region_set_stream(region, stream);
	region->id = ++map->newest;
	region_guard(region, event);
	event_unref(event);
	region_index(map, region);
	region_enlist(map, region, NULL);
	return region;
}

struct region *region_set_free(struct region_map *map, struct region *region, struct stream *stream,
			       struct event *event)
{
	if (event && event->count) {
		event = event_left(event);
		stream = event ? event->stream : NULL;
	}
	region = set_free_once(map, region, stream, event);
	/* With a later joined event it may cover a neighbour that neither of the two merged into it did. */
	while (region->event && region->event->count &&
	       (region_is_free_for(map, region->prev, region->stream, region->event) ||
		region_is_free_for(map, region->next, region->stream, region->event)))
		region = set_free_once(map, region, region->stream, region->event);
	return region;
}

void region_share(struct region_map *map)
{
	for (guint i = 0; i < map->sets->len; i++) {
		GList *link = ((struct free_set *)map->sets->pdata[i])->by_age.head, *next;

		/*
		 * This does not disturb the walk: a merge removes only regions of no stream, or appends to another
		 * list.
		 */
		for (; link; link = next) {
			struct region *region = link->data;

			next = link->next;
			if (!event_pending(region->event))
				region_set_free(map, region, NULL, NULL);
		}
	}
	map->alone = false;
}

struct region *region_isolate(struct region_map *map, uint64_t addr, size_t size)
{
	struct region *region = region_at(map, addr);
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
	return (region->kind == REGION_FREE || (map->keeps && region->kind == REGION_ZOMBIE)) && size < region->size &&
	       (addr == region->addr || addr + size == region->addr + region->size);
}

static void region_shrink(struct region_map *map, struct region *region, uint64_t addr, size_t size)
{
	if (region->kind == REGION_FREE) {
		region_resize(map, region, addr, size);
		return;
	}
	map->bytes[REGION_ZOMBIE] -= region->size - size;
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

/* Makes a range one region, in no index, whatever kinds it consists of. */
static struct region *region_gather(struct region_map *map, struct region *region, uint64_t addr, size_t size)
{
	if (region->addr < addr)
		region = region_split(map, region, addr - region->addr);
	region_cut(map, region, size);
	region_leave(map, region);
	region_unguard(region);
	while (region->size < size) {
		struct region *next = region->next;

		region_cut(map, next, size - region->size);
		region_leave(map, next);
		region_swallow(map, region, next);
	}
	return region;
}

struct region *region_take(struct region_map *map, uint64_t addr, size_t size, struct stream *stream,
			   struct event *event)
{
	struct region *region = region_at(map, addr);

	event_ref(event);
	if (region_is_end(map, region, addr, size))
		region = region_carve(map, region, addr, size);
	else
		region = region_gather(map, region, addr, size);
	region_set_stream(region, stream);
	region->kind = REGION_MALLOC;
	region->id = ++map->newest;
	if (event_pending(event))
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

void region_vacate(struct region_map *map, struct region *region, uint64_t addr, size_t size)
{
	struct region *part;

	if (addr > region->addr)
		region_cut(map, region, addr + size - region->addr);
	if (!region_is_end(map, region, addr, size)) {
		region_set_zombie(map, region);
		return;
	}
	part = region_carve(map, region, addr, size);
	region_set_stream(part, region->stream);
	region_guard(part, region->event);
	become_zombie(map, part);
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
	if (region->kind == REGION_FREE && map->streams->sole == region->stream) {
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
		links_append(&map->dead, &region->guarded);
	}
}
