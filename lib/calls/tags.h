/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a pool has under tags: the blocks that were allocated under one, counts for each tag, and the arenas of pausable
 * ones. A tag of a block is known here alone: neither regions nor caches have one, so that they cost nothing where
 * there are no tags. No pool is plain (api_is_plain() in api/api.h) once a thread has set a tag; only then a call looks
 * for one, in api/label.c.
 */
#ifndef TAGS_H
#define TAGS_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/store.h"
#include "util/lock.h"
#include "util/tag.h"

struct vpmm_pool;

/* Kinds of blocks, by how their size is rounded up. */
enum tagged_kind {
	TAGGED_PLAIN,
	TAGGED_POOLED,			/* a page at least where the driver's allocator serves smaller ones */
	TAGGED_SHAREABLE,		/* other processes can have it, so it is in no arena */
	TAGGED_GROWABLE
};

/**
 * struct tagged - a block that was allocated under a tag
 * @addr: the address
 * @kind: what it was allocated as
 * @size: bytes of it, as the pool counts them
 * @requested: bytes of the request
 * @word: the tag and its bits
 * @pool: what serves it: the arena of the tag, or the pool
 * @by_driver: the driver's allocator serves it for @pool
 */
struct tagged {
	uint64_t addr;
	enum tagged_kind kind;
	size_t size;
	size_t requested;
	vpmm_tag word;
	struct vpmm_pool *pool;
	bool by_driver;
};

/**
 * struct tag_counts - what is live under a tag
 * @live: bytes of the blocks, rounded up
 * @claimed: bytes of requests that are under way
 * @peak_live: the most that @live was
 * @requested: bytes as requested
 * @blocks: number of blocks
 * @kept: bytes of @live that are not in extents of the arena, and so stay when the tag is paused
 * @limit: bytes that @live and @claimed may reach together; 0: any
 */
struct tag_counts {
	uint64_t live;
	uint64_t claimed;
	uint64_t peak_live;
	uint64_t requested;
	uint64_t blocks;
	uint64_t kept;
	uint64_t limit;
};

/**
 * struct tags - the tags of a pool
 * @pool: the pool
 * @arenas: by tag; NULL: the tag has none. Set once, and read without a lock
 * @store: host memory for the contents of arenas
 * @lock: guards what follows
 * @blocks: of struct tagged, by address
 * @counts: by tag
 * @peak: the most that the pool and its arenas together were labels to have
 */
struct tags {
	struct vpmm_pool *pool;
	struct vpmm_pool *_Atomic arenas[TAGS_MOST + 1];
	struct store store;
	struct lock lock;
	GHashTable *blocks;
	struct tag_counts counts[TAGS_MOST + 1];
	struct {
		uint64_t live;
		uint64_t mapped;
		uint64_t taken;
		uint64_t requested;
	} peak;
};

/**
 * tags_make() - the tags of a pool, made if it has none yet
 * @pool: the pool, no arena
 * @tags: receives them
 *
 * Context: no lock held.
 * Return: 0, or -EINVAL for a bad VPMM_PAUSE_HOST.
 */
int tags_make(struct vpmm_pool *pool, struct tags **tags);

/**
 * tags_delete() - free what there is of tags; there are no arenas any more
 * @tags: the tags, the backend of their pool entered
 */
void tags_delete(struct tags *tags);

/**
 * tags_admit() - claim bytes for a request under a tag, until tags_replace()
 * @tags: the tags
 * @word: the tag and its bits
 * @size: bytes, rounded up
 *
 * Return: 0, or -ENOMEM: the limit of the tag.
 */
int tags_admit(struct tags *tags, vpmm_tag word, size_t size);

/**
 * tags_take() - take a block out, before it is freed or resized
 * @tags: the tags
 * @addr: the address
 * @block: receives the block, which counts until tags_replace()
 *
 * Return: whether there was one.
 */
bool tags_take(struct tags *tags, uint64_t addr, struct tagged *block);

/**
 * tags_replace() - end a request, and count what there is now
 * @tags: the tags
 * @word: as for tags_admit()
 * @old: the block of tags_take(); NULL: none
 * @block: the block that is there now, perhaps the same, which is entered; NULL: none
 * @claimed: bytes of tags_admit()
 */
void tags_replace(struct tags *tags, vpmm_tag word, const struct tagged *old, const struct tagged *block,
		  size_t claimed);

/**
 * tags_find() - look a block up
 * @tags: the tags
 * @addr: the address
 * @block: receives a copy
 *
 * Return: whether there is one.
 */
bool tags_find(struct tags *tags, uint64_t addr, struct tagged *block);

/**
 * tags_find_around() - look up the block that an address is in
 * @tags: the tags
 * @addr: the address
 *
 * Visits all blocks: for errors only.
 *
 * Return: where the block starts; 0: there is none.
 */
uint64_t tags_find_around(struct tags *tags, uint64_t addr);

/**
 * tags_drops() - whether pausing does not save a block
 * @tags: the tags; @lock is held
 * @addr: the block
 *
 * Return: whether that is so; not for blocks without a tag.
 */
bool tags_drops(const struct tags *tags, uint64_t addr);

/**
 * tags_read() - the counts of a tag
 * @tags: the tags
 * @tag: the tag
 * @counts: receives them
 */
void tags_read(struct tags *tags, vpmm_tag tag, struct tag_counts *counts);

/**
 * tags_write() - write a line for each tag that something was allocated under
 * @tags: the tags; NULL: there are none
 * @text: receives them
 */
void tags_write(struct tags *tags, GString *text);

/**
 * tags_set_limit() - set the limit of a tag
 * @tags: the tags
 * @tag: the tag
 * @limit: bytes; 0: none
 */
void tags_set_limit(struct tags *tags, vpmm_tag tag, uint64_t limit);

/**
 * tags_reset_peaks() - let the peaks be what is live now
 * @tags: the tags
 */
void tags_reset_peaks(struct tags *tags);

#endif /* TAGS_H */
