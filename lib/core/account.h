/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Statistics of allocated and held memory: what is live, and peaks.
 *
 * The peak of live bytes is exact, although most mallocs and frees see one cache only. What live bytes may still grow
 * by before they reach a new peak is the headroom, and it is shared out:
 *
 *	peak = live + spare headroom + headroom of all caches
 *
 * A malloc that a cache serves takes its size from the headroom of that cache, and a free adds to it. So the equation
 * holds, and the peak stays as it is. Only a malloc whose cache has too little looks further: it moves headroom from
 * the spare and from other caches, one lock at a time. If all of them have too little, there may be a new peak.
 * Whether there is one, and how high it is, is decided with the locks of all caches held, so that it is the live bytes
 * of one moment. A slow path does the same with the spare headroom.
 *
 * All of this is done twice: for sizes as rounded, and for sizes as requested.
 */
#ifndef ACCOUNT_H
#define ACCOUNT_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/lock.h"

struct cache;
struct core;
struct region;

/* Bytes of allocations, counted both ways. */
struct footprint {
	uint64_t rounded;
	uint64_t requested;
};

/**
 * struct account - the peaks of a pool's live bytes
 * @lock: inside core.lock; the locks of caches are inside this one
 *
 * Under the lock:
 *
 * @peak: the most that was live since the peaks were last reset. @rounded is without what the driver's allocator has
 * @spare: the headroom that no cache has
 * @before: the highest @peak.rounded before the latest reset
 * @caches: all caches that the pool has made, those of forgotten streams included
 * @donors: the same, those that had headroom to give most recently first
 */
struct account {
	struct brief_lock lock;
	struct footprint peak;
	struct footprint spare;
	uint64_t before;
	GPtrArray *caches;
	GPtrArray *donors;
};

/* The sums over all caches of a pool. */
struct cache_sums {
	uint64_t mallocs;	/* served by caches */
	uint64_t frees;		/* taken by caches */
	uint64_t bytes;		/* allocated for the region maps, but free: cached or stranded */
};

/**
 * account_init() - set up the account of a pool in which nothing is live
 * @account: the account
 */
void account_init(struct account *account);

/**
 * account_clear() - tear it down; no lock is needed
 * @account: the account
 */
void account_clear(struct account *account);

/**
 * account_add() - add a new cache, which has no headroom
 * @account: the account
 * @cache: the cache, which lives as long as the account
 */
void account_add(struct account *account, struct cache *cache);

/**
 * account_enter() - live bytes grow past the caches
 * @account: the account; no lock of a cache is held
 * @rounded: bytes
 * @requested: bytes
 */
void account_enter(struct account *account, uint64_t rounded, uint64_t requested);

/**
 * account_leave() - live bytes shrink past the caches
 * @account: the account; no lock of a cache is held
 * @rounded: bytes
 * @requested: bytes
 */
void account_leave(struct account *account, uint64_t rounded, uint64_t requested);

/**
 * account_fund() - give a cache the headroom for a malloc, if there is so much in the pool
 * @account: the account; no lock of a cache is held
 * @cache: the cache
 * @rounded: bytes
 * @requested: bytes
 *
 * Return: whether the cache was given so much. Another thread may have used it since.
 */
bool account_fund(struct account *account, struct cache *cache, uint64_t rounded, uint64_t requested);

/**
 * account_lock_all() - acquire the account's lock and those of all caches: nothing live changes meanwhile
 * @account: the account; no lock of a cache is held
 */
void account_lock_all(struct account *account);

/**
 * account_unlock_all() - release what account_lock_all() has acquired
 * @account: the account
 */
void account_unlock_all(struct account *account);

/**
 * account_cover() - give a cache the headroom for a malloc, and raise the peak if that takes it
 * @account: the account, after account_lock_all()
 * @cache: the cache, which is to serve the malloc before account_unlock_all()
 * @rounded: bytes
 * @requested: bytes
 */
void account_cover(struct account *account, struct cache *cache, uint64_t rounded, uint64_t requested);

/**
 * account_live() - what is live
 * @account: the account, after account_lock_all()
 * @live: receives the bytes
 */
void account_live(const struct account *account, struct footprint *live);

/**
 * account_read() - what is live, and the peaks, at one moment
 * @account: the account; no lock of a cache is held
 * @live: receives the bytes that are live
 * @peak: receives the most that was since the peaks were reset
 */
void account_read(struct account *account, struct footprint *live, struct footprint *peak);

/**
 * account_reset() - let the peaks be what is live now, for all but account_most()
 * @account: the account; no lock of a cache is held
 */
void account_reset(struct account *account);

/**
 * account_most() - the most bytes that were ever live, rounded; resets do not change it
 * @account: the account; no lock of a cache is held
 */
uint64_t account_most(struct account *account);

/**
 * cache_sum() - add up all caches of a pool
 * @core: the pool's core
 * @sums: receives the sums
 */
void cache_sum(struct core *core, struct cache_sums *sums);

/**
 * cache_bytes() - the bytes of that sum alone
 * @core: the pool's core
 *
 * Return: bytes.
 */
uint64_t cache_bytes(struct core *core);

/**
 * cache_withheld() - the bytes that a stream has freed and others cannot have yet: cached or stranded
 * @cache: the cache
 *
 * Return: bytes.
 */
uint64_t cache_withheld(struct cache *cache);

/**
 * account_note_taken() - update the peaks of device memory after some was created
 * @core: the pool's core, its backend entered
 */
void account_note_taken(struct core *core);

/**
 * account_tell() - tell the others of the pool's budget what it has now
 * @core: the pool's core; its lock is held
 *
 * A call does this last. Code that changes the memory of shared ranges does it too, as no call need follow.
 */
void account_tell(struct core *core);

#endif /* ACCOUNT_H */
