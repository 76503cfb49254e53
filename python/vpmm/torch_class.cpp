// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * PyTorch's CUDA allocator over libvpmm. It is compiled on the user's machine against the PyTorch that is there, by
 * vpmm.torch, and is glue: what needs no type of PyTorch's is in libvpmm-torch.so, behind the table of torch_class.h.
 *
 * The interface has changed in nearly every version. Every form that a method has had is here as an overload, none with
 * "override": those that match a virtual one override it, the others do no harm. A pure one that nothing matches makes
 * the class abstract, which is checked, and then the plug-in serves.
 */
#include <memory>
#include <unordered_set>

#include <pthread.h>

#include "torch_serve.hpp"

namespace torch::cuda::CUDAPluggableAllocator {
/* Of libtorch_cuda; its header wants more than it needs in some versions. */
void changeCurrentAllocator(const std::shared_ptr<c10::cuda::CUDACachingAllocator::CUDAAllocator> &allocator);
} // namespace torch::cuda::CUDAPluggableAllocator

namespace vpmm {

/* What was PyTorch's allocator before. */
native::CUDAAllocator *native_allocator;

class Allocator final : public native::CUDAAllocator {
public:
	/* Allocation. */
	c10::DataPtr allocate(size_t size)
	{
		Index device = c10::cuda::current_device();
		c10::Device where(c10::DeviceType::CUDA, device);
		void *ptr = nullptr;

		if (!enabled_) {
			if (size)
				C10_CUDA_CHECK(cudaMalloc(&ptr, size));
			return { ptr, ptr, &delete_uncached, where };
		}
		if (size)
			ptr = serve(device, size, c10::cuda::getCurrentCUDAStream(device).stream());
		return { ptr, ptr, &delete_block, where };
	}

	void *raw_alloc(size_t size)
	{
		return raw_alloc_with_stream(size, c10::cuda::getCurrentCUDAStream().stream());
	}

	void *raw_alloc_with_stream(size_t size, cudaStream_t stream)
	{
		if (!size)
			return nullptr;
		return enabled_ ? serve(c10::cuda::current_device(), size, stream) : uncached.take(size);
	}

	void raw_delete(void *ptr)
	{
		TORCH_CHECK(give_back(ptr), "invalid device pointer: ", ptr);
	}

	/* For destructors, which cannot throw: false if it is no block. */
	bool give_back(void *ptr)
	{
		return !ptr || in_child || uncached.give(ptr) || release(ptr);
	}

	c10::DeleterFnPtr raw_deleter() const
	{
		return enabled_ ? &delete_block : &delete_uncached;
	}

	void copy_data(void *to, const void *from, size_t size) const
	{
		C10_CUDA_CHECK(cudaMemcpy(to, from, size, cudaMemcpyDeviceToDevice));
	}

	void recordStream(const c10::DataPtr &ptr, c10::cuda::CUDAStream stream)
	{
		/* Memory of other processes has another deleter. */
		if (ptr.get() && ptr.get_deleter() == &delete_block)
			table->use(ptr.get(), handle_of(stream.stream()));
	}

	void recordStream(const c10::DataPtr &ptr, c10::Stream stream)
	{
		recordStream(ptr, c10::cuda::CUDAStream(stream));
	}

	/* The device. */
	void init(int device_count)
	{
		static const torch_hooks hooks = { record_event, event_passed, forget_event, tell_segment };

		/* Not before: a process that is forked earlier has the device. */
		if (!devices_)
			pthread_atfork(nullptr, nullptr, enter_child);
		devices_ = device_count;
		table->init(device_count, Configured<native::CUDAAllocatorConfig>::fraction(), &hooks);
	}

	bool initialized()
	{
		return devices_ > 0;
	}

	void enable(bool value)
	{
		enabled_ = value;
	}

	bool isEnabled() const
	{
		return enabled_;
	}

	double getMemoryFraction(Index device)
	{
		check_device(device);
		return table->fraction(device);
	}

	void setMemoryFraction(double fraction, Index device)
	{
		check_device(device);
		TORCH_CHECK(0 <= fraction && fraction <= 1, "invalid fraction:", fraction,
			    ". Please set within [0, 1].");
		check(table->set_fraction(device, fraction), "memory fraction");
	}

	void emptyCache()
	{
		emptyCache(Id(0, 0));
	}

	void emptyCache(Id id)
	{
		if (in_child)
			return;
		taken.forget_latest();
		filters.end_failed();
		for (int device = 0; device < devices_; device++)
			trim(device, id);
	}

