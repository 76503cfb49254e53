/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Work of the library's own: clears and copies. The program does not know of it, and so whoever gets the memory next
 * must come after it. Two rules see to that:
 *
 * - The event is created before anything is submitted, so that only its record can fail afterwards.
 * - After a failure, memory that was free is set aside until the stream has passed, and a block that stays counts the
 *   stream as a user.
 *
 *	submission_follow(), if the memory may have such work of another stream
 *	submission_begin()
 *	submission_clear(), submission_copy()
 *	submission_end(), submission_cover() or submission_cover_small()
 *	on failure: submission_set_aside() or submission_keep() for each range
 *	submission_drop()
 */
#ifndef SUBMISSION_H
#define SUBMISSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct backend_event;
struct event;
struct region;
struct region_map;
struct small;
struct stream;
struct vpmm_pool;

/**
 * struct submission - work on a stream, and the event behind it
 * @pool: the pool
 * @handle: a handle of the stream
 * @reserved: the event, created and not recorded; NULL: it is recorded, or the stream is under capture, where there is
 *	none and the graph has the memory
 * @begun: something was submitted, and no event is behind it
 */
struct submission {
	struct vpmm_pool *pool;
	struct CUstream_st *handle;
	struct backend_event *reserved;
	bool begun;
};

/**
 * submission_begin() - reserve the event
 * @s: receives the submission
 * @pool: the pool, its backend entered; its lock need not be held
 * @handle: a handle of the stream
 * @captured: whether it is under capture
 *
 * Return: 0, or what the backend's event_create returns; nothing is left to drop then.
 */
int submission_begin(struct submission *s, struct vpmm_pool *pool, struct CUstream_st *handle, bool captured);

/**
 * submission_clear() - clear memory, and count it
 * @s: the submission; the pool's lock need not be held
 * @addr: where
 * @size: bytes; 0 does nothing
 *
 * Return: 0, or what the backend's clear returns.
 */
int submission_clear(struct submission *s, uint64_t addr, size_t size);

/**
 * submission_copy() - copy memory
 * @s: the submission
 * @to: where to
 * @from: where from
 * @size: bytes; 0 does nothing
 *
 * Return: 0, or what the backend's copy returns.
 */
int submission_copy(struct submission *s, uint64_t to, uint64_t from, size_t size);

/**
 * submission_end() - record the event
 * @s: the submission, not of a stream under capture
 * @stream: the stream
 * @event: receives the event, with one reference
 *
 * Return: 0, or what the backend's event_record returns; of event_create if nothing was reserved.
 */
int submission_end(struct submission *s, struct stream *stream, struct event **event);

/**
 * submission_cover() - record the event, and have the next use of a block of the stream come after it
 * @s: the submission
 * @region: the block
 *
 * Under capture the work is part of the graph, and the memory belongs to that until it is retired.
 *
 * Return: 0, or what the backend's event_record returns.
 */
int submission_cover(struct submission *s, struct region *region);

/**
 * submission_cover_small() - the same for a block outside of the region maps
 * @s: the submission
 * @small: the block
 * @stream: the stream
 *
 * Return: 0, or what the backend's event_record returns.
 */
int submission_cover_small(struct submission *s, struct small *small, struct stream *stream);

/**
 * submission_follow() - have a stream come after the library's work on a block
 * @pool: the pool, its backend entered
 * @region: the block; NULL: it is @small
 * @small: a block outside of the region maps
 * @stream: the stream; for one under capture the host waits
 * @handle: a handle of it
 *
 * Return: 0, or what the backend's stream_wait, event_create, event_record and event_sync return.
 */
int submission_follow(struct vpmm_pool *pool, struct region *region, const struct small *small, struct stream *stream,
		      struct CUstream_st *handle);

/**
 * submission_set_aside_block() - free a block that was just allocated, if a clear may be pending that no event covers
 * @pool: the pool
 * @region: the region; it becomes free once its stream has completed the clear
 */
void submission_set_aside_block(struct vpmm_pool *pool, struct region *region);

/**
 * submission_keep() - make the stream a user of a block that stays as it is
 * @s: the submission, without an event
 * @addr: address of the block
 * @stream: the stream, not under capture
 */
void submission_keep(struct submission *s, uint64_t addr, const struct stream *stream);

/**
 * submission_drop() - give back what is left
 * @s: the submission
 */
void submission_drop(struct submission *s);

#endif /* SUBMISSION_H */
