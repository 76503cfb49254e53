// SPDX-License-Identifier: LGPL-2.1-or-later
/* What a program is told of memory that it was served, and of the pool that it thinks it is from. */
#include <glib.h>

#include "cuda/fake-cuda-inside.h"
#include "preload/preload-fixture.h"

#define SIZE 3000000

/* As in cuda.h. */
enum { CONTEXT = 1, SYNC_MEMOPS = 6, RANGE_START_ADDR = 11, RANGE_SIZE = 12, CTX_SYNC_MEMOPS = 0x80 };

static void ranges(void)
{
	drv_enum attributes[] = { RANGE_SIZE, CONTEXT, RANGE_START_ADDR };
	drv_context context = (drv_context)&attributes;
	drv_deviceptr va, start;
	size_t size;
	void *values[] = { &size, &context, &start };

	/* A program asks for the range of an address inside a block, one attribute at a time, and several. */
	use_primary(0);
	va = alloc_bytes(SIZE);
	g_assert_cmpint(cuPointerGetAttribute(&start, RANGE_START_ADDR, va + 1000), ==, 0);
	g_assert_cmpint(cuPointerGetAttribute(&size, RANGE_SIZE, va + 1000), ==, 0);
	g_assert_cmphex(start, ==, va);
	g_assert_cmpuint(size, ==, SIZE);
	start = size = 0;
	g_assert_cmpint(cuPointerGetAttributes(3, attributes, values, va + 1000), ==, 0);

	/* It is the block as requested; other attributes are the driver's answers. */
	g_assert_cmphex(start, ==, va);
	g_assert_cmpuint(size, ==, SIZE);
	g_assert_null(context);

	/* Of memory that is nobody's the driver speaks. */
	g_assert_cmpint(cuPointerGetAttribute(&size, RANGE_SIZE, 77), ==, 0);
	g_assert_cmpuint(size, !=, SIZE);
}

static void address_range(void)
{
	drv_deviceptr va, base = 77;
	size_t size = 77;

	/* As a rule the range of an address is that of a mapping, as the driver says. */
	use_primary(0);
	va = alloc_bytes(SIZE);
	g_assert_cmpint(cuMemGetAddressRange_v2(&base, &size, va + 1000), ==, 0);
	g_assert_cmpuint(size, ==, 2 << 20);
}

static void address_range_of_block(void)
{
	drv_deviceptr va, base = 77;
	size_t size = 77;

	/* With VPMM_PRELOAD_RANGE=block it is that of the block; either answer can be left out. */
	use_primary(0);
	va = alloc_bytes(SIZE);
	g_assert_cmpint(cuMemGetAddressRange_v2(&base, NULL, va + 1000), ==, 0);
	g_assert_cmpint(cuMemGetAddressRange_v2(NULL, &size, va + 1000), ==, 0);
	g_assert_cmphex(base, ==, va);
	g_assert_cmpuint(size, ==, SIZE);
}

static void sync_memops(void)
{
	unsigned int flags;
	drv_deviceptr va;
	int yes = 1, no = 0;

	/* A program wants copies of a block to be synchronous, which they are not to begin with. */
	use_primary(0);
	va = alloc_bytes(SIZE);
	g_assert_cmpint(cuPointerSetAttribute(&no, SYNC_MEMOPS, va), ==, 0);
	g_assert_cmpint(cuCtxGetFlags(&flags), ==, 0);
	g_assert_cmphex(flags, ==, 0);
	g_assert_cmpint(cuPointerSetAttribute(&yes, SYNC_MEMOPS, va), ==, 0);

	/* Those of the context are; for other memory the driver answers. */
	g_assert_cmpint(cuCtxGetFlags(&flags), ==, 0);
	g_assert_cmphex(flags, ==, CTX_SYNC_MEMOPS);
	g_assert_cmpint(cuPointerSetAttribute(&yes, SYNC_MEMOPS, 77), ==, DRV_ERROR_NOT_SUPPORTED);

	/* They stay so for other blocks when the program has no more need of it for one. */
	g_assert_cmpint(cuPointerSetAttribute(&no, SYNC_MEMOPS, va), ==, 0);
	g_assert_cmpint(cuCtxGetFlags(&flags), ==, 0);
	g_assert_cmphex(flags, ==, CTX_SYNC_MEMOPS);
}

