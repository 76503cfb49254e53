// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Each call of the backend fails once in the life of shared ranges: the call of the program that meets it says so or
 * does without, can be made again, and no byte is lost. Touches are answered in any case.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "calls/pool.h"
#include "support/fault.h"
#include "support/fixture.h"
#include "support/setting.h"
#include "vpmm-shared.h"

#define PAGES 2

/* So many failures in a row leave no page of a range without memory. */
#define PUT_BACK 3

/* So many calls of the program have failed; only one may for each failure of the backend, and each is made again. */
static unsigned int failed;

#define AGAIN(call) \
	({ \
		int ret_ = (call); \
		if (ret_ < 0) { \
			failed++; \
			ret_ = (call); \
		} \
		if (ret_ < 0) \
			g_error("%s:%d: %s: %d, %s", __FILE__, __LINE__, #call, ret_, vpmm_last_error()); \
		ret_; \
	})

static void add_one(void *data)
{
	++*(unsigned char *)data;
}

static void expect(const unsigned char *at, const unsigned char *values)
{
	for (size_t i = 0; i < PAGES; i++) {
		g_assert_cmpuint(at[i * PAGE], ==, values[i]);
		g_assert_cmpuint(at[i * PAGE + PAGE - 1], ==, values[i]);
	}
}

static void put(unsigned char *at, const unsigned char *values)
{
	for (size_t i = 0; i < PAGES; i++)
		at[i * PAGE] = at[i * PAGE + PAGE - 1] = values[i];
}

static bool all_on_device(struct fixture *f, const void *at)
{
	struct vpmm_page pages[PAGES];
	bool all = true;

	g_assert_cmpint(vpmm_locate(f->pool, at, PAGES * PAGE, pages), ==, PAGES);
	for (int i = 0; i < PAGES; i++)
		all = all && pages[i].location == VPMM_DEVICE;
	return all;
}

static bool any_on_device(struct fixture *f, const void *at)
{
	struct vpmm_page pages[PAGES];
	bool any = false;

	g_assert_cmpint(vpmm_locate(f->pool, at, PAGES * PAGE, pages), ==, PAGES);
	for (int i = 0; i < PAGES; i++)
		any = any || pages[i].location == VPMM_DEVICE;
	return any;
}

static void live(struct fixture *f)
{
	static const unsigned char first[PAGES] = { 1, 2 }, second[PAGES] = { 9, 8 };
	static const unsigned char changed[PAGES] = { 2, 2 };
	void *at, *other, *block;

	AGAIN(vpmm_shared_alloc(f->pool, &at, PAGES * PAGE, VPMM_SHARED_FINE));
	AGAIN(vpmm_shared_alloc(f->pool, &other, PAGES * PAGE, VPMM_SHARED_FINE));
	put(at, first);
	put(other, second);
	AGAIN(vpmm_use(f->pool, at, f->streams[1]));
	AGAIN(vpmm_migrate(f->pool, at, PAGES * PAGE, VPMM_DEVICE, f->streams[0], NULL, NULL));
	/* What failed half way goes on with the next. */
	AGAIN(vpmm_fault(f->pool, at, PAGES * PAGE, VPMM_DEVICE, 0));
	g_assert_true(all_on_device(f, at));
	for (size_t i = 0; i < PAGES; i++)
		g_assert_cmpuint(*(unsigned char *)vpmm_host_view((char *)at + i * PAGE), ==, first[i]);
	/* Both do not fit. */
	AGAIN(vpmm_fault(f->pool, other, PAGES * PAGE, VPMM_DEVICE, 0));
	for (size_t i = 0; i < PAGES; i++)
		g_assert_cmpuint(*(unsigned char *)vpmm_host_view((char *)at + i * PAGE), ==, first[i]);
	assert_ok(vpmm_host_stream_launch(f->streams[1], add_one, vpmm_host_view(at)));
	assert_ok(vpmm_host_stream_launch(f->streams[1], add_one, vpmm_host_view((char *)at + PAGE - 1)));
	fixture_complete(f->streams[1]);
	expect(at, changed);
	expect(other, second);
	AGAIN(vpmm_migrate(f->pool, at, PAGES * PAGE, VPMM_DEVICE, f->streams[0], NULL, NULL));
	AGAIN(vpmm_migrate(f->pool, at, PAGE, VPMM_HOST, f->streams[0], NULL, NULL));
	expect(at, changed);
	AGAIN(vpmm_migrate(f->pool, at, PAGES * PAGE, VPMM_DEVICE, f->streams[0], NULL, NULL));
	/* What fails has pinned nothing, so one call undoes it in any case. */
	AGAIN(vpmm_pin(f->pool, at, PAGES * PAGE));
	AGAIN(vpmm_migrate(f->pool, at, PAGES * PAGE, VPMM_DEVICE, f->streams[0], NULL, NULL));
	g_assert_false(any_on_device(f, at));
	assert_ok(vpmm_unpin(f->pool, at, PAGES * PAGE));
	assert_error(vpmm_unpin(f->pool, at, PAGES * PAGE), EINVAL, "pinned");
	expect(at, changed);
	AGAIN(vpmm_stream_retire(f->pool, f->streams[1]));
	AGAIN(vpmm_migrate(f->pool, at, PAGES * PAGE, VPMM_DEVICE, f->streams[0], NULL, NULL));
	AGAIN(vpmm_malloc(f->pool, &block, 3 * PAGE, f->streams[0]));
	memset(block, 0x77, 3 * PAGE);
	expect(at, changed);
	expect(other, second);
	AGAIN(vpmm_free(f->pool, block, f->streams[0]));
	AGAIN(vpmm_pool_check(f->pool));
	AGAIN(vpmm_shared_free(f->pool, at, f->streams[0]));
	AGAIN(vpmm_pool_trim(f->pool, 0, NULL));
	AGAIN(vpmm_shared_free(f->pool, other, f->streams[0]));
}

/* The same of pages that are read mostly: on both sides, written by the CPU, pushed out, and single again. */
static void live_mostly(struct fixture *f)
{
	static const unsigned char first[PAGES] = { 1, 2 }, changed[PAGES] = { 7, 2 };
	volatile unsigned char *seen;
	void *at, *block;

	AGAIN(vpmm_shared_alloc(f->pool, &at, PAGES * PAGE, VPMM_SHARED_FINE));
	put(at, first);
	AGAIN(vpmm_use(f->pool, at, f->streams[1]));
	AGAIN(vpmm_advise(f->pool, at, PAGES * PAGE, VPMM_ADVISE_READ_MOSTLY));
	AGAIN(vpmm_migrate(f->pool, at, PAGES * PAGE, VPMM_DEVICE, f->streams[0], NULL, NULL));
	AGAIN(vpmm_fault(f->pool, at, PAGES * PAGE, VPMM_DEVICE, 0));
	expect(at, first);
	AGAIN(vpmm_pool_check(f->pool));
	seen = at;
	seen[0] = seen[PAGE - 1] = 7;
	expect(at, changed);
	expect(vpmm_host_view(at), changed);
	AGAIN(vpmm_fault(f->pool, at, PAGES * PAGE, VPMM_DEVICE, 0));
	AGAIN(vpmm_malloc(f->pool, &block, 3 * PAGE, f->streams[0]));
	expect(vpmm_host_view(at), changed);
	expect(at, changed);
	AGAIN(vpmm_free(f->pool, block, f->streams[0]));
	AGAIN(vpmm_migrate(f->pool, at, PAGES * PAGE, VPMM_DEVICE, f->streams[0], NULL, NULL));
	AGAIN(vpmm_advise(f->pool, at, PAGES * PAGE, VPMM_ADVISE_NONE));
	AGAIN(vpmm_pool_check(f->pool));
	expect(at, changed);
	AGAIN(vpmm_migrate(f->pool, at, PAGES * PAGE, VPMM_HOST, f->streams[0], NULL, NULL));
	AGAIN(vpmm_shared_free(f->pool, at, f->streams[0]));
}

struct sweep {
	void (*live)(struct fixture *f);
	int err;
	uint64_t least;			/* so many calls at least */
};

static uint64_t first_call(void)
{
	return (uint64_t)g_test_rand_int_range(0, (int)setting_sweep(1));
}

static void test_sweep(gconstpointer data)
{
	const struct sweep *sweep = data;
	uint64_t calls = UINT64_MAX, skip;
	struct fixture f;

	for (skip = first_call(); skip < calls; skip += setting_sweep(1)) {
		struct backend *be;

		fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 4 * PAGE });
		be = f.pool->core.backend;
		calls = backend_fault_calls(be, BACKEND_OP_COUNT);
		failed = 0;
		backend_fault_arm(be, BACKEND_OP_COUNT, (unsigned int)skip, 1, sweep->err);
		sweep->live(&f);
		backend_fault_arm(be, BACKEND_OP_COUNT, 0, 0, 0);
		g_assert_cmpuint(failed, <=, 1);
		calls = backend_fault_calls(be, BACKEND_OP_COUNT) - calls;
		fixture_close(&f);
	}
	g_test_message("%" PRIu64 " calls", calls);
	g_assert_cmpuint(calls, >, sweep->least);
}

