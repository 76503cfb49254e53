// SPDX-License-Identifier: LGPL-2.1-or-later
/* The exported calls that resize, and that allocate what is to be resized. */
#include <errno.h>
#include <inttypes.h>

#include "api/api.h"
#include "api/label.h"
#include "calls/arena.h"
#include "calls/growable.h"
#include "calls/malloc.h"
#include "calls/note.h"
#include "calls/pool.h"
#include "calls/request.h"
#include "util/error.h"

/* One try; the delivery of the log ends it. @max: 0, or to be allocated as a growable block. */
static int try_realloc(struct vpmm_pool *pool, uint64_t *addr, size_t size, size_t max, struct CUstream_st *stream,
		       const char *call)
{
	uint64_t before;
	int err;

	err = api_begin(&pool, call);
	if (err)
		return err;
	before = *addr;
	err = arena_judge(pool);
	if (!err)
		err = max ? pool_malloc_growable(pool, addr, size, max, stream) :
		      pool_realloc(pool, addr, size, stream);
	if (!err && max)
		note(pool, stream, .op = RECORD_MALLOC, .addr = *addr, .bytes = size, .max = max);
	else if (err == -ENOMEM)
		note(pool, stream, .op = RECORD_EXHAUSTED, .bytes = size);
	requests_note(pool, size, stream, err ? 0 : *addr);
	/* What the pool has is no reason then. */
	if (err == -ENOMEM && max <= GROWABLE_MOST)
		explain_exhausted(pool, size, stream, true);
	if (err && before)
		error_add(err, "%#" PRIx64 " to %zu bytes", before, size);
	return api_part(pool, call, err);
}

/* The arguments of a call. @max: 0, or the block is allocated as a growable one. */
struct reallocation {
	size_t size;
	size_t max;
	struct CUstream_st *stream;
	const char *call;
};

static int reallocate_labelled(void *data, struct vpmm_pool *pool, uint64_t *addr)
{
	const struct reallocation *it = data;
	uint64_t until = 0;
	int err;

	do
		err = try_realloc(pool, addr, it->size, it->max, it->stream, it->call);
	while (err == -ENOMEM && it->max <= GROWABLE_MOST && api_ask_within_limit(pool, it->size, &until));
	if (!err)
		return 0;
	if (err == -ENOMEM)
		api_tell_exhausted(pool, it->size);
	return api_fail(pool, err);
}

static int reallocate(struct vpmm_pool *pool, void **ptr, size_t size, size_t max, struct CUstream_st *stream,
		      const char *call)
{
	struct reallocation it = { size, max, stream, call };
	uint64_t addr = max ? 0 : (uintptr_t)*ptr;
	int err;

	err = max ? labels_allocate(pool, &addr, size, TAGGED_GROWABLE, call, reallocate_labelled, &it) :
	      labels_reallocate(pool, &addr, size, reallocate_labelled, &it);
	if (!err)
		*ptr = (void *)(uintptr_t)addr;
	return err;
}

int vpmm_realloc(struct vpmm_pool *pool, void **ptr, size_t size, struct CUstream_st *stream)
{
	int err;

	if (!ptr)
		return error_set(-EINVAL, "vpmm_realloc: ptr is NULL");
	if (!*ptr)
		return api_allocate(pool, ptr, size, stream, "vpmm_realloc");
	err = api_resolve_owner(&pool, *ptr, "vpmm_realloc");
	if (err)
		return err;
	if (size)
		return api_check_stream(stream, "vpmm_realloc") ?: reallocate(pool, ptr, size, 0, stream,
									      "vpmm_realloc");
	err = vpmm_free(pool, *ptr, stream);
	if (err)
		return error_add(err, "vpmm_realloc");
	*ptr = NULL;
	return 0;
}

int vpmm_malloc_growable(struct vpmm_pool *pool, void **ptr, size_t size, size_t max, struct CUstream_st *stream)
{
	int err;

	if (!ptr || !size || max < size)
		return error_set(-EINVAL, "vpmm_malloc_growable: %s", !ptr ? "ptr is NULL" : !size ? "size is 0" :
				 "max is below size");
	err = api_check_stream(stream, "vpmm_malloc_growable");
	if (err)
		return err;
	err = api_resolve(&pool, "vpmm_malloc_growable");
	return err ? error_add(err, "vpmm_malloc_growable") :
	       reallocate(pool, ptr, size, max, stream, "vpmm_malloc_growable");
}
