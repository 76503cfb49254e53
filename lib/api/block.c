// SPDX-License-Identifier: LGPL-2.1-or-later
/* The exported calls that allocate and free: they check arguments, lock, and call the inside. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>

#include "api/api.h"
#include "api/tag.h"
#include "calls/arena.h"
#include "calls/free.h"
#include "calls/idle.h"
#include "calls/malloc.h"
#include "calls/note.h"
#include "calls/oom-report.h"
#include "calls/pool.h"
#include "calls/requests.h"
#include "calls/serve.h"
#include "calls/zero.h"
#include "core/cache-hot.h"
#include "trace/recorder.h"
#include "trace/sampler.h"
#include "util/cancel.h"
#include "util/error.h"

/* Flags of memory that any stream may use at once. */
#define NOW (VPMM_IDLE | VPMM_SHAREABLE)

/* The alignment of vpmm_malloc_aligned() passes among the flags, as its logarithm. */
#define ALIGNED_SHIFT 16

static size_t alignment_of(unsigned int flags)
{
	return (size_t)1 << (flags >> ALIGNED_SHIFT);
}

static int serve_locked(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct CUstream_st *stream, uint64_t id,
			unsigned int flags)
{
	if (G_UNLIKELY(flags & NOW))
		return idle_malloc(pool, addr, size, alignment_of(flags), stream, flags);
	return pool_malloc(pool, addr, size, alignment_of(flags), stream, id);
}

/* One try: the cache's result, or else the slow path. Ends the call, but for the delivery of the log. */
static int try_malloc(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct CUstream_st *stream, int hit,
		      uint64_t id, unsigned int flags, const char *call)
{
	int err;

	api_lock(pool);
	/* -EBUSY can mean a capture, which the slow path handles. */
	err = hit == -EBUSY ? 0 : hit;
	if (!err && size)
		err = arena_judge(pool);
	if (!err && size)
		err = serve_locked(pool, addr, size, stream, hit ? CACHE_NOBODY : id, flags);
	if (!err && size)
		note(pool, stream, .op = RECORD_MALLOC, .addr = *addr, .bytes = size,
		     .flags = (flags & VPMM_ZERO ? RECORD_ZERO : 0) | (flags & NOW ? RECORD_IDLE : 0));
	else if (err == -ENOMEM)
		note(pool, stream, .op = RECORD_EXHAUSTED, .bytes = size);
	requests_note(pool, size, stream, err ? 0 : *addr);
	if (err == -ENOMEM)
		explain_exhausted(pool, size, stream, true);
	else if (err)
		error_add(err, "%zu bytes", size);
	if (err)
		error_add(err, "%s", call);
	return api_leave(pool, err);
}

/*
 * The default pool of the context that is current on this thread; NULL: there is none yet, or that takes more to tell.
 */
static struct vpmm_pool *default_near(void)
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

static inline unsigned int near_generation(void)
{
	return atomic_load_explicit(&api_defaults.near, memory_order_relaxed);
}

/*
 * The core whose cache may be used without entering the backend first, which takes as long as the rest of the call.
 * That is so where a stream's handle means the stream that it would mean inside. NULL: enter. Replaces a NULL *@pool if
 * that is easy. Where calls are recorded, or there are tags, only those that ask again have a core, so that others need
 * not look.
 */
static inline struct core *core_near(struct vpmm_pool **pool, const struct CUstream_st *stream, bool again)
{
	bool given = *pool;
	struct core *core;

	if (!given)
		*pool = default_near();
	if (G_UNLIKELY(!*pool))
		return NULL;
	core = &(*pool)->core;
	if (G_UNLIKELY(!(again ? core->settings.cache : core->direct) ||
		       core->generation != (again ? api_defaults.generation : near_generation())))
		return NULL;
	if (!given || (stream_is_created(stream) && core->ops->roams))
		return core;
	return core->place && core->ops->current() == core->place ? core : NULL;
}

