// SPDX-License-Identifier: LGPL-2.1-or-later
/* The exported calls that only report: statistics, forecasts, dumps and checks. */
#include <errno.h>
#include <glib.h>
#include <pthread.h>
#include <stdio.h>

#include "api/api.h"
#include "calls/arena.h"
#include "calls/check.h"
#include "calls/plan-file.h"
#include "calls/query.h"
#include "calls/stats.h"
#include "config.h"
#include "settings/settings.h"
#include "util/cancel.h"
#include "util/error.h"
#include "util/sized.h"

/* Checks the caller's structure, which the call fills in. */
static int check_room(const char *call, const struct sized *sized, const char *name, const void *room)
{
	int err;

	err = sized_check(sized, name, room);
	return err ? error_add(err, "%s", call) : 0;
}

/* For api_each(): @data is the sum. */
static int stats_each(struct vpmm_pool *pool, void *data)
{
	struct vpmm_stats part = { .size = sizeof(part) }, *total = data;
	int err;

	err = stats_get(pool, &part);
	if (!err)
		stats_add_arena(total, &part);
	return err;
}

int vpmm_pool_stats(struct vpmm_pool *pool, struct vpmm_stats *stats)
{
	struct vpmm_stats known = { .size = sizeof(known) };
	int err;

	err = check_room("vpmm_pool_stats", &sized_stats, "stats", stats);
	if (!err)
		err = api_resolve_for(&pool, "vpmm_pool_stats");
	if (!err)
		err = api_each(pool, "vpmm_pool_stats", stats_each, &known);
	if (err)
		return err;
	stats_sample_peaks(pool_tags(pool), &known);
	sized_export(&sized_stats, stats, &known);
	return 0;
}

static int reset_peaks_each(struct vpmm_pool *pool, void *data)
{
	(void)data;
	if (pool_tags(pool))
		tags_reset_peaks(pool_tags(pool));
	return stats_reset_peaks(pool);
}

int vpmm_pool_reset_peaks(struct vpmm_pool *pool)
{
	return api_each(pool, "vpmm_pool_reset_peaks", reset_peaks_each, NULL);
}

int vpmm_pool_info(struct vpmm_pool *pool, struct vpmm_info *info)
{
	struct vpmm_info known = { .size = sizeof(known) };
	int err;

	err = check_room("vpmm_pool_info", &sized_info, "info", info);
	if (err)
		return err;
	err = api_begin(&pool, "vpmm_pool_info");
	if (err)
		return err;
	err = stats_get_info(pool, &known);
	if (!err)
		sized_export(&sized_info, info, &known);
	return api_end(pool, "vpmm_pool_info", err);
}

int vpmm_pool_save_plan(struct vpmm_pool *pool)
{
	const char *name = NULL;
	GString *text = NULL;
	int err, cancel;

	err = api_begin(&pool, "vpmm_pool_save_plan");
	if (err)
		return err;
	if (pool->plan) {
		name = pool->core.settings.plan;
		text = plan_file_text(pool);
	} else {
		err = error_set(-EINVAL, "the pool was created without VPMM_PLAN");
	}
	err = api_end(pool, "vpmm_pool_save_plan", err);
	if (err)
		return err;
	cancel = cancel_hold();
	err = plan_file_write(name, text);
	cancel_release(cancel);
	return err ? error_add(err, "vpmm_pool_save_plan") : 0;
}

int vpmm_pool_query(struct vpmm_pool *pool, size_t size, struct CUstream_st *stream, struct vpmm_forecast *forecast)
{
	struct vpmm_forecast known = { .size = sizeof(known) };
	int err;

	err = check_room("vpmm_pool_query", &sized_forecast, "forecast", forecast);
	if (!err)
		err = api_check_stream(stream, "vpmm_pool_query");
	if (err)
		return err;
	err = api_begin(&pool, "vpmm_pool_query");
	if (err)
		return err;
	err = query_pool(pool, size, stream, &known);
	if (!err)
		sized_export(&sized_forecast, forecast, &known);
	return api_end(pool, "vpmm_pool_query", err);
}

static void free_text(void *text)
{
	g_string_free(text, TRUE);
}

static void write_dump(const GString *text, FILE *out, int *err)
{
	errno = 0;
	*err = 0;
	if (fwrite(text->str, 1, text->len, out) != text->len || fflush(out) || ferror(out))
		*err = error_set(-EIO, "vpmm_pool_dump: writing failed: %s",
				 errno ? g_strerror(errno) : "the stream has an error");
}

/* The file may be a pipe without a reader, so no lock is held, and the thread can be cancelled. */
static int write_and_free(GString *text, FILE *out)
{
	int err;

	pthread_cleanup_push(free_text, text);
	write_dump(text, out, &err);
	pthread_cleanup_pop(1);
	return err;
}

/* For api_each(): @data is the text so far. */
static int dump_each(struct vpmm_pool *pool, void *data)
{
	GString *text;
	int err;

	err = dump_pool(pool, &text);
	if (!err) {
		g_string_append_len(data, text->str, (gssize)text->len);
		free_text(text);
	}
	return err;
}

int vpmm_pool_dump(struct vpmm_pool *pool, FILE *out)
{
	GString *text;
	int err;

	if (!out)
		return error_set(-EINVAL, "vpmm_pool_dump: out is NULL");
	err = api_resolve_for(&pool, "vpmm_pool_dump");
	if (err)
		return err;
	text = g_string_new(NULL);
	err = api_each(pool, "vpmm_pool_dump", dump_each, text);
	if (err) {
		free_text(text);
		return err;
	}
	err = write_and_free(text, out);
	return err ? api_fail(pool, err) : 0;
}

static int check_each(struct vpmm_pool *pool, void *data)
{
	(void)data;
	return check_pool(pool);
}

int vpmm_pool_check(struct vpmm_pool *pool)
{
	return api_each(pool, "vpmm_pool_check", check_each, NULL);
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
