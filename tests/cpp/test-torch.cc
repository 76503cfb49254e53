// SPDX-License-Identifier: LGPL-2.1-or-later
/* The allocator class, with a stand-in for PyTorch, on the host backend: what history, snapshots and statistics show. */
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "check.hpp"
#include "torch_class.cpp"
#include "vpmm.h"

void torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator(
	const std::shared_ptr<c10::cuda::CUDACachingAllocator::CUDAAllocator> &)
{
}

namespace native = c10::cuda::CUDACachingAllocator;
using native::TraceEntry;

/* A stack is the name of what the test is doing. */
struct Frames : c10::GatheredContext {
	explicit Frames(const char *what) : name(what) {}
	std::string name;
};

static const char *doing = "";

static std::shared_ptr<c10::GatheredContext> gather()
{
	return std::make_shared<Frames>(doing);
}

static std::string name_of(const std::shared_ptr<c10::GatheredContext> &context)
{
	return context ? dynamic_cast<Frames &>(*context).name : "";
}

static void empty_cache()
{
	doing = "empty_cache";
	vpmm::the_allocator->emptyCache();
	doing = "";
}

static void record(bool enabled, native::RecordContext level)
{
	vpmm::the_allocator->recordHistory(enabled, gather, 1000, level);
}

static std::vector<TraceEntry> traces()
{
	return vpmm::the_allocator->snapshot().device_traces[0];
}

/* Work is pending on the block that is freed: the cache is emptied of it all the same, and history has the stack. */
static void test_stacks(cudaStream_t stream)
{
	for (auto level : { native::RecordContext::ALLOC, native::RecordContext::ALL, native::RecordContext::STATE }) {
		bool all = level == native::RecordContext::ALL, state = level == native::RecordContext::STATE;
		size_t unmapped = 0;

		empty_cache();
		record(true, level);
		doing = "allocation";
		void *ptr = vpmm::the_allocator->raw_alloc(48);
		CHECK(vpmm_host_stream_submit(stream) == 0);
		stub_busy = stream;
		doing = "free";
		vpmm::the_allocator->raw_delete(ptr);
		empty_cache();
		for (auto &entry : traces()) {
			if (entry.action_ == TraceEntry::ALLOC)
				CHECK(name_of(entry.context_) == (state ? "" : "allocation") && entry.size_ == 48);
			if (entry.action_ == TraceEntry::FREE_COMPLETED)
				CHECK(name_of(entry.context_) == (all ? "free" : ""));
			if (entry.action_ != TraceEntry::SEGMENT_UNMAP)
				continue;
			CHECK(name_of(entry.context_) == (all ? "empty_cache" : ""));
			unmapped += entry.size_;
		}
		CHECK(unmapped == 2 << 20);
		record(false, level);
		CHECK(traces().empty());
	}
}

/* The latest entries stay in order where the history goes on with another length. */
static void test_length()
{
	const size_t lengths[] = { 8, 16, 4 };
	void *ptr;

	for (size_t i = 0; i < 3; i++) {
		vpmm::the_allocator->recordHistory(true, gather, lengths[i], native::RecordContext::ALL, i == 0);
		if (i < 2)
			for (size_t size = 100 * i + 1; size <= 100 * i + 10; size++) {
				ptr = vpmm::the_allocator->raw_alloc(size);
				vpmm::the_allocator->raw_delete(ptr);
			}
		auto entries = traces();
		size_t last = 0;

		CHECK(entries.size() == lengths[i]);
		for (auto &entry : entries) {
			/* Of the snapshot before. */
			if (entry.action_ == TraceEntry::SNAPSHOT)
				continue;
			CHECK(entry.size_ >= last);
			last = entry.size_;
		}
		CHECK(last == (i ? 110 : 10));
	}
	record(false, native::RecordContext::ALL);
	empty_cache();
}

/* Threads that get each other's memory: in the history, a block is freed before its address is allocated again. */
static void test_order()
{
	std::vector<std::thread> threads;
	std::map<size_t, bool> live;
	size_t wrong = 0;

	vpmm::the_allocator->recordHistory(true, gather, 1000000, native::RecordContext::STATE);
	for (int i = 0; i < 4; i++)
		threads.emplace_back([] {
			for (int j = 0; j < 10000; j++)
				vpmm::the_allocator->raw_delete(vpmm::the_allocator->raw_alloc(1000));
		});
	for (auto &thread : threads)
		thread.join();
	for (auto &entry : traces()) {
		bool comes = entry.action_ == TraceEntry::ALLOC;

		if (!comes && entry.action_ != TraceEntry::FREE_REQUESTED)
			continue;
		wrong += live[entry.addr_] == comes;
		live[entry.addr_] = comes;
	}
	CHECK(wrong == 0);
	record(false, native::RecordContext::ALL);
	empty_cache();
}

