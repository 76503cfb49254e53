// SPDX-License-Identifier: LGPL-2.1-or-later
/* The calls that let one device access the memory of another. */
#include "preload/driver.h"
#include "preload/library.h"
#include "preload/peers.h"
#include "preload/pools.h"
#include "preload/primary.h"

/* The current context gets access to the memory of @peer, or loses it. */
static drv_result change_by_context(drv_context peer, bool allow)
{
	int device, owner;
	uint64_t bit;

	if (!library_serves(&device) || !primary_of(peer, &owner))
		return DRV_SUCCESS;
	bit = UINT64_C(1) << device;
	return peers_change(owner, PEERS_BY_CONTEXT, allow ? bit : 0, allow ? 0 : bit);
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
	return peers_change(owner, PEERS_BY_POOL, allow, deny);
}
