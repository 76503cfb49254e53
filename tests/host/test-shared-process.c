// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The process around shared ranges: its children, signals, locked memory and descriptors, and a device that goes. No
 * touch is lost, and nobody waits for ever.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/backend.h"
#include "calls/pool.h"
#include "shared/touch.h"
#include "support/fault.h"
#include "support/fixture.h"
#include "support/ranges.h"
#include "support/rlimit.h"
#include "util/assume.h"

/* More than a pool of these tests reserves, with the stacks of the library's threads. */
#define TO_LOCK ((size_t)4 << 30)

/*
 * Whether all new memory can be locked from now on. The pool's address space counts for the limit, and so do stacks of
 * threads: a normal user may often lock no more than 8 MiB.
 */
static bool lock_new_memory(void)
{
	void *at = MAP_FAILED;

	if (!mlockall(MCL_FUTURE))
		at = mmap(NULL, TO_LOCK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at != MAP_FAILED) {
		munmap(at, TO_LOCK);
		return true;
	}
	munlockall();
	g_test_skip("too little memory can be locked here: ulimit -l");
	return false;
}

/* With all new memory locked the kernel fills it at once, also that which stands for a page on the device. */
static void test_locked(gconstpointer data)
{
	struct fixture f;
	char *at;

	if (!lock_new_memory())
		return;
	if (ranges_open(&f, data, (struct vpmm_opts){ FIXTURE_PACKED }, &at, 2 * PAGE)) {
		at[0] = at[PAGE] = 1;
		ranges_settle(&f);
		g_assert_cmpint(ranges_migrate(&f, at, 2 * PAGE, VPMM_DEVICE), ==, 2);
		++*(char *)vpmm_host_view(at);
		g_assert_cmpint(ranges_look(at), ==, 2);
		g_assert_cmpint(ranges_look(at + PAGE), ==, 1);
		/* What is locked is touched, where the kernel may; what was locked can move. */
		g_assert_cmpint(ranges_migrate(&f, at, PAGE, VPMM_DEVICE), ==, 1);
		if (!mlock(at, PAGE))
			g_assert_cmpint(ranges_page(&f, at).location, ==, VPMM_HOST);
		g_assert_cmpint(ranges_look(at), ==, 2);
		/* A touch that comes late would copy beside what is written there. */
		ranges_settle(&f);
		g_assert_cmpint(ranges_migrate(&f, at, PAGE, VPMM_DEVICE), ==, 1);
		++*(char *)vpmm_host_view(at);
		g_assert_cmpint(ranges_look(at), ==, 3);
		/* So can a copy that the CPU reads. */
		assert_ok(vpmm_advise(f.pool, at, PAGE, VPMM_ADVISE_READ_MOSTLY));
		g_assert_cmpint(ranges_migrate(&f, at, PAGE, VPMM_DEVICE), ==, 1);
		g_assert_cmpint(ranges_look(at), ==, 3);
		at[0] = 4;
		g_assert_cmpint(*(char *)vpmm_host_view(at), ==, 4);
		ranges_close(&f, at);
	}
	munlockall();
}

/* The child has no range, and is told so; the parent's goes on. */
static void test_forked_calls(void)
{
	struct fixture f;
	void *other;
	char *at;
	int status;
	pid_t child;

	at = ranges_open_packed(&f, 2 * PAGE);
	at[0] = 3;
	child = fork();
	if (!child) {
		if (vpmm_shared_alloc(f.pool, &other, PAGE, 0) != -EBUSY || vpmm_locate(NULL, at, 1, NULL) != -EBUSY ||
		    vpmm_migrate(f.pool, at, 1, VPMM_DEVICE, NULL, NULL, NULL) != -EBUSY || vpmm_host_view(at))
			_exit(1);
		signal(SIGSEGV, SIG_DFL);
		_exit(at[PAGE] == 0 ? 2 : 3);
	}
	g_assert_cmpint(waitpid(child, &status, 0), ==, child);
	/* A sanitizer turns the signal into an exit. */
	g_assert_false(WIFEXITED(status) && WEXITSTATUS(status) <= 3);
	g_assert_cmpint(at[0] + at[PAGE], ==, 3);
	ranges_close(&f, at);
}

