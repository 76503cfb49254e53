// SPDX-License-Identifier: LGPL-2.1-or-later
#include "model/model.h"

#include <errno.h>
#include <string.h>

#include "calls/pool.h"
#include "core/allocation.h"
#include "model/model-work.h"

/* What the driver's allocator takes at least, when it takes more. */
#define SMALL_SEGMENT ((uint64_t)32 << 20)

bool model_is_captured(const struct model *m, const struct CUstream_st *stream)
{
	return stream && m->capture && m->capture->stream == stream;
}

static void launch(struct model *m, const struct model_allocation *a, vpmm_host_fn fn)
{
	model_work_launch(m, a, a->stream, fn, NULL);
}

static void allocation_free(gpointer data)
{
	struct model_allocation *a = data;

	g_ptr_array_free(a->users, TRUE);
	g_array_free(a->graphs, TRUE);
	g_free(a);
}

static void held_free(gpointer data)
{
	struct model_held *held = data;

	g_array_free(held->graphs, TRUE);
	g_free(held);
}

static bool has_graph(const GArray *graphs, uint64_t id)
{
	for (guint i = 0; i < graphs->len; i++) {
		if (g_array_index(graphs, uint64_t, i) == id)
			return true;
	}
	return false;
}

static void add_graph(GArray *graphs, uint64_t id)
{
	if (!has_graph(graphs, id))
		g_array_append_val(graphs, id);
}

static void remove_graph(GArray *graphs, uint64_t id)
{
	for (guint i = graphs->len; i > 0; i--) {
		if (g_array_index(graphs, uint64_t, i - 1) == id)
			g_array_remove_index_fast(graphs, i - 1);
	}
}

bool model_has_graph(const struct model_allocation *a, uint64_t id)
{
	return has_graph(a->graphs, id);
}

void model_open(struct model *m, struct vpmm_opts opts, bool faulty)
{
	if (faulty)
		fixture_open_faulty(&m->f, opts);
	else
		fixture_open(&m->f, opts);
	m->page_size = m->f.pool->core.settings.page_size;
	m->faulty = faulty;
	m->armed = m->seldom = false;
	m->errors = 0;
	m->live = g_ptr_array_new_with_free_func(allocation_free);
	m->held = g_ptr_array_new_with_free_func(held_free);
	m->had = g_hash_table_new(NULL, NULL);
	m->holds = false;
	m->told = 0;
	m->bytes = m->small_bytes = m->peak = m->mallocs = m->frees = 0;
	m->initial = m->mapped = opts.pages * m->page_size;
	m->given_back = 0;
	model_check(m);
}

void model_close(struct model *m)
{
	model_disarm(m);
	model_complete_all(m);
	model_check(m);
	if (m->beside)
		fixture_close_beside(&m->f);
	else
		fixture_close(&m->f);
	g_ptr_array_free(m->live, TRUE);
	g_ptr_array_free(m->held, TRUE);
	g_hash_table_destroy(m->had);
}

void model_arm(struct model *m, enum backend_op op, unsigned int skip, unsigned int count, int err)
{
	backend_fault_arm(m->f.pool->core.backend, op, skip, count, err);
	m->armed = true;
	m->errors |= UINT64_C(1) << -err;
}

void model_disarm(struct model *m)
{
	for (int op = 0; m->armed && op < BACKEND_OP_COUNT; op++)
		backend_fault_arm(m->f.pool->core.backend, (enum backend_op)op, 0, 0, 0);
	m->armed = false;
	m->errors = 0;
}

bool model_may_fail(struct model *m, int err)
{
	int number = errno;

	if (err) {
		g_assert_true(m->errors >> -err & 1);
		g_assert_cmpint(number, ==, -err);
		g_assert_cmpstr(vpmm_last_error(), !=, "");
	}
	model_disarm(m);
	return err != 0;
}

/* What an allocation takes of the pool's own memory. */
static uint64_t rounded(const struct model *m, size_t size)
{
	const struct settings *settings = &m->f.pool->core.settings;
	uint64_t piece = settings->paged ? m->page_size : CORE_PIECE;

	if (m->page_size == SIZE_MAX || (size < m->page_size && settings->small == VPMM_SMALL_DRIVER))
		return 0;
	return (size + piece - 1) / piece * piece;
}

