// SPDX-License-Identifier: LGPL-2.1-or-later
/* Processes that share a budget, in turns, and that are killed, stopped or forked meanwhile. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "budget/inside.h"
#include "calls/pool.h"
#include "host/budget-fixture.h"
#include "support/setting.h"

#define TURNS 10
#define KILLS 25

/* Long enough for a process that is slow under valgrind. */
#define WAIT_MS 60000

static struct vpmm_opts peer_opts(int wait)
{
	return (struct vpmm_opts){ FIXTURE_PACKED, .budget = BUDGET_TEXT, .budget_wait = wait };
}

/* Another process, with what it reads from and writes to. */
struct peer {
	pid_t pid;
	int to;
	int from;
};

/* This program again; what is closed by exec is none of its. */
static void spawn(struct peer *peer, const char *what)
{
	/* The link is read, as valgrind answers that with the name of this program, but would be executed itself. */
	char *program = g_file_read_link("/proc/self/exe", NULL);
	int in[2], out[2];

	g_assert_cmpint(pipe2(in, O_CLOEXEC), ==, 0);
	g_assert_cmpint(pipe2(out, O_CLOEXEC), ==, 0);
	peer->pid = fork();
	if (!peer->pid) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		execl(program, program, "peer", what, NULL);
		_exit(127);
	}
	g_assert_cmpint(peer->pid, >, 0);
	close(in[0]);
	close(out[1]);
	peer->to = in[1];
	peer->from = out[0];
	g_free(program);
}

static void say(int fd)
{
	g_assert_cmpint(write(fd, "x", 1), ==, 1);
}

static bool hear(int fd)
{
	char byte;

	return read(fd, &byte, 1) == 1;
}

static void end(struct peer *peer, int signal)
{
	int status;

	if (signal)
		kill(peer->pid, signal);
	close(peer->to);
	g_assert_cmpint(waitpid(peer->pid, &status, 0), ==, peer->pid);
	close(peer->from);
	if (!signal)
		g_assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
}

/* What other processes do. */

/* Whenever it is told to, it wants 60 percent, uses it, and says when it has no use for it any more. */
static void peer_turns(struct fixture *f)
{
	while (hear(0)) {
		char *ptr = fixture_malloc(f, BUDGET_PAGES * 6 / 10, f->streams[0]);

		memset(ptr, 1, PAGE);
		fixture_free(f, ptr, f->streams[0]);
		say(1);
	}
}

/* Has all of it, live, until it is told to free that; says so each time. */
static void peer_hold(struct fixture *f)
{
	void *ptr = fixture_malloc(f, BUDGET_PAGES, f->streams[0]);

	say(1);
	hear(0);
	fixture_free(f, ptr, f->streams[0]);
	say(1);
	hear(0);
}

/* Takes and gives back without end. */
static void peer_churn(struct fixture *f)
{
	uint32_t seed = (uint32_t)getpid();
	void *blocks[8] = { 0 };

	say(1);
	for (;;) {
		size_t i = (seed = seed * 1664525 + 1013904223) >> 29;

		if (blocks[i]) {
			vpmm_free(f->pool, blocks[i], f->streams[0]);
			blocks[i] = NULL;
		} else if (vpmm_malloc(f->pool, &blocks[i], (1 + (seed >> 20) % 12) * PAGE, f->streams[0])) {
			blocks[i] = NULL;
		}
		if (!(seed >> 8 & 15))
			vpmm_pool_trim(f->pool, 0, NULL);
	}
}

/* A child that outlives it, by fork() or by a call of the kernel that runs no handler. */
static void leave_child(struct fixture *f, bool raw)
{
	pid_t pid;

	fixture_malloc(f, BUDGET_PAGES, f->streams[0]);
	pid = raw ? (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL) : fork();
	if (!pid) {
		hear(0);
		_exit(0);
	}
	say(1);
	for (;;)
		pause();
}

static void peer_fork(struct fixture *f)
{
	leave_child(f, false);
}

static void peer_clone(struct fixture *f)
{
	leave_child(f, true);
}

