// SPDX-License-Identifier: LGPL-2.1-or-later
/* The exported calls that allocate and free: they check arguments, lock, and call the inside. */
#include <errno.h>
#include <pthread.h>

#include "api.h"
#include "calls/capture.h"
#include "calls/free.h"
#include "calls/malloc.h"
#include "calls/note.h"
#include "calls/oom-report.h"
#include "calls/pool.h"
#include "calls/realloc.h"
#include "calls/retire.h"
#include "calls/zero.h"
#include "core/cache-hot.h"
#include "policy/trim.h"
#include "trace/recorder.h"
#include "util/cancel.h"
#include "util/error.h"

static int pool_enter(struct vpmm_pool *pool)
{
	if (G_UNLIKELY(pool->core.generation != api_defaults.generation))
		return error_set(-EBUSY, "the pool belongs to the process that this one was forked from");
	return pool->core.backend->ops->enter(pool->core.backend);
}

/*
 * Under the lock there are cancellation points: calls of the kernel that the host backend makes, and whatever a driver
 * does. The thread must not end there.
 */
static void pool_lock(struct vpmm_pool *pool) ACQUIRE(pool->core.lock);
static void pool_lock(struct vpmm_pool *pool)
{
	int cancel = cancel_hold();

	lock_acquire(&pool->core.lock);
	pool->cancel = cancel;
}

/*
 * Delivers the log, with no lock held. Returns @err, with errno set to match. The thread can be cancelled only after
 * that: nothing else would free the messages, or the block of a malloc.
 */
static int pool_part(struct vpmm_pool *pool, int err) RELEASE(pool->core.lock);
static int pool_part(struct vpmm_pool *pool, int err)
{
	int cancel = pool->cancel;
	GList *messages;

	messages = log_take(&pool->core.log);
	lock_release(&pool->core.lock);
	pool->core.backend->ops->leave(pool->core.backend);
	if (G_UNLIKELY(messages))
		log_deliver(&pool->core.log, messages);
	cancel_release(cancel);
	if (err)
		errno = -err;
	return err;
}

/* Ends a call that has failed, and logs that. */
static int pool_leave(struct vpmm_pool *pool, int err) RELEASE(pool->core.lock);
static int pool_leave(struct vpmm_pool *pool, int err)
{
	if (err)
		log_add(&pool->core.log, VPMM_LOG_ERROR, "%s", error_get());
	return pool_part(pool, err);
}

/* Logs the failure of a call that has left the pool already. */
int api_fail(struct vpmm_pool *pool, int err)
{
	int cancel = cancel_hold();
	GList *messages;

	lock_acquire(&pool->core.lock);
	log_add(&pool->core.log, VPMM_LOG_ERROR, "%s", error_get());
	messages = log_take(&pool->core.log);
	lock_release(&pool->core.lock);
	log_deliver(&pool->core.log, messages);
	cancel_release(cancel);
	errno = -err;
	return err;
}

/* The pool that a call means: a NULL one is the default pool of the current device. */
static int resolve(struct vpmm_pool **pool, const char *call)
{
	const struct backend_ops *ops;
	int device;
	int err;

	if (G_LIKELY(*pool))
		return 0;
	ops = g_atomic_pointer_get(&api_defaults.ops);
	if (ops) {
		err = ops->current_device(&device);
		if (err)
			return err;
		if (device < API_DEFAULT_POOLS)
			*pool = g_atomic_pointer_get(&api_defaults.pools[device]);
		if (*pool)
			return 0;
	}
	/* Another thread may have held the lock when this process was forked. */
	if (api_defaults.generation)
		return error_set(-EBUSY, "the process was forked from one that had used the library");
	return api_default_create(pool, call);
}

/* For calls that may do without the lock of the pool. @call is what it calls itself when it fails. */
static int call_enter(struct vpmm_pool **pool, const char *call)
{
	int err;

	err = resolve(pool, call);
	if (!err)
		err = pool_enter(*pool);
	return G_UNLIKELY(err) ? error_add(err, "%s", call) : 0;
}

