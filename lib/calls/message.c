// SPDX-License-Identifier: LGPL-2.1-or-later
/* Messages between processes, and what can be wrong with them. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "calls/message.h"
#include "util/descriptor.h"
#include "util/error.h"

/* A message is so short that it comes in one piece. Whoever sends a part of one is not to hold up the receiver. */
#define REST_MS 10000

/* How long to wait for descriptors to arrive before it is tried again to send one. */
#define ARRIVAL_US 1000

/* The kernel passes no more descriptors at once (SCM_MAX_FD). */
#define DESCRIPTORS 253

/* A descriptor of the sender, for programs that asked for it (SO_PASSPIDFD); not in the headers of older systems. */
#ifndef SCM_PIDFD
#define SCM_PIDFD 0x04
#endif

/* Other programs may have asked for credentials or labels on the socket, which take room as well. */
#define CONTROL_MORE 1024

_Static_assert(sizeof(struct message) == 144, "other versions of the library know messages of this size");

/* What was read so far. */
struct incoming {
	struct message message;
	size_t got;
	int fds[DESCRIPTORS];
	guint count;
	bool cut;		/* the process could not take all descriptors */
	bool longer;		/* the packet has more than a message */
	bool begun;		/* what it belongs to has come, or a part of it */
};

/* Its type receives SOCK_STREAM or another. */
static int check_socket(int socket, int *type)
{
	socklen_t length = sizeof(int);
	int domain;

	if (getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &length))
		return error_set(-EINVAL, "descriptor %d: %s", socket, g_strerror(errno));
	if (domain != AF_UNIX)
		return error_set(-EINVAL, "descriptor %d is a socket, but not a Unix socket", socket);
	length = sizeof(int);
	if (getsockopt(socket, SOL_SOCKET, SO_TYPE, type, &length))
		return error_set(-EINVAL, "descriptor %d: %s", socket, g_strerror(errno));
	return 0;
}

static int fail_socket(int socket, const char *call)
{
	/* Which of them it is that says that nobody is there depends on the type of the socket. */
	int err = errno == ECONNRESET || errno == ECONNREFUSED ? EPIPE : errno;

	return error_set(-err, "%s on socket %d: %s", call, socket, g_strerror(err));
}

/* How long a call on the socket may wait to begin: milliseconds; -1: without end. */
static int patience(int socket, int option)
{
	socklen_t length = sizeof(struct timeval);
	struct timeval limit = { 0 };
	int flags = fcntl(socket, F_GETFL);

	if (flags >= 0 && flags & O_NONBLOCK)
		return 0;
	if (getsockopt(socket, SOL_SOCKET, option, &limit, &length) || (!limit.tv_sec && !limit.tv_usec))
		return -1;
	if (limit.tv_sec >= INT_MAX / 1000)
		return INT_MAX;
	return (int)(limit.tv_sec * 1000 + (limit.tv_usec + 999) / 1000);
}

static struct message_wait deadline_after(int ms)
{
	return (struct message_wait){ .ms = ms, .end = ms < 0 ? 0 : g_get_monotonic_time() + (gint64)ms * 1000 };
}

/* One for all that is left of a message or block, or whoever sends it bit by bit could hold up the call for long. */
static struct message_wait wait_for_rest(int socket, int option)
{
	int ms = patience(socket, option);

	return deadline_after(ms > 0 ? ms : REST_MS);
}

/* For poll(): milliseconds; -1: without end. */
static int time_left(const struct message_wait *wait)
{
	gint64 left;

	if (wait->ms < 0)
		return -1;
	left = wait->end - g_get_monotonic_time();
	return left > 0 ? (int)MIN((left + 999) / 1000, INT_MAX) : 0;
}

/* Waits until the socket is ready, or has failed, which the next call on it tells. */
static int await(int socket, short events, const struct message_wait *wait)
{
	struct pollfd poll_fd = { .fd = socket, .events = events };
	int ready;

	do
		ready = poll(&poll_fd, 1, time_left(wait));
	while (ready < 0 && errno == EINTR);
	if (ready < 0)
		return fail_socket(socket, "poll");
	return ready ? 0 : error_set(-EAGAIN, "socket %d: nothing within %d ms", socket, wait->ms);
}

/*
 * The same for a message that errno says cannot be sent now. The user may have as many descriptors on their way as a
 * process may open, and no call waits until some have arrived.
 */
static int await_sending(int socket, const struct message_wait *wait)
{
	if (errno == EAGAIN)
		return await(socket, POLLOUT, wait);
	if (!time_left(wait))
		return error_set(-EAGAIN, "socket %d: too many descriptors are on their way (RLIMIT_NOFILE)", socket);
	g_usleep(ARRIVAL_US);
	return 0;
}

/* A wait for the rest of a message is over. */
static int fail_rest(int socket, int err, size_t done)
{
	if (err != -EAGAIN)
		return err;
	return error_set(-ETIMEDOUT, "socket %d: the message is cut: %zu bytes of %zu", socket, done,
			 sizeof(struct message));
}

