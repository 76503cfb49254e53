/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Captures of the host backend's streams into graphs. They are as strict as a driver's: a call that a driver cannot
 * capture invalidates the capture, whose end then fails. A graph is a list of what its streams were told to do, in
 * that order.
 *
 * While a stream is under capture, the legacy default stream of its device cannot be used, as with a driver and its
 * blocking streams.
 */
#ifndef HOST_CAPTURE_H
#define HOST_CAPTURE_H

#include <glib.h>
#include <stdint.h>

#include "host/queue.h"
#include "vpmm-host.h"

/* A capture under way. */
struct host_capture {
	uint64_t id;
	struct CUstream_st *origin;	/* the stream that it was begun on */
	GArray *tasks;			/* of struct host_task */
	struct host_life *life;
	char *why;			/* why it is invalid; NULL: it is valid */
};

struct vpmm_host_graph {
	GArray *tasks;
	struct host_life *life;
};

/**
 * host_capture_start() - begin to capture a stream
 * @stream: the stream
 *
 * Return: 0, or -EINVAL for the legacy default stream, or one that is being captured.
 */
int host_capture_start(struct CUstream_st *stream) REQUIRES(host_streams_lock);

/**
 * host_capture_finish() - end the capture that was begun on a stream
 * @stream: the stream
 * @graph: receives the graph
 *
 * Return: 0 or -EINVAL.
 */
int host_capture_finish(struct CUstream_st *stream, struct vpmm_host_graph **graph) REQUIRES(host_streams_lock);

/**
 * host_capture_spoil() - invalidate a capture
 * @capture: the capture
 * @why: the reason; the end of the capture reports the first one
 */
void host_capture_spoil(struct host_capture *capture, const char *why);

/**
 * host_capture_ask() - the capture that a stream is under
 * @stream: the stream
 * @id: receives its number, which no other capture ever has; 0: none
 *
 * Return: 0, or -EBUSY for a legacy default stream that another stream's capture makes unusable.
 */
int host_capture_ask(const struct CUstream_st *stream, uint64_t *id) REQUIRES(host_streams_lock);

/**
 * host_capture_task() - submit a task to a stream, or capture it
 * @stream: the stream
 * @task: the task
 *
 * Return: 0, or -EBUSY; the captures in the way are then invalid.
 */
int host_capture_task(struct CUstream_st *stream, const struct host_task *task) REQUIRES(host_streams_lock);

/**
 * host_capture_wait() - order a stream after another, if one of them is under capture
 * @stream: the stream that waits
 * @other: the stream that it waits for
 *
 * Return: 1 if the wait was captured, 0 if neither is under capture, or -EBUSY; the captures in the way are then
 * invalid.
 */
int host_capture_wait(struct CUstream_st *stream, struct CUstream_st *other) REQUIRES(host_streams_lock);

/**
 * host_capture_refuse() - check for captures before a call that cannot be captured
 * @stream: the stream
 * @what: the call
 *
 * Return: 0 if there is no capture in the way, or -EBUSY; the captures in the way are then invalid.
 */
int host_capture_refuse(struct CUstream_st *stream, const char *what) REQUIRES(host_streams_lock);

/**
 * host_capture_refuse_all() - check for captures before a call that is for all streams of a device
 * @device: ordinal
 * @what: the call
 *
 * Return: 0 if no stream of the device is under capture, or -EBUSY; the captures are then invalid.
 */
int host_capture_refuse_all(int device, const char *what) REQUIRES(host_streams_lock);

/**
 * host_capture_leave() - a stream is destroyed: drop it from its capture
 * @stream: the stream
 */
void host_capture_leave(struct CUstream_st *stream) REQUIRES(host_streams_lock);

#endif /* HOST_CAPTURE_H */
