// SPDX-License-Identifier: LGPL-2.1-or-later
/* Blocks of the model that change their size, and calls that look for blocks. */
#include <errno.h>

#include "calls/query.h"
#include "calls/pool.h"
#include "model/model-inside.h"
#include "model/model-work.h"

/* The error that a change of size must give: a stream under capture can neither be waited for nor wait for others. */
static int refusal(const struct model *m, const struct model_allocation *a)
{
	bool captured = model_is_captured(m, a->stream);

	if (captured && a->max && m->page_size != SIZE_MAX)
		return -EBUSY;
	for (guint i = 0; i < a->users->len; i++) {
		if (captured || (a->users->pdata[i] != a->stream && model_is_captured(m, a->users->pdata[i])))
			return -EBUSY;
	}
	return captured && m->page_size == SIZE_MAX ? -ENOTSUP : 0;
}

static bool is_used_in_capture(const struct model *m, const struct model_allocation *a)
{
	for (guint i = 0; i < a->users->len; i++) {
		if (model_is_captured(m, a->users->pdata[i]))
			return true;
	}
	return false;
}

/*
 * Under VPMM_SCRUB_STREAM the program may hand what a block holds to a stream that would never be given it, and the
 * model cannot tell. Whether a graph still has to wait for users that were retired, it does not know either. A growable
 * block that a graph uses stays where the next launch looks for what it held, and whether it has to wait for a user
 * that is captured depends on whether it gives anything back.
 */
static bool is_unclear(const struct model *m, const struct model_allocation *a, const struct CUstream_st *stream)
{
	if (m->f.pool->core.settings.scrub == VPMM_SCRUB_STREAM && a->first != stream)
		return true;
	if (a->max)
		return a->graphs->len || is_used_in_capture(m, a);
	return a->retired && (model_is_captured(m, a->stream) || model_is_captured(m, stream));
}

static int call_realloc(struct model *m, const struct model_allocation *a, void **ptr, size_t size)
{
	unsigned int told = m->told;
	int err, number;

	*ptr = a->ptr;
	err = vpmm_realloc(m->f.pool, ptr, size, a->stream);
	number = errno;
	if (err) {
		g_assert_true(*ptr == a->ptr);
		g_assert_cmpint(number, ==, -err);
	}
	if (m->f.pool->core.settings.exhausted)
		g_assert_cmpuint(m->told - told, ==, err == -ENOMEM);
	return err;
}

/* What was undone may be held until a stream calls. */
static void adopt_failure(struct model *m)
{
	m->holds |= fixture_stats(&m->f).held > 0;
	model_adopt(m);
	model_check(m);
}

/* A copy counts as an allocation and a free, also one that came to nothing before the block grew where it is. */
static void count(struct model *m, bool copied, bool armed)
{
	m->mallocs += copied;
	m->frees += copied;
	if (armed)
		model_adopt(m);
}

/* Whether the pool has mapped a block at another address, which is no allocation. */
static bool is_remapped(struct model *m, uint64_t remapped)
{
	return m->f.pool->core.counts.remapped != remapped && fixture_stats(&m->f).mallocs == m->mallocs;
}

/* Whether there was memory. */
static bool try_realloc(struct model *m, const struct model_allocation *a, void **ptr, size_t size, bool *copied)
{
	uint64_t remapped = m->f.pool->core.counts.remapped;
	/* The driver's allocator serves no capture. */
	size_t most = model_is_captured(m, a->stream) ? MAX(size, m->page_size) : size;
	bool armed = m->armed;
	int err;

	err = call_realloc(m, a, ptr, size);
	if (err && !model_is_expected(m, err))
		g_error("%zu bytes to %zu: %d, %s", a->size, size, err, vpmm_last_error());
	model_disarm(m);
	if (err && armed) {
		adopt_failure(m);
		err = call_realloc(m, a, ptr, size);
	}
	if (err && (err != -ENOMEM || !model_lacks(m, most)))
		g_error("%zu bytes to %zu: %d, %s", a->size, size, err, vpmm_last_error());
	*copied = !err && *ptr != a->ptr && !is_remapped(m, remapped);
	if (err)
		adopt_failure(m);
	else
		count(m, *copied, armed);
	return !err;
}

/* The contents up to the smaller size, in the order of the stream. */
static void verify_kept(struct model *m, const struct model_allocation *a, const struct model_allocation *before)
{
	struct model_allocation kept = *before;

	kept.ptr = a->ptr;
	kept.size = MIN(a->size, before->size);
	model_work_launch(m, &kept, a->stream, kept.size < before->size ? model_work_verify_part : model_work_verify,
			  NULL);
}

/* What it has gained is as an allocation would have it. */
static void verify_gain(struct model *m, const struct model_allocation *a, const struct model_allocation *before)
{
	enum vpmm_scrub scrub = m->f.pool->core.settings.scrub;
	size_t from = (before->size + 7) & ~(size_t)7;
	struct model_allocation gain = *a;

	if (scrub == VPMM_SCRUB_STREAM && !model_is_captured(m, a->stream)) {
		model_work_launch(m, a, a->stream, model_work_verify_own, NULL);
	} else if (scrub == VPMM_SCRUB_ALWAYS && from < a->size) {
		gain.ptr += from;
		gain.size -= from;
		model_work_launch(m, &gain, a->stream, model_work_verify_zero, NULL);
	}
}