static int ask_cache(struct core *core, uint64_t *addr, size_t size, struct CUstream_st *stream, uint64_t *id,
		     bool zero)
{
	return G_UNLIKELY(core->recorder) ? cache_malloc_recorded(core, addr, size, stream, id, zero) :
	       cache_malloc(core, addr, size, stream, id);
}

/* Whether a cache has to be asked here, as calls are recorded, their stacks sampled, or tags looked for. */
static bool is_observed(const struct vpmm_pool *pool)
{
	return api_tagged() || (pool && (pool->core.recorder || pool->core.sampler));
}

static void hear_news(struct vpmm_pool *pool) __attribute__((cold, noinline));
static void hear_news(struct vpmm_pool *pool)
{
	if (pool && pool->core.recorder && recorder_has_news(pool->core.recorder))
		note_news(pool);
}

/* As allocate_plain(); *@given receives the pool. */
static inline int serve_inside(struct vpmm_pool **given, uint64_t *addr, size_t size, struct CUstream_st *stream,
			       bool near, int hit, uint64_t id, unsigned int flags, const char *call)
{
	struct vpmm_pool *pool = *given;
	struct core *core;
	uint64_t until = 0;
	int err;

	if (G_UNLIKELY(!near && is_observed(pool))) {
		core = core_near(&pool, stream, true);
		near = core;
		hit = core ? ask_cache(core, addr, size, stream, &id, flags & VPMM_ZERO) : 0;
		hear_news(pool);
		if (hit > 0)
			return 0;
	}
	err = api_enter(&pool, call);
	if (err)
		return err;
	*given = pool;
	if (pool->core.settings.cache && (!near || hit < 0))
		hit = ask_cache(&pool->core, addr, size, stream, &id, flags & VPMM_ZERO);
	if (G_LIKELY(hit > 0)) {
		pool->core.backend->ops->leave(pool->core.backend);
		if (G_UNLIKELY(pool->core.recorder))
			hear_news(pool);
		return 0;
	}
	err = try_malloc(pool, addr, size, stream, hit, id, flags, call);
	while (err == -ENOMEM && api_ask_to_serve(pool, size, &until)) {
		err = api_enter(&pool, call);
		if (err)
			return err;
		err = try_malloc(pool, addr, size, stream, 0, CACHE_NOBODY, flags, call);
	}
	if (G_UNLIKELY(pool->core.recorder))
		hear_news(pool);
	if (!err)
		return 0;
	if (err == -ENOMEM)
		api_tell_exhausted(pool, size);
	return api_fail(pool, err);
}

/* From the pool itself, whatever the thread's tag. @hit: what the cache said, if @near. */
static inline int allocate_plain(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct CUstream_st *stream,
				 bool near, int hit, uint64_t id, unsigned int flags, const char *call)
{
	int err = serve_inside(&pool, addr, size, stream, near, hit, id, flags, call);

	if (!err && G_UNLIKELY(pool->core.sampler) && size)
		sampler_note(pool->core.sampler, *addr, size);
	return err;
}

/* The arguments of a call that allocates, for the pool that is to serve it. */
struct allocation {
	size_t size;
	struct CUstream_st *stream;
	unsigned int flags;
	bool near;
	const char *call;
};

static int allocate_of(void *data, struct vpmm_pool *pool, uint64_t *addr)
{
	const struct allocation *it = data;

	return allocate_plain(pool, addr, it->size, it->stream, it->near, 0, CACHE_NOBODY, it->flags, it->call);
}

/* Serves a request that no cache was asked for outside the backend, or had not. @hit: the cache's answer, if @near. */
static int allocate_inside(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct CUstream_st *stream,
			   bool near, int hit, uint64_t id, unsigned int flags, const char *call)
	__attribute__((noinline));
static int allocate_inside(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct CUstream_st *stream,
			   bool near, int hit, uint64_t id, unsigned int flags, const char *call)
{
	if (api_tagged() && tag_current() && size) {
		struct allocation it = { size, stream, flags, near, call };

		return tagged_allocate(pool, addr, size, flags & VPMM_SHAREABLE, call, allocate_of, &it);
	}
	return allocate_plain(pool, addr, size, stream, near, hit, id, flags, call);
}

