// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * RMM, and with it cuDF and cuML, on the default pool of the current device.
 *
 *	g++ -std=c++20 rmm.cc $(pkg-config --cflags --libs vpmm) -lrmm -lcudart && ./a.out
 *
 * with the flags for the include directories of RMM and CUDA.
 */
#define VPMM_WITH_RMM
#include <vpmm.hpp>

#include <rmm/cuda_stream_view.hpp>
#include <rmm/device_buffer.hpp>
#if __has_include(<rmm/mr/per_device_resource.hpp>)
#include <rmm/mr/per_device_resource.hpp>
#else
#include <rmm/mr/device/per_device_resource.hpp>
#endif

#include <cstdio>
#include <cstdlib>

static void show(const char *when)
{
	struct vpmm_stats stats = {};

	stats.size = sizeof(stats);
	if (vpmm_pool_stats(nullptr, &stats)) {
		std::fprintf(stderr, "%s\n", vpmm_last_error());
		std::exit(1);
	}
	std::printf("%s: %zu MiB allocated\n", when, static_cast<std::size_t>(stats.requested >> 20));
}

int main()
{
#if defined(VPMM_HPP_RMM_CLASS)
	/* Before RMM 26.06 a resource must live as long as anybody uses it. */
	static vpmm::rmm_resource resource;
	rmm::mr::set_current_device_resource(&resource);
#else
	rmm::mr::set_current_device_resource(vpmm::rmm_resource());
#endif

	{
		rmm::device_buffer buffer(std::size_t(3) << 20, rmm::cuda_stream_view());

		show("a buffer");
		try {
			rmm::device_buffer huge(std::size_t(1) << 50, rmm::cuda_stream_view());
		} catch (const rmm::out_of_memory &error) {
			std::printf("out of memory: %s\n", error.what());
		}
	}
	show("none");
	return 0;
}
