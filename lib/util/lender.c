// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A name says which socket of the process that has the block answers to it: an abstract one, so that no file is left by
 * whoever is killed. Only processes of the same user are answered; the kernel says who that is. Descriptors travel
 * through the socket, by vpmm_lend(), as taking them out of a process (pidfd_getfd) is what containers refuse.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/descriptor.h"
#include "util/lender.h"

/* The wait for a process that says nothing. */
#define PATIENCE_S 30

_Static_assert(sizeof(struct lender_name) == 64, "a handle of CUDA's legacy IPC has 64 bytes");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t token[2];
/* Written under the lock, and once there is a thread that accepts, by that alone, which reads it without. */
static struct descriptor listening = { .fd = -1 };
static atomic_bool in_child, serving;
static const struct lender_ops *ops;

void lender_enter_child(void)
{
	in_child = true;
	/* As long as it is open here nobody sees that the parent has ended. */
	descriptor_close(&listening);
}

bool lender_in_child(void)
{
	return in_child;
}

static socklen_t socket_address(const uint64_t *of, struct sockaddr_un *address)
{
	int length;

	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	/* The first byte is 0, for an abstract name. */
	length = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "vpmm-lender-%016" PRIx64 "%016" PRIx64,
			  of[0], of[1]);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static bool set_patience(int fd)
{
	struct timeval limit = { .tv_sec = PATIENCE_S };

	return !setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) &&
	       !setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

static bool is_own_user(int fd)
{
	struct ucred other;
	socklen_t length = sizeof(other);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &length) && other.uid == geteuid();
}

static bool socket_read(int fd, void *to, size_t size)
{
	ssize_t got;

	do
		got = recv(fd, to, size, MSG_WAITALL);
	while (got < 0 && errno == EINTR);
	return got == (ssize_t)size;
}

static bool socket_write(int fd, const void *from, size_t size)
{
	ssize_t put;

	do
		put = send(fd, from, size, MSG_NOSIGNAL);
	while (put < 0 && errno == EINTR);
	return put == (ssize_t)size;
}

/* The answer for a name, and the start of its block. */
static int find_named_block(const struct lender_ops *of, struct lender_name *name, struct lender_answer *answer,
			    void **base)
{
	size_t lead;
	int err;

	if (!of->find(name, base))
		return -ENOENT;
	err = of->lend_key(NULL, *base, name->key, &lead);
	if (err)
		return err;
	answer->lead = lead;
	answer->within = name->addr - (uintptr_t)*base;
	return 0;
}

/* Answers one request. */
static void *answer_one(void *data)
{
	int fd = (int)(intptr_t)data;
	struct lender_answer answer = { 0 };
	struct lender_name name;
	void *base;

	if (!set_patience(fd) || !is_own_user(fd) || !socket_read(fd, &name, sizeof(name)))
		goto out;
	if (find_named_block(ops, &name, &answer, &base))
		answer.err = -ENOENT;
	if (socket_write(fd, &answer, sizeof(answer)) && !answer.err)
		ops->lend(NULL, base, fd);
out:
	close(fd);
	return NULL;
}

/* A thread that nobody waits for, and that no signal of the program's goes to. */
static int start_detached(void *(*fn)(void *data), void *data)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	err = pthread_attr_init(&attr);
	if (err)
		return -err;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&thread, &attr, fn, data);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return -err;
}

static int open_socket(struct descriptor *made)
{
	struct sockaddr_un address;
	socklen_t length = socket_address(token, &address);
	int fd = descriptor_raise(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
	int err = 0;

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&address, length) || listen(fd, SOMAXCONN))
		err = -errno;
	if (err)
		close(fd);
	else
		*made = descriptor_note(fd);
	return err;
}

/* One that the program has closed is opened once more; who connects to what has its number means the program. */
static bool is_listening(void)
{
	struct descriptor made;

	if (descriptor_is_own(&listening))
		return true;
	if (open_socket(&made))
		return false;
	pthread_mutex_lock(&lock);
	listening = made;
	pthread_mutex_unlock(&lock);
	return true;
}

static void *answer_all(void *data)
{
	int fd;

	for (;;) {
		fd = is_listening() ? descriptor_raise(accept4(listening.fd, NULL, NULL, SOCK_CLOEXEC)) : -1;
		if (fd >= 0 && start_detached(answer_one, (void *)(intptr_t)fd))
			close(fd);
		/* Without descriptors or memory it goes on once there are some. */
		if (fd < 0 && errno != EINTR && errno != ECONNABORTED)
			usleep(10000);
	}
	return data;
}

/* Under the lock. */
static int begin_serving(const struct lender_ops *of)
{
	int err;

	if (listening.fd >= 0)
		return 0;
	if (getrandom(token, sizeof(token), 0) != sizeof(token))
		return -EIO;
	err = open_socket(&listening);
	if (err)
		return err;
	ops = of;
	err = start_detached(answer_all, NULL);
	if (err)
		descriptor_close(&listening);
	else
		serving = true;
	return err;
}

int lender_give(const struct lender_ops *of, struct lender_name *name, size_t *offset)
{
	struct lender_answer answer;
	void *base;
	int err;

	if (in_child)
		return -EBUSY;
	err = find_named_block(of, name, &answer, &base);
	if (err)
		return err == -ENOENT ? -EINVAL : err;
	pthread_mutex_lock(&lock);
	err = begin_serving(of);
	pthread_mutex_unlock(&lock);
	if (err)
		return err;
	name->pid = getpid();
	memcpy(name->token, token, sizeof(token));
	*offset = answer.lead + answer.within;
	return 0;
}

static int connect_to(const struct lender_name *name, int *made)
{
	struct sockaddr_un address;
	socklen_t length = socket_address(name->token, &address);
	int fd = descriptor_raise(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
	int err = 0;

	if (fd < 0)
		return -errno;
	if (!set_patience(fd) || connect(fd, (struct sockaddr *)&address, length))
		err = errno == ECONNREFUSED ? -ESRCH : -errno;
	else if (!is_own_user(fd))
		err = -EPERM;
	if (err)
		close(fd);
	else
		*made = fd;
	return err;
}

int lender_ask(const struct lender_name *name, struct lender_answer *answer, int *socket)
{
	int fd = -1, err;

	if (in_child)
		return -EBUSY;
	err = connect_to(name, &fd);
	if (err)
		return err;
	if (!socket_write(fd, name, sizeof(*name)) || !socket_read(fd, answer, sizeof(*answer)))
		err = -ESRCH;
	else
		err = (int)answer->err;
	if (err)
		close(fd);
	else
		*socket = fd;
	return err;
}

bool lender_is_own(const struct lender_name *name)
{
	return serving && !memcmp(name->token, token, sizeof(token));
}
