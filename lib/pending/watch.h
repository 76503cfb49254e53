/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Graphs that are gone. The backend tells when a graph cannot run any more, on a thread and at a moment of its own, so
 * that is only noted then; the next call on the slow path gives the memory back. The graph's launches are complete, so
 * only work from outside of it can be left to wait for, see @outside of struct hold. What the backend cannot watch
 * waits for vpmm_graph_retire().
 *
 * Graphs of one group come back together, when all of them are gone: what one of them has left in a block others may
 * read, and nobody tells the library of that.
 */
#ifndef WATCH_H
#define WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct CUstream_st;
struct pending;
struct watches;

/**
 * watches_new() - begin to note graphs that are gone
 *
 * Return: where they are noted, for a pool.
 */
struct watches *watches_new(void);

/**
 * watches_drop() - the pool is gone, its graphs may not be
 * @watches: where they are noted
 */
void watches_drop(struct watches *watches);

/**
 * watch_begin() - watch the graph of a capture, if it is not yet, and can be
 * @pending: what the pool has pending, its backend entered
 * @id: the id of the capture
 * @handle: a stream that is under it
 */
void watch_begin(struct pending *pending, uint64_t id, struct CUstream_st *handle);

/**
 * watch_collect() - give back the memory of graphs that are gone by now
 * @pending: what the pool has pending, its backend entered
 *
 * Return: whether the backend has reported any since the last call.
 */
bool watch_collect(struct pending *pending);

/**
 * watch_await() - the same, once the device has completed all its work, for what the backend is about to tell
 * @pending: what the pool has pending, its backend entered
 *
 * Which graphs can still be launched is not known, so this waits for a moment only.
 */
void watch_await(struct pending *pending);

/**
 * watch_group_left() - a graph was retired: if all others of its group are gone, give their memory back
 * @pending: what the pool has pending, its backend entered
 * @group: the id of the group; 0: it was in none
 */
void watch_group_left(struct pending *pending, uint64_t group);

/**
 * watch_held() - how much memory waits for graphs of which the backend may tell
 * @pending: what the pool has pending
 *
 * Return: bytes.
 */
uint64_t watch_held(const struct pending *pending);

#endif /* WATCH_H */
