// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The calls that let one device access the memory of another. What they let in does not cover mapped memory, so the
 * pool of the device has to let the peer in too.
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

/* By what devices were let in: each of these is taken back by itself. */
struct access {
	unsigned int contexts[DEVICES_KNOWN];	/* of each device: how many have enabled it */
	uint64_t primaries;		/* devices whose primary context is one of those */
	uint64_t pool;
};

static struct {
	struct access access;
	uint64_t before;		/* who could access the pool before the first change */
	bool changed;
} peers[DEVICES_KNOWN];

static uint64_t bit_of(int device)
{
	return UINT64_C(1) << device;
}

/* The devices that have access to the memory of a device, besides that one. */
static uint64_t all_of(const struct access *access, int device)
{
	uint64_t all = access->pool;
	int i;

	for (i = 0; i < DEVICES_KNOWN; i++)
		if (access->contexts[i])
			all |= bit_of(i);
	return all & ~bit_of(device);
}

/*
 * What VPMM_PEERS has let in stays in. Where no pool can be made, as with a bad setting or an old driver, the driver
 * serves everything.
 */
static int tell_pool(int device, uint64_t before, uint64_t after)
{
	struct vpmm_info info = { .size = sizeof(info) };
	int devices[DEVICES_KNOWN], i, err;
	size_t count = 0;
	uint64_t mask;

	err = LIBRARY(vpmm_pool_info, NULL, &info);
	if (err)
		return err == -EINVAL || err == -ENOTSUP ? 0 : err;
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

/*
 * Changes who can access the memory of a device. Called with the lock held. If the program is giving the primary
 * context up, nothing is left to change: a pool that is made now would keep the context.
 */
static drv_result change_peers(int device, const struct access *after)
{
	struct access *now = &peers[device].access;
	drv_result result;
	int err;

	if (!primary_retains(device))
		return DRV_SUCCESS;
	result = primary_push(device);
	if (result)
		return result;
	err = tell_pool(device, all_of(now, device), all_of(after, device));
	primary_pop();
	if (err)
		return err == -ENOMEM ? DRV_ERROR_OUT_OF_MEMORY : DRV_ERROR_PEER_ACCESS_UNSUPPORTED;
	*now = *after;
	return DRV_SUCCESS;
}

void peers_forget(int device)
{
	int i;

	pthread_mutex_lock(&lock);
	peers[device].changed = false;
	peers[device].access = (struct access){ .pool = 0 };
	for (i = 0; i < DEVICES_KNOWN; i++) {
		/* Other contexts of the device stay, with what they have enabled. */
		if (peers[i].access.primaries & bit_of(device))
			peers[i].access.contexts[device]--;
		peers[i].access.primaries &= ~bit_of(device);
		peers[i].access.pool &= ~bit_of(device);
	}
	pthread_mutex_unlock(&lock);
}

/*
 * The current context, which need not be a primary one, gets access to the memory of @peer, or loses it. Mapped memory
 * can be accessed by all contexts of a device, or by none.
 */
static drv_result change_by_context(drv_context peer, bool allow)
{
	drv_device device = 0;
	struct access after;
	drv_result result;
	uint64_t primary;
	int owner;

	if (!primary_of(peer, &owner) || !library_ready())
		return DRV_SUCCESS;
	result = FORWARD(cuCtxGetDevice, &device);
	if (result || device < 0 || device >= DEVICES_KNOWN)
		return result;
	primary = primary_device(&device) ? bit_of(device) : 0;
	pthread_mutex_lock(&lock);
	after = peers[owner].access;
	if (allow)
		after.contexts[device]++;
	else if (after.contexts[device])
		after.contexts[device]--;
	after.primaries = allow ? after.primaries | primary : after.primaries & ~primary;
	result = change_peers(owner, &after);
	pthread_mutex_unlock(&lock);
	return result;
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

static bool is_let_in(int owner)
{
	bool found = false;
	int i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < DEVICES_KNOWN && !found; i++)
		found = peers[owner].access.contexts[i];
	pthread_mutex_unlock(&lock);
	return found;
}

/* The driver knows which contexts it has let in, and refuses to undo others. */
void peers_leave(drv_context context)
{
	bool entered = false;
	int owner;

	if (primary_of(context, &owner))
		return;
	for (owner = 0; owner < DEVICES_KNOWN; owner++) {
		if (!is_let_in(owner))
			continue;
		if (!entered && FORWARD(cuCtxPushCurrent_v2, context))
			return;
		entered = true;
		cuCtxDisablePeerAccess(primary_context(owner));
	}
	if (entered)
		FORWARD(cuCtxPopCurrent_v2, &context);
}

drv_result cuMemPoolSetAccess(drv_mem_pool pool, const drv_access_desc *descs, size_t count)
{
	drv_result result = FORWARD(cuMemPoolSetAccess, pool, descs, count);
	uint64_t allow = 0, deny = 0;
	struct access after;
	int owner;
	size_t i;

	if (result || !pools_is_default(pool, &owner) || !library_ready())
		return result;
	for (i = 0; i < count; i++) {
		if (descs[i].location.type != DRV_MEM_LOCATION_TYPE_DEVICE || descs[i].location.id < 0 ||
		    descs[i].location.id >= DEVICES_KNOWN)
			continue;
		if (descs[i].flags == DRV_MEM_ACCESS_FLAGS_PROT_READWRITE)
			allow |= bit_of(descs[i].location.id);
		else
			deny |= bit_of(descs[i].location.id);
	}
	pthread_mutex_lock(&lock);
	after = peers[owner].access;
	after.pool = (after.pool & ~deny) | allow;
	result = change_peers(owner, &after);
	pthread_mutex_unlock(&lock);
	return result;
}
