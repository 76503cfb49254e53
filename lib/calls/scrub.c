// SPDX-License-Identifier: LGPL-2.1-or-later
#include "calls/pool.h"
#include "calls/scrub.h"
#include "core/allocation.h"
#include "core/cache.h"
#include "pending/deferred-free.h"
#include "util/error.h"

/* Bytes of an extent that one stream had last. The extent's tree has them by where they start; they do not overlap. */
struct owner {
	size_t from;
	size_t to;
	uint64_t id;
};

static gint compare_from(gconstpointer a, gconstpointer b, gpointer data)
{
	size_t x = *(const size_t *)a, y = *(const size_t *)b;

	(void)data;
	return (x > y) - (x < y);
}

/* The last that starts before some byte. */
static struct owner *owner_before(GTree *owners, size_t at)
{
	GTreeNode *node = g_tree_lower_bound(owners, &at);

	node = node ? g_tree_node_previous(node) : g_tree_node_last(owners);
	return node ? g_tree_node_value(node) : NULL;
}

static void owner_add(GTree *owners, size_t from, size_t to, uint64_t id)
{
	struct owner *owner = g_new(struct owner, 1);

	*owner = (struct owner){ .from = from, .to = to, .id = id };
	g_tree_insert(owners, &owner->from, owner);
}

static void disown(GTree *owners, size_t from, size_t to)
{
	struct owner *owner;

	while ((owner = owner_before(owners, to)) && owner->to > from) {
		struct owner old = *owner;

		g_tree_remove(owners, &old.from);
		if (old.from < from)
			owner_add(owners, old.from, from, old.id);
		if (old.to > to)
			owner_add(owners, to, old.to, old.id);
	}
}

/* One stream's neighbours become one, so that there are no more than there have to be. */
static void own(GTree *owners, size_t from, size_t to, uint64_t id)
{
	const struct owner *below, *above;

	disown(owners, from, to);
	below = owner_before(owners, from);
	if (below && below->to == from && below->id == id)
		from = below->from;
	above = g_tree_lookup(owners, &to);
	if (above && above->id == id)
		to = above->to;
	disown(owners, from, to);
	owner_add(owners, from, to, id);
}

static bool is_own(GTree *owners, size_t from, size_t to, uint64_t id)
{
	const struct owner *owner;

	while (from < to) {
		owner = owner_before(owners, from + 1);
		if (!owner || owner->to <= from || owner->id != id)
			return false;
		from = owner->to;
	}
	return true;
}

/* Part of an extent that a region lies in. */
struct part {
	struct extent *extent;
	size_t from;
	size_t to;
};

static struct part part_at(struct vpmm_pool *pool, uint64_t addr, uint64_t end)
{
	const struct place *place = extent_place(&pool->extents, addr);
	size_t from = addr - place->addr;

	return (struct part){ place->extent, from, MIN(from + (end - addr), place->extent->size) };
}

/* Whether a stream had all of a region last; from then on nobody had. */
static bool take_own(struct vpmm_pool *pool, const struct region *region, const struct stream *stream)
{
	uint64_t end = region->addr + region->size;
	bool all = true;
	struct part part;

	for (uint64_t addr = region->addr; addr < end; addr += part.to - part.from) {
		part = part_at(pool, addr, end);
		all = all && part.extent->owners && is_own(part.extent->owners, part.from, part.to, stream->id);
		if (part.extent->owners)
			disown(part.extent->owners, part.from, part.to);
	}
	return all;
}

void scrub_free(struct vpmm_pool *pool, const struct region *region, const struct stream *stream)
{
	uint64_t end = region->addr + region->size;
	struct part part;

	if (pool->settings.scrub != VPMM_SCRUB_STREAM || region->stream != stream)
		return;
	for (uint64_t addr = region->addr; addr < end; addr += part.to - part.from) {
		part = part_at(pool, addr, end);
		if (!part.extent->owners)
			part.extent->owners = g_tree_new_full(compare_from, NULL, NULL, g_free);
		own(part.extent->owners, part.from, part.to, stream->id);
	}
}

