// SPDX-License-Identifier: LGPL-2.1-or-later
/* The exported calls that allocate and free: they check arguments, lock, and call the inside. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>

#include "api/api.h"
#include "api/label.h"
#include "calls/arena.h"
#include "calls/free.h"
#include "calls/idle.h"
#include "calls/malloc.h"
#include "calls/note.h"
#include "calls/pool.h"
#include "calls/request.h"
#include "calls/zero.h"
#include "core/cache-hot.h"
#include "trace/recorder.h"
#include "util/cancel.h"
#include "util/error.h"

/* Flags of memory that any stream may use at once. */
#define NOW (VPMM_IDLE | VPMM_SHAREABLE)

/* The alignment of vpmm_malloc_aligned() passes among the flags, as its logarithm. */
#define ALIGNED_SHIFT 16

/* In place of the result of a cache: it was not asked yet. Negative as an error, since after both it is asked again. */
#define UNASKED INT_MIN

/**
 * struct malloc_call - a call that allocates
 * @size: bytes; for 0 the call succeeds with the address NULL
 * @stream: the stream
 * @flags: of vpmm_malloc_flags(), and the alignment
 * @hit: what the stream's cache returned: 1: it has served the call; 0: it has no such block; UNASKED; or an error
 * @id: the driver's id of the stream, if @hit is 0 and the cache looked it up; otherwise CACHE_NOBODY
 * @call: its name, for errors
 */
struct malloc_call {
	size_t size;
	struct CUstream_st *stream;
	unsigned int flags;
	int hit;
	uint64_t id;
	const char *call;
};

static int malloc_locked(struct vpmm_pool *pool, uint64_t *addr, const struct malloc_call *it)
{
	size_t alignment = (size_t)1 << (it->flags >> ALIGNED_SHIFT);

	if (G_UNLIKELY(it->flags & NOW))
		return idle_malloc(pool, addr, it->size, alignment, it->stream, it->flags);
	/* The driver has told no id of a stream under capture (-EBUSY). */
	return pool_malloc(pool, addr, it->size, alignment, it->stream, it->hit ? CACHE_NOBODY : it->id);
}

/* A pause leaves memory that other processes can map in place. */
static uint8_t record_flags(unsigned int flags)
{
	return (flags & VPMM_ZERO ? RECORD_ZERO : 0) | (flags & NOW ? RECORD_IDLE : 0) |
	       (flags & VPMM_SHAREABLE && tag_current() ? RECORD_STAY : 0);
}

/* Tries the slow path once. Logs no failure, as the call may try again. -EBUSY of the cache can mean a capture. */
static int try_malloc(struct vpmm_pool *pool, uint64_t *addr, const struct malloc_call *it)
{
	size_t size = it->size;
	int err;

	api_lock(pool);
	err = it->hit == -EBUSY ? 0 : it->hit;
	if (!err && size)
		err = arena_judge(pool);
	if (!err && size)
		err = malloc_locked(pool, addr, it);
	if (!err && size)
		note(pool, it->stream, .op = RECORD_MALLOC, .addr = *addr, .bytes = size,
		     .flags = record_flags(it->flags));
	else if (err == -ENOMEM)
		note(pool, it->stream, .op = RECORD_EXHAUSTED, .bytes = size);
	requests_note(pool, size, it->stream, err ? 0 : *addr);
	if (err == -ENOMEM)
		explain_exhausted(pool, size, it->stream, true);
	else if (err)
		error_add(err, "%zu bytes", size);
	if (err)
		error_add(err, "%s", it->call);
	return api_leave(pool, err);
}

/* Logs that the trace has ended before its time, if it has. */
static void log_trace_end(struct vpmm_pool *pool) __attribute__((cold, noinline));
static void log_trace_end(struct vpmm_pool *pool)
{
	if (pool->core.recorder && recorder_has_news(pool->core.recorder))
		note_news(pool);
}

