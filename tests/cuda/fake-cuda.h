/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the suite's own libcuda.so.1 lets a test see and do that no driver does. It is opened as the driver is, so a
 * test finds these calls by their names too: fake_cuda_ and the name here.
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

#include "cuda/abi.h"

struct host_left;

/*
 * fail: after @skip more calls of the driver's call @name, the next @count return @result and do nothing.
 * meanwhile: the next call of the driver's call @name calls @act first, with none of the driver's locks held.
 * calls: how often the driver's call @name was called.
 * attribute: make an attribute of all devices have a value.
 * part: these devices, as bits by ordinal, can access no other device's memory.
 * check_access: whether a device can access memory: 0 or -EACCES.
 * context_create: create a context that is not the device's primary one, and is not made current.
 * context_destroy: destroy it.
 * lost: how often cuCtxGetId() was asked of a context that is gone, which tools report.
 * retained: how often a device's primary context was retained and not released.
 * depth: how many contexts are on the calling thread's stack.
 * submit: one piece of work to a stream of the current context.
 * complete: complete the @n oldest.
 * drop_pools: destroy all memory pools, as the driver does when it shuts down.
 * left: what was not given back to the host backend that the driver stands on.
 */
#define FAKE_CUDA_CALLS(X) \
	X(void, fail, (const char *name, unsigned int skip, unsigned int count, drv_result result)) \
	X(void, meanwhile, (const char *name, void (*act)(void))) \
	X(uint64_t, calls, (const char *name)) \
	X(void, attribute, (drv_device_attribute attribute, int value)) \
	X(void, part, (uint64_t devices)) \
	X(int, check_access, (int device, uint64_t va, size_t size)) \
	X(drv_result, context_create, (drv_context *context, int device)) \
	X(void, context_destroy, (drv_context context)) \
	X(unsigned int, lost, (void)) \
	X(int, retained, (int device)) \
	X(unsigned int, depth, (void)) \
	X(int, submit, (drv_stream stream)) \
	X(int, complete, (drv_stream stream, unsigned int n)) \
	X(void, drop_pools, (void)) \
	X(void, left, (struct host_left *left))

struct fake_cuda {
#define X(type, name, args) type (*name) args;
	FAKE_CUDA_CALLS(X)
#undef X
};

#endif /* FAKE_CUDA_H */
