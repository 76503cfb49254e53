// SPDX-License-Identifier: LGPL-2.1-or-later
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

#include "preload/real.h"

/* Names of GLIBC_PRIVATE would be simpler, and come and go with its versions. */
NOT_SANITIZED dlsym_fn *real_dlsym_address(void)
{
	static const char *const versions[] = { "GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5" };
	static _Atomic(void *) found;
	void *real = atomic_load_explicit(&found, memory_order_relaxed);
	size_t i;

	for (i = 0; !real && i < sizeof(versions) / sizeof(*versions); i++)
		real = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
	atomic_store_explicit(&found, real, memory_order_relaxed);
	return (dlsym_fn *)real;
}

NOT_SANITIZED void *real_dlsym(void *handle, const char *name)
{
	/* Were it a tail call, RTLD_NEXT would be what follows our caller, perhaps the program. */
	void *volatile found = real_dlsym_address()(handle, name);

	return found;
}

/* A dlsym() without a version, as ours is, no lookup of a version finds. */
NOT_SANITIZED dlsym_fn *real_dlsym_next(void)
{
	static _Atomic(void *) found;
	void *next = atomic_load_explicit(&found, memory_order_relaxed);

	if (!next)
		next = real_dlsym(RTLD_NEXT, "dlsym");
	if (!next)
		next = (void *)real_dlsym_address();
	atomic_store_explicit(&found, next, memory_order_relaxed);
	return (dlsym_fn *)next;
}

const void *real_object(const void *address)
{
	Dl_info info;

	return address && dladdr(address, &info) ? info.dli_fbase : NULL;
}
