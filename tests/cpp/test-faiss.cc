// SPDX-License-Identifier: LGPL-2.1-or-later
/* The resources of faiss, over a base class that counts what is left to it. */
#define VPMM_WITH_FAISS
#include <vpmm.hpp>

#include <limits>
#include <memory>

#include "check.hpp"

using namespace faiss::gpu;

static AllocRequest request(AllocType type, MemorySpace space, struct CUstream_st *stream, std::size_t size,
	int device = 0)
{
	return AllocRequest(type, device, space, stream, size);
}

static void test_memory(GpuResources &resources)
{
	streams s;

	check_unordered([&](std::size_t size) {
		return resources.allocMemory(request(AllocType::FlatData, MemorySpace::Device, s.a, size));
	}, [&](void *ptr, std::size_t) { resources.deallocMemory(0, ptr); });
	check_ordered([&](std::size_t size, struct CUstream_st *stream) {
		return resources.allocMemory(request(AllocType::TemporaryMemoryOverflow, MemorySpace::Device, stream,
			size));
	}, [&](void *ptr, std::size_t, struct CUstream_st *) { resources.deallocMemory(0, ptr); });

	void *ptr = resources.allocMemory(request(AllocType::Other, MemorySpace::Device, s.a, 100));
	CHECK(bytes_at(ptr) == 112);
	resources.deallocMemory(0, ptr);
	CHECK(!resources.allocMemory(request(AllocType::Other, MemorySpace::Device, s.a, 0)));
	resources.deallocMemory(0, nullptr);
}

/* Managed memory is the base class's; so is the stack of temporary memory, but for the block that it consists of. */
static void test_base(GpuResources &resources)
{
	void *managed, *temporary;

	managed = resources.allocMemory(request(AllocType::Other, MemorySpace::Unified, nullptr, 100));
	CHECK(bytes_at(managed) == UINT64_MAX);
	CHECK(base_blocks == 1);
	resources.deallocMemory(0, managed);
	CHECK(base_blocks == 0);

	temporary = resources.allocMemory(request(AllocType::Other, MemorySpace::Temporary, nullptr, 100));
	CHECK(bytes_at(temporary) == UINT64_MAX);
	struct vpmm_allocation found = {};
	found.size = sizeof(found);
	CHECK(!vpmm_lookup(temporary, &found) && found.bytes == STACK_SIZE);
	resources.deallocMemory(0, temporary);

	temporary = resources.allocMemory(request(AllocType::Other, MemorySpace::Temporary, nullptr, 2 * STACK_SIZE));
	CHECK(bytes_at(temporary) == 2 * STACK_SIZE);
	resources.deallocMemory(0, temporary);
}

/* A device of a request need not be the current one. */
static void test_devices(GpuResources &resources)
{
	struct vpmm_allocation found = {};
	void *ptr = resources.allocMemory(request(AllocType::Other, MemorySpace::Device, nullptr, 1000, 1));

	found.size = sizeof(found);
	CHECK(!vpmm_lookup(ptr, &found) && found.device == 1);
	CHECK(current_device == 0);
	resources.deallocMemory(1, ptr);
	CHECK(bytes_at(ptr) == UINT64_MAX);
}

int main()
{
	auto resources = std::make_shared<vpmm::faiss_resources>();
	GpuResources &base = *resources;

	base.initializeForDevice(0);
	test_memory(base);
	test_base(base);
	test_devices(base);
	CHECK(explains(thrown<faiss::FaissException>([&] {
		(void)base.allocMemory(request(AllocType::Other, MemorySpace::Device, nullptr, TOO_MUCH));
	})));
	CHECK(*thrown<faiss::FaissException>([&] {
		(void)base.allocMemory(request(AllocType::Other, MemorySpace::Device, nullptr,
			std::numeric_limits<std::size_t>::max()));
	}));
	/* The streams go with the resources, and no pool remembers them. */
	void *ptr = base.allocMemory(request(AllocType::TemporaryMemoryOverflow, MemorySpace::Device,
		base.getDefaultStream(0), MIB));
	base.deallocMemory(0, ptr);
	CHECK(stats_of().requested == STACK_SIZE);
	const uint64_t known = stats_of().streams;
	resources.reset();
	CHECK(stats_of().requested == 0);
	CHECK(stats_of().streams == known - 1);
	return failures != 0;
}
