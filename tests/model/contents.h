/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A program of random operations on pools, written against the public headers alone, that checks contents at the moment
 * work runs. Work writes a block's pattern and later work, on any stream that the program has ordered behind it, looks
 * for it. Whatever is found instead is an error that names the seed, the step and who wrote it.
 *
 * The program keeps the rules of vpmm(7) and no others. It knows which work is behind which from a vector clock for
 * each stream and from what it has seen run, and adds a wait only where neither will do: each wait that is not needed
 * would hide one that the library forgot.
 *
 * Each worker is a thread with streams of its own. Blocks go from worker to worker; one has a block at a time.
 */
#ifndef CONTENTS_H
#define CONTENTS_H

#include <pthread.h>
#include <stdbool.h>

#include "model/contents-run.h"
#include "support/fixture.h"

#define CONTENTS_POOLS 2
#define CONTENTS_DEVICES 3
#define CONTENTS_GROUPS 2

struct block;
struct graph;
struct range;
struct run;
struct worker;

/**
 * struct stream - a stream, and what is ordered before its next work
 * @handle: the stream; another may have it once this one is gone
 * @index: in @seen of all streams
 * @owner: the only one who submits to it
 * @per_thread: whether it is the owner's per-thread default stream, which other threads cannot name
 * @legacy: whether it is the legacy default stream
 * @lock: held where another thread than the owner uses the handle, and where the owner changes @gone and @captured
 * @gone: it was destroyed, all its work done
 * @captured: it is under capture
 * @at: the last position given out; atomic
 * @ran: the position of the last work that ran; atomic
 * @seen: of uint64_t, by index of a stream: the position that this stream is behind
 * @epoch: how often it was retired
 * @named: live blocks and ranges that vpmm_use() has named it for; atomic
 */
struct stream {
	struct CUstream_st *handle;
	unsigned int index;
	struct worker *owner;
	bool per_thread;
	bool legacy;
	pthread_mutex_t lock;
	bool gone;
	bool captured;
	uint64_t at;
	uint64_t ran;
	GArray *seen;
	unsigned int epoch;
	gint named;
};

/* What one stream has done with a block, by positions; 0: nothing that others need to come after. */
struct record {
	struct stream *stream;
	uint64_t last;
	uint64_t wrote;
	uint64_t covered;	/* up to here, the library waits for it when the block is freed */
	bool named;
	unsigned int epoch;	/* of the stream when it was named */
};

/**
 * struct shadow - what the memory of a block holds by now, as work has run
 * @ptr: the block's memory, as work of the device has it
 * @touched: the same for the CPU
 * @size: bytes
 * @stride: bytes between the words that are looked at, in a large block
 * @key: of the pattern; 0: zeros; ordered by the streams, as the memory itself is
 * @own: 1 plus the index of the one stream that has had the block when it was freed or became smaller, if there is
 *	one; atomic
 * @number: of the block
 * @trail: what was done with it, for whoever finds it damaged
 * @before: the block that this one was before its size changed; NULL: none
 */
struct shadow {
	char *ptr;
	char *touched;
	size_t size;
	size_t stride;
	uint32_t key;
	gint own;
	unsigned int number;
	GString *trail;
	struct shadow *before;
};

/**
 * struct block - an allocation
 * @shadow: its memory
 * @pool: index of its pool
 * @max: the most bytes that it can have where it is; 0: it is not growable
 * @first: the stream that it was allocated for; NULL: one under capture, whose memory nobody has to wait for
 * @born: the position of that in the stream
 * @records: of struct record
 * @graphs: those that it belongs to
 * @made_by: the graph under whose capture it was allocated, or NULL
 * @freed_by: the graph under whose capture it was freed, or NULL
 * @group: that its memory may come from, which graphs share; 0: none
 * @joined: when the graph that made it joined that
 * @node_last: the captured stream whose node had it last
 * @key: of what was submitted last
 * @graphed: graphs have written it, so that nobody knows the pattern before work runs
 * @written: there is something to look for
 * @unborn: its graph was never launched
 * @of_driver: the driver's allocator serves it
 * @shared: it was named to the pool, or part of a graph
 * @apart: it has memory of its own, which other pools can map
 * @imported: that is another block's memory
 * @kept: its size could not be changed, and what the library did for that may be under way
 * @untold: a graph that has it was only destroyed
 * @word: the tag that it was allocated under, and its bits; 0: none
 */
