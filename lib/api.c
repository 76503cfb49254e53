// SPDX-License-Identifier: LGPL-2.1-or-later
/* The exported calls: they judge their arguments, lock, and call the inside. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "calls/capture.h"
#include "calls/check.h"
#include "calls/dump.h"
#include "calls/free.h"
#include "calls/malloc.h"
#include "calls/oom-report.h"
#include "calls/pool.h"
#include "calls/query.h"
#include "calls/retire.h"
#include "calls/stats.h"
#include "calls/zero.h"
#include "config.h"
#include "core/cache-hot.h"
#include "policy/trim.h"
#include "util/cancel.h"
#include "util/error.h"
#include "util/sized.h"

/* A pool of its own for each device; the calls find those of more devices than this only by their handles. */
#define DEFAULT_POOLS 64

static struct {
	struct lock lock;
	const struct backend_ops *ops;			/* NULL before the first */
	struct vpmm_pool *pools[DEFAULT_POOLS];		/* once set, never changed */
} defaults = { .lock = LOCK_INIT(LOCK_DEFAULTS) };

/* Pools that were made, and calls that are making one. */
static gint pools;

/* Counts the forks that this process comes from, since its first pool. Pools of an older generation are the parent's. */
static unsigned int generation;

/* Where all have failed, nothing is left of them that the child could not have. */
static void count_fork(void)
{
	if (g_atomic_int_get(&pools))
		generation++;
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, count_fork);
}

/* A pool is about to be made: before that takes any lock, which nobody would let go of in a child. */
static void begin_making(void)
{
	static pthread_once_t watched = PTHREAD_ONCE_INIT;

	pthread_once(&watched, watch_forks);
	g_atomic_int_inc(&pools);
}

/* It was not, and no lock is held any more. */
static void end_making(void)
{
	g_atomic_int_add(&pools, -1);
}