/* Pairs of calls that fail */

#define PAIRS 4

/*
 * A pool of four pages at most, one of which empty pages read. A stream uses a range of which the first page is on the
 * device, and the second is not.
 */
struct scene {
	struct fixture f;
	unsigned char *at;
	void *ptr;
};

static int act_alloc(struct scene *s)
{
	return vpmm_shared_alloc(s->f.pool, &s->ptr, PAGES * PAGE, VPMM_SHARED_FINE);
}

static int act_use(struct scene *s)
{
	return vpmm_use(s->f.pool, s->at, s->f.streams[2]);
}

static int act_to_device(struct scene *s)
{
	return vpmm_migrate(s->f.pool, s->at, PAGES * PAGE, VPMM_DEVICE, s->f.streams[0], NULL, NULL);
}

static int act_to_host(struct scene *s)
{
	return vpmm_migrate(s->f.pool, s->at, PAGES * PAGE, VPMM_HOST, s->f.streams[0], NULL, NULL);
}

static int act_fault(struct scene *s)
{
	return vpmm_fault(s->f.pool, s->at, PAGES * PAGE, VPMM_DEVICE, 0);
}

static int act_pin(struct scene *s)
{
	return vpmm_pin(s->f.pool, s->at, PAGES * PAGE);
}

static int act_advise(struct scene *s)
{
	int err = vpmm_advise(s->f.pool, s->at, PAGES * PAGE, VPMM_ADVISE_READ_MOSTLY);

	return err ? err : act_to_device(s);
}

