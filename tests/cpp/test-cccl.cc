// SPDX-License-Identifier: LGPL-2.1-or-later
/* The resource of CCCL, by both sets of names, whichever of them CCCL asks for; RMM's from 26.06 on with TEST_RMM. */
#ifdef TEST_RMM
#define VPMM_WITH_RMM
#else
#define VPMM_WITH_CCCL
#endif
#include <vpmm.hpp>

#ifdef TEST_RMM
#define VPMM_WITH_CCCL
#include <vpmm.hpp>
#endif

#include "check.hpp"

#ifdef TEST_RMM
#include "bound.hpp"

using tested = vpmm::rmm_resource;
using exhausted = rmm::out_of_memory;
using refused = rmm::bad_alloc;
#else
using tested = vpmm::resource;
using exhausted = std::bad_alloc;
using refused = vpmm::error;
#endif

#if CCCL_VERSION >= 3001000
static_assert(cuda::mr::synchronous_resource_with<tested, cuda::mr::device_accessible>);
static_assert(cuda::mr::resource_with<tested, cuda::mr::device_accessible>);
#else
static_assert(cuda::mr::resource_with<tested, cuda::mr::device_accessible>);
static_assert(cuda::mr::async_resource_with<tested, cuda::mr::device_accessible>);

/* As code that knows no type but CCCL's has it. */
static void test_reference()
{
	tested resource;
	cuda::mr::async_resource_ref<cuda::mr::device_accessible> reference(resource);
	streams s;
	void *ptr = reference.allocate_async(100, 64, cuda::stream_ref(s.a));

	CHECK(bytes_at(ptr) == 100);
	reference.deallocate_async(ptr, 100, 64, cuda::stream_ref(s.a));
	CHECK(bytes_at(ptr) == UINT64_MAX);
	ptr = reference.allocate(100);
	CHECK(bytes_at(ptr) == 100);
	reference.deallocate(ptr, 100);
	CHECK(bytes_at(ptr) == UINT64_MAX);
	CHECK(explains(thrown<exhausted>([&] { (void)reference.allocate(TOO_MUCH); })));
}
#endif

static void test_equality()
{
	struct vpmm_opts opts = {};

	opts.size = sizeof(opts);
	opts.backend = "host";
	vpmm::pool pool(&opts);
	tested of_its_own(pool.get()), copy(of_its_own), of_default;

	CHECK(of_its_own == copy);
	CHECK(of_its_own != of_default);
	CHECK(!(of_its_own == of_default) && !(of_its_own != copy));
	void *ptr = of_its_own.allocate_sync(MIB);
	CHECK(stats_of(pool.get()).requested == MIB);
	copy.deallocate_sync(ptr, MIB);
	CHECK(stats_of(pool.get()).requested == 0);
}

static void test_errors()
{
	tested resource;
	streams s;

	CHECK(explains(thrown<exhausted>([&] { (void)resource.allocate(cuda::stream_ref(s.a), TOO_MUCH, 256); })));
	CHECK(explains(thrown<exhausted>([&] { (void)resource.allocate_sync(TOO_MUCH, 256); })));
	for (std::size_t alignment : {0, 3, 12288, 1 << 30}) {
		CHECK(std::strstr(thrown<refused>([&] { (void)resource.allocate_sync(1, alignment); }), "alignment"));
		/* What is no want of memory is not reported as one: RMM's adaptors would try again. */
		CHECK(!*thrown<exhausted>([&] { (void)resource.allocate_sync(1, alignment); }));
	}
	for (std::size_t alignment : {512, 4096, 1 << 20, 2 << 20}) {
		void *ptr = resource.allocate(cuda::stream_ref(s.a), 1000, alignment), *other = resource.allocate_sync(1, alignment);

		CHECK(reinterpret_cast<std::uintptr_t>(ptr) % alignment == 0);
		CHECK(reinterpret_cast<std::uintptr_t>(other) % alignment == 0);
		resource.deallocate(cuda::stream_ref(s.a), ptr, 1000, alignment);
		resource.deallocate_sync(other, 1, alignment);
	}
	CHECK(!resource.allocate_sync(0, 1));
	resource.deallocate_sync(nullptr, 0);
}

int main()
{
	tested resource;

	check_ordered([&](std::size_t size, struct CUstream_st *stream) {
		return resource.allocate(cuda::stream_ref(stream), size, 256);
	}, [&](void *ptr, std::size_t size, struct CUstream_st *stream) {
		resource.deallocate(cuda::stream_ref(stream), ptr, size, 256);
	});
	check_ordered([&](std::size_t size, struct CUstream_st *stream) {
		return resource.allocate_async(size, 256, cuda::stream_ref(stream));
	}, [&](void *ptr, std::size_t size, struct CUstream_st *stream) {
		resource.deallocate_async(ptr, size, 256, cuda::stream_ref(stream));
	});
	check_ordered([&](std::size_t size, struct CUstream_st *stream) {
		return resource.allocate_async(size, cuda::stream_ref(stream));
	}, [&](void *ptr, std::size_t size, struct CUstream_st *stream) {
		resource.deallocate_async(ptr, size, cuda::stream_ref(stream));
	});
	check_unordered([&](std::size_t size) { return resource.allocate_sync(size); },
		[&](void *ptr, std::size_t size) { resource.deallocate_sync(ptr, size); });
	check_unordered([&](std::size_t size) { return resource.allocate(size, 256); },
		[&](void *ptr, std::size_t size) { resource.deallocate(ptr, size, 256); });
#ifdef TEST_RMM
	check_bound([&] { return resource.allocate_sync(MIB); },
		[&](void *ptr) { resource.deallocate_sync(ptr, MIB); });
#endif
	test_equality();
	test_errors();
#if CCCL_VERSION < 3001000
	test_reference();
#endif
	return failures != 0;
}