	void cacheInfo(Index device, size_t *largest)
	{
		c10::cuda::CUDAGuard guard(device);
		size_t free_bytes = 0, total = 0;

		C10_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total));
		free_bytes += table->cached(device);
		if (*largest < free_bytes)
			*largest = free_bytes;
	}

	void *getBaseAllocation(void *ptr, size_t *size)
	{
		void *base = ptr;
		size_t bytes = 0;

		check(table->base(ptr, &base, &bytes), "base of an allocation");
		if (size)
			*size = bytes;
		return base;
	}

	void enablePeerAccess(Index device, Index peer)
	{
		c10::cuda::CUDAGuard guard(device);
		cudaError_t result;

		check(table->set_peer(peer, device), "peer access");
		result = cudaDeviceEnablePeerAccess(peer, 0);
		if (result == cudaErrorPeerAccessAlreadyEnabled)
			(void)cudaGetLastError();
		else
			C10_CUDA_CHECK(result);
	}

	cudaError_t memcpyAsync(void *to, int to_device, const void *from, int from_device, size_t size,
				cudaStream_t stream, bool peers)
	{
		if (peers || to_device == from_device)
			return cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream);
		return cudaMemcpyPeerAsync(to, to_device, from, from_device, size, stream);
	}

	/* Statistics. */
	Stats getDeviceStats(Index device)
	{
		torch_stats found = {};
		Stats stats;

		check_device(device);
		check(table->stats(device, &found), "statistics");
		copy_stats(stats.allocation, found.allocation);
		copy_stats(stats.segment, found.segment);
		copy_stats(stats.active, found.active);
		copy_stats(stats.inactive_split, found.inactive_split);
		copy_stats(stats.allocated_bytes, found.allocated_bytes);
		copy_stats(stats.reserved_bytes, found.reserved_bytes);
		copy_stats(stats.active_bytes, found.active_bytes);
		copy_stats(stats.inactive_split_bytes, found.inactive_split_bytes);
		copy_stats(stats.requested_bytes, found.requested_bytes);
		stats.num_alloc_retries = found.retries;
		stats.num_ooms = found.ooms;
		stats.num_device_alloc = found.created;
		stats.num_device_free = found.released;
		stats.max_split_size = -1;
		add_pools(stats, device);
		return stats;
	}

	void resetAccumulatedStats(Index device)
	{
		check_device(device);
		table->reset_accumulated(device);
	}

	void resetPeakStats(Index device)
	{
		check_device(device);
		table->reset_peaks(device);
	}

	/* Private pools. */
	void beginAllocateToPool(Index device, Id id, Filter filter)
	{
		filters.begin(device, id, std::move(filter));
	}

	void endAllocateToPool(Index device, Id id)
	{
		TORCH_CHECK(filters.end(device, id), "endAllocatePool: not currently recording to mempool_id");
	}

	void releasePool(Index device, Id id)
	{
		check(table->drop(device, to_id(id)), "release of a pool");
	}

	int getPoolUseCount(Index device, Id id)
	{
		int uses = table->uses(device, to_id(id));

		return uses < 0 ? 0 : uses;
	}

	void ensureExistsAndIncrefPool(Index device, Id id)
	{
		check(table->join(device, to_id(id), nullptr), "pool");
	}

	void createOrIncrefPool(Index device, Id id, std::shared_ptr<native::CUDAAllocator> allocator)
	{
		torch_source source = { take_foreign, give_foreign, forget_foreign, nullptr };

		/* Of itself it is no allocator of another. */
		if (!allocator || allocator.get() == this) {
			ensureExistsAndIncrefPool(device, id);
			return;
		}
		source.data = new std::shared_ptr<native::CUDAAllocator>(std::move(allocator));
		check(table->join(device, to_id(id), &source), "pool");
	}

	void createOrIncrefPool(Index device, Id id, native::CUDAAllocator *allocator)
	{
		createOrIncrefPool(device, id,
				   std::shared_ptr<native::CUDAAllocator>(std::shared_ptr<void>(), allocator));
	}

	void setUseOnOOM(Index device, Id id)
	{
		setUseOnOOM(device, id, true);
	}

	void setUseOnOOM(Index device, Id id, bool lends)
	{
		check(table->set_lends(device, to_id(id), lends), "use_on_oom");
	}

	void setNoSplit(Index device, Id id)
	{
		check(table->set_whole(device, to_id(id)), "no_split");
	}

	/* Blocks of a pool are reused in the order of their stream anyway. */
	void setOrderedReuse(Index, Id)
	{
	}

	bool checkPoolLiveAllocations(Index device, Id id, const std::unordered_set<void *> &expected)
	{
		Pieces pieces;
		size_t found = 0;

		check(table->list(device, to_id(id), &pieces.all, &pieces.count), "live allocations");
		for (size_t i = 0; i < pieces.count; i++) {
			if (!pieces.all[i].allocated)
				continue;
			if (!expected.count(reinterpret_cast<void *>(pieces.all[i].addr)))
				return false;
			found++;
		}
		return found == expected.size();
	}

	std::shared_ptr<native::AllocatorState> getCheckpointState(Index device, Id id)
	{
		auto state = std::make_shared<State>();
		Pieces pieces;

		check(table->list(device, to_id(id), &pieces.all, &pieces.count), "state of a pool");
		state->id = id;
		state->pieces.assign(pieces.all, pieces.all + pieces.count);
		return state;
	}

	native::CheckpointDelta setCheckpointPoolState(Index device, std::shared_ptr<native::AllocatorState> given)
	{
		auto *state = dynamic_cast<State *>(given.get());
		Context freed_by = history.gather(Level::ALL), allocated_by = history.gather(Level::STATE);
		native::CheckpointDelta delta;
		std::vector<Context> before;
		Pieces freed, allocated;
		int err;

		TORCH_CHECK(state, "libvpmm-torch: the state of a pool is another allocator's");
		err = table->restore(device, to_id(state->id), state->pieces.data(), state->pieces.size(), &freed.all,
				     &freed.count, &allocated.all, &allocated.count);
		TORCH_CHECK(err != -EINVAL, "libvpmm-torch: the pool has not the segments of the state");
		TORCH_CHECK(err != -EBUSY, "libvpmm-torch: streams still use blocks of the pool");
		check(err, "state of a pool");
		for (size_t i = 0; i < freed.count; i++) {
			delta.ptrs_freed.push_back(reinterpret_cast<void *>(freed.all[i].addr));
			if (history.listens())
				before.push_back(history.drop(delta.ptrs_freed.back()));
			tell_free(freed.all[i], freed_by, 0);
		}
		for (size_t i = 0; i < allocated.count; i++) {
			auto *ptr = reinterpret_cast<void *>(allocated.all[i].addr);

			delta.dataptrs_allocd.emplace_back(ptr, ptr, &delete_block,
							   c10::Device(c10::DeviceType::CUDA, device));
			tell_alloc(allocated.all[i], allocated_by);
		}
		return delta;
	}

	/* History. */
	bool isHistoryEnabled()
	{
		return history.enabled();
	}

	void recordHistory(bool enabled, native::CreateContextFn gatherer, size_t most, Level level)
	{
		history.start(enabled, gatherer, most, level, true, {});
	}

	void recordHistory(bool enabled, native::CreateContextFn gatherer, size_t most, Level level, bool clear)
	{
		history.start(enabled, gatherer, most, level, clear, {});
	}

	void recordHistory(bool enabled, native::CreateContextFn gatherer, size_t most, Level level, bool clear,
			   const std::vector<std::string> &skipped)
	{
		history.start(enabled, gatherer, most, level, clear, skipped);
	}

	void recordAnnotation(const std::vector<std::pair<std::string, std::string>> &pairs)
	{
		if (history.enabled())
			history.add_annotation<Snapshot>(c10::cuda::current_device(), pairs);
	}

	void recordAnnotation(const Context &)
	{
	}

	void pushCompileContext(std::string &text)
	{
		compile_contexts().push_back(text);
	}

	void popCompileContext()
	{
		if (!compile_contexts().empty())
			compile_contexts().pop_back();
	}

	bool supportsUserMetadata()
	{
		return true;
	}

	void setUserMetadata(const std::string &text)
	{
		user_metadata() = text;
	}

	std::string getUserMetadata()
	{
		return user_metadata();
	}

	void annotateMemory(const void *ptr, const std::string &text)
	{
		torch_piece block = {};

		if (history.enabled() && !table->find(ptr, &block))
			history.annotate<Trace>(block, text);
	}

	Context getContextForPointer(const void *ptr)
	{
		return history.context_of(ptr);
	}

	void attachOutOfMemoryObserver(native::OutOfMemoryObserver observer)
	{
		observers.add(std::move(observer));
	}