/* Of a stretch that memory goes from, only what has gone is told, however the list is divided then. */
static void test_unmapped()
{
	/* The second begins in the page that the first one ends in. */
	void *first = vpmm::the_allocator->raw_alloc(3 << 20), *second = vpmm::the_allocator->raw_alloc(5 << 20);
	size_t unmapped = 0, before;

	CHECK(static_cast<char *>(second) - static_cast<char *>(first) == 3 << 20);
	before = static_cast<size_t>(vpmm::the_allocator->getDeviceStats(0).reserved_bytes[0].current);
	record(true, native::RecordContext::ALL);
	vpmm::the_allocator->raw_delete(second);
	empty_cache();
	for (auto &entry : traces()) {
		CHECK(entry.action_ != TraceEntry::SEGMENT_MAP);
		if (entry.action_ == TraceEntry::SEGMENT_UNMAP)
			unmapped += entry.size_;
	}
	CHECK(unmapped == 4 << 20);
	CHECK(vpmm::the_allocator->getDeviceStats(0).reserved_bytes[0].current == static_cast<int64_t>(before - unmapped));
	record(false, native::RecordContext::ALL);
	vpmm::the_allocator->raw_delete(first);
}

/* Sums over a snapshot are the statistics, of each kind of memory; pools have their own. */
static void test_statistics()
{
	const c10::MempoolId_t id = { 0, 1 };
	std::array<int64_t, 3> reserved = {}, active = {};
	std::vector<void *> ptrs;
	size_t last = 0;

	vpmm::the_allocator->beginAllocateToPool(0, id, [](cudaStream_t) { return true; });
	for (size_t size : { 100, 3 << 20 })
		ptrs.push_back(vpmm::the_allocator->raw_alloc(size));
	vpmm::the_allocator->endAllocateToPool(0, id);
	for (size_t size : { 100, 1 << 20, 3 << 20 })
		ptrs.push_back(vpmm::the_allocator->raw_alloc(size));
	auto stats = vpmm::the_allocator->getDeviceStats(0);
	for (auto &segment : vpmm::the_allocator->snapshot().segments) {
		size_t kind = segment.is_large ? TORCH_LARGE : TORCH_SMALL;

		reserved[kind] += static_cast<int64_t>(segment.total_size);
		active[kind] += static_cast<int64_t>(segment.active_size);
		CHECK(segment.is_expandable == (segment.owner_private_pool_id != id));
		CHECK(segment.address > last);
		last = segment.address;
	}
	for (size_t kind : { TORCH_SMALL, TORCH_LARGE }) {
		CHECK(stats.reserved_bytes[kind].current == reserved[kind]);
		CHECK(stats.active_bytes[kind].current == active[kind]);
	}
	CHECK(stats.segment[TORCH_ALL].current == 2);
#ifndef STUB_TORCH_OLDER
	CHECK(stats.reserved_bytes_by_private_pools.size() == 1);
	CHECK(stats.reserved_bytes_by_private_pools[id][TORCH_ALL].current == 22 << 20);
	CHECK(stats.reserved_bytes_by_private_pools[id][TORCH_SMALL].peak == 2 << 20);
#endif
	for (void *ptr : ptrs)
		vpmm::the_allocator->raw_delete(ptr);
	vpmm::the_allocator->releasePool(0, id);
	empty_cache();
	stats = vpmm::the_allocator->getDeviceStats(0);
	CHECK(stats.reserved_bytes[TORCH_ALL].current == 0);
#ifndef STUB_TORCH_OLDER
	CHECK(stats.reserved_bytes_by_private_pools.empty());
#endif
}