/* Whether a request is more than is left of something that so much is taken of, be it served in the best way. */
static bool exceeds(struct model *m, size_t size, uint64_t taken, uint64_t most)
{
	if (!rounded(m, size))
		return taken + size > most;
	/* Memory comes in pages, and only what is in whole extents can be put together with others. */
	size = (size + m->page_size - 1) / m->page_size * m->page_size;
	if (!m->f.pool->core.settings.paged)
		return taken + size - m->f.pool->core.extents.whole_bytes > most;
	return taken + size - fixture_stats(&m->f).free > most;
}

/* Whether there is too little of something for this allocation. */
static bool lacks(struct model *m, size_t size)
{
	struct vpmm_stats stats = fixture_stats(&m->f);
	struct vpmm_info info = { .size = sizeof(info) };

	if (m->few_mappings)
		return true;
	if (exceeds(m, size, m->f.pool->core.extents.held + stats.small_live, m->f.pool->core.settings.limit))
		return true;
	if (!m->capacity)
		return false;
	/* By whatever pool. */
	assert_ok(vpmm_pool_info(m->f.pool, &info));
	return exceeds(m, rounded(m, size) ? size : MAX(SMALL_SEGMENT, size), info.memory_total - info.memory_free,
		       m->capacity);
}

static bool is_limited(const struct model *m)
{
	return m->capacity || m->few_mappings || m->f.pool->core.settings.limit != UINT64_MAX;
}

static int call_malloc(struct model *m, void **ptr, size_t size, struct CUstream_st *stream, unsigned int flags)
{
	unsigned int told = m->told;
	int err, number;

	err = flags ? vpmm_malloc_flags(m->f.pool, ptr, size, stream, flags) :
		      vpmm_malloc(m->f.pool, ptr, size, stream);
	number = errno;
	if (err) {
		g_assert_null(*ptr);
		g_assert_cmpint(number, ==, -err);
	}
	if (m->f.pool->core.settings.exhausted)
		g_assert_cmpuint(m->told - told, ==, err == -ENOMEM);
	return err;
}

/* What could not be cleared was allocated for a while. */
static void adopt(struct model *m)
{
	struct vpmm_stats stats = fixture_stats(&m->f);

	g_assert_cmpuint(stats.mallocs - stats.frees, ==, m->mallocs - m->frees);
	m->mallocs = stats.mallocs;
	m->frees = stats.frees;
	m->peak = MAX(m->peak, stats.peak_live);
	m->mapped = m->f.pool->core.extents.bytes;
	m->given_back = m->f.pool->core.extents.given_back;
}

/* NULL where it failed for lack of something. */
static void *try_malloc(struct model *m, size_t size, struct CUstream_st *stream, unsigned int flags)
{
	bool armed = m->armed;
	void *ptr = NULL;
	int err;

	err = call_malloc(m, &ptr, size, stream, flags);
	if (err && !(m->errors >> -err & 1) && (err != -ENOMEM || !is_limited(m)))
		g_error("%zu bytes: %d, %s", size, err, vpmm_last_error());
	model_disarm(m);
	if (err && armed) {
		if (flags || m->f.pool->core.settings.scrub) {
			/* Memory whose clear may be pending is held until its stream calls. */
			m->holds = true;
			adopt(m);
		}
		model_check(m);
		err = call_malloc(m, &ptr, size, stream, flags);
	}
	if (!err)
		return ptr;
	if (err != -ENOMEM || !lacks(m, size))
		g_error("%zu bytes: %d, %s", size, err, vpmm_last_error());
	model_check(m);
	return NULL;
}

static void assert_apart(const struct model *m, const struct model_allocation *a)
{
	for (guint i = 0; i < m->live->len; i++) {
		const struct model_allocation *b = m->live->pdata[i];

		g_assert_true(a->ptr + a->size <= b->ptr || b->ptr + b->size <= a->ptr);
	}
}

/*
 * Whether the pool has created memory for an allocation without need. What is created for small requests is apart, and
 * what is smaller than the setting wants is not gathered.
 */
static void assert_grown_for_need(const struct model *m, const struct model_allocation *a)
{
	const struct vpmm_pool *pool = m->f.pool;
	/* What it was left with when it last gave memory back counts as well. */
	uint64_t budget = MAX(m->peak, pool->packed.budget.held) + m->page_size;

	if (pool->core.extents.bytes > m->mapped && pool->core.extents.bytes > budget && a->bytes >= m->page_size / 2 &&
	    !pool->core.settings.frag_ratio && !m->holds && pool->core.settings.keep == UINT64_MAX)
		g_assert_cmpuint(pool->core.extents.whole_bytes, ==, 0);
}

