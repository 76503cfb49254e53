// SPDX-License-Identifier: LGPL-2.1-or-later
/* What could interrupt a call that moves pages of shared ranges. */
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "util/cancel.h"
#include "util/held.h"

static bool has_handler(int number)
{
	struct sigaction action;

	return sigaction(number, NULL, &action) || action.sa_flags & SA_SIGINFO ||
	       (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

static void hold(struct held *held, sigset_t *set)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };

	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
		sigdelset(set, faults[i]);
	held->cancel = cancel_hold();
	pthread_sigmask(SIG_BLOCK, set, &held->signals);
}

void held_begin(struct held *held)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGALRM };
	sigset_t set;

	sigfillset(&set);
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		if (!has_handler(ends[i]))
			sigdelset(&set, ends[i]);
	}
	hold(held, &set);
}

void held_end(const struct held *held)
{
	pthread_sigmask(SIG_SETMASK, &held->signals, NULL);
	cancel_release(held->cancel);
}

int held_thread(pthread_t *thread, void *(*fn)(void *data), void *data)
{
	struct held held;
	sigset_t set;
	int err;

	sigfillset(&set);
	hold(&held, &set);
	err = pthread_create(thread, NULL, fn, data);
	held_end(&held);
	return err;
}
