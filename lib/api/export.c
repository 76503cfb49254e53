// SPDX-License-Identifier: LGPL-2.1-or-later
/* The exported calls that hand blocks to other processes. No lock is held while they wait for a socket. */
#include <errno.h>
#include <unistd.h>

#include "api/api.h"
#include "calls/arena.h"
#include "calls/export.h"
#include "calls/note.h"
#include "calls/request.h"
#include "util/cancel.h"
#include "util/error.h"

static int begin_send(struct vpmm_pool **pool, const void *ptr, struct message *message, int *fd)
{
	int err;

	err = api_resolve_owner(pool, ptr, "vpmm_send");
	if (err)
		return err;
	api_find_arena(pool, ptr);
	err = api_begin(pool, "vpmm_send");
	if (err)
		return err;
	err = arena_judge(*pool);
	if (!err)
		err = export_block(*pool, (uintptr_t)ptr, message, fd);
	if (err)
		error_add(err, "%p", ptr);
	return api_end(*pool, "vpmm_send", err);
}

int vpmm_send(struct vpmm_pool *pool, const void *ptr, int socket)
{
	struct message message;
	int fd = -1, err, cancel;

	if (!ptr)
		return error_set(-EINVAL, "vpmm_send: ptr is NULL");
	cancel = cancel_hold();
	err = begin_send(&pool, ptr, &message, &fd);
	if (!err) {
		err = message_send(socket, &message, fd);
		if (fd >= 0)
			close(fd);
		if (err)
			err = api_fail(pool, error_add(err, "vpmm_send: %p", ptr));
	}
	cancel_release(cancel);
	return err;
}

/* Once it has begun, the other end takes whatever comes next for the rest. Nothing comes to one that is closed. */
static int cut_lent(int err)
{
	return err == -EPIPE ? err : error_add(-ETIMEDOUT, "a part was sent, and the rest cannot be");
}

/* Makes messages of vpmm_lend() under the pool's lock: that about the next extent, and, before the first, @all. */
static int make_lent(struct vpmm_pool *pool, const void *ptr, uint64_t done, struct message *all, struct message *part,
		     int *fd)
{
	uint64_t addr = (uintptr_t)ptr;
	int err;

	err = api_enter_pool(pool);
	if (err)
		return error_add(done ? cut_lent(err) : err, "vpmm_lend");
	api_lock(pool);
	err = done ? 0 : lend_begin(pool, addr, all);
	if (!err)
		err = lend_part(pool, addr, done, part, fd);
	if (err && done)
		err = cut_lent(err);
	if (err)
		error_add(err, "%p", ptr);
	return api_end(pool, "vpmm_lend", err);
}

static int send_lent(int socket, const struct message *all, const struct message *part, int fd, bool first)
{
	int err;

	err = first ? message_send(socket, all, -1) : 0;
	if (err)
		return err;
	err = message_send_part(socket, part, fd);
	return err ? cut_lent(err) : 0;
}

/* The first handle is there before anything is sent, as a handle is what most often cannot be had. */
static int lend(struct vpmm_pool *pool, const void *ptr, int socket)
{
	struct message all = { .bytes = 0 }, part = { .bytes = 0 };
	uint64_t done = 0;
	int fd = -1, err;

	do {
		err = make_lent(pool, ptr, done, &all, &part, &fd);
		if (err)
			return err;
		err = send_lent(socket, &all, &part, fd, !done);
		if (fd >= 0)
			close(fd);
		done += part.bytes;
	} while (!err && done < all.bytes);
	return err ? api_fail(pool, error_add(err, "vpmm_lend: %p", ptr)) : 0;
}

int vpmm_lend(struct vpmm_pool *pool, const void *ptr, int socket)
{
	int err, cancel;

	if (!ptr)
		return error_set(-EINVAL, "vpmm_lend: ptr is NULL");
	cancel = cancel_hold();
	err = api_resolve_owner(&pool, ptr, "vpmm_lend");
	if (!err) {
		api_find_arena(&pool, ptr);
		err = lend(pool, ptr, socket);
	}
	cancel_release(cancel);
	return err;
}