#ifdef VPMM_HAVE_OOM_REJECTION
	/* It never rejects a request that the device could serve. */
	void attachOomRejectionObserver(native::OomRejectionObserver)
	{
	}
#endif

	void attachAllocatorTraceTracker(Tracker tracker)
	{
		history.track(std::move(tracker));
	}

	Snapshot snapshot()
	{
		return snapshot(Id(0, 0), true);
	}

	Snapshot snapshot(Id id)
	{
		return snapshot(id, true);
	}

	Snapshot snapshot(Id id, bool with_traces)
	{
		const char *settings = getenv("PYTORCH_CUDA_ALLOC_CONF");
		Snapshot info{};

		if (with_traces)
			history.copy(info, static_cast<size_t>(devices_));
		else
			info.device_traces.resize(static_cast<size_t>(devices_));
		for (int device = 0; device < devices_; device++) {
			torch_piece mark = {};
			Pieces pieces;
			int err;

			err = table->list(device, to_id(id), &pieces.all, &pieces.count);
			if (err != -ENOENT)
				check(err, "snapshot");
			auto first = static_cast<ptrdiff_t>(info.segments.size());
			add_segments(info.segments, pieces.all, pieces.count, history);
			std::sort(info.segments.begin() + first, info.segments.end(),
				  [](const Segment &one, const Segment &other) { return one.address < other.address; });
			mark.device = device;
			for (size_t i = 0; i < pieces.count; i++)
				mark.size += pieces.all[i].active && !pieces.all[i].segment ? pieces.all[i].size : 0;
			if (history.listens())
				history.record(Trace::SNAPSHOT, mark, nullptr);
		}
		info.config_metadata.expandable_segments = true;
		info.config_metadata.max_split_size = static_cast<size_t>(-1);
		info.config_metadata.last_allocator_settings = settings ? settings : "";
		return info;
	}

	/* Other processes. */
