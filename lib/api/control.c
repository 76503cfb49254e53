// SPDX-License-Identifier: LGPL-2.1-or-later
#define _GNU_SOURCE 1
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/api.h"
#include "calls/arena.h"
#include "util/control.h"
#include "util/descriptor.h"
#include "util/env.h"
#include "util/error.h"
#include "util/held.h"
#include "util/lock.h"
#include "util/tag.h"

/* One that may ask, connects and says nothing keeps others waiting for so long. */
#define PATIENCE_S 2

/* Callers that wait for the one before them. */
#define BACKLOG 16

static struct lock control_lock = LOCK_INIT(LOCK_CONTROL);

/* A pool that has joined, and a number that tells it from others of the process, from 1. */
struct member {
	struct vpmm_pool *pool;
	uint64_t number;
};

/*
 * All under control_lock, but the thread reads @socket without, as nobody else replaces it. Once there are a socket and
 * a thread they stay. The lock is not held while the thread works on @busy, or calls @guard, as either may call the
 * program's functions.
 */
static struct {
	GArray *members;
	uint64_t last;
	struct vpmm_pool *busy;
	bool guarding;
	pthread_cond_t idle;
	vpmm_guard_fn guard;
	void *data;
	struct descriptor socket;
	pid_t pid;
	pthread_t thread;
} control = { .socket.fd = -1, .idle = PTHREAD_COND_INITIALIZER };

/* Of the thread alone: the guard has said that the program rests. */
static bool resting;

static bool is_control_thread(void)
{
	return control.pid == getpid() && pthread_equal(control.thread, pthread_self());
}

/* The next pool behind a number, which stays until unpin(); NULL: none. */
static struct vpmm_pool *pin_next(uint64_t *number)
{
	struct vpmm_pool *pool = NULL;

	lock_acquire(&control_lock);
	for (guint i = 0; i < control.members->len && !pool; i++) {
		const struct member *member = &g_array_index(control.members, struct member, i);

		if (member->number > *number) {
			*number = member->number;
			pool = member->pool;
		}
	}
	control.busy = pool;
	lock_release(&control_lock);
	return pool;
}

static void unpin(void)
{
	lock_acquire(&control_lock);
	control.busy = NULL;
	pthread_cond_broadcast(&control.idle);
	lock_release(&control_lock);
}

#define for_each_member(pool, number) \
	for (struct vpmm_pool *pool = pin_next(&(number)); pool; unpin(), pool = pin_next(&(number)))

static int call_guard(int rest)
{
	vpmm_guard_fn guard;
	void *data;
	int err;

	lock_acquire(&control_lock);
	guard = control.guard;
	data = control.data;
	control.guarding = guard;
	lock_release(&control_lock);
	if (!guard)
		return 0;
	err = guard(data, rest);
	lock_acquire(&control_lock);
	control.guarding = false;
	pthread_cond_broadcast(&control.idle);
	lock_release(&control_lock);
	return err ? error_set(err < 0 ? err : -EBUSY, "the program does not come to rest: %s",
			       g_strerror(err < 0 ? -err : EBUSY)) : 0;
}

/* From outside: what the program pauses itself it can resume only if it does not rest. */
static bool is_any_paused(void)
{
	uint64_t number = 0;
	bool paused = false;

	for_each_member(pool, number) {
		for_each_arena(arena, pool_tags(pool)) {
			arena->arena->outside &= !arena_is_awake(arena);
			paused |= arena->arena->outside;
		}
	}
	return paused;
}

static void end_rest(void)
{
	struct error_kept kept;

	if (!resting || is_any_paused())
		return;
	resting = false;
	error_keep(&kept);
	call_guard(0);
	error_restore(&kept);
}

