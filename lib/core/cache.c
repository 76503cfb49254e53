// SPDX-License-Identifier: LGPL-2.1-or-later
/* Caches, their bins, and the states of blocks. */
#include <stdatomic.h>
#include <string.h>
#include <glib.h>

#include "backend/backend.h"
#include "core/account.h"
#include "core/cache.h"
#include "core/region.h"
#include "core/stream.h"
#include "util/bound.h"
#include "util/error.h"
#include "util/line.h"

/* Empty bins are kept up to this number of bins. */
#define BINS_KEPT BOUND(1024, 4)

/* log2 of the smallest size, 512 bytes, where the classes begin. */
#define CLASSES_LOG 9

/* Unused block structures are kept up to this number: a training step frees a thousand in a row. */
#define SPARES_KEPT BOUND(4096, 4)

struct cache *cache_new(struct stream *stream, bool legacy, uint64_t limit, struct cache *spare)
{
	struct cache *cache = spare;

	if (!cache) {
		cache = line_alloc(sizeof(*cache), LINE_PAIR);
		brief_init(&cache->lock, LOCK_CACHE);
		table_init(&cache->blocks);
		table_init(&cache->bins);
		account_add(stream->map->account, cache);
	}
	brief_acquire(&cache->lock);
	cache->id = stream->id;
	cache->stream = stream;
	cache->legacy = legacy;
	cache->limit = limit;
	cache->most = stream->map->most_cached;
	brief_release(&cache->lock);
	return cache;
}

bool cache_is_empty(struct cache *cache)
{
	bool empty;

	brief_acquire(&cache->lock);
	empty = !cache->blocks.used && !cache->stranded;
	brief_release(&cache->lock);
	return empty;
}

static void bins_free(struct cache *cache)
{
	struct bin *bin;

	for (size_t i = 0; i <= table_mask(&cache->bins); i++)
		g_aligned_free(cache->bins.slots[i].value);
	table_clear(&cache->bins);
	while ((bin = cache->spare_bin)) {
		cache->spare_bin = bin->next;
		g_aligned_free(bin);
	}
}

/* The mark can serve another stream: all blocks that it covered are gone. */
void cache_retire(struct cache *cache)
{
	struct stream_map *map = cache->stream->map;

	map->unmarked_left += cache->limit;
	event_unref(cache->adopted);
	brief_acquire(&cache->lock);
	map->mallocs += cache->mallocs;
	map->frees += cache_frees(cache);
	bins_free(cache);
	table_init(&cache->bins);
	cache->id = CACHE_NOBODY;
	cache->stream = NULL;
	memset(cache->listed, 0, sizeof(cache->listed));
	memset(cache->classes, 0, sizeof(cache->classes));
	cache->adopted = NULL;
	cache->last = NULL;
	cache->freed = cache->marked = cache->mark_seq = cache->recorded = 0;
	cache->unmarked_most = 0;
	cache->served = 0;
	cache->nervous = 0;
	cache->put_off = 0;
	cache->watch = 0;
	cache->wary = false;
	cache->mallocs = cache->flushed = cache->central = 0;
	cache->added = cache->before = 0;
	cache_set_run(cache, 0);
	brief_release(&cache->lock);
}

static void blocks_free(struct block *block)
{
	struct block *next;

	for (; block; block = next) {
		next = block->next;
		if (block->state == BLOCK_STRANDED)
			event_unref(block->event);
		g_aligned_free(block);
	}
}

void cache_end(struct cache *cache)
{
	brief_acquire(&cache->lock);
	cache->id = CACHE_NOBODY;
	brief_release(&cache->lock);
}

void cache_clear(struct cache *cache, struct backend *be)
{
	blocks_free(cache->spare);
	blocks_free(cache->stranded);
	for (size_t i = 0; i <= table_mask(&cache->blocks); i++)
		g_aligned_free(cache->blocks.slots[i].value);
	table_clear(&cache->blocks);
	bins_free(cache);
	event_unref(cache->adopted);
	if (cache->mark)
		be->ops->event_destroy(be, cache->mark);
}

void cache_delete(struct cache *cache, struct backend *be)
{
	cache_clear(cache, be);
	g_aligned_free(cache);
}

unsigned int cache_class(size_t size)
{
	unsigned int log;

	if (size >> CLASSES_LOG == 0)
		return 0;
	log = 63 - (unsigned int)__builtin_clzll(size);
	return MIN((log - CLASSES_LOG) * 4 + (size >> (log - 2) & 3), CACHE_CLASSES - 1);
}

