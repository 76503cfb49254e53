/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The state of the packed policy. */
#ifndef STATE_H
#define STATE_H

#include <glib.h>
#include <pthread.h>
#include <stdint.h>

#include "core/gaps.h"
#include "policy/growth.h"
#include "util/bound.h"

/* Mallocs that no cache served, after which the driver calls of as many are known. */
#define STEADY_WINDOW BOUND(4096, 64)

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
 * struct packed - that state, under core.lock
 *
 * Addresses, see policy.c and gather.c:
 *
 * @most_places: unmap unused old mappings above this number of mappings; never changes
 *
 * Sizes, see gather-plan.c and growth.c:
 *
 * @worst: the gaps that called for the most extents since most of the pool was given back
 * @target: the number of extents that the latest gathering was planned for; 0: none yet
 * @growth: the effect of the latest trim
 *
 * Threads, see settle.c:
 *
 * @thread: the thread that took the slow path of a malloc last
 * @crowded: assume that several threads do until counts.mallocs reaches this
 *
 * Streams that overlap, see fit.c:
 *
 * @recent: of struct recent, by the size; NULL: none yet
 * @allowance: what VPMM_OVERLAP=auto knows, see growth.c
 *
 * For the log and the statistics:
 *
 * @steady: what the latest mallocs took
 */
struct packed {
	uint64_t most_places;
	struct gaps worst;
	double target;
	struct growth growth;
	pthread_t thread;
	uint64_t crowded;
	GHashTable *recent;
	struct allowance allowance;
	struct steady steady;
};

#endif /* STATE_H */
