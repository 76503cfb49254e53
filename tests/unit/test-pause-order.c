// SPDX-License-Identifier: LGPL-2.1-or-later
/* A tag is paused once more while host memory goes back from the call before: what is saved now is not touched. */
#define _GNU_SOURCE 1
#include "core/store.h"

static void on_give(void);

#define store_give(store, pieces) (on_give(), (store_give)(store, pieces))

#include "calls/pause.c"

#include "host/tag-fixture.h"
#include "support/fault.h"

#define BLOCKS 2

static struct fixture f;
static vpmm_tag tags[BLOCKS];

/* What another thread does, which waited for the lock of the arena; it does so once. */
static bool again;

static void on_give(void)
{
	/* Before the call has ended it is refused. */
	if (again)
		again = vpmm_pause(f.pool, tags[0], 0) == -EBUSY;
}

/* The second tag would take host memory that the first one has. */
static void check_contents(void *const *blocks)
{
	g_assert_false(again);
	assert_ok(vpmm_pause(f.pool, tags[1], 0));
	for (unsigned int i = 0; i < BLOCKS; i++) {
		assert_ok(vpmm_resume(f.pool, tags[i], f.streams[0]));
		g_assert_true(tag_is_filled(blocks[i], PAGE, i));
		fixture_free(&f, blocks[i], f.streams[0]);
	}
}

static void open_pool(void **blocks)
{
	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (unsigned int i = 0; i < BLOCKS; i++) {
		tags[i] = tag_get(i ? "b" : "a", VPMM_TAG_PAUSABLE);
		blocks[i] = tag_malloc(f.pool, tags[i], PAGE, i, f.streams[0]);
	}
}

static void test_resumed(void)
{
	void *blocks[BLOCKS];

	open_pool(blocks);
	assert_ok(vpmm_pause(f.pool, tags[0], 0));
	again = true;
	assert_ok(vpmm_resume(f.pool, tags[0], f.streams[0]));
	check_contents(blocks);
	fixture_close(&f);
}

static void test_failed(void)
{
	void *blocks[BLOCKS];

	open_pool(blocks);
	again = true;
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_unmap, 0, 1, -EIO);
	g_assert_cmpint(vpmm_pause(f.pool, tags[0], 0), ==, -EIO);
	check_contents(blocks);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	/* Host memory that is given back stays, so that the next pause gets it. */
	g_setenv("VPMM_PAUSE_HOST", "1G", TRUE);
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/pause-order/resumed", test_resumed);
	g_test_add_func("/pause-order/failed", test_failed);
	return g_test_run();
}
