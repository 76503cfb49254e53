// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The backend that performs the calls on a CUDA device. The driver is opened at the first use, so that the library
 * installs and loads where there is none.
 */
#include <errno.h>
#include <glib.h>
#include <stdbool.h>
#include <time.h>

#include "backend/backend.h"
#include "cuda/driver.h"
#include "cuda/frees.h"
#include "util/error.h"
#include "util/lock.h"

struct cuda {
	struct backend base;
	int ordinal;
	drv_device device;
	drv_context context;
	int retained;			/* the primary context, to be released */
	drv_mem_pool pool;		/* of small allocations; NULL: the device has none */
	char apart[128];		/* what every call reads from what some write */
	struct lock lock;		/* for what follows */
	GPtrArray *spare;		/* events that nobody has, of drv_event */
	struct cuda_frees frees;	/* of small allocations */
};

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

static struct cuda *cuda_of(struct backend *be)
{
	return (struct cuda *)be;
}

static int cuda_current_device(int *device)
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
static void relax(void)
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

static int cuda_enter(struct backend *be)
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

static void cuda_leave(struct backend *be)
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
static int context_take(struct cuda *cuda)
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
			return 0;
		}
		drv.cuDevicePrimaryCtxRelease(cuda->device);
	}
	cuda->context = current;
	return 0;
}

static void context_put(struct cuda *cuda)
{
	if (cuda->retained)
		drv.cuDevicePrimaryCtxRelease(cuda->device);
}

static int has_pool_calls(void)
{
	return drv.cuMemPoolCreate && drv.cuMemPoolDestroy && drv.cuMemPoolSetAttribute && drv.cuMemPoolGetAttribute &&
	       drv.cuMemPoolTrimTo && drv.cuMemAllocFromPoolAsync && drv.cuMemFreeAsync;
}