/* It goes back as it came: who is past its event need not wait, and others do. That needs no driver. */
static void give_back(struct vpmm_pool *pool, struct region *region)
{
	struct event *event = event_pending(region->event) ? event_ref(region->event) : NULL;

	cache_take(region);
	cache_drop(region);
	live_leave(pool, region, event ? event->stream : NULL, event);
	event_unref(event);
}

int scrub_clear(struct vpmm_pool *pool, uint64_t addr, size_t size, struct CUstream_st *handle)
{
	int err;

	err = pool->backend->ops->clear(pool->backend, addr, size, handle);
	if (err)
		return error_add(err, "clearing %zu bytes", size);
	pool->scrubbed += size;
	return 0;
}

static int scrub_small(struct vpmm_pool *pool, uint64_t addr, struct CUstream_st *handle)
{
	const struct small *small = g_hash_table_lookup(pool->small, &addr);
	struct error_kept kept;
	int err;

	err = scrub_clear(pool, addr, small->size, handle);
	if (!err) {
		pool->small_cleared = true;
		return 0;
	}
	/* What the driver does not take back now it is given when the pool is destroyed. */
	error_keep(&kept);
	if (!pool->backend->ops->small_free(pool->backend, addr, handle))
		pool_forget_small(pool, small);
	error_restore(&kept);
	return err;
}

static int mark_clear(struct region *region, struct CUstream_st *handle)
{
	struct stream *stream = region->stream;
	struct event *event;
	int err;

	/* What is cleared in a graph is nobody else's before that is gone. */
	if (stream->captured)
		return 0;
	if (region->block)
		return cache_mark_work(region, handle);
	err = stream_record(stream, handle, &event);
	if (err)
		return err;
	region_set_begin(region, event);
	event_unref(event);
	return 0;
}

/* Nobody has it, and a clear may be pending that has no mark: it is free when its stream is known to be past that. */
static void set_aside(struct vpmm_pool *pool, struct region *region)
{
	if (cache_take(region))
		hold_unheard(pool, region);
}

int scrub_malloc(struct vpmm_pool *pool, uint64_t addr, struct stream *stream, struct CUstream_st *handle)
{
	struct region *region = live_find(pool, addr);
	int err;

	if (!region)
		return scrub_small(pool, addr, handle);
	if (pool->settings.scrub == VPMM_SCRUB_STREAM && take_own(pool, region, stream))
		return 0;
	err = scrub_clear(pool, addr, region->size, handle);
	if (err) {
		give_back(pool, region);
		return err;
	}
	err = mark_clear(region, handle);
	if (err)
		set_aside(pool, region);
	return err;
}

/* The same of what has been counted as an allocation. */
static void set_aside_counted(struct vpmm_pool *pool, uint64_t addr)
{
	struct region *region = live_find(pool, addr);

	if (!region)
		return;
	set_aside(pool, region);
	pool->counts.frees++;
}

/* As the caller would free it, if the driver lets that be. */
static void drop(struct vpmm_pool *pool, uint64_t addr, struct CUstream_st *handle)
{
	struct error_kept kept;

	error_keep(&kept);
	if (pool_free(pool, addr, handle))
		set_aside_counted(pool, addr);
	error_restore(&kept);
}

int scrub_zero(struct vpmm_pool *pool, uint64_t addr, size_t size, struct CUstream_st *handle)
{
	struct region *region;
	int err;

	err = scrub_clear(pool, addr, size, handle);
	pthread_mutex_lock(&pool->lock);
	region = live_find(pool, addr);
	if (!err && region)
		err = mark_clear(region, handle);
	else if (!err)
		pool->small_cleared = true;
	if (err)
		drop(pool, addr, handle);
	pthread_mutex_unlock(&pool->lock);
	return err;
}

void scrub_drop(struct vpmm_pool *pool, uint64_t addr)
{
	pthread_mutex_lock(&pool->lock);
	set_aside_counted(pool, addr);
	pthread_mutex_unlock(&pool->lock);
}
