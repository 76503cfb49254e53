// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Convolutions by cuDNN on images of changing size, with a workspace for each. What is called is declared here, as
 * machines that run programs with cuDNN seldom have its headers.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

struct cudnnContext;
struct cudnnTensorStruct;
struct cudnnFilterStruct;
struct cudnnConvolutionStruct;

#define NCHW 0
#define FLOAT 0
#define CROSS_CORRELATION 1
#define IMPLICIT_PRECOMP_GEMM 1

extern "C" {
int cudnnCreate(cudnnContext **handle);
int cudnnDestroy(cudnnContext *handle);
int cudnnSetStream(cudnnContext *handle, cudaStream_t stream);
int cudnnCreateTensorDescriptor(cudnnTensorStruct **tensor);
int cudnnSetTensor4dDescriptor(cudnnTensorStruct *tensor, int format, int type, int n, int c, int h, int w);
int cudnnCreateFilterDescriptor(cudnnFilterStruct **filter);
int cudnnSetFilter4dDescriptor(cudnnFilterStruct *filter, int type, int format, int k, int c, int h, int w);
int cudnnCreateConvolutionDescriptor(cudnnConvolutionStruct **convolution);
int cudnnSetConvolution2dDescriptor(cudnnConvolutionStruct *convolution, int pad_h, int pad_w, int step_h, int step_w,
				    int dilation_h, int dilation_w, int mode, int type);
int cudnnGetConvolutionForwardWorkspaceSize(cudnnContext *handle, cudnnTensorStruct *x, cudnnFilterStruct *w,
					    cudnnConvolutionStruct *convolution, cudnnTensorStruct *y, int algorithm,
					    size_t *bytes);
int cudnnConvolutionForward(cudnnContext *handle, const void *alpha, cudnnTensorStruct *x, const void *x_data,
			    cudnnFilterStruct *w, const void *w_data, cudnnConvolutionStruct *convolution,
			    int algorithm, void *workspace, size_t bytes, const void *beta, cudnnTensorStruct *y,
			    void *y_data);
}

#define OK(call) ok((call), #call)

static void ok(int error, const char *call)
{
	if (!error)
		return;
	std::printf("%s: %d\n", call, error);
	std::exit(1);
}

static float *filled(size_t count, unsigned int seed, cudaStream_t stream)
{
	std::vector<float> host(count);
	float *device;

	for (size_t i = 0; i < count; i++)
		host[i] = (float)((i * 7919 + seed) % 1000) / 1000;
	OK(cudaMallocAsync(&device, count * sizeof(float), stream));
	OK(cudaMemcpyAsync(device, host.data(), count * sizeof(float), cudaMemcpyHostToDevice, stream));
	OK(cudaStreamSynchronize(stream));
	return device;
}

int main()
{
	static const int channels[] = { 3, 32, 64, 128 };
	cudnnConvolutionStruct *convolution;
	unsigned long long checksum = 1;
	cudnnTensorStruct *x, *y;
	cudnnContext *handle;
	cudnnFilterStruct *w;
	cudaStream_t stream;

	OK(cudaStreamCreate(&stream));
	OK(cudnnCreate(&handle));
	OK(cudnnSetStream(handle, stream));
	OK(cudnnCreateTensorDescriptor(&x));
	OK(cudnnCreateTensorDescriptor(&y));
	OK(cudnnCreateFilterDescriptor(&w));
	OK(cudnnCreateConvolutionDescriptor(&convolution));
	OK(cudnnSetConvolution2dDescriptor(convolution, 1, 1, 1, 1, 1, 1, CROSS_CORRELATION, FLOAT));
	for (int step = 0; step < 12; step++) {
		const int side = 32 + step * 7919 % 13 * 8, images = 8;
		size_t area = (size_t)images * side * side;
		float *in = filled(area * channels[0], step, stream);

		for (int layer = 0; layer < 3; layer++) {
			const int from = channels[layer], to = channels[layer + 1];
			float *weights = filled((size_t)from * to * 9, layer, stream), *out;
			const float scale = 1.0f / (float)(from * 9), none = 0;
			void *workspace = nullptr;
			size_t bytes;

			OK(cudnnSetTensor4dDescriptor(x, NCHW, FLOAT, images, from, side, side));
			OK(cudnnSetTensor4dDescriptor(y, NCHW, FLOAT, images, to, side, side));
			OK(cudnnSetFilter4dDescriptor(w, FLOAT, NCHW, to, from, 3, 3));
			OK(cudnnGetConvolutionForwardWorkspaceSize(handle, x, w, convolution, y, IMPLICIT_PRECOMP_GEMM,
								   &bytes));
			if (bytes)
				OK(cudaMalloc(&workspace, bytes));
			OK(cudaMallocAsync(&out, area * to * sizeof(float), stream));
			OK(cudnnConvolutionForward(handle, &scale, x, in, w, weights, convolution, IMPLICIT_PRECOMP_GEMM,
						   workspace, bytes, &none, y, out));
			OK(cudaFreeAsync(weights, stream));
			OK(cudaFreeAsync(in, stream));
			OK(cudaFree(workspace));
			in = out;
		}
		std::vector<float> host(area * channels[3]);
		OK(cudaMemcpyAsync(host.data(), in, host.size() * sizeof(float), cudaMemcpyDeviceToHost, stream));
		OK(cudaFreeAsync(in, stream));
		OK(cudaStreamSynchronize(stream));
		for (size_t i = 0; i < host.size(); i += 97) {
			unsigned int bits;

			std::memcpy(&bits, &host[i], sizeof(bits));
			checksum = checksum * 31 + bits;
		}
	}
	OK(cudnnDestroy(handle));
	OK(cudaStreamDestroy(stream));
	std::printf("checksum %016llx\n", checksum);
	return 0;
}
