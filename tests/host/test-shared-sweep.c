// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Each call of the backend fails once in the life of shared ranges: the call of the program that meets it says so or
 * does without, can be made again, and no byte is lost. Touches are answered in any case.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "calls/pool.h"
#include "support/fixture.h"
#include "vpmm-shared.h"

#define PAGES 2

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

static void test_sweep(gconstpointer data)
{
	const struct sweep *sweep = data;
	uint64_t calls = 1, skip;
	struct fixture f;

	for (skip = 0; skip < calls; skip++) {
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
	uint64_t calls = 1, skip;
	struct fixture f;
	void *at;

	for (skip = 0; skip < calls; skip++) {
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
 * A move that fails puts back what the device had, and if that fails, tries again before the streams go on; a driver that
 * fails for longer is asked once more by the next call that stops them. A kernel finds the page then.
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
	g_test_add_data_func("/shared-sweep/two", GUINT_TO_POINTER(2), test_in_a_row);
	g_test_add_data_func("/shared-sweep/three", GUINT_TO_POINTER(3), test_in_a_row);
	g_test_add_data_func("/shared-sweep/five", GUINT_TO_POINTER(5), test_in_a_row);
	g_test_add_data_func("/shared-sweep/put-back/map", GUINT_TO_POINTER(BACKEND_OP_map), test_put_back);
	g_test_add_data_func("/shared-sweep/put-back/access", GUINT_TO_POINTER(BACKEND_OP_access), test_put_back);
	g_test_add_data_func("/shared-sweep/pending/record", GUINT_TO_POINTER(BACKEND_OP_event_record), test_pending);
	g_test_add_data_func("/shared-sweep/pending/sync", GUINT_TO_POINTER(BACKEND_OP_event_sync), test_pending);
	return g_test_run();
}
