/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What libvpmm-torch.so has for the allocator class in torch_class.cpp, which is compiled on the user's machine,
 * against the PyTorch that is there. Both sides say how large they take the table for, and of which version.
 */
#ifndef VPMM_TORCH_CLASS_H
#define VPMM_TORCH_CLASS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TORCH_CLASS_VERSION 6

/* Bytes of the name by which another process gets a block, with the 0 behind it. */
#define TORCH_NAME 192

struct CUstream_st;

/* A c10::MempoolId_t. Both 0: ordinary memory, of no pool. */
struct torch_id {
	uint64_t a;
	uint64_t b;
};

/**
 * struct torch_piece - a block, as it was allocated or freed; or a segment, or a part of it, in a list of them
 * @addr: its address
 * @size: bytes, rounded up as PyTorch's own allocator does
 * @requested: bytes that were asked for; 0 of what is not allocated
 * @stream: the stream of the allocation
 * @id: the pool
 * @device: ordinal
 * @segment: not 0 is a segment, whose parts follow in order of address and fill it
 * @large: not 0 is a segment for large blocks
 * @grows: not 0 is memory of the library's own regions; else a segment of a pool
 * @allocated: not 0 is allocated to the program
 * @active: not 0 is allocated, or freed but in use on other streams
 */
struct torch_piece {
	uint64_t addr;
	uint64_t size;
	uint64_t requested;
	struct CUstream_st *stream;
	struct torch_id id;
	int32_t device;
	uint8_t segment;
	uint8_t large;
	uint8_t grows;
	uint8_t allocated;
	uint8_t active;
};

/* What c10::Stat has. */
struct torch_stat {
	int64_t current;
	int64_t peak;
	int64_t allocated;
	int64_t freed;
};

enum torch_kind {
	TORCH_ALL,
	TORCH_SMALL,
	TORCH_LARGE,
	TORCH_KINDS
};

struct torch_stats {
	struct torch_stat allocation[TORCH_KINDS];
	struct torch_stat segment[TORCH_KINDS];
	struct torch_stat active[TORCH_KINDS];
	struct torch_stat inactive_split[TORCH_KINDS];
	struct torch_stat allocated_bytes[TORCH_KINDS];
	struct torch_stat reserved_bytes[TORCH_KINDS];
	struct torch_stat active_bytes[TORCH_KINDS];
	struct torch_stat inactive_split_bytes[TORCH_KINDS];
	struct torch_stat requested_bytes[TORCH_KINDS];
	int64_t retries;
	int64_t ooms;
	int64_t created;
	int64_t released;
};

/* Bytes of the segments of a pool. */
struct torch_pool_stats {
	struct torch_id id;
	struct torch_stat reserved[TORCH_KINDS];
};

/**
 * struct torch_source - where a pool's segments come from, if not from the library
 * @take: allocates; NULL if there is no memory
 * @give: frees
 * @forget: the pool is no more, or has a source already; it may be called under a lock, so it calls nothing of the table
 * @data: for all of them
 *
 * The others are called with no lock held.
 */
struct torch_source {
	void *(*take)(void *data, int device, size_t size, struct CUstream_st *stream);
	void (*give)(void *data, int device, void *ptr);
	void (*forget)(void *data);
	void *data;
};

/**
 * struct torch_hooks - what the class has for the object
 * @record: an event behind what a stream has been given; NULL: there is none
 * @passed: whether an event has passed
 * @forget: destroys an event
 * @segment: a segment of a pool has come or gone; called under a lock, so it calls nothing of the table
 */
struct torch_hooks {
	void *(*record)(int device, struct CUstream_st *stream);
	int (*passed)(int device, void *event);
	void (*forget)(int device, void *event);
	void (*segment)(const struct torch_piece *segment, int came);
};

struct torch_pool;

