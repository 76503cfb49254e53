// SPDX-License-Identifier: LGPL-2.1-or-later
/* Streams of other contexts than the memory, and streams, captures and frees that outlive something. */
#include <glib.h>
#include <limits.h>
#include <pthread.h>

#include "cuda/fake-cuda-inside.h"
#include "preload/preload-fixture.h"
#include "util/assume.h"

#define SIZE 3000000

static void allocated_for_other_device(void)
{
	drv_stream stream;
	drv_deviceptr va;

	/* A program allocates on a stream of another device than the current one. */
	use_primary(1);
	stream = new_stream();
	use_primary(0);
	va = alloc_async(SIZE, stream);

	/* The memory is of the stream's device, so not of the library's pool here: the driver serves, and frees. */
	g_assert_cmpuint(driver_calls("cuMemAllocAsync"), ==, 1);
	g_assert_cmpint(cuMemFreeAsync(va, stream), ==, 0);
}

/* Frees @va on @stream, which has work, and sees that it is free behind that. */
static void free_behind(drv_deviceptr va, drv_stream stream)
{
	g_assert_cmpint(cuMemFreeAsync(va, stream), ==, 0);
	g_assert_cmpint(cuStreamQuery(stream), ==, 0);
	g_assert_cmpint(cuMemFreeAsync(va, stream), ==, DRV_ERROR_INVALID_VALUE);
}

static void freed_on_other_device(void)
{
	drv_deviceptr va[3];
	drv_stream stream;

	/* A program frees memory of one device on a stream of another, and on the default one of the other. */
	use_primary(0);
	for (int i = 0; i < 3; i++)
		va[i] = alloc_bytes(SIZE);
	use_primary(1);
	stream = new_stream();
	g_assert_cmpint(fake_cuda_submit(stream), ==, 0);
	free_behind(va[0], stream);
	g_assert_cmpint(fake_cuda_submit(NULL), ==, 0);
	free_behind(va[1], NULL);

	/* With the memory's device current that is no different. */
	g_assert_cmpint(fake_cuda_submit(stream), ==, 0);
	use_primary(0);
	free_behind(va[2], stream);

	/* Its work is done by then, and the memory is there for others. */
	for (int i = 0; i < 3; i++)
		va[i] = alloc_bytes(SIZE);
	g_assert_cmpuint(driver_calls("cuMemAlloc"), ==, 0);
}

static void freed_in_other_context(void)
{
	drv_context context;
	drv_deviceptr va;

	/* A program frees on the default stream of a context of its own. */
	use_primary(0);
	va = alloc_bytes(SIZE);
	g_assert_cmpint(fake_cuda_context_create(&context, 0), ==, 0);
	g_assert_cmpint(cuCtxPushCurrent_v2(context), ==, 0);
	g_assert_cmpint(fake_cuda_submit(NULL), ==, 0);
	free_behind(va, NULL);
	g_assert_cmpint(cuCtxPopCurrent_v2(&context), ==, 0);
}

static void failed_on_other_device(void)
{
	drv_stream stream;
	drv_deviceptr va;

	/* The work of such a stream has failed. */
	use_primary(0);
	va = alloc_bytes(SIZE);
	use_primary(1);
	stream = new_stream();
	fake_cuda_fail("cuStreamSynchronize", 0, 1, DRV_ERROR_LAUNCH_FAILED);
	g_assert_cmpint(cuMemFreeAsync(va, stream), ==, DRV_ERROR_LAUNCH_FAILED);

	/* The free says so, and the block is still there. */
	g_assert_cmpint(cuMemFreeAsync(va, stream), ==, 0);
}

