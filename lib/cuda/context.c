// SPDX-License-Identifier: LGPL-2.1-or-later
/* The context of a device, entered and left, and what a thread may do beside captures. */
#include <errno.h>
#include <stdbool.h>

#include "cuda/device.h"
#include "util/error.h"

/*
 * Whether each enter that the thread has not left yet pushed a context, the last one in bit 0. Entries of several
 * devices nest in one stack, as the driver's contexts do.
 */
static _Thread_local uint64_t pushed;
static _Thread_local unsigned int depth;
#define DEPTH_MAX 64

/* What the thread's calls may do beside captures, as it was before the library changed it, if it did. */
static _Thread_local drv_capture_mode capture_mode;
static _Thread_local bool relaxed;

const void *cuda_current(void)
{
	drv_context context;

	return drv.cuCtxGetCurrent(&context) ? NULL : context;
}

int cuda_current_device(int *device)
{
	drv_context context;
	drv_result result;
	drv_device current;
	int err;

	err = cuda_driver_open();
	if (err)
		return err;
	result = drv.cuCtxGetCurrent(&context);
	if (result)
		return cuda_fail(result, "", "cuCtxGetCurrent");
	if (!context) {
		*device = 0;
		return 0;
	}
	result = drv.cuCtxGetDevice(&current);
	if (result)
		return cuda_fail(result, "", "cuCtxGetDevice");
	*device = current;
	return 0;
}

/*
 * While a thread captures in the driver's usual mode, calls that could not be captured fail on every thread, and
 * invalidate that capture, though it is none of theirs: to query an event is such a call. In this mode they do not. It
 * is asked for at the first of them, as those that find out which stream is meant, and are made most, are none.
 */
void cuda_relax(void)
{
	drv_capture_mode mode = DRV_STREAM_CAPTURE_MODE_RELAXED;

	/* Where that fails, so does what follows, or it is not needed. */
	if (relaxed || drv.cuThreadExchangeStreamCaptureMode(&mode))
		return;
	capture_mode = mode;
	relaxed = true;
}

static void capture_restore(void)
{
	if (!relaxed || depth)
		return;
	drv.cuThreadExchangeStreamCaptureMode(&capture_mode);
	relaxed = false;
}

int cuda_enter(struct backend *be)
{
	struct cuda *cuda = cuda_of(be);
	drv_context current;
	drv_result result;
	int push;

	if (depth == DEPTH_MAX)
		return error_set(-EBUSY, "a thread cannot enter devices %d deep", DEPTH_MAX);
	result = drv.cuCtxGetCurrent(&current);
	if (result)
		return cuda_fail(result, "", "cuCtxGetCurrent");
	push = current != cuda->context;
	if (push) {
		result = drv.cuCtxPushCurrent(cuda->context);
		if (result)
			return cuda_fail(result, "", "cuCtxPushCurrent of a context of device %d", cuda->ordinal);
	}
	pushed = pushed << 1 | (unsigned int)push;
	depth++;
	return 0;
}

void cuda_leave(struct backend *be)
{
	drv_context context;

	(void)be;
	if (pushed & 1)
		drv.cuCtxPopCurrent(&context);
	pushed >>= 1;
	depth--;
	capture_restore();
}

/*
 * Takes the calling thread's current context if it belongs to the device, so that the program's streams are known in
 * it, else the primary context. Where the two are the same it is retained, as the program may let go of it before us.
 */
int cuda_context_take(struct cuda *cuda)
{
	drv_context current, primary;
	unsigned int flags;
	drv_result result;
	drv_device device;
	int active = 1;

	result = drv.cuCtxGetCurrent(&current);
	if (result)
		return cuda_fail(result, "", "cuCtxGetCurrent");
	if (current) {
		result = drv.cuCtxGetDevice(&device);
		if (result)
			return cuda_fail(result, "", "cuCtxGetDevice");
		if (device != cuda->device)
			current = NULL;
	}
	/* A primary context that is not active is not to be made for nothing: it takes device memory. */
	if (current && drv.cuDevicePrimaryCtxGetState(cuda->device, &flags, &active))
		active = 0;
	if (active) {
		result = drv.cuDevicePrimaryCtxRetain(&primary, cuda->device);
		if (result)
			return cuda_fail(result, "", "cuDevicePrimaryCtxRetain of device %d", cuda->ordinal);
		if (!current || current == primary) {
			cuda->context = primary;
			cuda->retained = 1;
			/* The program can destroy any other context, and get its handle again for another one. */
			cuda->base.place = primary;
			return 0;
		}
		drv.cuDevicePrimaryCtxRelease(cuda->device);
	}
	cuda->context = current;
	return 0;
}

void cuda_context_put(struct cuda *cuda)
{
	if (cuda->retained)
		drv.cuDevicePrimaryCtxRelease(cuda->device);
}
