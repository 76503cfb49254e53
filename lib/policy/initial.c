// SPDX-License-Identifier: LGPL-2.1-or-later
/* What a pool is created with: address space, and the memory that VPMM_PAGES asks for. */
#include <inttypes.h>

#include "core/chunk.h"
#include "core/core.h"
#include "policy/growth.h"
#include "policy/initial.h"
#include "policy/tuning.h"
#include "policy/warm.h"
#include "util/error.h"

/* Several extents, so that parts can be remapped. */
static size_t initial_extent_size(const struct core *core, size_t size)
{
	size_t page_size = core->settings.page_size;

	return CLAMP(size / (size_t)tuning_initial_extents / page_size * page_size, page_size,
		     core->settings.extent_max);
}

static int create_pages(struct core *core, uint64_t addr, size_t size)
{
	int err = growth_map(core, &core->regions, addr, size, initial_extent_size(core, size));

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
