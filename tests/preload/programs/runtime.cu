// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A program of the CUDA runtime: plain, pitched and stream-ordered memory from 1 KB to 1 GB, filled and summed by
 * kernels on several streams, with a reset in the middle. runtime [LARGEST] has another largest size, in bytes.
 */
#include <cstdio>
#include <cstdlib>
#include <vector>

#define STREAMS 4
#define BLOCK 256

typedef unsigned long long word;

#define OK(call) ok((call), #call)

static word checksum;
static unsigned int allocations, frees;

static void ok(cudaError_t error, const char *call)
{
	if (error == cudaSuccess)
		return;
	std::printf("%s: %s\n", call, cudaGetErrorName(error));
	std::exit(1);
}

__global__ void fill(word *words, size_t count, word seed)
{
	const size_t step = (size_t)gridDim.x * blockDim.x;

	for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
		words[i] = seed ^ (i * 0x9e3779b97f4a7c15ULL);
}

__global__ void sum(const word *words, size_t count, word *total)
{
	const size_t step = (size_t)gridDim.x * blockDim.x;
	word part = 0;

	for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
		part += words[i] * (i | 1);
	atomicAdd(total, part);
}

static unsigned int grid(size_t count)
{
	const size_t blocks = (count + BLOCK - 1) / BLOCK;

	return blocks < 1024 ? (unsigned int)blocks : 1024;
}

static void use(void *memory, size_t bytes, word seed, word *total, cudaStream_t stream)
{
	const size_t count = bytes / sizeof(word);

	fill<<<grid(count), BLOCK, 0, stream>>>((word *)memory, count, seed);
	sum<<<grid(count), BLOCK, 0, stream>>>((const word *)memory, count, total);
	OK(cudaGetLastError());
}

static void add(const word *total)
{
	word value;

	OK(cudaMemcpy(&value, total, sizeof(value), cudaMemcpyDeviceToHost));
	checksum = checksum * 31 + value;
}

static void plain(size_t largest, word *total)
{
	std::vector<void *> blocks;
	size_t free_before, free_after, all;

	OK(cudaMemGetInfo(&free_before, &all));
	for (size_t bytes = 1024; bytes <= largest; bytes *= 2) {
		void *memory;

		OK(cudaMalloc(&memory, bytes + bytes / 3 / 8 * 8));
		allocations++;
		use(memory, bytes, bytes, total, 0);
		blocks.push_back(memory);
	}
	OK(cudaMemGetInfo(&free_after, &all));
	std::printf("less free: %s\n", free_after < free_before && free_after < all ? "yes" : "no");
	/* Every second one first, so that holes are left for what comes next. */
	for (size_t first = 0; first < 2; first++) {
		for (size_t i = first; i < blocks.size(); i += 2) {
			OK(cudaFree(blocks[i]));
			frees++;
		}
		if (!first) {
			void *memory;

			OK(cudaMalloc(&memory, largest));
			allocations++;
			use(memory, largest, 7, total, 0);
			OK(cudaFree(memory));
			frees++;
		}
	}
	add(total);
}

static void pitched(word *total)
{
	void *memory;
	size_t pitch;

	for (size_t width = 100; width <= 10000; width *= 10) {
		OK(cudaMallocPitch(&memory, &pitch, width, 1000));
		allocations++;
		OK(cudaMemset2D(memory, pitch, 1, width, 1000));
		use(memory, pitch * 1000, width, total, 0);
		std::printf("pitch of %zu: %zu\n", width, pitch);
		OK(cudaFree(memory));
		frees++;
	}
	add(total);
}

/* A buffer is filled on one stream, and used and freed on the next, in the order of an event. */
static void ordered(word *total)
{
	cudaStream_t stream[STREAMS];
	cudaEvent_t event;

	OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	for (int i = 0; i < STREAMS; i++)
		OK(cudaStreamCreateWithFlags(&stream[i], i % 2 ? cudaStreamNonBlocking : cudaStreamDefault));
	for (unsigned int i = 0; i < 400; i++) {
		const size_t bytes = 1024 + (i * 7919 % 4096) * 4096;
		cudaStream_t from = stream[i % STREAMS], to = stream[(i + 1) % STREAMS];
		void *memory;

		OK(cudaMallocAsync(&memory, bytes, from));
		allocations++;
		fill<<<grid(bytes / 8), BLOCK, 0, from>>>((word *)memory, bytes / 8, i);
		OK(cudaEventRecord(event, from));
		OK(cudaStreamWaitEvent(to, event, 0));
		sum<<<grid(bytes / 8), BLOCK, 0, to>>>((const word *)memory, bytes / 8, total);
		OK(cudaGetLastError());
		OK(cudaFreeAsync(memory, to));
		frees++;
	}
	OK(cudaDeviceSynchronize());
	for (int i = 0; i < STREAMS; i++)
		OK(cudaStreamDestroy(stream[i]));
	OK(cudaEventDestroy(event));
	add(total);
}

/* Without a stream of its own: legacy or per thread, as it was compiled. */
static void loop(word *total)
{
	for (unsigned int i = 0; i < 200; i++) {
		const size_t bytes = (size_t)1 << (10 + i % 14);
		void *memory;

		if (i % 3)
			OK(cudaMalloc(&memory, bytes));
		else
			OK(cudaMallocAsync(&memory, bytes, 0));
		allocations++;
		use(memory, bytes, i, total, 0);
		/*
		 * What is freed in the order of the stream may be either kind. cudaFree() of stream-ordered memory
		 * does not wait, so it comes after the work.
		 */
		if (i % 2) {
			OK(cudaFreeAsync(memory, 0));
		} else {
			if (!(i % 3))
				OK(cudaStreamSynchronize(0));
			OK(cudaFree(memory));
		}
		frees++;
	}
	add(total);
}

int main(int argc, char **argv)
{
	const size_t largest = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : (size_t)1 << 30;

	for (int life = 0; life < 2; life++) {
		void *left;
		word *total;

		OK(cudaMalloc(&total, sizeof(*total)));
		OK(cudaMemset(total, 0, sizeof(*total)));
		plain(largest, total);
		pitched(total);
		ordered(total);
		loop(total);
		/* The reset takes along what is left. */
		OK(cudaMalloc(&left, largest));
		OK(cudaDeviceReset());
		std::printf("life %d: checksum %016llx, %u allocations, %u frees\n", life, checksum, allocations, frees);
	}
	return 0;
}
