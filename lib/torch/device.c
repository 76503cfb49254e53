// SPDX-License-Identifier: LGPL-2.1-or-later
/* Makes devices current, by the driver that PyTorch has loaded or on the host backend; and peers of them. */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <pthread.h>

#include "cuda/abi.h"
#include "torch/device.h"
#include "vpmm-host.h"
#include "vpmm.h"

static struct device devices[DEVICES];
static atomic_int count;

static struct {
	drv_result (*get_device)(drv_device *device);
	drv_result (*device_get)(drv_device *device, int ordinal);
	drv_result (*retain)(drv_context *context, drv_device device);
	drv_result (*push)(drv_context context);
	drv_result (*pop)(drv_context *context);
	drv_result (*exchange_mode)(drv_capture_mode *mode);
	drv_result (*alloc_host)(void **to, size_t size);
	drv_result (*free_host)(void *from);
} driver;
static bool has_driver;

/* Retained for good, as the CUDA runtime does. */
static drv_context _Atomic primaries[DEVICES];

struct device *device_of(int ordinal)
{
	return ordinal >= 0 && ordinal < DEVICES ? &devices[ordinal] : NULL;
}

void device_set_count(int n)
{
	count = n;
}

static void find_driver(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);

	if (!library)
		goto out;
	*(void **)&driver.get_device = dlsym(library, "cuCtxGetDevice");
	*(void **)&driver.device_get = dlsym(library, "cuDeviceGet");
	*(void **)&driver.retain = dlsym(library, "cuDevicePrimaryCtxRetain");
	*(void **)&driver.push = dlsym(library, "cuCtxPushCurrent_v2");
	*(void **)&driver.pop = dlsym(library, "cuCtxPopCurrent_v2");
	*(void **)&driver.exchange_mode = dlsym(library, "cuThreadExchangeStreamCaptureMode");
	*(void **)&driver.alloc_host = dlsym(library, "cuMemAllocHost_v2");
	*(void **)&driver.free_host = dlsym(library, "cuMemFreeHost");
	has_driver = driver.get_device && driver.device_get && driver.retain && driver.push && driver.pop &&
		     driver.exchange_mode && driver.alloc_host && driver.free_host;
out:
	/* The program is not to be told of a lookup of ours. */
	dlerror();
}

/* Whoever allocates device memory has loaded the driver by then. */
static bool on_gpu(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_driver);
	return has_driver;
}

static drv_context primary_context_of(int ordinal)
{
	drv_context context = primaries[ordinal];
	drv_device device;

	/* Threads that come first together retain it twice, which does no harm. */
	if (!context && !driver.device_get(&device, ordinal) && !driver.retain(&context, device))
		primaries[ordinal] = context;
	return context;
}

bool device_enter(int ordinal, bool *entered)
{
	drv_context context;
	drv_device current;

	*entered = false;
	if (!device_of(ordinal))
		return false;
	if (count == 1)
		return !ordinal;
	if (!on_gpu()) {
		/* Which device is current the host backend does not tell, so it stays that one. */
		return !vpmm_host_set_device(ordinal);
	}
	if (!driver.get_device(&current) && current == ordinal)
		return true;
	context = primary_context_of(ordinal);
	*entered = context && !driver.push(context);
	return *entered;
}

void device_leave(bool entered)
{
	drv_context context;

	if (entered)
		driver.pop(&context);
}

/* As small as it gets. */
#define HOST_BYTES 4096

/* To give pinned memory back waits for all that any stream of the context is at, and lets captures go on. */
static drv_result wait_for_all(void)
{
	drv_result result;
	void *host;

	result = driver.alloc_host(&host, HOST_BYTES);
	if (result)
		return result;
	result = driver.free_host(host);
	/* It may report what was earlier, and then there is no other way to get rid of it. */
	if (result)
		driver.free_host(host);
	return result;
}

bool device_wait(int ordinal)
{
	drv_capture_mode mode = DRV_STREAM_CAPTURE_MODE_RELAXED;
	drv_context context = NULL;
	drv_result result, exchanged;
	drv_device current;
	bool entered;

	if (!on_gpu())
		return true;
	/* None is current on a thread that has never used one; device_enter() leaves it so where there is one only. */
	if (driver.get_device(&current))
		context = primary_context_of(ordinal);
	entered = context && !driver.push(context);
	/* In the other modes these calls are not allowed beside a capture of another thread. */
	exchanged = driver.exchange_mode(&mode);
	result = exchanged ? exchanged : wait_for_all();
	if (!exchanged)
		driver.exchange_mode(&mode);
	device_leave(entered);
	return !result;
}

int device_let_in(int peer)
{
	struct vpmm_info info = { .size = sizeof(info) };
	int err = vpmm_pool_info(NULL, &info);
	int list[DEVICES];
	size_t n = 0;
	int i;

	if (err || info.peers >> peer & 1)
		return err;
	for (i = 0; i < DEVICES; i++)
		if (i == peer || info.peers >> i & 1)
			list[n++] = i;
	return vpmm_pool_set_peers(NULL, list, n);
}

void device_use(int ordinal)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	bool entered, all = true;
	int i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < DEVICES && !devices[ordinal].joined; i++) {
		if (!devices[i].used || i == ordinal)
			continue;
		device_let_in(i);
		if (!device_enter(i, &entered)) {
			all = false;
			continue;
		}
		device_let_in(ordinal);
		device_leave(entered);
		/* On the host backend the device that was entered last is current. */
		if (!entered && !device_enter(ordinal, &entered))
			all = false;
	}
	devices[ordinal].used = true;
	if (all)
		devices[ordinal].joined = true;
	pthread_mutex_unlock(&lock);
}
