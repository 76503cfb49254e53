// SPDX-License-Identifier: LGPL-2.1-or-later
/* The calls that create, map, unmap and release device memory, each undone if a later one fails. */
#include <errno.h>
#include <stdatomic.h>

#include "backend/backend.h"
#include "budget/budget.h"
#include "core/extent-whole.h"
#include "core/extent.h"
#include "util/address.h"
#include "util/at-most.h"
#include "util/circle.h"
#include "util/error.h"
#include "util/links.h"
#include "util/text.h"

/* From this size on, creating an extent takes much longer than asking how much memory the device has. */
#define MUCH ((size_t)1 << 30)

/* So that a pool that comes later at the same addresses has others. */
static _Atomic uint64_t last_number;

static gint compare_sizes(gconstpointer a, gconstpointer b)
{
	const struct extent_size *x = a, *y = b;

	return (x->size > y->size) - (x->size < y->size);
}

void extent_map_init(struct extent_map *map, struct backend *backend, size_t page_size)
{
	*map = (struct extent_map){ .backend = backend, .page_size = page_size, .limit = UINT64_MAX };
	map->page_shift = page_size & (page_size - 1) ? 0 : g_bit_storage(page_size) - 1;
	map->active = address_table_new(g_free);
	map->taken = &map->own_taken;
	map->all_held = &map->own_held;
	map->most = &map->own_most;
	map->stray = g_ptr_array_new();
	g_queue_init(&map->all);
	g_queue_init(&map->whole);
	circle_init(&map->late);
	circle_init(&map->by_use);
	ready_init(&map->ready);
	map->sizes = g_tree_new(compare_sizes);
}

GTreeNode *extent_size_from(struct extent_map *map, size_t limit)
{
	extent_update_whole(map);
	return g_tree_lower_bound(map->sizes, &(struct extent_size){ .size = limit });
}

GTreeNode *extent_size_upto(struct extent_map *map, size_t limit)
{
	GTreeNode *larger;

	extent_update_whole(map);
	larger = g_tree_upper_bound(map->sizes, &(struct extent_size){ .size = limit });
	return larger ? g_tree_node_previous(larger) : g_tree_node_last(map->sizes);
}

static void size_enter(struct extent_map *map, struct extent *extent)
{
	struct extent_size key = { .size = extent->size }, *same = g_tree_lookup(map->sizes, &key);

	if (!same) {
		same = g_new0(struct extent_size, 1);
		same->size = extent->size;
		g_tree_insert(map->sizes, same, same);
	}
	same->extents++;
	extent->same_size = same;
}

static void size_leave(struct extent_map *map, struct extent *extent)
{
	struct extent_size *same = extent->same_size;

	if (--same->extents)
		return;
	g_tree_remove(map->sizes, same);
	g_free(same);
}

/* Links a mapping with those next to it, or makes the one below it the last of its row. */
static void place_link(struct extent_map *map, const struct place *place, struct place *value)
{
	struct place *below = extent_place(map, place->addr - 1);

	if (below)
		below->above = value;
	if (value)
		value->above = extent_place(map, place->addr + place->extent->size);
}

/* Enters a mapping for all of its pages, or removes it. */
static void place_enter(struct extent_map *map, const struct place *place, struct place *value)
{
	uint64_t page = place->addr / map->page_size, end = page + place->extent->size / map->page_size;

	place_link(map, place, value);
	while (page < end) {
		uint64_t stop = MIN(end, (page / EXTENT_BLOCK + 1) * EXTENT_BLOCK);
		struct extent_block *block = extent_block_of(map, page);

		if (!block) {
			block = g_new0(struct extent_block, 1);
			block->number = page / EXTENT_BLOCK;
			g_hash_table_insert(map->active, &block->number, block);
		}
		block->used = value ? block->used + (stop - page) : block->used - (stop - page);
		for (uint64_t i = page; i < stop; i++)
			block->places[i % EXTENT_BLOCK] = value;
		if (!block->used) {
			map->near[block->number % EXTENT_NEAR] = NULL;
			g_hash_table_remove(map->active, &block->number);
		}
		page = stop;
	}
}

void extent_count_held(struct extent_map *map, int64_t more)
{
	map->held += (uint64_t)more;
	atomic_fetch_add(map->taken, (uint64_t)more);
	atomic_fetch_add(map->all_held, (uint64_t)more);
}

void extent_count_apart(struct extent_map *map, uint64_t apart)
{
	atomic_fetch_add(map->taken, apart - map->apart);
	map->apart = apart;
}

static void extent_delete(struct extent_map *map, struct extent *extent)
{
	g_clear_pointer(&extent->owners, g_tree_unref);
	if (extent->handle && TIMED(map, releases, release, extent->handle)) {
		g_ptr_array_add(map->stray, extent);
		return;
	}
	if (extent->handle)
		extent_count_held(map, -(int64_t)extent->size);
	g_aligned_free(extent);
}

