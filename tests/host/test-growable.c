// SPDX-License-Identifier: LGPL-2.1-or-later
/* vpmm_malloc_growable(), and vpmm_realloc() of what it has allocated: it stays where it is, and nothing is copied. */
#include <errno.h>
#include <string.h>

#include "host/capture-fixture.h"
#include "host/realloc-fixture.h"
#include "host/tag-fixture.h"
#include "support/fault.h"

#define MOST (16 * PAGE)

static const struct kind kinds[] = { KINDS_SETTINGS };

static char *growable(struct fixture *f, size_t size, size_t max, struct CUstream_st *stream)
{
	void *ptr = NULL;

	assert_ok(vpmm_malloc_growable(f->pool, &ptr, size, max, stream));
	assert_ok(vpmm_pool_check(f->pool));
	return ptr;
}

static void grow(struct fixture *f, char *ptr, size_t size, struct CUstream_st *stream)
{
	g_assert_true(resize(f, ptr, size, stream) == ptr);
}

/* Streams wait for each other, to and fro. */
static void complete_all(struct fixture *f)
{
	for (int i = 0; i < 100; i++)
		vpmm_host_stream_complete(f->streams[i % STREAMS], UINT_MAX);
	for (int i = 0; i < STREAMS; i++)
		fixture_complete(f->streams[i]);
}

static const size_t sizes[] = { 1, 1000, PAGE, PAGE + 1, 5 * PAGE, 3 * PAGE, 7 * PAGE - 100, MOST, 2 * PAGE, 100,
				9 * PAGE, 4 * PAGE, MOST - 1, MOST };

/* All work is pending until the end, and other blocks come and go in between. */
static void contents(const struct kind *kind, bool crowded, unsigned int streams)
{
	struct text written[G_N_ELEMENTS(sizes)], read[G_N_ELEMENTS(sizes)];
	void *beside[G_N_ELEMENTS(sizes)] = { NULL };
	struct fixture f;
	char *ptr;

	fixture_open_faulty(&f, kind->opts);
	ptr = growable(&f, sizes[0], MOST, f.streams[0]);
	for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
		struct CUstream_st *stream = f.streams[i % streams];

		if (i && streams > 1)
			assert_ok(vpmm_host_stream_wait(stream, f.streams[(i - 1) % streams]));
		grow(&f, ptr, sizes[i], stream);
		if (i)
			check_on(stream, ptr, MIN(sizes[i], sizes[i - 1]), &read[i], written[i - 1].seed);
		write_on(stream, ptr, sizes[i], &written[i]);
		g_assert_cmpuint(fixture_stats(&f).requested, >=, sizes[i]);
		if (crowded)
			beside[i] = fixture_malloc_bytes(&f, 1 + sizes[i] / 3, f.streams[i % 2]);
		if (crowded && i % 3 == 2)
			fixture_free(&f, beside[i - 1], f.streams[i % 2]);
	}
	complete_all(&f);
	for (size_t i = 1; i < G_N_ELEMENTS(sizes); i++)
		g_assert_true(read[i].right);
	g_assert_cmpuint(copies(&f), ==, 0);
	fixture_free(&f, ptr, f.streams[0]);
	fixture_close(&f);
}

static void test_contents(gconstpointer kind)
{
	contents(kind, false, 1);
}

static void test_contents_crowded(gconstpointer kind)
{
	contents(kind, true, 1);
}

static void test_contents_streams(gconstpointer kind)
{
	contents(kind, true, 3);
}

