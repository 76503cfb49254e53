/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files of the suite's own libcuda.so.1 share. */
#ifndef FAKE_CUDA_INSIDE_H
#define FAKE_CUDA_INSIDE_H

#include <stdbool.h>

#include "backend/backend.h"
#include "cuda/fake-cuda.h"
#include "host/device.h"
#include "vpmm-host.h"

/* What the driver exports, so that what is defined agrees with what is looked up. */
#define X(name, version, args) drv_result name##version args;
DRV_CALLS_REQUIRED(X)
DRV_CALLS_OPTIONAL(X)
DRV_CALLS_PROGRAMS(X)
DRV_CALLS_NEW(X)
#undef X
#define X(type, name, args) type fake_cuda_##name args;
FAKE_CUDA_CALLS(X)
#undef X
/* What programs call beside. */
drv_result cuDeviceGetDefaultMemPool(drv_mem_pool *pool, drv_device device);
drv_result cuDeviceGetMemPool(drv_mem_pool *pool, drv_device device);
drv_result cuDeviceSetMemPool(drv_device device, drv_mem_pool pool);

struct CUctx_st {
	int device;
	int references;
	bool reset;			/* since it was last retained */
	uint64_t id;			/* another one after a reset */
	uint64_t enabled;		/* devices whose memory it can access, as bits */
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

static inline bool device_exists(int device)
{
	int count;

	return !host_device_count(&count) && device >= 0 && device < count;
}

/* Reads descriptions of access into bits by ordinal; false: one is none that the library makes. */
bool read_descs(const drv_access_desc *descs, size_t count, uint64_t *allow, uint64_t *deny);

/* What the host backend is busy with is a capture. */
static inline drv_result capture_result(drv_result result)
{
	return result == DRV_ERROR_NOT_READY ? DRV_ERROR_STREAM_CAPTURE_INVALIDATED : result;
}

drv_result host_enter(struct backend *be);
drv_result host_leave(struct backend *be, int err);
/* Of a context that is reset: its streams, events and memory pools. Whoever uses one of them later aborts the test. */
void streams_reset(struct CUctx_st *context);
void pools_reset(int device);
void stream_check(const char *call, drv_stream stream);
/* The context that a stream was created in: of the default ones, @current. */
struct CUctx_st *stream_home(drv_stream stream, struct CUctx_st *current);
/* Ends what a context that is destroyed has under capture. */
void streams_end_captures(struct CUctx_st *context);

/* What stands for the graph of a capture until that has ended, and after; NULL without @got. */
drv_graph graph_of_capture(struct CUctx_st *context, drv_stream stream, uint64_t id);
drv_graph graph_captured(uint64_t id, struct vpmm_host_graph *got);

/* A call that is not allowed on any thread while one captures in the usual mode, but for those that relaxed theirs. */
drv_result unsafe(struct CUctx_st *context, const char *call);
drv_result stream_sync(struct CUctx_st *context, drv_stream stream);

#endif /* FAKE_CUDA_INSIDE_H */