/* A device that is not there is refused. */
static void test_devices()
{
	const std::function<void(int)> calls[] = {
		[](int device) { vpmm::the_allocator->getDeviceStats(static_cast<int8_t>(device)); },
		[](int device) { vpmm::the_allocator->resetPeakStats(static_cast<int8_t>(device)); },
		[](int device) { vpmm::the_allocator->resetAccumulatedStats(static_cast<int8_t>(device)); },
		[](int device) { vpmm::the_allocator->setMemoryFraction(1, static_cast<int8_t>(device)); },
		[](int device) { vpmm::the_allocator->getMemoryFraction(static_cast<int8_t>(device)); },
	};

	for (auto &call : calls) {
		for (int device : { -1, 1 }) {
			std::string text;

			try {
				call(device);
			} catch (const c10::Error &error) {
				text = error.what();
			}
			CHECK(text == "Invalid device argument " + std::to_string(device) + ": did you call init?");
		}
		call(0);
	}
}

/* What is no block, or no longer one, is refused in PyTorch's words; a storage's destructor cannot throw. */
static void test_unknown()
{
	void *ptr = vpmm::the_allocator->raw_alloc(1000);
	std::string text;

	vpmm::the_allocator->raw_delete(nullptr);
	vpmm::the_allocator->raw_delete(ptr);
	try {
		vpmm::the_allocator->raw_delete(ptr);
	} catch (const c10::Error &error) {
		text = error.what();
	}
	CHECK(text.rfind("invalid device pointer: ", 0) == 0);
	vpmm::the_allocator->raw_deleter()(ptr);
}

/* Blocks that a pool had are back at their addresses, with the deleter that storages are recognised by. */
static void test_checkpoint()
{
	const c10::MempoolId_t id = { 5, 0 };
	void *kept, *later;

	record(true, native::RecordContext::ALL);
	c10::stub_profiles = true;
	vpmm::the_allocator->beginAllocateToPool(0, id, [](cudaStream_t) { return true; });
	doing = "allocation";
	kept = vpmm::the_allocator->raw_alloc(1000);
	auto state = vpmm::the_allocator->getCheckpointState(0, id);
	later = vpmm::the_allocator->raw_alloc(1000);
	doing = "restore";
	auto delta = vpmm::the_allocator->setCheckpointPoolState(0, state);
	doing = "";
	CHECK(delta.ptrs_freed.size() == 2 && delta.dataptrs_allocd.size() == 1);
	CHECK(delta.dataptrs_allocd[0].get() == kept);
	/* History and profiler are told of both. */
	CHECK(name_of(vpmm::the_allocator->getContextForPointer(kept)) == "restore");
	CHECK(!vpmm::the_allocator->getContextForPointer(later));
	CHECK(c10::stub_profiled == 1024);
	auto last = traces().back();
	CHECK(last.action_ == TraceEntry::ALLOC && name_of(last.context_) == "restore");
	void *ptr = vpmm::the_allocator->raw_alloc(500);
	CHECK(c10::stub_profiled == 1536 && c10::stub_total == 1536);
	vpmm::the_allocator->raw_delete(ptr);
	CHECK(c10::stub_profiled == 1024 && c10::stub_total == 1024);
	c10::stub_profiles = false;
	record(false, native::RecordContext::ALL);
	CHECK(delta.dataptrs_allocd[0].get_deleter() == vpmm::the_allocator->raw_deleter());
	CHECK(vpmm::the_allocator->checkPoolLiveAllocations(0, id, { kept }));
	CHECK(!vpmm::the_allocator->checkPoolLiveAllocations(0, id, { kept, later }));
	vpmm::the_allocator->endAllocateToPool(0, id);
	delta.dataptrs_allocd.clear();
	vpmm::the_allocator->releasePool(0, id);
	empty_cache();
}

/* A stream uses what a pool had when the last that used the pool goes: the cache is emptied of it behind that work. */
static void test_used_elsewhere(cudaStream_t stream)
{
	const c10::MempoolId_t id = { 0, 8 };
	cudaStream_t other;

	/* No event can be had at first. */
	CHECK(vpmm_host_stream_create(&other) == 0);
	vpmm::the_allocator->beginAllocateToPool(0, id, [](cudaStream_t) { return true; });
	auto data = vpmm::the_allocator->allocate(100);
	vpmm::the_allocator->endAllocateToPool(0, id);
	vpmm::the_allocator->recordStream(data, c10::cuda::CUDAStream(c10::Stream{ other }));
	stub_busy = stream;
	c10::cuda::stub_guard_fails = true;
	data = c10::DataPtr(nullptr, nullptr, vpmm::the_allocator->raw_deleter(), c10::Device(c10::DeviceType::CUDA, 0));
	vpmm::the_allocator->releasePool(0, id);
	CHECK(vpmm::the_allocator->getDeviceStats(0).active[TORCH_ALL].current == 1);
	c10::cuda::stub_guard_fails = false;
	vpmm::the_allocator->emptyCache(id);
	CHECK(vpmm::the_allocator->getDeviceStats(0).segment[TORCH_ALL].current == 0);
	CHECK(vpmm_host_stream_destroy(other) == 0);
}

