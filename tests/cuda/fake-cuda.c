// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A libcuda.so.1 that stands on the host backend, and is strict: it answers what breaks a rule of the driver, and what
 * libvpmm has no reason to ask for, with an error; what a driver dies of, such as an event of a context that was reset,
 * aborts the test. It contains a copy of its own of the host backend.
 *
 * FAKE_CUDA_OLD makes a driver from before CUDA 12.0, FAKE_CUDA_BARE one without the optional calls.
 */
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/backend.h"
#include "cuda/fake-cuda-inside.h"
#include "host/backend.h"
#include "host/device.h"
#include "host/streams.h"

#define STACK_MAX 16

/* How often a call was called, and which calls of it are to fail. */
struct rule {
	uint64_t calls;
	unsigned int skip;
	unsigned int count;
	drv_result result;
	void (*act)(void);
};

/* Of all that follows; the host backend below has locks of its own, and is called without it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static GHashTable *rules;
static GHashTable *attributes;
static struct CUctx_st primary[HOST_DEVICES_MAX];
static pid_t owner;			/* the process that called cuInit() */
static uint64_t contexts;		/* how many there ever were */

static _Thread_local struct CUctx_st *stack[STACK_MAX];
static _Thread_local unsigned int depth;

static void __attribute__((constructor)) prepare(void)
{
	rules = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
	attributes = g_hash_table_new(NULL, NULL);
	for (int i = 0; i < HOST_DEVICES_MAX; i++)
		primary[i].device = i;
}

static void __attribute__((destructor)) tear_down(void)
{
	g_hash_table_unref(rules);
	g_hash_table_unref(attributes);
}

drv_result result_of(int err)
{
	switch (err) {
	case 0:
		return DRV_SUCCESS;
	case -EINVAL:
		return DRV_ERROR_INVALID_VALUE;
	case -ENOMEM:
		return DRV_ERROR_OUT_OF_MEMORY;
	case -ENODEV:
		return DRV_ERROR_INVALID_DEVICE;
	case -ENOTSUP:
		return DRV_ERROR_NOT_SUPPORTED;
	case -EBUSY:
		return DRV_ERROR_NOT_READY;
	default:
		return DRV_ERROR_UNKNOWN;
	}
}

/* Called with the lock held. */
static struct rule *rule_of(const char *name)
{
	struct rule *rule = g_hash_table_lookup(rules, name);

	if (!rule) {
		rule = g_new0(struct rule, 1);
		g_hash_table_insert(rules, g_strdup(name), rule);
	}
	return rule;
}

static drv_result count_call(const char *name)
{
	drv_result result = DRV_SUCCESS;
	struct rule *rule;
	void (*act)(void);

	pthread_mutex_lock(&lock);
	rule = rule_of(name);
	rule->calls++;
	act = rule->act;
	rule->act = NULL;
	if (rule->count && rule->skip) {
		rule->skip--;
	} else if (rule->count) {
		rule->count--;
		result = rule->result;
	}
	pthread_mutex_unlock(&lock);
	if (act)
		act();
	return result;
}

drv_result begin(const char *name)
{
	drv_result result = count_call(name);

	if (result)
		return result;
	return owner == getpid() ? DRV_SUCCESS : DRV_ERROR_NOT_INITIALIZED;
}

drv_result begin_in(const char *name, struct CUctx_st **context)
{
	drv_result result = begin(name);

	if (result)
		return result;
	if (!depth || !stack[depth - 1])
		return DRV_ERROR_INVALID_CONTEXT;
	*context = stack[depth - 1];
	return (*context)->be && !(*context)->reset ? DRV_SUCCESS : DRV_ERROR_CONTEXT_IS_DESTROYED;
}

drv_result host_enter(struct backend *be)
{
	return result_of(be->ops->enter(be));
}

drv_result host_leave(struct backend *be, int err)
{
	be->ops->leave(be);
	return result_of(err);
}

