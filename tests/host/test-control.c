// SPDX-License-Identifier: LGPL-2.1-or-later
/* VPMM_PAUSABLE: the socket that vpmm-pause speaks to, whatever else speaks to it, and the guard of a program. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/tag-fixture.h"
#include "util/control.h"

#define SECONDS 20

static struct control_answer answer;

/* The rows of all packets of the last answer. */
static GArray *rows;

static int try_connect(pid_t pid)
{
	const struct timeval patience = { .tv_sec = SECONDS };
	struct sockaddr_un address;
	socklen_t size = control_address(&address, pid);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	g_assert_cmpint(fd, >=, 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (!connect(fd, (const struct sockaddr *)&address, size))
		return fd;
	close(fd);
	return -1;
}

/* The library may be about to listen. */
static int connect_self(void)
{
	int fd = try_connect(getpid());

	for (int tries = 0; fd < 0 && tries < SECONDS * 100; tries++) {
		g_usleep(10000);
		fd = try_connect(getpid());
	}
	g_assert_cmpint(fd, >=, 0);
	return fd;
}

/* Says something, and returns the error that is answered. */
static int say(const void *data, size_t size)
{
	int fd = connect_self();

	g_assert_cmpint(send(fd, data, size, MSG_NOSIGNAL), ==, (ssize_t)size);
	g_array_set_size(rows, 0);
	do {
		g_assert_cmpint(recv(fd, &answer, sizeof(answer), 0), ==, sizeof(answer));
		g_assert_cmpuint(answer.magic, ==, CONTROL_MAGIC);
		g_assert_cmpuint(answer.count, <=, CONTROL_ROWS);
		g_array_append_vals(rows, answer.rows, answer.count);
	} while (answer.more);
	close(fd);
	return answer.err;
}

static int ask(enum control_op op, const char *tag)
{
	struct control_request request = { CONTROL_MAGIC, op, 0, 1000, "" };

	g_strlcpy(request.tag, tag, sizeof(request.tag));
	return say(&request, sizeof(request));
}

static void open_pausable(struct fixture *f)
{
	fixture_open(f, (struct vpmm_opts){ FIXTURE_PACKED });
}

static void test_round(void)
{
	vpmm_tag tag = tag_get("a", VPMM_TAG_PAUSABLE), label = tag_get("label", 0);
	struct fixture f;
	char *ptr;

	open_pausable(&f);
	ptr = tag_malloc(f.pool, tag, 3 * PAGE, 1, f.streams[0]);
	g_assert_cmpint(ask(CONTROL_STATUS, ""), ==, 0);
	g_assert_cmpuint(answer.count, ==, 1);
	g_assert_cmpstr(answer.rows[0].tag, ==, "a");
	g_assert_true(answer.rows[0].awake);
	g_assert_cmpint(ask(CONTROL_PREPARE, "a"), ==, 0);
	for (int i = 0; i < 2; i++) {
		g_assert_cmpint(ask(CONTROL_PAUSE, i ? "" : "a"), ==, 0);
		g_assert_cmpuint(tag_stats(f.pool, tag).paused, ==, 3 * PAGE);
		g_assert_false(answer.rows[0].awake);
		g_assert_cmpuint(answer.rows[0].paused, ==, 3 * PAGE);
		g_assert_cmpint(ask(CONTROL_RESUME, i ? "a" : ""), ==, 0);
		g_assert_true(tag_is_filled(ptr, 3 * PAGE, 1));
	}
	g_assert_cmpint(ask(CONTROL_PAUSE, "b"), ==, -EINVAL);
	g_assert_cmpstr(answer.text, ==, "the process has no tag \"b\"");
	g_assert_cmpint(ask(CONTROL_PAUSE, "label"), ==, -EINVAL);
	g_assert_nonnull(strstr(answer.text, "VPMM_TAG_PAUSABLE"));
	g_assert_cmpuint(label, !=, 0);
	fixture_free(&f, ptr, f.streams[0]);
	fixture_close(&f);
}

/* Lines that vpmm-pause prints below the head of its table, of all tags or of one. */
static unsigned int printed_lines(const char *tag)
{
	char *pid = g_strdup_printf("%ld", (long)getpid());
	const char *const argv[] = { "vpmm-pause", "--status", pid, tag, NULL };
	char *out = NULL;
	unsigned int lines = 0;
	GError *error = NULL;
	int status;

	g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, &out, NULL, &status, &error);
	g_assert_no_error(error);
	g_assert_cmpint(status, ==, 0);
	for (const char *at = out; (at = strchr(at, '\n')); at++)
		lines++;
	g_free(out);
	g_free(pid);
	return lines - 1;
}

