/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Captures and graphs of the host backend, by stream handles; see capture.h. */
#ifndef HOST_GRAPHS_H
#define HOST_GRAPHS_H

#include <stdbool.h>

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
 * host_capture_is_valid() - whether a stream is under a valid capture
 * @device: ordinal
 * @stream: the handle
 *
 * Return: true; false also where it is under none.
 */
bool host_capture_is_valid(int device, struct CUstream_st *stream);

/**
 * host_graph_watch() - have a function called when the graph that a stream is captured into cannot run any more
 * @device: ordinal
 * @stream: the handle
 * @gone: the function; it is called with host_streams_lock held
 * @data: passed to @gone
 *
 * An invalid capture can be watched, too.
 *
 * Return: 0, -EINVAL, or -EBUSY if the stream is under no capture.
 */
int host_graph_watch(int device, struct CUstream_st *stream, void (*gone)(void *data), void *data);

/**
 * host_graph_launch() - submit the tasks of a graph to a stream
 * @graph: the graph
 * @device: ordinal
 * @stream: the handle
 *
 * Return: 0, -EINVAL or -EBUSY.
 */
int host_graph_launch(const struct vpmm_host_graph *graph, int device, struct CUstream_st *stream);

/**
 * host_graph_destroy() - destroy a graph; launches go on
 * @graph: the graph
 */
void host_graph_destroy(struct vpmm_host_graph *graph);

#endif /* HOST_GRAPHS_H */
