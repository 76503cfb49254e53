// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Calls of the model that are about no one block: streams and graphs that go, forecasts, and memory that is given
 * back.
 */
#include <errno.h>

#include "calls/pool.h"
#include "model/model-inside.h"

static bool remove_graph(GArray *graphs, uint64_t id)
{
	guint had = graphs->len;

	for (guint i = graphs->len; i > 0; i--) {
		if (g_array_index(graphs, uint64_t, i - 1) == id)
			g_array_remove_index_fast(graphs, i - 1);
	}
	return graphs->len < had;
}

void model_retire_stream(struct model *m, struct CUstream_st *stream)
{
	if (model_is_captured(m, stream)) {
		model_disarm(m);
		assert_error(vpmm_stream_retire(m->f.pool, stream), EBUSY, "vpmm_stream_retire");
		return;
	}
	if (model_may_fail(m, vpmm_stream_retire(m->f.pool, stream))) {
		model_check(m);
		assert_ok(vpmm_stream_retire(m->f.pool, stream));
	}
	for (guint i = 0; i < m->live->len; i++) {
		struct model_allocation *a = m->live->pdata[i];

		a->retired |= g_ptr_array_remove(a->users, stream);
	}
}

static gboolean is_of(gpointer pattern, gpointer stream, gpointer old)
{
	return stream == old;
}

void model_replace_stream(struct model *m, struct CUstream_st *old, struct CUstream_st *stream)
{
	for (guint i = 0; i < m->live->len; i++) {
		struct model_allocation *a = m->live->pdata[i];

		if (a->stream == old)
			a->stream = stream;
		if (a->first == old)
			a->first = NULL;
	}
	g_hash_table_foreach_remove(m->had, is_of, old);
}

static void note_group(struct model *m, uint64_t group)
{
	uint64_t *ids = g_new(uint64_t, 2);

	ids[0] = m->capture->id;
	ids[1] = group;
	g_hash_table_replace(m->capture->groups, ids, ids + 1);
}

void model_join_group(struct model *m, uint64_t group)
{
	model_disarm(m);
	assert_error(vpmm_capture_group(m->f.pool, m->capture->id, 0), EINVAL, "group is 0");
	if (!group)
		return;
	/* There is nothing that could fail. */
	assert_ok(vpmm_capture_group(m->f.pool, m->capture->id, group));
	assert_error(vpmm_capture_group(m->f.pool, m->capture->id, group + 1), EINVAL, "cannot join");
	m->holds = true;
	note_group(m, group);
}

/* The stream behind its last launch is a user that is retired. */
static void forget_graph(struct model *m, uint64_t id)
{
	for (guint i = 0; i < m->live->len; i++) {
		struct model_allocation *a = m->live->pdata[i];

		a->retired |= remove_graph(a->graphs, id);
	}
	for (guint i = 0; i < m->held->len; i++)
		remove_graph(((struct model_held *)m->held->pdata[i])->graphs, id);
}

void model_retire_graph(struct model *m, uint64_t id, struct CUstream_st *stream)
{
	if (model_may_fail(m, vpmm_graph_retire(m->f.pool, id, stream))) {
		model_check(m);
		assert_ok(vpmm_graph_retire(m->f.pool, id, stream));
	}
	forget_graph(m, id);
}

/* The pool hears of it later. */
void model_lose_graph(struct model *m, uint64_t id)
{
	m->holds = true;
	forget_graph(m, id);
}

/* What is free beyond it goes back, and where that is not enough, no more is taken. */
void model_set_limit(struct model *m, uint64_t bytes)
{
	m->over = UINT64_MAX;
	if (model_may_fail(m, vpmm_pool_set_limit(m->f.pool, bytes))) {
		model_check(m);
		assert_ok(vpmm_pool_set_limit(m->f.pool, bytes));
	}
	g_assert_cmpuint(m->f.pool->core.settings.limit, ==, bytes ? bytes : UINT64_MAX);
}

int model_query(struct model *m, size_t size, struct CUstream_st *stream)
{
	struct vpmm_forecast forecast = { .size = sizeof(forecast) };

	if (model_is_captured(m, stream)) {
		model_disarm(m);
		assert_error(vpmm_pool_query(m->f.pool, size, stream, &forecast), EBUSY, "vpmm_pool_query");
		return VPMM_WAY_NONE;
	}
	if (model_may_fail(m, vpmm_pool_query(m->f.pool, size, stream, &forecast))) {
		model_check(m);
		assert_ok(vpmm_pool_query(m->f.pool, size, stream, &forecast));
	}
	g_assert_cmpint(forecast.way, >=, VPMM_WAY_NONE);
	g_assert_cmpint(forecast.way, <=, VPMM_WAY_GROW);
	g_assert_true(forecast.way != VPMM_WAY_NONE || model_is_limited(m) || size > ((size_t)1 << 30));
	return forecast.way;
}

void model_trim(struct model *m, size_t keep)
{
	uint64_t before = m->f.pool->core.extents.bytes, taken = model_taken(m), after;
	size_t released;
	int err;

	err = vpmm_pool_trim(m->f.pool, keep, &released);
	if (model_may_fail(m, err)) {
		model_check(m);
		before = m->f.pool->core.extents.bytes;
		taken = model_taken(m);
		assert_ok(vpmm_pool_trim(m->f.pool, keep, &released));
	}
	after = m->f.pool->core.extents.bytes;
	taken -= model_taken(m);
	g_assert_cmpuint(released, >=, taken);
	/* The rest is what the driver's allocator gave back. */
	g_assert_true(released == taken || m->f.pool->core.settings.small == VPMM_SMALL_DRIVER);
	g_assert_cmpuint(after, >=, MIN(before, keep));
}

/* The context is there still, so all work has to be complete. */
void model_abandon(struct model *m)
{
	model_disarm(m);
	model_complete_all(m);
	model_check(m);
	assert_ok(vpmm_pool_abandon(m->f.pool));
	for (int i = 0; i < STREAMS; i++)
		assert_ok(vpmm_host_stream_destroy(m->f.streams[i]));
	g_string_free(m->f.log, TRUE);
	if (!m->beside)
		fixture_assert_nothing_left();
	model_clear(m);
}

void model_end(struct model *m, bool abandon)
{
	void *ptr = NULL;

	model_disarm(m);
	assert_error(vpmm_malloc(m->f.pool, &ptr, PAGE, NULL), ESTALE, "reset");
	assert_error(vpmm_receive(m->f.pool, &ptr, NULL, m->sockets[0]), ESTALE, "reset");
	for (guint i = 0; i < m->live->len; i++) {
		const struct model_allocation *a = m->live->pdata[i];

		assert_error(vpmm_free(m->f.pool, a->ptr, NULL), ESTALE, "reset");
		if (a->apart)
			assert_error(vpmm_send(m->f.pool, a->ptr, m->sockets[0]), ESTALE, "reset");
	}
	g_assert_null(ptr);
	if (abandon)
		assert_ok(vpmm_pool_abandon(m->f.pool));
	else
		vpmm_pool_destroy(m->f.pool);
	g_string_free(m->f.log, TRUE);
	model_clear(m);
}
