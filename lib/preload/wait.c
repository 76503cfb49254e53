// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * cuCtxSynchronize(), and the record of an event behind all work of a context, both invalidate every capture of its
 * streams. A record is over at once, so captures can be kept from beginning beside it; and to wait for an event that
 * was recorded before is allowed beside captures of other threads.
 */
#include "preload/driver.h"
#include "preload/primary.h"
#include "preload/wait.h"
#include "util/captures.h"

/* Of a context's flags. */
enum {
	CTX_SCHED_BLOCKING_SYNC = 4,
	CTX_SCHED_MASK = 7,
};

/* How a thread waits for the context is how it has to wait for the event. */
static unsigned int event_flags(void)
{
	unsigned int flags = 0;

	FORWARD(cuCtxGetFlags, &flags);
	return DRV_EVENT_DISABLE_TIMING |
	       ((flags & CTX_SCHED_MASK) == CTX_SCHED_BLOCKING_SYNC ? DRV_EVENT_BLOCKING_SYNC : 0);
}

static drv_result wait_by_event(bool *captured)
{
	drv_context context;
	drv_event event;
	drv_result result;

	result = FORWARD(cuCtxGetCurrent, &context);
	if (!result)
		result = FORWARD(cuEventCreate, &event, event_flags());
	if (result)
		return result;
	*captured = !captures_hold_off();
	if (!*captured) {
		result = FORWARD(cuCtxRecordEvent, context, event);
		captures_let();
		if (!result)
			result = RELAXED(cuEventSynchronize, event);
	}
	FORWARD(cuEventDestroy_v2, event);
	return result;
}

/* As small as it gets. */
#define HOST_BYTES 4096

/* To give pinned memory back waits for all that any stream of the context is at, and lets captures go on. */
drv_result wait_beside_capture(void)
{
	drv_result result;
	void *host;

	result = RELAXED(cuMemAllocHost_v2, &host, HOST_BYTES);
	if (result)
		return result;
	result = RELAXED(cuMemFreeHost, host);
	/* It may report what was earlier, and then there is no other way to get rid of it. */
	if (result)
		RELAXED(cuMemFreeHost, host);
	return result;
}

drv_result wait_for_device(int device, bool *captured)
{
	drv_result result;

	*captured = captures_any();
	if (*captured)
		return DRV_SUCCESS;
	result = primary_push(device);
	if (result)
		return result;
	result = driver_call(CALL_cuCtxRecordEvent) ? wait_by_event(captured) : wait_beside_capture();
	primary_pop();
	return result;
}
