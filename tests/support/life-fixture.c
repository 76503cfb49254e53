// SPDX-License-Identifier: LGPL-2.1-or-later
#include <stdio.h>
#include <string.h>

#include "support/life-fixture.h"

/* Every call on a pool that returns an error, with arguments that are good. */

static int call_malloc(struct vpmm_pool *pool, void *live)
{
	void *ptr = live;
	int err = vpmm_malloc(pool, &ptr, PAGE, NULL);

	return err && ptr != live ? 1 : err;
}

static int call_malloc_small(struct vpmm_pool *pool, void *live)
{
	void *ptr = live;

	return vpmm_malloc(pool, &ptr, 100, NULL);
}

static int call_free(struct vpmm_pool *pool, void *live)
{
	return vpmm_free(pool, live, NULL);
}

static int call_stats(struct vpmm_pool *pool, void *live)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };

	(void)live;
	return vpmm_pool_stats(pool, &stats);
}

static int call_info(struct vpmm_pool *pool, void *live)
{
	struct vpmm_info info = { .size = sizeof(info) };

	(void)live;
	return vpmm_pool_info(pool, &info);
}

static int call_dump(struct vpmm_pool *pool, void *live)
{
	FILE *out = fopen("/dev/null", "w");
	int err = vpmm_pool_dump(pool, out);

	(void)live;
	fclose(out);
	return err;
}

static int call_check(struct vpmm_pool *pool, void *live)
{
	(void)live;
	return vpmm_pool_check(pool);
}

static int call_malloc_flags(struct vpmm_pool *pool, void *live)
{
	void *ptr = live;
	int err = vpmm_malloc_flags(pool, &ptr, PAGE, NULL, VPMM_ZERO);

	return err && ptr != live ? 1 : err;
}

static int call_use(struct vpmm_pool *pool, void *live)
{
	return vpmm_use(pool, live, NULL);
}

static int call_stream_retire(struct vpmm_pool *pool, void *live)
{
	(void)live;
	return vpmm_stream_retire(pool, NULL);
}

static int call_capture_id(struct vpmm_pool *pool, void *live)
{
	uint64_t id = 1;
	int err = vpmm_capture_id(pool, NULL, &id);

	(void)live;
	return err && id != 1 ? 1 : err;
}

static int call_graph_retire(struct vpmm_pool *pool, void *live)
{
	(void)live;
	return vpmm_graph_retire(pool, 1, NULL);
}

static int call_trim(struct vpmm_pool *pool, void *live)
{
	size_t released = 1;
	int err = vpmm_pool_trim(pool, 0, &released);

	(void)live;
	return err && released != 1 ? 1 : err;
}

static int call_set_peers(struct vpmm_pool *pool, void *live)
{
	(void)live;
	return vpmm_pool_set_peers(pool, NULL, 0);
}

static int call_query(struct vpmm_pool *pool, void *live)
{
	struct vpmm_forecast forecast = { .size = sizeof(forecast), .way = -1 };
	int err = vpmm_pool_query(pool, PAGE, NULL, &forecast);

	(void)live;
	return err && forecast.way != -1 ? 1 : err;
}

static const struct {
	const char *name;
	int (*call)(struct vpmm_pool *pool, void *live);
} calls[] = {
	{ "vpmm_malloc", call_malloc }, { "vpmm_malloc", call_malloc_small }, { "vpmm_free", call_free },
	{ "vpmm_pool_stats", call_stats }, { "vpmm_pool_info", call_info }, { "vpmm_pool_dump", call_dump },
	{ "vpmm_pool_check", call_check }, { "vpmm_malloc", call_malloc_flags }, { "vpmm_use", call_use },
	{ "vpmm_stream_retire", call_stream_retire }, { "vpmm_capture_id", call_capture_id },
	{ "vpmm_graph_retire", call_graph_retire }, { "vpmm_pool_trim", call_trim }, { "vpmm_pool_query", call_query },
	{ "vpmm_pool_set_peers", call_set_peers },
};

int all_fail(struct vpmm_pool *pool, void *live, int err)
{
	for (int i = 0; i < (int)G_N_ELEMENTS(calls); i++) {
		if (calls[i].call(pool, live) != err || !strstr(vpmm_last_error(), calls[i].name))
			return i + 1;
	}
	return 0;
}

/* Processes */

static void alone(gconstpointer data)
{
	const char *name = data;
	char *path = g_strconcat(name, "/subprocess", NULL);

	g_test_trap_subprocess(path, 0, 0);
	g_test_trap_assert_passed();
	g_free(path);
}

void add_alone(const char *name, void (*test)(void))
{
	char *path = g_strconcat(name, "/subprocess", NULL);

	g_test_add_func(path, test);
	g_test_add_data_func(name, name, alone);
	g_free(path);
}
