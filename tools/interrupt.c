// SPDX-License-Identifier: LGPL-2.1-or-later
#include "interrupt.h"

#include <stdio.h>

volatile sig_atomic_t interrupt_signal;

static void note(int signal)
{
	interrupt_signal = signal;
}

static void catch(int signal, int flags)
{
	struct sigaction action = { .sa_handler = note, .sa_flags = (int)SA_RESETHAND | flags }, before;

	if (sigaction(signal, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
		sigaction(signal, &action, NULL);
}

void interrupt_catch(bool in_calls)
{
	const int flags = in_calls ? 0 : SA_RESTART;

	if (interrupt_signal)
		return;
	catch(SIGINT, flags);
	catch(SIGTERM, flags);
	catch(SIGHUP, flags);
}

void interrupt_end(void)
{
	if (!interrupt_signal)
		return;
	/* The signal ends the process without what exit() does. */
	fflush(stdout);
	signal(interrupt_signal, SIG_DFL);
	raise(interrupt_signal);
}
