// SPDX-License-Identifier: LGPL-2.1-or-later
/* vpmm_pool_check(): walks all regions and extents, and compares them with every index and sum. */
#include <errno.h>
#include <inttypes.h>

#include "calls/budget.h"
#include "calls/check.h"
#include "calls/pool.h"
#include "core/shareable.h"
#include "core/small.h"
#include "pending/deferred-free.h"
#include "pending/group.h"
#include "shared/shared.h"
#include "util/circle.h"
#include "util/error.h"

/* What a walk over all regions has counted, to be compared with the indices and sums. */
struct census {
	struct core *core;
	const struct region_map *map;
	size_t piece;
	GHashTable *extents;
	uint64_t bytes[REGION_KINDS];
	uint64_t count[REGION_KINDS];
	struct gaps gaps;
	uint64_t passed;
	uint64_t dead;
	uint64_t guarded;
	uint64_t zombies;
	uint64_t reserved;
	uint64_t growables;
};

/* Bytes of an extent that a walk over the regions found. */
struct shown {
	uint64_t live;
	uint64_t free;
};

static int broken(const struct region *region, const char *what)
{
	return error_set(-EUCLEAN, "region of %zu bytes at 0x%" PRIx64 " %s", region->size, region->addr, what);
}

static int check_place(const struct region *region, const struct chunk *chunk, uint64_t addr, size_t piece)
{
	if (region->chunk != chunk || region->addr != addr)
		return broken(region, "does not start where its neighbour ends");
	if (!region->size || region->size % piece)
		return broken(region, "is not a multiple of what sizes are rounded up to");
	if (region->next && region->next->prev != region)
		return broken(region, "is not its neighbour's neighbour");
	return 0;
}

static int check_merged(const struct census *census, const struct region *region)
{
	const struct region *next = region->next;

	if (!next || next->kind != region->kind || next->reserved != region->reserved)
		return 0;
	if (region->kind == REGION_UNMAPPED)
		return broken(region, "and the next are both unmapped, and not merged");
	if (region->kind == REGION_FREE && region_merges(census->map, region, next->stream, next->event))
		return broken(region, "and the next are free for one stream, and not merged");
	if (region->kind == REGION_ZOMBIE && census->map->keeps && !region->event && !next->event &&
	    !region->stray && !next->stray)
		return broken(region, "and the next are zombies that nobody waits for, and not merged");
	return 0;
}

static int check_indices(struct census *census, const struct region *region)
{
	const struct region_map *map = census->map;
	const struct free_set *set = region->stream ? region->stream->free[map->set] : &map->unused;

	switch (region->kind) {
	case REGION_UNMAPPED:
		census->reserved += region->reserved;
		if (g_tree_lookup(map->unmapped, region) != (region->reserved ? NULL : region))
			return broken(region, "is unmapped, and not in the tree of holes unless it is reserved");
		break;
	case REGION_MALLOC:
		if (g_hash_table_lookup(map->mallocs, &region->addr) != region)
			return broken(region, "is allocated, and not in the table of allocations");
		if (census->core->settings.cache && !region->block != (region->max > 0))
			return broken(region, "is allocated, and growable or unknown to its stream's cache");
		break;
	case REGION_FREE:
		if (region->block)
			return broken(region, "is free, and a block of a cache");
		if (!set || g_tree_lookup(set->by_size, region) != region)
			return broken(region, "is free, and not in its stream's tree");
		if (region->key_addr != region->addr || region->key_size != region->size)
			return broken(region, "is free, and not where its size belongs in its stream's tree");
		if (map->keeps && !map->alone && region->stream && !event_pending(region->event))
			return broken(region, "is free with its event passed, and still somebody's");
		if (!map->keeps && region->stream && !event_pending(region->event)) {
			census->passed++;
			if (g_tree_lookup(map->passed, region) != region)
				return broken(region, "is free with its event passed, and not in the tree of those");
		}
		break;
	case REGION_LOOSE:
		return broken(region, "is loose after region_decide()");
	default:
		break;
	}
	if (region_starts_find(&region->chunk->starts, region->addr) != region)
		return broken(region, "is not found by its address");
	return 0;
}

