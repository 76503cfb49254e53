// SPDX-License-Identifier: LGPL-2.1-or-later
/* The memory of shared ranges: what reads as zero, is kept, given back, evicted and had again. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "calls/pool.h"
#include "shared/shared.h"
#include "shared/touch.h"
#include "support/fault.h"
#include "support/fixture.h"
#include "support/ranges.h"

/* Memory that other pages had reads as zero where nobody has written. */
static void test_no_leftovers(void)
{
	struct fixture f;
	char *at;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (int round = 0; round < 2; round++) {
		at = ranges_alloc(&f, 2 * PAGE);
		g_assert_true(fixture_is_clear(at, PAGE));
		g_assert_cmpint(vpmm_fault(f.pool, at + PAGE, PAGE, VPMM_DEVICE, 0), ==, 1);
		g_assert_true(fixture_is_clear(vpmm_host_view(at + PAGE), PAGE));
		memset(at, FIXTURE_SECRET, 2 * PAGE);
		g_assert_cmpint(vpmm_migrate(f.pool, at, 2 * PAGE, VPMM_DEVICE, NULL, NULL, NULL), ==, 2);
		assert_ok(vpmm_shared_free(f.pool, at, NULL));
	}
	/* The second range had the memory of the first. */
	g_assert_cmpuint(ranges_stats(&f).host, ==, 2 * PAGE);
	g_assert_cmpuint(ranges_stats(&f).host_unused, ==, 2 * PAGE);
	fixture_close(&f);
}

static void test_host_keep(void)
{
	struct fixture f;
	char *at;

	g_setenv("VPMM_HOST_KEEP", "2M", TRUE);
	at = ranges_open_packed(&f, 4 * PAGE);
	memset(at, 1, 4 * PAGE);
	g_assert_cmpuint(ranges_stats(&f).host, ==, 4 * PAGE);
	g_assert_cmpint(vpmm_migrate(f.pool, at, 4 * PAGE, VPMM_DEVICE, NULL, NULL, NULL), ==, 4);
	g_assert_cmpuint(ranges_stats(&f).host, ==, PAGE);
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	g_assert_cmpuint(ranges_stats(&f).host, ==, 0);
	g_assert_cmpint(at[PAGE], ==, 1);

	/* Duplicates are not kept beyond that either, once they are none. */
	assert_ok(vpmm_advise(f.pool, at, 4 * PAGE, VPMM_ADVISE_READ_MOSTLY));
	memset(at, 1, 4 * PAGE);
	g_assert_cmpint(vpmm_migrate(f.pool, at, 4 * PAGE, VPMM_DEVICE, NULL, NULL, NULL), ==, 4);
	assert_ok(vpmm_advise(f.pool, at, 4 * PAGE, VPMM_ADVISE_NONE));
	g_assert_cmpuint(ranges_stats(&f).host, ==, PAGE);
	assert_ok(vpmm_shared_free(f.pool, at, NULL));
	fixture_close(&f);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	g_setenv("VPMM_HOST_KEEP", "many", TRUE);
	assert_error(vpmm_shared_alloc(f.pool, (void **)&at, PAGE, 0), EINVAL, "VPMM_HOST_KEEP");
	g_unsetenv("VPMM_HOST_KEEP");
	fixture_close(&f);
}