static int act_malloc(struct scene *s)
{
	return vpmm_malloc(s->f.pool, &s->ptr, 3 * PAGE, s->f.streams[0]);
}

static int act_trim(struct scene *s)
{
	return vpmm_pool_trim(s->f.pool, 0, NULL);
}

static int act_free(struct scene *s)
{
	int err = vpmm_shared_free(s->f.pool, s->at, s->f.streams[0]);

	s->at = err ? s->at : NULL;
	return err;
}

/* No work with a range is left to do once its stream is retired. */
static int act_retire(struct scene *s)
{
	unsigned int pending;
	int err = vpmm_stream_retire(s->f.pool, s->f.streams[1]);

	assert_ok(vpmm_host_stream_pending(s->f.streams[1], &pending));
	g_assert_true(err || !pending);
	return err;
}

static const struct action {
	const char *name;
	int (*act)(struct scene *s);
} actions[] = {
	{ "alloc", act_alloc }, { "use", act_use }, { "to-device", act_to_device }, { "to-host", act_to_host },
	{ "fault", act_fault }, { "pin", act_pin }, { "advise", act_advise }, { "malloc", act_malloc },
	{ "trim", act_trim }, { "free", act_free }, { "retire", act_retire },
};

static void begin(struct scene *s)
{
	static const unsigned char values[PAGES] = { 1, 2 };
	void *at;

	fixture_open_faulty(&s->f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 4 * PAGE });
	assert_ok(vpmm_shared_alloc(s->f.pool, &at, PAGES * PAGE, VPMM_SHARED_FINE));
	s->at = at;
	put(s->at, values);
	assert_ok(vpmm_use(s->f.pool, at, s->f.streams[1]));
	g_assert_cmpint(vpmm_fault(s->f.pool, at, PAGE, VPMM_DEVICE, 0), ==, 1);
	assert_ok(vpmm_host_stream_launch(s->f.streams[1], add_one, vpmm_host_view(at)));
	assert_ok(vpmm_host_stream_launch(s->f.streams[1], add_one, vpmm_host_view(s->at + PAGE - 1)));
}

