// SPDX-License-Identifier: LGPL-2.1-or-later
/* RMM before 26.06, whose resources have a base class. */
#define VPMM_WITH_RMM
#include <vpmm.hpp>

#include "bound.hpp"
#include "check.hpp"

int main()
{
	struct vpmm_opts opts = {};

	opts.size = sizeof(opts);
	opts.backend = "host";
	vpmm::pool pool(&opts);
	vpmm::rmm_resource ours, same, of_its_own(pool.get());
	rmm::mr::device_memory_resource &resource = ours;

	check_ordered([&](std::size_t size, struct CUstream_st *stream) {
		return resource.allocate(rmm::cuda_stream_view(stream), size);
	}, [&](void *ptr, std::size_t size, struct CUstream_st *stream) {
		resource.deallocate(rmm::cuda_stream_view(stream), ptr, size);
	});
	check_bound([&] { return resource.allocate(rmm::cuda_stream_view(), MIB); },
		    [&](void *ptr) { resource.deallocate(rmm::cuda_stream_view(), ptr, MIB); });
	CHECK(resource.is_equal(same));
	CHECK(!resource.is_equal(of_its_own));
	CHECK(!resource.allocate(rmm::cuda_stream_view(), 0));
	CHECK(explains(thrown<rmm::out_of_memory>([&] { (void)resource.allocate(rmm::cuda_stream_view(), TOO_MUCH); })));
	CHECK(explains(thrown<rmm::bad_alloc>([&] { (void)resource.allocate(rmm::cuda_stream_view(), TOO_MUCH); })));
	return failures != 0;
}
