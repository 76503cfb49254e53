/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A backend that wraps another, counts calls, and fails on demand. */
#ifndef FAULT_H
#define FAULT_H

#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"

/* All operations, for code that treats them alike: X(name), in the order of struct backend_ops. */
#define BACKEND_FAULT_OPS(X) \
	X(enter) X(configure) X(peer_check) X(peers) X(info) X(reserve) X(reserve_at) X(unreserve) X(create) X(create_export) \
	X(export) X(import) X(release) X(map) X(access) X(deny) X(unmap) X(stream_id) \
	X(stream_capture) X(graph_watch) X(stream_wait) X(event_create) X(event_create_timed) X(event_record) \
	X(event_record_all) X(event_query) X(event_sync) X(event_elapsed) X(sync) X(clear) X(copy) \
	X(small_alloc) X(small_free) X(small_held) X(small_trim) \
	X(host_create) X(host_access) X(access_read) X(room) X(show) X(stream_create) X(gate)

enum backend_op {
#define X(name) BACKEND_OP_##name,
	BACKEND_FAULT_OPS(X)
#undef X
	BACKEND_OP_COUNT
};

/**
 * backend_fault_wrap() - wrap a backend, to let operations fail on demand
 * @inner: the open backend to wrap; closing the wrapper closes it
 * @be: receives the wrapper
 *
 * Return: 0 or -ENOMEM.
 */
int backend_fault_wrap(struct backend *inner, struct backend **be);

/**
 * backend_fault_arm() - make an operation fail
 * @be: a wrapper
 * @op: the operation; BACKEND_OP_COUNT: any
 * @skip: how many calls pass first, counted from now
 * @count: how many calls then fail; 0 disarms
 * @err: with which negative errno value
 *
 * A call that fails does not reach the wrapped backend.
 */
void backend_fault_arm(struct backend *be, enum backend_op op, unsigned int skip, unsigned int count, int err);

/**
 * backend_fault_arm_next() - make calls fail behind the first that does
 * @be: a wrapper
 * @skip: how many calls of any operation pass first, counted from the next that fails because it was armed
 * @count: how many calls then fail; 0 disarms
 * @err: with which negative errno value
 */
void backend_fault_arm_next(struct backend *be, unsigned int skip, unsigned int count, int err);

/**
 * backend_fault_failed() - how many calls were made to fail
 * @be: a wrapper
 *
 * Return: the number of calls that failed since backend_fault_arm_next(), or since it was wrapped.
 */
uint64_t backend_fault_failed(struct backend *be);

/**
 * backend_fault_calls() - how often an operation was called
 * @be: a wrapper
 * @op: the operation; BACKEND_OP_COUNT: all of them together
 *
 * Return: the number of calls since it was wrapped, those that failed included.
 */
uint64_t backend_fault_calls(struct backend *be, enum backend_op op);

/* Objects that exist through a wrapper. */
struct backend_left {
	uint64_t reservations;
	uint64_t handles;
	uint64_t mappings;
	uint64_t events;
	uint64_t small;			/* small allocations */
};

/**
 * backend_fault_left() - count the objects that were created through a wrapper and still exist
 * @be: a wrapper
 * @left: receives the numbers
 */
void backend_fault_left(struct backend *be, struct backend_left *left);

#endif /* FAULT_H */
