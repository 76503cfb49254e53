/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Ranges of addresses that the CPU and a device share: the state of each page, and who may change it.
 *
 * Two locks. shared->mover is held by whoever moves pages of a pool's ranges, across driver calls and copies; a page
 * changes under it alone. shared_lock, of the process, is held for a few instructions at a time by whoever reads or
 * writes what is here; a page changes under both. The thread that serves touches takes both and never core.lock,
 * since a thread that holds that may touch a page; so nobody waits for core.lock with the mover held. A mirror's update
 * is called with the mover held, or where it is about a region of the pool with core.lock, and takes locks of its own.
 */
#ifndef SHARED_H
#define SHARED_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/core.h"
#include "util/lock.h"
#include "vpmm-shared.h"

/* The largest page of a range, and into how many pages one is cut if they lie between this and the smallest. */
#define SHARED_PAGE_MOST ((size_t)32 << 20)
#define SHARED_PAGES 128

/* Bytes of a range: more than there are addresses. */
#define SHARED_RANGE_MOST (SIZE_MAX / 4)

/* Pages that move together: streams stand still for so long. */
#define SHARED_BATCH 64
#define SHARED_BATCH_BYTES ((size_t)512 << 20)

/**
 * struct piece - memory for one page, on the device or on the host
 * @size: bytes
 * @host: where it is
 * @fresh: nobody has written to it, and it is cleared
 * @viewless: the CPU's view of host memory is no longer at @alias
 * @blind: nor does the device reach it there, as piece_renew() has failed half way
 * @mapped: it is mapped at @alias
 * @lost: @alias is the device's alone, for good
 * @stray: the device may still have it at a page whose move could not be undone
 * @handle: of the backend
 * @alias: addresses of its own, for copies
 * @ranges: how many have their empty pages read it
 * @next: in a list
 */
struct piece {
	size_t size;
	bool host;
	bool fresh;
	bool viewless;
	bool blind;
	bool mapped;
	bool lost;
	bool stray;
	uint64_t handle;
	uint64_t alias;
	unsigned int ranges;
	struct piece *next;
};

/* Where a page is. */
enum page_state {
	PAGE_EMPTY,			/* the device reads zeros, the CPU's touch is waited for */
	PAGE_HOST,			/* the CPU has it, the device reaches it */
	PAGE_DEVICE			/* the device has it, the CPU's touch is waited for */
};

/**
 * struct page - a page of a range
 * @state: where it is
 * @advice: enum vpmm_advice
 * @recent: it has moved or was advised since the clock came by
 * @hidden: it is on the host, but the CPU's touch has to bring back the view
 * @given_up: the CPU has zeros, a SIGBUS or what it could read there for good, as what the device had is lost
 * @unmapped: the device has nothing there
 * @wrong: nor what the page has otherwise, as undoing a move has failed: there_mend() tries again
 * @moving: mirrors were told that it goes
 * @readable: the CPU has a copy of @duplicate, and its write is waited for
 * @pins: how many pins have it stay on the host
 * @call: the number of the call that brought it to the device, or wanted it there last
 * @sequence: how often mirrors were told of it
 * @piece: its memory; NULL: it is empty
 * @duplicate: host memory with the same contents, of a page on the device that is read mostly; NULL: none
 */
struct page {
	uint8_t state;
	uint8_t advice;
	bool recent;
	bool hidden;
	bool given_up;
	bool unmapped;
	bool wrong;
	bool moving;
	bool readable;
	uint64_t pins;
	uint64_t call;
	uint64_t sequence;
	struct piece *piece;
	struct piece *duplicate;
};

/**
 * struct range - a shared range
 * @shared: of its pool
 * @at: where the program has it, and the CPU
 * @va: where the device has it, which is the same on a GPU
 * @size: bytes
 * @requested: bytes that the program asked for
 * @page_size: bytes of a page
 * @count: pages
 * @pages: the pages
 * @wrong: how many pages are @wrong
 * @zero: what empty pages read
 * @users: handles of the streams that use it
 * @next: the page that a touch in one direction would be of next
 * @ahead: how many pages come back with that
 * @holds: how many calls and threads use it without a lock: it stays until there are none
 * @going: it is being freed, and whoever gets the mover after that leaves it alone
 */
struct range {
	struct shared *shared;
	uint64_t at;
	uint64_t va;
	size_t size;
	size_t requested;
	size_t page_size;
	size_t count;
	struct page *pages;
	size_t wrong;
	struct piece *zero;
	GPtrArray *users;
	size_t next;
	size_t ahead;
	unsigned int holds;
	bool going;
};

/**
 * struct shared - the shared ranges of a pool
 * @core: the pool's core
 * @mover: held by whoever moves pages
 * @stream: the stream of the copies; NULL: there was no range yet
 * @ranges: of struct range
 * @kept: unused memory, by enum vpmm_location
 * @strays: memory that a page may still have, and what the driver has not taken back: a trim tries that again
 * @zeros: of struct piece, one for each size of page that a range has
 * @events: unused events, of struct backend_event
 * @mirrors: of struct vpmm_mirror; under @mover
 * @watching: held while they are told of the pool's own regions, or of those of an arena, whose lock is another
 * @watchers: the same, who are told of these; under @watching
 * @host_keep: bytes of unused host memory to keep
 * @holds: how many calls and threads use it without a lock: it stays until there are none
 * @quiet: how many calls have the device's driver to themselves: nothing that can be done later is done meanwhile
 * @cramped: there was no mapping for host memory, and nobody has seen to that yet
 * @renewing: how many threads give a piece a view that is neither kept nor a page's meanwhile
 * @trailing: how many threads have let a touch go on, and are not done with what else they move for it
 * @failing: since when the device has failed each time that touches were served, in us; 0: it has not
 * @clock_range: where the clock is: an index of @ranges
 * @clock_page: and of a page there
 * @calls: how many calls have moved pages
 * @stats: as vpmm_shared_stats() tells them
 */
