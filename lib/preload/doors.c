// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The hooks by address: what the driver has answered says which call is meant, whatever name, version and flags it was
 * asked for by. And the driver's own resolver, by which the CUDA runtime finds everything else.
 */
#include "preload/doors.h"
#include "preload/driver.h"
#include "preload/settings.h"

static void *const hooks[COPIES_END] = {
#define X(name, args) [CALL_##name] = (void *)(name),
	PRELOAD_HOOKS(X)
	PRELOAD_COPIES(X)
#undef X
};

/* What is only watched, or passes the gate, is left alone where there is neither, so that it costs nothing. */
static size_t hooks_in_use(void)
{
	return settings()->monitor || settings()->pausable ? WATCHED : HOOKS;
}

static void *hook_of(enum preload_call call)
{
	return call < COPIES_END ? hooks[call] : submission_hook(call - COPIES_END);
}

void *door_hook(void *address)
{
	enum preload_call call;

	if (!address || !driver_is_loaded())
		return address;
	for (call = 0; call < hooks_in_use(); call++)
		if (driver_is(call, address))
			return hook_of(call);
	return address;
}

bool door_is_hook(const void *address)
{
	enum preload_call call;

	for (call = 0; call < WATCHED; call++)
		if (address == hook_of(call))
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