struct block {
	struct shadow *shadow;
	unsigned int pool;
	size_t max;
	struct stream *first;
	uint64_t born;
	GArray *records;
	GPtrArray *graphs;
	struct graph *made_by;
	struct graph *freed_by;
	uint64_t group;
	uint64_t joined;
	struct stream *node_last;
	uint32_t key;
	bool graphed;
	bool written;
	bool unborn;
	bool of_driver;
	bool shared;
	bool apart;
	bool imported;
	bool kept;
	bool untold;
	vpmm_tag word;
};

struct graph {
	struct vpmm_host_graph *graph;	/* NULL: the capture failed */
	uint64_t id;
	uint64_t group;			/* 0: it has memory that no other graph has */
	uint64_t joined;
	GPtrArray *blocks;
	struct stream *last;		/* where it was launched last; NULL: nowhere */
	uint64_t last_at;
};

/* The capture that is under way on a worker's streams. */
struct capture {
	struct graph *graph;		/* NULL: none is */
	struct stream *origin;
	struct stream *joined;		/* or NULL */
	bool broken;
};

/* Graphs of a worker that share memory, and so run one after another. */
struct group {
	struct stream *last;		/* where one of them was launched last; NULL: nowhere */
	uint64_t last_at;
};

/**
 * struct worker - a thread
 * @run: what it is part of
 * @index: of the worker
 * @rand: what it does
 * @odd: what it does when it does not repeat itself
 * @step: how far it has come
 * @armed: calls of the driver could fail during its last call
 * @paused: by pool: its tag is paused
 * @bytes: of its blocks
 * @live: its blocks
 * @streams: its streams
 * @graphs: those that may be launched or are not retired
 * @groups: of graphs
 * @joins: how often a capture has joined a group
 * @capture: what it captures
 * @ranges: of struct range
 * @sockets: the ends through which its blocks go from pool to pool
 * @blocks: all blocks that it has allocated
 * @shadows: of those
 * @kept: what graphs refer to until the run is over
 * @thread: of a run with several
 */
struct worker {
	struct run *run;
	unsigned int index;
	GRand *rand;
	GRand *odd;
	unsigned int step;
	bool armed;
	bool paused[CONTENTS_POOLS];
	uint64_t bytes;
	GPtrArray *live;
	GPtrArray *streams;
	GPtrArray *graphs;
	struct group groups[CONTENTS_GROUPS];
	uint64_t joins;
	struct capture capture;
	GPtrArray *ranges;
	int sockets[2];
	GPtrArray *blocks;
	GPtrArray *shadows;
	GPtrArray *kept;
	pthread_t thread;
};

/**
 * struct run - what comes of one seed
 * @seed: the seed
 * @steps: of each worker
 * @text: the options
 * @folder: for files of the pools
 * @names: of those
 * @pools: the pools
 * @opts: of each
 * @n_pools: how many there are
 * @limited: whether allocations may fail for want of memory
 * @captures: whether there are any; not beside the legacy default stream
 * @calm: whether no call of the driver fails any more
 * @ranges: whether there are addresses that the CPU and the device share
 * @tags: whether there are blocks of tags, which are paused and resumed
 * @repeats: so many steps are done with one stream, before there are others; 0: there are others from the start
 * @pass: of these, so many are repeated again and again
 * @odd: of so many steps that are repeated, one is another; 0: none is
 * @plain: what is repeated is hardly more than mallocs and frees
 * @lazy: of so many steps, one completes work
 * @checks: of so many steps, one is followed by vpmm_pool_check()
 * @workers: the workers
 * @n_workers: how many there are
 * @lock: guards @streams and @mail
 * @begins: no capture begins while it is read, as a free may record an event on each stream that vpmm_use() has named.
 *  A call may make others in its thread, and readers do not wait for that
 * @streams: all that there ever were
 * @mail: blocks on their way from one worker to another
 * @keys: the last key of a pattern; atomic
 * @writers: by key, the shadow that has it; atomic
 * @owners: by key, 1 plus the index of a stream whose own the pattern is, whoever had the block; 0: none; atomic
 * @words: how many were looked at; atomic
 * @works: how many times work has looked at a block; atomic
 * @mallocs: by pool; atomic
 * @frees: by pool; atomic
 */
