// SPDX-License-Identifier: LGPL-2.1-or-later
/* The policies of requests that are served outside of the region maps: by the driver's allocator, or shareable. */
#include "core/core.h"
#include "core/shareable.h"
#include "core/small.h"
#include "policy/policy.h"
#include "policy/trim.h"
#include "vpmm.h"

static int driver_malloc(struct core *core, const struct request *request, uint64_t *addr)
{
	int err;

	/* The driver's allocator can take only memory that the pool does not hold. */
	err = request->frugal ? trim_pool(core, 0, NULL) : 0;
	if (!err)
		err = extent_judge_limit(&core->extents, request->size);
	if (!err)
		err = core->backend->ops->small_alloc(core->backend, request->size, request->handle, addr);
	if (!err)
		small_add(core, *addr, request->size);
	return err;
}

static void driver_forecast(struct core *core, const struct request *request, uint64_t room,
			    struct vpmm_forecast *forecast)
{
	if (request->size > room)
		return;
	forecast->way = VPMM_WAY_GROW;
	forecast->calls = 1;
}

static uint64_t driver_largest(struct core *core, struct stream *stream, uint64_t room)
{
	return room;
}

/* trim_small() releases what the driver's allocator keeps. */
static int driver_trim(struct core *core, uint64_t keep, uint64_t looks, uint64_t most)
{
	return 0;
}

const struct policy policy_driver = {
	.malloc = driver_malloc,
	.forecast = driver_forecast,
	.largest = driver_largest,
	.trim = driver_trim,
};

static int shareable_malloc(struct core *core, const struct request *request, uint64_t *addr)
{
	struct shareable *made;
	int err;

	/* It can have only memory, mappings and addresses that the pool does not hold. */
	err = request->frugal ? trim_pool(core, 0, NULL) : 0;
	if (!err)
		err = request->import ? shareable_import(core, request->import, &made) :
		      shareable_create(core, request->size, &made);
	if (err)
		return err;
	small_add_shareable(core, made, request->requested);
	*addr = made->addr + made->offset;
	return 0;
}

const struct policy policy_shareable = {
	.malloc = shareable_malloc,
};
