// SPDX-License-Identifier: LGPL-2.1-or-later
/* Pausing and resuming: contents, every kind of block, other tags and pools, and what else may happen meanwhile. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "calls/arena.h"
#include "host/capture-fixture.h"
#include "host/tag-fixture.h"
#include "support/fault.h"
#include "vpmm-shared.h"

#define BLOCKS 24

/* What a pool has under a tag, each with contents of its own. */
struct content {
	char *ptr;
	size_t size;
	uint64_t seed;
};

static size_t size_at(unsigned int i)
{
	static const size_t sizes[] = { 1000 * 8, PAGE, 3 * PAGE + 4096, PAGE / 2, 64, PAGE * 2, 16 * 1024 };

	return sizes[i % G_N_ELEMENTS(sizes)];
}

static void fill_all(struct fixture *f, vpmm_tag word, struct content *contents)
{
	for (unsigned int i = 0; i < BLOCKS; i++) {
		contents[i].size = size_at(i);
		contents[i].seed = 77 + i;
		contents[i].ptr = tag_malloc(f->pool, word, contents[i].size, contents[i].seed, f->streams[i % 2]);
	}
	/* Free memory between, some of it in a cache. */
	for (unsigned int i = 3; i < BLOCKS; i += 4)
		assert_ok(vpmm_free(f->pool, contents[i].ptr, f->streams[i % 2]));
}

static bool is_live(unsigned int i)
{
	return i % 4 != 3;
}

static void assert_all(const struct content *contents)
{
	for (unsigned int i = 0; i < BLOCKS; i++)
		g_assert_true(!is_live(i) || tag_is_filled(contents[i].ptr, contents[i].size, contents[i].seed));
}

static uint64_t memory_free(struct fixture *f)
{
	struct vpmm_info info = { .size = sizeof(info) };

	assert_ok(vpmm_pool_info(f->pool, &info));
	return info.memory_free;
}

/* The statistics of a pool agree with one another, asleep or not. */
static struct vpmm_stats sums(struct fixture *f)
{
	struct vpmm_stats stats = fixture_stats(f);

	g_assert_cmpuint(stats.live + stats.free, ==, stats.mapped + stats.paused);
	g_assert_cmpuint(stats.mapped + stats.paused + stats.holes + stats.zombies, ==, stats.reserved);
	g_assert_true(stats.mapped || !(stats.extents + stats.mappings + stats.stuck + stats.spans));
	assert_ok(vpmm_pool_check(f->pool));
	return stats;
}

#define KINDS { { FIXTURE_PACKED }, { FIXTURE_OPTS }, { FIXTURE_PACKED, .extent_max = PAGE }, \
	{ FIXTURE_PACKED, .scrub = VPMM_SCRUB_ALWAYS }, { FIXTURE_PACKED, .keep = 2 * PAGE } }

/* The device has all of it back, and the blocks have what they had, again and again. */
static void test_contents(void)
{
	const struct vpmm_opts opts[] = KINDS;
	vpmm_tag tag = tag_get("a", VPMM_TAG_PAUSABLE);
	struct content contents[BLOCKS], other;
	struct vpmm_tag_stats stats;
	struct fixture f;
	uint64_t before, live;

	for (size_t i = 0; i < G_N_ELEMENTS(opts); i++) {
		fixture_open(&f, opts[i]);
		other = (struct content){ tag_malloc(f.pool, 0, PAGE, 5, f.streams[0]), PAGE, 5 };
		before = memory_free(&f);
		fill_all(&f, tag, contents);
		live = tag_stats(f.pool, tag).live;
		for (int round = 0; round < 3; round++) {
			assert_ok(vpmm_pause(f.pool, tag, 0));
			stats = tag_stats(f.pool, tag);
			g_assert_cmpuint(stats.live, ==, live);
			g_assert_cmpuint(stats.paused, ==, live - stats.kept);
			g_assert_cmpuint(stats.mapped, ==, stats.kept);
			g_assert_cmpuint(stats.saved, >=, stats.paused);
			/* The driver's allocator keeps what it has. */
			g_assert_cmpuint(memory_free(&f) + fixture_stats(&f).small_mapped, >=, before);
			g_assert_cmpuint(sums(&f).paused, ==, stats.paused);
			g_assert_cmpuint(sums(&f).saved, ==, stats.saved);
			assert_ok(vpmm_pause(f.pool, tag, 0));
			assert_ok(vpmm_resume(f.pool, tag, round ? f.streams[2] : VPMM_STREAM_ANY));
			assert_ok(vpmm_resume(f.pool, tag, NULL));
			assert_all(contents);
			stats = tag_stats(f.pool, tag);
			g_assert_cmpuint(stats.paused + stats.saved, ==, 0);
			g_assert_cmpuint(stats.live, ==, live);
			g_assert_cmpuint(sums(&f).paused, ==, 0);
			g_assert_true(tag_is_filled(other.ptr, other.size, other.seed));
		}
		for (unsigned int j = 0; j < BLOCKS; j++) {
			if (is_live(j))
				fixture_free(&f, contents[j].ptr, f.streams[j % 2]);
		}
		fixture_close(&f);
	}
}

