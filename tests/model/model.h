/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A plain model beside a pool: a list of what is allocated. The model knows what must hold whatever the pool decides:
 * allocations do not overlap, keep their bytes although work runs late, and what fails has changed nothing. A pool in
 * whole pages never holds more than the most that was ever allocated at once; one with extents creates memory beyond
 * its budget only when no whole extent is left that it could map instead. Whatever does not hold fails the test.
 */
#ifndef MODEL_H
#define MODEL_H

#include <stdbool.h>

#include "backend/backend.h"
#include "policy/growth.h"
#include "support/fault.h"
#include "support/fixture.h"

/* Devices of the host backend. The pools of a model are on the first. */
#define MODEL_DEVICES 3

struct model_allocation {
	char *ptr;
	size_t size;
	size_t max;			/* the most bytes that a growable one may have; 0: it is not growable */
	size_t align;			/* what its address is a multiple of; 0: what every one is */
	uint64_t bytes;			/* as the pool rounds it up; 0 for one that the driver serves, or @apart */
	uint64_t apart;			/* bytes of its own memory, which others can map; 0: it has none */
	bool imported;			/* that is another's, whose bytes it has */
	struct CUstream_st *stream;	/* whose work uses it */
	struct CUstream_st *first;	/* the one that it was allocated for */
	uint64_t pattern;
	GPtrArray *users;		/* streams that vpmm_use() has named, and that were not retired since */
	bool retired;			/* a stream among them was */
	GArray *graphs;			/* of uint64_t: the captures that it is part of */
	uint64_t maker;			/* the capture that it was allocated under; 0: none */
};

/* What was freed and has users, until they are past it, or is part of graphs, until those are retired. */
struct model_held {
	char *ptr;
	uint64_t bytes;
	bool small;			/* it was the driver's allocator's */
	unsigned int pending;		/* users that are not past the free */
	GArray *graphs;
};

/* The capture that is under way, of all pools of a program, and what was submitted under captures. */
struct model_capture {
	struct CUstream_st *stream;	/* NULL: none is */
	uint64_t id;
	GPtrArray *works;
	GHashTable *groups;		/* of uint64_t: the group of a capture, by its id */
};

/**
 * struct model - a pool, and what must be true of it
 * @f: the pool and the streams
 * @page_size: of the pool
 * @faulty: whether the pool is on the fault backend
 * @capacity: bytes of the device's memory; 0: as much as it takes
 * @few_mappings: whether the device has so few mappings that they may run out
 * @beside: whether other pools may exist on the device
 * @seldom: whether model_check() is not called after each call
 * @armed: whether the next call may fail
 * @errors: bit -err for each error that it may fail with
 * @capture: what is being captured; NULL: nothing ever is
 * @peers: of the pool, as bits by ordinal
 * @live: of struct model_allocation
 * @held: of struct model_held
 * @holds: whether anything ever was held, or captured
 * @over: the most that the pool may hold; more than its limit, if that was set to less
 * @beyond: of a pool of pages, what it holds over its peak
 * @uncovered: what its streams had cached without an event, before the latest step
 * @told: how often the program was told that memory is exhausted
 * @had: pattern to the stream that alone has had the memory
 * @patterns: how many were allocated
 * @bytes: live, of what the pool serves itself
 * @small_bytes: live, of what the driver serves
 * @shareable: live, of memory that others can map
 * @imported: live, of memory of others
 * @requested: live, as requested
 * @peak: the most that @bytes has been
 * @peak_shown: the same since the statistics' peaks were reset
 * @peak_requested: the most that @requested has been since then
 * @initial: bytes mapped at the start
 * @mapped: bytes mapped when last looked at, with the memory that others can map
 * @given_back: bytes given back to the device by then
 * @allowance: what the pool knew after the last request of how much it may hold over its peak
 * @mallocs: calls that succeeded
 * @frees: calls that succeeded
 * @sockets: the ends through which blocks come to the pool
 */
struct model {
	struct fixture f;
	size_t page_size;
	bool faulty;
	uint64_t capacity;
	bool few_mappings;
	bool beside;
	bool seldom;
	bool armed;
	uint64_t errors;
	struct model_capture *capture;
	uint64_t peers;
	GPtrArray *live;
	GPtrArray *held;
	bool holds;
	uint64_t over;
	uint64_t beyond;
	uint64_t uncovered;
	unsigned int told;
	GHashTable *had;
	uint64_t patterns;
	uint64_t bytes;
	uint64_t small_bytes;
	uint64_t shareable;
	uint64_t imported;
	uint64_t requested;
	uint64_t peak;
	uint64_t peak_shown;
	uint64_t peak_requested;
	uint64_t initial;
	uint64_t mapped;
	uint64_t given_back;
	struct allowance allowance;
	uint64_t mallocs;
	uint64_t frees;
	int sockets[2];
};

