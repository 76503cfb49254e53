// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Two streams of a GPU hand memory on: one fills blocks, the other reads them. No free and no allocation waits for
 * either on the host. Every word that is read is checked. Needs a GPU; streams.c shows the like on the host backend.
 *
 *	nvcc -o handoff handoff.cu $(pkg-config --cflags --libs vpmm) && ./handoff
 *
 * From a source tree that was built in ./build:
 *
 *	nvcc -Iinclude -o handoff man/examples/handoff.cu -Lbuild/lib/.libs -lvpmm
 *	LD_LIBRARY_PATH=build/lib/.libs ./handoff
 *
 * It prints three lines and exits with 0 if no word was wrong. "./handoff 1000" does more rounds than the usual 200.
 * With VPMM_EXTENT_MAX=2M VPMM_SMALL=driver in the environment, pages move from block to block one by one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <cuda_runtime.h>
#include <vpmm.h>

static const size_t MiB = (size_t)1 << 20;
static const unsigned int THREADS = 256;
static const unsigned int BLOCKS = 1024;
static const unsigned int AHEAD = 4;

static struct vpmm_pool *pool;

static void check_cuda(const char *what, cudaError_t err)
{
	if (err != cudaSuccess) {
		fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(err));
		exit(1);
	}
}

static void check_vpmm(const char *what, int err)
{
	if (err) {
		fprintf(stderr, "%s: %s\n", what, vpmm_last_error());
		exit(1);
	}
}

__global__ void fill(unsigned int *words, size_t count, unsigned int value)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (size_t)blockDim.x)
		words[i] = value ^ (unsigned int)i;
}

__global__ void verify(const unsigned int *words, size_t count, unsigned int value, unsigned long long *wrong)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (size_t)blockDim.x) {
		if (words[i] != (value ^ (unsigned int)i))
			atomicAdd(wrong, 1ULL);
	}
}

/* Keeps its stream back, so that a writer which did not wait for it would overtake the reader. */
__global__ void delay(long long cycles)
{
	long long start = clock64();

	while (clock64() - start < cycles)
		;
}

/* Sizes that seldom fit what the round before has freed: the pool has to put blocks together from pieces. */
static size_t bytes_of_round(unsigned int round)
{
	return (8 + round * 37 % 113) * MiB;
}

int main(int argc, char **argv)
{
	unsigned int rounds = argc > 1 ? (unsigned int)strtoul(argv[1], NULL, 10) : 200;
	unsigned long long *wrong, wrong_words = 0;
	struct vpmm_stats stats = {};
	unsigned long long words = 0;
	cudaStream_t writer, reader;
	cudaEvent_t filled, done[AHEAD];
	void *counter;

	stats.size = sizeof(stats);
	/* The first call of the runtime makes the device's primary context current, and that is what the pool uses. */
	check_cuda("device", cudaSetDevice(0));
	check_cuda("stream", cudaStreamCreateWithFlags(&writer, cudaStreamNonBlocking));
	check_cuda("stream", cudaStreamCreateWithFlags(&reader, cudaStreamNonBlocking));
	check_cuda("event", cudaEventCreateWithFlags(&filled, cudaEventDisableTiming));
	for (cudaEvent_t &event : done)
		check_cuda("event", cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	check_vpmm("pool", vpmm_pool_create(&pool, NULL));

	/* Only the reader uses the counter, so it needs no event. */
	check_vpmm("counter", vpmm_malloc_flags(pool, &counter, sizeof(*wrong), reader, VPMM_ZERO));
	wrong = (unsigned long long *)counter;

	for (unsigned int round = 0; round < rounds; round++) {
		size_t count = bytes_of_round(round) / sizeof(unsigned int);
		void *block;

		/*
		 * Blocks that vpmm_use() named a stream for are nobody's until the GPU is past their last use, so a host
		 * that runs far ahead takes new memory for each. An event that was never recorded counts as complete.
		 */
		check_cuda("synchronize", cudaEventSynchronize(done[round % AHEAD]));
		check_vpmm("malloc", vpmm_malloc(pool, &block, bytes_of_round(round), writer));
		fill<<<BLOCKS, THREADS, 0, writer>>>((unsigned int *)block, count, round);

		/* The pool keeps apart who has the memory one after the other. Who shares it meanwhile is our part. */
		check_cuda("record", cudaEventRecord(filled, writer));
		check_cuda("wait", cudaStreamWaitEvent(reader, filled, 0));
		delay<<<1, 1, 0, reader>>>(200000);
		verify<<<BLOCKS, THREADS, 0, reader>>>((const unsigned int *)block, count, round, wrong);
		check_cuda("launch", cudaGetLastError());

		/*
		 * Two ways to free what both have used: on the last user's stream; or on another one, with the last user
		 * named.
		 */
		if (round % 2 == 0) {
			check_vpmm("free", vpmm_free(pool, block, reader));
		} else {
			check_vpmm("use", vpmm_use(pool, block, reader));
			check_vpmm("free", vpmm_free(pool, block, writer));
		}
		check_cuda("record", cudaEventRecord(done[round % AHEAD], reader));
		words += count;
	}

	check_cuda("copy", cudaMemcpyAsync(&wrong_words, wrong, sizeof(wrong_words), cudaMemcpyDeviceToHost, reader));
	check_cuda("synchronize", cudaStreamSynchronize(reader));
	check_vpmm("stats", vpmm_pool_stats(pool, &stats));
	printf("%u blocks handed on, %llu words read, %llu wrong\n", rounds, words, wrong_words);
	printf("%llu waits on the GPU, %llu blocks put together from pieces\n", (unsigned long long)stats.waits,
	       (unsigned long long)stats.defrags);
	printf("at most %llu MiB taken for %llu MiB allocated\n", (unsigned long long)(stats.peak_taken / MiB),
	       (unsigned long long)(stats.peak_live / MiB));

	check_vpmm("free", vpmm_free(pool, counter, reader));
	check_vpmm("check", vpmm_pool_check(pool));
	/* What a stream that is about to go has freed, others can have. */
	check_vpmm("retire", vpmm_stream_retire(pool, writer));
	check_vpmm("retire", vpmm_stream_retire(pool, reader));
	check_cuda("destroy", cudaStreamDestroy(writer));
	check_cuda("destroy", cudaStreamDestroy(reader));
	check_cuda("destroy", cudaEventDestroy(filled));
	for (cudaEvent_t &event : done)
		check_cuda("destroy", cudaEventDestroy(event));
	vpmm_pool_destroy(pool);
	return wrong_words ? 1 : 0;
}
