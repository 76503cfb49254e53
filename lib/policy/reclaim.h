/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What is done before a request fails for lack of memory, mappings or addresses: first all that costs no wait and that
 * no request can use, then a wait for all pending work and one for graphs that are gone, if these can help, and last
 * free extents are given back. The request is tried again after each.
 */
#ifndef RECLAIM_H
#define RECLAIM_H

struct core;
struct pending;
struct request;

/**
 * reclaim_unused() - release what a request has no use for, without a wait
 * @core: the pool's core, its backend entered
 *
 * Flushes caches, unmaps old mappings, and releases empty slabs and what the driver's allocator does not use. Whole
 * extents stay, as the request can have those.
 *
 * Return: 0, or an error of the backend.
 */
int reclaim_unused(struct core *core);

/* How often a request is tried again. */
#define RECLAIM_ROUNDS 4

/**
 * reclaim() - reclaim before a request is tried again
 * @pending: what the pool has pending, its backend entered
 * @request: the request
 * @round: from 0, below RECLAIM_ROUNDS
 *
 * The first round does not wait. The next one waits until all earlier frees are complete, if what is pending could
 * suffice; the third up to 25 ms, until the backend reports graphs that are gone; it also runs if that reported any
 * since the second. The last one releases free
 * extents, no more than the request is large, if memory for all of it can be created: then mappings or addresses are
 * missing, which free extents may have.
 *
 * Return: 0; -ENOMEM, with the error's text unchanged, if the round has nothing to give or too little, which says
 * nothing of the next; or an error of the backend.
 */
int reclaim(struct pending *pending, const struct request *request, int round);

#endif /* RECLAIM_H */