static void test_bad(gconstpointer kind)
{
	void *ptr = NULL, *given;
	struct fixture f;

	fixture_open_faulty(&f, ((const struct kind *)kind)->opts);
	assert_error(vpmm_malloc_growable(f.pool, NULL, 1, 1, NULL), EINVAL, "vpmm_malloc_growable: ptr is NULL");
	assert_error(vpmm_malloc_growable(f.pool, &ptr, 0, PAGE, NULL), EINVAL, "size is 0");
	assert_error(vpmm_malloc_growable(f.pool, &ptr, PAGE + 1, PAGE, NULL), EINVAL, "max is below size");
	assert_error(vpmm_malloc_growable(f.pool, &ptr, 1, PAGE, VPMM_STREAM_ANY), EINVAL, "VPMM_STREAM_ANY");
	assert_error(vpmm_malloc_growable(f.pool, &ptr, 1, SIZE_MAX, f.streams[0]), ENOMEM,
		     "vpmm_malloc_growable: max is 18446744073709551615 bytes, more than a device can address");
	assert_error(vpmm_malloc_growable(f.pool, &ptr, 1, (size_t)1 << 61, f.streams[0]), ENOMEM, "address space");
	assert_error(vpmm_malloc_growable(f.pool, &ptr, 1, PAGE, (struct CUstream_st *)0x3), EINVAL, "growable: ");
	g_assert_null(ptr);
	given = ptr = growable(&f, PAGE, 3 * PAGE - 100, f.streams[0]);
	assert_error(vpmm_realloc(f.pool, &given, 3 * PAGE - 99, f.streams[0]), EINVAL, "at most");
	assert_error(vpmm_realloc(f.pool, &given, SIZE_MAX, f.streams[0]), EINVAL, "at most");
	g_assert_true(given == ptr);
	grow(&f, ptr, 3 * PAGE - 100, f.streams[0]);
	fixture_free(&f, ptr, f.streams[0]);
	assert_error(vpmm_free(f.pool, ptr, f.streams[0]), EINVAL, "no allocation");
	assert_error(vpmm_realloc(f.pool, &given, PAGE, f.streams[0]), EINVAL, "no allocation");
	g_assert_cmpuint(fixture_stats(&f).live, ==, 0);
	fixture_close(&f);
}

/* The maximum takes no memory, and is not live. */
static void test_counts(gconstpointer kind)
{
	struct vpmm_stats stats;
	struct fixture f;
	char *ptr;

	fixture_open_faulty(&f, ((const struct kind *)kind)->opts);
	ptr = growable(&f, 100, 100 * MOST, f.streams[0]);
	stats = fixture_stats(&f);
	g_assert_cmpuint(stats.live, ==, PAGE);
	g_assert_cmpuint(stats.requested, ==, 100);
	g_assert_cmpuint(stats.mapped, ==, PAGE);
	grow(&f, ptr, 3 * PAGE + 1, f.streams[0]);
	stats = fixture_stats(&f);
	g_assert_cmpuint(stats.live, ==, 4 * PAGE);
	g_assert_cmpuint(stats.requested, ==, 3 * PAGE + 1);
	g_assert_cmpuint(stats.mapped, ==, 4 * PAGE);
	grow(&f, ptr, 1, f.streams[0]);
	stats = fixture_stats(&f);
	g_assert_cmpuint(stats.live, ==, PAGE);
	g_assert_cmpuint(stats.requested, ==, 1);
	g_assert_cmpuint(stats.mapped, ==, 4 * PAGE);
	g_assert_cmpuint(stats.peak_live, ==, 4 * PAGE);
	g_assert_null(resize(&f, ptr, 0, f.streams[0]));
	stats = fixture_stats(&f);
	g_assert_cmpuint(stats.live + stats.requested, ==, 0);
	g_assert_cmpuint(stats.mallocs, ==, 1);
	g_assert_cmpuint(stats.frees, ==, 1);
	fixture_close(&f);
}

/* No other block gets an address that it may grow to; and it grows to each of them. */
static void test_keeps_its_addresses(gconstpointer kind)
{
	struct fixture f;
	char *ptr, *other;

	fixture_open_faulty(&f, ((const struct kind *)kind)->opts);
	ptr = growable(&f, 2 * PAGE, MOST, f.streams[0]);
	for (size_t i = 0; i < 40; i++) {
		grow(&f, ptr, (1 + i % 5) * PAGE, f.streams[0]);
		other = fixture_malloc_bytes(&f, (1 + i % 7) * PAGE / 2, f.streams[i % 2]);
		g_assert_true(other < ptr || other >= ptr + MOST);
		if (i % 3)
			fixture_free(&f, other, f.streams[i % 2]);
	}
	for (size_t i = 1; i <= 16; i++)
		grow(&f, ptr, i * PAGE, f.streams[0]);
	g_assert_cmpuint(copies(&f), ==, 0);
	fixture_close(&f);
}