/* The child has no range, and is told so at once; the parent's goes on. */
static void test_fork(gconstpointer data)
{
	struct fixture f;
	char *at;
	int status;
	pid_t child;

	if (!ranges_open(&f, data, (struct vpmm_opts){ FIXTURE_PACKED }, &at, 2 * PAGE))
		return;
	at[0] = at[PAGE] = 3;
	g_assert_cmpint(ranges_migrate(&f, at, PAGE, VPMM_DEVICE), ==, 1);
	for (int i = 0; i < 2; i++) {
		child = fork();
		if (!child) {
			alarm(5);
			_exit(100 + ranges_look(at + (size_t)i * PAGE));
		}
		g_assert_cmpint(waitpid(child, &status, 0), ==, child);
		/* A sanitizer turns the signal into an exit. */
		g_assert_false(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
		g_assert_false(WIFEXITED(status) && WEXITSTATUS(status) >= 100);
	}
	g_assert_cmpint(ranges_page(&f, at).location, ==, VPMM_DEVICE);
	g_assert_cmpint(ranges_look(at) + ranges_look(at + PAGE), ==, 6);
	ranges_close(&f, at);
}

/* A signal that is sent, not earned, does what it did without the library. */
static void in_child(void (*handler)(int number))
{
	struct fixture f;
	char *at;

	alarm(20);
	signal(SIGSEGV, handler);
	if (!ranges_open(&f, &ranges_ways[RANGES_SIGNAL], (struct vpmm_opts){ FIXTURE_PACKED }, &at, PAGE))
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

/* A fault that is none of ours is the program's own. */
static sigjmp_buf back;
static volatile sig_atomic_t caught;

static void on_fault(int number)
{
	(void)number;
	caught++;
	siglongjmp(back, 1);
}

static void test_chained(void)
{
	struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_NODEFER }, was, now;
	struct fixture f;
	char *at;

	g_assert_cmpint(sigaction(SIGSEGV, &action, &was), ==, 0);
	if (!ranges_open(&f, &ranges_ways[RANGES_SIGNAL], (struct vpmm_opts){ FIXTURE_PACKED }, &at, PAGE))
		return;
	at[0] = 1;
	g_assert_cmpint(caught, ==, 0);
	if (!sigsetjmp(back, 1))
		*(volatile char *)(uintptr_t)PAGE = 1;
	g_assert_cmpint(caught, ==, 1);
	ranges_close(&f, at);
	g_assert_cmpint(sigaction(SIGSEGV, &was, &now), ==, 0);
	g_assert_true(now.sa_handler == on_fault);
}

/* The kernel lets a touch go on after what served it, which ThreadSanitizer does not see. */
static __attribute__((no_sanitize("thread"))) void put(char *at, char value)
{
	*at = value;
}

static void test_reset(void)
{
	struct fixture f;
	char *at;

	at = ranges_open_packed(&f, 4 * PAGE);
	at[0] = at[PAGE] = 1;
	g_assert_cmpint(vpmm_migrate(f.pool, at, PAGE, VPMM_DEVICE, NULL, NULL, NULL), ==, 1);
	/* Afterwards no thread of the library is in a call of the driver for what the migration left to do. */
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	assert_ok(vpmm_host_reset());
	/* What was on the device is gone with it; the touch is answered. */
	g_assert_cmpint(at[0], ==, 0);
	g_assert_cmpint(at[PAGE], ==, 1);
	assert_error(vpmm_migrate(f.pool, at, PAGE, VPMM_HOST, NULL, NULL, NULL), ESTALE, "reset");
	/* Touches that come late, of what the CPU has by now, take nothing from it. */
	put(at, 5);
	ranges_touch(at, at + PAGE);
	g_assert_cmpint(at[0], ==, 5);
	g_assert_cmpint(at[PAGE], ==, 1);
	vpmm_pool_destroy(f.pool);
	g_string_free(f.log, TRUE);
	fixture_assert_nothing_left();
}

/* A device that fails for good: the touch ends the program, as a file's page that cannot be read would. */
static sigjmp_buf lost;

static void on_bus(int number)
{
	siglongjmp(lost, number);
}

static gpointer nudge_often(gpointer over)
{
	while (!g_atomic_int_get((gint *)over)) {
		touch_nudge();
		g_usleep(100);
	}
	return NULL;
}

/* A range that comes later has its own second: the first failure is not the last. */
static void assert_tried_again(struct fixture *f)
{
	char *at = ranges_alloc(f, PAGE);
	uint64_t before = ranges_stats(f).retries;

	g_assert_cmpint(vpmm_fault(f->pool, at, PAGE, VPMM_DEVICE, 0), ==, 1);
	backend_fault_arm(f->pool->core.backend, BACKEND_OP_copy, 0, 1, -EIO);
	put(at, 3);
	g_assert_cmpuint(ranges_stats(f).retries, ==, before + 1);
	assert_ok(vpmm_shared_free(f->pool, at, NULL));
}

static void test_failed_device(void)
{
	struct sigaction action = { .sa_handler = on_bus, .sa_flags = SA_NODEFER }, was;
	GThread *volatile thread;
	volatile gint64 begun;
	struct fixture f;
	gint over = 0;
	char *at;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	at = ranges_alloc(&f, 2 * PAGE);
	at[0] = 1;
	g_assert_cmpint(vpmm_migrate(f.pool, at, PAGE, VPMM_DEVICE, NULL, NULL, NULL), ==, 1);
	g_assert_cmpint(sigaction(SIGBUS, &action, &was), ==, 0);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_copy, 0, UINT_MAX, -EIO);
	thread = g_thread_new("nudge", nudge_often, &over);
	begun = g_get_monotonic_time();
	if (!sigsetjmp(lost, 1)) {
		at[0]++;
		g_assert_not_reached();
	}
	/* It had a second to recover, whatever else there was to do. */
	g_assert_cmpint(g_get_monotonic_time() - begun, >=, G_USEC_PER_SEC);
	g_atomic_int_set(&over, 1);
	g_thread_join(thread);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_copy, 0, 0, 0);
	g_assert_cmpuint(ranges_stats(&f).retries, >, 1);
	assert_ok(vpmm_shared_free(f.pool, at, NULL));
	if (!sigsetjmp(lost, 1))
		assert_tried_again(&f);
	else
		g_assert_not_reached();
	g_assert_cmpint(sigaction(SIGBUS, &was, NULL), ==, 0);
	fixture_close(&f);
}