/* A memory pool of our own leaves the settings of the device's default one to the program. */
static int pool_create(struct cuda *cuda)
{
	const drv_mem_pool_props props = {
		.type = DRV_MEM_ALLOCATION_TYPE_PINNED,
		.handle_types = DRV_MEM_HANDLE_TYPE_NONE,
		.location = { DRV_MEM_LOCATION_TYPE_DEVICE, cuda->device },
	};
	drv_u64 threshold = UINT64_MAX;
	drv_result result;
	int supported;

	result = drv.cuDeviceGetAttribute(&supported, DRV_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, cuda->device);
	if (result || !supported || !has_pool_calls())
		return 0;
	relax();
	result = drv.cuMemPoolCreate(&cuda->pool, &props);
	if (result)
		return cuda_fail(result, "", "cuMemPoolCreate on device %d", cuda->ordinal);
	result = drv.cuMemPoolSetAttribute(cuda->pool, DRV_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
	if (result) {
		drv.cuMemPoolDestroy(cuda->pool);
		return cuda_fail(result, "", "cuMemPoolSetAttribute of the release threshold");
	}
	return 0;
}

static int device_find(struct cuda *cuda, int ordinal)
{
	int count, supported;
	drv_result result;

	result = drv.cuDeviceGetCount(&count);
	if (result)
		return cuda_fail(result, "", "cuDeviceGetCount");
	if (ordinal < 0 || ordinal >= count)
		return error_set(-ENODEV, "there is no CUDA device %d: the driver has %d", ordinal, count);
	cuda->ordinal = ordinal;
	result = drv.cuDeviceGet(&cuda->device, ordinal);
	if (result)
		return cuda_fail(result, "", "cuDeviceGet of device %d", ordinal);
	result = drv.cuDeviceGetAttribute(&supported, DRV_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
					  cuda->device);
	if (result)
		return cuda_fail(result, "", "cuDeviceGetAttribute of device %d", ordinal);
	if (!supported)
		return error_set(-ENOTSUP, "CUDA device %d has no virtual memory management", ordinal);
	return 0;
}

static struct cuda *cuda_new(void)
{
	struct cuda *cuda = g_new0(struct cuda, 1);

	cuda->base.ops = &backend_cuda;
	lock_init(&cuda->lock, LOCK_CUDA);
	cuda->spare = g_ptr_array_new();
	cuda_frees_init(&cuda->frees);
	return cuda;
}

static void cuda_delete(struct cuda *cuda)
{
	cuda_frees_clear(&cuda->frees);
	g_ptr_array_free(cuda->spare, TRUE);
	lock_destroy(&cuda->lock);
	g_free(cuda);
}

static int cuda_open(int device, struct backend **be)
{
	struct cuda *cuda;
	int err;

	err = cuda_driver_open();
	if (err)
		return err;
	cuda = cuda_new();
	err = device_find(cuda, device);
	if (err)
		goto delete_cuda;
	err = context_take(cuda);
	if (err)
		goto delete_cuda;
	err = cuda_enter(&cuda->base);
	if (err)
		goto put_context;
	err = pool_create(cuda);
	cuda_leave(&cuda->base);
	if (err)
		goto put_context;
	*be = &cuda->base;
	return 0;

put_context:
	context_put(cuda);
delete_cuda:
	cuda_delete(cuda);
	errno = -err;
	return err;
}

static void cuda_close(struct backend *be)
{
	struct cuda *cuda = cuda_of(be);

	/* At exit the driver may have shut down before us, and has taken the memory pool and the events with it. */
	if (!cuda_enter(be)) {
		relax();
		if (cuda->pool)
			drv.cuMemPoolDestroy(cuda->pool);
		for (guint i = 0; i < cuda->spare->len; i++)
			drv.cuEventDestroy(cuda->spare->pdata[i]);
		cuda_frees_drop(&cuda->frees);
		cuda_leave(be);
	}
	context_put(cuda);
	cuda_delete(cuda);
}

static drv_allocation_prop allocation_prop(const struct cuda *cuda)
{
	return (drv_allocation_prop){
		.type = DRV_MEM_ALLOCATION_TYPE_PINNED,
		.handle_types = DRV_MEM_HANDLE_TYPE_NONE,
		.location = { DRV_MEM_LOCATION_TYPE_DEVICE, cuda->device },
	};
}

static int cuda_info(struct backend *be, struct backend_info *info)
{
	struct cuda *cuda = cuda_of(be);
	drv_allocation_prop prop = allocation_prop(cuda);
	struct backend_info got = { .name = "cuda", .device = cuda->ordinal };
	size_t free, total;
	drv_result result;

	result = drv.cuDeviceGetName(got.device_name, sizeof(got.device_name), cuda->device);
	if (result)
		return cuda_fail(result, "", "cuDeviceGetName of device %d", cuda->ordinal);
	result = drv.cuDriverGetVersion(&got.driver_version);
	if (result)
		return cuda_fail(result, "", "cuDriverGetVersion");
	relax();
	result = drv.cuMemGetAllocationGranularity(&got.granularity, &prop,
							      DRV_MEM_ALLOC_GRANULARITY_MINIMUM);
	if (result)
		return cuda_fail(result, "", "cuMemGetAllocationGranularity of device %d", cuda->ordinal);
	relax();
	result = drv.cuMemGetInfo(&free, &total);
	if (result)
		return cuda_fail(result, "", "cuMemGetInfo of device %d", cuda->ordinal);
	got.memory_free = free;
	got.memory_total = total;
	/* There is a limit, but no call that tells it. */
	got.mapping_limit = 0;
	*info = got;
	return 0;
}

static uint64_t cuda_now(struct backend *be)
{
	struct timespec now;

	(void)be;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int cuda_reserve(struct backend *be, size_t size, size_t align, uint64_t *va)
{
	drv_deviceptr got;
	drv_result result;

	(void)be;
	relax();
	result = drv.cuMemAddressReserve(&got, size, align, 0, 0);
	if (result)
		return cuda_fail(result, "", "cuMemAddressReserve of %zu bytes of address space", size);
	*va = got;
	return 0;
}

static int cuda_unreserve(struct backend *be, uint64_t va, size_t size)
{
	drv_result result;

	(void)be;
	relax();
	result = drv.cuMemAddressFree(va, size);
	return result ? cuda_fail_mapping(result, "cuMemAddressFree", size, va) : 0;
}

static int cuda_create(struct backend *be, size_t size, uint64_t *handle)
{
	drv_allocation_prop prop = allocation_prop(cuda_of(be));
	drv_result result;
	drv_handle got;

	relax();
	result = drv.cuMemCreate(&got, size, &prop, 0);
	if (result)
		return cuda_fail_memory(result, "cuMemCreate", size);
	*handle = got;
	return 0;
}

static int cuda_release(struct backend *be, uint64_t handle)
{
	drv_result result;

	(void)be;
	relax();
	result = drv.cuMemRelease(handle);
	return result ? cuda_fail(result, "", "cuMemRelease of handle %#" G_GINT64_MODIFIER "x", handle) : 0;
}

static int cuda_map(struct backend *be, uint64_t va, size_t size, uint64_t handle)
{
	drv_result result;

	(void)be;
	relax();
	result = drv.cuMemMap(va, size, 0, handle, 0);
	return result ? cuda_fail_mapping(result, "cuMemMap", size, va) : 0;
}

static int cuda_access(struct backend *be, uint64_t va, size_t size)
{
	const drv_access_desc desc = {
		.location = { DRV_MEM_LOCATION_TYPE_DEVICE, cuda_of(be)->device },
		.flags = DRV_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	drv_result result;

	relax();
	result = drv.cuMemSetAccess(va, size, &desc, 1);
	return result ? cuda_fail_mapping(result, "cuMemSetAccess", size, va) : 0;
}

/* That the guard is complete is for the caller to see to; the host backend catches the caller who does not. */
static int cuda_unmap(struct backend *be, uint64_t va, size_t size, struct backend_event *guard)
{
	drv_result result;

	(void)be;
	(void)guard;
	relax();
	result = drv.cuMemUnmap(va, size);
	return result ? cuda_fail_mapping(result, "cuMemUnmap", size, va) : 0;
}

/*
 * An event that is recorded on a stream under capture belongs to the graph: to query it later fails, and invalidates
 * the capture. Everything that is done with a stream begins by asking for its id, so it ends here, before the driver
 * is asked for the id: it does not tell that of such a stream.
 */
static int cuda_stream_id(struct backend *be, struct CUstream_st *stream, uint64_t *id)
{
	drv_capture_status status;
	drv_result result;
	drv_u64 got;

	(void)be;
	result = drv.cuStreamIsCapturing(stream, &status);
	if (result)
		return cuda_fail(result, "", "cuStreamIsCapturing of stream %p", (void *)stream);
	if (status != DRV_STREAM_CAPTURE_STATUS_NONE)
		return error_set(-EBUSY, "stream %p is being captured into a graph", (void *)stream);
	result = drv.cuStreamGetId(stream, &got);
	if (result)
		return cuda_fail(result, "", "cuStreamGetId of stream %p", (void *)stream);
	*id = got;
	return 0;
}

/* The driver promises no id for a capture that was invalidated; one that it tells all the same is right. */
static int cuda_stream_capture(struct backend *be, struct CUstream_st *stream, uint64_t *id)
{
	drv_capture_status status;
	drv_result result;
	uint64_t got = 0;

	(void)be;
	result = drv.cuStreamGetCaptureInfo(stream, &status, &got, NULL, NULL, NULL);
	if (result)
		return cuda_fail(result, "", "cuStreamGetCaptureInfo of stream %p", (void *)stream);
	if (status == DRV_STREAM_CAPTURE_STATUS_NONE)
		got = 0;
	else if (!got)
		return error_set(-EBUSY, "stream %p is under a capture that was invalidated", (void *)stream);
	*id = got;
	return 0;
}

/* A struct backend_event is the driver's own event under another name. */
static drv_event event_of(struct backend_event *event)
{
	return (drv_event)event;
}

static int cuda_stream_wait(struct backend *be, struct CUstream_st *stream, struct backend_event *event)
{
	drv_result result;

	(void)be;
	result = drv.cuStreamWaitEvent(stream, event_of(event), 0);
	return result ? cuda_fail(result, "", "cuStreamWaitEvent on stream %p", (void *)stream) : 0;
}

/*
 * An event that was recorded before can be recorded again, whoever still waits for the first time on the device: that
 * costs less than a new one. The last one that was let go is the first to be had, as its memory is the nearest.
 */
static int cuda_event_create(struct backend *be, struct backend_event **event)
{
	struct cuda *cuda = cuda_of(be);
	drv_event got = NULL;
	drv_result result;
	int err;

	lock_acquire(&cuda->lock);
	if (cuda->spare->len)
		got = g_ptr_array_remove_index_fast(cuda->spare, cuda->spare->len - 1);
	lock_release(&cuda->lock);
	if (!got) {
		/* It is of the current context, which is the program's where a cache marks a free without an enter. */
		err = cuda_enter(be);
		if (err)
			return err;
		result = drv.cuEventCreate(&got, DRV_EVENT_DISABLE_TIMING);
		cuda_leave(be);
		if (result)
			return cuda_fail(result, "", "cuEventCreate");
	}
	*event = (struct backend_event *)got;
	return 0;
}

static void cuda_event_destroy(struct backend *be, struct backend_event *event)
{
	struct cuda *cuda = cuda_of(be);

	lock_acquire(&cuda->lock);
	g_ptr_array_add(cuda->spare, event_of(event));
	lock_release(&cuda->lock);
}

static int cuda_event_record(struct backend *be, struct backend_event *event, struct CUstream_st *stream)
{
	drv_result result;

	(void)be;
	result = drv.cuEventRecord(event_of(event), stream);
	return result ? cuda_fail(result, "", "cuEventRecord on stream %p", (void *)stream) : 0;
}

static int cuda_event_query(struct backend *be, struct backend_event *event, int *complete)
{
	drv_result result;

	(void)be;
	relax();
	result = drv.cuEventQuery(event_of(event));
	if (result && result != DRV_ERROR_NOT_READY)
		return cuda_fail(result, "", "cuEventQuery");
	*complete = !result;
	return 0;
}

static int cuda_event_sync(struct backend *be, struct backend_event *event)
{
	drv_result result;

	(void)be;
	relax();
	result = drv.cuEventSynchronize(event_of(event));
	return result ? cuda_fail(result, "", "cuEventSynchronize") : 0;
}

/* As small as it gets. */
#define HOST_BYTES 4096

/*
 * To give pinned memory back waits for all that any stream of the context is at, and lets captures go on, which
 * cuCtxSynchronize() invalidates. Nor does it take memory of the device, of which there may be none when this is called.
 */
static int cuda_sync(struct backend *be)
{
	drv_result result;
	void *host;

	(void)be;
	relax();
	result = drv.cuMemAllocHost(&host, HOST_BYTES);
	if (result)
		return cuda_fail(result, "", "cuMemAllocHost of %d bytes", HOST_BYTES);
	result = drv.cuMemFreeHost(host);
	if (!result)
		return 0;
	/* It may report what was earlier, and then there is no other way to get rid of it. */
	drv.cuMemFreeHost(host);
	return cuda_fail(result, "", "cuMemFreeHost");
}

static int cuda_clear(struct backend *be, uint64_t va, size_t size, struct CUstream_st *stream)
{
	drv_result result;

	(void)be;
	result = drv.cuMemsetD8Async(va, 0, size, stream);
	return result ? cuda_fail(result, "", "cuMemsetD8Async of %zu bytes at %#" G_GINT64_MODIFIER "x", size, va) : 0;
}

static int cuda_small_alloc(struct backend *be, size_t size, struct CUstream_st *stream, uint64_t *va)
{
	struct cuda *cuda = cuda_of(be);
	drv_deviceptr got;
	drv_result result;

	if (!cuda->pool)
		return error_set(-ENOTSUP, "CUDA device %d has no memory pools to take %zu bytes from", cuda->ordinal,
				 size);
	relax();
	result = drv.cuMemAllocFromPoolAsync(&got, size, cuda->pool, stream);
	if (result)
		return cuda_fail_memory(result, "cuMemAllocFromPoolAsync", size);
	*va = got;
	return 0;
}

static int cuda_small_free(struct backend *be, uint64_t va, struct CUstream_st *stream)
{
	drv_result result;

	if (!cuda_of(be)->pool)
		return error_set(-EINVAL, "CUDA device %d has no memory pools", cuda_of(be)->ordinal);
	relax();
	result = drv.cuMemFreeAsync(va, stream);
	if (result)
		return cuda_fail(result, "", "cuMemFreeAsync of %#" G_GINT64_MODIFIER "x", va);
	cuda_frees_note(&cuda_of(be)->frees, stream);
	return 0;
}

static int cuda_small_held(struct backend *be, uint64_t *bytes, uint64_t *peak)
{
	drv_mem_pool pool = cuda_of(be)->pool;
	drv_u64 current = 0, high = 0;
	drv_result result;

	if (pool) {
		relax();
		result = drv.cuMemPoolGetAttribute(pool, DRV_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &current);
		if (!result)
			result = drv.cuMemPoolGetAttribute(pool, DRV_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &high);
		if (result)
			return cuda_fail(result, "", "cuMemPoolGetAttribute");
	}
	*bytes = current;
	*peak = high;
	return 0;
}

/* The memory pool is this backend's own, so nothing is taken from what the program keeps in the device's default one. */
static int cuda_small_trim(struct backend *be, uint64_t keep, bool *pending)
{
	drv_mem_pool pool = cuda_of(be)->pool;
	drv_result result;
	bool left = false;

	if (pool) {
		relax();
		left = cuda_frees_settle(&cuda_of(be)->frees);
		result = drv.cuMemPoolTrimTo(pool, MIN(keep, SIZE_MAX));
		if (result)
			return cuda_fail(result, "", "cuMemPoolTrimTo of %" G_GUINT64_FORMAT " bytes", keep);
	}
	*pending = left;
	return 0;
}

const struct backend_ops backend_cuda = {
	.name = "cuda",
	.roams = true,
	.current_device = cuda_current_device,
	.open = cuda_open,
	.close = cuda_close,
	.enter = cuda_enter,
	.leave = cuda_leave,
	.info = cuda_info,
	.now = cuda_now,
	.reserve = cuda_reserve,
	.unreserve = cuda_unreserve,
	.create = cuda_create,
	.release = cuda_release,
	.map = cuda_map,
	.access = cuda_access,
	.unmap = cuda_unmap,
	.stream_id = cuda_stream_id,
	.stream_capture = cuda_stream_capture,
	.stream_wait = cuda_stream_wait,
	.event_create = cuda_event_create,
	.event_destroy = cuda_event_destroy,
	.event_record = cuda_event_record,
	.event_query = cuda_event_query,
	.event_sync = cuda_event_sync,
	.sync = cuda_sync,
	.clear = cuda_clear,
	.small_alloc = cuda_small_alloc,
	.small_free = cuda_small_free,
	.small_held = cuda_small_held,
	.small_trim = cuda_small_trim,
};
