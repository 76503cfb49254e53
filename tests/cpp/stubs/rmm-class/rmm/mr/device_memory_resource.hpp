// SPDX-License-Identifier: LGPL-2.1-or-later
/* As in RMM 26.04. */
#pragma once
#include <rmm/cuda_stream_view.hpp>

#include <cstddef>

namespace rmm::mr {
class device_memory_resource
{
public:
	virtual ~device_memory_resource() = default;
	void *allocate(cuda_stream_view stream, std::size_t bytes, std::size_t = 256)
	{
		return do_allocate(bytes, stream);
	}
	void deallocate(cuda_stream_view stream, void *ptr, std::size_t bytes, std::size_t = 256) noexcept
	{
		do_deallocate(ptr, bytes, stream);
	}
	bool is_equal(const device_memory_resource &other) const noexcept { return do_is_equal(other); }

private:
	virtual void *do_allocate(std::size_t bytes, cuda_stream_view stream) = 0;
	virtual void do_deallocate(void *ptr, std::size_t bytes, cuda_stream_view stream) noexcept = 0;
	virtual bool do_is_equal(const device_memory_resource &other) const noexcept { return this == &other; }
};
}
