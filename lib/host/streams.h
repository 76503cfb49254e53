/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Streams and events of the host backend. A stream is a queue of pieces of work, with markers between them that record
 * an event or wait for one. Nothing completes by itself: work completes when a call completes it. A marker is passed
 * at once when everything before it has completed, through any number of streams. Captures are in capture.h.
 *
 * A stream argument is a handle of the program: of host_stream_create(), NULL, or one of the two of vpmm-host.h. The
 * device argument says whose default or per-thread stream the latter mean. Unless a call says otherwise, it explains
 * its errors by error_set(), may be made from any thread, and waits only for a piece of work that another thread is
 * running.
 */
#ifndef HOST_STREAMS_H
#define HOST_STREAMS_H

#include <stdint.h>

#include "host/forks.h"
#include "host/queue.h"
#include "vpmm-host.h"

struct backend_event;

/**
 * host_stream_create() - create a stream
 * @device: ordinal of its device
 *
 * Return: the stream.
 */
struct CUstream_st *host_stream_create(int device);

/**
 * host_stream_destroy() - complete a stream's work and destroy it
 * @stream: a stream of host_stream_create()
 *
 * Events recorded on it stay valid, pending ones included. Timed work, and what is behind it, goes on without the
 * handle.
 *
 * Return: 0, -EINVAL if it is not one, or -EBUSY if work on it waits for another stream's that is not timed.
 */
int host_stream_destroy(struct CUstream_st *stream);

/**
 * host_stream_check() - whether a handle is a stream of a device
 * @device: ordinal
 * @stream: the handle
 *
 * Return: 0 or -EINVAL.
 */
int host_stream_check(int device, struct CUstream_st *stream);

/**
 * host_stream_id() - the unique number of a stream
 * @device: ordinal
 * @stream: the handle
 * @id: receives the number
 *
 * Return: 0, -EINVAL, or -EBUSY if the stream is being captured, or cannot be asked because another is.
 */
int host_stream_id(int device, struct CUstream_st *stream, uint64_t *id);

/**
 * host_stream_capture() - the unique number of the capture that a stream is under
 * @device: ordinal
 * @stream: the handle
 * @id: receives the number; 0: it is under none
 *
 * Return: 0, -EINVAL, or -EBUSY for the legacy default stream while another stream is being captured.
 */
int host_stream_capture(int device, struct CUstream_st *stream, uint64_t *id);

/**
 * host_stream_submit() - append a piece of work
 * @device: ordinal
 * @stream: the handle
 * @fn: what to call when it is completed; NULL: nothing
 * @data: passed to @fn
 *
 * Return: 0, -EINVAL, or -EBUSY if a capture is in the way.
 */
int host_stream_submit(int device, struct CUstream_st *stream, vpmm_host_fn fn, void *data);

/**
 * host_stream_release() - note that the program is about to free memory behind all that is in a queue
 * @device: ordinal
 * @stream: the handle, or VPMM_STREAM_ANY; under capture nothing is noted
 * @va: the memory
 * @size: bytes
 */
void host_stream_release(int device, struct CUstream_st *stream, uint64_t va, size_t size);

/**
 * host_stream_submit_for() - append a piece of work that an engine performs on the virtual clock
 * @device: ordinal
 * @stream: the handle
 * @engine: the engine
 * @ns: how long it takes
 *
 * Return: 0, -EINVAL, also if the clock cannot count so far or VPMM_HOST_KERNELS has a bad value, or -EBUSY if a
 * capture is in the way.
 */
int host_stream_submit_for(int device, struct CUstream_st *stream, enum vpmm_host_engine engine, uint64_t ns);

/**
 * host_stream_clear() - set memory to zero once all earlier work has completed
 * @device: ordinal
 * @stream: the handle
 * @va: the address
 * @size: bytes
 *
 * It is no piece of work: like a marker it is passed when everything before it has completed.
 *
 * Return: 0, -EINVAL, or -EBUSY if a capture is in the way.
 */
int host_stream_clear(int device, struct CUstream_st *stream, uint64_t va, size_t size);

/**
 * host_stream_copy() - copy memory once all earlier work has completed
 * @device: ordinal
 * @stream: the handle
 * @to: where to
 * @from: where from
 * @size: bytes
 *
 * It is no piece of work either.
 *
 * Return: 0, -EINVAL, or -EBUSY if a capture is in the way.
 */
int host_stream_copy(int device, struct CUstream_st *stream, uint64_t to, uint64_t from, size_t size);

/**
 * host_stream_complete() - complete the oldest pieces of work
 * @device: ordinal
 * @stream: the handle
 * @n: how many, at most as many as are pending at the call
 *
 * For timed work it moves the clock.
 *
 * Return: 0, -EINVAL, or -EBUSY if the next piece waits for another stream's that is not timed.
 */
