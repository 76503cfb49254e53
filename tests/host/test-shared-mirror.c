// SPDX-License-Identifier: LGPL-2.1-or-later
/* Mirrors of shared ranges: told before each move, and never left with what nobody would tell them of. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "backend/backend.h"
#include "calls/pool.h"
#include "support/fault.h"
#include "support/fixture.h"
#include "support/ranges.h"

/* A registration cache, as network cards need: it may use an address only while it has it registered. */
struct registration {
	struct fixture *f;
	char *start;
	char *end;
	int updates;
	int unmaps;
};

static void register_update(struct vpmm_mirror *mirror, void *data, enum vpmm_mirror_action action, void *start, void *end)
{
	struct registration *cache = data;
	struct vpmm_page page;

	g_assert_nonnull(mirror);
	cache->updates++;
	cache->unmaps += action == VPMM_MIRROR_UNMAP;
	/* It is told before the change. */
	if (action == VPMM_MIRROR_MOVE) {
		g_assert_cmpint(vpmm_locate(NULL, start, 1, &page), ==, 1);
		g_assert_cmpuint(page.sequence, ==, 1);
	}
	cache->start = start;
	cache->end = end;
}

static void test_told(void)
{
	const struct vpmm_mirror_ops ops = { sizeof(ops), register_update };
	struct registration cache = { 0 };
	struct vpmm_mirror *mirror;
	struct fixture f;
	char *at;

	at = ranges_open_packed(&f, 4 * PAGE);
	memset(at, 1, 4 * PAGE);
	assert_ok(vpmm_mirror_register(f.pool, &mirror, &ops, &cache));
	g_assert_cmpint(vpmm_migrate(f.pool, at + PAGE, 2 * PAGE, VPMM_DEVICE, NULL, NULL, NULL), ==, 2);
	g_assert_cmpint(cache.updates, ==, 1);
	g_assert_true(cache.start == at + PAGE && cache.end == at + 3 * PAGE);
	g_assert_cmpuint(ranges_page(&f, at + PAGE).sequence, ==, 2);
	vpmm_mirror_unregister(mirror);
	g_assert_cmpint(at[PAGE], ==, 1);
	g_assert_cmpint(cache.updates, ==, 1);
	assert_ok(vpmm_mirror_register(f.pool, &mirror, &ops, &cache));
	assert_ok(vpmm_shared_free(f.pool, at, NULL));
	g_assert_cmpint(cache.unmaps, ==, 1);
	vpmm_mirror_unregister(mirror);

	/* A pool that ends first tells the mirror, which goes later. */
	ranges_alloc(&f, PAGE);
	assert_ok(vpmm_mirror_register(f.pool, &mirror, &ops, &cache));
	fixture_close(&f);
	g_assert_cmpint(cache.unmaps, ==, 2);
	vpmm_mirror_unregister(mirror);
}

/* What a mirror would learn between an update and the change that it told of. */
struct watcher {
	struct fixture *f;
	char *at;
	struct vpmm_page seen;
	unsigned int moves;
	unsigned int unmaps;
	size_t done;
	bool skip;
};

static void watch_update(struct vpmm_mirror *mirror, void *data, enum vpmm_mirror_action action, void *start, void *end)
{
	struct watcher *watcher = data;

	(void)mirror;
	(void)end;
	watcher->moves += action == VPMM_MIRROR_MOVE;
	watcher->unmaps += action == VPMM_MIRROR_UNMAP;
	g_assert_cmpint(vpmm_locate(NULL, start, 1, &watcher->seen), ==, 1);
	g_assert_cmpuint(watcher->seen.flags & VPMM_PAGE_MOVING, !=, 0);
}

static void *learn(void *data)
{
	struct watcher *watcher = data;

	watcher->seen = ranges_page(watcher->f, watcher->at);
	return NULL;
}

static void learn_meanwhile(void *data, struct vpmm_move *moves, size_t count, struct CUstream_st *stream)
{
	struct watcher *watcher = data;
	pthread_t thread;
	int err;

	(void)count;
	(void)stream;
	err = pthread_create(&thread, NULL, learn, watcher);
	g_assert_cmpint(err, ==, 0);
	pthread_join(thread, NULL);
	moves[0].flags |= watcher->skip ? VPMM_MOVE_SKIP : 0;
}

static void count_done(void *data, const struct vpmm_move *moves, size_t count)
{
	struct watcher *watcher = data;

	for (size_t i = 0; i < count; i++)
		watcher->done += !!(moves[i].flags & VPMM_MOVE_DONE);
}

static const struct vpmm_mirror_ops mirror_ops = { sizeof(mirror_ops), watch_update };
static const struct vpmm_migrate_ops learning = { sizeof(learning), learn_meanwhile, count_done };