/* Serves a request that no cache could. The backend is entered; leaves it. */
static int allocate_entered(struct vpmm_pool *pool, uint64_t *addr, struct malloc_call *it) __attribute__((noinline));
static int allocate_entered(struct vpmm_pool *pool, uint64_t *addr, struct malloc_call *it)
{
	uint64_t until = 0;
	int err;

	err = try_malloc(pool, addr, it);
	while (err == -ENOMEM && api_ask_within_limit(pool, it->size, &until)) {
		err = api_enter(&pool, it->call);
		if (err)
			return err;
		it->hit = 0;
		it->id = CACHE_NOBODY;
		err = try_malloc(pool, addr, it);
	}
	if (G_UNLIKELY(pool->core.recorder))
		log_trace_end(pool);
	if (!err)
		return 0;
	if (err == -ENOMEM)
		api_tell_exhausted(pool, it->size);
	return api_fail(pool, err);
}

/* The default pool of the context that is current on this thread; NULL: there is none, or only the driver can tell. */
static struct vpmm_pool *fast_default(void)
{
	const struct backend_ops *ops = g_atomic_pointer_get(&api_defaults.ops);
	const void *now = ops && ops->current ? ops->current() : NULL;
	const struct api_here *here;

	for (unsigned int i = 0; now && (here = g_atomic_pointer_get(&api_defaults.here[i])); i++) {
		if (here->place == now)
			return here->pool;
	}
	return NULL;
}

/*
 * Whether a cache may be asked without entering the backend: the handle means the same stream there, as the program has
 * created it, or as the pool's context is current already.
 */
static inline bool can_skip_enter(const struct core *core, const struct CUstream_st *stream)
{
	return (stream_is_created(stream) && core->ops->roams) ||
	       (core->place && core->ops->current() == core->place);
}

/*
 * The core whose cache may be asked without entering the backend first, which takes as long as the rest of the call.
 * NULL: enter. Replaces a NULL *@pool by the default pool, if that can be found without the driver.
 */
static inline struct core *fast_core(struct vpmm_pool **pool, const struct CUstream_st *stream)
{
	bool given = *pool;

	if (!given)
		*pool = fast_default();
	if (G_UNLIKELY(!*pool || !api_is_plain(*pool)))
		return NULL;
	return !given || can_skip_enter(&(*pool)->core, stream) ? &(*pool)->core : NULL;
}

/* As fast_core(), for a pool that is not plain. */
static struct core *fast_core_labelled(struct vpmm_pool *pool, const struct CUstream_st *stream)
{
	struct core *core = &pool->core;

	return core->settings.cache && core->generation == api_defaults.generation && can_skip_enter(core, stream) ? core :
	       NULL;
}

static int ask_cache(struct core *core, uint64_t *addr, struct malloc_call *it)
{
	return G_UNLIKELY(core->recorder) ?
	       cache_malloc_recorded(core, addr, it->size, it->stream, &it->id, it->flags & VPMM_ZERO) :
	       cache_malloc(core, addr, it->size, it->stream, &it->id);
}

/* For labels_allocate(): as allocate_inside(), for a pool that may have a tag, a sample, a recorder or no cache. */
static int allocate_labelled(void *data, struct vpmm_pool *pool, uint64_t *addr)
{
	struct malloc_call *it = data;
	struct core *fast = it->hit < 0 ? fast_core_labelled(pool, it->stream) : NULL;
	int err;

	if (fast)
		it->hit = ask_cache(fast, addr, it);
	if (it->hit <= 0) {
		err = api_enter(&pool, it->call);
		if (err)
			return err;
		if (it->hit < 0)
			it->hit = pool->core.settings.cache ? ask_cache(&pool->core, addr, it) : 0;
		if (it->hit <= 0)
			return allocate_entered(pool, addr, it);
		pool->core.backend->ops->leave(pool->core.backend);
	}
	log_trace_end(pool);
	return 0;
}

/* The driver's allocator serves no block that is idle or aligned. */
static enum tagged_kind tagged_kind_of(unsigned int flags)
{
	if (flags & VPMM_SHAREABLE)
		return TAGGED_SHAREABLE;
	return flags & VPMM_IDLE || flags >> ALIGNED_SHIFT ? TAGGED_POOLED : TAGGED_PLAIN;
}

/*
 * Enters the backend and asks the cache, unless it was asked outside and did not fail: the stream's id can be had
 * inside where it cannot be outside. Then takes the slow path. A plain pool has no tag and no sample to look for.
 */