static inline __attribute__((always_inline)) int allocate_near(struct vpmm_pool *pool, void **ptr, size_t size,
							       struct CUstream_st *stream, unsigned int flags,
							       const char *call)
{
	struct core *near = core_near(&pool, stream, false);
	uint64_t addr = 0, id = CACHE_NOBODY;
	int err, hit = 0;

	if (G_LIKELY(near))
		hit = cache_malloc(near, &addr, size, stream, &id);
	if (G_LIKELY(hit > 0)) {
		*ptr = (void *)(uintptr_t)addr;
		return 0;
	}
	err = allocate_inside(pool, &addr, size, stream, near, hit, id, flags, call);
	if (!err)
		*ptr = (void *)(uintptr_t)addr;
	return err;
}

/* Inline, as it is most of a call that a cache serves; and twice, as is free_near(). */
static inline int allocate(struct vpmm_pool *pool, void **ptr, size_t size, struct CUstream_st *stream,
			   unsigned int flags, const char *call)
{
	if (G_UNLIKELY(stream == VPMM_STREAM_ANY))
		return api_check_stream(stream, call);
	return pool ? allocate_near(pool, ptr, size, stream, flags, call) :
	       allocate_near(NULL, ptr, size, stream, flags, call);
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

/* The sample of a block that is about to be freed. A forked child frees nothing, and its lock may be another thread's. */
static struct sample *take_sample(const void *ptr)
{
	return api_defaults.generation ? NULL : sampler_take((uintptr_t)ptr);
}

static int zero(struct vpmm_pool *pool, void *ptr, size_t size, struct CUstream_st *stream, bool idle)
{
	struct error_kept kept;
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
		error_keep(&kept);
		if (vpmm_free(pool, ptr, stream))
			zero_drop(pool, (uintptr_t)ptr);
		error_restore(&kept);
	}
	return err ? api_fail(pool, error_add(err, "vpmm_malloc_flags")) : 0;
}

static int zero_tagged(struct vpmm_pool *pool, void *ptr, size_t size, struct CUstream_st *stream, bool idle)
{
	struct tagged block;
	int err;

	if (!api_tagged() || !tagged_take(pool, ptr, &block))
		return zero(pool, ptr, size, stream, idle);
	err = zero(block.pool, ptr, size, stream, idle);
	tagged_settle(&block, !err);
	return err;
}

