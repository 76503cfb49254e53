// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Who has to wait for whom: nobody has memory that another still works on, in pools of extents of any size, of pages
 * that are put together, and of pages alone. What streams keep in their caches is left out.
 */
#include <stdbool.h>
#include <string.h>

#include "calls/pool.h"
#include "core/wait-set.h"
#include "support/fixture.h"

/* Pools, and the size of a block. */
static const struct kind {
	const char *name;
	struct vpmm_opts opts;
	size_t size;
} kinds[] = {
	{ "large", { FIXTURE_PACKED }, 2 * PAGE },
	{ "odd", { FIXTURE_PACKED }, PAGE + 512 },
	{ "small", { FIXTURE_PACKED }, 512 },
	{ "paged", { FIXTURE_OPTS }, 2 * PAGE },
};

/* Those whose extents are a page each. */
static const struct kind of_pages[] = {
	{ "packed", { FIXTURE_PACKED, .extent_max = PAGE }, PAGE },
	{ "paged", { FIXTURE_OPTS }, PAGE },
};

/* A pool that creates no more memory because a stream would wait: what is tested is that it does. */
static void open_waiting(struct fixture *f, struct vpmm_opts opts)
{
	opts.overlap = VPMM_OVERLAP_NONE;
	fixture_open(f, opts);
	fixture_uncache(f);
}

static void open_kind(struct fixture *f, const struct kind *kind)
{
	open_waiting(f, kind->opts);
}

static void open_packed(struct fixture *f)
{
	open_waiting(f, (struct vpmm_opts){ FIXTURE_PACKED });
}

static void open_pages(struct fixture *f)
{
	open_waiting(f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE });
}

static void write_late(void *data)
{
	**(char **)data = 'l';
}

static void write_new(void *data)
{
	**(char **)data = 'n';
}

/* A stream gets what the first one has freed, without a wait. */
static void reused(const struct kind *kind, int stream, bool completed)
{
	struct fixture f;
	char *a, *b;

	open_kind(&f, kind);
	a = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	fixture_free_at_work(&f, a, f.streams[0]);
	if (completed)
		fixture_complete(f.streams[0]);
	b = fixture_malloc_bytes(&f, kind->size, f.streams[stream]);
	g_assert_true(a == b);
	g_assert_cmpuint(fixture_stats(&f).reuses, ==, 1);
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 0);
	fixture_close(&f);
}

static void test_own_memory_at_once(gconstpointer kind)
{
	reused(kind, 0, false);
}

static void test_takes_completed_of_others(gconstpointer kind)
{
	reused(kind, 2, true);
}

/* The only memory that there is goes to a stream whose work then comes after that of the one which had it. */
static void test_waits_on_device(gconstpointer kind)
{
	size_t size = ((const struct kind *)kind)->size;
	struct fixture f;
	char *a, *b;

	open_kind(&f, kind);
	a = fixture_malloc_bytes(&f, size, f.streams[0]);
	assert_ok(vpmm_host_stream_launch(f.streams[0], write_late, &a));
	fixture_free(&f, a, f.streams[0]);
	b = fixture_malloc_bytes(&f, size, f.streams[1]);
	g_assert_true(a == b);
	assert_ok(vpmm_host_stream_launch(f.streams[1], write_new, &b));
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 1);
	g_assert_cmpuint(fixture_stats(&f).steals, ==, 1);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, (size + PAGE - 1) / PAGE * PAGE);
	g_assert_cmpuint(fixture_stats(&f).remapped, ==, 0);
	fixture_assert_waits(f.streams[1]);
	fixture_complete(f.streams[0]);
	fixture_complete(f.streams[1]);
	g_assert_cmpint(*b, ==, 'n');
	fixture_close(&f);
}

/* Extents of two streams make one block for a third, which waits for both, and once for each. */
static void test_gathers_others(gconstpointer kind)
{
	struct fixture f;

	open_kind(&f, kind);
	fixture_free_apart(&f);
	fixture_malloc(&f, 5, f.streams[2]);
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 2);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 7 * PAGE);
	assert_ok(vpmm_host_stream_submit(f.streams[2]));
	fixture_complete(f.streams[0]);
	fixture_assert_waits(f.streams[2]);
	fixture_complete(f.streams[1]);
	fixture_complete(f.streams[2]);
	fixture_close(&f);
}

