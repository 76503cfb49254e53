// SPDX-License-Identifier: LGPL-2.1-or-later
/* vpmm_lend(): blocks of any kind whose memory another process has as long as they are allocated. */
#include <pthread.h>
#include <sys/wait.h>

#include "backend/backend.h"
#include "calls/message.h"
#include "calls/pool.h"
#include "host/export-fixture.h"
#include "support/kinds.h"
#include "support/rlimit.h"
#include "util/error.h"

/* And the smallest blocks that are not the driver's. */
static const struct kind kinds[] = {
	{ "packed", { FIXTURE_PACKED } },
	{ "paged", { FIXTURE_OPTS }, PAGE },
	{ "small-extents", { FIXTURE_PACKED, .extent_max = PAGE } },
};

static char *pool_malloc(struct fixture *f, size_t size)
{
	void *ptr = NULL;

	assert_ok(vpmm_malloc(f->pool, &ptr, size, f->streams[0]));
	return ptr;
}

static char *lend_block(struct ends *e, const char *here, size_t size)
{
	size_t got = 0;
	char *there;

	assert_ok(vpmm_lend(NULL, here, e->sockets[0]));
	there = receive_block(e, &got);
	g_assert_cmpuint(got, ==, size);
	return there;
}

/* One memory, of blocks that lie anywhere in the pool, and whose neighbours go on. */
static void test_one_memory(gconstpointer data)
{
	static const size_t sizes[] = { 1, 700, PAGE / 3, PAGE, PAGE + 1, 5 * PAGE - 7, 11 * PAGE };
	char *here[2 * G_N_ELEMENTS(sizes)], *there;
	const struct kind *kind = data;
	struct ends e;

	ends_open(&e, kind->opts, SOCK_STREAM);
	for (size_t i = 0; i < G_N_ELEMENTS(here); i++)
		here[i] = pool_malloc(&e.from, MAX(sizes[i / 2], kind->size));
	for (size_t i = 0; i < G_N_ELEMENTS(here); i += 2) {
		size_t size = MAX(sizes[i / 2], kind->size);

		memset(here[i], (int)i + 1, size);
		there = lend_block(&e, here[i], size);
		g_assert_cmpmem(there, size, here[i], size);
		memset(there, 0x77, size);
		g_assert_cmpint(here[i][0] + here[i][size - 1], ==, 2 * 0x77);
		fixture_free(&e.to, there, e.to.streams[0]);
	}
	for (size_t i = 0; i < G_N_ELEMENTS(here); i++)
		fixture_free(&e.from, here[i], e.from.streams[0]);
	assert_ok(vpmm_pool_check(e.from.pool));
	g_assert_cmpuint(fixture_stats(&e.to).imported, ==, 0);
	ends_close(&e);
}

/* Numbers are the same for one memory alone, and say where blocks are in what was received. */
static void test_key(void)
{
	char *here[40], *there[40] = { NULL };
	uint64_t keys[40][3], key[3];
	size_t offsets[40], offset, known = 0;
	struct ends e;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	for (size_t i = 0; i < G_N_ELEMENTS(here); i++) {
		here[i] = pool_malloc(&e.from, i % 7 ? PAGE / 8 : 3 * PAGE);
		memset(here[i], (int)i + 1, PAGE / 8);
		assert_ok(vpmm_lend_key(NULL, here[i], keys[i], &offsets[i]));
		assert_ok(vpmm_lend_key(e.from.pool, here[i], key, &offset));
		g_assert_cmpmem(key, sizeof(key), keys[i], sizeof(key));
		g_assert_cmpuint(offset, ==, offsets[i]);
		for (size_t j = 0; j < i && !there[i]; j++)
			if (!memcmp(keys[j], key, sizeof(key)))
				there[i] = there[j] - offsets[j] + offset;
		known += !!there[i];
		if (!there[i])
			there[i] = lend_block(&e, here[i], i % 7 ? PAGE / 8 : 3 * PAGE);
		g_assert_cmpint(there[i][0] + there[i][PAGE / 8 - 1], ==, 2 * (int)(i + 1));
	}
	g_assert_cmpuint(known, >, 0);
	for (size_t i = 0; i < G_N_ELEMENTS(here); i++)
		fixture_free(&e.from, here[i], e.from.streams[0]);
	assert_ok(vpmm_pool_trim(e.from.pool, 0, NULL));
	here[0] = pool_malloc(&e.from, 3 * PAGE);
	assert_ok(vpmm_lend_key(NULL, here[0], key, &offset));
	for (size_t i = 0; i < G_N_ELEMENTS(here); i++)
		g_assert_cmpint(memcmp(keys[i], key, sizeof(key)), !=, 0);
	fixture_free(&e.from, here[0], e.from.streams[0]);
	ends_close(&e);
}