static void extent_add_place(struct extent_map *map, struct extent *extent, uint64_t addr)
{
	struct place *place = line_alloc(sizeof(*place), LINE_SIZE);

	if (!extent->all.data) {
		extent->all.data = extent;
		links_append(&map->all, &extent->all);
		map->bytes += extent->size;
		size_enter(map, extent);
		if (extent->counts) {
			map->whole_bytes += extent->size;
			extent_list_whole(map, extent);
		}
	}
	*place = (struct place){ .addr = addr, .extent = extent, .number = ++last_number, .next = extent->places };
	extent->places = place;
	if (!extent->home)
		extent->home = place;
	place->used.data = place;
	circle_append(&map->by_use, &place->used);
	map->places++;
	place_enter(map, place, place);
}

static void extent_remove_place(struct extent_map *map, struct place *place)
{
	struct extent *extent = place->extent;
	struct place **link = &extent->places;

	while (*link != place)
		link = &(*link)->next;
	*link = place->next;
	if (extent->home == place)
		extent->home = extent->places;
	circle_remove(&place->used);
	map->places--;
	place_enter(map, place, NULL);
	g_aligned_free(place);
}

void extent_map_clear(struct extent_map *map)
{
	GList *link;

	while ((link = g_queue_pop_head_link(&map->all))) {
		struct extent *extent = link->data;

		while (extent->places)
			extent_remove_place(map, extent->places);
		size_leave(map, extent);
		extent_delete(map, extent);
	}
	/* The last try: what the driver does not release now is leaked. */
	for (guint i = 0; i < map->stray->len; i++) {
		struct extent *stray = map->stray->pdata[i];

		TIMED(map, releases, release, stray->handle);
		g_aligned_free(stray);
	}
	if (map->hollow)
		g_array_free(map->hollow, TRUE);
	g_tree_destroy(map->sizes);
	ready_clear(&map->ready);
	g_ptr_array_free(map->stray, TRUE);
	g_hash_table_destroy(map->active);
}

void extent_retry_stray(struct extent_map *map)
{
	struct error_kept kept;

	error_keep(&kept);
	for (guint i = map->stray->len; i > 0; i--) {
		struct extent *stray = map->stray->pdata[i - 1];

		if (TIMED(map, releases, release, stray->handle))
			continue;
		g_ptr_array_remove_index_fast(map->stray, i - 1);
		extent_count_held(map, -(int64_t)stray->size);
		g_aligned_free(stray);
	}
	error_restore(&kept);
}

/* What the limit alone leaves. */
static uint64_t room_of_limit(const struct extent_map *map)
{
	return map->limit == UINT64_MAX ? UINT64_MAX : map->limit - load_at_most(map->taken, map->limit);
}

uint64_t extent_room(const struct extent_map *map)
{
	uint64_t room = room_of_limit(map);

	return map->budget ? MIN(room, budget_room(map->budget, &map->part, extent_taken(map))) : room;
}

static int judge_budget(struct extent_map *map, size_t size)
{
	struct budget *budget = map->budget;
	uint64_t taken = extent_taken(map);

	if (!budget || budget_take(budget, &map->part, taken + size))
		return 0;
	return error_set(-ENOMEM, "budget: %s needed, but of the %s of %s the pool holds %s and %s are left",
			 amount(size).text, amount(budget_size(budget)).text, budget_name(budget),
			 amount(atomic_load(map->taken)).text,
			 amount(budget_room(budget, &map->part, taken)).text);
}

static int refuse_limit(const struct extent_map *map, size_t size, uint64_t taken)
{
	return error_set(-ENOMEM, "limit: %s needed, but the pool holds %s of the %s that it may", amount(size).text,
			 amount(taken).text, amount(map->limit).text);
}

int extent_judge_counted(const struct extent_map *map, size_t size)
{
	uint64_t taken = atomic_load(map->taken);

	return taken > map->limit ? refuse_limit(map, size, taken - MIN(taken, size)) : 0;
}

int extent_judge_limit(struct extent_map *map, size_t size)
{
	/* Stray extents count towards the limit; perhaps they can be released now. */
	if (size > extent_room(map))
		extent_retry_stray(map);
	return size <= room_of_limit(map) ? judge_budget(map, size) : refuse_limit(map, size, atomic_load(map->taken));
}

/*
 * A request that cannot be served must not take memory meanwhile, as other processes share the device. A single create
 * fails without taking any. For several, ask first: that costs less than the second create.
 */
static int check_device_memory(struct extent_map *map, size_t size)
{
	struct backend_info info;
	int err;

	err = map->backend->ops->info(map->backend, &info);
	if (err || info.memory_free >= size)
		return err;
	return error_set(-ENOMEM, "device memory: %s needed, %s free", amount(size).text,
			 amount(info.memory_free).text);
}

int extent_judge(struct extent_map *map, size_t size, size_t first)
{
	int err;

	/* Otherwise memory would be created beside stray extents that can be released by now. */
	extent_retry_stray(map);
	err = extent_judge_limit(map, size);
	if (!err && (size > first || size >= MUCH))
		err = check_device_memory(map, size);
	return err;
}