/* The descriptor goes with the first byte. */
static ssize_t put(int socket, const struct message *message, size_t done, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { { 0 } };
	struct iovec part = { (char *)message + done, sizeof(*message) - done };
	struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };

	if (!done && fd >= 0) {
		struct cmsghdr *rights = &control.align;

		header.msg_control = control.bytes;
		header.msg_controllen = sizeof(control.bytes);
		rights->cmsg_level = SOL_SOCKET;
		rights->cmsg_type = SCM_RIGHTS;
		rights->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(rights), &fd, sizeof(int));
	}
	return sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* @begun: what it belongs to was sent. */
static int put_all(int socket, const struct message *message, int fd, bool begun)
{
	struct message_wait wait = { 0 };
	size_t done = 0;
	ssize_t put_now;
	int type;
	int err = check_socket(socket, &type);

	if (!err)
		wait = begun ? wait_for_rest(socket, SO_SNDTIMEO) : deadline_after(patience(socket, SO_SNDTIMEO));
	while (!err && done < sizeof(*message)) {
		put_now = put(socket, message, done, fd);
		if (put_now >= 0 && !begun)
			wait = wait_for_rest(socket, SO_SNDTIMEO);
		begun |= put_now >= 0;
		if (put_now >= 0)
			done += (size_t)put_now;
		else if (errno == EAGAIN || errno == ETOOMANYREFS)
			err = await_sending(socket, &wait);
		else if (errno != EINTR)
			err = fail_socket(socket, "sendmsg");
	}
	return begun ? fail_rest(socket, err, done) : err;
}

int message_send(int socket, const struct message *message, int fd)
{
	return put_all(socket, message, fd, false);
}

int message_send_part(int socket, const struct message *message, int fd)
{
	return put_all(socket, message, fd, true);
}

static void close_received(struct incoming *in, guint from)
{
	for (guint i = from; i < in->count; i++)
		close(in->fds[i]);
	in->count = MIN(in->count, from);
}

static void keep_descriptor(struct incoming *in, int fd)
{
	if (in->count == DESCRIPTORS) {
		close(fd);
		return;
	}
	fd = descriptor_raise(fd);
	if (fd < 0)
		in->cut = true;
	else
		in->fds[in->count++] = fd;
}

static void keep_descriptors(struct incoming *in, struct msghdr *header)
{
	for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part; part = CMSG_NXTHDR(header, part)) {
		size_t bytes = part->cmsg_len - CMSG_LEN(0);
		bool rights = part->cmsg_type == SCM_RIGHTS;

		if (part->cmsg_level != SOL_SOCKET || (!rights && part->cmsg_type != SCM_PIDFD))
			continue;
		for (size_t i = 0; i < bytes / sizeof(int); i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
			if (rights)
				keep_descriptor(in, fd);
			else if (fd >= 0)
				close(fd);
		}
	}
	in->cut |= !!(header->msg_flags & MSG_CTRUNC);
	in->longer |= !!(header->msg_flags & MSG_TRUNC);
}

static ssize_t get(int socket, struct incoming *in)
{
	union {
		char bytes[CMSG_SPACE(DESCRIPTORS * sizeof(int)) + CONTROL_MORE];
		struct cmsghdr align;
	} control;
	struct iovec part = { (char *)&in->message + in->got, sizeof(in->message) - in->got };
	struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes,
				 .msg_controllen = sizeof(control.bytes) };
	ssize_t got;

	got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (got >= 0)
		keep_descriptors(in, &header);
	return got;
}

static int end_of(int socket, size_t got, bool begun)
{
	if (!begun)
		return error_set(-EPIPE, "socket %d: the other process has closed it", socket);
	return error_set(-EPROTO, "socket %d: the message is cut: %zu bytes of %zu", socket, got,
			 sizeof(struct message));
}

/*
 * A datagram socket that was shut down for reading is ready for ever, and has nothing: no call but this tells that it
 * is not to be waited for. Others say their end to whoever reads.
 */
static int nothing_on(int socket, int type)
{
	struct pollfd poll_fd = { .fd = socket, .events = POLLRDHUP };

	if (type == SOCK_DGRAM && poll(&poll_fd, 1, 0) > 0 && poll_fd.revents & POLLRDHUP)
		return end_of(socket, 0, false);
	return error_set(-EAGAIN, "socket %d: there is no message", socket);
}

