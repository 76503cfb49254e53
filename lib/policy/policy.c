// SPDX-License-Identifier: LGPL-2.1-or-later
/* Which policy a pool has, and those of requests that are served outside of the region maps. */
#include "core/core.h"
#include "core/shareable.h"
#include "core/small.h"
#include "policy/fit.h"
#include "policy/policy.h"
#include "policy/state.h"
#include "policy/trim.h"
#include "policy/tuning.h"
#include "vpmm.h"

/* Mappings that a driver has room for where it does not say: CUDA's, as measured. */
#define MAPPINGS ((uint64_t)512 * 1024)

void policy_init(struct core *core, struct packed *packed, const struct backend_info *info)
{
	packed->most_places = (info->mapping_limit ? info->mapping_limit : MAPPINGS) / tuning_mappings_part;
	core->packed = packed;
	if (core->settings.page_size == SIZE_MAX)
		core->policy = &policy_driver;
	else
		core->policy = &policy_packed;
}

void policy_clear(struct packed *packed)
{
	recent_clear(packed);
}

/* core_round() is 0 for requests that the driver's allocator is to serve. */
const struct policy *policy_of(const struct core *core, size_t bytes)
{
	return bytes ? core->policy : &policy_driver;
}

static int driver_malloc(struct core *core, const struct request *request, uint64_t *addr)
{
	int err;

	/* The driver's allocator can take only memory that the pool does not hold. */
	err = request->frugal ? trim_pool(core, 0, NULL) : 0;
	if (!err)
		err = extent_judge_limit(&core->extents, request->size);
	if (err)
		return err;
	small_count(core, request->size);
	err = extent_judge_counted(&core->extents, request->size);
	if (!err)
		err = core->backend->ops->small_alloc(core->backend, request->size, request->handle, addr);
	if (err)
		small_count(core, -(uint64_t)request->size);
	else
		small_add(core, *addr, request->size);
	return err;
}

static bool driver_forecast(struct core *core, const struct request *request, uint64_t room,
			    struct vpmm_forecast *forecast)
{
	if (request->size > room)
		return false;
	forecast->way = VPMM_WAY_GROW;
	forecast->calls = 1;
	return true;
}

static uint64_t driver_largest(struct core *core, struct stream *stream, uint64_t room)
{
	return room;
}

const struct policy policy_driver = {
	.malloc = driver_malloc,
	.forecast = driver_forecast,
	.largest = driver_largest,
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
