/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Keeps a thread that is cancelled from leaving a lock locked: it goes on to the end of the call. */
#ifndef CANCEL_H
#define CANCEL_H

#include <pthread.h>

/**
 * cancel_hold() - let a cancellation of the calling thread wait
 *
 * Return: what cancel_release() is to be given; pairs nest.
 */
static inline int cancel_hold(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

/**
 * cancel_release() - let it wait no longer
 * @state: what the cancel_hold() of this thread returned
 *
 * A cancellation that came meanwhile takes effect at the thread's next cancellation point, not here.
 */
static inline void cancel_release(int state)
{
	pthread_setcancelstate(state, NULL);
}

#endif /* CANCEL_H */
