/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Mutexes: those of POSIX, as ThreadSanitizer does not know GLib's, and one of our own. A normal build adds nothing. In
 * a debug build (configure --enable-debug) each knows its owner, and the functions below abort the program if a lock is
 * not held that should be, or is acquired out of order.
 *
 * With clang, -Wthread-safety checks the macros below at compile time: which lock a function needs, acquires or
 * releases, and which lock guards a global variable. For members of structures its C front end has no such attribute,
 * so a comment says it.
 */
#ifndef LOCK_H
#define LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/clock.h"

#ifdef __clang__
#define LOCK_ATTRIBUTE(name) __attribute__((name))
#else
#define LOCK_ATTRIBUTE(name)
#endif

/* For a variable: read and written only under the lock. */
#define GUARDED_BY(lock) LOCK_ATTRIBUTE(guarded_by(lock))
/* For a function: its caller holds the lock; the function acquires it, or releases it. */
#define REQUIRES(lock) LOCK_ATTRIBUTE(requires_capability(lock))
#define ACQUIRE(lock) LOCK_ATTRIBUTE(acquire_capability(lock))
#define RELEASE(lock) LOCK_ATTRIBUTE(release_capability(lock))
#define TRY_ACQUIRE(result, lock) LOCK_ATTRIBUTE(try_acquire_capability(result, lock))
#define ASSERT_HELD(lock) LOCK_ATTRIBUTE(assert_capability(lock))
/* For a function that clang cannot analyse. */
#define NO_LOCK_ANALYSIS LOCK_ATTRIBUTE(no_thread_safety_analysis)

/*
 * The lock order: a thread that holds a lock acquires only those below it, and of those in one line only one. Each has
 * the name that a message calls it.
 */
#define LOCK_ORDER(X) \
	X(LOCK_DEFAULTS, "defaults.lock") /* api/pool.c: the default pools, while one is created */ \
	X(LOCK_RECORDERS, "recorders.lock") /* trace/recorder.c: the files of VPMM_TRACE */ \
	X(LOCK_CONTROL, "control_lock") /* api/control.c: which pools vpmm-pause can have */ \
	X(LOCK_TOP, "top_lock") /* api/top.c: which pools are published for vpmm-top */ \
	X(LOCK_PLANS, "plans_lock") /* calls/plan-file.c: which pool has which file of VPMM_PLAN */ \
	X(LOCK_ARENAS, "pool.making") /* calls/arena.c: the arenas of a pool, while one is made, or all are changed */ \
	X(LOCK_CORE, "core.lock") /* all of a pool but its caches and what never changes */ \
	X(LOCK_ACCOUNT, "account.lock") /* the peaks of what is live; held, it allows for the locks of several caches */ \
	X(LOCK_CACHE, "cache.lock") /* what one stream keeps */ \
	X(LOCK_TAGS, "tags.lock") /* calls/tags.c: what a pool has under which tag */ \
	X(LOCK_TAG_NAMES, "tag_lock") /* util/tag.c: the names of tags */ \
	X(LOCK_STORE, "store.lock") /* core/store.c: host memory for contents */ \
	X(LOCK_WATCHING, "watching.lock") /* shared/: who is told of regions of a pool and of its arenas */ \
	X(LOCK_MOVER, "mover.lock") /* shared/: who moves pages of a pool's ranges; not acquired with core.lock held */ \
	X(LOCK_SHARED, "shared_lock") /* shared/: all ranges and the state of their pages, never held across a driver call */ \
	X(LOCK_FAULT, "fault.lock") /* the backend that fails on demand */ \
	X(LOCK_DRIVER, "drv_lock") /* cuda: the driver, while it is loaded */ \
	X(LOCK_CUDA, "cuda.lock") /* cuda: events to be used again */ \
	X(LOCK_CUDA_FREES, "frees.lock") /* cuda: the latest free of each stream */ \
	X(LOCK_HOST_OPENS, "host_opens_lock") /* host: which backends are open */ \
	X(LOCK_HOST_SMALL, "small.lock") /* host: the stream-ordered allocator of a device */ \
	X(LOCK_HOST_SPACE, "space.lock") /* host: the address space of a device */ \
	X(LOCK_HOST_STREAMS, "host_streams_lock") /* host: all streams */ \
	X(LOCK_HOST_DEVICES, "host_devices_lock") /* host: all devices */ \
	X(LOCK_SAMPLES, "samples_lock") /* trace/sampler.c: the stacks of all pools, and what they hold */ \
	X(LOCK_FRAMES, "frames_lock") /* trace/frames-table.c, frames-native.c: the calls and steps of all stacks */ \
	X(LOCK_RECORDER, "recorder.lock") /* trace/recorder.c: what the writer of a trace is asked for */ \
	X(LOCK_BUDGET, "budget.lock") /* budget/: what a pool and its arenas have taken of a budget together */ \
	X(LOCK_ADDRESSES, "addresses.lock") /* util/address-index.c: which pool has which addresses */

