/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared by the files of exported calls. Hidden outside of the library, so that the hot path reads variables without
 * indirection.
 */
#ifndef API_H
#define API_H

#include <glib.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "calls/pool.h"
#include "util/line.h"
#include "util/lock.h"

/* Default pools: one for each device below this ordinal. Others need a pool's handle. */
#define API_DEFAULT_POOLS 64

/**
 * struct api_here - where a default pool is; never changed once a thread can find it, and never freed
 * @place: that of its backend
 * @pool: the pool
 */
struct api_here {
	const void *place;
	struct vpmm_pool *pool;
};

/**
 * struct api_defaults - the default pools, and what else the exported calls share
 * @lock: held while a default pool is created
 * @ops: of their backend; NULL before the first is created
 * @generation: the number of forks between this process and the one that created its first pool. A pool of another
 *	generation is the parent's
 * @plain_generation: what core.generation must equal for api_is_plain(), one comparison for two conditions: @generation
 *	as long as no thread has set a tag, API_PLAIN_NEVER from then on
 * @here: of the pools that have a @place. NULL ends them; that of a pool that is gone is replaced by one without a
 *	place
 * @pools: by device
 */
struct api_defaults {
	struct lock lock;
	/* A cache line for the calls that a cache serves: */
	_Alignas(LINE_SIZE) const struct backend_ops *ops;
	unsigned int generation;
	_Atomic unsigned int plain_generation;
	const struct api_here *here[API_DEFAULT_POOLS + 1];
	struct vpmm_pool *pools[API_DEFAULT_POOLS];
};

extern struct api_defaults api_defaults G_GNUC_INTERNAL;

#define API_PLAIN_NEVER UINT_MAX

/* Whether a thread has ever set a tag, or VPMM_TAG has. */
static inline bool api_tagged(void)
{
	return G_UNLIKELY(atomic_load_explicit(&api_defaults.plain_generation, memory_order_relaxed) == API_PLAIN_NEVER);
}

/* Whether another thread may have held a lock when this process was forked. */
static inline bool api_is_forked(void)
{
	return api_defaults.generation;
}

/**
 * api_refuse_fork() - refuse a call that takes locks of the process, in a forked child
 *
 * Return: 0, or -EBUSY, with the error set.
 */
int api_refuse_fork(void) G_GNUC_INTERNAL;

/*
 * Whether a cache may be asked before anything else: the pool has caches, its calls are neither recorded nor sampled,
 * no thread has ever set a tag, and the pool is this process's.
 */
static inline bool api_is_plain(const struct vpmm_pool *pool)
{
	return pool->core.direct &&
	       pool->core.generation == atomic_load_explicit(&api_defaults.plain_generation, memory_order_relaxed);
}

/**
 * api_owner() - find the pool that a block is allocated from
 * @addr: where the block starts
 * @pool: a pool that the caller asks itself, or NULL; receives the pool of the block, which cannot be destroyed as long
 *	as nobody frees the block, and stays as it is if there is none
 *
 * Waits for no call of another pool than the block's.
 *
 * Context: no lock held; not in a forked child.
 * Return: 0, or -EINVAL: the address is inside of a block of another pool, which the error names.
 */
int api_owner(uint64_t addr, struct vpmm_pool **pool) G_GNUC_INTERNAL;

/**
 * api_find_default() - the default pool of the current device
 * @pool: receives it; unchanged if there is none yet, or if its context is gone, with which it goes
 *
 * Return: 0, or an error of the backend.
 */
int api_find_default(struct vpmm_pool **pool) G_GNUC_INTERNAL;

/**
 * api_resolve() - the pool that a call means
 * @pool: the pool; NULL: the default pool of the current device, created if there is none yet, which it receives
 * @call: the name of the call
 *
 * Return: 0, or as vpmm_pool_create(); or -ENODEV if the device cannot have a default pool.
 */