static int do_pool(const struct control_request *request, vpmm_tag tag, struct vpmm_pool *pool)
{
	static const enum pause_what what[] = {
		[CONTROL_PAUSE] = PAUSE_PAUSE, [CONTROL_RESUME] = PAUSE_RESUME, [CONTROL_PREPARE] = PAUSE_PREPARE,
	};

	return pause_tags(pool, &(struct pause_request){ what[request->op], tag, request->flags, VPMM_STREAM_ANY });
}

/* Records which arenas were paused before a call that succeeded. An arena that the call makes was awake. */
struct before {
	uint64_t number;
	bool resting[TAGS_MOST + 1];
};

static void note_before(struct vpmm_pool *pool, struct before *before)
{
	for_each_arena(arena, pool_tags(pool))
		before->resting[arena->arena->tag] = !arena_is_awake(arena);
}

static void note_outside(struct vpmm_pool *pool, const struct before *before)
{
	for_each_arena(arena, pool_tags(pool)) {
		if (!before->resting[arena->arena->tag] && !arena_is_awake(arena))
			arena->arena->outside = true;
	}
}

static void undo_pool(struct vpmm_pool *pool, const struct before *before)
{
	for_each_arena(arena, pool_tags(pool)) {
		vpmm_tag tag = arena->arena->tag;

		if (before->resting[tag] != arena_is_awake(arena))
			continue;
		pause_tags(pool, &(struct pause_request){ before->resting[tag] ? PAUSE_PAUSE : PAUSE_RESUME, tag, 0,
							  VPMM_STREAM_ANY });
	}
}

static void undo_all(const GArray *done)
{
	uint64_t number = 0;

	for_each_member(pool, number) {
		for (guint i = 0; i < done->len; i++) {
			const struct before *before = &g_array_index(done, struct before, i);

			if (before->number == number)
				undo_pool(pool, before);
		}
	}
}

static bool has_tag(struct vpmm_pool *pool, vpmm_tag tag)
{
	struct tags *tags = pool_tags(pool);

	return tags && (tag == VPMM_TAG_ALL || arena_of(tags, tag));
}

/* All pools of the process, or none. */
static int do_pools(const struct control_request *request, vpmm_tag tag)
{
	GArray *done = g_array_new(FALSE, FALSE, sizeof(struct before));
	struct error_kept kept;
	uint64_t number = 0;
	int err = 0;

	for_each_member(pool, number) {
		struct before before = { .number = number };

		if (err || !has_tag(pool, tag))
			continue;
		note_before(pool, &before);
		err = do_pool(request, tag, pool);
		if (err)
			continue;
		note_outside(pool, &before);
		g_array_append_val(done, before);
	}
	if (err) {
		error_keep(&kept);
		undo_all(done);
		error_restore(&kept);
	}
	g_array_free(done, TRUE);
	return err;
}

static int find_tag(const char *name, vpmm_tag *tag)
{
	*tag = VPMM_TAG_ALL;
	if (!*name)
		return 0;
	for (*tag = 1; *tag <= tag_count(); ++*tag) {
		if (strcmp(tag_name(*tag), name))
			continue;
		return tag_pausable(*tag) ? 0 :
		       error_set(-EINVAL, "tag \"%s\" was opened without VPMM_TAG_PAUSABLE", name);
	}
	return error_set(-EINVAL, "the process has no tag \"%s\"", name);
}

static int carry_out_request(const struct control_request *request, vpmm_tag tag)
{
	int err;

	if (request->op == CONTROL_STATUS)
		return 0;
	if (request->op == CONTROL_PAUSE && !resting) {
		err = call_guard((int)CLAMP(request->wait_ms, 1, G_MAXINT));
		if (err)
			return err;
		resting = true;
	}
	err = do_pools(request, tag);
	end_rest();
	return err;
}