struct shared {
	struct core *core;
	struct lock mover;
	struct CUstream_st *stream;
	GPtrArray *ranges;
	struct piece *kept[2];
	struct piece *strays;
	GPtrArray *zeros;
	GPtrArray *events;
	GPtrArray *mirrors;
	struct lock watching;
	GPtrArray *watchers;
	uint64_t host_keep;
	unsigned int holds;
	unsigned int quiet;
	bool cramped;
	unsigned int renewing;
	unsigned int trailing;
	gint64 failing;
	size_t clock_range;
	size_t clock_page;
	uint64_t calls;
	struct vpmm_shared_stats stats;
};

extern struct lock shared_lock;

/* Whether there are any, read without the lock. */
extern gint shared_exist;

/* All ranges of the process, of struct range. */
extern GPtrArray *shared_ranges GUARDED_BY(shared_lock);

/**
 * shared_new() - what a pool's first range or mirror needs
 * @core: the pool's core, its backend entered
 * @shared: receives it
 *
 * Return: 0, -EINVAL for a bad VPMM_HOST_KEEP, or an error of the backend.
 */
int shared_new(struct core *core, struct shared **shared);

/**
 * shared_empty() - free all ranges and what belongs to them
 * @shared: of a pool, its backend entered or abandoned; no lock held
 * @wait: whether pending work is to be waited for
 *
 * Mirrors are left: they are to be told of the rest of the pool, too.
 */
void shared_empty(struct shared *shared, bool wait);

/**
 * shared_delete() - free the rest
 * @shared: of a pool that is empty; no lock held
 */
void shared_delete(struct shared *shared);

/**
 * shared_forked() - this is a forked child: nobody holds the lock
 */
void shared_forked(void);

/**
 * shared_find() - the range that an address is in
 * @addr: the address
 *
 * Return: the range; NULL: none.
 */
struct range *shared_find(uint64_t addr) REQUIRES(shared_lock);

/**
 * shared_hold() - use the shared ranges of a pool, until shared_drop()
 * @at: where the pool has them
 *
 * Without that only an address of them is safe to keep: another thread may free a range, and a default pool ends with
 * its device. A range that is found is held, too, by range->holds, from the look-up on until its last use.
 *
 * Return: them; NULL: the pool has none, or no longer.
 */
struct shared *shared_hold(struct shared **at);

/**
 * shared_drop() - end that
 * @shared: of shared_hold(); the caller holds nothing else of it
 */
void shared_drop(struct shared *shared);

/**
 * shared_take() - end the ranges of a pool for those who come from now on
 * @at: where the pool has them, which is NULL afterwards
 *
 * Return: them, for shared_empty() and shared_delete(); NULL: the pool has none.
 */
struct shared *shared_take(struct shared **at);

/**
 * shared_wait() - wait until nobody is at something
 * @count: how many are; others change it under shared_lock, which is not held
 */
void shared_wait(const unsigned int *count);

/* Changes one of the counts that are under shared_lock. */
static inline void shared_count(unsigned int *count, int change)
{
	lock_acquire(&shared_lock);
	*count += (unsigned int)change;
	lock_release(&shared_lock);
}

/* A page that mirrors were told of is where it stays. */
static inline void page_stays(struct page *page) REQUIRES(shared_lock);
static inline void page_stays(struct page *page)
{
	page->moving = false;
	page->sequence++;
}

static inline struct backend *shared_backend(const struct shared *shared)
{
	return shared->core->backend;
}

static inline const struct backend_ops *shared_ops(const struct shared *shared)
{
	return shared_backend(shared)->ops;
}

static inline struct backend *range_backend(const struct range *range)
{
	return shared_backend(range->shared);
}

static inline const struct backend_ops *range_ops(const struct range *range)
{
	return shared_ops(range->shared);
}

/* Where a page starts, for the CPU and for the device. */
static inline uint64_t page_at(const struct range *range, size_t index)
{
	return range->at + index * range->page_size;
}

static inline uint64_t page_va(const struct range *range, size_t index)
{
	return range->va + index * range->page_size;
}

/**
 * shared_check() - check the invariants: that pages and memory are as they should be
 * @at: where a pool has its ranges; core.lock is held
 *
 * Return: 0, or -EUCLEAN with what is wrong.
 */
int shared_check(struct shared **at);

/**
 * range_choose_page() - the size of the pages that a range is going to have
 * @shared: of the pool
 * @size: bytes of the range
 * @fine: with pages of the smallest size
 *
 * Return: bytes.
 */
size_t range_choose_page(const struct shared *shared, size_t size, bool fine);

/**
 * range_new() - make a range
 * @shared: of the pool, its backend entered; no lock held
 * @size: bytes, not 0
 * @fine: with pages of the smallest size
 * @at: receives where it starts
 *
 * Return: 0, -ENOMEM, -ENOTSUP, or another error of the backend.
 */
int range_new(struct shared *shared, size_t size, bool fine, uint64_t *at);

/**
 * range_free() - free a range
 * @shared: of the pool, its backend entered; no lock held
 * @at: where it starts
 * @stream: a stream that uses it, besides those that are known
 *
 * Return: 0, -EINVAL if no range of the pool starts there, or an error of the backend.
 */
int range_free(struct shared *shared, uint64_t at, struct CUstream_st *stream);

#endif /* SHARED_H */
