// SPDX-License-Identifier: LGPL-2.1-or-later
/* Reserves address space, maps extents there, gives it back, and shows in one line of text what is there. */
#include <errno.h>
#include <inttypes.h>

#include "core/cache.h"
#include "core/chunk.h"
#include "core/core.h"
#include "util/error.h"
#include "util/room.h"

/* A map that grows doubles, so that few blocks are too large for what is left of one reservation. */
static size_t size_ahead(const struct core *core, const struct region_map *map)
{
	size_t most = core->settings.va_size, page_size = core->settings.page_size;
	uint64_t have = 0;

	if (!core->settings.va_shared)
		return most;
	for (guint i = 0; i < map->chunks->len; i++)
		have += ((const struct chunk *)map->chunks->pdata[i])->size;
	return MIN(most, MAX(room_share(most) / page_size * page_size, have));
}

static int refused(int err, size_t size)
{
	return error_add(err, "reserving %zu bytes of address space (VPMM_VA_SIZE says how much pools reserve at a "
			 "time)", size);
}

static struct region *enter_chunk(struct core *core, struct region_map *map, uint64_t base, size_t spare, size_t size)
{
	size_t page_size = core->settings.page_size;
	uint64_t addr = (base + page_size - 1) / page_size * page_size;
	struct region *hole = region_add_chunk(map, addr, size);

	room_add(size + spare);
	hole->chunk->reserved = base;
	hole->chunk->spare = spare;
	address_add(&core->owner, &hole->chunk->known, addr, size);
	return hole;
}

int chunk_add_at(struct core *core, struct region_map *map, uint64_t addr, size_t size, struct region **hole)
{
	struct backend *be = core->backend;
	int err;

	lock_assert_held(&core->lock);
	if (size > room_ahead())
		return error_set(-ENOMEM, "reserving %zu bytes of address space: RLIMIT_AS leaves less", size);
	err = be->ops->reserve_at(be, addr, size);
	if (!err)
		*hole = enter_chunk(core, map, addr, 0, size);
	return err;
}

/* At the address where the map is to begin, if it is free; otherwise wherever there is room. */
static int reserve_first(struct core *core, struct region_map *map, size_t size, size_t spare, size_t align,
			 uint64_t *base)
{
	struct backend *be = core->backend;
	struct error_kept kept;
	uint64_t begin = map->begin;
	int err;

	map->begin = 0;
	if (begin && !spare) {
		error_keep(&kept);
		err = be->ops->reserve_at(be, begin, size);
		error_restore(&kept);
		*base = begin;
		if (!err)
			return 0;
	}
	return be->ops->reserve(be, size + spare, align, base);
}

int chunk_add(struct core *core, struct region_map *map, size_t needed, struct region **hole)
{
	size_t page_size = core->settings.page_size;
	/* The driver aligns to powers of two only, so reserve more and skip to the first page. */
	size_t align = page_size & -page_size, spare = page_size - align;
	size_t wanted = MAX(size_ahead(core, map), needed);
	size_t size = MAX(MIN(wanted, room_ahead() / page_size * page_size), needed);
	bool limited = size < wanted;
	struct error_kept kept;
	uint64_t base;
	int err;

	lock_assert_held(&core->lock);
	err = room_check(size + spare, map == &core->spans);
	if (err)
		return refused(err, size);
	error_keep(&kept);
	while ((err = reserve_first(core, map, size, spare, align, &base)) == -ENOMEM && size > needed) {
		room_refused(size);
		size = MAX(needed, MIN((size / 2 + page_size - 1) / page_size * page_size, size_ahead(core, map)));
	}
	if (err)
		return refused(err, size);
	error_restore(&kept);
	*hole = enter_chunk(core, map, base, spare, size);
	if (size < wanted)
		log_add(&core->log, VPMM_LOG_WARNING, "reserved %zu bytes of address space instead of %zu%s", size,
			wanted, limited ? ", to leave room for the rest of the process within RLIMIT_AS" : "");
	else
		log_add(&core->log, VPMM_LOG_INFO, "reserved %zu bytes of address space at 0x%" PRIx64,
			size, (*hole)->addr);
	return 0;
}

