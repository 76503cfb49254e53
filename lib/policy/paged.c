// SPDX-License-Identifier: LGPL-2.1-or-later
/* The policy of whole pages. What no free region fits is harvested: one block of scattered free pages. */
#include <inttypes.h>
#include <stdatomic.h>

#include "core/account.h"
#include "core/alias.h"
#include "core/allocation.h"
#include "core/cache-flush.h"
#include "core/chunk.h"
#include "core/core.h"
#include "core/wait-set.h"
#include "policy/paged.h"
#include "policy/policy.h"
#include "policy/trim.h"
#include "util/assume.h"
#include "util/error.h"

/* Part of a free region, from its start. */
struct source {
	struct region *region;
	size_t take;
};

/**
 * struct harvest - one under way
 * @core: the pool's core
 * @size: bytes of the request
 * @stream: the stream that it is for
 * @handle: a handle of it
 * @sources: of struct source: what is remapped
 * @extents: of struct extent: what is mapped into the hole, first remapped ones, then new ones
 * @moved: bytes that are remapped
 * @created: bytes that are created
 * @at: where they go; 0: not known yet
 * @beside: a free region that is not to be taken; NULL: none
 * @base: the free region in front of that, which stays in place; or NULL
 * @order: what the stream waits for
 * @idle: take nothing that work is pending on
 */
struct harvest {
	struct core *core;
	size_t size;
	struct stream *stream;
	struct CUstream_st *handle;
	GArray *sources;
	GPtrArray *extents;
	size_t moved;
	size_t created;
	uint64_t at;
	const struct region *beside;
	struct region *base;
	struct order order;
	bool idle;
};

static size_t harvest_take(struct harvest *harvest, struct region *region, size_t wanted)
{
	struct source source = { .region = region, .take = MIN(wanted, region->size) };

	if (region == harvest->beside || (harvest->idle && event_pending(region->event)))
		return wanted;
	g_array_append_val(harvest->sources, source);
	return wanted - source.take;
}

/* Takes free memory of one stream, or of none: it needs no wait. */
static size_t harvest_take_set(struct harvest *harvest, const struct free_set *set, size_t wanted)
{
	for (GList *link = set ? set->by_age.head : NULL; link && wanted; link = link->next)
		wanted = harvest_take(harvest, link->data, wanted);
	return wanted;
}

/* The stream's own memory first, then unused, then other streams'; each oldest first. */
static void harvest_plan(struct harvest *harvest)
{
	struct region_map *regions = &harvest->core->regions;
	bool block = harvest->core->settings.reuse == VPMM_REUSE_BLOCK;
	size_t wanted = harvest->size - harvest->created;

	if (!block) {
		wanted = harvest_take_set(harvest, harvest->stream->free[regions->set], wanted);
		wanted = harvest_take_set(harvest, &regions->unused, wanted);
	}
	for (const GList *link = region_ages(regions)->head; link && wanted; link = link->next) {
		struct region *region = link->data;

		if (block || (region->stream && region->stream != harvest->stream))
			wanted = harvest_take(harvest, region, wanted);
	}
}

/* Finds a hole. A free region that ends where the hole starts stays in place, as the start of the block. */
static int harvest_place(struct harvest *harvest, struct chunk **added)
{
	struct region *hole;
	int err;

	err = chunk_find(harvest->core, &harvest->core->regions, harvest->size, &hole, added);
	if (err)
		return err;
	harvest->at = hole->addr;
	for (guint i = 0; i < harvest->sources->len; i++) {
		struct source *source = &g_array_index(harvest->sources, struct source, i);

		if (source->region == hole->prev) {
			harvest->base = source->region;
			g_array_remove_index(harvest->sources, i);
			break;
		}
	}
	return 0;
}

static int harvest_memory(struct harvest *harvest)
{
	struct extent_map *extents = &harvest->core->extents;
	int err;

	err = extent_judge(extents, harvest->created, extents->page_size);
	if (err)
		return err;
	for (guint i = 0; i < harvest->sources->len; i++) {
		struct source *source = &g_array_index(harvest->sources, struct source, i);

		extent_collect(extents, source->region->addr, source->take, harvest->extents);
		harvest->moved += source->take;
	}
	return extent_create(extents, harvest->created, extents->page_size, false, harvest->extents);
}