/* Where the pool once served such a request in such a state, too. */
static void test_keeps_remembered_addresses(void)
{
	struct fixture f;
	char *ptr, *other;

	fixture_open(&f, (struct vpmm_opts){ .size = sizeof(struct vpmm_opts), .backend = "host",
					     .va_size = MOST });
	ptr = fixture_malloc(&f, 1, f.streams[0]);
	other = fixture_malloc(&f, 4, f.streams[0]);
	g_assert_true(other > ptr && other < ptr + MOST);
	fixture_free(&f, ptr, f.streams[0]);
	fixture_free(&f, other, f.streams[0]);
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	g_assert_true(growable(&f, PAGE, MOST, f.streams[0]) == ptr);
	grow(&f, ptr, MOST, f.streams[0]);
	grow(&f, ptr, PAGE, f.streams[0]);
	other = fixture_malloc(&f, 4, f.streams[0]);
	g_assert_true(other < ptr || other >= ptr + MOST);
	grow(&f, ptr, MOST, f.streams[0]);
	fixture_close(&f);
}

/* What the block gives back is its stream's at once, and another's behind it. */
static void test_shrinks(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *ptr, *next;

	fixture_open_faulty(&f, kind->opts);
	ptr = growable(&f, PAGE, MOST, f.streams[0]);
	grow(&f, ptr, 6 * PAGE, f.streams[0]);
	assert_ok(vpmm_host_stream_submit(f.streams[0]));
	grow(&f, ptr, PAGE, f.streams[0]);
	next = fixture_malloc(&f, 5, f.streams[1]);
	g_assert_true(next < ptr || next >= ptr + MOST);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 6 * PAGE);
	kind_submit_behind(kind, f.streams[1]);
	fixture_complete(f.streams[0]);
	fixture_complete(f.streams[1]);
	/* And back, while the old mappings are still there. */
	fixture_free(&f, next, f.streams[1]);
	grow(&f, ptr, 6 * PAGE, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 6 * PAGE);
	fixture_close(&f);
}

/* What it has given back, and nobody has taken, it gets again without a driver call that maps. */
static void test_grows_again(void)
{
	struct fixture f;
	uint64_t maps;
	char *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	ptr = growable(&f, 2 * PAGE, MOST, f.streams[0]);
	grow(&f, ptr, 8 * PAGE, f.streams[0]);
	assert_ok(vpmm_host_stream_submit(f.streams[0]));
	grow(&f, ptr, 2 * PAGE, f.streams[0]);
	maps = fixture_stats(&f).maps;
	grow(&f, ptr, 8 * PAGE, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).maps, ==, maps);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 8 * PAGE);
	fixture_complete(f.streams[0]);
	fixture_close(&f);
}

/* It grows into what other streams have freed, and waits for them. */
static void test_takes_what_is_free(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *ptr, *other;

	fixture_open_faulty(&f, kind->opts);
	other = fixture_malloc(&f, 4, f.streams[1]);
	ptr = growable(&f, PAGE, MOST, f.streams[0]);
	fixture_free_at_work(&f, other, f.streams[1]);
	assert_ok(vpmm_pool_trim(f.pool, SIZE_MAX, NULL));
	grow(&f, ptr, 5 * PAGE, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 5 * PAGE);
	kind_submit_behind(kind, f.streams[0]);
	fixture_complete(f.streams[1]);
	fixture_complete(f.streams[0]);
	fixture_close(&f);
}

/* The address space is anybody's after the free, and the next growable block's. */
static void test_free_gives_all_back(gconstpointer kind)
{
	uint64_t reserved = 0;
	struct fixture f;
	char *ptr;

	fixture_open_faulty(&f, ((const struct kind *)kind)->opts);
	for (int i = 0; i < 50; i++) {
		ptr = growable(&f, PAGE, MOST, f.streams[0]);
		grow(&f, ptr, (size_t)(1 + i % 7) * PAGE, f.streams[0]);
		if (i % 2)
			grow(&f, ptr, PAGE, f.streams[0]);
		fixture_free(&f, ptr, f.streams[i % 2]);
		fixture_complete(f.streams[1]);
		fixture_complete(f.streams[0]);
		reserved = reserved ? reserved : fixture_stats(&f).reserved;
	}
	g_assert_cmpuint(fixture_stats(&f).reserved, ==, reserved);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 0);
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	assert_ok(vpmm_pool_check(f.pool));
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 0);
	g_assert_cmpuint(fixture_stats(&f).holes, ==, reserved);
	fixture_close(&f);
}

