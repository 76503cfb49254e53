// SPDX-License-Identifier: LGPL-2.1-or-later
/* Each driver call of a pause and of a resume fails, once, twice and from then on: all, or nothing. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "backend/backend.h"
#include "calls/pool.h"
#include "host/tag-fixture.h"
#include "support/fault.h"

static const char *const op_names[] = {
	[BACKEND_OP_COUNT] = "any",
#define X(name) #name,
	BACKEND_FAULT_OPS(X)
#undef X
};

#define BLOCKS 4

/**
 * struct trial - a pool with a tag, of which one operation is to fail
 * @f: the pool, on the fault backend
 * @tag: the tag
 * @ptrs: its blocks: the last is of VPMM_TAG_DROP
 * @flags: of the pause
 * @op: which operation
 * @skip: how many calls of it pass
 * @count: how many fail
 */
struct trial {
	struct fixture f;
	vpmm_tag tag;
	void *ptrs[BLOCKS];
	unsigned int flags;
	enum backend_op op;
	unsigned int skip;
	unsigned int count;
};

static size_t size_of(int i)
{
	return i % 2 ? PAGE : PAGE / 4 + 4096;
}

static void open_trial(struct trial *t, const struct vpmm_opts *opts)
{
	void *gap;

	fixture_open_faulty(&t->f, *opts);
	t->tag = tag_get("tag", VPMM_TAG_PAUSABLE);
	for (int i = 0; i < BLOCKS; i++) {
		gap = tag_malloc(t->f.pool, t->tag, PAGE, 0, t->f.streams[0]);
		t->ptrs[i] = tag_malloc(t->f.pool, t->tag | (i == BLOCKS - 1 ? VPMM_TAG_DROP : 0), size_of(i),
					(uint64_t)i, t->f.streams[0]);
		assert_ok(vpmm_free(t->f.pool, gap, t->f.streams[0]));
	}
}

static void assert_contents(const struct trial *t, bool all)
{
	for (int i = 0; i < BLOCKS - !all; i++) {
		if (!tag_is_filled(t->ptrs[i], size_of(i), (uint64_t)i))
			g_error("%s, call %u fails %u times: block %d is not what it was", op_names[t->op],
				t->skip + 1, t->count, i);
	}
}

static void check(const struct trial *t)
{
	if (vpmm_pool_check(t->f.pool))
		g_error("%s, call %u fails %u times: %s", op_names[t->op], t->skip + 1, t->count, vpmm_last_error());
}

static void arm(const struct trial *t, unsigned int count)
{
	backend_fault_arm(t->f.pool->core.backend, t->op, t->skip, count, t->op == BACKEND_OP_create ||
			  t->op == BACKEND_OP_host_create ? -ENOMEM : -EIO);
}

static bool is_paused(const struct trial *t)
{
	return tag_stats(t->f.pool, t->tag).paused;
}

/* What to compare: nothing may have stayed or gone. */
static uint64_t held(const struct trial *t)
{
	return t->f.pool->core.extents.own_taken;
}

static void try_pause(struct trial *t)
{
	int err;

	arm(t, t->count);
	err = vpmm_pause(t->f.pool, t->tag, t->flags);
	arm(t, 0);
	check(t);
	/* Undoing can fail as well only where several calls fail. */
	g_assert_true(!err || !is_paused(t) || t->count > 1);
	g_assert_true(err || is_paused(t));
	if (!is_paused(t)) {
		assert_contents(t, true);
		tag_malloc(t->f.pool, t->tag, PAGE, 1, t->f.streams[1]);
		assert_ok(vpmm_pause(t->f.pool, t->tag, t->flags));
	}
}

static void try_resume(struct trial *t)
{
	uint64_t before = held(t);
	int err;

	arm(t, t->count);
	err = vpmm_resume(t->f.pool, t->tag, t->f.streams[0]);
	arm(t, 0);
	check(t);
	g_assert_true(!err == !is_paused(t));
	if (err && t->count == 1)
		g_assert_cmpuint(held(t), ==, before);
	assert_ok(vpmm_resume(t->f.pool, t->tag, t->f.streams[0]));
	if (!t->flags)
		assert_contents(t, false);
}

static void end_trial(struct trial *t)
{
	check(t);
	memset(t->ptrs[BLOCKS - 1], 1, size_of(BLOCKS - 1));
	for (int i = 0; i < BLOCKS; i++)
		fixture_free(&t->f, t->ptrs[i], t->f.streams[0]);
	tag_malloc(t->f.pool, t->tag, 2 * PAGE, 1, t->f.streams[1]);
	fixture_close(&t->f);
}