/* Each tag of each pool has a row, whatever fits into a packet; a name stands for its own alone. */
static void test_rows(void)
{
	enum { MANY = CONTROL_ROWS + CONTROL_ROWS / 2 };
	struct fixture f[2];
	char *tool;

	for (size_t i = 0; i < G_N_ELEMENTS(f); i++) {
		open_pausable(&f[i]);
		for (int j = 0; j < MANY; j++) {
			char *name = g_strdup_printf("many-%d", j);

			tag_malloc(f[i].pool, tag_get(name, VPMM_TAG_PAUSABLE), 512, 1, f[i].streams[0]);
			g_free(name);
		}
	}
	g_assert_cmpint(ask(CONTROL_STATUS, ""), ==, 0);
	g_assert_cmpuint(rows->len, ==, G_N_ELEMENTS(f) * MANY);
	for (guint i = 0; i < rows->len; i++) {
		char *name = g_strdup_printf("many-%u", i % MANY);

		g_assert_cmpstr(g_array_index(rows, struct control_row, i).tag, ==, name);
		g_free(name);
	}
	g_assert_cmpint(ask(CONTROL_STATUS, "many-7"), ==, 0);
	g_assert_cmpuint(rows->len, ==, G_N_ELEMENTS(f));
	for (guint i = 0; i < rows->len; i++)
		g_assert_cmpstr(g_array_index(rows, struct control_row, i).tag, ==, "many-7");
	tool = g_find_program_in_path("vpmm-pause");
	if (tool) {
		g_assert_cmpuint(printed_lines(NULL), ==, G_N_ELEMENTS(f) * MANY);
		g_assert_cmpuint(printed_lines("many-7"), ==, G_N_ELEMENTS(f));
	}
	g_free(tool);
	g_assert_cmpint(ask(CONTROL_STATUS, "none"), ==, -EINVAL);
	g_assert_cmpuint(rows->len, ==, 0);
	fixture_close_beside(&f[0]);
	fixture_close(&f[1]);
}

/* A message that is none is answered by an error, and hurts nobody. */
static void test_hostile(void)
{
	struct control_request request = { CONTROL_MAGIC, CONTROL_PAUSE, 0, 1, "" };
	char large[4 * sizeof(request)] = { 0 };
	struct fixture f;
	int fds[40], fd;

	open_pausable(&f);
	tag_malloc(f.pool, tag_get("a", VPMM_TAG_PAUSABLE), PAGE, 1, f.streams[0]);
	for (size_t size = 1; size < sizeof(request); size += 7)
		g_assert_cmpint(say(&request, size), ==, -EPROTO);
	memcpy(large, &request, sizeof(request));
	g_assert_cmpint(say(large, sizeof(large)), ==, -EPROTO);
	memset(request.tag, 'x', sizeof(request.tag));
	g_assert_cmpint(say(&request, sizeof(request)), ==, -EPROTO);
	g_assert_cmpstr(answer.text, ==, "the name of the tag has no end");
	request = (struct control_request){ CONTROL_MAGIC, CONTROL_OPS, 0, 1, "" };
	g_assert_cmpint(say(&request, sizeof(request)), ==, -EPROTO);
	request = (struct control_request){ CONTROL_MAGIC, CONTROL_PAUSE, 0xf0, 1, "" };
	g_assert_cmpint(say(&request, sizeof(request)), ==, -EPROTO);
	request = (struct control_request){ 1, CONTROL_PAUSE, 0, 1, "" };
	g_assert_cmpint(say(&request, sizeof(request)), ==, -EPROTO);
	/* Some say nothing and go, or do not wait for the answer. */
	for (size_t i = 0; i < 8; i++) {
		fds[i] = connect_self();
		close(fds[i]);
		fd = connect_self();
		request = (struct control_request){ CONTROL_MAGIC, CONTROL_STATUS, 0, 1, "" };
		g_assert_cmpint(send(fd, &request, sizeof(request), MSG_NOSIGNAL), ==, sizeof(request));
		close(fd);
	}
	g_assert_cmpint(ask(CONTROL_STATUS, ""), ==, 0);
	g_assert_true(answer.rows[0].awake);
	fixture_close(&f);
}

