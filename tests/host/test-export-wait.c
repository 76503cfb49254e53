// SPDX-License-Identifier: LGPL-2.1-or-later
/* How vpmm_receive() waits: slow peers, other threads, signals, a reset meanwhile. */
#define _GNU_SOURCE 1
#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include "host/export-fixture.h"
#include "vpmm-host.h"

/*
 * What happens while the library waits for a socket: called in place of its poll(), with -1 for a real one behind it,
 * or with what that is to return.
 */
static int (*meanwhile)(struct ends *e);
static struct ends *meanwhile_ends;

static void set_meanwhile(int (*happens)(struct ends *e), struct ends *e)
{
	meanwhile = happens;
	meanwhile_ends = e;
}

/* In place of libc's. */
int poll(struct pollfd *fds, nfds_t count, int ms)
{
	const struct timespec limit = { ms / 1000, ms % 1000 * 1000000L };
	int told = ms && meanwhile ? meanwhile(meanwhile_ends) : -1;

	return told >= 0 ? told : ppoll(fds, count, ms < 0 ? NULL : &limit, NULL);
}

static int send_byte(struct ends *e)
{
	g_usleep(10000);
	g_assert_cmpint(write(e->sockets[0], "x", 1), ==, 1);
	return -1;
}

/* All of the rest has to come in time, not each part of it. */
static void test_rest_slow(void)
{
	void *ptr = NULL;
	struct ends e;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	set_timeout(e.sockets[1], SO_RCVTIMEO, 100000);
	/* However late the call is, it finds the beginning. */
	send_byte(&e);
	set_meanwhile(send_byte, &e);

	assert_error(vpmm_receive(e.to.pool, &ptr, NULL, e.sockets[1]), ETIMEDOUT, "the message is cut");

	set_meanwhile(NULL, NULL);
	ends_close(&e);
}

static void assert_can_be_cancelled(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
	pthread_setcancelstate(state, NULL);
	g_assert_cmpint(state, ==, PTHREAD_CANCEL_ENABLE);
}

static int send_block(struct ends *e)
{
	assert_can_be_cancelled();
	set_meanwhile(NULL, NULL);
	assert_ok(vpmm_send(e->from.pool, shareable_malloc(&e->from, SIZE), e->sockets[0]));
	return -1;
}

static int nothing_left(struct ends *e)
{
	assert_can_be_cancelled();
	set_meanwhile(send_block, e);
	return 1;
}

/* Another thread takes what has woken this one, which waits on. */
static void test_taken_by_other(void)
{
	struct ends e;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	set_meanwhile(nothing_left, &e);

	receive_block(&e, NULL);

	g_assert_null(meanwhile);
	ends_close(&e);
}

static int reset_and_send(struct ends *e)
{
	struct vpmm_opts opts = { FIXTURE_PACKED, .export_as = VPMM_EXPORT_FD };

	set_meanwhile(NULL, NULL);
	assert_ok(vpmm_host_reset());
	fixture_open(&e->from, opts);
	assert_ok(vpmm_send(e->from.pool, shareable_malloc(&e->from, SIZE), e->sockets[0]));
	return -1;
}

/* The block goes to the default pool of then, and is not lost. */
static void test_reset_meanwhile(void)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };
	void *ptr = NULL;
	struct ends e;

	if (!g_test_subprocess()) {
		g_test_trap_subprocess(NULL, 0, G_TEST_SUBPROCESS_INHERIT_STDERR);
		g_test_trap_assert_passed();
		return;
	}
	g_setenv("VPMM_BACKEND", "host", TRUE);
	g_setenv("VPMM_VA_SIZE", "1G", TRUE);
	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, e.sockets), ==, 0);
	assert_ok(vpmm_pool_stats(NULL, &stats));
	set_meanwhile(reset_and_send, &e);

	assert_ok(vpmm_receive(NULL, &ptr, NULL, e.sockets[1]));

	assert_ok(vpmm_pool_stats(NULL, &stats));
	g_assert_cmpuint(stats.imported, ==, 3 * PAGE);
}

static gint interruptions;
static int interrupted_end = -1;

static void interrupt(int number)
{
	(void)number;
	/* What should have ended long ago ends with another error. */
	if (g_atomic_int_add(&interruptions, 1) > 4000 && interrupted_end >= 0)
		shutdown(interrupted_end, SHUT_RDWR);
}

static void interrupt_often(void)
{
	const struct itimerval often = { { 0, 500 }, { 0, 500 } };
	const struct sigaction action = { .sa_handler = interrupt };

	g_assert_cmpint(sigaction(SIGALRM, &action, NULL), ==, 0);
	g_assert_cmpint(setitimer(ITIMER_REAL, &often, NULL), ==, 0);
}

/* The handler stays: under valgrind, the last signal is delivered only after later calls. */
static void interrupt_no_more(void)
{
	const struct itimerval never = { { 0, 0 }, { 0, 0 } };

	g_assert_cmpint(setitimer(ITIMER_REAL, &never, NULL), ==, 0);
}

struct late {
	struct ends *e;
	char *here;
};

/* Sends once the receiver was interrupted a few times. */
static void *send_late(void *data)
{
	struct late *late = data;

	while (g_atomic_int_get(&interruptions) < 5)
		g_usleep(100);
	assert_ok(vpmm_send(late->e->from.pool, late->here, late->e->sockets[0]));
	return NULL;
}

static void test_signals(void)
{
	struct ends e;
	struct late late = { .e = &e };
	GThread *thread;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	late.here = shareable_malloc(&e.from, SIZE);
	thread = g_thread_new("late", send_late, &late);
	interrupt_often();

	receive_block(&e, NULL);

	interrupt_no_more();
	g_thread_join(thread);
	ends_close(&e);
}

static void test_timeout_with_signals(void)
{
	void *ptr = NULL;
	struct ends e;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	set_timeout(e.sockets[1], SO_RCVTIMEO, 20000);
	g_atomic_int_set(&interruptions, 0);
	interrupted_end = e.sockets[0];
	interrupt_often();

	assert_error(vpmm_receive(e.to.pool, &ptr, NULL, e.sockets[1]), EAGAIN, "nothing within");

	interrupt_no_more();
	interrupted_end = -1;
	ends_close(&e);
}

static void *receive_forever(void *data)
{
	struct ends *e = data;
	void *ptr = NULL;

	vpmm_receive(e->to.pool, &ptr, NULL, e->sockets[1]);
	return NULL;
}

/* A thread that waits for a message can be cancelled, and holds nothing up. */
static void test_cancelled(void)
{
	pthread_t thread;
	struct ends e;
	void *end;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	g_assert_cmpint(pthread_create(&thread, NULL, receive_forever, &e), ==, 0);
	g_assert_cmpint(pthread_cancel(thread), ==, 0);
	g_assert_cmpint(pthread_join(thread, &end), ==, 0);
	g_assert_true(end == PTHREAD_CANCELED);
	assert_ok(vpmm_send(e.from.pool, shareable_malloc(&e.from, SIZE), e.sockets[0]));
	receive_block(&e, NULL);
	ends_close(&e);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/export-wait/rest-slow", test_rest_slow);
	g_test_add_func("/export-wait/taken-by-other", test_taken_by_other);
	g_test_add_func("/export-wait/reset-meanwhile", test_reset_meanwhile);
	g_test_add_func("/export-wait/signals", test_signals);
	g_test_add_func("/export-wait/timeout-with-signals", test_timeout_with_signals);
	g_test_add_func("/export-wait/cancelled", test_cancelled);
	return g_test_run();
}