static const struct {
	const char *name;
	void (*run)(struct fixture *f);
	int wait;
} roles[] = {
	{ "turns", peer_turns, WAIT_MS },
	{ "hold", peer_hold, WAIT_MS },
	{ "churn", peer_churn, 1 },
	{ "fork", peer_fork, WAIT_MS },
	{ "clone", peer_clone, WAIT_MS },
};

static int peer_main(const char *what)
{
	for (size_t i = 0; i < G_N_ELEMENTS(roles); i++) {
		struct fixture f;

		if (strcmp(roles[i].name, what))
			continue;
		fixture_open(&f, peer_opts(roles[i].wait));
		roles[i].run(&f);
		fixture_close(&f);
		return 0;
	}
	return 1;
}

/* None fails for want of what another does not use. */
static void test_turns(void)
{
	struct peer peers[3];

	for (int i = 0; i < 3; i++)
		spawn(&peers[i], "turns");
	for (int i = 0; i < 3 * TURNS; i++) {
		say(peers[i % 3].to);
		g_assert_true(hear(peers[i % 3].from));
	}
	for (int i = 0; i < 3; i++)
		end(&peers[i], 0);
}

static void assert_all_is_left(struct fixture *f)
{
	void *ptr;

	assert_ok(vpmm_malloc(f->pool, &ptr, BUDGET_PAGES * PAGE, f->streams[0]));
	assert_ok(vpmm_free(f->pool, ptr, f->streams[0]));
	assert_ok(vpmm_pool_trim(f->pool, 0, NULL));
	g_assert_cmpuint(fixture_stats(f).budget_left, ==, BUDGET_PAGES * PAGE);
}

/* At whatever instruction: what it had is there again at once, and exactly that. */
static void test_kill(void)
{
	unsigned int kills = (unsigned int)setting("VPMM_TEST_SEEDS", KILLS);
	struct budget_file *file;
	struct fixture f;

	fixture_open(&f, peer_opts(WAIT_MS));
	file = budget_map("test");
	for (unsigned int i = 0; i < kills; i++) {
		struct peer peers[2];
		unsigned int count = 1 + i % 2;

		for (unsigned int k = 0; k < count; k++)
			spawn(&peers[k], "churn");
		/* Some die while they join. */
		for (unsigned int k = 0; k < count && i % 5; k++)
			g_assert_true(hear(peers[k].from));
		g_usleep((gulong)g_test_rand_int_range(0, 3000));
		for (unsigned int k = 0; k < count; k++)
			end(&peers[k], SIGKILL);
		assert_all_is_left(&f);
		g_assert_cmpuint(budget_sum(file), ==, 0);
	}
	budget_unmap(file);
	fixture_close(&f);
}

/* A process that is stopped keeps what it has, and nobody waits for it for ever. */
static void test_stopped(void)
{
	struct fixture f;
	struct peer peer;
	void *ptr;

	fixture_open(&f, peer_opts(200));
	spawn(&peer, "hold");
	g_assert_true(hear(peer.from));
	say(peer.to);
	g_assert_true(hear(peer.from));
	kill(peer.pid, SIGSTOP);
	g_assert_cmpint(waitpid(peer.pid, NULL, WUNTRACED), ==, peer.pid);
	assert_error(vpmm_malloc(f.pool, &ptr, PAGE, f.streams[0]), ENOMEM, "budget: ");
	kill(peer.pid, SIGCONT);
	while (vpmm_malloc(f.pool, &ptr, PAGE, f.streams[0]))
		g_assert_cmpint(errno, ==, ENOMEM);
	fixture_free(&f, ptr, f.streams[0]);
	end(&peer, 0);
	fixture_close(&f);
}

/* What is live stays, and goes with its process, children or not. */
static void check_outlived(const char *what)
{
	struct fixture f;
	struct peer peer;
	void *ptr;

	fixture_open(&f, peer_opts(10));
	spawn(&peer, what);
	g_assert_true(hear(peer.from));
	assert_error(vpmm_malloc(f.pool, &ptr, PAGE, f.streams[0]), ENOMEM, "budget: ");
	kill(peer.pid, SIGKILL);
	g_assert_cmpint(waitpid(peer.pid, NULL, 0), ==, peer.pid);
	assert_all_is_left(&f);
	/* With that the child ends. */
	close(peer.to);
	close(peer.from);
	fixture_close(&f);
}

