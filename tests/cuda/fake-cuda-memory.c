// SPDX-License-Identifier: LGPL-2.1-or-later
/* The rest of the suite's own libcuda.so.1: memory pools, plain memory, copies, and what it cannot do. */
#define _GNU_SOURCE 1
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
	int device;
	unsigned int live;
	bool destroyed;
	bool dead;			/* its device was reset */
	uint64_t threshold;
	uint64_t peers;			/* as bits by ordinal */
};

static GHashTable *pool_of;		/* memory pool by address */
static GHashTable *pools;		/* set of those that cuMemPoolCreate() gave */
static GPtrArray *dead_pools;		/* of devices that were reset */
static struct CUmemPoolHandle_st default_pool[HOST_DEVICES_MAX];
static struct CUmemPoolHandle_st *current_pool[HOST_DEVICES_MAX];	/* NULL: the default one */

static void __attribute__((constructor)) prepare_pools(void)
{
	pool_of = g_hash_table_new(NULL, NULL);
	pools = g_hash_table_new(NULL, NULL);
	dead_pools = g_ptr_array_new_with_free_func(g_free);
}

static void __attribute__((destructor)) tear_down_pools(void)
{
	g_hash_table_unref(pool_of);
	g_hash_table_unref(pools);
	g_ptr_array_unref(dead_pools);
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

static gboolean free_of_pool(gpointer va, gpointer of, gpointer pool)
{
	return of == pool && !HOST((drv_mem_pool)of, small_free, (drv_deviceptr)va, NULL);
}

/* The structure stays, so that no other memory pool gets its address. */
static void pool_bury(struct CUmemPoolHandle_st *pool)
{
	g_hash_table_foreach_remove(pool_of, free_of_pool, pool);
	backend_host.close(pool->be);
	pool->dead = true;
	g_ptr_array_add(dead_pools, pool);
}

/* Whether memory pools survive a reset has not been seen, so nobody is to rely on either. */
void pools_reset(int device)
{
	GHashTableIter iter;
	gpointer key;

	pthread_mutex_lock(&lock);
	g_hash_table_iter_init(&iter, pools);
	while (g_hash_table_iter_next(&iter, &key, NULL)) {
		struct CUmemPoolHandle_st *pool = key;

		if (pool->device != device)
			continue;
		pool_bury(pool);
		g_hash_table_iter_remove(&iter);
	}
	pthread_mutex_unlock(&lock);
}

static void pool_check(const char *call, drv_mem_pool pool)
{
	if (pool->dead)
		g_error("%s: memory pool %p is of a device that was reset", call, (void *)pool);
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
	(*pool)->device = props->location.id;
	pthread_mutex_lock(&lock);
	g_hash_table_add(pools, *pool);
	pthread_mutex_unlock(&lock);
	return DRV_SUCCESS;
}

/* A pool that still has something allocated goes with the last of it. */
drv_result cuMemPoolDestroy(drv_mem_pool pool)
{
	BEGIN(cuMemPoolDestroy);
	pool_check("cuMemPoolDestroy", pool);
	pthread_mutex_lock(&lock);
	pool->destroyed = true;
	pool_close_unused(pool);
	pthread_mutex_unlock(&lock);
	return DRV_SUCCESS;
}

drv_result cuMemPoolSetAttribute(drv_mem_pool pool, drv_pool_attribute attribute, void *value)
{
	BEGIN(cuMemPoolSetAttribute);
	pool_check("cuMemPoolSetAttribute", pool);
	if (attribute == DRV_MEMPOOL_ATTR_RESERVED_MEM_HIGH || attribute == DRV_MEMPOOL_ATTR_USED_MEM_HIGH)
		return *(uint64_t *)value ? DRV_ERROR_INVALID_VALUE : DRV_SUCCESS;
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
	pool_check("cuMemPoolGetAttribute", pool);
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
	case DRV_MEMPOOL_ATTR_USED_MEM_HIGH:
		*(uint64_t *)value = peak;
		return DRV_SUCCESS;
	case DRV_MEMPOOL_ATTR_USED_MEM_CURRENT:
		*(uint64_t *)value = pool->live ? held : 0;
		return DRV_SUCCESS;
	default:
		return DRV_ERROR_NOT_SUPPORTED;
	}
}

