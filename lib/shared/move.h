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
 * @pieces: their memory there, taken by the caller; what is left over stays
 * @ops: who takes part; NULL: nobody
 * @data: passed to @ops
 * @call: the number of the call; 0: of none
 * @quiet: the call counts in the quiet ones of the pool
 * @moved: receives how many have moved
 */
struct batch {
	struct range *range;
	enum vpmm_location to;
	size_t count;
	size_t index[SHARED_BATCH];
	struct piece *pieces[SHARED_BATCH];
	const struct vpmm_migrate_ops *ops;
	void *data;
	uint64_t call;
	bool quiet;
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

#endif /* MOVE_H */
