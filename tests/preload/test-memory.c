// SPDX-License-Identifier: LGPL-2.1-or-later
/* What a program's calls for memory do under the preload object: who serves them, and with which answers and waits. */
#include <glib.h>
#include <string.h>

#include "cuda/fake-cuda-inside.h"
#include "preload/preload-fixture.h"
#include "support/folder.h"

#define SIZE 3000000

static size_t free_memory(void)
{
	size_t free, total;

	g_assert_cmpint(cuMemGetInfo_v2(&free, &total), ==, 0);
	g_assert_cmpuint(free, <=, total);
	return free;
}

static void answers(void)
{
	drv_deviceptr va, other;
	size_t pitch;

	/* A program allocates from its primary context. */
	use_primary(0);
	va = alloc_bytes(SIZE);

	/* Nothing, an address inside and an address freed before are refused; the null address is fine. */
	g_assert_cmpint(cuMemAlloc_v2(&other, 0), ==, DRV_ERROR_INVALID_VALUE);
	g_assert_cmpint(cuMemFree_v2(va + 512), ==, DRV_ERROR_INVALID_VALUE);
	g_assert_cmpint(cuMemFree_v2(0), ==, 0);
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);
	g_assert_cmpint(cuMemFree_v2(va), ==, DRV_ERROR_INVALID_VALUE);

	/* Rows begin at multiples of 512 bytes; an element has 4, 8 or 16. */
	g_assert_cmpint(cuMemAllocPitch_v2(&va, &pitch, 513, 100, 4), ==, 0);
	g_assert_cmpuint(pitch, ==, 1024);
	g_assert_cmpint(cuMemAllocPitch_v2(&other, &pitch, 513, 100, 3), ==, DRV_ERROR_INVALID_VALUE);
	g_assert_cmpint(cuMemAllocPitch_v2(&other, &pitch, SIZE_MAX, 100, 4), !=, 0);

	/* A free needs no current context. */
	g_assert_cmpint(cuCtxSetCurrent(NULL), ==, 0);
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);
}

static void free_waits(void)
{
	drv_stream stream;
	drv_deviceptr va;

	/* A stream has work, and the program frees memory. */
	use_primary(0);
	stream = new_stream();
	va = alloc_bytes(SIZE);
	g_assert_cmpint(fake_cuda_submit(stream), ==, 0);
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);

	/* The work is done by then. */
	g_assert_cmpint(cuStreamQuery(stream), ==, 0);
}

static void free_orders(void)
{
	drv_stream stream;
	drv_deviceptr va, again;

	/* The same with VPMM_PRELOAD_FREE=ordered. */
	use_primary(0);
	stream = new_stream();
	va = alloc_bytes(SIZE);
	g_assert_cmpint(fake_cuda_submit(stream), ==, 0);
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);

	/* The work is still pending, and nobody gets the memory. */
	g_assert_cmpint(cuStreamQuery(stream), ==, DRV_ERROR_NOT_READY);
	again = alloc_bytes(SIZE);
	g_assert_cmphex(again, !=, va);

	/* When it is done, somebody does. */
	g_assert_cmpint(fake_cuda_complete(stream, 1), ==, 0);
	g_assert_cmphex(alloc_bytes(SIZE), ==, va);
}

static void earlier_error(void)
{
	drv_deviceptr va;

	/* The device reports an earlier failure when the program frees. */
	use_primary(0);
	va = alloc_bytes(SIZE);
	fake_cuda_fail("cuEventSynchronize", 0, 1, DRV_ERROR_LAUNCH_FAILED);
	g_assert_cmpint(cuMemFree_v2(va), ==, DRV_ERROR_LAUNCH_FAILED);

	/* The block is still there. */
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);
}

