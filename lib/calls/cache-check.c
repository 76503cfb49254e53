// SPDX-License-Identifier: LGPL-2.1-or-later
/* The invariants of the caches, and of what is live. All of it is under the lock of the pool. */
#include <errno.h>
#include <inttypes.h>

#include "calls/check.h"
#include "calls/pool.h"
#include "core/account.h"
#include "core/allocation.h"
#include "core/cache.h"
#include "core/small.h"
#include "pending/users.h"
#include "util/error.h"

static int broken_block(const struct block *block, const char *what)
{
	return error_set(-EUCLEAN, "block at 0x%" PRIx64 " of the cache of stream %" PRIu64 " %s", block->addr,
			 block->cache->stream->id, what);
}

static int expect_cached(const struct cache *cache, uint64_t seen, uint64_t kept, const char *what)
{
	if (seen == kept)
		return 0;
	return error_set(-EUCLEAN, "%s of the cache of stream %" PRIu64 ": %" PRIu64 " are there, %" PRIu64 " are kept",
			 what, cache->stream->id, seen, kept);
}

static int check_block(struct vpmm_pool *pool, const struct cache *cache, const struct block *block)
{
	const struct region *region = block->region->held ? block->region : live_find(&pool->core, block->addr);

	if (!region || region != block->region || region->block != block)
		return broken_block(block, "has not the region there");
	if (block->cache != cache || region->stream != cache->stream)
		return broken_block(block, "belongs to another stream");
	if (block->freed > cache->freed)
		return broken_block(block, "was freed later than anything");
	if (block->state == BLOCK_STRANDED)
		return 0;
	if (table_find(&cache->bins, region->size) != block->bin || block->bin->size != region->size)
		return broken_block(block, "is in the bin of another size");
	if (block->state == BLOCK_TAKEN && !region->held)
		return broken_block(block, "is being freed by nobody");
	if (!region->held != (block->state != BLOCK_TAKEN))
		return broken_block(block, "is held, and not taken");
	return block->state == BLOCK_SHARED && !use_find(&pool->pending, block->addr) ?
	       broken_block(block, "is shared with nobody") : 0;
}

static int check_bins(const struct cache *cache)
{
	uint64_t blocks = 0, count = 0, lent = 0, bytes = 0, listed = 0, marks = 0;
	int err;

	for (unsigned int i = 0; i < CACHE_CLASSES; i++) {
		for (const struct bin *bin = cache->listed[i]; bin; bin = bin->next)
			listed += bin->class == i;
		if (!cache->listed[i] != !(cache->classes[i / 64] >> i % 64 & 1))
			return error_set(-EUCLEAN, "class %u of the cache of stream %" PRIu64 " is not told apart from "
					 "those that are empty", i, cache->stream->id);
	}

	for (size_t i = 0; i <= table_mask(&cache->bins); i++) {
		const struct bin *bin = cache->bins.slots[i].value;
		uint64_t later = UINT64_MAX;

		for (const struct block *block = bin ? bin->top : NULL; block; block = block->next) {
			if (block->state != BLOCK_CACHED || block->bin != bin || block->freed >= later)
				return broken_block(block, "is in a bin, and not cached there in the order of frees");
			later = block->freed;
			count++;
			lent += block->lent;
			bytes += bin->size;
		}
		blocks += bin ? bin->blocks : 0;
		marks += bin && bin->link;
		if (bin && bin->link && *bin->link != bin)
			return error_set(-EUCLEAN, "a bin is listed elsewhere than it knows");
		if (bin && bin->top && !bin->link)
			return broken_block(bin->top, "is cached, and its bin is not listed");
	}
	err = expect_cached(cache, listed, marks, "bins that may have cached blocks");
	if (!err)
		err = expect_cached(cache, blocks, cache->blocks.used, "blocks in bins");
	if (!err)
		err = expect_cached(cache, count, cache->count, "cached blocks");
	if (!err)
		err = expect_cached(cache, lent, cache->lent, "cached blocks that are lent");
	if (!err)
		err = expect_cached(cache, bytes, cache->bytes, "cached bytes");
	return err;
}

static int check_cache(struct vpmm_pool *pool, const struct cache *cache)
{
	uint64_t cached = 0, unmarked = 0, stranded = 0, limit;
	int err = 0;

	for (size_t i = 0; i <= table_mask(&cache->blocks) && !err; i++) {
		const struct block *block = cache->blocks.slots[i].value;

		if (!block)
			continue;
		err = check_block(pool, cache, block);
		if (err)
			return err;
		cached += block->state == BLOCK_CACHED;
		unmarked += block->freed > cache->marked ? block->bin->size : 0;
	}
	for (const struct block *block = cache->stranded; block; block = block->next) {
		err = check_block(pool, cache, block);
		if (err)
			return err;
		stranded += block->region->size;
		unmarked += block->freed > cache->marked ? block->region->size : 0;
	}
	err = check_bins(cache);
	if (!err)
		err = expect_cached(cache, cached, cache->count, "blocks in the state of cached ones");
	if (!err)
		err = expect_cached(cache, unmarked, cache->unmarked, "unmarked bytes");
	if (!err)
		err = expect_cached(cache, stranded, cache->stranded_bytes, "stranded bytes");
	/* The first stream has the larger limit if it was the only one when it last called. */
	limit = cache->stream->first ? CACHE_SOLE_SHARES * cache->limit : cache->limit;
	if (!err && !cache->legacy && cache->unmarked > limit)
		err = error_set(-EUCLEAN, "the cache of stream %" PRIu64 " has %" PRIu64 " bytes unmarked, and a limit "
				"of %" PRIu64, cache->stream->id, cache->unmarked, limit);
	return err;
}

static bool is_outside_cache(const struct block *block)
{
	return !block || (block->state != BLOCK_CACHED && block->state != BLOCK_STRANDED);
}

static void add_live_of(const struct chunk *chunk, struct footprint *live)
{
	for (const struct region *region = chunk->first; region; region = region->next) {
		if (region->kind != REGION_MALLOC || !is_outside_cache(region->block))
			continue;
		live->rounded += region->size;
		live->requested += live_requested(region);
	}
}

static void add_live(const struct region_map *map, struct footprint *live)
{
	for (guint i = 0; i < map->chunks->len; i++)
		add_live_of(map->chunks->pdata[i], live);
}

/* What is live follows from the peaks and the headroom, and from the maps and the caches. */
static int check_live(struct core *core)
{
	struct footprint live = { 0 }, kept;
	GHashTableIter iter;
	gpointer small;

	g_hash_table_iter_init(&iter, core->small);
	while (g_hash_table_iter_next(&iter, NULL, &small))
		live.requested += ((struct small *)small)->size;

	account_lock_all(&core->account);
	account_live(&core->account, &kept);
	add_live(&core->regions, &live);
	add_live(&core->spans, &live);
	account_unlock_all(&core->account);
	if (live.rounded != kept.rounded)
		return error_set(-EUCLEAN, "%" PRIu64 " bytes are live, and the headroom says %" PRIu64, live.rounded,
				 kept.rounded);
	if (live.requested != kept.requested)
		return error_set(-EUCLEAN, "%" PRIu64 " bytes are live, as requested, and the headroom says %" PRIu64,
				 live.requested, kept.requested);
	return 0;
}

int cache_check(struct vpmm_pool *pool)
{
	for_each_stream(stream, &pool->core.streams) {
		struct cache *cache = stream->cache;
		int err;

		brief_acquire(&cache->lock);
		err = check_cache(pool, cache);
		brief_release(&cache->lock);
		if (err)
			return err;
	}
	return check_live(&pool->core);
}
