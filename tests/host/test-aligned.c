// SPDX-License-Identifier: LGPL-2.1-or-later
/* vpmm_malloc_aligned(): every alignment up to a page, in every kind of pool, beside other blocks. */
#include <errno.h>
#include <string.h>

#include "support/fixture.h"
#include "support/kinds.h"

static const size_t sizes[] = { 1, 512, 700, 5000, 130000, PAGE - 1, PAGE, 2 * PAGE + 512 };

static char *aligned(struct fixture *f, size_t size, size_t alignment, struct CUstream_st *stream)
{
	void *ptr = NULL;

	assert_ok(vpmm_malloc_aligned(f->pool, &ptr, size, alignment, stream));
	g_assert_nonnull(ptr);
	g_assert_cmpuint((uintptr_t)ptr % alignment, ==, 0);
	return ptr;
}

struct pool_kind {
	const char *name;
	struct vpmm_opts opts;
};

static const struct pool_kind pools[] = {
	{ "packed", { FIXTURE_PACKED } },
	{ "paged", { FIXTURE_OPTS } },
	{ "driver", { FIXTURE_PACKED, .small = VPMM_SMALL_DRIVER } },
	{ "scrub", { FIXTURE_PACKED, .scrub = VPMM_SCRUB_ALWAYS } },
	{ "block", { FIXTURE_PACKED, .reuse = VPMM_REUSE_BLOCK } },
};

/* Each block has what it was asked for and nothing of another's; what is left beside it serves others. */
static void test_each(gconstpointer data)
{
	const struct pool_kind *kind = data;
	struct vpmm_allocation found = { .size = sizeof(found) };
	char *ptrs[G_N_ELEMENTS(sizes)], *beside[G_N_ELEMENTS(sizes)];
	struct fixture f;

	fixture_open(&f, kind->opts);
	for (size_t alignment = 1; alignment <= PAGE; alignment *= 8) {
		for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
			ptrs[i] = memset(aligned(&f, sizes[i], alignment, f.streams[i % 2]), (int)i, sizes[i]);
			beside[i] = memset(fixture_malloc_bytes(&f, 512 * (i + 1), f.streams[0]), 77, 512 * (i + 1));
			assert_ok(vpmm_lookup(ptrs[i] + sizes[i] - 1, &found));
			g_assert_true(found.base == ptrs[i]);
			g_assert_cmpuint(found.bytes, ==, sizes[i]);
		}
		assert_ok(vpmm_pool_check(f.pool));
		for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
			g_assert_true(fixture_is_filled(ptrs[i], sizes[i], (char)i));
			g_assert_true(fixture_is_filled(beside[i], 512 * (i + 1), 77));
			fixture_free(&f, ptrs[i], f.streams[(i + alignment) % 2]);
			fixture_free(&f, beside[i], f.streams[0]);
		}
	}
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	g_assert_cmpuint(fixture_stats(&f).live, ==, 0);
	fixture_close(&f);
}

/* A program that repeats itself takes no more memory: what alignment leaves beside a block comes back with it. */
static void test_repeated(void)
{
	struct vpmm_stats stats;
	struct fixture f;
	char *ptrs[20];
	uint64_t mapped = 0;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (int pass = 0; pass < 10; pass++) {
		for (size_t i = 0; i < G_N_ELEMENTS(ptrs); i++)
			ptrs[i] = aligned(&f, 300000 + 512 * i, 4096, f.streams[0]);
		for (size_t i = 0; i < G_N_ELEMENTS(ptrs); i++)
			fixture_free(&f, ptrs[i], f.streams[0]);
		stats = fixture_stats(&f);
		if (!pass)
			mapped = stats.mapped;
		g_assert_cmpuint(stats.mapped, ==, mapped);
	}
	fixture_close(&f);
}

/* Whole pages that begin with one take no page beyond them, beside blocks that leave others unaligned. */
static void test_pages(void)
{
	struct fixture f;
	uint64_t before;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	fixture_malloc_bytes(&f, PAGE + 512, f.streams[0]);
	for (size_t pages = 1; pages < 4; pages++) {
		before = fixture_stats(&f).mapped;
		aligned(&f, pages * PAGE, PAGE, pages % 2 ? VPMM_STREAM_ANY : f.streams[0]);
		g_assert_cmpuint(fixture_stats(&f).mapped, ==, before + pages * PAGE);
	}
	assert_ok(vpmm_pool_check(f.pool));
	fixture_close(&f);
}

