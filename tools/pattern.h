/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The pattern that --verify writes. Every word of it depends on where it stands and on a key, so that memory which
 * another allocation wrote to, or which is another part of the same allocation, shows in every word. The kernels of
 * device-cuda.c compute the same.
 */
#ifndef PATTERN_H
#define PATTERN_H

#include <stdint.h>

#define PATTERN_STRIDE UINT32_C(0x9e3779b1)

/**
 * pattern_key() - the key of an allocation
 * @number: no two allocations of a run have the same
 *
 * Return: different keys for different numbers.
 */
static inline uint32_t pattern_key(uint32_t number)
{
	number ^= number >> 16;
	number *= UINT32_C(0x7feb352d);
	number ^= number >> 15;
	number *= UINT32_C(0x846ca68b);
	return number ^ number >> 16;
}

/**
 * pattern_word() - one word of the pattern
 * @index: which word of the allocation
 * @key: of pattern_key()
 */
static inline uint32_t pattern_word(uint64_t index, uint32_t key)
{
	return ((uint32_t)index ^ (uint32_t)(index >> 32)) * PATTERN_STRIDE ^ key;
}

#endif /* PATTERN_H */