/* More than the device: what is coldest goes to the host, and the program gets its memory. */
static void test_more_than_device(void)
{
	struct fixture f;
	char *at, *other;
	void *block;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 9 * PAGE });
	at = ranges_alloc(&f, 6 * PAGE);
	other = ranges_alloc(&f, 6 * PAGE);
	for (int i = 0; i < 6; i++)
		at[i * PAGE] = other[i * PAGE] = (char)(i + 1);
	g_assert_cmpint(vpmm_migrate(f.pool, at, 6 * PAGE, VPMM_DEVICE, f.streams[0], NULL, NULL), ==, 6);
	assert_ok(vpmm_advise(f.pool, at, PAGE, VPMM_ADVISE_PREFER_DEVICE));
	/* One page more is what empty ones read, so two are left. */
	g_assert_cmpint(vpmm_migrate(f.pool, other, 6 * PAGE, VPMM_DEVICE, f.streams[0], NULL, NULL), ==, 6);
	g_assert_cmpuint(ranges_stats(&f).evicted, ==, 4);
	g_assert_cmpuint(ranges_stats(&f).device, <=, 9 * PAGE);
	g_assert_cmpint(ranges_page(&f, at).location, ==, VPMM_DEVICE);
	for (int i = 0; i < 6; i++)
		g_assert_cmpint(*(char *)vpmm_host_view(at + i * PAGE), ==, i + 1);

	/* And so does a block of the pool. */
	block = fixture_malloc(&f, 5, f.streams[0]);
	memset(block, 9, 5 * PAGE);
	g_assert_cmpuint(ranges_stats(&f).device, <=, 4 * PAGE);
	for (int i = 0; i < 6; i++)
		g_assert_cmpint(*(char *)vpmm_host_view(other + i * PAGE), ==, i + 1);
	g_assert_cmpint(vpmm_malloc(f.pool, &block, 9 * PAGE, f.streams[0]), ==, -ENOMEM);

	/* One range alone that is larger than the device: what does not fit is skipped, and faulting says so. */
	assert_ok(vpmm_shared_free(f.pool, other, f.streams[0]));
	g_assert_cmpint(vpmm_fault(f.pool, at, 6 * PAGE, VPMM_DEVICE, 0), ==, -ENOMEM);
	for (int i = 0; i < 6; i++)
		g_assert_cmpint(at[i * PAGE], ==, i + 1);
	assert_ok(vpmm_shared_free(f.pool, at, f.streams[0]));
	fixture_close(&f);
}

/* What a call brings does not push out what it finds there. */
static void test_pushes_others(void)
{
	struct fixture f;
	char *at;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 5 * PAGE });
	at = ranges_alloc(&f, 8 * PAGE);
	memset(at, 1, 8 * PAGE);
	/* With the page that empty ones read, the limit is reached. */
	g_assert_cmpint(ranges_migrate(&f, at, 2 * PAGE, VPMM_DEVICE), ==, 2);
	g_assert_cmpint(ranges_migrate(&f, at + 6 * PAGE, 2 * PAGE, VPMM_DEVICE), ==, 2);
	g_assert_cmpint(vpmm_fault(f.pool, at, 4 * PAGE, VPMM_DEVICE, 0), ==, 2);
	for (int i = 0; i < 4; i++)
		g_assert_cmpint(ranges_page(&f, at + i * PAGE).location, ==, VPMM_DEVICE);
	g_assert_cmpuint(ranges_stats(&f).evicted, ==, 2);
	/* Where only they could go, there is no memory. */
	g_assert_cmpint(ranges_migrate(&f, at, 5 * PAGE, VPMM_DEVICE), ==, 0);
	g_assert_cmpint(vpmm_fault(f.pool, at, 5 * PAGE, VPMM_DEVICE, 0), ==, -ENOMEM);
	g_assert_cmpuint(ranges_stats(&f).evicted, ==, 2);
	ranges_close(&f, at);
}

