// SPDX-License-Identifier: LGPL-2.1-or-later
/* Decisions by a hash of the state: a log, and a hash table of indices into it. */
#include <glib.h>
#include <stdbool.h>

#include "core/memo.h"
#include "util/bound.h"

/* The size at first. */
#define LEAST BOUND(1024, 64)

/*
 * Decisions to a row of the table: a quarter of what it has room for, as they do not spread evenly. With half, one row
 * in 300 overflows and forgets the decision that a later pass of a program would have begun with.
 */
#define OF_ROW (MEMO_WAYS / 4)

/* A slot is the upper bits of the key, a bit that says that it is in use, and an index in the log. */
#define TAKEN ((uint32_t)1 << 31)
#define WHERE (MEMO_MOST - 1)

/* A deleted slot: a search goes on behind it. */
#define EMPTIED 1

/* These bits of a key choose the slot where its search begins. */
#define OWN_SLOT 60

static uint64_t mix(uint64_t x)
{
	x ^= x >> 33;
	x *= UINT64_C(0xff51afd7ed558ccd);
	x ^= x >> 33;
	x *= UINT64_C(0xc4ceb9fe1a85ec53);
	return x ^ x >> 33;
}

/* A sum, so that the order of the allocations does not matter. */
static uint64_t worth(uint64_t addr, size_t size)
{
	return mix(addr * UINT64_C(0x9e3779b97f4a7c15) + size);
}

static struct memo_row *row_of(const struct memo *memo, uint64_t key)
{
	return &memo->rows[key & memo->row_mask];
}

static uint32_t slot_of(uint64_t key, uint32_t where)
{
	return TAKEN | ((uint32_t)(key >> 32) & ~TAKEN & ~WHERE) | where;
}

/* The age of a decision, in decisions. */
static uint32_t age_of(const struct memo *memo, uint32_t where)
{
	return (uint32_t)(memo->count - 1 - where) & memo->mask;
}

static void make_rows(struct memo *memo)
{
	memo->row_mask = (memo->mask + 1) / OF_ROW - 1;
	memo->rows = g_aligned_alloc0(memo->row_mask + 1, sizeof(*memo->rows), sizeof(*memo->rows));
}

void memo_init(struct memo *memo)
{
	*memo = (struct memo){ .mask = LEAST - 1 };
	memo->log = g_new(struct decision, LEAST);
	make_rows(memo);
}

void memo_clear(struct memo *memo)
{
	g_aligned_free(memo->rows);
	g_free(memo->log);
}

void memo_enter(struct memo *memo, uint64_t addr, size_t size)
{
	memo->state += worth(addr, size);
}

void memo_leave(struct memo *memo, uint64_t addr, size_t size)
{
	memo->state -= worth(addr, size);
}

/* An addend is shifted out after 32 more of them, or 64. */
void past_add(struct past *past, const struct memo_found *found)
{
	past->near = (past->near << 2) + found->hash;
	if (!(past->near >> 60))
		past->far = (past->far << 1) + mix(past->near);
}

/* The lower bits choose the row of the table. Without mixing they depend on the latest few sizes or marks alone. */
uint64_t past_state(const struct past *past, enum past_length length)
{
	return mix(length == PAST_LONG ? past->near ^ past->far : ~past->near);
}

/* The slot of a decision; NULL: none. Each key begins its search at a slot of its own. */
static uint32_t *find_slot(const struct memo *memo, uint64_t key)
{
	uint32_t *slots = row_of(memo, key)->slots, wanted = slot_of(key, 0);
	unsigned int i = key >> OWN_SLOT;

	for (unsigned int n = 0; n < MEMO_WAYS && slots[i % MEMO_WAYS]; n++, i++) {
		uint32_t slot = slots[i % MEMO_WAYS];

		if ((slot & ~WHERE) == wanted && memo->log[slot & WHERE].key == key)
			return &slots[i % MEMO_WAYS];
	}
	return NULL;
}

