// SPDX-License-Identifier: LGPL-2.1-or-later
/* What a lock of our own does if it is contended, and what a debug build checks of all locks. */
#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/lock.h"

static void sleep_while_contended(struct brief_lock *lock)
{
	syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, BRIEF_CONTENDED, NULL, NULL, 0);
}

/* Whoever has slept once cannot know whether others still do, and so holds the lock as a contended one. */
void brief_wait(struct brief_lock *lock)
{
	int saved = errno;

	while (atomic_exchange_explicit(&lock->state, BRIEF_CONTENDED, memory_order_acquire) != BRIEF_FREE)
		sleep_while_contended(lock);
	errno = saved;
}

void brief_wake(struct brief_lock *lock)
{
	int saved = errno;

	syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	errno = saved;
}

void lock_init_condition(pthread_cond_t *condition)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(condition, &attributes);
	pthread_condattr_destroy(&attributes);
}

#ifdef VPMM_DEBUG

static const char *const names[LOCK_RANKS] = {
#define X(rank, name) [rank] = name,
	LOCK_ORDER(X)
#undef X
};

/* A bit for each rank of which this thread holds a lock. Its address stands for the thread. */
static _Thread_local unsigned int held;

/* No GLib: it may be what called. */
_Noreturn static void fail_check(const struct lock *lock, const char *what, const char *other)
{
	fprintf(stderr, "libvpmm: %s %s%s\n", names[lock->rank], what, other);
	abort();
}

static bool is_mine(const struct lock *lock)
{
	return atomic_load_explicit(&lock->owner, memory_order_relaxed) == &held;
}

void lock_set_rank(struct lock *lock, enum lock_rank rank)
{
	lock->rank = rank;
	atomic_init(&lock->owner, NULL);
}

void lock_check_order(const struct lock *lock)
{
	if (is_mine(lock))
		fail_check(lock, "is acquired by the thread that holds it", "");
	for (int rank = LOCK_RANKS - 1; rank >= (int)lock->rank; rank--) {
		if (held & 1u << rank && !(rank == LOCK_CACHE && held & 1u << LOCK_ACCOUNT))
			fail_check(lock, "is acquired by a thread that holds ", names[rank]);
	}
}

void lock_note_acquired(struct lock *lock)
{
	atomic_store_explicit(&lock->owner, &held, memory_order_relaxed);
	held |= 1u << lock->rank;
}

void lock_note_released(struct lock *lock)
{
	if (!is_mine(lock))
		fail_check(lock, "is released by a thread that does not hold it", "");
	atomic_store_explicit(&lock->owner, NULL, memory_order_relaxed);
	held &= ~(1u << lock->rank);
}

void lock_check_held(const struct lock *lock)
{
	if (!is_mine(lock))
		fail_check(lock, "is not held", "");
}

void lock_as_another(void (*fn)(void *data), void *data)
{
	unsigned int mine = held;

	held = 0;
	fn(data);
	held = mine;
}
#endif /* VPMM_DEBUG */
