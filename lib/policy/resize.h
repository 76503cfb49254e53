/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Blocks that change their size where they are, or grow at another address, where their extents are mapped once more,
 * with other memory around them. The contents are not touched.
 */
#ifndef RESIZE_H
#define RESIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/**
 * struct remap - one under way
 * @to: the new address of the block
 * @head: bytes at its start that lie in an extent which others share, and have to be copied
 * @moved: bytes behind those that are in extents of its own
 * @tail: bytes behind those, to be copied as well
 */
struct remap {
	uint64_t to;
	size_t head;
	size_t moved;
	size_t tail;
};

/**
 * remap_map() - map a block once more, with room behind it
 * @core: the pool's core; its lock is held, its backend entered
 * @region: the block
 * @request: its new size, larger than the old one; its stream is ordered after the earlier uses of what is new
 * @remap: receives what is where
 * @worthwhile: receives whether it is done; otherwise a copy is cheaper, or, if the request is frugal, the block has
 *	no extent of its own
 *
 * What is new, and where @head and @tail are to go, is free afterwards. Does not wait on the host, unless
 * VPMM_REUSE=block requires it.
 *
 * Return: 0, -ENOMEM, or an error of the backend; only the layout of free memory may have changed then.
 */
int remap_map(struct core *core, const struct region *region, const struct request *request, struct remap *remap,
	      bool *worthwhile);

/**
 * remap_commit() - move a block to where remap_map() has mapped it
 * @core: the pool's core
 * @region: the block, after cache_take(); gone afterwards
 * @remap: from remap_map()
 * @size: its new size, rounded by core_round()
 * @requested: the same, as requested
 * @stream: the stream that the block belongs to from now on, ordered after all uses of the block and of what is new
 * @event: a point in that stream, behind all of that and the copies
 *
 * What the block shared becomes free behind @event, and its old addresses are zombies until then. This cannot fail.
 *
 * Return: the block.
 */
struct region *remap_commit(struct core *core, struct region *region, const struct remap *remap, size_t size,
			    size_t requested, struct stream *stream, struct event *event);

#endif /* RESIZE_H */