/* Contents that are not wanted take no host memory; those of other blocks of the tag are kept. */
static void test_drop(void)
{
	vpmm_tag tag = tag_get("a", VPMM_TAG_PAUSABLE);
	void *kept, *dropped;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	kept = tag_malloc(f.pool, tag, 2 * PAGE, 1, f.streams[0]);
	dropped = tag_malloc(f.pool, tag | VPMM_TAG_DROP, 4 * PAGE, 2, f.streams[0]);
	assert_ok(vpmm_pause(f.pool, tag, 0));
	g_assert_cmpuint(tag_stats(f.pool, tag).saved, ==, 2 * PAGE);
	g_assert_cmpuint(tag_stats(f.pool, tag).paused, ==, 6 * PAGE);
	g_assert_cmpuint(sums(&f).mapped, ==, 0);
	g_setenv("VPMM_PAUSE_POISON", "1", TRUE);
	assert_ok(vpmm_resume(f.pool, tag, f.streams[0]));
	g_unsetenv("VPMM_PAUSE_POISON");
	g_assert_true(tag_is_filled(kept, 2 * PAGE, 1));
	g_assert_true(fixture_is_filled(dropped, 4 * PAGE, (char)0xff));
	assert_ok(vpmm_pause(f.pool, tag, VPMM_PAUSE_DROP));
	g_assert_cmpuint(tag_stats(f.pool, tag).saved, ==, 0);
	assert_ok(vpmm_resume(f.pool, tag, f.streams[0]));
	memset(kept, 1, 2 * PAGE);
	memset(dropped, 1, 4 * PAGE);
	fixture_close(&f);
}

/* Blocks that are to stay do, and count; so do those that other processes could have. */
static void test_stay(void)
{
	vpmm_tag tag = tag_get("a", VPMM_TAG_PAUSABLE);
	struct vpmm_tag_stats stats;
	void *stays, *goes, *shareable;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .export_as = VPMM_EXPORT_FD });
	stays = tag_malloc(f.pool, tag | VPMM_TAG_STAY, 2 * PAGE, 1, f.streams[0]);
	goes = tag_malloc(f.pool, tag, PAGE, 2, f.streams[0]);
	vpmm_tag_set(tag);
	assert_ok(vpmm_malloc_flags(f.pool, &shareable, PAGE, NULL, VPMM_SHAREABLE));
	vpmm_tag_set(0);
	tag_fill(shareable, PAGE, 3);
	assert_ok(vpmm_pause(f.pool, tag, 0));
	stats = tag_stats(f.pool, tag);
	g_assert_cmpuint(stats.live, ==, 4 * PAGE);
	g_assert_cmpuint(stats.kept, ==, 3 * PAGE);
	g_assert_cmpuint(stats.mapped, ==, 3 * PAGE);
	g_assert_cmpuint(stats.paused, ==, PAGE);
	g_assert_true(tag_is_filled(stays, 2 * PAGE, 1) && tag_is_filled(shareable, PAGE, 3));
	assert_ok(vpmm_use(f.pool, stays, f.streams[1]));
	fixture_free(&f, stays, f.streams[0]);
	assert_ok(vpmm_resume(f.pool, tag, f.streams[0]));
	g_assert_true(tag_is_filled(goes, PAGE, 2));
	fixture_close(&f);
}

