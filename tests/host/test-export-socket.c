// SPDX-License-Identifier: LGPL-2.1-or-later
/* What comes from a socket: wrong messages, and none. */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "backend/backend.h"
#include "calls/message.h"
#include "calls/pool.h"
#include "host/export-fixture.h"
#include "support/fault.h"
#include "support/rlimit.h"

#define MOST 8

/* Messages that a socket takes for sure, with nobody to read them. */
#define MOST_CROWD 200

/* Bytes to be written, and descriptors to go with them. */
struct raw {
	struct message message;
	size_t size;
	int fds[300];
	int count;
};

static void raw_send(int socket, const struct raw *raw)
{
	char control[CMSG_SPACE(sizeof(raw->fds))] = { 0 };
	struct iovec part = { (void *)&raw->message, raw->size };
	struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };

	if (raw->count) {
		struct cmsghdr *rights = (struct cmsghdr *)control;

		header.msg_control = control;
		header.msg_controllen = CMSG_SPACE((size_t)raw->count * sizeof(int));
		rights->cmsg_level = SOL_SOCKET;
		rights->cmsg_type = SCM_RIGHTS;
		rights->cmsg_len = CMSG_LEN((size_t)raw->count * sizeof(int));
		memcpy(CMSG_DATA(rights), raw->fds, (size_t)raw->count * sizeof(int));
	}
	g_assert_cmpint(sendmsg(socket, &header, MSG_NOSIGNAL), ==, (ssize_t)raw->size);
}

/* What vpmm_send() writes about a block. */
static struct raw raw_of(struct ends *e, const void *ptr)
{
	struct raw raw = { .size = sizeof(raw.message), .count = 1 };
	int sockets[2];

	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), ==, 0);
	assert_ok(vpmm_send(e->from.pool, ptr, sockets[0]));
	assert_ok(message_receive(sockets[1], &raw.message, &raw.fds[0]));
	close(sockets[0]);
	close(sockets[1]);
	return raw;
}

static void raw_close(struct raw *raw, int from)
{
	for (int i = from; i < raw->count; i++)
		close(raw->fds[i]);
}

static void cut(struct raw *raw)
{
	raw->size = 100;
}

static void twice(struct raw *raw)
{
	raw->fds[raw->count++] = dup(raw->fds[0]);
}

static void many(struct raw *raw)
{
	while (raw->count < 253)
		twice(raw);
}

static void none(struct raw *raw)
{
	raw_close(raw, 0);
	raw->count = 0;
}

static void replace(struct raw *raw, int fd)
{
	raw_close(raw, 0);
	raw->fds[0] = fd;
}

static void device_file(struct raw *raw)
{
	replace(raw, open("/dev/null", O_RDWR | O_CLOEXEC));
}

/* Its peer could make it smaller while it is mapped. */
static void unsealed(struct raw *raw)
{
	int fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	g_assert_cmpint(ftruncate(fd, (off_t)raw->message.bytes), ==, 0);
	replace(raw, fd);
}

static void seal(struct raw *raw, int fd, int more)
{
	g_assert_cmpint(ftruncate(fd, (off_t)raw->message.bytes), ==, 0);
	g_assert_cmpint(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | more), ==, 0);
	replace(raw, fd);
}

static void never_written(struct raw *raw)
{
	seal(raw, memfd_create("never-written", MFD_CLOEXEC | MFD_ALLOW_SEALING), F_SEAL_WRITE);
}

static void read_only(struct raw *raw)
{
	char *path = g_strdup_printf("/proc/self/fd/%d", raw->fds[0]);

	replace(raw, open(path, O_RDONLY | O_CLOEXEC));
	g_free(path);
}

/* Where the system has no huge pages to spare, an access is SIGBUS. */
static void huge_pages(struct raw *raw)
{
	int fd = memfd_create("huge-pages", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);

	if (fd < 0)
		unsealed(raw);
	else
		seal(raw, fd, 0);
}

static void nothing(struct raw *raw)
{
	raw->size = 0;
}

