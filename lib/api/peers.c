// SPDX-License-Identifier: LGPL-2.1-or-later
/* The exported call that lets other devices access a pool's memory. */
#include "api/api.h"
#include "calls/peers.h"

int vpmm_pool_set_peers(struct vpmm_pool *pool, const int *devices, size_t count)
{
	int err;

	err = api_begin(&pool, "vpmm_pool_set_peers");
	if (err)
		return err;
	return api_end(pool, "vpmm_pool_set_peers", peers_set(pool, devices, count));
}