/* The last range of its page size leaves what empty pages read to the pool, and so does one that is not made. */
static void test_zero_given_back(void)
{
	char *at, *other;
	void *none = NULL;
	struct fixture f;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 2 * PAGE });
	at = ranges_alloc(&f, PAGE);
	other = ranges_alloc(&f, 2 * PAGE);
	g_assert_cmpuint(ranges_stats(&f).device, ==, PAGE);
	assert_ok(vpmm_shared_free(f.pool, at, NULL));
	g_assert_cmpuint(ranges_stats(&f).device_unused, ==, 0);
	g_assert_cmpint(*(char *)vpmm_host_view(other), ==, 0);
	assert_ok(vpmm_pool_check(f.pool));
	assert_ok(vpmm_shared_free(f.pool, other, NULL));
	g_assert_cmpuint(ranges_stats(&f).device_unused, ==, PAGE);
	assert_ok(vpmm_pool_check(f.pool));
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	g_assert_cmpuint(ranges_stats(&f).device, ==, 0);

	backend_fault_arm(f.pool->core.backend, BACKEND_OP_access_read, 0, 1, -ENOMEM);
	g_assert_cmpint(vpmm_shared_alloc(f.pool, &none, PAGE, VPMM_SHARED_FINE), ==, -ENOMEM);
	g_assert_cmpuint(ranges_stats(&f).device_unused, ==, ranges_stats(&f).device);
	assert_ok(vpmm_pool_check(f.pool));
	at = ranges_alloc(&f, PAGE);
	g_assert_true(fixture_is_clear(vpmm_host_view(at), PAGE));
	assert_ok(vpmm_shared_free(f.pool, at, NULL));
	fixture_malloc(&f, 2, f.streams[0]);
	fixture_close(&f);
}

/* A page gets what the pool has free, where each extent of that is larger, too. */
static void test_pool_gives(void)
{
	struct fixture f;
	void *block, *at;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .overhead = 25, .limit = 64 * PAGE });
	fixture_uncache(&f);
	block = fixture_malloc(&f, 64, f.streams[0]);
	fixture_free(&f, block, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 64 * PAGE);
	for (const GList *link = extent_whole(&f.pool->core.extents)->head; link; link = link->next)
		g_assert_cmpuint(((struct extent *)link->data)->size, >, PAGE);
	at = ranges_alloc(&f, PAGE);
	/* But no more than that. */
	g_assert_cmpuint(fixture_stats(&f).mapped, >=, 48 * PAGE);
	ranges_close(&f, at);
}

/* Asks the pool for memory that the program can do without. */
static struct fixture *asked_pool;
static void *asked_block;
static size_t asked_bytes;
static unsigned int asked_times;

static int give_block(void *data, struct vpmm_pool *pool, size_t size)
{
	(void)data;
	g_assert_true(pool == asked_pool->pool);
	asked_bytes = size;
	asked_times++;
	if (!asked_block)
		return 0;
	assert_ok(vpmm_free(pool, asked_block, NULL));
	asked_block = NULL;
	return 1;
}

/* Pages that there is no memory for get what the pool's tags have free, and then what the program can do without. */
static void test_asks(void)
{
	struct fixture f;
	void *block;
	vpmm_tag tag;
	char *at;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 12 * PAGE, .pressure = give_block });
	asked_pool = &f;
	assert_ok(vpmm_tag_open("asked", VPMM_TAG_PAUSABLE, &tag));
	at = ranges_alloc(&f, 10 * PAGE);
	memset(at, 1, 10 * PAGE);
	vpmm_tag_set(tag);
	block = fixture_malloc(&f, 7, f.streams[0]);
	vpmm_tag_set(0);
	asked_block = fixture_malloc(&f, 4, NULL);
	fixture_free(&f, block, f.streams[0]);
	assert_ok(vpmm_stream_retire(f.pool, f.streams[0]));
	g_assert_cmpuint(asked_times, ==, 0);
	g_assert_cmpint(vpmm_fault(f.pool, at, 10 * PAGE, VPMM_DEVICE, 0), ==, 10);
	g_assert_cmpuint(asked_times, ==, 1);
	/* One page of memory reads as zero, and seven others were left. */
	g_assert_cmpuint(asked_bytes, ==, 3 * PAGE);
	g_assert_cmpuint(ranges_stats(&f).skipped, ==, 0);
	assert_ok(vpmm_pool_check(f.pool));
	ranges_close(&f, at);
}