static int check_event(struct census *census, const struct region *region)
{
	bool freed = region->kind == REGION_FREE || region->kind == REGION_ZOMBIE;

	if (region->kind == REGION_UNMAPPED && (region->event || region->stream))
		return broken(region, "has a stream or an event that its kind does not have");
	if (freed && region->event && region->event->stream != region->stream)
		return broken(region, "has another stream's event");
	if (freed && census->map->keeps && region->event && region->event->count && region->event->left < 2)
		return broken(region, "waits for several streams, and only one is left");
	if (event_pending(region->event)) {
		census->guarded++;
		census->zombies += region->kind == REGION_ZOMBIE;
		if (!circle_contains(&region->event->guarded, &region->guarded))
			return broken(region, "is not known to its event");
	} else if (region->kind == REGION_ZOMBIE && (!census->map->keeps || region->stray)) {
		census->dead++;
	}
	return 0;
}

static struct shown *shown_of(struct census *census, struct extent *extent)
{
	struct shown *shown = g_hash_table_lookup(census->extents, extent);

	if (!shown) {
		shown = g_new0(struct shown, 1);
		g_hash_table_insert(census->extents, extent, shown);
	}
	return shown;
}

static int check_mapped(struct census *census, const struct region *region)
{
	struct extent_map *map = &census->core->extents;
	uint64_t addr = region->addr, end = region->addr + region->size;
	bool mapped = region->kind != REGION_UNMAPPED;

	/* Holes can be huge, so look at both ends only. Stray regions belong to no extent. */
	if (!mapped && (extent_place(map, addr) || extent_place(map, end - 1)))
		return broken(region, "is unmapped, and an extent has a place there");
	if (!mapped || region->kind == REGION_ZOMBIE)
		return 0;
	while (addr < end) {
		struct place *place = extent_place(map, addr);
		struct shown *shown;
		uint64_t stop;

		if (!place || addr - place->addr >= place->extent->size)
			return broken(region, "is mapped, and not covered by extents");
		stop = MIN(end, place->addr + place->extent->size);
		shown = shown_of(census, place->extent);
		*(region->kind == REGION_MALLOC ? &shown->live : &shown->free) += stop - addr;
		addr = stop;
	}
	return 0;
}

/* What is reserved behind a growable block. */
static size_t reserved_behind(const struct region *region)
{
	size_t size = 0;

	while ((region = region->next) && region->reserved)
		size += region->size;
	return size;
}

/* A growable block is whole extents of its own, and what is reserved follows such a block. */
static int check_growable(struct census *census, const struct region *region)
{
	uint64_t addr = region->addr, end = addr + region->size;
	const struct region *below = region->prev;

	if (region->reserved && region->kind != REGION_UNMAPPED && region->kind != REGION_ZOMBIE)
		return broken(region, "is reserved for a growable block, and mapped for another");
	if (region->reserved && (!below || (!below->reserved && (below->kind != REGION_MALLOC || !below->max))))
		return broken(region, "is reserved, and no growable block is below it");
	if (region->kind != REGION_MALLOC || !region->max)
		return 0;
	if (region->size + reserved_behind(region) != core_page_up(census->core, region->max))
		return broken(region, "is a growable block, and has other address space than is its own");
	census->growables++;
	while (addr < end) {
		const struct place *place = extent_place(&census->core->extents, addr);

		if (!place || place->addr != addr || place->extent->size > end - addr)
			return broken(region, "can grow, and has an extent that is not all its own");
		addr += place->extent->size;
	}
	return 0;
}

static int check_chunk(struct census *census, const struct chunk *chunk)
{
	uint64_t addr = chunk->addr, starts = 0;
	int err;

	/* Mappings are looked up by page number. */
	if (addr % census->core->settings.page_size)
		return error_set(-EUCLEAN, "the chunk at 0x%" PRIx64 " does not begin with a page", addr);
	for (const struct region *region = chunk->first; region; region = region->next) {
		err = check_place(region, chunk, addr, census->piece);
		if (!err)
			err = check_merged(census, region);
		if (!err)
			err = check_indices(census, region);
		if (!err)
			err = check_event(census, region);
		if (!err)
			err = check_growable(census, region);
		if (!err)
			err = check_mapped(census, region);
		if (err)
			return err;
		census->bytes[region->kind] += region->size;
		census->count[region->kind]++;
		if (region->kind == REGION_FREE)
			gaps_add(&census->gaps, region->size);
		starts += region_starts_are_lowest(&chunk->starts, region);
		addr += region->size;
	}
	if (starts != chunk->starts.count)
		return error_set(-EUCLEAN, "the starts of the regions of the chunk at 0x%" PRIx64 " are not all there",
				 chunk->addr);
	if (addr != chunk->addr + chunk->size)
		return error_set(-EUCLEAN, "the regions of the chunk at 0x%" PRIx64 " do not fill it", chunk->addr);
	return 0;
}

