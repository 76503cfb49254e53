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
 * is 1.0056, 1.0069, 1.0070, 1.0353 and 492, 1150, 1074, 6856 in the first pass. The figures behind "off" of numbers other
 * than stuck, extents_least, call_extents and exchange_from are of 128 extents at least, where all rules took 1.0059,
 * 1.0072, 1.0078, 1.0410 and 423, 891, 886, 5499. Differences below 0.002 are chance.
 */

/* How large extents are: gather-plan.c, initial.c */

/*
 * Per mille of the pool that gaps may pin, for each percent of VPMM_OVERHEAD. Less takes more calls. With 192 extents at
 * least, 40 takes 1.0069, 1.0073, 1.0076, 1.0313 and 518, 1116, 1088, 6993. Off: 1.0059, 1.0055, 1.0057, 1.0191 and 929,
 * 1946, 1901, 15915.
 */
TUNING(stuck, 36, 0)

/*
 * Extents that make up a pool at least, over VPMM_OVERHEAD, as gaps may come. 128 takes 1.0059, 1.0072, 1.0078, 1.0421
 * and 457, 974, 1016, 6382, and the public traces 1.0067 instead of 1.0054. Off: 1.0132, 1.0107, 1.0166, 1.0931 and 375,
 * 873, 910, 4773.
 */
TUNING(extents_least, 160, 1)

/* Extents that make up a pool at most, over VPMM_OVERHEAD: a bound on calls. Off: 462, 963, 979, 5526. */
TUNING(extents_most, 1100, 1 << 20)

/*
 * Extents that one request creates at most: a bound on the time of a call. 32: 1.0063, 1.0075, 1.0074, 1.0360 and 432,
 * 1011, 912, 6475, but the public traces take 1.0104, 1.0537 at worst, instead of 1.0054, 1.0229. Off: no difference.
 */
TUNING(call_extents, 160, 1 << 20)

/*
 * Per mille of the pool that blocks may pin in extents much larger than they call for, before extents are exchanged
 * (exchange.c). Off: no difference here, as these programs have no large block that small ones follow; but with one, 2
 * percent of the free memory can be had in one request (tests/host/test-exchange.c).
 */
TUNING(exchange_from, 32, 1000)

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

/* But no more than this part of the hole, so that address space lasts. Off: the whole hole. */
TUNING(gap_part, 64, 1)

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

/*
 * Streams up to which the caches of all are emptied before a region is chosen. Streams that are gone count until they
 * are forgotten, from 65 on: with 16, a program that makes two streams a pass maps nothing from its third pass on, and
 * from its ninth as much as in the first. Off: 92, 109, 148, 629 in pass 2.
 */
TUNING(few_streams, 128, 0)

/*
 * Slow-path allocations after which a pool that two threads have used counts as used by one again. Off, threads take
 * from each other's caches what each needs: vpmm-bench threads.
 */
TUNING(crowded, 1024, 0)

/* Blocks that grow at another address: remap.c */

/*
 * MiB of a block in extents of its own, and MiB of each of those on average, from which on the block is mapped once
 * more instead of copied. On an H200 a mapping and its end take 34 us, and a copy of 64 MiB takes 38 us; but a copy
 * needs memory for both blocks. Off: always copied.
 */
TUNING(remap_least, 64, INT64_MAX >> 20)
TUNING(remap_extent, 8, INT64_MAX >> 20)

/*
 * Streams that overlap: overlap.c, recent.c, gather-plan.c. What stands behind "off" is what `VPMM_OVERLAP=50
 * VPMM_HOST_MAPPINGS=61435 make tune TUNE_FLAGS=--seeds=2` says of these programs: makespan over that with memory
 * without a bound, mean and worst, and the price of driver calls over the makespan. With all rules it is 1.012, 1.135
 * and 0.204; with as many mappings as a GPU has, 1.012, 1.136 and 0.112.
 */

/*
 * How many times as old the events of memory that is to be remapped must be, as those of memory that needs no driver
 * call, for a stream that has to wait for either. Off: 1.122, 1.639 and 0.203.
 */
