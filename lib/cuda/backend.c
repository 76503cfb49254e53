// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The backend that performs the calls on a CUDA device. The driver is opened at the first use, so that the library
 * installs and loads where there is none.
 */
#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "cuda/device.h"
#include "util/error.h"
#include "util/line.h"

/* Told of a device that maps nothing: that of all others. */
#define MAPLESS_GRANULARITY ((size_t)2 << 20)

static int device_find(struct cuda *cuda, int ordinal)
{
	int count, supported, err;

	err = cuda_check(drv.cuDeviceGetCount(&count), "cuDeviceGetCount");
	if (err)
		return err;
	if (ordinal < 0 || ordinal >= count)
		return error_set(-ENODEV, "there is no CUDA device %d: the driver has %d", ordinal, count);
	cuda->ordinal = ordinal;
	err = cuda_check(drv.cuDeviceGet(&cuda->device, ordinal), "cuDeviceGet of device %d", ordinal) ?:
	      cuda_check(drv.cuDeviceGetAttribute(&supported,
						  DRV_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
						  cuda->device), "cuDeviceGetAttribute of device %d", ordinal);
	if (!err)
		cuda->mapless = !supported;
	return err;
}

static struct cuda *cuda_new(void)
{
	struct cuda *cuda = g_new0(struct cuda, 1);

	cuda->base.ops = &backend_cuda;
	atomic_init(&cuda->legacy_id, LEGACY_UNKNOWN);
	lock_init(&cuda->lock, LOCK_CUDA);
	cuda->spare = g_ptr_array_new();
	cuda->spare_timed = g_ptr_array_new();
	cuda_frees_init(&cuda->frees);
	return cuda;
}

static void cuda_delete(struct cuda *cuda)
{
	cuda_frees_clear(&cuda->frees);
	g_ptr_array_free(cuda->spare, TRUE);
	g_ptr_array_free(cuda->spare_timed, TRUE);
	lock_destroy(&cuda->lock);
	g_free(cuda);
}

int cuda_open(int device, struct backend **be)
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
	err = cuda_context_take(cuda);
	if (err)
		goto delete_cuda;
	err = cuda_enter(&cuda->base);
	if (err)
		goto put_context;
	err = cuda_small_open(cuda);
	if (!err && cuda->mapless && !cuda->pool)
		err = error_set(-ENOTSUP, "CUDA device %d has no virtual memory management, and no memory pools",
				device);
	cuda_leave(&cuda->base);
	if (err)
		goto put_context;
	*be = &cuda->base;
	return 0;

put_context:
	cuda_context_put(cuda);
delete_cuda:
	cuda_delete(cuda);
	errno = -err;
	return err;
}

static void spare_drop(const GPtrArray *spare)
{
	for (guint i = 0; i < spare->len; i++)
		drv.cuEventDestroy(spare->pdata[i]);
}

void cuda_close(struct backend *be)
{
	struct cuda *cuda = cuda_of(be);

	/*
	 * At exit the driver may have shut down before us, and has taken the memory pool and the events with it. So has
	 * a reset.
	 */
	if (!cuda->abandoned && !cuda_enter(be)) {
		cuda_relax();
		if (cuda->pool)
			drv.cuMemPoolDestroy(cuda->pool);
		spare_drop(cuda->spare);
		spare_drop(cuda->spare_timed);
		cuda_frees_drop(&cuda->frees);
		cuda_gates_drop(cuda);
		cuda_leave(be);
	}
	cuda_context_put(cuda);
	cuda_delete(cuda);
}

/*
 * The driver of Windows serves there. It has a TiB of addresses for all, does not return from a call for one of 2 TiB
 * and more, and may not from one for as many bytes.
 */
static bool is_wsl(void)
{
	return access("/dev/dxg", F_OK) == 0;
}

/* An eighth of those, as a pool reserves twice. */
#define WSL_SPACE ((uint64_t)128 << 30)

