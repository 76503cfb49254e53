// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Thrust with memory of the default pool: temporary storage of its algorithms, in the order of a stream, and vectors.
 *
 *	nvcc -std=c++17 thrust.cu $(pkg-config --cflags --libs vpmm) && ./a.out
 */
#define VPMM_WITH_THRUST
#include <vpmm.hpp>

#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/reduce.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>

#include <cstdio>

int main()
{
	cudaStream_t stream;

	if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) {
		std::fprintf(stderr, "there is no GPU\n");
		return 1;
	}
	try {
		/* A vector whose memory any stream may use, and which is free after all work at its end. */
		thrust::device_vector<int, vpmm::thrust_allocator<int>> v(10000000);

		thrust::sequence(v.begin(), v.end(), 0, -1);
		cudaDeviceSynchronize();

		/* The sort's temporary storage is allocated and freed on the stream; the host does not wait. */
		vpmm::allocator<> allocator(stream);
		thrust::sort(thrust::cuda::par_nosync(allocator).on(stream), v.begin(), v.end());
		cudaStreamSynchronize(stream);
		std::printf("from %d to %d\n", static_cast<int>(v.front()), static_cast<int>(v.back()));
	} catch (const std::bad_alloc &error) {
		std::fprintf(stderr, "%s\n", error.what());
		return 1;
	}

	/* Others can have what the stream has freed. */
	vpmm_stream_retire(nullptr, stream);
	cudaStreamDestroy(stream);
	return 0;
}