/* Another user's process is refused. Only root can become one. */
static void test_other_user(void)
{
	struct control_request request = { CONTROL_MAGIC, CONTROL_PAUSE, 0, 1, "" };
	pid_t pid, self = getpid();
	struct fixture f;
	int status, fd;

	if (geteuid()) {
		g_test_skip("needs root");
		return;
	}
	open_pausable(&f);
	tag_malloc(f.pool, tag_get("a", VPMM_TAG_PAUSABLE), PAGE, 1, f.streams[0]);
	pid = fork();
	if (!pid) {
		if (setuid(65534))
			_exit(2);
		fd = try_connect(self);
		send(fd, &request, sizeof(request), MSG_NOSIGNAL);
		_exit(recv(fd, &answer, sizeof(answer), 0) != sizeof(answer) || answer.err != -EPERM || answer.count);
	}
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	g_assert_cmpint(status, ==, 0);
	g_assert_cmpint(ask(CONTROL_STATUS, ""), ==, 0);
	g_assert_true(answer.rows[0].awake);
	fixture_close(&f);
}

/* Nor does it keep others waiting: together these would, for longer than anybody waits for the answer. */
static void test_silent_user(void)
{
	enum { SILENT = 15 };
	pid_t pid, self = getpid();
	int ready[2], hold[2], status;
	struct fixture f;
	char c;

	if (geteuid()) {
		g_test_skip("needs root");
		return;
	}
	open_pausable(&f);
	g_assert_cmpint(pipe(ready), ==, 0);
	g_assert_cmpint(pipe(hold), ==, 0);
	pid = fork();
	if (!pid) {
		close(hold[1]);
		if (setuid(65534))
			_exit(2);
		for (int i = 0; i < SILENT; i++) {
			if (try_connect(self) < 0)
				_exit(3);
		}
		_exit(write(ready[1], "", 1) != 1 || read(hold[0], &c, 1));
	}
	close(ready[1]);
	g_assert_cmpint(read(ready[0], &c, 1), ==, 1);
	g_assert_cmpint(ask(CONTROL_STATUS, ""), ==, 0);
	close(hold[1]);
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	g_assert_cmpint(status, ==, 0);
	close(ready[0]);
	close(hold[0]);
	fixture_close(&f);
}

struct guarded {
	int refuse;
	int rests[8];
	unsigned int calls;
};

static int guard(void *data, int rest)
{
	struct guarded *it = data;

	g_assert_cmpuint(it->calls, <, G_N_ELEMENTS(it->rests));
	it->rests[it->calls++] = rest;
	return it->refuse;
}

/* The program is asked before the first tag is paused, and told after the last is back; or nothing is paused. */
static void test_guard(void)
{
	vpmm_tag a = tag_get("a", VPMM_TAG_PAUSABLE), b = tag_get("b", VPMM_TAG_PAUSABLE), own;
	struct guarded it = { .refuse = -EAGAIN };
	struct fixture f;

	own = tag_get("own", VPMM_TAG_PAUSABLE);
	open_pausable(&f);
	tag_malloc(f.pool, a, PAGE, 1, f.streams[0]);
	tag_malloc(f.pool, b, PAGE, 1, f.streams[0]);
	tag_malloc(f.pool, own, PAGE, 1, f.streams[0]);
	assert_ok(vpmm_pause_guard(guard, &it));
	g_assert_cmpint(ask(CONTROL_PAUSE, "a"), ==, -EAGAIN);
	g_assert_nonnull(strstr(answer.text, "does not come to rest"));
	g_assert_cmpuint(tag_stats(f.pool, a).paused, ==, 0);
	it = (struct guarded){ 0 };

	/* What the program has paused itself does not keep it from going on. */
	assert_ok(vpmm_pause(f.pool, own, 0));
	g_assert_cmpint(ask(CONTROL_PAUSE, "a"), ==, 0);
	g_assert_cmpint(ask(CONTROL_PAUSE, "b"), ==, 0);
	g_assert_cmpint(ask(CONTROL_PAUSE, "b"), ==, 0);
	g_assert_cmpint(ask(CONTROL_RESUME, "a"), ==, 0);
	g_assert_cmpuint(it.calls, ==, 1);
	g_assert_cmpint(it.rests[0], ==, 1000);
	g_assert_cmpint(ask(CONTROL_RESUME, "b"), ==, 0);
	g_assert_cmpuint(it.calls, ==, 2);
	g_assert_cmpint(it.rests[1], ==, 0);
	g_assert_cmpuint(tag_stats(f.pool, own).paused, ==, PAGE);
	assert_ok(vpmm_resume(f.pool, own, NULL));

	/* Where there is nothing to pause, or no guard any more, it is not asked. */
	g_assert_cmpint(ask(CONTROL_PAUSE, "c"), ==, -EINVAL);
	assert_ok(vpmm_pause_guard(NULL, NULL));
	g_assert_cmpint(ask(CONTROL_PAUSE, ""), ==, 0);
	g_assert_cmpint(ask(CONTROL_RESUME, ""), ==, 0);
	g_assert_cmpuint(it.calls, ==, 2);
	fixture_close(&f);
}

