/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The policies: how a request is served. There are three, and each pool has one of the first two besides the last:
 *
 * packed: requests share pages and extents, and blocks are gathered of extents of many sizes;
 * paged: whole pages, as the specification has it;
 * driver: the driver's stream-ordered allocator serves requests below a page, or all.
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
struct stream;
struct vpmm_forecast;

/**
 * struct request - what is asked for
 * @size: bytes, not 0; of core_round(), but for the driver's policy
 * @stream: the stream that it is for
 * @handle: a handle of it
 * @frugal: memory, mappings or addresses have run out, and what could be reclaimed was: no more than is needed is taken
 */
struct request {
	size_t size;
	struct stream *stream;
	struct CUstream_st *handle;
	bool frugal;
};

/**
 * struct policy - a policy; of all its operations the pool's lock is held, and its backend entered
 * @name: what it is called
 * @malloc: serves a request, and tells where. It waits for nobody on the host, unless VPMM_REUSE says so. Returns 0;
 *	-ENOMEM, where it is worth another try with @frugal once more was reclaimed; or an error of the backend. When it
 *	fails, nothing has changed but where free memory lies.
 * @forecast: finds out what @malloc would do now, if @room bytes could be created. Receives the way and its price;
 *	VPMM_WAY_NONE stays where there is none. Returns 0, or an error of the backend.
 * @largest: the bytes of the largest request that @malloc could serve for a stream if @room bytes could be created
 * @trim: gives back free memory while the pool holds more than @keep bytes: at most @most extents, of @looks that are
 *	looked at. Returns 0, or an error of the backend.
 */
struct policy {
	const char *name;
	int (*malloc)(struct core *core, const struct request *request, uint64_t *addr);
	int (*forecast)(struct core *core, const struct request *request, uint64_t room,
			struct vpmm_forecast *forecast);
	uint64_t (*largest)(struct core *core, struct stream *stream, uint64_t room);
	int (*trim)(struct core *core, uint64_t keep, uint64_t looks, uint64_t most);
};

extern const struct policy policy_packed;
extern const struct policy policy_paged;
extern const struct policy policy_driver;

/**
 * policy_init() - choose the policy of a pool that is made
 * @core: its core, with settings
 * @packed: what the policy is to remember, all 0
 * @info: what the device says of itself
 */
void policy_init(struct core *core, struct packed *packed, const struct backend_info *info);

/**
 * policy_of() - the policy that serves a request
 * @core: the core of the pool
 * @bytes: of core_round()
 */
const struct policy *policy_of(const struct core *core, size_t bytes);

#endif /* POLICY_H */
