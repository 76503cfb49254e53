/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How a request is served: by which pool, what is tried before it fails, who is told, and with which words it fails. */
#ifndef VPMM_TORCH_SERVE_HPP
#define VPMM_TORCH_SERVE_HPP

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <iterator>
#include <map>
#include <thread>
#include <utility>

#include <c10/core/Allocator.h>
#include <c10/core/impl/GPUTrace.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#if __has_include(<c10/core/AllocatorConfig.h>)
#include <c10/core/AllocatorConfig.h>
#endif
#if __has_include(<c10/cuda/CUDAAllocatorConfig.h>)
#include <c10/cuda/CUDAAllocatorConfig.h>
#endif

#include "torch_history.hpp"
#include "torch_memory.hpp"

/* A version may not have it, or without what is asked of it here. */
namespace c10::cuda::CUDACachingAllocator {
class CUDAAllocatorConfig;
} // namespace c10::cuda::CUDACachingAllocator

namespace c10::CachingAllocator {
class AcceleratorAllocatorConfig;
} // namespace c10::CachingAllocator

namespace vpmm {

using Index = c10::DeviceIndex;
using Stats = decltype(std::declval<native::CUDAAllocator &>().getDeviceStats(Index(0)));
using Filter = std::function<bool(cudaStream_t)>;

/* Beyond what any device can address PyTorch names no size. */
constexpr size_t exabyte = 1152921504606846976;

/* Never destroyed, as storages that static objects hold come back after everything else has gone. */
History &history = *new History;

/* The context of the call of this thread that is under way, for segments that come and go in it. */
thread_local Context call_context;

/* The exception of a pool's allocator in the call of this thread that is under way. */
thread_local std::exception_ptr foreign_error;

/* Why a pool's allocator has no memory for the call of this thread that is under way; empty: none was asked. */
thread_local std::string foreign_reason;

void delete_block(void *ptr);
torch_id to_id(const Id &id)
{
	return { id.first, id.second };
}

CUstream_st *handle_of(cudaStream_t stream)
{
	return reinterpret_cast<CUstream_st *>(stream);
}

std::string amount(uint64_t bytes)
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB" };
	double value = static_cast<double>(bytes);
	char text[64];
	int unit = 0;

	for (; value >= 1024 && unit < 3; unit++)
		value /= 1024;
	snprintf(text, sizeof(text), unit ? "%.2f %s" : "%.0f %s", value, units[unit]);
	return text;
}

/* Lists of the table's. */
template <typename T> struct List {
	T *all = nullptr;
	size_t count = 0;

	List() = default;
	List(const List &) = delete;
	List &operator=(const List &) = delete;
	~List()
	{
		free(all);
	}
};

using Pieces = List<torch_piece>;

struct State : native::AllocatorState {
	Id id;
	std::vector<torch_piece> pieces;
};

/* Events behind the work of other streams, and news of segments: for the pools. Under a lock nothing may throw. */
void *record_event(int device, CUstream_st *stream)
try {
	c10::cuda::CUDAGuard guard(static_cast<Index>(device));
	cudaEvent_t event = nullptr;

	if (!has_worked(cudaEventCreateWithFlags(&event, cudaEventDisableTiming)))
		return nullptr;
	if (has_worked(cudaEventRecord(event, reinterpret_cast<cudaStream_t>(stream))))
		return event;
	(void)has_worked(cudaEventDestroy(event));
	return nullptr;
} catch (const c10::Error &) {
	return nullptr;
}

int event_passed(int, void *event)
{
	return has_worked(cudaEventQuery(static_cast<cudaEvent_t>(event)));
}

void forget_event(int, void *event)
{
	(void)has_worked(cudaEventDestroy(static_cast<cudaEvent_t>(event)));
}

void tell_segment(const torch_piece *segment, int came)
try {
	if (history.listens())
		history.record(came ? Trace::SEGMENT_ALLOC : Trace::SEGMENT_FREE, *segment,
			       came || history.wants(Level::ALL) ? call_context : nullptr);
} catch (const std::exception &) {
	/* Of a tracker, such as one that registers segments with a network: it goes without this one. */
}

