/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What every backend has to do, as checks that run on any of them: on the host backend, with the fault backend around
 * it, on the cuda backend against the suite's own libcuda, and on a GPU.
 */
#ifndef CONFORMANCE_H
#define CONFORMANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct backend;

/**
 * struct conformance_device - what the checks need beside the backend
 * @strict: the backend enforces every rule of backend.h; otherwise the checks of rules that a driver lets pass are
 *	skipped, as its answer to breaking them is not defined
 * @mappings: how many mappings @open's device can have, small enough to be reached; 0: do not try
 *
 * @open: open the backend, on a device that nothing else uses. It is closed through its operations.
 * @left: tell whether anything is left in the process of what backends gave; called after close. May be NULL.
 *
 * The others are called between enter and leave:
 *
 * @stream_create: create a stream that does not wait for the default stream by itself.
 * @stream_destroy: destroy it. Nothing is held on it.
 * @capture_begin: begin to capture a stream of @stream_create into a graph, in the mode in which others are in the way.
 * @capture_spoil: invalidate the capture of a stream.
 * @capture_end: end it. Fails if the capture was invalidated; otherwise there is a graph.
 * @graph_launch: launch a graph, or an instance of it that is destroyed at once.
 * @graph_destroy: destroy a graph.
 * @hold: submit one piece of work to a stream that does not complete before @finish is called for that stream.
 * @finish: let all that is held on a stream complete, as soon as what it waits for has. Need not wait for it.
 *	Does nothing for a stream without held work.
 * @write: write to device memory, ordered with nothing; complete when it returns.
 * @read: read from device memory likewise.
 * @reachable: whether a byte can be read and written without a fault; NULL where a fault would be the end of the
 *	device.
 *
 * Those that return an int return 0 for success. The streams that @hold and @finish get are those of @stream_create,
 * and NULL and the per-thread handle.
 */
struct conformance_device {
	bool strict;
	unsigned int mappings;

	int (*open)(struct backend **be);
	bool (*left)(void);

	int (*stream_create)(struct CUstream_st **stream);
	int (*stream_destroy)(struct CUstream_st *stream);
	int (*capture_begin)(struct CUstream_st *stream);
	void (*capture_spoil)(struct CUstream_st *stream);
	int (*capture_end)(struct CUstream_st *stream, void **graph);
	int (*graph_launch)(void *graph, struct CUstream_st *stream);
	int (*graph_destroy)(void *graph);
	int (*hold)(struct CUstream_st *stream);
	int (*finish)(struct CUstream_st *stream);
	int (*write)(uint64_t va, const void *bytes, size_t size);
	int (*read)(uint64_t va, void *bytes, size_t size);
	bool (*reachable)(uint64_t va);
};

/**
 * conformance_add() - add a test for each check
 * @prefix: where in the tree of tests, such as "/backend/host"
 * @device: the device; must stay valid
 *
 * To be called between g_test_init() and g_test_run(). Each test opens the backend, enters, runs one check, leaves,
 * closes, and sees to it that nothing is left.
 */
void conformance_add(const char *prefix, const struct conformance_device *device);

/**
 * conformance_add_skipped() - add the same tests where there is no such device
 * @prefix: likewise
 * @reason: why; must stay valid
 */
void conformance_add_skipped(const char *prefix, const char *reason);

#endif /* CONFORMANCE_H */