#define SET(field, value) .at = offsetof(struct message, field), .bytes = sizeof(((struct message *)0)->field), \
	.number = (value)

/* A message that is wrong in one way, and what is said of it. */
static const struct wrong {
	const char *name;
	void (*change)(struct raw *raw);
	size_t at;
	size_t bytes;
	uint64_t number;
	int err;
	const char *word;
} wrongs[] = {
	{ "nothing", nothing, .err = EPIPE, .word = "closed" },
	{ "cut", cut, .err = EPROTO, .word = "cut: 100 bytes of 144" },
	{ "magic", NULL, SET(magic[7], 'x'), .err = EPROTO, .word = "no message of vpmm_send()" },
	{ "version", NULL, SET(version, 2), .err = EPROTO, .word = "version 2" },
	{ "part", NULL, SET(version, MESSAGE_PART), .err = EPROTO, .word = "version 4" },
	{ "length", NULL, SET(length, 143), .err = EPROTO, .word = "143 bytes" },
	{ "backend", NULL, SET(backend[0], 'X'), .err = EXDEV, .word = "another backend" },
	{ "type-0", NULL, SET(type, 0), .err = EPROTO, .word = "type 0" },
	{ "type-3", NULL, SET(type, 3), .err = EPROTO, .word = "type 3" },
	{ "fabric", none, SET(type, 2), .err = ENOTSUP, .word = "file descriptors only" },
	{ "fabric-with-descriptor", NULL, SET(type, 2), .err = EPROTO,
	  .word = "1 descriptors came with the message: expected 0" },
	{ "no-handles", NULL, SET(handles, 0), .err = EPROTO, .word = "0 handles" },
	{ "all-handles", NULL, SET(handles, UINT32_MAX), .err = EPROTO, .word = "4294967295 handles" },
	{ "no-bytes", NULL, SET(bytes, 0), .err = EPROTO, .word = "0 bytes of memory" },
	{ "odd-bytes", NULL, SET(bytes, 3 * PAGE - 1), .err = EPROTO, .word = "granularity" },
	{ "fewer-bytes", NULL, SET(bytes, 2 * PAGE), .err = EPROTO, .word = "block has" },
	{ "more-bytes", NULL, SET(bytes, 4 * PAGE), .err = EPROTO, .word = "not 8388608 bytes of memory" },
	{ "huge", NULL, SET(bytes, UINT64_MAX - PAGE + 1), .err = EPROTO, .word = "bytes of memory" },
	{ "no-size", NULL, SET(size, 0), .err = EPROTO, .word = "block has 0 bytes" },
	{ "large-size", NULL, SET(size, 3 * PAGE + 1), .err = EPROTO, .word = "block has" },
	{ "no-granularity", NULL, SET(granularity, 0), .err = EPROTO, .word = "power of two" },
	{ "odd-granularity", NULL, SET(granularity, 3), .err = EPROTO, .word = "power of two" },
	{ "large-granularity", NULL, SET(granularity, UINT64_C(1) << 63), .err = EPROTO, .word = "granularity" },
	{ "no-descriptor", none, .err = EPROTO, .word = "0 descriptors" },
	{ "two-descriptors", twice, .err = EPROTO, .word = "2 descriptors" },
	{ "many-descriptors", many, .err = EPROTO, .word = "253 descriptors" },
	{ "device-file", device_file, .err = EPROTO, .word = "not 6291456 bytes of memory" },
	{ "unsealed", unsealed, .err = EPROTO, .word = "has exported" },
	{ "never-written", never_written, .err = EPROTO, .word = "has exported" },
	{ "read-only", read_only, .err = EPROTO, .word = "has exported" },
	{ "huge-pages", huge_pages, .err = EPROTO, .word = "has exported" },
};