/* Every other call on a pool stands between these two. */
int api_begin(struct vpmm_pool **pool, const char *call)
{
	int err;

	err = call_enter(pool, call);
	if (!err)
		pool_lock(*pool);
	return err;
}

int api_end(struct vpmm_pool *pool, const char *call, int err)
{
	if (err)
		error_add(err, "%s", call);
	return pool_leave(pool, err);
}

/* Set while the program is asked for memory: what it allocates meanwhile fails without asking again. */
static _Thread_local bool asking;

/* Asks the program for memory, with no lock held, unless all of it would not do. Returns whether it gave any. */
static bool ask_for_memory(struct vpmm_pool *pool, size_t size)
{
	const struct settings *settings = &pool->core.settings;
	struct error_kept kept;
	bool given;

	if (!settings->pressure || asking || size > settings->most)
		return false;
	error_keep(&kept);
	asking = true;
	given = settings->pressure(settings->pressure_data, pool, size);
	asking = false;
	error_restore(&kept);
	return given;
}

/* Calls the program's callback for exhausted memory. */
static void tell_exhausted(struct vpmm_pool *pool, size_t size)
{
	const struct settings *settings = &pool->core.settings;
	struct error_kept kept;

	if (!settings->exhausted || asking)
		return;
	error_keep(&kept);
	asking = true;
	settings->exhausted(settings->pressure_data, pool, size, kept.sentence);
	asking = false;
	error_restore(&kept);
}

/* One try: the cache's result, or else the slow path. Ends the call, but for the delivery of the log. */
static int try_malloc(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct CUstream_st *stream, int hit,
		      uint64_t id, bool zero, const char *call)
{
	int err;

	pool_lock(pool);
	/* -EBUSY can mean a capture, which the slow path handles. */
	err = hit == -EBUSY ? 0 : hit;
	if (!err && size)
		err = pool_malloc(pool, addr, size, stream, hit ? CACHE_NOBODY : id);
	if (!err && size)
		note(pool, stream, .op = RECORD_MALLOC, .addr = *addr, .bytes = size, .zero = zero);
	else if (err == -ENOMEM)
		note(pool, stream, .op = RECORD_EXHAUSTED, .bytes = size);
	if (err == -ENOMEM)
		explain_exhausted(pool, size, stream);
	else if (err)
		error_add(err, "%zu bytes", size);
	if (err)
		error_add(err, "%s", call);
	return pool_part(pool, err);
}

/* The default pool of the context that is current on this thread; NULL: there is none yet, or that takes more to tell. */
static struct vpmm_pool *default_near(void)
{
	const struct backend_ops *ops = g_atomic_pointer_get(&api_defaults.ops);
	const void *now = ops && ops->current ? ops->current() : NULL, *place;

	for (unsigned int i = 0; now && (place = g_atomic_pointer_get(&api_defaults.here[i].place)); i++) {
		if (place == now)
			return api_defaults.here[i].pool;
	}
	return NULL;
}

/*
 * The core whose cache may be used without entering the backend first, which takes as long as the rest of the call. That
 * is so where a stream's handle means the stream that it would mean inside. NULL: enter. Replaces a NULL *@pool if that
 * is easy. Where calls are recorded, only those that say so have a core, so that others need not look.
 */
static inline struct core *core_near(struct vpmm_pool **pool, const struct CUstream_st *stream, bool recorded)
{
	bool given = *pool;
	struct core *core;

	if (!given)
		*pool = default_near();
	if (G_UNLIKELY(!*pool))
		return NULL;
	core = &(*pool)->core;
	if (G_UNLIKELY(!(recorded ? core->settings.cache : core->direct) || core->generation != api_defaults.generation))
		return NULL;
	if (!given || (stream_is_created(stream) && core->ops->roams))
		return core;
	return core->place && core->ops->current() == core->place ? core : NULL;
}

