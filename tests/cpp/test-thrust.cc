// SPDX-License-Identifier: LGPL-2.1-or-later
/* Thrust's memory resource. Its algorithms need a GPU, and are in tests/gpu/test-cccl.cu. */
#define VPMM_WITH_THRUST
#include <vpmm.hpp>

#include "check.hpp"

int main()
{
	vpmm::thrust_resource any;
	thrust::mr::memory_resource<thrust::cuda::pointer<void>> &resource = any;
	vpmm::thrust_allocator<int> ints;

	check_unordered([&](std::size_t size) { return resource.allocate(size, 256).get(); },
		[&](void *ptr, std::size_t size) { resource.deallocate(thrust::cuda::pointer<void>(ptr), size, 256); });
	check_ordered([](std::size_t size, struct CUstream_st *stream) {
		return vpmm::thrust_resource(stream).allocate(size, 256).get();
	}, [](void *ptr, std::size_t size, struct CUstream_st *stream) {
		vpmm::thrust_resource(stream).deallocate(thrust::cuda::pointer<void>(ptr), size, 256);
	});
	auto ptr = ints.allocate(1000);
	CHECK(bytes_at(ptr.get()) == 1000 * sizeof(int));
	ints.deallocate(ptr, 1000);
	CHECK(bytes_at(ptr.get()) == UINT64_MAX);
	CHECK(explains(thrown<std::bad_alloc>([&] { (void)resource.allocate(TOO_MUCH, 256); })));
	CHECK(*thrown<vpmm::error>([&] { (void)resource.allocate(1, 4096); }));
	return failures != 0;
}