/* A pause or a resume, in which the operation fails, and then the other. */
static void run(struct trial *t, const struct vpmm_opts *opts, bool resume, uint64_t calls[BACKEND_OP_COUNT])
{
	struct backend *be;

	open_trial(t, opts);
	be = t->f.pool->core.backend;
	if (resume)
		assert_ok(vpmm_pause(t->f.pool, t->tag, t->flags));
	for (int op = 0; op < BACKEND_OP_COUNT && calls; op++)
		calls[op] = backend_fault_calls(be, op);
	if (resume)
		try_resume(t);
	else
		try_pause(t);
	for (int op = 0; op < BACKEND_OP_COUNT && calls; op++)
		calls[op] = backend_fault_calls(be, op) - calls[op];
	if (!resume)
		assert_ok(vpmm_resume(t->f.pool, t->tag, t->f.streams[0]));
	if (!t->flags)
		assert_contents(t, false);
	end_trial(t);
}

/* Of many calls of an operation these are enough. */
#define SKIPS 6

/* One after the other, each call of each operation. */
static unsigned int sweep(const struct vpmm_opts *opts, unsigned int flags, unsigned int count, bool resume)
{
	struct trial none = { .flags = flags };
	uint64_t calls[BACKEND_OP_COUNT];
	unsigned int runs = 0;

	run(&none, opts, resume, calls);
	for (int op = 0; op < BACKEND_OP_COUNT; op++) {
		for (unsigned int skip = 0; skip < MIN(calls[op], SKIPS); skip++, runs++) {
			struct trial t = { .flags = flags, .op = op, .skip = skip, .count = count };

			run(&t, opts, resume, NULL);
		}
	}
	return runs;
}

static void test_sweep(gconstpointer data)
{
	const struct vpmm_opts packed = { FIXTURE_PACKED, .extent_max = PAGE }, paged = { FIXTURE_OPTS };
	bool resume = GPOINTER_TO_INT(data);
	unsigned int runs;

	runs = sweep(&packed, 0, 1, resume);
	runs += sweep(&packed, VPMM_PAUSE_DROP, 2, resume);
	runs += sweep(&packed, 0, UINT_MAX, resume);
	runs += sweep(&paged, 0, 1, resume);
	g_test_message("%u runs", runs);
}

/*
 * All calls fail from one on, until the pause succeeds. If undoing fails as well, nothing is lost, not even if the
 * first try to resume fails.
 */
static void test_undo(void)
{
	struct vpmm_opts opts = { FIXTURE_PACKED, .scrub = VPMM_SCRUB_STREAM };
	unsigned int stuck = 0;
	int err = -EIO;

	/* Memory in two chunks takes two calls to unmap. */
	opts.va_size = 8 * PAGE;
	for (unsigned int skip = 0; err; skip++) {
		struct trial t = { .op = BACKEND_OP_COUNT, .skip = skip };
		void *last;

		open_trial(&t, &opts);
		last = tag_malloc(t.f.pool, t.tag, 6 * PAGE, 1, t.f.streams[0]);
		arm(&t, UINT_MAX);
		err = vpmm_pause(t.f.pool, t.tag, VPMM_PAUSE_DROP);
		arm(&t, 0);
		check(&t);
		if (err && is_paused(&t)) {
			stuck++;
			t.skip = 0;
			t.op = BACKEND_OP_access;
			arm(&t, UINT_MAX);
			g_assert_cmpint(vpmm_resume(t.f.pool, t.tag, t.f.streams[0]), ==, -EIO);
			arm(&t, 0);
			check(&t);
		}
		assert_ok(vpmm_resume(t.f.pool, t.tag, t.f.streams[0]));
		if (err)
			assert_contents(&t, true);
		fixture_free(&t.f, last, t.f.streams[0]);
		end_trial(&t);
	}
	g_assert_cmpuint(stuck, >, 0);
}

/* A release that the driver refuses at first counts as given back, once. */
static void test_stray_given_back(void)
{
	vpmm_tag tag = tag_get("a", VPMM_TAG_PAUSABLE);
	struct vpmm_stats before, paused;
	struct backend *be;
	struct fixture f;
	void *ptr;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	be = f.pool->core.backend;
	ptr = tag_malloc(f.pool, tag, 5 * PAGE, 1, f.streams[0]);
	before = fixture_stats(&f);
	backend_fault_arm(be, BACKEND_OP_release, 0, UINT_MAX, -EIO);
	assert_ok(vpmm_pause(f.pool, tag, 0));
	backend_fault_arm(be, BACKEND_OP_release, 0, 0, 0);
	paused = fixture_stats(&f);
	g_assert_cmpuint(paused.given_back - before.given_back, ==, before.mapped - paused.mapped);
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	g_assert_cmpuint(fixture_stats(&f).given_back, ==, paused.given_back);
	assert_ok(vpmm_resume(f.pool, tag, f.streams[0]));
	fixture_free(&f, ptr, f.streams[0]);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_data_func("/pause-failure/pause", GINT_TO_POINTER(false), test_sweep);
	g_test_add_data_func("/pause-failure/resume", GINT_TO_POINTER(true), test_sweep);
	g_test_add_func("/pause-failure/undo", test_undo);
	g_test_add_func("/pause-failure/stray-given-back", test_stray_given_back);
	return g_test_run();
}
