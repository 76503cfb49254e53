// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The context of a device, entered and left, and what a thread may do beside captures.
 *
 * The driver does not report a reset. Every enter() compares the id of the current context with that of the pool's
 * (cuCtxGetId(); a primary context keeps its handle), and returns -ESTALE if they differ. A cache hit makes no enter()
 * and needs no check of its own: a stream created in a later context has an id that no cache knows, and for other
 * handles the place of the backend, which is the context's id, must be current.
 *
 * cuCtxGetId() fails once in each thread after a reset. cudaDeviceReset() also releases the runtime's retain: the
 * primary context is then current but inactive until the next retain.
 *
 * A pool of such a context ends like any other, without the steps that use streams or events, between abandon() and
 * leave(). Another thread may hold a default pool and read it without its lock, so what the hot path reads is left: the
 * structure, the caches, which have no stream any more, and the open backend. That thread gets -ESTALE from enter().
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "cuda/device.h"
#include "util/error.h"

/*
 * Whether each enter that the thread has not left yet pushed a context, and retained that, the last one in bit 0.
 * Entries of several devices nest in one stack, as the driver's contexts do.
 */
static _Thread_local uint64_t pushed, retained;
static _Thread_local unsigned int depth;
#define DEPTH_MAX 64

/* Above this ordinal a device has no default pool either. */
#define DEVICES_KNOWN 64

/* What the thread's calls may do beside captures, as it was before the library changed it, if it did. */
static _Thread_local drv_capture_mode capture_mode;
static _Thread_local bool relaxed;

/* The primary context of each device that was opened in it. A reset leaves the handles as they are. */
static drv_context _Atomic primaries[DEVICES_KNOWN];

/* What calls answer where no context is current, or one that was reset or destroyed. */
static bool lacks_context(drv_result result)
{
	return result == DRV_ERROR_INVALID_CONTEXT || result == DRV_ERROR_CONTEXT_IS_DESTROYED;
}

/* Which device a context is the primary one of. */
static bool find_primary(drv_context context, int *device)
{
	for (int i = 0; i < DEVICES_KNOWN; i++) {
		if (primaries[i] == context) {
			*device = i;
			return true;
		}
	}
	return false;
}

/* Whether a context is a primary one that nobody has used since it was reset or given up. */
static bool is_dormant(drv_context context)
{
	drv_device device;
	unsigned int flags;
	int active, ordinal;

	return find_primary(context, &ordinal) && !drv.cuDeviceGet(&device, ordinal) &&
	       !drv.cuDevicePrimaryCtxGetState(device, &flags, &active) && !active;
}

/*
 * Tells the id of the current context, 0 where there is none: not the handle, as that of a primary context is the same
 * after a reset, and others are used again. Tools such as compute-sanitizer report each call of the driver that fails,
 * so a thread that had no context before finds that out by calls that do not.
 */
static int know_current(drv_u64 *id)
{
	static _Thread_local bool had_context;
	drv_context current;
	drv_result result;

	*id = 0;
	if (!had_context) {
		result = drv.cuCtxGetCurrent(&current);
		if (result)
			return cuda_check(result, "cuCtxGetCurrent");
		if (!current || is_dormant(current))
			return 0;
	}
	result = drv.cuCtxGetId(NULL, id);
	had_context = !result;
	if (!result)
		return 0;
	*id = 0;
	return lacks_context(result) ? 0 : cuda_check(result, "cuCtxGetId");
}

