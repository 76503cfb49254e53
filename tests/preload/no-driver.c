// SPDX-License-Identifier: LGPL-2.1-or-later
/* A program with a double of the driver, and without a driver, says where it finds calls, and what they return. */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <stdio.h>

#include "cuda/abi.h"

drv_result cuMemAlloc_v2(drv_deviceptr *va, size_t size);

static void find(const char *name, void *handle)
{
	void *found;

	dlerror();
	found = dlsym(handle, name);
	printf("%s: %s, %s\n", name, found ? "found" : "not found", dlerror() ? "error" : "no error");
}

int main(void)
{
	void *all = dlopen(NULL, RTLD_NOW);
	drv_deviceptr va;

	find("cuMemAlloc_v2", RTLD_DEFAULT);
	find("cuMemFree_v2", RTLD_DEFAULT);
	find("cuMemAlloc_v2", all);
	find("cuMemFree_v2", all);
	find("cuMemAlloc_v2", dlopen("libdouble.so", RTLD_NOW));
	printf("%d\n", cuMemAlloc_v2(&va, 1000));
	return 0;
}
