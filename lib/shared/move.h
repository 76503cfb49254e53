/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Moves pages of a range, a batch at a time. */
#ifndef MOVE_H
#define MOVE_H

#include "shared/shared.h"

/**
 * struct batch - pages of one range that move together
 * @range: the range
 * @to: where to
 * @count: how many
 * @index: which
 * @addr: an address there that the CPU has touched, with TOUCH_WRITE; only who serves touches needs that
 * @pieces: their memory there, of batch_take(); what is left over stays
 * @ops: who takes part; NULL: nobody
 * @data: passed to @ops
 * @call: the number of the call; 0: of none
 * @quiet: the call counts in the quiet ones of the pool
 * @serves: it is of the thread that serves touches
 * @touched: and so many of its pages, the first, are waited for
 * @trails: and that counts in the trailing ones of the pool
 * @moved: receives how many have moved
 */
struct batch {
	struct range *range;
	enum vpmm_location to;
	size_t count;
	size_t index[SHARED_BATCH];
	uint64_t addr[SHARED_BATCH];
	struct piece *pieces[SHARED_BATCH];
	const struct vpmm_migrate_ops *ops;
	void *data;
	uint64_t call;
	bool quiet;
	bool serves;
	size_t touched;
	bool trails;
	size_t moved;
};

/**
 * batch_most() - how many pages of a range a batch may have
 * @range: the range
 *
 * Return: the number.
 */
size_t batch_most(const struct range *range);

/**
 * batch_take() - a page becomes the next one of a batch
 * @batch: the batch; the mover is held
 * @i: the number that it gets there
 * @index: the page
 * @list: memory, of which one is taken unless the page has its own there
 *
 * Return: whether there was memory.
 */
bool batch_take(struct batch *batch, size_t i, size_t index, struct piece **list);

/**
 * batch_single() - how many pages of a batch have no memory on the host
 * @batch: the batch, of pages that go there
 *
 * Return: the number.
 */
size_t batch_single(const struct batch *batch);

/**
 * batch_take_host() - host memory for all pages of a batch
 * @batch: the batch; the mover is held, the backend entered
 *
 * Those that there is none for are left out.
 *
 * Return: 0, or an error of the backend if all are left out.
 */
int batch_take_host(struct batch *batch);

/**
 * batch_keep() - keep the memory of those that have not moved
 * @batch: the batch; the mover is held
 */
void batch_keep(struct batch *batch);

/**
 * batch_move() - move them
 * @batch: the pages, none of them there yet; the mover is held, the backend entered
 *
 * Pages that have moved have their piece, and what they had is kept; of those that have not, the piece is left in the
 * batch. A page that the CPU has not had before does when it has moved to the host, and sleeping touches go on.
 *
 * Return: 0, or an error of the backend, with which some may have moved.
 */
int batch_move(struct batch *batch);

/**
 * move_show() - let the CPU have a page on the host that it has not
 * @range: the range; the mover is held, the backend entered
 * @index: the page, hidden
 *
 * Return: 0, or an error of the backend.
 */
int move_show(struct range *range, size_t index);

/**
 * move_copy() - let the CPU read a copy of a page that is on the device
 * @range: the range; the mover is held, the backend entered
 * @index: the page, with a duplicate
 *
 * Return: 0, or an error of the backend; -ENOTSUP where the CPU's write of a copy could not be noticed.
 */
int move_copy(struct range *range, size_t index);

/**
 * move_uncopy() - take the copy from the CPU
 * @range: the range; the mover is held
 * @index: the page
 *
 * Return: 0 or -ENOMEM.
 */
int move_uncopy(struct range *range, size_t index);

/**
 * move_single() - the memory on the device becomes the only one that a page has
 * @range: the range; the mover is held
 * @index: the page, of which the CPU has no copy
 */
void move_single(struct range *range, size_t index);

/**
 * move_take_host() - host memory for a page, if there is no other that of duplicates, or what that makes room for
 * @shared: of the pool, its backend entered; the mover is held
 * @size: bytes
 * @piece: receives it, with a view
 *
 * Return: 0, or an error of the backend.
 */
int move_take_host(struct shared *shared, size_t size, struct piece **piece);

#endif /* MOVE_H */