static uint64_t get(drv_mem_pool pool, drv_pool_attribute attribute)
{
	uint64_t value;

	g_assert_cmpint(cuMemPoolGetAttribute(pool, attribute, &value), ==, 0);
	return value;
}

static void pool_attributes(void)
{
	drv_mem_pool preset;
	uint64_t none = 0;
	drv_deviceptr va;

	/* A program has freed memory of the default pool. */
	use_primary(0);
	g_assert_cmpint(cuDeviceGetDefaultMemPool(&preset, 0), ==, 0);
	g_assert_cmpuint(get(preset, DRV_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), ==, 0);
	g_assert_cmpint(cuMemAllocAsync(&va, SIZE, NULL), ==, 0);
	g_assert_cmpuint(get(preset, DRV_MEMPOOL_ATTR_USED_MEM_CURRENT), >=, SIZE);
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);

	/* The pool's attributes count it as reserved, and not as used. */
	g_assert_cmpuint(get(preset, DRV_MEMPOOL_ATTR_USED_MEM_CURRENT), ==, 0);
	g_assert_cmpuint(get(preset, DRV_MEMPOOL_ATTR_USED_MEM_HIGH), >=, SIZE);
	g_assert_cmpuint(get(preset, DRV_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), >=, SIZE);

	/* Trimmed, it has nothing left; the high marks can begin anew. */
	g_assert_cmpint(cuMemPoolTrimTo(preset, 0), ==, 0);
	g_assert_cmpuint(get(preset, DRV_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), ==, 0);
	g_assert_cmpuint(get(preset, DRV_MEMPOOL_ATTR_RESERVED_MEM_HIGH), >=, SIZE);
	g_assert_cmpint(cuMemPoolSetAttribute(preset, DRV_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &none), ==, 0);
	g_assert_cmpuint(get(preset, DRV_MEMPOOL_ATTR_RESERVED_MEM_HIGH), ==, 0);
}

static void pool_attributes_of_small(void)
{
	drv_mem_pool preset;
	uint64_t none = 0;
	drv_deviceptr va;

	/* A program has only blocks that the driver's allocator serves for the library. */
	use_primary(0);
	g_assert_cmpint(cuDeviceGetDefaultMemPool(&preset, 0), ==, 0);
	va = alloc_async(1000, NULL);
	g_assert_cmpuint(get(preset, DRV_MEMPOOL_ATTR_USED_MEM_CURRENT), ==, 1000);
	g_assert_cmpuint(get(preset, DRV_MEMPOOL_ATTR_USED_MEM_HIGH), ==, 1000);

	/* The high mark has them, and keeps them, until it begins anew. */
	g_assert_cmpint(cuMemFreeAsync(va, NULL), ==, 0);
	g_assert_cmpuint(get(preset, DRV_MEMPOOL_ATTR_USED_MEM_CURRENT), ==, 0);
	g_assert_cmpuint(get(preset, DRV_MEMPOOL_ATTR_USED_MEM_HIGH), ==, 1000);
	g_assert_cmpint(cuMemPoolSetAttribute(preset, DRV_MEMPOOL_ATTR_USED_MEM_HIGH, &none), ==, 0);
	g_assert_cmpuint(get(preset, DRV_MEMPOOL_ATTR_USED_MEM_HIGH), ==, 0);
}

static bool reaches(int device, drv_deviceptr va)
{
	return !fake_cuda_check_access(device, va, SIZE);
}