/* Lists are malloc()ed; the caller frees them. Errors are negative errno values; vpmm_last_error() has the text. */
struct torch_class {
	uint32_t version;
	uint32_t size;
	/* @fraction: of each device's memory, until set_fraction() says otherwise. */
	void (*init)(int device_count, double fraction, const struct torch_hooks *hooks);
	/* From a pool, or NULL. A size of 0 is the caller's matter. The block has at least so many bytes. */
	int (*alloc)(struct torch_piece *block, int device, size_t size, size_t least, struct CUstream_st *stream,
		     struct torch_pool *pool);
	/* The same after that had no memory: first from pools that lend on such an occasion, then after giving back. */
	int (*alloc_pressed)(struct torch_piece *block, int device, size_t size, size_t least,
			     struct CUstream_st *stream, struct torch_pool *pool);
	/* -EINVAL: it is no block. */
	int (*release)(void *ptr, struct torch_piece *block);
	void (*use)(void *ptr, struct CUstream_st *stream);
	void (*count_oom)(int device);
	/* The block that starts there. -EINVAL: none does. */
	int (*find)(const void *ptr, struct torch_piece *block);
	/* The block, or the segment around it, that an address is in. */
	int (*base)(void *ptr, void **base, size_t *size);
	/* Memory that could be had in one piece, without what the driver has free. */
	size_t (*cached)(int device);
	/* Of both 0, all pools without a use and ordinary memory. 1: more goes once the device has done its work. */
	int (*trim)(int device, struct torch_id id);
	int (*set_fraction)(int device, double fraction);
	double (*fraction)(int device);
	int (*set_peer)(int device, int peer);
	int (*stats)(int device, struct torch_stats *stats);
	/* Of each pool of a device. */
	int (*pool_stats)(int device, struct torch_pool_stats **stats, size_t *count);
	void (*reset_accumulated)(int device);
	void (*reset_peaks)(int device);
	/* Pools. Each of begin and join takes one use, which drop gives back. @captures: a stream may be captured until end. */
	struct torch_pool *(*begin)(int device, struct torch_id id, int captures);
	void (*end)(int device, struct torch_id id, int captures);
	int (*join)(int device, struct torch_id id, const struct torch_source *source);
	int (*drop)(int device, struct torch_id id);
	int (*uses)(int device, struct torch_id id);
	int (*set_lends)(int device, struct torch_id id, int lends);
	int (*set_whole)(int device, struct torch_id id);
	/* Of a pool; with both 0, of all pools and of ordinary memory. -ENOENT: there is no such pool. */
	int (*list)(int device, struct torch_id id, struct torch_piece **pieces, size_t *count);
	/* Makes a pool what a list of it was: what is allocated is freed, and what was, allocated again. */
	int (*restore)(int device, struct torch_id id, const struct torch_piece *pieces, size_t count,
		       struct torch_piece **freed, size_t *freed_count, struct torch_piece **allocated,
		       size_t *allocated_count);
	/*
	 * Other processes. A block gets a name, and there is where it starts in what the name stands for. Up to the last
	 * '/' names of the same memory are the same: it need not be mapped anew. -EINVAL: it is no block; -ENOTSUP: its
	 * memory cannot be exported, and last_error has why.
	 */
	int (*share)(void *ptr, char *name, size_t *offset);
	/*
	 * A name's memory starts @lead bytes before @ptr. @size is that of the block that starts at @ptr.
	 * -EINVAL: it is no name; -ESRCH: its process has ended; -ENOENT: its block has gone; -EPERM: another user's.
	 */
	int (*take_shared)(const char *name, int device, void **ptr, size_t *lead, size_t *size);
	void (*drop_shared)(void *ptr);
	/* The text for an error of share() or take_shared(), the thread's latest call of either. */
	const char *(*explain_sharing)(int err);
	const char *(*last_error)(void);
};

const struct torch_class *vpmm_torch_class(void);

#ifdef __cplusplus
}
#endif

#endif /* VPMM_TORCH_CLASS_H */
