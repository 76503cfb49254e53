// SPDX-License-Identifier: LGPL-2.1-or-later
/* The rest of the suite's own libcuda.so.1: memory pools, plain memory, copies, and what it cannot do. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <glib.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cuda/fake-cuda-inside.h"
#include "host/device.h"
#include "host/streams.h"

/* What cuMemAlloc() gave. */
struct plain {
	struct backend *be;
	size_t size;
	uint64_t handle;
};

/* Of all that follows; the host backend below has locks of its own. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static GHashTable *plain_of;		/* struct plain by address */

static void __attribute__((constructor)) prepare(void)
{
	plain_of = g_hash_table_new_full(NULL, NULL, NULL, g_free);
}

static void __attribute__((destructor)) tear_down(void)
{
	g_hash_table_unref(plain_of);
}

#ifndef FAKE_CUDA_BARE
struct CUmemPoolHandle_st {
	struct backend *be;
	unsigned int live;
	bool destroyed;
	uint64_t threshold;
};

static GHashTable *pool_of;		/* memory pool by address */
static GHashTable *pools;		/* set of those that cuMemPoolCreate() gave */
static struct CUmemPoolHandle_st default_pool[HOST_DEVICES_MAX];

static void __attribute__((constructor)) prepare_pools(void)
{
	pool_of = g_hash_table_new(NULL, NULL);
	pools = g_hash_table_new(NULL, NULL);
}

static void __attribute__((destructor)) tear_down_pools(void)
{
	g_hash_table_unref(pool_of);
	g_hash_table_unref(pools);
}

/* Called with the lock held. */
static void pool_close_unused(struct CUmemPoolHandle_st *pool)
{
	if (!pool->destroyed || pool->live)
		return;
	backend_host.close(pool->be);
	g_hash_table_remove(pools, pool);
	g_free(pool);
}

void fake_cuda_drop_pools(void)
{
	GList *all, *at;

	pthread_mutex_lock(&lock);
	all = g_hash_table_get_keys(pools);
	for (at = all; at; at = at->next) {
		struct CUmemPoolHandle_st *pool = at->data;

		pool->destroyed = true;
		pool_close_unused(pool);
	}
	pthread_mutex_unlock(&lock);
	g_list_free(all);
}

drv_result cuMemPoolCreate(drv_mem_pool *pool, const drv_mem_pool_props *props)
{
	const drv_mem_pool_props want = {
		.type = DRV_MEM_ALLOCATION_TYPE_PINNED,
		.location = { DRV_MEM_LOCATION_TYPE_DEVICE, props->location.id },
	};
	struct backend *be;
	int err;

	BEGIN(cuMemPoolCreate);
	if (memcmp(props, &want, sizeof(want)))
		return DRV_ERROR_INVALID_VALUE;
	err = backend_host.open(props->location.id, &be);
	if (err)
		return result_of(err);
	*pool = g_new0(struct CUmemPoolHandle_st, 1);
	(*pool)->be = be;
	pthread_mutex_lock(&lock);
	g_hash_table_add(pools, *pool);
	pthread_mutex_unlock(&lock);
	return DRV_SUCCESS;
}

/* A pool that still has something allocated goes with the last of it. */
drv_result cuMemPoolDestroy(drv_mem_pool pool)
{
	BEGIN(cuMemPoolDestroy);
	pthread_mutex_lock(&lock);
	pool->destroyed = true;
	pool_close_unused(pool);
	pthread_mutex_unlock(&lock);
	return DRV_SUCCESS;
}