/* All pools of the process are paused, or none is: the second has no host memory for it. */
static void test_pools(void)
{
	vpmm_tag tag = tag_get("a", VPMM_TAG_PAUSABLE);
	struct fixture f, other;
	void *taken;

	open_pausable(&f);
	open_pausable(&other);
	tag_malloc(f.pool, tag, PAGE, 1, f.streams[0]);
	tag_malloc(other.pool, tag, PAGE, 1, other.streams[0]);
	g_assert_cmpint(ask(CONTROL_PAUSE, "a"), ==, 0);
	g_assert_cmpuint(answer.count, ==, 2);
	g_assert_cmpuint(tag_stats(f.pool, tag).paused + tag_stats(other.pool, tag).paused, ==, 2 * PAGE);

	/* Nor is one resumed without the other. */
	assert_ok(vpmm_malloc(other.pool, &taken, PAGE, other.streams[0]));
	assert_ok(vpmm_pool_set_limit(other.pool, PAGE));
	g_assert_cmpint(ask(CONTROL_RESUME, "a"), ==, -ENOMEM);
	g_assert_cmpuint(tag_stats(f.pool, tag).paused + tag_stats(other.pool, tag).paused, ==, 2 * PAGE);
	assert_ok(vpmm_pool_set_limit(other.pool, 0));
	g_assert_cmpint(ask(CONTROL_RESUME, "a"), ==, 0);
	g_assert_cmpuint(tag_stats(f.pool, tag).paused + tag_stats(other.pool, tag).paused, ==, 0);
	fixture_close_beside(&f);
	g_assert_cmpint(ask(CONTROL_STATUS, ""), ==, 0);
	g_assert_cmpuint(answer.count, ==, 1);
	fixture_close(&other);
	g_assert_cmpint(ask(CONTROL_PAUSE, ""), ==, 0);
	g_assert_cmpuint(answer.count, ==, 0);
}

static void *pause_in_turn(void *data)
{
	struct control_request request = { CONTROL_MAGIC, CONTROL_PAUSE, 0, 1000, "" };
	struct control_answer heard;

	for (unsigned int i = 0; !g_atomic_int_get((gint *)data); i++) {
		int fd = connect_self();

		request.op = i % CONTROL_OPS;
		g_assert_cmpint(send(fd, &request, sizeof(request), MSG_NOSIGNAL), ==, sizeof(request));
		g_assert_cmpint(recv(fd, &heard, sizeof(heard), 0), ==, sizeof(heard));
		g_assert_true(!heard.err || heard.err == -EBUSY);
		close(fd);
	}
	return NULL;
}

/* Pools come and go while others ask. */
static void test_pools_that_end(void)
{
	vpmm_tag tag = tag_get("a", VPMM_TAG_PAUSABLE);
	GThread *threads[2];
	struct fixture f;
	void *ptr;
	gint stop = 0;

	open_pausable(&f);
	for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
		threads[i] = g_thread_new("asks", pause_in_turn, &stop);
	for (unsigned int i = 0; i < 30; i++) {
		struct fixture other;
		int err;

		open_pausable(&other);
		vpmm_tag_set(tag);
		err = vpmm_malloc(other.pool, &ptr, PAGE, other.streams[0]);
		vpmm_tag_set(0);
		g_assert_true(!err || err == -EBUSY);
		fixture_close_beside(&other);
	}
	g_atomic_int_set(&stop, 1);
	for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
		g_thread_join(threads[i]);
	fixture_close(&f);
}

/* A child has no socket of its parent's; the name ends with the parent, whatever the child does. */
static void test_forked(void)
{
	pid_t parent, child;
	int status, ready[2], hold[2];
	char c;

	g_assert_cmpint(pipe(ready), ==, 0);
	g_assert_cmpint(pipe(hold), ==, 0);
	parent = fork();
	if (!parent) {
		struct fixture f;

		open_pausable(&f);
		if (!fork()) {
			/* Until the test lets it go. */
			close(hold[1]);
			_exit(write(ready[1], "", 1) != 1 || read(hold[0], &c, 1));
		}
		_exit(0);
	}
	child = parent;
	g_assert_cmpint(read(ready[0], &c, 1), ==, 1);
	g_assert_cmpint(waitpid(child, &status, 0), ==, child);
	g_assert_cmpint(status, ==, 0);
	g_assert_cmpint(try_connect(parent), ==, -1);
	close(hold[0]);
	close(hold[1]);
	close(ready[0]);
	close(ready[1]);
}

