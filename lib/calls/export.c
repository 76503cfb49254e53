// SPDX-License-Identifier: LGPL-2.1-or-later
/* Blocks that leave for other processes, and blocks that come from there. */
#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "calls/export.h"
#include "calls/free.h"
#include "calls/pool.h"
#include "calls/query.h"
#include "calls/request.h"
#include "core/shareable.h"
#include "core/small.h"
#include "pending/deferred-free.h"
#include "policy/policy.h"
#include "util/error.h"

/* The handles of one block, as they come. */
struct handles {
	GArray *parts;			/* of struct backend_export */
	GArray *sizes;			/* of uint64_t */
	uint64_t bytes;
};

static void add_part(struct handles *handles, const struct message *message, int fd)
{
	struct backend_export part = { .type = message->type, .fd = fd };

	if (message->type == BACKEND_HANDLES_FABRIC)
		memcpy(part.fabric, message->fabric, sizeof(part.fabric));
	g_array_append_val(handles->parts, part);
	g_array_append_val(handles->sizes, message->bytes);
	handles->bytes += message->bytes;
}

static int receive_part(int socket, const struct message *of, const struct message_wait *rest, struct handles *handles)
{
	struct message message;
	int fd;
	int err = message_receive_part(socket, rest, &message, &fd);

	if (err)
		return error_add(err, "handle %u of %" PRIu32, handles->parts->len + 1, of->handles);
	add_part(handles, &message, fd);
	if (message.type != of->type || message.granularity != of->granularity || message.bytes > of->bytes ||
	    handles->bytes > of->bytes)
		return error_set(-EPROTO, "the handles of a block are not of the %" PRIu64 " bytes that it is said to "
				 "be in", of->bytes);
	return 0;
}

/* The messages are read and dropped. Their descriptors need no room. */
static int drop_parts(int socket, const struct message_wait *rest, uint32_t count)
{
	struct message message;
	int fd, err = 0;

	while (count-- && (!err || err == -EMFILE)) {
		err = message_receive_part(socket, rest, &message, &fd);
		if (!err && fd >= 0)
			close(fd);
	}
	return err == -EMFILE ? 0 : err;
}

/* Messages that are left would be taken for the next block. Return: -EMFILE, or why they could not be read. */
static int drop_rest(int socket, const struct message_wait *rest, uint32_t count)
{
	struct error_kept kept;
	int err;

	error_keep(&kept);
	err = drop_parts(socket, rest, count);
	if (err)
		return err;
	error_restore(&kept);
	return -EMFILE;
}

static int receive_parts(int socket, const struct message *of, struct handles *handles)
{
	const struct message_wait rest = message_begin_rest(socket);
	int err = 0;

	while (!err && handles->parts->len < of->handles)
		err = receive_part(socket, of, &rest, handles);
	if (err == -EMFILE)
		err = drop_rest(socket, &rest, of->handles - handles->parts->len - 1);
	if (!err && handles->bytes != of->bytes)
		err = error_set(-EPROTO, "%" PRIu64 " bytes came of the %" PRIu64 " bytes that a block is said to be in",
				handles->bytes, of->bytes);
	return err;
}

void parcel_clear(struct parcel *parcel)
{
	for (unsigned int i = 0; i < parcel->from.count; i++) {
		if (parcel->from.parts[i].fd >= 0)
			close(parcel->from.parts[i].fd);
	}
	g_free((void *)parcel->from.parts);
	g_free((void *)parcel->from.sizes);
}

int parcel_receive(int socket, struct parcel *parcel)
{
	struct handles handles;
	struct message message;
	int fd;
	int err = message_receive(socket, &message, &fd);

	if (err)
		return err;
	handles = (struct handles){ .parts = g_array_new(FALSE, FALSE, sizeof(struct backend_export)),
				    .sizes = g_array_new(FALSE, FALSE, sizeof(uint64_t)) };
	if (message.version == MESSAGE_LENT)
		err = receive_parts(socket, &message, &handles);
	else
		add_part(&handles, &message, fd);
	*parcel = (struct parcel){
		.message = message,
		.from.count = handles.parts->len,
		.from.offset = message.version == MESSAGE_LENT ? message.offset : 0,
	};
	parcel->from.parts = (struct backend_export *)(void *)g_array_free(handles.parts, FALSE);
	parcel->from.sizes = (uint64_t *)(void *)g_array_free(handles.sizes, FALSE);
	if (err)
		parcel_clear(parcel);
	return err;
}