drv_result cuMemPoolSetAttribute(drv_mem_pool pool, drv_pool_attribute attribute, void *value)
{
	BEGIN(cuMemPoolSetAttribute);
	if (attribute != DRV_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		return DRV_ERROR_NOT_SUPPORTED;
	pool->threshold = *(uint64_t *)value;
	return DRV_SUCCESS;
}

drv_result cuMemPoolGetAttribute(drv_mem_pool pool, drv_pool_attribute attribute, void *value)
{
	uint64_t held, peak;
	drv_result result;

	BEGIN(cuMemPoolGetAttribute);
	result = HOST(pool, small_held, &held, &peak);
	if (result)
		return result;
	switch (attribute) {
	case DRV_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		*(uint64_t *)value = pool->threshold;
		return DRV_SUCCESS;
	case DRV_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		*(uint64_t *)value = held;
		return DRV_SUCCESS;
	case DRV_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		*(uint64_t *)value = peak;
		return DRV_SUCCESS;
	default:
		return DRV_ERROR_NOT_SUPPORTED;
	}
}

static drv_result pool_alloc(drv_deviceptr *va, size_t size, drv_mem_pool pool, drv_stream stream)
{
	drv_result result = HOST(pool, small_alloc, size, stream, va);

	if (result)
		return result;
	pthread_mutex_lock(&lock);
	pool->live++;
	g_hash_table_insert(pool_of, (gpointer)*va, pool);
	pthread_mutex_unlock(&lock);
	return DRV_SUCCESS;
}

/* A pool of a program's own gives memory back at every synchronisation, unless it was told to keep it. */
drv_result cuMemAllocFromPoolAsync(drv_deviceptr *va, size_t size, drv_mem_pool pool, drv_stream stream)
{
	BEGIN_IN(cuMemAllocFromPoolAsync, context);
	return pool->threshold == UINT64_MAX ? pool_alloc(va, size, pool, stream) : DRV_ERROR_NOT_SUPPORTED;
}

drv_result cuMemFreeAsync(drv_deviceptr va, drv_stream stream)
{
	struct CUmemPoolHandle_st *pool;
	drv_result result;

	BEGIN_IN(cuMemFreeAsync, context);
	pthread_mutex_lock(&lock);
	pool = g_hash_table_lookup(pool_of, (gpointer)va);
	/* Once it is free, another thread may be given the same address. */
	g_hash_table_remove(pool_of, (gpointer)va);
	pthread_mutex_unlock(&lock);
	if (!pool)
		return DRV_ERROR_INVALID_VALUE;
	result = HOST(pool, small_free, va, stream);
	pthread_mutex_lock(&lock);
	if (result) {
		g_hash_table_insert(pool_of, (gpointer)va, pool);
		pthread_mutex_unlock(&lock);
		return result;
	}
	pool->live--;
	pool_close_unused(pool);
	pthread_mutex_unlock(&lock);
	return DRV_SUCCESS;
}

/* The default pool of a device is there for good once it was used. */
drv_result cuMemAllocAsync(drv_deviceptr *va, size_t size, drv_stream stream)
{
	struct CUmemPoolHandle_st *pool;
	int err = 0;

	BEGIN_IN(cuMemAllocAsync, context);
	pool = &default_pool[context->device];
	pthread_mutex_lock(&lock);
	if (!pool->be)
		err = backend_host.open(context->device, &pool->be);
	pthread_mutex_unlock(&lock);
	return err ? result_of(err) : pool_alloc(va, size, pool, stream);
}

drv_result cuMemPoolTrimTo(drv_mem_pool pool, size_t keep)
{
	bool pending;

	BEGIN(cuMemPoolTrimTo);
	return pool->be ? HOST(pool, small_trim, keep, &pending) : DRV_SUCCESS;
}
#else
void fake_cuda_drop_pools(void)
{
}
#endif /* FAKE_CUDA_BARE */

static drv_result plain_give(struct plain *plain, uint64_t va)
{
	drv_result result;

	result = HOST(plain, unmap, va, plain->size, NULL);
	if (!result)
		result = HOST(plain, release, plain->handle);
	return result ? result : HOST(plain, unreserve, va, plain->size);
}

drv_result cuMemAlloc_v2(drv_deviceptr *va, size_t size)
{
	struct plain *plain;
	drv_result result;
	uint64_t got;

	BEGIN_IN(cuMemAlloc, context);
	if (!size)
		return DRV_ERROR_INVALID_VALUE;
	plain = g_new0(struct plain, 1);
	plain->be = context->be;
	plain->size = (size + HOST_GRANULARITY - 1) / HOST_GRANULARITY * HOST_GRANULARITY;
	result = HOST(context, reserve, plain->size, HOST_GRANULARITY, &got);
	if (result)
		goto free_plain;
	result = HOST(context, create, plain->size, &plain->handle);
	if (result)
		goto unreserve;
	result = HOST(context, map, got, plain->size, plain->handle);
	if (result)
		goto release;
	result = HOST(context, access, got, plain->size);
	if (result)
		goto unmap;
	pthread_mutex_lock(&lock);
	g_hash_table_insert(plain_of, (gpointer)got, plain);
	pthread_mutex_unlock(&lock);
	*va = got;
	return DRV_SUCCESS;

unmap:
	HOST(context, unmap, got, plain->size, NULL);
release:
	HOST(context, release, plain->handle);
unreserve:
	HOST(context, unreserve, got, plain->size);
free_plain:
	g_free(plain);
	return result;
}

drv_result cuMemFree_v2(drv_deviceptr va)
{
	drv_result result = DRV_ERROR_INVALID_VALUE;
	struct plain *plain;

	BEGIN_IN(cuMemFree, context);
	if (!va)
		return DRV_SUCCESS;
	pthread_mutex_lock(&lock);
	plain = g_hash_table_lookup(plain_of, (gpointer)va);
	if (plain)
		result = plain_give(plain, va);
	if (!result)
		g_hash_table_remove(plain_of, (gpointer)va);
	pthread_mutex_unlock(&lock);
	return result;
}

/* Copies through the kernel, which answers an address without access instead of dying of it. */
static drv_result copy(void *to, const void *from, size_t size, bool to_device)
{
	struct iovec device = { to_device ? to : (void *)from, size };
	struct iovec host = { to_device ? (void *)from : to, size };
	ssize_t done;

	if (to_device)
		done = process_vm_writev(getpid(), &host, 1, &device, 1, 0);
	else
		done = process_vm_readv(getpid(), &host, 1, &device, 1, 0);
	return done == (ssize_t)size ? DRV_SUCCESS : DRV_ERROR_INVALID_VALUE;
}

/* These are ordered on the default stream. */
drv_result cuMemcpyDtoH_v2(void *to, drv_deviceptr from, size_t size)
{
	drv_result result;

	BEGIN_IN(cuMemcpyDtoH, context);
	result = stream_sync(context, NULL);
	return result ? result : copy(to, (const void *)from, size, false);
}

drv_result cuMemcpyHtoD_v2(drv_deviceptr to, const void *from, size_t size)
{
	drv_result result;

	BEGIN_IN(cuMemcpyHtoD, context);
	result = stream_sync(context, NULL);
	return result ? result : copy((void *)to, from, size, true);
}

/* A copy or a fill that a stream comes to when it is completed. */
struct transfer {
	void *to;
	const void *from;		/* NULL: fill with @value */
	int value;
	size_t size;
};

static void transfer_run(void *data)
{
	struct transfer *transfer = data;

	if (transfer->from)
		memcpy(transfer->to, transfer->from, transfer->size);
	else
		memset(transfer->to, transfer->value, transfer->size);
	g_free(transfer);
}

static drv_result transfer_submit(struct CUctx_st *context, drv_stream stream, const struct transfer *transfer)
{
	struct transfer *pending = g_memdup2(transfer, sizeof(*transfer));
	int err;

	err = host_stream_submit(context->device, stream, transfer_run, pending);
	if (err)
		g_free(pending);
	return result_of(err);
}

drv_result cuMemcpyDtoHAsync_v2(void *to, drv_deviceptr from, size_t size, drv_stream stream)
{
	const struct transfer transfer = { .to = to, .from = (const void *)from, .size = size };

	BEGIN_IN(cuMemcpyDtoHAsync, context);
	return transfer_submit(context, stream, &transfer);
}

drv_result cuMemcpyHtoDAsync_v2(drv_deviceptr to, const void *from, size_t size, drv_stream stream)
{
	const struct transfer transfer = { .to = (void *)to, .from = from, .size = size };

	BEGIN_IN(cuMemcpyHtoDAsync, context);
	return transfer_submit(context, stream, &transfer);
}

drv_result cuMemcpyDtoDAsync_v2(drv_deviceptr to, drv_deviceptr from, size_t size, drv_stream stream)
{
	BEGIN_IN(cuMemcpyDtoDAsync, context);
	/* What the library copies is not for a test to complete. */
	return capture_result(result_of(host_stream_copy(context->device, stream, to, from, size)));
}

drv_result cuMemsetD8Async(drv_deviceptr va, unsigned char value, size_t size, drv_stream stream)
{
	const struct transfer transfer = { .to = (void *)va, .value = value, .size = size };

	BEGIN_IN(cuMemsetD8Async, context);
	/* What the library clears is not for a test to complete. */
	if (!value)
		return capture_result(result_of(host_stream_clear(context->device, stream, va, size)));
	return transfer_submit(context, stream, &transfer);
}

/* There is nothing here that could run a kernel. */
drv_result cuModuleLoadData(drv_module *module, const void *image)
{
	(void)module;
	(void)image;
	BEGIN(cuModuleLoadData);
	return DRV_ERROR_NOT_SUPPORTED;
}

drv_result cuModuleUnload(drv_module module)
{
	(void)module;
	BEGIN(cuModuleUnload);
	return DRV_ERROR_INVALID_HANDLE;
}

drv_result cuModuleGetFunction(drv_function *function, drv_module module, const char *name)
{
	(void)function;
	(void)module;
	(void)name;
	BEGIN(cuModuleGetFunction);
	return DRV_ERROR_INVALID_HANDLE;
}

drv_result cuLaunchKernel(drv_function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
			  unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
			  drv_stream stream, void **params, void **extra)
{
	(void)function;
	(void)grid_x, (void)grid_y, (void)grid_z;
	(void)block_x, (void)block_y, (void)block_z;
	(void)shared_bytes;
	(void)stream;
	(void)params;
	(void)extra;
	BEGIN(cuLaunchKernel);
	return DRV_ERROR_INVALID_HANDLE;
}
