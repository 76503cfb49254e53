/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A number that other threads or processes change, with a bound. */
#ifndef AT_MOST_H
#define AT_MOST_H

#include <stdatomic.h>
#include <stdint.h>

/* The number, but no more than @most. MIN() reads the number twice, and the second time it may be larger. */
static inline uint64_t load_at_most(const _Atomic uint64_t *number, uint64_t most)
{
	uint64_t value = atomic_load(number);

	return value < most ? value : most;
}

#endif /* AT_MOST_H */