int cuda_info(struct backend *be, struct backend_info *info)
{
	struct cuda *cuda = cuda_of(be);
	drv_allocation_prop prop = cuda_prop(cuda);
	struct backend_info got = { .name = "cuda", .device = cuda->ordinal };
	size_t free, total;
	int err;

	cuda_relax();
	got.mapless = cuda->mapless;
	got.granularity = MAPLESS_GRANULARITY;
	err = cuda_check(drv.cuDeviceGetName(got.device_name, sizeof(got.device_name), cuda->device),
			 "cuDeviceGetName of device %d", cuda->ordinal) ?:
	      cuda_check(drv.cuDriverGetVersion(&got.driver_version), "cuDriverGetVersion");
	if (!err && !cuda->mapless)
		err = cuda_check(drv.cuMemGetAllocationGranularity(&got.granularity, &prop,
								   DRV_MEM_ALLOC_GRANULARITY_MINIMUM),
				 "cuMemGetAllocationGranularity of device %d", cuda->ordinal);
	if (!err)
		err = cuda_check(drv.cuMemGetInfo(&free, &total), "cuMemGetInfo of device %d", cuda->ordinal);
	if (err)
		return err;
	got.memory_free = free;
	got.memory_total = total;
	/* There is a limit, but no call that tells it. */
	got.mapping_limit = 0;
	got.space = is_wsl() ? WSL_SPACE : 0;
	cuda_tell_uuid(cuda, got.uuid);
	*info = got;
	return 0;
}

int cuda_reserve(struct backend *be, size_t size, size_t align, uint64_t *va)
{
	drv_deviceptr got;
	int err;

	(void)be;
	cuda_relax();
	err = cuda_check(drv.cuMemAddressReserve(&got, size, align, 0, 0),
			 "cuMemAddressReserve of %zu bytes of address space", size);
	if (!err)
		*va = got;
	return err;
}

int cuda_reserve_at(struct backend *be, uint64_t va, size_t size)
{
	drv_deviceptr got;
	int err;

	(void)be;
	if (is_wsl())
		return error_set(-ENOTSUP, "address space: under WSL the driver is asked for no address");
	cuda_relax();
	err = cuda_check(drv.cuMemAddressReserve(&got, size, 0, va, 0),
			 "cuMemAddressReserve of %zu bytes of address space at 0x%" PRIx64, size, va);
	if (err || got == va)
		return err;
	err = cuda_check_mapping(drv.cuMemAddressFree(got, size), "cuMemAddressFree", size, got);
	return err ? err : error_set(-EADDRINUSE, "address space: the driver has no %zu bytes at 0x%" PRIx64, size,
				     va);
}

int cuda_unreserve(struct backend *be, uint64_t va, size_t size)
{
	(void)be;
	cuda_relax();
	return cuda_check_mapping(drv.cuMemAddressFree(va, size), "cuMemAddressFree", size, va);
}

int cuda_create(struct backend *be, size_t size, uint64_t *handle)
{
	drv_allocation_prop prop = cuda_prop(cuda_of(be));
	drv_handle got;
	int err;

	cuda_relax();
	err = cuda_check_memory(drv.cuMemCreate(&got, size, &prop, 0), "cuMemCreate", size);
	if (!err)
		*handle = got;
	return err;
}

int cuda_release(struct backend *be, uint64_t handle)
{
	(void)be;
	cuda_relax();
	return cuda_check(drv.cuMemRelease(handle), "cuMemRelease of handle %#" PRIx64, handle);
}

int cuda_map(struct backend *be, uint64_t va, size_t size, uint64_t handle)
{
	(void)be;
	cuda_relax();
	return cuda_check_mapping(drv.cuMemMap(va, size, 0, handle, 0), "cuMemMap", size, va);
}

int cuda_access(struct backend *be, uint64_t va, size_t size)
{
	drv_access_desc descs[1 + BACKEND_PEERS_MOST];

	descs[0] = cuda_desc(cuda_of(be)->device, true);
	return cuda_set_access(va, size, descs, 1 + cuda_descs(cuda_of(be)->peers, true, descs + 1));
}

/* That the guard is complete is for the caller to see to; the host backend catches the caller who does not. */
int cuda_unmap(struct backend *be, uint64_t va, size_t size, struct backend_event *guard)
{
	(void)be;
	(void)guard;
	cuda_relax();
	return cuda_check_mapping(drv.cuMemUnmap(va, size), "cuMemUnmap", size, va);
}

_Alignas(LINE_SIZE) const struct backend_ops backend_cuda = {
	.name = "cuda",
	.roams = true,
	.current = cuda_current,
#define OP(type, call, parameters) .call = cuda_##call,
	BACKEND_OPS(OP)
#undef OP
};