const void *cuda_current(void)
{
	drv_u64 id;

	return know_current(&id) ? NULL : (const void *)(uintptr_t)id;
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
		return cuda_check(result, "cuCtxGetCurrent");
	if (!context) {
		*device = 0;
		return 0;
	}
	result = drv.cuCtxGetDevice(&current);
	/* Not every driver tells the device of a context that was reset. */
	if (lacks_context(result) && find_primary(context, device))
		return 0;
	if (result)
		return cuda_check(result, "cuCtxGetDevice");
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

/* Whether the context, which need not be current, is another one by now, or none. */
static bool is_gone(const struct cuda *cuda)
{
	unsigned int flags;
	drv_result result;
	int active;
	drv_u64 id;

	/*
	 * The handle of any but a primary context may be dangling, so the driver is not asked about it. @retained does
	 * not tell: another thread may be giving the context up.
	 */
	if (!cuda->base.place)
		return false;
	if (!drv.cuDevicePrimaryCtxGetState(cuda->device, &flags, &active) && !active)
		return true;
	result = drv.cuCtxGetId(cuda->context, &id);
	return result ? lacks_context(result) : id != cuda->context_id;
}

bool cuda_gone(struct backend *be)
{
	struct cuda *cuda = cuda_of(be);
	drv_u64 id;

	if (cuda->abandoned)
		return true;
	return (know_current(&id) || id != cuda->context_id) && is_gone(cuda);
}

static int fail_gone(const struct cuda *cuda)
{
	return error_set(-ESTALE, "the context of device %d in which the pool was created was reset or destroyed",
			 cuda->ordinal);
}

static int push_own(const struct cuda *cuda)
{
	drv_context popped;
	drv_result result;
	drv_u64 id;

	if (is_gone(cuda))
		return fail_gone(cuda);
	result = drv.cuCtxPushCurrent(cuda->context);
	if (lacks_context(result))
		return fail_gone(cuda);
	if (result)
		return cuda_check(result, "cuCtxPushCurrent of a context of device %d", cuda->ordinal);
	result = drv.cuCtxGetId(NULL, &id);
	if (!result && id == cuda->context_id)
		return 0;
	drv.cuCtxPopCurrent(&popped);
	return result && !lacks_context(result) ? cuda_check(result, "cuCtxGetId") : fail_gone(cuda);
}

/* Memory and addresses belong to no context, but the driver wants one to be current. */
static int push_any(const struct cuda *cuda)
{
	drv_context context;
	int err;

	err = cuda_check(drv.cuDevicePrimaryCtxRetain(&context, cuda->device),
			 "cuDevicePrimaryCtxRetain of device %d", cuda->ordinal);
	if (err)
		return err;
	err = cuda_check(drv.cuCtxPushCurrent(context), "cuCtxPushCurrent of the primary context of device %d",
			 cuda->ordinal);
	if (err)
		drv.cuDevicePrimaryCtxRelease(cuda->device);
	return err;
}

/*
 * By the handle: after a kernel's error the driver tells no ids any more. What needs the driver then fails by itself,
 * and what does not need it goes on.
 */
static bool is_current(const struct cuda *cuda)
{
	drv_context context;

	return !drv.cuCtxGetCurrent(&context) && context == cuda->context;
}

static void note_push(bool push, bool retain)
{
	pushed = pushed << 1 | push;
	retained = retained << 1 | retain;
	depth++;
}

int cuda_enter(struct backend *be)
{
	struct cuda *cuda = cuda_of(be);
	drv_u64 id;
	bool push;
	int err;

	if (depth == DEPTH_MAX)
		return error_set(-EBUSY, "a thread cannot enter devices %d deep", DEPTH_MAX);
	err = know_current(&id);
	if (err && !is_current(cuda))
		return err;
	if (cuda->abandoned)
		return fail_gone(cuda);
	push = !err && id != cuda->context_id;
	if (push) {
		err = push_own(cuda);
		if (err)
			return err;
	}
	note_push(push, false);
	return 0;
}

/* A reset does not undo the retain, and the program may count on the last release to destroy the context. */
int cuda_abandon(struct backend *be)
{
	struct cuda *cuda = cuda_of(be);
	drv_u64 id;
	bool push;
	int err = 0;

	cuda->abandoned = true;
	push = know_current(&id) || !id;
	if (push)
		err = push_any(cuda);
	if (!err)
		note_push(push, push);
	cuda_context_put(cuda);
	return err;
}

void cuda_leave(struct backend *be)
{
	drv_context context;

	if (pushed & 1)
		drv.cuCtxPopCurrent(&context);
	/* Of abandon() alone: another thread may have abandoned what this one has entered. */
	if (retained & 1)
		drv.cuDevicePrimaryCtxRelease(cuda_of(be)->device);
	pushed >>= 1;
	retained >>= 1;
	depth--;
	capture_restore();
}

/* NULL: none is current, or none of the device that can be used: one that was reset still tells its device. */
static int current_context(const struct cuda *cuda, drv_context *current)
{
	drv_result result;
	drv_device device;
	drv_u64 id;

	result = drv.cuCtxGetCurrent(current);
	if (result)
		return cuda_check(result, "cuCtxGetCurrent");
	if (*current && is_dormant(*current))
		*current = NULL;
	if (!*current)
		return 0;
	result = drv.cuCtxGetDevice(&device);
	if (result && !lacks_context(result))
		return cuda_check(result, "cuCtxGetDevice");
	if (result || device != cuda->device || lacks_context(drv.cuCtxGetId(NULL, &id)))
		*current = NULL;
	return 0;
}

static int know_context(struct cuda *cuda, drv_context context)
{
	int err;

	err = cuda_check(drv.cuCtxGetId(context, &cuda->context_id), "cuCtxGetId of a context of device %d",
			 cuda->ordinal);
	if (!err)
		cuda->context = context;
	return err;
}

static int know_primary(struct cuda *cuda, drv_context primary)
{
	int err;

	err = know_context(cuda, primary);
	if (err) {
		drv.cuDevicePrimaryCtxRelease(cuda->device);
		return err;
	}
	cuda->retained = 1;
	/* The program can destroy any other context while streams of it are in use. */
	cuda->base.place = (const void *)(uintptr_t)cuda->context_id;
	if (cuda->ordinal < DEVICES_KNOWN)
		primaries[cuda->ordinal] = primary;
	return 0;
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
	int active = 1;
	int err;

	err = current_context(cuda, &current);
	if (err)
		return err;
	/* A primary context that is not active is not to be made for nothing: it takes device memory. */
	if (current && drv.cuDevicePrimaryCtxGetState(cuda->device, &flags, &active))
		active = 0;
	if (active) {
		result = drv.cuDevicePrimaryCtxRetain(&primary, cuda->device);
		if (result)
			return cuda_check(result, "cuDevicePrimaryCtxRetain of device %d", cuda->ordinal);
		if (!current || current == primary)
			return know_primary(cuda, primary);
		drv.cuDevicePrimaryCtxRelease(cuda->device);
	}
	return know_context(cuda, current);
}

void cuda_context_put(struct cuda *cuda)
{
	if (cuda->retained)
		drv.cuDevicePrimaryCtxRelease(cuda->device);
	cuda->retained = 0;
}
