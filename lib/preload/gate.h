/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * VPMM_PAUSABLE: a gate that submissions, captures and allocations of the program pass. It is closed while tags are
 * paused, so that a program which knows nothing of that goes on when they are back, as if the device had been slow.
 */
#ifndef PRELOAD_GATE_H
#define PRELOAD_GATE_H

/**
 * gate_enter() - begin a call that may use memory; waits while the gate is closed
 *
 * Calls that nest pass it once.
 *
 * Context: any thread, no lock held. gate_leave() has to follow.
 */
void gate_enter(void);

/**
 * gate_leave() - the end of that
 */
void gate_leave(void);

/**
 * gate_guard() - what vpmm_pause_guard() is given
 * @data: nothing
 * @rest: milliseconds: close the gate, and wait for what has passed it and for the work of all devices; 0: open it
 *
 * Return: 0, or -EBUSY: a capture or that work has not ended in time, and the gate is open.
 */
int gate_guard(void *data, int rest);

/**
 * gate_begin() - see to it that a forked child finds the gate open
 */
void gate_begin(void);

/* A call between the two. */
#define GATED(call) \
	({ \
		__typeof__(call) gated_result; \
		gate_enter(); \
		gated_result = call; \
		gate_leave(); \
		gated_result; \
	})

#endif /* PRELOAD_GATE_H */