static int find_exported(struct vpmm_pool *pool, uint64_t addr, const struct small **small)
{
	*small = small_find(&pool->core, addr);
	if (!pool_knows(pool, addr))
		return lookup_refuse(pool, addr);
	if (!*small || !(*small)->shareable)
		return error_set(-EINVAL, "it was not allocated with VPMM_SHAREABLE");
	if ((*small)->shareable->imported)
		return error_set(-EINVAL, "it came from another process, and only that can send it");
	return 0;
}

static int begin_message(const struct vpmm_pool *pool, struct message *message)
{
	struct backend *be = pool->core.backend;
	struct backend_info info;
	int err = be->ops->info(be, &info);

	if (err)
		return err;
	*message = (struct message){
		.version = MESSAGE_VERSION,
		.length = sizeof(*message),
		.handles = 1,
		.granularity = pool->core.granularity,
	};
	memcpy(message->magic, MESSAGE_MAGIC, sizeof(message->magic));
	g_strlcpy(message->backend, info.name, sizeof(message->backend));
	memcpy(message->uuid, info.uuid, sizeof(message->uuid));
	return 0;
}

static int put_handle(const struct vpmm_pool *pool, uint64_t handle, struct message *message, int *fd)
{
	struct backend *be = pool->core.backend;
	struct backend_export export;
	int err = be->ops->export(be, handle, &export);

	if (err)
		return err;
	message->type = export.type;
	if (export.type == BACKEND_HANDLES_FABRIC)
		memcpy(message->fabric, export.fabric, sizeof(message->fabric));
	*fd = export.type == BACKEND_HANDLES_FD ? export.fd : -1;
	return 0;
}

int export_block(struct vpmm_pool *pool, uint64_t addr, struct message *message, int *fd)
{
	const struct small *small;
	int err;

	lock_assert_held(&pool->core.lock);
	err = find_exported(pool, addr, &small);
	if (!err)
		err = begin_message(pool, message);
	if (!err)
		err = put_handle(pool, small->shareable->handles[0], message, fd);
	if (err)
		return err;
	message->bytes = small->shareable->bytes;
	message->size = small->size;
	return 0;
}

/* The bytes of a block that extents are under. */
static int find_lent(struct vpmm_pool *pool, uint64_t addr, uint64_t *bytes)
{
	struct vpmm_allocation block = { .size = sizeof(block) };

	*bytes = 0;	/* on errors too: gcc 13 and 16 do not know that lookup_refuse() is one */
	if (pool->core.settings.export_as == VPMM_EXPORT_NONE)
		return error_set(-ENOTSUP, "the pool's memory cannot be exported: that is for pools with VPMM_EXPORT "
				 "(export_as in struct vpmm_opts)");
	if (lookup_pool(pool, addr, &block) || (uintptr_t)block.base != addr)
		return lookup_refuse(pool, addr);
	if (pool->arena)
		return error_set(-ENOTSUP, "its tag is pausable, and its memory may go");
	if (small_find(&pool->core, addr))
		return error_set(-ENOTSUP, "it has a handle of its own (VPMM_SHAREABLE, which vpmm_send() is for, or "
				 "vpmm_receive()), or the driver's allocator serves it");
	*bytes = block.bytes;
	return 0;
}

/* The extents under a block. */
struct under {
	uint64_t start;
	uint64_t bytes;
	uint64_t newest;		/* number of the mapping that came last */
	uint32_t count;
};

static struct under find_under(struct core *core, uint64_t addr, uint64_t bytes)
{
	const struct place *place = extent_place_mapped(&core->extents, addr);
	struct under under = { .start = place->addr };
	uint64_t at;

	for (at = place->addr; at < addr + bytes; at += place->extent->size) {
		place = extent_place_mapped(&core->extents, at);
		under.bytes += place->extent->size;
		under.newest = MAX(under.newest, place->number);
		under.count++;
	}
	return under;
}