/* The exception of a pool's allocator arrives as it is, and the pool goes on. */
static void test_foreign_error()
{
	const c10::MempoolId_t id = { 0, 9 };
	auto foreign = std::make_shared<vpmm::Allocator>();
	std::string text;

	foreign->enable(false);
	vpmm::the_allocator->createOrIncrefPool(0, id, foreign);
	vpmm::the_allocator->beginAllocateToPool(0, id, [](cudaStream_t) { return true; });
	try {
		vpmm::the_allocator->raw_alloc(size_t(1) << 30);
	} catch (const c10::Error &error) {
		text = error.what();
	}
	CHECK(text == "CUDA error");
	/* The segment begins there as well, and its allocator is of the same class. */
	vpmm::release(vpmm::the_allocator->raw_alloc(100));
	vpmm::the_allocator->endAllocateToPool(0, id);
	vpmm::the_allocator->releasePool(0, id);
	vpmm::the_allocator->releasePool(0, id);
	CHECK(foreign.use_count() == 2);
	empty_cache();
	CHECK(foreign.use_count() == 1);
}

/* So does that of a free, and the pool goes on without what could not be freed. */
static void test_foreign_free()
{
	const c10::MempoolId_t id = { 0, 10 };
	auto foreign = std::make_shared<vpmm::Allocator>();
	std::string text;
	void *ptr;

	foreign->enable(false);
	vpmm::the_allocator->createOrIncrefPool(0, id, foreign);
	vpmm::the_allocator->beginAllocateToPool(0, id, [](cudaStream_t) { return true; });
	ptr = vpmm::the_allocator->raw_alloc(100);
	vpmm::release(ptr);
	vpmm::the_allocator->endAllocateToPool(0, id);
	vpmm::the_allocator->releasePool(0, id);
	vpmm::the_allocator->releasePool(0, id);
	/* The segment begins with the block, and the pool's allocator does not know it any more. */
	CHECK(vpmm::uncached.give(ptr));
	try {
		empty_cache();
	} catch (const c10::Error &error) {
		text = error.what();
	}
	CHECK(text.rfind("invalid device pointer: ", 0) == 0);
	empty_cache();
	CHECK(foreign.use_count() == 1);
}

static decltype(torch_class::alloc) real_alloc;
static const torch_class *real_table;

static int exhausted(torch_piece *, int, size_t, size_t, CUstream_st *, torch_pool *)
{
	return -ENOMEM;
}

/* The first try fails in a pool's allocator. */
static int second_try(torch_piece *block, int device, size_t size, size_t least, CUstream_st *stream, torch_pool *pool)
{
	auto foreign = std::make_shared<vpmm::Allocator>();

	foreign->enable(false);
	std::shared_ptr<native::CUDAAllocator> allocator = foreign;
	CHECK(!vpmm::take_foreign(&allocator, device, size_t(1) << 30, stream));
	return real_alloc(block, device, size, least, stream, pool);
}

/* The exception of a try goes with it if a later one of the same call succeeds: the next error is another. */
static void test_foreign_error_passes()
{
	const auto *real = vpmm::table;
	auto fake = *real;
	std::string text;

	real_alloc = real->alloc;
	fake.alloc = exhausted;
	fake.alloc_pressed = second_try;
	vpmm::table = &fake;
	void *ptr = vpmm::the_allocator->raw_alloc(100);
	vpmm::table = real;
	try {
		vpmm::the_allocator->raw_alloc(size_t(1) << 30);
	} catch (const c10::Error &error) {
		text = error.what();
	}
	CHECK(text.find("CUDA out of memory.") == 0);
	vpmm::the_allocator->raw_delete(ptr);
}

