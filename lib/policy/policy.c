// SPDX-License-Identifier: LGPL-2.1-or-later
/* Which policy a pool has. */
#include "core/core.h"
#include "policy/policy.h"
#include "policy/recent.h"
#include "policy/state.h"
#include "policy/tuning.h"

/* Mappings that a driver has room for where it does not say: CUDA's, as measured. */
#define MAPPINGS ((uint64_t)512 * 1024)

void policy_init(struct core *core, struct packed *packed, const struct backend_info *info)
{
	packed->most_places = (info->mapping_limit ? info->mapping_limit : MAPPINGS) / tuning_mappings_part;
	core->packed = packed;
	if (core->settings.page_size == SIZE_MAX)
		core->policy = &policy_driver;
	else
		core->policy = core->settings.paged ? &policy_paged : &policy_packed;
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
