// SPDX-License-Identifier: LGPL-2.1-or-later
/* Slabs: how many there are, and where they come from. */
#include <errno.h>
#include <stdbool.h>

#include "core/account.h"
#include "core/chunk.h"
#include "core/core.h"
#include "policy/span.h"
#include "policy/tuning.h"
#include "util/error.h"

/* The largest free region below a page, if it is a rest: pinned, and within one extent. */
static struct region *find_rest(struct core *core, const struct free_set *set, size_t size, struct region *best)
{
	GTreeNode *node = set ? region_first_fit(set, core->settings.page_size) : NULL;
	const struct place *place;
	struct region *region;

	if (set)
		node = node ? g_tree_node_previous(node) : g_tree_node_last(set->by_size);
	if (!node)
		return best;
	region = g_tree_node_key(node);
	if (region->size < size || (best && region->size <= best->size))
		return best;
	place = extent_place(&core->extents, region->addr);
	if (place->extent->live && region->addr + region->size <= place->addr + place->extent->size)
		return region;
	return best;
}

bool span_may_borrow(const struct core *core)
{
	return core_mapped(core) <= (uint64_t)tuning_borrows * core->settings.page_size;
}

/* The memory of the next loan; NULL: there is none. */
static struct region *find_loan(struct core *core, struct stream *stream, size_t size)
{
	struct region *rest;

	if (!span_may_borrow(core))
		return NULL;
	rest = find_rest(core, stream->free[core->regions.set], size, NULL);
	return find_rest(core, &core->regions.unused, size, rest);
}

bool span_can_borrow(struct core *core, struct stream *stream, size_t size)
{
	return find_loan(core, stream, size);
}

struct region *span_borrow(struct core *core, struct stream *stream, size_t size)
{
	struct region *rest = find_loan(core, stream, size);
	struct stream *user;
	struct event *event;

	if (!rest)
		return NULL;
	user = rest->stream;
	event = event_ref(rest->event);
	extent_add_live(&core->extents, rest->addr, rest->size);
	rest = region_take(&core->regions, rest->addr, rest->size, user ? user : stream, event);
	region_add_lent(&core->spans, rest, user, event);
	event_unref(event);
	return region_at(&core->spans, rest->addr);
}

size_t span_growth(struct core *core)
{
	size_t page = core->settings.page_size;
	uint64_t have = core->spans.bytes[REGION_MALLOC] + core->spans.bytes[REGION_FREE] - core->spans.lent;
	size_t bytes = MAX(have / tuning_span_growth / page, 1) * page;

	/* If the limit leaves less, take a page. */
	return bytes > extent_room(&core->extents) ? page : bytes;
}

static int span_create(struct core *core, size_t bytes, GPtrArray *extents)
{
	int err = extent_judge(&core->extents, bytes, bytes);

	return err ? err : extent_create(&core->extents, bytes, bytes, false, extents);
}

int span_grow(struct core *core, uint64_t *addr)
{
	size_t page = core->settings.page_size, bytes = span_growth(core);
	GPtrArray *extents = g_ptr_array_new();
	guint chunks = core->spans.chunks->len;
	struct region *hole;
	size_t left = 0;
	int err;

	err = chunk_find(core, &core->spans, bytes, &hole);
	if (err == -ENOMEM && bytes > page) {
		bytes = page;
		err = chunk_find(core, &core->spans, bytes, &hole);
	}
	if (err)
		goto out;
	err = span_create(core, bytes, extents);
	if (err == -ENOMEM && bytes > page) {
		bytes = page;
		err = span_create(core, bytes, extents);
	}
	if (err)
		goto err_drop;
	err = extent_map_at(&core->extents, hole->addr, extents, &left);
	if (err)
		goto err_release;
	extent_settle(&core->extents, hole->addr, extents);
	region_cut(&core->spans, hole, bytes);
	hole = region_set_free(&core->spans, hole, NULL, NULL);
	*addr = hole->addr + hole->size - bytes;
	core->counts.grows++;
	core->counts.grown += bytes;
	account_note_taken(core);
	goto out;

err_release:
	if (left) {
		region_cut(&core->spans, hole, left);
		region_set_stray(&core->spans, hole);
	}
	extent_release(&core->extents, extents, 0);
err_drop:
	if (core->spans.chunks->len > chunks && !left)
		chunk_drop(core, hole->chunk);
out:
	g_ptr_array_free(extents, TRUE);
	return err;
}

/* Whether an extent of a slab is empty, with no pending work in it. */
static bool is_unused(struct core *core, const struct extent *extent)
{
	const struct region *region;

	if (extent->counts || !extent->places)
		return false;
	region = region_at(&core->spans, extent->places->addr);
	return region && region->kind == REGION_FREE && !event_pending(region->event) &&
	       extent->places->addr + extent->size <= region->addr + region->size;
}

uint64_t span_unused(struct core *core)
{
	uint64_t bytes = 0;

	for (GList *link = core->extents.all.head; link; link = link->next) {
		const struct extent *extent = link->data;

		if (is_unused(core, extent))
			bytes += extent->size;
	}
	return bytes;
}

int span_trim(struct core *core, uint64_t keep)
{
	GList *link, *next;
	int err;

	for (link = core->extents.all.head; link; link = next) {
		struct extent *extent = link->data;
		uint64_t addr;
		size_t size;

		next = link->next;
		if (core_mapped(core) - extent->size < keep || !is_unused(core, extent))
			continue;
		addr = extent->places->addr;
		size = extent->size;
		err = extent_drop(&core->extents, extent);
		if (err)
			return err;
		region_set_unmapped(&core->spans, region_isolate(&core->spans, addr, size));
	}
	return 0;
}

bool span_is_short(const struct core *core)
{
	const struct region_map *spans = &core->spans;
	uint64_t wanted = spans->bytes[REGION_MALLOC] + spans->bytes[REGION_MALLOC] / tuning_span_growth;

	return spans->lent && !span_may_borrow(core) &&
	       spans->bytes[REGION_MALLOC] + spans->bytes[REGION_FREE] - spans->lent < wanted;
}

void span_settle(struct core *core)
{
	struct error_kept kept;
	uint64_t addr;

	error_keep(&kept);
	while (span_is_short(core)) {
		if (span_grow(core, &addr))
			break;
	}
	error_restore(&kept);
}