/* A pool's allocator has no memory, before and after the program was asked. */
static int foreign_exhausted(torch_piece *, int device, size_t, size_t, CUstream_st *stream, torch_pool *)
{
	const auto *fake = vpmm::table;
	auto foreign = std::make_shared<vpmm::Allocator>();
	std::shared_ptr<native::CUDAAllocator> allocator = foreign;

	foreign->enable(true);
	vpmm::table = real_table;
	CHECK(!vpmm::take_foreign(&allocator, device, size_t(3) << 29, stream));
	vpmm::table = fake;
	return -ENOMEM;
}

/* The text has its reason, and that of another call no more. */
static void test_foreign_reason()
{
	auto fake = *vpmm::table;
	std::string text[2];

	real_table = vpmm::table;
	fake.alloc = fake.alloc_pressed = foreign_exhausted;
	for (auto &said : text) {
		vpmm::table = &said == text ? &fake : real_table;
		try {
			vpmm::the_allocator->raw_alloc(size_t(1) << 30);
		} catch (const c10::OutOfMemoryError &error) {
			said = error.what();
		}
	}
	CHECK(text[0].find("The pool's own allocator: CUDA out of memory. Tried to allocate 1.50 GiB") != text[0].npos);
	CHECK(text[1].find("The pool's own allocator") == text[1].npos);
	CHECK(text[1].find("vpmm_malloc: 1024 MiB wanted") != text[1].npos);
}

/* Of a capture that has failed nothing is told but that its stream is free again: pools and late frees go on then. */
static void test_failed_capture()
{
	const c10::MempoolId_t id = { 6, 0 }, other = { 7, 0 };
	void *ptr;

	stub_captures = true;
	vpmm::the_allocator->beginAllocateToPool(0, id, [](cudaStream_t) { return true; });
	vpmm::the_allocator->raw_delete(vpmm::the_allocator->raw_alloc(100));
	vpmm::the_allocator->releasePool(0, id);
	empty_cache();
	CHECK(vpmm::the_allocator->getDeviceStats(0).segment[TORCH_ALL].current == 1);
	stub_captures = false;
	empty_cache();
	CHECK(vpmm::the_allocator->getDeviceStats(0).segment[TORCH_ALL].current == 0);
	ptr = vpmm::the_allocator->raw_alloc(100);
	CHECK(vpmm::the_allocator->getDeviceStats(0).segment[TORCH_ALL].current == 0);
	/* The same pool can be tried again, and one that is ended as usual is not ended twice. */
	for (int i = 0; i < 2; i++) {
		vpmm::the_allocator->beginAllocateToPool(0, other, [](cudaStream_t) { return true; });
		empty_cache();
		stub_captures = true;
		vpmm::the_allocator->raw_delete(vpmm::the_allocator->raw_alloc(100));
		empty_cache();
		stub_captures = false;
	}
	vpmm::the_allocator->endAllocateToPool(0, other);
	vpmm::the_allocator->releasePool(0, other);
	vpmm::the_allocator->releasePool(0, other);
	vpmm::the_allocator->raw_delete(ptr);
	empty_cache();
	CHECK(stats_of().requested == 0);
}

/* Who observes is told, and the text is the one that programs search. */
static void test_exhausted()
{
	/* The observer stays. */
	static size_t asked = 0;
	std::string text;

	vpmm::the_allocator->attachOutOfMemoryObserver([](int64_t, size_t size, size_t, size_t) { asked = size; });
	try {
		vpmm::the_allocator->raw_alloc(size_t(1) << 30);
	} catch (const c10::OutOfMemoryError &error) {
		text = error.what();
	}
	CHECK(asked == size_t(1) << 30);
	CHECK(text.find("CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of") == 0);
	CHECK(vpmm::the_allocator->getDeviceStats(0).num_ooms == 1);
}

/* A tracker throws where a pool gets a segment, and where that goes: the pool goes on. */
static void test_tracker_error()
{
	const c10::MempoolId_t id = { 0, 11 };
	static bool throws = true;
	void *ptr;

	vpmm::the_allocator->attachAllocatorTraceTracker([](const TraceEntry &entry) {
		if (throws && (entry.action_ == TraceEntry::SEGMENT_ALLOC || entry.action_ == TraceEntry::SEGMENT_FREE))
			throw std::runtime_error("tracker");
	});
	vpmm::the_allocator->beginAllocateToPool(0, id, [](cudaStream_t) { return true; });
	try {
		ptr = vpmm::the_allocator->raw_alloc(100);
		vpmm::the_allocator->raw_delete(ptr);
		vpmm::the_allocator->endAllocateToPool(0, id);
		vpmm::the_allocator->releasePool(0, id);
		empty_cache();
	} catch (const std::runtime_error &error) {
		/* The lock of the pools is held for good. */
		printf("%s: %s\n", __func__, error.what());
		fflush(stdout);
		_exit(1);
	}
	throws = false;
	CHECK(vpmm::the_allocator->getDeviceStats(0).segment[TORCH_ALL].current == 0);
}

