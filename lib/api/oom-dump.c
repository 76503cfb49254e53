// SPDX-License-Identifier: LGPL-2.1-or-later
/* VPMM_OOM_DUMP: what there was when memory ran out. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/api.h"
#include "calls/arena.h"
#include "calls/check.h"
#include "calls/request.h"
#include "calls/tags.h"
#include "util/cancel.h"
#include "util/clock.h"
#include "util/descriptor.h"
#include "util/error.h"

static GString *describe_failure(size_t size, const char *sentence)
{
	GString *text = g_string_new("# vpmm-oom-dump 1\n");
	time_t now = time(NULL);
	struct tm at;

	if (gmtime_r(&now, &at))
		g_string_append_printf(text, "time: %04d-%02d-%02dT%02d:%02d:%02dZ\n", at.tm_year + 1900, at.tm_mon + 1,
				       at.tm_mday, at.tm_hour, at.tm_min, at.tm_sec);
	g_string_append_printf(text, "process: %ld\nwanted: %zu\n", (long)getpid(), size);
	for (const char *line = sentence; *line; line += strcspn(line, "\n"), line += *line == '\n')
		g_string_append_printf(text, "error: %.*s\n", (int)strcspn(line, "\n"), line);
	return text;
}

static void add_dump(struct vpmm_pool *pool, GString *text)
{
	GString *dump;

	lock_acquire(&pool->core.lock);
	if (!dump_pool(pool, &dump)) {
		g_string_append_len(text, dump->str, (gssize)dump->len);
		g_string_free(dump, TRUE);
	}
	lock_release(&pool->core.lock);
}

/* The pool that an arena is a part of. */
static struct vpmm_pool *whole_of(struct vpmm_pool *pool)
{
	return pool->arena ? pool->arena->parent : pool;
}

/* The latest of the requests that no cache served, in their order. */
static void requests_write(const struct vpmm_pool *pool, GString *out)
{
	uint64_t first = pool->requested > POOL_REQUESTS ? pool->requested - POOL_REQUESTS : 0, now = clock_ns();

	g_string_append_printf(out, "requests: %" PRIu64 ", of those that no cache served\n", pool->requested - first);
	for (uint64_t i = first; i < pool->requested; i++) {
		const struct pool_request *request = &pool->requests[i % POOL_REQUESTS];

		g_string_append_printf(out, "request %" PRIu64 " us ago, %zu bytes, stream 0x%" PRIx64,
				       (now - request->ns) / 1000, request->size, request->stream);
		if (request->addr)
			g_string_append_printf(out, ": 0x%" PRIx64 "\n", request->addr);
		else
			g_string_append(out, ": failed\n");
	}
}

/* The dump of the pool and of its arenas; nothing if its context is gone. */
static void add_pool(struct vpmm_pool *pool, GString *text)
{
	struct vpmm_pool *whole = whole_of(pool);
	struct tags *tags = pool_tags(whole);
	struct backend *be = pool->core.backend;

	if (be->ops->enter(be))
		return;
	add_dump(whole, text);
	for_each_arena(arena, tags)
		add_dump(arena, text);
	lock_acquire(&pool->core.lock);
	requests_write(pool, text);
	lock_release(&pool->core.lock);
	be->ops->leave(be);
}

/* Return: 0, or a negative errno value. */
static int write_file(const char *name, const GString *text)
{
	size_t done = 0;
	int fd, err = 0;

	fd = descriptor_raise(open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666));
	if (fd < 0)
		return -errno;
	if (!descriptor_may_have(fd, text->len))
		err = -errno;
	while (done < text->len && !err) {
		ssize_t n = write(fd, text->str + done, text->len - done);

		if (n >= 0)
			done += (size_t)n;
		else if (errno != EINTR)
			err = -errno;
	}
	if (close(fd) && !err)
		err = -errno;
	return err;
}

static void warn(struct vpmm_pool *pool, int err)
{
	GList *messages;

	lock_acquire(&pool->core.lock);
	log_report(&pool->core.log, "%s (VPMM_OOM_DUMP) cannot be written: %s", pool->core.settings.oom_dump,
		   g_strerror(-err));
	messages = log_take(&pool->core.log);
	lock_release(&pool->core.lock);
	log_deliver(&pool->core.log, messages);
}

void api_dump_exhausted(struct vpmm_pool *pool, size_t size)
{
	struct error_kept kept;
	GString *text;
	int err, cancel;

	if (!pool->core.settings.oom_dump || !g_atomic_int_compare_and_exchange(&whole_of(pool)->dumped, 0, 1))
		return;
	cancel = cancel_hold();
	error_keep(&kept);
	text = describe_failure(size, kept.sentence);
	add_pool(pool, text);
	err = write_file(pool->core.settings.oom_dump, text);
	g_string_free(text, TRUE);
	if (err)
		warn(pool, err);
	error_restore(&kept);
	cancel_release(cancel);
}