struct run {
	guint32 seed;
	unsigned int steps;
	GString *text;
	char *folder;
	GPtrArray *names;
	struct vpmm_pool *pools[CONTENTS_POOLS];
	struct vpmm_opts opts[CONTENTS_POOLS];
	unsigned int n_pools;
	bool limited;
	bool captures;
	bool calm;
	bool ranges;
	bool tags;
	unsigned int repeats;
	unsigned int pass;
	gint32 odd;
	bool plain;
	unsigned int lazy;
	unsigned int checks;
	struct worker workers[CONTENTS_WORKERS];
	unsigned int n_workers;
	pthread_mutex_t lock;
	pthread_rwlock_t begins;
	GPtrArray *streams;
	GPtrArray *mail;
	uint32_t keys;
	struct shadow **writers;
	gint *owners;
	uint64_t words;
	uint64_t works;
	uint64_t mallocs[CONTENTS_POOLS];
	uint64_t frees[CONTENTS_POOLS];
};

/* Fails the test, with the seed and the options. */
#define contents_fail(run, format, ...) \
	g_error("seed %u (%s): " format, (run)->seed, (run)->text->str, __VA_ARGS__)

#define contents_ok(run, call) \
	do { \
		int err_ = (call); \
		if (err_) \
			contents_fail(run, "%s: %d, %s", #call, err_, vpmm_last_error()); \
	} while (0)

/* A call of the program on a pool, during which calls of the driver may fail, and what it returns. */
#define contents_call(w, pool, call) \
	({ \
		int result_; \
		contents_arm(w, pool); \
		result_ = (call); \
		contents_disarm(w, pool); \
		result_; \
	})

/* A call that frees or resizes a block. */
#define contents_end(w, call) \
	({ \
		int ended_; \
		pthread_rwlock_rdlock(&(w)->run->begins); \
		ended_ = (call); \
		pthread_rwlock_unlock(&(w)->run->begins); \
		ended_; \
	})

/* Whether a call is successful that fails for nothing else. */
#define contents_try(w, pool, call) \
	({ \
		int err_ = contents_call(w, pool, call); \
		if (err_ && !(w)->armed) \
			contents_fail((w)->run, "%s: %d, %s", #call, err_, vpmm_last_error()); \
		!err_; \
	})

/* One that is made once more if it fails. */
#define contents_make(w, pool, call) \
	do { \
		if (!contents_try(w, pool, call)) \
			contents_ok((w)->run, call); \
	} while (0)

/**
 * contents_arm() - have calls of the driver fail, now and then
 * @w: the worker
 * @pool: index of the pool
 */
void contents_arm(struct worker *w, unsigned int pool);

/**
 * contents_disarm() - the call is over
 * @w: the worker
 * @pool: index of the pool
 */
void contents_disarm(struct worker *w, unsigned int pool);

/**
 * contents_one_in() - a decision
 * @w: the worker
 * @n: how rare it is
 *
 * Return: true, once in @n times.
 */
bool contents_one_in(struct worker *w, int n);

/**
 * contents_connect() - take new sockets, with nothing under way
 * @w: the worker
 */
void contents_connect(struct worker *w);

/**
 * contents_pool() - the pool of a block
 * @w: the worker
 * @pool: its index
 *
 * Return: the pool, or NULL, which stands for it wherever an address is given.
 */
struct vpmm_pool *contents_pool(struct worker *w, unsigned int pool);

/* contents-stream.c */

/**
 * stream_new() - a stream that is known to the run
 * @w: its owner
 * @handle: the handle, or NULL for the legacy default stream
 *
 * Return: the stream, among those of its owner.
 */
struct stream *stream_new(struct worker *w, struct CUstream_st *handle);

/**
 * stream_free() - let go of a stream that is no more
 * @data: the stream
 */
void stream_free(gpointer data);

/**
 * stream_any() - one of a worker's streams that are not under capture
 * @w: the worker
 *
 * Return: the stream, or NULL.
 */
struct stream *stream_any(struct worker *w);

/**
 * stream_next() - take a position for a call that is submitted
 * @s: the stream, the worker's own
 *
 * Return: the position.
 */
uint64_t stream_next(struct stream *s);

/**
 * stream_behind() - see to it that what is submitted from now on is behind something
 * @s: the worker's own stream, not under capture
 * @other: a stream
 * @position: in @other; 0: the beginning
 *
 * Return: whether it is; where @other is under capture, or another thread's, that may not be possible.
 */
bool stream_behind(struct stream *s, struct stream *other, uint64_t position);

/**
 * stream_complete() - complete some of a stream's work, as far as it waits for nobody
 * @w: who does it
 * @s: anybody's stream
 * @n: how many pieces
 *
 * Return: whether what is next waits for another stream.
 */
bool stream_complete(struct worker *w, struct stream *s, unsigned int n);

/**
 * stream_has_run() - complete what a stream has up to a position, as far as it waits for nobody
 * @w: who does it
 * @s: anybody's stream
 * @position: in the stream
 *
 * Return: whether all of that is done.
 */
bool stream_has_run(struct worker *w, struct stream *s, uint64_t position);

/**
 * stream_complete_any() - the same of a random one
 * @w: who does it
 */
void stream_complete_any(struct worker *w);

/**
 * stream_complete_all() - complete all work of all streams, with nobody else about
 * @w: who does it
 */
void stream_complete_all(struct worker *w);

/**
 * stream_retire() - tell the pools that a stream goes, or rests
 * @s: the worker's own stream
 */
void stream_retire(struct stream *s);

/**
 * stream_renew() - destroy a stream and take another, with and without a word to the pools
 * @w: the owner
 */
void stream_renew(struct worker *w);

/* contents-block.c */

/**
 * block_new() - allocate
 * @w: the worker
 * @s: the stream, under capture or not
 * @flags: of vpmm_malloc_flags()
 *
 * Return: the block, among those of the worker; NULL where memory has run out.
 */
struct block *block_new(struct worker *w, struct stream *s, unsigned int flags);

/**
 * block_release_records() - let go of the streams that were named for a block
 * @records: of struct record
 */
void block_release_records(GArray *records);

/**
 * block_free_struct() - let go of what is known of a block
 * @data: the block
 */
void block_free_struct(gpointer data);

/**
 * block_any() - one of a worker's blocks
 * @w: the worker
 *
 * Return: the block, or NULL.
 */
struct block *block_any(struct worker *w);

/**
 * block_record() - what a stream has done with a block
 * @b: the block
 * @s: the stream
 *
 * Return: the record, valid until another is made.
 */
struct record *block_record(struct block *b, struct stream *s);

/**
 * block_settle() - complete what was submitted for a block, as far as that waits for nobody
 * @w: the worker
 * @b: the block
 *
 * Return: whether all of it is done, so that the CPU is behind it.
 */
bool block_settle(struct worker *w, struct block *b);

/**
 * block_access() - look at a block on a stream, or write it, behind all that must come before
 * @w: the worker
 * @b: the block
 * @s: the stream, not under capture
 * @write: whether it is written
 *
 * Return: whether it could be.
 */
bool block_access(struct worker *w, struct block *b, struct stream *s, bool write);

/**
 * block_name() - tell the pool of a stream that uses a block
 * @w: the worker
 * @b: the block
 * @s: the worker's own stream, not under capture
 *
 * Return: whether that could be done.
 */
bool block_name(struct worker *w, struct block *b, struct stream *s);

/**
 * block_release() - free a block on a stream that is behind all its uses, but for those that the pool was told of
 * @w: the worker
 * @b: the block
 * @s: the stream, not under capture
 *
 * Return: whether it could be.
 */
bool block_release(struct worker *w, struct block *b, struct stream *s);

/* contents-resize.c */

/**
 * block_replace() - change the size of a block: to the program, what comes of that is another block
 * @w: the worker
 * @b: the block
 * @s: the stream, under capture or not, which may free it
 * @size: bytes
 *
 * Return: the other block, with nothing looked at; NULL where memory has run out, or a stream cannot be waited for.
 */
struct block *block_replace(struct worker *w, struct block *b, struct stream *s, size_t size);

/**
 * block_resize() - change the size of a block on a stream that could free it, and look at what is kept
 * @w: the worker
 * @b: the block
 * @s: the stream, not under capture
 */
void block_resize(struct worker *w, struct block *b, struct stream *s);

/**
 * block_released() - a block was freed
 * @w: the worker
 * @b: the block
 */
void block_released(struct worker *w, struct block *b);

/**
 * block_share() - map memory once more, in any pool, and free the block that had it, or the other
 * @w: the worker
 * @b: the block
 * @s: the worker's own stream, not under capture
 */
void block_share(struct worker *w, struct block *b, struct stream *s);

/**
 * block_burst() - allocate and free on one stream, again and again, and then on another
 * @w: the worker
 * @s: the stream, not under capture
 */
void block_burst(struct worker *w, struct stream *s);

/**
 * block_unused() - allocate what is cleared, free it on any stream, and allocate as much once more
 * @w: the worker
 * @s: the stream, not under capture
 */
void block_unused(struct worker *w, struct stream *s);

/**
 * block_less() - have a block become smaller that a named stream still reads, and write it
 * @w: the worker
 * @s: its stream
 */
void block_less(struct worker *w, struct stream *s);

/**
 * block_hand_on() - allocate where the stream has had more, and have a block of as much again on another
 * @w: the worker
 * @s: the stream, not under capture
 */
void block_hand_on(struct worker *w, struct stream *s);

/* contents-graph.c */

/**
 * graph_step() - something about captures and graphs
 * @w: the worker
 */
void graph_step(struct worker *w);

/**
 * graph_end() - end the capture that is under way, if one is
 * @w: the worker
 */
void graph_end(struct worker *w);

/**
 * graph_retire() - let a graph have nothing any more
 * @w: the worker
 * @index: in @w->graphs
 *
 * Return: whether that could be done.
 */
bool graph_retire(struct worker *w, guint index);

/**
 * graph_free() - let go of what is known of a graph
 * @data: the graph
 */
void graph_free(gpointer data);

/* contents-range.c */

/**
 * range_step() - something about addresses that the CPU and the device share
 * @w: the worker
 */
void range_step(struct worker *w);

/**
 * range_look() - look at all of a worker's ranges with the CPU, and free most of them
 * @w: the worker; all work is complete
 */
void range_look(struct worker *w);

/**
 * range_free_struct() - let go of what is known of a range
 * @data: the range
 */
void range_free_struct(gpointer data);

/* contents-tag.c */

/**
 * tag_any() - what a block is to be allocated under
 * @w: the worker
 * @pool: index of the pool
 * @s: the stream
 * @flags: of vpmm_malloc_flags()
 *
 * Return: the worker's tag, and bits; or 0.
 */
vpmm_tag tag_any(struct worker *w, unsigned int pool, const struct stream *s, unsigned int flags);

/**
 * tag_is_paused() - whether a block has no memory, so that it can only be freed
 * @w: the worker
 * @b: its block
 *
 * Return: whether that is so.
 */
bool tag_is_paused(const struct worker *w, const struct block *b);

/**
 * tag_step() - pause the worker's tag in a pool, or resume it
 * @w: the worker
 */
void tag_step(struct worker *w);

/**
 * tag_end() - resume what is paused, if there is memory
 * @w: the worker
 */
void tag_end(struct worker *w);

#endif /* CONTENTS_H */