int lend_key(struct vpmm_pool *pool, uint64_t addr, uint64_t *key, size_t *offset)
{
	struct under under;
	uint64_t bytes;
	int err;

	lock_assert_held(&pool->core.lock);
	err = find_lent(pool, addr, &bytes);
	if (err)
		return err;
	under = find_under(&pool->core, addr, bytes);
	/* Other memory in these addresses, or in a part of them, would have been mapped later. */
	key[0] = under.start;
	key[1] = under.bytes;
	key[2] = under.newest;
	*offset = addr - under.start;
	return 0;
}

static int begin_lent(struct vpmm_pool *pool, uint64_t addr, struct message *message, uint64_t *bytes)
{
	int err = find_lent(pool, addr, bytes);

	return err ? err : begin_message(pool, message);
}

int lend_begin(struct vpmm_pool *pool, uint64_t addr, struct message *message)
{
	struct core *core = &pool->core;
	struct under under;
	uint64_t bytes;
	int err;

	lock_assert_held(&core->lock);
	err = begin_lent(pool, addr, message, &bytes);
	if (err)
		return err;
	under = find_under(core, addr, bytes);
	message->version = MESSAGE_LENT;
	message->type = core->settings.export_as == VPMM_EXPORT_FABRIC ? BACKEND_HANDLES_FABRIC : BACKEND_HANDLES_FD;
	message->offset = addr - under.start;
	message->size = bytes;
	message->bytes = under.bytes;
	message->handles = under.count;
	return 0;
}

int lend_part(struct vpmm_pool *pool, uint64_t addr, uint64_t done, struct message *message, int *fd)
{
	struct core *core = &pool->core;
	struct place *place;
	uint64_t bytes;
	int err;

	lock_assert_held(&core->lock);
	err = begin_lent(pool, addr, message, &bytes);
	if (err)
		return err;
	place = extent_place_mapped(&core->extents, addr);
	if (place->addr + done >= addr + bytes)
		return error_set(-EINVAL, "its size has changed meanwhile");
	place = extent_place_mapped(&core->extents, place->addr + done);
	message->version = MESSAGE_PART;
	message->bytes = message->size = place->extent->size;
	return put_handle(pool, place->extent->handle, message, fd);
}

static int check_exporter(const struct vpmm_pool *pool, const struct message *message, bool *same_device)
{
	struct backend_info info;
	int err;

	err = pool->core.backend->ops->info(pool->core.backend, &info);
	if (err)
		return err;
	if (strncmp(message->backend, info.name, sizeof(message->backend)))
		return error_set(-EXDEV, "the memory is of another backend than the pool, whose backend is %s",
				 info.name);
	*same_device = !memcmp(message->uuid, info.uuid, sizeof(info.uuid));
	if (message->bytes % pool->core.granularity)
		return error_set(-EPROTO, "%" PRIu64 " bytes of memory are no multiple of the granularity of %zu",
				 message->bytes, pool->core.granularity);
	return 0;
}

static int check_handles(const struct vpmm_pool *pool, const struct shareable_import *from)
{
	for (unsigned int i = 0; i < from->count; i++) {
		if (from->sizes[i] % pool->core.granularity)
			return error_set(-EPROTO, "a handle of %" PRIu64 " bytes is no multiple of the granularity of "
					 "%zu", from->sizes[i], pool->core.granularity);
	}
	return 0;
}

int import_block(struct vpmm_pool *pool, const struct parcel *parcel, uint64_t *addr)
{
	const struct message *message = &parcel->message;
	struct request request = { .size = message->bytes, .requested = message->size, .handle = STREAM_NULL,
				   .apart = true, .import = &parcel->from };
	bool same_device = true;
	int err;

	lock_assert_held(&pool->core.lock);
	hold_poll(&pool->pending, STREAM_NULL, true);
	err = check_exporter(pool, message, &same_device) ?: check_handles(pool, &parcel->from);
	if (err)
		return err;
	request.stream = stream_get_idle(&pool->core.streams);
	err = request_memory(pool, &policy_shareable, &request, addr);
	/* Only the driver knows whether a device can access the memory of another. */
	if (!same_device && (err == -EINVAL || err == -ENODEV || err == -ENOTSUP))
		err = error_add(-EXDEV, "the memory is of another device than the pool");
	/* It is no argument of the caller's that is wrong. */
	if (err == -EINVAL)
		err = error_add(-EPROTO, "what came is not %" PRIu64 " bytes of memory", message->bytes);
	if (!err)
		pool->core.counts.mallocs++;
	return err;
}