static int expect(uint64_t seen, uint64_t kept, const char *what)
{
	if (seen == kept)
		return 0;
	return error_set(-EUCLEAN, "%s: %" PRIu64 " are there, %" PRIu64 " are kept", what, seen, kept);
}

static int check_ages(const GQueue *queue, const char *what)
{
	uint64_t last = 0;

	for (const GList *link = queue->head; link; link = link->next) {
		const struct region *region = link->data;

		if (region->id < last)
			return error_set(-EUCLEAN, "%s are not in the order of their age", what);
		last = region->id;
	}
	return 0;
}

static int check_set(const struct free_set *set, uint64_t *free_count)
{
	int err;

	if (!set)
		return 0;
	*free_count += (uint64_t)g_tree_nnodes(set->by_size);
	err = expect((uint64_t)g_tree_nnodes(set->by_size), set->by_age.length, "free regions of a stream by age");
	return err ? err : check_ages(&set->by_age, "free regions of a stream");
}

static int check_sets(const struct census *census)
{
	uint64_t free_count = (uint64_t)g_tree_nnodes(census->map->unused.by_size);
	int err;

	err = check_set(census->core->streams.joined->free[census->map->set], &free_count);
	if (err)
		return err;
	for_each_stream(stream, &census->core->streams) {
		err = check_set(stream->free[census->map->set], &free_count);
		if (err)
			return err;
	}
	return expect(census->count[REGION_FREE], free_count, "free regions of all streams");
}

/* A joined event is known to each of its parts that is pending. */
static int check_parts(const struct event *joined, uint64_t *parts)
{
	guint left = 0;

	for (guint i = 0; i < joined->count; i++) {
		const struct join *part = &joined->parts[i];

		if (part->event->count || (i && part->event->stream->id <= part[-1].event->stream->id))
			return error_set(-EUCLEAN, "the parts of a joined event are not those of different streams");
		if (part->event->passed)
			continue;
		if (part->joined != joined || !g_list_find(part->event->joins.head, part))
			return error_set(-EUCLEAN, "a joined event is not known to a part that is pending");
		left++;
	}
	*parts += left;
	return expect(left, joined->left, "pending parts of a joined event");
}

static int check_joined(const struct core *core, uint64_t parts, uint64_t *guarded)
{
	uint64_t seen = 0;
	int err = 0;

	for (const GList *link = core->streams.joined->pending.head; link && !err; link = link->next) {
		const struct event *joined = link->data;

		*guarded += circle_length(&joined->guarded);
		err = check_parts(joined, &seen);
	}
	return err ? err : expect(seen, parts, "events that are parts of joined ones");
}

static int check_streams(const struct census *census)
{
	uint64_t guarded = 0, zombies = census->core->streams.joined->zombies, busy = 0, parts = 0;
	int err;

	for_each_stream(stream, &census->core->streams) {
		zombies += stream->zombies;
		busy += !g_queue_is_empty(&stream->pending);
		for (GList *link = stream->pending.head; link; link = link->next) {
			guarded += circle_length(&((struct event *)link->data)->guarded);
			parts += ((struct event *)link->data)->joins.length;
		}
	}
	err = expect(g_hash_table_size(census->core->streams.by_id), census->core->streams.all.length,
		     "streams in the order in which they were met");
	if (!err)
		err = check_joined(census->core, parts, &guarded);
	if (!err)
		err = expect(census->guarded, guarded, "regions with pending events");
	if (!err)
		err = expect(census->zombies, zombies, "zombies with pending events");
	if (!err)
		err = expect(busy, census->core->streams.busy.length, "streams with pending events");
	return err;
}

static int check_gaps(const struct census *census)
{
	const struct gaps *seen = &census->gaps, *kept = &census->map->gaps;
	int err = 0;

	for (size_t i = 0; i < GAPS_CLASSES && !err; i++) {
		err = expect(seen->of[i].count, kept->of[i].count, "gaps of a class");
		if (!err)
			err = expect(seen->of[i].bytes, kept->of[i].bytes, "bytes of gaps of a class");
	}
	return err;
}