/* The work of the stream is done, and no byte is lost; the pool has all of its memory again. */
static void end(struct scene *s)
{
	static const unsigned char values[PAGES] = { 2, 2 };

	fixture_complete(s->f.streams[1]);
	assert_ok(vpmm_pool_check(s->f.pool));
	if (s->at) {
		expect(s->at, values);
		g_assert_cmpint(act_to_device(s), >=, 0);
		for (size_t i = 0; i < PAGES; i++)
			g_assert_cmpuint(*(unsigned char *)vpmm_host_view(s->at + i * PAGE), ==, values[i]);
		expect(s->at, values);
		vpmm_unpin(s->f.pool, s->at, PAGES * PAGE);
		assert_ok(act_free(s));
	}
	fixture_close(&s->f);
}

/* Returns how many calls failed. */
static uint64_t run_pair(const struct action *action, unsigned int skip, unsigned int gap, unsigned int more, int error)
{
	struct scene s = { 0 };
	struct backend *be;
	uint64_t fails;
	int err;

	begin(&s);
	be = s.f.pool->core.backend;
	backend_fault_arm_next(be, gap, more, -EIO);
	backend_fault_arm(be, BACKEND_OP_COUNT, skip, 1, error);
	err = action->act(&s);
	backend_fault_arm(be, BACKEND_OP_COUNT, 0, 0, 0);
	fails = backend_fault_failed(be);
	backend_fault_arm_next(be, 0, 0, 0);
	/* What could not be moved away is memory that a request lacks. */
	if (err < 0 && (!fails || (err != -EIO && err != -ENOMEM)))
		g_error("call %u and %u later: %d: %s", skip, gap + 1, err, vpmm_last_error());
	assert_ok(vpmm_pool_check(s.f.pool));
	if (err < 0 && action->act(&s) < 0)
		g_error("call %u and %u later: fails again: %s", skip, gap + 1, vpmm_last_error());
	end(&s);
	return fails;
}

/* One call fails, and each behind it. */
static uint64_t run_pairs(const struct action *action, unsigned int skip, int error)
{
	uint64_t fails = 2;

	for (unsigned int gap = 0; fails > 1; gap++) {
		fails = run_pair(action, skip, gap, 1, error);
		if (fails > 1)
			run_pair(action, skip, gap, PUT_BACK, error);
	}
	return fails;
}

/* Two calls fail, or more: some pairs at random, so many as VPMM_TEST_PAIRS says, or with "all" each. */
static void test_pairs(gconstpointer data)
{
	const struct action *action = data;
	unsigned int calls = 0;

	while (run_pair(action, calls, 0, 0, -EIO))
		calls++;
	if (!g_strcmp0(g_getenv("VPMM_TEST_PAIRS"), "all")) {
		for (unsigned int i = 0; i < 2 * calls; i++)
			run_pairs(action, i / 2, i % 2 ? -EIO : -ENOMEM);
		return;
	}
	for (unsigned int i = 0; i < setting("VPMM_TEST_PAIRS", PAIRS); i++)
		run_pair(action, (unsigned int)g_test_rand_int_range(0, (int)calls),
			 (unsigned int)g_test_rand_int_range(0, 1 << g_test_rand_int_range(0, 5)),
			 g_test_rand_bit() ? 1 : PUT_BACK, g_test_rand_bit() ? -EIO : -ENOMEM);
}

