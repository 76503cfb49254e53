/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Whether a program settles: one that repeats itself gets the same addresses again, without driver calls. */
#ifndef STEADY_H
#define STEADY_H

#include <stdint.h>

struct core;

/* Mallocs that no cache served, after which the driver calls of as many are known. */
#define STEADY_WINDOW 4096

/**
 * struct steady - what the latest mallocs took, under core.lock
 * @mallocs: since the window began
 * @windows: how many there were
 * @calls: driver calls of the pool when the window began
 * @creates: those of them that created memory
 * @latest: driver calls of the latest window
 */
struct steady {
	unsigned int mallocs;
	uint64_t windows;
	uint64_t calls;
	uint64_t creates;
	uint64_t latest;
};

/**
 * steady_note() - count a malloc that no cache served; the log gets a line when a program settles, and now and then
 *	while one does not
 * @core: the pool's core; its lock is held
 */
void steady_note(struct core *core);

#endif /* STEADY_H */
