// SPDX-License-Identifier: LGPL-2.1-or-later
/* The exported call that lets other devices access a pool's memory. */
#include <errno.h>

#include "api/api.h"
#include "calls/arena.h"
#include "core/peer.h"
#include "util/error.h"

/* Who the peers are to be, and who they were. */
struct change {
	const int *devices;
	size_t count;
	uint64_t before;
	unsigned int changed;
};

/* An arena between two states has mappings that no list has. */
static int change_each(struct vpmm_pool *pool, void *data)
{
	struct change *it = data;
	int err;

	if (arena_is_changing(pool))
		return arena_judge(pool);
	it->before = pool->arena ? it->before : pool->core.settings.peers;
	err = peer_set(&pool->core, it->devices, it->count);
	it->changed += !err;
	return err;
}

static int undo_each(struct vpmm_pool *pool, void *data)
{
	struct change *it = data;

	return pool->core.settings.peers == it->before ? 0 : peer_change(&pool->core, it->before);
}

int vpmm_pool_set_peers(struct vpmm_pool *pool, const int *devices, size_t count)
{
	struct change it = { .devices = devices, .count = count };
	struct error_kept kept;
	int err;

	err = api_resolve_for(&pool, "vpmm_pool_set_peers");
	if (err)
		return err;
	err = api_each(pool, "vpmm_pool_set_peers", change_each, &it);
	if (err && it.changed) {
		error_keep(&kept);
		api_each(pool, "vpmm_pool_set_peers", undo_each, &it);
		error_restore(&kept);
		errno = -err;
	}
	return err;
}
