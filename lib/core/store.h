/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Host memory that keeps the contents of device memory: pieces that the device can copy to and from. Pinning them takes
 * longest, so those that nobody uses are kept for next time. A store serves a pool and its arenas.
 */
#ifndef STORE_H
#define STORE_H

#include <glib.h>
#include <stdint.h>

#include "util/bound.h"
#include "util/lock.h"

struct backend;

/* Bytes of a piece, at most. Larger ones gain nothing: a copy of so much takes a millisecond. */
#define STORE_PIECE BOUND((uint64_t)64 << 20, (uint64_t)2 << 20)

/**
 * struct store_piece - host memory at an address of the device
 * @at: the address; 0: it has none
 * @size: bytes
 * @handle: of the memory; 0: none
 * @mapped: it is mapped there
 */
struct store_piece {
	uint64_t at;
	uint64_t size;
	uint64_t handle;
	bool mapped;
};

/**
 * struct store - host memory of a pool
 * @backend: the device
 * @unit: bytes that pieces are a multiple of
 * @keep: bytes of unused pieces that stay after a use
 * @lock: guards what follows; not held across a driver call
 * @unused: of struct store_piece
 * @strays: of struct store_piece: what the driver did not take back, to be tried again
 * @bytes: of host memory in all pieces, whoever has them
 * @unused_bytes: of those in @unused
 */
struct store {
	struct backend *backend;
	uint64_t unit;
	uint64_t keep;
	struct lock lock;
	GPtrArray *unused;
	GPtrArray *strays;
	uint64_t bytes;
	uint64_t unused_bytes;
};

/**
 * store_init() - set up a store that has nothing
 * @store: the store
 * @backend: the device
 * @unit: bytes that pieces are to be a multiple of: the granularity, or a multiple of it
 *
 * Return: 0, or -EINVAL for a bad VPMM_PAUSE_HOST.
 */
int store_init(struct store *store, struct backend *backend, uint64_t unit);

/**
 * store_clear() - give all back; nobody has a piece any more
 * @store: the store, its backend entered
 */
void store_clear(struct store *store);

/**
 * store_take() - take pieces of at least so many bytes in all
 * @store: the store, its backend entered
 * @bytes: bytes
 * @pieces: receives them, of struct store_piece, at its end
 *
 * Context: any thread, no lock held but core.lock.
 * Return: 0, or what the backend's host_create, reserve, map and host_access return; nothing was taken then.
 */
int store_take(struct store *store, uint64_t bytes, GPtrArray *pieces);

/**
 * store_give() - give pieces back that store_take() gave; they stay in the store up to VPMM_PAUSE_HOST
 * @store: the store, its backend entered
 * @pieces: of struct store_piece; left empty
 */
void store_give(struct store *store, GPtrArray *pieces);

/**
 * store_put_back() - the same, and all of them stay
 * @store: the store
 * @pieces: of struct store_piece; left empty. What takes as many bytes in the same order next gets the same ones
 */
void store_put_back(struct store *store, GPtrArray *pieces);

/**
 * store_trim() - give unused pieces back to the system
 * @store: the store, its backend entered
 * @keep: bytes that stay
 */
void store_trim(struct store *store, uint64_t keep);

#endif /* STORE_H */
