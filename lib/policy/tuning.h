/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The numbers that decide how much memory is held and how many driver calls that takes, each with its unit, its meaning
 * and what `make tune` says of it. lib/README names the few that are elsewhere.
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

/*
 * What stands behind "off" below is what `make tune TUNE_TRACES=... TUNE_FLAGS="--rules --seeds=2"` says with the rule
 * switched off: memory taken over what was live at the most, on average for recorded programs, copies of them with
 * other sizes and other lifetimes, and generated families; and the price of the driver's calls in ms. With all rules it
 * is 1.0059, 1.0072, 1.0078, 1.0410 and 423, 891, 886, 5499 in the first pass, nothing in the second. Differences below
 * 0.002 are chance.
 */

/* How large extents are: gather-plan.c, initial.c */

/*
 * Per mille of the pool that gaps may pin, for each percent of VPMM_OVERHEAD. Less takes more calls. 40 takes 1.0063,
 * 1.0092, 1.0087, 1.0429 and 385, 789, 823, 5237. Off: 763, 1551, 1495, 11763.
 */
TUNING(stuck, 32, 0)

/*
 * Extents that make up a pool at least, over VPMM_OVERHEAD, as gaps may come. Off: 1.0118, 1.0078, 1.0129, 1.1097 and
 * 220, 650, 566, 3904.
 */
TUNING(extents_least, 128, 1)

/* Extents that make up a pool at most, over VPMM_OVERHEAD: a bound on calls. Off: 462, 963, 979, 5526. */
TUNING(extents_most, 1100, 1 << 20)

/* Extents that one request creates at most: a bound on the time of a call. Off: 507, 1050, 1044, 5878. */
TUNING(call_extents, 32, 1 << 20)

/*
 * New memory of at least this many pages gets its last page, which the next block shares, as a separate extent. Off: no
 * difference here, but a full device of odd sizes comes back in pieces (tests/host/test-packed.c).
 */
TUNING(last_apart, 16, 1 << 20)

/* Extents in which VPMM_PAGES is created, so that parts of it can be remapped. No program of make tune sets that. */
TUNING(initial_extents, 128, 1)

/* Where blocks lie: fit.c, gather.c */

/*
 * Free regions that are weighed, the smallest that fit first. 16: 1.0062, 1.0072, 1.0083, 1.0409, and one recorded
 * program takes 1.0107; with more than 24 no difference. Off: 1.0071, 1.0079, 1.0105, 1.0429.
 */
TUNING(candidates, 24, 1)

/*
 * Free regions that one search for a base or for an end of a pinned extent looks at, the best first, so that a malloc
 * that gathers takes no longer the more blocks are live. 32: 1.0057, 1.0072, 1.0089, 1.0425; with more than 64 no
 * difference. Off: 1.0123, 1.0114, 1.0140, 1.0523.
 */
TUNING(looks, 64, 1)

/*
 * Weight of a leftover byte in the fit cost, as 1/n of a newly pinned byte. Off: 1.0062, 1.0075, 1.0088, 1.0382 and
 * 461, 993, 989, 5873.
 */
TUNING(left_over, 8, 1 << 30)

/* Weight of a byte taken from a whole extent, as 1/n of a newly pinned byte. Off: 1.0068, 1.0067, 1.0084, 1.0407. */
TUNING(taken_whole, 2, 1 << 30)

/*
 * Gap left below a new block, in block sizes, so that the lower block can be extended. Off: 1.0083, 1.0077, 1.0102,
 * 1.0415.
 */
TUNING(gap, 8, 0)

/* But no more than this part of the hole, so that address space lasts. */
TUNING(gap_part, 64, 64)

/* Old addresses: policy.c, gather.c */

/*
 * Mappings a pool may keep, as 1/n of the driver's limit; above that, it unmaps old ones that nothing uses. With 16
 * programs of many phases do not settle: 3256 in the second pass of the families.
 */
TUNING(mappings_part, 4, 16)

/*
 * Reservations of address space before old mappings go instead. With 1, 128 blocks of 64 MiB to 1 GiB that are replaced
 * at random in the same way again and again, in reservations of 512 GiB, take 3,800 mappings a pass; with 4, none.
 */
TUNING(chunks_most, 4, 1)

/* Small requests: span.c */

/* Slabs grow by 1/n of what they have, so that few calls do. Off: no difference in memory. */
TUNING(span_growth, 8, 1 << 20)

/* Several streams and threads: plan.c */

/* Streams up to which the caches of all are emptied before a region is chosen. Off: 92, 109, 148, 629 in pass 2. */
TUNING(few_streams, 16, 0)

/*
 * Slow-path allocations after which a pool that two threads have used counts as used by one again. Off, threads take
 * from each other's caches what each needs: vpmm-bench threads.
 */
TUNING(crowded, 1024, 0)

#undef TUNING
#endif