static int allocate_inside(struct vpmm_pool *pool, uint64_t *addr, struct malloc_call *it) __attribute__((noinline));
static int allocate_inside(struct vpmm_pool *pool, uint64_t *addr, struct malloc_call *it)
{
	struct backend *be;
	int err;

	err = api_resolve_for(&pool, it->call);
	if (err)
		return err;
	if (G_UNLIKELY(!api_is_plain(pool)))
		return labels_allocate(pool, addr, it->size, tagged_kind_of(it->flags), it->call, allocate_labelled,
				       it);
	be = pool->core.backend;
	err = be->ops->enter(be);
	if (G_UNLIKELY(err))
		return error_add(err, "%s", it->call);
	if (it->hit < 0)
		it->hit = cache_malloc(&pool->core, addr, it->size, it->stream, &it->id);
	if (it->hit <= 0)
		return allocate_entered(pool, addr, it);
	be->ops->leave(be);
	return 0;
}

static inline __attribute__((always_inline)) int allocate_fast(struct vpmm_pool *pool, void **ptr, size_t size,
							       struct CUstream_st *stream, unsigned int flags,
							       const char *call)
{
	struct core *fast = fast_core(&pool, stream);
	uint64_t addr = 0, id = CACHE_NOBODY;
	int err, hit = UNASKED;

	if (G_LIKELY(fast))
		hit = cache_malloc(fast, &addr, size, stream, &id);
	err = G_LIKELY(hit > 0) ? 0 : allocate_inside(pool, &addr, &(struct malloc_call){
		.size = size, .stream = stream, .flags = flags, .hit = hit, .id = id, .call = call });
	if (G_LIKELY(!err))
		*ptr = (void *)(uintptr_t)addr;
	return err;
}

/* Inline, as it is most of a call that a cache serves; and twice, as is free_fast(). */
static inline __attribute__((always_inline)) int allocate(struct vpmm_pool *pool, void **ptr, size_t size,
							  struct CUstream_st *stream, unsigned int flags,
							  const char *call)
{
	if (G_UNLIKELY(stream == VPMM_STREAM_ANY))
		return api_check_stream(stream, call);
	return pool ? allocate_fast(pool, ptr, size, stream, flags, call) :
	       allocate_fast(NULL, ptr, size, stream, flags, call);
}

int api_allocate(struct vpmm_pool *pool, void **ptr, size_t size, struct CUstream_st *stream, const char *call)
{
	return allocate(pool, ptr, size, stream, 0, call);
}

int vpmm_malloc(struct vpmm_pool *pool, void **ptr, size_t size, struct CUstream_st *stream)
{
	if (!ptr)
		return error_set(-EINVAL, "vpmm_malloc: ptr is NULL");
	return allocate(pool, ptr, size, stream, 0, "vpmm_malloc");
}

static int zero(struct vpmm_pool *pool, void *ptr, size_t size, struct CUstream_st *stream, bool idle)
{
	int err;

	if (pool->core.settings.scrub == VPMM_SCRUB_ALWAYS)
		return 0;
	err = api_enter_pool(pool);
	if (!err) {
		err = zero_block(pool, (uintptr_t)ptr, size, stream);
		if (!err && idle)
			err = zero_wait(pool, (uintptr_t)ptr, stream);
		pool->core.backend->ops->leave(pool->core.backend);
	} else {
		zero_drop(pool, (uintptr_t)ptr);
	}
	return err ? api_fail(pool, error_add(err, "vpmm_malloc_flags")) : 0;
}

/* A block that cannot be cleared is freed. */
static int zero_or_free(struct vpmm_pool *pool, void *ptr, size_t size, struct CUstream_st *stream, bool idle)
{
	struct labels labels;
	int err;

	pool = labels_take(pool, ptr, &labels);
	err = zero(pool, ptr, size, stream, idle);
	labels_end(&labels, !err);
	return err;
}

