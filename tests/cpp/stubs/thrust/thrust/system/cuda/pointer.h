// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
namespace thrust::cuda {
template <class T>
class pointer
{
public:
	pointer() = default;
	explicit pointer(void *ptr) : ptr_(static_cast<T *>(ptr)) {}
	T *get() const { return ptr_; }

private:
	T *ptr_ = nullptr;
};
}
