// SPDX-License-Identifier: LGPL-2.1-or-later
#include "model.h"

#include <errno.h>
#include <string.h>

#include "pool.h"

/* What the driver's allocator takes at least, when it takes more. */
#define SMALL_SEGMENT ((uint64_t)32 << 20)

/*
 * What a pool of extents may hold although it could do without, relative to the most that was ever live, as long as it
 * does not have to remap all the time.
 */
#define BUDGET 1.01

/* What a piece of work does to one allocation: write its pattern at both ends of every page, or find it there. */
struct work {
	char *ptr;
	size_t size;
	uint64_t pattern;
};

static void each_spot(const struct work *work, void (*visit)(uint64_t *spot, uint64_t value))
{
	size_t last = work->size / 8 * 8;

	for (size_t at = 0; at + 8 <= work->size; at += PAGE) {
		visit((uint64_t *)(void *)(work->ptr + at), work->pattern + at);
		if (at + PAGE <= work->size)
			visit((uint64_t *)(void *)(work->ptr + at + PAGE - 8), ~(work->pattern + at));
	}
	/* What comes next begins right behind it. */
	if (last >= 16 && last % PAGE)
		visit((uint64_t *)(void *)(work->ptr + last - 8), ~work->pattern);
}

static void write_spot(uint64_t *spot, uint64_t value)
{
	*spot = value;
}

static void check_spot(uint64_t *spot, uint64_t value)
{
	g_assert_cmphex(*spot, ==, value);
}

static void fill(void *data)
{
	each_spot(data, write_spot);
	g_free(data);
}

static void verify(void *data)
{
	each_spot(data, check_spot);
	g_free(data);
}

static void launch(const struct model_allocation *a, vpmm_host_fn fn)
{
	struct work *work = g_new(struct work, 1);

	*work = (struct work){ .ptr = a->ptr, .size = a->size, .pattern = a->pattern };
	assert_ok(vpmm_host_stream_launch(a->stream, fn, work));
}

void model_open(struct model *m, struct vpmm_opts opts, bool faulty)
{
	if (faulty)
		fixture_open_faulty(&m->f, opts);
	else
		fixture_open(&m->f, opts);
	m->page_size = m->f.pool->settings.page_size;
	m->faulty = faulty;
	m->armed = m->seldom = false;
	m->errors = 0;
	m->live = g_ptr_array_new_with_free_func(g_free);
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
}

void model_arm(struct model *m, enum backend_op op, unsigned int skip, unsigned int count, int err)
{
	backend_fault_arm(m->f.pool->backend, op, skip, count, err);
	m->armed = true;
	m->errors |= UINT64_C(1) << -err;
}

void model_disarm(struct model *m)
{
	for (int op = 0; m->armed && op < BACKEND_OP_COUNT; op++)
		backend_fault_arm(m->f.pool->backend, (enum backend_op)op, 0, 0, 0);
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
	const struct settings *settings = &m->f.pool->settings;
	uint64_t piece = settings->paged ? m->page_size : POOL_PIECE;

	if (m->page_size == SIZE_MAX || (size < m->page_size && settings->small == VPMM_SMALL_DRIVER))
		return 0;
	return (size + piece - 1) / piece * piece;
}

/* Whether there is too little of something for this allocation, be it served in the best way. */
static bool lacks(struct model *m, size_t size)
{
	struct vpmm_stats stats = fixture_stats(&m->f);
	struct vpmm_info info = { .size = sizeof(info) };
	uint64_t taken;

	if (m->few_mappings)
		return true;
	if (!m->capacity)
		return false;
	/* By whatever pool. */
	assert_ok(vpmm_pool_info(m->f.pool, &info));
	taken = info.memory_total - info.memory_free;
	if (!rounded(m, size))
		return taken + MAX(SMALL_SEGMENT, size) > m->capacity;
	/* Memory comes in pages, and only what is in whole extents can be put together with others. */
	size = (size + m->page_size - 1) / m->page_size * m->page_size;
	if (!m->f.pool->settings.paged)
		return taken + size - m->f.pool->extents.whole_bytes > m->capacity;
	return taken + size - stats.free > m->capacity;
}