/* Collects what the stream has to wait for. */
static void harvest_order(struct harvest *harvest)
{
	for (guint i = 0; i < harvest->sources->len; i++)
		order_add(&harvest->order, g_array_index(harvest->sources, struct source, i).region);
	if (harvest->base)
		order_add(&harvest->order, harvest->base);
}

/* Orders the stream after the earlier uses of the block. */
static int harvest_wait(struct harvest *harvest)
{
	struct core *core = harvest->core;
	bool block = core->settings.reuse == VPMM_REUSE_BLOCK;

	/* The old mappings can be unmapped at once if the host waits for the stream's own events, too. */
	if (block)
		harvest->order.stream = NULL;
	harvest_order(harvest);
	return order_wait(&harvest->order, harvest->handle, block, &core->counts.waits);
}

/* The rest of a hole from an address on. */
static struct region *hole_from(struct region_map *regions, uint64_t addr)
{
	const struct region *hole = region_at(regions, addr);

	return region_isolate(regions, addr, hole->addr + hole->size - addr);
}

/* Updates the region maps for what was mapped. Nothing here can fail. */
static struct region *harvest_commit(struct harvest *harvest)
{
	struct core *core = harvest->core;
	struct region_map *regions = &core->regions;
	struct region *hole = hole_from(regions, harvest->at), *rest = hole, *block = NULL;
	struct chunk *chunk = hole->chunk;

	for (guint i = 0; i < harvest->sources->len; i++) {
		struct source *source = &g_array_index(harvest->sources, struct source, i);

		region_cut(regions, source->region, source->take);
		region_set_zombie(regions, source->region);
	}
	if (harvest->base)
		block = region_set_free(regions, harvest->base, harvest->stream, harvest->order.own);
	if (harvest->moved) {
		rest = region_cut(regions, hole, harvest->moved);
		block = region_set_free(regions, hole, harvest->stream, harvest->order.own);
		layout_say(core, chunk, "moved", harvest->moved, harvest->stream);
	}
	if (harvest->created) {
		region_cut(regions, rest, harvest->created);
		rest = region_set_free(regions, rest, NULL, NULL);
		rest->fresh = true;
		layout_say(core, chunk, "created", harvest->created, harvest->stream);
		block = region_set_free(regions, rest, harvest->stream, harvest->order.own);
	}
	/* A base alone would have been a free region that fits. */
	assume(block);
	layout_say(core, chunk, "gathered", block->size, harvest->stream);
	return block;
}

static void harvest_count(struct harvest *harvest)
{
	struct counts *counts = &harvest->core->counts;

	if (harvest->moved)
		counts->defrags++;
	counts->remapped += harvest->moved;
	if (harvest->created) {
		counts->grows++;
		counts->grown += harvest->created;
		log_add(&harvest->core->log, VPMM_LOG_INFO, "created %zu bytes for stream %" PRIu64,
			harvest->created, harvest->stream->id);
		account_note_taken(harvest->core);
	}
}

static int harvest_gather(struct harvest *harvest, struct region **region)
{
	struct region_map *regions = &harvest->core->regions;
	struct extent_map *extents = &harvest->core->extents;
	struct error_kept kept;
	struct chunk *added = NULL;
	bool waited = harvest->at;
	int err;

	err = waited ? 0 : harvest_place(harvest, &added);
	if (err)
		return err;
	err = harvest_memory(harvest);
	if (err)
		goto err_drop;
	err = waited ? 0 : harvest_wait(harvest);
	if (err)
		goto err_release;
	err = chunk_map(harvest->core, regions, harvest->at, harvest->extents);
	if (err)
		goto err_drop;
	*region = harvest_commit(harvest);
	harvest_count(harvest);
	/* Unmap zombies now if that takes no wait. The malloc has succeeded either way. */
	error_keep(&kept);
	zombie_reap(harvest->core);
	error_restore(&kept);
	return 0;

err_release:
	extent_release(extents, harvest->extents);
err_drop:
	chunk_drop(harvest->core, added);
	return err;
}

/* One region suffices, but another stream's event is pending: wait for that. The rest of the region stays as it is. */
static int harvest_wait_for_one(struct harvest *harvest, struct region **region)
{
	struct counts *counts = &harvest->core->counts;
	int err;

	err = harvest_wait(harvest);
	if (err)
		return err;
	counts->reuses++;
	counts->steals++;
	*region = g_array_index(harvest->sources, struct source, 0).region;
	return 0;
}