static int ask_cache(struct core *core, uint64_t *addr, size_t size, struct CUstream_st *stream, uint64_t *id, bool zero)
{
	return G_UNLIKELY(core->recorder) ? cache_malloc_recorded(core, addr, size, stream, id, zero) :
	       cache_malloc(core, addr, size, stream, id);
}

static bool is_recorded(const struct vpmm_pool *pool)
{
	return pool && pool->core.recorder;
}

static void hear_news(struct vpmm_pool *pool) __attribute__((cold, noinline));
static void hear_news(struct vpmm_pool *pool)
{
	if (recorder_has_news(pool->core.recorder))
		note_news(pool);
}

/* What no cache could be asked for without entering the backend, or had not. @hit: what the cache said, if @near. */
static int allocate_inside(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct CUstream_st *stream,
			   struct core *near, int hit, uint64_t id, bool zero, const char *call)
	__attribute__((noinline));
static int allocate_inside(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct CUstream_st *stream,
			   struct core *near, int hit, uint64_t id, bool zero, const char *call)
{
	int err;

	if (G_UNLIKELY(!near && is_recorded(pool))) {
		near = core_near(&pool, stream, true);
		hit = near ? ask_cache(near, addr, size, stream, &id, zero) : 0;
		hear_news(pool);
		if (hit > 0)
			return 0;
	}
	err = call_enter(&pool, call);
	if (err)
		return err;
	if (pool->core.settings.cache && (!near || hit < 0))
		hit = ask_cache(&pool->core, addr, size, stream, &id, zero);
	if (G_LIKELY(hit > 0)) {
		pool->core.backend->ops->leave(pool->core.backend);
		if (G_UNLIKELY(pool->core.recorder))
			hear_news(pool);
		return 0;
	}
	err = try_malloc(pool, addr, size, stream, hit, id, zero, call);
	while (err == -ENOMEM && ask_for_memory(pool, size)) {
		err = call_enter(&pool, call);
		if (err)
			return err;
		err = try_malloc(pool, addr, size, stream, 0, CACHE_NOBODY, zero, call);
	}
	if (G_UNLIKELY(pool->core.recorder))
		hear_news(pool);
	if (!err)
		return 0;
	if (err == -ENOMEM)
		tell_exhausted(pool, size);
	return api_fail(pool, err);
}

/* Inline, as it is most of a call that a cache serves. */
static inline int allocate(struct vpmm_pool *pool, void **ptr, size_t size, struct CUstream_st *stream,
			   bool zero, const char *call)
{
	struct core *near = core_near(&pool, stream, false);
	uint64_t addr = 0, id = CACHE_NOBODY;
	int err = 0, hit = 0;

	if (G_LIKELY(near))
		hit = cache_malloc(near, &addr, size, stream, &id);
	if (G_UNLIKELY(hit <= 0))
		err = allocate_inside(pool, &addr, size, stream, near, hit, id, zero, call);
	if (G_LIKELY(!err))
		*ptr = (void *)(uintptr_t)addr;
	return err;
}

int vpmm_malloc(struct vpmm_pool *pool, void **ptr, size_t size, struct CUstream_st *stream)
{
	if (!ptr)
		return error_set(-EINVAL, "vpmm_malloc: ptr is NULL");
	return allocate(pool, ptr, size, stream, false, "vpmm_malloc");
}

static int zero(struct vpmm_pool *pool, void *ptr, size_t size, struct CUstream_st *stream)
{
	struct error_kept kept;
	int err;

	if (pool->core.settings.scrub == VPMM_SCRUB_ALWAYS)
		return 0;
	err = pool_enter(pool);
	if (!err) {
		err = zero_block(pool, (uintptr_t)ptr, size, stream);
		pool->core.backend->ops->leave(pool->core.backend);
	} else {
		error_keep(&kept);
		if (vpmm_free(pool, ptr, stream))
			zero_drop(pool, (uintptr_t)ptr);
		error_restore(&kept);
	}
	return err ? api_fail(pool, error_add(err, "vpmm_malloc_flags")) : 0;
}