static void test_wrong(gconstpointer data)
{
	const struct wrong *wrong = data;
	void *ptr = &ptr;
	size_t size = 7;
	struct raw raw;
	struct ends e;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	raw = raw_of(&e, shareable_malloc(&e.from, SIZE));
	memcpy((char *)&raw.message + wrong->at, &wrong->number, wrong->bytes);
	if (wrong->change)
		wrong->change(&raw);
	if (raw.size)
		raw_send(e.sockets[0], &raw);
	raw_close(&raw, 0);
	close(e.sockets[0]);
	e.sockets[0] = -1;

	assert_error(vpmm_receive(e.to.pool, &ptr, &size, e.sockets[1]), wrong->err, wrong->word);

	g_assert_true(ptr == &ptr && size == 7);
	assert_ok(vpmm_pool_check(e.to.pool));
	g_assert_cmpuint(fixture_stats(&e.to).imported, ==, 0);
	ends_close(&e);
}

static void set_version(struct message *message)
{
	message->version = 77;
}

static void set_device(struct message *message)
{
	message->uuid[15] = 9;
}

/* Sends a block whose message has a change. Return: the block. */
static char *send_changed(struct ends *e, void (*change)(struct message *message))
{
	char *here = shareable_malloc(&e->from, SIZE);
	struct raw raw = raw_of(e, here);

	change(&raw.message);
	raw_send(e->sockets[0], &raw);
	raw_close(&raw, 0);
	return here;
}

/* A pool can have memory of another device, as one device can access that of another. */
static void test_other_device(void)
{
	struct ends e;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	send_changed(&e, set_device)[5] = 5;
	g_assert_cmpint(receive_block(&e, NULL)[5], ==, 5);
	ends_close(&e);
}

/* The stream of bytes goes on behind a wrong message. */
static void test_right_after_wrong(void)
{
	void *ptr = NULL;
	struct ends e;
	char *here;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	here = send_changed(&e, set_version);
	assert_ok(vpmm_send(e.from.pool, here, e.sockets[0]));

	assert_error(vpmm_receive(e.to.pool, &ptr, NULL, e.sockets[1]), EPROTO, "version 77");
	here[5] = 5;
	g_assert_cmpint(receive_block(&e, NULL)[5], ==, 5);
	ends_close(&e);
}

/* Each byte comes for itself, and a second descriptor with the last. */
static void test_bytewise(gconstpointer data)
{
	bool more = GPOINTER_TO_INT(data);
	struct raw raw, part;
	void *ptr = NULL;
	struct ends e;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	raw = raw_of(&e, shareable_malloc(&e.from, SIZE));
	for (size_t i = 0; i < sizeof(raw.message); i++) {
		bool last = i == sizeof(raw.message) - 1;

		part = (struct raw){ .size = 1, .count = !i || (last && more), .fds = { raw.fds[0] } };
		memcpy(&part.message, (char *)&raw.message + i, 1);
		raw_send(e.sockets[0], &part);
	}
	raw_close(&raw, 0);

	if (more)
		assert_error(vpmm_receive(e.to.pool, &ptr, NULL, e.sockets[1]), EPROTO, "2 descriptors");
	else
		assert_ok(vpmm_receive(e.to.pool, &ptr, NULL, e.sockets[1]));
	ends_close(&e);
}

static void test_wrong_packets(void)
{
	void *ptr = NULL;
	struct raw raw;
	struct ends e;
	char longer[sizeof(struct message) + 1] = { 0 };

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_SEQPACKET);
	raw = raw_of(&e, shareable_malloc(&e.from, SIZE));
	cut(&raw);
	raw_send(e.sockets[0], &raw);
	g_assert_cmpint(write(e.sockets[0], longer, sizeof(longer)), ==, sizeof(longer));
	raw_close(&raw, 0);

	assert_error(vpmm_receive(e.to.pool, &ptr, NULL, e.sockets[1]), EPROTO, "cut: 100 bytes");
	assert_error(vpmm_receive(e.to.pool, &ptr, NULL, e.sockets[1]), EPROTO, "longer");
	ends_close(&e);
}

