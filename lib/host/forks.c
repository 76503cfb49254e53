// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A fork() waits for the locks that calls of vpmm-host.h acquire without a pool. The child of a process without pools
 * goes on with its streams, so they must not be half changed: a new lock is not enough. All other locks of the backend
 * are a pool's, or acquired for one, and a child has no pools of its parent's.
 */
#include <glib.h>
#include <pthread.h>

#include "host/forks.h"
#include "host/opened.h"
#include "host/queue.h"

/* Outermost first. */
static struct lock *const over_fork[] = { &host_opens_lock, &host_streams_lock };

bool _Atomic host_forks_watched;

/* The handlers are registered in the child too. */
static bool inherited;

static void begin_host_fork(void) NO_LOCK_ANALYSIS;
static void begin_host_fork(void)
{
	for (size_t i = 0; i < G_N_ELEMENTS(over_fork); i++)
		lock_acquire(over_fork[i]);
}

static void end_host_fork(void) NO_LOCK_ANALYSIS;
static void end_host_fork(void)
{
	for (size_t i = G_N_ELEMENTS(over_fork); i-- > 0; )
		lock_release(over_fork[i]);
}

static void begin_host_child(void) NO_LOCK_ANALYSIS;
static void begin_host_child(void)
{
	inherited = true;
	host_queue_forked();
	end_host_fork();
}

/* Once more in a child that was forked meanwhile: handlers that are there twice would acquire the locks twice. */
static void register_handlers(void)
{
	if (!inherited)
		pthread_atfork(begin_host_fork, end_host_fork, begin_host_child);
	host_forks_watched = true;
}

/* Not at load, where nothing of the library runs. */
void host_watch_forks(void)
{
	static pthread_once_t watched = PTHREAD_ONCE_INIT;

	pthread_once(&watched, register_handlers);
}