int api_resolve(struct vpmm_pool **pool, const char *call) G_GNUC_INTERNAL;

/**
 * api_resolve_for() - api_resolve(), with the name of the call in the text of an error
 * @pool: as there
 * @call: the name of the call
 *
 * Return: as there.
 */
int api_resolve_for(struct vpmm_pool **pool, const char *call) G_GNUC_INTERNAL;

/**
 * api_find_owner() - the pool that a block is allocated from
 * @pool: receives the pool; one that it has stays where none has the block, to say so itself
 * @ptr: where the block starts
 *
 * Return: 0, -EINVAL or -EBUSY.
 */
int api_find_owner(struct vpmm_pool **pool, const void *ptr) G_GNUC_INTERNAL;

/**
 * api_resolve_owner() - the pool that a call on a block means
 * @pool: the pool; NULL: the pool that the block is allocated from, which it receives
 * @ptr: where the block starts
 * @call: the name of the call
 *
 * Return: 0, also if a default pool is there to say that no pool has the block; or -EINVAL or -EBUSY.
 */
int api_resolve_owner(struct vpmm_pool **pool, const void *ptr, const char *call) G_GNUC_INTERNAL;

/**
 * api_check_stream() - refuse VPMM_STREAM_ANY, in a call that needs one stream
 * @stream: the stream
 * @call: the name of the call
 *
 * Return: 0 or -EINVAL.
 */
int api_check_stream(const struct CUstream_st *stream, const char *call) G_GNUC_INTERNAL;

/**
 * api_enter_pool() - enter the backend of a pool, if the pool is this process's
 * @pool: the pool
 *
 * Return: 0, -EBUSY in a forked child, or as the backend's enter.
 */
int api_enter_pool(struct vpmm_pool *pool) G_GNUC_INTERNAL;

/**
 * api_enter() - begin a call that may do without the lock of the pool
 * @pool: the pool; NULL: the default pool of the current device, which it receives
 * @call: what the call calls itself when it fails
 *
 * Return: 0, with the backend entered; or an error.
 */
int api_enter(struct vpmm_pool **pool, const char *call) G_GNUC_INTERNAL;

/**
 * api_lock() - acquire the lock of a pool
 * @pool: the pool
 *
 * Under the lock there are cancellation points: calls of the kernel that the host backend makes, and whatever a driver
 * does. The thread must not end there.
 */
void api_lock(struct vpmm_pool *pool) ACQUIRE(pool->core.lock) G_GNUC_INTERNAL;

/**
 * api_leave() - release the lock, leave the backend, and deliver the log
 * @pool: the pool
 * @err: the result of the call
 *
 * The thread can be cancelled only after that: nothing else would free the messages, or the block of a malloc.
 *
 * Return: @err, with errno set to match.
 */
int api_leave(struct vpmm_pool *pool, int err) RELEASE(pool->core.lock) G_GNUC_INTERNAL;

/**
 * api_begin() - begin a call that takes the lock of a pool
 * @pool: the pool; NULL: the default pool of the current device, which it receives
 * @call: the name of the call
 *
 * Return: 0, with the backend entered and the lock held; or an error, with neither.
 */
int api_begin(struct vpmm_pool **pool, const char *call) TRY_ACQUIRE(0, (*pool)->core.lock) G_GNUC_INTERNAL;

/**
 * api_end() - end a call: release the lock, leave the backend, and deliver the log
 * @pool: the pool
 * @call: the name of the call
 * @err: its result
 *
 * Return: @err, with errno set to match.
 */
int api_end(struct vpmm_pool *pool, const char *call, int err) RELEASE(pool->core.lock) G_GNUC_INTERNAL;

/**
 * api_part() - end a call as api_end() does, but leave its failure to api_fail(), as it may be tried again
 * @pool: the pool
 * @call: the name of the call
 * @err: its result
 *
 * Return: @err, with errno set to match.
 */