/* So does the page that reads as zero. What no memory could serve is not asked for. */
static void test_asks_for_zero(void)
{
	struct fixture f;
	char *at;

	asked_times = 0;
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 4 * PAGE, .pressure = give_block });
	asked_pool = &f;
	asked_block = fixture_malloc(&f, 4, NULL);
	at = ranges_alloc(&f, 5 * PAGE);
	g_assert_cmpuint(asked_times, ==, 1);
	g_assert_cmpuint(asked_bytes, ==, PAGE);
	asked_block = fixture_malloc(&f, 1, NULL);
	assert_error(vpmm_fault(f.pool, at, 5 * PAGE, VPMM_DEVICE, 0), ENOMEM, "vpmm_fault: ");
	g_assert_cmpuint(asked_times, ==, 1);
	assert_error(vpmm_fault(f.pool, at, 4 * PAGE, VPMM_DEVICE, 0), ENOMEM, "vpmm_fault: ");
	g_assert_cmpuint(asked_times, ==, 3);
	ranges_close(&f, at);
}

/* Pages for which there is no memory at all are counted as those are for which there is none left. */
static void test_counts_skipped(void)
{
	struct fixture f;
	void *block;
	char *at;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 3 * PAGE });
	at = ranges_alloc(&f, 2 * PAGE);
	at[0] = at[PAGE] = 1;
	block = fixture_malloc(&f, 2, f.streams[0]);
	g_assert_cmpint(ranges_migrate(&f, at, 2 * PAGE, VPMM_DEVICE), ==, 0);
	g_assert_cmpuint(ranges_stats(&f).skipped, ==, 2);
	fixture_free(&f, block, f.streams[0]);
	ranges_close(&f, at);
}

/* Host memory is kept by size, and given up where another size is wanted and there is no more. */
static void test_other_sizes(void)
{
	struct fixture f;
	void *large;
	char *at;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	at = ranges_alloc(&f, 2 * PAGE);
	at[0] = at[PAGE] = 1;
	assert_ok(vpmm_shared_free(f.pool, at, NULL));
	g_assert_cmpuint(ranges_stats(&f).host_unused, ==, 2 * PAGE);
	assert_ok(vpmm_shared_alloc(f.pool, &large, 256 * PAGE, 0));
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_host_create, 0, 1, -ENOMEM);
	((char *)large)[0] = 1;
	g_assert_cmpuint(ranges_stats(&f).retries, ==, 0);
	g_assert_cmpuint(ranges_stats(&f).host_unused, ==, 0);
	g_assert_cmpuint(ranges_stats(&f).host, ==, 2 * PAGE);
	ranges_close(&f, large);
}

static bool kept_has_view(struct shared *shared)
{
	bool has;

	lock_acquire(&shared_lock);
	has = shared->kept[VPMM_HOST] && !shared->kept[VPMM_HOST]->viewless;
	lock_release(&shared_lock);
	return has;
}

static void wait_for_view(struct shared *shared)
{
	while (!kept_has_view(shared))
		g_usleep(1000);
}

/* Nor does anything come after a trim that a thread of the library was at. */
static void test_trimmed(void)
{
	struct fixture f;
	char *at;

	at = ranges_open_packed(&f, 4 * PAGE);
	for (unsigned int i = 0; i < 300; i++) {
		for (int page = 0; page < 4; page++)
			at[page * PAGE] = 1;
		g_assert_cmpint(vpmm_migrate(f.pool, at, 4 * PAGE, VPMM_DEVICE, NULL, NULL, NULL), ==, 4);
		/* That thread is at another place each time. */
		for (volatile unsigned int spin = 0; spin < i % 64 * 500; spin++)
			;
		assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
		g_assert_cmpuint(ranges_stats(&f).host_unused, ==, 0);
	}
	ranges_close(&f, at);
}

static const struct backend_ops *whole_ops;
static _Atomic bool slowly;

static int show_slowly(struct backend *be, uint64_t at, uint64_t from, size_t size)
{
	if (slowly)
		g_usleep(100000);
	return whole_ops->show(be, at, from, size);
}

