// SPDX-License-Identifier: LGPL-2.1-or-later
/* Blocks that leave for other processes, and blocks that come from there. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "calls/export.h"
#include "calls/free.h"
#include "calls/message.h"
#include "calls/pool.h"
#include "calls/serve.h"
#include "core/shareable.h"
#include "core/small.h"
#include "pending/deferred-free.h"
#include "policy/policy.h"
#include "util/error.h"

static int find_exported(struct vpmm_pool *pool, uint64_t addr, const struct small **small)
{
	if (!pool_knows(pool, addr))
		return error_set(-EINVAL, "no allocation of this pool starts there");
	*small = small_find(&pool->core, addr);
	if (!*small || !(*small)->shareable)
		return error_set(-EINVAL, "it was not allocated with VPMM_SHAREABLE");
	if ((*small)->shareable->imported)
		return error_set(-EINVAL, "it came from another process, and only that can send it");
	return 0;
}

int export_block(struct vpmm_pool *pool, uint64_t addr, struct message *message, int *fd)
{
	struct backend *be = pool->core.backend;
	struct backend_export export;
	const struct small *small;
	struct backend_info info;
	int err;

	lock_assert_held(&pool->core.lock);
	err = find_exported(pool, addr, &small);
	if (!err)
		err = be->ops->info(be, &info);
	if (!err)
		err = be->ops->export(be, small->shareable->handle, &export);
	if (err)
		return err;
	*message = (struct message){
		.version = MESSAGE_VERSION,
		.length = sizeof(*message),
		.type = export.type,
		.handles = 1,
		.bytes = small->shareable->bytes,
		.size = small->size,
		.granularity = pool->core.granularity,
	};
	memcpy(message->magic, MESSAGE_MAGIC, sizeof(message->magic));
	g_strlcpy(message->backend, info.name, sizeof(message->backend));
	memcpy(message->uuid, info.uuid, sizeof(message->uuid));
	if (export.type == BACKEND_HANDLES_FABRIC)
		memcpy(message->fabric, export.fabric, sizeof(message->fabric));
	*fd = export.type == BACKEND_HANDLES_FD ? export.fd : -1;
	return 0;
}

static int check_exporter(const struct vpmm_pool *pool, const struct message *message)
{
	struct backend_info info;
	int err;

	err = pool->core.backend->ops->info(pool->core.backend, &info);
	if (err)
		return err;
	if (strncmp(message->backend, info.name, sizeof(message->backend)))
		return error_set(-EXDEV, "the memory is of another backend than the pool, whose backend is %s",
				 info.name);
	if (memcmp(message->uuid, info.uuid, sizeof(info.uuid)))
		return error_set(-EXDEV, "the memory is of another device than the pool, whose device is %d",
				 info.device);
	if (message->bytes % pool->core.granularity)
		return error_set(-EPROTO, "%" PRIu64 " bytes of memory are no multiple of the granularity of %zu",
				 message->bytes, pool->core.granularity);
	return 0;
}

int import_block(struct vpmm_pool *pool, const struct message *message, int fd, uint64_t *addr)
{
	struct backend_export export = { .type = message->type, .fd = fd };
	struct request request = { .size = message->bytes, .requested = message->size, .handle = STREAM_NULL,
				   .apart = true, .import = &export };
	int err;

	lock_assert_held(&pool->core.lock);
	hold_poll(&pool->pending, STREAM_NULL, true);
	err = check_exporter(pool, message);
	if (err)
		return err;
	memcpy(export.fabric, message->fabric, sizeof(export.fabric));
	request.stream = stream_get_idle(&pool->core.streams);
	err = serve_request(pool, &policy_shareable, &request, addr);
	/* It is no argument of the caller's that is wrong. */
	if (err == -EINVAL)
		err = error_add(-EPROTO, "what came is not %" PRIu64 " bytes of memory", message->bytes);
	if (!err)
		pool->core.counts.mallocs++;
	return err;
}
