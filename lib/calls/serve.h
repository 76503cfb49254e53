/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Requests that no cache serves. */
#ifndef SERVE_H
#define SERVE_H

#include <stddef.h>
#include <stdint.h>

struct policy;
struct request;
struct vpmm_pool;

/**
 * serve_round() - the size of a request that the driver's allocator must not serve
 * @pool: the pool
 * @size: bytes as requested, not 0
 *
 * That allocator orders memory on a stream, and adds a node to a graph.
 *
 * Return: bytes, a page where it would be the driver's.
 */
size_t serve_round(const struct vpmm_pool *pool, size_t size);

/**
 * serve_request() - have the policy serve a request, and reclaim memory if there is too little
 * @pool: the pool, its backend entered
 * @policy: of policy_of()
 * @request: the request; it becomes frugal when memory has run out
 * @addr: receives the address
 *
 * Waits on the host if that is the only way.
 *
 * Return: 0, or as vpmm_malloc(); on failure only the layout of free memory may have changed.
 */
int serve_request(struct vpmm_pool *pool, const struct policy *policy, struct request *request, uint64_t *addr);

#endif /* SERVE_H */
