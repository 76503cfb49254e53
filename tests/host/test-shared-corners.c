// SPDX-License-Identifier: LGPL-2.1-or-later
/* Shared ranges where the process, the kernel or memory is in the way: nothing is lost, and nobody waits for ever. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls/pool.h"
#include "shared/serve.h"
#include "shared/shared.h"
#include "shared/touch.h"
#include "support/fixture.h"
#include "util/sanitized.h"
#include "vpmm-shared.h"

/* How touches are noticed; the kernel may not allow the first two. */
static const struct way {
	const char *name;
} ways[] = { { "userfaultfd" }, { "user" }, { "signal" } };

static bool open_way(struct fixture *f, const struct way *way, char **at, size_t size)
{
	void *addr;
	int err;

	g_setenv("VPMM_SHARED_TOUCH", way->name, TRUE);
	fixture_open(f, (struct vpmm_opts){ FIXTURE_PACKED });
	err = vpmm_shared_alloc(f->pool, &addr, size, VPMM_SHARED_FINE);
	g_unsetenv("VPMM_SHARED_TOUCH");
	if (err == -ENOTSUP) {
		fixture_close(f);
		g_test_skip("the kernel does not allow it");
		return false;
	}
	assert_ok(err);
	*at = addr;
	return true;
}

static char *range_of(struct fixture *f, size_t size)
{
	void *addr = NULL;

	assert_ok(vpmm_shared_alloc(f->pool, &addr, size, VPMM_SHARED_FINE));
	return addr;
}

static struct vpmm_shared_stats stats_of(struct fixture *f)
{
	struct vpmm_shared_stats stats = { .size = sizeof(stats) };

	assert_ok(vpmm_shared_stats(f->pool, &stats));
	return stats;
}

static struct vpmm_page page_of(struct fixture *f, const void *addr)
{
	struct vpmm_page page;

	g_assert_cmpint(vpmm_locate(f->pool, addr, 1, &page), ==, 1);
	return page;
}

static int migrate(struct fixture *f, void *at, size_t size, enum vpmm_location to)
{
	return vpmm_migrate(f->pool, at, size, to, NULL, NULL, NULL);
}

/* A touch, whatever the compiler knows of the value. */
static char look(const char *at)
{
	return *(const volatile char *)at;
}

/* With all new memory locked the kernel fills it at once, also that which stands for a page on the device. */
static void test_locked(gconstpointer data)
{
	struct fixture f;
	char *at;

	if (mlockall(MCL_FUTURE)) {
		g_test_skip("memory cannot be locked here");
		return;
	}
	if (open_way(&f, data, &at, 2 * PAGE)) {
		at[0] = at[PAGE] = 1;
		g_assert_cmpint(migrate(&f, at, 2 * PAGE, VPMM_DEVICE), ==, 2);
		++*(char *)vpmm_host_view(at);
		g_assert_cmpint(look(at), ==, 2);
		g_assert_cmpint(look(at + PAGE), ==, 1);
		/* What is locked is touched, where the kernel may; what was locked can move. */
		g_assert_cmpint(migrate(&f, at, PAGE, VPMM_DEVICE), ==, 1);
		if (!mlock(at, PAGE))
			g_assert_cmpint(page_of(&f, at).location, ==, VPMM_HOST);
		g_assert_cmpint(look(at), ==, 2);
		g_assert_cmpint(migrate(&f, at, PAGE, VPMM_DEVICE), ==, 1);
		++*(char *)vpmm_host_view(at);
		g_assert_cmpint(look(at), ==, 3);
		assert_ok(vpmm_shared_free(f.pool, at, NULL));
		fixture_close(&f);
	}
	munlockall();
}

