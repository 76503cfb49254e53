// SPDX-License-Identifier: LGPL-2.1-or-later
/* Opens libcuda.so.1 and explains its errors. */
#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "cuda/driver.h"
#include "util/dlopen-note.h"
#include "util/error.h"
#include "util/line.h"
#include "util/lock.h"
#include "util/text.h"

DLOPEN_NOTE("[{\"feature\":\"cuda\",\"description\":\"GPUs, by the CUDA driver\",\"priority\":\"suggested\","
	    "\"soname\":[\"libcuda.so.1\"]}]");

_Alignas(LINE_SIZE) struct drv_library drv;
static struct lock drv_lock = LOCK_INIT(LOCK_DRIVER);
static atomic_bool drv_ready;

/* All other errors become -EIO: errors of earlier work that stick to the context, and unknown ones. */
static const struct {
	drv_result result;
	int err;
} errors[] = {
	{ DRV_ERROR_INVALID_VALUE, -EINVAL },
	{ DRV_ERROR_OUT_OF_MEMORY, -ENOMEM },
	/* After cuInit() only a forked child sees this one. */
	{ DRV_ERROR_NOT_INITIALIZED, -EBUSY },
	{ DRV_ERROR_CONTEXT_IS_DESTROYED, -ESTALE },
	{ DRV_ERROR_STUB_LIBRARY, -ENODEV },
	{ DRV_ERROR_DEVICE_UNAVAILABLE, -ENODEV },
	{ DRV_ERROR_NO_DEVICE, -ENODEV },
	{ DRV_ERROR_INVALID_DEVICE, -ENODEV },
	{ DRV_ERROR_INVALID_CONTEXT, -EINVAL },
	{ DRV_ERROR_ALREADY_MAPPED, -EINVAL },
	{ DRV_ERROR_NOT_MAPPED, -EINVAL },
	{ DRV_ERROR_INVALID_HANDLE, -EINVAL },
	{ DRV_ERROR_NOT_FOUND, -EINVAL },
	{ DRV_ERROR_NOT_READY, -EBUSY },
	{ DRV_ERROR_PEER_ACCESS_UNSUPPORTED, -ENOTSUP },
	{ DRV_ERROR_TOO_MANY_PEERS, -ENOTSUP },
	{ DRV_ERROR_NOT_PERMITTED, -ENOTSUP },
	{ DRV_ERROR_NOT_SUPPORTED, -ENOTSUP },
	{ DRV_ERROR_SYSTEM_NOT_READY, -ENODEV },
	{ DRV_ERROR_SYSTEM_DRIVER_MISMATCH, -ENODEV },
	{ DRV_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, -ENODEV },
	{ DRV_ERROR_STREAM_CAPTURE_UNSUPPORTED, -EBUSY },
	{ DRV_ERROR_STREAM_CAPTURE_INVALIDATED, -EBUSY },
	{ DRV_ERROR_STREAM_CAPTURE_MERGE, -EBUSY },
	{ DRV_ERROR_STREAM_CAPTURE_UNMATCHED, -EBUSY },
	{ DRV_ERROR_STREAM_CAPTURE_UNJOINED, -EBUSY },
	{ DRV_ERROR_STREAM_CAPTURE_ISOLATION, -EBUSY },
	{ DRV_ERROR_STREAM_CAPTURE_IMPLICIT, -EBUSY },
	{ DRV_ERROR_CAPTURED_EVENT, -EBUSY },
	{ DRV_ERROR_STREAM_CAPTURE_WRONG_THREAD, -EBUSY },
};

static int errno_of(drv_result result)
{
	size_t i;

	for (i = 0; i < G_N_ELEMENTS(errors); i++)
		if (errors[i].result == result)
			return errors[i].err;
	return -EIO;
}

/* @note: what else there is to know, put behind the sentence as it is. */
static int explain(drv_result result, const char *call, const char *note)
{
	const char *name = NULL, *text = NULL;

	if (!drv.cuGetErrorName || drv.cuGetErrorName(result, &name) || !name)
		name = "CUDA error";
	if (!drv.cuGetErrorString || drv.cuGetErrorString(result, &text) || !text)
		text = "which the driver does not explain";
	if (result == DRV_ERROR_NOT_INITIALIZED)
		note = "; the process was forked after the driver was initialised";
	return error_set(errno_of(result), "%s: %s (%d), %s%s", call, name, result, text, note);
}

int cuda_check(drv_result result, const char *format, ...)
{
	char call[256];
	va_list args;

	if (!result)
		return 0;
	va_start(args, format);
	g_vsnprintf(call, sizeof(call), format, args);
	va_end(args);
	return explain(result, call, "");
}

int cuda_check_memory(drv_result result, const char *call, size_t size)
{
	char call_text[256], note[96] = "";
	size_t free, total;
	int err;

	if (!result)
		return 0;
	if (result == DRV_ERROR_OUT_OF_MEMORY && !drv.cuMemGetInfo(&free, &total))
		g_snprintf(note, sizeof(note), "; %s of %s are free", amount(free).text, amount(total).text);
	g_snprintf(call_text, sizeof(call_text), "%s of %s", call, amount(size).text);
	err = explain(result, call_text, note);
	return err == -ENOMEM ? error_add(err, "device memory") : err;
}

int cuda_check_mapping(drv_result result, const char *call, size_t size, uint64_t va)
{
	/* A mapping takes no memory but its page tables: at most eight bytes for each 4 KiB. */
	const size_t tables = size / 4096 * 8;
	size_t free, total;
	const char *lacks = "device memory";
	char call_text[256], note[160] = "";
	int err;

	if (!result)
		return 0;
	if (result == DRV_ERROR_OUT_OF_MEMORY && !drv.cuMemGetInfo(&free, &total) && free >= tables) {
		lacks = "mappings";
		g_snprintf(note, sizeof(note),
			   "; %s of %s are free, so the device has reached the most mappings it can have",
			   amount(free).text, amount(total).text);
	}
	g_snprintf(call_text, sizeof(call_text), "%s of %zu bytes at %#" PRIx64, call, size, va);
	err = explain(result, call_text, note);
	return err == -ENOMEM ? error_add(err, "%s", lacks) : err;
}

static int driver_load(void)
{
	const char *missing, *why;
	int version = 0;
	void *library;

	library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		why = dlerror();
		return error_set(-ENODEV, "no CUDA driver: %s", why ? why : "libcuda.so.1 cannot be opened");
	}
	missing = drv_load_library(library, &drv);
	/* The program is not to be told of calls that the driver may lack. */
	dlerror();
	if (!missing)
		return 0;
	if (drv.cuDriverGetVersion)
		drv.cuDriverGetVersion(&version);
	return error_set(-ENOTSUP, "the CUDA driver has no %s: it is of version %d.%d, and 12.0 is needed", missing,
			 version / 1000, version % 1000 / 10);
}

int cuda_driver_open(void)
{
	int err = 0;

	if (atomic_load_explicit(&drv_ready, memory_order_acquire))
		return 0;
	lock_acquire(&drv_lock);
	if (!drv_ready) {
		err = driver_load();
		if (!err)
			err = cuda_check(drv.cuInit(0), "cuInit");
		if (!err)
			atomic_store_explicit(&drv_ready, true, memory_order_release);
	}
	lock_release(&drv_lock);
	return err;
}
