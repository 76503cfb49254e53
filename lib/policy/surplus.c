// SPDX-License-Identifier: LGPL-2.1-or-later
/* VPMM_OVERLAP=auto: fits what the pool holds to an allowance that has changed. */
#include "core/core.h"
#include "policy/allowance.h"
#include "policy/growth.h"
#include "policy/state.h"
#include "policy/surplus.h"
#include "policy/trim.h"
#include "util/error.h"

/*
 * Extent by extent, until no more is held than the allowance lets the pool hold: if a part of an extent stayed above
 * that, there would be no room for a block when the allowance is raised again. But give back no more than the allowance
 * was lowered by: a pool whose free memory is pinned stays above it, and each request would create again what had just
 * been given back.
 */
static void give_back(struct core *core)
{
	struct allowance *a = &core->packed->allowance;
	uint64_t most = MAX(growth_most(core), a->held), mapped;

	while (a->surplus && core_mapped(core) > most) {
		mapped = core_mapped(core);
		if (trim_whole(core, 0, TRIM_LOOKS, 1) || core_mapped(core) == mapped)
			return;
		a->surplus -= MIN(a->surplus, mapped - core_mapped(core));
	}
	a->surplus = 0;
}

void surplus_fit(struct core *core)
{
	struct allowance *a = &core->packed->allowance;
	struct error_kept kept;

	lock_assert_held(&core->lock);
	if (!a->surplus)
		return;
	error_keep(&kept);
	stream_poll_some(&core->streams);
	give_back(core);
	/* What was measured until now was with more memory. */
	if (!a->surplus)
		windows_restart(&a->windows);
	error_restore(&kept);
}