static size_t alignment(const struct model *m, const struct model_allocation *a)
{
	if (!a->bytes)
		return 256;
	return m->f.pool->core.settings.paged ? m->page_size & -m->page_size : CORE_PIECE;
}

/* Before it is filled. */
static void verify_fresh(struct model *m, const struct model_allocation *a, unsigned int flags)
{
	enum vpmm_scrub scrub = m->f.pool->core.settings.scrub;

	if (flags || scrub == VPMM_SCRUB_ALWAYS)
		launch(m, a, model_work_verify_zero);
	/* What a graph has is what its last launch has left there. */
	else if (scrub == VPMM_SCRUB_STREAM && !model_is_captured(m, a->stream))
		launch(m, a, model_work_verify_own);
}

static size_t size_of_block(struct model *m, const struct model_allocation *a)
{
	struct core *core = &m->f.pool->core;
	const struct region *region;

	lock_acquire(&core->lock);
	region = live_find(core, (uintptr_t)a->ptr);
	lock_release(&core->lock);
	return region ? region->size : 0;
}

/* A capture may have what it has freed, and that may leave a little of it. */
static void take_captured(struct model *m, struct model_allocation *a)
{
	size_t size = size_of_block(m, a);

	g_assert_cmpuint(size, >=, a->bytes);
	if (a->bytes)
		g_assert_cmpuint(size, <=, a->bytes + size / 8);
	a->bytes = size;
	m->holds = true;
	add_graph(a->graphs, m->capture->id);
	for (guint i = m->held->len; i > 0; i--) {
		struct model_held *held = m->held->pdata[i - 1];

		if (held->ptr != a->ptr || !held->graphs->len)
			continue;
		g_assert_true(has_graph(held->graphs, m->capture->id));
		for (guint j = 0; j < held->graphs->len; j++)
			add_graph(a->graphs, g_array_index(held->graphs, uint64_t, j));
		g_assert_cmpuint(held->pending, ==, 0);
		g_ptr_array_remove_index_fast(m->held, i - 1);
	}
}

/* A block has the size that was asked for, rounded up, and no more. */
static void assert_size(struct model *m, const struct model_allocation *a)
{
	g_assert_cmpuint(size_of_block(m, a), ==, a->bytes);
}

bool model_malloc_flags(struct model *m, size_t size, struct CUstream_st *stream, unsigned int flags)
{
	bool captured = model_is_captured(m, stream);
	struct model_allocation *a;
	void *ptr = NULL;

	if (captured && m->page_size == SIZE_MAX) {
		model_disarm(m);
		assert_error(vpmm_malloc(m->f.pool, &ptr, size, stream), ENOTSUP, "captured");
		return false;
	}
	ptr = try_malloc(m, size, stream, flags);
	if (!ptr)
		return false;
	a = g_new0(struct model_allocation, 1);
	a->ptr = ptr;
	a->size = size;
	a->stream = a->first = stream;
	a->pattern = ++m->patterns << 32;
	a->bytes = rounded(m, size);
	a->users = g_ptr_array_new();
	a->graphs = g_array_new(FALSE, FALSE, sizeof(uint64_t));
	if (captured)
		take_captured(m, a);
	else if (a->bytes)
		assert_size(m, a);
	g_assert_cmpuint((uintptr_t)ptr % alignment(m, a), ==, 0);
	assert_apart(m, a);
	verify_fresh(m, a, flags);
	launch(m, a, model_work_fill);
	g_ptr_array_add(m->live, a);
	m->mallocs++;
	m->small_bytes += a->bytes ? 0 : a->size;
	m->bytes += a->bytes;
	m->peak = MAX(m->peak, m->bytes);
	/* What streams keep to themselves, nobody else can put together. */
	if (!m->f.pool->core.settings.paged && !m->f.pool->core.settings.cache)
		assert_grown_for_need(m, a);
	m->mapped = m->f.pool->core.extents.bytes;
	m->given_back = m->f.pool->core.extents.given_back;
	return true;
}

void model_malloc(struct model *m, size_t size, struct CUstream_st *stream)
{
	model_malloc_flags(m, size, stream, 0);
}

void model_move(struct model *m, guint index, struct CUstream_st *stream)
{
	struct model_allocation *a = m->live->pdata[index];

	if (model_is_captured(m, a->stream))
		return;
	if (stream != a->stream && !model_is_captured(m, stream))
		assert_ok(vpmm_host_stream_wait(stream, a->stream));
	a->stream = stream;
}