/* The lender's block goes, and its memory with it; the other one has what it had, until it frees that. */
static void test_lender_first(void)
{
	char *here, *there;
	struct ends e;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	here = pool_malloc(&e.from, SIZE);
	memset(here, 0x11, SIZE);
	there = lend_block(&e, here, SIZE);
	fixture_free(&e.from, here, e.from.streams[0]);
	assert_ok(vpmm_pool_trim(e.from.pool, 0, NULL));
	g_assert_cmpuint(fixture_stats(&e.from).mapped, ==, 0);
	g_assert_cmpint(there[SIZE - 1], ==, 0x11);
	fixture_free(&e.to, there, e.to.streams[0]);
	ends_close(&e);
}

/* What is lent and what is freed there counts for nothing here, and the memory serves the next request at once. */
static void test_serves_again(void)
{
	char *here, *there;
	struct ends e;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	for (int i = 0; i < 50; i++) {
		here = pool_malloc(&e.from, SIZE);
		here[0] = (char)i;
		there = lend_block(&e, here, SIZE);
		g_assert_cmpint(there[0], ==, i);
		fixture_free(&e.to, there, e.to.streams[0]);
		fixture_free(&e.from, here, e.from.streams[0]);
	}
	g_assert_cmpuint(fixture_stats(&e.from).creates, <=, 3);
	ends_close(&e);
}

static void test_refused(void)
{
	char *shareable, *here, *there;
	struct ends e;
	size_t offset;
	uint64_t key[3];
	void *ptr = NULL;
	vpmm_tag tag, before;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_STREAM);
	here = pool_malloc(&e.from, SIZE);
	assert_error(vpmm_lend(NULL, NULL, e.sockets[0]), EINVAL, "ptr is NULL");
	assert_error(vpmm_lend(e.from.pool, here + 1, e.sockets[0]), EINVAL, "starts there");
	assert_error(vpmm_lend_key(e.from.pool, here + 1, key, &offset), EINVAL, "starts there");
	assert_error(vpmm_lend_key(NULL, NULL, key, &offset), EINVAL, "ptr is NULL");
	assert_error(vpmm_lend_key(NULL, here, NULL, &offset), EINVAL, "key is NULL");
	assert_error(vpmm_lend_key(NULL, here, key, NULL), EINVAL, "offset is NULL");
	assert_error(vpmm_lend(e.from.pool, here, -1), EINVAL, "descriptor -1");
	shareable = shareable_malloc(&e.from, SIZE);
	assert_error(vpmm_lend(NULL, shareable, e.sockets[0]), ENOTSUP, "VPMM_SHAREABLE");
	assert_error(vpmm_lend_key(NULL, shareable, key, &offset), ENOTSUP, "VPMM_SHAREABLE");
	there = lend_block(&e, here, SIZE);
	assert_error(vpmm_lend(NULL, there, e.sockets[1]), ENOTSUP, "VPMM_SHAREABLE");
	assert_error(vpmm_send(NULL, there, e.sockets[1]), EINVAL, "came from another process");
	assert_error(vpmm_send(NULL, here, e.sockets[0]), EINVAL, "VPMM_SHAREABLE");
	fixture_free(&e.to, there, e.to.streams[0]);
	fixture_free(&e.from, shareable, e.from.streams[0]);
	/* Also if it is in its stream's cache. */
	fixture_free(&e.from, here, e.from.streams[0]);
	assert_error(vpmm_lend(e.from.pool, here, e.sockets[0]), EINVAL, "starts there");
	assert_ok(vpmm_tag_open("lent", VPMM_TAG_PAUSABLE, &tag));
	before = vpmm_tag_set(tag);
	ptr = pool_malloc(&e.from, SIZE);
	vpmm_tag_set(before);
	assert_error(vpmm_lend(NULL, ptr, e.sockets[0]), ENOTSUP, "pausable");
	fixture_free(&e.from, ptr, e.from.streams[0]);
	ends_close(&e);
}

