/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Blocks that change their size where they are. The contents are not touched. */
#ifndef RESIZE_H
#define RESIZE_H

#include <stdbool.h>
#include <stddef.h>

struct core;
struct event;
struct region;
struct request;
struct stream;

/**
 * resize_extend() - have free memory follow a block
 * @core: the pool's core; its lock is held, its backend entered
 * @region: the block
 * @request: the new size, larger than the block's; its stream is ordered after the earlier uses of what follows
 * @fits: receives whether enough is free behind the block now; otherwise it cannot grow where it is, or memory is
 *	out, and a @frugal request can succeed once more was reclaimed
 *
 * Does not wait on the host, unless VPMM_REUSE=block or a capture requires it.
 *
 * Return: 0, or an error of the backend; only the layout of free memory may have changed then.
 */
int resize_extend(struct core *core, struct region *region, const struct request *request, bool *fits);

/**
 * resize_commit() - give a block a new size
 * @core: the pool's core
 * @region: the block, after cache_take(); gone afterwards
 * @size: its new size, rounded by core_round(); what follows it is free up to there
 * @requested: the same, as requested
 * @stream: the stream that the block belongs to from now on, ordered after all uses of the block and of what follows
 * @event: a point in that stream, behind all of that
 *
 * What the block loses becomes free behind @event. This cannot fail.
 */
void resize_commit(struct core *core, struct region *region, size_t size, size_t requested, struct stream *stream,
		   struct event *event);

#endif /* RESIZE_H */
