/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * All or nothing, for every call: an action is taken again and again from the same situation, and each time another
 * one of the backend's calls in it fails, or one and another behind it, which may be there to undo what was done. A row
 * of a table is all that one more action takes.
 *
 * After each: the error is the one that was made, or none; the pool checks; what is allocated holds what was written,
 * unless it is paused; what was paused does so once it is resumed;
 * what the library still clears or copies is no other stream's to have;
 * nothing is allocated, and no memory held, that was not before; the same action succeeds once the fault is gone; the
 * host has waited for no stream at work where that is not part of the action; and when the pool is destroyed the
 * backend has everything back.
 */
#ifndef SWEEP_H
#define SWEEP_H

#include <glib.h>

#include "backend/backend.h"
#include "host/conformance.h"
#include "support/fault.h"
#include "support/fixture.h"

/**
 * struct sweep_device - what a sweep runs on
 * @name: for messages
 * @device: how to open the backend, and to give streams work
 * @completes: who waits for held work completes it; otherwise nothing is held where the action waits on the host
 * @capacity: VPMM_HOST_CAPACITY says how much memory a device has that is opened
 * @devices: how many devices the backend has; 0: perhaps one
 * @pairs: so many pairs of calls that fail, at random, unless the environment says otherwise
 * @each: leave out all runs but each of so many, unless the environment says otherwise; 0: none
 *
 * @fill: write a pattern of the seed's own into memory, ordered with nothing.
 * @intact: whether all of it is there.
 * @reaches: whether a device can access memory; NULL: nobody tells.
 * @settle: wait until the work of a stream is done while nothing is held on any; NULL: it is done at once.
 */
struct sweep_device {
	const char *name;
	const struct conformance_device *device;
	bool completes;
	bool capacity;
	unsigned int devices;
	unsigned int pairs;
	unsigned int each;

	void (*fill)(void *ptr, size_t size, uint64_t seed);
	bool (*intact)(void *ptr, size_t size, uint64_t seed);
	bool (*reaches)(int device, void *ptr, size_t size);
	void (*settle)(struct CUstream_st *stream);
};

/* The word at an index of a block with a seed: neither a word of elsewhere nor one of another seed passes for it. */
static inline uint64_t sweep_word(uint64_t seed, uint64_t i)
{
	return seed ^ i * UINT64_C(0x9E3779B97F4A7C15);
}

/* Whether every word is to be looked at. */
bool sweep_is_full(void);

/**
 * struct sweep_block - what is allocated
 * @ptr: where
 * @size: bytes that hold something
 * @requested: bytes
 * @seed: of what they hold
 * @word: the tag that it was allocated under, and its bits
 * @lost: its contents were dropped when it was paused
 */
struct sweep_block {
	void *ptr;
	size_t size;
	size_t requested;
	uint64_t seed;
	vpmm_tag word;
	bool lost;
};

/* The kinds of pool that an action is taken with, as bits. */
#define SWEEP_PACKED 0x1u
#define SWEEP_PACKED_UNCACHED 0x2u
#define SWEEP_PAGED 0x4u
#define SWEEP_PAGED_CACHED 0x8u
#define SWEEP_MODES 4

/**
 * struct sweep - a situation
 * @on: the device
 * @be: the fault backend around its backend, entered
 * @pool: the pool; NULL: there is none
 * @opts: what it is created with
 * @cache: whether its streams keep what they free
 * @streams: some streams
 * @blocks: of struct sweep_block: what is allocated
 * @again: the action is taken once more, with nothing that fails
 * @idle: nothing is to be held
 * @works: the action has the library clear or copy memory, behind what is held
 * @held: streams on which something is, as bits
 * @waits_before: waits of the host before that
 * @waited: the host has waited while something was held, which on a GPU never ends
 * @captured: streams that are being captured, as bits
 * @graph: the id of the latest capture; 0: there was none
 * @before: the id of the capture before; 0: there was none
 * @graphs: the graphs, which live as long as the pool serves
 * @ptr: what the action is about
 * @number: likewise
 * @word: what blocks are allocated under: a tag and its bits; 0: none
 */
struct sweep {
	const struct sweep_device *on;
	struct backend *be;
	struct vpmm_pool *pool;
	struct vpmm_opts opts;
	bool cache;
	struct CUstream_st *streams[STREAMS];
	GArray *blocks;
	bool again;
	bool idle;
	bool works;
	unsigned int held;
	uint64_t waits_before;
	bool waited;
	unsigned int captured;
	uint64_t graph;
	uint64_t before;
	GPtrArray *graphs;
	void *ptr;
	uint64_t number;
	vpmm_tag word;
};

/**
 * struct sweep_scene - an action
 * @name: of it
 * @modes: the kinds of pool
 * @reaches: an operation that the action calls if nothing fails, so that it is known to be what its name says
 * @prepare: makes the situation; NULL: a pool that nothing was allocated from
 * @first: an action that comes before it, and succeeds; NULL: none
 * @act: takes the action; returns its error. Called again after one.
 * @result: what it returns where nothing fails: 0, or an error that it is all about
 * @opts: of the pool, where they are not the mode's own: those that are not zero
 * @makes: the action creates the pool
 * @unmakes: the action destroys it
 * @waits: the action waits on the host for what streams do
 * @waits_again: the action does once it has failed, even if it would not have before
 * @gives: the action may give memory back before it fails
 * @keeps: the pool may keep what the action has created, and nobody has it, when it fails after that
 * @grows: a block may keep what it has gained when more than one call fails
 * @lacks: it is out of memory where others fail to give back what they have free
 * @instead: an error that it returns instead of the one that was made, once something cannot be undone; 0: none
 * @undoes: it undoes parts that were done as a whole, which cannot be where more than one call fails
 * @capacity: of the device; NULL: as usual
 * @devices: it needs so many; 0: one
 */