static uint64_t idle_bytes(struct core *core)
{
	uint64_t bytes = 0;

	for (const GList *link = region_ages(&core->regions)->head; link; link = link->next) {
		const struct region *region = link->data;

		bytes += event_pending(region->event) ? 0 : region->size;
	}
	return bytes;
}

/* Plans what goes into a block at @at, or wherever there is a hole, and how much is created. */
static struct harvest harvest_start(struct core *core, const struct request *request, uint64_t at,
				    const struct region *beside)
{
	struct harvest harvest = {
		.core = core,
		.size = request->size,
		.stream = request->stream,
		.handle = request->handle,
		.sources = g_array_new(FALSE, FALSE, sizeof(struct source)),
		.extents = g_ptr_array_new(),
		.at = at,
		.beside = beside,
		.idle = !at && stream_is_idle(request->stream) && !request->frugal,
	};
	uint64_t available = harvest.idle ? idle_bytes(core) : region_bytes(&core->regions, REGION_FREE);

	available -= beside ? beside->size : 0;
	harvest.created = available < harvest.size ? harvest.size - available : 0;
	order_init(&harvest.order, harvest.stream);
	harvest_plan(&harvest);
	return harvest;
}

static void harvest_end(struct harvest *harvest)
{
	order_clear(&harvest->order);
	g_ptr_array_free(harvest->extents, TRUE);
	g_array_free(harvest->sources, TRUE);
}

/* One region suffices, so nothing is remapped, but work of another stream may be pending on it. */
static bool is_one(const struct harvest *harvest)
{
	return harvest->sources->len == 1 && !harvest->created;
}

/*
 * Makes a free region for a request, which the stream is ordered after, where no single free region would do.
 *
 * Takes free pages: the stream's own first, then unused ones, then other streams', each oldest first. Creates the
 * shortfall and no more. The pages are mapped behind one another into a hole; their old addresses become zombies. A
 * region right in front of the hole stays where it is, as the start of the block. If one region suffices, nothing is
 * remapped.
 */
static int harvest_block(struct core *core, const struct request *request, struct region **region)
{
	struct harvest harvest = harvest_start(core, request, 0, NULL);
	int err = is_one(&harvest) ? harvest_wait_for_one(&harvest, region) : harvest_gather(&harvest, region);

	harvest_end(&harvest);
	return err;
}

int harvest_into(struct core *core, const struct request *request, uint64_t addr, const struct region *beside,
		 struct event *behind, struct event **event)
{
	struct harvest harvest = harvest_start(core, request, addr, beside);
	struct region *region;
	int err;

	order_add_event(&harvest.order, behind);
	err = harvest_wait(&harvest);
	if (!err)
		err = stream_record(request->stream, request->handle, event);
	if (!err) {
		err = harvest_gather(&harvest, &region);
		if (err)
			event_unref(*event);
	}
	harvest_end(&harvest);
	return err;
}

/* Of the free regions that fit, the one that was freed first; or NULL. */
static struct region *oldest_fit(struct core *core, size_t size)
{
	for (const GList *link = region_ages(&core->regions)->head; link; link = link->next) {
		struct region *region = link->data;

		if (region->size >= size)
			return region;
	}
	return NULL;
}

/* VPMM_REUSE=block: waits for the oldest free region that fits, rather than gather. */
static int paged_wait_oldest(struct core *core, size_t size, struct region **found)
{
	int err;

	*found = oldest_fit(core, size);
	if (!*found || !event_pending((*found)->event))
		return 0;
	err = event_sync((*found)->event);
	core->counts.waits += !err;
	return err;
}

/* A free region that needs no wait, as far as events were polled. */
static struct region *paged_fit(struct core *core, size_t size, struct stream *stream)
{
	struct region *own = region_find_own(&core->regions, stream, size);

	return own ? own : region_find_passed(&core->regions, size);
}

static int paged_poll_fit(struct core *core, size_t size, struct stream *stream, struct region **found)
{
	int err = stream_poll_busy(&core->streams, false);

	*found = err ? NULL : paged_fit(core, size, stream);
	return err;
}

