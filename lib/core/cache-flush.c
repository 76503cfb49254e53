// SPDX-License-Identifier: LGPL-2.1-or-later
/* The flush of a cache: cached blocks become free regions. */
#include <stdatomic.h>

#include "core/allocation.h"
#include "core/cache-flush.h"
#include "core/cache.h"
#include "core/core.h"
#include "core/owner.h"
#include "util/bound.h"
#include "util/error.h"

/* So many are sorted as they come. */
#define FEW BOUND(24, 2)

static void sort_few(struct freed *freed, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		struct freed next = freed[i];
		size_t j = i;

		for (; j > 0 && freed[j - 1].when > next.when; j--)
			freed[j] = freed[j - 1];
		freed[j] = next;
	}
}

/* Moves them to @sorted in the order of one byte of @when - @least; those with the same byte stay in their order. */
static void sort_by_byte(const struct freed *freed, size_t count, uint64_t least, unsigned int shift,
			 struct freed *sorted)
{
	unsigned int at[257] = { 0 };

	for (size_t i = 0; i < count; i++)
		at[((freed[i].when - least) >> shift & 255) + 1]++;
	for (size_t byte = 1; byte < 256; byte++)
		at[byte] += at[byte - 1];
	for (size_t i = 0; i < count; i++)
		sorted[at[(freed[i].when - least) >> shift & 255]++] = freed[i];
}

/*
 * Sorts by when they were freed. A phase of small blocks ends with hundreds, and with qsort() the calls to compare two
 * would take more than all else of a flush. @room: for as many. Return: where they are now, @freed or @room.
 */
static const struct freed *sort_freed(struct freed *freed, size_t count, struct freed *room)
{
	uint64_t least = UINT64_MAX, most = 0;

	if (count <= FEW) {
		sort_few(freed, count);
		return freed;
	}
	for (size_t i = 0; i < count; i++) {
		least = MIN(least, freed[i].when);
		most = MAX(most, freed[i].when);
	}
	for (unsigned int shift = 0; shift < 64 && (most - least) >> shift; shift += 8) {
		struct freed *sorted = room;

		sort_by_byte(freed, count, least, shift, sorted);
		room = freed;
		freed = sorted;
	}
	return freed;
}

/* Takes what is marked out of a bin: the last, as those freed later come first. @lent: only what is. */
static size_t bin_harvest(struct cache *cache, struct bin *bin, bool lent, struct freed *freed)
{
	struct block **link = &bin->top, *block;
	size_t count = 0;

	brief_assert_held(&cache->lock);
	while (*link && (*link)->freed > cache->marked)
		link = &(*link)->next;
	while ((block = *link)) {
		if (lent && !block->lent) {
			link = &block->next;
			continue;
		}
		*link = block->next;
		freed[count++] = (struct freed){ .when = block->freed, .region = block->region };
		cache_uncount(cache, block);
		/* Nothing that is live changes, so neither does the headroom. */
		cache->floor -= (int64_t)bin->size;
	}
	return count;
}

static size_t class_harvest(struct cache *cache, unsigned int class, size_t least, struct freed *freed)
{
	size_t count = 0;
	struct bin *next;

	brief_assert_held(&cache->lock);
	for (struct bin *bin = cache->listed[class]; bin; bin = next) {
		next = bin->next;
		if (bin->size >= least || cache->lent)
			count += bin_harvest(cache, bin, bin->size < least, freed + count);
		if (!bin->top)
			cache_unlist(cache, bin);
	}
	return count;
}

/* The first class from one on that may have cached blocks; CACHE_CLASSES: there is none. */
static unsigned int next_class(const struct cache *cache, unsigned int class)
{
	while (class < CACHE_CLASSES) {
		uint64_t left = cache->classes[class / 64] >> class % 64;

		if (left)
			return class + (unsigned int)__builtin_ctzll(left);
		class = (class / 64 + 1) * 64;
	}
	return CACHE_CLASSES;
}