static void destroyed_beside_other_device(void)
{
	drv_stream stream;
	drv_deviceptr va;

	/* A program frees on a stream with pending work, and destroys it while another device is current. */
	use_primary(1);
	stream = new_stream();
	va = alloc_async(SIZE, stream);
	g_assert_cmpint(fake_cuda_submit(stream), ==, 0);
	g_assert_cmpint(cuMemFreeAsync(va, stream), ==, 0);
	use_primary(0);
	g_assert_cmpint(cuStreamDestroy_v2(stream), ==, 0);

	/* Others have the memory when the work is done. */
	use_primary(1);
	g_assert_cmphex(alloc_bytes(SIZE), ==, va);
}

static void destroyed_after_reset(void)
{
	drv_stream stream;

	/* A program resets the device, and only then destroys a stream of before, which the driver refuses. */
	use_primary(0);
	stream = new_stream();
	alloc_async(SIZE, stream);
	g_assert_cmpint(cuDevicePrimaryCtxReset_v2(0), ==, 0);
	use_primary(0);
	fake_cuda_fail("cuStreamDestroy", 0, 1, DRV_ERROR_INVALID_HANDLE);
	g_assert_cmpint(cuStreamDestroy_v2(stream), ==, DRV_ERROR_INVALID_HANDLE);

	/* Nobody has asked it about the stream, which would have ended the process. */
	alloc_bytes(SIZE);
}

static void freed_twice_beside_capture(void)
{
	drv_stream stream, other;
	drv_deviceptr va;

	/* A program frees beside a capture, and once more on a stream. */
	use_primary(0);
	stream = new_stream();
	other = new_stream();
	va = alloc_bytes(SIZE);
	begin_capture(stream, DRV_STREAM_CAPTURE_MODE_RELAXED);
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);
	g_assert_cmpint(cuMemFreeAsync(va, other), ==, DRV_ERROR_INVALID_VALUE);

	/* Who is given the memory then keeps it. */
	va = alloc_async(SIZE, other);
	end_capture(stream);
	g_assert_cmphex(alloc_async(SIZE, other), !=, va);
	g_assert_cmpint(cuMemFreeAsync(va, other), ==, 0);
}

/* Whether a free waits by an event, as it does beside no capture. */
static bool free_waits(void)
{
	uint64_t before = driver_calls("cuEventSynchronize");

	g_assert_cmpint(cuMemFree_v2(alloc_bytes(SIZE)), ==, 0);
	return driver_calls("cuEventSynchronize") > before;
}

static void context_destroyed_with_capture(void)
{
	drv_context context, current;

	/* A program destroys a context of its own with a stream under capture. */
	use_primary(0);
	for (int variant = 0; variant < 2; variant++) {
		g_assert_cmpint(fake_cuda_context_create(&context, 0), ==, 0);
		g_assert_cmpint(cuCtxPushCurrent_v2(context), ==, 0);
		begin_capture(new_stream(), DRV_STREAM_CAPTURE_MODE_RELAXED);
		g_assert_cmpint(cuCtxPopCurrent_v2(&current), ==, 0);
		g_assert_false(free_waits());
		g_assert_cmpint(variant ? cuCtxDestroy(context) : cuCtxDestroy_v2(context), ==, 0);

		/* The capture is gone, and frees wait as before it. */
		g_assert_true(free_waits());
	}
}

static void other_reset_beside_capture(void)
{
	drv_context context, current;
	drv_stream stream;

	/* A stream of a context of its own is under capture, and a program resets devices that do not exist. */
	use_primary(0);
	g_assert_cmpint(fake_cuda_context_create(&context, 0), ==, 0);
	g_assert_cmpint(cuCtxPushCurrent_v2(context), ==, 0);
	stream = new_stream();
	begin_capture(stream, DRV_STREAM_CAPTURE_MODE_RELAXED);
	g_assert_cmpint(cuCtxPopCurrent_v2(&current), ==, 0);
	g_assert_cmpint(cuDevicePrimaryCtxReset_v2(-1), ==, DRV_ERROR_INVALID_DEVICE);
	g_assert_cmpint(cuDevicePrimaryCtxReset_v2(1000), ==, DRV_ERROR_INVALID_DEVICE);

	/* The capture is still running, and a free does not wait by an event beside it. */
	g_assert_false(free_waits());
	g_assert_cmpint(cuCtxPushCurrent_v2(context), ==, 0);
	end_capture(stream);
}

