/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The interface of PyTorch's CUDA allocators as of 2.14: methods, and the structures that they exchange. With
 * STUB_TORCH_OLDER as of 2.4, without what has come since.
 */
#ifndef STUB_C10_CACHING_H
#define STUB_C10_CACHING_H

#include <functional>
#include <unordered_map>
#include <unordered_set>

#include <c10/core/Allocator.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/ApproximateClock.h>

namespace c10 {
using MempoolId_t = std::pair<unsigned long long, unsigned long long>;

namespace cuda::CUDACachingAllocator {
struct Stat {
	int64_t current = 0, peak = 0, allocated = 0, freed = 0;
};
using StatArray = std::array<Stat, 3>;

struct DeviceStats {
	StatArray allocation, segment, active, inactive_split;
	StatArray allocated_bytes, reserved_bytes, active_bytes, inactive_split_bytes, requested_bytes;
	int64_t num_alloc_retries = 0, num_ooms = 0, num_device_alloc = 0, num_device_free = 0, max_split_size = 0;
#ifndef STUB_TORCH_OLDER
	std::map<MempoolId_t, StatArray> reserved_bytes_by_private_pools;
#endif
};

using CreateContextFn = std::shared_ptr<GatheredContext> (*)();
enum struct RecordContext { NEVER, STATE, ALLOC, ALL };

struct BlockInfo {
	size_t size = 0, requested_size = 0;
	bool allocated = false, active = false;
	std::shared_ptr<GatheredContext> context_when_allocated;
};
struct SegmentInfo {
	DeviceIndex device = 0;
	size_t address = 0, total_size = 0, requested_size = 0, allocated_size = 0, active_size = 0;
	cudaStream_t stream = nullptr;
	bool is_large = false, is_expandable = false;
	MempoolId_t owner_private_pool_id;
	std::vector<BlockInfo> blocks;
#ifndef STUB_TORCH_OLDER
	int32_t registration_counter = -1;
#endif
};

union trace_time_ {
	int64_t t_;
	approx_time_t approx_t_;
};
struct TraceEntry {
	enum Action { ALLOC, FREE_REQUESTED, FREE_COMPLETED, SEGMENT_ALLOC, SEGMENT_FREE, SEGMENT_MAP, SEGMENT_UNMAP,
		      SNAPSHOT, OOM };

#ifdef STUB_TORCH_OLDER
	TraceEntry(Action action, DeviceIndex device, size_t addr, size_t size, cudaStream_t, approx_time_t time,
		   std::shared_ptr<GatheredContext> context)
#else
	TraceEntry(Action action, DeviceIndex device, size_t addr, size_t size, cudaStream_t, MempoolId_t,
		   approx_time_t time, std::shared_ptr<GatheredContext> context, std::string, std::string)
#endif
		: action_(action), device_(device), addr_(addr), size_(size), context_(std::move(context))
	{
		time_.approx_t_ = time;
	}
	Action action_;
	DeviceIndex device_;
	size_t addr_, size_;
	std::shared_ptr<GatheredContext> context_;
	trace_time_ time_{};
};
using AllocatorTraceTracker = std::function<void(const TraceEntry &)>;
using OutOfMemoryObserver = std::function<void(int64_t, size_t, size_t, size_t)>;

struct AllocatorConfigInfo {
	bool expandable_segments;
	size_t max_split_size;
	std::string last_allocator_settings;
};
struct SnapshotInfo {
	std::vector<SegmentInfo> segments;
	std::vector<std::vector<TraceEntry>> device_traces;
	AllocatorConfigInfo config_metadata;
};
struct AllocatorState {
	virtual ~AllocatorState() = default;
};
struct CheckpointDelta {
	std::vector<void *> ptrs_freed;
	std::vector<DataPtr> dataptrs_allocd;
};
struct ShareableHandle {
	ptrdiff_t offset;
	std::string handle;
};

class CUDAAllocator : public Allocator {
public:
	using Filter = std::function<bool(cudaStream_t)>;