drv_result cuInit(unsigned int flags)
{
	drv_result result = count_call("cuInit");
	int count;

	if (result)
		return result;
	if (flags)
		return DRV_ERROR_INVALID_VALUE;
	if (host_device_count(&count))
		return DRV_ERROR_NO_DEVICE;
	/* A driver takes its time, and who comes second meanwhile has to wait. */
	g_usleep(10000);
	pthread_mutex_lock(&lock);
	if (!owner)
		owner = getpid();
	result = owner == getpid() ? DRV_SUCCESS : DRV_ERROR_NOT_INITIALIZED;
	pthread_mutex_unlock(&lock);
	return result;
}

drv_result cuDriverGetVersion(int *version)
{
#ifdef FAKE_CUDA_OLD
	*version = 11080;
#else
	*version = 12040;
#endif
	return count_call("cuDriverGetVersion");
}

drv_result cuDeviceGetCount(int *count)
{
	BEGIN(cuDeviceGetCount);
	return result_of(host_device_count(count));
}

drv_result cuDeviceGet(drv_device *device, int ordinal)
{
	BEGIN(cuDeviceGet);
	if (!device_exists(ordinal))
		return DRV_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return DRV_SUCCESS;
}

drv_result cuDeviceGetName(char *name, int size, drv_device device)
{
	BEGIN(cuDeviceGetName);
	if (!device_exists(device))
		return DRV_ERROR_INVALID_DEVICE;
	g_snprintf(name, (gulong)size, "Fake device %d", device);
	return DRV_SUCCESS;
}

drv_result cuDeviceGetAttribute(int *value, drv_device_attribute attribute, drv_device device)
{
	gpointer set;
	bool known;

	BEGIN(cuDeviceGetAttribute);
	if (!device_exists(device))
		return DRV_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	known = g_hash_table_lookup_extended(attributes, GINT_TO_POINTER(attribute), NULL, &set);
	pthread_mutex_unlock(&lock);
	if (known)
		*value = GPOINTER_TO_INT(set);
	else
		*value = attribute == DRV_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED ||
			 attribute == DRV_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED ||
			 attribute == DRV_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED ||
			 attribute == DRV_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
	return DRV_SUCCESS;
}

drv_result cuDeviceTotalMem_v2(size_t *bytes, drv_device device)
{
	uint64_t capacity, used, mappings;
	struct host_device *dev;
	int err;

	BEGIN(cuDeviceTotalMem);
	err = host_device_open(device, &dev);
	if (err)
		return result_of(err);
	host_device_usage(dev, &capacity, &used, &mappings);
	host_device_close(dev);
	*bytes = capacity;
	return DRV_SUCCESS;
}

drv_result cuDevicePrimaryCtxRetain(drv_context *context, drv_device device)
{
	struct CUctx_st *ctx;
	int err = 0;

	BEGIN(cuDevicePrimaryCtxRetain);
	if (!device_exists(device))
		return DRV_ERROR_INVALID_DEVICE;
	ctx = &primary[device];
	pthread_mutex_lock(&lock);
	if (!ctx->references)
		err = backend_host.open(device, &ctx->be);
	if (!err && (!ctx->references || ctx->reset)) {
		ctx->reset = false;
		ctx->id = ++contexts;
	}
	if (!err)
		ctx->references++;
	pthread_mutex_unlock(&lock);
	if (err)
		return result_of(err);
	*context = ctx;
	return DRV_SUCCESS;
}

drv_result cuDevicePrimaryCtxRelease_v2(drv_device device)
{
	struct backend *close = NULL;
	struct CUctx_st *ctx;

	BEGIN(cuDevicePrimaryCtxRelease);
	if (!device_exists(device))
		return DRV_ERROR_INVALID_DEVICE;
	ctx = &primary[device];
	pthread_mutex_lock(&lock);
	if (!ctx->references) {
		pthread_mutex_unlock(&lock);
		return DRV_ERROR_INVALID_CONTEXT;
	}
	if (!--ctx->references) {
		close = ctx->be;
		ctx->be = NULL;
	}
	pthread_mutex_unlock(&lock);
	if (close)
		backend_host.close(close);
	return DRV_SUCCESS;
}

