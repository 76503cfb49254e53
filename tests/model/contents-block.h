/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files about blocks share. */
#ifndef CONTENTS_BLOCK_H
#define CONTENTS_BLOCK_H

#include "model/contents.h"

/* The most bytes that the blocks of all workers have. */
#define CONTENTS_MOST_BYTES ((uint64_t)64 << 20)

/**
 * block_any_size() - a size for a block
 * @w: the worker
 * @opts: of its pool
 * @cleared: whether the library clears it
 *
 * Return: bytes.
 */
size_t block_any_size(struct worker *w, const struct vpmm_opts *opts, bool cleared);

/**
 * block_any_pool() - one of the pools
 * @w: the worker
 *
 * Return: its index.
 */
unsigned int block_any_pool(struct worker *w);

/**
 * block_may_fail() - whether a call may fail where calls of the driver do not
 * @w: the worker
 * @err: what it has returned
 * @s: its stream
 * @opts: of the pool
 *
 * Return: whether it may.
 */
bool block_may_fail(const struct worker *w, int err, const struct stream *s, const struct vpmm_opts *opts);

/**
 * block_add() - have a block among those of the worker, with nothing known of what it holds
 * @w: the worker
 * @pool: index of its pool
 * @ptr: its address
 * @size: bytes
 * @max: the most bytes that it can have where it is; 0: it is not growable
 * @s: the stream, under capture or not
 *
 * Return: the block.
 */
struct block *block_add(struct worker *w, unsigned int pool, void *ptr, size_t size, size_t max, struct stream *s);

/**
 * block_new_of_size() - allocate
 * @w: the worker
 * @pool: index of the pool
 * @size: bytes
 * @s: the stream, under capture or not
 * @flags: of vpmm_malloc_flags()
 *
 * Return: the block; NULL where memory has run out.
 */
struct block *block_new_of_size(struct worker *w, unsigned int pool, size_t size, struct stream *s,
				unsigned int flags);

/**
 * block_behind_uses() - see to it that what is submitted from now on is behind what was done with a block
 * @b: the block
 * @s: the worker's own stream, not under capture
 * @write: whether the block is to be written, so that it is behind all that only look at it, too
 *
 * Return: whether it is.
 */
bool block_behind_uses(struct block *b, struct stream *s, bool write);

/**
 * block_note() - a stream has got work on a block
 * @b: the block
 * @s: the stream
 * @position: of the work
 * @write: whether it writes the block
 */
void block_note(struct block *b, struct stream *s, uint64_t position, bool write);

/**
 * block_may_release() - see to it that a stream may free a block
 * @w: the worker
 * @b: the block
 * @s: the worker's own stream, not under capture
 *
 * Return: whether it may.
 */
bool block_may_release(struct worker *w, struct block *b, struct stream *s);

/**
 * block_make_own() - what a block holds is a stream's own from now on
 * @shadow: of the block, and of what it was before, unless another stream had that
 * @s: the stream
 */
void block_make_own(struct shadow *shadow, const struct stream *s);

#endif /* CONTENTS_BLOCK_H */