/* A device does not get access to the memory of another: PyTorch takes what it enables for done. */
static void test_refused_peer()
{
	auto fake = *vpmm::table;
	std::string text;

	real_table = vpmm::table;
	fake.set_peer = [](int, int) { return -ENXIO; };
	vpmm::table = &fake;
	try {
		vpmm::the_allocator->enablePeerAccess(0, 1);
	} catch (const c10::Error &error) {
		text = error.what();
	}
	vpmm::table = real_table;
	CHECK(text.find("peer access: the device's primary context cannot be made current") != text.npos);
}

/* An error of a call that PyTorch knows nothing of is not the one that it finds behind its next kernel. */
static void test_errors_stay(cudaStream_t stream)
{
	void *events[] = { vpmm::record_event(0, stream), vpmm::record_event(0, stream) };

	stub_busy = stream;
	CHECK(!vpmm::event_passed(0, events[0]) && cudaGetLastError() == cudaSuccess);
	stub_busy = nullptr;
	CHECK(vpmm::event_passed(0, events[0]));
	stub_fails = true;
	CHECK(!vpmm::event_passed(0, events[0]) && cudaGetLastError() == cudaSuccess);
	for (auto *event : events) {
		vpmm::forget_event(0, event);
		CHECK(cudaGetLastError() == cudaSuccess);
	}
	CHECK(!vpmm::record_event(0, stream) && cudaGetLastError() == cudaSuccess);
	vpmm::delete_uncached(nullptr);
	CHECK(cudaGetLastError() == cudaSuccess);
	stub_fails = false;
}

/* Another thread has the lock of the history when a child is forked, in which tensors and pools are let go. */
static void test_fork()
{
	static std::atomic<int> stage{ 0 };
	void *ptr = vpmm::the_allocator->raw_alloc(100);
	int status = 1;

	vpmm::the_allocator->attachAllocatorTraceTracker([](const TraceEntry &) {
		if (stage == 0) {
			stage = 1;
			usleep(200000);
		}
	});
	std::thread thread([] { vpmm::the_allocator->raw_delete(vpmm::the_allocator->raw_alloc(100)); });
	while (stage == 0)
		std::this_thread::yield();
	pid_t pid = fork();
	if (!pid) {
		alarm(10);
		vpmm::the_allocator->raw_delete(ptr);
		vpmm::the_allocator->emptyCache();
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	thread.join();
	vpmm::the_allocator->raw_delete(ptr);
}

/* A process that is forked before CUDA is used has the device like any other, and a child of its own has not. */
static void test_early_fork()
{
	int status = 1;
	pid_t pid = fork();

	if (!pid) {
		alarm(10);
		vpmm::the_allocator->init(1);
		vpmm::the_allocator->raw_delete(vpmm::the_allocator->raw_alloc(100));
		CHECK(stats_of().requested == 0);
		test_fork();
		_exit(failures != 0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

int main()
{
	void *object = dlopen(getenv("TEST_TORCH_OBJECT"), RTLD_NOW);
	cudaStream_t stream;

	if (!object) {
		printf("%s\n", dlerror());
		return 1;
	}
	auto table = reinterpret_cast<decltype(&vpmm_torch_class)>(dlsym(object, "vpmm_torch_class"));
	CHECK(!vpmm_torch_install(table()) && c10::stub_allocator == vpmm::the_allocator);
	test_early_fork();
	vpmm::the_allocator->init(1);
	CHECK(vpmm_host_stream_create(&stream) == 0);
	c10::cuda::stub_current = stream;
	test_stacks(stream);
	test_length();
	test_order();
	test_unmapped();
	test_statistics();
	test_devices();
	test_unknown();
	test_checkpoint();
	test_used_elsewhere(stream);
	test_foreign_error();
	test_foreign_free();
	test_failed_capture();
	test_exhausted();
	test_foreign_error_passes();
	test_foreign_reason();
	test_refused_peer();
	test_errors_stay(stream);
	test_tracker_error();
	test_fork();
	return failures != 0;
}
