// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Finds the calls of libcuda.so.1. Threads that come first at the same time all look, and find the same: with a lock
 * instead, one that is here would wait for the dynamic linker's, which another may hold in a constructor that calls us.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "preload/driver.h"
#include "preload/real.h"

static const char *const names[CALLS] = {
#define X(name, args) [CALL_##name] = #name,
	PRELOAD_HOOKS(X)
	PRELOAD_COPIES(X)
	PRELOAD_CALLS(X)
#undef X
#define X(name) [CALL_##name] = #name,
	PRELOAD_SUBMISSIONS(X)
#undef X
};

static _Atomic(void *) calls[CALLS];
static atomic_bool loaded;

bool driver_is_loaded(void)
{
	void *library;
	size_t i;

	if (atomic_load_explicit(&loaded, memory_order_acquire))
		return true;
	/* The handle is kept: what was found stays valid. */
	library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	if (library) {
		for (i = 0; i < CALLS; i++)
			atomic_store_explicit(&calls[i], real_dlsym(library, names[i]), memory_order_relaxed);
		atomic_store_explicit(&loaded, true, memory_order_release);
	}
	/* A program that asks for the error of its own lookup is not to be told of one of ours. */
	dlerror();
	return library;
}

bool driver_lacks(const char *name)
{
	enum preload_call call;

	for (call = 0; call < WATCHED; call++)
		if (!strcmp(name, names[call]))
			return !driver_call(call);
	return false;
}

void *driver_call(enum preload_call call)
{
	if (driver_is_loaded())
		return atomic_load_explicit(&calls[call], memory_order_relaxed);
	return real_dlsym(RTLD_NEXT, names[call]);
}
