// SPDX-License-Identifier: LGPL-2.1-or-later
#define _GNU_SOURCE 1
#include <pthread.h>
#include <stdatomic.h>

#include "util/captures.h"

static atomic_uint count;
/* Held by those that hold captures off, and for an instant by one that is about to begin: it comes first. */
static pthread_rwlock_t beginning = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

bool captures_any(void)
{
	return atomic_load_explicit(&count, memory_order_relaxed);
}

void captures_begin(void)
{
	pthread_rwlock_wrlock(&beginning);
	count++;
	pthread_rwlock_unlock(&beginning);
}

void captures_end(unsigned int ended)
{
	count -= ended;
}

bool captures_hold_off(void)
{
	pthread_rwlock_rdlock(&beginning);
	if (!captures_any())
		return true;
	pthread_rwlock_unlock(&beginning);
	return false;
}

void captures_let(void)
{
	pthread_rwlock_unlock(&beginning);
}
