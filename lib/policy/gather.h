/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Gathering: one block is mapped from free extents, and from new memory if they are not enough. Extents of many sizes
 * take few driver calls for much memory; the price is that free memory in a partly allocated extent is pinned.
 *
 * A gathering is decided on, which changes only the stamps of extents, then ordered, and then carried out.
 */
#ifndef GATHER_H
#define GATHER_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct core;
struct extent;
struct order;
struct region;
struct stream;

/* A free range within a pinned extent. */
struct part {
	struct extent *extent;
	size_t from;
	size_t to;
};

/**
 * struct gathering - what one block is to be made of
 *
 * In the order of addresses, and each part can be missing:
 *
 *	| base        | tail   donors   new memory   head |
 *	  stays where   is mapped into @hole, at @addr
 *	  it is free
 *
 * The block begins where the base does, or else with the tail, and ends in the last part, which may be larger.
 *
 * @core: the pool's core
 * @stream: the stream that wants it
 * @order: what it has to come after
 * @size: bytes that are wanted
 * @frugal: take no more than there must be
 * @base: where the row of adjacent free regions starts that the block begins with
 * @base_size: bytes of it; 0: there is none
 * @hole: the hole behind the base
 * @exact: what is mapped ends with the block
 * @fixed: what is mapped begins where @hole does, with a base or without
 * @tail: without a base: the free end of a pinned extent, which the block begins with
 * @head: the free start of a pinned extent, which the block ends with
 * @need: bytes of donors and new memory, whole pages
 * @create: bytes of them that are to be created
 * @target: number of extents that the pool should consist of; rises with fragmentation
 * @least: bytes that an extent must have to be worth its mapping
 * @overlap: whole extents are to be taken in the order of ready_walk(); otherwise the largest that fit first
 * @donors: whole free extents, of struct extent, in the order in which they are mapped
 * @renewed: whole free extents that go back to the device first; as many bytes are created, in @create. NULL: none
 * @addr: where all but the base is mapped
 */
struct gathering {
	struct core *core;
	struct stream *stream;
	struct order *order;
	size_t size;
	bool frugal;
	bool exact;
	uint64_t base;
	size_t base_size;
	struct region *hole;
	bool fixed;
	struct part tail;
	struct part head;
	size_t need;
	size_t create;
	double target;
	size_t least;
	bool overlap;
	GPtrArray *donors;
	GPtrArray *renewed;
	uint64_t addr;
};

static inline size_t part_size(const struct part *part)
{
	return part->to - part->from;
}

/**
 * gather_decide() - choose what a block is to be made of
 * @g: receives the choice; to be cleared with gather_clear()
 * @core: the pool's core
 * @order: of the stream that wants it
 * @size: bytes
 * @frugal: take no more than there must be
 *
 * The block begins with the largest run of free regions that has a hole behind it. Whole free extents are mapped behind
 * it, the largest first, then new ones. If that would exceed the budget, the block begins in the free end of a partly
 * allocated extent, or ends in the free start of one.
 */
void gather_decide(struct gathering *g, struct core *core, struct order *order, size_t size, bool frugal);

/**
 * gather_decide_aligned() - the same of a block that begins with a page
 * @size: bytes that have such a block wherever they begin
 * @part: bytes of the block
 *
 * Without a base and a tail all of it begins with a page, so @part bytes suffice. With them less may have to be
 * created.
 */
void gather_decide_aligned(struct gathering *g, struct core *core, struct order *order, size_t size, size_t part,
			   bool frugal);

/**
 * gather_decide_behind() - the same of what is to follow an address
 * @addr: the address
 * @free: bytes that are free there, fewer than the @size bytes that are wanted from there on
 * @hole: the hole behind them
 * @exact: what is mapped must end with the @size bytes, which are whole pages
 *
 * Return: whether it fits into the hole.
 */
bool gather_decide_behind(struct gathering *g, struct core *core, struct order *order, size_t size, uint64_t addr,
			  size_t free, struct region *hole, bool frugal, bool exact);

/* The same of a block that is all new memory, but for the page that the block before ends in. */
void gather_decide_new(struct gathering *g, struct core *core, struct order *order, size_t size);

/**
 * gather_pages() - choose the pages of a block, for gather_decide() and gather_decide_behind() of a pool of pages
 * @g: the choice so far, which receives the rest
 *
 * The stream's own free memory comes first, then unused, then other streams'; each oldest first. VPMM_REUSE=block takes
 * all by age. What is missing is created. A region right in front of the hole is the base.
 */
void gather_pages(struct gathering *g);

/* Where a block of such pages can be had as it is; 0: something has to be mapped. */
uint64_t gather_row(const struct gathering *g);

/**
 * gather_renew() - create memory in place of many small donors
 * @g: the choice, whose order is found
 *
 * Where streams overlap, to map a block of many pieces takes the host longer than its stream would have waited, and so
 * it goes on: the later the host is, the more memory is complete that it could map. So pieces of at most half the size
 * of what is created now go back to the device, and as much is created: no more driver calls than to remap them, and
 * few the next time.
 */
void gather_renew(struct gathering *g);

/* The number of extents that the pool should consist of. */
double gather_target(struct core *core);

/* Remembers the present gaps, if they call for more extents than those before. */
void gather_note_gaps(const struct gathering *g);

/**
 * gather_new_size() - bytes of the extents that a block of new memory would have, by what the gaps called for last
 * @core: the pool's core
 * @size: bytes of the block
 *
 * That is when a block was gathered last, so that free memory need not be merged.
 */
size_t gather_new_size(struct core *core, size_t size);

void gather_clear(struct gathering *g);

/* Bytes of an extent that is created now. */
size_t gather_extent_size(const struct gathering *g);

/**
 * gather_last() - size of a separate final extent
 * @g: the choice
 *
 * The next block begins in the page that a large one ends in. The separate extent is pinned while either block lives;
 * the others become free with their own block.
 *
 * Return: a page, or 0.
 */
size_t gather_last(const struct gathering *g);

/* Bytes of the whole extents that are to be remapped, and of those that go back to the device first. */
size_t gather_moved(const struct gathering *g);
size_t gather_renewed(const struct gathering *g);

/* Bytes of all extents that are to be remapped, the pinned ones at both ends included; and with new memory, of all. */
size_t gather_remapped(const struct gathering *g);
size_t gather_bytes(const struct gathering *g);

/* Finds out what the stream has to wait for: the wait set receives the events. */
void gather_order(struct gathering *g);

/**
 * gather_carry_out() - carry out a gathering
 * @g: the gathering, after gather_order(); the backend is entered
 * @handle: a handle of the stream
 * @addr: receives the start of a free range of the request's size, which the stream is ordered after
 *
 * Return: 0, or an error of the backend: then the pool may hold less free memory than before.
 */
int gather_carry_out(struct gathering *g, struct CUstream_st *handle, uint64_t *addr);

#endif /* GATHER_H */
