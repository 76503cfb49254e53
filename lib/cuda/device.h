/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A CUDA device, as the files of this folder see it. */
#ifndef CUDA_DEVICE_H
#define CUDA_DEVICE_H

#include <glib.h>

#include "backend/backend.h"
#include "cuda/driver.h"
#include "cuda/frees.h"
#include "util/lock.h"

/* An open device. */
struct cuda {
	struct backend base;
	int ordinal;
	drv_device device;
	drv_context context;
	int retained;			/* the primary context, to be released */
	drv_mem_pool pool;		/* of small allocations; NULL: the device has none */
	_Atomic uint64_t legacy_id;	/* of the legacy default stream; LEGACY_UNKNOWN: not asked for yet */
	char apart[128];		/* keeps what every call reads off the cache lines that some calls write */
	struct lock lock;		/* guards the rest */
	GPtrArray *spare;		/* unused events, of drv_event */
	GPtrArray *spare_timed;		/* the same, of events that keep time */
	struct cuda_frees frees;	/* of small allocations */
};

#define LEGACY_UNKNOWN UINT64_MAX

static inline struct cuda *cuda_of(struct backend *be)
{
	return (struct cuda *)be;
}

/**
 * cuda_context_take() - get the context that a device is used in
 * @cuda: the device
 *
 * Return: 0, or an error of the driver.
 */
int cuda_context_take(struct cuda *cuda);

/**
 * cuda_context_put() - release the context
 * @cuda: the device
 */
void cuda_context_put(struct cuda *cuda);

/**
 * cuda_relax() - keep the following driver calls from invalidating captures of other threads
 *
 * Call it before a call that cannot be captured. It holds until the thread has left all devices.
 */
void cuda_relax(void);

/**
 * cuda_small_open() - make the memory pool for small allocations, if the device supports it
 * @cuda: the device, entered
 *
 * Return: 0, or an error of the driver.
 */
int cuda_small_open(struct cuda *cuda);

/* Operations of backend.h: context.c, */
const void *cuda_current(void);
int cuda_current_device(int *device);
int cuda_enter(struct backend *be);
void cuda_leave(struct backend *be);

/* streams.c, */
int cuda_stream_id(struct backend *be, struct CUstream_st *stream, uint64_t *id);
int cuda_stream_capture(struct backend *be, struct CUstream_st *stream, uint64_t *id);
int cuda_stream_wait(struct backend *be, struct CUstream_st *stream, struct backend_event *event);
int cuda_event_create(struct backend *be, struct backend_event **event);
int cuda_event_create_timed(struct backend *be, struct backend_event **event);
void cuda_event_destroy(struct backend *be, struct backend_event *event);
int cuda_event_record(struct backend *be, struct backend_event *event, struct CUstream_st *stream);
int cuda_event_query(struct backend *be, struct backend_event *event, int *complete);
int cuda_event_sync(struct backend *be, struct backend_event *event);
int cuda_event_elapsed(struct backend *be, struct backend_event *start, struct backend_event *end, int64_t *ns);
int cuda_sync(struct backend *be);
int cuda_clear(struct backend *be, uint64_t va, size_t size, struct CUstream_st *stream);
int cuda_copy(struct backend *be, uint64_t to, uint64_t from, size_t size, struct CUstream_st *stream);

/* and small.c. */
int cuda_small_alloc(struct backend *be, size_t size, struct CUstream_st *stream, uint64_t *va);
int cuda_small_free(struct backend *be, uint64_t va, struct CUstream_st *stream);
int cuda_small_held(struct backend *be, uint64_t *bytes, uint64_t *peak);
int cuda_small_trim(struct backend *be, uint64_t keep, bool *pending);

#endif /* CUDA_DEVICE_H */
