/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The host backend of libvpmm: devices and streams without a GPU, for tests.
 *
 * Memory of a pool on the host backend is ordinary memory that the CPU reads and writes. The program completes the work
 * of each stream by a call, so a test can choose any interleaving of several streams. Or work takes time on a virtual
 * clock, so a test can measure the gain of streams that overlap, and each run measures the same. The calls follow the
 * conventions of vpmm.h: 0 or a negative errno value, errno set, vpmm_last_error().
 *
 * A stream argument is a stream of vpmm_host_stream_create(), or NULL for the current device's default stream, or
 * VPMM_HOST_STREAM_PER_THREAD for the one that the calling thread has of its own. No stream waits for another by
 * itself, the default stream included, as with streams created by CU_STREAM_NON_BLOCKING.
 */
#ifndef VPMM_HOST_H
#define VPMM_HOST_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;
struct vpmm_host_graph;

/* The values of CUDA's CU_STREAM_LEGACY, another name of NULL, and CU_STREAM_PER_THREAD. Since: 0.1 */
#define VPMM_HOST_STREAM_LEGACY ((struct CUstream_st *)0x1)
#define VPMM_HOST_STREAM_PER_THREAD ((struct CUstream_st *)0x2)

/**
 * vpmm_host_fn - a piece of work
 * @data: as given to vpmm_host_stream_launch()
 *
 * Context: called on the thread that completes the work, which may be a call that waits for it, such as
 *	vpmm_pool_destroy(). It may use memory and must not call the library.
 * Since: 0.1
 */
typedef void (*vpmm_host_fn)(void *data);

/**
 * enum vpmm_host_engine - what performs work that takes time, on each device
 * @VPMM_HOST_COMPUTE: kernels; one at a time, or as many as VPMM_HOST_KERNELS says
 * @VPMM_HOST_COPY_IN: copies from the host to the device, one at a time
 * @VPMM_HOST_COPY_OUT: copies from the device to the host, one at a time
 *
 * A piece of work is ready when everything before it in its stream has completed. An engine starts first what was
 * ready first, and of several that were ready at the same time what was submitted first.
 *
 * Since: 0.1
 */
enum vpmm_host_engine {
	VPMM_HOST_COMPUTE,
	VPMM_HOST_COPY_IN,
	VPMM_HOST_COPY_OUT
};

/**
 * vpmm_host_set_device() - make a device the calling thread's current one
 * @device: ordinal, below VPMM_HOST_DEVICES
 *
 * A thread starts with device 0.
 *
 * Context: any thread.
 * Return: 0, or
 *	-EINVAL there is no such device, or VPMM_HOST_DEVICES has a bad value.
 * Since: 0.1
 */
int vpmm_host_set_device(int device);

/**
 * vpmm_host_reset() - reset the current device, as cudaDeviceReset() does
 *
 * The work of its streams is completed, streams of vpmm_host_stream_create() are destroyed, and captures are given up.
 * The context of pools on the device is gone: see vpmm_pool_abandon(). Their memory can be read and written until it is
 * given back.
 *
 * Context: any thread; no other thread uses the device meanwhile.
 * Return: 0, or
 *	-EBUSY a piece of work makes the call.
 * Since: 0.1
 */
int vpmm_host_reset(void);

/**
 * vpmm_host_check_access() - whether kernels of a device could read and write memory
 * @device: ordinal, below VPMM_HOST_DEVICES
 * @addr: where the memory starts
 * @size: bytes, at least 1
 *
 * The CPU does the work of all devices of the host backend, and accesses memory of each. A GPU accesses memory of
 * another device only if the pool of that device has it as a peer. With this call a test can notice that a peer was
 * forgotten.
 *
 * Context: any thread.
 * Return: 0 if all bytes are memory of pools that the device can access, or
 *	-EACCES not all are: memory of another device, addresses with nothing mapped, or none of a pool,
 *	-EINVAL @size is 0, there is no such device, or VPMM_HOST_DEVICES has a bad value.
 * Since: 0.1
 */
int vpmm_host_check_access(int device, const void *addr, size_t size);

/**
 * vpmm_host_view() - where device work sees an address of a shared range
 * @addr: the address, anywhere in a range of vpmm_shared_alloc()
 *
 * A GPU has tables of its own for the same addresses. The host backend has other addresses for that, and a function of
 * vpmm_host_stream_launch() uses these. It must not touch the range itself.
 *
 * Context: any thread, also in a piece of work.
 * Return: the address, valid as long as the range; NULL if @addr is in no range.
 * Since: 0.1
 */
