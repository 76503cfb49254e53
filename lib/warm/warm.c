// SPDX-License-Identifier: LGPL-2.1-or-later
#include <inttypes.h>

#include "core/account.h"
#include "core/alias.h"
#include "core/chunk.h"
#include "core/core.h"
#include "policy/growth.h"
#include "policy/state.h"
#include "policy/trim.h"
#include "policy/tuning.h"
#include "util/circle.h"
#include "util/error.h"
#include "warm/warm.h"

struct warm *warm_new(void)
{
	struct warm *warm = g_new0(struct warm, 1);

	warm->chunks = g_array_new(FALSE, FALSE, sizeof(struct warm_chunk));
	warm->extents = g_array_new(FALSE, FALSE, sizeof(uint64_t));
	warm->places = g_array_new(FALSE, FALSE, sizeof(struct warm_place));
	warm->decisions = g_array_new(FALSE, FALSE, sizeof(struct decision));
	return warm;
}

void warm_free(struct warm *warm)
{
	g_array_free(warm->chunks, TRUE);
	g_array_free(warm->extents, TRUE);
	g_array_free(warm->places, TRUE);
	g_array_free(warm->decisions, TRUE);
	g_free(warm);
}

static uint64_t size_of_extent(const struct warm *warm, uint64_t number)
{
	return g_array_index(warm->extents, uint64_t, number);
}

uint64_t warm_bytes(const struct warm *warm)
{
	uint64_t bytes = 0;

	for (guint i = 0; i < warm->extents->len; i++)
		bytes += size_of_extent(warm, i);
	return bytes;
}

/* Whether an address is in a chunk of a map. */
static bool is_in_map(const struct region_map *map, uint64_t addr)
{
	for (guint i = 0; i < map->chunks->len; i++) {
		const struct chunk *chunk = map->chunks->pdata[i];

		if (addr - chunk->addr < chunk->size)
			return true;
	}
	return false;
}

static void take_chunks(struct warm *warm, const struct region_map *map, bool slabs)
{
	for (guint i = 0; i < map->chunks->len; i++) {
		const struct chunk *chunk = map->chunks->pdata[i];
		struct warm_chunk taken = { .addr = chunk->addr, .size = chunk->size, .slabs = slabs };

		g_array_append_val(warm->chunks, taken);
	}
}

/* Numbers from 1, as NULL is none. */
static void take_extent(struct core *core, struct warm *warm, GHashTable *numbers, struct extent *extent)
{
	uint64_t size = extent->size;

	if (!is_in_map(&core->regions, extent->places->addr) || g_hash_table_contains(numbers, extent))
		return;
	g_array_append_val(warm->extents, size);
	g_hash_table_insert(numbers, extent, GUINT_TO_POINTER(warm->extents->len));
}

static void take_places(struct core *core, struct warm *warm, GHashTable *numbers)
{
	const GList *by_use = &core->extents.by_use;

	for (const GList *link = circle_first(by_use); link; link = circle_next(by_use, link)) {
		const struct place *place = link->data;
		guint number = GPOINTER_TO_UINT(g_hash_table_lookup(numbers, place->extent));
		struct warm_place taken = { .addr = place->addr, .extent = number - 1,
					    .home = place->extent->home == place };

		if (number && (taken.home || core->regions.keeps))
			g_array_append_val(warm->places, taken);
	}
}

/* Those that the ring has, but for what was moved to its end. */
static void take_decisions(struct core *core, struct warm *warm)
{
	const struct memo *memo = &core->memo;
	uint64_t number = memo->count > memo->mask ? memo->count - memo->mask - 1 : 0;

	for (; number < memo->count; number++) {
		const struct decision *decision = &memo->log[number & memo->mask];

		if (decision->key && is_in_map(&core->regions, decision->addr))
			g_array_append_val(warm->decisions, *decision);
	}
}

static struct allowance_seen most_seen(const struct allowance *a)
{
	return (struct allowance_seen){
		.waits = a->now.waits + a->before.waits,
		.bytes = a->now.bytes + a->before.bytes,
		.block = MAX(a->now.block, a->before.block),
		.row = MAX(a->now.row, a->before.row),
		.streams = MAX(a->now.streams, a->before.streams),
	};
}

struct warm *warm_take(struct core *core)
{
	GHashTable *numbers = g_hash_table_new(NULL, NULL);
	struct warm *warm = warm_new();

	lock_assert_held(&core->lock);
	warm->page_size = core->settings.page_size;
	warm->piece = core->piece;
	warm->paged = core->settings.paged;
	warm->held = core_mapped(core);
	if (core->packed)
		warm->overlap = most_seen(&core->packed->allowance);
	take_chunks(warm, &core->regions, false);
	take_chunks(warm, &core->spans, true);
	for (const GList *link = extent_whole(&core->extents)->head; link; link = link->next)
		take_extent(core, warm, numbers, link->data);
	for (GList *link = core->extents.all.head; link; link = link->next)
		take_extent(core, warm, numbers, link->data);
	take_places(core, warm, numbers);
	take_decisions(core, warm);
	g_hash_table_destroy(numbers);
	return warm;
}