static void test_option_needed(void)
{
	struct vpmm_info info = { .size = sizeof(info) };
	uint64_t key[3];
	size_t offset;
	int sockets[2];
	struct fixture f;
	char *here;

	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), ==, 0);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	here = pool_malloc(&f, SIZE);
	assert_error(vpmm_lend(f.pool, here, sockets[0]), ENOTSUP, "VPMM_EXPORT");
	assert_error(vpmm_lend_key(f.pool, here, key, &offset), ENOTSUP, "VPMM_EXPORT");
	fixture_free(&f, here, f.streams[0]);
	fixture_close(&f);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .export_as = VPMM_EXPORT_AUTO });
	assert_ok(vpmm_pool_info(f.pool, &info));
	g_assert_cmpint(info.export_as, ==, VPMM_EXPORT_FD);
	here = pool_malloc(&f, SIZE);
	assert_ok(vpmm_lend(f.pool, here, sockets[0]));
	fixture_free(&f, here, f.streams[0]);
	fixture_close(&f);
	close(sockets[0]);
	close(sockets[1]);
}

/* Many handles at a socket with little room: they come as they are read. */
static void *receive_thread(void *data)
{
	struct ends *e = data;
	size_t size = 0;

	return receive_block(e, &size);
}

static void test_many_handles(void)
{
	struct vpmm_opts opts = { FIXTURE_PACKED, .extent_max = PAGE };
	int room = 1, flags;
	char *here, *there;
	GThread *thread;
	struct ends e;

	ends_open(&e, opts, SOCK_STREAM);
	g_assert_cmpint(setsockopt(e.sockets[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)), ==, 0);
	flags = fcntl(e.sockets[0], F_GETFL);
	g_assert_cmpint(fcntl(e.sockets[0], F_SETFL, flags | O_NONBLOCK), ==, 0);
	here = pool_malloc(&e.from, 60 * PAGE);
	for (size_t i = 0; i < 60; i++)
		here[i * PAGE] = (char)i;
	thread = g_thread_new("receiver", receive_thread, &e);
	assert_ok(vpmm_lend(NULL, here, e.sockets[0]));
	there = g_thread_join(thread);
	for (size_t i = 0; i < 60; i++)
		g_assert_cmpint(there[i * PAGE], ==, (char)i);
	fixture_free(&e.to, there, e.to.streams[0]);
	fixture_free(&e.from, here, e.from.streams[0]);
	ends_close(&e);
}

/* Handles that can be exported before the next cannot; what that fails with. */
static const struct backend_ops *plain_ops;
static unsigned int exports_left;

static int export_few(struct backend *be, uint64_t handle, struct backend_export *export)
{
	return exports_left-- ? plain_ops->export(be, handle, export) :
	       error_set(-EMFILE, "no more files");
}