/* A pool is always its own device's. */
drv_result cuMemPoolSetAccess(drv_mem_pool pool, const drv_access_desc *descs, size_t count)
{
	uint64_t own = UINT64_C(1) << pool->device, allow, deny;
	drv_result result;

	BEGIN(cuMemPoolSetAccess);
	pool_check("cuMemPoolSetAccess", pool);
	if (!read_descs(descs, count, &allow, &deny) || (allow | deny) & own)
		return DRV_ERROR_INVALID_VALUE;
	result = HOST(pool, peers, (pool->peers & ~deny) | allow);
	if (!result)
		pool->peers = (pool->peers & ~deny) | allow;
	return result;
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

/* The default pool of a device is there for good once it was used. */
static drv_result pool_open(struct CUmemPoolHandle_st *pool, int device)
{
	int err = 0;

	pthread_mutex_lock(&lock);
	if (!pool->be)
		err = backend_host.open(device, &pool->be);
	if (!err)
		pool->device = device;
	pthread_mutex_unlock(&lock);
	return result_of(err);
}

/* A pool of a program's own gives memory back at every synchronisation, unless it was told to keep it. */
drv_result cuMemAllocFromPoolAsync(drv_deviceptr *va, size_t size, drv_mem_pool pool, drv_stream stream)
{
	drv_result result;

	BEGIN_IN(cuMemAllocFromPoolAsync, context);
	stream_check("cuMemAllocFromPoolAsync", stream);
	if (pool != &default_pool[context->device] && pool->threshold != UINT64_MAX)
		return DRV_ERROR_NOT_SUPPORTED;
	result = pool_open(pool, context->device);
	return result ? result : pool_alloc(va, size, pool, stream);
}

drv_result cuMemAllocAsync(drv_deviceptr *va, size_t size, drv_stream stream)
{
	struct CUmemPoolHandle_st *pool;
	drv_result result;

	BEGIN_IN(cuMemAllocAsync, context);
	stream_check("cuMemAllocAsync", stream);
	context = stream_home(stream, context);
	pool = current_pool[context->device];
	if (!pool)
		pool = &default_pool[context->device];
	result = pool_open(pool, context->device);
	return result ? result : pool_alloc(va, size, pool, stream);
}

drv_result cuDeviceGetDefaultMemPool(drv_mem_pool *pool, drv_device device)
{
	BEGIN(cuDeviceGetDefaultMemPool);
	*pool = &default_pool[device];
	return pool_open(*pool, device);
}

drv_result cuDeviceGetMemPool(drv_mem_pool *pool, drv_device device)
{
	BEGIN(cuDeviceGetMemPool);
	*pool = current_pool[device] ? current_pool[device] : &default_pool[device];
	return pool_open(*pool, device);
}

drv_result cuDeviceSetMemPool(drv_device device, drv_mem_pool pool)
{
	BEGIN(cuDeviceSetMemPool);
	current_pool[device] = pool;
	return DRV_SUCCESS;
}

static drv_result pool_give(drv_deviceptr va, drv_stream stream)
{
	struct CUmemPoolHandle_st *pool;
	drv_result result;

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

drv_result cuMemFreeAsync(drv_deviceptr va, drv_stream stream)
{
	BEGIN_IN(cuMemFreeAsync, context);
	stream_check("cuMemFreeAsync", stream);
	return pool_give(va, stream);
}

drv_result cuMemPoolTrimTo(drv_mem_pool pool, size_t keep)
{
	bool pending;

	BEGIN(cuMemPoolTrimTo);
	pool_check("cuMemPoolTrimTo", pool);
	return pool->be ? HOST(pool, small_trim, keep, &pending) : DRV_SUCCESS;
}
#else
static drv_result pool_give(drv_deviceptr va, drv_stream stream)
{
	(void)va;
	(void)stream;
	return DRV_ERROR_INVALID_VALUE;
}

void fake_cuda_drop_pools(void)
{
}

void pools_reset(int device)
{
	(void)device;
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
	result = unsafe(context, "cuMemAlloc");
	if (result)
		return result;
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

/* It waits for all work of the device. */
drv_result cuMemFree_v2(drv_deviceptr va)
{
	struct plain *plain;
	drv_result result;

	BEGIN_IN(cuMemFree, context);
	if (!va)
		return DRV_SUCCESS;
	result = unsafe(context, "cuMemFree") ?: result_of(host_stream_sync_all(context->device));
	if (result)
		return result;
	pthread_mutex_lock(&lock);
	plain = g_hash_table_lookup(plain_of, (gpointer)va);
	if (plain)
		result = plain_give(plain, va);
	if (plain && !result)
		g_hash_table_remove(plain_of, (gpointer)va);
	pthread_mutex_unlock(&lock);
	/* It takes the memory of its pools as well, and waits for no stream with that. */
	return plain ? result : pool_give(va, DRV_STREAM_PER_THREAD);
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
	stream_check("cuMemcpyDtoHAsync", stream);
	return transfer_submit(context, stream, &transfer);
}

drv_result cuMemcpyHtoDAsync_v2(drv_deviceptr to, const void *from, size_t size, drv_stream stream)
{
	const struct transfer transfer = { .to = (void *)to, .from = from, .size = size };

	BEGIN_IN(cuMemcpyHtoDAsync, context);
	stream_check("cuMemcpyHtoDAsync", stream);
	return transfer_submit(context, stream, &transfer);
}

drv_result cuMemcpyDtoDAsync_v2(drv_deviceptr to, drv_deviceptr from, size_t size, drv_stream stream)
{
	BEGIN_IN(cuMemcpyDtoDAsync, context);
	stream_check("cuMemcpyDtoDAsync", stream);
	/* What the library copies is not for a test to complete. */
	return capture_result(result_of(host_stream_copy(context->device, stream, to, from, size)));
}

drv_result cuMemsetD8Async(drv_deviceptr va, unsigned char value, size_t size, drv_stream stream)
{
	const struct transfer transfer = { .to = (void *)va, .value = value, .size = size };

	BEGIN_IN(cuMemsetD8Async, context);
	stream_check("cuMemsetD8Async", stream);
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
	(void)params;
	BEGIN(cuLaunchKernel);
	/* Whoever passes extra options is told what came with them. */
	if (extra)
		g_snprintf(extra[0], 256, "%u %u %u %u %u %u %u %p", grid_x, grid_y, grid_z, block_x, block_y, block_z,
			   shared_bytes, (void *)stream);
	return DRV_ERROR_INVALID_HANDLE;
}