static void add_row(struct vpmm_pool *pool, vpmm_tag tag, bool awake, GArray *rows)
{
	struct control_row row = { .device = pool->core.device, .awake = awake };
	struct vpmm_tag_stats stats = { 0 };

	arena_stats(pool_tags(pool), tag, &stats);
	g_strlcpy(row.tag, tag_name(tag), sizeof(row.tag));
	g_strlcpy(row.backend, pool->core.ops->name, sizeof(row.backend));
	row.live = stats.live;
	row.mapped = stats.mapped;
	row.paused = stats.paused;
	row.saved = stats.saved;
	row.kept = stats.kept;
	g_array_append_val(rows, row);
}

static void add_rows(vpmm_tag tag, GArray *rows)
{
	uint64_t number = 0;

	for_each_member(pool, number) {
		for_each_arena(arena, pool_tags(pool)) {
			if (tag == VPMM_TAG_ALL || tag == arena->arena->tag)
				add_row(pool, arena->arena->tag, arena_is_awake(arena), rows);
		}
	}
}

static int judge_packet(const struct control_request *request, ssize_t size)
{
	if (size != (ssize_t)sizeof(*request) || request->magic != CONTROL_MAGIC)
		return error_set(-EPROTO, "the request is none of this version of vpmm-pause");
	if (request->op >= CONTROL_OPS)
		return error_set(-EPROTO, "request %u is unknown", request->op);
	if (request->flags & ~VPMM_PAUSE_DROP)
		return error_set(-EPROTO, "flags are %#x: expected 0 or VPMM_PAUSE_DROP", request->flags);
	if (!memchr(request->tag, '\0', sizeof(request->tag)))
		return error_set(-EPROTO, "the name of the tag has no end");
	return 0;
}

static int judge_caller(int fd)
{
	struct ucred caller;
	socklen_t size = sizeof(caller);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &caller, &size))
		return error_set(-errno, "who asks is not known: %s", g_strerror(errno));
	if (caller.uid && caller.uid != geteuid())
		return error_set(-EPERM, "user %u asks: expected user %u, whose process this is", caller.uid, geteuid());
	return 0;
}

/* One that has gone meanwhile does not hear it. No pool waits for one that is slow, as none is pinned any more. */
static void send_answer(int fd, struct control_answer *answer, const GArray *rows)
{
	guint sent = 0;

	do {
		answer->count = MIN(rows->len - sent, CONTROL_ROWS);
		if (answer->count)
			memcpy(answer->rows, &g_array_index(rows, struct control_row, sent),
			       answer->count * sizeof(*answer->rows));
		sent += answer->count;
		answer->more = sent < rows->len;
	} while (send(fd, answer, sizeof(*answer), MSG_NOSIGNAL) >= 0 && answer->more);
}

/* Only of who may ask: one that says nothing keeps others waiting. */
static ssize_t receive_request(int fd, struct control_request *request)
{
	ssize_t size;

	do
		size = recv(fd, request, sizeof(*request), MSG_TRUNC);
	while (size < 0 && errno == EINTR);
	return size;
}

/* A stranger is not waited for. What it has sent already is read, as the answer would be lost with what is not. */
static void refuse_more(int fd)
{
	char c;

	shutdown(fd, SHUT_RD);
	while (recv(fd, &c, sizeof(c), MSG_DONTWAIT | MSG_TRUNC) > 0)
		;
}

static void converse(int fd, struct control_answer *answer, GArray *rows)
{
	const struct timeval patience = { .tv_sec = PATIENCE_S };
	struct control_request request = { 0 };
	vpmm_tag tag;
	int err;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	memset(answer, 0, sizeof(*answer));
	answer->magic = CONTROL_MAGIC;
	g_array_set_size(rows, 0);
	err = judge_caller(fd);
	if (err)
		refuse_more(fd);
	else
		err = judge_packet(&request, receive_request(fd, &request));
	if (!err)
		err = find_tag(request.tag, &tag);
	if (!err) {
		err = carry_out_request(&request, tag);
		add_rows(tag, rows);
	}
	answer->err = err;
	if (err)
		g_strlcpy(answer->text, error_get(), sizeof(answer->text));
	send_answer(fd, answer, rows);
}

