// SPDX-License-Identifier: LGPL-2.1-or-later
/* Pages that are pinned: they stay on the host, and who accesses them without a touch finds them. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calls/pool.h"
#include "shared/shared.h"
#include "support/fault.h"
#include "support/fixture.h"
#include "support/ranges.h"
#include "util/assume.h"

static bool is_pinned(struct fixture *f, const void *at)
{
	return ranges_page(f, at).flags & VPMM_PAGE_PINNED;
}

/* Of a page on the device, one on the host and an empty one: all go to the host and stay, and are counted. */
static void test_skipped(void)
{
	struct vpmm_shared_stats stats;
	struct fixture f;
	char *at;

	at = ranges_open_packed(&f, 4 * PAGE);
	at[0] = at[PAGE] = at[3 * PAGE] = 1;
	g_assert_cmpint(ranges_migrate(&f, at, PAGE, VPMM_DEVICE), ==, 1);
	assert_ok(vpmm_pin(f.pool, at + 5, 3 * PAGE - 5));
	stats = ranges_stats(&f);
	for (int i = 0; i < 4; i++) {
		g_assert_cmpint(ranges_page(&f, at + i * PAGE).location, ==, VPMM_HOST);
		g_assert_cmpuint(ranges_page(&f, at + i * PAGE).flags, ==, i < 3 ? VPMM_PAGE_PINNED : 0);
	}
	g_assert_cmpint(ranges_migrate(&f, at, 4 * PAGE, VPMM_DEVICE), ==, 1);
	g_assert_cmpuint(ranges_stats(&f).skipped - stats.skipped, ==, 3);
	g_assert_cmpint(vpmm_fault(f.pool, at, 4 * PAGE, VPMM_DEVICE, 0), ==, 0);
	g_assert_cmpuint(ranges_stats(&f).skipped - stats.skipped, ==, 6);
	/* Both use what is there, and no touch has to be served. */
	for (int i = 0; i < 3; i++) {
		at[i * PAGE + 1] = (char)(i + 1);
		g_assert_cmpint(((char *)vpmm_host_view(at))[i * PAGE + 1], ==, i + 1);
	}
	g_assert_cmpuint(ranges_stats(&f).faults, ==, stats.faults);
	assert_ok(vpmm_unpin(f.pool, at, 3 * PAGE));
	g_assert_cmpint(ranges_migrate(&f, at, 4 * PAGE, VPMM_DEVICE), ==, 3);
	assert_ok(vpmm_pool_check(f.pool));
	ranges_close(&f, at);
}

/* As often as it was pinned a page has to be unpinned; a call that cannot undo all undoes nothing. */
static void test_counted(void)
{
	struct fixture f;
	char *at;

	at = ranges_open_packed(&f, 2 * PAGE);
	assert_error(vpmm_pin(f.pool, at, 2 * PAGE + 1), EINVAL, "shared range");
	assert_error(vpmm_pin(NULL, &f, 1), EINVAL, "shared range");
	assert_error(vpmm_unpin(NULL, &f, 1), EINVAL, "shared range");
	assert_error(vpmm_unpin(f.pool, at, 2 * PAGE + 1), EINVAL, "shared range");
	assert_error(vpmm_unpin(f.pool, at, 1), EINVAL, "not pinned");
	assert_ok(vpmm_pin(NULL, at, 2 * PAGE));
	assert_ok(vpmm_pin(f.pool, at, 1));
	assert_ok(vpmm_unpin(NULL, at, 2 * PAGE));
	g_assert_true(is_pinned(&f, at));
	g_assert_false(is_pinned(&f, at + PAGE));
	assert_error(vpmm_unpin(f.pool, at, 2 * PAGE), EINVAL, "not pinned");
	g_assert_true(is_pinned(&f, at));
	assert_error(vpmm_shared_free(f.pool, at, NULL), EBUSY, "pinned");
	g_assert_cmpint(ranges_migrate(&f, at, 2 * PAGE, VPMM_DEVICE), ==, 1);
	assert_ok(vpmm_unpin(f.pool, at, 1));
	g_assert_cmpint(ranges_migrate(&f, at, 2 * PAGE, VPMM_DEVICE), ==, 1);
	assert_ok(vpmm_shared_free(f.pool, at, NULL));
	/* The end of the pool is that of its ranges, pinned or not. */
	at = ranges_alloc(&f, PAGE);
	assert_ok(vpmm_pin(f.pool, at, 1));
	fixture_close(&f);
}

/* A program that pins a page for each request may do so for long. */
static void test_often(void)
{
	struct fixture f;
	char *at;

	at = ranges_open_packed(&f, PAGE);
	at[0] = 1;
	ranges_first(&f)->pages[0].pins = UINT32_MAX;
	assert_ok(vpmm_pin(f.pool, at, 1));
	g_assert_true(is_pinned(&f, at));
	g_assert_cmpint(ranges_migrate(&f, at, 1, VPMM_DEVICE), ==, 0);
	assert_ok(vpmm_unpin(f.pool, at, 1));
	g_assert_true(is_pinned(&f, at));
	fixture_close(&f);
}