/* Without its first handle nothing is sent, and the socket serves on. Without a later one the socket is of no use. */
static void test_handle_fails(gconstpointer data)
{
	const bool first = data;
	struct backend_ops hooked;
	struct backend *be;
	char *here, *there;
	struct ends e;
	void *none;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE }, SOCK_SEQPACKET);
	set_timeout(e.sockets[1], SO_RCVTIMEO, 1000);
	here = pool_malloc(&e.from, SIZE);
	memset(here, 0x12, SIZE);
	be = e.from.pool->core.backend;
	plain_ops = be->ops;
	hooked = *plain_ops;
	hooked.export = export_few;
	be->ops = &hooked;
	exports_left = first ? 0 : 2;
	if (first)
		assert_error(vpmm_lend(e.from.pool, here, e.sockets[0]), EMFILE, "no more files");
	else
		assert_error(vpmm_lend(e.from.pool, here, e.sockets[0]), ETIMEDOUT, ": a part was sent");
	g_assert_true(g_str_has_prefix(vpmm_last_error(), "vpmm_lend: "));
	g_assert_nonnull(strstr(vpmm_last_error(), "no more files"));
	be->ops = plain_ops;
	if (first) {
		there = lend_block(&e, here, SIZE);
		g_assert_cmpint(there[SIZE - 1], ==, 0x12);
		fixture_free(&e.to, there, e.to.streams[0]);
	} else {
		assert_error(vpmm_receive(e.to.pool, &none, NULL, e.sockets[1]), ETIMEDOUT, "vpmm_receive: ");
	}
	fixture_free(&e.from, here, e.from.streams[0]);
	ends_close(&e);
}

#define SET(field, value) .at = offsetof(struct message, field), .bytes = sizeof(((struct message *)0)->field), \
	.number = (value)

/* One of the messages is wrong in one way: the first, or that of the second handle. */
static const struct wrong {
	const char *name;
	int which;
	size_t at;
	size_t bytes;
	uint64_t number;
	const char *word;
} wrongs[] = {
	{ "version", 0, SET(version, 2), "version 2" },
	{ "part-first", 0, SET(version, MESSAGE_PART), "version 4" },
	{ "no-handles", 0, SET(handles, 0), "0 handles" },
	{ "all-handles", 0, SET(handles, UINT32_MAX), "4294967295 handles" },
	{ "offset", 0, SET(offset, PAGE), "block has" },
	{ "huge-offset", 0, SET(offset, UINT64_MAX), "block has" },
	{ "bytes", 0, SET(bytes, 4 * PAGE), "bytes came of" },
	{ "one-handle", 0, SET(handles, 1), "bytes came of" },
	{ "part-version", 2, SET(version, MESSAGE_VERSION), "version 1" },
	{ "part-handles", 2, SET(handles, 2), "2 handles" },
	{ "part-type", 2, SET(type, 2), "1 descriptors" },
	{ "part-bytes", 2, SET(bytes, 2 * PAGE), "that it is said to be in" },
	{ "part-granularity", 2, SET(granularity, PAGE / 2), "that it is said to be in" },
};

static void test_wrong(gconstpointer data)
{
	const struct wrong *wrong = data;
	void *ptr = &ptr, *here;
	struct message messages[4];
	struct message_wait rest;
	int fds[4], forged[2];
	struct ends e;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE }, SOCK_SEQPACKET);
	here = pool_malloc(&e.from, 3 * PAGE);
	assert_ok(vpmm_lend(NULL, here, e.sockets[0]));
	assert_ok(message_receive(e.sockets[1], &messages[0], &fds[0]));
	rest = message_begin_rest(e.sockets[1]);
	g_assert_cmpuint(messages[0].handles, ==, 3);
	for (int i = 1; i < 4; i++)
		assert_ok(message_receive_part(e.sockets[1], &rest, &messages[i], &fds[i]));
	memcpy((char *)&messages[wrong->which] + wrong->at, &wrong->number, wrong->bytes);
	g_assert_cmpint(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, forged), ==, 0);
	for (int i = 0; i < 4; i++) {
		assert_ok(message_send(forged[0], &messages[i], fds[i]));
		if (fds[i] >= 0)
			close(fds[i]);
	}
	close(forged[0]);
	assert_error(vpmm_receive(e.to.pool, &ptr, NULL, forged[1]), EPROTO, wrong->word);
	g_assert_true(ptr == &ptr);
	assert_ok(vpmm_pool_check(e.to.pool));
	g_assert_cmpuint(fixture_stats(&e.to).imported, ==, 0);
	close(forged[1]);
	fixture_free(&e.from, here, e.from.streams[0]);
	ends_close(&e);
}

