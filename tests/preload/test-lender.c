// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Names of blocks, and who answers to them: this process is the other one as well, and its blocks are what a table
 * says.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <glib.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/lender.h"

#define BLOCK ((uintptr_t)0x10000)
#define SIZE 0x1000
#define LEAD 0x300

/* What there is: one block, and what its library says. */
static gint serial = 1, key_error, lend_error;

static bool find_the_block(const struct lender_name *name, void **base)
{
	*base = (void *)BLOCK;
	return name->kind == 5 && name->addr >= BLOCK && name->addr < BLOCK + SIZE &&
	       name->serial == (uint64_t)g_atomic_int_get(&serial);
}

static int key_of_block(struct vpmm_pool *pool, const void *ptr, uint64_t *key, size_t *offset)
{
	g_assert_null(pool);
	g_assert_true(ptr == (void *)BLOCK);
	for (int i = 0; i < 3; i++)
		key[i] = 77 + (uint64_t)i;
	*offset = LEAD;
	return g_atomic_int_get(&key_error);
}

static int lend_block(struct vpmm_pool *pool, const void *ptr, int socket)
{
	int err = g_atomic_int_get(&lend_error);

	g_assert_null(pool);
	g_assert_true(ptr == (void *)BLOCK);
	/* Some that ask do not wait for it. */
	return err || send(socket, "memory", 6, MSG_NOSIGNAL) == 6 ? err : -EPIPE;
}

static const struct lender_ops ops = { find_the_block, key_of_block, lend_block };

static struct lender_name give_block(uint64_t within)
{
	struct lender_name name = { .kind = 5, .addr = BLOCK + within, .serial = (uint64_t)serial };
	size_t offset;

	g_assert_cmpint(lender_give(&ops, &name, &offset), ==, 0);
	g_assert_cmpuint(offset, ==, LEAD + within);
	return name;
}

static int ask(const struct lender_name *name)
{
	struct lender_answer answer;
	int fd = -1, err = lender_ask(name, &answer, &fd);

	if (!err)
		close(fd);
	return err;
}

static void test_answer(void)
{
	struct lender_name name = give_block(0x20), again = give_block(0x20);
	struct lender_answer answer;
	char got[16];
	int fd;

	g_assert_cmpmem(&name, sizeof(name), &again, sizeof(again));
	g_assert_cmpint(name.pid, ==, getpid());
	g_assert_true(lender_is_own(&name));
	g_assert_cmpint(lender_ask(&name, &answer, &fd), ==, 0);
	g_assert_cmpuint(answer.lead, ==, LEAD);
	g_assert_cmpuint(answer.within, ==, 0x20);
	g_assert_cmpint(recv(fd, got, sizeof(got), MSG_WAITALL), ==, 6);
	g_assert_cmpmem(got, 6, "memory", 6);
	close(fd);
}

static void test_refused(void)
{
	struct lender_name name = give_block(0), other = name;
	size_t offset;

	/* Another process's, or that of one that has ended. */
	other.token[0]++;
	g_assert_false(lender_is_own(&other));
	g_assert_cmpint(ask(&other), ==, -ESRCH);

	/* A block that was freed, and another that is in its place. */
	g_atomic_int_inc(&serial);
	g_assert_cmpint(ask(&name), ==, -ENOENT);
	g_assert_cmpint(lender_give(&ops, &name, &offset), ==, -EINVAL);
	name = give_block(0);
	g_assert_cmpint(ask(&name), ==, 0);

	/* One that cannot be lent (any more). */
	g_atomic_int_set(&key_error, -ENOTSUP);
	g_assert_cmpint(lender_give(&ops, &name, &offset), ==, -ENOTSUP);
	g_assert_cmpint(ask(&name), ==, -ENOENT);
	g_atomic_int_set(&key_error, 0);
}

/* Who has asked waits no longer than the lender tries. */
static void test_not_lent(void)
{
	struct lender_name name = give_block(0);
	struct lender_answer answer;
	char byte;
	int fd;

	g_atomic_int_set(&lend_error, -EIO);
	g_assert_cmpint(lender_ask(&name, &answer, &fd), ==, 0);
	g_assert_cmpint(recv(fd, &byte, 1, 0), ==, 0);
	close(fd);
	g_atomic_int_set(&lend_error, 0);
}

static gpointer ask_often(gpointer data)
{
	for (int i = 0; i < 50; i++)
		g_assert_cmpint(ask(data), ==, 0);
	return NULL;
}

static void test_threads(void)
{
	struct lender_name name = give_block(0);
	GThread *threads[8];

	for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
		threads[i] = g_thread_new("ask", ask_often, &name);
	for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
		g_thread_join(threads[i]);
}

/* A child that has run lender_enter_child() does nothing of it, and the parent's socket goes with the parent. */
static void test_child(void)
{
	struct lender_name name = give_block(0);
	int status;
	size_t offset;
	pid_t pid;

	pid = fork();
	if (!pid) {
		lender_enter_child();
		_exit(!lender_in_child() || lender_give(&ops, &name, &offset) != -EBUSY || ask(&name) != -EBUSY);
	}
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	g_assert_cmpint(status, ==, 0);
	g_assert_false(lender_in_child());
	g_assert_cmpint(ask(&name), ==, 0);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/lender/answer", test_answer);
	g_test_add_func("/lender/refused", test_refused);
	g_test_add_func("/lender/not-lent", test_not_lent);
	g_test_add_func("/lender/threads", test_threads);
	g_test_add_func("/lender/child", test_child);
	return g_test_run();
}