/* The child has no range, and is told so at once; the parent's goes on. */
static void test_fork(gconstpointer data)
{
	struct fixture f;
	char *at;
	int status;
	pid_t child;

	if (!open_way(&f, data, &at, 2 * PAGE))
		return;
	at[0] = at[PAGE] = 3;
	g_assert_cmpint(migrate(&f, at, PAGE, VPMM_DEVICE), ==, 1);
	for (int i = 0; i < 2; i++) {
		child = fork();
		if (!child) {
			alarm(5);
			_exit(100 + look(at + (size_t)i * PAGE));
		}
		g_assert_cmpint(waitpid(child, &status, 0), ==, child);
		/* A sanitizer turns the signal into an exit. */
		g_assert_false(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
		g_assert_false(WIFEXITED(status) && WEXITSTATUS(status) >= 100);
	}
	g_assert_cmpint(page_of(&f, at).location, ==, VPMM_DEVICE);
	g_assert_cmpint(look(at) + look(at + PAGE), ==, 6);
	assert_ok(vpmm_shared_free(f.pool, at, NULL));
	fixture_close(&f);
}

/* A signal that is sent, not earned, does what it did without the library. */
static void in_child(void (*handler)(int number))
{
	struct fixture f;
	char *at;

	alarm(20);
	signal(SIGSEGV, handler);
	if (!open_way(&f, &ways[2], &at, PAGE))
		_exit(2);
	at[0] = 1;
	raise(SIGSEGV);
	at[0] = 2;
	_exit(at[0] == 2 ? 0 : 1);
}

static void test_sent(void)
{
	int status;
	pid_t child;

	child = fork();
	if (!child)
		in_child(SIG_DFL);
	g_assert_cmpint(waitpid(child, &status, 0), ==, child);
	g_assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	child = fork();
	if (!child)
		in_child(SIG_IGN);
	g_assert_cmpint(waitpid(child, &status, 0), ==, child);
	g_assert_true(WIFEXITED(status));
	g_assert_cmpint(WEXITSTATUS(status), ==, 0);
}

/* Of a device that has failed nobody gets zeros, even when the process can have no descriptor for a while. */
static sigjmp_buf lost;

static void on_bus(int number)
{
	siglongjmp(lost, number);
}

static void *allow_files(void *limit)
{
	g_usleep(2 * G_USEC_PER_SEC);
	g_assert_cmpint(setrlimit(RLIMIT_NOFILE, limit), ==, 0);
	return NULL;
}

static void test_no_descriptors(void)
{
	struct sigaction action = { .sa_handler = on_bus, .sa_flags = SA_NODEFER }, was;
	struct rlimit files, none;
	struct fixture f;
	pthread_t thread;
	char *at;
	int err;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	at = range_of(&f, PAGE);
	at[0] = 1;
	g_assert_cmpint(migrate(&f, at, PAGE, VPMM_DEVICE), ==, 1);
	g_assert_cmpint(getrlimit(RLIMIT_NOFILE, &files), ==, 0);
	none = (struct rlimit){ 3, files.rlim_max };
	g_assert_cmpint(sigaction(SIGBUS, &action, &was), ==, 0);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_copy, 0, UINT_MAX, -EIO);
	err = pthread_create(&thread, NULL, allow_files, &files);
	g_assert_cmpint(err, ==, 0);
	g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &none), ==, 0);
	if (!sigsetjmp(lost, 1)) {
		look(at);
		g_assert_not_reached();
	}
	pthread_join(thread, NULL);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_copy, 0, 0, 0);
	g_assert_cmpint(sigaction(SIGBUS, &was, NULL), ==, 0);
	assert_ok(vpmm_shared_free(f.pool, at, NULL));
	fixture_close(&f);
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

static void update(struct vpmm_mirror *mirror, void *data, enum vpmm_mirror_action action, void *start, void *end)
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

	watcher->seen = page_of(watcher->f, watcher->at);
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