static void test_fork(void)
{
	check_outlived("fork");
}

static void test_clone(void)
{
	check_outlived("clone");
}

/* In the child of a fork, too, no call does harm. */
static void test_child(void)
{
	struct fixture f;
	int status;
	pid_t pid;

	fixture_open(&f, peer_opts(10));
	fixture_free(&f, fixture_malloc(&f, 2, f.streams[0]), f.streams[0]);
	pid = fork();
	if (!pid) {
		void *ptr;

		vpmm_malloc(f.pool, &ptr, 3 * PAGE, f.streams[0]);
		vpmm_pool_trim(f.pool, 0, NULL);
		vpmm_pool_destroy(f.pool);
		_exit(0);
	}
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	g_assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	fixture_close(&f);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void check_in_child(int fd)
{
	int status;
	pid_t pid;

	pid = fork();
	if (!pid)
		_exit(!is_open(fd));
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	g_assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
}

/*
 * A program may close descriptors that it does not know, and its own file gets the number of one: each pool has its
 * part as before, and the file stays open, in a child as well.
 */
static void test_descriptors(void)
{
	struct fixture a, b;
	void *held, *ptr;
	int fd, null;

	fixture_open(&a, peer_opts(1));
	fixture_open(&b, peer_opts(1));
	held = fixture_malloc(&b, BUDGET_PAGES - 10, b.streams[0]);
	fd = a.pool->core.extents.budget->locks.fd;
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	g_assert_cmpint(dup2(null, fd), ==, fd);
	assert_error(vpmm_malloc(a.pool, &ptr, 11 * PAGE, a.streams[0]), ENOMEM, "budget: ");
	ptr = fixture_malloc(&a, 10, a.streams[0]);
	fixture_free(&b, held, b.streams[0]);
	assert_error(vpmm_malloc(b.pool, &held, (BUDGET_PAGES - 9) * PAGE, b.streams[0]), ENOMEM, "budget: ");
	check_in_child(fd);
	fixture_free(&a, ptr, a.streams[0]);
	fixture_close_beside(&a);
	g_assert_true(is_open(fd));
	close(fd);
	close(null);
	assert_all_is_left(&b);
	fixture_close(&b);
}

/* Another user does not get in, and has a budget of the same name alone. */
static void test_users(void)
{
	char path[PATH_MAX], *made;
	struct fixture f;
	int status;
	pid_t pid;

	if (geteuid()) {
		g_test_skip("it takes root to be another user");
		return;
	}
	fixture_open(&f, peer_opts(10));
	fixture_free(&f, fixture_malloc(&f, 2, f.streams[0]), f.streams[0]);
	made = budget_path("test", budget_uuid);
	g_strlcpy(path, made, sizeof(path));
	g_free(made);
	pid = fork();
	if (!pid) {
		bool found;
		char *other;
		int fd;

		if (setuid(12345))
			_exit(1);
		fd = open(path, O_RDWR);
		other = budget_path("test", budget_uuid);
		found = fd >= 0 || !strcmp(other, path);
		g_free(other);
		_exit(found ? 2 : 0);
	}
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	g_assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	int result;

	if (argc == 3 && !strcmp(argv[1], "peer"))
		return peer_main(argv[2]);
	g_test_init(&argc, &argv, NULL);
	signal(SIGPIPE, SIG_IGN);
	budget_folder();
	g_test_add_func("/budget-process/turns", test_turns);
	g_test_add_func("/budget-process/kill", test_kill);
	g_test_add_func("/budget-process/stopped", test_stopped);
	g_test_add_func("/budget-process/fork", test_fork);
	g_test_add_func("/budget-process/clone", test_clone);
	g_test_add_func("/budget-process/child", test_child);
	g_test_add_func("/budget-process/descriptors", test_descriptors);
	g_test_add_func("/budget-process/users", test_users);
	result = g_test_run();
	budget_remove_folder();
	return result;
}