/* Reads all of a message, or what a packet has. @rest: of the message that it belongs behind; NULL: none. */
static int read_message(int socket, int type, struct incoming *in, const struct message_wait *rest)
{
	struct message_wait wait = rest ? *rest : (struct message_wait){ 0 };
	ssize_t got;
	int err = 0;

	while (!err && in->got < sizeof(in->message)) {
		got = get(socket, in);
		if (got > 0 && !in->begun)
			wait = wait_for_rest(socket, SO_RCVTIMEO);
		in->begun |= got > 0;
		if (got > 0)
			in->got += (size_t)got;
		if (!got || (got > 0 && type != SOCK_STREAM && in->got < sizeof(in->message)))
			err = end_of(socket, in->got, in->begun);
		else if (got < 0 && errno == EAGAIN)
			err = in->begun ? fail_rest(socket, await(socket, POLLIN, &wait), in->got) :
			      nothing_on(socket, type);
		else if (got < 0 && errno != EINTR)
			err = fail_socket(socket, "recvmsg");
	}
	if (!err && in->longer)
		err = error_set(-EPROTO, "socket %d: the packet is longer than the %zu bytes of a message", socket,
				sizeof(in->message));
	return err;
}

static int judge_version(const struct message *message, bool part)
{
	uint32_t version = message->version;

	if (part && version != MESSAGE_PART)
		return error_set(-EPROTO, "the message is of version %" PRIu32 ": expected %d, for a part of memory",
				 version, MESSAGE_PART);
	if (!part && version != MESSAGE_VERSION && version != MESSAGE_LENT)
		return error_set(-EPROTO, "the message is of version %" PRIu32 ", and this library reads versions %d "
				 "and %d", version, MESSAGE_VERSION, MESSAGE_LENT);
	return 0;
}

static int judge_header(const struct message *message, bool part)
{
	if (memcmp(message->magic, MESSAGE_MAGIC, sizeof(message->magic)))
		return error_set(-EPROTO, "this is no message of vpmm_send()");
	if (judge_version(message, part))
		return -EPROTO;
	if (message->length != sizeof(*message))
		return error_set(-EPROTO, "the message says that it has %" PRIu32 " bytes: expected %zu",
				 message->length, sizeof(*message));
	if (message->version != MESSAGE_LENT && message->handles != 1)
		return error_set(-EPROTO, "the message is about %" PRIu32 " handles: expected 1", message->handles);
	if (message->type != BACKEND_HANDLES_FD && message->type != BACKEND_HANDLES_FABRIC)
		return error_set(-EPROTO, "the message has a handle of the unknown type %" PRIu32, message->type);
	return 0;
}

static int judge_sizes(const struct message *message)
{
	uint64_t bytes = message->bytes, granularity = message->granularity;
	uint64_t offset = message->version == MESSAGE_LENT ? message->offset : 0;

	if (!granularity || granularity & (granularity - 1))
		return error_set(-EPROTO,
				 "the message says that the granularity is %" PRIu64 ": expected a power of two",
				 granularity);
	if (!bytes || bytes > SIZE_MAX / 4 || bytes % granularity)
		return error_set(-EPROTO,
				 "the message says that there are %" PRIu64 " bytes of memory, with a granularity "
				 "of %" PRIu64, bytes, granularity);
	if (!message->size || message->size > bytes || offset > bytes - message->size)
		return error_set(-EPROTO, "the message says that the block has %" PRIu64 " bytes of %" PRIu64
				 ", from %" PRIu64 " on", message->size, bytes, offset);
	if (!message->handles || message->handles > bytes / granularity)
		return error_set(-EPROTO, "the message is about %" PRIu32 " handles of %" PRIu64 " bytes in all",
				 message->handles, bytes);
	return 0;
}

static int judge_descriptors(const struct incoming *in)
{
	guint expected = in->message.type == BACKEND_HANDLES_FD && in->message.version != MESSAGE_LENT;

	if (in->cut)
		return error_set(-EMFILE, "the process has no room for the descriptors that came (RLIMIT_NOFILE)");
	if (in->count != expected)
		return error_set(-EPROTO, "%u descriptors came with the message: expected %u", in->count, expected);
	return 0;
}

int message_begin(int socket, struct message_wait *wait)
{
	int type;
	int err = check_socket(socket, &type);

	if (!err)
		*wait = deadline_after(patience(socket, SO_RCVTIMEO));
	return err;
}

int message_await(int socket, const struct message_wait *wait)
{
	return await(socket, POLLIN, wait);
}

static int get_all(int socket, struct message *message, int *fd, const struct message_wait *rest)
{
	struct incoming in = { .begun = rest };
	int type;
	int err = check_socket(socket, &type);

	if (!err)
		err = read_message(socket, type, &in, rest);
	if (!err)
		err = judge_header(&in.message, rest);
	if (!err)
		err = judge_descriptors(&in);
	if (!err)
		err = judge_sizes(&in.message);
	if (err) {
		close_received(&in, 0);
		return err;
	}
	*message = in.message;
	*fd = in.count ? in.fds[0] : -1;
	return 0;
}

int message_receive(int socket, struct message *message, int *fd)
{
	return get_all(socket, message, fd, NULL);
}

struct message_wait message_begin_rest(int socket)
{
	return wait_for_rest(socket, SO_RCVTIMEO);
}

int message_receive_part(int socket, const struct message_wait *rest, struct message *message, int *fd)
{
	return get_all(socket, message, fd, rest);
}