/* The first empty slot, or else that of the oldest decision. */
static void add_slot(struct memo *memo, uint64_t key, uint32_t where)
{
	uint32_t *slots = row_of(memo, key)->slots;
	unsigned int i = key >> OWN_SLOT, best = 0;

	for (unsigned int n = 0; n < MEMO_WAYS; n++, i++) {
		if (slots[i % MEMO_WAYS] & TAKEN)
			continue;
		slots[i % MEMO_WAYS] = slot_of(key, where);
		return;
	}
	for (i = 1; i < MEMO_WAYS; i++) {
		if (age_of(memo, slots[i] & WHERE) > age_of(memo, slots[best] & WHERE))
			best = i;
	}
	slots[best] = slot_of(key, where);
}

static void memo_grow(struct memo *memo)
{
	memo->mask = 4 * memo->mask + 3;
	memo->log = g_renew(struct decision, memo->log, memo->mask + 1);
	g_aligned_free(memo->rows);
	make_rows(memo);
	for (uint32_t i = 0; i < memo->count; i++)
		add_slot(memo, memo->log[i].key, i);
}

/* Deletes the slot of a decision. */
static void delete_slot(struct memo *memo, uint32_t where)
{
	uint32_t *slot = find_slot(memo, memo->log[where].key);

	if (slot && (*slot & WHERE) == where)
		*slot = EMPTIED;
}

static void append(struct memo *memo, const struct decision *decision)
{
	uint32_t where;

	if (memo->count > memo->mask && memo->mask < MEMO_MOST - 1)
		memo_grow(memo);
	else if (memo->count > memo->mask)
		delete_slot(memo, memo->count & memo->mask);
	where = memo->count++ & memo->mask;
	memo->log[where] = *decision;
	add_slot(memo, decision->key, where);
	/* Prefetch the row that the next insertion makes room in. */
	if (memo->count > memo->mask)
		__builtin_prefetch(row_of(memo, memo->log[memo->count & memo->mask].key));
}

void memo_restore(struct memo *memo, uint64_t key, uint64_t addr)
{
	append(memo, &(struct decision){ .key = key, .addr = addr });
}

struct memo_found memo_find(const struct memo *memo, uint64_t state, size_t size)
{
	struct memo_found found = { .hash = mix(size), .where = memo->next & memo->mask };

	found.key = state ^ found.hash;
	if (memo->next >= memo->count || memo->log[found.where].key != found.key) {
		const uint32_t *slot = find_slot(memo, found.key);

		if (!slot)
			return found;
		found.where = *slot & WHERE;
	}
	found.addr = memo->log[found.where].addr;
	found.before = memo->log[found.where].before;
	return found;
}

uint32_t memo_age(const struct memo *memo, const struct memo_found *found)
{
	return age_of(memo, found->where);
}

/* The decisions behind it are expected next. */
static void follow(struct memo *memo, const struct memo_found *found)
{
	uint32_t where = found->where, age = age_of(memo, where);

	memo->next = memo->count - age;
	/* Still in use: append it again, before the ring overwrites it. */
	if (age > MEMO_MOST / 2) {
		delete_slot(memo, where);
		memo->log[where].key = 0;
		append(memo, &(struct decision){ .key = found->key, .addr = found->addr, .before = found->before });
	}
}

static void decision_replace(struct decision *decision, uint64_t addr)
{
	if (decision->addr == addr)
		return;
	decision->before = decision->addr;
	decision->addr = addr;
}

static void put_decision(struct memo *memo, const struct memo_found *found, uint64_t addr)
{
	uint64_t key = memo->state ^ found->hash;
	struct decision *last = &memo->log[(memo->next - 1) & memo->mask];
	uint32_t *slot = found->key == key && !found->addr ? NULL : find_slot(memo, key);
	bool again = memo->next && last->key == key;

	/*
	 * The same decision may be found again by following the log, even if the table has another of its key, or
	 * none.
	 */
	if (again)
		decision_replace(last, addr);
	if (slot)
		decision_replace(&memo->log[*slot & WHERE], addr);
	else if (!again)
		append(memo, &(struct decision){ .key = key, .addr = addr });
}

void memo_note(struct memo *memo, const struct memo_found *found, uint64_t addr)
{
	if (found->addr)
		follow(memo, found);
	if (found->addr != addr)
		put_decision(memo, found, addr);
}
