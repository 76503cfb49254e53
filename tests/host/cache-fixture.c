// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "backend/backend.h"
#include "calls/pool.h"
#include "host/cache-fixture.h"
#include "support/fault.h"

void open_cached(struct fixture *f)
{
	fixture_open_faulty(f, (struct vpmm_opts){ FIXTURE_OPTS });
	f->pool->core.settings.cache = true;
	f->pool->core.direct = true;
	/* As if another stream had searched for memory: the next frees are marked. */
	atomic_fetch_add(&f->pool->core.pressure, 1);
}

uint64_t records(struct fixture *f)
{
	return backend_fault_calls(f->pool->core.backend, BACKEND_OP_event_record);
}

void calm(struct fixture *f, struct CUstream_st *stream)
{
	void *ptr;

	for (int i = 0; i <= CACHE_NERVOUS; i++) {
		ptr = fixture_malloc(f, 1, stream);
		fixture_free(f, ptr, stream);
	}
}

void *reused(struct fixture *f, size_t pages, struct CUstream_st *stream)
{
	void *ptr = fixture_malloc(f, pages, stream), *again;

	fixture_free_at_work(f, ptr, stream);
	again = fixture_malloc(f, pages, stream);
	g_assert_true(again == ptr);
	return ptr;
}

void mark(struct fixture *f, struct CUstream_st *handle)
{
	const struct backend_ops *ops = f->pool->core.backend->ops;
	struct stream *stream;

	assert_ok(ops->enter(f->pool->core.backend));
	assert_ok(stream_get(&f->pool->core.streams, handle, &stream));
	brief_acquire(&stream->cache->lock);
	assert_ok(cache_mark(stream->cache, handle));
	brief_release(&stream->cache->lock);
	ops->leave(f->pool->core.backend);
}

void assert_waits(struct CUstream_st *stream)
{
	fixture_submit_waits(stream);
}