/* A touch goes on before the pages that come with it are there. What they leave is given back, too. */
static void test_trimmed_behind_touch(void)
{
	struct backend_ops ops;
	struct backend *be;
	struct fixture f;
	char *at;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	be = f.pool->core.backend;
	whole_ops = be->ops;
	ops = *whole_ops;
	ops.show = show_slowly;
	be->ops = &ops;
	at = ranges_alloc(&f, 8 * PAGE);
	for (int i = 0; i < 8; i++)
		at[i * PAGE] = 1;
	g_assert_cmpint(ranges_migrate(&f, at, 8 * PAGE, VPMM_DEVICE), ==, 8);
	/* They were touched one after the other, so more come with the first. */
	slowly = true;
	at[0]++;
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	g_assert_cmpint(ranges_page(&f, at + 2 * PAGE).location, ==, VPMM_HOST);
	g_assert_cmpuint(ranges_stats(&f).device_unused, ==, 0);
	slowly = false;
	ranges_close(&f, at);
}

/* A page whose view cannot be had holds up nobody who waits for another. */
static void test_no_view(void)
{
	struct fixture f;
	struct page *page;
	char *at;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	at = ranges_alloc(&f, 2 * PAGE);
	at[0] = 1;
	at[PAGE] = 2;
	g_assert_cmpint(ranges_migrate(&f, at + PAGE, 1, VPMM_DEVICE), ==, 1);
	wait_for_view(f.pool->shared);
	page = &ranges_first(&f)->pages[0];
	lock_acquire(&shared_lock);
	page->hidden = true;
	lock_release(&shared_lock);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_host_access, 0, UINT_MAX, -ENOMEM);
	ranges_touch(at, at + PAGE);
	g_assert_true(page->hidden);
	g_assert_cmpint(ranges_page(&f, at + PAGE).location, ==, VPMM_HOST);
	g_assert_cmpint(ranges_look(at + PAGE), ==, 2);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_host_access, 0, 0, 0);
	ranges_touch(at, at + PAGE);
	g_assert_false(page->hidden);
	g_assert_cmpint(ranges_look(at), ==, 1);
	ranges_close(&f, at);
}

/* What can be done later is not done while a migration has the driver, unless that is in need of it. */
struct quiet {
	struct shared *shared;
	unsigned int most;
};

static void see_quiet(void *data, struct vpmm_move *moves, size_t count, struct CUstream_st *stream)
{
	struct quiet *quiet = data;

	(void)moves;
	(void)count;
	(void)stream;
	lock_acquire(&shared_lock);
	quiet->most = MAX(quiet->most, quiet->shared->quiet);
	lock_release(&shared_lock);
}

static void test_quiet(void)
{
	const struct vpmm_migrate_ops ops = { sizeof(ops), see_quiet, NULL };
	struct quiet quiet = { 0 };
	struct fixture f;
	char *at, *other;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 3 * PAGE });
	at = ranges_alloc(&f, 2 * PAGE);
	other = ranges_alloc(&f, PAGE);
	at[0] = at[PAGE] = other[0] = 1;
	quiet.shared = f.pool->shared;
	lock_acquire(&shared_lock);
	quiet.shared->quiet++;
	lock_release(&shared_lock);
	g_assert_cmpint(vpmm_migrate(f.pool, at, 2 * PAGE, VPMM_DEVICE, NULL, &ops, &quiet), ==, 2);
	g_assert_cmpuint(quiet.most, ==, 2);
	g_assert_false(serve_idle());
	g_assert_false(kept_has_view(quiet.shared));
	lock_acquire(&shared_lock);
	quiet.shared->quiet--;
	lock_release(&shared_lock);
	touch_nudge();
	wait_for_view(quiet.shared);
	/* There is no room, so a page has to go to the host. */
	quiet.most = 0;
	g_assert_cmpint(vpmm_migrate(f.pool, other, PAGE, VPMM_DEVICE, NULL, &ops, &quiet), ==, 1);
	g_assert_cmpuint(quiet.most, ==, 0);
	g_assert_cmpuint(ranges_stats(&f).evicted, ==, 1);
	g_assert_cmpint(ranges_look(at) + ranges_look(at + PAGE) + ranges_look(other), ==, 3);
	assert_ok(vpmm_shared_free(f.pool, at, NULL));
	ranges_close(&f, other);
}

