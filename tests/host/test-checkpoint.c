// SPDX-License-Identifier: LGPL-2.1-or-later
/* What one trim leaves for a checkpoint of the process: what is live. */
#include "host/backend.h"
#include "host/tag-fixture.h"

#define LIVE 3

static struct host_left left_now(void)
{
	struct host_left left;

	backend_host_left(&left);
	return left;
}

/* Each page is memory of its own, so that what is left can be counted. */
static void open_pool(struct fixture *f)
{
	fixture_open(f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE, .export_as = VPMM_EXPORT_FD });
}

/* Free pages, blocks that were put together of them and so mapped them twice, blocks for others, a page in a cache. */
static void leave_free(struct fixture *f, vpmm_tag word)
{
	void *holes[8], *large, *shareable;

	for (int i = 0; i < 8; i++)
		holes[i] = tag_malloc(f->pool, word, PAGE, 1, f->streams[0]);
	for (int i = 0; i < 8; i += 2)
		fixture_free(f, holes[i], f->streams[0]);
	large = tag_malloc(f->pool, word, 4 * PAGE, 1, f->streams[0]);
	fixture_free(f, large, f->streams[0]);
	for (int i = 1; i < 8; i += 2)
		fixture_free(f, holes[i], f->streams[i % 4]);
	assert_ok(vpmm_malloc_flags(f->pool, &shareable, PAGE, f->streams[0], VPMM_SHAREABLE));
	fixture_free(f, shareable, f->streams[0]);
	for (int i = 0; i < STREAMS; i++)
		fixture_complete(f->streams[i]);
}

static void assert_only_live(struct fixture *f, uint64_t pages)
{
	struct vpmm_stats stats = fixture_stats(f);

	g_assert_cmpuint(stats.mapped, ==, pages * PAGE);
	g_assert_cmpuint(stats.zombies, ==, 0);
	g_assert_cmpuint(left_now().handles, ==, pages);
	g_assert_cmpuint(left_now().mappings, ==, pages);
	assert_ok(vpmm_pool_check(f->pool));
}

/* Without tags, and with what a tag has and had in host memory while it was paused. */
static void test_only_live(void)
{
	vpmm_tag tag = tag_get("a", VPMM_TAG_PAUSABLE);
	void *plain, *tagged;
	struct fixture f;

	for (int tags = 0; tags < 2; tags++) {
		open_pool(&f);
		plain = tag_malloc(f.pool, 0, LIVE * PAGE, 7, f.streams[0]);
		leave_free(&f, 0);
		tagged = tag_malloc(f.pool, tags ? tag : 0, LIVE * PAGE, 9, f.streams[1]);
		if (tags) {
			leave_free(&f, tag);
			assert_ok(vpmm_pause(f.pool, tag, 0));
			assert_ok(vpmm_resume(f.pool, tag, f.streams[1]));
			leave_free(&f, tag);
		}
		g_assert_cmpuint(left_now().handles, >, 2 * LIVE);
		assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
		assert_only_live(&f, 2 * LIVE);
		g_assert_true(tag_is_filled(plain, LIVE * PAGE, 7) && tag_is_filled(tagged, LIVE * PAGE, 9));
		fixture_close(&f);
	}
}

/* What sleeps without contents has nothing. */
static void test_asleep(void)
{
	vpmm_tag tag = tag_get("a", VPMM_TAG_PAUSABLE);
	struct fixture f;

	open_pool(&f);
	tag_malloc(f.pool, tag, LIVE * PAGE, 9, f.streams[1]);
	assert_ok(vpmm_pause_prepare(f.pool, tag));
	assert_ok(vpmm_pause(f.pool, tag, VPMM_PAUSE_DROP));
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	assert_only_live(&f, 0);
	assert_ok(vpmm_resume(f.pool, tag, f.streams[1]));
	assert_only_live(&f, LIVE);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/checkpoint/only-live", test_only_live);
	g_test_add_func("/checkpoint/asleep", test_asleep);
	return g_test_run();
}
