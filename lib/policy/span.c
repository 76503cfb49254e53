// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <stdbool.h>

#include "calls/pool.h"
#include "calls/stats.h"
#include "core/alias.h"
#include "core/chunk.h"
#include "policy/span.h"
#include "policy/tuning.h"
#include "util/error.h"

/* The largest rest below a page that lies within one extent that cannot move. */
static struct region *find_rest(struct vpmm_pool *pool, const struct free_set *set, size_t size, struct region *best)
{
	size_t page = pool->settings.page_size;
	GTreeNode *node = set ? region_first_fit(set, page) : NULL;

	if (set)
		node = node ? g_tree_node_previous(node) : g_tree_node_last(set->by_size);
	for (int i = 0; node && i < tuning_rests; i++, node = g_tree_node_previous(node)) {
		struct region *region = g_tree_node_key(node);
		const struct place *place;

		if (region->size < MAX(size, best ? best->size + 1 : (size_t)tuning_rest_least))
			break;
		place = extent_place(&pool->extents, region->addr);
		if (place->extent->live && region->addr + region->size <= place->addr + place->extent->size)
			return region;
	}
	return best;
}

/* What is lent next; NULL: there is nothing. */
static struct region *find_loan(struct vpmm_pool *pool, struct stream *stream, size_t size)
{
	struct region *rest;

	if (pool_mapped(pool) > (uint64_t)tuning_borrows * pool->settings.page_size)
		return NULL;
	rest = find_rest(pool, stream->free[pool->regions.set], size, NULL);
	return find_rest(pool, &pool->regions.unused, size, rest);
}

bool span_can_borrow(struct vpmm_pool *pool, struct stream *stream, size_t size)
{
	return find_loan(pool, stream, size);
}

struct region *span_borrow(struct vpmm_pool *pool, struct stream *stream, size_t size)
{
	struct region *rest = find_loan(pool, stream, size);
	struct stream *user;
	struct event *event;

	if (!rest)
		return NULL;
	user = rest->stream;
	event = event_ref(rest->event);
	extent_add_live(&pool->extents, rest->addr, rest->size);
	rest = region_take(&pool->regions, rest->addr, rest->size, user ? user : stream, event);
	region_add_lent(&pool->spans, rest, user, event);
	event_unref(event);
	return region_at(&pool->spans, rest->addr);
}

void span_return(struct vpmm_pool *pool, struct region *region)
{
	struct chunk *chunk = region->chunk;
	struct region *lender = chunk->lender;
	struct stream *stream = region->stream;
	uint64_t addr = chunk->addr;
	size_t size = chunk->size;
	struct event *event;
	bool split;

	if (!lender || region->size != size)
		return;
	event = event_ref(region->event);
	region_remove_lent(&pool->spans, chunk);
	split = extent_sub_live(&pool->extents, addr, size);
	region_set_free(&pool->regions, lender, stream, event);
	event_unref(event);
	/* As where an allocation leaves: the extent is whole now, and is to be so at one place. */
	if (split)
		alias_unify(pool, addr, size);
}

size_t span_growth(struct vpmm_pool *pool)
{
	size_t page = pool->settings.page_size;
	uint64_t have = pool->spans.bytes[REGION_MALLOC] + pool->spans.bytes[REGION_FREE] - pool->spans.lent;
	size_t bytes = MAX(have / tuning_span_growth / page, 1) * page;

	/* A page will do where there is no more to be had. */
	return bytes > extent_room(&pool->extents) ? page : bytes;
}

static int span_create(struct vpmm_pool *pool, size_t bytes, GPtrArray *extents)
{
	int err = extent_judge(&pool->extents, bytes, bytes);

	return err ? err : extent_create(&pool->extents, bytes, bytes, false, extents);
}