/*
 * As seen on driver 580: streams and events go, mappings, their memory and their addresses stay, and the context has
 * the same handle and another id. Retains stay, too.
 */
drv_result cuDevicePrimaryCtxReset_v2(drv_device device)
{
	struct CUctx_st *ctx;

	BEGIN(cuDevicePrimaryCtxReset);
	if (!device_exists(device))
		return DRV_ERROR_INVALID_DEVICE;
	ctx = &primary[device];
	if (!ctx->references || ctx->reset)
		return DRV_SUCCESS;
	streams_reset(ctx);
	pools_reset(device);
	ctx->enabled = 0;
	ctx->reset = true;
	return DRV_SUCCESS;
}

drv_result cuDevicePrimaryCtxGetState(drv_device device, unsigned int *flags, int *active)
{
	BEGIN(cuDevicePrimaryCtxGetState);
	if (!device_exists(device))
		return DRV_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	*flags = 0;
	*active = primary[device].references > 0 && !primary[device].reset;
	pthread_mutex_unlock(&lock);
	return DRV_SUCCESS;
}

drv_result cuCtxGetCurrent(drv_context *context)
{
	BEGIN(cuCtxGetCurrent);
	*context = depth ? stack[depth - 1] : NULL;
	return DRV_SUCCESS;
}

static atomic_uint lost;

#ifndef FAKE_CUDA_OLD
drv_result cuCtxGetId(drv_context context, drv_u64 *id)
{
	BEGIN(cuCtxGetId);
	if (!context)
		context = depth ? stack[depth - 1] : NULL;
	if (!context)
		return DRV_ERROR_INVALID_CONTEXT;
	if (!context->be || context->reset) {
		lost++;
		return DRV_ERROR_CONTEXT_IS_DESTROYED;
	}
	*id = context->id;
	return DRV_SUCCESS;
}
#endif

drv_result cuCtxSetCurrent(drv_context context)
{
	BEGIN(cuCtxSetCurrent);
	if (depth)
		depth--;
	if (context)
		stack[depth++] = context;
	return DRV_SUCCESS;
}

/* As seen on driver 580: also of one that was reset. */
drv_result cuCtxGetDevice(drv_device *device)
{
	BEGIN(cuCtxGetDevice);
	if (!depth)
		return DRV_ERROR_INVALID_CONTEXT;
	*device = stack[depth - 1]->device;
	return DRV_SUCCESS;
}

drv_result cuCtxPushCurrent_v2(drv_context context)
{
	BEGIN(cuCtxPushCurrent);
	if (!context || !context->be)
		return DRV_ERROR_INVALID_CONTEXT;
	if (depth == STACK_MAX)
		return DRV_ERROR_INVALID_VALUE;
	stack[depth++] = context;
	return DRV_SUCCESS;
}

drv_result cuCtxPopCurrent_v2(drv_context *context)
{
	BEGIN(cuCtxPopCurrent);
	if (!depth)
		return DRV_ERROR_INVALID_CONTEXT;
	*context = stack[--depth];
	return DRV_SUCCESS;
}

drv_result cuMemGetInfo_v2(size_t *free, size_t *total)
{
	struct backend_info info;
	drv_result result;

	BEGIN_IN(cuMemGetInfo, context);
	result = HOST(context, info, &info);
	if (result)
		return result;
	if (free)
		*free = info.memory_free;
	if (total)
		*total = info.memory_total;
	return DRV_SUCCESS;
}

/* Host memory, of the only node. */
static bool is_host_prop(const drv_allocation_prop *prop)
{
	const drv_allocation_prop want = {
		.type = DRV_MEM_ALLOCATION_TYPE_PINNED,
		.location = { DRV_MEM_LOCATION_TYPE_HOST_NUMA, 0 },
	};

	return !memcmp(prop, &want, sizeof(want));
}