/* The host need not know which stream used it last. */
static void test_free_behind_all(gconstpointer kind)
{
	struct fixture f;
	char *ptr, *next;

	fixture_open_faulty(&f, ((const struct kind *)kind)->opts);
	ptr = growable(&f, 3 * PAGE, MOST, f.streams[0]);
	fixture_free(&f, ptr, VPMM_STREAM_ANY);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 0);
	next = growable(&f, 3 * PAGE, MOST, f.streams[1]);
	fixture_free(&f, next, f.streams[1]);
	fixture_close(&f);
}

/* No cache serves it as if it could not grow. */
static void test_is_not_cached(gconstpointer kind)
{
	struct fixture f;
	char *ptr;
	void *given;

	fixture_open_faulty(&f, ((const struct kind *)kind)->opts);
	ptr = growable(&f, 2 * PAGE, MOST, f.streams[0]);
	fixture_free(&f, ptr, f.streams[0]);
	given = fixture_malloc(&f, 2, f.streams[0]);
	assert_ok(vpmm_realloc(f.pool, &given, MOST + PAGE, f.streams[0]));
	fixture_free(&f, given, f.streams[0]);
	fixture_close(&f);
}

/* Another stream that resizes it has it, behind what the first one has waited for. */
static void test_changes_hands(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *ptr, *other;

	fixture_open_faulty(&f, kind->opts);
	other = fixture_malloc(&f, 4, f.streams[2]);
	fixture_free_at_work(&f, other, f.streams[2]);
	ptr = growable(&f, 4 * PAGE, MOST, f.streams[0]);
	grow(&f, ptr, 5 * PAGE, f.streams[1]);
	fixture_free(&f, ptr, f.streams[1]);
	fixture_malloc(&f, 5, f.streams[1]);
	kind_submit_behind(kind, f.streams[1]);
	fixture_complete(f.streams[2]);
	fixture_complete(f.streams[0]);
	fixture_complete(f.streams[1]);
	fixture_close(&f);
}

/* Growth waits for no user; what it gives back, and its free, come after all of them. */
static void test_used(gconstpointer data)
{
	const struct kind *kind = data;
	struct text written;
	struct fixture f;
	char *ptr, *next;

	fixture_open_faulty(&f, kind->opts);
	ptr = growable(&f, 5 * PAGE, MOST, f.streams[0]);
	assert_ok(vpmm_use(f.pool, ptr, f.streams[1]));
	write_on(f.streams[1], ptr, 5 * PAGE, &written);
	grow(&f, ptr, 6 * PAGE, f.streams[0]);
	fixture_complete(f.streams[0]);
	grow(&f, ptr, PAGE, f.streams[0]);
	next = fixture_malloc(&f, 5, f.streams[0]);
	fixture_submit_waits(f.streams[0]);
	fixture_complete(f.streams[1]);
	fixture_complete(f.streams[0]);
	/* The user is one still. */
	assert_ok(vpmm_host_stream_submit(f.streams[1]));
	fixture_free(&f, ptr, f.streams[0]);
	fixture_free(&f, next, f.streams[0]);
	fixture_malloc(&f, 6, f.streams[2]);
	kind_submit_behind(kind, f.streams[2]);
	fixture_complete(f.streams[1]);
	fixture_complete(f.streams[2]);
	fixture_close(&f);
}