static int pool_enter(struct vpmm_pool *pool)
{
	if (G_UNLIKELY(pool->core.generation != generation))
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
 * What the pool has to say is delivered here, when no lock is held any more. Returns @err, with errno set to match. The
 * thread can be cancelled only after that, as nobody else would free what is said, nor what a malloc has got.
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

/* The same at the end of a call, which is said to have failed. */
static int pool_leave(struct vpmm_pool *pool, int err) RELEASE(pool->core.lock);
static int pool_leave(struct vpmm_pool *pool, int err)
{
	if (err)
		log_add(&pool->core.log, VPMM_LOG_ERROR, "%s", error_get());
	return pool_part(pool, err);
}

/* Likewise for a call that has left the pool already. */
static int pool_fail(struct vpmm_pool *pool, int err)
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

/* @call is what fails then, for the log. */
static int create(struct vpmm_pool **pool, const struct vpmm_opts *opts, const char *call)
{
	struct settings settings;
	struct error_kept kept;
	struct backend *be;
	struct log log;
	int err;

	/* What the driver and the host backend have is shared with the parent, and works for it alone. */
	if (generation)
		return error_set(-EBUSY, "the process was forked from one that had used the library");
	err = settings_from_opts(&settings, opts);
	if (err)
		return err;
	begin_making();
	err = backend_open(settings.backend, settings.device, &be);
	if (err)
		goto err_log;
	err = be->ops->enter(be);
	if (err)
		goto err_close;
	err = pool_new(pool, be, &settings);
	be->ops->leave(be);
	if (err)
		goto err_close;
	(*pool)->core.generation = generation;
	log_deliver(&(*pool)->core.log, log_take(&(*pool)->core.log));
	return 0;

err_close:
	error_keep(&kept);
	be->ops->close(be);
	error_restore(&kept);
err_log:
	log_init(&log, settings.log_level, settings.log, settings.log_data);
	log_add(&log, VPMM_LOG_ERROR, "%s: %s", call, error_get());
	log_finish(&log);
	end_making();
	return err;
}

int vpmm_pool_create(struct vpmm_pool **pool, const struct vpmm_opts *opts)
{
	struct vpmm_pool *made;
	int err, cancel;

	if (!pool)
		return error_set(-EINVAL, "vpmm_pool_create: pool is NULL");
	cancel = cancel_hold();
	err = create(&made, opts, "vpmm_pool_create");
	cancel_release(cancel);
	if (err)
		return error_add(err, "vpmm_pool_create");
	*pool = made;
	return 0;
}

/* The callback may use the pool once more, and even destroy it: it hears of the end before anything has gone. */
static void announce_end(struct vpmm_pool *pool)
{
	GList *messages;

	pool->going = true;
	lock_acquire(&pool->core.lock);
	pool_announce_end(pool);
	messages = log_take(&pool->core.log);
	lock_release(&pool->core.lock);
	log_deliver(&pool->core.log, messages);
}

void vpmm_pool_destroy(struct vpmm_pool *pool)
{
	struct backend *be;
	int err, cancel;

	/* A child that was forked has nothing to give back, and the driver does not work there. */
	if (!pool || pool->core.generation != generation || pool->going)
		return;
	cancel = cancel_hold();
	announce_end(pool);
	be = pool->core.backend;
	/* Where the device is lost it cannot be entered; the host's share is freed all the same. */
	err = be->ops->enter(be);
	pool_delete(pool);
	if (!err)
		be->ops->leave(be);
	be->ops->close(be);
	cancel_release(cancel);
}

static int default_create(struct vpmm_pool **pool, const char *call)
{
	struct error_kept kept;
	int err = 0, cancel = cancel_hold();
	struct vpmm_pool *made;

	begin_making();
	lock_acquire(&defaults.lock);
	/* Another thread may have been here first; its device need not be this thread's. */
	if (defaults.ops) {
		int device;

		err = defaults.ops->current_device(&device);
		if (err)
			goto out;
		*pool = device < DEFAULT_POOLS ? defaults.pools[device] : NULL;
		if (*pool)
			goto out;
	}
	err = create(&made, NULL, call);
	if (err)
		goto out;
	if (made->core.device >= DEFAULT_POOLS) {
		err = error_set(-ENODEV, "device %d has no default pool: only the first %d have", made->core.device,
				DEFAULT_POOLS);
		goto err_destroy;
	}
	/* With "auto", one device may be a GPU and another not. Ordinals of two backends do not mix. */
	if (defaults.ops && defaults.ops != made->core.backend->ops) {
		err = error_set(-ENODEV, "device %d is of the %s backend, and the default pools are of the %s backend",
				made->core.device, made->core.backend->ops->name, defaults.ops->name);
		goto err_destroy;
	}
	g_atomic_pointer_set(&defaults.pools[made->core.device], made);
	g_atomic_pointer_set(&defaults.ops, made->core.backend->ops);
	*pool = made;
	goto out;

err_destroy:
	error_keep(&kept);
	vpmm_pool_destroy(made);
	error_restore(&kept);
out:
	lock_release(&defaults.lock);
	/* One that was made counts by itself. */
	end_making();
	cancel_release(cancel);
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
	ops = g_atomic_pointer_get(&defaults.ops);
	if (ops) {
		err = ops->current_device(&device);
		if (err)
			return err;
		if (device < DEFAULT_POOLS)
			*pool = g_atomic_pointer_get(&defaults.pools[device]);
		if (*pool)
			return 0;
	}
	/* Another thread may have held the lock when this process was forked. */
	if (generation)
		return error_set(-EBUSY, "the process was forked from one that had used the library");
	return default_create(pool, call);
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
static int call_begin(struct vpmm_pool **pool, const char *call) TRY_ACQUIRE(0, (*pool)->core.lock);
static int call_begin(struct vpmm_pool **pool, const char *call)
{
	int err;

	err = call_enter(pool, call);
	if (!err)
		pool_lock(*pool);
	return err;
}

static int call_end(struct vpmm_pool *pool, const char *call, int err) RELEASE(pool->core.lock);
static int call_end(struct vpmm_pool *pool, const char *call, int err)
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

/* Tells the program that there is none. */
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

/* One try: what the cache's call has found, or else the pool. It ends the call, but for what is still to be said. */
static int try_malloc(struct vpmm_pool *pool, uint64_t *addr, size_t size, struct CUstream_st *stream, int hit,
		      uint64_t id, const char *call)
{
	int err;

	pool_lock(pool);
	/* A stream that is busy may be under capture, and the pool knows what to do then. */
	err = hit == -EBUSY ? 0 : hit;
	if (!err && size)
		err = pool_malloc(pool, addr, size, stream, hit ? CACHE_NOBODY : id);
	if (err == -ENOMEM)
		explain_exhausted(pool, size, stream);
	else if (err)
		error_add(err, "%zu bytes", size);
	if (err)
		error_add(err, "%s", call);
	return pool_part(pool, err);
}

/* Whether a cache may be asked at once: what may have to be entered first takes as long as the rest. */
static bool cache_is_near(const struct vpmm_pool *pool, const struct CUstream_st *stream)
{
	return pool && pool->core.settings.cache && pool->core.backend->ops->roams && stream_is_created(stream) &&
	       pool->core.generation == generation;
}

/* Inline, as it is most of a call that a cache serves. */
static inline int allocate(struct vpmm_pool *pool, void **ptr, size_t size, struct CUstream_st *stream,
			   const char *call)
{
	bool near = cache_is_near(pool, stream);
	uint64_t addr = 0, id = CACHE_NOBODY;
	int err, hit = 0;

	if (G_LIKELY(near))
		hit = cache_malloc(&pool->core, &addr, size, stream, &id);
	if (G_LIKELY(hit > 0)) {
		*ptr = (void *)(uintptr_t)addr;
		return 0;
	}
	err = call_enter(&pool, call);
	if (err)
		return err;
	if (pool->core.settings.cache && (!near || hit < 0))
		hit = cache_malloc(&pool->core, &addr, size, stream, &id);
	if (G_LIKELY(hit > 0)) {
		*ptr = (void *)(uintptr_t)addr;
		pool->core.backend->ops->leave(pool->core.backend);
		return 0;
	}
	err = try_malloc(pool, &addr, size, stream, hit, id, call);
	while (err == -ENOMEM && ask_for_memory(pool, size)) {
		err = call_enter(&pool, call);
		if (err)
			return err;
		err = try_malloc(pool, &addr, size, stream, 0, CACHE_NOBODY, call);
	}
	if (!err) {
		*ptr = (void *)(uintptr_t)addr;
		return 0;
	}
	if (err == -ENOMEM)
		tell_exhausted(pool, size);
	return pool_fail(pool, err);
}

int vpmm_malloc(struct vpmm_pool *pool, void **ptr, size_t size, struct CUstream_st *stream)
{
	if (!ptr)
		return error_set(-EINVAL, "vpmm_malloc: ptr is NULL");
	return allocate(pool, ptr, size, stream, "vpmm_malloc");
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
	return err ? pool_fail(pool, error_add(err, "vpmm_malloc_flags")) : 0;
}

int vpmm_malloc_flags(struct vpmm_pool *pool, void **ptr, size_t size, struct CUstream_st *stream, unsigned int flags)
{
	void *got = NULL;
	int err, cancel;

	if (!ptr)
		return error_set(-EINVAL, "vpmm_malloc_flags: ptr is NULL");
	if (flags & ~VPMM_ZERO)
		return error_set(-EINVAL, "vpmm_malloc_flags: flags are %#x: expected 0 or VPMM_ZERO", flags);
	/* Which pool it is may not change, nor be a question, once there is memory to clear. */
	err = flags & VPMM_ZERO ? resolve(&pool, "vpmm_malloc_flags") : 0;
	if (err)
		return error_add(err, "vpmm_malloc_flags");
	err = allocate(pool, &got, size, stream, "vpmm_malloc_flags");
	if (!err && got && flags & VPMM_ZERO) {
		cancel = cancel_hold();
		err = zero(pool, got, size, stream);
		cancel_release(cancel);
	}
	if (!err)
		*ptr = got;
	return err;
}

int vpmm_free(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream)
{
	bool near = cache_is_near(pool, stream);
	int err, freed = 0;

	if (!ptr)
		return 0;
	if (G_LIKELY(near))
		freed = cache_free(&pool->core, (uintptr_t)ptr, stream);
	if (G_LIKELY(freed > 0))
		return 0;
	err = call_enter(&pool, "vpmm_free");
	if (err)
		return err;
	if (pool->core.settings.cache && (!near || freed < 0))
		freed = cache_free(&pool->core, (uintptr_t)ptr, stream);
	if (G_LIKELY(freed > 0)) {
		pool->core.backend->ops->leave(pool->core.backend);
		return 0;
	}
	pool_lock(pool);
	/* That the address is a wrong one goes before what is wrong with the stream, and one under capture is not wrong. */
	err = freed && freed != -EBUSY && pool_knows(pool, (uintptr_t)ptr) ? freed :
	      pool_free(pool, (uintptr_t)ptr, stream);
	if (err)
		error_add(err, "%p", ptr);
	return call_end(pool, "vpmm_free", err);
}

int vpmm_use(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream)
{
	int err;

	if (!ptr)
		return 0;
	err = call_begin(&pool, "vpmm_use");
	if (err)
		return err;
	err = pool_use(pool, (uintptr_t)ptr, stream);
	if (err)
		error_add(err, "%p", ptr);
	return call_end(pool, "vpmm_use", err);
}

int vpmm_stream_retire(struct vpmm_pool *pool, struct CUstream_st *stream)
{
	int err;

	err = call_begin(&pool, "vpmm_stream_retire");
	if (err)
		return err;
	return call_end(pool, "vpmm_stream_retire", retire_stream(pool, stream));
}

int vpmm_capture_id(struct vpmm_pool *pool, struct CUstream_st *stream, uint64_t *id)
{
	uint64_t found;
	int err;

	if (!id)
		return error_set(-EINVAL, "vpmm_capture_id: id is NULL");
	err = call_begin(&pool, "vpmm_capture_id");
	if (err)
		return err;
	err = pool->core.backend->ops->stream_capture(pool->core.backend, stream, &found);
	if (!err)
		*id = found;
	return call_end(pool, "vpmm_capture_id", err);
}

int vpmm_graph_retire(struct vpmm_pool *pool, uint64_t id, struct CUstream_st *stream)
{
	int err;

	err = call_begin(&pool, "vpmm_graph_retire");
	if (err)
		return err;
	return call_end(pool, "vpmm_graph_retire", capture_retire(pool, id, stream));
}

/* What a call does first that returns a structure. Says which call it was. */
static int check_room(const char *call, const struct sized *sized, const char *name, const void *room)
{
	int err;

	err = sized_check(sized, name, room);
	return err ? error_add(err, "%s", call) : 0;
}

int vpmm_pool_stats(struct vpmm_pool *pool, struct vpmm_stats *stats)
{
	struct vpmm_stats known = { .size = sizeof(known) };
	int err;

	err = check_room("vpmm_pool_stats", &sized_stats, "stats", stats);
	if (err)
		return err;
	err = call_begin(&pool, "vpmm_pool_stats");
	if (err)
		return err;
	err = stats_get(pool, &known);
	if (!err)
		sized_export(&sized_stats, stats, &known);
	return call_end(pool, "vpmm_pool_stats", err);
}

int vpmm_pool_info(struct vpmm_pool *pool, struct vpmm_info *info)
{
	struct vpmm_info known = { .size = sizeof(known) };
	int err;

	err = check_room("vpmm_pool_info", &sized_info, "info", info);
	if (err)
		return err;
	err = call_begin(&pool, "vpmm_pool_info");
	if (err)
		return err;
	err = stats_get_info(pool, &known);
	if (!err)
		sized_export(&sized_info, info, &known);
	return call_end(pool, "vpmm_pool_info", err);
}

int vpmm_pool_trim(struct vpmm_pool *pool, size_t keep, size_t *released)
{
	uint64_t bytes;
	int err;

	err = call_begin(&pool, "vpmm_pool_trim");
	if (err)
		return err;
	err = trim_pool(&pool->core, keep, released ? &bytes : NULL);
	if (!err && released)
		*released = bytes;
	return call_end(pool, "vpmm_pool_trim", err);
}

int vpmm_pool_query(struct vpmm_pool *pool, size_t size, struct CUstream_st *stream, struct vpmm_forecast *forecast)
{
	struct vpmm_forecast known = { .size = sizeof(known) };
	int err;

	err = check_room("vpmm_pool_query", &sized_forecast, "forecast", forecast);
	if (err)
		return err;
	err = call_begin(&pool, "vpmm_pool_query");
	if (err)
		return err;
	err = query_pool(pool, size, stream, &known);
	if (!err)
		sized_export(&sized_forecast, forecast, &known);
	return call_end(pool, "vpmm_pool_query", err);
}

static void free_text(void *text)
{
	g_string_free(text, TRUE);
}

static void write_text(const GString *text, FILE *out, int *err)
{
	errno = 0;
	*err = 0;
	if (fwrite(text->str, 1, text->len, out) != text->len || fflush(out) || ferror(out))
		*err = error_set(-EIO, "vpmm_pool_dump: writing failed: %s",
				 errno ? g_strerror(errno) : "the stream has an error");
}

/* The file may be a pipe that nobody reads: no lock is held, and the thread can be cancelled. */
static int write_and_free(GString *text, FILE *out)
{
	int err;

	pthread_cleanup_push(free_text, text);
	write_text(text, out, &err);
	pthread_cleanup_pop(1);
	return err;
}

int vpmm_pool_dump(struct vpmm_pool *pool, FILE *out)
{
	GString *text = NULL;
	int err;

	if (!out)
		return error_set(-EINVAL, "vpmm_pool_dump: out is NULL");
	err = call_begin(&pool, "vpmm_pool_dump");
	if (err)
		return err;
	err = call_end(pool, "vpmm_pool_dump", dump_pool(pool, &text));
	if (err)
		return err;
	err = write_and_free(text, out);
	return err ? pool_fail(pool, err) : 0;
}

int vpmm_pool_check(struct vpmm_pool *pool)
{
	int err;

	err = call_begin(&pool, "vpmm_pool_check");
	if (err)
		return err;
	return call_end(pool, "vpmm_pool_check", check_pool(pool));
}

int vpmm_opts_from_env(struct vpmm_opts *opts)
{
	struct vpmm_opts known = { .size = sizeof(known) };
	int err;

	err = check_room("vpmm_opts_from_env", &sized_opts, "opts", opts);
	if (err)
		return err;
	err = settings_from_env(&known);
	if (err)
		return error_add(err, "vpmm_opts_from_env");
	sized_export(&sized_opts, opts, &known);
	return 0;
}

const char *vpmm_last_error(void)
{
	return error_get();
}

const char *vpmm_version(void)
{
	return PACKAGE_VERSION;
}