TUNING(older, 2, 1 << 30)

/*
 * How many times as old the earliest pending event must be, as those of memory that is to be remapped, for the host to
 * be far enough ahead of the device that nobody waits for driver calls: remapping then need only reach older memory.
 * With VPMM_OVERLAP=auto 1.014, 1.03; 2: 1.014, 1.04. Off: 1.018, 1.05.
 */
TUNING(ahead, 4, 1 << 30)

/*
 * Events that have to be recorded behind one for a stream to wait for it although other memory is complete, which takes
 * driver calls: with VPMM_OVERLAP=auto 1.014, 1.03 and, with --price=2.7, 1.026, 1.09. 0: 1.015, 1.05 and 1.023, 1.09,
 * but a kernel that has just begun is waited for. 16: 1.046, 1.42 with --price=2.7. Off: 1.015, 1.05 and 1.047, 1.51.
 */
TUNING(behind, 4, INT64_MAX)

/* Addresses, 8 at most, that are remembered for each size that a program uses. Off: 1.010, 1.094 and 0.311. */
TUNING(recent, 8, 0)

/*
 * The part of VPMM_OVERLAP, as 1/n, that goes to larger extents. With VPMM_OVERLAP=auto, weights that stream in take
 * 1.008 and 1.046 of the time with 4, 1.019 and 1.057 with 3, 1.051 and 1.088 with 2; where driver calls take 2.7 times
 * as long, as on a busy H100, double buffers with 2 products take 1.33 with 4, 1.07 with 3 and 1.07 with 2. With
 * VPMM_OVERLAP=50, 4 takes 1.010, 1.096 and 0.293, and 2 takes 1.014, 1.123 and 0.196. Off: 1.015, 1.090 and 0.416.
 */
TUNING(overlap_extents, 3, 1 << 20)

/*
 * Extents from which on a block that is mapped of them gets larger ones in place of the small (gather.c). The twelve
 * families below with --seeds=4 --price=2.7 take 1.007, at worst 1.07, of the time; with 32 and 5 for overlap_extents,
 * 1.021 and 1.16. Off: 1.027 and 1.36.
 */
TUNING(pieces_most, 64, INT32_MAX)

/*
 * VPMM_OVERLAP=auto: allowance.c. Evidence is the twelve families that overlap and are not drawn, with
 * VPMM_OVERLAP=auto and --seeds=2, fifth to 25th pass, the time over that with memory without a bound and what was
 * taken over what was live, mean and worst: 1.005, 1.04 and 1.42, 1.79. And nine shapes of programs on the virtual
 * clock, with 3 percent of noise: 1.193, 1.62 and 1.95, 2.02. The bound, the peak once more, is no number.
 */

/*
 * Streams that wait in turn, from which on the second block is one of the mean size. Off, it always is: activations
 * take 1.67 of what is live instead of 1.34, in the same time.
 */
TUNING(auto_streams, 4, 2)

/*
 * Waits of streams that no longer have what they waited for before, from which on, and as 1/n of all from which on, a
 * program counts as one without two buffers of its own. In double buffers such waits are 2 to 8 percent, in weights
 * that stream in 19 to 26, in other programs 48 and more. Off: double buffers take 1.42 of what is live instead of
 * 1.28.
 */
TUNING(auto_bare, 6, 0)

/* Percent of the peak that two of the largest blocks may be to count as little memory. Off: three stages get no second. */
TUNING(auto_cheap, 25, 0)

/*
 * Blocks of a batch at most: more are results, which stay. Off: a batch of four sizes takes 1.75 of its time in the
 * shapes. Without a bound, a reduction behind the backward pass takes 1.94 of what is live instead of 1.3.
 */
TUNING(auto_row, 8, 0)

/*
 * Requests of a generation, of which the latest two count. A program that is given enough waits no more, so fewer make
 * the pool give back what it needs again. Off: what a program waited for at its start counts for ever
 * (tests/host/test-overlap-auto.c).
 */
TUNING(auto_requests, 1024, INT32_MAX)

#undef TUNING
#endif
