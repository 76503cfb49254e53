/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Samples the call stacks of allocations, for VPMM_STACKS.
 *
 * Of every so many bytes that a thread allocates, one is sampled at random, and with it its allocation: the distances
 * are distributed exponentially. So an allocation is sampled the likelier the larger it is, and a sample stands for
 * 1 / (1 - exp(-size / interval)) allocations of its size. What is sampled is kept by address until its free, and
 * summed up by stack.
 */
#ifndef SAMPLER_H
#define SAMPLER_H

#include <glib.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sampler;
struct sample;

/**
 * sampler_new() - begin to sample the allocations of a pool
 * @interval: bytes; 1: all of them
 */
struct sampler *sampler_new(size_t interval);

/**
 * sampler_free() - end that, and forget all
 * @sampler: the sampler; NULL does nothing
 */
void sampler_free(struct sampler *sampler);

/**
 * sampler_note() - note an allocation
 * @sampler: the sampler
 * @addr: of the block
 * @size: of it in bytes, at least 1
 *
 * Context: no lock held. The block cannot be freed before it returns.
 */
void sampler_note(struct sampler *sampler, uint64_t addr, size_t size);

/* Blocks that are sampled, of all pools. */
extern _Atomic unsigned int sampler_live;

struct sample *sampler_find(const struct sampler *sampler, uint64_t addr);

/**
 * sampler_take() - note that a block is about to be freed
 * @sampler: of the pool whose block it is; NULL: any
 * @addr: of it
 *
 * Context: before another thread can get the addresses.
 * Return: its sample, for sampler_end(); NULL: there is none.
 */
static inline struct sample *sampler_take(const struct sampler *sampler, uint64_t addr)
{
	return G_LIKELY(!atomic_load_explicit(&sampler_live, memory_order_relaxed)) ? NULL :
	       sampler_find(sampler, addr);
}

/**
 * sampler_end() - end what sampler_take() has begun
 * @sample: from sampler_take(); NULL does nothing
 * @there: the block is not freed after all
 *
 * Context: also after sampler_free().
 */
void sampler_end(struct sample *sample, bool there);

/**
 * sampler_write() - write all stacks, those that hold most first
 * @sampler: the sampler
 * @out: receives the lines
 *
 * Context: core.lock may be held.
 */
void sampler_write(struct sampler *sampler, GString *out);

/**
 * sampler_name() - name the stacks that hold most in a few words
 * @samplers: of the pools whose stacks are compared
 * @most: how many of them
 * @out: receives a line for each
 *
 * Context: core.lock may be held.
 */
void sampler_name(const GPtrArray *samplers, unsigned int most, GString *out);

#endif /* SAMPLER_H */
