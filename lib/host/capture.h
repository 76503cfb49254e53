/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Captures of the host backend's streams into graphs. They are as strict as a driver's: what a driver cannot capture
 * invalidates the capture, whose end then fails. A graph is a row of what its streams were told to do, in that order.
 *
 * While a stream is captured the legacy default stream of its device cannot be used, as a driver has it for streams
 * that wait for that one.
 */
#ifndef HOST_CAPTURE_H
#define HOST_CAPTURE_H

#include <glib.h>
#include <stdint.h>

#include "host/queue.h"
#include "vpmm-host.h"

/* What streams ask. */

struct host_capture {
	uint64_t id;
	struct CUstream_st *origin;	/* the stream that it was begun on */
	GArray *tasks;			/* of struct host_task */
	char *why;			/* it is invalid; NULL: it is not */
};

struct vpmm_host_graph {
	GArray *tasks;
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
 * @why: the first thing that did it is what its end tells
 */
void host_capture_spoil(struct host_capture *capture, const char *why);

/**
 * host_capture_ask() - which capture a stream is under
 * @stream: the stream
 * @id: receives its number, which no other capture ever has; 0: none
 *
 * Return: 0, or -EBUSY for a legacy default stream that another stream's capture makes unusable.
 */
int host_capture_ask(const struct CUstream_st *stream, uint64_t *id) REQUIRES(host_streams_lock);

/**
 * host_capture_task() - have a stream do something, or capture it
 * @stream: the stream
 * @task: what it is to do
 *
 * Return: 0, or -EBUSY; the captures in the way are then invalid.
 */
int host_capture_task(struct CUstream_st *stream, const struct host_task *task) REQUIRES(host_streams_lock);

/**
 * host_capture_wait() - a stream comes behind another, if one of them is captured
 * @stream: the stream that waits
 * @other: the stream that it waits for
 *
 * Return: 1 if that was captured, 0 if none of the two is captured, or -EBUSY; the captures in the way are then invalid.
 */
int host_capture_wait(struct CUstream_st *stream, struct CUstream_st *other) REQUIRES(host_streams_lock);

/**
 * host_capture_refuse() - what cannot be captured is asked of a stream
 * @stream: the stream
 * @what: what is asked
 *
 * Return: 0 if there is no capture in the way, or -EBUSY; the captures in the way are then invalid.
 */
int host_capture_refuse(struct CUstream_st *stream, const char *what) REQUIRES(host_streams_lock);

/**
 * host_capture_leave() - a stream is destroyed
 * @stream: the stream
 */
void host_capture_leave(struct CUstream_st *stream) REQUIRES(host_streams_lock);

#endif /* HOST_CAPTURE_H */
