// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
#include <rmm/cuda_stream_view.hpp>
#include <rmm/mr/per_device_resource.hpp>

#include <cstddef>

namespace rmm {
class device_buffer
{
public:
	device_buffer(std::size_t size, cuda_stream_view stream) : size_(size), stream_(stream)
	{
		data_ = mr::current_resource().allocate(stream.value(), size, 256);
	}
	device_buffer(const device_buffer &) = delete;
	~device_buffer() { mr::current_resource().deallocate(stream_.value(), data_, size_, 256); }

private:
	std::size_t size_;
	cuda_stream_view stream_;
	void *data_;
};
}