/* Memory of a pool that has an allocator of its own. Errors are thrown once the library has been left. */
void *take_foreign(void *data, int device, size_t size, CUstream_st *)
try {
	c10::cuda::CUDAGuard guard(static_cast<Index>(device));
	void *ptr = nullptr;

	try {
		ptr = (*static_cast<std::shared_ptr<native::CUDAAllocator> *>(data))->raw_alloc(size);
		if (!ptr)
			foreign_reason = "The pool's own allocator has no memory.";
	} catch (const c10::OutOfMemoryError &error) {
		foreign_reason = std::string("The pool's own allocator: ") + error.what_without_backtrace();
	}
	return ptr;
} catch (...) {
	foreign_error = std::current_exception();
	return nullptr;
}

void give_foreign(void *data, int device, void *ptr)
try {
	c10::cuda::CUDAGuard guard(static_cast<Index>(device));

	(*static_cast<std::shared_ptr<native::CUDAAllocator> *>(data))->raw_delete(ptr);
} catch (...) {
	foreign_error = std::current_exception();
}

/* Throws what the allocator of a pool has thrown in a call that is over. */
void throw_foreign()
{
	std::exception_ptr error = std::exchange(foreign_error, nullptr);

	if (!error)
		return;
	call_context = nullptr;
	std::rethrow_exception(error);
}

/* The result of a call that has allocated, unless the allocator of a pool has thrown in it. */
int left(int err)
{
	if (C10_UNLIKELY(err))
		throw_foreign();
	return err;
}

void forget_foreign(void *data)
{
	delete static_cast<std::shared_ptr<native::CUDAAllocator> *>(data);
}

bool run_free_callbacks()
{
	auto *registry = c10::FreeCudaMemoryCallbacksRegistry();
	bool freed = false;

	for (const auto &name : registry->Keys())
		freed |= registry->Create(name)->Execute();
	return freed;
}

void check(int err, const char *what)
{
	TORCH_CHECK(!err, "libvpmm-torch: ", what, ": ", err == -ENOENT ? "there is no such pool" :
		    err == -ENXIO ? "the device's primary context cannot be made current" : table->last_error());
}

/* What PYTORCH_CUDA_ALLOC_CONF lets a process have of each device, in versions that have such a setting. */
template <typename T, typename = void> struct Configured {
	static double fraction()
	{
		return 1;
	}
};

template <typename T> struct Configured<T, std::void_t<decltype(T::per_process_memory_fraction())>> {
	static double fraction()
	{
		return T::per_process_memory_fraction();
	}
};

/* Into how many steps PyTorch divides the sizes between two powers of two, where its settings want that: in the class
 * that has the settings in newer versions, or in that of older ones. */
template <typename T, typename Older, typename = void> struct Divided : Divided<Older, void> {};

template <typename T, typename Older>
struct Divided<T, Older, std::void_t<decltype(T::roundup_power2_divisions(size_t(1)))>> {
	static size_t steps(size_t size)
	{
		return T::roundup_power2_divisions(size);
	}
};

template <typename Older> struct Divided<void, Older, void> {
	static size_t steps(size_t)
	{
		return 0;
	}
};

using Steps = Divided<c10::CachingAllocator::AcceleratorAllocatorConfig, native::CUDAAllocatorConfig>;

/* What the settings have of a size: at least so many bytes. */
size_t rounded(size_t size)
{
	size_t steps = Steps::steps(size), step = 1;

	if (C10_LIKELY(steps < 2) || size <= 512 * steps || size >= exabyte)
		return 0;
	while (step <= size / 2)
		step *= 2;
	/* Steps are a power of two. */
	step = step > steps ? step / steps : 1;
	return (size + step - 1) / step * step;
}

template <typename T> void copy_stats(T &to, const torch_stat *from)
{
	for (size_t kind = 0; kind < TORCH_KINDS; kind++) {
		to[kind].current = from[kind].current;
		to[kind].peak = from[kind].peak;
		to[kind].allocated = from[kind].allocated;
		to[kind].freed = from[kind].freed;
	}
}

template <typename T, typename = void> struct has_pools : std::false_type {};
template <typename T>
struct has_pools<T, std::void_t<decltype(std::declval<T>().reserved_bytes_by_private_pools)>> : std::true_type {};

/* What private pools have of a device, in versions that tell. */
template <typename T> void add_pools(T &stats, Index device)
{
	if constexpr (has_pools<T>::value) {
		List<torch_pool_stats> pools;

		check(table->pool_stats(device, &pools.all, &pools.count), "statistics of pools");
		for (size_t i = 0; i < pools.count; i++)
			copy_stats(stats.reserved_bytes_by_private_pools[{ pools.all[i].id.a, pools.all[i].id.b }],
				   pools.all[i].reserved);
	}
}

