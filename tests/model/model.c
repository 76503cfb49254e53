// SPDX-License-Identifier: LGPL-2.1-or-later
#include "model/model.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "calls/pool.h"
#include "core/allocation.h"
#include "core/shareable.h"
#include "model/model-inside.h"
#include "model/model-work.h"

/* What the driver's allocator aligns to. */
#define SMALL_ALIGNMENT 256

bool model_is_captured(const struct model *m, const struct CUstream_st *stream)
{
	return stream && m->capture && m->capture->stream == stream;
}

void model_launch(struct model *m, const struct model_allocation *a, vpmm_host_fn fn)
{
	model_work_launch(m, a, a->stream, fn, NULL);
}

void model_restore(struct model *m, const struct model_allocation *a, struct CUstream_st *stream)
{
	model_work_launch(m, a, stream, model_work_fill, NULL);
}

static void allocation_free(gpointer data)
{
	struct model_allocation *a = data;

	g_ptr_array_free(a->users, TRUE);
	g_array_unref(a->graphs);
	g_free(a);
}

static void held_free(gpointer data)
{
	struct model_held *held = data;

	g_array_unref(held->graphs);
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

void model_add_graph(GArray *graphs, uint64_t id)
{
	if (!has_graph(graphs, id))
		g_array_append_val(graphs, id);
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
	m->peers = 0;
	m->errors = 0;
	m->live = g_ptr_array_new_with_free_func(allocation_free);
	m->held = g_ptr_array_new_with_free_func(held_free);
	m->had = g_hash_table_new(NULL, NULL);
	m->holds = false;
	m->over = m->beyond = m->uncovered = 0;
	m->told = 0;
	m->bytes = m->small_bytes = m->shareable = m->imported = m->requested = m->mallocs = m->frees = 0;
	m->peak = m->peak_shown = m->peak_requested = 0;
	m->initial = m->mapped = opts.pages * m->page_size;
	m->given_back = 0;
	model_note_allowance(m);
	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, m->sockets), ==, 0);
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
	model_clear(m);
}

void model_clear(struct model *m)
{
	for (int i = 0; i < 2; i++)
		close(m->sockets[i]);
	g_ptr_array_free(m->live, TRUE);
	g_ptr_array_free(m->held, TRUE);
	g_hash_table_destroy(m->had);
}

/* What is asked for. */
struct wanted {
	size_t size;
	size_t max;		/* of a growable block, or 0 */
	size_t align;		/* of an aligned block, or 0 */
	unsigned int flags;
};

static int call_function(struct model *m, void **ptr, const struct wanted *wanted, struct CUstream_st *stream)
{
	if (wanted->max)
		return vpmm_malloc_growable(m->f.pool, ptr, wanted->size, wanted->max, stream);
	if (wanted->align)
		return vpmm_malloc_aligned(m->f.pool, ptr, wanted->size, wanted->align,
					   wanted->flags & VPMM_IDLE ? VPMM_STREAM_ANY : stream);
	if (wanted->flags)
		return vpmm_malloc_flags(m->f.pool, ptr, wanted->size, stream, wanted->flags);
	return vpmm_malloc(m->f.pool, ptr, wanted->size, stream);
}

static int call_malloc(struct model *m, void **ptr, const struct wanted *wanted, struct CUstream_st *stream)
{
	unsigned int told = m->told;
	int err, number;

	err = call_function(m, ptr, wanted, stream);
	number = errno;
	if (err) {
		g_assert_null(*ptr);
		g_assert_cmpint(number, ==, -err);
	}
	if (!m->f.pool->core.settings.exhausted)
		return err;
	/* A clear that the driver has no memory for fails behind the request. */
	g_assert_cmpuint(m->told - told, <=, err == -ENOMEM);
	if (!(wanted->flags & VPMM_ZERO))
		g_assert_cmpuint(m->told - told, ==, err == -ENOMEM);
	return err;
}

