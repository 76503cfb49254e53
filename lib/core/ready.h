/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Which whole extents a stream can have without a wait: those that are complete, as no work is pending on them, and
 * those on which only its own work is pending. An index, because a request that has to find them must not walk all.
 *
 * What is pending on an extent changes when it becomes whole and when an event passes. It is looked up when somebody
 * asks next, so that a pool in which nobody asks pays for a link in a list. All of it is under core.lock.
 */
#ifndef READY_H
#define READY_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct extent;
struct region_map;
struct stream;

/**
 * struct ready_set - extents that one stream can have, or all can
 * @by_size: the larger first; of equals, of a stream the last freed first, otherwise the first freed
 * @bytes: bytes of them
 */
struct ready_set {
	GTree *by_size;
	uint64_t bytes;
};

/**
 * struct ready_extent - what the index has of an extent
 * @number: whole: when it became so; larger is later
 * @set: the set that it is in; NULL: none
 * @unknown: its link in @unknown of struct ready; data is NULL: it is not linked
 * @pending: its link in @pending of struct ready, likewise
 */
struct ready_extent {
	uint64_t number;
	struct ready_set *set;
	GList unknown;
	GList pending;
};

/**
 * struct ready - the index
 * @complete: extents on which no work is pending
 * @sets: the sets of streams: extents on which only that stream's work is pending; of struct ready_set
 * @unknown: whole extents that are in no set, as nobody asked since they became whole or since an event of theirs
 *	passed
 * @pending: whole extents on which work was pending when somebody asked last, of any streams; the first freed first
 * @entered: how many extents have become whole
 * @looks: how often it was looked at an extent
 */
struct ready {
	struct ready_set complete;
	GPtrArray *sets;
	GQueue unknown;
	GQueue pending;
	uint64_t entered;
	uint64_t looks;
};

/**
 * struct ready_walk - a walk over whole extents, in the order in which a stream should take them
 * @ready: the index
 * @own: the set of the stream; NULL: it has none
 * @next_own: the next in there; NULL: there is none
 * @next_complete: the next that is complete, likewise
 * @next_pending: the next that the stream has to wait for, likewise
 */
struct ready_walk {
	struct ready *ready;
	const struct ready_set *own;
	GTreeNode *next_own;
	GTreeNode *next_complete;
	GList *next_pending;
};

/**
 * ready_init() - set up an empty index
 * @ready: the index
 */
void ready_init(struct ready *ready);

/**
 * ready_clear() - free an index
 * @ready: the index
 */
void ready_clear(struct ready *ready);

/**
 * ready_forget() - free the set of a stream that is about to be forgotten
 * @ready: the index
 * @stream: the stream, of which no event is pending
 */
void ready_forget(struct ready *ready, struct stream *stream);

/**
 * ready_enter() - an extent has become whole
 * @ready: the index
 * @extent: the extent; it counts as freed last
 */
void ready_enter(struct ready *ready, struct extent *extent);

/**
 * ready_leave() - an extent is whole no more
 * @ready: the index
 * @extent: the extent
 */
void ready_leave(struct ready *ready, struct extent *extent);

/**
 * ready_doubt() - an event has passed that something of an extent waited for
 * @ready: the index
 * @extent: the extent, which is whole
 */
void ready_doubt(struct ready *ready, struct extent *extent);

/**
 * ready_update() - look up what is pending on the extents of which that is not known
 * @ready: the index
 * @regions: the region map of the extents
 * @stream: a stream
 *
 * Return: bytes of the extents that the stream can have without a wait.
 */
uint64_t ready_update(struct ready *ready, struct region_map *regions, const struct stream *stream);

/**
 * ready_is_right() - whether the index has an extent where it should
 * @ready: the index
 * @regions: the region map of the extents
 * @extent: a whole extent
 */
bool ready_is_right(struct ready *ready, struct region_map *regions, struct extent *extent);

/**
 * ready_walk() - begin a walk, after ready_update()
 * @ready: the index
 * @stream: the stream
 * @most: bytes that the first extent may have
 *
 * Return: the walk, good until something becomes whole, or is whole no more, or an event passes.
 */
struct ready_walk ready_walk(struct ready *ready, const struct stream *stream, size_t most);

/**
 * ready_next() - the next extent of a walk
 * @walk: the walk
 * @most: bytes that it may have, no more than at the call before
 *
 * First those that the stream can have without a wait, the larger first, as fewer extents are fewer driver calls: what
 * is its own before what is complete. Then those that it has to wait for, the first freed first.
 *
 * Return: the extent; NULL: there is none.
 */
struct extent *ready_next(struct ready_walk *walk, size_t most);

#endif /* READY_H */
