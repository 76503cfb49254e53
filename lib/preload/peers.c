// SPDX-License-Identifier: LGPL-2.1-or-later
/* cuCtxEnablePeerAccess() does not cover mapped memory, so the pool of the device has to let the peer in. */
#include <errno.h>
#include <pthread.h>

#include "preload/driver.h"
#include "preload/library.h"
#include "preload/peers.h"
#include "preload/primary.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t peers[DEVICES_KNOWN][PEERS_BY];

static uint64_t all_of(int device)
{
	return peers[device][PEERS_BY_CONTEXT] | peers[device][PEERS_BY_POOL];
}

/* What VPMM_PEERS has let in stays in. */
static int tell_pool(uint64_t before, uint64_t after)
{
	struct vpmm_info info = { .size = sizeof(info) };
	int devices[DEVICES_KNOWN], i, err;
	size_t count = 0;
	uint64_t mask;

	err = LIBRARY(vpmm_pool_info, NULL, &info);
	if (err)
		return err;
	mask = (info.peers & ~before) | after;
	if (mask == info.peers)
		return 0;
	for (i = 0; i < DEVICES_KNOWN; i++)
		if (mask >> i & 1)
			devices[count++] = i;
	return LIBRARY(vpmm_pool_set_peers, NULL, devices, count);
}

drv_result peers_change(int device, enum peers_by by, uint64_t allow, uint64_t deny)
{
	uint64_t before, was;
	int err;

	if (primary_push(device))
		return DRV_SUCCESS;
	pthread_mutex_lock(&lock);
	before = all_of(device);
	was = peers[device][by];
	peers[device][by] = ((was & ~deny) | allow) & ~(UINT64_C(1) << device);
	err = tell_pool(before, all_of(device));
	if (err)
		peers[device][by] = was;
	pthread_mutex_unlock(&lock);
	primary_pop();
	if (!err)
		return DRV_SUCCESS;
	return err == -ENOMEM ? DRV_ERROR_OUT_OF_MEMORY : DRV_ERROR_PEER_ACCESS_UNSUPPORTED;
}

void peers_forget(int device)
{
	int i, by;

	pthread_mutex_lock(&lock);
	for (by = 0; by < PEERS_BY; by++) {
		peers[device][by] = 0;
		for (i = 0; i < DEVICES_KNOWN; i++)
			peers[i][by] &= ~(UINT64_C(1) << device);
	}
	pthread_mutex_unlock(&lock);
}