static size_t cache_harvest(struct cache *cache, size_t least, struct freed *freed, struct event **event)
{
	brief_assert_held(&cache->lock);
	/* Of what is smaller, only what is lent is of interest. */
	unsigned int class = next_class(cache, cache->lent ? 0 : cache_class(least));
	size_t count = 0;

	for (; class < CACHE_CLASSES; class = next_class(cache, class + 1))
		count += class_harvest(cache, class, least, freed + count);
	for (size_t i = 0; i < count; i++)
		cache_forget(freed[i].region->block);
	cache->flushed += count;
	if (count)
		*event = event_ref(cache_adopt(cache));
	return count;
}

/* How many regions in core->flushed a cache lets go of, and the event that they are behind. */
struct flush {
	size_t count;
	struct event *event;
};

/* Takes what is marked, of @least bytes or more. */
static void flush_begin(struct flush *flush, struct core *core, struct cache *cache, size_t least)
{
	brief_assert_held(&cache->lock);
	flush->event = NULL;
	flush->count = cache->count ? cache_harvest(cache, least, core->flushed, &flush->event) : 0;
}

/* Frees it for the maps, in the order in which it was freed. */
static bool flush_end(struct flush *flush, struct core *core, struct cache *cache)
{
	const struct freed *freed = sort_freed(core->flushed, flush->count, core->flushed + CACHE_BLOCKS_MAX);

	for (size_t i = 0; i < flush->count; i++) {
		owner_note(core, freed[i].region, cache->stream);
		live_leave(core, freed[i].region, cache->stream, flush->event);
	}
	event_unref(flush->event);
	return flush->count;
}

static bool flush_marked(struct core *core, struct cache *cache, size_t least)
{
	struct flush flush;

	brief_acquire(&cache->lock);
	flush_begin(&flush, core, cache, least);
	brief_release(&cache->lock);
	return flush_end(&flush, core, cache);
}

static void free_stranded(struct core *core, struct block **link, struct event *event)
{
	struct block *block = *link;
	struct cache *cache = block->cache;
	struct region *region = block->region;

	*link = block->next;
	cache->stranded_bytes -= region->size;
	region->block = NULL;
	live_leave(core, region, event ? event->stream : NULL, event);
	event_unref(block->event);
	g_aligned_free(block);
}

/* What the stream had freed before others freed it: the stream waits for those, and is behind all of it then. */
static int flush_stranded(struct core *core, struct cache *cache, struct CUstream_st *handle)
{
	struct stall stall = { .start = NULL };
	struct event *event;
	guint waits = 0;
	int err = 0;

	for (struct block *block = cache->stranded; block && !err; block = block->next) {
		if (!event_pending(block->event))
			continue;
		if (!waits)
			stall = stall_begin(&core->streams, handle);
		err = event_wait(block->event, handle);
		waits += !err;
	}
	stall_end(&core->streams, handle, &stall, err ? 0 : waits);
	core->counts.waits += waits;
	if (err)
		return err;
	brief_acquire(&cache->lock);
	err = cache_mark(cache, handle);
	event = err ? NULL : event_ref(cache_adopt(cache));
	brief_release(&cache->lock);
	while (!err && cache->stranded)
		free_stranded(core, &cache->stranded, event);
	event_unref(event);
	return err;
}

/* See to it that the mark stands for all that a flush lets go of. */
static int flush_mark(struct cache *cache, struct CUstream_st *handle, size_t least)
{
	brief_assert_held(&cache->lock);
	if (!cache->count || !cache->unmarked || (cache->unmarked_most < least && !cache->lent))
		return 0;
	return cache_mark(cache, handle);
}

void cache_flush(struct core *core, struct stream *stream, struct CUstream_st *handle, size_t least)
{
	struct cache *cache = stream->cache;
	struct error_kept kept;
	struct flush flush;
	bool failed;

	lock_assert_held(&core->lock);
	error_keep(&kept);
	failed = cache->stranded && flush_stranded(core, cache, handle);
	brief_acquire(&cache->lock);
	/* What stays is to leave room for what is freed next. */
	if (cache->bytes > cache->most / 2)
		least = 0;
	if (flush_mark(cache, handle, least))
		failed = true;
	flush_begin(&flush, core, cache, least);
	brief_release(&cache->lock);
	flush_end(&flush, core, cache);
	if (failed)
		error_restore(&kept);
}

