// SPDX-License-Identifier: LGPL-2.1-or-later
/* Blocks that go to other processes and come back, and processes that are killed meanwhile. */
#define _GNU_SOURCE 1
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "host/export-fixture.h"

#define ROUNDS 200
#define KILLS 30

/* Other processes: this program again, with a socket and what to do. */

static pid_t spawn(const char *what, int socket, int other)
{
	/* The link is read, as valgrind answers that with the name of this program, but would be executed itself. */
	char *program = g_file_read_link("/proc/self/exe", NULL);
	char *number = g_strdup_printf("%d", socket);
	pid_t pid = fork();

	if (!pid) {
		fcntl(socket, F_SETFD, 0);
		close(other);
		execl(program, program, "peer", what, number, NULL);
		_exit(127);
	}
	g_assert_cmpint(pid, >, 0);
	close(socket);
	g_free(number);
	g_free(program);
	return pid;
}

static void peer_open(struct fixture *f)
{
	fixture_open(f, (struct vpmm_opts){ FIXTURE_PACKED, .export_as = VPMM_EXPORT_FD });
}

/* Receives a block, adds one to each end of it, sends one of its own back with the same, and frees both. */
static int peer_answer(int socket)
{
	char *received, *own;
	struct fixture f;
	void *ptr = NULL;
	size_t size = 0;
	int err;

	peer_open(&f);
	while (!(err = vpmm_receive(f.pool, &ptr, &size, socket))) {
		received = ptr;
		received[0]++;
		received[size - 1]++;
		own = shareable_malloc(&f, size);
		own[0] = received[0];
		own[size - 1] = received[size - 1];
		if (vpmm_send(f.pool, own, socket))
			break;
		fixture_free(&f, own, f.streams[0]);
		fixture_free(&f, received, f.streams[0]);
	}
	g_assert_true(err == -EPIPE);
	g_assert_cmpuint(fixture_stats(&f).imported + fixture_stats(&f).shareable, ==, 0);
	fixture_close(&f);
	return 0;
}

/* Sends blocks until nobody takes them. */
static int peer_flood(int socket)
{
	struct fixture f;

	peer_open(&f);
	for (size_t i = 0;; i++) {
		char *ptr = shareable_malloc(&f, PAGE + i % 3 * PAGE);
		int err;

		ptr[0] = 'a';
		ptr[PAGE - 1] = 'z';
		err = vpmm_send(f.pool, ptr, socket);
		fixture_free(&f, ptr, f.streams[0]);
		if (err)
			break;
	}
	fixture_close(&f);
	return 0;
}

static int peer_main(const char *what, int socket)
{
	return !strcmp(what, "answer") ? peer_answer(socket) : peer_flood(socket);
}

static void assert_ended(pid_t pid)
{
	int status;

	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	g_assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
}

static void test_processes(void)
{
	struct fixture f;
	int sockets[2];
	guint before = count_descriptors();
	pid_t pid;

	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), ==, 0);
	pid = spawn("answer", sockets[1], sockets[0]);
	peer_open(&f);
	for (int i = 0; i < ROUNDS; i++) {
		size_t size = (size_t)(i % 7 + 1) * PAGE / 2, got = 0;
		char *here = shareable_malloc(&f, size), *there;
		void *ptr = NULL;

		here[0] = here[size - 1] = (char)i;
		assert_ok(vpmm_send(f.pool, here, sockets[0]));
		/* Either may be the first to free. */
		if (i % 2)
			fixture_free(&f, here, f.streams[0]);
		assert_ok(vpmm_receive(f.pool, &ptr, &got, sockets[0]));
		there = ptr;
		g_assert_cmpuint(got, ==, size);
		g_assert_cmpint(there[0], ==, (char)(i + 1));
		g_assert_cmpint(there[size - 1], ==, (char)(i + 1));
		if (!(i % 2)) {
			g_assert_cmpint(here[0], ==, (char)(i + 1));
			fixture_free(&f, here, f.streams[0]);
		}
		fixture_free(&f, there, f.streams[0]);
	}
	close(sockets[0]);
	assert_ended(pid);
	fixture_close(&f);
	g_assert_cmpuint(count_descriptors(), ==, before);
}

/* What a process that was killed has left is read as it was written, and then given back. */
static void receive_until_closed(struct fixture *f, int socket, pid_t pid, int most)
{
	void *ptr = NULL;
	int err = 0;

	for (int i = 0; !err; i++) {
		if (i == most)
			g_assert_cmpint(kill(pid, SIGKILL), ==, 0);
		err = vpmm_receive(f->pool, &ptr, NULL, socket);
		if (err)
			break;
		g_assert_cmpint(((char *)ptr)[0], ==, 'a');
		g_assert_cmpint(((char *)ptr)[PAGE - 1], ==, 'z');
		fixture_free(f, ptr, f->streams[0]);
	}
	g_assert_true(err == -EPIPE);
}

static void test_killed_senders(void)
{
	struct fixture f;
	guint before = count_descriptors();

	peer_open(&f);
	for (int i = 0; i < KILLS; i++) {
		int sockets[2];
		pid_t pid;

		g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), ==, 0);
		pid = spawn("flood", sockets[1], sockets[0]);
		receive_until_closed(&f, sockets[0], pid, g_test_rand_int_range(0, 20));
		close(sockets[0]);
		g_assert_cmpint(waitpid(pid, NULL, 0), ==, pid);
		g_assert_cmpuint(fixture_stats(&f).imported, ==, 0);
	}
	fixture_close(&f);
	g_assert_cmpuint(count_descriptors(), ==, before);
}

/* The receiver dies with what it has, and the sender keeps what is its own. */
static void test_killed_receivers(void)
{
	struct fixture f;
	guint before = count_descriptors();

	peer_open(&f);
	for (int i = 0; i < KILLS; i++) {
		int sockets[2], most = g_test_rand_int_range(1, 20), err = 0;
		pid_t pid;

		g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), ==, 0);
		pid = spawn("answer", sockets[1], sockets[0]);
		for (int j = 0; !err; j++) {
			char *here = shareable_malloc(&f, PAGE);
			void *ptr = NULL;

			if (j == most)
				g_assert_cmpint(kill(pid, SIGKILL), ==, 0);
			err = vpmm_send(f.pool, here, sockets[0]);
			if (!err)
				err = vpmm_receive(f.pool, &ptr, NULL, sockets[0]);
			if (!err)
				fixture_free(&f, ptr, f.streams[0]);
			here[0] = here[PAGE - 1] = 1;
			fixture_free(&f, here, f.streams[0]);
		}
		g_assert_true(err == -EPIPE);
		close(sockets[0]);
		g_assert_cmpint(waitpid(pid, NULL, 0), ==, pid);
	}
	g_assert_cmpuint(fixture_stats(&f).imported + fixture_stats(&f).shareable, ==, 0);
	fixture_close(&f);
	g_assert_cmpuint(count_descriptors(), ==, before);
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "peer"))
		return peer_main(argv[2], atoi(argv[3]));
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/export-process/round-trips", test_processes);
	g_test_add_func("/export-process/killed-senders", test_killed_senders);
	g_test_add_func("/export-process/killed-receivers", test_killed_receivers);
	return g_test_run();
}
