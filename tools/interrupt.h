/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SIGINT, SIGTERM and SIGHUP, for a tool that has something to say before it ends. */
#ifndef INTERRUPT_H
#define INTERRUPT_H

#include <signal.h>
#include <stdbool.h>

/* The signal that came; 0: none. */
extern volatile sig_atomic_t interrupt_signal;

/**
 * interrupt_catch() - let the first SIGINT, SIGTERM or SIGHUP set interrupt_signal
 * @in_calls: whether it ends system calls that wait, with EINTR
 *
 * The second of a kind ends the process at once. What the process was started to ignore stays ignored.
 */
void interrupt_catch(bool in_calls);

/**
 * interrupt_end() - end the process by the signal that came, if one did
 *
 * Whoever started the process sees what ended it, as if the signal had not been caught.
 */
void interrupt_end(void);

#endif /* INTERRUPT_H */
