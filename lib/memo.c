// SPDX-License-Identifier: LGPL-2.1-or-later
#include "memo.h"

/* Decisions of a half; a training step makes some thousands. Both halves together take some 8 MB at most. */
#define MEMO_HALF (128 * 1024)

static uint64_t mix(uint64_t x)
{
	x ^= x >> 33;
	x *= UINT64_C(0xff51afd7ed558ccd);
	x ^= x >> 33;
	x *= UINT64_C(0xc4ceb9fe1a85ec53);
	return x ^ x >> 33;
}

/* The sum of what each allocation is worth does not mind in which order they came. */
static uint64_t worth(uint64_t addr, size_t size)
{
	return mix(addr * UINT64_C(0x9e3779b97f4a7c15) + size);
}

static uint64_t key_of(const struct memo *memo, size_t size)
{
	return memo->state ^ mix(size);
}

void memo_init(struct memo *memo)
{
	*memo = (struct memo){ 0 };
	table_init(&memo->young);
	table_init(&memo->old);
}

void memo_clear(struct memo *memo)
{
	table_clear(&memo->young);
	table_clear(&memo->old);
}

void memo_enter(struct memo *memo, uint64_t addr, size_t size)
{
	memo->state += worth(addr, size);
}

void memo_leave(struct memo *memo, uint64_t addr, size_t size)
{
	memo->state -= worth(addr, size);
}

uint64_t memo_find(struct memo *memo, size_t size)
{
	uint64_t key = key_of(memo, size);
	void *addr = table_find(&memo->young, key);

	if (addr)
		return (uintptr_t)addr;
	addr = table_find(&memo->old, key);
	/* What is still in use stays young. */
	if (addr)
		memo_put(memo, size, (uintptr_t)addr);
	return (uintptr_t)addr;
}

void memo_put(struct memo *memo, size_t size, uint64_t addr)
{
	if (memo->young.used >= MEMO_HALF) {
		table_clear(&memo->old);
		memo->old = memo->young;
		table_init(&memo->young);
	}
	table_set(&memo->young, key_of(memo, size), (void *)(uintptr_t)addr);
}
