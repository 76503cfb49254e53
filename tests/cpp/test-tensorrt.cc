// SPDX-License-Identifier: LGPL-2.1-or-later
/* TensorRT's allocator, called as TensorRT calls it. */
#define VPMM_WITH_TENSORRT
#include <vpmm.hpp>

#include "check.hpp"

static const nvinfer1::AllocatorFlags resizable = 1u << static_cast<int>(nvinfer1::AllocatorFlag::kRESIZABLE);

static void test_resize(nvinfer1::IGpuAsyncAllocator &allocator)
{
	const uint64_t before = stats_of().requested;
	streams s;
	void *ptr = allocator.allocateAsync(2 * MIB, 256, resizable, s.a), *other, *larger, *again;

	/* So that it cannot grow where it is. */
	other = allocator.allocateAsync(2 * MIB, 256, 0, s.a);
	CHECK(!vpmm_host_stream_submit(s.a));
	larger = allocator.reallocate(ptr, 256, 24 * MIB);
	CHECK(bytes_at(larger) == 24 * MIB);
	CHECK(larger != ptr);
	/* Who gets its old address next has not asked for that. */
	again = allocator.allocateAsync(2 * MIB, 256, 0, s.a);
	CHECK(again == ptr);
	CHECK(!allocator.reallocate(again, 256, 3 * MIB));
	CHECK(allocator.deallocateAsync(again, s.a));
	larger = allocator.reallocate(larger, 0, 30 * MIB);
	CHECK(bytes_at(larger) == 30 * MIB);

	/* What it says no to stays as it is. */
	CHECK(!allocator.reallocate(larger, 256, TOO_MUCH));
	CHECK(!allocator.reallocate(larger, 256, 0));
	CHECK(!allocator.reallocate(larger, 4096, 40 * MIB));
	CHECK(bytes_at(larger) == 30 * MIB);
	CHECK(!allocator.reallocate(other, 256, 4 * MIB));
	CHECK(bytes_at(other) == 2 * MIB);
	CHECK(allocator.deallocateAsync(other, s.a));
	CHECK(allocator.deallocateAsync(larger, s.a));

	/* A block at the same address that is not resizable. */
	ptr = allocator.allocateAsync(30 * MIB, 256, 0, s.a);
	CHECK(ptr == larger);
	CHECK(!allocator.reallocate(ptr, 256, 31 * MIB));
	CHECK(allocator.deallocateAsync(ptr, s.a));
	CHECK(stats_of().requested == before);
}

/* The contents are kept in the order of the stream. */
static void test_contents(nvinfer1::IGpuAsyncAllocator &allocator)
{
	streams s;
	void *ptr = allocator.allocateAsync(3000, 256, resizable, s.a);

	std::memset(ptr, 'x', 3000);
	ptr = allocator.reallocate(ptr, 256, 3 * MIB);
	CHECK(!vpmm_host_stream_complete(s.a, UINT_MAX));
	CHECK(ptr && !std::memcmp(ptr, "xxxx", 4) && static_cast<char *>(ptr)[2999] == 'x');
	CHECK(allocator.deallocateAsync(ptr, s.a));
}

/* Nobody knows whose default stream it would be. */
static void test_per_thread(nvinfer1::IGpuAsyncAllocator &allocator)
{
	struct CUstream_st *const stream = VPMM_HOST_STREAM_PER_THREAD;
	void *ptr = allocator.allocateAsync(MIB, 256, resizable, stream);

	CHECK(!allocator.reallocate(ptr, 256, 2 * MIB));
	CHECK(bytes_at(ptr) == MIB);
	CHECK(allocator.deallocateAsync(ptr, stream));
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static void test_without_streams(nvinfer1::IGpuAllocator &allocator)
{
	check_unordered([&](std::size_t size) { return allocator.allocate(size, 0, 0); },
		[&](void *ptr, std::size_t) { CHECK(allocator.deallocate(ptr)); });

	/* Nobody knows what work is pending on it. */
	void *ptr = allocator.allocate(MIB, 0, resizable);
	CHECK(!allocator.reallocate(ptr, 0, 2 * MIB));
	CHECK(allocator.deallocate(ptr));
}

int main()
{
	vpmm::tensorrt_allocator ours;
	nvinfer1::IGpuAsyncAllocator &allocator = ours;

	check_ordered([&](std::size_t size, struct CUstream_st *stream) {
		return allocator.allocateAsync(size, 256, 0, stream);
	}, [&](void *ptr, std::size_t, struct CUstream_st *stream) { CHECK(allocator.deallocateAsync(ptr, stream)); });
	test_without_streams(ours);
	test_resize(allocator);
	test_contents(allocator);
	test_per_thread(allocator);
	CHECK(!allocator.allocateAsync(0, 256, 0, nullptr));
	CHECK(!allocator.allocateAsync(TOO_MUCH, 256, 0, nullptr));
	CHECK(!allocator.allocateAsync(1, 4095, 0, nullptr));

	void *wide = allocator.allocateAsync(1, 4096, 0, nullptr);

	CHECK(wide && reinterpret_cast<std::uintptr_t>(wide) % 4096 == 0);
	CHECK(allocator.deallocateAsync(wide, nullptr));
	CHECK(allocator.deallocateAsync(nullptr, nullptr));
	CHECK(!allocator.deallocateAsync(&ours, nullptr));
	return failures != 0;
}
