// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
#include <cstddef>

namespace thrust::mr {
template <class Pointer = void *>
class memory_resource
{
public:
	using pointer = Pointer;

	virtual ~memory_resource() = default;
	pointer allocate(std::size_t bytes, std::size_t alignment) { return do_allocate(bytes, alignment); }
	void deallocate(pointer ptr, std::size_t bytes, std::size_t alignment) noexcept
	{
		do_deallocate(ptr, bytes, alignment);
	}
	bool is_equal(const memory_resource &other) const noexcept { return do_is_equal(other); }
	virtual pointer do_allocate(std::size_t bytes, std::size_t alignment) = 0;
	virtual void do_deallocate(pointer ptr, std::size_t bytes, std::size_t alignment) = 0;
	virtual bool do_is_equal(const memory_resource &other) const noexcept { return this == &other; }
};
}
