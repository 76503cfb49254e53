// SPDX-License-Identifier: LGPL-2.1-or-later
/* The policy of a pool, one rule a test, on the host backend. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "support/fixture.h"

static void open_default(struct fixture *f)
{
	fixture_open(f, (struct vpmm_opts){ FIXTURE_OPTS });
}

static void test_rounds_to_pages(void)
{
	struct fixture f;
	void *a, *b;

	open_default(&f);
	assert_ok(vpmm_malloc(f.pool, &a, PAGE, f.streams[0]));
	assert_ok(vpmm_malloc(f.pool, &b, PAGE + 1, f.streams[0]));
	assert_layout(&f, "[1][+2]");
	g_assert_cmpuint(fixture_stats(&f).live, ==, 3 * PAGE);
	fixture_close(&f);
}

static void test_larger_pages(void)
{
	struct fixture f;
	void *a;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PAGES(4 * PAGE), .pages = 2 });
	assert_ok(vpmm_malloc(f.pool, &a, 5 * PAGE, f.streams[0]));
	assert_layout(&f, "[+2]");
	g_assert_cmpuint((uintptr_t)a % (4 * PAGE), ==, 0);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 8 * PAGE);
	fixture_close(&f);
}

static void test_initial_pages(void)
{
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS, .pages = 7 });
	assert_layout(&f, "[-7]");
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 7 * PAGE);
	g_assert_cmpuint(fixture_stats(&f).creates, ==, 7);
	fixture_malloc(&f, 7, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).creates, ==, 7);
	fixture_close(&f);
}

static void test_grows_by_shortfall(void)
{
	struct fixture f;
	void *three;

	open_default(&f);
	three = fixture_malloc(&f, 3, f.streams[0]);
	fixture_malloc(&f, 1, f.streams[0]);
	fixture_free(&f, three, f.streams[0]);
	fixture_malloc(&f, 5, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 6 * PAGE);
	g_assert_cmpuint(fixture_stats(&f).grown, ==, 6 * PAGE);
	g_assert_cmpuint(fixture_stats(&f).remapped, ==, 3 * PAGE);
	fixture_close(&f);
}

static void test_second_chunk(void)
{
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_CHUNKS(4) });
	fixture_malloc(&f, 3, f.streams[0]);
	fixture_malloc(&f, 3, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).chunks, ==, 2);
	g_assert_cmpuint(fixture_stats(&f).reserved, ==, 8 * PAGE);
	fixture_close(&f);
}

static void test_larger_than_chunk(void)
{
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_CHUNKS(4) });
	fixture_malloc(&f, 9, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).chunks, ==, 2);
	g_assert_cmpuint(fixture_stats(&f).reserved, ==, 13 * PAGE);
	fixture_close(&f);
}

/* What is left of a region that another stream took from stays with the stream that freed it. */
static void test_leftover_keeps_stream(void)
{
	struct fixture f;
	void *a, *b;

	open_default(&f);
	a = fixture_malloc(&f, 5, f.streams[0]);
	fixture_free_at_work(&f, a, f.streams[0]);
	b = fixture_malloc(&f, 2, f.streams[0]);
	g_assert_true(a == b);
	fixture_malloc(&f, 3, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 0);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 5 * PAGE);
	fixture_close(&f);
}

/* Own pieces come first although others' are older; of the last piece only what is needed is taken, from its start. */
static void test_harvest_order(void)
{
	struct fixture f;
	void *a, *b, *c;

	open_default(&f);
	a = fixture_malloc(&f, 2, f.streams[1]);
	fixture_malloc(&f, 1, f.streams[0]);
	b = fixture_malloc(&f, 2, f.streams[0]);
	fixture_malloc(&f, 1, f.streams[0]);
	c = fixture_malloc(&f, 2, f.streams[0]);
	fixture_malloc(&f, 1, f.streams[0]);
	fixture_free_at_work(&f, a, f.streams[1]);
	fixture_free(&f, b, f.streams[0]);
	fixture_free(&f, c, f.streams[0]);
	assert_layout(&f, "[-2][1][-2][1][-2][1]");
	fixture_malloc(&f, 3, f.streams[0]);
	assert_layout(&f, "[-2][1][*2][1][*1][-1][1][+3]");
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 0);
	fixture_close(&f);
}

static void test_free_on_another_stream(void)
{
	struct fixture f;
	void *a, *b;

	open_default(&f);
	a = fixture_malloc(&f, 1, f.streams[0]);
	fixture_free_at_work(&f, a, f.streams[1]);
	b = fixture_malloc(&f, 1, f.streams[1]);
	g_assert_true(a == b);
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 0);
	fixture_close(&f);
}

