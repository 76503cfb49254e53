// SPDX-License-Identifier: LGPL-2.1-or-later
/* Other devices that access the memory of a CUDA device. */
#include <errno.h>

#include "cuda/device.h"
#include "util/error.h"

int cuda_peer_check(struct backend *be, int device)
{
	struct cuda *cuda = cuda_of(be);
	int count, can = 0, err;
	drv_device peer;

	err = cuda_check(drv.cuDeviceGetCount(&count), "cuDeviceGetCount");
	if (err)
		return err;
	if (device < 0 || device >= count)
		return error_set(-ENODEV, "there is no CUDA device %d: the driver has %d", device, count);
	err = cuda_check(drv.cuDeviceGet(&peer, device), "cuDeviceGet of device %d", device) ?:
	      cuda_check(drv.cuDeviceCanAccessPeer(&can, peer, cuda->device),
			 "cuDeviceCanAccessPeer of device %d to device %d", device, cuda->ordinal);
	return err || can ? err : error_set(-ENOTSUP, "CUDA device %d cannot access memory of device %d", device,
					    cuda->ordinal);
}

/* A CUdevice is the ordinal itself, and so is the number in a CUmemLocation. */
size_t cuda_descs(uint64_t devices, bool access, drv_access_desc *descs)
{
	size_t count = 0;

	for (int device = 0; device < BACKEND_PEERS_MOST; device++) {
		if (devices >> device & 1)
			descs[count++] = cuda_desc(device, access);
	}
	return count;
}

/* The driver leaves devices that a call does not mention the access that they have. */
int cuda_peers(struct backend *be, uint64_t devices)
{
	drv_access_desc descs[BACKEND_PEERS_MOST];
	struct cuda *cuda = cuda_of(be);
	size_t count;
	int err;

	count = cuda_descs(devices, true, descs);
	count += cuda_descs(cuda->peers & ~devices, false, descs + count);
	err = cuda_small_access(cuda, descs, count);
	if (!err)
		cuda->peers = devices;
	return err;
}

int cuda_set_access(uint64_t va, size_t size, const drv_access_desc *descs, size_t count)
{
	cuda_relax();
	return cuda_check_mapping(drv.cuMemSetAccess(va, size, descs, count), "cuMemSetAccess", size, va);
}

int cuda_deny(struct backend *be, uint64_t va, size_t size, uint64_t devices)
{
	drv_access_desc descs[BACKEND_PEERS_MOST];

	(void)be;
	return cuda_set_access(va, size, descs, cuda_descs(devices, false, descs));
}