#ifdef VPMM_HAVE_SHAREABLE_HANDLE
	native::ShareableHandle shareIpcHandle(void *ptr)
	{
		char name[TORCH_NAME];
		size_t offset = 0;
		int err = table->share(ptr, name, &offset);

		TORCH_CHECK(!err, "libvpmm-torch: this CUDA tensor cannot be shared with another process: ",
			    table->explain_sharing(err), ". Send a copy in host memory (tensor.cpu())",
			    err == -ENOTSUP ? ", or set VPMM_EXPORT=auto before the pool is created" : "");
		return { static_cast<ptrdiff_t>(offset), name };
	}
#endif

	/* What PyTorch's own allocator sends is for its kind. */
	std::shared_ptr<void> getIpcDevPtr(std::string handle)
	{
		if (handle.rfind("vpmm", 0) == 0)
			return taken.take(handle, c10::cuda::current_device());
		std::call_once(native_began_, [this] { native_allocator->init(devices_); });
		return native_allocator->getIpcDevPtr(std::move(handle));
	}

#ifdef VPMM_HAVE_STREAM_SEGMENT_SIZE
	std::vector<native::StreamSegmentSize> getExpandableSegmentSizes(Index)
	{
		return {};
	}
#endif

	std::string name()
	{
		return "vpmm";
	}

private:
	/* In the words of PyTorch's own, which has no devices before init() either. */
	void check_device(Index device) const
	{
		TORCH_CHECK(0 <= device && (!devices_ || device < devices_), "Invalid device argument ",
			    static_cast<int>(device), ": did you call init?");
	}

	int devices_ = 0;
	std::once_flag native_began_;
	/* Without it, every request goes to the driver: programs want that to find errors. */
	std::atomic<bool> enabled_{ !getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") };
};

static_assert(!std::is_abstract_v<Allocator>, "this version of PyTorch has a method that the class does not know");

/* Neither is ever destroyed: storages that static objects hold come back after everything else has gone. */
Allocator *the_allocator;

void delete_block(void *ptr)
{
	(void)the_allocator->give_back(ptr);
}

} // namespace vpmm

/* Makes it PyTorch's allocator: NULL, or why that was not possible, for good. */
extern "C" __attribute__((visibility("default"))) const char *vpmm_torch_install(const torch_class *given)
{
	static std::string reason;

	if (!given || given->version != TORCH_CLASS_VERSION || given->size != sizeof(*given))
		return "libvpmm-torch.so is of another version";
	vpmm::table = given;
	vpmm::native_allocator = vpmm::native::get();
	vpmm::the_allocator = new vpmm::Allocator;
	try {
		torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator(
			std::shared_ptr<vpmm::native::CUDAAllocator>(std::shared_ptr<void>(), vpmm::the_allocator));
		/* What torch.accelerator asks. */
		c10::SetAllocator(c10::DeviceType::CUDA, vpmm::the_allocator, 1);
	} catch (const std::exception &error) {
		reason = error.what();
		return reason.c_str();
	}
	return nullptr;
}

#ifdef VPMM_HAVE_SHAREABLE_HANDLE
/* That tensors can go to other processes. */
extern "C" __attribute__((visibility("default"))) void vpmm_torch_shares(void)
{
}
#endif
