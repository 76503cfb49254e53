/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A pool of PyTorch's as PyTorch's own allocator has it: segments of fixed sizes, split into blocks, each of one
 * stream. CUDA graph trees, MemPool and programs that read snapshots rely on where blocks come to lie in it. It has no
 * lock, and gets its segments from whoever calls it.
 */
#ifndef TORCH_ARENA_H
#define TORCH_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vpmm/torch_class.h"

struct segment;

/* A stream could not be added to the users of a part. */
#define USERS_UNKNOWN SIZE_MAX

/**
 * struct part - a block of a segment
 * @addr: its address
 * @size: bytes
 * @requested: bytes that were asked for, if it is allocated
 * @before: the part below it in the segment
 * @after: the part above it
 * @segment: the segment
 * @free_before: of those that are free, the one before it
 * @free_after: the one after it
 * @users: other streams that use it
 * @user_count: how many, or USERS_UNKNOWN
 * @allocated: allocated to the program
 * @active: allocated, or freed but in use on other streams
 */
struct part {
	uint64_t addr;
	uint64_t size;
	uint64_t requested;
	struct part *before;
	struct part *after;
	struct segment *segment;
	struct part *free_before;
	struct part *free_after;
	struct CUstream_st **users;
	size_t user_count;
	bool allocated;
	bool active;
};

struct segment {
	struct segment *next;
	struct arena *arena;
	struct part *first;
	uint64_t addr;
	uint64_t size;
	struct CUstream_st *stream;
	uint32_t tag;		/* of vpmm_tag_set(), with its bits: a pause takes all of the segment away */
	bool large;
};

/**
 * struct arena - a pool
 * @segments: its segments
 * @free: parts that are free, of small segments and of large ones
 * @whole: a block takes the whole of a segment
 */
struct arena {
	struct segment *segments;
	struct part *free[2];
	bool whole;
};

/* What a request becomes, and the size of the segment that it would need. */
uint64_t arena_round(uint64_t size);
bool arena_is_large(uint64_t size);
uint64_t arena_segment_size(uint64_t size);

/* The smallest free part of a stream, under a tag, with so many bytes, rounded; NULL: there is none. */
struct part *arena_find(const struct arena *arena, uint64_t size, struct CUstream_st *stream, uint32_t tag);

/* Adds a segment with memory for a request; NULL: no memory on the host. Its first part is free. */
struct segment *arena_add(struct arena *arena, uint64_t addr, uint64_t size, bool large, struct CUstream_st *stream,
			  uint32_t tag);

/* Takes a wholly free segment out. */
void arena_remove(struct arena *arena, struct segment *segment);
bool arena_is_idle(const struct segment *segment);

/* Bytes of a part that is free in a segment that is not; of others, and of NULL, 0. */
uint64_t arena_split(const struct part *part);

/* Allocates @size bytes, rounded, of a free part; false: no memory on the host. */
bool arena_take(struct part *part, uint64_t size, uint64_t requested);

/* Another stream uses an allocated part. Without memory on the host its users are unknown from then on. */
void arena_use(struct part *part, struct CUstream_st *stream);

/* The part is not allocated any more, but stays active until arena_free(), which merges it with its neighbours. */
void arena_release(struct part *part);
void arena_free(struct part *part);

/* Whether parts of a list, in order of address, fill a segment. */
bool arena_fits(const struct segment *segment, const struct torch_piece *pieces, size_t count);

/**
 * arena_cut() - make a wholly free segment's parts those of a list
 * @segment: the segment
 * @pieces: its parts, in order of address; what is allocated gets allocated
 * @count: how many
 *
 * Return: 0; -EINVAL if they do not fill it; -ENOMEM.
 */
int arena_cut(struct segment *segment, const struct torch_piece *pieces, size_t count);

#endif /* TORCH_ARENA_H */
