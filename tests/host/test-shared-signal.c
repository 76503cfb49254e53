// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A handler of a signal may touch a shared range while its own thread is in a call that moves pages: the handler runs
 * when the call is over, as the touch would wait for ever before that. And no handler of the program runs on the
 * library's threads.
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/fixture.h"
#include "support/ranges.h"
#include "util/assume.h"

/* A thread raises these itself by a fault. */
static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };

static char *volatile touched;
static _Atomic int handled;

/* The kernel lets a touch go on after what served it, which ThreadSanitizer does not see. */
static __attribute__((no_sanitize("thread"))) void on_signal(int number)
{
	(void)number;
	++*touched;
	handled++;
}

/* What a thread blocks while the library has it call the program. */
struct seen {
	pid_t thread;			/* the one that makes the call */
	_Atomic unsigned int here;		/* updates on it */
	_Atomic unsigned int elsewhere;
};

static void check_blocked(bool waits)
{
	sigset_t now;

	g_assert_cmpint(pthread_sigmask(SIG_SETMASK, NULL, &now), ==, 0);
	g_assert_true(sigismember(&now, SIGUSR1));
	/* It has a handler of the program in this test, and the others have none. */
	g_assert_true(sigismember(&now, SIGTERM));
	g_assert_cmpint(sigismember(&now, SIGINT), ==, !waits);
	g_assert_cmpint(sigismember(&now, SIGALRM), ==, !waits);
	for (size_t i = 0; i < G_N_ELEMENTS(faults); i++)
		g_assert_false(sigismember(&now, faults[i]));
}

static void update(struct vpmm_mirror *mirror, void *data, enum vpmm_mirror_action action, void *start, void *end)
{
	struct seen *seen = data;
	bool here = syscall(SYS_gettid) == seen->thread;

	(void)mirror;
	(void)action;
	(void)start;
	(void)end;
	check_blocked(here);
	seen->here += here;
	seen->elsewhere += !here;
	/* The handler would wait for the end of the move, and the move for that of the handler. */
	if (here)
		pthread_kill(pthread_self(), SIGUSR1);
	g_assert_cmpint(handled, ==, 0);
}

static int migrate(struct fixture *f, char *at)
{
	return vpmm_migrate(f->pool, at, PAGE, VPMM_DEVICE, f->streams[0], NULL, NULL);
}

static int fault(struct fixture *f, char *at)
{
	return vpmm_fault(f->pool, at, PAGE, VPMM_DEVICE, 0);
}

static int evict(struct fixture *f, char *at)
{
	void *block;

	(void)at;
	assert_ok(vpmm_malloc(f->pool, &block, 2 * PAGE, f->streams[0]));
	return vpmm_free(f->pool, block, f->streams[0]);
}

static int pin(struct fixture *f, char *at)
{
	int err = vpmm_pin(f->pool, at, PAGE);

	return err ? err : vpmm_unpin(f->pool, at, PAGE);
}

static int free_other(struct fixture *f, char *at)
{
	return vpmm_shared_free(f->pool, at, f->streams[0]);
}

static int touch(struct fixture *f, char *at)
{
	(void)f;
	g_assert_cmpint(ranges_look(at), ==, 1);
	return 0;
}

static const struct row {
	const char *name;
	int (*call)(struct fixture *f, char *at);
	bool there;			/* the page is on the device before */
	bool elsewhere;			/* the thread that serves touches moves it */
} rows[] = {
	{ "migrate", migrate },
	{ "fault", fault },
	{ "evict", evict, .there = true },
	{ "pin", pin, .there = true },
	{ "free", free_other },
	{ "touch", touch, .there = true, .elsewhere = true },
};

static void handle(int number, void (*handler)(int number))
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };

	g_assert_cmpint(sigaction(number, &action, NULL), ==, 0);
}

static void test_moves(gconstpointer data)
{
	const struct vpmm_mirror_ops ops = { sizeof(ops), update };
	const struct row *row = data;
	struct seen seen = { .thread = (pid_t)syscall(SYS_gettid) };
	struct vpmm_mirror *mirror;
	sigset_t before, after;
	struct fixture f;
	char *at;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 3 * PAGE });
	at = ranges_alloc(&f, PAGE);
	memset(at, 1, PAGE);
	touched = ranges_alloc(&f, PAGE);
	*touched = 0;
	g_assert_cmpint(fault(&f, touched), ==, 1);
	g_assert_cmpint(row->there ? fault(&f, at) : 1, ==, 1);
	handle(SIGUSR1, on_signal);
	handle(SIGTERM, on_signal);
	assert_ok(vpmm_mirror_register(f.pool, &mirror, &ops, &seen));
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	handled = 0;
	g_assert_cmpint(row->call(&f, at), >=, 0);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	for (int i = 1; i < NSIG; i++)
		g_assert_cmpint(sigismember(&before, i), ==, sigismember(&after, i));
	g_assert_cmpuint(row->elsewhere ? seen.elsewhere : seen.here, >, 0);
	if (!row->elsewhere)
		g_assert_cmpint(handled, >, 0);
	vpmm_mirror_unregister(mirror);
	handle(SIGUSR1, SIG_DFL);
	handle(SIGTERM, SIG_DFL);
	fixture_close(&f);
}

static bool blocks(const char *status, int number)
{
	uint64_t mask = g_ascii_strtoull(strstr(status, "SigBlk:") + strlen("SigBlk:"), NULL, 16);

	return mask & UINT64_C(1) << (number - 1);
}

/* The threads of the process. */
static GHashTable *threads(void)
{
	GHashTable *found = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	struct dirent *entry;
	DIR *tasks;

	tasks = opendir("/proc/self/task");
	if (!tasks)
		return found;
	while ((entry = readdir(tasks)))
		g_hash_table_add(found, g_strdup(entry->d_name));
	closedir(tasks);
	return found;
}

static void check_thread(const char *tid)
{
	char *name = g_strdup_printf("/proc/self/task/%s/status", tid), *status;

	g_assert_true(g_file_get_contents(name, &status, NULL, NULL));
	g_assert_true(blocks(status, SIGUSR1) && blocks(status, SIGALRM) && blocks(status, SIGINT) &&
		      blocks(status, SIGPIPE));
	/* While a thread begins, the C library blocks all. */
	for (int looks = 0; looks < 5000 && blocks(status, faults[0]); looks++) {
		g_usleep(1000);
		g_free(status);
		g_assert_true(g_file_get_contents(name, &status, NULL, NULL));
	}
	for (size_t i = 0; i < G_N_ELEMENTS(faults); i++)
		g_assert_false(blocks(status, faults[i]));
	g_free(status);
	g_free(name);
}

/* Those that come with the first range. */
static void test_threads(void)
{
	GHashTable *before, *after;
	unsigned int seen = 0;
	struct fixture f;
	GHashTableIter iter;
	gpointer tid;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	before = threads();
	ranges_alloc(&f, PAGE);
	after = threads();
	g_hash_table_iter_init(&iter, after);
	while (g_hash_table_iter_next(&iter, &tid, NULL)) {
		if (g_hash_table_contains(before, tid))
			continue;
		check_thread(tid);
		seen++;
	}
	g_hash_table_destroy(before);
	g_hash_table_destroy(after);
	g_assert_cmpuint(seen, ==, 2);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	fixture_add_rows("/shared-signal/moves", rows, test_moves);
	/* ThreadSanitizer starts one of its own beside them. */
	if (!SANITIZED_THREADS)
		g_test_add_func("/shared-signal/threads", test_threads);
	return g_test_run();
}