static void ordered(void)
{
	drv_mem_pool preset;
	drv_stream stream;
	drv_deviceptr va;

	/* A program uses the stream-ordered allocator, with either kind of default stream, and by the default pool. */
	use_primary(0);
	stream = new_stream();
	g_assert_cmpint(cuDeviceGetDefaultMemPool(&preset, 0), ==, 0);
	g_assert_cmpint(cuMemFreeAsync(alloc_async(SIZE, stream), stream), ==, 0);
	g_assert_cmpint(cuMemAllocAsync_ptsz(&va, SIZE, NULL), ==, 0);
	g_assert_cmpint(cuMemFreeAsync_ptsz(va, NULL), ==, 0);
	g_assert_cmpint(cuMemAllocFromPoolAsync(&va, SIZE, preset, stream), ==, 0);
	g_assert_cmpint(cuMemFreeAsync(va, stream), ==, 0);

	/* We serve it, and the order is that of the stream: a block that was freed comes back at once. */
	g_assert_cmpuint(driver_calls("cuMemAllocAsync") + driver_calls("cuMemAllocFromPoolAsync"), ==, 0);
	g_assert_cmpint(fake_cuda_submit(stream), ==, 0);
	va = alloc_async(SIZE, stream);
	g_assert_cmpint(cuMemFreeAsync(va, stream), ==, 0);
	g_assert_cmphex(alloc_async(SIZE, stream), ==, va);
	g_assert_cmpint(cuStreamQuery(stream), ==, DRV_ERROR_NOT_READY);

	/* Each kind of memory can be freed by the other call, and what is nobody's by none. */
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);
	g_assert_cmpint(cuMemFreeAsync(alloc_bytes(SIZE), stream), ==, 0);
	g_assert_cmpint(cuMemFreeAsync(va + 512, stream), ==, DRV_ERROR_INVALID_VALUE);
}

static void refused_stream(void)
{
	drv_deviceptr va;

	/* The driver refuses a stream, as it does the legacy default stream beside the capture of a blocking one. */
	use_primary(0);
	va = alloc_async(SIZE, NULL);
	fake_cuda_fail("cuStreamIsCapturing", 0, 1, DRV_ERROR_STREAM_CAPTURE_IMPLICIT);
	fake_cuda_fail("cuMemAllocAsync", 0, 1, DRV_ERROR_STREAM_CAPTURE_IMPLICIT);
	g_assert_cmpint(cuMemFreeAsync(va, NULL), ==, DRV_ERROR_STREAM_CAPTURE_IMPLICIT);

	/* So does the free, and the block is still there; unless it is all right by then. */
	fake_cuda_fail("cuStreamIsCapturing", 0, 1, DRV_ERROR_STREAM_CAPTURE_IMPLICIT);
	g_assert_cmpint(cuMemFreeAsync(va, NULL), ==, 0);
	g_assert_cmpint(cuMemFreeAsync(va, NULL), ==, DRV_ERROR_INVALID_VALUE);

	/* What is not ours is the driver's to judge. */
	fake_cuda_fail("cuStreamIsCapturing", 0, 1, DRV_ERROR_STREAM_CAPTURE_IMPLICIT);
	g_assert_cmpint(cuMemFreeAsync(SIZE, NULL), ==, DRV_ERROR_INVALID_VALUE);
}

static void other_pools(void)
{
	const drv_mem_pool_props props = {
		.type = DRV_MEM_ALLOCATION_TYPE_PINNED,
		.location = { DRV_MEM_LOCATION_TYPE_DEVICE, 0 },
	};
	uint64_t all = UINT64_MAX;
	drv_mem_pool pool;
	drv_stream stream;
	drv_deviceptr va;

	/* A program has a pool of its own, allocates from it, and makes it the device's. */
	use_primary(0);
	stream = new_stream();
	g_assert_cmpint(cuMemPoolCreate(&pool, &props), ==, 0);
	g_assert_cmpint(cuMemPoolSetAttribute(pool, DRV_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all), ==, 0);
	g_assert_cmpint(cuMemAllocFromPoolAsync(&va, SIZE, pool, stream), ==, 0);
	g_assert_cmpint(cuMemFreeAsync(va, stream), ==, 0);
	g_assert_cmpint(cuDeviceSetMemPool(0, pool), ==, 0);
	va = alloc_async(SIZE, stream);
	g_assert_cmpint(cuMemFree_v2(va) ? cuMemFreeAsync(va, stream) : 0, ==, 0);

	/* All of that is the driver's. */
	g_assert_cmpuint(driver_calls("cuMemAllocFromPoolAsync"), ==, 1);
	g_assert_cmpuint(driver_calls("cuMemAllocAsync"), ==, 1);
	g_assert_cmpuint(driver_calls("cuMemCreate"), ==, 0);
}