static void test_default_streams(void)
{
	struct fixture f;
	void *a, *b;

	open_default(&f);
	a = fixture_malloc(&f, 1, NULL);
	fixture_free(&f, a, VPMM_HOST_STREAM_LEGACY);
	b = fixture_malloc(&f, 1, NULL);
	fixture_free(&f, b, VPMM_HOST_STREAM_PER_THREAD);
	g_assert_true(a == b);
	g_assert_cmpuint(fixture_stats(&f).streams, ==, 2);
	fixture_close(&f);
}

static void test_small_requests(void)
{
	struct fixture f;
	void *a;

	open_default(&f);
	assert_ok(vpmm_malloc(f.pool, &a, PAGE - 1, f.streams[0]));
	memset(a, 1, PAGE - 1);
	g_assert_cmpuint(fixture_stats(&f).small_live, ==, PAGE - 1);
	g_assert_cmpuint(fixture_stats(&f).small_mapped, >=, PAGE - 1);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 0);
	g_assert_cmpuint(fixture_stats(&f).mallocs, ==, 1);
	fixture_free(&f, a, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).small_live, ==, 0);
	g_assert_cmpuint(fixture_stats(&f).frees, ==, 1);
	assert_error(vpmm_free(f.pool, a, f.streams[0]), EINVAL, "no allocation");
	fixture_close(&f);
}

static void test_switched_off(void)
{
	struct fixture f;
	void *a;

	fixture_open(&f, (struct vpmm_opts){ .size = sizeof(struct vpmm_opts), .backend = "host", .page_size = SIZE_MAX });
	assert_ok(vpmm_malloc(f.pool, &a, 100 * PAGE, f.streams[0]));
	g_assert_cmpuint(fixture_stats(&f).reserved, ==, 0);
	g_assert_cmpuint(fixture_stats(&f).small_live, ==, 100 * PAGE);
	fixture_free(&f, a, f.streams[0]);
	fixture_close(&f);
}

static void test_page_larger_than_requests(void)
{
	struct fixture f;
	void *a;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PAGES((size_t)1 << 30) });
	assert_ok(vpmm_malloc(f.pool, &a, 100 * PAGE, f.streams[0]));
	g_assert_cmpuint(fixture_stats(&f).small_live, ==, 100 * PAGE);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 0);
	fixture_close(&f);
}

/* With VPMM_REUSE_BLOCK the caller waits for the oldest region that fits, and no stream waits for another. */
static void test_block_waits_for_oldest(void)
{
	struct fixture f;
	unsigned int pending;
	void *a, *b;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS, .reuse = VPMM_REUSE_BLOCK });
	a = fixture_malloc(&f, 2, f.streams[0]);
	fixture_free_at_work(&f, a, f.streams[0]);
	b = fixture_malloc(&f, 1, f.streams[1]);
	g_assert_true(a == b);
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 1);
	assert_ok(vpmm_host_stream_pending(f.streams[0], &pending));
	g_assert_cmpuint(pending, ==, 0);
	fixture_close(&f);
}

static void test_block_remaps_at_once(void)
{
	struct fixture f;
	void *a, *b;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS, .reuse = VPMM_REUSE_BLOCK });
	a = fixture_malloc(&f, 2, f.streams[0]);
	fixture_malloc(&f, 1, f.streams[0]);
	b = fixture_malloc(&f, 2, f.streams[1]);
	assert_ok(vpmm_host_stream_submit(f.streams[0]));
	assert_ok(vpmm_host_stream_submit(f.streams[1]));
	fixture_free(&f, a, f.streams[0]);
	fixture_free(&f, b, f.streams[1]);
	fixture_malloc(&f, 3, f.streams[1]);
	assert_layout(&f, "[*2][1][+3][-1]");
	g_assert_cmpuint(fixture_stats(&f).zombies, ==, 0);
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 2);
	fixture_close(&f);
}

static void test_two_pools(void)
{
	struct fixture f, g;
	void *a, *b;

	open_default(&f);
	open_default(&g);
	a = fixture_malloc(&f, 2, f.streams[0]);
	b = fixture_malloc(&g, 2, f.streams[0]);
	g_assert_true(a != b);
	assert_error(vpmm_free(g.pool, a, f.streams[0]), EINVAL, "no allocation");
	assert_error(vpmm_free(f.pool, b, f.streams[0]), EINVAL, "no allocation");
	fixture_free(&f, a, f.streams[0]);
	fixture_free(&g, b, f.streams[0]);
	assert_ok(vpmm_pool_check(g.pool));
	vpmm_pool_destroy(g.pool);
	for (int i = 0; i < STREAMS; i++)
		assert_ok(vpmm_host_stream_destroy(g.streams[i]));
	g_string_free(g.log, TRUE);
	fixture_close(&f);
}