/* Which allocations go to a pool. PyTorch gives each a function that tells by the stream. */
class Filters {
public:
	void begin(Index device, Id id, Filter filter)
	{
		end_failed();
		std::lock_guard<std::mutex> guard(lock_);
		torch_pool *pool;

		for (auto &entry : all_)
			TORCH_CHECK(entry.device != device || entry.id != id,
				    "beginAllocateToPool: already recording to mempool_id");
		bool captures = may_capture(filter);

		pool = table->begin(device, to_id(id), captures);
		TORCH_CHECK(pool, "libvpmm-torch: there is no memory on the host");
		all_.push_back({ device, id, std::move(filter), pool, captures, std::this_thread::get_id(),
				 c10::cuda::getCurrentCUDAStream(device).stream(), false });
		count_ = static_cast<int>(all_.size());
	}

	/* False: there was none. */
	bool end(Index device, Id id)
	{
		bool captures = false;

		{
			std::lock_guard<std::mutex> guard(lock_);
			auto at = all_.begin();

			while (at != all_.end() && (at->device != device || at->id != id))
				++at;
			if (at == all_.end())
				return false;
			captures = at->captures;
			all_.erase(at);
			count_ = static_cast<int>(all_.size());
		}
		table->end(device, to_id(id), captures);
		return true;
	}

	/* PyTorch does not end what a capture began that fails at its end. Such a one is over: its stream is free again. */
	void end_failed()
	{
		std::vector<std::pair<Index, Id>> failed;

		if (!count_.load(std::memory_order_relaxed))
			return;
		{
			std::lock_guard<std::mutex> guard(lock_);

			for (auto &entry : all_)
				if (entry.seen && entry.thread == std::this_thread::get_id() &&
				    !is_captured(entry.stream))
					failed.emplace_back(entry.device, entry.id);
		}
		for (auto &which : failed)
			end(which.first, which.second);
	}

	/* The pool that an allocation goes to, by the latest filter; NULL: ordinary memory. */
	torch_pool *match(Index device, cudaStream_t stream)
	{
		if (!count_.load(std::memory_order_relaxed))
			return nullptr;
		std::lock_guard<std::mutex> guard(lock_);

		for (auto at = all_.rbegin(); at != all_.rend(); ++at)
			if (at->device == device && at->filter(stream)) {
				at->seen = at->seen || (at->captures && is_captured(at->stream));
				return at->pool;
			}
		return nullptr;
	}

private:
	struct Entry {
		Index device;
		Id id;
		Filter filter;
		torch_pool *pool;
		bool captures;
		/* Of whom, with the stream that is captured, and whether it was. */
		std::thread::id thread;
		cudaStream_t stream;
		bool seen;
	};

	static bool is_captured(cudaStream_t stream)
	{
		cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;

		return !has_worked(cudaStreamIsCapturing(stream, &status)) || status != cudaStreamCaptureStatusNone;
	}

	/*
	 * Until it ends there is much that would invalidate a capture and is put off. Python's with use_mem_pool()
	 * captures nothing, and can last as long as the program. Nothing tells but the library that its filter is from.
	 */
	static bool may_capture(const Filter &filter)
	{
		Dl_info info = {};

		return !dladdr(&filter.target_type(), &info) || !info.dli_fname ||
		       !strstr(info.dli_fname, "libtorch_python");
	}

	std::mutex lock_;
	std::atomic<int> count_{ 0 };
	std::vector<Entry> all_;
};

/* Who wants to know before a request fails. They take the interpreter's lock, and call the allocator. */
class Observers {
public:
	void add(native::OutOfMemoryObserver observer)
	{
		std::lock_guard<std::mutex> guard(lock_);

		all_.push_back(std::move(observer));
	}

	void tell(Index device, size_t size, size_t total, size_t free_bytes)
	{
		std::vector<native::OutOfMemoryObserver> all;

		{
			std::lock_guard<std::mutex> guard(lock_);
			all = all_;
		}
		for (auto &observer : all)
			observer(device, size, total, free_bytes);
	}

private:
	std::mutex lock_;
	std::vector<native::OutOfMemoryObserver> all_;
};

Filters &filters = *new Filters;
Observers &observers = *new Observers;