static void freed_twice(void)
{
	drv_deviceptr va, again[2];
	drv_stream stream;

	/* A program frees memory twice that the driver's allocator serves for the library. */
	use_primary(0);
	stream = new_stream();
	for (int way = 0; way < 4; way++) {
		va = way & 1 ? alloc_bytes(1000) : alloc_async(1000, stream);
		g_assert_cmpint(cuMemFree_v2(va), ==, 0);
		g_assert_cmpint(way & 2 ? cuMemFree_v2(va) : cuMemFreeAsync(va, stream), ==, DRV_ERROR_INVALID_VALUE);

		/* The second free has done nothing: no address is given twice. */
		for (int i = 0; i < 2; i++)
			again[i] = alloc_async(1000, stream);
		g_assert_cmphex(again[0], !=, again[1]);
		for (int i = 0; i < 2; i++)
			g_assert_cmpint(cuMemFreeAsync(again[i], stream), ==, 0);
	}
}

/*
 * A program frees memory twice while the first free waits for work. The library has it from the driver until then, so a
 * real one would take it back at the second free, which is not to get that far.
 */
static void freed_twice_at_work(void)
{
	drv_deviceptr va;
	drv_stream stream;
	uint64_t before;

	use_primary(0);
	stream = new_stream();
	va = alloc_async(1000, stream);
	g_assert_cmpint(fake_cuda_submit(stream), ==, 0);
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);
	before = driver_calls("cuMemFree");
	g_assert_cmpint(cuMemFree_v2(va), ==, DRV_ERROR_INVALID_VALUE);
	g_assert_cmpuint(driver_calls("cuMemFree"), ==, before);
	fake_cuda_complete(stream, UINT_MAX);
}

static void failed_free(void)
{
	drv_deviceptr va;

	/* The driver fails once to take back what it has for the library. */
	use_primary(0);
	va = alloc_async(1000, NULL);
	fake_cuda_fail("cuMemFreeAsync", 0, 1, DRV_ERROR_UNKNOWN);
	g_assert_cmpint(cuMemFreeAsync(va, NULL), ==, DRV_ERROR_UNKNOWN);

	/* So does the free, and the block is still there. */
	g_assert_cmpint(cuMemFreeAsync(va, NULL), ==, 0);
	g_assert_cmpint(cuMemFreeAsync(va, NULL), ==, DRV_ERROR_INVALID_VALUE);
}

static void captured(void)
{
	drv_deviceptr va, outside;
	drv_stream stream;
	drv_graph graph;

	/* A stream is under capture when it allocates. */
	use_primary(0);
	stream = new_stream();
	outside = alloc_async(SIZE, stream);
	g_assert_cmpint(cuStreamBeginCapture_v2(stream, DRV_STREAM_CAPTURE_MODE_RELAXED), ==, 0);
	cuMemAllocAsync(&va, SIZE, stream);

	/* The driver is asked. */
	g_assert_cmpuint(driver_calls("cuMemAllocAsync"), ==, 1);
	g_assert_cmpint(cuStreamEndCapture(stream, &graph), ==, 0);
	g_assert_cmpint(cuGraphDestroy(graph), ==, 0);
	g_assert_cmpint(cuMemFreeAsync(outside, stream), ==, 0);
}

static void free_memory_is_told(void)
{
	drv_deviceptr va;
	size_t before, total;

	/* A program has freed memory that the library keeps. */
	use_primary(0);
	before = free_memory();
	va = alloc_bytes(SIZE);
	g_assert_cmpuint(free_memory(), <=, before - SIZE);
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);

	/* It counts as free; either answer can be left out. */
	g_assert_cmpuint(free_memory(), ==, before);
	g_assert_cmpint(cuMemGetInfo_v2(NULL, &total), ==, 0);
	g_assert_cmpint(cuMemGetInfo_v2(&before, NULL), ==, 0);
}