void cache_flush_full(struct core *core, struct stream *stream, struct CUstream_st *handle)
{
	struct cache *cache = stream->cache;
	bool full;

	lock_assert_held(&core->lock);
	brief_acquire(&cache->lock);
	full = cache_is_full(cache, 0);
	brief_release(&cache->lock);
	if (full)
		cache_flush(core, stream, handle, 0);
}

/* What is stranded need not wait for its own stream any more once the mark has passed. */
static bool flush_passed(struct core *core, struct cache *cache)
{
	struct block **link = &cache->stranded;
	bool any = false;
	uint64_t marked;

	brief_acquire(&cache->lock);
	cache_adopt(cache);
	marked = cache->marked;
	brief_release(&cache->lock);
	if (stream_poll(cache->stream) || event_pending(cache->adopted))
		return false;
	while (*link) {
		if ((*link)->freed > marked) {
			link = &(*link)->next;
			continue;
		}
		free_stranded(core, link, (*link)->event);
		any = true;
	}
	return any;
}

bool cache_flush_streams(struct core *core, bool idle, size_t least)
{
	uint32_t pressure = (uint32_t)atomic_load_explicit(&core->pressure, memory_order_relaxed);
	struct error_kept kept;
	bool any = false;

	lock_assert_held(&core->lock);
	error_keep(&kept);
	for_each_stream(stream, &core->streams) {
		struct cache *cache = stream->cache;
		bool busy;

		brief_acquire(&cache->lock);
		busy = idle && cache->served == pressure + 1;
		if (!busy && cache->legacy && cache->count && cache->unmarked)
			cache_mark_legacy(cache);
		brief_release(&cache->lock);
		if (busy)
			continue;
		if (flush_marked(core, cache, least))
			any = true;
		if (cache->stranded && flush_passed(core, cache))
			any = true;
	}
	error_restore(&kept);
	return any;
}

bool cache_flush_all(struct core *core)
{
	lock_assert_held(&core->lock);
	return cache_flush_streams(core, false, 0);
}

/* All frees up to one have completed, with what was submitted before them: as good as if the mark stood for them. */
static void cache_complete(struct cache *cache, uint64_t freed)
{
	brief_assert_held(&cache->lock);
	if (freed <= cache->marked)
		return;
	cache->marked = freed;
	cache->unmarked = 0;
	for (size_t i = 0; i <= table_mask(&cache->blocks); i++) {
		const struct block *block = cache->blocks.slots[i].value;

		if (block && block->freed > freed)
			cache->unmarked += block->bin->size;
	}
	for (const struct block *block = cache->stranded; block; block = block->next)
		cache->unmarked += block->freed > freed ? block->region->size : 0;
}

int cache_await_device(struct core *core)
{
	guint count = g_hash_table_size(core->streams.by_id), i = 0;
	uint64_t *freed = g_new0(uint64_t, count);
	int err;

	lock_assert_held(&core->lock);
	/* The wait does not cover what other threads free meanwhile. */
	for_each_stream(stream, &core->streams) {
		struct cache *cache = stream->cache;

		brief_acquire(&cache->lock);
		cache_adopt(cache);
		freed[i++] = cache->freed;
		brief_release(&cache->lock);
	}
	err = core->backend->ops->sync(core->backend);
	if (err)
		goto out;
	i = 0;
	for_each_stream(stream, &core->streams) {
		struct cache *cache = stream->cache;

		brief_acquire(&cache->lock);
		cache_complete(cache, freed[i++]);
		brief_release(&cache->lock);
	}
	stream_pass_busy(&core->streams);
	cache_flush_all(core);
out:
	g_free(freed);
	return err;
}

void cache_drain(struct core *core)
{
	bool unmarked = false;

	lock_assert_held(&core->lock);
	for_each_stream(stream, &core->streams) {
		struct cache *cache = stream->cache;

		brief_acquire(&cache->lock);
		if (cache->legacy && cache->unmarked)
			cache_mark_legacy(cache);
		cache_adopt(cache);
		unmarked = unmarked || cache->unmarked;
		brief_release(&cache->lock);
	}
	/* Of streams that have freed without an event, and may be gone, nothing else tells that they are past it. */
	if (unmarked)
		core->backend->ops->sync(core->backend);
}