void *vpmm_host_view(const void *addr);

/**
 * vpmm_host_stream_create() - create a stream on the current device
 * @stream: receives the stream
 *
 * Context: any thread.
 * Return: 0, or
 *	-EINVAL @stream is NULL.
 * Since: 0.1
 */
int vpmm_host_stream_create(struct CUstream_st **stream);

/**
 * vpmm_host_stream_destroy() - destroy a stream
 * @stream: a stream of vpmm_host_stream_create()
 *
 * Pending work is completed first, because nothing could complete it later; only work of
 * vpmm_host_stream_submit_for(), and what is behind it, goes on by the clock. A capture that the stream has joined
 * becomes invalid; one that was begun on it is given up.
 *
 * Context: any thread.
 * Return: 0, or
 *	-EINVAL @stream is not one of vpmm_host_stream_create(),
 *	-EBUSY work on it waits for another stream, whose work does not complete by the clock, or a piece of work makes
 *	the call; the stream stays, with what could not be completed.
 * Since: 0.1
 */
int vpmm_host_stream_destroy(struct CUstream_st *stream);

/**
 * vpmm_host_stream_submit() - submit one piece of work that runs until it is completed
 * @stream: the stream
 *
 * Context: any thread.
 * Return: 0, or
 *	-EINVAL @stream is not a stream,
 *	-EBUSY a capture is in the way, see vpmm_host_capture_begin().
 * Since: 0.1
 */
int vpmm_host_stream_submit(struct CUstream_st *stream);

/**
 * vpmm_host_stream_launch() - submit one piece of work that calls a function when it is completed
 * @stream: the stream
 * @fn: what to call
 * @data: passed to @fn
 *
 * Context: any thread.
 * Return: 0, or
 *	-EINVAL @stream is not a stream, or @fn is NULL,
 *	-EBUSY a capture is in the way, see vpmm_host_capture_begin().
 * Since: 0.1
 */
int vpmm_host_stream_launch(struct CUstream_st *stream, vpmm_host_fn fn, void *data);

/**
 * vpmm_host_stream_submit_for() - submit one piece of work that takes time on the virtual clock
 * @stream: the stream
 * @engine: which engine of the stream's device performs it
 * @ns: for how long, in nanoseconds
 *
 * Submitting takes no time on the clock. The work completes when the clock gets there: in vpmm_host_time_pass() or
 * vpmm_host_time_finish(), or in a call that waits for the work, such as vpmm_host_stream_complete() or
 * vpmm_pool_destroy(). But a stream takes 1,024 pieces, about as many launches as a driver does: with as many pending,
 * the call moves the clock until one of them completes.
 *
 * Context: any thread.
 * Return: 0, or
 *	-EINVAL @stream is not a stream, @engine is no engine, @ns and what is pending take longer than the clock can
 *	count, or VPMM_HOST_KERNELS has a bad value,
 *	-EBUSY a capture is in the way, see vpmm_host_capture_begin().
 * Since: 0.1
 */
int vpmm_host_stream_submit_for(struct CUstream_st *stream, enum vpmm_host_engine engine, uint64_t ns);

/**
 * vpmm_host_stream_wait() - make what is submitted to a stream from now on wait for another stream
 * @stream: the stream that waits
 * @other: the stream whose work submitted so far it waits for
 *
 * The call does what cuEventRecord and cuStreamWaitEvent do together.
 *
 * Context: any thread; does not wait itself.
 * Return: 0, or
 *	-EINVAL @stream or @other is not a stream,
 *	-EBUSY a capture is in the way, see vpmm_host_capture_begin().
 * Since: 0.1
 */
int vpmm_host_stream_wait(struct CUstream_st *stream, struct CUstream_st *other);

/**
 * vpmm_host_stream_complete() - complete the oldest pieces of work of a stream
 * @stream: the stream
 * @n: how many; more than are pending, such as UINT_MAX, completes all
 *
 * They complete in order. Events and waits between them are no pieces of work: they are passed when what stands
 * before them has completed. For work of vpmm_host_stream_submit_for() the virtual clock moves until it completes; so
 * does all other such work that completes by then, on any stream.
 *
 * Context: any thread.
 * Return: 0, or
 *	-EINVAL @stream is not a stream,
 *	-EBUSY the next piece waits for another stream, whose work does not complete by the clock, or a piece of work
 *	makes the call; what stood before it has completed.
 * Since: 0.1
 */
int vpmm_host_stream_complete(struct CUstream_st *stream, unsigned int n);