/* Nothing is lost where nothing was there, and the socket serves on. */
static void test_not_yet(void)
{
	void *ptr = NULL;
	struct ends e;
	char *here;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	here = shareable_malloc(&e.from, SIZE);
	set_timeout(e.sockets[1], SO_RCVTIMEO, 1000);
	assert_error(vpmm_receive(e.to.pool, &ptr, NULL, e.sockets[1]), EAGAIN, "nothing within");
	g_assert_cmpint(fcntl(e.sockets[1], F_SETFL, O_NONBLOCK), ==, 0);
	assert_error(vpmm_receive(e.to.pool, &ptr, NULL, e.sockets[1]), EAGAIN, "nothing within 0 ms");
	assert_ok(vpmm_send(e.from.pool, here, e.sockets[0]));
	receive_block(&e, NULL);
	ends_close(&e);
}

static void test_rest_missing(void)
{
	void *ptr = NULL;
	struct raw raw;
	struct ends e;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	raw = raw_of(&e, shareable_malloc(&e.from, SIZE));
	cut(&raw);
	raw_send(e.sockets[0], &raw);
	raw_close(&raw, 0);
	set_timeout(e.sockets[1], SO_RCVTIMEO, 1000);
	assert_error(vpmm_receive(e.to.pool, &ptr, NULL, e.sockets[1]), ETIMEDOUT, "cut: 100 bytes of 144");
	ends_close(&e);
}

/* A full socket: what was sent is whole, and what was not is not begun. */
static void test_full(void)
{
	struct ends e;
	char *here;
	int sent = 0, err;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	here = shareable_malloc(&e.from, SIZE);
	g_assert_cmpint(fcntl(e.sockets[0], F_SETFL, O_NONBLOCK), ==, 0);
	while (!(err = vpmm_send(e.from.pool, here, e.sockets[0])))
		sent++;
	g_assert_cmpint(err, ==, -EAGAIN);
	g_assert_cmpint(sent, >, 1);
	for (int i = 0; i < MIN(sent, MOST); i++) {
		void *ptr = NULL;

		assert_ok(vpmm_receive(e.to.pool, &ptr, NULL, e.sockets[1]));
	}
	ends_close(&e);
}

/* Has descriptors arrive at last: those in a socket that nobody has any more. */
static void *close_crowd(void *data)
{
	const int *crowd = data;

	g_usleep(50000);
	close(crowd[0]);
	close(crowd[1]);
	return NULL;
}

/* Has more descriptors on their way than a process of this user may open from now on. Returns the limit before. */
static rlim_t crowd_user(struct ends *e, const void *here, int crowd[2])
{
	int sent = 0, lowest = fcntl(e->sockets[0], F_DUPFD_CLOEXEC, 0);

	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, crowd), ==, 0);
	while (sent < MOST_CROWD && !vpmm_send(e->from.pool, here, crowd[0]))
		sent++;
	g_assert_cmpint(sent, >, lowest + 8);
	close(lowest);
	return rlimit_set(RLIMIT_NOFILE, (rlim_t)lowest + 8);
}

/* The kernel bounds the descriptors of a user that are on their way, and its calls do not wait for that. */
static void test_too_many_under_way(void)
{
	char *here, *lent;
	struct ends e;
	pthread_t thread;
	int crowd[2];
	rlim_t files;

	if (!g_test_subprocess()) {
		g_test_trap_subprocess(NULL, 0, 0);
		g_test_trap_assert_passed();
		return;
	}
	/* It does not bound those of root. */
	g_assert_true(geteuid() || !setuid(65534));
	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE }, SOCK_STREAM);
	here = shareable_malloc(&e.from, SIZE);
	lent = fixture_malloc_bytes(&e.from, 3 * PAGE, e.from.streams[0]);
	files = crowd_user(&e, here, crowd);
	g_assert_cmpint(fcntl(e.sockets[0], F_SETFL, O_NONBLOCK), ==, 0);
	assert_error(vpmm_send(e.from.pool, here, e.sockets[0]), EAGAIN, "on their way");
	g_assert_cmpint(fcntl(e.sockets[0], F_SETFL, 0), ==, 0);
	g_assert_cmpint(pthread_create(&thread, NULL, close_crowd, crowd), ==, 0);
	assert_ok(vpmm_lend(e.from.pool, lent, e.sockets[0]));
	pthread_join(thread, NULL);
	assert_ok(vpmm_send(e.from.pool, here, e.sockets[0]));
	receive_block(&e, NULL);
	receive_block(&e, NULL);
	rlimit_set(RLIMIT_NOFILE, files);
	fixture_free(&e.from, lent, e.from.streams[0]);
	fixture_free(&e.from, here, e.from.streams[0]);
	ends_close(&e);
}

