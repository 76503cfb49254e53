// SPDX-License-Identifier: LGPL-2.1-or-later
/* Thrust's memory resource. Its algorithms need a GPU, and are in tests/gpu/test-cccl.cu. */
#define VPMM_WITH_THRUST
#include <vpmm.hpp>

#include "check.hpp"

/* Thrust moves a vector, and does not copy it, where the one resource can free what the other has allocated. */
static void test_equality()
{
	struct vpmm_opts opts = {};
	streams s;

	opts.size = sizeof(opts);
	opts.backend = "host";
	vpmm::pool pool(&opts);
	vpmm::thrust_resource any, same, of_a_stream(s.a), same_stream(s.a), of_its_own(VPMM_STREAM_ANY, pool.get());

	CHECK(any.is_equal(any) && any.is_equal(same) && same.is_equal(any));
	CHECK(of_a_stream.is_equal(same_stream));
	CHECK(!any.is_equal(of_a_stream) && !of_a_stream.is_equal(any));
	CHECK(!any.is_equal(of_its_own) && !of_its_own.is_equal(any));
	CHECK(!of_a_stream.is_equal(vpmm::thrust_resource(s.b)));
	void *ptr = same.allocate(MIB, 256).get();
	any.deallocate(thrust::cuda::pointer<void>(ptr), MIB, 256);
	CHECK(bytes_at(ptr) == UINT64_MAX);
}

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
	CHECK(*thrown<vpmm::error>([&] { (void)resource.allocate(1, 4095); }));

	auto wide = resource.allocate(1, 4096);

	CHECK(reinterpret_cast<std::uintptr_t>(wide.get()) % 4096 == 0);
	resource.deallocate(wide, 1, 4096);
	CHECK(!resource.allocate(0, 256).get());
	resource.deallocate(thrust::cuda::pointer<void>(nullptr), 0, 256);
	test_equality();
	return failures != 0;
}