/* Work of another stream is waited for, as it is elsewhere. */
static void test_waits(void)
{
	struct fixture f;
	char *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 2 * PAGE });
	fixture_uncache(&f);
	ptr = fixture_malloc(&f, 2, f.streams[0]);
	fixture_free_at_work(&f, ptr, f.streams[0]);
	ptr = aligned(&f, PAGE, 4096, f.streams[1]);
	fixture_submit_waits(f.streams[1]);
	fixture_free(&f, ptr, f.streams[1]);
	fixture_close(&f);
}

/* VPMM_STREAM_ANY: no stream has to wait for the memory, and any may free it. */
static void test_any_stream(void)
{
	struct fixture f;
	char *first, *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	first = fixture_malloc(&f, 2, f.streams[0]);
	fixture_free_at_work(&f, first, f.streams[0]);
	ptr = aligned(&f, PAGE, 4096, VPMM_STREAM_ANY);
	g_assert_true(ptr + PAGE <= first || ptr >= first + 2 * PAGE);
	assert_ok(vpmm_free(f.pool, ptr, VPMM_STREAM_ANY));
	ptr = aligned(&f, 100, 256, VPMM_STREAM_ANY);
	assert_ok(vpmm_free(f.pool, ptr, VPMM_STREAM_ANY));
	fixture_close(&f);
}

/* Under capture, blocks that the capture has freed serve it where they are aligned. */
static void test_capture(gconstpointer data)
{
	const struct pool_kind *kind = data;
	struct fixture f;
	struct vpmm_host_graph *graph;
	uint64_t id;
	char *ptr;

	fixture_open(&f, kind->opts);
	assert_ok(vpmm_host_capture_begin(f.streams[0]));
	assert_ok(vpmm_capture_id(f.pool, f.streams[0], &id));
	for (size_t alignment = 256; alignment <= PAGE; alignment *= 2) {
		fixture_malloc_bytes(&f, 512, f.streams[0]);
		ptr = aligned(&f, PAGE / 2 + 512, alignment, f.streams[0]);
		fixture_free(&f, ptr, f.streams[0]);
		if (alignment == PAGE / 16)
			assert_ok(vpmm_capture_group(f.pool, id, 1));
	}
	assert_ok(vpmm_host_capture_end(f.streams[0], &graph));
	assert_ok(vpmm_graph_retire(f.pool, id, f.streams[0]));
	assert_ok(vpmm_host_graph_destroy(graph));
	fixture_close(&f);
}

/* Each error names what is wrong, and the pointer stays. */
static void test_bad(void)
{
	struct fixture f;
	void *ptr = &f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_error(vpmm_malloc_aligned(f.pool, NULL, 1, 4096, f.streams[0]), EINVAL, "ptr is NULL");
	assert_error(vpmm_malloc_aligned(f.pool, &ptr, 1, 0, f.streams[0]), EINVAL, "alignment is 0");
	assert_error(vpmm_malloc_aligned(f.pool, &ptr, 1, 4097, f.streams[0]), EINVAL, "alignment is 4097");
	assert_error(vpmm_malloc_aligned(f.pool, &ptr, 1, 2 * PAGE, f.streams[0]), EINVAL, "VPMM_PAGE_SIZE");
	assert_error(vpmm_malloc_aligned(f.pool, &ptr, SIZE_MAX - 4096, 4096, f.streams[0]), ENOMEM,
		     "vpmm_malloc_aligned");
	g_assert_true(ptr == &f);
	assert_ok(vpmm_malloc_aligned(f.pool, &ptr, 0, 4096, f.streams[0]));
	g_assert_null(ptr);
	fixture_close(&f);

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .page_size = SIZE_MAX });
	assert_error(vpmm_malloc_aligned(f.pool, &ptr, 1, 512, f.streams[0]), ENOTSUP, "driver");
	fixture_free(&f, aligned(&f, 1000, 256, f.streams[0]), f.streams[0]);
	fixture_close(&f);

	/* A page of 6 MiB starts at a multiple of 2 MiB. */
	fixture_open(&f, (struct vpmm_opts){ .size = sizeof(struct vpmm_opts), .backend = "host",
					     .page_size = 3 * PAGE, .va_size = 300 * PAGE });
	aligned(&f, 7 * PAGE, PAGE, f.streams[0]);
	assert_error(vpmm_malloc_aligned(f.pool, &ptr, 1, 2 * PAGE, f.streams[0]), EINVAL, "VPMM_PAGE_SIZE");
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	fixture_add_rows("/aligned/each", pools, test_each);
	g_test_add_func("/aligned/repeated", test_repeated);
	g_test_add_func("/aligned/pages", test_pages);
	g_test_add_func("/aligned/waits", test_waits);
	g_test_add_func("/aligned/any-stream", test_any_stream);
	fixture_add_rows("/aligned/capture", pools, test_capture);
	g_test_add_func("/aligned/bad", test_bad);
	return g_test_run();
}