/* PyTorch's profiler, which wants to know what there is in all; @going of that is about to be freed. */
__attribute__((cold, noinline)) void tell_profiler(const torch_piece &block, int64_t size, int64_t going)
{
	torch_stats stats = {};

	if (table->stats(block.device, &stats))
		return;
	c10::reportMemoryUsageToProfiler(reinterpret_cast<void *>(block.addr), size,
					 static_cast<size_t>(stats.allocated_bytes[TORCH_ALL].current - going),
					 static_cast<size_t>(stats.reserved_bytes[TORCH_ALL].current),
					 c10::Device(c10::DeviceType::CUDA, static_cast<Index>(block.device)));
}

void tell_alloc(const torch_piece &block, Context context)
{
	auto *ptr = reinterpret_cast<void *>(block.addr);
	const auto *trace = c10::impl::GPUTrace::get_trace();

	if (C10_UNLIKELY(history.listens())) {
		history.record(Trace::ALLOC, block, context);
		if (context)
			history.keep(ptr, std::move(context));
	}
	if (C10_UNLIKELY(trace))
		(*trace)->trace_gpu_memory_allocation(c10::DeviceType::CUDA, block.addr);
	if (C10_UNLIKELY(c10::memoryProfilingEnabled()))
		tell_profiler(block, static_cast<int64_t>(block.size), 0);
}

/*
 * Before a free is done, with its bytes in @going: another thread can get the memory at once, and tells of it later. A
 * free of a pool's block may have to wait for other streams; what is told of it is that it was asked for.
 */
void tell_free(const torch_piece &block, Context context, int64_t going)
{
	const auto *trace = c10::impl::GPUTrace::get_trace();

	if (C10_UNLIKELY(history.listens())) {
		Context all = history.wants(Level::ALL) ? std::move(context) : nullptr;

		history.record(Trace::FREE_REQUESTED, block, all);
		history.record(Trace::FREE_COMPLETED, block, all);
	}
	if (C10_UNLIKELY(trace))
		(*trace)->trace_gpu_memory_deallocation(c10::DeviceType::CUDA, block.addr);
	if (C10_UNLIKELY(c10::memoryProfilingEnabled()))
		tell_profiler(block, -static_cast<int64_t>(block.size), going);
}

/* In the words of PyTorch's own allocator, which programs search, and then in the library's. */
[[noreturn]] void throw_exhausted(Index device, size_t size)
{
	size_t free_bytes = 0, total = 0, allowed;
	std::string reason = foreign_reason.empty() ? table->last_error() : foreign_reason, limit;
	double fraction = table->fraction(device);
	torch_stats stats = {};
	torch_piece mark = {};

	TORCH_CHECK_WITH(OutOfMemoryError, size < exabyte,
			 "CUDA out of memory. Tried to allocate more than 1EB memory.");
	{
		c10::cuda::CUDAGuard guard(device);
		C10_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total));
	}
	allowed = fraction < 1 ? static_cast<size_t>(static_cast<double>(total) * fraction) : total;
	if (fraction < 1)
		limit = amount(allowed) + " allowed; ";
	table->stats(device, &stats);
	auto allocated = static_cast<size_t>(stats.allocated_bytes[TORCH_ALL].current);
	auto reserved = static_cast<size_t>(stats.reserved_bytes[TORCH_ALL].current);
	mark.device = device;
	mark.addr = free_bytes;
	mark.size = size;
	if (history.listens())
		history.record(Trace::OOM, mark, history.gather(Level::STATE));
	table->count_oom(device);
	c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(size), allocated, reserved,
					 c10::Device(c10::DeviceType::CUDA, device));
	observers.tell(device, size, allowed, free_bytes);
	TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ", amount(size), ". GPU ",
			 static_cast<int>(device), " has a total capacity of ", amount(total), " of which ",
			 amount(free_bytes), " is free. ", limit, "Of the allocated memory ", amount(allocated),
			 " is allocated by PyTorch, and ", amount(reserved > allocated ? reserved - allocated : 0),
			 " is reserved by libvpmm but unallocated. ", reason);
}

[[noreturn]] void throw_failed(int err, Index device, size_t size)
{
	if (err == -ENOMEM)
		throw_exhausted(device, size);
	TORCH_CHECK(false, "libvpmm-torch: ", size, " bytes on GPU ", static_cast<int>(device), ": ",
		    err == -ENXIO ? "the device's primary context cannot be made current" : table->last_error());
}

