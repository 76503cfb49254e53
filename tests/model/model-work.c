// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>

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

typedef void (*visit_fn)(const struct work *work, uint64_t *spot, uint64_t value);

static void each_page(const struct work *work, visit_fn visit)
{
	for (size_t at = 0; at + 8 <= work->size; at += PAGE) {
		visit(work, (uint64_t *)(void *)(work->ptr + at), work->pattern + at);
		if (at + PAGE <= work->size)
			visit(work, (uint64_t *)(void *)(work->ptr + at + PAGE - 8), ~(work->pattern + at));
	}
}

static void each_spot(const struct work *work, visit_fn visit)
{
	size_t last = work->size / 8 * 8;

	each_page(work, visit);
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

static bool is_of_stream(const struct work *work, uint64_t word)
{
	return g_hash_table_lookup(work->m->had, model_work_key(word)) == work->stream ||
	       g_hash_table_lookup(work->m->had, model_work_key(~word)) == work->stream;
}

/*
 * Each word that a stream finds is 0 or of a pattern that the stream wrote. But a block may end within a word: if it
 * grew since, the upper bytes of the word were cleared.
 */
static void check_own(const struct work *work, uint64_t *spot, uint64_t value)
{
	uint64_t cleared = 0;

	while (*spot && !(*spot & cleared) && !is_of_stream(work, *spot | cleared))
		cleared = cleared >> 8 | UINT64_C(0xff) << 56;
	g_assert_cmphex(*spot & cleared, ==, 0);
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

void model_work_verify_part(void *data)
{
	each_page(data, check_spot);
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
		busy |= vpmm_host_stream_complete(NULL, UINT_MAX) == -EBUSY;
	}
}
