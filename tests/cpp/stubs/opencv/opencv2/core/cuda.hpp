// SPDX-License-Identifier: LGPL-2.1-or-later
/* Of OpenCV, what an allocator of GpuMat sees. */
#pragma once
#include <cstddef>
#include <cstdlib>

namespace cv {

inline int fast_blocks;

inline void *fastMalloc(std::size_t size)
{
	fast_blocks++;
	return std::malloc(size);
}
inline void fastFree(void *ptr)
{
	fast_blocks--;
	std::free(ptr);
}

namespace cuda {
struct GpuMat {
	class Allocator
	{
	public:
		virtual ~Allocator() {}
		virtual bool allocate(GpuMat *mat, int rows, int cols, std::size_t elemSize) = 0;
		virtual void free(GpuMat *mat) = 0;
	};

	std::size_t step;
	unsigned char *data;
	int *refcount;
	unsigned char *datastart;
};
}

}