/* A page that is read mostly gives up its duplicate for a page of another size: what it frees has to be given back. */
static void test_duplicate(void)
{
	size_t large = 2 * PAGE;
	struct backend *be;
	uint64_t copies;
	struct fixture f;
	void *range;
	char *at, *other;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	be = f.pool->core.backend;
	assert_ok(vpmm_shared_alloc(f.pool, &range, SHARED_PAGES * large, 0));
	at = range;
	g_assert_cmpuint(ranges_page(&f, at).size, ==, large);
	other = ranges_alloc(&f, PAGE);
	at[0] = 1;
	assert_ok(vpmm_advise(f.pool, at, 1, VPMM_ADVISE_READ_MOSTLY));
	g_assert_cmpint(ranges_migrate(&f, at, 1, VPMM_DEVICE), ==, 1);
	/* As long as it has one, nothing is copied to the host. */
	copies = backend_fault_calls(be, BACKEND_OP_copy);
	g_assert_cmpint(ranges_migrate(&f, at, 1, VPMM_HOST), ==, 1);
	g_assert_cmpuint(backend_fault_calls(be, BACKEND_OP_copy), ==, copies);
	g_assert_cmpint(ranges_migrate(&f, at, 1, VPMM_DEVICE), ==, 1);
	/* There is room once something was given back. */
	backend_fault_arm(be, BACKEND_OP_host_create, 0, 3, -ENOMEM);
	g_assert_cmpint(vpmm_fault(f.pool, other, PAGE, VPMM_HOST, 0), ==, 1);
	g_assert_cmpuint(ranges_stats(&f).duplicates, ==, 0);
	g_assert_cmpuint(ranges_stats(&f).host, ==, PAGE);
	g_assert_cmpint(ranges_look(at), ==, 1);
	assert_ok(vpmm_pool_check(f.pool));
	assert_ok(vpmm_shared_free(f.pool, at, NULL));
	ranges_close(&f, other);
}

/* Where duplicates are given up for other pages of the same call, each page that stays counts once. */
static void test_counts_once(void)
{
	struct vpmm_shared_stats stats;
	struct backend *be;
	struct fixture f;
	char *at;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	be = f.pool->core.backend;
	at = ranges_alloc(&f, 4 * PAGE);
	at[PAGE] = at[2 * PAGE] = 1;
	assert_ok(vpmm_advise(f.pool, at, 4 * PAGE, VPMM_ADVISE_READ_MOSTLY));
	g_assert_cmpint(vpmm_fault(f.pool, at, 3 * PAGE, VPMM_DEVICE, 0), ==, 3);
	stats = ranges_stats(&f);
	g_assert_cmpuint(stats.duplicates, ==, 2 * PAGE);
	backend_fault_arm(be, BACKEND_OP_host_create, 0, UINT_MAX, -ENOMEM);
	/* There is memory for two of three, and nobody has touched the last. */
	g_assert_cmpint(ranges_migrate(&f, at, 4 * PAGE, VPMM_HOST), ==, 2);
	g_assert_cmpuint(ranges_stats(&f).skipped - stats.skipped, ==, 2);
	g_assert_cmpuint(ranges_stats(&f).duplicates, ==, 0);
	backend_fault_arm(be, BACKEND_OP_host_create, 0, 0, 0);
	assert_ok(vpmm_pool_check(f.pool));
	ranges_close(&f, at);
}

/* All that counts towards the limit is in the statistics of the pool: returns the bytes of shared ranges. */
static uint64_t counted(struct fixture *f)
{
	struct vpmm_stats stats = fixture_stats(f);
	char *dump = fixture_dump(f), *line = g_strdup_printf("\nshared: %" PRIu64 "\n", stats.shared);
	uint64_t taken = stats.mapped + stats.small_mapped + stats.shareable + stats.shared;

	g_assert_cmpuint(stats.shared, ==, ranges_stats(f).device);
	g_assert_cmpuint(taken, <=, 4 * PAGE);
	g_assert_cmpuint(stats.peak_taken, >=, taken);
	g_assert_nonnull(strstr(dump, line));
	assert_ok(vpmm_pool_check(f->pool));
	g_free(line);
	free(dump);
	return stats.shared;
}

