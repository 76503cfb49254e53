/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Futexes in memory that several processes have. */
#ifndef BUDGET_FUTEX_H
#define BUDGET_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Changes the word, and wakes all who wait for that. */
static inline void futex_bump(_Atomic uint32_t *word)
{
	atomic_fetch_add(word, 1);
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Waits until the word is no longer @value, for @ns at most, or for as long as it takes; it may return earlier. */
static inline void futex_wait(const _Atomic uint32_t *word, uint32_t value, uint64_t ns)
{
	struct timespec left = { .tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000) };

	syscall(SYS_futex, word, FUTEX_WAIT, value, ns == UINT64_MAX ? NULL : &left, NULL, 0);
}

#endif /* BUDGET_FUTEX_H */
