/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libvpmm for C++17 and later: pools, allocators, and the memory resources of CCCL, Thrust, RMM, TensorRT, OpenCV and
 * faiss. All of it is in this header, on top of vpmm.h. vpmm.hpp(3) describes it, vpmm-frameworks(7) how to switch each
 * framework over.
 *
 * Define the macro of a framework before the inclusion to declare the classes that need its header: VPMM_WITH_CCCL,
 * VPMM_WITH_THRUST, VPMM_WITH_RMM, VPMM_WITH_TENSORRT, VPMM_WITH_OPENCV, VPMM_WITH_FAISS. The header can be included
 * again with other macros.
 *
 * A null pointer in place of a pool is the default pool of the device that is current at each call. The first
 * allocation creates it. A free returns a block to its own pool, whatever device is current.
 *
 * A null stream means the same as for the runtime in the same source: the calling thread's default stream if
 * CUDA_API_PER_THREAD_DEFAULT_STREAM is defined, as by nvcc --default-stream per-thread, and otherwise the legacy one.
 *
 * No free throws, as no framework could catch it. After a free that fails, the block stays allocated, and the pool logs
 * the error (VPMM_LOG). All calls may be made on any thread, unless the framework forbids that.
 */
#ifndef VPMM_HPP
#define VPMM_HPP

#if !defined(__cplusplus) || __cplusplus < 201703L
#error "vpmm.hpp needs C++17"
#endif

#include <vpmm.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <stdexcept>
#include <system_error>
#include <type_traits>

namespace vpmm {

/**
 * class bad_alloc - what is thrown where memory is out: -ENOMEM
 *
 * what() is the text of vpmm_last_error(). Since: 0.1
 */
class bad_alloc : public std::bad_alloc
{
public:
	explicit bad_alloc(const char *message) : text(message) {}
	const char *what() const noexcept override { return text.what(); }

private:
	/* A string that can be copied without an exception. */
	std::runtime_error text;
};

/**
 * class error - what is thrown for any other error
 *
 * code() is the errno value, of std::generic_category(). Since: 0.1
 */
class error : public std::system_error
{
public:
	error(int code, const char *message) : std::system_error(-code, std::generic_category(), message) {}
};

} /* namespace vpmm */