/* No cache is asked: its blocks were freed in the order of their stream, and may lie anywhere. */
static int allocate_uncached(struct vpmm_pool *pool, void **ptr, size_t size, struct CUstream_st *stream,
			     unsigned int flags, const char *call)
{
	struct malloc_call it = { .size = size, .stream = stream, .flags = flags, .id = CACHE_NOBODY, .call = call };
	uint64_t addr = 0;
	int err;

	err = api_check_stream(stream, call);
	if (!err)
		err = allocate_inside(pool, &addr, &it);
	if (!err)
		*ptr = (void *)(uintptr_t)addr;
	return err;
}

int vpmm_malloc_flags(struct vpmm_pool *pool, void **ptr, size_t size, struct CUstream_st *stream, unsigned int flags)
{
	void *got = NULL;
	int err, cancel;

	if (!ptr)
		return error_set(-EINVAL, "vpmm_malloc_flags: ptr is NULL");
	if (flags & ~(VPMM_ZERO | NOW))
		return error_set(-EINVAL,
				 "vpmm_malloc_flags: flags are %#x: expected 0, or some of VPMM_ZERO, VPMM_IDLE "
				 "and VPMM_SHAREABLE", flags);
	/* A NULL pool is resolved once: the clear, and the free if that fails, must reach the pool that allocated. */
	err = flags ? api_resolve(&pool, "vpmm_malloc_flags") : 0;
	if (err)
		return error_add(err, "vpmm_malloc_flags");
	if (flags & NOW)
		err = allocate_uncached(pool, &got, size, stream, flags, "vpmm_malloc_flags");
	else
		err = allocate(pool, &got, size, stream, flags, "vpmm_malloc_flags");
	if (!err && got && flags & VPMM_ZERO) {
		cancel = cancel_hold();
		err = zero_or_free(pool, got, size, stream, flags & NOW);
		cancel_release(cancel);
	}
	if (!err)
		*ptr = got;
	return err;
}

int vpmm_malloc_aligned(struct vpmm_pool *pool, void **ptr, size_t size, size_t alignment, struct CUstream_st *stream)
{
	const char *call = "vpmm_malloc_aligned";
	unsigned int flags = stream == VPMM_STREAM_ANY ? VPMM_IDLE : 0;
	int err;

	if (!ptr)
		return error_set(-EINVAL, "%s: ptr is NULL", call);
	if (!alignment || alignment & (alignment - 1))
		return error_set(-EINVAL, "%s: alignment is %zu: expected a power of two", call, alignment);
	err = api_resolve(&pool, call);
	if (err)
		return error_add(err, "%s", call);
	err = request_judge_align(pool, size, alignment);
	if (err)
		return api_fail(pool, error_add(err, "%s", call));
	if (alignment > request_alignment(pool, size))
		flags |= (unsigned int)__builtin_ctzl(alignment) << ALIGNED_SHIFT;
	return flags ? allocate_uncached(pool, ptr, size, stream == VPMM_STREAM_ANY ? NULL : stream, flags, call) :
	       allocate(pool, ptr, size, stream, 0, call);
}

static int ask_cache_to_free(struct core *core, void *ptr, struct CUstream_st *stream)
{
	return G_UNLIKELY(core->recorder) ? cache_free_recorded(core, (uintptr_t)ptr, stream) :
	       cache_free(core, (uintptr_t)ptr, stream);
}

/* The pool whose cache a free without a pool asks first: the default pool, which has most blocks, or else the owner. */
static int first_owner(struct vpmm_pool **pool, const void *ptr)
{
	int err;

	err = api_find_default(pool);
	return err || *pool ? err : api_find_owner(pool, ptr);
}

static int free_inside(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream, int freed, bool given);

/* Frees a block that no cache took back, with the result @freed. The backend is entered; leaves it. */
static int free_entered(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream, int freed, bool given)
	__attribute__((noinline));
static int free_entered(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream, int freed, bool given)
{
	struct vpmm_pool *owner = pool;
	int err = given ? 0 : api_owner((uintptr_t)ptr, &owner);

	if (owner != pool) {
		pool->core.backend->ops->leave(pool->core.backend);
		return free_inside(owner, ptr, stream, UNASKED, true);
	}
	api_lock(pool);
	/* A wrong address is reported rather than a wrong stream; and one under capture is not wrong. */
	if (!err)
		err = freed && freed != -EBUSY && pool_knows(pool, (uintptr_t)ptr) ? freed :
		      pool_free(pool, (uintptr_t)ptr, stream);
	if (err)
		error_add(err, "%p", ptr);
	else
		note(pool, stream, .op = RECORD_FREE, .addr = (uintptr_t)ptr);
	return api_end(pool, "vpmm_free", err);
}