/* A capture can neither allocate nor resize it, and may use it: the graph then has all of it. */
static void test_captured(gconstpointer kind)
{
	struct vpmm_host_graph *graph;
	void *ptr, *given = NULL;
	struct fixture f;
	uint64_t id;

	fixture_open_faulty(&f, ((const struct kind *)kind)->opts);
	ptr = growable(&f, PAGE, MOST, f.streams[0]);
	grow(&f, ptr, 5 * PAGE, f.streams[0]);
	id = begin(&f, f.streams[1]);
	assert_error(vpmm_malloc_growable(f.pool, &given, PAGE, MOST, f.streams[1]), EBUSY, "capture");
	g_assert_null(given);
	given = ptr;
	assert_error(vpmm_realloc(f.pool, &given, 6 * PAGE, f.streams[1]), EBUSY, "capture");
	assert_ok(vpmm_use(f.pool, ptr, f.streams[1]));
	graph = end(f.streams[1]);
	grow(&f, ptr, 7 * PAGE, f.streams[0]);
	grow(&f, ptr, PAGE, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 7 * PAGE);
	g_assert_cmpuint(fixture_stats(&f).requested, ==, PAGE);
	fixture_free(&f, ptr, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 7 * PAGE);
	assert_ok(vpmm_host_graph_destroy(graph));
	assert_ok(vpmm_graph_retire(f.pool, id, f.streams[1]));
	g_assert_cmpuint(fixture_stats(&f).live, ==, 0);
	fixture_close(&f);
}

/* Nothing of a stranger is in what it gains, nor anything of it in what it loses. */
static void test_scrubbed(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *ptr;

	if (!kind->opts.scrub)
		return g_test_skip("the pool does not clear");
	fixture_open_faulty(&f, kind->opts);
	fixture_leave_secret(&f, 8 * PAGE, f.streams[1]);
	ptr = growable(&f, 100, MOST, f.streams[0]);
	g_assert_true(fixture_is_clear(ptr, PAGE));
	assert_scrubbed(&f, ptr, 100);
	fixture_close(&f);
}

static void test_limit(gconstpointer data)
{
	const struct kind *kind = data;
	struct vpmm_opts opts = kind->opts;
	struct fixture f;
	void *given, *ptr;

	opts.limit = 8 * PAGE;
	fixture_open_faulty(&f, opts);
	given = fixture_malloc(&f, 7, f.streams[1]);
	ptr = growable(&f, PAGE, MOST, f.streams[0]);
	fixture_free(&f, given, f.streams[1]);
	grow(&f, ptr, 2 * PAGE, f.streams[0]);
	grow(&f, ptr, 8 * PAGE, f.streams[0]);
	given = ptr;
	assert_error(vpmm_realloc(f.pool, &given, 9 * PAGE, f.streams[0]), ENOMEM, "vpmm_realloc: ");
	g_assert_true(given == ptr);
	assert_ok(vpmm_pool_check(f.pool));
	grow(&f, ptr, PAGE, f.streams[0]);
	given = NULL;
	assert_error(vpmm_malloc_growable(f.pool, &given, 8 * PAGE, MOST, f.streams[0]), ENOMEM, "limit");
	assert_ok(vpmm_pool_check(f.pool));
	fixture_free(&f, ptr, f.streams[0]);
	growable(&f, 8 * PAGE, MOST, f.streams[0]);
	fixture_close(&f);
}

/* Where reclaim ends the free of one, the next above it has its address space already, and no memory yet. */
static void test_ends_where_it_ends(gconstpointer data)
{
	const struct kind *kind = data;
	struct vpmm_opts opts = kind->opts;
	struct CUstream_st *user;
	struct fixture f;
	char *above, *below, *ptr;

	opts.limit = 4 * PAGE;
	fixture_open_faulty(&f, opts);
	above = growable(&f, PAGE, MOST + 8 * PAGE, f.streams[0]);
	below = growable(&f, 2 * PAGE, MOST, f.streams[0]);
	fixture_free(&f, above, f.streams[0]);
	assert_ok(vpmm_pool_trim(f.pool, 2 * PAGE, NULL));
	assert_ok(vpmm_host_stream_create(&user));
	assert_ok(vpmm_use(f.pool, below, user));
	assert_ok(vpmm_host_stream_destroy(user));
	assert_ok(vpmm_host_stream_submit(f.streams[1]));
	fixture_free(&f, below, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 2 * PAGE);
	ptr = growable(&f, 3 * PAGE, MOST, f.streams[0]);
	g_assert_true(ptr > below);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	assert_ok(vpmm_pool_check(f.pool));
	grow(&f, ptr, 4 * PAGE, f.streams[0]);
	fixture_free(&f, ptr, f.streams[0]);
	fixture_close(&f);
}

