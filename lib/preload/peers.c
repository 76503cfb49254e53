// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The calls that let one device access the memory of another. What they let in does not cover mapped memory, so the pool
 * of the device has to let the peer in too.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#include "preload/driver.h"
#include "preload/library.h"
#include "preload/peers.h"
#include "preload/pools.h"
#include "preload/primary.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* By what a device was let in: each of these is taken back by itself. */
enum peers_by { PEERS_BY_CONTEXT, PEERS_BY_POOL, PEERS_BY };

static struct {
	uint64_t by[PEERS_BY];
	uint64_t before;		/* who could access the pool before the first change */
	bool changed;
} peers[DEVICES_KNOWN];

static uint64_t all_of(int device)
{
	return peers[device].by[PEERS_BY_CONTEXT] | peers[device].by[PEERS_BY_POOL];
}

/* What VPMM_PEERS has let in stays in. Where no pool can be made, as with a bad setting, the driver serves everything. */
static int tell_pool(int device, uint64_t before, uint64_t after)
{
	struct vpmm_info info = { .size = sizeof(info) };
	int devices[DEVICES_KNOWN], i, err;
	size_t count = 0;
	uint64_t mask;

	err = LIBRARY(vpmm_pool_info, NULL, &info);
	if (err)
		return err == -ENOMEM ? err : 0;
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

/* Changes who can access the memory of a device; a primary context that the library serves is current. */
static drv_result change_peers(int device, enum peers_by by, uint64_t allow, uint64_t deny)
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

/* The current context gets access to the memory of @peer, or loses it. */
static drv_result change_by_context(drv_context peer, bool allow)
{
	int device, owner;
	uint64_t bit;

	if (!library_serves(&device) || !primary_of(peer, &owner))
		return DRV_SUCCESS;
	bit = UINT64_C(1) << device;
	return change_peers(owner, PEERS_BY_CONTEXT, allow ? bit : 0, allow ? 0 : bit);
}

drv_result cuCtxEnablePeerAccess(drv_context peer, unsigned int flags)
{
	drv_result result = FORWARD(cuCtxEnablePeerAccess, peer, flags);

	if (result)
		return result;
	result = change_by_context(peer, true);
	if (result)
		FORWARD(cuCtxDisablePeerAccess, peer);
	return result;
}

drv_result cuCtxDisablePeerAccess(drv_context peer)
{
	drv_result result = FORWARD(cuCtxDisablePeerAccess, peer);

	return result ? result : change_by_context(peer, false);
}

drv_result cuMemPoolSetAccess(drv_mem_pool pool, const drv_access_desc *descs, size_t count)
{
	drv_result result = FORWARD(cuMemPoolSetAccess, pool, descs, count);
	uint64_t allow = 0, deny = 0;
	int owner;
	size_t i;

	if (result || !pools_is_default(pool, &owner) || !library_ready())
		return result;
	for (i = 0; i < count; i++) {
		if (descs[i].location.type != DRV_MEM_LOCATION_TYPE_DEVICE || descs[i].location.id < 0 ||
		    descs[i].location.id >= DEVICES_KNOWN)
			continue;
		if (descs[i].flags == DRV_MEM_ACCESS_FLAGS_PROT_READWRITE)
			allow |= UINT64_C(1) << descs[i].location.id;
		else
			deny |= UINT64_C(1) << descs[i].location.id;
	}
	return change_peers(owner, PEERS_BY_POOL, allow, deny);
}