static void count_asked(void *data, struct vpmm_move *moves, size_t count, struct CUstream_st *stream)
{
	(void)moves;
	(void)stream;
	*(size_t *)data += count;
}

static void count_told(void *data, const struct vpmm_move *moves, size_t count)
{
	(void)moves;
	*(size_t *)data -= count;
}

static size_t count_mapped(void)
{
	gchar *text;
	size_t pages;

	g_assert_true(g_file_get_contents("/proc/self/statm", &text, NULL, NULL));
	pages = strtoul(text, NULL, 10);
	g_free(text);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/*
 * Pages that cannot be taken from the CPU stay, and are counted; who takes part is not told of what it was not asked.
 */
static void test_no_addresses(void)
{
	const struct vpmm_migrate_ops ops = { sizeof(ops), count_asked, count_told };
	struct fixture f;
	size_t balance = 0;
	uint64_t before;
	rlim_t limit;
	int moved;
	char *at;

	at = ranges_open_packed(&f, 8 * PAGE);
	for (int i = 0; i < 8; i++)
		at[i * PAGE] = 1;
	/* So that there is memory for them on both sides. */
	g_assert_cmpint(ranges_migrate(&f, at, 8 * PAGE, VPMM_DEVICE), ==, 8);
	g_assert_cmpint(ranges_migrate(&f, at, 8 * PAGE, VPMM_HOST), ==, 8);
	before = ranges_stats(&f).skipped;
	limit = rlimit_set(RLIMIT_AS, count_mapped() + PAGE / 2);
	moved = vpmm_migrate(f.pool, at, 8 * PAGE, VPMM_DEVICE, NULL, &ops, &balance);
	rlimit_set(RLIMIT_AS, limit);
	g_assert_cmpint(moved, ==, 0);
	g_assert_cmpuint(balance, ==, 0);
	g_assert_cmpuint(ranges_stats(&f).skipped - before, ==, 8);
	g_assert_cmpint(at[0] + at[7 * PAGE], ==, 2);
	ranges_close(&f, at);
}

static gpointer come_and_go(gpointer data)
{
	struct fixture *f = data;

	for (int i = 0; i < 300; i++) {
		char *at = ranges_alloc(f, 4 * PAGE);

		at[PAGE] = 1;
		assert_ok(vpmm_shared_free(f->pool, at, NULL));
	}
	return NULL;
}

/* A range may be where another thread's was a moment ago. */
static void test_same_addresses(gconstpointer data)
{
	GThread *threads[3];
	struct fixture f;
	char *at;

	if (!ranges_open(&f, data, (struct vpmm_opts){ FIXTURE_PACKED }, &at, PAGE))
		return;
	for (guint i = 0; i < G_N_ELEMENTS(threads); i++)
		threads[i] = g_thread_new("come and go", come_and_go, &f);
	for (guint i = 0; i < G_N_ELEMENTS(threads); i++)
		g_thread_join(threads[i]);
	ranges_close(&f, at);
}

#define WATCHERS 4
#define WATCHES 200

static gpointer watch_many(gpointer first)
{
	for (uint64_t i = 0; i < WATCHES; i++)
		assert_ok(touch_watch((GPOINTER_TO_SIZE(first) + i) * PAGE, PAGE));
	return NULL;
}

/* Ranges of several threads, where they begin at once, have a place each of those that the handler knows. */
static void test_watched(void)
{
	GThread *threads[WATCHERS];
	size_t most = 0, left = 0;

	while (!touch_watch((most + 1) * PAGE, PAGE))
		most++;
	g_assert_cmpuint(most, >, WATCHERS * WATCHES);
	for (int round = 0; round < 20; round++) {
		for (size_t i = 1; i <= most; i++)
			touch_unwatch(i * PAGE);
		for (size_t i = 0; i < WATCHERS; i++)
			threads[i] = g_thread_new("watch", watch_many, GSIZE_TO_POINTER(i * WATCHES + 1));
		for (size_t i = 0; i < WATCHERS; i++)
			g_thread_join(threads[i]);
		left = WATCHERS * WATCHES;
		while (!touch_watch((left + 1) * PAGE, PAGE))
			left++;
		g_assert_cmpuint(left, ==, most);
	}
	assert_error(touch_watch(PAGE, PAGE), ENOMEM, "shared ranges, and has them");
	for (size_t i = 1; i <= most; i++)
		touch_unwatch(i * PAGE);
}

struct late {
	char *_Atomic at;
	_Atomic bool over;
};

static gpointer touch_late(gpointer data)
{
	struct late *late = data;

	while (!late->over)
		ranges_touch(late->at, late->at);
	return NULL;
}

/* A touch that comes when its range has ended may find the one that begins there, and takes nothing from it. */
static void test_late_touch(gconstpointer data)
{
	struct late late = { .over = false };
	struct fixture f;
	GThread *threads[3];
	char *at;

	if (!ranges_open(&f, data, (struct vpmm_opts){ FIXTURE_PACKED }, &at, PAGE))
		return;
	late.at = at;
	for (guint i = 0; i < G_N_ELEMENTS(threads); i++)
		threads[i] = g_thread_new("late", touch_late, &late);
	for (int i = 0; i < 100; i++) {
		char *next = ranges_alloc(&f, PAGE);

		late.at = next;
		put(next, 1);
		g_assert_cmpint(ranges_migrate(&f, next, PAGE, VPMM_DEVICE), ==, 1);
		g_assert_cmpint(ranges_look(next), ==, 1);
		assert_ok(vpmm_shared_free(f.pool, next, NULL));
	}
	late.over = true;
	for (guint i = 0; i < G_N_ELEMENTS(threads); i++)
		g_thread_join(threads[i]);
	ranges_close(&f, at);
}

static const struct backend_ops *whole_ops;
static struct fixture *between;
static char *first, *second;

static int room_again(struct backend *be, uint64_t va, size_t size, uint64_t *at)
{
	(void)be;
	(void)va;
	(void)size;
	*at = (uintptr_t)first;
	return 0;
}

static void end_room_and_begin(struct backend *be, uint64_t va, size_t size, uint64_t at)
{
	struct fixture *f = between;
	void *again;

	whole_ops->room_end(be, va, size, at);
	between = NULL;
	if (!f)
		return;
	again = mmap(first, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	g_assert_true(again == first);
	second = ranges_alloc(f, size);
}

/* As soon as the addresses of a range are free, another may have them: what still ends is of the first alone. */
static void test_same_addresses_at_once(gconstpointer data)
{
	struct backend_ops ops;
	struct backend *be;
	struct fixture f;

	if (!ranges_open(&f, data, (struct vpmm_opts){ FIXTURE_PACKED }, &first, 4 * PAGE))
		return;
	be = f.pool->core.backend;
	whole_ops = be->ops;
	ops = *whole_ops;
	ops.room = room_again;
	ops.room_end = end_room_and_begin;
	be->ops = &ops;
	between = &f;
	assert_ok(vpmm_shared_free(f.pool, first, NULL));
	g_assert_true(second == first);
	second[PAGE] = 1;
	g_assert_cmpint(second[PAGE] + second[2 * PAGE], ==, 1);
	assert_ok(vpmm_pool_check(f.pool));
	ranges_close(&f, second);
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
	at = ranges_alloc(&f, PAGE);
	at[0] = 1;
	g_assert_cmpint(ranges_migrate(&f, at, PAGE, VPMM_DEVICE), ==, 1);
	g_assert_cmpint(getrlimit(RLIMIT_NOFILE, &files), ==, 0);
	none = (struct rlimit){ 3, files.rlim_max };
	g_assert_cmpint(sigaction(SIGBUS, &action, &was), ==, 0);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_copy, 0, UINT_MAX, -EIO);
	err = pthread_create(&thread, NULL, allow_files, &files);
	g_assert_cmpint(err, ==, 0);
	g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &none), ==, 0);
	if (!sigsetjmp(lost, 1)) {
		ranges_look(at);
		g_assert_not_reached();
	}
	pthread_join(thread, NULL);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_copy, 0, 0, 0);
	g_assert_cmpint(sigaction(SIGBUS, &was, NULL), ==, 0);
	ranges_close(&f, at);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	/*
	 * A sanitizer has handlers of its own, and locks nothing. A child can have a range only before its parent does.
	 */
	if (!SANITIZED) {
		g_test_add_func("/shared-process/sent", test_sent);
		fixture_add_rows("/shared-process/locked", ranges_ways, test_locked);
		g_test_add_func("/shared-process/no-addresses", test_no_addresses);
	}
	g_test_add_func("/shared-process/forked-calls", test_forked_calls);
	fixture_add_rows("/shared-process/fork", ranges_ways, test_fork);
	fixture_add_rows("/shared-process/same-addresses", ranges_ways, test_same_addresses);
	g_test_add_func("/shared-process/watched", test_watched);
	fixture_add_rows("/shared-process/late-touch", ranges_ways, test_late_touch);
	fixture_add_rows("/shared-process/same-addresses-at-once", ranges_ways, test_same_addresses_at_once);
	g_test_add_func("/shared-process/chained", test_chained);
	g_test_add_func("/shared-process/reset", test_reset);
	g_test_add_func("/shared-process/failed-device", test_failed_device);
	g_test_add_func("/shared-process/no-descriptors", test_no_descriptors);
	return g_test_run();
}
