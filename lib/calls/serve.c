// SPDX-License-Identifier: LGPL-2.1-or-later
/* Serves a request: the policy does, and memory is reclaimed before it fails. */
#include <errno.h>

#include "calls/pool.h"
#include "calls/serve.h"
#include "policy/policy.h"
#include "policy/reclaim.h"

size_t serve_round(const struct vpmm_pool *pool, size_t size)
{
	size_t bytes = core_round(&pool->core, size);

	return bytes ? bytes : core_round(&pool->core, pool->core.settings.page_size);
}

int serve_request(struct vpmm_pool *pool, const struct policy *policy, struct request *request, uint64_t *addr)
{
	int err;

	lock_assert_held(&pool->core.lock);
	err = policy->malloc(&pool->core, request, addr);
	for (int round = 0; err == -ENOMEM && round < RECLAIM_ROUNDS; round++) {
		request->frugal = true;
		err = reclaim(&pool->pending, request, round);
		if (!err)
			err = policy->malloc(&pool->core, request, addr);
	}
	return err;
}