enum lock_rank {
#define X(rank, name) rank,
	LOCK_ORDER(X)
#undef X
	LOCK_RANKS
};

/**
 * struct lock - a mutex
 * @mutex: the mutex
 * @rank: its rank in the lock order
 * @owner: identifies the thread that holds it; NULL: not held
 */
struct LOCK_ATTRIBUTE(capability("lock")) lock {
	pthread_mutex_t mutex;
#ifdef VPMM_DEBUG
	enum lock_rank rank;
	const void *_Atomic owner;
#endif
};

#ifdef VPMM_DEBUG
#define LOCK_INIT(rank) { PTHREAD_MUTEX_INITIALIZER, (rank), NULL }
void lock_check_order(const struct lock *lock);
void lock_note_acquired(struct lock *lock);
void lock_note_released(struct lock *lock);
void lock_check_held(const struct lock *lock);
void lock_set_rank(struct lock *lock, enum lock_rank rank);
#else
#define LOCK_INIT(rank) { PTHREAD_MUTEX_INITIALIZER }
static inline void lock_check_order(const struct lock *lock) { }
static inline void lock_note_acquired(struct lock *lock) { }
static inline void lock_note_released(struct lock *lock) { }
static inline void lock_check_held(const struct lock *lock) { }
static inline void lock_set_rank(struct lock *lock, enum lock_rank rank) { }
#endif

/**
 * lock_init() - initialise a lock
 * @lock: the lock
 * @rank: its rank in the lock order
 *
 * A static one starts with LOCK_INIT() instead.
 */
static inline void lock_init(struct lock *lock, enum lock_rank rank)
{
	pthread_mutex_init(&lock->mutex, NULL);
	lock_set_rank(lock, rank);
}

/**
 * lock_destroy() - destroy a lock
 * @lock: the lock, not held
 */
static inline void lock_destroy(struct lock *lock)
{
	pthread_mutex_destroy(&lock->mutex);
}

/**
 * lock_acquire() - acquire a lock
 * @lock: the lock; this thread holds neither it nor one that comes after it in the lock order
 */
static inline void lock_acquire(struct lock *lock) ACQUIRE(lock) NO_LOCK_ANALYSIS;
static inline void lock_acquire(struct lock *lock)
{
	lock_check_order(lock);
	pthread_mutex_lock(&lock->mutex);
	lock_note_acquired(lock);
}

/**
 * lock_try() - acquire a lock, unless a thread holds it
 * @lock: the lock; see lock_acquire()
 *
 * Return: whether this thread holds it now.
 */
static inline bool lock_try(struct lock *lock) TRY_ACQUIRE(true, lock) NO_LOCK_ANALYSIS;
static inline bool lock_try(struct lock *lock)
{
	lock_check_order(lock);
	if (pthread_mutex_trylock(&lock->mutex))
		return false;
	lock_note_acquired(lock);
	return true;
}

/**
 * lock_release() - release a lock
 * @lock: the lock, which this thread holds
 */
static inline void lock_release(struct lock *lock) RELEASE(lock) NO_LOCK_ANALYSIS;
static inline void lock_release(struct lock *lock)
{
	lock_note_released(lock);
	pthread_mutex_unlock(&lock->mutex);
}

/**
 * lock_wait() - wait for a condition, without the lock meanwhile
 * @lock: the lock, which this thread holds
 * @condition: the condition
 */
static inline void lock_wait(struct lock *lock, pthread_cond_t *condition) REQUIRES(lock);
static inline void lock_wait(struct lock *lock, pthread_cond_t *condition)
{
	lock_note_released(lock);
	pthread_cond_wait(condition, &lock->mutex);
	lock_note_acquired(lock);
}

/**
 * lock_init_condition() - initialise a condition for waits by clock_ns()
 * @condition: the condition
 */
void lock_init_condition(pthread_cond_t *condition);

/**
 * lock_wait_until() - the same, but no longer than until some time
 * @lock: the lock, which this thread holds
 * @condition: the condition, of lock_init_condition()
 * @until: the time, by clock_ns()
 *
 * Return: 0, or ETIMEDOUT.
 */
static inline int lock_wait_until(struct lock *lock, pthread_cond_t *condition, uint64_t until)
	REQUIRES(lock);