/* The lender dies in the middle of it. */
static void test_cut(void)
{
	void *ptr = &ptr, *here;
	struct message_wait rest;
	struct message first;
	struct ends e;
	int fd;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE }, SOCK_STREAM);
	here = pool_malloc(&e.from, 3 * PAGE);
	assert_ok(vpmm_lend(NULL, here, e.sockets[0]));
	assert_ok(message_receive(e.sockets[1], &first, &fd));
	rest = message_begin_rest(e.sockets[1]);
	first.handles = 4;
	first.bytes = 4 * PAGE;
	assert_ok(message_send(e.sockets[1], &first, -1));
	for (int i = 0; i < 3; i++) {
		struct message part;

		assert_ok(message_receive_part(e.sockets[1], &rest, &part, &fd));
		assert_ok(message_send_part(e.sockets[1], &part, fd));
		close(fd);
	}
	close(e.sockets[1]);
	e.sockets[1] = -1;
	assert_error(vpmm_receive(e.to.pool, &ptr, NULL, e.sockets[0]), EPROTO, "handle 4 of 4");
	g_assert_cmpuint(fixture_stats(&e.to).imported, ==, 0);
	fixture_free(&e.from, here, e.from.streams[0]);
	ends_close(&e);
}

/* Reads the first message, and goes. */
static void *leave_early(void *data)
{
	struct message_wait wait;
	struct message first;
	struct ends *e = data;
	int fd;

	assert_ok(message_begin(e->sockets[1], &wait));
	assert_ok(message_await(e->sockets[1], &wait));
	assert_ok(message_receive(e->sockets[1], &first, &fd));
	close(e->sockets[1]);
	e->sockets[1] = -1;
	return NULL;
}

/* The other end goes in the middle of it: the lender has to know, as nobody has the block. */
static void test_left(void)
{
	struct vpmm_opts opts = { FIXTURE_PACKED, .extent_max = PAGE };
	int room = 1;
	GThread *thread;
	struct ends e;
	char *here;

	ends_open(&e, opts, SOCK_STREAM);
	g_assert_cmpint(setsockopt(e.sockets[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)), ==, 0);
	here = pool_malloc(&e.from, 60 * PAGE);
	thread = g_thread_new("leaver", leave_early, &e);
	assert_error(vpmm_lend(NULL, here, e.sockets[0]), EPIPE, "vpmm_lend: ");
	g_thread_join(thread);
	fixture_free(&e.from, here, e.from.streams[0]);
	ends_close(&e);
}

/* A block that there are too few descriptors for is gone, all of it, and the next one comes. */
static void test_no_descriptors(void)
{
	char *here, *there;
	void *none = NULL;
	struct ends e;
	rlim_t files;
	int lowest;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE }, SOCK_STREAM);
	here = pool_malloc(&e.from, 9 * PAGE);
	memset(here, 0x21, 9 * PAGE);
	assert_ok(vpmm_lend(NULL, here, e.sockets[0]));
	lowest = fcntl(e.sockets[0], F_DUPFD_CLOEXEC, 0);
	close(lowest);
	files = rlimit_set(RLIMIT_NOFILE, (rlim_t)lowest + 4);
	assert_error(vpmm_receive(e.to.pool, &none, NULL, e.sockets[1]), EMFILE, "RLIMIT_NOFILE");
	rlimit_set(RLIMIT_NOFILE, files);
	g_assert_null(none);
	there = lend_block(&e, here, 9 * PAGE);
	g_assert_cmpint(there[9 * PAGE - 1], ==, 0x21);
	fixture_free(&e.to, there, e.to.streams[0]);
	fixture_free(&e.from, here, e.from.streams[0]);
	ends_close(&e);
}

