// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <inttypes.h>

#include "check.h"
#include "error.h"
#include "pool.h"

/* What a walk over all regions has seen, to be held against the indices and the sums. */
struct census {
	const struct vpmm_pool *pool;
	uint64_t bytes[REGION_KINDS];
	uint64_t count[REGION_KINDS];
	uint64_t passed;
	uint64_t dead;
	uint64_t guarded;
	uint64_t active;
};

static int broken(const struct region *region, const char *what)
{
	return error_set(-EUCLEAN, "region of %zu bytes at 0x%" PRIx64 " %s", region->size, region->addr, what);
}

static int check_place(const struct region *region, const struct chunk *chunk, uint64_t addr, size_t page_size)
{
	if (region->chunk != chunk || region->addr != addr)
		return broken(region, "does not start where its neighbour ends");
	if (!region->size || region->size % page_size)
		return broken(region, "is not a whole number of pages");
	if (region->next && region->next->prev != region)
		return broken(region, "is not its neighbour's neighbour");
	return 0;
}

static int check_merged(const struct region *region)
{
	const struct region *next = region->next;

	if (!next || next->kind != region->kind)
		return 0;
	if (region->kind == REGION_UNMAPPED)
		return broken(region, "and the next are both unmapped, and not merged");
	if (region->kind == REGION_FREE && region->stream == next->stream)
		return broken(region, "and the next are free for one stream, and not merged");
	return 0;
}

static int check_indices(struct census *census, const struct region *region)
{
	const struct region_map *map = &census->pool->regions;
	const struct free_set *set = region->stream ? region->stream->free : &map->unused;

	switch (region->kind) {
	case REGION_UNMAPPED:
		if (g_tree_lookup(map->unmapped, region) != region)
			return broken(region, "is unmapped, and not in the tree of holes");
		break;
	case REGION_MALLOC:
		if (g_hash_table_lookup(map->mallocs, &region->addr) != region)
			return broken(region, "is allocated, and not in the table of allocations");
		break;
	case REGION_FREE:
		if (!set || g_tree_lookup(set->by_size, region) != region)
			return broken(region, "is free, and not in its stream's tree");
		if (region->stream && !event_pending(region->event)) {
			census->passed++;
			if (g_tree_lookup(map->passed, region) != region)
				return broken(region, "is free with its event passed, and not in the tree of those");
		}
		break;
	default:
		break;
	}
	return 0;
}

static int check_event(struct census *census, const struct region *region)
{
	bool freed = region->kind == REGION_FREE || region->kind == REGION_ZOMBIE;

	if (region->kind == REGION_UNMAPPED && (region->event || region->stream))
		return broken(region, "has a stream or an event that its kind does not have");
	if (freed && region->event && region->event->stream != region->stream)
		return broken(region, "has another stream's event");
	if (event_pending(region->event)) {
		census->guarded++;
		if (!g_list_find(region->event->guarded.head, region))
			return broken(region, "is not known to its event");
	} else if (region->kind == REGION_ZOMBIE) {
		census->dead++;
	}
	return 0;
}

static int check_extents(struct census *census, const struct region *region)
{
	GHashTable *active = census->pool->extents.active;
	uint64_t addr = region->addr, end = region->addr + region->size;

	if (region->kind != REGION_MALLOC && region->kind != REGION_FREE) {
		for (; addr < end && region->kind == REGION_ZOMBIE; addr += census->pool->extents.page_size) {
			if (g_hash_table_contains(active, &addr))
				return broken(region, "is a zombie, and an extent has its address there");
		}
		return 0;
	}
	while (addr < end) {
		const struct extent *extent = g_hash_table_lookup(active, &addr);

		if (!extent || extent->addr != addr || !extent->size || extent->size > end - addr)
			return broken(region, "is mapped, and not covered by extents");
		census->active++;
		addr += extent->size;
	}
	return 0;
}