/* What calls say while a tag is paused. */
static void test_calls(void)
{
	vpmm_tag tag = tag_get("a", VPMM_TAG_PAUSABLE), label = tag_get("label", 0);
	struct vpmm_allocation found = { .size = sizeof(found) };
	void *ptr, *grown, *got = &got;
	struct fixture f;
	char *dump;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	ptr = grown = tag_malloc(f.pool, tag, 2 * PAGE, 1, f.streams[0]);
	assert_error(vpmm_pause(f.pool, label, 0), EINVAL, "label");
	assert_error(vpmm_resume(f.pool, label, NULL), EINVAL, "label");
	assert_error(vpmm_pause(f.pool, 0, 0), EINVAL, "tag 0");
	assert_error(vpmm_pause(f.pool, 200, 0), EINVAL, "tag 200");
	assert_error(vpmm_pause(f.pool, tag, 0x80), EINVAL, "flags");
	assert_error(vpmm_pause_prepare(f.pool, label), EINVAL, "label");
	assert_ok(vpmm_pause(f.pool, tag, 0));
	vpmm_tag_set(tag);
	assert_error(vpmm_malloc(f.pool, &got, PAGE, f.streams[0]), EBUSY, "paused");
	assert_error(vpmm_malloc_growable(f.pool, &got, PAGE, 2 * PAGE, f.streams[0]), EBUSY, "paused");
	assert_error(vpmm_malloc_flags(f.pool, &got, PAGE, f.streams[0], VPMM_IDLE), EBUSY, "paused");
	g_assert_true(got == &got);
	vpmm_tag_set(tag | VPMM_TAG_STAY);
	assert_ok(vpmm_malloc(f.pool, &got, PAGE, f.streams[0]));
	vpmm_tag_set(0);
	assert_error(vpmm_realloc(f.pool, &grown, 3 * PAGE, f.streams[0]), EBUSY, "paused");
	g_assert_true(grown == ptr);
	assert_error(vpmm_use(f.pool, ptr, f.streams[1]), EBUSY, "paused");
	assert_ok(vpmm_lookup(ptr, &found));
	g_assert_cmpuint(found.bytes, ==, 2 * PAGE);
	dump = fixture_dump(&f);
	g_assert_nonnull(strstr(dump, "tag: a, paused\n"));
	free(dump);
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	assert_ok(vpmm_pool_set_limit(f.pool, 64 * PAGE));
	assert_ok(vpmm_pool_reset_peaks(f.pool));
	assert_ok(vpmm_stream_retire(f.pool, f.streams[0]));
	fixture_malloc(&f, 3, f.streams[1]);
	assert_ok(vpmm_resume(f.pool, tag, f.streams[0]));
	g_assert_true(tag_is_filled(ptr, 2 * PAGE, 1));
	assert_ok(vpmm_realloc(f.pool, &grown, 3 * PAGE, f.streams[0]));
	g_assert_true(tag_is_filled(grown, 2 * PAGE, 1));
	fixture_close(&f);
}

/* A cached block that no event covers is freed, too, and gets no memory with the resume. */
static void test_freed_small(void)
{
	vpmm_tag tag = tag_get("a", VPMM_TAG_PAUSABLE);

	for (size_t pages = 1; pages <= 16; pages *= 2) {
		struct fixture f;
		void *gone;

		fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
		tag_malloc(f.pool, tag, pages * PAGE, 1, f.streams[0]);
		gone = tag_malloc(f.pool, tag, pages * PAGE, 2, f.streams[0]);
		assert_ok(vpmm_pause(f.pool, tag, 0));
		fixture_free(&f, gone, f.streams[0]);
		assert_ok(vpmm_pool_set_limit(f.pool, pages * PAGE));
		assert_ok(vpmm_resume(f.pool, tag, f.streams[0]));
		g_assert_cmpuint(tag_stats(f.pool, tag).mapped, ==, pages * PAGE);
		fixture_close(&f);
	}
}