static int check_sums(const struct census *census)
{
	static const char *const kinds[REGION_KINDS] = {
		[REGION_UNMAPPED] = "bytes unmapped",
		[REGION_MALLOC] = "bytes allocated",
		[REGION_FREE] = "bytes free",
		[REGION_ZOMBIE] = "bytes of zombies",
		[REGION_LOOSE] = "bytes that are loose",
	};
	const struct region_map *map = census->map;
	uint64_t count = 0;
	int err;

	for (int kind = 0; kind < REGION_KINDS; kind++) {
		err = expect(census->bytes[kind], map->bytes[kind], kinds[kind]);
		if (err)
			return err;
		count += census->count[kind];
	}
	err = expect(count, map->count, "regions");
	if (!err)
		err = expect(census->count[REGION_MALLOC], g_hash_table_size(map->mallocs), "allocations");
	if (!err)
		err = expect(census->count[REGION_UNMAPPED] - census->reserved,
			     (uint64_t)g_tree_nnodes(map->unmapped), "holes");
	if (!err)
		err = expect(census->passed, (uint64_t)g_tree_nnodes(map->passed), "free regions past their events");
	if (!err)
		err = expect(census->count[REGION_FREE], map->by_age.length, "free regions by age");
	if (!err)
		err = check_ages(&map->by_age, "free regions");
	if (!err)
		err = check_gaps(census);
	if (!err)
		err = expect(census->dead, circle_length(&map->dead), "zombies to be unmapped");
	if (!err)
		err = expect(census->growables, map->growables, "growable blocks");
	return err ? err : check_sets(census);
}

static int check_region_map(struct census *census, struct region_map *map, size_t piece)
{
	struct census sums = { .core = census->core, .map = map, .piece = piece, .extents = census->extents };
	int err = circle_first(&map->loose) && !map->streams->sole ? error_set(-EUCLEAN, "loose, with several streams") : 0;

	region_update(map);
	region_update_mallocs(map);
	for (guint i = 0; i < map->chunks->len && !err; i++)
		err = check_chunk(&sums, map->chunks->pdata[i]);
	if (!err)
		err = check_sums(&sums);
	census->guarded += sums.guarded;
	census->zombies += sums.zombies;
	return err;
}

/* A whole extent must be free at its home. */
static int check_home(struct core *core, struct extent *extent)
{
	uint64_t bytes = 0, end = extent->home->addr + extent->size;
	const struct region *region = region_around(&core->regions, extent->home->addr);

	for (; region && region->addr < end; region = region->next) {
		if (region->kind == REGION_FREE)
			bytes += MIN(end, region->addr + region->size) - MAX(extent->home->addr, region->addr);
	}
	if (!ready_is_right(&core->extents.ready, &core->regions, extent))
		return error_set(-EUCLEAN, "a whole extent of %zu bytes is indexed by the wrong stream", extent->size);
	return expect(bytes, extent->size, "bytes free at the home of a whole extent");
}

/* Of a list with as many extents as there should be, none may be wrong; @same: all must be of this size. */
static int check_whole(const GQueue *queue, const struct extent_size *same)
{
	uint64_t count = 0;

	for (const GList *link = queue->head; link; link = link->next) {
		const struct extent *extent = link->data;

		if (extent->live)
			return error_set(-EUCLEAN,
					 "an extent of %zu bytes is in a list of whole ones, and is not whole",
					 extent->size);
		if (same && extent->same_size != same)
			return error_set(-EUCLEAN, "an extent of %zu bytes is in the list of those of %zu",
					 extent->size, same->size);
		count++;
	}
	return expect(count, queue->length, "whole extents in a list");
}

static int check_sizes(const struct extent_map *map, uint64_t extents, uint64_t whole)
{
	GTreeNode *node = g_tree_node_first(map->sizes);
	uint64_t of_sizes = 0, whole_of_sizes = 0;
	int err;

	err = check_whole(&map->whole, NULL);
	for (; node && !err; node = g_tree_node_next(node)) {
		const struct extent_size *same = g_tree_node_value(node);

		of_sizes += same->extents;
		whole_of_sizes += same->whole.length;
		err = check_whole(&same->whole, same);
	}
	if (!err)
		err = expect(whole, map->whole.length, "whole extents");
	if (!err)
		err = expect(whole, whole_of_sizes, "whole extents by size");
	return err ? err : expect(extents, of_sizes, "extents by size");
}