/* Memory for a request that is not 0. */
void *serve(Index device, size_t size, cudaStream_t stream)
{
	torch_pool *pool = filters.match(device, stream);
	size_t least = rounded(size);
	bool listens = history.listens();
	torch_piece block;
	Context context;
	int err;

	if (C10_UNLIKELY(listens)) {
		context = history.gather(Level::STATE);
		call_context = context;
	}
	err = left(table->alloc(&block, device, size, least, handle_of(stream), pool));
	if (err == -ENOMEM && size < exabyte && run_free_callbacks())
		err = left(table->alloc(&block, device, size, least, handle_of(stream), pool));
	if (err == -ENOMEM && size < exabyte) {
		taken.forget_latest();
		foreign_reason.clear();
		err = left(table->alloc_pressed(&block, device, size, least, handle_of(stream), pool));
		/* Of several tries an earlier one may have thrown. */
		foreign_error = nullptr;
	}
	if (C10_UNLIKELY(listens))
		call_context = nullptr;
	if (C10_UNLIKELY(err))
		throw_failed(err, device, size);
	tell_alloc(block, std::move(context));
	return reinterpret_cast<void *>(block.addr);
}

/* Of a forked child nothing is freed, and other threads may have had locks. */
std::atomic<bool> in_child{ false };

void enter_child()
{
	in_child = true;
}

/* Whether that was a block. Nothing is thrown: destructors call it, also after the driver has gone. */
bool release(void *ptr)
{
	bool tells = history.listens() || c10::impl::GPUTrace::get_trace() || c10::memoryProfilingEnabled();
	torch_piece block = {};
	Context before;
	int err;

	if (C10_UNLIKELY(tells) && !table->find(ptr, &block)) {
		call_context = history.gather(Level::ALL);
		before = history.drop(ptr);
		tell_free(block, call_context, static_cast<int64_t>(block.size));
	}
	err = table->release(ptr, &block);
	if (C10_UNLIKELY(tells))
		call_context = nullptr;
	return err != -EINVAL;
}

/* The library's own memory in a list, each range by its start. */
std::map<uint64_t, uint64_t> ranges_of(const Pieces &pieces)
{
	std::map<uint64_t, uint64_t> ranges;

	for (size_t i = 0; i < pieces.count; i++)
		if (pieces.all[i].segment && pieces.all[i].grows)
			ranges[pieces.all[i].addr] = pieces.all[i].addr + pieces.all[i].size;
	return ranges;
}

/* Records what of one list is not in the other: which segments it is divided into makes no difference. */
void tell_regions(int device, const Pieces &pieces, const Pieces &others, Trace::Action action)
{
	const auto without = ranges_of(others);

	for (auto &range : ranges_of(pieces))
		for (uint64_t at = range.first, end = range.second, until; at < end; at = until) {
			auto next = without.upper_bound(at);
			uint64_t known = next == without.begin() ? 0 : std::prev(next)->second;
			torch_piece gone = {};

			until = known > at ? known : next == without.end() ? end : std::min(end, next->first);
			if (known > at)
				continue;
			gone.device = device;
			gone.addr = at;
			gone.size = until - at;
			history.record(action, gone, call_context);
		}
}

/* Whether more goes once the device has done its work. */
bool trim_once(int device, const Id &id)
{
	bool more = table->trim(device, to_id(id));

	throw_foreign();
	return more;
}

/* PyTorch's own allocator waits for the device, too, by cudaFree(). */
void trim_behind_work(int device, const Id &id)
{
	if (!trim_once(device, id))
		return;
	c10::cuda::CUDAGuard guard(static_cast<Index>(device));
	C10_CUDA_CHECK(cudaDeviceSynchronize());
	trim_once(device, id);
}

void trim(int device, const Id &id)
{
	Pieces before, after;

	if (!history.listens()) {
		trim_behind_work(device, id);
		return;
	}
	call_context = history.gather(Level::ALL);
	if (id == Id(0, 0))
		table->list(device, to_id(id), &before.all, &before.count);
	trim_behind_work(device, id);
	if (id == Id(0, 0))
		table->list(device, to_id(id), &after.all, &after.count);
	tell_regions(device, before, after, Trace::SEGMENT_UNMAP);
	tell_regions(device, after, before, Trace::SEGMENT_MAP);
	call_context = nullptr;
}

} // namespace vpmm

#endif /* VPMM_TORCH_SERVE_HPP */