	virtual void *raw_alloc(size_t size) = 0;
	virtual void *raw_alloc_with_stream(size_t size, cudaStream_t stream) = 0;
	virtual void raw_delete(void *ptr) = 0;
	virtual void init(int device_count) = 0;
	virtual bool initialized() = 0;
	virtual void setMemoryFraction(double fraction, DeviceIndex device) = 0;
#ifdef STUB_TORCH_OLDER
	virtual void emptyCache() = 0;
	virtual SnapshotInfo snapshot() = 0;
	virtual void recordHistory(bool enabled, CreateContextFn gatherer, size_t most, RecordContext level) = 0;
	virtual void recordStream(const DataPtr &ptr, cuda::CUDAStream stream) = 0;
#else
	virtual double getMemoryFraction(DeviceIndex device) = 0;
	virtual void enable(bool value) = 0;
	virtual bool isEnabled() const = 0;
	virtual void emptyCache(MempoolId_t id) = 0;
	virtual SnapshotInfo snapshot(MempoolId_t id, bool with_traces) = 0;
	virtual void recordHistory(bool enabled, CreateContextFn gatherer, size_t most, RecordContext level, bool clear,
				   const std::vector<std::string> &skipped) = 0;
	virtual void recordStream(const DataPtr &ptr, Stream stream) = 0;
	virtual ShareableHandle shareIpcHandle(void *ptr) = 0;
	virtual int getPoolUseCount(DeviceIndex device, MempoolId_t id) = 0;
	virtual void createOrIncrefPool(DeviceIndex device, MempoolId_t id, std::shared_ptr<CUDAAllocator> allocator) = 0;
	virtual void setUseOnOOM(DeviceIndex device, MempoolId_t id, bool lends) = 0;
	virtual void setNoSplit(DeviceIndex device, MempoolId_t id) = 0;
	virtual void pushCompileContext(std::string &text) = 0;
	virtual void popCompileContext() = 0;
	virtual void setUserMetadata(const std::string &text) = 0;
	virtual std::string getUserMetadata() = 0;
#endif
	virtual void cacheInfo(DeviceIndex device, size_t *largest) = 0;
	virtual void *getBaseAllocation(void *ptr, size_t *size) = 0;
	virtual DeviceStats getDeviceStats(DeviceIndex device) = 0;
	virtual void resetAccumulatedStats(DeviceIndex device) = 0;
	virtual void resetPeakStats(DeviceIndex device) = 0;
	virtual void beginAllocateToPool(DeviceIndex device, MempoolId_t id, Filter filter) = 0;
	virtual void endAllocateToPool(DeviceIndex device, MempoolId_t id) = 0;
	virtual void releasePool(DeviceIndex device, MempoolId_t id) = 0;
	virtual bool checkPoolLiveAllocations(DeviceIndex device, MempoolId_t id,
					      const std::unordered_set<void *> &expected) = 0;
	virtual std::shared_ptr<void> getIpcDevPtr(std::string handle) = 0;
	virtual bool isHistoryEnabled() = 0;
	virtual void attachOutOfMemoryObserver(OutOfMemoryObserver observer) = 0;
	virtual void attachAllocatorTraceTracker(AllocatorTraceTracker tracker) = 0;
	virtual void enablePeerAccess(DeviceIndex device, DeviceIndex peer) = 0;
	virtual cudaError_t memcpyAsync(void *to, int to_device, const void *from, int from_device, size_t size,
					cudaStream_t stream, bool peers) = 0;
	virtual std::shared_ptr<AllocatorState> getCheckpointState(DeviceIndex device, MempoolId_t id) = 0;
	virtual CheckpointDelta setCheckpointPoolState(DeviceIndex device, std::shared_ptr<AllocatorState> state) = 0;
	virtual std::string name() = 0;
};

/* PyTorch's own, of which there is none. */
inline CUDAAllocator *get()
{
	return nullptr;
}
} // namespace cuda::CUDACachingAllocator
} // namespace c10

#endif
