/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The pool structure, and the life of a pool. */
#ifndef POOL_H
#define POOL_H

#include <glib.h>
#include <stddef.h>

#include "core/core.h"
#include "pending/pending.h"
#include "policy/state.h"
#include "util/bound.h"
#include "vpmm.h"

struct arena;
struct listener;
struct plan_file;
struct shared;
struct tags;

/* The latest requests that are kept for VPMM_OOM_DUMP. */
#define POOL_REQUESTS BOUND(64, 4)

/**
 * struct pool_request - a request that no cache served
 * @ns: when, by clock_ns()
 * @size: bytes
 * @stream: its handle
 * @addr: of the block; 0: it failed
 */
struct pool_request {
	uint64_t ns;
	size_t size;
	uint64_t stream;
	uint64_t addr;
};

/**
 * struct vpmm_pool - a pool
 * @core: memory, addresses and streams; the first member, as caches need nothing else
 * @pending: deferred frees and users of blocks; under core.lock
 * @packed: state of the packed policy; under core.lock
 * @shared: its shared ranges; NULL: it never had one
 * @listener: the thread that answers others of the budget, see api/budget.c; NULL: none
 * @plan: the file of VPMM_PLAN; NULL: none. An arena has none
 * @made_tags: what it has under tags; NULL: it never had any. Set once; an arena has none
 * @making: held while an arena of it is made, and while something is done to it and to all of its arenas
 * @arena: it is an arena, see arena.h; NULL: it is the program's
 * @cancel: the result of cancel_hold() of the thread that holds core.lock
 * @requests: the latest requests, @requested of all modulo POOL_REQUESTS the next; under core.lock
 * @dumped: whether VPMM_OOM_DUMP was written, or is about to be
 * @end: of enum pool_state; written only by the thread that ends the pool, and read by any
 */
struct vpmm_pool {
	struct core core;
	struct pending pending;
	struct packed packed;
	struct shared *shared;
	struct listener *listener;
	struct plan_file *plan;
	struct tags *made_tags;
	struct lock making;
	struct arena *arena;
	int cancel;
	struct pool_request requests[POOL_REQUESTS];
	uint64_t requested;
	gint dumped;
	gint end;
};

/**
 * pool_tags() - the tags of a pool
 * @pool: the pool, no arena
 *
 * Another thread may make them at any time, so nothing else reads the field.
 *
 * Context: any.
 * Return: them; NULL if there are none yet.
 */
static inline struct tags *pool_tags(struct vpmm_pool *pool)
{
	return g_atomic_pointer_get(&pool->made_tags);
}

/* The pool of a core. */
static inline struct vpmm_pool *pool_of_core(struct core *core)
{
	return (struct vpmm_pool *)((char *)core - offsetof(struct vpmm_pool, core));
}

/* Whether a pool can be used. */
enum pool_state {
	POOL_USABLE,
	POOL_GOING,		/* it is being destroyed */
	POOL_GONE		/* pool_empty() has ended it */
};

/**
 * pool_new() - make a pool on an open backend
 * @pool: receives the pool
 * @backend: the backend, entered; the caller closes it after pool_delete()
 * @settings: the settings, not yet completed for the device
 *
 * Return: 0, -EINVAL for settings that are invalid for the device, -ENOMEM, or another error of the backend.
 */
int pool_new(struct vpmm_pool **pool, struct backend *backend, const struct settings *settings);

/**
 * pool_new_behind() - make a pool on the backend and with the settings of another, with which it shares its limit
 * @pool: receives the pool
 * @parent: the other one, its backend entered, its lock not held; no thread changes its peers or its limit meanwhile
 *
 * Return: 0, or what the backend's info returns.
 */
int pool_new_behind(struct vpmm_pool **pool, struct vpmm_pool *parent);

/**
 * pool_announce_end() - log that the pool is about to be destroyed, while it still works
 * @pool: the pool
 */
void pool_announce_end(struct vpmm_pool *pool);

/* What there is to see to before a pool's memory goes back to the device. */
enum pool_end {
	POOL_END_WAIT,		/* pending work, which is waited for */
	POOL_END_NOW,		/* nothing: the program has */
	POOL_END_GONE,		/* nothing: streams, events and the driver's allocations are gone */
};

/**
 * pool_delete() - free everything but the backend
 * @pool: the pool, its backend entered, its lock not held
 * @end: how
 */
void pool_delete(struct vpmm_pool *pool, enum pool_end end);

/**
 * pool_empty() - the same, but the structure stays, for threads that still find it
 * @pool: the pool, as above; no enter of its backend succeeds any more
 * @end: how
 *
 * The backend stays, too. Threads that have the pointer read the pool without its lock before they try to enter the
 * backend, so what they read stays as it is: caches, which have no stream any more, a lock, and a log that keeps
 * nothing.
 */
void pool_empty(struct vpmm_pool *pool, enum pool_end end);

#endif /* POOL_H */
