/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Defers the cancellation of a thread to the end of a call, so that no lock stays locked. */
#ifndef CANCEL_H
#define CANCEL_H

#include <pthread.h>

/**
 * cancel_hold() - defer a cancellation of the calling thread
 *
 * Return: the state for cancel_release(); pairs nest.
 */
static inline int cancel_hold(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

/**
 * cancel_release() - end the deferral
 * @state: as returned by this thread's cancel_hold()
 *
 * A cancellation that came meanwhile takes effect at the thread's next cancellation point, not here.
 */
static inline void cancel_release(int state)
{
	pthread_setcancelstate(state, NULL);
}

#endif /* CANCEL_H */
