// SPDX-License-Identifier: LGPL-2.1-or-later
/* vpmm_malloc() if no cache serves it. */
#include <errno.h>

#include "calls/capture.h"
#include "calls/clear.h"
#include "calls/enter.h"
#include "calls/malloc.h"
#include "calls/pool.h"
#include "calls/serve.h"
#include "core/cache.h"
#include "policy/policy.h"
#include "policy/trim.h"
#include "util/error.h"

int pool_malloc(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct CUstream_st *handle, uint64_t id)
{
	struct request request = { .handle = handle };
	struct stream *stream;
	size_t bytes;
	int err = 0;

	lock_assert_held(&pool->core.lock);
	if (id != CACHE_NOBODY)
		stream = stream_meet(&pool->core.streams, id, handle);
	else
		err = stream_get(&pool->core.streams, handle, &stream);
	if (err == -EBUSY)
		return capture_malloc(pool, addr, size, handle);
	if (err)
		return err;
	enter_stream(pool, stream, handle);
	bytes = core_round(&pool->core, size);
	request.size = bytes ? bytes : size;
	request.stream = stream;
	if (size > SIZE_MAX / 4 && pool->core.settings.page_size != SIZE_MAX)
		err = error_set(-ENOMEM, "more than a device can address");
	else
		err = serve_request(pool, policy_of(&pool->core, bytes), &request, addr);
	if (!err && G_UNLIKELY(pool->core.settings.scrub))
		err = scrub_malloc(pool, *addr, stream, handle);
	if (!err)
		pool->core.counts.mallocs++;
	if (!err && core_mapped(&pool->core) > pool->core.settings.keep)
		trim_some(&pool->core);
	return err;
}
