/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Requests that no cache serves, and the text of -ENOMEM. */
#ifndef REQUEST_H
#define REQUEST_H

#include <glib.h>
#include <stddef.h>
#include <stdint.h>

#include "calls/pool.h"

struct policy;
struct request;

/**
 * request_round() - the size of a request that the driver's allocator must not serve
 * @pool: the pool
 * @size: bytes as requested, not 0
 *
 * That allocator orders memory on a stream, and adds a node to a graph.
 *
 * Return: bytes, a page where it would be the driver's.
 */
size_t request_round(const struct vpmm_pool *pool, size_t size);

/**
 * request_alignment() - the alignment that a block has without being asked for
 * @pool: the pool
 * @size: bytes as requested, not 0
 *
 * Context: any thread.
 * Return: bytes, a power of two.
 */
size_t request_alignment(const struct vpmm_pool *pool, size_t size);

/**
 * request_judge_align() - whether the pool can align a block so
 * @pool: the pool
 * @size: bytes as requested
 * @align: a power of two
 *
 * Context: any thread.
 * Return: 0; -EINVAL for more than a page's; or -ENOTSUP where the driver serves every request.
 */
int request_judge_align(const struct vpmm_pool *pool, size_t size, size_t align);

/**
 * request_align() - make a request one for an aligned block
 * @pool: the pool
 * @request: the request, with its size
 * @align: a power of two that divides the size of a page; 0, or the natural one, changes nothing
 *
 * A request for the driver's allocator gets a page, because that allocator takes no alignment.
 */
void request_align(const struct vpmm_pool *pool, struct request *request, size_t align);

/**
 * request_memory() - have the policy serve a request, and reclaim memory if there is too little
 * @pool: the pool, its backend entered
 * @policy: of policy_of()
 * @request: the request; it becomes frugal when memory has run out
 * @addr: receives the address
 *
 * Waits on the host if that is the only way.
 *
 * Return: 0, or as vpmm_malloc(); on failure only the layout of free memory may have changed.
 */
int request_memory(struct vpmm_pool *pool, const struct policy *policy, struct request *request, uint64_t *addr);

/**
 * requests_note() - note a request, for VPMM_OOM_DUMP
 * @pool: the pool, whose lock is held
 * @size: bytes
 * @stream: the stream
 * @addr: the block; 0: it failed
 */
void requests_note(struct vpmm_pool *pool, size_t size, const struct CUstream_st *stream, uint64_t addr);

/**
 * explain_exhausted() - add to the error what the pool has, what others have, and what would help
 * @pool: the pool, its backend entered
 * @size: bytes of the request
 * @handle: the stream
 * @chosen: the caller chose the size, and can ask for less
 *
 * The error's text so far says which of device memory, limit, address space and mappings ran out. It stays.
 *
 * Return: -ENOMEM.
 */
int explain_exhausted(struct vpmm_pool *pool, size_t size, struct CUstream_st *handle, bool chosen);

/**
 * is_exhausted_elsewhere() - whether what others have is the reason for the error at hand
 *
 * Return: whether device memory or a budget ran out, by the error's text.
 */
bool is_exhausted_elsewhere(void);

#endif /* REQUEST_H */
