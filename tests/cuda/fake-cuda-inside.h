/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files of the suite's own libcuda.so.1 share. */
#ifndef FAKE_CUDA_INSIDE_H
#define FAKE_CUDA_INSIDE_H

#include "backend/backend.h"
#include "cuda/fake-cuda.h"

/* What the driver exports, so that what is defined agrees with what is looked up. */
#define X(name, version, args) drv_result name##version args;
DRV_CALLS_REQUIRED(X)
DRV_CALLS_OPTIONAL(X)
DRV_CALLS_PROGRAMS(X)
#undef X
#define X(type, name, args) type fake_cuda_##name args;
FAKE_CUDA_CALLS(X)
#undef X

struct CUctx_st {
	int device;
	int references;
	struct backend *be;		/* NULL: destroyed */
};

/* The beginning of every call that needs the driver initialised in this process, and of those that need a context. */
drv_result begin(const char *name);
drv_result begin_in(const char *name, struct CUctx_st **context);

#define BEGIN(name) \
	do { \
		drv_result begun = begin(#name); \
		if (begun) \
			return begun; \
	} while (0)

#define BEGIN_IN(name, context) \
	struct CUctx_st *context; \
	do { \
		drv_result begun = begin_in(#name, &context); \
		if (begun) \
			return begun; \
	} while (0)

/* One operation of the host backend that @on has open, as the contract of backends has it. */
#define HOST(on, op, ...) (host_enter((on)->be) ?: host_leave((on)->be, (on)->be->ops->op((on)->be, __VA_ARGS__)))

drv_result result_of(int err);

/* What the host backend is busy with is a capture. */
static inline drv_result capture_result(drv_result result)
{
	return result == DRV_ERROR_NOT_READY ? DRV_ERROR_STREAM_CAPTURE_INVALIDATED : result;
}

drv_result host_enter(struct backend *be);
drv_result host_leave(struct backend *be, int err);
drv_result stream_sync(struct CUctx_st *context, drv_stream stream);

#endif /* FAKE_CUDA_INSIDE_H */