/* No part of a free extent can be mapped: one that is larger than what is missing stays free, or else is released. */
static void large_extents(size_t limit)
{
	struct fixture f;
	char *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .overhead = 25, .limit = limit });
	fixture_free(&f, fixture_malloc(&f, 128, f.streams[0]), f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).extents, <, 64);
	ptr = growable(&f, PAGE, MOST, f.streams[0]);
	grow(&f, ptr, 2 * PAGE, f.streams[0]);
	grow(&f, ptr, 3 * PAGE, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 3 * PAGE);
	fixture_close(&f);
}

static void test_large_extents(void)
{
	large_extents(0);
	large_extents(129 * PAGE);
}

/* An inner address is its own, one behind its size is nobody's. */
static void test_lookup(gconstpointer kind)
{
	struct vpmm_allocation found = { .size = sizeof(found) };
	struct fixture f;
	char *ptr;

	fixture_open(&f, ((const struct kind *)kind)->opts);
	ptr = growable(&f, 3 * PAGE - 100, MOST, f.streams[0]);
	assert_ok(vpmm_lookup(ptr + 3 * PAGE - 101, &found));
	g_assert_true(found.base == ptr);
	g_assert_cmpuint(found.bytes, ==, 3 * PAGE - 100);
	g_assert_cmpint(vpmm_lookup(ptr + 3 * PAGE - 100, &found), !=, 0);
	g_assert_cmpint(vpmm_lookup(ptr + 4 * PAGE, &found), !=, 0);
	grow(&f, ptr, 5 * PAGE, f.streams[0]);
	assert_ok(vpmm_lookup(ptr + 5 * PAGE - 1, &found));
	g_assert_cmpuint(found.bytes, ==, 5 * PAGE);
	fixture_close(&f);
}

/* Return: whether there was such a call to fail. */
static bool fail(const struct kind *kind, enum backend_op op, unsigned int skip)
{
	struct text written, read;
	struct fixture f;
	void *ptr, *given, *other;
	uint64_t calls;

	fixture_open_faulty(&f, kind->opts);
	other = fixture_malloc(&f, 2, f.streams[1]);
	given = ptr = growable(&f, 2 * PAGE, MOST, f.streams[0]);
	fixture_free(&f, other, f.streams[1]);
	write_on(f.streams[0], ptr, PAGE, &written);
	calls = backend_fault_calls(f.pool->core.backend, op);
	backend_fault_arm(f.pool->core.backend, op, skip, 1, -EIO);
	if (!vpmm_realloc(f.pool, &given, 7 * PAGE, f.streams[0]))
		vpmm_realloc(f.pool, &given, PAGE, f.streams[0]);
	g_assert_true(given == ptr);
	other = NULL;
	vpmm_malloc_growable(f.pool, &other, 3 * PAGE, MOST, f.streams[0]);
	backend_fault_arm(f.pool->core.backend, op, 0, 0, 0);
	calls = backend_fault_calls(f.pool->core.backend, op) - calls;
	assert_ok(vpmm_pool_check(f.pool));
	grow(&f, ptr, MOST, f.streams[0]);
	grow(&f, ptr, PAGE, f.streams[0]);
	check_on(f.streams[0], ptr, PAGE, &read, written.seed);
	fixture_complete(f.streams[0]);
	g_assert_true(read.right);
	fixture_free(&f, ptr, f.streams[0]);
	fixture_free(&f, other, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 0);
	fixture_close(&f);
	return calls > skip;
}

/* Whichever call of the driver fails, the block has its contents, and one size or the other. */
static void test_fails(gconstpointer kind)
{
	unsigned int calls = g_getenv("VPMM_TEST_STEPS") ? 1 : 3;

	for (enum backend_op op = 0; op < BACKEND_OP_COUNT; op++) {
		unsigned int skip = 0;

		while (skip < calls && fail(kind, op, skip))
			skip++;
	}
}