/* Without a SIGPIPE, which would end the test. */
static void test_closed(void)
{
	struct ends e;
	char *here;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	here = shareable_malloc(&e.from, SIZE);
	close(e.sockets[1]);
	e.sockets[1] = -1;
	assert_error(vpmm_send(e.from.pool, here, e.sockets[0]), EPIPE, "sendmsg");
	assert_error(vpmm_receive(e.to.pool, &(void *){ NULL }, NULL, e.sockets[0]), EPIPE, "closed");
	ends_close(&e);
}

/* A datagram socket tells that nobody is there with another error. */
static void test_closed_datagrams(void)
{
	struct ends e;
	char *here;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_DGRAM);
	here = shareable_malloc(&e.from, SIZE);
	close(e.sockets[1]);
	e.sockets[1] = -1;
	assert_error(vpmm_send(e.from.pool, here, e.sockets[0]), EPIPE, "sendmsg");
	ends_close(&e);
}

/* A socket that is shut down for reading is always ready. What came before is received, and then its end is told. */
static void test_shut_down(gconstpointer type)
{
	void *ptr = NULL;
	struct ends e;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, GPOINTER_TO_INT(type));
	assert_ok(vpmm_send(e.from.pool, shareable_malloc(&e.from, SIZE), e.sockets[0]));
	g_assert_cmpint(shutdown(e.sockets[1], SHUT_RD), ==, 0);
	receive_block(&e, NULL);
	assert_error(vpmm_receive(e.to.pool, &ptr, NULL, e.sockets[1]), EPIPE, "closed");
	g_assert_cmpint(fcntl(e.sockets[1], F_SETFL, O_NONBLOCK), ==, 0);
	assert_error(vpmm_receive(e.to.pool, &ptr, NULL, e.sockets[1]), EPIPE, "closed");
	g_assert_null(ptr);
	ends_close(&e);
}

/* What is under way is given back with the socket. */
static void test_never_received(void)
{
	struct ends e;
	char *here;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	here = shareable_malloc(&e.from, SIZE);
	assert_ok(vpmm_send(e.from.pool, here, e.sockets[0]));
	fixture_free(&e.from, here, e.from.streams[0]);
	ends_close(&e);
}

static void test_no_descriptors(void)
{
	struct rlimit before, limit;
	void *ptr = NULL;
	struct ends e;
	char *here;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	here = shareable_malloc(&e.from, SIZE);
	assert_ok(vpmm_send(e.from.pool, here, e.sockets[0]));
	g_assert_cmpint(getrlimit(RLIMIT_NOFILE, &before), ==, 0);
	limit = before;
	/* The lowest that is not in use: all below are. */
	limit.rlim_cur = (rlim_t)dup(e.sockets[0]);
	close((int)limit.rlim_cur);
	g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
	assert_error(vpmm_receive(e.to.pool, &ptr, NULL, e.sockets[1]), EMFILE, "RLIMIT_NOFILE");
	assert_error(vpmm_send(e.from.pool, here, e.sockets[0]), EMFILE, "descriptor of memory");
	g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &before), ==, 0);
	assert_ok(vpmm_pool_check(e.to.pool));
	assert_ok(vpmm_send(e.from.pool, here, e.sockets[0]));
	receive_block(&e, NULL);
	ends_close(&e);
}