static void peers(void)
{
	drv_deviceptr before, after;
	drv_context owner, peer;

	/* A program lets device 1 access the memory of device 0, and allocates before and after. */
	owner = use_primary(0);
	before = alloc_bytes(SIZE);
	peer = use_primary(1);
	g_assert_false(reaches(1, before));
	g_assert_cmpint(cuCtxEnablePeerAccess(owner, 0), ==, 0);
	g_assert_cmpint(cuCtxSetCurrent(owner), ==, 0);
	after = alloc_bytes(SIZE);

	/* It can access both, and device 2 neither. */
	g_assert_true(reaches(1, before) && reaches(1, after));
	g_assert_false(reaches(2, before) || reaches(2, after));

	/* Until that is taken back. */
	g_assert_cmpint(cuCtxSetCurrent(peer), ==, 0);
	g_assert_cmpint(cuCtxDisablePeerAccess(owner), ==, 0);
	g_assert_false(reaches(1, before) || reaches(1, after));
	g_assert_cmpint(cuCtxDisablePeerAccess(owner), ==, DRV_ERROR_INVALID_VALUE);
}

static void pool_access(void)
{
	const drv_access_desc in = { { DRV_MEM_LOCATION_TYPE_DEVICE, 1 }, DRV_MEM_ACCESS_FLAGS_PROT_READWRITE };
	const drv_access_desc out = { { DRV_MEM_LOCATION_TYPE_DEVICE, 1 }, DRV_MEM_ACCESS_FLAGS_PROT_NONE };
	drv_mem_pool preset;
	drv_context owner;
	drv_deviceptr va;

	/* A program lets device 1 access the default pool of device 0, and by its context as well. */
	owner = use_primary(0);
	g_assert_cmpint(cuDeviceGetDefaultMemPool(&preset, 0), ==, 0);
	g_assert_cmpint(cuMemAllocAsync(&va, SIZE, NULL), ==, 0);
	g_assert_false(reaches(1, va));
	g_assert_cmpint(cuMemPoolSetAccess(preset, &in, 1), ==, 0);
	g_assert_true(reaches(1, va));
	use_primary(1);
	g_assert_cmpint(cuCtxEnablePeerAccess(owner, 0), ==, 0);

	/* It keeps access until both are taken back. */
	g_assert_cmpint(cuMemPoolSetAccess(preset, &out, 1), ==, 0);
	g_assert_true(reaches(1, va));
	g_assert_cmpint(cuCtxDisablePeerAccess(owner), ==, 0);
	g_assert_false(reaches(1, va));
}

static void pool_access_elsewhere(void)
{
	const drv_access_desc in = { { DRV_MEM_LOCATION_TYPE_DEVICE, 1 }, DRV_MEM_ACCESS_FLAGS_PROT_READWRITE };
	drv_mem_pool preset;
	drv_deviceptr va;

	/* A program with no current context lets device 1 access the default pool of device 0. */
	use_primary(0);
	g_assert_cmpint(cuDeviceGetDefaultMemPool(&preset, 0), ==, 0);
	va = alloc_bytes(SIZE);
	g_assert_cmpint(cuCtxSetCurrent(NULL), ==, 0);
	g_assert_cmpint(cuMemPoolSetAccess(preset, &in, 1), ==, 0);

	/* It can access the memory. */
	g_assert_true(reaches(1, va));
}

static void peers_of_settings(void)
{
	drv_context owner;
	drv_deviceptr va;

	/* With VPMM_PEERS=1, a program lets devices 1 and 2 access the memory of device 0, and takes both back. */
	owner = use_primary(0);
	va = alloc_bytes(SIZE);
	for (int device = 1; device <= 2; device++) {
		use_primary(device);
		g_assert_cmpint(cuCtxEnablePeerAccess(owner, 0), ==, 0);
		g_assert_true(reaches(device, va));
		g_assert_cmpint(cuCtxDisablePeerAccess(owner), ==, 0);
	}

	/* Device 1 keeps access. */
	g_assert_true(reaches(1, va));
	g_assert_false(reaches(2, va));

	/* It does after a reset of its own, too. */
	g_assert_cmpint(cuDevicePrimaryCtxReset_v2(1), ==, 0);
	use_primary(1);
	g_assert_cmpint(cuCtxEnablePeerAccess(owner, 0), ==, 0);
	g_assert_cmpint(cuCtxDisablePeerAccess(owner), ==, 0);
	g_assert_true(reaches(1, va));
}