int cache_mark(struct cache *cache, struct CUstream_st *handle)
{
	struct backend *be = cache->stream->map->backend;
	bool put_off;
	int err;

	brief_assert_held(&cache->lock);
	if (!cache->mark) {
		err = be->ops->event_create(be, &cache->mark);
		if (err)
			return err;
	}
	put_off = cache->legacy && cache->put_off < EVENT_SHARES - 1 &&
		  atomic_load_explicit(&cache->stream->map->sole, memory_order_relaxed) == cache->stream;
	err = put_off ? 0 : be->ops->event_record(be, cache->mark, handle);
	if (err)
		return err;
	cache->put_off = put_off ? cache->put_off + 1 : 0;
	cache->mark_seq = ++cache->recorded;
	cache->marked = cache->freed;
	cache->unmarked = 0;
	cache->unmarked_most = 0;
	return 0;
}

int cache_mark_work(struct region *region, struct CUstream_st *handle, struct backend_event **reserved)
{
	struct block *block = region->block;
	struct cache *cache = block->cache;
	uint64_t before;
	int err;

	brief_acquire(&cache->lock);
	before = block->freed;
	block->freed = ++cache->freed;
	if (!cache->mark)
		cache->mark = g_steal_pointer(reserved);
	err = cache_mark(cache, handle);
	if (err)
		block->freed = before;
	brief_release(&cache->lock);
	return err;
}

struct event *cache_adopt(struct cache *cache)
{
	brief_assert_held(&cache->lock);
	if (cache->mark_seq && !event_renew(cache->adopted, &cache->mark, cache->mark_seq, cache->put_off)) {
		event_unref(cache->adopted);
		cache->adopted = stream_adopt(cache->stream, cache->mark, cache->mark_seq);
		cache->adopted->put_off = cache->put_off;
		/* The next mark may be recorded without the lock that the unused events are under. */
		cache->mark = event_spare_handle(cache->stream->map);
	}
	cache->mark_seq = 0;
	return cache->adopted;
}

void cache_watch(struct cache *cache, uint16_t frees)
{
	brief_acquire(&cache->lock);
	cache->watch = frees;
	cache->wary = true;
	brief_release(&cache->lock);
}

static struct bin *bin_of(struct cache *cache, size_t size)
{
	struct bin *bin = table_find(&cache->bins, size);

	if (!bin) {
		bin = cache->spare_bin;
		if (bin)
			cache->spare_bin = bin->next;
		else
			bin = line_alloc(sizeof(*bin), LINE_SIZE);
		*bin = (struct bin){ .size = size };
		bin->class = cache_class(size);
		table_insert(&cache->bins, size, bin);
	}
	return bin;
}

static void make_block(struct cache *cache, struct region *region, bool lent)
{
	struct block *block = cache->spare;

	brief_assert_held(&cache->lock);
	if (block) {
		cache->spare = block->next;
		cache->spares--;
	} else {
		block = line_alloc(sizeof(*block), LINE_SIZE);
	}
	*block = (struct block){
		.addr = region->addr,
		.region = region,
		.cache = cache,
		.bin = bin_of(cache, region->size),
		.requested = region->requested,
		.state = BLOCK_LIVE,
		.lent = lent,
	};
	block->bin->blocks++;
	cache->added++;
	cache_set_run(cache, 0);
	table_insert(&cache->blocks, block->addr, block);
	region->block = block;
}

void cache_add(struct region *region, bool lent)
{
	struct cache *cache = region->stream->cache;

	brief_acquire(&cache->lock);
	make_block(cache, region, lent);
	brief_release(&cache->lock);
}

bool cache_enter(struct region *region, bool lent)
{
	struct cache *cache = region->stream->cache;
	bool below;

	brief_acquire(&cache->lock);
	make_block(cache, region, lent);
	below = cache_is_below_peak(cache, region->size, region->requested);
	if (below) {
		cache->floor += (int64_t)region->size;
		cache->room -= region->requested;
	}
	brief_release(&cache->lock);
	return below;
}

static void drop_unused(struct cache *cache, struct bin *bin)
{
	if (bin->blocks || cache->bins.used <= BINS_KEPT)
		return;
	table_remove(&cache->bins, bin->size);
	bin->next = cache->spare_bin;
	cache->spare_bin = bin;
}

void cache_unlist(struct cache *cache, struct bin *bin)
{
	brief_assert_held(&cache->lock);
	*bin->link = bin->next;
	if (bin->next)
		bin->next->link = bin->link;
	bin->link = NULL;
	if (!cache->listed[bin->class])
		cache->classes[bin->class / 64] &= ~(UINT64_C(1) << bin->class % 64);
	drop_unused(cache, bin);
}

