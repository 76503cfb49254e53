// SPDX-License-Identifier: LGPL-2.1-or-later
/* The users of blocks, and frees. */
#include <errno.h>
#include <string.h>

#include "calls/pool.h"
#include "model/model-inside.h"
#include "model/model-work.h"

static void call_use(struct model *m, struct model_allocation *a, struct CUstream_st *stream)
{
	if (model_may_fail(m, vpmm_use(m->f.pool, a->ptr, stream))) {
		model_check(m);
		assert_ok(vpmm_use(m->f.pool, a->ptr, stream));
	}
	if (model_is_captured(m, stream))
		model_add_graph(a->graphs, m->capture->id);
	else if (!g_ptr_array_find(a->users, stream, NULL))
		g_ptr_array_add(a->users, stream);
}

void model_use(struct model *m, guint index, struct CUstream_st *stream)
{
	struct model_allocation *a = m->live->pdata[index];

	if (stream != a->stream && model_is_captured(m, a->stream))
		return;
	if (stream != a->stream && !model_is_captured(m, stream))
		assert_ok(vpmm_host_stream_wait(stream, a->stream));
	call_use(m, a, stream);
	model_work_launch(m, a, stream, model_work_verify, NULL);
}

/* What a graph looks at has to be its own. */
void model_verify(struct model *m, guint index)
{
	struct model_allocation *a = m->live->pdata[index];

	if (model_is_captured(m, a->stream) && !model_has_graph(a, m->capture->id))
		call_use(m, a, a->stream);
	model_launch(m, a, model_work_verify);
}

/* Nobody may have touched its bytes by then. It is held for those under capture. */
struct model_held *model_hold(struct model *m, const struct model_allocation *a)
{
	struct model_held *held = g_new0(struct model_held, 1);

	held->ptr = a->ptr;
	held->bytes = a->bytes ? a->bytes : a->size;
	held->graphs = g_array_copy(a->graphs);
	if (model_is_captured(m, a->stream))
		model_add_graph(held->graphs, m->capture->id);
	for (guint i = 0; i < a->users->len; i++) {
		struct CUstream_st *user = a->users->pdata[i];

		if (model_is_captured(m, user))
			m->holds = true;
		else if (user != a->stream)
			model_work_launch(m, a, user, model_work_verify, held);
	}
	held->small = !a->bytes;
	m->holds |= m->armed || a->apart || held->graphs->len || (held->small && (a->users->len || a->retired));
	return held;
}

/* One in a few goes by way of a size of zero. */
static int call_free(struct model *m, const struct model_allocation *a)
{
	void *ptr = a->ptr;
	int err;

	if (!m->armed)
		fixture_freeing(ptr, a->stream);
	if (m->frees % 16 != 15)
		return vpmm_free(m->f.pool, ptr, a->stream);
	err = vpmm_realloc(m->f.pool, &ptr, 0, a->stream);
	g_assert_true(ptr == (err ? a->ptr : NULL));
	return err;
}

/* It is free, or held. */
static void forget(struct model *m, guint index, struct model_held *held)
{
	struct model_allocation *a = m->live->pdata[index];

	g_ptr_array_add(m->held, held);
	/* Memory apart nobody gets again. */
	if (a->first == a->stream && !a->apart)
		g_hash_table_insert(m->had, model_work_key(a->pattern), a->stream);
	m->frees++;
	model_remove(m, a);
	g_ptr_array_remove_index_fast(m->live, index);
}

void model_free(struct model *m, guint index)
{
	struct model_allocation *a = m->live->pdata[index];
	struct model_held *held;

	model_launch(m, a, model_work_verify);
	held = model_hold(m, a);
	if (model_may_fail(m, call_free(m, a))) {
		model_check(m);
		assert_ok(call_free(m, a));
	}
	forget(m, index, held);
}

void model_free_any(struct model *m, guint index, struct CUstream_st *stream)
{
	struct model_allocation *a = m->live->pdata[index];
	struct model_held *held;

	model_launch(m, a, model_work_verify);
	if (stream != a->stream) {
		assert_ok(vpmm_host_stream_wait(stream, a->stream));
		model_work_launch(m, a, stream, model_work_verify, NULL);
	}
	held = model_hold(m, a);
	m->holds = true;
	if (!m->armed)
		fixture_freeing(a->ptr, VPMM_STREAM_ANY);
	if (model_may_fail(m, vpmm_free(m->f.pool, a->ptr, VPMM_STREAM_ANY))) {
		model_check(m);
		assert_ok(vpmm_free(m->f.pool, a->ptr, VPMM_STREAM_ANY));
	}
	forget(m, index, held);
}