/* A third stream has nothing to do with what a second waited for, and comes after the first all the same. */
static void test_leftover_of_a_wait(void)
{
	struct fixture f;
	char *a, *b, *c;

	open_pages(&f);
	a = fixture_malloc(&f, 3, f.streams[0]);
	assert_ok(vpmm_host_stream_launch(f.streams[0], write_late, &a));
	fixture_free(&f, a, f.streams[0]);
	b = fixture_malloc(&f, 2, f.streams[1]);
	c = fixture_malloc(&f, 1, f.streams[2]);
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 2);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 3 * PAGE);
	g_assert_true(b != c);
	assert_ok(vpmm_host_stream_submit(f.streams[1]));
	assert_ok(vpmm_host_stream_submit(f.streams[2]));
	fixture_assert_waits(f.streams[1]);
	fixture_assert_waits(f.streams[2]);
	fixture_complete(f.streams[0]);
	fixture_complete(f.streams[1]);
	fixture_complete(f.streams[2]);
	fixture_close(&f);
}

static const struct takeover {
	const char *name;
	struct vpmm_opts opts;
	int second;
} takeovers[] = {
	{ "own", { FIXTURE_PACKED }, 0 },
	{ "other", { FIXTURE_PACKED }, 1 },
	{ "paged-own", { FIXTURE_OPTS }, 0 },
	{ "paged-other", { FIXTURE_OPTS }, 1 },
};

/*
 * Memory whose first owner is still at work goes to a second stream, which never uses it and has it freed on a third,
 * that knows nothing of either: a fourth has it only after the first.
 */
static void test_unused_and_freed_elsewhere(gconstpointer data)
{
	const struct takeover *takeover = data;
	struct fixture f;
	char *p, *q, *r;

	open_waiting(&f, takeover->opts);
	p = fixture_malloc(&f, 1, f.streams[0]);
	assert_ok(vpmm_host_stream_launch(f.streams[0], write_late, &p));
	fixture_free(&f, p, f.streams[0]);
	q = fixture_malloc(&f, 1, f.streams[takeover->second]);
	fixture_free(&f, q, f.streams[2]);
	r = fixture_malloc(&f, 1, f.streams[3]);
	g_assert_true(p == q && q == r);
	assert_ok(vpmm_host_stream_launch(f.streams[3], write_new, &r));
	fixture_assert_waits(f.streams[3]);
	fixture_complete(f.streams[0]);
	fixture_complete(f.streams[3]);
	g_assert_cmpint(*r, ==, 'n');
	fixture_close(&f);
}

/* The same in a block that was gathered: what is pending where a page came from holds up who has it in the end. */
static void test_unused_and_gathered(gconstpointer data)
{
	int second = GPOINTER_TO_INT(data);
	struct fixture f;
	char *p, *q, *r, *block;

	open_pages(&f);
	p = fixture_malloc(&f, 1, f.streams[0]);
	fixture_malloc(&f, 1, f.streams[0]);
	q = fixture_malloc(&f, 1, f.streams[0]);
	fixture_malloc(&f, 1, f.streams[0]);
	assert_ok(vpmm_host_stream_launch(f.streams[0], write_late, &p));
	fixture_free(&f, p, f.streams[0]);
	fixture_free(&f, q, f.streams[0]);
	block = fixture_malloc(&f, 2, f.streams[second]);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 4 * PAGE);
	fixture_free(&f, block, f.streams[2]);
	r = fixture_malloc(&f, 2, f.streams[3]);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 4 * PAGE);
	assert_ok(vpmm_host_stream_launch(f.streams[3], write_new, &r));
	fixture_assert_waits(f.streams[3]);
	fixture_complete(f.streams[0]);
	fixture_complete(f.streams[3]);
	g_assert_cmpint(*r, ==, 'n');
	fixture_close(&f);
}

/* The old owner's late work goes through the old address, to the very memory that is mapped elsewhere by now. */
static void test_old_addresses_work(gconstpointer kind)
{
	struct fixture f;
	char *a, *b, *block;
	size_t at;

	open_kind(&f, kind);
	a = fixture_malloc(&f, 1, f.streams[0]);
	fixture_malloc(&f, 1, f.streams[0]);
	b = fixture_malloc(&f, 1, f.streams[0]);
	fixture_malloc(&f, 1, f.streams[0]);
	memset(a, 'a', PAGE);
	memset(b, 'b', PAGE);
	assert_ok(vpmm_host_stream_launch(f.streams[0], write_late, &a));
	fixture_free(&f, a, f.streams[0]);
	fixture_free(&f, b, f.streams[0]);
	block = fixture_malloc(&f, 2, f.streams[1]);
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 1);
	at = block[0] == 'a' ? 0 : PAGE;
	g_assert_cmpint(block[at], ==, 'a');
	g_assert_cmpint(block[PAGE - at], ==, 'b');
	fixture_complete(f.streams[0]);
	g_assert_cmpint(block[at], ==, 'l');
	g_assert_cmpint(block[at + 1], ==, 'a');
	fixture_close(&f);
}