static void test_two_devices(void)
{
	static const int second = 1;
	struct fixture f;
	struct vpmm_info info = { .size = sizeof(info) };
	struct CUstream_st *stream;
	void *a;

	g_setenv("VPMM_HOST_DEVICES", "2", TRUE);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS, .device = &second });
	assert_ok(vpmm_pool_info(f.pool, &info));
	g_assert_cmpint(info.device, ==, 1);
	assert_ok(vpmm_host_set_device(1));
	assert_ok(vpmm_host_stream_create(&stream));
	a = fixture_malloc(&f, 1, stream);
	fixture_free(&f, a, stream);
	assert_error(vpmm_malloc(f.pool, &a, PAGE, f.streams[0]), EINVAL, "device");
	assert_ok(vpmm_pool_check(f.pool));
	assert_ok(vpmm_host_stream_destroy(stream));
	assert_ok(vpmm_host_set_device(0));
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_DEVICES");
}

static void test_address_space_halved(void)
{
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ .size = sizeof(struct vpmm_opts), .backend = "host",
					     FIXTURE_PAGED, .va_size = (size_t)1 << 60, .log_level = VPMM_LOG_WARNING });
	g_assert_nonnull(strstr(f.log->str, "address space instead of"));
	fixture_malloc(&f, 1, f.streams[0]);
	fixture_close(&f);
}

/* A block that was made in part by waiting and has some left over: that part is free after the wait, for its stream. */
static void test_leftover_of_a_wait(void)
{
	struct fixture f;
	void *a, *b, *c;

	/* Own region of 2, then a live page, then one of another stream that ends at the hole. */
	open_default(&f);
	a = fixture_malloc(&f, 2, f.streams[0]);
	fixture_malloc(&f, 1, f.streams[0]);
	b = fixture_malloc(&f, 3, f.streams[1]);
	assert_ok(vpmm_host_stream_submit(f.streams[1]));
	fixture_free(&f, a, f.streams[0]);
	fixture_free(&f, b, f.streams[1]);
	assert_layout(&f, "[-2][1][-3]");
	c = fixture_malloc(&f, 4, f.streams[0]);
	g_assert_true(c == b);
	assert_layout(&f, "[*2][1][+4][-1]");
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 1);
	g_assert_cmpuint(fixture_stats(&f).remapped, ==, 2 * PAGE);

	/* The page that is left is pending until the second stream's work is done: a third stream has to wait. */
	fixture_malloc(&f, 1, f.streams[2]);
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 2);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 6 * PAGE);
	fixture_submit_waits(f.streams[2]);
	fixture_complete(f.streams[1]);
	fixture_complete(f.streams[2]);
	fixture_close(&f);
}

static void write_late(void *data)
{
	**(char **)data = 'l';
}

/* Memory of an owner at work moves on, unused by the next: its old address stays mapped until that owner is done. */
static void test_unused_and_moved(void)
{
	struct fixture f;
	char *p, *q;

	open_default(&f);
	p = fixture_malloc(&f, 1, f.streams[0]);
	fixture_malloc(&f, 1, f.streams[0]);
	assert_ok(vpmm_host_stream_launch(f.streams[0], write_late, &p));
	fixture_free(&f, p, f.streams[0]);
	q = fixture_malloc(&f, 1, f.streams[0]);
	fixture_free(&f, q, f.streams[1]);
	fixture_malloc(&f, 2, f.streams[2]);
	assert_layout(&f, "[~1][1][+2]");
	fixture_complete(f.streams[0]);
	fixture_malloc(&f, 1, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).zombies, ==, 0);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/pool/rounds-to-pages", test_rounds_to_pages);
	g_test_add_func("/pool/larger-pages", test_larger_pages);
	g_test_add_func("/pool/initial-pages", test_initial_pages);
	g_test_add_func("/pool/grows-by-shortfall", test_grows_by_shortfall);
	g_test_add_func("/pool/second-chunk", test_second_chunk);
	g_test_add_func("/pool/larger-than-chunk", test_larger_than_chunk);
	g_test_add_func("/pool/leftover-keeps-stream", test_leftover_keeps_stream);
	g_test_add_func("/pool/harvest-order", test_harvest_order);
	g_test_add_func("/pool/free-on-another-stream", test_free_on_another_stream);
	g_test_add_func("/pool/default-streams", test_default_streams);
	g_test_add_func("/pool/small-requests", test_small_requests);
	g_test_add_func("/pool/switched-off", test_switched_off);
	g_test_add_func("/pool/page-larger-than-requests", test_page_larger_than_requests);
	g_test_add_func("/pool/block-waits-for-oldest", test_block_waits_for_oldest);
	g_test_add_func("/pool/block-remaps-at-once", test_block_remaps_at_once);
	g_test_add_func("/pool/two-pools", test_two_pools);
	g_test_add_func("/pool/two-devices", test_two_devices);
	g_test_add_func("/pool/address-space-halved", test_address_space_halved);
	g_test_add_func("/pool/leftover-of-a-wait", test_leftover_of_a_wait);
	g_test_add_func("/pool/unused-and-moved", test_unused_and_moved);
	return g_test_run();
}
