/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The base classes of PyTorch's allocators, and the functions that these call. */
#ifndef STUB_C10_ALLOCATOR_H
#define STUB_C10_ALLOCATOR_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#define C10_LIKELY(condition) __builtin_expect(static_cast<bool>(condition), 1)
#define C10_UNLIKELY(condition) __builtin_expect(static_cast<bool>(condition), 0)
#define TORCH_CHECK_WITH(type, condition, ...) \
	do { \
		if (!(condition)) \
			throw c10::type(c10::stub_text(__VA_ARGS__)); \
	} while (0)
#define TORCH_CHECK(condition, ...) TORCH_CHECK_WITH(Error, condition, __VA_ARGS__)
#define C10_CUDA_CHECK(call) TORCH_CHECK((call) == cudaSuccess, "CUDA error")

namespace c10 {
class Error : public std::runtime_error {
public:
	using std::runtime_error::runtime_error;
	const char *what_without_backtrace() const noexcept
	{
		return what();
	}
};
class OutOfMemoryError : public Error {
public:
	using Error::Error;
};

template <typename... Parts> std::string stub_text(const Parts &...parts)
{
	std::ostringstream text;

	(text << ... << parts);
	return text.str();
}

using DeviceIndex = int8_t;
enum class DeviceType : int8_t { CUDA = 1 };
struct Device {
	Device(DeviceType, DeviceIndex) {}
};
struct Stream {
	struct CUstream_st *handle;
};

using DeleterFnPtr = void (*)(void *);
class DataPtr {
public:
	DataPtr(void *ptr, void *context, DeleterFnPtr deleter, Device) : ptr_(context, deleter), data_(ptr) {}
	void *get() const
	{
		return data_;
	}
	DeleterFnPtr get_deleter() const
	{
		return ptr_.get_deleter();
	}

private:
	std::unique_ptr<void, DeleterFnPtr> ptr_;
	void *data_;
};

struct Allocator {
	virtual ~Allocator() = default;
	virtual DataPtr allocate(size_t size) = 0;
	virtual DeleterFnPtr raw_deleter() const
	{
		return nullptr;
	}
	virtual void copy_data(void *to, const void *from, size_t size) const = 0;
};
inline Allocator *stub_allocator;
inline void SetAllocator(DeviceType, Allocator *allocator, uint8_t)
{
	stub_allocator = allocator;
}

struct GatheredContext {
	virtual ~GatheredContext() = default;
};

/* Whether there is a profiler, the bytes that it knows of, and what it was told that there is in all. */
inline bool stub_profiles;
inline int64_t stub_profiled;
inline size_t stub_total;

inline bool memoryProfilingEnabled()
{
	return stub_profiles;
}
inline void reportMemoryUsageToProfiler(void *, int64_t size, size_t total, size_t, Device)
{
	stub_profiled += size;
	stub_total = total;
}
inline void reportOutOfMemoryToProfiler(int64_t, size_t, size_t, Device) {}

struct FreeMemoryCallback {
	virtual ~FreeMemoryCallback() = default;
	virtual bool Execute() = 0;
};
struct StubRegistry {
	std::vector<std::string> Keys()
	{
		return {};
	}
	std::unique_ptr<FreeMemoryCallback> Create(const std::string &)
	{
		return nullptr;
	}
};
inline StubRegistry *FreeCudaMemoryCallbacksRegistry()
{
	static StubRegistry registry;

	return &registry;
}
} // namespace c10

#endif
