/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How every request is served that no cache serves. */
#ifndef SERVE_H
#define SERVE_H

#include <stdint.h>

struct policy;
struct request;
struct vpmm_pool;

/**
 * serve_request() - have a policy serve a request, with memory reclaimed if there is none
 * @pool: the pool, its backend entered
 * @policy: of policy_of()
 * @request: what is wanted; it becomes frugal when memory has run out
 * @addr: receives the address
 *
 * Waits on the host where that is the only way.
 *
 * Return: 0, or as vpmm_malloc(); nothing has changed then but where free memory lies.
 */
int serve_request(struct vpmm_pool *pool, const struct policy *policy, struct request *request, uint64_t *addr);

#endif /* SERVE_H */