static void *allocate_and_free(void *context)
{
	drv_deviceptr blocks[16], large;
	drv_stream stream;

	g_assert_cmpint(cuCtxSetCurrent(context), ==, 0);
	g_assert_cmpint(cuMemFree_v2(alloc_bytes(SIZE)), ==, 0);
	stream = new_stream();
	for (size_t i = 0; i < G_N_ELEMENTS(blocks); i++)
		blocks[i] = alloc_async(SIZE, stream);
	for (size_t i = 0; i < G_N_ELEMENTS(blocks); i += 2)
		g_assert_cmpint(cuMemFreeAsync(blocks[i], stream), ==, 0);
	g_assert_cmpint(cuMemFreeAsync(alloc_async(8 * SIZE, stream), stream), ==, 0);
	g_assert_cmpint(cuMemAllocAsync(&large, (size_t)1 << 45, stream), ==, DRV_ERROR_OUT_OF_MEMORY);
	g_assert_cmpint(cuStreamSynchronize(stream), ==, 0);
	g_assert_cmpint(cuStreamDestroy_v2(stream), ==, 0);
	return NULL;
}

/* Little more than the smallest stack there is; builds that look for faults have larger frames. */
#define SMALL_STACK (ASSUME_TESTED ? (size_t)1 << 20 : (size_t)PTHREAD_STACK_MIN + 4096)

static void allocated_on_small_stack(void)
{
	drv_context context = use_primary(0);
	pthread_attr_t attr;
	pthread_t thread;

	/* The first allocation, and others, are those of a thread. */
	g_assert_cmpint(pthread_attr_init(&attr), ==, 0);
	g_assert_cmpint(pthread_attr_setstacksize(&attr, SMALL_STACK), ==, 0);
	g_assert_cmpint(pthread_create(&thread, &attr, allocate_and_free, context), ==, 0);
	g_assert_cmpint(pthread_attr_destroy(&attr), ==, 0);
	g_assert_cmpint(pthread_join(thread, NULL), ==, 0);
	g_assert_cmpint(cuDevicePrimaryCtxRelease_v2(0), ==, 0);
}

int main(int argc, char **argv)
{
	static const struct preload_test tests[] = {
		{ "/streams/allocated-for-other-device", allocated_for_other_device, { "VPMM_HOST_DEVICES=2" } },
		{ "/streams/freed-on-other-device", freed_on_other_device, { "VPMM_HOST_DEVICES=2" } },
		{ "/streams/freed-in-other-context", freed_in_other_context },
		{ "/streams/failed-on-other-device", failed_on_other_device, { "VPMM_HOST_DEVICES=2" } },
		{ "/streams/destroyed-beside-other-device", destroyed_beside_other_device, { "VPMM_HOST_DEVICES=2" } },
		{ "/streams/destroyed-after-reset", destroyed_after_reset },
		{ "/streams/freed-twice-beside-capture", freed_twice_beside_capture },
		{ "/streams/context-destroyed-with-capture", context_destroyed_with_capture },
		{ "/streams/other-reset-beside-capture", other_reset_beside_capture },
		{ "/streams/allocated-on-small-stack-natively", allocated_on_small_stack, { "VPMM_PRELOAD=off" } },
		{ "/streams/allocated-on-small-stack", allocated_on_small_stack },
		{ "/streams/allocated-on-small-stack-logged", allocated_on_small_stack, { "VPMM_LOG=debug" } },
		{ "/streams/allocated-on-small-stack-reported", allocated_on_small_stack,
		  { "VPMM_PRELOAD_REPORT=/dev/null" } },
	};

	return preload_main(argc, argv, tests, G_N_ELEMENTS(tests));
}
