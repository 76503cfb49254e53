// SPDX-License-Identifier: LGPL-2.1-or-later
/* An object for LD_PRELOAD as many are: it counts two of the driver's calls, and finds the real ones by RTLD_NEXT. */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <stdlib.h>

#include "cuda/abi.h"

drv_result cuMemAlloc_v2(drv_deviceptr *va, size_t size);
drv_result cuMemFree_v2(drv_deviceptr va);
unsigned int second_calls(void);
void *second_next(const char *name);
void *second_look(const char *name);

static unsigned int calls;

/* A test has named a function by its address, which is to run while the dynamic linker opens this object. */
static void __attribute__((constructor)) open_second(void)
{
	const char *at = getenv("VPMM_TEST_CONSTRUCTOR");

	if (at)
		((void (*)(void))strtoull(at, NULL, 16))();
}

unsigned int second_calls(void)
{
	return calls;
}

void *second_next(const char *name)
{
	/* Not as a tail call, which would make this look like a lookup of the caller's. */
	void *volatile found = dlsym(RTLD_NEXT, name);

	return found;
}

void *second_look(const char *name)
{
	void *volatile found = dlsym(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), name);

	return found;
}

drv_result cuMemAlloc_v2(drv_deviceptr *va, size_t size)
{
	drv_result (*next)(drv_deviceptr *va, size_t size);

	calls++;
	*(void **)&next = dlsym(RTLD_NEXT, "cuMemAlloc_v2");
	return next(va, size);
}

drv_result cuMemFree_v2(drv_deviceptr va)
{
	drv_result (*next)(drv_deviceptr va);

	calls++;
	*(void **)&next = dlsym(RTLD_NEXT, "cuMemFree_v2");
	return next(va);
}
