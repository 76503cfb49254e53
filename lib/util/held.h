/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Holds back what could interrupt a call that moves pages of shared ranges: a cancellation of the thread, and a handler
 * of a signal. A handler that touched a page on the device would wait for the move that its own thread makes.
 *
 * Calls that only look something up leave signals alone: the system calls would take longer than all the rest.
 */
#ifndef HELD_H
#define HELD_H

#include <pthread.h>
#include <signal.h>

/**
 * struct held - what a thread had before
 * @cancel: of cancel_hold()
 * @signals: the signals that it had blocked
 */
struct held {
	int cancel;
	sigset_t signals;
};

/**
 * held_begin() - hold them back
 * @held: for held_end(); pairs nest
 *
 * A signal that a thread raises itself by a fault is never held back: SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS.
 * Nor is one that ends the program without a handler, as the call may wait for the device: SIGINT, SIGTERM, SIGQUIT,
 * SIGHUP, and SIGALRM, by which a program ends itself if it hangs.
 */
void held_begin(struct held *held);

/**
 * held_thread() - start a thread of the library, on which no handler of the program runs
 * @thread: receives it
 * @fn: what it does
 * @data: passed to it
 *
 * Signals that end the program are held back there as well.
 *
 * Return: 0, or what pthread_create() returns.
 */
int held_thread(pthread_t *thread, void *(*fn)(void *data), void *data);

/**
 * held_end() - let them through
 * @held: of held_begin() of this thread; no lock is held any more
 */
void held_end(const struct held *held);

#endif /* HELD_H */