static void peers_of_other_contexts(void)
{
	drv_context owner, primary, others[2];
	drv_deviceptr va;

	/* Contexts of device 1 let it access the memory of device 0, and none but one of them is a primary one. */
	owner = use_primary(0);
	va = alloc_bytes(SIZE);
	primary = use_primary(1);
	g_assert_cmpint(cuCtxEnablePeerAccess(owner, 0), ==, 0);
	for (int i = 0; i < 2; i++) {
		g_assert_cmpint(fake_cuda_context_create(&others[i], 1), ==, 0);
		g_assert_cmpint(cuCtxSetCurrent(others[i]), ==, 0);
		g_assert_cmpint(cuCtxEnablePeerAccess(owner, 0), ==, 0);
	}

	/* It can until the last of them has taken that back. */
	g_assert_cmpint(cuCtxDisablePeerAccess(owner), ==, 0);
	g_assert_cmpint(cuCtxSetCurrent(primary), ==, 0);
	g_assert_cmpint(cuCtxDisablePeerAccess(owner), ==, 0);
	g_assert_true(reaches(1, va));
	g_assert_cmpint(cuCtxSetCurrent(others[0]), ==, 0);
	g_assert_cmpint(cuCtxDisablePeerAccess(owner), ==, 0);
	g_assert_false(reaches(1, va));
	g_assert_cmpint(cuCtxSetCurrent(primary), ==, 0);
	for (int i = 0; i < 2; i++)
		g_assert_cmpint(cuCtxDestroy_v2(others[i]), ==, 0);
}

static void peers_of_destroyed_contexts(void)
{
	drv_context owner, other;
	drv_deviceptr va;

	/*
	 * A context of device 1 lets it access the memory of device 0, and is destroyed; then one that may be at its
	 * address.
	 */
	owner = use_primary(0);
	va = alloc_bytes(SIZE);
	for (int i = 0; i < 2; i++) {
		g_assert_cmpint(fake_cuda_context_create(&other, 1), ==, 0);
		g_assert_cmpint(cuCtxSetCurrent(other), ==, 0);
		g_assert_cmpint(cuCtxEnablePeerAccess(owner, 0), ==, 0);
		g_assert_true(reaches(1, va));
		g_assert_cmpint(cuCtxSetCurrent(owner), ==, 0);
		g_assert_cmpint(cuCtxDestroy_v2(other), ==, 0);

		/* The access goes with it. */
		g_assert_false(reaches(1, va));
	}

	/* That of other contexts of the device stays. */
	use_primary(1);
	g_assert_cmpint(cuCtxEnablePeerAccess(owner, 0), ==, 0);
	g_assert_cmpint(fake_cuda_context_create(&other, 1), ==, 0);
	g_assert_cmpint(cuCtxDestroy_v2(other), ==, 0);
	g_assert_true(reaches(1, va));
	g_assert_cmpint(cuCtxDisablePeerAccess(owner), ==, 0);
	g_assert_false(reaches(1, va));
}

static void peers_refused(void)
{
	drv_context owner;
	drv_deviceptr va;

	/* The driver cannot map a device's memory for the peer. */
	owner = use_primary(0);
	va = alloc_bytes(SIZE);
	use_primary(1);
	fake_cuda_part(3);
	g_assert_cmpint(cuCtxEnablePeerAccess(owner, 0), ==, DRV_ERROR_PEER_ACCESS_UNSUPPORTED);

	fake_cuda_part(0);

	/* Or the device's context cannot be entered for that. */
	fake_cuda_fail("cuCtxPushCurrent", 0, 1, DRV_ERROR_UNKNOWN);
	g_assert_cmpint(cuCtxEnablePeerAccess(owner, 0), ==, DRV_ERROR_UNKNOWN);

	/* Nothing has changed, and it can be tried again. */
	g_assert_false(reaches(1, va));
	g_assert_cmpint(cuCtxEnablePeerAccess(owner, 0), ==, 0);
	g_assert_true(reaches(1, va));
}

