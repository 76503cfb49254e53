// SPDX-License-Identifier: LGPL-2.1-or-later
/* Of TensorRT 10, what an allocator is. */
#pragma once
#include <cstdint>

#define NV_TENSORRT_MAJOR 10

struct CUstream_st;
typedef struct CUstream_st *cudaStream_t;

namespace nvinfer1 {

using AllocatorFlags = uint32_t;
enum class AllocatorFlag : int32_t { kRESIZABLE = 0 };

class IGpuAllocator
{
public:
	virtual ~IGpuAllocator() = default;
	[[deprecated]] virtual void *allocate(uint64_t size, uint64_t alignment, AllocatorFlags flags) noexcept = 0;
	virtual void *reallocate(void *, uint64_t, uint64_t) noexcept { return nullptr; }
	[[deprecated]] virtual bool deallocate(void *memory) noexcept = 0;
	virtual void *allocateAsync(uint64_t size, uint64_t alignment, AllocatorFlags flags, cudaStream_t stream) noexcept = 0;
	virtual bool deallocateAsync(void *memory, cudaStream_t stream) noexcept = 0;
};

class IGpuAsyncAllocator : public IGpuAllocator
{
public:
	void *allocateAsync(uint64_t size, uint64_t alignment, AllocatorFlags flags, cudaStream_t stream) noexcept
		override = 0;
	bool deallocateAsync(void *memory, cudaStream_t stream) noexcept override = 0;
	[[deprecated]] void *allocate(uint64_t size, uint64_t alignment, AllocatorFlags flags) noexcept override
	{
		return allocateAsync(size, alignment, flags, nullptr);
	}
	[[deprecated]] bool deallocate(void *memory) noexcept override { return deallocateAsync(memory, nullptr); }
};

}