static void limited(void)
{
	size_t free, total, alone;
	drv_deviceptr va;

	/* With a limit or a budget of 64 MiB, a program is told of so much, and less of what it has. */
	use_primary(0);
	g_assert_cmpuint(free_memory(), ==, 64 << 20);
	g_assert_cmpint(cuMemGetInfo_v2(&free, &total), ==, 0);
	g_assert_cmpint(cuMemGetInfo_v2(NULL, &alone), ==, 0);
	g_assert_cmpuint(alone, ==, total);
	va = alloc_bytes(32 << 20);
	g_assert_cmpuint(free_memory(), ==, 32 << 20);

	/* It does not get more, not even from the driver. */
	g_assert_cmpint(cuMemAlloc_v2(&va, 33 << 20), ==, DRV_ERROR_OUT_OF_MEMORY);
	g_assert_cmpint(cuMemAllocAsync(&va, 33 << 20, NULL), ==, DRV_ERROR_OUT_OF_MEMORY);
	g_assert_cmpuint(driver_calls("cuMemAlloc") + driver_calls("cuMemAllocAsync"), ==, 0);
}

static void exhausted(void)
{
	drv_deviceptr va;

	/* The library gets no memory of the device, once. */
	use_primary(0);
	alloc_bytes(SIZE);
	fake_cuda_fail("cuMemCreate", 0, 100, DRV_ERROR_OUT_OF_MEMORY);
	va = alloc_bytes(100 << 20);

	/* The driver has served the program. */
	g_assert_cmpuint(driver_calls("cuMemAlloc"), ==, 1);
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);
	g_assert_cmpuint(driver_calls("cuMemFree"), ==, 1);
}

static void room_for_driver(void)
{
	drv_context own;
	drv_deviceptr va;

	/* With VPMM_PRELOAD_IPC=driver, the library has all memory that the driver needs, and has no use for it. */
	use_primary(0);
	g_assert_cmpint(cuMemFreeAsync(alloc_async(SIZE, NULL), NULL), ==, 0);
	fake_cuda_fail("cuMemAlloc", 0, 1, DRV_ERROR_OUT_OF_MEMORY);
	va = alloc_bytes(SIZE);

	/* The driver has served the program with it, as it does in a context of the program's own. */
	g_assert_cmpuint(driver_calls("cuMemRelease"), >, 0);
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);
	g_assert_cmpint(cuMemFreeAsync(alloc_async(SIZE, NULL), NULL), ==, 0);
	g_assert_cmpint(fake_cuda_context_create(&own, 0), ==, 0);
	g_assert_cmpint(cuCtxSetCurrent(own), ==, 0);
	fake_cuda_fail("cuMemAlloc", 0, 1, DRV_ERROR_OUT_OF_MEMORY);
	g_assert_cmpint(cuMemFree_v2(alloc_bytes(SIZE)), ==, 0);

	/* If the library has none, there is none. */
	fake_cuda_fail("cuMemAlloc", 0, 1, DRV_ERROR_OUT_OF_MEMORY);
	g_assert_cmpint(cuMemAlloc_v2(&va, SIZE), ==, DRV_ERROR_OUT_OF_MEMORY);
	g_assert_cmpint(cuCtxSetCurrent(NULL), ==, 0);
	g_assert_cmpint(cuCtxDestroy_v2(own), ==, 0);
}

static void other_context(void)
{
	drv_context context;
	drv_deviceptr va;

	/* A program allocates in a context of its own. */
	use_primary(0);
	g_assert_cmpint(fake_cuda_context_create(&context, 0), ==, 0);
	g_assert_cmpint(cuCtxPushCurrent_v2(context), ==, 0);
	va = alloc_bytes(SIZE);
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);

	/* The driver has served it. */
	g_assert_cmpuint(driver_calls("cuMemAlloc"), ==, 1);
	g_assert_cmpuint(driver_calls("cuMemFree"), ==, 1);
}