static int open_control_socket(struct descriptor *made)
{
	struct sockaddr_un address;
	socklen_t size = control_address(&address, getpid());
	int fd, err;

	fd = descriptor_raise(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
	if (fd >= 0 && !bind(fd, (const struct sockaddr *)&address, size) && !listen(fd, BACKLOG)) {
		*made = descriptor_note(fd);
		return 0;
	}
	err = -errno;
	if (fd >= 0)
		close(fd);
	return error_set(err, "VPMM_PAUSABLE: the socket @%s: %s", address.sun_path + 1,
			 err == -EADDRINUSE ? "another process, or another copy of the library, has it" :
			 g_strerror(-err));
}

/* One that the program has closed is opened once more; who connects to what has its number means the program. */
static bool has_socket(void)
{
	struct descriptor made;

	if (descriptor_is_own(&control.socket))
		return true;
	if (open_control_socket(&made))
		return false;
	lock_acquire(&control_lock);
	control.socket = made;
	lock_release(&control_lock);
	return true;
}

static void *listen_for_ever(void *data)
{
	struct control_answer *answer = g_new(struct control_answer, 1);
	GArray *rows = g_array_new(FALSE, FALSE, sizeof(struct control_row));
	int fd;

	pthread_setname_np(pthread_self(), "vpmm-pause");
	for (;;) {
		fd = has_socket() ? descriptor_raise(accept4(control.socket.fd, NULL, NULL, SOCK_CLOEXEC)) : -1;
		if (fd < 0) {
			g_usleep(G_USEC_PER_SEC / 10);
			continue;
		}
		converse(fd, answer, rows);
		close(fd);
	}
	return data;
}

REQUIRES(control_lock)
static int start_listener(void)
{
	int err;

	err = open_control_socket(&control.socket);
	if (err)
		return err;
	err = held_thread(&control.thread, listen_for_ever, NULL);
	if (err) {
		descriptor_close(&control.socket);
		return error_set(-ENOMEM, "VPMM_PAUSABLE: no thread to listen: %s", g_strerror(err));
	}
	pthread_detach(control.thread);
	return 0;
}

/* A forked child of a process that has no pool any more has neither a socket nor a thread. */
REQUIRES(control_lock)
static int begin_control(void)
{
	if (control.socket.fd >= 0 && control.pid == getpid())
		return 0;
	control.pid = getpid();
	if (!control.members)
		control.members = g_array_new(FALSE, FALSE, sizeof(struct member));
	g_array_set_size(control.members, 0);
	return start_listener();
}

int control_join(struct vpmm_pool *pool)
{
	struct member member = { .pool = pool };
	bool wanted;
	int err;

	err = env_switch("VPMM_PAUSABLE", &wanted);
	if (err || !wanted)
		return err;
	lock_acquire(&control_lock);
	err = begin_control();
	if (!err) {
		member.number = ++control.last;
		g_array_append_val(control.members, member);
	}
	lock_release(&control_lock);
	return err;
}

void control_leave(struct vpmm_pool *pool)
{
	lock_acquire(&control_lock);
	for (guint i = 0; control.members && i < control.members->len; i++) {
		if (g_array_index(control.members, struct member, i).pool == pool) {
			g_array_remove_index(control.members, i);
			break;
		}
	}
	/* A callback of the program that destroys the pool which it was called for would wait for itself. */
	while (control.busy == pool && !is_control_thread())
		lock_wait(&control_lock, &control.idle);
	lock_release(&control_lock);
}

void control_forked(void)
{
	lock_init(&control_lock, LOCK_CONTROL);
	descriptor_close(&control.socket);
}

void control_set_guard(vpmm_guard_fn guard, void *data)
{
	lock_acquire(&control_lock);
	control.guard = guard;
	control.data = data;
	while (control.guarding && !is_control_thread())
		lock_wait(&control_lock, &control.idle);
	lock_release(&control_lock);
}