/* Bytes of extents that were created and not mapped yet. */
static size_t bytes_without_place(const GPtrArray *extents)
{
	size_t bytes = 0;

	for (guint i = 0; i < extents->len; i++) {
		const struct extent *extent = extents->pdata[i];

		bytes += extent->places ? 0 : extent->size;
	}
	return bytes;
}

int extent_create_handle(struct extent_map *map, size_t size, uint64_t *handle)
{
	int err;

	extent_count_held(map, (int64_t)size);
	err = extent_judge_counted(map, size);
	if (!err && map->exportable)
		err = TIMED(map, creates, create_export, size, handle);
	else if (!err)
		err = TIMED(map, creates, create, size, handle);
	if (err)
		extent_count_held(map, -(int64_t)size);
	return err;
}

int extent_create(struct extent_map *map, size_t size, size_t piece, bool counts, GPtrArray *extents)
{
	uint64_t handle;
	size_t created;
	int err;

	for (size_t done = 0; done < size; done += piece) {
		struct extent *extent;

		piece = MIN(piece, size - done);
		err = extent_create_handle(map, piece, &handle);
		if (err)
			goto err_release;
		extent = extent_new(piece, handle);
		extent->counts = counts;
		extent->live = counts ? 0 : piece;
		extent->whole.data = extent->alike.data = extent->late.data = extent;
		g_ptr_array_add(extents, extent);
	}
	return 0;

err_release:
	/* The error's text says how much is in use, which includes this. */
	created = bytes_without_place(extents);
	if (created)
		error_add(err, "with %s created", amount(created).text);
	extent_release(map, extents);
	return err;
}

void extent_release(struct extent_map *map, GPtrArray *extents)
{
	struct error_kept kept;
	guint mapped = 0;

	error_keep(&kept);
	for (guint i = 0; i < extents->len; i++) {
		struct extent *extent = extents->pdata[i];

		if (extent->places)
			extents->pdata[mapped++] = extent;
		else
			extent_delete(map, extent);
	}
	error_restore(&kept);
	g_ptr_array_set_size(extents, (gint)mapped);
}

void extent_collect(struct extent_map *map, uint64_t addr, size_t size, GPtrArray *extents)
{
	for (const struct place *place = extent_place_mapped(map, addr); size; place = place->above) {
		g_ptr_array_add(extents, place->extent);
		size -= place->extent->size;
	}
}

int extent_map_at(struct extent_map *map, uint64_t addr, GPtrArray *extents, size_t *left)
{
	struct error_kept kept;
	size_t mapped = 0;
	int err = 0;

	for (guint i = 0; i < extents->len; i++) {
		struct extent *extent = extents->pdata[i];

		err = TIMED(map, maps, map, addr + mapped, extent->size, extent->handle);
		if (err)
			goto err_unmap;
		mapped += extent->size;
	}
	err = TIMED(map, accesses, access, addr, mapped);
	if (err)
		goto err_unmap;
	return 0;

err_unmap:
	error_keep(&kept);
	*left = mapped && extent_unmap(map, addr, mapped, NULL) ? mapped : 0;
	error_restore(&kept);
	return err;
}

void extent_add_places(struct extent_map *map, uint64_t addr, GPtrArray *extents)
{
	for (guint i = 0; i < extents->len; i++) {
		struct extent *extent = extents->pdata[i];

		extent_add_place(map, extent, addr);
		addr += extent->size;
	}
}

int extent_unmap(struct extent_map *map, uint64_t addr, size_t size, struct backend_event *guard)
{
	uint64_t end = addr + size;
	int err;

	if (!map->hollow) {
		extent_tell(map, addr, size);
		err = TIMED(map, unmaps, unmap, addr, size, guard);
		if (err)
			return err;
	}
	while (addr < end) {
		struct place *place = extent_place(map, addr);

		addr += place ? place->extent->size : map->page_size;
		if (place)
			extent_remove_place(map, place);
	}
	return 0;
}

int extent_drop(struct extent_map *map, struct extent *extent)
{
	int err;

	err = extent_unmap(map, extent->places->addr, extent->size, NULL);
	if (err)
		return err;
	links_remove(&map->all, &extent->all);
	if (extent->counts) {
		map->whole_bytes -= extent->size;
		extent_unlist_whole(map, extent);
	}
	size_leave(map, extent);
	map->bytes -= extent->size;
	map->given_back += extent->handle ? extent->size : 0;
	extent_delete(map, extent);
	return 0;
}

/* The work of earlier owners is complete, and it has no other owner. */
void extent_join(struct extent_map *map, struct extent *low, struct extent *high)
{
	if (low->coarse != high->coarse)
		map->coarse_bytes += low->coarse ? high->size : low->size;
	size_leave(map, low);
	size_leave(map, high);
	place_enter(map, low->places, NULL);
	links_remove(&map->all, &high->all);
	extent_remove_place(map, high->places);
	g_clear_pointer(&low->owners, g_tree_unref);
	low->coarse |= high->coarse;
	low->live += high->live;
	low->size += high->size;
	size_enter(map, low);
	place_enter(map, low->places, low->places);
	extent_delete(map, high);
}
