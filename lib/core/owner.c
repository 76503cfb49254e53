// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The last owner of each byte of an extent, for VPMM_SCRUB=stream. Kept with the extent, as the address of free memory
 * can change.
 */
#include "core/core.h"
#include "core/owner.h"

/* A range of an extent, and the stream that owns it. The extent's tree is sorted by start; ranges do not overlap. */
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

/* The last range that starts before an offset. */
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

/* Merges adjacent ranges of one stream, to keep the tree small. */
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

/* The part of an extent that a region covers. */
struct owned {
	struct extent *extent;
	size_t from;
	size_t to;
};

static struct owned owned_at(struct core *core, uint64_t addr, uint64_t end)
{
	const struct place *place = extent_place_mapped(&core->extents, addr);
	size_t from = addr - place->addr;

	return (struct owned){ place->extent, from, MIN(from + (end - addr), place->extent->size) };
}

bool owner_take(struct core *core, const struct region *region, const struct stream *stream)
{
	uint64_t end = region->addr + region->size;
	bool all = true;
	struct owned part;

	lock_assert_held(&core->lock);
	for (uint64_t addr = region->addr; addr < end; addr += part.to - part.from) {
		part = owned_at(core, addr, end);
		all = all && part.extent->owners && is_own(part.extent->owners, part.from, part.to, stream->id);
		if (part.extent->owners)
			disown(part.extent->owners, part.from, part.to);
	}
	return all;
}

void owner_lose(struct core *core, uint64_t addr, size_t size)
{
	uint64_t end = addr + size;

	lock_assert_held(&core->lock);
	while (addr < end) {
		struct owned part = { .to = core->granularity - addr % core->granularity };

		if (extent_place(&core->extents, addr))
			part = owned_at(core, addr, end);
		if (part.extent && part.extent->owners)
			disown(part.extent->owners, part.from, part.to);
		addr += part.to - part.from;
	}
}

static void own_range(struct core *core, const struct region *region, const struct stream *stream)
	__attribute__((cold));
static void own_range(struct core *core, const struct region *region, const struct stream *stream)
{
	uint64_t end = region->addr + region->size;
	struct owned part;

	for (uint64_t addr = region->addr; addr < end; addr += part.to - part.from) {
		part = owned_at(core, addr, end);
		if (!part.extent->owners)
			part.extent->owners = g_tree_new_full(compare_from, NULL, NULL, g_free);
		own(part.extent->owners, part.from, part.to, stream->id);
	}
}

void owner_note(struct core *core, const struct region *region, const struct stream *stream)
{
	lock_assert_held(&core->lock);
	if (core->settings.scrub == VPMM_SCRUB_STREAM && region->stream == stream)
		own_range(core, region, stream);
}