/**
 * model_open() - create a pool and streams
 * @m: receives them, with @m->capacity, @m->few_mappings, @m->beside and @m->capture already set
 * @opts: for the pool
 * @faulty: whether calls of the driver are to fail when told to
 */
void model_open(struct model *m, struct vpmm_opts opts, bool faulty);

/**
 * model_close() - complete all work, destroy the pool with all that is live, and find nothing left, unless others are
 * @m: the model; work on streams that are not the fixture's is complete
 */
void model_close(struct model *m);

/**
 * model_abandon() - the same with vpmm_pool_abandon()
 * @m: the model; work on streams that are not the fixture's is complete
 */
void model_abandon(struct model *m);

/**
 * model_end() - find that nothing can be done with the pool any more, and end it
 * @m: the model, whose device was reset when all work was complete
 * @abandon: by vpmm_pool_abandon(); otherwise by vpmm_pool_destroy()
 */
void model_end(struct model *m, bool abandon);

/**
 * model_arm() - make calls of the driver fail, during the next call of the pool
 * @m: the model, with faults
 * @op: which
 * @skip: how many of them pass first
 * @count: how many fail then
 * @err: with what
 */
void model_arm(struct model *m, enum backend_op op, unsigned int skip, unsigned int count, int err);

/**
 * model_disarm() - let the driver work again
 * @m: the model
 */
void model_disarm(struct model *m);

/**
 * model_may_fail() - judge the outcome of a call that may have met a fault, and disarm
 * @m: the model
 * @err: what the call returned
 *
 * Return: whether it failed.
 */
bool model_may_fail(struct model *m, int err);

/**
 * model_malloc() - allocate, and fill on the stream; what failed by a fault has to succeed without it
 * @m: the model
 * @size: bytes
 * @stream: whose work uses it
 */
void model_malloc(struct model *m, size_t size, struct CUstream_st *stream);

/**
 * model_malloc_flags() - the same with vpmm_malloc_flags()
 * @m: the model
 * @size: bytes
 * @stream: whose work uses it
 * @flags: of vpmm_malloc_flags(); VPMM_IDLE only where nothing is captured; VPMM_SHAREABLE only in a pool that exports
 *
 * Return: whether there was memory.
 */
bool model_malloc_flags(struct model *m, size_t size, struct CUstream_st *stream, unsigned int flags);

/**
 * model_malloc_growable() - the same with vpmm_malloc_growable()
 * @m: the model
 * @size: bytes, not 0
 * @max: the most bytes that it may have
 * @stream: whose work uses it
 *
 * Return: whether there was memory.
 */
bool model_malloc_growable(struct model *m, size_t size, size_t max, struct CUstream_st *stream);

/**
 * model_malloc_aligned() - the same with vpmm_malloc_aligned()
 * @m: the model
 * @size: bytes, not 0
 * @align: a power of two; where the pool cannot give it, the call has to say so
 * @stream: whose work uses it
 * @flags: VPMM_IDLE: for VPMM_STREAM_ANY, which nothing may be captured for; or 0
 *
 * Return: whether there was memory.
 */
bool model_malloc_aligned(struct model *m, size_t size, size_t align, struct CUstream_st *stream, unsigned int flags);

/**
 * model_share() - send an allocation, and have a pool receive it; both have its bytes from then on
 * @m: the model
 * @index: in @m->live, of one with memory of its own that was not received; it is the last of them afterwards
 * @to: the model of the receiver, which can be @m, and alone can be armed
 * @stream: whose work uses what was received, after what was submitted to the allocation's stream
 *
 * What failed by a fault has to succeed without it.
 */
void model_share(struct model *m, guint index, struct model *to, struct CUstream_st *stream);

/**
 * model_use() - let another stream look for the bytes of an allocation as well, whoever frees it
 * @m: the model
 * @index: in @m->live
 * @stream: the stream
 */
void model_use(struct model *m, guint index, struct CUstream_st *stream);

/**
 * model_retire_stream() - let a stream name nothing any more
 * @m: the model
 * @stream: the stream
 */
void model_retire_stream(struct model *m, struct CUstream_st *stream);

/**
 * model_replace_stream() - a stream is gone with all its work done, and another has what it had
 * @m: the model
 * @old: the stream, retired if it is anything's user
 * @stream: the other
 */
void model_replace_stream(struct model *m, struct CUstream_st *old, struct CUstream_st *stream);

/**
 * model_join_group() - let the capture that is under way share memory with others
 * @m: the model
 * @group: with those that joined this group; 0: with none
 */
