// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Finds the calls of libcuda.so.1, and what stands in front of them behind us, such as a library of quotas: it has a
 * dlsym() of its own, or has the calls by their names. Threads that come first at the same time all look, and find the
 * same: with a lock instead, one that is here would wait for the dynamic linker's, which another may hold in a
 * constructor that calls us.
 */
#define _GNU_SOURCE 1
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

static struct {
	_Atomic(void *) own;		/* the driver's */
	_Atomic(void *) next;		/* what we call: the same, or what stands in front of it */
} calls[CALLS];
static atomic_bool loaded;

/* Objects that stand in front of the driver behind us; more than these are not told apart from a program. */
static _Atomic(const void *) behind[4];

/* Those that stand there by the names of their calls are used by programs that are linked with the driver only. */
static bool is_linked(void *library)
{
	static const char any[] = "cuDriverGetVersion";
	void *next = real_dlsym(RTLD_NEXT, any);

	return next && next == real_dlsym(library, any);
}

static bool is_own_address(const void *address)
{
	return real_object(address) == real_object((const void *)names);
}

/* An object that names its own function in its dlsym() has ours there, as that is the first of the name. */
void *driver_find(void *library, const char *name)
{
	void *own = real_dlsym(library, name), *next = real_dlsym_next()(library, name);

	if (own && (is_own_address(next) || (next == own && is_linked(library))))
		next = real_dlsym(RTLD_NEXT, name);
	return own && next ? next : own;
}

static void note_behind(const void *address)
{
	const void *object = real_object(address);
	size_t i;

	for (i = 0; i < sizeof(behind) / sizeof(*behind); i++) {
		const void *known = NULL;

		if (atomic_compare_exchange_strong(&behind[i], &known, object) || known == object)
			return;
	}
}

bool driver_is_behind(const void *address)
{
	const void *object = real_object(address);
	size_t i;

	for (i = 0; object && i < sizeof(behind) / sizeof(*behind); i++)
		if (object == atomic_load_explicit(&behind[i], memory_order_relaxed))
			return true;
	return false;
}

static void find_call(void *library, enum preload_call call)
{
	void *own = real_dlsym(library, names[call]), *next = driver_find(library, names[call]);

	atomic_store_explicit(&calls[call].own, own, memory_order_relaxed);
	atomic_store_explicit(&calls[call].next, next, memory_order_relaxed);
	if (real_object(next) != real_object(own))
		note_behind(next);
}

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
			find_call(library, i);
		if (real_dlsym_next() != real_dlsym_address())
			note_behind((const void *)real_dlsym_next());
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
	void *found;

	if (driver_is_loaded())
		return atomic_load_explicit(&calls[call].next, memory_order_relaxed);
	found = real_dlsym(RTLD_NEXT, names[call]);
	dlerror();
	return found;
}

bool driver_is(enum preload_call call, const void *address)
{
	return address == atomic_load_explicit(&calls[call].own, memory_order_relaxed) ||
	       address == atomic_load_explicit(&calls[call].next, memory_order_relaxed);
}
