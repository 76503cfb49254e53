// SPDX-License-Identifier: LGPL-2.1-or-later
/* Of faiss, how memory goes through its resources: a stack of temporary memory, which it allocates from itself. */
#pragma once
#include <faiss/gpu/utils/DeviceUtils.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <unordered_map>

struct CUstream_st;
typedef struct CUstream_st *cudaStream_t;

namespace faiss::gpu {

enum AllocType { Other = 0, FlatData = 1, TemporaryMemoryBuffer = 10, TemporaryMemoryOverflow = 11 };
enum MemorySpace { Temporary = 0, Device = 1, Unified = 2 };

struct AllocRequest {
	AllocRequest() {}
	AllocRequest(AllocType type, int device, MemorySpace space, cudaStream_t stream, std::size_t size)
		: type(type), device(device), space(space), stream(stream), size(size)
	{
	}
	std::string toString() const { return std::to_string(size) + " bytes"; }

	AllocType type = Other;
	int device = 0;
	MemorySpace space = Device;
	cudaStream_t stream = nullptr;
	std::size_t size = 0;
};

class GpuResources
{
public:
	virtual ~GpuResources() = default;
	virtual void initializeForDevice(int device) = 0;
	virtual cudaStream_t getDefaultStream(int device) = 0;
	virtual void *allocMemory(const AllocRequest &request) = 0;
	virtual void deallocMemory(int device, void *ptr) = 0;
};

constexpr std::size_t STACK_SIZE = 65536;
inline int base_blocks;

struct StackDeviceMemory {
	StackDeviceMemory(GpuResources *resources, int device) : resources(resources), device(device)
	{
		start = static_cast<char *>(resources->allocMemory(
			AllocRequest(TemporaryMemoryBuffer, device, Device, resources->getDefaultStream(device), STACK_SIZE)));
	}
	~StackDeviceMemory() { resources->deallocMemory(device, start); }

	GpuResources *resources;
	int device;
	char *start;
};

class StandardGpuResourcesImpl : public GpuResources
{
public:
	/* What is left here is not what this class has allocated. */
	~StandardGpuResourcesImpl() override
	{
		tempMemory_.clear();
		for (auto &device : allocs_) {
			if (!device.second.empty())
				std::abort();
		}
		for (auto &stream : defaultStreams_)
			vpmm_host_stream_destroy(stream.second);
	}
	void initializeForDevice(int device) override
	{
		if (allocs_.count(device))
			return;
		DeviceScope scope(device);

		vpmm_host_stream_create(&defaultStreams_[device]);
		allocs_[device];
		tempMemory_.emplace(device, std::make_unique<StackDeviceMemory>(this, device));
	}
	cudaStream_t getDefaultStream(int device) override
	{
		initializeForDevice(device);
		return defaultStreams_[device];
	}
	void *allocMemory(const AllocRequest &request) override
	{
		void *ptr;

		initializeForDevice(request.device);
		if (request.space == Temporary) {
			if (request.size > STACK_SIZE / 2) {
				AllocRequest larger = request;

				larger.space = Device;
				larger.type = TemporaryMemoryOverflow;
				return allocMemory(larger);
			}
			ptr = tempMemory_[request.device]->start + 16;
		} else {
			base_blocks++;
			ptr = std::malloc(request.size);
		}
		allocs_[request.device][ptr] = request;
		return ptr;
	}
	void deallocMemory(int device, void *ptr) override
	{
		if (!ptr)
			return;

		auto found = allocs_[device].find(ptr);

		if (found == allocs_[device].end())
			std::abort();
		if (found->second.space != Temporary) {
			base_blocks--;
			std::free(ptr);
		}
		allocs_[device].erase(found);
	}

protected:
	std::unordered_map<int, std::unordered_map<void *, AllocRequest>> allocs_;
	std::unordered_map<int, std::unique_ptr<StackDeviceMemory>> tempMemory_;
	std::unordered_map<int, cudaStream_t> defaultStreams_;
};

}