/* What is freed while it is paused gets no memory again, and a block beside it keeps its contents. */
static void test_free(void)
{
	const struct vpmm_opts opts[] = KINDS;
	vpmm_tag tag = tag_get("a", VPMM_TAG_PAUSABLE);
	struct content contents[BLOCKS];
	uint64_t live, mapped;
	struct fixture f;

	for (size_t i = 0; i < G_N_ELEMENTS(opts); i++) {
		fixture_open(&f, opts[i]);
		fill_all(&f, tag, contents);
		assert_ok(vpmm_pause(f.pool, tag, 0));
		live = tag_stats(f.pool, tag).live;
		for (unsigned int j = 0; j < BLOCKS; j += 4) {
			fixture_free(&f, contents[j].ptr, j % 8 ? VPMM_STREAM_ANY : f.streams[j % 2]);
			live -= tag_stats(f.pool, tag).live < live ? live - tag_stats(f.pool, tag).live : 0;
			assert_error(vpmm_free(f.pool, contents[j].ptr, f.streams[0]), EINVAL, "");
		}
		sums(&f);
		for (int s = 0; s < STREAMS; s++)
			assert_ok(vpmm_stream_retire(f.pool, f.streams[s]));
		assert_ok(vpmm_resume(f.pool, tag, f.streams[0]));
		mapped = tag_stats(f.pool, tag).mapped;
		g_assert_cmpuint(mapped, >=, live);
		for (unsigned int j = 0; j < BLOCKS; j++)
			g_assert_true(!is_live(j) || j % 4 == 0 ||
				      tag_is_filled(contents[j].ptr, contents[j].size, contents[j].seed));
		tag_malloc(f.pool, tag, 8 * PAGE, 3, f.streams[2]);
		sums(&f);
		for (unsigned int j = 0; j < BLOCKS; j++)
			g_assert_true(!is_live(j) || j % 4 == 0 ||
				      tag_is_filled(contents[j].ptr, contents[j].size, contents[j].seed));
		fixture_close(&f);
	}
}

/* All is freed while it is paused: nothing comes back. */
static void test_free_all(void)
{
	vpmm_tag tag = tag_get("a", VPMM_TAG_PAUSABLE);
	struct fixture f;
	void *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	ptr = tag_malloc(f.pool, tag, 8 * PAGE, 1, f.streams[0]);
	assert_ok(vpmm_pause(f.pool, tag, 0));
	fixture_free(&f, ptr, f.streams[0]);
	assert_ok(vpmm_stream_retire(f.pool, f.streams[0]));
	assert_ok(vpmm_resume(f.pool, tag, f.streams[0]));
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 0);
	tag_malloc(f.pool, tag, 8 * PAGE, 1, f.streams[0]);
	fixture_close(&f);
}

/* Several tags and pools, in any order; and all tags at once. */
static void test_several(void)
{
	vpmm_tag a = tag_get("a", VPMM_TAG_PAUSABLE), b = tag_get("b", VPMM_TAG_PAUSABLE);
	struct fixture f, g;
	void *ptrs[3];

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	fixture_open(&g, (struct vpmm_opts){ FIXTURE_PACKED });
	ptrs[0] = tag_malloc(f.pool, a, 3 * PAGE, 1, f.streams[0]);
	ptrs[1] = tag_malloc(f.pool, b, 2 * PAGE, 2, f.streams[0]);
	ptrs[2] = tag_malloc(g.pool, a, PAGE, 3, g.streams[0]);
	assert_ok(vpmm_pause(f.pool, a, 0));
	g_assert_true(tag_is_filled(ptrs[1], 2 * PAGE, 2) && tag_is_filled(ptrs[2], PAGE, 3));
	tag_fill(ptrs[1], 2 * PAGE, 4);
	assert_ok(vpmm_pause(f.pool, b, 0));
	assert_ok(vpmm_resume(f.pool, a, f.streams[0]));
	g_assert_true(tag_is_filled(ptrs[0], 3 * PAGE, 1));
	assert_ok(vpmm_pause(f.pool, VPMM_TAG_ALL, 0));
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 0);
	assert_ok(vpmm_resume(f.pool, b, f.streams[0]));
	assert_ok(vpmm_resume(f.pool, VPMM_TAG_ALL, f.streams[0]));
	g_assert_true(tag_is_filled(ptrs[0], 3 * PAGE, 1) && tag_is_filled(ptrs[1], 2 * PAGE, 4));
	fixture_close_beside(&f);
	assert_ok(vpmm_pause(g.pool, a, 0));
	fixture_close(&g);
}

static bool has_arena(const struct fixture *f, vpmm_tag tag)
{
	struct tags *tags = pool_tags(f->pool);

	return tags && arena_of(tags, tag);
}