static void peers_left_to_driver(void)
{
	const drv_access_desc in = { { DRV_MEM_LOCATION_TYPE_DEVICE, 1 }, DRV_MEM_ACCESS_FLAGS_PROT_READWRITE };
	drv_context owner = use_primary(0);
	drv_mem_pool preset;

	/* A setting of the pools cannot be understood, so there is none. */
	g_assert_cmpint(cuDeviceGetDefaultMemPool(&preset, 0), ==, 0);
	use_primary(1);

	/* The driver serves everything, and so it answers this. */
	g_assert_cmpint(cuCtxEnablePeerAccess(owner, 0), ==, 0);
	g_assert_cmpint(cuMemPoolSetAccess(preset, &in, 1), ==, 0);
	alloc_bytes(SIZE);
	g_assert_cmpuint(driver_calls("cuMemAlloc"), ==, 1);
	g_assert_cmpint(cuCtxDisablePeerAccess(owner), ==, 0);
}

static void peers_after_reset(void)
{
	drv_context owner;
	drv_deviceptr va;

	/* A device that others can access is reset. */
	owner = use_primary(0);
	alloc_bytes(SIZE);
	use_primary(1);
	g_assert_cmpint(cuCtxEnablePeerAccess(owner, 0), ==, 0);
	g_assert_cmpint(cuDevicePrimaryCtxReset_v2(0), ==, 0);

	/* What it allocates then is its own, and that of those that it lets in anew. */
	use_primary(0);
	va = alloc_bytes(SIZE);
	g_assert_false(reaches(1, va));
	use_primary(2);
	g_assert_cmpint(cuCtxEnablePeerAccess(owner, 0), ==, 0);
	g_assert_true(reaches(2, va));
	g_assert_false(reaches(1, va));
}

static void peers_of_context_beside_reset(void)
{
	drv_context owner, other;
	drv_deviceptr va;

	/* Both the primary context of device 1 and another one let it access the memory of device 0. */
	owner = use_primary(0);
	va = alloc_bytes(SIZE);
	use_primary(1);
	g_assert_cmpint(cuCtxEnablePeerAccess(owner, 0), ==, 0);
	g_assert_cmpint(fake_cuda_context_create(&other, 1), ==, 0);
	g_assert_cmpint(cuCtxSetCurrent(other), ==, 0);
	g_assert_cmpint(cuCtxEnablePeerAccess(owner, 0), ==, 0);

	/* The access of the other one outlives the primary one, and what that does when it is back. */
	g_assert_cmpint(cuDevicePrimaryCtxReset_v2(1), ==, 0);
	use_primary(1);
	g_assert_cmpint(cuCtxEnablePeerAccess(owner, 0), ==, 0);
	g_assert_cmpint(cuCtxDisablePeerAccess(owner), ==, 0);
	g_assert_true(reaches(1, va));
	g_assert_cmpint(cuCtxSetCurrent(other), ==, 0);
	g_assert_cmpint(cuCtxDisablePeerAccess(owner), ==, 0);
	g_assert_false(reaches(1, va));
	use_primary(1);
	g_assert_cmpint(cuCtxDestroy_v2(other), ==, 0);
}

static void release_owner(void)
{
	g_assert_cmpint(cuDevicePrimaryCtxRelease_v2(0), ==, 0);
}

/* Device 0 has a pool, and device 1 is current. Returns the context of device 0. */
static drv_context leave_to_other(void)
{
	drv_context owner = use_primary(0);

	alloc_bytes(SIZE);
	use_primary(1);
	return owner;
}

