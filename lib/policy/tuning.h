/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The numbers of the policy, each with its unit, its meaning and what `make tune` says of it.
 *
 * TUNING(name, value, off): with @off, the rule that the number belongs to does nothing. In the library each name is a
 * constant. The programs that measure the policy are built with POLICY_TUNABLE and can change it at run time.
 */
#if defined(TUNING) || !defined(TUNING_H)
#define TUNING_H

#ifndef TUNING
#include <stdint.h>
#ifdef POLICY_TUNABLE
#define TUNING(name, value, off) extern int64_t tuning_##name;
#else
#define TUNING(name, value, off) enum { tuning_##name = (value) };
#endif
#endif

TUNING(stuck, 32, 0)
TUNING(extents_least, 128, 1)
TUNING(extents_most, 1100, 1 << 20)
TUNING(call_extents, 32, 1 << 20)
TUNING(last_apart, 16, 1 << 20)

TUNING(mappings_part, 4, 16)
TUNING(gap, 8, 0)
TUNING(chunks_most, 4, 1)
TUNING(few_streams, 16, 0)
TUNING(borrows, 1024, 0)
TUNING(candidates, 16, 1)

TUNING(gap_part, 64, 64)
TUNING(crowded, 1024, 0)
TUNING(span_growth, 8, 8)
TUNING(rest_least, 16384, 16384)
TUNING(rests, 8, 8)
TUNING(left_over, 8, 8)
TUNING(taken_whole, 2, 1 << 30)

#undef TUNING
#endif