/* Of all tags, a pause keeps those without memory from having any; other calls leave those alone. */
static void test_unused(void)
{
	vpmm_tag tag = tag_get("a", VPMM_TAG_PAUSABLE);
	struct fixture f;
	void *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_ok(vpmm_pause_prepare(f.pool, VPMM_TAG_ALL));
	assert_ok(vpmm_resume(f.pool, VPMM_TAG_ALL, f.streams[0]));
	g_assert_false(has_arena(&f, tag));
	assert_ok(vpmm_pause(f.pool, VPMM_TAG_ALL, 0));
	vpmm_tag_set(tag);
	assert_error(vpmm_malloc(f.pool, &ptr, PAGE, f.streams[0]), EBUSY, "is paused");
	vpmm_tag_set(0);
	assert_ok(vpmm_resume(f.pool, VPMM_TAG_ALL, f.streams[0]));
	fixture_free(&f, tag_malloc(f.pool, tag, PAGE, 1, f.streams[0]), f.streams[0]);
	fixture_close(&f);
}

/* What was prepared for all tags is enough to pause all of them. */
static void test_prepared(void)
{
	static const char *const names[] = { "a", "b", "c" };
	struct fixture f;
	uint64_t made;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
		tag_malloc(f.pool, tag_get(names[i], VPMM_TAG_PAUSABLE), (5 - i) * PAGE, i, f.streams[0]);
	assert_ok(vpmm_pause_prepare(f.pool, VPMM_TAG_ALL));
	made = backend_fault_calls(f.pool->core.backend, BACKEND_OP_host_create);
	assert_ok(vpmm_pause(f.pool, VPMM_TAG_ALL, 0));
	g_assert_cmpuint(backend_fault_calls(f.pool->core.backend, BACKEND_OP_host_create), ==, made);
	assert_ok(vpmm_resume(f.pool, VPMM_TAG_ALL, VPMM_STREAM_ANY));
	fixture_close(&f);
}

/* Others take the memory: nothing changes, and it works once they have given it back. */
static void test_exhausted(void)
{
	vpmm_tag tag = tag_get("a", VPMM_TAG_PAUSABLE);
	void *ptr, *other;
	struct fixture f, g;

	for (int limited = 0; limited < 2; limited++) {
		g_setenv("VPMM_HOST_CAPACITY", "32M", TRUE);
		fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = limited ? 8 * PAGE : 0 });
		g_unsetenv("VPMM_HOST_CAPACITY");
		fixture_open(&g, (struct vpmm_opts){ FIXTURE_PACKED });
		ptr = tag_malloc(f.pool, tag, 6 * PAGE, 9, f.streams[0]);
		assert_ok(vpmm_pause(f.pool, tag, 0));
		other = limited ? fixture_malloc(&f, 4, f.streams[1]) : fixture_malloc(&g, 12, g.streams[1]);
		for (int i = 0; i < 2; i++) {
			assert_error(vpmm_resume(f.pool, tag, f.streams[0]), ENOMEM, "tag");
			g_assert_cmpuint(tag_stats(f.pool, tag).paused, ==, 6 * PAGE);
			g_assert_cmpuint(tag_stats(f.pool, tag).saved, ==, 6 * PAGE);
			sums(&f);
		}
		fixture_free(limited ? &f : &g, other, limited ? f.streams[1] : g.streams[1]);
		if (!limited)
			assert_ok(vpmm_pool_trim(g.pool, 0, NULL));
		assert_ok(vpmm_resume(f.pool, tag, f.streams[0]));
		g_assert_true(tag_is_filled(ptr, 6 * PAGE, 9));
		fixture_close_beside(&f);
		fixture_close(&g);
	}
}

/* Pausing waits for the work of all streams; a pool ends while it is paused; preparing makes it no other. */
static void test_ends_paused(void)
{
	vpmm_tag tag = tag_get("a", VPMM_TAG_PAUSABLE);
	struct fixture f;

	for (int i = 0; i < 2; i++) {
		fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
		tag_malloc(f.pool, tag, 3 * PAGE, 1, f.streams[0]);
		tag_malloc(f.pool, tag | VPMM_TAG_DROP, PAGE, 1, f.streams[0]);
		assert_ok(vpmm_pause_prepare(f.pool, tag));
		assert_ok(vpmm_pause_prepare(f.pool, VPMM_TAG_ALL));
		assert_ok(vpmm_pause(f.pool, tag, i ? VPMM_PAUSE_DROP : 0));
		assert_ok(vpmm_pause_prepare(f.pool, tag));
		fixture_close(&f);
	}
}

/* Nothing of what a stream is about to do is lost. */
static void *complete(void *data)
{
	g_usleep(2000);
	fixture_complete(data);
	return NULL;
}

