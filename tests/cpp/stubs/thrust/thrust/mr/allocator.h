// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
#include <thrust/mr/memory_resource.h>
#include <thrust/system/cuda/pointer.h>

namespace thrust::mr {
template <class T, class Resource>
class stateless_resource_allocator
{
public:
	cuda::pointer<T> allocate(std::size_t count)
	{
		return cuda::pointer<T>(resource().allocate(count * sizeof(T), alignof(T)).get());
	}
	void deallocate(cuda::pointer<T> ptr, std::size_t count) noexcept
	{
		resource().deallocate(cuda::pointer<void>(ptr.get()), count * sizeof(T), alignof(T));
	}

private:
	static Resource &resource()
	{
		static Resource resource;
		return resource;
	}
};
}
