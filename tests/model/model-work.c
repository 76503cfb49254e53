// SPDX-License-Identifier: LGPL-2.1-or-later
#include "model/model-work.h"

/* What a piece of work does to one allocation: write its pattern at both ends of every page, or find it there. */
struct work {
	const struct model *m;
	char *ptr;
	size_t size;
	uint64_t pattern;
	struct CUstream_st *stream;
	struct model_held *held;	/* the stream is past it then; NULL: nothing is */
	bool captured;			/* it is done once more with each launch */
};

static void each_spot(const struct work *work,
		      void (*visit)(const struct work *work, uint64_t *spot, uint64_t value))
{
	size_t last = work->size / 8 * 8;

	for (size_t at = 0; at + 8 <= work->size; at += PAGE) {
		visit(work, (uint64_t *)(void *)(work->ptr + at), work->pattern + at);
		if (at + PAGE <= work->size)
			visit(work, (uint64_t *)(void *)(work->ptr + at + PAGE - 8), ~(work->pattern + at));
	}
	/* What comes next begins right behind it. */
	if (last >= 16 && last % PAGE > 8)
		visit(work, (uint64_t *)(void *)(work->ptr + last - 8), ~work->pattern);
}

static void write_spot(const struct work *work, uint64_t *spot, uint64_t value)
{
	*spot = value;
}

static void check_spot(const struct work *work, uint64_t *spot, uint64_t value)
{
	g_assert_cmphex(*spot, ==, value);
}

static void check_zero(const struct work *work, uint64_t *spot, uint64_t value)
{
	g_assert_cmphex(*spot, ==, 0);
}

/* Whatever a stream may find has been written as part of a pattern, of its own. */
static void check_own(const struct work *work, uint64_t *spot, uint64_t value)
{
	const void *stream = work->stream;

	if (*spot)
		g_assert_true(g_hash_table_lookup(work->m->had, model_work_key(*spot)) == stream ||
			      g_hash_table_lookup(work->m->had, model_work_key(~*spot)) == stream);
}

static void finish(struct work *work)
{
	if (work->held)
		work->held->pending--;
	if (!work->captured)
		g_free(work);
}

void model_work_fill(void *data)
{
	each_spot(data, write_spot);
	finish(data);
}

void model_work_verify(void *data)
{
	each_spot(data, check_spot);
	finish(data);
}

void model_work_verify_zero(void *data)
{
	each_spot(data, check_zero);
	finish(data);
}

void model_work_verify_own(void *data)
{
	each_spot(data, check_own);
	finish(data);
}

void model_work_launch(struct model *m, const struct model_allocation *a, struct CUstream_st *stream, vpmm_host_fn fn,
		       struct model_held *held)
{
	struct work *work = g_new(struct work, 1);

	*work = (struct work){ .m = m, .ptr = a->ptr, .size = a->size, .pattern = a->pattern, .stream = stream,
			       .held = held, .captured = model_is_captured(m, stream) };
	if (work->captured)
		g_ptr_array_add(m->capture->works, work);
	if (held)
		held->pending++;
	assert_ok(vpmm_host_stream_launch(stream, fn, work));
}
