// SPDX-License-Identifier: LGPL-2.1-or-later
/* OpenCV's allocator, called as GpuMat calls it. */
#define VPMM_WITH_OPENCV
#include <vpmm.hpp>

#include <limits>

#include "check.hpp"

int main()
{
	vpmm::opencv_allocator ours;
	cv::cuda::GpuMat::Allocator &allocator = ours;
	const int most = std::numeric_limits<int>::max();
	cv::cuda::GpuMat mat = {};

	check_unordered([&](std::size_t size) -> void * {
		CHECK(allocator.allocate(&mat, 1, static_cast<int>(size), 1));
		CHECK(mat.step == size);
		mat.datastart = mat.data;
		return mat.data;
	}, [&](void *, std::size_t) { allocator.free(&mat); });

	CHECK(allocator.allocate(&mat, 3, 513, 1));
	CHECK(mat.step == 1024 && bytes_at(mat.data) == 3 * 1024 && mat.refcount);
	/* GpuMat may be a part of what was allocated. */
	mat.datastart = mat.data;
	mat.data += 100;
	allocator.free(&mat);
	CHECK(bytes_at(mat.datastart) == UINT64_MAX);

	CHECK(allocator.allocate(&mat, 100, 1, 12));
	CHECK(mat.step == 12 && bytes_at(mat.data) == 1200);
	mat.datastart = mat.data;
	allocator.free(&mat);
	CHECK(cv::fast_blocks == 0);

	/* Neither too much nor more than a size_t holds, where the rest of the division by its range is 0. */
	mat = {};
	CHECK(!allocator.allocate(&mat, 1 << 20, 1 << 20, 1));
	CHECK(explains(vpmm_last_error()));
	CHECK(!allocator.allocate(&mat, 16, 1 << 30, std::size_t(1) << 30));
	CHECK(!allocator.allocate(&mat, 1, 1 << 30, std::size_t(1) << 34));
	CHECK(!allocator.allocate(&mat, most, most, std::numeric_limits<std::size_t>::max()));
	CHECK(!mat.data && !mat.step && !mat.refcount);
	CHECK(cv::fast_blocks == 0);
	return failures != 0;
}
