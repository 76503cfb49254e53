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

static inline int driver_capture_end(struct CUstream_st *stream)
{
	drv_graph graph;

	return cu.cuStreamEndCapture(stream, &graph) ?: cu.cuGraphDestroy(graph);
}

#endif /* DRIVER_CALLS_H */
