/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One device, and the stream that is current. */
#ifndef STUB_C10_CUDASTREAM_H
#define STUB_C10_CUDASTREAM_H

#include <c10/core/Allocator.h>
#include <cuda_runtime_api.h>

namespace c10::cuda {
inline cudaStream_t stub_current;

class CUDAStream {
public:
	explicit CUDAStream(Stream stream) : handle_(stream.handle) {}
	cudaStream_t stream() const
	{
		return handle_;
	}

private:
	cudaStream_t handle_;
};

inline DeviceIndex current_device()
{
	return 0;
}
inline CUDAStream getCurrentCUDAStream(DeviceIndex = -1)
{
	return CUDAStream(Stream{ stub_current });
}
/* Whether no device can be made current, as when the driver has gone. */
inline bool stub_guard_fails;

struct CUDAGuard {
	explicit CUDAGuard(DeviceIndex)
	{
		TORCH_CHECK(!stub_guard_fails, "CUDA error");
	}
	~CUDAGuard() {}
};
} // namespace c10::cuda

#endif