int span_grow(struct vpmm_pool *pool, uint64_t *addr)
{
	size_t page = pool->settings.page_size, bytes = span_growth(pool);
	GPtrArray *extents = g_ptr_array_new();
	guint chunks = pool->spans.chunks->len;
	struct region *hole;
	size_t left = 0;
	int err;

	err = chunk_find(pool, &pool->spans, bytes, &hole);
	if (err == -ENOMEM && bytes > page) {
		bytes = page;
		err = chunk_find(pool, &pool->spans, bytes, &hole);
	}
	if (err)
		goto out;
	err = span_create(pool, bytes, extents);
	if (err == -ENOMEM && bytes > page) {
		bytes = page;
		err = span_create(pool, bytes, extents);
	}
	if (err)
		goto err_drop;
	err = extent_map_at(&pool->extents, hole->addr, extents, &left);
	if (err)
		goto err_release;
	extent_settle(&pool->extents, hole->addr, extents);
	region_cut(&pool->spans, hole, bytes);
	hole = region_set_free(&pool->spans, hole, NULL, NULL);
	*addr = hole->addr + hole->size - bytes;
	pool->counts.grows++;
	pool->counts.grown += bytes;
	stats_note_peaks(pool);
	goto out;

err_release:
	if (left) {
		region_cut(&pool->spans, hole, left);
		region_set_stray(&pool->spans, hole);
	}
	extent_release(&pool->extents, extents, 0);
err_drop:
	if (pool->spans.chunks->len > chunks && !left)
		chunk_drop(pool, hole->chunk);
out:
	g_ptr_array_free(extents, TRUE);
	return err;
}

/* Whether an extent of the spans is free, and nobody is to be waited for. */
static bool is_unused(struct vpmm_pool *pool, const struct extent *extent)
{
	const struct region *region;

	if (extent->counts || !extent->places)
		return false;
	region = region_at(&pool->spans, extent->places->addr);
	return region && region->kind == REGION_FREE && !event_pending(region->event) &&
	       extent->places->addr + extent->size <= region->addr + region->size;
}

/* Whether nothing is allocated of what was borrowed, and nobody is to be waited for. */
static bool chunk_is_idle(const struct chunk *chunk)
{
	for (const struct region *region = chunk->first; region; region = region->next) {
		if (region->kind != REGION_FREE || event_pending(region->event))
			return false;
	}
	return true;
}

void span_return_all(struct vpmm_pool *pool)
{
	struct region_map *spans = &pool->spans;

	for (guint i = spans->chunks->len; i > 0; i--) {
		struct chunk *chunk = spans->chunks->pdata[i - 1];
		struct region *region = chunk->first;

		if (!chunk->lender)
			continue;
		if (region->size < chunk->size && chunk_is_idle(chunk))
			region = region_isolate(spans, chunk->addr, chunk->size);
		if (region->kind == REGION_FREE)
			span_return(pool, region);
	}
}

uint64_t span_unused(struct vpmm_pool *pool)
{
	uint64_t bytes = 0;

	for (GList *link = pool->extents.all.head; link; link = link->next) {
		const struct extent *extent = link->data;

		if (is_unused(pool, extent))
			bytes += extent->size;
	}
	return bytes;
}

int span_trim(struct vpmm_pool *pool, uint64_t keep)
{
	GList *link, *next;
	int err;

	for (link = pool->extents.all.head; link; link = next) {
		struct extent *extent = link->data;
		uint64_t addr;
		size_t size;

		next = link->next;
		if (pool_mapped(pool) - extent->size < keep || !is_unused(pool, extent))
			continue;
		addr = extent->places->addr;
		size = extent->size;
		err = extent_drop(&pool->extents, extent);
		if (err)
			return err;
		region_set_unmapped(&pool->spans, region_isolate(&pool->spans, addr, size));
	}
	return 0;
}

bool span_is_short(const struct vpmm_pool *pool)
{
	const struct region_map *spans = &pool->spans;
	uint64_t wanted = spans->bytes[REGION_MALLOC] + spans->bytes[REGION_MALLOC] / tuning_span_growth;

	return spans->lent && pool_mapped(pool) > (uint64_t)tuning_borrows * pool->settings.page_size &&
	       spans->bytes[REGION_MALLOC] + spans->bytes[REGION_FREE] - spans->lent < wanted;
}

void span_settle(struct vpmm_pool *pool)
{
	struct error_kept kept;
	uint64_t addr;

	error_keep(&kept);
	while (span_is_short(pool)) {
		if (span_grow(pool, &addr))
			break;
	}
	error_restore(&kept);
}