int api_part(struct vpmm_pool *pool, const char *call, int err) RELEASE(pool->core.lock) G_GNUC_INTERNAL;

/**
 * api_fail() - log the failure of a call that holds no lock any more
 * @pool: the pool
 * @err: the error
 *
 * Return: @err, with errno set to match.
 */
int api_fail(struct vpmm_pool *pool, int err) G_GNUC_INTERNAL __attribute__((cold));

/**
 * api_each() - do something to a pool and to each of its arenas, between api_begin() and api_end()
 * @pool: the pool; NULL: the default pool of the current device
 * @call: the name of the call
 * @fn: does it, with the lock of the pool or arena held, and returns 0 or an error
 * @data: passed to it
 *
 * No arena is made meanwhile. An error does not keep it from the arenas that are left.
 *
 * Return: 0, or the first error.
 */
int api_each(struct vpmm_pool *pool, const char *call, int (*fn)(struct vpmm_pool *pool, void *data), void *data)
	G_GNUC_INTERNAL;

/**
 * api_find_arena() - the pool that serves a block of a pool: one of its arenas, or itself
 * @pool: the pool that a call was given; receives the arena
 * @ptr: the block
 */
void api_find_arena(struct vpmm_pool **pool, const void *ptr) G_GNUC_INTERNAL;

/**
 * api_ask_for_memory() - have other pools of the budget, arenas or shared ranges give memory, or ask the program's
 *	callback
 * @pool: the pool, whose request has failed for want of memory
 * @size: bytes of the request
 * @until: when to end waiting for other pools; 0 at the first time
 *
 * Context: no lock held. The error's text stays.
 * Return: whether one gave any, so that the request is to be tried again.
 */
bool api_ask_for_memory(struct vpmm_pool *pool, size_t size, uint64_t *until) G_GNUC_INTERNAL;

/**
 * api_budget_ask() - have other pools of the budget give memory
 * @pool: the pool, as above; without a budget there are none
 * @size: bytes of the request
 * @until: as above
 *
 * Return: whether one gave any, or has ended.
 */
bool api_budget_ask(struct vpmm_pool *pool, size_t size, uint64_t *until) G_GNUC_INTERNAL;

/**
 * api_budget_give() - give other pools of the budget what takes another lock than the pool's, and answer them
 * @pool: the pool, its backend entered
 * @bytes: of pool_budget_end_call(); 0: nothing is to be done
 *
 * Context: no core.lock held. The error's text stays.
 */
void api_budget_give(struct vpmm_pool *pool, uint64_t bytes) G_GNUC_INTERNAL;

/**
 * api_budget_end_call() - pool_budget_end_call() and api_budget_give(), for a call that does not hold the pool's lock
 * @pool: the pool, its backend entered
 *
 * Context: no core.lock held. The error's text stays.
 */
void api_budget_end_call(struct vpmm_pool *pool) G_GNUC_INTERNAL;

/**
 * api_budget_begin() - start the thread that answers other pools of the budget
 * @pool: the pool, which no other thread knows yet
 */
void api_budget_begin(struct vpmm_pool *pool) G_GNUC_INTERNAL;

/**
 * api_budget_end() - end that thread
 * @pool: the pool, which is about to be destroyed
 */
void api_budget_end(struct vpmm_pool *pool) G_GNUC_INTERNAL;

/**
 * api_allocate() - allocate as vpmm_malloc() does
 * @pool: the pool; NULL: the default pool
 * @ptr: receives the address
 * @size: bytes
 * @stream: the stream
 * @call: what it calls itself when it fails
 *
 * Return: as vpmm_malloc().
 */
int api_allocate(struct vpmm_pool *pool, void **ptr, size_t size, struct CUstream_st *stream,
		 const char *call) G_GNUC_INTERNAL;

/**
 * api_dump_exhausted() - write the file of VPMM_OOM_DUMP, if this is the pool's first failure for want of memory
 * @pool: the pool
 * @size: bytes of the request
 *
 * Context: no lock held. The error's text stays.
 */