/* It has a descriptor come with each message, which is closed. */
static void test_sender_told(void)
{
#ifdef SO_PASSPIDFD
	const int passpidfd = SO_PASSPIDFD;
#else
	const int passpidfd = 76;
#endif
	struct ends e;
	char *here;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	here = shareable_malloc(&e.from, SIZE);
	if (setsockopt(e.sockets[1], SOL_SOCKET, passpidfd, &(int){ 1 }, sizeof(int)))
		g_test_skip("the kernel has no SO_PASSPIDFD");
	assert_ok(vpmm_send(e.from.pool, here, e.sockets[0]));

	here[7] = 7;
	g_assert_cmpint(receive_block(&e, NULL)[7], ==, 7);

	ends_close(&e);
}

static void send_filled(struct ends *e, char value)
{
	char *here = shareable_malloc(&e->from, SIZE);

	here[5] = value;
	assert_ok(vpmm_send(e->from.pool, here, e->sockets[0]));
}

/* A driver that fails earlier takes no block; one that cannot map it has all of it. The next one is whole. */
static void test_driver_fails(void)
{
	static const enum backend_op ops[] = { BACKEND_OP_enter, BACKEND_OP_map };
	struct vpmm_opts opts = { FIXTURE_PACKED, .export_as = VPMM_EXPORT_FD };
	void *ptr = NULL;
	struct ends e = { .descriptors = count_descriptors() };

	fixture_open(&e.from, opts);
	fixture_open_faulty(&e.to, opts);
	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, e.sockets), ==, 0);
	for (unsigned int i = 0; i < G_N_ELEMENTS(ops); i++) {
		send_filled(&e, 1);
		send_filled(&e, 2);
		backend_fault_arm(e.to.pool->core.backend, ops[i], 0, UINT_MAX, -EIO);
		assert_error(vpmm_receive(e.to.pool, &ptr, NULL, e.sockets[1]), EIO, "");
		backend_fault_arm(e.to.pool->core.backend, ops[i], 0, 0, 0);
		g_assert_null(ptr);
		if (ops[i] == BACKEND_OP_enter)
			g_assert_cmpint(receive_block(&e, NULL)[5], ==, 1);
		g_assert_cmpint(receive_block(&e, NULL)[5], ==, 2);
	}
	ends_close(&e);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	fixture_add_rows("/export-socket/wrong", wrongs, test_wrong);
	g_test_add_func("/export-socket/other-device", test_other_device);
	g_test_add_func("/export-socket/right-after-wrong", test_right_after_wrong);
	g_test_add_data_func("/export-socket/bytewise", GINT_TO_POINTER(false), test_bytewise);
	g_test_add_data_func("/export-socket/bytewise-two", GINT_TO_POINTER(true), test_bytewise);
	g_test_add_func("/export-socket/wrong-packets", test_wrong_packets);
	g_test_add_func("/export-socket/not-yet", test_not_yet);
	g_test_add_func("/export-socket/rest-missing", test_rest_missing);
	g_test_add_func("/export-socket/sender-told", test_sender_told);
	g_test_add_func("/export-socket/full", test_full);
	g_test_add_func("/export-socket/too-many-under-way", test_too_many_under_way);
	g_test_add_func("/export-socket/closed", test_closed);
	g_test_add_func("/export-socket/closed-datagrams", test_closed_datagrams);
	g_test_add_data_func("/export-socket/shut-down", GINT_TO_POINTER(SOCK_STREAM), test_shut_down);
	g_test_add_data_func("/export-socket/shut-down-packets", GINT_TO_POINTER(SOCK_SEQPACKET), test_shut_down);
	g_test_add_data_func("/export-socket/shut-down-datagrams", GINT_TO_POINTER(SOCK_DGRAM), test_shut_down);
	g_test_add_func("/export-socket/never-received", test_never_received);
	g_test_add_func("/export-socket/no-descriptors", test_no_descriptors);
	g_test_add_func("/export-socket/driver-fails", test_driver_fails);
	return g_test_run();
}
