/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A pool, and its policy: how an allocation is served and what becomes of memory that is freed. */
#ifndef POOL_H
#define POOL_H

#include <glib.h>
#include <pthread.h>
#include <stdio.h>

#include "backend.h"
#include "extent.h"
#include "log.h"
#include "region.h"
#include "settings.h"
#include "stream.h"
#include "vpmm.h"

/* What a pool has done, as in struct vpmm_stats. */
struct pool_counts {
	uint64_t mallocs;
	uint64_t frees;
	uint64_t reuses;
	uint64_t steals;
	uint64_t defrags;
	uint64_t grows;
	uint64_t waits;
	uint64_t grown;
	uint64_t remapped;
};

/**
 * struct vpmm_pool - a pool
 * @lock: held for everything below but what never changes; of POSIX, as ThreadSanitizer does not see through GLib's
 * @backend: the open device; never changes
 * @device: its ordinal; never changes
 * @settings: as the device has them; never changes
 * @generation: of the process that created it; never changes
 * @regions: what lies where
 * @extents: physical memory
 * @streams: who uses it
 * @small: address to struct small, requests that the driver's allocator serves
 * @small_live: bytes of them
 * @peak_live: the most bytes that were allocated from regions
 * @peak_mapped: the most bytes of device memory that the pool has held
 * @peak_taken: the same with what the driver's allocator held
 * @counts: what the pool has done
 * @log: what it says
 */
struct vpmm_pool {
	pthread_mutex_t lock;
	struct backend *backend;
	int device;
	struct settings settings;
	unsigned int generation;
	struct region_map regions;
	struct extent_map extents;
	struct stream_map streams;
	GHashTable *small;
	uint64_t small_live;
	uint64_t peak_live;
	uint64_t peak_mapped;
	uint64_t peak_taken;
	struct pool_counts counts;
	struct log log;
};

/* A request that the driver's allocator serves. */
struct small {
	uint64_t addr;
	size_t size;
};

/**
 * pool_new() - make a pool on an open backend
 * @pool: receives the pool
 * @backend: the backend, entered; it stays the caller's to close, after pool_delete()
 * @settings: what is asked for
 *
 * Return: 0, or -EINVAL for settings that the device cannot have, -ENOMEM, or another error of the backend.
 */
int pool_new(struct vpmm_pool **pool, struct backend *backend, const struct settings *settings);

/**
 * pool_delete() - give back all but the backend
 * @pool: the pool, its backend entered, its lock not held
 */
void pool_delete(struct vpmm_pool *pool);

/**
 * pool_malloc() - allocate
 * @pool: the pool; its lock is held, its backend entered
 * @addr: receives the address
 * @size: bytes, not 0
 * @handle: the stream
 *
 * Return: 0, or as vpmm_malloc().
 */
int pool_malloc(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct CUstream_st *handle);

/**
 * pool_free() - free
 * @pool: the pool; its lock is held, its backend entered
 * @addr: the address
 * @handle: the stream
 *
 * Return: 0, or as vpmm_free().
 */
int pool_free(struct vpmm_pool *pool, uint64_t addr, struct CUstream_st *handle);

/* Device memory that the pool holds, in bytes. */
static inline uint64_t pool_mapped(const struct vpmm_pool *pool)
{
	return pool->regions.bytes[REGION_MALLOC] + pool->regions.bytes[REGION_FREE];
}

#endif /* POOL_H */