/* Sources that differ in what a null stream is differ in the names, so that one program can have both. */
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define VPMM_HPP_BEGIN namespace vpmm { inline namespace per_thread {
#define VPMM_HPP_END } }
#else
#define VPMM_HPP_BEGIN namespace vpmm {
#define VPMM_HPP_END }
#endif

VPMM_HPP_BEGIN

namespace detail {

/* The value of cudaStreamPerThread, whose header not everybody has. */
inline struct CUstream_st *per_thread_stream() noexcept
{
	return reinterpret_cast<struct CUstream_st *>(std::uintptr_t(2));
}

/*
 * Every stream goes to the library through this: there a null stream is the legacy one, however a source was compiled.
 */
inline struct CUstream_st *named(struct CUstream_st *stream) noexcept
{
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
	if (!stream)
		return per_thread_stream();
#endif
	return stream;
}

/* What every block satisfies, those that the driver serves (VPMM_SMALL_DRIVER) included. */
constexpr std::size_t alignment_natural = 256;

constexpr bool alignment_is_natural(std::size_t alignment) noexcept
{
	return alignment != 0 && alignment_natural % alignment == 0;
}

/* Of a stream, or with VPMM_STREAM_ANY for all: any stream may use the memory at once. 0, or a negative errno value. */
inline int allocate(struct vpmm_pool *pool, void **ptr, std::size_t size, struct CUstream_st *stream,
	std::size_t alignment = alignment_natural) noexcept
{
	if (!alignment_is_natural(alignment))
		return vpmm_malloc_aligned(pool, ptr, size, alignment, named(stream));
	if (stream == VPMM_STREAM_ANY)
		return vpmm_malloc_flags(pool, ptr, size, nullptr, VPMM_IDLE);
	return vpmm_malloc(pool, ptr, size, named(stream));
}

struct standard_errors {
	[[noreturn]] static void raise(int code, const char *message)
	{
		if (code == -ENOMEM)
			throw bad_alloc(message);
		throw error(code, message);
	}
	static void allocated(const void *) noexcept {}
};

template <class Errors>
void *allocate_or_throw(struct vpmm_pool *pool, std::size_t size, std::size_t alignment, struct CUstream_st *stream)
{
	void *ptr = nullptr;

	if (int code = allocate(pool, &ptr, size, stream, alignment))
		Errors::raise(code, vpmm_last_error());
	Errors::allocated(ptr);
	return ptr;
}

/* 0, or a negative errno value. */
inline int deallocate(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream) noexcept
{
	return vpmm_free(pool, ptr, named(stream));
}

} /* namespace detail */

/**
 * class pool - a pool that is destroyed with its object
 *
 * Blocks that are still allocated then are freed too, and the destructor waits as vpmm_pool_destroy() does. Objects that
 * have got the pool from get() must not be used afterwards. Since: 0.1
 */
class pool
{
public:
	/* What vpmm_pool_create() does, with its errors as exceptions. */
	explicit pool(const struct vpmm_opts *opts = nullptr)
	{
		if (int code = vpmm_pool_create(&pool_, opts))
			detail::standard_errors::raise(code, vpmm_last_error());
	}
	pool(pool &&other) noexcept : pool_(other.pool_) { other.pool_ = nullptr; }
	pool &operator=(pool &&other) noexcept
	{
		struct vpmm_pool *mine = pool_;

		pool_ = other.pool_;
		other.pool_ = mine;
		return *this;
	}
	pool(const pool &) = delete;
	pool &operator=(const pool &) = delete;
	~pool() { vpmm_pool_destroy(pool_); }

	struct vpmm_pool *get() const noexcept { return pool_; }

private:
	struct vpmm_pool *pool_ = nullptr;
};

/**
 * class tagged - what this thread allocates while the object lives has a tag
 *
 * Objects nest, and end on the thread that they began on. Since: 0.1
 */
class tagged
{
public:
	/* A tag of vpmm_tag_open(), with VPMM_TAG_DROP or VPMM_TAG_STAY or-ed; 0: no tag. */
	explicit tagged(vpmm_tag tag) noexcept : before_(vpmm_tag_set(tag)) { }
	/* The tag of a name; errors of vpmm_tag_open() are exceptions. A template, so that a plain 0 is a tag. */
	template <class Name, std::enable_if_t<std::is_convertible<Name, const char *>::value, int> = 0>
	explicit tagged(const Name &name, unsigned int flags = VPMM_TAG_PAUSABLE)
	{
		vpmm_tag tag = 0;

		if (int code = vpmm_tag_open(name, flags, &tag))
			detail::standard_errors::raise(code, vpmm_last_error());
		before_ = vpmm_tag_set(tag);
	}
	tagged(const tagged &) = delete;
	tagged &operator=(const tagged &) = delete;
	~tagged() { vpmm_tag_set(before_); }

private:
	vpmm_tag before_ = 0;
};

/**
 * class allocator - a C++ allocator of device memory, in the order of a stream
 *
 * For thrust::cuda::par(allocator).on(stream) and other code that calls allocate() and deallocate() alone: what it
 * returns cannot be read or written by the host, so a container of the standard library cannot use it. With
 * VPMM_STREAM_ANY for a stream any stream may use the memory at once, and a free is behind all work of the context.
 *
 * allocate() throws bad_alloc, std::bad_array_new_length or error. Since: 0.1
 */
template <class T = char>
class allocator
{
public:
	using value_type = T;

	explicit allocator(struct CUstream_st *stream = nullptr, struct vpmm_pool *pool = nullptr) noexcept
		: stream_(stream), pool_(pool)
	{
	}
	template <class U>
	allocator(const allocator<U> &other) noexcept : stream_(other.stream()), pool_(other.pool())
	{
	}

	T *allocate(std::size_t count)
	{
		if (count > std::numeric_limits<std::size_t>::max() / sizeof(T))
			throw std::bad_array_new_length();
		return static_cast<T *>(detail::allocate_or_throw<detail::standard_errors>(pool_, count * sizeof(T),
			alignof(T), stream_));
	}
	void deallocate(T *ptr, std::size_t) noexcept { detail::deallocate(pool_, ptr, stream_); }

	struct CUstream_st *stream() const noexcept { return stream_; }
	struct vpmm_pool *pool() const noexcept { return pool_; }

private:
	struct CUstream_st *stream_;
	struct vpmm_pool *pool_;
};

/* Whether a block of one can be freed by the other, which is so if it is freed on the same stream. */
template <class T, class U>
bool operator==(const allocator<T> &one, const allocator<U> &other) noexcept
{
	return one.stream() == other.stream() && one.pool() == other.pool();
}
template <class T, class U>
bool operator!=(const allocator<T> &one, const allocator<U> &other) noexcept
{
	return !(one == other);
}

VPMM_HPP_END

#endif /* VPMM_HPP */

/* From RMM 26.06 on its resources are those of CCCL; before, they have a base class. */
#if defined(VPMM_WITH_RMM) && !defined(VPMM_HPP_RMM)
#if __has_include(<rmm/mr/device_memory_resource.hpp>)
#include <rmm/mr/device_memory_resource.hpp>
#define VPMM_HPP_RMM_CLASS
#elif __has_include(<rmm/mr/device/device_memory_resource.hpp>)
#include <rmm/mr/device/device_memory_resource.hpp>
#define VPMM_HPP_RMM_CLASS
#endif
#endif

#if (defined(VPMM_WITH_CCCL) || (defined(VPMM_WITH_RMM) && !defined(VPMM_HPP_RMM_CLASS))) && !defined(VPMM_HPP_CCCL)
#define VPMM_HPP_CCCL

#include <cuda/std/version>
#if CCCL_VERSION < 3001000 && !defined(LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE)
#error "CCCL before 3.1 has memory resources only with -DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE"
#endif
/* It brings cuda::stream_ref along, whose own header has moved. */
#include <cuda/memory_resource>

VPMM_HPP_BEGIN

/**
 * class basic_resource - a memory resource of CCCL; resource and rmm_resource are its instances
 *
 * It has the calls of both sets of names: cuda::mr::resource and cuda::mr::synchronous_resource of CCCL 3.1 and later,
 * cuda::mr::async_resource and cuda::mr::resource of those before. It is a pointer to a pool, so it can be copied, and
 * has to be destroyed at no particular time.
 *
 * Memory that is allocated without a stream may be used by any stream at once; what is freed without one is free after
 * all work that the context has then. An alignment is a power of two up to the size of a page. Since: 0.1
 */
template <class Errors>
class basic_resource
{
public:
	explicit basic_resource(struct vpmm_pool *pool = nullptr) noexcept : pool_(pool) {}

	struct vpmm_pool *pool() const noexcept { return pool_; }

	/* CCCL 3.1 and later. */
	void *allocate(::cuda::stream_ref stream, std::size_t bytes, std::size_t alignment = detail::alignment_natural)
	{
		return detail::allocate_or_throw<Errors>(pool_, bytes, alignment, stream.get());
	}
	void deallocate(::cuda::stream_ref stream, void *ptr, std::size_t,
		std::size_t = detail::alignment_natural) noexcept
	{
		detail::deallocate(pool_, ptr, stream.get());
	}
	void *allocate_sync(std::size_t bytes, std::size_t alignment = detail::alignment_natural)
	{
		return detail::allocate_or_throw<Errors>(pool_, bytes, alignment, VPMM_STREAM_ANY);
	}
	void deallocate_sync(void *ptr, std::size_t, std::size_t = detail::alignment_natural) noexcept
	{
		detail::deallocate(pool_, ptr, VPMM_STREAM_ANY);
	}

	/* CCCL before 3.1. */
	void *allocate(std::size_t bytes, std::size_t alignment = detail::alignment_natural)
	{
		return allocate_sync(bytes, alignment);
	}
	void deallocate(void *ptr, std::size_t bytes, std::size_t alignment = detail::alignment_natural) noexcept
	{
		deallocate_sync(ptr, bytes, alignment);
	}
	void *allocate_async(std::size_t bytes, std::size_t alignment, ::cuda::stream_ref stream)
	{
		return allocate(stream, bytes, alignment);
	}
	void *allocate_async(std::size_t bytes, ::cuda::stream_ref stream)
	{
		return allocate(stream, bytes);
	}
	void deallocate_async(void *ptr, std::size_t bytes, std::size_t alignment, ::cuda::stream_ref stream) noexcept
	{
		deallocate(stream, ptr, bytes, alignment);
	}
	void deallocate_async(void *ptr, std::size_t bytes, ::cuda::stream_ref stream) noexcept
	{
		deallocate(stream, ptr, bytes);
	}

	friend bool operator==(const basic_resource &one, const basic_resource &other) noexcept
	{
		return one.pool_ == other.pool_;
	}
	friend bool operator!=(const basic_resource &one, const basic_resource &other) noexcept
	{
		return one.pool_ != other.pool_;
	}
	friend constexpr void get_property(const basic_resource &, ::cuda::mr::device_accessible) noexcept {}

private:
	struct vpmm_pool *pool_;
};

/* Throws bad_alloc, which is a std::bad_alloc as CCCL's own are, or error. Since: 0.1 */
using resource = basic_resource<detail::standard_errors>;

VPMM_HPP_END

#endif /* VPMM_HPP_CCCL */

#if defined(VPMM_WITH_RMM) && !defined(VPMM_HPP_RMM)
#define VPMM_HPP_RMM

#include <cuda_runtime_api.h>
#include <rmm/cuda_stream_view.hpp>
#if __has_include(<rmm/error.hpp>)
#include <rmm/error.hpp>
#else
#include <rmm/detail/error.hpp>
#endif

VPMM_HPP_BEGIN

namespace detail {

/* RMM's adaptors tell the two apart. */
struct rmm_errors {
	[[noreturn]] static void raise(int code, const char *message)
	{
		if (code == -ENOMEM)
			throw ::rmm::out_of_memory(message);
		throw ::rmm::bad_alloc(message);
	}

	/*
	 * cudaMalloc() makes a context current on a thread that has none, and RMM's users rely on that: without one the
	 * runtime calls no memory device memory. The library leaves a thread as it was. A context that the program has
	 * made current stays.
	 */
	static void allocated(const void *ptr) noexcept
	{
		static thread_local bool bound = false;
		::cudaPointerAttributes attributes{};
		::cudaError_t result;
		int device;

		if (bound || !ptr)
			return;
		bound = true;
		result = ::cudaPointerGetAttributes(&attributes, ptr);
		if (result == ::cudaSuccess && attributes.devicePointer)
			return;
		/* The last error is that of the program. */
		if (result != ::cudaSuccess)
			(void)::cudaGetLastError();
		if (::cudaGetDevice(&device) == ::cudaSuccess)
			(void)::cudaSetDevice(device);
	}
};

} /* namespace detail */

/*
 * A memory resource of RMM, for rmm::mr::set_current_device_resource(). Throws rmm::out_of_memory where memory is out,
 * rmm::bad_alloc for other errors. Since: 0.1
 */
#if defined(VPMM_HPP_RMM_CLASS)
class rmm_resource final : public ::rmm::mr::device_memory_resource
{
public:
	explicit rmm_resource(struct vpmm_pool *pool = nullptr) noexcept : pool_(pool) {}

	struct vpmm_pool *pool() const noexcept { return pool_; }

private:
	void *do_allocate(std::size_t bytes, ::rmm::cuda_stream_view stream) override
	{
		return detail::allocate_or_throw<detail::rmm_errors>(pool_, bytes, 1, stream.value());
	}
	void do_deallocate(void *ptr, std::size_t, ::rmm::cuda_stream_view stream) noexcept override
	{
		detail::deallocate(pool_, ptr, stream.value());
	}
	bool do_is_equal(const ::rmm::mr::device_memory_resource &other) const noexcept override
	{
		auto *same = dynamic_cast<const rmm_resource *>(&other);

		return same && same->pool_ == pool_;
	}

	struct vpmm_pool *pool_;
};
#else
using rmm_resource = basic_resource<detail::rmm_errors>;
#endif

VPMM_HPP_END

#endif /* VPMM_WITH_RMM */

#if defined(VPMM_WITH_THRUST) && !defined(VPMM_HPP_THRUST)
#define VPMM_HPP_THRUST

#include <thrust/mr/allocator.h>
#include <thrust/mr/memory_resource.h>
#include <thrust/system/cuda/pointer.h>

#if defined(__CUDACC__)
#define VPMM_HPP_HOST_DEVICE __host__ __device__
#else
#define VPMM_HPP_HOST_DEVICE
#endif

VPMM_HPP_BEGIN

/**
 * class thrust_resource - a memory resource of Thrust
 *
 * Thrust's resources know no stream. With VPMM_STREAM_ANY, the default, memory may be used by any stream at once and
 * is free after all work that the context has at the free; otherwise it belongs to the stream. Two of them are equal if
 * stream and pool are. Throws bad_alloc or error. Since: 0.1
 */
class thrust_resource final : public ::thrust::mr::memory_resource<::thrust::cuda::pointer<void>>
{
public:
	explicit thrust_resource(struct CUstream_st *stream = VPMM_STREAM_ANY, struct vpmm_pool *pool = nullptr) noexcept
		: stream_(stream), pool_(pool)
	{
	}

	pointer do_allocate(std::size_t bytes, std::size_t alignment) override
	{
		return pointer(detail::allocate_or_throw<detail::standard_errors>(pool_, bytes, alignment, stream_));
	}
	void do_deallocate(pointer ptr, std::size_t, std::size_t) noexcept override
	{
		detail::deallocate(pool_, ptr.get(), stream_);
	}
	/* Thrust has it for device code too, which has no pools. */
	VPMM_HPP_HOST_DEVICE bool do_is_equal(const memory_resource &other) const noexcept override
	{
#if defined(__CUDA_ARCH__)
		return this == &other;
#else
		auto *same = dynamic_cast<const thrust_resource *>(&other);

		return same && same->stream_ == stream_ && same->pool_ == pool_;
#endif
	}

private:
	struct CUstream_st *stream_;
	struct vpmm_pool *pool_;
};

/* For thrust::device_vector<T, vpmm::thrust_allocator<T>>, on the default pools. Since: 0.1 */
template <class T>
using thrust_allocator = ::thrust::mr::stateless_resource_allocator<T, thrust_resource>;

VPMM_HPP_END

#undef VPMM_HPP_HOST_DEVICE

#endif /* VPMM_WITH_THRUST */

#if defined(VPMM_WITH_TENSORRT) && !defined(VPMM_HPP_TENSORRT)
#define VPMM_HPP_TENSORRT

#include <NvInferRuntime.h>

#include <mutex>
#include <unordered_map>

#if NV_TENSORRT_MAJOR < 10
#error "vpmm.hpp needs TensorRT 10 or later: before, its allocators have no streams"
#endif

VPMM_HPP_BEGIN

/**
 * class tensorrt_allocator - an allocator of TensorRT 10 and later
 *
 * For setGpuAllocator() of IBuilder and IRuntime and setTemporaryStorageAllocator() of IExecutionContext, which it must
 * outlive. Failures are null pointers and false, as TensorRT expects; vpmm_last_error() has the reason, on the thread
 * that TensorRT called from.
 *
 * A block of AllocatorFlag::kRESIZABLE of a stream grows by vpmm_realloc(), in the order of that stream: in place, or by
 * remapping it. One that was allocated without a stream stays as it is, which leaves TensorRT to copy it: nobody says
 * what work is pending on it. Nor does anybody say that the thread which grows a block is the one whose default stream
 * it was allocated on. Since: 0.1
 */
class tensorrt_allocator final : public ::nvinfer1::IGpuAsyncAllocator
{
public:
	explicit tensorrt_allocator(struct vpmm_pool *pool = nullptr) noexcept : pool_(pool) {}

	void *allocateAsync(std::uint64_t size, std::uint64_t alignment, ::nvinfer1::AllocatorFlags flags,
		cudaStream_t stream) noexcept override
	{
		void *ptr = take(size, alignment, stream);

		if (ptr && flags & 1u << static_cast<int>(::nvinfer1::AllocatorFlag::kRESIZABLE) &&
		    detail::named(stream) != detail::per_thread_stream())
			note(ptr, stream);
		return ptr;
	}

	bool deallocateAsync(void *ptr, cudaStream_t stream) noexcept override
	{
		forget(ptr);
		return !detail::deallocate(pool_, ptr, stream);
	}

	void *reallocate(void *ptr, std::uint64_t alignment, std::uint64_t size) noexcept override
	{
		struct CUstream_st *stream;

		/*
		 * 0 bytes would be a free, after which TensorRT would free the block again. Where a block moves to, it
		 * has the natural alignment only.
		 */
		if (!size || (alignment && !detail::alignment_is_natural(alignment)) || !belongs(ptr, &stream))
			return nullptr;

		/* First: once the block has moved, another thread may get one at its old address. */
		forget(ptr);

		int code = vpmm_realloc(pool_, &ptr, size, detail::named(stream));

		note(ptr, stream);
		return code ? nullptr : ptr;
	}

	void *allocate(std::uint64_t size, std::uint64_t alignment, ::nvinfer1::AllocatorFlags) noexcept override
	{
		return take(size, alignment, VPMM_STREAM_ANY);
	}

	bool deallocate(void *ptr) noexcept override { return deallocateAsync(ptr, VPMM_STREAM_ANY); }

private:
	void *take(std::uint64_t size, std::uint64_t alignment, struct CUstream_st *stream) noexcept
	{
		void *ptr = nullptr;

		/* 0 is any alignment. */
		return detail::allocate(pool_, &ptr, size, stream, alignment ? alignment : 1) ? nullptr : ptr;
	}

	/* A block that cannot be noted is one that cannot be resized. */
	void note(void *ptr, struct CUstream_st *stream) noexcept
	{
		try {
			std::lock_guard<std::mutex> guard(lock_);

			resizable_[ptr] = stream;
		} catch (...) {
		}
	}

	void forget(void *ptr) noexcept
	{
		std::lock_guard<std::mutex> guard(lock_);

		resizable_.erase(ptr);
	}

	bool belongs(void *ptr, struct CUstream_st **stream) noexcept
	{
		std::lock_guard<std::mutex> guard(lock_);
		auto found = resizable_.find(ptr);

		if (found == resizable_.end())
			return false;
		*stream = found->second;
		return true;
	}

	struct vpmm_pool *pool_;
	std::mutex lock_;
	/* The stream of each resizable block: reallocate() is not told. */
	std::unordered_map<void *, struct CUstream_st *> resizable_;
};

VPMM_HPP_END

#endif /* VPMM_WITH_TENSORRT */

#if defined(VPMM_WITH_OPENCV) && !defined(VPMM_HPP_OPENCV)
#define VPMM_HPP_OPENCV

#include <opencv2/core/cuda.hpp>

VPMM_HPP_BEGIN

/**
 * class opencv_allocator - an allocator of OpenCV's GpuMat
 *
 * For cv::cuda::GpuMat::setDefaultAllocator(), or a GpuMat's constructor; it must outlive every GpuMat of it. OpenCV
 * names no stream: any stream may use the memory at once, and it is free after all work that the context has at the
 * free. If memory has run out, allocate() returns false. OpenCV then calls its default allocator, and throws a
 * cv::Exception if this is the default allocator; vpmm_last_error() has the reason. Since: 0.1
 */
class opencv_allocator final : public ::cv::cuda::GpuMat::Allocator
{
public:
	explicit opencv_allocator(struct vpmm_pool *pool = nullptr) noexcept : pool_(pool) {}

	bool allocate(::cv::cuda::GpuMat *mat, int rows, int cols, std::size_t elem_size) override
	{
		const std::size_t most = std::numeric_limits<std::size_t>::max() / 2;
		const std::size_t width = static_cast<std::size_t>(cols), height = static_cast<std::size_t>(rows);
		std::size_t step;
		void *ptr = nullptr;

		if (rows < 0 || cols < 0 || (width && elem_size > most / width))
			return false;
		step = elem_size * width;
		/* As cudaMallocPitch() has it; a row or a column alone has to be continuous. */
		if (rows > 1 && cols > 1)
			step = (step + pitch - 1) / pitch * pitch;
		if (height && step > most / height)
			return false;

		int *count = static_cast<int *>(::cv::fastMalloc(sizeof(int)));

		if (detail::allocate(pool_, &ptr, step * height, VPMM_STREAM_ANY)) {
			::cv::fastFree(count);
			return false;
		}
		mat->data = static_cast<unsigned char *>(ptr);
		mat->step = step;
		mat->refcount = count;
		return true;
	}

	void free(::cv::cuda::GpuMat *mat) override
	{
		detail::deallocate(pool_, mat->datastart, VPMM_STREAM_ANY);
		::cv::fastFree(mat->refcount);
	}

private:
	/* Bytes; textures need it. */
	static constexpr std::size_t pitch = 512;

	struct vpmm_pool *pool_;
};

VPMM_HPP_END

#endif /* VPMM_WITH_OPENCV */

#if defined(VPMM_WITH_FAISS) && !defined(VPMM_HPP_FAISS)
#define VPMM_HPP_FAISS

#include <faiss/gpu/StandardGpuResources.h>
#include <faiss/gpu/utils/DeviceUtils.h>
#include <faiss/impl/FaissException.h>

VPMM_HPP_BEGIN

/**
 * class faiss_resources - the resources of faiss, with device memory from the default pool of each device
 *
 * For the constructors of indexes that take a std::shared_ptr<faiss::gpu::GpuResources>, or a
 * GpuResourcesProviderFromInstance. It is a StandardGpuResourcesImpl: streams, cuBLAS, the stack of temporary memory
 * (which is a block of the pool; see setTempMemory()), pinned and managed memory are faiss's own. Memory belongs to the
 * stream that faiss names; temporary memory is free in the order of that, other memory after all work that the context
 * has at its free, as cudaFree() has it.
 *
 * Throws faiss::FaissException, as faiss does. Like its base class it is for one thread at a time. Since: 0.1
 */
class faiss_resources : public ::faiss::gpu::StandardGpuResourcesImpl
{
public:
	/* The stack gives its memory back through this object, so not in the base's destructor, which destroys the streams. */
	~faiss_resources() override
	{
		tempMemory_.clear();
		for (const auto &stream : defaultStreams_) {
			::faiss::gpu::DeviceScope scope(stream.first);

			(void)vpmm_stream_retire(nullptr, detail::named(stream.second));
		}
	}

	void *allocMemory(const ::faiss::gpu::AllocRequest &request) override
	{
		void *ptr = nullptr;

		if (request.space != ::faiss::gpu::MemorySpace::Device)
			return StandardGpuResourcesImpl::allocMemory(request);
		initializeForDevice(request.device);
		if (!request.size)
			return nullptr;

		::faiss::gpu::AllocRequest rounded = request;

		rounded.size = (request.size + granularity - 1) / granularity * granularity;
		if (rounded.size < request.size)
			throw ::faiss::FaissException(request.toString() + ": too large");

		::faiss::gpu::DeviceScope scope(request.device);
		auto &allocations = allocs_[request.device];

		if (detail::allocate(nullptr, &ptr, rounded.size, request.stream))
			throw ::faiss::FaissException(request.toString() + ": " + vpmm_last_error());
		try {
			allocations[ptr] = rounded;
		} catch (...) {
			detail::deallocate(nullptr, ptr, VPMM_STREAM_ANY);
			throw;
		}
		return ptr;
	}

	void deallocMemory(int device, void *ptr) override
	{
		auto &allocations = allocs_[device];
		auto found = allocations.find(ptr);

		if (found == allocations.end() || found->second.space != ::faiss::gpu::MemorySpace::Device) {
			StandardGpuResourcesImpl::deallocMemory(device, ptr);
			return;
		}
		/* faiss joins other streams with that of a temporary block before its end. */
		detail::deallocate(nullptr, ptr, temporary(found->second) ? found->second.stream : VPMM_STREAM_ANY);
		allocations.erase(found);
	}

private:
	/* Bytes; faiss's kernels may read up to the next multiple. */
	static constexpr std::size_t granularity = 16;

	static bool temporary(const ::faiss::gpu::AllocRequest &request)
	{
		return request.type == ::faiss::gpu::AllocType::TemporaryMemoryOverflow;
	}
};

VPMM_HPP_END

#endif /* VPMM_WITH_FAISS */
