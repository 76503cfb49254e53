/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A program that is linked with the driver: plain, pitched and stream-ordered memory on its primary context, sets and
 * copies between blocks, a memory pool's counts, and the last release of the context with use after it.
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS 64
#define ROUNDS 30
#define OK(call) ok((call), #call)

static unsigned long long checksum = 1;

static void ok(CUresult result, const char *call)
{
	if (result == CUDA_SUCCESS)
		return;
	printf("%s: %d\n", call, result);
	exit(1);
}

static void add(CUdeviceptr va, size_t size)
{
	unsigned char byte[256];
	size_t i, n = size < sizeof(byte) ? size : sizeof(byte);

	OK(cuMemcpyDtoH(byte, va + size - n, n));
	for (i = 0; i < n; i++)
		checksum = checksum * 31 + byte[i];
}

/* Sizes between 1 KB and 64 MB, in an order that leaves holes. */
static void plain(void)
{
	CUdeviceptr va[BLOCKS] = { 0 };
	size_t size[BLOCKS] = { 0 };
	unsigned int i, round, seed = 1;

	for (round = 0; round < ROUNDS; round++) {
		for (i = 0; i < BLOCKS; i++) {
			seed = seed * 1103515245 + 12345;
			if (va[i] && seed >> 16 & 1) {
				add(va[i], size[i]);
				OK(cuMemFree(va[i]));
				va[i] = 0;
			} else if (!va[i]) {
				size[i] = ((size_t)1 << (10 + (seed >> 17) % 17)) + (seed >> 8) % 1000;
				OK(cuMemAlloc(&va[i], size[i]));
				OK(cuMemsetD8(va[i], (unsigned char)(i + round), size[i]));
			}
		}
	}
	for (i = 0; i < BLOCKS; i++)
		if (va[i])
			OK(cuMemFree(va[i]));
}

static void pitched(void)
{
	CUdeviceptr va;
	size_t pitch;

	OK(cuMemAllocPitch(&va, &pitch, 1025, 777, 8));
	OK(cuMemsetD2D8(va, pitch, 5, 1025, 777));
	add(va, 1025);
	printf("pitch %zu\n", pitch);
	OK(cuMemFree(va));
}

static void ordered(CUdevice device)
{
	CUstream stream[3];
	CUdeviceptr va, other;
	CUmemoryPool pool;
	CUevent event;
	cuuint64_t used;
	unsigned int i;

	OK(cuDeviceGetDefaultMemPool(&pool, device));
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	for (i = 0; i < 3; i++)
		OK(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
	for (i = 0; i < 300; i++) {
		const size_t size = 1000 + (i * 7919 % 1024) * 16384;
		CUstream from = stream[i % 3], to = stream[(i + 1) % 3];

		OK(cuMemAllocAsync(&va, size, from));
		OK(cuMemsetD8Async(va, (unsigned char)i, size, from));
		OK(cuEventRecord(event, from));
		OK(cuStreamWaitEvent(to, event, 0));
		OK(cuMemAllocFromPoolAsync(&other, size, pool, to));
		OK(cuMemcpyDtoDAsync(other, va, size, to));
		OK(cuMemFreeAsync(va, to));
		OK(cuStreamSynchronize(to));
		add(other, size);
		OK(cuMemFreeAsync(other, to));
	}
	OK(cuCtxSynchronize());
	OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
	OK(cuMemPoolTrimTo(pool, 0));
	printf("used at the end: %llu\n", (unsigned long long)used);
	for (i = 0; i < 3; i++)
		OK(cuStreamDestroy(stream[i]));
	OK(cuEventDestroy(event));
}

int main(void)
{
	CUcontext context;
	CUdevice device;
	int life;

	OK(cuInit(0));
	OK(cuDeviceGet(&device, 0));
	for (life = 0; life < 2; life++) {
		OK(cuDevicePrimaryCtxRetain(&context, device));
		OK(cuCtxSetCurrent(context));
		plain();
		pitched();
		ordered(device);
		OK(cuCtxSetCurrent(NULL));
		OK(cuDevicePrimaryCtxRelease(device));
		printf("life %d: checksum %016llx\n", life, checksum);
	}
	return 0;
}
