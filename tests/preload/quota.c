// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A library of quotas, as clusters have in /etc/ld.so.preload: it stands in front of the driver by a dlsym() of its own
 * and by the names of the calls. A process may have 64 MiB.
 */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "preload/hooks.h"
#include "preload/real.h"

#define QUOTA ((size_t)64 << 20)

/* As versions of the C library have it: it finds no dlsym() without a version, such as that of libvpmm-preload.so. */
static const char *const versions[] = { "GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5" };

drv_result cuMemCreate(drv_handle *handle, size_t size, const drv_allocation_prop *prop, drv_u64 flags);
size_t quota_used(void);

static atomic_size_t used;

static NOT_SANITIZED void *next(void *handle, const char *name)
{
	static void *(*real)(void *handle, const char *name);

	for (size_t i = 0; !real && i < sizeof(versions) / sizeof(*versions); i++)
		*(void **)&real = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
	return real ? real(handle, name) : NULL;
}

static void *driver(const char *name)
{
	return next(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), name);
}

size_t quota_used(void)
{
	return used;
}

static drv_result count(drv_result result, size_t size)
{
	if (result)
		used -= size;
	return result;
}

static bool take(size_t size)
{
	if (atomic_fetch_add(&used, size) + size <= QUOTA)
		return true;
	used -= size;
	return false;
}

drv_result cuMemCreate(drv_handle *handle, size_t size, const drv_allocation_prop *prop, drv_u64 flags)
{
	__typeof__(&cuMemCreate) real = (__typeof__(&cuMemCreate))driver("cuMemCreate");

	return take(size) ? count(real(handle, size, prop, flags), size) : DRV_ERROR_OUT_OF_MEMORY;
}

drv_result cuMemAlloc_v2(drv_deviceptr *va, size_t size)
{
	__typeof__(&cuMemAlloc_v2) real = (__typeof__(&cuMemAlloc_v2))driver("cuMemAlloc_v2");

	return take(size) ? count(real(va, size), size) : DRV_ERROR_OUT_OF_MEMORY;
}

drv_result cuMemGetInfo_v2(size_t *free, size_t *total)
{
	__typeof__(&cuMemGetInfo_v2) real = (__typeof__(&cuMemGetInfo_v2))driver("cuMemGetInfo_v2");
	drv_result result = real(free, total);

	if (!result && free)
		*free = QUOTA - used;
	if (!result && total)
		*total = QUOTA;
	return result;
}

/* The runtime of a sanitizer comes here before it is ready, and before strcmp() is. Each call of next() is a jump. */
NOT_SANITIZED void *dlsym(void *handle, const char *name)
{
	if (name[0] != 'c' || name[1] != 'u')
		return next(handle, name);
	if (!strcmp(name, "cuMemCreate"))
		return (void *)cuMemCreate;
	if (!strcmp(name, "cuMemAlloc_v2"))
		return (void *)cuMemAlloc_v2;
	if (!strcmp(name, "cuMemGetInfo_v2"))
		return (void *)cuMemGetInfo_v2;
	return next(handle, name);
}