static void test_waits(void)
{
	vpmm_tag tag = tag_get("a", VPMM_TAG_PAUSABLE);
	struct fixture f;
	GThread *thread;
	void *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	ptr = tag_malloc(f.pool, tag, PAGE, 1, f.streams[0]);
	assert_ok(vpmm_host_stream_submit(f.streams[1]));
	thread = g_thread_new("complete", complete, f.streams[1]);
	assert_ok(vpmm_pause(f.pool, tag, 0));
	g_thread_join(thread);
	/* Work that others do meanwhile is not waited for. */
	assert_ok(vpmm_host_stream_submit(f.streams[1]));
	assert_ok(vpmm_resume(f.pool, tag, f.streams[0]));
	g_assert_true(tag_is_filled(ptr, PAGE, 1));
	fixture_complete(f.streams[1]);
	fixture_close(&f);
}

/* Growable and zeroed blocks, blocks that others use, and free memory at several addresses. */
static void test_kinds(void)
{
	vpmm_tag tag = tag_get("a", VPMM_TAG_PAUSABLE);
	void *grown = NULL, *used, *holes[8], *large;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE });
	vpmm_tag_set(tag);
	assert_ok(vpmm_malloc_growable(f.pool, &grown, 2 * PAGE, 16 * PAGE, f.streams[0]));
	vpmm_tag_set(0);
	tag_fill(grown, 2 * PAGE, 1);
	used = tag_malloc(f.pool, tag, PAGE, 2, f.streams[0]);
	assert_ok(vpmm_use(f.pool, used, f.streams[1]));
	for (int i = 0; i < 8; i++)
		holes[i] = tag_malloc(f.pool, tag, PAGE, 3, f.streams[0]);
	for (int i = 0; i < 8; i += 2)
		fixture_free(&f, holes[i], f.streams[0]);
	/* Assembled of the holes, so that extents are mapped twice. */
	large = tag_malloc(f.pool, tag, 5 * PAGE, 4, f.streams[0]);
	for (int i = 0; i < 2; i++) {
		assert_ok(vpmm_pause(f.pool, tag, 0));
		assert_ok(vpmm_resume(f.pool, tag, f.streams[i]));
		g_assert_true(tag_is_filled(grown, 2 * PAGE, 1) && tag_is_filled(used, PAGE, 2) &&
			      tag_is_filled(large, 5 * PAGE, 4) && tag_is_filled(holes[1], PAGE, 3));
		assert_ok(vpmm_pool_check(f.pool));
	}
	assert_ok(vpmm_realloc(f.pool, &grown, 9 * PAGE, f.streams[0]));
	g_assert_true(tag_is_filled(grown, 2 * PAGE, 1));
	fixture_close(&f);
}

/* Memory of a graph goes and comes, also while others capture, and the graph works. */
static void test_graph(void)
{
	vpmm_tag tag = tag_get("a", VPMM_TAG_PAUSABLE);
	struct vpmm_host_graph *graph;
	void *inside, *kept;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_ok(vpmm_host_capture_begin(f.streams[0]));
	vpmm_tag_set(tag);
	assert_ok(vpmm_malloc(f.pool, &inside, PAGE, f.streams[0]));
	assert_ok(vpmm_malloc_flags(f.pool, &kept, PAGE, f.streams[0], VPMM_ZERO));
	vpmm_tag_set(0);
	assert_ok(vpmm_pause(f.pool, tag, 0));
	vpmm_tag_set(tag);
	assert_error(vpmm_malloc(f.pool, &kept, PAGE, f.streams[0]), EBUSY, "is paused");
	vpmm_tag_set(0);
	assert_error(vpmm_resume(f.pool, tag, f.streams[0]), EBUSY, "capture");
	assert_ok(vpmm_resume(f.pool, tag, f.streams[1]));
	assert_ok(vpmm_free(f.pool, inside, f.streams[0]));
	assert_ok(vpmm_host_capture_end(f.streams[0], &graph));
	assert_ok(vpmm_pause(f.pool, tag, 0));
	g_assert_cmpuint(tag_stats(f.pool, tag).mapped, ==, 0);
	assert_ok(vpmm_resume(f.pool, tag, f.streams[0]));
	memset(kept, 1, PAGE);
	assert_ok(vpmm_host_graph_launch(graph, f.streams[0]));
	fixture_complete(f.streams[0]);
	g_assert_true(fixture_is_clear(kept, PAGE));
	assert_ok(vpmm_host_graph_destroy(graph));
	fixture_close(&f);
}