static void peers_of_context_that_went(void)
{
	const drv_access_desc in = { { DRV_MEM_LOCATION_TYPE_DEVICE, 1 }, DRV_MEM_ACCESS_FLAGS_PROT_READWRITE };
	drv_mem_pool preset;
	drv_context owner;

	/* The context of device 0 goes while device 1 is let in. */
	owner = leave_to_other();
	fake_cuda_meanwhile("cuCtxGetDevice", release_owner);
	g_assert_cmpint(cuCtxEnablePeerAccess(owner, 0), ==, 0);
	g_assert_cmpint(fake_cuda_retained(0), ==, 0);

	/* The same with a pool of the driver's. */
	g_assert_cmpint(cuDeviceGetDefaultMemPool(&preset, 0), ==, 0);
	leave_to_other();
	fake_cuda_meanwhile("cuMemPoolSetAccess", release_owner);
	g_assert_cmpint(cuMemPoolSetAccess(preset, &in, 1), ==, 0);
	g_assert_cmpint(fake_cuda_retained(0), ==, 0);
}

static GThread *releasing;

static gpointer release_in_thread(gpointer data)
{
	release_owner();
	return data;
}

/* Returns once the release has given up the pool, or waits for this thread. */
static void begin_release(void)
{
	uint64_t before = driver_calls("cuCtxSynchronize");

	releasing = g_thread_new("release", release_in_thread, NULL);
	for (int ms = 0; ms < 200 && driver_calls("cuCtxSynchronize") == before; ms++)
		g_usleep(1000);
}

static void peers_of_context_that_goes(void)
{
	drv_context owner;

	/* A thread begins to release the context of device 0 while its pool lets device 1 in. */
	owner = leave_to_other();
	fake_cuda_meanwhile("cuCtxPushCurrent", begin_release);
	g_assert_cmpint(cuCtxEnablePeerAccess(owner, 0), ==, 0);
	g_thread_join(releasing);

	/* No new pool keeps the context. */
	g_assert_cmpint(fake_cuda_retained(0), ==, 0);
}

int main(int argc, char **argv)
{
	static const struct preload_test tests[] = {
		{ "/attributes/ranges", ranges },
		{ "/attributes/address-range", address_range },
		{ "/attributes/address-range-of-block", address_range_of_block, { "VPMM_PRELOAD_RANGE=block" } },
		{ "/attributes/sync-memops", sync_memops },
		{ "/attributes/pool", pool_attributes },
		{ "/attributes/pool-small", pool_attributes_of_small, { "VPMM_SMALL=driver" } },
		{ "/attributes/peers", peers, { "VPMM_HOST_DEVICES=3" } },
		{ "/attributes/pool-access", pool_access, { "VPMM_HOST_DEVICES=3" } },
		{ "/attributes/pool-access-elsewhere", pool_access_elsewhere, { "VPMM_HOST_DEVICES=2" } },
		{ "/attributes/peers-of-settings", peers_of_settings, { "VPMM_HOST_DEVICES=3", "VPMM_PEERS=1" } },
		{ "/attributes/peers-of-other-contexts", peers_of_other_contexts, { "VPMM_HOST_DEVICES=2" } },
		{ "/attributes/peers-of-destroyed-contexts", peers_of_destroyed_contexts, { "VPMM_HOST_DEVICES=2" } },
		{ "/attributes/peers-refused", peers_refused, { "VPMM_HOST_DEVICES=3" } },
		{ "/attributes/peers-no-pool", peers_left_to_driver, { "VPMM_HOST_DEVICES=2", "VPMM_LIMIT=64X" } },
		{ "/attributes/peers-after-reset", peers_after_reset, { "VPMM_HOST_DEVICES=3" } },
		{ "/attributes/peers-of-context-beside-reset", peers_of_context_beside_reset, { "VPMM_HOST_DEVICES=2" } },
		{ "/attributes/peers-of-context-that-went", peers_of_context_that_went, { "VPMM_HOST_DEVICES=2" } },
		{ "/attributes/peers-of-context-that-goes", peers_of_context_that_goes, { "VPMM_HOST_DEVICES=2" } },
	};

	return preload_main(argc, argv, tests, G_N_ELEMENTS(tests));
}