/* Many more than come within ten pauses. */
#define PARTS_SLOW 100
#define SLOW_US 20000

struct slow {
	int socket;
	struct message messages[2];	/* the first, and each behind it */
};

/* Sends the messages of a block of many handles, each with a pause before it, until the other end has given up. */
static void *lend_slowly(void *data)
{
	struct slow *slow = data;
	int err = 0;

	for (int i = 0; i < PARTS_SLOW && !err; i++) {
		err = message_send_part(slow->socket, &slow->messages[!!i], -1);
		g_usleep(SLOW_US);
	}
	return NULL;
}

/* All messages of a block have the time of one, or whoever sends them could hold up the receiver. */
static void test_slow(void)
{
	struct slow slow = { .messages = { { .version = MESSAGE_LENT }, { .version = MESSAGE_PART } } };
	gint64 begun = g_get_monotonic_time();
	void *ptr = &ptr;
	pthread_t thread;
	struct ends e;

	ends_open(&e, (struct vpmm_opts){ FIXTURE_PACKED }, SOCK_SEQPACKET);
	set_timeout(e.sockets[1], SO_RCVTIMEO, 10 * SLOW_US);
	for (int i = 0; i < 2; i++) {
		struct message *message = &slow.messages[i];

		memcpy(message->magic, MESSAGE_MAGIC, sizeof(message->magic));
		message->length = sizeof(*message);
		message->type = BACKEND_HANDLES_FABRIC;
		message->handles = i ? 1 : PARTS_SLOW;
		message->bytes = message->size = i ? PAGE : PARTS_SLOW * PAGE;
		message->granularity = PAGE;
	}
	slow.socket = e.sockets[0];
	g_assert_cmpint(pthread_create(&thread, NULL, lend_slowly, &slow), ==, 0);
	assert_error(vpmm_receive(e.to.pool, &ptr, NULL, e.sockets[1]), ETIMEDOUT, "handle");
	g_assert_true(ptr == &ptr);
	g_assert_cmpint(g_get_monotonic_time() - begun, <, (PARTS_SLOW - 1) * SLOW_US);
	close(e.sockets[1]);
	e.sockets[1] = -1;
	pthread_join(thread, NULL);
	ends_close(&e);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
		char *path = g_strdup_printf("/lend/one-memory/%s", kinds[i].name);

		g_test_add_data_func(path, &kinds[i], test_one_memory);
		g_free(path);
	}
	g_test_add_func("/lend/key", test_key);
	g_test_add_func("/lend/lender-first", test_lender_first);
	g_test_add_func("/lend/serves-again", test_serves_again);
	g_test_add_func("/lend/refused", test_refused);
	g_test_add_func("/lend/option-needed", test_option_needed);
	g_test_add_func("/lend/many-handles", test_many_handles);
	g_test_add_data_func("/lend/handle-fails/first", "first", test_handle_fails);
	g_test_add_data_func("/lend/handle-fails/later", NULL, test_handle_fails);
	for (size_t i = 0; i < G_N_ELEMENTS(wrongs); i++) {
		char *path = g_strdup_printf("/lend/wrong/%s", wrongs[i].name);

		g_test_add_data_func(path, &wrongs[i], test_wrong);
		g_free(path);
	}
	g_test_add_func("/lend/cut", test_cut);
	g_test_add_func("/lend/left", test_left);
	g_test_add_func("/lend/no-descriptors", test_no_descriptors);
	g_test_add_func("/lend/slow", test_slow);
	return g_test_run();
}