/* All chunks where they were, or none. */
static bool reserve_chunks(struct core *core, const struct warm *warm)
{
	bool placed = true;

	for (guint i = 0; i < warm->chunks->len && placed; i++) {
		const struct warm_chunk *chunk = &g_array_index(warm->chunks, struct warm_chunk, i);
		struct region_map *map = chunk->slabs ? &core->spans : &core->regions;
		struct region *hole;

		placed = !chunk_add_at(core, map, chunk->addr, chunk->size, &hole);
	}
	return placed;
}

static void drop_chunks(struct core *core)
{
	struct region_map *maps[] = { &core->regions, &core->spans };

	for (guint i = 0; i < G_N_ELEMENTS(maps); i++) {
		for (guint n = maps[i]->chunks->len; n > 0; n--)
			chunk_drop(core, maps[i]->chunks->pdata[n - 1]);
	}
}

/* Extents of one size in a row are one batch. */
static int create_extents(struct core *core, const struct warm *warm, GPtrArray *extents)
{
	uint64_t bytes = warm_bytes(warm);
	guint i = 0, end;
	int err;

	err = extent_judge(&core->extents, bytes, size_of_extent(warm, 0));
	for (; i < warm->extents->len && !err; i = end) {
		size_t size = size_of_extent(warm, i);

		end = i + 1;
		while (end < warm->extents->len && size_of_extent(warm, end) == size)
			end++;
		err = extent_create(&core->extents, (end - i) * size, size, true, extents);
	}
	return err;
}