/* Finds a free region that needs no gathering. Waits only under VPMM_REUSE=block. Finding none is no error. */
static int paged_find(struct core *core, size_t size, struct stream *stream, struct region **found)
{
	int err = 0;

	*found = region_find_own(&core->regions, stream, size);
	if (!*found)
		err = paged_poll_fit(core, size, stream, found);
	/* Other streams' caches may have a block that fits. */
	if (!err && !*found && cache_flush_all(core))
		err = paged_poll_fit(core, size, stream, found);
	if (err)
		return err;
	if (!*found)
		atomic_fetch_add_explicit(&core->pressure, 1, memory_order_relaxed);
	if (!*found && core->settings.reuse == VPMM_REUSE_BLOCK && !stream_is_idle(stream)) {
		err = paged_wait_oldest(core, size, found);
		if (err)
			return err;
	}
	if (*found) {
		core->counts.reuses++;
		if ((*found)->stream && (*found)->stream != stream)
			core->counts.steals++;
	}
	return 0;
}

static int paged_try(struct core *core, const struct request *request, struct region **region)
{
	int err;

	err = paged_find(core, request->size, request->stream, region);
	return err || *region ? err : harvest_block(core, request, region);
}

/* A frugal request comes after a full flush, and after all that can be unmapped was. */
static int paged_prepare(struct core *core, const struct request *request)
{
	if (request->frugal)
		return 0;
	cache_flush(core, request->stream, request->handle, 0);
	return zombie_reap(core);
}

static int paged_malloc(struct core *core, const struct request *request, uint64_t *addr)
{
	struct region *region;
	int err = paged_prepare(core, request);

	if (!err)
		err = paged_try(core, request, &region);
	if (err)
		return err;
	region_cut(&core->regions, region, request->size);
	region_set_malloc(&core->regions, region, request->stream);
	live_enter(core, region, request->requested);
	*addr = region->addr;
	return 0;
}

/* Before a query: a malloc polls only if it has to. */
static int paged_settle(struct core *core, const struct request *request)
{
	int err = paged_prepare(core, request);

	return err ? err : stream_poll_busy(&core->streams, false);
}

/* The number of other streams that have to be waited for before a stream can have a region. */
static guint waits_of(const struct region *region, struct stream *stream)
{
	struct order order;
	guint waits;

	order_init(&order, stream);
	order_add(&order, region);
	waits = order_waits(&order);
	order_clear(&order);
	return waits;
}

/* The price that harvest_block() would pay. */
static void forecast_harvest(struct core *core, const struct request *request, uint64_t room,
			     struct vpmm_forecast *forecast)
{
	struct harvest harvest = harvest_start(core, request, 0, NULL);
	const struct region *hole = region_find_unmapped(&core->regions, request->size);

	if (harvest.created > room)
		goto out;
	harvest_order(&harvest);
	forecast->waits = order_waits(&harvest.order);
	forecast->way = VPMM_WAY_REUSE;
	if (is_one(&harvest))
		goto out;
	for (guint i = 0; i < harvest.sources->len; i++) {
		const struct source *source = &g_array_index(harvest.sources, struct source, i);

		/* The base is not remapped. */
		if (!hole || source->region != hole->prev)
			harvest.moved += source->take;
	}
	forecast->way = harvest.created ? VPMM_WAY_GROW : VPMM_WAY_HARVEST;
	forecast->grown = harvest.created;
	forecast->remapped = harvest.moved;
	forecast->calls = (harvest.moved + 2 * harvest.created) / core->settings.page_size + 1;
out:
	harvest_end(&harvest);
}

static void paged_forecast(struct core *core, const struct request *request, uint64_t room,
			   struct vpmm_forecast *forecast)
{
	struct region *region = paged_fit(core, request->size, request->stream);

	if (!region && core->settings.reuse == VPMM_REUSE_BLOCK) {
		region = oldest_fit(core, request->size);
		forecast->waits = region ? waits_of(region, request->stream) : 0;
	}
	if (region)
		forecast->way = VPMM_WAY_REUSE;
	else
		forecast_harvest(core, request, room, forecast);
}

static uint64_t paged_largest(struct core *core, struct stream *stream, uint64_t room)
{
	uint64_t page = core->settings.page_size;

	return (region_bytes(&core->regions, REGION_FREE) + room) / page * page;
}

const struct policy policy_paged = {
	.malloc = paged_malloc,
	.settle = paged_settle,
	.forecast = paged_forecast,
	.largest = paged_largest,
	.trim = trim_pages,
};
