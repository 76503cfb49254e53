// SPDX-License-Identifier: LGPL-2.1-or-later
/* The resource of the one device: any that has the calls, or a pointer to one, as before RMM 26.06. */
#pragma once
#include <cstddef>
#include <functional>
#include <memory>

struct CUstream_st;

namespace rmm::mr {

struct any_resource {
	std::function<void *(struct CUstream_st *, std::size_t, std::size_t)> allocate;
	std::function<void(struct CUstream_st *, void *, std::size_t, std::size_t)> deallocate;
};

inline any_resource &current_resource()
{
	static any_resource resource;
	return resource;
}

template <class Resource>
void set_current_device_resource(Resource resource)
{
	auto kept = std::make_shared<Resource>(resource);

	current_resource().allocate = [kept](struct CUstream_st *stream, std::size_t size, std::size_t alignment) {
		return kept->allocate(stream, size, alignment);
	};
	current_resource().deallocate = [kept](struct CUstream_st *stream, void *ptr, std::size_t size,
		std::size_t alignment) { kept->deallocate(stream, ptr, size, alignment); };
}

template <class Resource>
void set_current_device_resource(Resource *resource)
{
	current_resource().allocate = [resource](struct CUstream_st *stream, std::size_t size, std::size_t alignment) {
		return resource->allocate(stream, size, alignment);
	};
	current_resource().deallocate = [resource](struct CUstream_st *stream, void *ptr, std::size_t size,
		std::size_t alignment) { resource->deallocate(stream, ptr, size, alignment); };
}

}
