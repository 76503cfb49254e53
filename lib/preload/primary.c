// SPDX-License-Identifier: LGPL-2.1-or-later
/* Primary contexts, known by the program's retains. */
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>

#include "preload/driver.h"
#include "preload/primary.h"

static struct {
	drv_context _Atomic context;	/* as of the last retain; NULL: never retained */
	atomic_int retains;		/* by the program */
} primaries[DEVICES_KNOWN];

/* Of the retains while the last release is under way; those that come meanwhile are added to it. */
#define LEAVING (INT_MIN / 2)

static _Atomic uint64_t retained;	/* devices that ever were, as bits */

static bool is_known(int device)
{
	return device >= 0 && device < DEVICES_KNOWN;
}

bool primary_of(drv_context context, int *device)
{
	int i;

	for (i = 0; context && i < DEVICES_KNOWN; i++) {
		if (atomic_load_explicit(&primaries[i].context, memory_order_relaxed) == context &&
		    primary_retains(i)) {
			*device = i;
			return true;
		}
	}
	return false;
}

bool primary_device(int *device)
{
	drv_context current = NULL;

	return !FORWARD(cuCtxGetCurrent, &current) && primary_of(current, device);
}

bool primary_only(int *device)
{
	const uint64_t mask = atomic_load_explicit(&retained, memory_order_relaxed);

	if (!mask || mask & (mask - 1))
		return false;
	*device = __builtin_ctzll(mask);
	return true;
}

drv_context primary_context(int device)
{
	return is_known(device) ? primaries[device].context : NULL;
}

drv_result stream_context(drv_stream stream, drv_context *context)
{
	if (stream_is_default(stream))
		return FORWARD(cuCtxGetCurrent, context);
	return FORWARD(cuStreamGetCtx, stream, context);
}

drv_result primary_push(int device)
{
	drv_context context = primary_context(device);

	return context ? FORWARD(cuCtxPushCurrent_v2, context) : DRV_ERROR_INVALID_CONTEXT;
}

void primary_pop(void)
{
	drv_context context;

	FORWARD(cuCtxPopCurrent_v2, &context);
}

void primary_retained(int device, drv_context context)
{
	if (!is_known(device))
		return;
	primaries[device].context = context;
	primaries[device].retains++;
	atomic_fetch_or(&retained, UINT64_C(1) << device);
}

int primary_retains(int device)
{
	const int retains = is_known(device) ? primaries[device].retains : 0;

	return retains > 0 ? retains : 0;
}

int primary_released(int device)
{
	int retains = is_known(device) ? primaries[device].retains : 0;

	while (retains && retains != LEAVING &&
	       !atomic_compare_exchange_weak(&primaries[device].retains, &retains,
					     retains == 1 ? LEAVING : retains - 1))
		;
	/* The release that is under way counts as one. */
	return retains < 0 ? retains - LEAVING + (retains != LEAVING) : retains;
}

void primary_left(int device)
{
	primaries[device].retains -= LEAVING;
}

void primary_release_failed(int device)
{
	if (is_known(device))
		primaries[device].retains++;
}
