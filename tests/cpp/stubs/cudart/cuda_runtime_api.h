/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Of the runtime, what RMM's users ask of an address. A thread has no context before it has set a device, and no
 * address is valid then; what a call returns is the thread's last error, too.
 */
#ifndef STUB_CUDA_RUNTIME_API_H
#define STUB_CUDA_RUNTIME_API_H

typedef enum { cudaSuccess = 0, cudaErrorInvalidValue = 1 } cudaError_t;
enum cudaMemoryType { cudaMemoryTypeUnregistered = 0, cudaMemoryTypeDevice = 2 };
struct cudaPointerAttributes {
	enum cudaMemoryType type;
	int device;
	void *devicePointer;
	void *hostPointer;
};

/* How often the thread has set a device. */
inline thread_local int stub_sets;
inline thread_local cudaError_t stub_last_error;

inline cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr)
{
	attributes->type = stub_sets ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
	attributes->devicePointer = stub_sets ? const_cast<void *>(ptr) : nullptr;
	if (!stub_sets)
		stub_last_error = cudaErrorInvalidValue;
	return stub_sets ? cudaSuccess : cudaErrorInvalidValue;
}
inline cudaError_t cudaGetLastError()
{
	cudaError_t error = stub_last_error;

	stub_last_error = cudaSuccess;
	return error;
}
inline cudaError_t cudaGetDevice(int *device)
{
	*device = 0;
	return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int)
{
	stub_sets++;
	return cudaSuccess;
}

#endif