struct sweep_scene {
	const char *name;
	unsigned int modes;
	enum backend_op reaches;
	void (*prepare)(struct sweep *s);
	int (*act)(struct sweep *s);
	int result;
	struct vpmm_opts opts;
	int (*first)(struct sweep *s);
	bool makes;
	bool unmakes;
	bool waits;
	bool waits_again;
	bool gives;
	bool keeps;
	bool grows;
	bool lacks;
	int instead;
	bool undoes;
	const char *capacity;
	unsigned int devices;
};

/*
 * The tables: of requests, of what is freed, and of pools; of what is held, kept apart, or captured; of blocks
 * that change their size, and that can grow; of blocks that other processes can map; of other devices; of mirrors; and
 * of tags that are paused.
 */
extern const struct sweep_scene sweep_scenes[];
extern const size_t sweep_scene_count;
extern const struct sweep_scene sweep_held_scenes[];
extern const size_t sweep_held_scene_count;
extern const struct sweep_scene sweep_realloc_scenes[];
extern const size_t sweep_realloc_scene_count;
extern const struct sweep_scene sweep_growable_scenes[];
extern const size_t sweep_growable_scene_count;
extern const struct sweep_scene sweep_export_scenes[];
extern const size_t sweep_export_scene_count;
extern const struct sweep_scene sweep_peer_scenes[];
extern const size_t sweep_peer_scene_count;
extern const struct sweep_scene sweep_mirror_scenes[];
extern const size_t sweep_mirror_scene_count;
extern const struct sweep_scene sweep_pause_scenes[];
extern const size_t sweep_pause_scene_count;

/*
 * For situations. sweep_have(): allocate, which must succeed, and fill. sweep_drop(): free, likewise.
 * sweep_last(): what was allocated last. sweep_busy(): give a stream work that goes on. sweep_finish(): end it.
 * sweep_create(): create the pool. sweep_capture(): begin to capture a stream. sweep_end(): end it; nothing may have
 * invalidated the capture.
 * sweep_end_try(): the same, if nothing has. sweep_destroy_graphs(): destroy all graphs of ended captures.
 */
void *sweep_have(struct sweep *s, size_t size, int stream);
void sweep_drop(struct sweep *s, void *ptr, int stream);
void *sweep_last(struct sweep *s);
/* Free extents of streams 0, 1 and 2, the first streams of which behind 0 up to @busy are at work, and a shortfall. */
void sweep_have_pieces(struct sweep *s, int busy);
void sweep_busy(struct sweep *s, int stream);
void sweep_finish(struct sweep *s, int stream);
/* Waits of the host for streams and events so far; and whether one was for work that is held. */
uint64_t sweep_host_waits(struct sweep *s);
bool sweep_waits_for_held(struct sweep *s);
int sweep_create(struct sweep *s);

/* Has what @with says in place of what @opts do. */
void sweep_override(struct vpmm_opts *opts, const struct vpmm_opts *with);
void sweep_capture(struct sweep *s, int stream);
void sweep_end(struct sweep *s, int stream);
int sweep_end_try(struct sweep *s, int stream);
void sweep_destroy_graphs(struct sweep *s);

/* In place of a stream's number: VPMM_STREAM_ANY, and the default stream. */
#define SWEEP_ANY (-1)
#define SWEEP_DEFAULT (-2)

/*
 * For actions: the same, which may fail; of sweep_free() also on one of the two. sweep_zero(): allocate
 * cleared memory. sweep_growable(): allocate a growable block. sweep_idle(): idle memory, with other flags.
 * sweep_aligned(): at a multiple of a power of two.
 */
int sweep_malloc(struct sweep *s, size_t size, int stream);
int sweep_aligned(struct sweep *s, size_t size, size_t alignment, int stream);
int sweep_zero(struct sweep *s, size_t size, int stream);
int sweep_growable(struct sweep *s, size_t size, size_t max, int stream);
int sweep_idle(struct sweep *s, size_t size, int stream, unsigned int flags);
int sweep_free(struct sweep *s, void *ptr, int stream);
int sweep_realloc(struct sweep *s, void **ptr, size_t size, int stream);

/**
 * sweep_add() - add a test for each action
 * @prefix: where in the tree of tests
 * @on: what it runs on; must stay valid
 * @ready: whether it is there; skips the test otherwise
 * @settled: called after each run, when everything is closed; may be NULL
 *
 * VPMM_TEST_SWEEP=N leaves out all runs but each Nth, for where a run takes long; with VPMM_TEST_SWEEP=full, none is
 * left out, and each looks at every word of what is allocated. VPMM_TEST_PAIRS=N has N pairs of calls fail, at random,
 * in each action with each kind of pool; with VPMM_TEST_PAIRS=all, each pair does.
 */
void sweep_add(const char *prefix, const struct sweep_device *on, bool (*ready)(void), void (*settled)(void));

#endif /* SWEEP_H */
