/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What device-cuda.c and device-cuda-alloc.c share. */
#ifndef DEVICE_CUDA_H
#define DEVICE_CUDA_H

#include "device.h"
#include "driver.h"

struct device_cuda {
	struct device base;
	drv_device device;
	drv_context context;		/* the primary one, current on each thread that uses the device */
	drv_event event;		/* what a wait hands from stream to stream */
	drv_module module;
	drv_function fill;
	drv_function check;
	drv_deviceptr marks;
	drv_deviceptr ballast[8];	/* what @limit takes away from the device */
	unsigned int n_ballast;
	unsigned int most_blocks;	/* of a launch */
};

/**
 * device_cuda_async() - cuMemAllocFromPoolAsync in a memory pool of its own that releases nothing
 */
int device_cuda_async(struct device *dev, struct allocator **allocator);

/**
 * device_cuda_malloc() - cuMemAlloc; what it takes is reckoned in whole granules of 2 MiB
 */
int device_cuda_malloc(struct device *dev, struct allocator **allocator);

#endif /* DEVICE_CUDA_H */
