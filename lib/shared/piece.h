/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Memory for pages of shared ranges: created, kept when it is unused, given back. */
#ifndef PIECE_H
#define PIECE_H

#include "shared/shared.h"

/**
 * piece_take_device() - device memory for pages
 * @shared: of the pool, its backend entered; neither core.lock nor the mover held
 * @size: bytes of each
 * @count: how many are wanted
 * @pieces: receives as many as there are, a list
 *
 * Takes what is unused, then creates, then has the pool give back what it can do without.
 *
 * Return: 0, -ENOMEM if it is not @count, or another error of the backend; @pieces is a list in any case.
 */
int piece_take_device(struct shared *shared, size_t size, size_t count, struct piece **pieces);

/**
 * piece_take_host() - host memory for a page
 * @shared: of the pool, its backend entered
 * @size: bytes
 * @piece: receives it, with a view
 *
 * Takes what is unused, then creates, then gives back what is unused but of another size.
 *
 * Return: 0, or an error of the backend.
 */
int piece_take_host(struct shared *shared, size_t size, struct piece **piece);

/**
 * piece_make_mappings() - have the pool give back free memory if piece_take_host() has found no mapping
 * @shared: of the pool, its backend entered; the mover is not held
 * @size: bytes
 *
 * Does not wait for the pool's lock: who has that may touch a page, and the caller serves it.
 */
void piece_make_mappings(struct shared *shared, size_t size);

/**
 * piece_keep() - keep memory that no page has any more
 * @shared: of the pool
 * @piece: the memory; nothing refers to it
 */
void piece_keep(struct shared *shared, struct piece *piece);

/**
 * piece_keep_all() - keep a list of such memory
 * @shared: of the pool
 * @pieces: the list
 */
void piece_keep_all(struct shared *shared, struct piece *pieces);

/**
 * piece_show() - let the CPU see host memory elsewhere
 * @shared: of the pool, its backend entered
 * @piece: the memory, with a view
 * @at: where
 *
 * Return: 0, or an error of the backend.
 */
int piece_show(struct shared *shared, struct piece *piece, uint64_t at);

/**
 * piece_renew() - let the CPU see host memory at its own addresses again
 * @shared: of the pool, its backend entered
 * @piece: the memory, which nobody else has
 *
 * Return: 0, or an error of the backend.
 */
int piece_renew(struct shared *shared, struct piece *piece);

/**
 * piece_renew_kept() - the same for one that is kept
 * @shared: of the pool, its backend entered; the caller counts in @renewing
 *
 * Return: whether there was one.
 */
bool piece_renew_kept(struct shared *shared);

/**
 * piece_trim_host() - give back unused host memory above what is to be kept
 * @shared: of the pool, its backend entered
 * @keep: bytes
 *
 * Return: bytes.
 */
uint64_t piece_trim_host(struct shared *shared, uint64_t keep);

/**
 * piece_trim_device() - give back unused device memory
 * @shared: of the pool, its backend entered; neither core.lock nor the mover held
 *
 * Return: bytes.
 */
uint64_t piece_trim_device(struct shared *shared);

/**
 * piece_zero() - memory that reads as zero, for a range
 * @shared: of the pool, its backend entered; neither core.lock nor the mover held
 * @size: bytes
 * @zero: receives it, which stays @shared's; piece_zero_end() follows
 *
 * Return: 0, or as piece_take_device().
 */
int piece_zero(struct shared *shared, size_t size, struct piece **zero);

/**
 * piece_zero_end() - a range is done with that memory
 * @shared: of the pool
 * @zero: the memory, which is mapped nowhere in the range any more
 *
 * The last range leaves it with what is unused.
 */
void piece_zero_end(struct shared *shared, struct piece *zero);

/**
 * piece_give_addresses() - give back addresses of a range, now or, if the driver refuses, at a later trim
 * @shared: of the pool, its backend entered
 * @at: where they start
 * @size: bytes
 * @mapped: something may be mapped there, as the driver has refused to unmap it
 */
void piece_give_addresses(struct shared *shared, uint64_t at, size_t size, bool mapped);

/**
 * piece_clear() - give all back that no page has
 * @shared: of the pool, without ranges
 */
void piece_clear(struct shared *shared);

#endif /* PIECE_H */