static int check_chunk(struct census *census, const struct chunk *chunk)
{
	uint64_t addr = chunk->addr;
	int err;

	for (const struct region *region = chunk->first; region; region = region->next) {
		err = check_place(region, chunk, addr, census->pool->settings.page_size);
		if (!err)
			err = check_merged(region);
		if (!err)
			err = check_indices(census, region);
		if (!err)
			err = check_event(census, region);
		if (!err)
			err = check_extents(census, region);
		if (err)
			return err;
		census->bytes[region->kind] += region->size;
		census->count[region->kind]++;
		addr += region->size;
	}
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

static int check_streams(const struct census *census)
{
	const struct region_map *regions = &census->pool->regions;
	uint64_t free_count = (uint64_t)g_tree_nnodes(regions->unused.by_size);
	uint64_t guarded = 0, zombies = 0, busy = 0;
	struct stream *stream;
	GHashTableIter iter;
	int err;

	g_hash_table_iter_init(&iter, census->pool->streams.by_id);
	while (g_hash_table_iter_next(&iter, NULL, (gpointer *)&stream)) {
		zombies += stream->zombies;
		busy += !g_queue_is_empty(&stream->pending);
		for (GList *link = stream->pending.head; link; link = link->next)
			guarded += ((struct event *)link->data)->guarded.length;
		if (!stream->free)
			continue;
		free_count += (uint64_t)g_tree_nnodes(stream->free->by_size);
		err = expect((uint64_t)g_tree_nnodes(stream->free->by_size), stream->free->by_age.length,
			     "free regions of a stream by age");
		if (!err)
			err = check_ages(&stream->free->by_age, "free regions of a stream");
		if (err)
			return err;
	}
	err = expect(census->count[REGION_FREE], free_count, "free regions of all streams");
	if (!err)
		err = expect(census->guarded, guarded, "regions with pending events");
	if (!err)
		err = expect(census->count[REGION_ZOMBIE] - census->dead, zombies, "zombies with pending events");
	if (!err)
		err = expect(busy, census->pool->streams.busy.length, "streams with pending events");
	return err;
}

static int check_sums(const struct census *census)
{
	static const char *const kinds[REGION_KINDS] = {
		[REGION_UNMAPPED] = "bytes unmapped",
		[REGION_MALLOC] = "bytes allocated",
		[REGION_FREE] = "bytes free",
		[REGION_ZOMBIE] = "bytes of zombies",
	};
	const struct region_map *map = &census->pool->regions;
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
		err = expect(census->count[REGION_UNMAPPED], (uint64_t)g_tree_nnodes(map->unmapped), "holes");
	if (!err)
		err = expect(census->passed, (uint64_t)g_tree_nnodes(map->passed), "free regions past their events");
	if (!err)
		err = expect(census->count[REGION_FREE], map->by_age.length, "free regions by age");
	if (!err)
		err = check_ages(&map->by_age, "free regions");
	if (!err)
		err = expect(census->dead, map->dead.length, "zombies past their events");
	if (!err)
		err = expect(census->active, g_hash_table_size(census->pool->extents.active), "extents");
	return err;
}

static int check_small(const struct vpmm_pool *pool)
{
	uint64_t bytes = 0;
	struct small *small;
	GHashTableIter iter;

	g_hash_table_iter_init(&iter, pool->small);
	while (g_hash_table_iter_next(&iter, NULL, (gpointer *)&small))
		bytes += small->size;
	return expect(bytes, pool->small_live, "bytes of small allocations");
}

int check_pool(struct vpmm_pool *pool)
{
	struct census census = { .pool = pool };
	int err;

	for (guint i = 0; i < pool->regions.chunks->len; i++) {
		err = check_chunk(&census, pool->regions.chunks->pdata[i]);
		if (err)
			return err;
	}
	err = check_sums(&census);
	if (!err)
		err = check_streams(&census);
	if (!err)
		err = check_small(pool);
	return err;
}
