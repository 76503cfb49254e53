/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Of the runtime, what PyTorch's allocators call. Streams are those of the host backend; an event is behind one of
 * them.
 */
#ifndef STUB_CUDA_RUNTIME_API_H
#define STUB_CUDA_RUNTIME_API_H

#include <cstdlib>
#include <cstring>

#include "vpmm-host.h"

typedef enum {
	cudaSuccess = 0,
	cudaErrorMemoryAllocation = 2,
	cudaErrorNotReady = 600,
	cudaErrorPeerAccessAlreadyEnabled = 704,
	cudaErrorUnknown = 999
} cudaError_t;
enum cudaMemcpyKind { cudaMemcpyDeviceToDevice = 3 };
enum { cudaEventDisableTiming = 2 };
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone = 0, cudaStreamCaptureStatusActive = 1 };
typedef struct CUstream_st *cudaStream_t;
typedef cudaStream_t *cudaEvent_t;

/* The stream that cudaDeviceSynchronize() completes, and how often it did. */
inline cudaStream_t stub_busy;
inline int stub_synchronized;

/* Whether calls on events fail, and cudaFree(); and the error that the next cudaGetLastError() tells. */
inline bool stub_fails;
inline cudaError_t stub_error;

inline cudaError_t stub_result()
{
	return stub_fails ? stub_error = cudaErrorUnknown : cudaSuccess;
}
inline cudaError_t cudaMalloc(void **ptr, size_t size)
{
	*ptr = size > 64 << 20 ? nullptr : std::malloc(size);
	return *ptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
inline cudaError_t cudaFree(void *ptr)
{
	std::free(ptr);
	return stub_result();
}
inline cudaError_t cudaMemcpy(void *to, const void *from, size_t size, cudaMemcpyKind)
{
	std::memcpy(to, from, size);
	return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind kind, cudaStream_t)
{
	return cudaMemcpy(to, from, size, kind);
}
inline cudaError_t cudaMemcpyPeerAsync(void *to, int, const void *from, int, size_t size, cudaStream_t)
{
	return cudaMemcpy(to, from, size, cudaMemcpyDeviceToDevice);
}
inline cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
	*free_bytes = 1 << 20;
	*total = 64 << 20;
	return cudaSuccess;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int)
{
	*event = stub_fails ? nullptr : new cudaStream_t();
	return stub_result();
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	*event = stream;
	return cudaSuccess;
}
inline cudaError_t cudaEventQuery(cudaEvent_t)
{
	return stub_busy ? stub_error = cudaErrorNotReady : stub_result();
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	delete event;
	return stub_result();
}
/* Whether any stream is captured. */
inline bool stub_captures;

inline cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus *status)
{
	*status = stub_captures ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
	return cudaSuccess;
}
inline cudaError_t cudaGetLastError()
{
	cudaError_t error = stub_error;

	stub_error = cudaSuccess;
	return error;
}
inline cudaError_t cudaDeviceEnablePeerAccess(int, unsigned int)
{
	return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize()
{
	stub_synchronized++;
	if (stub_busy)
		vpmm_host_stream_complete(stub_busy, ~0u);
	stub_busy = nullptr;
	return cudaSuccess;
}

#endif