/* What could not be cleared was allocated for a while. */
void model_adopt(struct model *m)
{
	struct vpmm_stats stats = fixture_stats(&m->f);

	g_assert_cmpuint(stats.mallocs - stats.frees, ==, m->mallocs - m->frees);
	m->mallocs = stats.mallocs;
	m->frees = stats.frees;
	m->peak = MAX(m->peak, stats.peak_live);
	m->peak_shown = MAX(m->peak_shown, stats.peak_live);
	m->peak_requested = MAX(m->peak_requested, stats.peak_requested);
	m->mapped = model_taken(m);
	m->given_back = m->f.pool->core.extents.given_back;
}

/*
 * How much it may take. The driver's allocator serves no capture, does not align, and what it has is not known to be
 * idle.
 */
static size_t size_at_most(const struct model *m, const struct wanted *wanted, const struct CUstream_st *stream)
{
	bool page = wanted->flags & VPMM_IDLE || model_is_captured(m, stream) || wanted->align > SMALL_ALIGNMENT;

	if (wanted->max || (page && m->page_size != SIZE_MAX))
		return MAX(wanted->size, m->page_size) + (wanted->align > CORE_PIECE ? wanted->align : 0);
	return wanted->size;
}

/* NULL where it failed for lack of something. */
static void *try_malloc(struct model *m, const struct wanted *wanted, struct CUstream_st *stream)
{
	bool armed = m->armed, lacks = false;
	size_t size = wanted->size;
	void *ptr = NULL;
	int err;

	err = call_malloc(m, &ptr, wanted, stream);
	if (err && !model_is_expected(m, err))
		g_error("%zu bytes: %d, %s", size, err, vpmm_last_error());
	model_disarm(m);
	if (err && armed) {
		if (wanted->flags || m->f.pool->core.settings.scrub) {
			/* Memory whose clear may be pending is held until its stream calls. */
			m->holds = true;
			model_adopt(m);
		}
		model_check(m);
		err = call_malloc(m, &ptr, wanted, stream);
	}
	if (!err)
		return ptr;
	if (err == -ENOMEM && wanted->flags & VPMM_SHAREABLE)
		lacks = model_lacks_apart(m, size);
	else if (err == -ENOMEM)
		lacks = model_lacks(m, size_at_most(m, wanted, stream));
	if (!lacks)
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

static size_t alignment(const struct model *m, const struct model_allocation *a)
{
	size_t natural = m->f.pool->core.settings.paged ? m->page_size & -m->page_size : CORE_PIECE;

	if (a->apart)
		return m->f.pool->core.granularity;
	return a->bytes ? MAX(natural, a->align) : SMALL_ALIGNMENT;
}

/* Before it is filled. */
static void verify_fresh(struct model *m, const struct model_allocation *a, unsigned int flags)
{
	enum vpmm_scrub scrub = m->f.pool->core.settings.scrub;

	if (flags & VPMM_ZERO || scrub == VPMM_SCRUB_ALWAYS)
		model_launch(m, a, model_work_verify_zero);
	/* What a graph has is what its last launch has left there. */
	else if (scrub == VPMM_SCRUB_STREAM && !model_is_captured(m, a->stream))
		model_launch(m, a, model_work_verify_own);
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

static uint64_t group_of(const struct model *m, uint64_t graph)
{
	const uint64_t *group = g_hash_table_lookup(m->capture->groups, &graph);

	return group ? *group : 0;
}

/* A capture may have what it has freed, or what its group has. */
static bool may_take(const struct model *m, const struct model_held *held)
{
	uint64_t group = group_of(m, m->capture->id);

	for (guint i = 0; group && i < held->graphs->len; i++) {
		if (group_of(m, g_array_index(held->graphs, uint64_t, i)) != group)
			return false;
	}
	return group || has_graph(held->graphs, m->capture->id);
}

static void keep_part(struct model *m, const struct model_held *held, char *ptr, const char *end)
{
	struct model_held *part;

	if (ptr >= end)
		return;
	part = g_new0(struct model_held, 1);
	part->ptr = ptr;
	part->bytes = (uint64_t)(end - ptr);
	part->graphs = g_array_copy(held->graphs);
	g_ptr_array_add(m->held, part);
}

static bool overlaps(const struct model_allocation *a, const struct model_held *held)
{
	size_t size = MAX(a->size, a->bytes);

	return held->graphs->len && held->bytes && a->ptr < held->ptr + held->bytes && held->ptr < a->ptr + size;
}

/* The graphs that had it have the allocation now. The rest stays with them. */
static void take_held(struct model *m, struct model_allocation *a, guint index)
{
	struct model_held *held = m->held->pdata[index];

	g_assert_true(may_take(m, held));
	g_assert_cmpuint(held->pending, ==, 0);
	for (guint i = 0; i < held->graphs->len; i++)
		model_add_graph(a->graphs, g_array_index(held->graphs, uint64_t, i));
	keep_part(m, held, held->ptr, MIN(a->ptr, held->ptr + held->bytes));
	keep_part(m, held, MAX(held->ptr, a->ptr + a->bytes), held->ptr + held->bytes);
	g_ptr_array_remove_index_fast(m->held, index);
}

/* What a capture has freed may leave a little more than it asks for. */
static void take_captured(struct model *m, struct model_allocation *a)
{
	size_t size = size_of_block(m, a);

	g_assert_cmpuint(size, >=, a->bytes);
	if (a->bytes)
		g_assert_cmpuint(size, <=, a->bytes + size / 8);
	a->bytes = size;
	m->holds = true;
	a->maker = m->capture->id;
	model_add_graph(a->graphs, m->capture->id);
	for (guint i = m->held->len; i > 0; i--) {
		if (overlaps(a, m->held->pdata[i - 1]))
			take_held(m, a, i - 1);
	}
}

/* What belongs to graphs, nobody else gets. */
static void assert_not_held(const struct model *m, const struct model_allocation *a)
{
	for (guint i = 0; i < m->held->len; i++)
		g_assert_false(overlaps(a, m->held->pdata[i]));
}

/* A block has the size that was asked for, rounded up, and no more. */
static void assert_size(struct model *m, const struct model_allocation *a)
{
	g_assert_cmpuint(size_of_block(m, a), ==, a->bytes);
}

/* Whole pages; and after it has become smaller, those that cannot be taken from it apart. */
static void take_growable(struct model *m, struct model_allocation *a)
{
	uint64_t pages = (a->size + m->page_size - 1) / m->page_size * m->page_size, had = a->bytes;

	a->bytes = size_of_block(m, a);
	g_assert_cmpuint(a->bytes, >=, pages);
	g_assert_cmpuint(a->bytes, <=, MAX(pages, had));
	g_assert_cmpuint(a->bytes % m->page_size, ==, 0);
}

void model_settle(struct model *m, struct model_allocation *a)
{
	if (model_is_captured(m, a->stream))
		take_captured(m, a);
	else if (a->max)
		take_growable(m, a);
	else if (a->bytes)
		assert_size(m, a);
	g_assert_cmpuint((uintptr_t)a->ptr & (alignment(m, a) - 1), ==, 0);
	assert_apart(m, a);
	assert_not_held(m, a);
}

static void note_peaks(struct model *m)
{
	m->peak = MAX(m->peak, m->bytes);
	m->peak_shown = MAX(m->peak_shown, m->bytes);
	m->peak_requested = MAX(m->peak_requested, m->requested);
}

/* What counts it. */
static uint64_t *sum_of(struct model *m, const struct model_allocation *a)
{
	if (a->apart)
		return a->imported ? &m->imported : &m->shareable;
	return a->bytes ? &m->bytes : &m->small_bytes;
}

void model_add(struct model *m, struct model_allocation *a)
{
	a->first = a->stream;
	a->pattern = ++m->patterns << 32;
	a->users = g_ptr_array_new();
	a->retired = false;
	g_ptr_array_add(m->live, a);
	*sum_of(m, a) += a->apart ? a->apart : a->bytes ? a->bytes : a->size;
	m->requested += a->size;
	note_peaks(m);
}

void model_remove(struct model *m, const struct model_allocation *a)
{
	*sum_of(m, a) -= a->apart ? a->apart : a->bytes ? a->bytes : a->size;
	m->requested -= a->size;
}

struct model_allocation *model_new_allocation(char *ptr, size_t size, struct CUstream_st *stream)
{
	struct model_allocation *a = g_new0(struct model_allocation, 1);

	a->ptr = ptr;
	a->size = size;
	a->stream = stream;
	a->graphs = g_array_new(FALSE, FALSE, sizeof(uint64_t));
	return a;
}

static void receive(struct model *m, struct model_allocation *a, unsigned int flags)
{
	model_settle(m, a);
	model_add(m, a);
	m->mallocs++;
	verify_fresh(m, a, flags);
	model_launch(m, a, model_work_fill);
	model_judge_growth(m, a);
}

bool model_malloc_flags(struct model *m, size_t size, struct CUstream_st *stream, unsigned int flags)
{
	bool shareable = flags & VPMM_SHAREABLE, idle = flags & VPMM_IDLE || model_is_beside_capture(m);
	struct model_allocation *a;
	void *ptr = NULL;

	/* It may be new although there is memory that is not idle, and never is the driver's allocator's. */
	m->holds |= idle || shareable;
	/* It is no part of the graph, which alone could use it. */
	if (shareable && model_is_captured(m, stream)) {
		model_disarm(m);
		return false;
	}
	if (model_is_captured(m, stream) && m->page_size == SIZE_MAX) {
		model_disarm(m);
		assert_error(vpmm_malloc(m->f.pool, &ptr, size, stream), ENOTSUP, "captured");
		return false;
	}
	ptr = try_malloc(m, &(struct wanted){ .size = size, .flags = flags }, stream);
	if (!ptr)
		return false;
	a = model_new_allocation(ptr, size, stream);
	if (shareable)
		a->apart = model_apart(m, size);
	else
		a->bytes = idle ? size_of_block(m, a) : model_rounded(m, size);
	receive(m, a, flags);
	return true;
}

bool model_malloc_growable(struct model *m, size_t size, size_t max, struct CUstream_st *stream)
{
	struct model_allocation *a;
	void *ptr = NULL;

	if (model_is_captured(m, stream) || m->page_size == SIZE_MAX) {
		model_disarm(m);
		g_assert_cmpint(vpmm_malloc_growable(m->f.pool, &ptr, size, max, stream), ==,
				m->page_size == SIZE_MAX ? -ENOTSUP : -EBUSY);
		g_assert_null(ptr);
		return false;
	}
	ptr = try_malloc(m, &(struct wanted){ .size = size, .max = max }, stream);
	if (!ptr)
		return false;
	a = model_new_allocation(ptr, size, stream);
	a->max = max;
	receive(m, a, 0);
	return true;
}

/* The error that a request must give, whatever else could fail of it. */
static int refusal_of(const struct model *m, size_t align, const struct CUstream_st *stream, unsigned int flags)
{
	if (m->page_size == SIZE_MAX)
		return align > SMALL_ALIGNMENT || flags || model_is_captured(m, stream) ? -ENOTSUP : 0;
	return align > CORE_PIECE && m->page_size % align ? -EINVAL : 0;
}

/* A page takes the place of the driver's allocator. */
static uint64_t bytes_aligned(struct model *m, const struct model_allocation *a, bool idle)
{
	uint64_t bytes = model_rounded(m, a->size);

	if (!bytes && a->align > SMALL_ALIGNMENT)
		bytes = m->page_size;
	return idle ? size_of_block(m, a) : bytes;
}

bool model_malloc_aligned(struct model *m, size_t size, size_t align, struct CUstream_st *stream, unsigned int flags)
{
	const struct wanted wanted = { .size = size, .align = align, .flags = flags };
	bool idle = flags & VPMM_IDLE || model_is_beside_capture(m);
	int refusal = refusal_of(m, align, stream, flags);
	struct model_allocation *a;
	void *ptr = NULL;

	m->holds |= idle;
	if (refusal) {
		model_disarm(m);
		g_assert_cmpint(vpmm_malloc_aligned(m->f.pool, &ptr, size, align, flags ? VPMM_STREAM_ANY : stream), ==,
				refusal);
		g_assert_null(ptr);
		return false;
	}
	ptr = try_malloc(m, &wanted, stream);
	if (!ptr)
		return false;
	a = model_new_allocation(ptr, size, stream);
	a->align = align;
	a->bytes = bytes_aligned(m, a, idle);
	receive(m, a, 0);
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