static const struct vpmm_mirror_ops mirror_ops = { sizeof(mirror_ops), update };
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
	watcher.at = range_of(&f, PAGE);
	watcher.at[0] = 1;
	assert_ok(vpmm_mirror_register(f.pool, &mirror, &mirror_ops, &watcher));
	for (int i = 0; i < 3; i++) {
		before = page_of(&f, watcher.at);
		g_assert_cmpuint(before.flags & VPMM_PAGE_MOVING, ==, 0);
		/* A move that is declined, one that fails, and one that succeeds. */
		watcher.skip = i == 0;
		backend_fault_arm(be, BACKEND_OP_copy, 0, i == 1, -EIO);
		g_assert_cmpint(vpmm_migrate(f.pool, watcher.at, 1, VPMM_DEVICE, NULL, &learning, &watcher), ==,
				i == 0 ? 0 : i == 1 ? -EIO : 1);
		g_assert_cmpuint(watcher.seen.flags & VPMM_PAGE_MOVING, !=, 0);
		g_assert_cmpuint(watcher.seen.sequence, ==, before.sequence);
		g_assert_cmpuint(watcher.done, ==, i == 2);
		after = page_of(&f, watcher.at);
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
	g_assert_cmpuint(page_of(&f, watcher.at).flags & VPMM_PAGE_MOVING, ==, 0);
	g_assert_cmpuint(page_of(&f, watcher.at).sequence, !=, after.sequence);
	g_assert_cmpint(look(watcher.at), ==, 1);
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
		first = page_of(filler->f, filler->at);
		pthread_mutex_lock(&filler->lock);
		again = page_of(filler->f, filler->at);
		if (again.sequence == first.sequence && !(again.flags & VPMM_PAGE_MOVING)) {
			filler->page = again;
			filler->valid = true;
			filler->filled++;
		}
		pthread_mutex_unlock(&filler->lock);
		pthread_mutex_lock(&filler->lock);
		if (filler->valid) {
			again = page_of(filler->f, filler->at);
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
	filler.at = range_of(&f, PAGE);
	filler.at[0] = 1;
	assert_ok(vpmm_mirror_register(f.pool, &mirror, &ops, &filler));
	err = pthread_create(&thread, NULL, fill_table, &filler);
	g_assert_cmpint(err, ==, 0);
	for (int i = 0; i < 300; i++)
		g_assert_cmpint(migrate(&f, filler.at, 1, i % 2 ? VPMM_HOST : VPMM_DEVICE), ==, 1);
	while (!filler.filled)
		g_usleep(1000);
	filler.stop = true;
	pthread_join(thread, NULL);
	vpmm_mirror_unregister(mirror);
	assert_ok(vpmm_shared_free(f.pool, filler.at, NULL));
	fixture_close(&f);
}

/* A mirror that ends while its pool does, as one of a default pool may without the program knowing. */
struct leaver {
	struct vpmm_mirror *mirror;
	pthread_t thread;
	bool going;
};

static void *leave(void *data)
{
	vpmm_mirror_unregister(data);
	return NULL;
}

static void leave_meanwhile(struct vpmm_mirror *mirror, void *data, enum vpmm_mirror_action action, void *start,
			    void *end)
{
	struct leaver *leaver = data;
	int err;

	(void)start;
	(void)end;
	if (action != VPMM_MIRROR_UNMAP)
		return;
	err = pthread_create(&leaver->thread, NULL, leave, mirror);
	g_assert_cmpint(err, ==, 0);
	leaver->going = true;
	/* Time enough for it to come to where it waits. */
	g_usleep(100000);
}

static void test_leave_meanwhile(void)
{
	const struct vpmm_mirror_ops ops = { sizeof(ops), leave_meanwhile };
	struct leaver leaver = { 0 };
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	range_of(&f, PAGE)[0] = 1;
	assert_ok(vpmm_mirror_register(f.pool, &leaver.mirror, &ops, &leaver));
	fixture_close(&f);
	g_assert_true(leaver.going);
	pthread_join(leaver.thread, NULL);
}

/* Pages for which there is no memory at all are counted as those are for which there is none left. */
static void test_counts_skipped(void)
{
	struct fixture f;
	void *block;
	char *at;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 3 * PAGE });
	at = range_of(&f, 2 * PAGE);
	at[0] = at[PAGE] = 1;
	block = fixture_malloc(&f, 2, f.streams[0]);
	g_assert_cmpint(migrate(&f, at, 2 * PAGE, VPMM_DEVICE), ==, 0);
	g_assert_cmpuint(stats_of(&f).skipped, ==, 2);
	fixture_free(&f, block, f.streams[0]);
	assert_ok(vpmm_shared_free(f.pool, at, NULL));
	fixture_close(&f);
}