/* Peers have access to what comes back, as they are by then. */
static void test_peers(void)
{
	vpmm_tag tag = tag_get("a", VPMM_TAG_PAUSABLE);
	const int one = 1;
	struct fixture f;
	void *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	ptr = tag_malloc(f.pool, tag, PAGE, 1, f.streams[0]);
	assert_ok(vpmm_pause(f.pool, tag, 0));
	assert_ok(vpmm_pool_set_peers(f.pool, &one, 1));
	assert_ok(vpmm_resume(f.pool, tag, f.streams[0]));
	g_assert_cmpint(vpmm_host_check_access(1, ptr, PAGE), ==, 0);
	assert_ok(vpmm_pool_set_peers(f.pool, NULL, 0));
	g_assert_cmpint(vpmm_host_check_access(1, ptr, PAGE), !=, 0);
	fixture_close(&f);
}

/* What a mirror was told of two addresses. */
struct told {
	const char *ptrs[2];
	unsigned int unmaps[2];
	unsigned int maps[2];
};

static void hear(struct vpmm_mirror *mirror, void *data, enum vpmm_mirror_action action, void *start, void *end)
{
	struct told *told = data;

	(void)mirror;
	for (int i = 0; i < 2; i++) {
		if (told->ptrs[i] < (char *)start || told->ptrs[i] >= (char *)end)
			continue;
		told->unmaps[i] += action == VPMM_MIRROR_UNMAP;
		told->maps[i] += action == VPMM_MIRROR_MAP;
		/* It is there still, or again. */
		g_assert_true(tag_is_filled(told->ptrs[i], PAGE, 1));
	}
}

/* Mirrors are told before memory goes, and after it is back, of arenas older and younger than they. */
static void test_mirror(void)
{
	vpmm_tag a = tag_get("a", VPMM_TAG_PAUSABLE), b = tag_get("b", VPMM_TAG_PAUSABLE);
	const struct vpmm_mirror_ops ops = { .size = sizeof(ops), .update = hear };
	struct vpmm_mirror *mirror;
	struct told told = { 0 };
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	told.ptrs[0] = tag_malloc(f.pool, a, PAGE, 1, f.streams[0]);
	assert_ok(vpmm_mirror_register(f.pool, &mirror, &ops, &told));
	told.ptrs[1] = tag_malloc(f.pool, b, PAGE, 1, f.streams[0]);
	for (unsigned int i = 0; i < 3; i++) {
		assert_ok(vpmm_pause(f.pool, i % 2 ? b : a, 0));
		g_assert_cmpuint(told.unmaps[i % 2], ==, i / 2 + 1);
		g_assert_cmpuint(told.maps[i % 2], ==, i / 2);
		assert_ok(vpmm_resume(f.pool, i % 2 ? b : a, NULL));
		g_assert_cmpuint(told.maps[i % 2], ==, i / 2 + 1);
	}
	vpmm_mirror_unregister(mirror);
	assert_ok(vpmm_pause(f.pool, a, 0));
	g_assert_cmpuint(told.unmaps[0], ==, 2);
	fixture_close(&f);
}

/* Threads allocate and free under the tag and beside it, while another pauses and resumes it. */
static void test_beside(void)
{
	vpmm_tag tag = tag_get("a", VPMM_TAG_PAUSABLE);
	struct tag_worker workers[2];
	GThread *threads[2];
	struct fixture f;
	gint stop = 0;
	void *ptr;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	ptr = tag_malloc(f.pool, tag, 2 * PAGE, 1, f.streams[0]);
	for (int i = 0; i < 2; i++) {
		workers[i] = (struct tag_worker){ f.pool, i ? tag : 0, .stop = &stop };
		threads[i] = g_thread_new("worker", tag_work, &workers[i]);
	}
	for (int i = 0; i < 20; i++) {
		assert_ok(vpmm_pause(f.pool, tag, i % 3 ? 0 : VPMM_PAUSE_DROP));
		assert_ok(vpmm_pool_check(f.pool));
		assert_ok(vpmm_resume(f.pool, tag, f.streams[0]));
		g_assert_true(i % 3 == 0 || tag_is_filled(ptr, 2 * PAGE, 1));
		tag_fill(ptr, 2 * PAGE, 1);
	}
	g_atomic_int_set(&stop, 1);
	for (int i = 0; i < 2; i++)
		g_thread_join(threads[i]);
	assert_ok(vpmm_pool_check(f.pool));
	g_assert_cmpuint(tag_stats(f.pool, tag).live, ==, 2 * PAGE);
	fixture_close(&f);
}

