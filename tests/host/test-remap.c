// SPDX-License-Identifier: LGPL-2.1-or-later
/* vpmm_realloc() with memory that is mapped behind a block, or with the block. */
#include <string.h>

#include "core/alias.h"
#include "host/realloc-fixture.h"

/* A vector that grows in a pool of its own stays where it is, and the pool holds no more than it. */
static void test_vector(void)
{
	struct text written, read;
	struct fixture f;
	void *ptr, *first;
	size_t size;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	first = ptr = fixture_malloc(&f, 1, f.streams[0]);
	write_on(f.streams[0], ptr, PAGE, &written);
	for (size = PAGE; size < 100 * PAGE; size += size / 2) {
		ptr = resize(&f, ptr, size, f.streams[0]);
		g_assert_true(ptr == first);
		g_assert_cmpuint(fixture_stats(&f).mapped, <, size + PAGE);
	}
	g_assert_cmpuint(copies(&f), ==, 0);
	check_on(f.streams[0], ptr, PAGE, &read, written.seed);
	fixture_complete(f.streams[0]);
	g_assert_true(read.right);
	fixture_close(&f);
}

/* What is free elsewhere is mapped behind the block, in the order of the streams, rather than created. */
static void test_remaps_others(void)
{
	struct fixture f;
	void *ptr, *other;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	ptr = fixture_malloc(&f, 2, f.streams[0]);
	other = fixture_malloc(&f, 4, f.streams[1]);
	fixture_free_at_work(&f, other, f.streams[1]);
	g_assert_true(resize(&f, ptr, 6 * PAGE, f.streams[0]) == ptr);
	g_assert_cmpuint(copies(&f), ==, 0);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 6 * PAGE);
	fixture_submit_waits(f.streams[0]);
	fixture_complete(f.streams[1]);
	fixture_complete(f.streams[0]);
	memset(ptr, 1, 6 * PAGE);
	fixture_free(&f, ptr, f.streams[0]);
	fixture_close(&f);
}

/* A free end behind the block is kept, and the rest follows it. */
static void test_free_and_hole(void)
{
	struct fixture f;
	void *ptr;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	ptr = resize(&f, fixture_malloc(&f, 5, f.streams[0]), 2 * PAGE, f.streams[0]);
	g_assert_true(resize(&f, ptr, 9 * PAGE + 512, f.streams[0]) == ptr);
	g_assert_cmpuint(copies(&f), ==, 0);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 10 * PAGE);
	fixture_close(&f);
}

/* A block that does not end with a page cannot be followed by a hole, but by the rest of its page. */
static void test_odd(void)
{
	struct fixture f;
	char *ptr;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	ptr = fixture_malloc_bytes(&f, 3 * PAGE / 2, f.streams[0]);
	g_assert_true(resize(&f, ptr, 4 * PAGE + 1024, f.streams[0]) == ptr);
	g_assert_cmpuint(copies(&f), ==, 0);
	memset(ptr, 1, 4 * PAGE + 1024);
	fixture_close(&f);
}

/*
 * What follows is another mapping of the extent that the block begins in, and free there: that is not for this block.
 */
static void test_twice(void)
{
	struct fixture f;
	char *page, *next, *ptr;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	fixture_uncache(&f);
	page = resize(&f, fixture_malloc(&f, 1, f.streams[0]), 2 * PAGE, f.streams[0]);
	g_assert_true(resize(&f, page, PAGE, f.streams[0]) == page);
	next = fixture_malloc(&f, 1, f.streams[0]);
	g_assert_true(next == page + PAGE);
	fixture_free(&f, page, f.streams[0]);
	g_assert_true(resize(&f, next, 2 * PAGE, f.streams[0]) == next);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 2 * PAGE);
	fixture_free(&f, next, f.streams[0]);
	lock_acquire(&f.pool->core.lock);
	alias_claim(&f.pool->core, (uintptr_t)page, PAGE);
	lock_release(&f.pool->core.lock);
	assert_ok(vpmm_pool_check(f.pool));

	g_assert_true(fixture_malloc_bytes(&f, PAGE / 4, f.streams[0]) == page);
	ptr = fixture_malloc_bytes(&f, 3 * PAGE / 4, f.streams[0]);
	g_assert_true(ptr == page + PAGE / 4);
	fixture_free(&f, page, f.streams[0]);
	ptr = resize(&f, ptr, 2 * PAGE, f.streams[0]);
	memset(ptr, 1, 2 * PAGE);
	fixture_free(&f, ptr, f.streams[0]);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/remap/vector", test_vector);
	g_test_add_func("/remap/others", test_remaps_others);
	g_test_add_func("/remap/free-and-hole", test_free_and_hole);
	g_test_add_func("/remap/odd", test_odd);
	g_test_add_func("/remap/twice", test_twice);
	return g_test_run();
}
