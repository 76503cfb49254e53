// SPDX-License-Identifier: LGPL-2.1-or-later
#define _GNU_SOURCE 1
#include <pthread.h>
#include <stdatomic.h>

#include "preload/running.h"

static atomic_uint running;
/* Held by those that hold captures off, and for an instant by one that is about to begin: it comes first. */
static pthread_rwlock_t beginning = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

bool capture_is_running(void)
{
	return running;
}

bool capture_hold_off(void)
{
	pthread_rwlock_rdlock(&beginning);
	if (!capture_is_running())
		return true;
	pthread_rwlock_unlock(&beginning);
	return false;
}

void capture_let_begin(void)
{
	pthread_rwlock_unlock(&beginning);
}

void capture_count_begun(void)
{
	pthread_rwlock_wrlock(&beginning);
	running++;
	pthread_rwlock_unlock(&beginning);
}

void capture_count_ended(void)
{
	running--;
}