static void plain_left_to_driver(void)
{
	drv_deviceptr va;

	/* With VPMM_PRELOAD_IPC=driver plain memory is the driver's, and the other kind ours. */
	use_primary(0);
	va = alloc_bytes(SIZE);
	g_assert_cmpuint(driver_calls("cuMemAlloc"), ==, 1);
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);
	alloc_async(SIZE, NULL);
	g_assert_cmpuint(driver_calls("cuMemAllocAsync"), ==, 0);
}

static void ordered_left_to_driver(void)
{
	/* With VPMM_PRELOAD_ASYNC=driver it is the other way round. */
	use_primary(0);
	alloc_bytes(SIZE);
	g_assert_cmpuint(driver_calls("cuMemAlloc"), ==, 0);
	alloc_async(SIZE, NULL);
	g_assert_cmpuint(driver_calls("cuMemAllocAsync"), ==, 1);
}

static void sizes(void)
{
	/* With VPMM_PRELOAD_MIN=1M and VPMM_PRELOAD_MAX=4M, what is smaller or larger is the driver's. */
	use_primary(0);
	alloc_bytes((1 << 20) - 1);
	alloc_bytes((4 << 20) + 1);
	g_assert_cmpuint(driver_calls("cuMemAlloc"), ==, 2);
	alloc_bytes(1 << 20);
	alloc_bytes(4 << 20);
	g_assert_cmpuint(driver_calls("cuMemAlloc"), ==, 2);
}

static void bad_setting(void)
{
	/* A setting cannot be understood. */
	use_primary(0);
	alloc_bytes(SIZE);

	/* The driver serves everything. */
	g_assert_cmpuint(driver_calls("cuMemAlloc"), ==, 1);
}

static void alloc_twice(drv_deviceptr va)
{
	g_assert_cmpint(cuMemAlloc_v2(&va, SIZE), ==, 0);
	g_assert_cmpint(cuMemAllocAsync(&va, SIZE, NULL), ==, 0);
}

static void no_pool(void)
{
	char *said;

	/* A setting of the pools cannot be understood, so there is none. */
	use_primary(0);
	said = said_by(alloc_twice, 0);

	/* The driver serves everything, and one line says why. */
	g_assert_cmpuint(driver_calls("cuMemAlloc"), ==, 1);
	g_assert_cmpuint(driver_calls("cuMemAllocAsync"), ==, 1);
	g_assert_true(g_str_has_prefix(said, "libvpmm-preload: "));
	g_assert_nonnull(strstr(said, "VPMM_LIMIT=64X"));
	g_assert_cmpint(g_strstr_len(said, -1, "\n")[1], ==, '\0');
	g_free(said);
}

static void begin_and_alloc(drv_deviceptr va)
{
	use_primary(0);
	alloc_twice(va);
}

static void assert_left_to_driver(char *said, const char *why)
{
	g_assert_cmpuint(driver_calls("cuMemAlloc"), ==, 1);
	g_assert_cmpuint(driver_calls("cuMemAllocAsync"), ==, 1);
	g_assert_cmpstr(said, ==, why);
	g_free(said);
}

static void host_backend(void)
{
	/* With VPMM_BACKEND=host pools have ordinary memory, so the driver serves everything, and one line says why. */
	assert_left_to_driver(said_by(begin_and_alloc, 0),
			      "libvpmm-preload: VPMM_BACKEND=host has no device memory; all calls go to the driver\n");
}

static void host_pools(void)
{
	/* The program has default pools of the host backend itself, with a limit. */
	use_primary(0);
	g_setenv("VPMM_BACKEND", "host", TRUE);

	/* The limit is none of the device's memory, and what a program allocates there is the driver's. */
	g_assert_cmpuint(free_memory(), >, 1 << 20);
	assert_left_to_driver(said_by(alloc_twice, 0), "libvpmm-preload: the default pools are of the host backend; "
			      "all calls go to the driver\n");
}