void api_dump_exhausted(struct vpmm_pool *pool, size_t size) G_GNUC_INTERNAL;

/**
 * api_ask_within_limit() - as api_ask_for_memory(), unless no memory could serve the request
 */
bool api_ask_within_limit(struct vpmm_pool *pool, size_t size, uint64_t *until) G_GNUC_INTERNAL;

/**
 * api_ask_for_pages() - the same for pages of shared ranges, which other ranges give by themselves
 * @pool: the pool, as above
 * @size: bytes that the call is about
 * @missing: bytes of them that there is no memory for
 * @until: as above
 *
 * Return: as above.
 */
bool api_ask_for_pages(struct vpmm_pool *pool, size_t size, size_t missing, uint64_t *until) G_GNUC_INTERNAL;

/**
 * api_tell_exhausted() - tell the program's callback that a request fails for want of memory
 * @pool: the pool
 * @size: bytes of the request
 *
 * Context: no lock held. The error's text stays.
 */
void api_tell_exhausted(struct vpmm_pool *pool, size_t size) G_GNUC_INTERNAL;

/*
 * VPMM_TOP: publishes what pools have, for vpmm-top. A thread looks at them a few times a second, as long as there is
 * one, so that calls do nothing for it. It makes no call of the driver.
 */

/**
 * top_join() - publish a pool
 * @pool: the pool, just made
 *
 * Return: 0, or -ENOMEM: there is no file or thread for it.
 */
int top_join(struct vpmm_pool *pool) G_GNUC_INTERNAL;

/**
 * top_leave() - publish a pool no more
 * @pool: the pool; one that never joined does nothing
 */
void top_leave(struct vpmm_pool *pool) G_GNUC_INTERNAL;

/**
 * top_forked() - this is a forked child: nobody holds the lock
 */
void top_forked(void) G_GNUC_INTERNAL;

/* VPMM_PAUSABLE: a thread that pauses and resumes tags for vpmm-pause(1). */

/**
 * control_join() - let vpmm-pause have a pool, if VPMM_PAUSABLE says so
 * @pool: the pool, just made
 *
 * Return: 0, -EINVAL for a bad value, or what keeps the process from a socket or a thread.
 */
int control_join(struct vpmm_pool *pool) G_GNUC_INTERNAL;

/**
 * control_leave() - the pool is about to be destroyed: wait until nothing is done to it any more
 * @pool: the pool; one that never joined does nothing
 */
void control_leave(struct vpmm_pool *pool) G_GNUC_INTERNAL;

/**
 * control_set_guard() - as vpmm_pause_guard()
 * @guard: as there
 * @data: as there
 */
void control_set_guard(vpmm_guard_fn guard, void *data) G_GNUC_INTERNAL;

/**
 * control_forked() - this is a forked child: nobody holds the lock; let go of the parent's socket
 */
void control_forked(void) G_GNUC_INTERNAL;

enum pause_what {
	PAUSE_PAUSE,
	PAUSE_RESUME,
	PAUSE_PREPARE
};

/**
 * struct pause_request - what is to be done with the arenas of tags
 * @what: pause, resume, or make host memory
 * @tag: the tag, pausable, or VPMM_TAG_ALL
 * @flags: of vpmm_pause()
 * @stream: of vpmm_resume(), or VPMM_STREAM_ANY
 */
struct pause_request {
	enum pause_what what;
	vpmm_tag tag;
	unsigned int flags;
	struct CUstream_st *stream;
};

/**
 * pause_tags() - pause or resume tags, for the exported calls and for vpmm-pause
 * @pool: the pool
 * @request: what
 *
 * Context: no lock held.
 * Return: 0, or an error, and nothing has changed.
 */
int pause_tags(struct vpmm_pool *pool, const struct pause_request *request) G_GNUC_INTERNAL;

#endif /* API_H */
