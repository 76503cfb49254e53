// SPDX-License-Identifier: LGPL-2.1-or-later
/* cuCtxEnablePeerAccess() does not cover mapped memory, so the pool of the device has to let the peer in. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#include "preload/driver.h"
#include "preload/library.h"
#include "preload/peers.h"
#include "preload/primary.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	uint64_t by[PEERS_BY];
	uint64_t before;		/* who could access the pool before the first change */
	bool changed;
} peers[DEVICES_KNOWN];

static uint64_t all_of(int device)
{
	return peers[device].by[PEERS_BY_CONTEXT] | peers[device].by[PEERS_BY_POOL];
}

/* What VPMM_PEERS has let in stays in. */
static int tell_pool(int device, uint64_t before, uint64_t after)
{
	struct vpmm_info info = { .size = sizeof(info) };
	int devices[DEVICES_KNOWN], i, err;
	size_t count = 0;
	uint64_t mask;

	err = LIBRARY(vpmm_pool_info, NULL, &info);
	if (err)
		return err;
	if (!peers[device].changed)
		peers[device].before = info.peers;
	peers[device].changed = true;
	mask = (info.peers & ~(before & ~peers[device].before)) | after;
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
	was = peers[device].by[by];
	peers[device].by[by] = ((was & ~deny) | allow) & ~(UINT64_C(1) << device);
	err = tell_pool(device, before, all_of(device));
	if (err)
		peers[device].by[by] = was;
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
	peers[device].changed = false;
	for (by = 0; by < PEERS_BY; by++) {
		peers[device].by[by] = 0;
		for (i = 0; i < DEVICES_KNOWN; i++)
			peers[i].by[by] &= ~(UINT64_C(1) << device);
	}
	pthread_mutex_unlock(&lock);
}