/* Each byte of an extent must be allocated or free at exactly one of its mappings. */
static int check_extents(struct census *census)
{
	struct extent_map *map = &census->core->extents;
	uint64_t whole = 0, whole_count = 0, stuck = 0, bytes = 0, places = 0;
	int err;

	extent_update_whole(map);
	for (GList *link = map->all.head; link; link = link->next) {
		struct extent *extent = link->data;
		const struct shown *shown = shown_of(census, extent);

		err = expect(shown->live + shown->free, extent->size, "bytes of an extent");
		if (!err)
			err = expect(extent->counts ? shown->live : extent->size, extent->live,
				     "bytes allocated of an extent");
		if (!err && extent_is_whole(extent))
			err = check_home(census->core, extent);
		if (err)
			return err;
		bytes += extent->size;
		if (extent->counts && extent->live) {
			stuck += extent->size - extent->live;
		} else if (extent->counts) {
			whole += extent->size;
			whole_count++;
		}
		/* Each knows the one above it. */
		for (const struct place *place = extent->places; place; place = place->next)
			places += place->above == extent_place(map, place->addr + extent->size);
	}
	err = expect(bytes, map->bytes, "bytes of all extents");
	if (!err)
		err = expect(whole, map->whole_bytes, "bytes of whole extents");
	if (!err)
		err = expect(stuck, map->stuck_bytes, "bytes that are stuck");
	if (!err)
		err = expect(places, map->places, "places of extents");
	if (!err)
		err = expect(circle_length(&map->by_use), map->places, "places by use");
	return err ? err : check_sizes(map, map->all.length, whole_count);
}

static int check_shareable(const struct core *core, const struct small *small)
{
	const struct shareable *it = small->shareable;

	if (it->addr + it->offset != small->addr || !it->bytes || it->bytes % core->granularity ||
	    it->offset + small->size > it->bytes)
		return error_set(-EUCLEAN,
				 "a shareable block of %zu bytes has %" PRIu64 " bytes of memory at 0x%" PRIx64,
				 small->size, it->bytes, it->addr);
	/* Parts are gone only where the driver failed to take all of it. */
	if (!small->held && (!it->count || !it->reserved || it->mapped != it->bytes))
		return error_set(-EUCLEAN, "a shareable block of %zu bytes is not mapped", small->size);
	return 0;
}

static void add_shareable(const struct shareable *it, uint64_t *own, uint64_t *imported)
{
	if (it->counted)
		*(it->imported ? imported : own) += it->bytes;
}

static int check_small(const struct core *core)
{
	uint64_t bytes = 0, own = 0, imported = 0;
	struct small *small;
	GHashTableIter iter;
	int err = 0;

	g_hash_table_iter_init(&iter, core->small);
	while (!err && g_hash_table_iter_next(&iter, NULL, (gpointer *)&small)) {
		if (small->shareable) {
			add_shareable(small->shareable, &own, &imported);
			err = check_shareable(core, small);
		} else {
			bytes += small->size;
		}
	}
	for (guint i = 0; i < core->strays->len; i++)
		add_shareable(core->strays->pdata[i], &own, &imported);
	if (!err)
		err = expect(bytes, core->small_live, "bytes of small allocations");
	if (!err)
		err = expect(own, core->shareable, "bytes of shareable blocks");
	if (!err)
		err = expect(imported, core->imported, "bytes of other processes");
	if (!err)
		err = expect(bytes + own + core->shared, core->extents.apart,
			     "bytes elsewhere that count for the limit");
	return err ? err : pool_budget_check(core);
}

int check_pool(struct vpmm_pool *pool)
{
	struct core *core = &pool->core;
	struct census census = { .core = core };
	int err;

	lock_assert_held(&pool->core.lock);
	census.extents = g_hash_table_new_full(NULL, NULL, NULL, g_free);
	err = check_region_map(&census, &core->regions, core->piece);
	if (!err)
		err = check_region_map(&census, &core->spans, CORE_PIECE);
	if (!err)
		err = check_extents(&census);
	if (!err)
		err = check_streams(&census);
	if (!err)
		err = check_small(core);
	if (!err)
		err = hold_check(&pool->pending);
	if (!err)
		err = group_check(&pool->pending);
	if (!err)
		err = cache_check(pool);
	if (!err)
		err = shared_check(&pool->shared);
	if (!err && core->backend->ops->check)
		err = core->backend->ops->check(core->backend);
	g_hash_table_destroy(census.extents);
	return err;
}