/* Memory moves, is given to others at its new place, and is asked for at the old one again: after those others. */
static void test_claimed_back(gconstpointer kind)
{
	struct fixture f;
	char *a, *b, *block, *again;

	open_kind(&f, kind);
	a = fixture_malloc(&f, 1, f.streams[0]);
	fixture_malloc(&f, 1, f.streams[0]);
	b = fixture_malloc(&f, 1, f.streams[0]);
	fixture_malloc(&f, 1, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	fixture_free(&f, b, f.streams[0]);
	block = fixture_malloc(&f, 2, f.streams[1]);
	assert_ok(vpmm_host_stream_launch(f.streams[1], write_late, &block));
	fixture_free(&f, block, f.streams[1]);
	for (int i = 0; i < 2; i++) {
		again = fixture_malloc(&f, 1, f.streams[2]);
		assert_ok(vpmm_host_stream_submit(f.streams[2]));
	}
	g_assert_nonnull(again);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 4 * PAGE);
	fixture_assert_waits(f.streams[2]);
	fixture_complete(f.streams[1]);
	fixture_complete(f.streams[2]);
	fixture_close(&f);
}

/* A free block of one stream beside one of another: whoever has both comes after both. */
static void test_row_of_two(void)
{
	struct fixture f;
	char *parts[2], *both;

	open_packed(&f);
	both = fixture_malloc_bytes(&f, 2 * (PAGE + 512), f.streams[0]);
	fixture_malloc_bytes(&f, PAGE - 1024, f.streams[0]);
	fixture_free(&f, both, f.streams[0]);
	for (int i = 0; i < 2; i++)
		parts[i] = fixture_malloc_bytes(&f, PAGE + 512, f.streams[i]);
	for (int i = 0; i < 2; i++) {
		assert_ok(vpmm_host_stream_launch(f.streams[i], write_late, &parts[i]));
		fixture_free(&f, parts[i], f.streams[i]);
	}
	both = fixture_malloc_bytes(&f, 2 * (PAGE + 512), f.streams[2]);
	assert_ok(vpmm_host_stream_submit(f.streams[2]));
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 3 * PAGE);
	g_assert_true(both == parts[0] || both == parts[1]);
	fixture_assert_waits(f.streams[2]);
	fixture_complete(f.streams[0]);
	fixture_assert_waits(f.streams[2]);
	fixture_complete(f.streams[1]);
	fixture_complete(f.streams[2]);
	fixture_close(&f);
}

/* With VPMM_REUSE_BLOCK the caller has waited when it has the memory, and no stream waits for another. */
static void test_block(gconstpointer data)
{
	size_t size = GPOINTER_TO_SIZE(data);
	struct fixture f;
	unsigned int pending;
	char *a[2];

	open_waiting(&f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE, .reuse = VPMM_REUSE_BLOCK });
	for (int i = 0; i < 2; i++) {
		a[i] = fixture_malloc_bytes(&f, size, f.streams[i]);
		fixture_malloc_bytes(&f, size, f.streams[3]);
	}
	for (int i = 0; i < 2; i++) {
		assert_ok(vpmm_host_stream_launch(f.streams[i], write_late, &a[i]));
		fixture_free(&f, a[i], f.streams[i]);
	}
	fixture_malloc_bytes(&f, 2 * size, f.streams[2]);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 4 * size);
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 2);
	for (int i = 0; i < 2; i++) {
		assert_ok(vpmm_host_stream_pending(f.streams[i], &pending));
		g_assert_cmpuint(pending, ==, 0);
	}
	assert_ok(vpmm_host_stream_submit(f.streams[2]));
	assert_ok(vpmm_host_stream_complete(f.streams[2], 1));
	fixture_close(&f);
}

/* When a whole page of small memory is pending, a small request waits rather than take more. */
static void test_small_and_pending(void)
{
	char *small[64], *first, *late;
	struct fixture f;
	uint64_t mapped;

	open_packed(&f);
	for (int i = 0; i < 64; i++) {
		small[i] = fixture_malloc_bytes(&f, PAGE / 64, f.streams[0]);
		assert_ok(vpmm_host_stream_launch(f.streams[0], write_late, &small[i]));
	}
	first = small[0];
	for (int i = 0; i < 64; i++)
		fixture_free(&f, small[i], f.streams[0]);
	mapped = fixture_stats(&f).mapped;
	g_assert_cmpuint(mapped, ==, PAGE);
	late = fixture_malloc_bytes(&f, PAGE / 64, f.streams[1]);
	assert_ok(vpmm_host_stream_launch(f.streams[1], write_new, &late));
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, mapped);
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 1);
	fixture_assert_waits(f.streams[1]);
	fixture_complete(f.streams[0]);
	fixture_complete(f.streams[1]);
	g_assert_cmpint(*late, ==, 'n');
	g_assert_cmpint(*first, ==, late == first ? 'n' : 'l');
	fixture_close(&f);
}