static void reset(void)
{
	size_t before;
	int round;

	/* A program resets the device with memory allocated, by either variant, and goes on. */
	use_primary(0);
	before = free_memory();
	for (round = 0; round < 4; round++) {
		alloc_bytes(SIZE);
		alloc_async(SIZE, NULL);
		g_assert_cmpint(round & 1 ? cuDevicePrimaryCtxReset(0) : cuDevicePrimaryCtxReset_v2(0), ==, 0);
		use_primary(0);
	}

	/* All memory is back, and the library still serves. */
	g_assert_cmpuint(free_memory(), ==, before);
	g_assert_cmpuint(driver_calls("cuMemAlloc"), ==, 0);
}

static void failed_entry(void)
{
	/* The context of a device that is reset cannot be entered before. */
	use_primary(0);
	alloc_bytes(SIZE);
	fake_cuda_fail("cuCtxPushCurrent", 0, 1, DRV_ERROR_UNKNOWN);
	g_assert_cmpint(cuDevicePrimaryCtxReset_v2(0), ==, 0);

	/* The library goes on to serve, without a stream of the context that was reset. */
	use_primary(0);
	g_assert_cmpint(cuMemFree_v2(alloc_bytes(SIZE)), ==, 0);
	g_assert_cmpuint(driver_calls("cuMemAlloc"), ==, 0);
}

static void last_release(void)
{
	drv_context context;
	drv_deviceptr va;

	/* A program retains the context twice, allocates, and releases it as often. */
	use_primary(0);
	g_assert_cmpint(cuDevicePrimaryCtxRetain(&context, 0), ==, 0);
	alloc_bytes(SIZE);
	g_assert_cmpint(cuDevicePrimaryCtxRelease_v2(0), ==, 0);
	g_assert_cmpint(fake_cuda_retained(0), >, 0);
	g_assert_cmpint(cuDevicePrimaryCtxRelease(0), ==, 0);

	/* Nobody holds it any more, and there is no memory in it. */
	g_assert_cmpint(fake_cuda_retained(0), ==, 0);
	g_assert_cmpint(cuMemAlloc_v2(&va, SIZE), ==, DRV_ERROR_CONTEXT_IS_DESTROYED);
	g_assert_cmpint(cuMemAllocAsync(&va, SIZE, NULL), ==, DRV_ERROR_CONTEXT_IS_DESTROYED);
	g_assert_cmpint(fake_cuda_retained(0), ==, 0);

	/* Until it is retained again. */
	use_primary(0);
	alloc_bytes(SIZE);
	g_assert_cmpuint(driver_calls("cuMemAlloc"), ==, 1);
}

static drv_deviceptr others;

static gpointer retain_and_alloc(gpointer unused)
{
	(void)unused;
	use_primary(0);
	others = alloc_bytes(SIZE);
	return NULL;
}

static void retain_on_other_thread(void)
{
	g_thread_join(g_thread_new("retain", retain_and_alloc, NULL));
}

static void release_beside_retain(void)
{
	/* While a program's last release waits for the device, another thread retains the context, and allocates. */
	use_primary(0);
	alloc_bytes(SIZE);
	fake_cuda_meanwhile("cuCtxSynchronize", retain_on_other_thread);
	g_assert_cmpint(cuDevicePrimaryCtxRelease_v2(0), ==, 0);

	/* That memory is there until it is freed, and the context until it is released. */
	g_assert_cmpint(cuMemFree_v2(others), ==, 0);
	g_assert_cmpint(cuDevicePrimaryCtxRelease_v2(0), ==, 0);
	g_assert_cmpint(fake_cuda_retained(0), ==, 0);

	/* The library serves those that come later. */
	use_primary(0);
	g_assert_cmpint(cuMemFree_v2(alloc_bytes(SIZE)), ==, 0);
	g_assert_cmpuint(driver_calls("cuMemAlloc"), ==, 1);
}

static void failed_release(void)
{
	/* A program's last release fails. */
	use_primary(0);
	alloc_bytes(SIZE);
	fake_cuda_fail("cuDevicePrimaryCtxRelease", 1, 1, DRV_ERROR_UNKNOWN);
	g_assert_cmpint(cuDevicePrimaryCtxRelease_v2(0), ==, DRV_ERROR_UNKNOWN);

	/* The context is there, and served. */
	g_assert_cmpint(fake_cuda_retained(0), ==, 1);
	alloc_bytes(SIZE);
	g_assert_cmpuint(driver_calls("cuMemAlloc"), ==, 0);
}