void cache_forget(struct block *block)
{
	struct cache *cache = block->cache;
	struct bin *bin = block->bin;

	brief_assert_held(&cache->lock);
	table_remove(&cache->blocks, block->addr);
	bin->blocks--;
	/* Otherwise the empty bin would stay in the list until the next flush. */
	if (!bin->blocks && bin->link)
		cache_unlist(cache, bin);
	else
		drop_unused(cache, bin);
	if (cache->last == block)
		cache->last = NULL;
	if (block->state == BLOCK_STRANDED)
		return;
	if (block->freed > cache->marked)
		cache->unmarked -= block->region->size;
	block->region->block = NULL;
	if (cache->spares == SPARES_KEPT) {
		g_aligned_free(block);
		return;
	}
	block->next = cache->spare;
	cache->spare = block;
	cache->spares++;
}

static enum block_state state_of(const struct block *block)
{
	enum block_state state;

	brief_acquire(&block->cache->lock);
	state = block->state;
	brief_release(&block->cache->lock);
	return state;
}

bool cache_begins(struct cache *cache)
{
	if (G_LIKELY(cache_run(cache) < CACHE_PHASE))
		return false;
	brief_acquire(&cache->lock);
	cache->before = cache_allocations(cache);
	brief_release(&cache->lock);
	return true;
}

bool cache_holds(const struct region *region)
{
	enum block_state state = region->block ? state_of(region->block) : BLOCK_LIVE;

	return state == BLOCK_CACHED || state == BLOCK_STRANDED;
}

static bool is_live(const struct block *block)
{
	return block->state == BLOCK_LIVE || block->state == BLOCK_SHARED;
}

/* Return: false if it is already freed or being freed. */
static bool change_live(const struct region *region, enum block_state state)
{
	struct block *block = region->block;
	bool live;

	if (!block)
		return true;
	brief_acquire(&block->cache->lock);
	live = is_live(block);
	if (live)
		block->state = state;
	brief_release(&block->cache->lock);
	return live;
}

bool cache_take(struct region *region)
{
	return change_live(region, BLOCK_TAKEN);
}

bool cache_share(struct region *region)
{
	return change_live(region, BLOCK_SHARED);
}

void cache_untake(struct region *region, bool shared)
{
	struct block *block = region->block;

	if (!block)
		return;
	brief_acquire(&block->cache->lock);
	block->state = shared ? BLOCK_SHARED : BLOCK_LIVE;
	brief_release(&block->cache->lock);
}

void cache_drop(struct region *region)
{
	struct cache *cache = region->block ? region->block->cache : NULL;

	if (!cache)
		return;
	brief_acquire(&cache->lock);
	cache_forget(region->block);
	brief_release(&cache->lock);
}

void cache_mark_legacy(struct cache *cache)
{
	struct backend *be = cache->stream->map->backend;
	struct error_kept kept;
	uint64_t id;

	brief_assert_held(&cache->lock);
	error_keep(&kept);
	if (be->ops->stream_id(be, STREAM_LEGACY, &id) || cache_mark(cache, STREAM_LEGACY))
		error_restore(&kept);
}

bool cache_behind(struct region *region, struct event **event)
{
	struct block *block = region->block;
	struct cache *cache = block ? block->cache : NULL;
	bool told = true;

	*event = region->event;
	if (!block || !block->freed)
		return true;
	brief_acquire(&cache->lock);
	if (block->freed > cache->marked && cache->legacy)
		cache_mark_legacy(cache);
	if (block->freed > cache->marked)
		told = false;
	else
		*event = cache_adopt(cache);
	brief_release(&cache->lock);
	return told;
}

struct event *cache_work(struct region *region)
{
	struct block *block = region->block;
	struct event *event = NULL;

	if (block && block->freed) {
		brief_acquire(&block->cache->lock);
		event = cache_adopt(block->cache);
		brief_release(&block->cache->lock);
	}
	return event ? event : region->event;
}

void cache_strand(struct region *region, struct event *event)
{
	struct block *block = region->block;
	struct cache *cache = block->cache;

	brief_acquire(&cache->lock);
	block->state = BLOCK_STRANDED;
	cache_forget(block);
	brief_release(&cache->lock);
	block->event = event_ref(event);
	block->next = cache->stranded;
	cache->stranded = block;
	cache->stranded_bytes += region->size;
}