/* With several failures in a row undoing fails, too: a call may be made again a few times, and no byte is lost. */
static void persist(struct fixture *f, void *at, enum vpmm_location to)
{
	int err = -EIO;

	for (int i = 0; i < 8 && err < 0; i++)
		err = vpmm_fault(f->pool, at, PAGES * PAGE, to, 0);
	if (err < 0)
		g_error("%d, %s", err, vpmm_last_error());
}

static void fail_in_a_row(unsigned int count, enum vpmm_advice advice)
{
	static const unsigned char values[PAGES] = { 3, 4 };
	uint64_t calls = UINT64_MAX, skip;
	struct fixture f;
	void *at;

	for (skip = first_call(); skip < calls; skip += setting_sweep(1)) {
		struct backend *be;

		fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
		be = f.pool->core.backend;
		assert_ok(vpmm_shared_alloc(f.pool, &at, PAGES * PAGE, VPMM_SHARED_FINE));
		put(at, values);
		assert_ok(vpmm_advise(f.pool, at, PAGES * PAGE, advice));
		assert_ok(vpmm_use(f.pool, at, f.streams[1]));
		/* So that there is memory for all pages on both sides: what is not made cannot be lost. */
		persist(&f, at, VPMM_DEVICE);
		persist(&f, at, VPMM_HOST);
		calls = backend_fault_calls(be, BACKEND_OP_COUNT);
		backend_fault_arm(be, BACKEND_OP_COUNT, (unsigned int)skip, count, -EIO);
		persist(&f, at, VPMM_DEVICE);
		persist(&f, at, VPMM_HOST);
		backend_fault_arm(be, BACKEND_OP_COUNT, 0, 0, 0);
		calls = backend_fault_calls(be, BACKEND_OP_COUNT) - calls;
		assert_ok(vpmm_pool_check(f.pool));
		expect(at, values);
		/* What each page has for kernels is its own, and nobody else's. */
		persist(&f, at, VPMM_DEVICE);
		for (size_t i = 0; i < PAGES; i++)
			g_assert_cmpuint(*(unsigned char *)vpmm_host_view((char *)at + i * PAGE), ==, values[i]);
		expect(at, values);
		assert_ok(vpmm_shared_free(f.pool, at, f.streams[0]));
		fixture_close(&f);
	}
	g_assert_cmpuint(calls, >, 30);
}

static void test_in_a_row(gconstpointer data)
{
	fail_in_a_row(GPOINTER_TO_UINT(data), VPMM_ADVISE_NONE);
	fail_in_a_row(GPOINTER_TO_UINT(data), VPMM_ADVISE_READ_MOSTLY);
}

/*
 * A move that fails puts back what the device had, and if that fails, tries again before the streams go on; a driver
 * that fails for longer is asked once more by the next call that stops them. A kernel finds the page then.
 */
static void test_put_back(gconstpointer data)
{
	static const unsigned char values[PAGES] = { 3, 4 }, changed[PAGES] = { 4, 4 };
	enum backend_op op = GPOINTER_TO_UINT(data);
	struct fixture f;
	void *at;

	for (unsigned int count = 1; count <= 8; count++) {
		struct backend *be;

		fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
		be = f.pool->core.backend;
		assert_ok(vpmm_shared_alloc(f.pool, &at, PAGES * PAGE, VPMM_SHARED_FINE));
		put(at, values);
		assert_ok(vpmm_use(f.pool, at, f.streams[1]));
		persist(&f, at, VPMM_DEVICE);
		persist(&f, at, VPMM_HOST);
		backend_fault_arm(be, op, 0, count, -EIO);
		g_assert_cmpint(vpmm_fault(f.pool, at, PAGE, VPMM_DEVICE, 0), ==, -EIO);
		backend_fault_arm(be, op, 0, 0, 0);
		/* The first failure, and twice to put it back. */
		if (count > 3)
			g_assert_cmpint(vpmm_fault(f.pool, (char *)at + PAGE, PAGE, VPMM_DEVICE, 0), ==, 1);
		assert_ok(vpmm_host_stream_launch(f.streams[1], add_one, vpmm_host_view(at)));
		assert_ok(vpmm_host_stream_launch(f.streams[1], add_one, vpmm_host_view((char *)at + PAGE - 1)));
		fixture_complete(f.streams[1]);
		expect(at, changed);
		assert_ok(vpmm_pool_check(f.pool));
		assert_ok(vpmm_shared_free(f.pool, at, f.streams[0]));
		fixture_close(&f);
	}
}

