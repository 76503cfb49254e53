// SPDX-License-Identifier: LGPL-2.1-or-later
#include "driver.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "fail.h"

#define LIBRARY "libcuda.so.1"

int driver_open(const struct drv_program **drv)
{
	static struct drv_program calls;
	static bool opened;
	const char *missing;
	drv_result result;
	void *handle;

	if (opened) {
		*drv = &calls;
		return 0;
	}
	/* Never closed again: the driver's threads run until the program ends. */
	handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return fail_set(-ENODEV, "%s", dlerror());
	missing = drv_load_program(handle, &calls);
	if (missing)
		return fail_set(-ENODEV, "%s has no %s", LIBRARY, missing);
	result = calls.cuInit(0);
	if (result) {
		driver_fail(&calls, result, "cuInit");
		return -ENODEV;
	}
	opened = true;
	*drv = &calls;
	return 0;
}

int driver_fail(const struct drv_program *drv, drv_result result, const char *format, ...)
{
	const char *name = NULL;
	char call[256];
	va_list args;
	int err;

	va_start(args, format);
	vsnprintf(call, sizeof(call), format, args);
	va_end(args);
	if (drv->cuGetErrorName(result, &name) || !name)
		name = "an unknown error";
	err = result == DRV_ERROR_OUT_OF_MEMORY ? -ENOMEM : result == DRV_ERROR_INVALID_VALUE ? -EINVAL : -EIO;
	return fail_set(err, "%s: %s (%d)", call, name, result);
}