/* From before the update until the page stays where it is: whoever learns of it then is told to begin anew. */
static void test_moving(void)
{
	struct watcher watcher = { 0 };
	struct vpmm_page before, after;
	struct vpmm_mirror *mirror;
	struct backend *be;
	struct fixture f;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	be = f.pool->core.backend;
	watcher.f = &f;
	watcher.at = ranges_alloc(&f, PAGE);
	watcher.at[0] = 1;
	assert_ok(vpmm_mirror_register(f.pool, &mirror, &mirror_ops, &watcher));
	for (int i = 0; i < 3; i++) {
		before = ranges_page(&f, watcher.at);
		g_assert_cmpuint(before.flags & VPMM_PAGE_MOVING, ==, 0);
		/* A move that is declined, one that fails, and one that succeeds. */
		watcher.skip = i == 0;
		backend_fault_arm(be, BACKEND_OP_copy, 0, i == 1, -EIO);
		g_assert_cmpint(vpmm_migrate(f.pool, watcher.at, 1, VPMM_DEVICE, NULL, &learning, &watcher), ==,
				i == 0 ? 0 : i == 1 ? -EIO : 1);
		g_assert_cmpuint(watcher.seen.flags & VPMM_PAGE_MOVING, !=, 0);
		g_assert_cmpuint(watcher.seen.sequence, ==, before.sequence);
		g_assert_cmpuint(watcher.done, ==, i == 2);
		after = ranges_page(&f, watcher.at);
		g_assert_cmpuint(after.flags & VPMM_PAGE_MOVING, ==, 0);
		g_assert_cmpuint(after.sequence, !=, before.sequence);
		g_assert_cmpint(after.location, ==, i == 2 ? VPMM_DEVICE : VPMM_HOST);
	}
	g_assert_cmpuint(watcher.moves, ==, 3);

	/* A range that is not freed after all is told of if it might have been, and can be learnt of again. */
	assert_error(vpmm_shared_free(f.pool, watcher.at, VPMM_HOST_STREAM_PER_THREAD), ENOTSUP, "default stream");
	g_assert_cmpuint(watcher.unmaps, ==, 0);
	/* All fail, as the thread that serves touches may unmap meanwhile. */
	backend_fault_arm(be, BACKEND_OP_unmap, 0, UINT_MAX, -EIO);
	g_assert_cmpint(vpmm_shared_free(f.pool, watcher.at, NULL), ==, -EIO);
	backend_fault_arm(be, BACKEND_OP_unmap, 0, 0, 0);
	g_assert_cmpuint(watcher.unmaps, ==, 1);
	g_assert_cmpuint(ranges_page(&f, watcher.at).flags & VPMM_PAGE_MOVING, ==, 0);
	g_assert_cmpuint(ranges_page(&f, watcher.at).sequence, !=, after.sequence);
	g_assert_cmpint(ranges_look(watcher.at), ==, 1);
	assert_ok(vpmm_shared_free(f.pool, watcher.at, NULL));
	vpmm_mirror_unregister(mirror);
	fixture_close(&f);
}

/*
 * As HMM's users do it: what was learnt is checked under the lock that update takes, and used under it. Nothing is used
 * then that an update has told of and that was not changed yet, and nothing stays that has changed.
 */
struct filler {
	struct fixture *f;
	char *at;
	pthread_mutex_t lock;
	bool valid;
	struct vpmm_page page;		/* what is used; under the lock */
	_Atomic bool stop;
	_Atomic unsigned int filled;
};

static void invalidate(struct vpmm_mirror *mirror, void *data, enum vpmm_mirror_action action, void *start, void *end)
{
	struct filler *filler = data;

	(void)mirror;
	(void)action;
	(void)start;
	(void)end;
	pthread_mutex_lock(&filler->lock);
	filler->valid = false;
	pthread_mutex_unlock(&filler->lock);
}

static void *fill_table(void *data)
{
	struct filler *filler = data;
	struct vpmm_page first, again;

	while (!filler->stop) {
		first = ranges_page(filler->f, filler->at);
		pthread_mutex_lock(&filler->lock);
		again = ranges_page(filler->f, filler->at);
		if (again.sequence == first.sequence && !(again.flags & VPMM_PAGE_MOVING)) {
			filler->page = again;
			filler->valid = true;
			filler->filled++;
		}
		pthread_mutex_unlock(&filler->lock);
		pthread_mutex_lock(&filler->lock);
		if (filler->valid) {
			again = ranges_page(filler->f, filler->at);
			g_assert_cmpuint(again.sequence, ==, filler->page.sequence);
			g_assert_cmpint(again.location, ==, filler->page.location);
		}
		pthread_mutex_unlock(&filler->lock);
	}
	return NULL;
}

static void test_populate(void)
{
	const struct vpmm_mirror_ops ops = { sizeof(ops), invalidate };
	struct filler filler = { .lock = PTHREAD_MUTEX_INITIALIZER };
	struct vpmm_mirror *mirror;
	struct fixture f;
	pthread_t thread;
	int err;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	filler.f = &f;
	filler.at = ranges_alloc(&f, PAGE);
	filler.at[0] = 1;
	assert_ok(vpmm_mirror_register(f.pool, &mirror, &ops, &filler));
	err = pthread_create(&thread, NULL, fill_table, &filler);
	g_assert_cmpint(err, ==, 0);
	for (int i = 0; i < 300; i++)
		g_assert_cmpint(ranges_migrate(&f, filler.at, 1, i % 2 ? VPMM_HOST : VPMM_DEVICE), ==, 1);
	while (!filler.filled)
		g_usleep(1000);
	filler.stop = true;
	pthread_join(thread, NULL);
	vpmm_mirror_unregister(mirror);
	assert_ok(vpmm_shared_free(f.pool, filler.at, NULL));
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/shared-mirror/told", test_told);
	g_test_add_func("/shared-mirror/moving", test_moving);
	g_test_add_func("/shared-mirror/populate", test_populate);
	return g_test_run();
}
