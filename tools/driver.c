// SPDX-License-Identifier: LGPL-2.1-or-later
#include "driver.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "fail.h"

#define LIBRARY "libcuda.so.1"

struct drv_program driver;

int driver_open(void)
{
	static bool opened;
	const char *missing;
	void *handle;
	int err;

	if (opened)
		return 0;
	/* Never closed again: the driver's threads run until the program ends. */
	handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return fail_set(-ENODEV, "%s", dlerror());
	missing = drv_load_program(handle, &driver);
	if (missing)
		return fail_set(-ENODEV, "%s has no %s", LIBRARY, missing);
	err = DRIVER_CALL(cuInit, 0);
	opened = !err;
	return err ? -ENODEV : 0;
}

int driver_fail(drv_result result, const char *format, ...)
{
	const char *name = NULL;
	char call[256];
	va_list args;
	int err;

	va_start(args, format);
	vsnprintf(call, sizeof(call), format, args);
	va_end(args);
	if (driver.cuGetErrorName(result, &name) || !name)
		name = "an unknown error";
	err = result == DRV_ERROR_OUT_OF_MEMORY ? -ENOMEM : result == DRV_ERROR_INVALID_VALUE ? -EINVAL : -EIO;
	return fail_set(err, "%s: %s (%d)", call, name, result);
}
