/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The calls of a struct conformance_device that are the same on every driver, through the functions of @cu. */
#ifndef DRIVER_CALLS_H
#define DRIVER_CALLS_H

#include "backend/backend.h"
#include "cuda/abi.h"

/* The driver that the program has opened. */
extern struct drv_program cu;

static inline int driver_open_backend(struct backend **be)
{
	return backend_cuda.open(0, be);
}

static inline int driver_stream_create(struct CUstream_st **stream)
{
	return cu.cuStreamCreate(stream, DRV_STREAM_NON_BLOCKING);
}

static inline int driver_stream_destroy(struct CUstream_st *stream)
{
	return cu.cuStreamDestroy(stream);
}

static inline int driver_capture_begin(struct CUstream_st *stream)
{
	return cu.cuStreamBeginCapture(stream, DRV_STREAM_CAPTURE_MODE_GLOBAL);
}

/* The driver answers for a captured stream with an error, and the capture is no good any more. */
static inline void driver_capture_spoil(struct CUstream_st *stream)
{
	drv_u64 id;

	cu.cuStreamGetId(stream, &id);
}

static inline int driver_capture_end(struct CUstream_st *stream, void **graph)
{
	drv_graph got = NULL;
	int err = cu.cuStreamEndCapture(stream, &got);

	*graph = got;
	return err;
}

static inline int driver_graph_launch(void *graph, struct CUstream_st *stream)
{
	drv_graph_exec exec;
	int err = cu.cuGraphInstantiateWithFlags(&exec, graph, 0);

	return err ?: cu.cuGraphLaunch(exec, stream) ?: cu.cuGraphExecDestroy(exec);
}

static inline int driver_graph_destroy(void *graph)
{
	return cu.cuGraphDestroy(graph);
}

#endif /* DRIVER_CALLS_H */
