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

/* One number by its name, for the programs that measure the policy; a row without a name is the last. */
struct tuning_number {
	const char *name;
	int64_t *value;
	int64_t off;
};
extern const struct tuning_number tuning_numbers[];

#ifdef POLICY_TUNABLE
#define TUNING(name, value, off) extern int64_t tuning_##name;
#else
#define TUNING(name, value, off) enum { tuning_##name = (value) };
#endif
#endif

/*
 * "Off" below is a row of `make tune TUNE_TRACES=... TUNE_FLAGS=--rules` (five recorded traces, eleven public ones):
 * the rule by itself switched off. Memory taken over what was live at the most, on average for recorded programs,
 * copies of them with other sizes and other lifetimes, and generated families; ms of driver calls in the first pass;
 * and in the second. With all rules: 1.0056, 1.0081, 1.0042, 1.0320; 1264, 1402, 1186, 3505; 24, 44, 68, 1685, all
 * without training with shuffled batches. Differences below 0.002 are chance. policy/NOTES has the whole table, and
 * what has gone since.
 */

/* How large extents are: gather-size.c, gather-plan.c */

/*
 * Per mille of the pool that gaps may pin, for each percent of VPMM_OVERHEAD. Less takes more calls. Off: 1.0052,
 * 1.0056, 1.0031, 1.0189; 2405, 2999, 2363, 7682.
 */
TUNING(stuck, 36, 0)

/*
 * Extents that make up a pool at least, over VPMM_OVERHEAD, as gaps may come. Off: 1.0192, 1.0244, 1.0092, 1.0944;
 * 794, 953, 874, 2394.
 */
TUNING(extents_least, 160, 1)

/*
 * Extents that make up a pool at most, over VPMM_OVERHEAD: a bound on calls. Off: 1.0055, 1.0079, 1.0040, 1.0319;
 * 1339, 1754, 1266, 3506. Streams that overlap make 0.131 of the makespan in calls instead of 0.042, and take 1.06 at
 * worst.
 */
TUNING(extents_most, 1100, 1 << 20)

/*
 * Extents that one request creates at most: a bound on the time of a call. Off: 1.0054, 1.0077, 1.0041, 1.0318; 1320,
 * 1483, 1193, 3558.
 */
TUNING(call_extents, 160, 1 << 20)

/*
 * Per mille of the pool that blocks may pin in extents much larger than they call for, before extents are exchanged
 * (exchange.c). 0 does not settle: 329, 286, 410, 1852 in the second pass. Off: no difference here, as these programs
 * have no large block that small ones follow; but with one, 2 percent of the free memory can be had in one request
 * (tests/host/test-exchange.c).
 */
TUNING(exchange_from, 32, 1000)

/*
 * New memory of at least this many pages gets its last page, which the next block shares, as a separate extent. Off:
 * 1.0057, 1.0084, 1.0048, 1.0331; with --seeds=2, other sizes take 1.036 instead of 1.023 at worst, and families 1.0361
 * instead of 1.0344.
 */
TUNING(last_apart, 16, 1 << 20)

/* Extents in which VPMM_PAGES is created, so that parts of it can be remapped. No program of make tune sets that. */
TUNING(initial_extents, 128, 1)

/* Where blocks lie: fit.c, gather.c */

/*
 * Free regions that are weighed, the smallest that fit first. Off: 1.0065, 1.0079, 1.0052, 1.0326; with the next two
 * off as well, llama_generate takes 1.0103 instead of 1.0077, and three stages that overlap 1.5 of their time
 * (tests/host/test-overlap-auto.c), as memory that others wait for less is no longer left to them.
 */
TUNING(candidates, 24, 1)

/*
 * Free regions that one search for a base or for an end of a pinned extent looks at, the best first, so that a malloc
 * that gathers takes no longer the more blocks are live. Off: 1.0097, 1.0116, 1.0058, 1.0417.
 */
TUNING(looks, 64, 1)

/*
 * Weight of a leftover byte in the fit cost, as 1/n of a newly pinned byte. Off: 1.0058, 1.0075, 1.0037, 1.0326, but
 * gpt_varlen and llama_generate take 1.0091 and 1.0107 instead of 1.0059 and 1.0077.
 */
TUNING(left_over, 8, 1 << 30)

/*
 * Gap left below a new block, in block sizes, so that the lower block can be extended. Off: 1.0056, 1.0080, 1.0042,
 * 1.0332; 1412, 1436, 1273, 3325; three stages that overlap take 1.5 of their time (tests/host/test-overlap-auto.c).
 */
TUNING(gap, 8, 0)

/* But no more than this part of the hole, so that address space lasts. Off: the whole hole. */
TUNING(gap_part, 64, 1)

/* Old addresses: policy.c, gather.c */

/*
 * A stream repeats itself if it has repeated 1/n as many requests in a row as were new to core.routine since that noted
 * the stream's long past (core/memo.h). Off: no difference above, but training with shuffled batches takes 1.0563 and
 * 537 ms in its first pass in place of 1.0504 and 416 (--only=shuffled --seeds=6).
 */
TUNING(repeated, 8, 1 << 30)

/*
 * Mappings a pool may keep, as 1/n of the driver's limit; above that, it unmaps old ones that nothing uses. With 16
 * programs of many phases do not settle: 2961 in the second pass of the families.
 */
TUNING(mappings_part, 4, 16)

/*
 * Reservations of address space before old mappings go instead. With 1, 128 blocks of 64 MiB to 1 GiB that are
 * replaced at random in the same way again and again, in reservations of 512 GiB, take 3,800 mappings a pass; with 4,
 * none.
 */
TUNING(chunks_most, 4, 1)

/* Small requests: span.c */

