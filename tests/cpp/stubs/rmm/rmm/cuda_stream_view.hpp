// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
#include <cuda_runtime_api.h>
struct CUstream_st;
namespace rmm {
class cuda_stream_view
{
public:
	cuda_stream_view() = default;
	cuda_stream_view(struct CUstream_st *stream) noexcept : stream_(stream) {}
	cuda_stream_view(int) = delete;
	struct CUstream_st *value() const noexcept { return stream_; }

private:
	struct CUstream_st *stream_ = nullptr;
};
}
