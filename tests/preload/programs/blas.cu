// SPDX-License-Identifier: LGPL-2.1-or-later
/* Products of matrices by cuBLAS, which has a CUDA runtime of its own inside and takes workspaces from it. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cublas_v2.h>
#include <vector>

#define OK(call) ok((call), #call)

static void ok(int error, const char *call)
{
	if (!error)
		return;
	std::printf("%s: %d\n", call, error);
	std::exit(1);
}

int main()
{
	static const int sizes[] = { 64, 300, 1024, 2500, 4096 };
	unsigned long long checksum = 1;
	cublasHandle_t handle;
	cudaStream_t stream;

	OK(cudaStreamCreate(&stream));
	OK(cublasCreate(&handle));
	OK(cublasSetStream(handle, stream));
	for (int round = 0; round < 3; round++) {
		for (int n : sizes) {
			const size_t count = (size_t)n * n, bytes = count * sizeof(float);
			const float one = 1, zero = 0;
			std::vector<float> host(count);
			float *a, *b, *c;

			for (size_t i = 0; i < count; i++)
				host[i] = (float)(i * 7919 % 1000) / 1000;
			OK(cudaMalloc(&a, bytes));
			OK(cudaMallocAsync(&b, bytes, stream));
			OK(cudaMallocAsync(&c, bytes, stream));
			OK(cudaMemcpy(a, host.data(), bytes, cudaMemcpyHostToDevice));
			OK(cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice, stream));
			OK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, n, n, n, &one, a, n, b, n, &zero, c, n));
			OK(cudaMemcpyAsync(host.data(), c, bytes, cudaMemcpyDeviceToHost, stream));
			OK(cudaFreeAsync(b, stream));
			OK(cudaFreeAsync(c, stream));
			OK(cudaStreamSynchronize(stream));
			OK(cudaFree(a));
			for (size_t i = 0; i < count; i += 97) {
				unsigned int bits;

				std::memcpy(&bits, &host[i], sizeof(bits));
				checksum = checksum * 31 + bits;
			}
		}
	}
	OK(cublasDestroy(handle));
	OK(cudaStreamDestroy(stream));
	std::printf("checksum %016llx\n", checksum);
	return 0;
}
