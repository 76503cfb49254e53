// SPDX-License-Identifier: LGPL-2.1-or-later
/* The policy of whole pages. */
#include <stdatomic.h>

#include "core/allocation.h"
#include "core/cache-flush.h"
#include "core/core.h"
#include "core/wait-set.h"
#include "policy/harvest.h"
#include "policy/policy.h"
#include "policy/settle.h"
#include "policy/trim.h"

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

static int paged_malloc(struct core *core, const struct request *request, uint64_t *addr)
{
	struct region *region;
	int err = settle_pages(core, request);

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

static void paged_forecast(struct core *core, const struct request *request, uint64_t room,
			   struct vpmm_forecast *forecast)
{
	struct stream *stream = request->stream;
	size_t size = request->size;
	struct region *region = paged_fit(core, size, stream);
	struct harvest_cost cost;

	if (!region && core->settings.reuse == VPMM_REUSE_BLOCK) {
		region = oldest_fit(core, size);
		forecast->waits = region ? waits_of(region, stream) : 0;
	}
	if (region) {
		forecast->way = VPMM_WAY_REUSE;
		return;
	}
	harvest_forecast(core, size, stream, &cost);
	if (cost.create > room)
		return;
	forecast->waits = cost.waits;
	if (cost.sources == 1 && !cost.create) {
		forecast->way = VPMM_WAY_REUSE;
		return;
	}
	forecast->way = cost.create ? VPMM_WAY_GROW : VPMM_WAY_HARVEST;
	forecast->grown = cost.create;
	forecast->remapped = cost.moved;
	forecast->calls = (cost.moved + 2 * cost.create) / core->settings.page_size + 1;
}

static uint64_t paged_largest(struct core *core, struct stream *stream, uint64_t room)
{
	uint64_t page = core->settings.page_size;

	return (core->regions.bytes[REGION_FREE] + room) / page * page;
}

const struct policy policy_paged = {
	.malloc = paged_malloc,
	.settle = settle_all_pages,
	.forecast = paged_forecast,
	.largest = paged_largest,
	.trim = trim_pages,
};
