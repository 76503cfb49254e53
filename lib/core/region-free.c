// SPDX-License-Identifier: LGPL-2.1-or-later
/* How ranges become free, and merge with their neighbours. */
#include "core/region-index.h"
#include "core/region.h"

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
			  struct event *event, uint64_t id)
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
	region->id = id;
	if (moves)
		region_index(map, region);
	if (!youngest)
		region_enlist(map, region, NULL);
}

/* Makes a region free, and merges it with its neighbours as they are now. @id: when it was freed. */
static struct region *set_free_once(struct region_map *map, struct region *region, struct stream *stream,
				    struct event *event, uint64_t id)
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

		region_absorb(map, kept, region, stream, event, id);
		event_unref(event);
		return kept;
	}
	region->kind = REGION_FREE;
	region_set_stream(region, stream);
	region->id = id;
	region_guard(region, event);
	event_unref(event);
	region_index(map, region);
	region_enlist(map, region, NULL);
	return region;
}

struct region *region_set_free_merged(struct region_map *map, struct region *region, struct stream *stream,
				      struct event *event, uint64_t id)
{
	region = set_free_once(map, region, stream, event, id);
	/* With a later joined event it may cover a neighbour that neither of the two merged into it did. */
	while (region->event && region->event->count &&
	       (region_is_free_for(map, region->prev, region->stream, region->event) ||
		region_is_free_for(map, region->next, region->stream, region->event)))
		region = set_free_once(map, region, region->stream, region->event, ++map->newest);
	return region;
}

/* Leaves it to region_decide() to make a region free. */
static struct region *set_loose(struct region_map *map, struct region *region, struct stream *stream,
				struct event *event)
{
	if (!event_pending(event)) {
		stream = map->streams->sole;
		event = NULL;
	}
	event_ref(event);
	region_leave(map, region);
	region->reserved = false;
	region_unguard(region);
	region->kind = REGION_LOOSE;
	region_set_stream(region, stream);
	region_guard(region, event);
	event_unref(event);
	region->id = ++map->newest;
	map->alone = true;
	region_index(map, region);
	return region;
}

struct region *region_set_free(struct region_map *map, struct region *region, struct stream *stream,
			       struct event *event)
{
	if (event && event->count) {
		event = event_left(event);
		stream = event ? event->stream : NULL;
	}
	if (map->lazy && map->streams->sole && !(event && event->count))
		return set_loose(map, region, stream, event);
	return region_set_free_merged(map, region, stream, event, ++map->newest);
}
