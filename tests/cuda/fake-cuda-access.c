// SPDX-License-Identifier: LGPL-2.1-or-later
/* Access in the suite's own libcuda.so.1: which devices can read and write which memory. */
#include <glib.h>
#include <stdbool.h>

#include "cuda/fake-cuda-inside.h"
#include "host/backend.h"

static _Atomic uint64_t parted;		/* devices that can access no other's memory */

drv_result cuDeviceCanAccessPeer(int *can, drv_device device, drv_device peer)
{
	BEGIN(cuDeviceCanAccessPeer);
	if (!device_exists(device) || !device_exists(peer))
		return DRV_ERROR_INVALID_DEVICE;
	*can = device != peer && !(parted >> device & 1);
	return DRV_SUCCESS;
}

/* The CPU, which has what the device has. */
static bool is_host_desc(const drv_access_desc *desc)
{
	return desc->location.type == DRV_MEM_LOCATION_TYPE_HOST_NUMA && !desc->location.id &&
	       desc->flags == DRV_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

bool read_descs(const drv_access_desc *descs, size_t count, uint64_t *allow, uint64_t *deny)
{
	*allow = *deny = 0;
	for (size_t i = 0; i < count; i++) {
		drv_enum flags = descs[i].flags;
		int device = descs[i].location.id;

		if (is_host_desc(&descs[i]))
			continue;
		if (descs[i].location.type != DRV_MEM_LOCATION_TYPE_DEVICE || !device_exists(device) ||
		    (flags != DRV_MEM_ACCESS_FLAGS_PROT_READWRITE && flags != DRV_MEM_ACCESS_FLAGS_PROT_NONE) ||
		    ((*allow | *deny) >> device & 1))
			return false;
		*(flags == DRV_MEM_ACCESS_FLAGS_PROT_NONE ? deny : allow) |= UINT64_C(1) << device;
	}
	return count > 0;
}

/* Devices that the call does not mention keep what they have. The pool's own is never to lose access. */
drv_result cuMemSetAccess(drv_deviceptr va, size_t size, const drv_access_desc *descs, size_t count)
{
	uint64_t allow, deny, own;
	drv_result result;
	int err = 0;

	BEGIN_IN(cuMemSetAccess, context);
	own = UINT64_C(1) << context->device;
	if (!read_descs(descs, count, &allow, &deny) || deny & own)
		return DRV_ERROR_INVALID_VALUE;
	if ((allow | deny) & parted & ~own)
		return DRV_ERROR_INVALID_DEVICE;
	result = host_enter(context->be);
	if (result)
		return result;
	if (allow)
		err = backend_host_access(context->be, va, size, allow);
	if (!err && deny)
		err = context->be->ops->deny(context->be, va, size, deny);
	return host_leave(context->be, err);
}

drv_result cuMemGetAccess(drv_u64 *flags, const drv_location *location, drv_deviceptr va)
{
	BEGIN(cuMemGetAccess);
	if (location->type != DRV_MEM_LOCATION_TYPE_DEVICE || !device_exists(location->id))
		return DRV_ERROR_INVALID_VALUE;
	*flags = backend_host_check_access(location->id, va, 1) ? DRV_MEM_ACCESS_FLAGS_PROT_NONE :
								  DRV_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return DRV_SUCCESS;
}

void fake_cuda_part(uint64_t devices)
{
	parted = devices;
}

int fake_cuda_check_access(int device, uint64_t va, size_t size)
{
	return backend_host_check_access(device, va, size);
}
