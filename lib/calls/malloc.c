// SPDX-License-Identifier: LGPL-2.1-or-later
/* vpmm_malloc() if no cache serves it. */
#include <errno.h>

#include "calls/capture.h"
#include "calls/clear.h"
#include "calls/enter.h"
#include "calls/malloc.h"
#include "calls/pool.h"
#include "calls/request.h"
#include "core/cache.h"
#include "policy/policy.h"
#include "policy/trim.h"
#include "util/error.h"

int malloc_on_stream(struct vpmm_pool *pool, uint64_t *addr, size_t size, size_t align, struct stream *stream,
		     struct CUstream_st *handle)
{
	size_t bytes = core_round(&pool->core, size);
	struct request request = { .size = bytes ? bytes : size, .requested = size, .stream = stream,
				   .handle = handle };
	int err;

	lock_assert_held(&pool->core.lock);
	if (align > 1)
		request_align(pool, &request, align);
	/* An alignment can take a small request from the driver's allocator to the pool. */
	if (!bytes && request.size != size)
		bytes = request.size;
	if (size > SIZE_MAX / 4 && pool->core.settings.page_size != SIZE_MAX)
		err = error_set(-ENOMEM, "more than a device can address");
	else
		err = request_memory(pool, policy_of(&pool->core, bytes), &request, addr);
	if (!err && G_UNLIKELY(pool->core.settings.scrub))
		err = scrub_malloc(pool, *addr, stream, handle);
	if (!err)
		pool->core.counts.mallocs++;
	if (!err)
		trim_some(&pool->core, stream);
	return err;
}

int pool_malloc(struct vpmm_pool *pool, uint64_t *addr, size_t size, size_t align, struct CUstream_st *handle,
		uint64_t id)
{
	struct stream *stream;
	int err = 0;

	lock_assert_held(&pool->core.lock);
	if (id != CACHE_NOBODY)
		stream = stream_find_or_add(&pool->core.streams, id, handle);
	else
		err = stream_get(&pool->core.streams, handle, &stream);
	if (err == -EBUSY)
		return capture_malloc(pool, addr, size, align, handle);
	if (err)
		return err;
	enter_stream(pool, stream, handle);
	return malloc_on_stream(pool, addr, size, align, stream, handle);
}
