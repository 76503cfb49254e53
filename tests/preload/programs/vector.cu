// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Vectors of Thrust that grow: an element at a time, by a range, and by resize(); and one that is written by hand with
 * the copies of the CUDA runtime, and appends to the new block before it frees the old one.
 */
#include <cstdio>
#include <cstdlib>
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/sequence.h>

#define OK(call) ok((call), #call)

static void ok(cudaError_t error, const char *call)
{
	if (error == cudaSuccess)
		return;
	std::printf("%s: %s\n", call, cudaGetErrorName(error));
	std::exit(1);
}

template <typename T>
static unsigned long long sum(const thrust::device_vector<T> &vector)
{
	return thrust::reduce(vector.begin(), vector.end(), 0ULL);
}

static void by_element()
{
	thrust::device_vector<unsigned int> numbers;

	for (unsigned int i = 0; i < 5000; i++)
		numbers.push_back(i * 7919);
	std::printf("elements: %zu, sum %llu\n", numbers.size(), sum(numbers));
}

static void by_range()
{
	thrust::device_vector<unsigned long long> numbers, more(100000);

	thrust::sequence(more.begin(), more.end());
	for (int i = 0; i < 200; i++)
		numbers.insert(numbers.end(), more.begin(), more.end());
	std::printf("ranges: %zu, sum %llu\n", numbers.size(), sum(numbers));
}

static void by_size()
{
	thrust::device_vector<unsigned int> numbers(1000);

	for (size_t size = 1000; size < (size_t)1 << 26; size += size / 2)
		numbers.resize(size, (unsigned int)(size % 1000));
	std::printf("sizes: %zu, sum %llu\n", numbers.size(), sum(numbers));
}

static void by_hand(bool append_first, cudaStream_t stream)
{
	size_t bytes = (size_t)1 << 20;
	unsigned char last, *block;

	OK(cudaMallocAsync(&block, bytes, stream));
	OK(cudaMemsetAsync(block, 1, bytes, stream));
	for (int i = 0; i < 12; i++) {
		const size_t more = bytes + bytes / 2;
		unsigned char *larger;

		OK(cudaMallocAsync(&larger, more, stream));
		OK(cudaMemcpyAsync(larger, block, bytes, cudaMemcpyDeviceToDevice, stream));
		if (append_first)
			OK(cudaMemsetAsync(larger + bytes, i, more - bytes, stream));
		OK(cudaFreeAsync(block, stream));
		if (!append_first)
			OK(cudaMemsetAsync(larger + bytes, i, more - bytes, stream));
		block = larger;
		bytes = more;
	}
	OK(cudaMemcpyAsync(&last, block + bytes - 1, 1, cudaMemcpyDeviceToHost, stream));
	OK(cudaStreamSynchronize(stream));
	OK(cudaFreeAsync(block, stream));
	std::printf("by hand: %zu, last %d\n", bytes, last);
}

int main()
{
	cudaStream_t stream;

	by_element();
	by_range();
	by_size();
	OK(cudaStreamCreate(&stream));
	by_hand(false, stream);
	by_hand(true, stream);
	OK(cudaStreamDestroy(stream));
	return 0;
}
