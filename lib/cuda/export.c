// SPDX-License-Identifier: LGPL-2.1-or-later
/* Memory that other processes can map: what it is created as, and how its handles go there and come from there. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "cuda/device.h"
#include "util/descriptor.h"
#include "util/error.h"

static const struct {
	drv_enum type;
	drv_device_attribute attribute;
	const char *what;
} kinds[] = {
	[BACKEND_HANDLES_NONE] = { DRV_MEM_HANDLE_TYPE_NONE, 0, NULL },
	[BACKEND_HANDLES_FD] = {
		DRV_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		DRV_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
		"cannot export memory as file descriptors",
	},
	[BACKEND_HANDLES_FABRIC] = {
		DRV_MEM_HANDLE_TYPE_FABRIC, DRV_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
		"cannot export memory as fabric handles",
	},
};

drv_allocation_prop cuda_prop(const struct cuda *cuda)
{
	return (drv_allocation_prop){
		.type = DRV_MEM_ALLOCATION_TYPE_PINNED,
		.handle_types = kinds[cuda->handles].type,
		.location = { DRV_MEM_LOCATION_TYPE_DEVICE, cuda->device },
		.flags.gpu_direct_rdma = cuda->rdma,
	};
}

/* A driver that does not know an attribute cannot do what it is about. */
static int check_attribute(const struct cuda *cuda, drv_device_attribute attribute, const char *what)
{
	int supported = 0;
	drv_result result;

	result = drv.cuDeviceGetAttribute(&supported, attribute, cuda->device);
	if (result && result != DRV_ERROR_INVALID_VALUE)
		return cuda_check(result, "cuDeviceGetAttribute of device %d", cuda->ordinal);
	if (result || !supported)
		return error_set(-ENOTSUP, "CUDA device %d %s", cuda->ordinal, what);
	return 0;
}

static int check_calls(const struct cuda *cuda)
{
	if (drv.cuMemExportToShareableHandle && drv.cuMemImportFromShareableHandle)
		return 0;
	return error_set(-ENOTSUP, "the driver of CUDA device %d cannot share memory between processes", cuda->ordinal);
}

int cuda_configure(struct backend *be, enum backend_handles handles, bool rdma)
{
	struct cuda *cuda = cuda_of(be);
	int err = 0;

	if (handles != BACKEND_HANDLES_NONE)
		err = check_calls(cuda) ?: check_attribute(cuda, kinds[handles].attribute, kinds[handles].what);
	if (!err && rdma)
		err = check_attribute(cuda, DRV_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
				      "has no memory that network cards could access (GPUDirect RDMA)");
	if (err)
		return err;
	cuda->handles = handles;
	cuda->rdma = rdma;
	return 0;
}

void cuda_tell_uuid(const struct cuda *cuda, unsigned char *uuid)
{
	drv_uuid got;

	if (drv.cuDeviceGetUuid && !drv.cuDeviceGetUuid(&got, cuda->device))
		memcpy(uuid, got.bytes, BACKEND_UUID_SIZE);
}

/* The driver may have made it inheritable, or given it the number of a standard descriptor. */
static int keep_private(int *fd)
{
	*fd = descriptor_raise(*fd);
	if (*fd < 0)
		return error_set(-EMFILE, "a descriptor of exported memory: %s", g_strerror(errno));
	fcntl(*fd, F_SETFD, FD_CLOEXEC);
	return 0;
}

int cuda_export(struct backend *be, uint64_t handle, struct backend_export *export)
{
	struct cuda *cuda = cuda_of(be);
	struct backend_export made = { .type = cuda->handles, .fd = -1 };
	bool is_fd = made.type == BACKEND_HANDLES_FD;
	int err;

	err = check_calls(cuda);
	if (err)
		return err;
	cuda_relax();
	err = cuda_check(drv.cuMemExportToShareableHandle(is_fd ? (void *)&made.fd : (void *)made.fabric, handle,
							  kinds[made.type].type, 0),
			 "cuMemExportToShareableHandle of handle %#" PRIx64, handle);
	if (!err && is_fd)
		err = keep_private(&made.fd);
	if (!err)
		*export = made;
	return err;
}

int cuda_import(struct backend *be, const struct backend_export *export, size_t size, uint64_t *handle)
{
	struct backend_export from = *export;
	void *in = export->type == BACKEND_HANDLES_FD ? (void *)(intptr_t)export->fd : (void *)from.fabric;
	drv_handle got;
	int err;

	err = check_calls(cuda_of(be));
	if (err)
		return err;
	cuda_relax();
	err = cuda_check(drv.cuMemImportFromShareableHandle(&got, in, kinds[export->type].type),
			 "cuMemImportFromShareableHandle of %zu bytes", size);
	if (!err)
		*handle = got;
	return err;
}