int vpmm_malloc_flags(struct vpmm_pool *pool, void **ptr, size_t size, struct CUstream_st *stream, unsigned int flags)
{
	void *got = NULL;
	int err, cancel;

	if (!ptr)
		return error_set(-EINVAL, "vpmm_malloc_flags: ptr is NULL");
	if (flags & ~VPMM_ZERO)
		return error_set(-EINVAL, "vpmm_malloc_flags: flags are %#x: expected 0 or VPMM_ZERO", flags);
	/* A NULL pool is resolved once: the clear, and the free if that fails, must reach the pool that allocated. */
	err = flags & VPMM_ZERO ? resolve(&pool, "vpmm_malloc_flags") : 0;
	if (err)
		return error_add(err, "vpmm_malloc_flags");
	err = allocate(pool, &got, size, stream, flags & VPMM_ZERO, "vpmm_malloc_flags");
	if (!err && got && flags & VPMM_ZERO) {
		cancel = cancel_hold();
		err = zero(pool, got, size, stream);
		cancel_release(cancel);
	}
	if (!err)
		*ptr = got;
	return err;
}

static int ask_cache_to_free(struct core *core, void *ptr, struct CUstream_st *stream)
{
	return G_UNLIKELY(core->recorder) ? cache_free_recorded(core, (uintptr_t)ptr, stream) :
	       cache_free(core, (uintptr_t)ptr, stream);
}

/* As allocate_inside(). */
static int free_inside(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream, struct core *near, int freed)
	__attribute__((noinline));
static int free_inside(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream, struct core *near, int freed)
{
	int err;

	if (G_UNLIKELY(!near && is_recorded(pool))) {
		near = core_near(&pool, stream, true);
		freed = near ? ask_cache_to_free(near, ptr, stream) : 0;
		hear_news(pool);
		if (freed > 0)
			return 0;
	}
	err = call_enter(&pool, "vpmm_free");
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
	pool_lock(pool);
	/* A wrong address is reported rather than a wrong stream; and one under capture is not wrong. */
	err = freed && freed != -EBUSY && pool_knows(pool, (uintptr_t)ptr) ? freed :
	      pool_free(pool, (uintptr_t)ptr, stream);
	if (err)
		error_add(err, "%p", ptr);
	else
		note(pool, stream, .op = RECORD_FREE, .addr = (uintptr_t)ptr);
	return api_end(pool, "vpmm_free", err);
}

int vpmm_free(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream)
{
	struct core *near;
	int freed = 0;

	if (!ptr)
		return 0;
	near = core_near(&pool, stream, false);
	if (G_LIKELY(near))
		freed = cache_free(near, (uintptr_t)ptr, stream);
	return G_LIKELY(freed > 0) ? 0 : free_inside(pool, ptr, stream, near, freed);
}

/* A block that stays where it is takes no more than its larger size meanwhile; one that moves is there twice. */
static void note_realloc(struct vpmm_pool *pool, uint64_t before, uint64_t addr, size_t size, struct CUstream_st *stream)
{
	if (addr == before)
		note(pool, stream, .op = RECORD_FREE, .addr = before);
	note(pool, stream, .op = RECORD_MALLOC, .addr = addr, .bytes = size);
	if (addr != before)
		note(pool, stream, .op = RECORD_FREE, .addr = before);
}

/* One try; as try_malloc(). */
static int try_realloc(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct CUstream_st *stream)
{
	uint64_t before;
	int err;

	err = call_enter(&pool, "vpmm_realloc");
	if (err)
		return err;
	pool_lock(pool);
	before = *addr;
	err = pool_realloc(pool, addr, size, stream);
	if (!err)
		note_realloc(pool, before, *addr, size, stream);
	if (err == -ENOMEM)
		explain_exhausted(pool, size, stream);
	if (err)
		error_add(err, "%#" G_GINT64_MODIFIER "x to %zu bytes", *addr, size);
	if (err)
		error_add(err, "vpmm_realloc");
	return pool_part(pool, err);
}

