// SPDX-License-Identifier: LGPL-2.1-or-later
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "trace/ticks.h"

/* cpuid: whether the time stamp counter runs at one rate, whatever the processor's clock does or sleeps. */
#define CPUID_POWER 0x80000007
#define CPUID_INVARIANT (1u << 8)

_Atomic bool ticks_steady;

static bool is_steady(void)
{
#ifdef __x86_64__
	unsigned int a, b, c, d;

	return __get_cpuid(CPUID_POWER, &a, &b, &c, &d) && d & CPUID_INVARIANT;
#else
	return false;
#endif
}

void ticks_begin(struct ticks *ticks)
{
	atomic_store_explicit(&ticks_steady, is_steady(), memory_order_relaxed);
	*ticks = (struct ticks){ .to = ticks_read(), .to_ns = clock_ns() };
}

void ticks_go_on(struct ticks *ticks)
{
	ticks->from = ticks->to;
	ticks->from_ns = ticks->to_ns;
	ticks->to = ticks_read();
	ticks->to_ns = clock_ns();
	/* A counter that stands still, or was set back, takes all calls to the first point. */
	ticks->rate = ticks->to > ticks->from ?
		      (double)(ticks->to_ns - ticks->from_ns) / (double)(ticks->to - ticks->from) : 0;
}

uint64_t ticks_ns(const struct ticks *ticks, uint64_t time)
{
	return ticks->from_ns + (uint64_t)(int64_t)((double)(int64_t)(time - ticks->from) * ticks->rate);
}
