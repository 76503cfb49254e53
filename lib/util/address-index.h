/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Whose an address is: the ranges of addresses that the owners in this process have, in one index with a lock of its
 * own. So nobody has to ask one owner after another, each of which may be busy for long.
 */
#ifndef ADDRESS_INDEX_H
#define ADDRESS_INDEX_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/**
 * struct address_owner - who has ranges; all zero at first. Under the lock of the index
 * @who: what address_visit() returns; NULL: nobody may visit
 * @ended: it has no ranges any more, and gets none
 * @visitors: how many threads may still read @who
 * @ranges: of struct address_range
 */
struct address_owner {
	void *who;
	bool ended;
	unsigned int visitors;
	GQueue ranges;
};

/**
 * struct address_range - a range, within what stands for it at its owner; all zero at first
 * @addr: where it starts
 * @size: bytes
 * @owner: the owner; NULL: it is not in the index
 * @link: its link in the owner's ranges
 */
struct address_range {
	uint64_t addr;
	uint64_t size;
	struct address_owner *owner;
	GList link;
};

/**
 * address_add() - enter a range
 * @owner: its owner; nothing is done if that has ended
 * @range: the range, in no index; stays where it is until address_remove() or address_end()
 * @addr: where it starts
 * @size: bytes, not 0
 *
 * What others have entered for the same addresses is stale, and is removed.
 *
 * Context: any thread.
 */
void address_add(struct address_owner *owner, struct address_range *range, uint64_t addr, uint64_t size);

/**
 * address_remove() - remove a range, before whoever gave the addresses can give them to another
 * @range: the range; nothing is done if it is in no index
 *
 * Context: any thread.
 */
void address_remove(struct address_range *range);

/**
 * address_start() - where the range starts that has an address
 * @addr: the address
 *
 * Context: any thread.
 * Return: where; 0: it is in no range.
 */
uint64_t address_start(uint64_t addr);

/**
 * address_open() - let others visit an owner
 * @owner: the owner
 * @who: what they find
 *
 * Context: any thread.
 */
void address_open(struct address_owner *owner, void *who);

/**
 * address_visit() - find the owner of an address, which does not end before address_leave()
 * @addr: the address
 * @owner: receives the owner, for address_leave()
 *
 * Context: any thread.
 * Return: @who of address_open(); NULL: nobody has the address, and there is nobody to leave.
 */
void *address_visit(uint64_t addr, struct address_owner **owner);

/**
 * address_leave() - end a visit
 * @owner: from address_visit()
 *
 * Context: any thread.
 */
void address_leave(struct address_owner *owner);

/**
 * address_end() - remove all ranges of an owner, for good, and wait until nobody visits it
 * @owner: the owner; nothing is done if it has ended
 *
 * Context: any thread that holds no lock which a visitor takes.
 */
void address_end(struct address_owner *owner);

#endif /* ADDRESS_INDEX_H */
