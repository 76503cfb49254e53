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

#include <stdbool.h>
#include <stdint.h>

#include "host/queue.h"
#include "vpmm-host.h"

/**
 * host_capture_begin() - begin to capture a stream
 * @device: ordinal
 * @stream: the handle; not the legacy default stream's
 *
 * Return: 0 or -EINVAL.
 */
int host_capture_begin(int device, struct CUstream_st *stream);

/**
 * host_capture_end() - end the capture that was begun on a stream
 * @device: ordinal
 * @stream: the handle
 * @graph: receives the graph
 *
 * The streams that joined the capture leave it, whether it succeeds or not.
 *
 * Return: 0, or -EINVAL if no capture was begun on it, or if the capture was invalidated.
 */
int host_capture_end(int device, struct CUstream_st *stream, struct vpmm_host_graph **graph);

/**
 * host_capture_invalidate() - invalidate the capture that a stream is under, if it is
 * @device: ordinal
 * @stream: the handle
 * @why: what did it
 */
void host_capture_invalidate(int device, struct CUstream_st *stream, const char *why);

/**
 * host_capture_is_valid() - whether the capture that a stream is under has not been invalidated
 * @device: ordinal
 * @stream: the handle
 *
 * Return: true; false also where it is under none.
 */
bool host_capture_is_valid(int device, struct CUstream_st *stream);

/**
 * host_graph_launch() - have a stream do all that a graph is made of
 * @graph: the graph
 * @device: ordinal
 * @stream: the handle
 *
 * Return: 0, -EINVAL or -EBUSY.
 */
int host_graph_launch(const struct vpmm_host_graph *graph, int device, struct CUstream_st *stream);

/**
 * host_graph_destroy() - destroy a graph; what was launched goes on
 * @graph: the graph
 */
void host_graph_destroy(struct vpmm_host_graph *graph);

/* What streams ask. */

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
