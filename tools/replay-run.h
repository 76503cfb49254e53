/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A pass under way: what replay.c and replay-pool.c share. */
#ifndef REPLAY_RUN_H
#define REPLAY_RUN_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "replay.h"
#include "vpmm.h"

/**
 * struct slot - an allocation of the trace, while it lives
 * @ptr: where it is
 * @bytes: of it
 * @stream: that allocated it, or resized it last
 * @op: which operation did
 * @mark: the how-manieth allocation of the trace it is
 * @live: whether it lives
 * @bare: whether it has no pattern, as it was allocated under capture, or a pause has dropped it
 * @tag: its tag, as struct trace_op has it
 * @flags: TRACE_DROP and TRACE_STAY, as it was allocated
 */
struct slot {
	void *ptr;
	size_t bytes;
	uint32_t stream;
	uint32_t op;
	uint32_t mark;
	bool live;
	bool bare;
	uint8_t tag;
	uint8_t flags;
};

/**
 * struct capture - a capture of the trace
 * @id: the driver's, of the graph until it is retired; 0: there is none
 * @graph: the device's graph, once the capture has ended
 * @group: that it joins once it is begun; 0: none
 * @stream: on which it was begun
 * @joined: of uint32_t: the other streams
 * @begun: whether it was
 * @open: whether it goes on
 */
struct capture {
	uint64_t id;
	void *graph;
	uint64_t group;
	uint32_t stream;
	GArray *joined;
	bool begun;
	bool open;
};

/**
 * struct run - a pass
 * @setup: what is run on what
 * @result: receives the measurements
 * @works: whether there is work on the streams
 * @slots: of the trace
 * @captures: of the trace
 * @captured: of each stream, the number of the capture that it is under; 0: none
 * @tags: the library's tag of each tag of the trace; 0: it could not be opened
 * @asleep: of each, whether it is paused
 * @mark_ops: which operation each mark stands for
 * @took_ns: of each call
 * @timed: how many calls
 * @mark: of the next allocation
 * @live: bytes
 * @rounded: the same, as @peak_rounded of struct replay_result counts them
 * @watched_ns: what watching took
 */
struct run {
	const struct replay_setup *setup;
	struct replay_result *result;
	bool works;
	struct slot *slots;
	struct capture *captures;
	uint32_t *captured;
	vpmm_tag *tags;
	bool *asleep;
	uint32_t *mark_ops;
	uint64_t *took_ns;
	size_t timed;
	uint32_t mark;
	uint64_t live;
	uint64_t rounded;
	uint64_t watched_ns;
};

/**
 * run_tell() - count an error, and tell it
 * @run: the pass
 * @op: where
 * @what: failed
 * @why: it did
 */
void run_tell(struct run *run, const struct trace_op *op, const char *what, const char *why);

/**
 * run_count() - count bytes that are allocated
 * @run: the pass
 * @bytes: of the allocation
 * @more: whether they are more, or fewer
 */
void run_count(struct run *run, size_t bytes, bool more);

/**
 * run_time() - note how long a call took
 * @run: the pass
 * @start: of the call, by clock_ns()
 *
 * Return: nanoseconds.
 */
uint64_t run_time(struct run *run, uint64_t start);

/**
 * run_fill() - have the pattern of an allocation written
 * @run: the pass
 * @op: the operation
 * @slot: the allocation
 */
void run_fill(struct run *run, const struct trace_op *op, struct slot *slot);

/**
 * run_look() - have a stream look at the pattern of an allocation
 * @run: the pass
 * @op: the operation
 * @slot: the allocation
 * @bytes: of it
 * @stream: the stream, which waits for that which allocated it
 */
void run_look(struct run *run, const struct trace_op *op, const struct slot *slot, size_t bytes, uint32_t stream);

/**
 * run_find_live() - find the allocation that an operation is about, and have its stream look at the pattern
 * @run: the pass
 * @op: the operation
 *
 * Return: the allocation; NULL: it does not live, as allocating it failed.
 */
struct slot *run_find_live(struct run *run, const struct trace_op *op);

/**
 * run_pool_malloc() - allocate as only a pool can
 * @run: the pass, of a pool
 * @op: the operation
 * @ptr: receives the address
 *
 * Return: 0, or a negative errno value, explained by vpmm_last_error().
 */
int run_pool_malloc(struct run *run, const struct trace_op *op, void **ptr);

/**
 * run_resize() - resize an allocation
 * @run: the pass
 * @op: the operation
 */
void run_resize(struct run *run, const struct trace_op *op);

/**
 * run_other() - do what is neither an allocation, a free nor a change of size
 * @run: the pass
 * @op: the operation
 *
 * An allocator that is no pool is not told.
 */
void run_other(struct run *run, const struct trace_op *op);

/**
 * run_pause() - pause or resume the tag of an operation
 * @run: the pass, of a pool
 * @op: the operation
 */
void run_pause(struct run *run, const struct trace_op *op);

/**
 * run_capture() - have the stream of an operation under the capture that the trace says
 * @run: the pass
 * @op: the operation, which follows
 */
void run_capture(struct run *run, const struct trace_op *op);

/**
 * run_captured() - end the capture if the operation was the last of it
 * @run: the pass
 * @op: the operation
 */
void run_captured(struct run *run, const struct trace_op *op);

/**
 * run_end_captures() - end all captures that go on
 * @run: the pass
 * @op: the last operation
 */
void run_end_captures(struct run *run, const struct trace_op *op);

/**
 * run_retire_graphs() - retire all graphs that the trace leaves
 * @run: the pass; no capture goes on
 * @op: the last operation
 */
void run_retire_graphs(struct run *run, const struct trace_op *op);

#endif /* REPLAY_RUN_H */
