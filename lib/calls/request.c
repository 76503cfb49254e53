// SPDX-License-Identifier: LGPL-2.1-or-later
/* Serves a request: the policy does, and memory is reclaimed before it fails. */
#include <errno.h>
#include <inttypes.h>

#include "calls/pool.h"
#include "calls/request.h"
#include "policy/policy.h"
#include "policy/reclaim.h"
#include "util/clock.h"
#include "util/error.h"

size_t request_round(const struct vpmm_pool *pool, size_t size)
{
	size_t bytes = core_round(&pool->core, size);

	return bytes ? bytes : core_round(&pool->core, pool->core.settings.page_size);
}

/* CUDA promises so much of its allocator. */
#define DRIVER_ALIGNMENT 256

size_t request_alignment(const struct vpmm_pool *pool, size_t size)
{
	size_t piece = pool->core.piece;

	return core_round(&pool->core, size) ? piece & -piece : DRIVER_ALIGNMENT;
}

int request_judge_align(const struct vpmm_pool *pool, size_t size, size_t align)
{
	size_t page = pool->core.settings.page_size;

	if (align <= request_alignment(pool, size))
		return 0;
	if (page == SIZE_MAX)
		return error_set(-ENOTSUP, "alignment is %zu, and the pool leaves every request to the driver", align);
	return page % align ? error_set(-EINVAL, "alignment is %zu: expected a power of two that divides the size of a"
					" page, %zu (VPMM_PAGE_SIZE)", align, page) : 0;
}

void request_align(const struct vpmm_pool *pool, struct request *request, size_t align)
{
	size_t natural = request_alignment(pool, request->requested);

	if (align <= natural)
		return;
	request->size = request_round(pool, request->requested);
	/* A page starts at a multiple. */
	natural = pool->core.piece & -pool->core.piece;
	if (align <= natural)
		return;
	request->align = align;
	request->part = request->size;
	request->size += align - natural;
}

int request_memory(struct vpmm_pool *pool, const struct policy *policy, struct request *request, uint64_t *addr)
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

void requests_note(struct vpmm_pool *pool, size_t size, const struct CUstream_st *stream, uint64_t addr)
{
	if (!pool->core.settings.oom_dump)
		return;
	pool->requests[pool->requested++ % POOL_REQUESTS] = (struct pool_request){
		.ns = clock_ns(),
		.size = size,
		.stream = (uintptr_t)stream,
		.addr = addr,
	};
}