void model_join_group(struct model *m, uint64_t group);

/**
 * model_set_limit() - change what the pool may hold
 * @m: the model
 * @bytes: the limit; 0: none
 */
void model_set_limit(struct model *m, uint64_t bytes);

/**
 * model_lose_graph() - let a graph be destroyed that is not retired
 * @m: the model
 * @id: of its capture; no launch of it comes after this call
 */
void model_lose_graph(struct model *m, uint64_t id);

/**
 * model_retire_graph() - let a graph have nothing any more
 * @m: the model
 * @id: of its capture
 * @stream: a stream behind its last launch
 */
void model_retire_graph(struct model *m, uint64_t id, struct CUstream_st *stream);

/**
 * model_has_graph() - whether an allocation is part of a graph
 * @a: the allocation
 * @id: of the graph's capture
 *
 * Return: whether it is.
 */
bool model_has_graph(const struct model_allocation *a, uint64_t id);

/**
 * model_restore() - write to an allocation what it had before a graph was launched that may have overwritten it
 * @m: the model
 * @a: the allocation
 * @stream: the stream of the launch
 */
void model_restore(struct model *m, const struct model_allocation *a, struct CUstream_st *stream);

/**
 * model_is_captured() - whether work on a stream becomes part of a graph
 * @m: the model
 * @stream: the stream
 *
 * Return: whether it does.
 */
bool model_is_captured(const struct model *m, const struct CUstream_st *stream);

/**
 * model_set_peers() - let other devices than before access the pool's memory, and see which do before and after
 * @m: the model; the host backend has MODEL_DEVICES devices
 * @peers: which, as bits by ordinal; not the first
 */
void model_set_peers(struct model *m, uint64_t peers);

/**
 * model_trim() - give memory back; what failed by a fault has to succeed without it
 * @m: the model
 * @keep: bytes that the pool is to hold on to
 */
void model_trim(struct model *m, size_t keep);

/**
 * model_query() - ask what a request would take, and be told the same without a fault
 * @m: the model
 * @size: bytes
 * @stream: that it would be for
 *
 * Return: one of enum vpmm_way; VPMM_WAY_NONE as well where the stream is being captured.
 */
int model_query(struct model *m, size_t size, struct CUstream_st *stream);

/**
 * model_move() - hand an allocation to another stream, which waits for the one that had it
 * @m: the model
 * @index: in @m->live
 * @stream: whose work uses it from now on
 */
void model_move(struct model *m, guint index, struct CUstream_st *stream);

/*
 * A stream that is being captured waits for nobody outside of the graph, as each launch waits for all streams; and
 * nobody outside can wait for it, so what it has, it keeps until then.
 */

/**
 * model_verify() - look for the bytes of an allocation, in the order of its stream
 * @m: the model
 * @index: in @m->live
 */
void model_verify(struct model *m, guint index);

/**
 * model_free() - verify and free on the allocation's stream; what failed by a fault has to succeed without it
 * @m: the model
 * @index: in @m->live
 */
void model_free(struct model *m, guint index);

/**
 * model_free_any() - free on VPMM_STREAM_ANY, while a stream that the pool was not told of reads the allocation
 * @m: the model; nothing is captured
 * @index: in @m->live
 * @stream: the stream
 */
void model_free_any(struct model *m, guint index, struct CUstream_st *stream);

/**
 * model_realloc() - change the size on a stream, which comes behind all uses; find what is to be kept, and fill anew
 * @m: the model
 * @index: in @m->live; the allocation is the last of them afterwards
 * @size: bytes, not 0
 * @stream: the stream
 *
 * What failed by a fault has to succeed without it. Where the allocation cannot be had, all is as before.
 */
void model_realloc(struct model *m, guint index, size_t size, struct CUstream_st *stream);

/**
 * model_lookup() - find an allocation by addresses in it, and none behind it
 * @m: the model
 * @index: in @m->live
 */
void model_lookup(struct model *m, guint index);

/**
 * model_reset_peaks() - let the statistics' peaks begin anew
 * @m: the model
 */
void model_reset_peaks(struct model *m);

/**
 * model_complete() - complete some of a stream's work, as far as it waits for nobody
 * @m: the model
 * @stream: the stream
 * @n: how many pieces
 */
void model_complete(struct model *m, struct CUstream_st *stream, unsigned int n);

/**
 * model_complete_all() - complete everything, through streams that wait for each other
 * @m: the model
 */
void model_complete_all(struct model *m);

/**
 * model_check() - hold the pool against the model
 * @m: the model, not armed
 */
void model_check(struct model *m);

#endif /* MODEL_H */
