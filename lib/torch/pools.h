/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * PyTorch's private pools, of graphs and of MemPool: an arena each. Segments come from the library as memory that is
 * idle, so no graph and no stream owns them, or from an allocator that the program has given the pool.
 */
#ifndef TORCH_POOLS_H
#define TORCH_POOLS_H

#include <stdbool.h>

#include "vpmm/torch_class.h"

struct part;
struct vpmm_stats;

/* A growing list of segments and blocks; it has failed once there was no memory. */
struct pieces {
	struct torch_piece *all;
	size_t count;
	size_t room;
	bool failed;
};

void pieces_add(struct pieces *pieces, const struct torch_piece *piece);

/* @note: called before memory of other allocators comes to a pool, with its bytes, or goes, with 0: reserved_note() */
void pools_set_hooks(const struct torch_hooks *hooks, void (*note)(int device, uint64_t more));

/* In a forked child, where another thread may have had the locks: objects of the program's let their pools go there. */
void pools_enter_child(void);

/* As in struct torch_class. */
struct torch_pool *pools_begin(int device, struct torch_id id, int captures);
void pools_end(int device, struct torch_id id, int captures);
int pools_join(int device, struct torch_id id, const struct torch_source *source);
int pools_drop(int device, struct torch_id id);
int pools_uses(int device, struct torch_id id);
int pools_set_lends(int device, struct torch_id id, int lends);
int pools_set_whole(int device, struct torch_id id);

/* As in struct torch_class. -EBUSY: other streams use memory of the pool; they do not if the device was @waited for. */
int pools_restore(int device, struct torch_id id, const struct torch_piece *pieces, size_t count, bool waited,
		  struct torch_piece **freed, size_t *freed_count, struct torch_piece **allocated,
		  size_t *allocated_count);

/**
 * pools_alloc() - allocate from a pool
 * @pool: the pool, whose device is current
 * @block: receives what became of it
 * @least: as in struct torch_class
 *
 * Return: 0, or an error of the library, or -ENOMEM.
 */
int pools_alloc(struct torch_pool *pool, struct torch_piece *block, size_t size, size_t least,
		struct CUstream_st *stream);

/* Allocates ordinary memory from free memory of a pool that lends it, of the current device: 0, or -ENOMEM. */
int pools_borrow(int device, struct torch_piece *block, size_t size, size_t least, struct CUstream_st *stream);

/*
 * Frees a block, and takes it out of the books; it serves others once the streams that used it have passed. False: it
 * is gone, as another thread has made the pool what it was before that block.
 */
bool pools_free(void *ptr, struct torch_piece *block);

/* Another stream uses a block. */
void pools_use(struct part *part, struct CUstream_st *stream);

/* A block as it is listed. */
void pools_piece(const struct part *part, struct torch_piece *block);

/* The segment of a block. */
void pools_base(const struct part *part, void **base, size_t *size);

/**
 * pools_find_shared() - find a block of this process that another one asks for
 * @ptr: its address, which may be nobody's any more
 * @number: by which other processes know it
 * @base: receives the library's block that it is, or is a part of
 *
 * Return: whether it is there. Its owner may free it at any time, so nothing of it is looked at afterwards.
 */
bool pools_find_shared(const void *ptr, uint64_t number, void **base);

/**
 * pools_trim() - give whole segments of pools without a use back
 * @device: ordinal
 * @id: of that pool; both 0: of all
 *
 * Return: whether there were any. Not while a capture may be under way.
 */
bool pools_trim(int device, struct torch_id id);

/* Whether a part of such a pool, which was freed, is in use on other streams. */
bool pools_are_waiting(int device, struct torch_id id);

/* How many there are, of all devices. */
uint64_t pools_count(void);

/* Bytes that pools hold, of the library's memory and of other allocators'. */
struct pools_held {
	uint64_t own;
	uint64_t foreign;
};

void pools_held(int device, struct pools_held *held);

/* As in struct torch_class. */
int pools_stats(int device, struct torch_pool_stats **stats, size_t *count);

/* Calls a function for each of a device's pools' statistics. */
void pools_reset(int device, void (*fn)(struct torch_stat *stat));

/* Adds the segments of a pool; with both 0, of all. -ENOENT: there is no such pool. */
int pools_list(int device, struct torch_id id, struct pieces *pieces);

/* Whether a pool has a segment at an address. */
bool pools_has_segment(int device, uint64_t addr);

#endif /* TORCH_POOLS_H */