/* What the library creates, and nothing else. */
static bool prop_valid(const drv_allocation_prop *prop)
{
	const drv_allocation_prop want = {
		.type = DRV_MEM_ALLOCATION_TYPE_PINNED,
		.handle_types = prop->handle_types,
		.location = { DRV_MEM_LOCATION_TYPE_DEVICE, prop->location.id },
		.flags.gpu_direct_rdma = prop->flags.gpu_direct_rdma,
	};

	return device_exists(prop->location.id) && !memcmp(prop, &want, sizeof(want)) &&
	       prop->flags.gpu_direct_rdma <= 1 &&
	       (prop->handle_types == DRV_MEM_HANDLE_TYPE_NONE ||
		prop->handle_types == DRV_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

drv_result cuMemGetAllocationGranularity(size_t *granularity, const drv_allocation_prop *prop, drv_granularity which)
{
	BEGIN(cuMemGetAllocationGranularity);
	if (!prop_valid(prop) || (which != DRV_MEM_ALLOC_GRANULARITY_MINIMUM &&
				  which != DRV_MEM_ALLOC_GRANULARITY_RECOMMENDED))
		return DRV_ERROR_INVALID_VALUE;
	*granularity = HOST_GRANULARITY;
	return DRV_SUCCESS;
}

drv_result cuMemAddressReserve(drv_deviceptr *va, size_t size, size_t align, drv_deviceptr at, drv_u64 flags)
{
	BEGIN_IN(cuMemAddressReserve, context);
	if (flags)
		return DRV_ERROR_INVALID_VALUE;
	if (at && HOST(context, reserve_at, at, size) == DRV_SUCCESS) {
		*va = at;
		return DRV_SUCCESS;
	}
	return HOST(context, reserve, size, align ? align : HOST_GRANULARITY, va);
}

drv_result cuMemAddressFree(drv_deviceptr va, size_t size)
{
	BEGIN_IN(cuMemAddressFree, context);
	return HOST(context, unreserve, va, size);
}

drv_result cuMemCreate(drv_handle *handle, size_t size, const drv_allocation_prop *prop, drv_u64 flags)
{
	BEGIN_IN(cuMemCreate, context);
	if (is_host_prop(prop) && !flags)
		return HOST(context, host_create, size, handle);
	if (!prop_valid(prop) || prop->location.id != context->device || flags)
		return DRV_ERROR_INVALID_VALUE;
	if (prop->handle_types == DRV_MEM_HANDLE_TYPE_NONE)
		return HOST(context, create, size, handle);
	return HOST(context, configure, BACKEND_HANDLES_FD, false) ?: HOST(context, create_export, size, handle);
}

drv_result cuMemRelease(drv_handle handle)
{
	BEGIN_IN(cuMemRelease, context);
	return HOST(context, release, handle);
}

drv_result cuMemMap(drv_deviceptr va, size_t size, size_t offset, drv_handle handle, drv_u64 flags)
{
	BEGIN_IN(cuMemMap, context);
	if (flags)
		return DRV_ERROR_INVALID_VALUE;
	if (offset)
		return DRV_ERROR_NOT_SUPPORTED;
	return HOST(context, map, va, size, handle);
}

/* The driver knows of no guard. */
drv_result cuMemUnmap(drv_deviceptr va, size_t size)
{
	BEGIN_IN(cuMemUnmap, context);
	return HOST(context, unmap, va, size, NULL);
}

#ifndef FAKE_CUDA_BARE
/* Of the fake driver's own, so that nobody mistakes it for the host backend's. */
drv_result cuDeviceGetUuid_v2(drv_uuid *uuid, drv_device device)
{
	BEGIN(cuDeviceGetUuid);
	if (!device_exists(device))
		return DRV_ERROR_INVALID_DEVICE;
	*uuid = (drv_uuid){ "fake driver   " };
	uuid->bytes[sizeof(uuid->bytes) - 1] = (char)device;
	return DRV_SUCCESS;
}

/* Inheritable, as the driver's are. */
drv_result cuMemExportToShareableHandle(void *out, drv_handle handle, drv_handle_type type, drv_u64 flags)
{
	struct backend_export export;
	drv_result result;

	BEGIN_IN(cuMemExportToShareableHandle, context);
	if (flags || type != DRV_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return DRV_ERROR_INVALID_VALUE;
	result = HOST(context, export, handle, &export);
	if (result)
		return result;
	fcntl(export.fd, F_SETFD, 0);
	*(int *)out = export.fd;
	return DRV_SUCCESS;
}

/* The size is known to the file alone; the driver finds a wrong one when it is to be mapped. */
drv_result cuMemImportFromShareableHandle(drv_handle *handle, void *in, drv_handle_type type)
{
	struct backend_export export = { .type = BACKEND_HANDLES_FD, .fd = (int)(intptr_t)in };
	struct stat stat;

	BEGIN_IN(cuMemImportFromShareableHandle, context);
	if (type != DRV_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || fstat(export.fd, &stat))
		return DRV_ERROR_INVALID_VALUE;
	return HOST(context, import, &export, (size_t)stat.st_size, handle);
}

drv_result cuGetErrorName(drv_result error, const char **name)
{
	switch (error) {
#define X(name_, value) \
	case value: \
		*name = "CUDA_" #name_; \
		return DRV_SUCCESS;
	DRV_RESULTS(X)
#undef X
	default:
		return DRV_ERROR_INVALID_VALUE;
	}
}

drv_result cuGetErrorString(drv_result error, const char **text)
{
	const char *name;

	if (cuGetErrorName(error, &name))
		return DRV_ERROR_INVALID_VALUE;
	*text = error == DRV_ERROR_OUT_OF_MEMORY ? "out of memory" : "says the fake driver";
	return DRV_SUCCESS;
}

#endif /* FAKE_CUDA_BARE */

void fake_cuda_fail(const char *name, unsigned int skip, unsigned int count, drv_result result)
{
	struct rule *rule;

	pthread_mutex_lock(&lock);
	rule = rule_of(name);
	rule->skip = skip;
	rule->count = count;
	rule->result = result;
	pthread_mutex_unlock(&lock);
}

void fake_cuda_meanwhile(const char *name, void (*act)(void))
{
	pthread_mutex_lock(&lock);
	rule_of(name)->act = act;
	pthread_mutex_unlock(&lock);
}

uint64_t fake_cuda_calls(const char *name)
{
	uint64_t calls;

	pthread_mutex_lock(&lock);
	calls = rule_of(name)->calls;
	pthread_mutex_unlock(&lock);
	return calls;
}

void fake_cuda_attribute(drv_device_attribute attribute, int value)
{
	pthread_mutex_lock(&lock);
	g_hash_table_insert(attributes, GINT_TO_POINTER(attribute), GINT_TO_POINTER(value));
	pthread_mutex_unlock(&lock);
}

drv_result fake_cuda_context_create(drv_context *context, int device)
{
	struct backend *be;
	int err;

	err = backend_host.open(device, &be);
	if (err)
		return result_of(err);
	*context = g_new0(struct CUctx_st, 1);
	(*context)->device = device;
	(*context)->be = be;
	(*context)->id = ++contexts;
	return DRV_SUCCESS;
}

void fake_cuda_context_destroy(drv_context context)
{
	backend_host.close(context->be);
	g_free(context);
}

unsigned int fake_cuda_lost(void)
{
	return lost;
}

int fake_cuda_retained(int device)
{
	int references;

	pthread_mutex_lock(&lock);
	references = primary[device].references;
	pthread_mutex_unlock(&lock);
	return references;
}

unsigned int fake_cuda_depth(void)
{
	return depth;
}

int fake_cuda_submit(drv_stream stream)
{
	return depth ? host_stream_submit(stack[depth - 1]->device, stream, NULL, NULL) : -EINVAL;
}

int fake_cuda_complete(drv_stream stream, unsigned int n)
{
	return depth ? host_stream_complete(stack[depth - 1]->device, stream, n) : -EINVAL;
}

void fake_cuda_left(struct host_left *left)
{
	backend_host_left(left);
}
