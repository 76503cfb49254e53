// SPDX-License-Identifier: LGPL-2.1-or-later
#include "memo.h"

/* Decisions of a half; a training step makes some thousands. Both halves together take some 10 MB at most. */
#define MEMO_HALF (128 * 1024)

G_STATIC_ASSERT(sizeof(gpointer) == sizeof(uint64_t));

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

static gpointer key_of(const struct memo *memo, size_t size)
{
	return (gpointer)(memo->state ^ mix(size));
}

void memo_init(struct memo *memo)
{
	*memo = (struct memo){ 0 };
	memo->young = g_hash_table_new(NULL, NULL);
	memo->old = g_hash_table_new(NULL, NULL);
}

void memo_clear(struct memo *memo)
{
	g_hash_table_destroy(memo->young);
	g_hash_table_destroy(memo->old);
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
	gpointer key = key_of(memo, size);
	gpointer addr = g_hash_table_lookup(memo->young, key);

	if (addr)
		return (uint64_t)addr;
	addr = g_hash_table_lookup(memo->old, key);
	/* What is still in use stays young. */
	if (addr)
		memo_put(memo, size, (uint64_t)addr);
	return (uint64_t)addr;
}

void memo_put(struct memo *memo, size_t size, uint64_t addr)
{
	GHashTable *forgotten;

	if (g_hash_table_size(memo->young) >= MEMO_HALF) {
		forgotten = memo->old;
		memo->old = memo->young;
		memo->young = forgotten;
		g_hash_table_remove_all(memo->young);
	}
	g_hash_table_insert(memo->young, key_of(memo, size), (gpointer)addr);
}