static int reallocate(struct vpmm_pool *pool, void **ptr, size_t size, struct CUstream_st *stream)
{
	uint64_t addr = (uintptr_t)*ptr;
	int err;

	do
		err = try_realloc(pool, &addr, size, stream);
	while (err == -ENOMEM && ask_for_memory(pool, size));
	if (!err) {
		*ptr = (void *)(uintptr_t)addr;
		return 0;
	}
	if (err == -ENOMEM)
		tell_exhausted(pool, size);
	return api_fail(pool, err);
}

int vpmm_realloc(struct vpmm_pool *pool, void **ptr, size_t size, struct CUstream_st *stream)
{
	int err;

	if (!ptr)
		return error_set(-EINVAL, "vpmm_realloc: ptr is NULL");
	if (!*ptr)
		return allocate(pool, ptr, size, stream, false, "vpmm_realloc");
	/* A NULL pool is resolved once: a callback of the program may change what is current. */
	err = resolve(&pool, "vpmm_realloc");
	if (err)
		return error_add(err, "vpmm_realloc");
	if (size)
		return reallocate(pool, ptr, size, stream);
	err = vpmm_free(pool, *ptr, stream);
	if (!err)
		*ptr = NULL;
	return err;
}

int vpmm_use(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream)
{
	int err;

	if (!ptr)
		return 0;
	err = api_begin(&pool, "vpmm_use");
	if (err)
		return err;
	err = pool_use(pool, (uintptr_t)ptr, stream);
	if (err)
		error_add(err, "%p", ptr);
	else
		note(pool, stream, .op = RECORD_USE, .addr = (uintptr_t)ptr);
	return api_end(pool, "vpmm_use", err);
}

int vpmm_stream_retire(struct vpmm_pool *pool, struct CUstream_st *stream)
{
	int err;

	err = api_begin(&pool, "vpmm_stream_retire");
	if (err)
		return err;
	err = retire_stream(pool, stream);
	if (!err)
		note(pool, stream, .op = RECORD_STREAM_RETIRE);
	return api_end(pool, "vpmm_stream_retire", err);
}

int vpmm_capture_id(struct vpmm_pool *pool, struct CUstream_st *stream, uint64_t *id)
{
	uint64_t found;
	int err;

	if (!id)
		return error_set(-EINVAL, "vpmm_capture_id: id is NULL");
	err = api_begin(&pool, "vpmm_capture_id");
	if (err)
		return err;
	err = pool->core.backend->ops->stream_capture(pool->core.backend, stream, &found);
	if (!err)
		*id = found;
	return api_end(pool, "vpmm_capture_id", err);
}

int vpmm_graph_retire(struct vpmm_pool *pool, uint64_t id, struct CUstream_st *stream)
{
	int err;

	err = api_begin(&pool, "vpmm_graph_retire");
	if (err)
		return err;
	err = capture_retire(pool, id, stream);
	if (!err)
		note(pool, stream, .op = RECORD_GRAPH_RETIRE, .capture = id);
	return api_end(pool, "vpmm_graph_retire", err);
}

int vpmm_pool_trim(struct vpmm_pool *pool, size_t keep, size_t *released)
{
	uint64_t bytes;
	int err;

	err = api_begin(&pool, "vpmm_pool_trim");
	if (err)
		return err;
	err = trim_pool(&pool->core, keep, released ? &bytes : NULL);
	if (!err)
		note(pool, NULL, .op = RECORD_TRIM, .bytes = keep);
	if (!err && released)
		*released = bytes;
	return api_end(pool, "vpmm_pool_trim", err);
}