static void stream_destroyed(void)
{
	drv_stream stream;
	drv_deviceptr va;

	/* A program frees on a stream with pending work, and destroys it. */
	use_primary(0);
	stream = new_stream();
	va = alloc_async(SIZE, stream);
	g_assert_cmpint(fake_cuda_submit(stream), ==, 0);
	g_assert_cmpint(cuMemFreeAsync(va, stream), ==, 0);
	g_assert_cmpint(cuStreamDestroy_v2(stream), ==, 0);

	/* Others have the memory when the work is done. */
	g_assert_cmphex(alloc_bytes(SIZE), ==, va);
}

int main(int argc, char **argv)
{
	/* Only the process that runs the tests names the budget. */
	char *folder = g_getenv("VPMM_TEST_SCENE") ? NULL : g_dir_make_tmp("vpmm-memory-XXXXXX", NULL);
	char *budget = g_strdup_printf("VPMM_BUDGET=%s/limited:64M", folder ? folder : "");
	const struct preload_test tests[] = {
		{ "/memory/answers", answers },
		{ "/memory/free-waits", free_waits },
		{ "/memory/free-orders", free_orders, { "VPMM_PRELOAD_FREE=ordered" } },
		{ "/memory/earlier-error", earlier_error },
		{ "/memory/ordered", ordered },
		{ "/memory/other-pools", other_pools },
		{ "/memory/refused-stream", refused_stream },
		{ "/memory/freed-twice", freed_twice },
		{ "/memory/freed-twice-driver-small", freed_twice, { "VPMM_SMALL=driver" } },
		{ "/memory/freed-twice-at-work", freed_twice_at_work,
		  { "VPMM_SMALL=driver", "VPMM_PRELOAD_FREE=ordered" } },
		{ "/memory/freed-twice-ordered", freed_twice, { "VPMM_SMALL=driver", "VPMM_PRELOAD_FREE=ordered" } },
		{ "/memory/failed-free", failed_free, { "VPMM_SMALL=driver" } },
		{ "/memory/captured", captured },
		{ "/memory/info", free_memory_is_told },
		{ "/memory/limit", limited, { "VPMM_LIMIT=64M" } },
		{ "/memory/budget", limited, { budget } },
		{ "/memory/exhausted", exhausted },
		{ "/memory/room-for-driver", room_for_driver, { "VPMM_PRELOAD_IPC=driver" } },
		{ "/memory/other-context", other_context },
		{ "/memory/ipc-driver", plain_left_to_driver, { "VPMM_PRELOAD_IPC=driver" } },
		{ "/memory/async-driver", ordered_left_to_driver, { "VPMM_PRELOAD_ASYNC=driver" } },
		{ "/memory/sizes", sizes, { "VPMM_PRELOAD_MIN=1M", "VPMM_PRELOAD_MAX=4M" } },
		{ "/memory/bad-word", bad_setting, { "VPMM_PRELOAD_FREE=never" } },
		{ "/memory/bad-size", bad_setting, { "VPMM_PRELOAD_MAX=4X" } },
		{ "/memory/no-pool", no_pool, { "VPMM_LIMIT=64X" } },
		{ "/memory/host-backend", host_backend, { "VPMM_BACKEND=host" } },
		{ "/memory/host-pools", host_pools, { "VPMM_LIMIT=1M" } },
		{ "/memory/host-pools-served", host_pools, { "VPMM_LIMIT=64M" } },
		{ "/memory/reset", reset },
		{ "/memory/failed-entry", failed_entry },
		{ "/memory/last-release", last_release },
		{ "/memory/release-beside-retain", release_beside_retain },
		{ "/memory/failed-release", failed_release },
		{ "/memory/stream-destroyed", stream_destroyed },
	};
	int status = preload_main(argc, argv, tests, G_N_ELEMENTS(tests));

	if (folder)
		folder_remove(folder);
	g_free(folder);
	g_free(budget);
	return status;
}