/*
 * Slabs grow by 1/n of what they have. A program that grows to 64 MiB, 300 MiB, 1, 5 and 17 GiB by 64 KiB takes at most
 * 1.004 of that, in 32, 150, 512, 975 and 1,298 creations; with n = 8 up to 1.08, in 23, 37, 47, 61 and 71. Off: 1.000,
 * in 32, 150, 512, 2,500 and 8,500.
 */
TUNING(span_growth, 256, 1 << 20)

/* Several streams and threads: plan.c */

/*
 * Streams up to which the caches of all are emptied before a region is chosen. Streams that are gone count until they
 * are forgotten, from 65 on: with 16, a program that makes two streams a pass maps nothing from its third pass on, and
 * from its ninth as much as in the first. Off: 127, 124, 152, 2146 in the second pass.
 */
TUNING(few_streams, 128, 0)

/*
 * Slow-path allocations after which a pool that two threads have used counts as used by one again, as few_streams is
 * for one thread alone. Off, threads take from each other's caches what each needs: vpmm-bench threads.
 */
TUNING(crowded, 1024, 0)

/* Blocks that grow at another address: resize.c */

/*
 * MiB of a block in extents of its own, and MiB of each of those on average, from which on the block is mapped once
 * more instead of copied. On an H200 a mapping and its end take 34 us, and a copy of 64 MiB takes 38 us; but a copy
 * needs memory for both blocks. Off: always copied.
 */
TUNING(remap_least, 64, INT64_MAX >> 20)
TUNING(remap_extent, 8, INT64_MAX >> 20)

/*
 * Streams that overlap: fit.c, gather-plan.c. "Off" is of the twelve families that are not drawn in the
 * same run, with VPMM_OVERLAP=auto: time over that with memory without a bound, mean and worst; memory; and the price
 * of driver calls over the makespan. With all rules: 1.0039, 1.018; 1.441; 0.042; most rows are older, 1.0047, 1.031;
 * 1.442; 0.042 then.
 */

/*
 * How many times as old the events of memory that is to be remapped must be, as those of memory that needs no driver
 * call, for a stream that has to wait for either. Off: 1.0094, 1.055; 1.440; 0.030.
 */
TUNING(older, 2, 1 << 30)

/*
 * How many times as old the earliest pending event must be, as those of memory that is to be remapped, for the host to
 * be far enough ahead of the device that nobody waits for driver calls: remapping then need only reach older memory.
 * Off: 1.0088, 1.072; 1.442; 0.069.
 */
TUNING(ahead, 4, 1 << 30)

/*
 * Events that have to be recorded behind one for a stream to wait for it although other memory is complete, which
 * takes driver calls. With 0, a kernel that has just begun is waited for. Off: 1.0042, 1.113; 1.450; 0.049; with
 * --price=2.7, 1.047, 1.51 instead of 1.026, 1.09.
 */
TUNING(behind, 4, INT64_MAX)

/* Addresses, 8 at most, that are remembered for each size that a program uses. Off: 1.0059, 1.160; 1.462; 0.042. */
TUNING(recent, 8, 0)

/*
 * The part of VPMM_OVERLAP, as 1/n, that goes to larger extents. Weights that stream in take 1.008 and 1.046 of the
 * time with 4, 1.019 and 1.057 with 3, 1.051 and 1.088 with 2; where driver calls take 2.7 times as long, as on a
 * busy H100, double buffers with 2 products take 1.33 with 4, 1.07 with 3 and 1.07 with 2. Off: 1.0096, 1.051; 1.455;
 * 0.643.
 */
TUNING(overlap_extents, 3, 1 << 20)

/*
 * Extents that one request creates at most while streams overlap. Off: 1.0042, 1.014; 1.450; 0.049; with --seeds=4
 * --price=2.7, the first pass takes 1.069 and 1.45 at worst instead of 1.045 and 1.14, other passes 1.0088 and 1.07
 * instead of 1.0085 and 1.09. On an H200 driver calls take half the time (tests/gpu/RESULTS).
 */
TUNING(overlap_call, 8, 1 << 20)

/*
 * Extents from which on a block that is mapped of them gets larger ones in place of the small (gather.c). Off: 1.0032,
 * 1.019; 1.442; 0.146; with --seeds=4 --price=2.7, 1.027 and 1.36 instead of 1.007 and 1.07.
 */
TUNING(pieces_most, 64, INT32_MAX)

/*
 * VPMM_OVERLAP=auto: growth.c. "Off" is as above; and nine shapes of programs on the virtual clock, with 3 percent
 * of noise, take 1.193, 1.62; 1.95 with all rules. The bound, the peak once more, is no number.
 */

/*
 * Streams that wait in turn, from which on the second block is one of the mean size. Off, it always is: 1.0042, 1.041;
 * 1.498; 0.042.
 */
TUNING(auto_streams, 4, 2)

/*
 * Waits of streams that no longer have what they waited for before, from which on, and as 1/n of all from which on, a
 * program counts as one without two buffers of its own. In double buffers such waits are 2 to 8 percent, in weights
 * that stream in 19 to 26, in other programs 48 and more. Off: 1.0065, 1.029; 1.482; 0.038, and double buffers take
 * 1.42 of what is live instead of 1.28.
 */
TUNING(auto_bare, 6, 0)

/*
 * Percent of the peak that two of the largest blocks may be to count as little memory. Off: no difference here, but
 * three stages get no second block, and take 1.5 of their time (tests/host/test-overlap-auto.c).
 */
TUNING(auto_cheap, 25, 0)

/*
 * Blocks of a batch at most: more are results, which stay. Off: 1.0054, 1.033; 1.410; 0.042, but a batch of four
 * sizes takes 1.75 of its time in the shapes. Without a bound, a reduction behind the backward pass takes 1.94 of
 * what is live instead of 1.3.
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