static int by_address(gconstpointer a, gconstpointer b)
{
	const struct warm_place *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

static GArray *sorted_places(const struct warm *warm)
{
	GArray *sorted = g_array_sized_new(FALSE, FALSE, sizeof(struct warm_place), warm->places->len);

	g_array_append_vals(sorted, warm->places->data, warm->places->len);
	g_array_sort(sorted, by_address);
	return sorted;
}

static const struct warm_place *place_at(const GArray *places, guint i)
{
	return &g_array_index(places, struct warm_place, i);
}

/* What is mapped there is free if that is its home, and otherwise a zombie. */
static void assign_run(struct core *core, uint64_t addr, size_t size, bool home)
{
	struct region *region = region_isolate(&core->regions, addr, size);

	if (home)
		region_set_free(&core->regions, region, NULL, NULL);
	else
		region_set_zombie(&core->regions, region);
}

/* The homes, or the other mappings, with one driver call for the access to those in a row. */
static int map_each(struct core *core, const struct warm *warm, const GArray *sorted, GPtrArray *extents, bool home)
{
	GPtrArray *run = g_ptr_array_new();
	int err = 0;
	guint i = 0;

	while (i < sorted->len && !err) {
		uint64_t start = place_at(sorted, i)->addr, addr = start;
		const struct region *hole = region_at(&core->regions, start);
		/* The next chunk may begin there. */
		uint64_t end = hole->addr + hole->size;

		for (; i < sorted->len && place_at(sorted, i)->addr == addr && place_at(sorted, i)->home == home &&
		       addr < end; i++) {
			g_ptr_array_add(run, extents->pdata[place_at(sorted, i)->extent]);
			addr += size_of_extent(warm, place_at(sorted, i)->extent);
		}
		if (run->len)
			err = chunk_map(core, &core->regions, start, run);
		else
			i++;
		if (run->len && !err)
			assign_run(core, start, addr - start, home);
		g_ptr_array_set_size(run, 0);
	}
	/* chunk_map() has released those of its run. */
	for (; home && err && i < sorted->len; i++) {
		if (place_at(sorted, i)->home)
			g_ptr_array_add(run, extents->pdata[place_at(sorted, i)->extent]);
	}
	extent_release(&core->extents, run);
	g_ptr_array_free(run, TRUE);
	return err;
}

/* In the order of the plan, which the policy looks for memory in. */
static void order_by_use(struct core *core, const struct warm *warm, const GPtrArray *extents)
{
	for (guint i = 0; i < extents->len; i++) {
		struct extent *extent = extents->pdata[i];

		if (extent->counts)
			extent_requeue(&core->extents, extent);
	}
	for (guint i = 0; i < warm->places->len; i++)
		extent_use(&core->extents, extent_place_mapped(&core->extents, place_at(warm->places, i)->addr));
}

static int map_placed(struct core *core, const struct warm *warm, GPtrArray *extents)
{
	GArray *sorted = sorted_places(warm);
	int err;

	err = map_each(core, warm, sorted, extents, true);
	if (!err)
		err = map_each(core, warm, sorted, extents, false);
	if (!err)
		order_by_use(core, warm, extents);
	g_array_free(sorted, TRUE);
	return err;
}

static int map_in_a_row(struct core *core, size_t size, GPtrArray *extents)
{
	struct region *hole;
	int err;

	err = chunk_add(core, &core->regions, size, &hole);
	if (err)
		extent_release(&core->extents, extents);
	else
		err = chunk_map(core, &core->regions, hole->addr, extents);
	if (!err)
		assign_run(core, hole->addr, size, true);
	return err;
}

static void restore_state(struct core *core, const struct warm *warm, bool placed)
{
	struct packed *packed = core->packed;

	if (!packed)
		return;
	growth_start(core, CLAMP(warm->held, core_mapped(core), 2 * core_mapped(core)));
	packed->allowance.before = warm->overlap;
	packed->allowance.stepped = allowance_bytes(core, account_most(&core->account));
	for (guint i = 0; i < warm->decisions->len && placed; i++) {
		const struct decision *decision = &g_array_index(warm->decisions, struct decision, i);

		memo_restore(&core->memo, decision->key, decision->addr);
	}
}

/* Releases what was mapped before the failure, so that the pool is as without a plan. */
static void give_up(struct core *core)
{
	struct error_kept kept;

	error_keep(&kept);
	if (!alias_trim(core))
		trim_whole(core, 0, UINT64_MAX, UINT64_MAX);
	error_restore(&kept);
	drop_chunks(core);
}

/* Creates the memory, maps it, and remembers the decisions. @placed: whether all is at the same addresses. */
static int warm_restore(struct core *core, const struct warm *warm, bool *placed)
{
	GPtrArray *extents = g_ptr_array_new();
	int err = 0;

	lock_assert_held(&core->lock);
	*placed = reserve_chunks(core, warm);
	if (!*placed)
		drop_chunks(core);
	if (warm->extents->len)
		err = create_extents(core, warm, extents);
	if (!err && extents->len)
		err = *placed ? map_placed(core, warm, extents) : map_in_a_row(core, warm_bytes(warm), extents);
	core->counts.grown += core_mapped(core);
	account_note_taken(core);
	if (err)
		give_up(core);
	else
		restore_state(core, warm, *placed);
	g_ptr_array_free(extents, TRUE);
	return err;
}

/* Several extents, so that parts can be remapped. */
static size_t initial_extent_size(const struct core *core, size_t size)
{
	size_t page_size = core->settings.page_size;

	return CLAMP(size / (size_t)tuning_initial_extents / page_size * page_size, page_size,
		     core->settings.extent_max);
}

static int create_pages(struct core *core, uint64_t addr, size_t size)
{
	int err;

	/* No call has asked for it. */
	core->counts.has_grown = true;
	err = growth_map(core, &core->regions, addr, size, initial_extent_size(core, size));
	if (err)
		return error_add(err, "creating %zu initial pages", core->settings.pages);
	if (core->packed)
		growth_start(core, size);
	return 0;
}

/* Without what the plan has, the pool is as without a plan. Returns whether it has what VPMM_PAGES asks for. */
static bool begin_warm(struct core *core, const struct warm *warm)
{
	struct error_kept kept;
	bool placed;
	int err;

	error_keep(&kept);
	err = warm_restore(core, warm, &placed);
	if (err)
		log_add(&core->log, VPMM_LOG_WARNING, "plan: %s is not used: %s", core->settings.plan, error_get());
	else if (!placed)
		log_add(&core->log, VPMM_LOG_WARNING, "plan: the addresses of %s are not free: only its %" PRIu64
			" bytes of memory are used", core->settings.plan, core_mapped(core));
	else
		log_add(&core->log, VPMM_LOG_INFO, "plan: %s: %" PRIu64 " bytes in %u extents, %u mappings, %u decisions",
			core->settings.plan, core_mapped(core), warm->extents->len, warm->places->len,
			warm->decisions->len);
	error_restore(&kept);
	return !err;
}

int initial_create(struct core *core, const struct warm *warm)
{
	size_t pages = core->settings.pages, page_size = core->settings.page_size;
	struct region *hole;
	int err;

	lock_assert_held(&core->lock);
	if (page_size == SIZE_MAX)
		return 0;
	if (warm && begin_warm(core, warm))
		return 0;
	/* A plan that failed may have left some. */
	if (core->regions.chunks->len && !pages)
		return 0;
	err = chunk_add(core, &core->regions, MAX(pages, 1) * page_size, &hole);
	return err || !pages ? err : create_pages(core, hole->addr, pages * page_size);
}