static void test_in_statistics(void)
{
	struct fixture f;
	void *block;
	char *at;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 4 * PAGE });
	g_assert_cmpuint(fixture_stats(&f).shared, ==, 0);
	at = ranges_alloc(&f, 4 * PAGE);
	/* What empty pages read. */
	g_assert_cmpuint(counted(&f), ==, PAGE);
	g_assert_cmpint(vpmm_fault(f.pool, at, 3 * PAGE, VPMM_DEVICE, 0), ==, 3);
	g_assert_cmpuint(counted(&f), ==, 4 * PAGE);
	g_assert_cmpuint(fixture_stats(&f).peak_taken, ==, 4 * PAGE);
	assert_ok(vpmm_malloc(f.pool, &block, 2 * PAGE, f.streams[0]));
	g_assert_cmpuint(counted(&f), ==, 2 * PAGE);
	assert_ok(vpmm_shared_free(f.pool, at, f.streams[0]));
	/* It is kept until the pool needs it. */
	g_assert_cmpuint(counted(&f), ==, 2 * PAGE);
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	g_assert_cmpuint(counted(&f), ==, 0);
	assert_ok(vpmm_pool_reset_peaks(f.pool));
	g_assert_cmpuint(fixture_stats(&f).peak_taken, ==, 2 * PAGE);
	assert_ok(vpmm_free(f.pool, block, f.streams[0]));
	fixture_close(&f);
}

/* What the driver refuses to take back counts, and the next trim tries again. */
static void test_refused(gconstpointer data)
{
	enum backend_op op = GPOINTER_TO_UINT(data);
	struct backend *be;
	struct fixture f;
	char *at;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	be = f.pool->core.backend;
	at = ranges_alloc(&f, PAGE);
	at[0] = 1;
	g_assert_cmpint(vpmm_fault(f.pool, at, PAGE, VPMM_DEVICE, 0), ==, 1);
	assert_ok(vpmm_shared_free(f.pool, at, f.streams[0]));
	/* The zeros, and the page's memory on both sides. */
	for (unsigned int count = 2; count <= 6; count += 2) {
		uint64_t shared = fixture_stats(&f).shared, host = ranges_stats(&f).host;

		backend_fault_arm(be, op, 0, count, -EIO);
		assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
		backend_fault_arm(be, op, 0, 0, 0);
		assert_ok(vpmm_pool_check(f.pool));
		g_assert_cmpuint(fixture_stats(&f).shared, ==, ranges_stats(&f).device);
		g_assert_cmpuint(fixture_stats(&f).shared, <=, shared);
		g_assert_cmpuint(ranges_stats(&f).host, <=, host);
		if (op != BACKEND_OP_unreserve)
			g_assert_cmpuint(fixture_stats(&f).shared + ranges_stats(&f).host, >, 0);
		assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
		g_assert_cmpuint(fixture_stats(&f).shared + ranges_stats(&f).host, ==, 0);
		at = ranges_alloc(&f, PAGE);
		at[0] = 1;
		g_assert_cmpint(vpmm_fault(f.pool, at, PAGE, VPMM_DEVICE, 0), ==, 1);
		assert_ok(vpmm_shared_free(f.pool, at, f.streams[0]));
	}
	fixture_close(&f);
}

/* A page on the host whose view could not be made is copied from there all the same. */
static void test_blind(void)
{
	struct backend *be;
	struct fixture f;
	char *at;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	be = f.pool->core.backend;
	at = ranges_alloc(&f, PAGE);
	memset(at, 7, PAGE);
	/* The move fails, and showing the page again. */
	backend_fault_arm(be, BACKEND_OP_unmap, 0, 2, -EIO);
	g_assert_cmpint(vpmm_fault(f.pool, at, PAGE, VPMM_DEVICE, 0), ==, -EIO);
	/* It is taken from where it was, and not mapped there again. */
	backend_fault_arm(be, BACKEND_OP_map, 0, 1, -EIO);
	g_assert_cmpint(vpmm_pin(f.pool, at, PAGE), ==, -EIO);
	backend_fault_arm(be, BACKEND_OP_map, 0, 0, 0);
	g_assert_cmpint(vpmm_fault(f.pool, at, PAGE, VPMM_DEVICE, 0), ==, 1);
	g_assert_true(fixture_is_filled(vpmm_host_view(at), PAGE, 7));
	g_assert_true(fixture_is_filled(at, PAGE, 7));
	assert_ok(vpmm_shared_free(f.pool, at, f.streams[0]));
	fixture_close(&f);
}