static void call_use(struct model *m, struct model_allocation *a, struct CUstream_st *stream)
{
	if (model_may_fail(m, vpmm_use(m->f.pool, a->ptr, stream))) {
		model_check(m);
		assert_ok(vpmm_use(m->f.pool, a->ptr, stream));
	}
	if (model_is_captured(m, stream))
		add_graph(a->graphs, m->capture->id);
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

	if (model_is_captured(m, a->stream) && !has_graph(a->graphs, m->capture->id))
		call_use(m, a, a->stream);
	launch(m, a, model_work_verify);
}

/* Its users look for its bytes once more; nobody may have touched them by then. It is held for those under capture. */
static struct model_held *hold(struct model *m, struct model_allocation *a)
{
	struct model_held *held = g_new0(struct model_held, 1);

	held->ptr = a->ptr;
	held->bytes = a->bytes ? a->bytes : a->size;
	held->graphs = g_array_ref(a->graphs);
	if (model_is_captured(m, a->stream))
		add_graph(held->graphs, m->capture->id);
	for (guint i = 0; i < a->users->len; i++) {
		struct CUstream_st *user = a->users->pdata[i];

		if (model_is_captured(m, user))
			m->holds = true;
		else if (user != a->stream)
			model_work_launch(m, a, user, model_work_verify, held);
	}
	held->small = !a->bytes;
	m->holds |= m->armed || held->graphs->len || (held->small && (a->users->len || a->retired));
	return held;
}

void model_free(struct model *m, guint index)
{
	struct model_allocation *a = m->live->pdata[index];
	struct model_held *held;

	launch(m, a, model_work_verify);
	held = hold(m, a);
	if (model_may_fail(m, vpmm_free(m->f.pool, a->ptr, a->stream))) {
		model_check(m);
		assert_ok(vpmm_free(m->f.pool, a->ptr, a->stream));
	}
	g_ptr_array_add(m->held, held);
	if (a->first == a->stream)
		g_hash_table_insert(m->had, model_work_key(a->pattern), a->stream);
	m->frees++;
	m->small_bytes -= a->bytes ? 0 : a->size;
	m->bytes -= a->bytes;
	g_ptr_array_remove_index_fast(m->live, index);
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

void model_retire_graph(struct model *m, uint64_t id, struct CUstream_st *stream)
{
	if (model_may_fail(m, vpmm_graph_retire(m->f.pool, id, stream))) {
		model_check(m);
		assert_ok(vpmm_graph_retire(m->f.pool, id, stream));
	}
	for (guint i = 0; i < m->live->len; i++)
		remove_graph(((struct model_allocation *)m->live->pdata[i])->graphs, id);
	for (guint i = 0; i < m->held->len; i++)
		remove_graph(((struct model_held *)m->held->pdata[i])->graphs, id);
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
	g_assert_true(forecast.way != VPMM_WAY_NONE || is_limited(m) || size > ((size_t)1 << 30));
	return forecast.way;
}

void model_trim(struct model *m, size_t keep)
{
	uint64_t before = m->f.pool->core.extents.bytes, after;
	size_t released;
	int err;

	err = vpmm_pool_trim(m->f.pool, keep, &released);
	if (model_may_fail(m, err)) {
		model_check(m);
		before = m->f.pool->core.extents.bytes;
		assert_ok(vpmm_pool_trim(m->f.pool, keep, &released));
	}
	after = m->f.pool->core.extents.bytes;
	g_assert_cmpuint(released, >=, before - after);
	/* The rest is what the driver's allocator gave back. */
	g_assert_true(released == before - after || m->f.pool->core.settings.small == VPMM_SMALL_DRIVER);
	g_assert_cmpuint(after, >=, MIN(before, keep));
}

void model_complete(struct model *m, struct CUstream_st *stream, unsigned int n)
{
	int err = vpmm_host_stream_complete(stream, n);

	(void)m;
	/* What waits for another stream does not complete now; that is an outcome like others. */
	g_assert_true(err == 0 || err == -EBUSY);
}

void model_complete_all(struct model *m)
{
	bool busy = true;

	while (busy) {
		busy = false;
		for (int i = 0; i < STREAMS; i++)
			busy |= vpmm_host_stream_complete(m->f.streams[i], UINT_MAX) == -EBUSY;
	}
}