/* Small memory freed on a stream that knows nothing of the one which had it before. */
static void test_small_freed_elsewhere(void)
{
	struct fixture f;
	char *p, *q, *r = NULL;
	void *ptr;

	open_packed(&f);
	p = fixture_malloc_bytes(&f, 512, f.streams[0]);
	assert_ok(vpmm_host_stream_launch(f.streams[0], write_late, &p));
	fixture_free(&f, p, f.streams[0]);
	q = fixture_malloc_bytes(&f, 512, f.streams[0]);
	g_assert_true(p == q);
	fixture_free(&f, q, f.streams[2]);
	/* All that the page has, and so that piece too. */
	for (size_t i = 0; i < PAGE / 512; i++) {
		assert_ok(vpmm_malloc(f.pool, &ptr, 512, f.streams[3]));
		r = ptr == p ? p : r;
	}
	g_assert_true(r == p);
	g_assert_cmpuint(fixture_stats(&f).spans, ==, PAGE);
	assert_ok(vpmm_host_stream_launch(f.streams[3], write_new, &r));
	fixture_assert_waits(f.streams[3]);
	fixture_complete(f.streams[0]);
	fixture_complete(f.streams[3]);
	g_assert_cmpint(*r, ==, 'n');
	fixture_close(&f);
}

/* Events of one stream: the latest stands for all. Those of others: one for each stream. */
static void test_order(void)
{
	struct stream own = { .id = 1 }, other = { .id = 2 }, third = { .id = 3 };
	struct event events[5] = {
		{ .stream = &own, .refs = 9, .seq = 1 }, { .stream = &own, .refs = 9, .seq = 2 },
		{ .stream = &other, .refs = 9, .seq = 7 }, { .stream = &other, .refs = 9, .seq = 5 },
		{ .stream = &third, .refs = 9, .seq = 1, .passed = true },
	};
	static const int sequence[] = { 1, 0, 3, 2, 3, 4 };
	struct order order;

	order_init(&order, &own);
	order_add(&order, &(struct region){ .size = PAGE });
	g_assert_true(order_is_ready(&order));
	for (size_t i = 0; i < G_N_ELEMENTS(sequence); i++)
		order_add(&order, &(struct region){ .event = &events[sequence[i]] });
	g_assert_true(order.own == &events[1]);
	g_assert_cmpuint(order.others->len, ==, 1);
	g_assert_true(order.others->pdata[0] == &events[2]);
	g_assert_false(order_is_ready(&order));
	g_assert_cmpuint(events[1].refs, ==, 10);
	g_assert_cmpuint(events[2].refs, ==, 10);
	order_clear(&order);
	for (size_t i = 0; i < G_N_ELEMENTS(events); i++)
		g_assert_cmpuint(events[i].refs, ==, 9);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	fixture_add_rows("/order/own-memory-at-once", kinds, test_own_memory_at_once);
	fixture_add_rows("/order/takes-completed-of-others", kinds, test_takes_completed_of_others);
	fixture_add_rows("/order/waits-on-device", kinds, test_waits_on_device);
	fixture_add_rows("/order/gathers-others", of_pages, test_gathers_others);
	g_test_add_func("/order/leftover-of-a-wait", test_leftover_of_a_wait);
	fixture_add_rows("/order/unused-and-freed-elsewhere", takeovers, test_unused_and_freed_elsewhere);
	g_test_add_data_func("/order/unused-and-gathered/own", GINT_TO_POINTER(0), test_unused_and_gathered);
	g_test_add_data_func("/order/unused-and-gathered/other", GINT_TO_POINTER(1), test_unused_and_gathered);
	fixture_add_rows("/order/old-addresses-work", of_pages, test_old_addresses_work);
	fixture_add_rows("/order/claimed-back", of_pages, test_claimed_back);
	g_test_add_func("/order/row-of-two", test_row_of_two);
	g_test_add_data_func("/order/block/one", GSIZE_TO_POINTER(PAGE), test_block);
	g_test_add_data_func("/order/block/several", GSIZE_TO_POINTER(3 * PAGE), test_block);
	g_test_add_func("/order/small-and-pending", test_small_and_pending);
	g_test_add_func("/order/small-freed-elsewhere", test_small_freed_elsewhere);
	g_test_add_func("/order/events", test_order);
	return g_test_run();
}
