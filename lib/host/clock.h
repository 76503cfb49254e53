/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The virtual clock of the host backend, and the engines that perform timed work on it.
 *
 * A timed piece of work is ready when everything before it in its stream has completed. An engine performs as many
 * pieces at once as it has slots, the one that was ready first before others, and of those that were ready at the same
 * time the one that was submitted first. Pieces start just before the clock moves, so that all that are ready at one
 * time compete for the slots. Nothing here depends on real time: the same calls give the same times.
 */
#ifndef HOST_CLOCK_H
#define HOST_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "host/queue.h"

/**
 * host_clock_now() - the time
 *
 * Return: nanoseconds since the start of the process.
 */
uint64_t host_clock_now(void) REQUIRES(host_streams_lock);

/**
 * host_clock_room() - check that the clock can count what would be added to it
 * @ns: nanoseconds
 *
 * A caller that checks before it adds work or moves the clock never makes the clock overflow.
 *
 * Return: 0, or -EINVAL if all pending work and @ns might end later than the clock can count.
 */
int host_clock_room(uint64_t ns) REQUIRES(host_streams_lock);

/**
 * host_clock_kernels() - say how many pieces of work a compute engine performs at once
 * @device: ordinal
 * @n: how many; without effect while the engine has work
 */
void host_clock_kernels(int device, unsigned int n) REQUIRES(host_streams_lock);

/**
 * host_clock_add() - count a timed piece of work that is added to a queue
 * @stream: the stream
 * @item: the piece
 */
void host_clock_add(struct CUstream_st *stream, struct item *item) REQUIRES(host_streams_lock);

/**
 * host_clock_ready() - give the head of a stream to its engine
 * @stream: the stream, whose head is timed and has just become the head
 */
void host_clock_ready(struct CUstream_st *stream) REQUIRES(host_streams_lock);

/**
 * host_clock_move() - start what is ready, and move the clock to the next completion of a timed piece
 * @limit: the time that the clock moves to at most
 *
 * Call host_clock_take() next, until it finds none: what becomes ready meanwhile starts at the next call of this, after
 * all that complete now have made room.
 *
 * Return: whether there was one; if not, the clock has not moved.
 */
bool host_clock_move(uint64_t limit) REQUIRES(host_streams_lock);

/**
 * host_clock_take() - take a piece of work that completes now from its engine
 *
 * Return: its stream, whose head it is; NULL: there is no more.
 */
struct CUstream_st *host_clock_take(void) REQUIRES(host_streams_lock);

/**
 * host_clock_reach() - move the clock where nothing completes any more on the way
 * @time: the time; an earlier one than it is does nothing
 */
void host_clock_reach(uint64_t time) REQUIRES(host_streams_lock);

#endif /* HOST_CLOCK_H */
