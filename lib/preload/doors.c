// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The hooks by address: what the driver has answered says which call is meant, whatever name, version and flags it was
 * asked for by. And the driver's own resolver, by which the CUDA runtime finds everything else.
 */
#include "preload/doors.h"
#include "preload/driver.h"
#include "preload/settings.h"

static void *const hooks[HOOKS] = {
#define X(name, args) [CALL_##name] = (void *)(name),
	PRELOAD_HOOKS(X)
#undef X
};

void *door_hook(void *address)
{
	enum preload_call call;

	if (!address || !driver_is_loaded())
		return address;
	for (call = 0; call < HOOKS; call++)
		if (address == driver_call(call))
			return hooks[call];
	return address;
}

bool door_is_hook(const void *address)
{
	size_t i;

	for (i = 0; i < HOOKS; i++)
		if (address == hooks[i])
			return true;
	return false;
}

static drv_result hooked(drv_result result, void **call)
{
	if (!result && call && settings()->on)
		*call = door_hook(*call);
	return result;
}

drv_result cuGetProcAddress(const char *name, void **call, int version, drv_u64 flags)
{
	return hooked(FORWARD(cuGetProcAddress, name, call, version, flags), call);
}

drv_result cuGetProcAddress_v2(const char *name, void **call, int version, drv_u64 flags, drv_enum *status)
{
	return hooked(FORWARD(cuGetProcAddress_v2, name, call, version, flags, status), call);
}