/* Host memory stays as VPMM_PAUSE_HOST says, and goes with a trim. */
static void test_host(void)
{
	vpmm_tag tag = tag_get("a", VPMM_TAG_PAUSABLE);
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	g_setenv("VPMM_PAUSE_HOST", "lots", TRUE);
	assert_error(vpmm_pause(f.pool, tag, 0), EINVAL, "VPMM_PAUSE_HOST");
	g_setenv("VPMM_PAUSE_HOST", "0", TRUE);
	tag_malloc(f.pool, tag, PAGE, 1, f.streams[0]);
	g_unsetenv("VPMM_PAUSE_HOST");
	assert_ok(vpmm_pause(f.pool, tag, 0));
	assert_ok(vpmm_resume(f.pool, tag, f.streams[0]));
	fixture_close(&f);
}

static uint64_t driver_calls(struct fixture *f)
{
	struct vpmm_stats stats = fixture_stats(f);

	return stats.creates + stats.maps + stats.accesses + stats.unmaps + stats.releases;
}

/* Memory comes back in larger extents, so that the next turn takes fewer driver calls; and goes back as before. */
static void test_larger(void)
{
	vpmm_tag tag = tag_get("a", VPMM_TAG_PAUSABLE);
	enum { COUNT = 256 };
	uint64_t before, turns[3], extents;
	void *blocks[COUNT];
	struct fixture f;
	size_t released;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (size_t i = 0; i < COUNT; i++)
		blocks[i] = tag_malloc(f.pool, tag, PAGE, i, f.streams[0]);
	extents = fixture_stats(&f).extents;
	for (size_t i = 0; i < G_N_ELEMENTS(turns); i++) {
		before = driver_calls(&f);
		assert_ok(vpmm_pause(f.pool, tag, i ? VPMM_PAUSE_DROP : 0));
		assert_ok(vpmm_resume(f.pool, tag, VPMM_STREAM_ANY));
		turns[i] = driver_calls(&f) - before;
		for (size_t j = 0; !i && j < COUNT; j++)
			g_assert_true(tag_is_filled(blocks[j], PAGE, j));
		assert_ok(vpmm_pool_check(f.pool));
	}
	g_test_message("%" PRIu64 " extents, %" PRIu64 " and %" PRIu64 " calls", extents, turns[0], turns[2]);
	g_assert_cmpuint(turns[1], <, turns[0]);
	g_assert_cmpuint(turns[2], ==, turns[1]);
	g_assert_cmpuint(fixture_stats(&f).extents, <, extents);
	/* Large ones do not keep what is free: all but a few blocks are freed. */
	for (size_t i = 0; i < COUNT; i++) {
		if (i % 64)
			assert_ok(vpmm_free(f.pool, blocks[i], f.streams[0]));
	}
	assert_ok(vpmm_pool_trim(f.pool, 0, &released));
	g_assert_cmpuint(fixture_stats(&f).mapped, <=, 4 * COUNT / 64 * PAGE);
	for (size_t i = 0; i < COUNT; i += 64)
		assert_ok(vpmm_free(f.pool, blocks[i], f.streams[0]));
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_setenv("VPMM_HOST_DEVICES", "2", TRUE);
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/pause/contents", test_contents);
	g_test_add_func("/pause/drop", test_drop);
	g_test_add_func("/pause/larger", test_larger);
	g_test_add_func("/pause/stay", test_stay);
	g_test_add_func("/pause/calls", test_calls);
	g_test_add_func("/pause/free", test_free);
	g_test_add_func("/pause/freed-small", test_freed_small);
	g_test_add_func("/pause/free-all", test_free_all);
	g_test_add_func("/pause/several", test_several);
	g_test_add_func("/pause/unused", test_unused);
	g_test_add_func("/pause/prepared", test_prepared);
	g_test_add_func("/pause/exhausted", test_exhausted);
	g_test_add_func("/pause/ends-paused", test_ends_paused);
	g_test_add_func("/pause/waits", test_waits);
	g_test_add_func("/pause/kinds", test_kinds);
	g_test_add_func("/pause/graph", test_graph);
	g_test_add_func("/pause/peers", test_peers);
	g_test_add_func("/pause/mirror", test_mirror);
	g_test_add_func("/pause/beside", test_beside);
	g_test_add_func("/pause/host", test_host);
	return g_test_run();
}
