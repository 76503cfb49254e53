/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The policies: how requests are served. A pool has the packed policy, and the driver's for requests below a page if
 * VPMM_SMALL says so:
 *
 * packed: requests share pages and extents, and blocks are gathered from extents of many sizes; or, in paged mode, each
 *	extent is a page, and requests are whole pages;
 * driver: the driver's stream-ordered allocator serves the requests.
 *
 * And one for single requests of any pool, which has @malloc alone:
 *
 * shareable: each block has memory of its own, which other processes can map.
 */
#ifndef POLICY_H
#define POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct backend_info;
struct core;
struct packed;
struct shareable_import;
struct stream;
struct vpmm_forecast;

/**
 * struct request - a request
 * @size: bytes, not 0; rounded by core_round(), except for the driver's policy
 * @requested: bytes that the program asked for
 * @stream: the stream that it is for
 * @handle: a handle of it
 * @frugal: memory, mappings or addresses have run out, and a round of reclaim() is done: take no more than needed, and
 *	for the stream of stream_get_idle() wait on the host
 * @apart: it takes memory that the pool does not hold
 * @align: the block starts at a multiple of this power of two, and has @part bytes of @size, which is enough for that
 *	wherever the policy places it; 0: the block has all of it
 * @import: it is memory of another process, and takes none of the device; NULL: it is not
 */
struct request {
	size_t size;
	size_t requested;
	struct stream *stream;
	struct CUstream_st *handle;
	bool frugal;
	bool apart;
	size_t align;
	size_t part;
	const struct shareable_import *import;
};

/**
 * struct policy - a policy. All operations run under core.lock, with the backend entered
 * @malloc: serves a request, and returns the address. Does not wait on the host, unless VPMM_REUSE=block or a capture
 *	requires it. Returns 0; -ENOMEM, after which a @frugal request can succeed once more was reclaimed; or an error
 *	of the backend. On failure only the layout of free memory may have changed.
 * @settle: brings the pool up to date for @forecast and @largest; NULL: there is nothing to do. Returns 0, or an error
 *	of the backend.
 * @forecast: what @malloc would do now if @room bytes could be created: receives the way and its price. Changes
 *	nothing. Returns false if there is none, and VPMM_WAY_NONE stays.
 * @largest: the size of the largest request that @malloc could serve for a stream if @room bytes could be created
 */
struct policy {
	int (*malloc)(struct core *core, const struct request *request, uint64_t *addr);
	int (*settle)(struct core *core, const struct request *request);
	bool (*forecast)(struct core *core, const struct request *request, uint64_t room,
			 struct vpmm_forecast *forecast);
	uint64_t (*largest)(struct core *core, struct stream *stream, uint64_t room);
};

extern const struct policy policy_packed;
extern const struct policy policy_driver;
extern const struct policy policy_shareable;

/**
 * policy_init() - choose the policy of a new pool
 * @core: its core, with settings
 * @packed: the state of the packed policy, all 0
 * @info: what the backend says of the device
 */
void policy_init(struct core *core, struct packed *packed, const struct backend_info *info);

/* Gives back what the policy of a pool remembers. */
void policy_clear(struct packed *packed);

/* The policy that serves a request of so many bytes, of core_round(). */
const struct policy *policy_of(const struct core *core, size_t bytes);

#endif /* POLICY_H */
