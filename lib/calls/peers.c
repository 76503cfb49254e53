// SPDX-License-Identifier: LGPL-2.1-or-later
/* Which other devices access a pool's memory. */
#include <errno.h>

#include "calls/peers.h"
#include "calls/pool.h"
#include "core/peer.h"
#include "util/error.h"

static int check_device(struct vpmm_pool *pool, int device)
{
	struct backend *be = pool->core.backend;
	int err;

	if (device < 0)
		return error_set(-EINVAL, "device %d: expected an ordinal from 0", device);
	if (device == pool->core.device)
		return error_set(-EINVAL, "device %d is the pool's own", device);
	err = be->ops->peer_check(be, device);
	if (!err && device >= BACKEND_PEERS_MOST)
		err = error_set(-ENOTSUP, "device %d: only the first %d devices can be peers", device,
				BACKEND_PEERS_MOST);
	return err;
}

int peers_set(struct vpmm_pool *pool, const int *devices, size_t count)
{
	uint64_t peers = 0;
	int err;

	lock_assert_held(&pool->core.lock);
	if (count && !devices)
		return error_set(-EINVAL, "devices is NULL, and count is %zu", count);
	for (size_t i = 0; i < count; i++) {
		err = check_device(pool, devices[i]);
		if (err)
			return err;
		if (peers >> devices[i] & 1)
			return error_set(-EINVAL, "device %d is there twice", devices[i]);
		peers |= UINT64_C(1) << devices[i];
	}
	return peer_change(&pool->core, peers);
}