/* As free_inside(), for a pool that is not plain, once the tag and the sample are taken. */
static int free_taken(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream, bool given)
{
	struct core *fast = fast_core_labelled(pool, stream);
	int freed = fast ? ask_cache_to_free(fast, ptr, stream) : UNASKED;
	int err;

	if (freed <= 0) {
		err = api_enter(&pool, "vpmm_free");
		if (err)
			return err;
		if (freed < 0)
			freed = pool->core.settings.cache ? ask_cache_to_free(&pool->core, ptr, stream) : 0;
		if (freed <= 0)
			return free_entered(pool, ptr, stream, freed, given);
		pool->core.backend->ops->leave(pool->core.backend);
	}
	log_trace_end(pool);
	return 0;
}

static int free_labelled(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream, bool given)
	__attribute__((noinline));
static int free_labelled(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream, bool given)
{
	struct labels labels;
	struct vpmm_pool *owner = labels_take(given ? pool : NULL, ptr, &labels);
	int err;

	err = free_taken(owner ? owner : pool, ptr, stream, given || owner);
	labels_end(&labels, err);
	return err;
}

/* Frees a block that no cache was asked for outside of the backend, or did not take. @given: the call named a pool. */
static int free_inside(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream, int freed, bool given)
	__attribute__((noinline));
static int free_inside(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream, int freed, bool given)
{
	struct backend *be;
	int err;

	if (!pool) {
		err = first_owner(&pool, ptr);
		if (err)
			return error_add(err, "vpmm_free");
	}
	if (G_UNLIKELY(!api_is_plain(pool)))
		return free_labelled(pool, ptr, stream, given);
	be = pool->core.backend;
	err = be->ops->enter(be);
	if (G_UNLIKELY(err))
		return error_add(err, "vpmm_free");
	if (freed < 0)
		freed = cache_free(&pool->core, (uintptr_t)ptr, stream);
	if (freed <= 0)
		return free_entered(pool, ptr, stream, freed, given);
	be->ops->leave(be);
	return 0;
}

static int free_any_taken(struct vpmm_pool *pool, void *ptr)
{
	int err;

	err = api_begin(&pool, "vpmm_free");
	if (err)
		return err;
	err = pool_free_any(pool, (uintptr_t)ptr);
	if (err)
		error_add(err, "%p", ptr);
	else
		note(pool, VPMM_STREAM_ANY, .op = RECORD_FREE, .addr = (uintptr_t)ptr, .flags = RECORD_ANY);
	return api_end(pool, "vpmm_free", err);
}

/* No cache takes it, as its stream may not be behind the work of the others. */
static int free_any(struct vpmm_pool *pool, void *ptr) __attribute__((cold, noinline));
static int free_any(struct vpmm_pool *pool, void *ptr)
{
	struct labels labels;
	int err;

	err = api_resolve_owner(&pool, ptr, "vpmm_free");
	if (err)
		return err;
	err = free_any_taken(labels_take(pool, ptr, &labels), ptr);
	labels_end(&labels, err);
	return err;
}

static inline __attribute__((always_inline)) int free_fast(struct vpmm_pool *pool, void *ptr,
							   struct CUstream_st *stream, bool given)
{
	struct core *fast = fast_core(&pool, stream);
	int freed = UNASKED;

	if (G_LIKELY(fast))
		freed = cache_free(fast, (uintptr_t)ptr, stream);
	return G_LIKELY(freed > 0) ? 0 : free_inside(pool, ptr, stream, freed, given);
}

int vpmm_free(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream)
{
	if (!ptr)
		return 0;
	if (G_UNLIKELY(stream == VPMM_STREAM_ANY))
		return free_any(pool, ptr);
	/* Twice the same, so that what a cache takes back does not pay for the difference. */
	return pool ? free_fast(pool, ptr, stream, true) : free_fast(NULL, ptr, stream, false);
}