/* No cache is asked: its blocks were freed in the order of their stream, and may lie anywhere. */
static int allocate_uncached(struct vpmm_pool *pool, void **ptr, size_t size, struct CUstream_st *stream,
			 unsigned int flags, const char *call)
{
	uint64_t addr = 0;
	int err;

	err = api_check_stream(stream, call);
	if (!err)
		err = allocate_inside(pool, &addr, size, stream, true, 0, CACHE_NOBODY, flags, call);
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
		err = zero_tagged(pool, got, size, stream, flags & NOW);
		if (err)
			sampler_drop(take_sample(got));
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
	err = serve_judge_align(pool, size, alignment);
	if (err)
		return api_fail(pool, error_add(err, "%s", call));
	if (alignment > serve_natural(pool, size))
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

static int free_plain(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream, bool near, int freed, bool given);

/* As free_plain(). */
static inline int free_here(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream, bool near, int freed,
			     bool given)
{
	struct vpmm_pool *owner;
	struct core *core;
	int err;

	if (!pool) {
		err = first_owner(&pool, ptr);
		if (err)
			return error_add(err, "vpmm_free");
	}
	if (G_UNLIKELY(!near && is_observed(pool))) {
		core = core_near(&pool, stream, true);
		near = core;
		freed = core ? ask_cache_to_free(core, ptr, stream) : 0;
		hear_news(pool);
		if (freed > 0)
			return 0;
	}
	err = api_enter(&pool, "vpmm_free");
	if (err)
		return err;
	if (pool->core.settings.cache && (!near || freed < 0))
		freed = ask_cache_to_free(&pool->core, ptr, stream);
	if (G_LIKELY(freed > 0)) {
		pool->core.backend->ops->leave(pool->core.backend);
		if (G_UNLIKELY(pool->core.recorder))
			hear_news(pool);
		return 0;
	}
	owner = given ? pool : api_owner((uintptr_t)ptr, pool);
	if (owner != pool) {
		pool->core.backend->ops->leave(pool->core.backend);
		return free_plain(owner, ptr, stream, false, 0, true);
	}
	api_lock(pool);
	/* A wrong address is reported rather than a wrong stream; and one under capture is not wrong. */
	err = freed && freed != -EBUSY && pool_knows(pool, (uintptr_t)ptr) ? freed :
	      pool_free(pool, (uintptr_t)ptr, stream);
	if (err)
		error_add(err, "%p", ptr);
	else
		note(pool, stream, .op = RECORD_FREE, .addr = (uintptr_t)ptr);
	return api_end(pool, "vpmm_free", err);
}

static int end_sample(struct sample *sample, int err)
{
	if (G_UNLIKELY(sample && err))
		sampler_restore(sample);
	else if (G_UNLIKELY(sample))
		sampler_drop(sample);
	return err;
}

/* As free_inside(), if the block has no tag, or @pool serves it. */
static int free_plain(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream, bool near, int freed, bool given)
{
	struct sample *sample = take_sample(ptr);

	return end_sample(sample, free_here(pool, ptr, stream, near, freed, given));
}

/* Frees a block that no cache could take, if not @near, or did not. @given: the call named a pool. */
static int free_inside(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream, bool near, int freed, bool given)
	__attribute__((noinline));
static int free_inside(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream, bool near, int freed, bool given)
{
	struct tagged block;
	int err;

	if (!api_tagged() || !tagged_take(pool, ptr, &block))
		return free_plain(pool, ptr, stream, near, freed, given);
	err = free_plain(block.pool, ptr, stream, false, 0, true);
	tagged_settle(&block, err);
	return err;
}

static int free_any_plain(struct vpmm_pool *pool, void *ptr)
{
	struct sample *sample = take_sample(ptr);
	int err;

	err = api_begin(&pool, "vpmm_free");
	if (err)
		return end_sample(sample, err);
	err = pool_free_any(pool, (uintptr_t)ptr);
	if (err)
		error_add(err, "%p", ptr);
	else
		note(pool, VPMM_STREAM_ANY, .op = RECORD_FREE, .addr = (uintptr_t)ptr, .flags = RECORD_ANY);
	return end_sample(sample, api_end(pool, "vpmm_free", err));
}

/* No cache takes it, as its stream may not be behind the work of the others. */
static int free_any(struct vpmm_pool *pool, void *ptr) __attribute__((cold, noinline));
static int free_any(struct vpmm_pool *pool, void *ptr)
{
	struct tagged block;
	int err;

	err = api_resolve_owner(&pool, ptr, "vpmm_free");
	if (err || !api_tagged() || !tagged_take(pool, ptr, &block))
		return err ? err : free_any_plain(pool, ptr);
	err = free_any_plain(block.pool, ptr);
	tagged_settle(&block, err);
	return err;
}

static inline __attribute__((always_inline)) int free_near(struct vpmm_pool *pool, void *ptr,
							   struct CUstream_st *stream, bool given)
{
	struct core *near = core_near(&pool, stream, false);
	int freed;

	if (G_UNLIKELY(!near))
		return free_inside(pool, ptr, stream, false, 0, given);
	freed = cache_free(near, (uintptr_t)ptr, stream);
	return G_LIKELY(freed > 0) ? 0 : free_inside(pool, ptr, stream, true, freed, given);
}

int vpmm_free(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream)
{
	if (!ptr)
		return 0;
	if (G_UNLIKELY(stream == VPMM_STREAM_ANY))
		return free_any(pool, ptr);
	/* Twice the same, so that what a cache takes back does not pay for the difference. */
	return pool ? free_near(pool, ptr, stream, true) : free_near(NULL, ptr, stream, false);
}