static inline int lock_wait_until(struct lock *lock, pthread_cond_t *condition, uint64_t until)
{
	const struct timespec at = clock_timespec(until);
	int err;

	lock_note_released(lock);
	err = pthread_cond_timedwait(condition, &lock->mutex, &at);
	lock_note_acquired(lock);
	return err;
}

/**
 * lock_assert_held() - this thread holds a lock, or the caller is wrong
 * @lock: the lock
 *
 * In a normal build nothing.
 */
static inline void lock_assert_held(const struct lock *lock) ASSERT_HELD(lock);
static inline void lock_assert_held(const struct lock *lock)
{
	lock_check_held(lock);
}

/*
 * A lock that is hardly ever contended: that of a cache. It is held for some ten nanoseconds, and across a driver call
 * only where an event is recorded (cache_mark(), stream_record()). To acquire and to release it takes one atomic
 * instruction each, inline, on a word beside what the lock guards. Those of pthread_mutex_lock() take five more lines
 * of the processor's data caches and as many of code, which between other people's work are misses, and more time than
 * all else that a cache does. Who has to wait sleeps. A debug build checks it like the others. ThreadSanitizer does not
 * take it for a mutex: of those it follows no more than 64 that one thread holds, and whoever has account.lock may hold
 * one for each stream.
 */
struct LOCK_ATTRIBUTE(capability("lock")) brief_lock {
	_Atomic uint32_t state;		/* see enum brief_state */
#ifdef VPMM_DEBUG
	struct lock checked;		/* for the checks alone */
#endif
};

enum brief_state {
	BRIEF_FREE,
	BRIEF_HELD,
	BRIEF_CONTENDED			/* held, and others may sleep */
};

/**
 * brief_wait() - acquire a lock that another thread holds
 * @lock: the lock
 */
void brief_wait(struct brief_lock *lock) __attribute__((cold));

/**
 * brief_wake() - wake a thread that sleeps in brief_wait()
 * @lock: the lock, which was released
 */
void brief_wake(struct brief_lock *lock) __attribute__((cold));

/* What the checks of a debug build look at. */
static inline struct lock *brief_checked(struct brief_lock *lock)
{
#ifdef VPMM_DEBUG
	return &lock->checked;
#else
	(void)lock;
	return NULL;
#endif
}

/**
 * brief_init() - initialise a lock
 * @lock: the lock
 * @rank: its rank in the lock order
 */
static inline void brief_init(struct brief_lock *lock, enum lock_rank rank)
{
	atomic_init(&lock->state, BRIEF_FREE);
	lock_set_rank(brief_checked(lock), rank);
}

/**
 * brief_acquire() - acquire a lock
 * @lock: the lock; see lock_acquire()
 */
static inline void brief_acquire(struct brief_lock *lock) ACQUIRE(lock) NO_LOCK_ANALYSIS;
static inline void brief_acquire(struct brief_lock *lock)
{
	uint32_t state = BRIEF_FREE;

	lock_check_order(brief_checked(lock));
	if (!atomic_compare_exchange_strong_explicit(&lock->state, &state, BRIEF_HELD, memory_order_acquire,
						     memory_order_relaxed))
		brief_wait(lock);
	lock_note_acquired(brief_checked(lock));
}

/**
 * brief_release() - release a lock
 * @lock: the lock, which this thread holds
 */
static inline void brief_release(struct brief_lock *lock) RELEASE(lock) NO_LOCK_ANALYSIS;
static inline void brief_release(struct brief_lock *lock)
{
	lock_note_released(brief_checked(lock));
	if (atomic_exchange_explicit(&lock->state, BRIEF_FREE, memory_order_release) == BRIEF_CONTENDED)
		brief_wake(lock);
}

/**
 * brief_assert_held() - as lock_assert_held()
 * @lock: the lock
 */
static inline void brief_assert_held(const struct brief_lock *lock) ASSERT_HELD(lock);
static inline void brief_assert_held(const struct brief_lock *lock)
{
#ifdef VPMM_DEBUG
	lock_assert_held(&lock->checked);
#else
	(void)lock;
#endif
}

/**
 * lock_as_another() - run a function as if another thread did
 * @fn: the function
 * @data: passed to it
 *
 * For device work that the host backend does on the thread that waits for it: a debug build then checks the locks that
 * it acquires apart from those of the caller.
 */
#ifdef VPMM_DEBUG
void lock_as_another(void (*fn)(void *data), void *data);
#else
static inline void lock_as_another(void (*fn)(void *data), void *data)
{
	fn(data);
}
#endif

#endif /* LOCK_H */