/**
 * vpmm_host_stream_pending() - how many pieces of work of a stream have not completed
 * @stream: the stream
 * @n: receives the number
 *
 * Context: any thread.
 * Return: 0, or
 *	-EINVAL @stream is not a stream, or @n is NULL.
 * Since: 0.1
 */
int vpmm_host_stream_pending(struct CUstream_st *stream, unsigned int *n);

/**
 * vpmm_host_time() - the time on the virtual clock
 *
 * The process has one clock, for the streams of all devices. It stands still but for vpmm_host_time_pass(),
 * vpmm_host_time_finish(), vpmm_host_stream_complete(), and calls of the library that wait for work on the host.
 *
 * Context: any thread.
 * Return: nanoseconds, from 0 at the start of the process.
 * Since: 0.1
 */
uint64_t vpmm_host_time(void);

/**
 * vpmm_host_time_pass() - move the virtual clock
 * @ns: by how many nanoseconds
 *
 * As if the host were busy for so long: streams get on with what they have. With 0, what takes no time completes.
 *
 * Context: any thread.
 * Return: 0, or
 *	-EINVAL @ns and what is pending take longer than the clock can count,
 *	-EBUSY a piece of work makes the call.
 * Since: 0.1
 */
int vpmm_host_time_pass(uint64_t ns);

/**
 * vpmm_host_time_finish() - move the virtual clock until every stream is done
 *
 * Streams of all devices, and what is left of destroyed ones. The clock stops at the last completion.
 *
 * Context: any thread.
 * Return: 0, or
 *	-EBUSY work is pending that does not take time but has to be completed by vpmm_host_stream_complete(), or a
 *	piece of work makes the call; in the former case all that could complete by the clock has.
 * Since: 0.1
 */
int vpmm_host_time_finish(void);

/**
 * vpmm_host_capture_begin() - begin to capture a stream into a graph
 * @stream: the stream; not the legacy default stream
 *
 * Until vpmm_host_capture_end(), what is submitted to the stream becomes part of a graph and does not run. A stream
 * that waits for the stream, by vpmm_host_stream_wait(), is captured with it.
 *
 * Captures are as strict as CUDA's. A call that cannot be captured fails with -EBUSY and invalidates the capture: a
 * wait between a captured stream and one that is not captured, or is captured into another graph, unless it makes that
 * stream join; a call that CUDA would not let the pool make; and any call for the device's legacy default stream, as if
 * all streams synchronized with that one.
 *
 * Context: any thread; any thread may go on with the capture.
 * Return: 0, or
 *	-EINVAL @stream is not a stream, or is the legacy default stream, or is being captured already.
 * Since: 0.1
 */
int vpmm_host_capture_begin(struct CUstream_st *stream);

/**
 * vpmm_host_capture_end() - end a capture
 * @stream: the stream that it was begun on
 * @graph: receives the graph, for vpmm_host_graph_destroy(); untouched when the call fails
 *
 * The capture ends, and its streams are as before it, even if it was invalidated.
 *
 * Context: any thread.
 * Return: 0, or
 *	-EINVAL @graph is NULL, or @stream is not a stream, or no capture was begun on it,
 *	-EINVAL the capture was invalidated, and vpmm_last_error() says by what, or @stream did not wait for all work of
 *	the other captured streams.
 * Since: 0.1
 */
int vpmm_host_capture_end(struct CUstream_st *stream, struct vpmm_host_graph **graph);

/**
 * vpmm_host_graph_launch() - submit the captured work to a stream
 * @graph: the graph
 * @stream: the stream; if it is under capture, the work becomes part of that capture
 *
 * Each captured piece of work is submitted as one piece, in the order of the capture.
 *
 * Context: any thread.
 * Return: 0, or
 *	-EINVAL @graph is NULL, or @stream is not a stream,
 *	-EINVAL the work of @graph and what is pending take longer than the clock can count,
 *	-EBUSY a capture is in the way.
 * Since: 0.1
 */
int vpmm_host_graph_launch(struct vpmm_host_graph *graph, struct CUstream_st *stream);

/**
 * vpmm_host_graph_destroy() - destroy a graph
 * @graph: the graph, which no other call uses
 *
 * Launched work stays submitted. Pools are notified that the graph is gone once that work is complete, see
 * vpmm_graph_retire().
 *
 * Context: any thread.
 * Return: 0, or
 *	-EINVAL @graph is NULL.
 * Since: 0.1
 */
int vpmm_host_graph_destroy(struct vpmm_host_graph *graph);

#ifdef __cplusplus
}
#endif

#endif /* VPMM_HOST_H */