/* A block that gets no addresses leaves nothing. */
static void test_no_addresses(gconstpointer data)
{
	const struct kind *kind = data;
	void *none = NULL;
	struct fixture f;
	uint64_t before;

	fixture_open_faulty(&f, kind->opts);
	before = fixture_stats(&f).reserved;
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_reserve, 0, UINT_MAX, -ENOMEM);
	assert_error(vpmm_malloc_growable(f.pool, &none, PAGE, kind->opts.va_size + PAGE, f.streams[0]), ENOMEM,
		     "vpmm_malloc_growable");
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_reserve, 0, 0, 0);
	g_assert_null(none);
	assert_ok(vpmm_pool_check(f.pool));
	g_assert_cmpuint(fixture_stats(&f).reserved, ==, before);
	fixture_close(&f);
}

/* A resume joins extents, but none of a growable block with its neighbour's: the block can lose the end of its own. */
static void test_resumed(void)
{
	enum { COUNT = 96, PAGES = 3 };
	struct fixture f;
	vpmm_tag tag;
	void *blocks[COUNT];

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	tag = tag_get("growable", VPMM_TAG_PAUSABLE);
	vpmm_tag_set(tag);
	for (size_t i = 0; i < COUNT; i++) {
		assert_ok(vpmm_malloc_growable(f.pool, &blocks[i], PAGE, PAGES * PAGE, f.streams[0]));
		for (size_t pages = 2; pages <= PAGES; pages++)
			assert_ok(vpmm_realloc(f.pool, &blocks[i], pages * PAGE, f.streams[0]));
		tag_fill(blocks[i], PAGES * PAGE, i);
	}
	vpmm_tag_set(0);
	assert_ok(vpmm_pause(f.pool, tag, 0));
	assert_ok(vpmm_resume(f.pool, tag, VPMM_STREAM_ANY));
	assert_ok(vpmm_pool_check(f.pool));
	for (size_t i = 0; i < COUNT; i += 2)
		assert_ok(vpmm_realloc(f.pool, &blocks[i], PAGE / 2, f.streams[0]));
	assert_ok(vpmm_pool_check(f.pool));
	for (size_t i = 0; i < COUNT; i++) {
		g_assert_true(tag_is_filled(blocks[i], i % 2 ? PAGES * PAGE : PAGE / 2, i));
		assert_ok(vpmm_free(f.pool, blocks[i], f.streams[0]));
	}
	assert_ok(vpmm_pool_check(f.pool));
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/growable/grows-again", test_grows_again);
	g_test_add_func("/growable/keeps-remembered-addresses", test_keeps_remembered_addresses);
	g_test_add_func("/growable/large-extents", test_large_extents);
	g_test_add_func("/growable/resumed", test_resumed);
	fixture_add_rows("/growable/contents", kinds, test_contents);
	fixture_add_rows("/growable/contents-crowded", kinds, test_contents_crowded);
	fixture_add_rows("/growable/contents-streams", kinds, test_contents_streams);
	fixture_add_rows("/growable/bad", kinds, test_bad);
	fixture_add_rows("/growable/counts", kinds, test_counts);
	fixture_add_rows("/growable/keeps-its-addresses", kinds, test_keeps_its_addresses);
	fixture_add_rows("/growable/shrinks", kinds, test_shrinks);
	fixture_add_rows("/growable/takes-what-is-free", kinds, test_takes_what_is_free);
	fixture_add_rows("/growable/free-gives-all-back", kinds, test_free_gives_all_back);
	fixture_add_rows("/growable/free-behind-all", kinds, test_free_behind_all);
	fixture_add_rows("/growable/is-not-cached", kinds, test_is_not_cached);
	fixture_add_rows("/growable/changes-hands", kinds, test_changes_hands);
	fixture_add_rows("/growable/used", kinds, test_used);
	fixture_add_rows("/growable/captured", kinds, test_captured);
	fixture_add_rows("/growable/scrubbed", kinds, test_scrubbed);
	fixture_add_rows("/growable/limit", kinds, test_limit);
	fixture_add_rows("/growable/ends-where-it-ends", kinds, test_ends_where_it_ends);
	fixture_add_rows("/growable/lookup", kinds, test_lookup);
	fixture_add_rows("/growable/fails", kinds, test_fails);
	fixture_add_rows("/growable/no-addresses", kinds, test_no_addresses);
	return g_test_run();
}