int chunk_find(struct core *core, struct region_map *map, size_t size, struct region **hole, struct chunk **added)
{
	int err;

	lock_assert_held(&core->lock);
	*added = NULL;
	*hole = region_find_unmapped(map, size);
	if (*hole)
		return 0;
	err = chunk_add(core, map, size, hole);
	if (!err)
		*added = (*hole)->chunk;
	return err;
}

int chunk_map(struct core *core, struct region_map *map, uint64_t addr, GPtrArray *extents)
{
	size_t left = 0;
	int err;

	lock_assert_held(&core->lock);
	err = extent_map_at(&core->extents, addr, extents, &left);
	if (!err) {
		extent_add_places(&core->extents, addr, extents);
		return 0;
	}
	if (left)
		region_set_stray(map, region_isolate(map, addr, left));
	extent_release(&core->extents, extents);
	return err;
}

static int chunk_give_back(struct core *core, struct chunk *chunk)
{
	struct backend *be = core->backend;
	int err;

	address_remove(&chunk->known);
	err = be->ops->unreserve(be, chunk->reserved, chunk->size + chunk->spare);
	if (err)
		address_add(&core->owner, &chunk->known, chunk->addr, chunk->size);
	else
		room_sub(chunk->size + chunk->spare);
	return err;
}

void chunk_drop(struct core *core, struct chunk *chunk)
{
	struct error_kept kept;

	lock_assert_held(&core->lock);
	if (!chunk || chunk->first->kind != REGION_UNMAPPED || chunk->first->next)
		return;
	error_keep(&kept);
	if (!chunk_give_back(core, chunk))
		region_remove_chunk(chunk->map, chunk);
	error_restore(&kept);
}

void chunk_each_mapped(struct core *core, const struct region_map *map, chunk_mapped_fn *each, void *data)
{
	for (guint i = 0; i < map->chunks->len; i++) {
		const struct chunk *chunk = map->chunks->pdata[i];
		const struct region *region = chunk->first;

		while (region) {
			uint64_t start = region->addr, end;

			while (region && region->kind != REGION_UNMAPPED)
				region = region->next;
			end = region ? region->addr : chunk->addr + chunk->size;
			if (end > start)
				each(core, start, end, data);
			region = region ? region->next : NULL;
		}
	}
}

void chunk_unreserve(struct core *core, struct region_map *map)
{
	for (guint i = 0; i < map->chunks->len; i++) {
		struct chunk *chunk = map->chunks->pdata[i];

		/* No later call could try again. */
		if (chunk_give_back(core, chunk))
			chunk_give_back(core, chunk);
	}
}

static const char *region_sign(const struct region *region)
{
	switch (region->kind) {
	case REGION_MALLOC:
		if (cache_holds(region))
			return "-";
		return region->id == region->chunk->map->newest ? "+" : "";
	case REGION_FREE:
		return region->fresh ? "#" : "-";
	case REGION_ZOMBIE:
		return "~";
	default:
		return "*";
	}
}

char *layout_line(const struct core *core, const struct chunk *chunk)
{
	char pages[G_ASCII_DTOSTR_BUF_SIZE];
	GString *line = g_string_new(NULL);

	lock_assert_held(&core->lock);
	for (const struct region *region = chunk->first; region; region = region->next) {
		/* Not in the program's locale, whose decimal point may be a comma: a dump has one format. */
		g_ascii_formatd(pages, sizeof(pages), "%.10g",
				(double)region->size / (double)core->settings.page_size);
		g_string_append_printf(line, "[%s%s]", region_sign(region), pages);
	}
	return g_string_free(line, FALSE);
}

void layout_say(struct core *core, const struct chunk *chunk, const char *what, size_t bytes,
		const struct stream *stream)
{
	char *layout;

	if (!bytes || !log_wants(&core->log, VPMM_LOG_DEBUG))
		return;
	region_decide(chunk->map);
	layout = layout_line(core, chunk);
	log_add(&core->log, VPMM_LOG_DEBUG, "%s %zu bytes for stream %" PRIu64 ": %s", what, bytes,
		stream->id, layout);
	g_free(layout);
}