/* A page needs a mapping to come back. The touch has the pool give back one that it has no use for, and is served. */
static void test_pool_gives_mappings(void)
{
	void *blocks[16];
	size_t count = 0;
	GArray *touched;
	uint64_t addr;
	struct fixture f;
	char *at;

	g_setenv("VPMM_HOST_MAPPINGS", "12", TRUE);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE });
	at = ranges_alloc(&f, PAGE);
	memset(at, 7, PAGE);
	g_assert_cmpint(vpmm_migrate(f.pool, at, PAGE, VPMM_DEVICE, NULL, NULL, NULL), ==, 1);
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	while (count < G_N_ELEMENTS(blocks) && !vpmm_malloc(f.pool, &blocks[count], PAGE, f.streams[0]))
		count++;
	g_assert_cmpuint(count, <, G_N_ELEMENTS(blocks));
	g_unsetenv("VPMM_HOST_MAPPINGS");
	while (count)
		assert_ok(vpmm_free(f.pool, blocks[--count], f.streams[0]));
	touched = g_array_new(FALSE, FALSE, sizeof(uint64_t));
	for (int tries = 0; tries < 2; tries++) {
		addr = (uintptr_t)at;
		g_array_set_size(touched, 0);
		g_array_append_val(touched, addr);
		serve_touches(touched);
	}
	g_array_free(touched, TRUE);
	g_assert_cmpint(ranges_page(&f, at).location, ==, VPMM_HOST);
	g_assert_true(fixture_is_filled(at, PAGE, 7));
	ranges_close(&f, at);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/shared-memory/no-leftovers", test_no_leftovers);
	g_test_add_func("/shared-memory/host-keep", test_host_keep);
	g_test_add_func("/shared-memory/more-than-device", test_more_than_device);
	g_test_add_func("/shared-memory/pushes-others", test_pushes_others);
	g_test_add_func("/shared-memory/zero-given-back", test_zero_given_back);
	g_test_add_func("/shared-memory/pool-gives", test_pool_gives);
	g_test_add_func("/shared-memory/pool-gives-mappings", test_pool_gives_mappings);
	g_test_add_func("/shared-memory/asks", test_asks);
	g_test_add_func("/shared-memory/asks-for-zero", test_asks_for_zero);
	g_test_add_func("/shared-memory/counts-skipped", test_counts_skipped);
	g_test_add_func("/shared-memory/other-sizes", test_other_sizes);
	g_test_add_func("/shared-memory/trimmed", test_trimmed);
	g_test_add_func("/shared-memory/trimmed-behind-touch", test_trimmed_behind_touch);
	g_test_add_func("/shared-memory/no-view", test_no_view);
	g_test_add_func("/shared-memory/quiet", test_quiet);
	g_test_add_func("/shared-memory/duplicate", test_duplicate);
	g_test_add_func("/shared-memory/counts-once", test_counts_once);
	g_test_add_func("/shared-memory/in-statistics", test_in_statistics);
	g_test_add_func("/shared-memory/blind", test_blind);
	g_test_add_data_func("/shared-memory/refused/unmap", GUINT_TO_POINTER(BACKEND_OP_unmap), test_refused);
	g_test_add_data_func("/shared-memory/refused/release", GUINT_TO_POINTER(BACKEND_OP_release), test_refused);
	g_test_add_data_func("/shared-memory/refused/unreserve", GUINT_TO_POINTER(BACKEND_OP_unreserve), test_refused);
	return g_test_run();
}