/* Nothing was freed, whoever looked at it once more. */
static void forget(struct model_held *held)
{
	held->ptr = NULL;
	held->bytes = 0;
	held->small = false;
}

/* The pool waits for the users of a growable block only if that becomes smaller. */
static void await_users(const struct model_allocation *a, const GPtrArray *users)
{
	for (guint i = 0; i < users->len; i++) {
		if (users->pdata[i] != a->stream)
			assert_ok(vpmm_host_stream_wait(a->stream, users->pdata[i]));
	}
}

/* They are its users still, of what it holds now. */
static void keep_users(struct model_allocation *a, const GPtrArray *users)
{
	for (guint i = 0; i < users->len; i++) {
		g_ptr_array_add(a->users, users->pdata[i]);
		if (users->pdata[i] != a->stream)
			assert_ok(vpmm_host_stream_wait(users->pdata[i], a->stream));
	}
}

/* The block is another one now, wherever it is. */
static void change(struct model *m, struct model_allocation *a, char *ptr, size_t size, bool copied,
		   struct model_held *held)
{
	const struct model_allocation before = *a;
	bool moved = ptr != before.ptr;

	if (before.first == a->stream)
		g_hash_table_insert(m->had, model_work_key(before.pattern), a->stream);
	a->ptr = ptr;
	a->size = size;
	if (!a->max)
		a->bytes = model_rounded(m, size);
	g_assert_true(!a->max || !moved);
	if (moved) {
		a->align = 0;
		g_array_set_size(a->graphs, 0);
	} else {
		g_assert_cmpuint(a->graphs->len, ==, 0);
		forget(held);
	}
	if (!copied)
		model_remove(m, &before);
	model_settle(m, a);
	model_add(m, a);
	if (copied)
		model_remove(m, &before);
	if (a->max && a->size >= before.size)
		await_users(a, before.users);
	verify_kept(m, a, &before);
	verify_gain(m, a, &before);
	model_work_launch(m, a, a->stream, model_work_fill, NULL);
	if (a->max)
		keep_users(a, before.users);
	g_ptr_array_free(before.users, TRUE);
	/* What the block has left, if it has moved, was not to be had. */
	if (a->bytes > before.bytes && !moved)
		model_judge_growth(m, a);
	model_note_allowance(m);
	m->mapped = model_taken(m);
	m->given_back = m->f.pool->core.extents.given_back;
}

static void refuse(struct model *m, const struct model_allocation *a, size_t size, int err)
{
	void *ptr = a->ptr;

	model_disarm(m);
	g_assert_cmpint(vpmm_realloc(m->f.pool, &ptr, size, a->stream), ==, err);
	g_assert_true(ptr == a->ptr);
	model_check(m);
}

void model_realloc(struct model *m, guint index, size_t size, struct CUstream_st *stream)
{
	struct model_allocation *a = m->live->pdata[index];
	struct model_held *held;
	bool copied;
	void *ptr;
	int err;

	if (a->apart) {
		refuse(m, a, size, size == a->size ? 0 : -ENOTSUP);
		return;
	}
	if (is_unclear(m, a, stream))
		return;
	model_move(m, index, stream);
	err = refusal(m, a);
	if (!err && a->max && size > a->max)
		err = -EINVAL;
	if (err) {
		refuse(m, a, size, err);
		return;
	}
	model_work_launch(m, a, a->stream, model_work_verify, NULL);
	held = model_hold(m, a);
	/* Whoever is asked for memory meanwhile must not free it. */
	g_ptr_array_steal_index_fast(m->live, index);
	if (try_realloc(m, a, &ptr, size, &copied)) {
		change(m, a, ptr, size, copied, held);
	} else {
		forget(held);
		g_ptr_array_add(m->live, a);
	}
	g_ptr_array_add(m->held, held);
}

static bool finds(struct model *m, const char *addr, struct vpmm_allocation *allocation)
{
	bool found;

	/* A pool on the fault backend is not among those that the library knows. */
	if (!m->faulty)
		return !vpmm_lookup(addr, allocation);
	lock_acquire(&m->f.pool->core.lock);
	found = !lookup_pool(m->f.pool, (uintptr_t)addr, allocation);
	lock_release(&m->f.pool->core.lock);
	return found;
}

static void assert_found(struct model *m, const struct model_allocation *a, size_t at)
{
	struct vpmm_allocation allocation = { .size = sizeof(allocation) };

	g_assert_true(finds(m, a->ptr + at, &allocation));
	g_assert_true(allocation.pool == m->f.pool);
	g_assert_true(allocation.base == a->ptr);
	g_assert_cmpuint(allocation.bytes, ==, a->size);
}

void model_lookup(struct model *m, guint index)
{
	struct vpmm_allocation allocation = { .size = sizeof(allocation) };
	const struct model_allocation *a = m->live->pdata[index];

	assert_found(m, a, 0);
	assert_found(m, a, a->size / 2);
	assert_found(m, a, a->size - 1);
	/* Of another block, or of none. */
	if (finds(m, a->ptr + a->size, &allocation))
		g_assert_true((char *)allocation.base == a->ptr + a->size);
}

void model_reset_peaks(struct model *m)
{
	if (model_may_fail(m, vpmm_pool_reset_peaks(m->f.pool))) {
		model_check(m);
		assert_ok(vpmm_pool_reset_peaks(m->f.pool));
	}
	m->peak_shown = m->bytes;
	m->peak_requested = m->requested;
}