/* NULL where it failed for lack of something. */
static void *try_malloc(struct model *m, size_t size, struct CUstream_st *stream)
{
	bool armed = m->armed;
	void *ptr = NULL;
	int err;

	err = vpmm_malloc(m->f.pool, &ptr, size, stream);
	if (err) {
		g_assert_null(ptr);
		g_assert_cmpint(errno, ==, -err);
		if (!(m->errors >> -err & 1) && (err != -ENOMEM || !(m->capacity || m->few_mappings)))
			g_error("%zu bytes: %d, %s", size, err, vpmm_last_error());
	}
	model_disarm(m);
	if (err && armed) {
		model_check(m);
		err = vpmm_malloc(m->f.pool, &ptr, size, stream);
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
	uint64_t budget = (uint64_t)((double)m->peak * BUDGET) + pool->strain.relief;

	if (pool->extents.bytes > m->mapped && pool->extents.bytes > budget && a->bytes >= m->page_size / 2 &&
	    !pool->settings.frag_ratio)
		g_assert_cmpuint(pool->extents.whole_bytes, ==, 0);
}

static size_t alignment(const struct model *m, const struct model_allocation *a)
{
	if (!a->bytes)
		return 256;
	return m->f.pool->settings.paged ? m->page_size & -m->page_size : POOL_PIECE;
}

void model_malloc(struct model *m, size_t size, struct CUstream_st *stream)
{
	void *ptr = try_malloc(m, size, stream);
	struct model_allocation *a;

	if (!ptr)
		return;
	a = g_new0(struct model_allocation, 1);
	a->ptr = ptr;
	a->size = size;
	a->stream = stream;
	a->pattern = ++m->patterns << 32;
	a->bytes = rounded(m, size);
	g_assert_cmpuint((uintptr_t)ptr % alignment(m, a), ==, 0);
	assert_apart(m, a);
	launch(a, fill);
	g_ptr_array_add(m->live, a);
	m->mallocs++;
	m->small_bytes += a->bytes ? 0 : a->size;
	m->bytes += a->bytes;
	m->peak = MAX(m->peak, m->bytes);
	/* What streams keep to themselves, nobody else can put together. */
	if (!m->f.pool->settings.paged && !m->f.pool->settings.cache)
		assert_grown_for_need(m, a);
	m->mapped = m->f.pool->extents.bytes;
	m->given_back = m->f.pool->extents.given_back;
}

void model_move(struct model *m, guint index, struct CUstream_st *stream)
{
	struct model_allocation *a = m->live->pdata[index];

	if (stream != a->stream)
		assert_ok(vpmm_host_stream_wait(stream, a->stream));
	a->stream = stream;
}

void model_verify(struct model *m, guint index)
{
	launch(m->live->pdata[index], verify);
}

void model_free(struct model *m, guint index)
{
	struct model_allocation *a = m->live->pdata[index];

	model_verify(m, index);
	if (model_may_fail(m, vpmm_free(m->f.pool, a->ptr, a->stream))) {
		model_check(m);
		assert_ok(vpmm_free(m->f.pool, a->ptr, a->stream));
	}
	m->frees++;
	m->small_bytes -= a->bytes ? 0 : a->size;
	m->bytes -= a->bytes;
	g_ptr_array_remove_index_fast(m->live, index);
}

void model_trim(struct model *m, size_t keep)
{
	uint64_t before = m->f.pool->extents.bytes, after;
	size_t released;
	int err;

	err = vpmm_pool_trim(m->f.pool, keep, &released);
	if (model_may_fail(m, err)) {
		model_check(m);
		before = m->f.pool->extents.bytes;
		assert_ok(vpmm_pool_trim(m->f.pool, keep, &released));
	}
	after = m->f.pool->extents.bytes;
	g_assert_cmpuint(released, ==, before - after);
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

void model_check(struct model *m)
{
	struct vpmm_stats stats = fixture_stats(&m->f);

	assert_ok(vpmm_pool_check(m->f.pool));
	g_assert_cmpuint(stats.live, ==, m->bytes);
	g_assert_cmpuint(stats.small_live, ==, m->small_bytes);
	/* Caches keep no peak. */
	if (m->seldom)
		g_assert_cmpuint(stats.peak_live, <=, m->peak);
	else
		g_assert_cmpuint(stats.peak_live, ==, m->peak);
	if (m->f.pool->settings.paged && !stats.given_back)
		g_assert_cmpuint(stats.mapped, ==, MAX(m->initial, m->peak));
	else
		g_assert_cmpuint(stats.mapped + stats.given_back - m->given_back, ==, m->mapped);
	g_assert_cmpuint(stats.mapped + stats.given_back, ==, stats.grown);
	g_assert_cmpuint(stats.live + stats.free, ==, stats.mapped);
	g_assert_cmpuint(stats.live + stats.free + stats.holes + stats.zombies, ==, stats.reserved);
	g_assert_cmpuint(stats.mallocs, ==, m->mallocs);
	g_assert_cmpuint(stats.frees, ==, m->frees);
}
