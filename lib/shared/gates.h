/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The streams that use a range, stopped while pages move. */
#ifndef GATES_H
#define GATES_H

#include "shared/shared.h"

/**
 * gates_close() - wait for what was submitted to the streams that use a range, and hold back the rest
 * @range: the range; the mover is held
 * @gate: receives what gates_open() takes; NULL: no stream uses it
 *
 * Return: 0, or an error of the backend.
 */
int gates_close(struct range *range, struct backend_gate **gate);

/**
 * gates_open() - let them go on
 * @range: the range
 * @gate: of gates_close()
 */
void gates_open(struct range *range, struct backend_gate *gate);

/**
 * gates_have() - whether a stream uses a range
 * @range: the range
 * @stream: the handle
 *
 * Return: whether it was added.
 */
bool gates_have(const struct range *range, const struct CUstream_st *stream) REQUIRES(shared_lock);

/**
 * gates_add() - a stream uses a range from now on
 * @range: the range; the mover is held, as a gate that is closed already would not stop the stream
 * @stream: the handle
 *
 * Return: 0, or -ENOTSUP for the stream that each thread has of its own, or for more than one gate can hold back.
 */
int gates_add(struct range *range, struct CUstream_st *stream) REQUIRES(shared_lock);

/**
 * gates_check() - whether a handle is one of a stream
 * @shared: of the pool, its backend entered; no lock held
 * @stream: the handle
 *
 * Return: 0, -EINVAL if it is not, or another error of the backend.
 */
int gates_check(const struct shared *shared, struct CUstream_st *stream);

/**
 * gates_retire() - a stream is about to be destroyed: no range of a pool is used by it any more
 * @shared: of the pool, its backend entered; no lock held
 * @stream: the handle; if it uses a range, its work is waited for
 *
 * Return: 0, or an error of the backend if it cannot be waited for: then it still uses the ranges.
 */
int gates_retire(struct shared *shared, struct CUstream_st *stream);

#endif /* GATES_H */