int host_stream_complete(int device, struct CUstream_st *stream, unsigned int n);

/**
 * host_stream_pending() - the number of pieces of work that have not completed
 * @device: ordinal
 * @stream: the handle
 * @n: receives the number
 *
 * Return: 0 or -EINVAL.
 */
int host_stream_pending(int device, struct CUstream_st *stream, unsigned int *n);

/**
 * host_stream_wait() - make later work wait for an event
 * @device: ordinal
 * @stream: the handle
 * @event: the event, recorded
 *
 * Return: 0, -EINVAL, or -EBUSY if a capture is in the way.
 */
int host_stream_wait(int device, struct CUstream_st *stream, struct backend_event *event);

/**
 * host_stream_follow() - make later work wait for the earlier work of another stream
 * @device: ordinal
 * @stream: the handle
 * @other: the handle of the other stream
 *
 * A stream that follows one that is being captured is captured with it.
 *
 * Return: 0, -EINVAL, or -EBUSY if a capture is in the way.
 */
int host_stream_follow(int device, struct CUstream_st *stream, struct CUstream_st *other);

/**
 * host_stream_sync_all() - complete the work of all streams of a device, and the work that it waits for on other
 * streams
 * @device: ordinal
 *
 * Work that is submitted meanwhile is completed too.
 *
 * Return: 0, or -EBUSY if called by a piece of work, or if a stream of the device is being captured.
 */
int host_stream_sync_all(int device);

/**
 * host_stream_reset() - complete the work of all streams of a device, and destroy those of host_stream_create()
 * @device: ordinal
 *
 * The default stream and those of threads are other streams from then on. Captures are given up.
 *
 * Return: 0, or -EBUSY if called by a piece of work.
 */
int host_stream_reset(int device);

/**
 * host_event_create() - create an event
 *
 * Return: the event, not yet recorded, with one reference.
 */
struct backend_event *host_event_create(void);

/**
 * host_event_unref() - drop a reference to an event
 * @event: the event; NULL does nothing
 */
void host_event_unref(struct backend_event *event);

/**
 * host_event_record() - record an event: it now stands for all work submitted to a stream so far
 * @device: ordinal
 * @event: the event, which no stream waits for; an earlier record no longer counts
 * @stream: the handle
 *
 * Return: 0, -EINVAL, or -EBUSY if a capture is in the way.
 */
int host_event_record(int device, struct backend_event *event, struct CUstream_st *stream);

/**
 * host_event_record_all() - record an event: it now stands for all work submitted to all streams of a device so far
 * @device: ordinal
 * @event: the event, which no stream waits for; an earlier record no longer counts
 *
 * Return: 0, -EINVAL, or -EBUSY if a stream of the device is being captured; its capture is invalid then.
 */
int host_event_record_all(int device, struct backend_event *event);

/**
 * host_event_query() - whether the work that an event stands for has completed
 * @event: the event, recorded
 * @complete: receives 1 or 0
 *
 * Return: 0 or -EINVAL.
 */
int host_event_query(struct backend_event *event, int *complete);

/**
 * host_event_sync() - complete the work that an event stands for, and the work that it waits for on other streams
 * @event: the event, recorded
 *
 * It moves the clock to the completion of timed work, and completes other work at once.
 *
 * Return: 0, -EINVAL, or -EBUSY if called by a piece of work.
 */
int host_event_sync(struct backend_event *event);

/**
 * host_event_time() - when the work that an event stands for completed
 * @event: the event, recorded
 * @ns: receives the time on the virtual clock; the elapsed time between two events is the difference
 *
 * Return: 0, -EINVAL if it was never recorded, or -EBUSY if it is pending.
 */
int host_event_time(struct backend_event *event, uint64_t *ns);

/**
 * host_event_count() - how many events exist in the process
 *
 * Return: the number.
 */
uint64_t host_event_count(void);

/**
 * host_stream_resolve() - the stream that a handle means
 * @device: ordinal
 * @handle: the handle
 *
 * Return: the stream; NULL after error_set() of -EINVAL if it is not a stream.
 */
struct CUstream_st *host_stream_resolve(int device, struct CUstream_st *handle) REQUIRES(host_streams_lock);

/* The result of a call on @found, the stream that a handle means, under the lock. */
#define HOST_ON_STREAM(device, handle, does) \
	({ \
		struct CUstream_st *found; \
		int ret_; \
		\
		host_acquire(&host_streams_lock); \
		found = host_stream_resolve(device, handle); \
		ret_ = found ? does : -EINVAL; \
		lock_release(&host_streams_lock); \
		ret_; \
	})

#endif /* HOST_STREAMS_H */