/*
 * What was submitted may be pending behind a gate, so with the gate closed nobody waits for it. Copies whose end cannot
 * be told otherwise are over when the call returns, all the same.
 */
static void test_pending(gconstpointer data)
{
	static const unsigned char values[PAGES] = { 3, 4 };
	enum backend_op op = GPOINTER_TO_UINT(data);
	unsigned char other = 0;
	struct fixture f;
	struct backend *be;
	void *at;

	for (unsigned int count = 1; count <= 4; count++) {
		fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
		be = f.pool->core.backend;
		assert_ok(vpmm_shared_alloc(f.pool, &at, PAGES * PAGE, VPMM_SHARED_FINE));
		put(at, values);
		assert_ok(vpmm_use(f.pool, at, f.streams[1]));
		assert_ok(vpmm_host_stream_launch(f.streams[2], add_one, &other));
		backend_fault_arm(be, op, 0, count, -EIO);
		g_assert_cmpint(vpmm_fault(f.pool, at, PAGES * PAGE, VPMM_DEVICE, 0), ==, -EIO);
		backend_fault_arm(be, op, 0, 0, 0);
		fixture_complete(f.streams[2]);
		expect(at, values);
		persist(&f, at, VPMM_DEVICE);
		expect(at, values);
		assert_ok(vpmm_pool_check(f.pool));
		assert_ok(vpmm_shared_free(f.pool, at, f.streams[0]));
		fixture_close(&f);
	}
}

int main(int argc, char **argv)
{
	static const struct sweep io = { live, -EIO, 100 }, memory = { live, -ENOMEM, 100 };
	static const struct sweep mostly_io = { live_mostly, -EIO, 50 }, mostly_memory = { live_mostly, -ENOMEM, 50 };

	g_test_init(&argc, &argv, NULL);
	g_test_add_data_func("/shared-sweep/io", &io, test_sweep);
	g_test_add_data_func("/shared-sweep/memory", &memory, test_sweep);
	g_test_add_data_func("/shared-sweep/mostly-io", &mostly_io, test_sweep);
	g_test_add_data_func("/shared-sweep/mostly-memory", &mostly_memory, test_sweep);
	for (size_t i = 0; i < G_N_ELEMENTS(actions); i++) {
		char *path = g_strdup_printf("/shared-sweep/pairs/%s", actions[i].name);

		g_test_add_data_func(path, &actions[i], test_pairs);
		g_free(path);
	}
	g_test_add_data_func("/shared-sweep/two", GUINT_TO_POINTER(2), test_in_a_row);
	g_test_add_data_func("/shared-sweep/three", GUINT_TO_POINTER(3), test_in_a_row);
	g_test_add_data_func("/shared-sweep/five", GUINT_TO_POINTER(5), test_in_a_row);
	g_test_add_data_func("/shared-sweep/put-back/map", GUINT_TO_POINTER(BACKEND_OP_map), test_put_back);
	g_test_add_data_func("/shared-sweep/put-back/access", GUINT_TO_POINTER(BACKEND_OP_access), test_put_back);
	g_test_add_data_func("/shared-sweep/pending/record", GUINT_TO_POINTER(BACKEND_OP_event_record), test_pending);
	g_test_add_data_func("/shared-sweep/pending/sync", GUINT_TO_POINTER(BACKEND_OP_event_sync), test_pending);
	return g_test_run();
}