static int find_key(struct vpmm_pool *pool, const void *ptr, uint64_t *key, size_t *offset)
{
	int err;

	api_find_arena(&pool, ptr);
	err = api_begin(&pool, "vpmm_lend_key");
	if (err)
		return err;
	err = lend_key(pool, (uintptr_t)ptr, key, offset);
	if (err)
		error_add(err, "%p", ptr);
	return api_end(pool, "vpmm_lend_key", err);
}

int vpmm_lend_key(struct vpmm_pool *pool, const void *ptr, uint64_t *key, size_t *offset)
{
	int err;

	if (!ptr || !key || !offset)
		return error_set(-EINVAL, "vpmm_lend_key: %s is NULL", !ptr ? "ptr" : !key ? "key" : "offset");
	err = api_resolve_owner(&pool, ptr, "vpmm_lend_key");
	return err ? err : find_key(pool, ptr, key, offset);
}

static int try_map(struct vpmm_pool *pool, const struct parcel *parcel, uint64_t *addr)
{
	const struct message *message = &parcel->message;
	int err;

	err = import_block(pool, parcel, addr);
	if (!err)
		note(pool, STREAM_NULL, .op = RECORD_MALLOC, .addr = *addr, .bytes = message->size,
		     .flags = RECORD_IDLE | RECORD_UNTAGGED);
	else if (err == -ENOMEM)
		note(pool, STREAM_NULL, .op = RECORD_EXHAUSTED, .bytes = message->size);
	if (err == -ENOMEM)
		explain_exhausted(pool, message->bytes, STREAM_NULL, false);
	return err;
}

/* The message is lost if it fails, so the program is asked for what the pool cannot reclaim. */
static int map_received(struct vpmm_pool *pool, const struct parcel *parcel, uint64_t *addr)
{
	uint64_t bytes = parcel->message.bytes;
	uint64_t until = 0;
	int err;

	do {
		err = api_begin(&pool, "vpmm_receive");
		if (err)
			return err;
		err = api_part(pool, "vpmm_receive", try_map(pool, parcel, addr));
	} while (err == -ENOMEM && api_ask_for_memory(pool, bytes, &until));
	if (err == -ENOMEM)
		api_tell_exhausted(pool, bytes);
	return err ? api_fail(pool, err) : 0;
}

/* -EAGAIN: there was nothing. */
static int receive(struct vpmm_pool *pool, int socket, uint64_t *addr, size_t *size)
{
	struct parcel parcel;
	int err;

	err = parcel_receive(socket, &parcel);
	if (err == -EAGAIN)
		return err;
	if (err)
		return api_fail(pool, error_add(err, "vpmm_receive"));
	err = map_received(pool, &parcel, addr);
	if (!err)
		*size = parcel.message.size;
	parcel_clear(&parcel);
	return err;
}

/* What is wrong with the pool is to be known before a block is taken from the socket, which would be lost. */
static int try_pool(struct vpmm_pool **pool)
{
	int err;

	err = api_begin(pool, "vpmm_receive");
	if (err)
		return err;
	return api_end(*pool, "vpmm_receive", 0);
}

/* Another thread may take the block that woke this one. It may also have ended the default pool by a reset. */
static int await_and_receive(struct vpmm_pool *given, struct vpmm_pool *pool, int socket, uint64_t *addr, size_t *size)
{
	struct message_wait wait;
	int err, cancel;

	err = message_begin(socket, &wait);
	if (err)
		goto err_log;
	do {
		err = message_await(socket, &wait);
		if (err)
			goto err_log;
		pool = given;
		err = try_pool(&pool);
		if (err)
			return err;
		cancel = cancel_hold();
		err = receive(pool, socket, addr, size);
		cancel_release(cancel);
	} while (err == -EAGAIN);
	return err;

err_log:
	return api_fail(pool, error_add(err, "vpmm_receive"));
}

int vpmm_receive(struct vpmm_pool *pool, void **ptr, size_t *size, int socket)
{
	struct vpmm_pool *given = pool;
	uint64_t addr = 0;
	size_t bytes = 0;
	int err;

	if (!ptr)
		return error_set(-EINVAL, "vpmm_receive: ptr is NULL");
	err = try_pool(&pool);
	if (!err)
		err = await_and_receive(given, pool, socket, &addr, &bytes);
	if (err)
		return err;
	*ptr = (void *)(uintptr_t)addr;
	if (size)
		*size = bytes;
	return 0;
}
