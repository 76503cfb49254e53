// SPDX-License-Identifier: LGPL-2.1-or-later
/* Blocks that go to another process and back, with kernels of both at work on them, and processes that are killed. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/gpu-bench.h"

#define BLOCKS 10000
#define KILLS 8
#define SEED 0x5eed

static const struct vpmm_opts shareable = { .export_as = VPMM_EXPORT_FD };

/* This program again, with one end of a socket. */
static pid_t spawn_peer(int socket, int other)
{
	char *number = g_strdup_printf("%d", socket);
	pid_t pid = fork();

	if (!pid) {
		fcntl(socket, F_SETFD, 0);
		close(other);
		execl("/proc/self/exe", "test-gpu", "--answer", number, (char *)NULL);
		_exit(127);
	}
	g_assert_cmpint(pid, >, 0);
	close(socket);
	g_free(number);
	return pid;
}

static size_t size_of_block(int i)
{
	return (size_t)(i % 5 + 1) * PAGE / 2;
}

static void *make_block(struct bench *b, size_t size, uint64_t seed)
{
	void *ptr = NULL;

	assert_ok(vpmm_malloc_flags(b->f.pool, &ptr, size, b->s[0], VPMM_SHAREABLE));
	gpu_fill(ptr, size, seed, b->s[0]);
	/* The order of the two processes is the caller's. */
	gpu_sync(b->s[0]);
	return ptr;
}

/* Once the work on it is done, what was received goes back at the next call. */
static void assert_nothing_shared(struct bench *b)
{
	g_assert_cmpuint(gpu_wrong(), ==, 0);
	assert_ok(vpmm_pool_trim(b->f.pool, 0, NULL));
	g_assert_cmpuint(stats_of(b->f.pool).imported + stats_of(b->f.pool).shareable, ==, 0);
}

/* Checks what it receives, and sends a block of its own with the next pattern back. */
int gpu_answer(int socket)
{
	struct bench b;
	void *ptr = NULL;
	size_t size = 0;
	int err;

	if (!open_bench(&b, shareable))
		return 77;
	for (uint64_t seed = SEED; !(err = vpmm_receive(b.f.pool, &ptr, &size, socket)); seed += 2) {
		void *own;

		gpu_check(ptr, size, seed, b.s[1]);
		own = make_block(&b, size, seed + 1);
		err = vpmm_send(b.f.pool, own, socket);
		assert_ok(vpmm_free(b.f.pool, own, b.s[0]));
		assert_ok(vpmm_free(b.f.pool, ptr, b.s[1]));
		if (err)
			break;
	}
	g_assert_true(err == -EPIPE);
	assert_nothing_shared(&b);
	close_bench(&b);
	gpu_close();
	return 0;
}

/*
 * Hands blocks to a peer and takes what it answers, and kills it before block @last; returns how many came back. The
 * peer is dead, or has seen the end, on return.
 */
static int exchange(struct bench *b, int blocks, int last)
{
	int sockets[2], done, err = 0, status;
	pid_t pid;

	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), ==, 0);
	pid = spawn_peer(sockets[1], sockets[0]);
	for (done = 0; done < blocks && !err; done += !err) {
		size_t size = size_of_block(done), got = 0;
		uint64_t seed = SEED + 2 * (uint64_t)done;
		void *here = make_block(b, size, seed), *there = NULL;

		if (done == last)
			g_assert_cmpint(kill(pid, SIGKILL), ==, 0);
		err = vpmm_send(b->f.pool, here, sockets[0]);
		if (!err)
			err = vpmm_receive(b->f.pool, &there, &got, sockets[0]);
		if (!err) {
			g_assert_cmpuint(got, ==, size);
			gpu_check(there, size, seed + 1, b->s[2]);
			assert_ok(vpmm_free(b->f.pool, there, b->s[2]));
		}
		assert_ok(vpmm_free(b->f.pool, here, b->s[0]));
	}
	g_assert_true(!err || err == -EPIPE);
	close(sockets[0]);
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	if (last < 0)
		g_assert_cmpint(status, ==, 0);
	return done;
}

static void test_round_trips(void)
{
	struct bench b;
	gint64 start;

	if (!open_bench(&b, shareable))
		return;

	start = g_get_monotonic_time();
	g_assert_cmpint(exchange(&b, BLOCKS / 2, -1), ==, BLOCKS / 2);

	g_test_message("%d blocks, %.1f us each", BLOCKS,
		       (double)(g_get_monotonic_time() - start) / BLOCKS);
	assert_nothing_shared(&b);
	close_bench(&b);
}

/* What a process had when it was killed goes back to the device, and the other one goes on. */
static void test_killed(void)
{
	size_t before, after;
	struct bench b;

	if (!open_bench(&b, shareable))
		return;
	assert_ok(vpmm_pool_trim(b.f.pool, 0, NULL));
	before = gpu_memory_free();

	for (int i = 0; i < KILLS; i++)
		exchange(&b, BLOCKS, g_test_rand_int_range(0, 300));

	assert_nothing_shared(&b);
	/* The driver takes a moment to clear up after a process. */
	for (int i = 0; (after = gpu_memory_free()) < before && i < 100; i++)
		g_usleep(20000);
	g_assert_cmpuint(after, >=, before);
	close_bench(&b);
}

void gpu_export_tests(void)
{
	g_test_add_func("/gpu/export/round-trips", test_round_trips);
	g_test_add_func("/gpu/export/killed", test_killed);
}