/* The descriptor of the library's socket. */
static int listening_descriptor(void)
{
	struct sockaddr_un wanted, found;
	const socklen_t size = control_address(&wanted, getpid());

	for (int fd = 0; fd < 1024; fd++) {
		socklen_t length = sizeof(found);

		if (!getsockname(fd, (struct sockaddr *)&found, &length) && length == size &&
		    !memcmp(&found, &wanted, size))
			return fd;
	}
	return -1;
}

/* A program closes all descriptors that it does not know, and the library's number becomes one of its own. */
static void test_closed(void)
{
	const struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd, own = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct fixture f;
	int status;
	pid_t pid;

	open_pausable(&f);
	fd = listening_descriptor();
	g_assert_cmpint(fd, >=, 0);
	/* The kernel finds a name. */
	g_assert_cmpint(bind(own, (const struct sockaddr *)&address, sizeof(sa_family_t)), ==, 0);
	g_assert_cmpint(listen(own, 1), ==, 0);
	g_assert_cmpint(dup3(own, fd, O_CLOEXEC), ==, fd);

	/* One caller may be waited for already; for the next there is another socket, in a moment. */
	g_assert_cmpint(ask(CONTROL_STATUS, ""), ==, 0);
	g_assert_cmpint(ask(CONTROL_STATUS, ""), ==, 0);

	/* Nor does a child of a fork close what is the program's. */
	pid = fork();
	if (!pid)
		_exit(fcntl(fd, F_GETFD) < 0 || try_connect(getpid()) >= 0);
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	g_assert_cmpint(status, ==, 0);
	close(fd);
	close(own);
	fixture_close(&f);
}

/* Without the variable there is no socket; with a bad one, or a name that another has, no pool. */
static void test_variable(void)
{
	const struct vpmm_opts opts = { .size = sizeof(opts), .backend = "host", .va_size = (size_t)1 << 30 };
	struct sockaddr_un address;
	struct vpmm_pool *pool;
	socklen_t size;
	int status, fd;
	pid_t pid;

	pid = fork();
	if (!pid) {
		g_unsetenv("VPMM_PAUSABLE");
		if (vpmm_pool_create(&pool, &opts) || try_connect(getpid()) >= 0)
			_exit(1);
		g_setenv("VPMM_PAUSABLE", "yes", TRUE);
		if (vpmm_pool_create(&pool, &opts) != -EINVAL || !strstr(vpmm_last_error(), "VPMM_PAUSABLE"))
			_exit(2);
		g_setenv("VPMM_PAUSABLE", "1", TRUE);
		fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
		size = control_address(&address, getpid());
		if (bind(fd, (const struct sockaddr *)&address, size) ||
		    vpmm_pool_create(&pool, &opts) != -EADDRINUSE || !strstr(vpmm_last_error(), "another process"))
			_exit(3);
		close(fd);
		_exit(vpmm_pool_create(&pool, &opts) || try_connect(getpid()) < 0 ? 4 : 0);
	}
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	g_assert_cmpint(status, ==, 0);
}

int main(int argc, char **argv)
{
	int status;

	g_test_init(&argc, &argv, NULL);
	g_setenv("VPMM_PAUSABLE", "1", TRUE);
	rows = g_array_new(FALSE, FALSE, sizeof(struct control_row));
	/* The children of these two use the library from the start. */
	g_test_add_func("/control/variable", test_variable);
	g_test_add_func("/control/forked", test_forked);
	g_test_add_func("/control/round", test_round);
	g_test_add_func("/control/rows", test_rows);
	g_test_add_func("/control/hostile", test_hostile);
	g_test_add_func("/control/other-user", test_other_user);
	g_test_add_func("/control/silent-user", test_silent_user);
	g_test_add_func("/control/closed", test_closed);
	g_test_add_func("/control/guard", test_guard);
	g_test_add_func("/control/pools", test_pools);
	g_test_add_func("/control/pools-that-end", test_pools_that_end);
	status = g_test_run();
	g_array_free(rows, TRUE);
	return status;
}