/* Of what is on the device, read mostly or preferred there, nothing stays. */
static void test_advised(void)
{
	static const enum vpmm_advice all[] = {
		VPMM_ADVISE_PREFER_HOST, VPMM_ADVISE_PREFER_DEVICE, VPMM_ADVISE_READ_MOSTLY
	};
	struct fixture f;
	char *at;

	at = ranges_open_packed(&f, 3 * PAGE);
	for (int i = 0; i < 3; i++) {
		at[i * PAGE] = 1;
		assert_ok(vpmm_advise(f.pool, at + i * PAGE, 1, all[i]));
	}
	g_assert_cmpint(ranges_migrate(&f, at, 3 * PAGE, VPMM_DEVICE), ==, 2);
	g_assert_cmpint(ranges_look(at + 2 * PAGE), ==, 1);
	assert_ok(vpmm_pin(f.pool, at, 3 * PAGE));
	for (int i = 0; i < 3; i++) {
		g_assert_cmpint(ranges_page(&f, at + i * PAGE).location, ==, VPMM_HOST);
		g_assert_cmpint(++at[i * PAGE], ==, 2);
		g_assert_cmpint(*(char *)vpmm_host_view(at + i * PAGE), ==, 2);
	}
	g_assert_cmpint(ranges_migrate(&f, at, 3 * PAGE, VPMM_DEVICE), ==, 0);
	assert_ok(vpmm_unpin(f.pool, at, 3 * PAGE));
	ranges_close(&f, at);
}

/* A view that has failed is there once the page is pinned, as nobody has to touch it. */
static void test_hidden(void)
{
	struct backend *be;
	struct fixture f;
	char *at;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	be = f.pool->core.backend;
	at = ranges_alloc(&f, PAGE);
	at[0] = 1;
	g_assert_cmpint(ranges_migrate(&f, at, 1, VPMM_DEVICE), ==, 1);
	backend_fault_arm(be, BACKEND_OP_show, 0, UINT_MAX, -ENOMEM);
	g_assert_cmpint(vpmm_fault(f.pool, at, 1, VPMM_HOST, 0), ==, -ENOMEM);
	g_assert_cmpint(vpmm_pin(f.pool, at, 1), ==, -ENOMEM);
	g_assert_false(is_pinned(&f, at));
	backend_fault_arm(be, BACKEND_OP_show, 0, 0, 0);
	assert_ok(vpmm_pin(f.pool, at, 1));
	g_assert_false(ranges_first(&f)->pages[0].hidden);
	g_assert_cmpint(at[0], ==, 1);
	assert_ok(vpmm_unpin(f.pool, at, 1));
	ranges_close(&f, at);
}

/*
 * System calls that are given pages on the device fail where touches are noticed without a privilege. While a page is
 * pinned none does, whatever other threads move, and what they write is there for both sides.
 */
#define PAGES 3

struct movers {
	struct fixture f;
	char *at;
	_Atomic bool stop;
};

static void *move_all(void *data)
{
	struct movers *movers = data;
	unsigned int seed = 9;

	while (!movers->stop) {
		size_t page = (size_t)rand_r(&seed) % PAGES, count = 1 + (size_t)rand_r(&seed) % (PAGES - page);
		int moved = ranges_migrate(&movers->f, movers->at + page * PAGE, count * PAGE,
					   rand_r(&seed) % 4 ? VPMM_DEVICE : VPMM_HOST);

		g_assert_cmpint(moved, >=, 0);
		assert_ok(vpmm_pool_check(movers->f.pool));
	}
	return NULL;
}

static void write_pinned(struct movers *movers, const int *pipes, size_t page, unsigned char value)
{
	char *at = movers->at + page * PAGE;
	ssize_t got;

	assert_ok(vpmm_pin(movers->f.pool, at, PAGE));
	g_assert_cmpint(write(pipes[1], &value, 1), ==, 1);
	got = read(pipes[0], at + PAGE - 1, 1);
	g_assert_cmpint(got, ==, 1);
	g_assert_cmpint(ranges_page(&movers->f, at).location, ==, VPMM_HOST);
	g_assert_cmpuint(((unsigned char *)vpmm_host_view(at))[PAGE - 1], ==, value);
	assert_ok(vpmm_unpin(movers->f.pool, at, PAGE));
}

static void test_moved(gconstpointer data)
{
	struct movers movers = { .stop = false };
	unsigned char values[PAGES] = { 0 };
	pthread_t threads[2];
	unsigned int seed = 4;
	int pipes[2], err;

	if (!ranges_open(&movers.f, data, (struct vpmm_opts){ FIXTURE_PACKED, .limit = PAGES * PAGE }, &movers.at,
			 PAGES * PAGE))
		return;
	memset(movers.at, 0, PAGES * PAGE);
	err = pipe(pipes);
	g_assert_cmpint(err, ==, 0);
	for (int i = 0; i < 2; i++) {
		err = pthread_create(&threads[i], NULL, move_all, &movers);
		g_assert_cmpint(err, ==, 0);
	}
	for (int i = 0; i < (SANITIZED ? 100 : 500); i++) {
		size_t page = (size_t)rand_r(&seed) % PAGES;

		write_pinned(&movers, pipes, page, ++values[page]);
	}
	movers.stop = true;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	for (size_t i = 0; i < PAGES; i++)
		g_assert_cmpuint(((unsigned char *)movers.at)[i * PAGE + PAGE - 1], ==, values[i]);
	close(pipes[0]);
	close(pipes[1]);
	assert_ok(vpmm_shared_free(movers.f.pool, movers.at, NULL));
	fixture_close(&movers.f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/shared-pin/skipped", test_skipped);
	g_test_add_func("/shared-pin/counted", test_counted);
	g_test_add_func("/shared-pin/often", test_often);
	g_test_add_func("/shared-pin/advised", test_advised);
	g_test_add_func("/shared-pin/hidden", test_hidden);
	g_test_add_data_func("/shared-pin/moved/user", &ranges_ways[RANGES_USER], test_moved);
	g_test_add_data_func("/shared-pin/moved/signal", &ranges_ways[RANGES_SIGNAL], test_moved);
	return g_test_run();
}