/* Host memory is kept by size, and given up where another size is wanted and there is no more. */
static void test_other_sizes(void)
{
	struct fixture f;
	void *large;
	char *at;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	at = range_of(&f, 2 * PAGE);
	at[0] = at[PAGE] = 1;
	assert_ok(vpmm_shared_free(f.pool, at, NULL));
	g_assert_cmpuint(stats_of(&f).host_unused, ==, 2 * PAGE);
	assert_ok(vpmm_shared_alloc(f.pool, &large, 256 * PAGE, 0));
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_host_create, 0, 1, -ENOMEM);
	((char *)large)[0] = 1;
	g_assert_cmpuint(stats_of(&f).retries, ==, 0);
	g_assert_cmpuint(stats_of(&f).host_unused, ==, 0);
	g_assert_cmpuint(stats_of(&f).host, ==, 2 * PAGE);
	assert_ok(vpmm_shared_free(f.pool, large, NULL));
	fixture_close(&f);
}

static void touch_both(const void *one, const void *other)
{
	GArray *touched = g_array_new(FALSE, FALSE, sizeof(uint64_t));
	uint64_t addrs[] = { (uintptr_t)one, (uintptr_t)other };

	g_array_append_vals(touched, addrs, 2);
	serve_touches(touched);
	g_array_free(touched, TRUE);
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

/* A page whose view cannot be had holds up nobody who waits for another. */
static void test_no_view(void)
{
	struct fixture f;
	struct page *page;
	char *at;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	at = range_of(&f, 2 * PAGE);
	at[0] = 1;
	at[PAGE] = 2;
	g_assert_cmpint(migrate(&f, at + PAGE, 1, VPMM_DEVICE), ==, 1);
	wait_for_view(f.pool->shared);
	page = &((struct range *)f.pool->shared->ranges->pdata[0])->pages[0];
	lock_acquire(&shared_lock);
	page->hidden = true;
	lock_release(&shared_lock);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_host_access, 0, UINT_MAX, -ENOMEM);
	touch_both(at, at + PAGE);
	g_assert_true(page->hidden);
	g_assert_cmpint(page_of(&f, at + PAGE).location, ==, VPMM_HOST);
	g_assert_cmpint(look(at + PAGE), ==, 2);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_host_access, 0, 0, 0);
	touch_both(at, at + PAGE);
	g_assert_false(page->hidden);
	g_assert_cmpint(look(at), ==, 1);
	assert_ok(vpmm_shared_free(f.pool, at, NULL));
	fixture_close(&f);
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
	at = range_of(&f, 2 * PAGE);
	other = range_of(&f, PAGE);
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
	g_assert_cmpuint(stats_of(&f).evicted, ==, 1);
	g_assert_cmpint(look(at) + look(at + PAGE) + look(other), ==, 3);
	assert_ok(vpmm_shared_free(f.pool, at, NULL));
	assert_ok(vpmm_shared_free(f.pool, other, NULL));
	fixture_close(&f);
}

/* A program that was built with a later header. */
static void test_later_stats(void)
{
	struct {
		struct vpmm_shared_stats stats;
		uint64_t more;
	} later = { { .size = sizeof(later) }, 7 };
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_ok(vpmm_shared_stats(f.pool, &later.stats));
	g_assert_cmpuint(later.more, ==, 0);
	g_assert_cmpuint(later.stats.size, ==, sizeof(later));
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	/* A sanitizer locks nothing, and has handlers of its own. */
	if (!SANITIZED)
		fixture_add_rows("/shared-corners/locked", ways, test_locked);
	fixture_add_rows("/shared-corners/fork", ways, test_fork);
	if (!SANITIZED)
		g_test_add_func("/shared-corners/sent", test_sent);
	g_test_add_func("/shared-corners/no-descriptors", test_no_descriptors);
	g_test_add_func("/shared-corners/moving", test_moving);
	g_test_add_func("/shared-corners/populate", test_populate);
	g_test_add_func("/shared-corners/leave-meanwhile", test_leave_meanwhile);
	g_test_add_func("/shared-corners/counts-skipped", test_counts_skipped);
	g_test_add_func("/shared-corners/other-sizes", test_other_sizes);
	g_test_add_func("/shared-corners/no-view", test_no_view);
	g_test_add_func("/shared-corners/quiet", test_quiet);
	g_test_add_func("/shared-corners/later-stats", test_later_stats);
	return g_test_run();
}
