/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The allocator's history and its snapshots, in PyTorch's own structures. They have changed from version to version:
 * what a version may lack is looked for at compile time.
 */
#ifndef VPMM_TORCH_HISTORY_HPP
#define VPMM_TORCH_HISTORY_HPP

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/util/ApproximateClock.h>

#include "torch_class.h"

namespace vpmm {

namespace native = c10::cuda::CUDACachingAllocator;

using Id = std::pair<unsigned long long, unsigned long long>;
using Snapshot = native::SnapshotInfo;
using Segment = decltype(Snapshot::segments)::value_type;
using Block = decltype(Segment::blocks)::value_type;
using Trace = decltype(Snapshot::device_traces)::value_type::value_type;
using Context = std::shared_ptr<c10::GatheredContext>;
using Level = native::RecordContext;
using Tracker = native::AllocatorTraceTracker;

template <typename T, typename = void> struct has_counter : std::false_type {};
template <typename T>
struct has_counter<T, std::void_t<decltype(std::declval<T>().registration_counter)>> : std::true_type {};

template <typename T, typename = void> struct has_annotations : std::false_type {};
template <typename T>
struct has_annotations<T, std::void_t<decltype(std::declval<T>().external_annotations)>> : std::true_type {};

template <typename T, typename = void> struct has_annotate : std::false_type {};
template <typename T> struct has_annotate<T, std::void_t<decltype(T::ANNOTATE)>> : std::true_type {};

/* Texts of the calling thread that go into each of its entries. */
inline std::vector<std::string> &compile_contexts()
{
	static thread_local std::vector<std::string> contexts;

	return contexts;
}

inline std::string &user_metadata()
{
	static thread_local std::string metadata;

	return metadata;
}

inline Id id_of(const torch_piece &piece)
{
	return Id(piece.id.a, piece.id.b);
}

/* The longest constructor that this version has. */
template <typename T>
T make_trace(typename T::Action action, const torch_piece &piece, c10::approx_time_t time, Context context)
{
	using Device = c10::DeviceIndex;
	using Action = typename T::Action;
	auto device = static_cast<Device>(piece.device);
	auto stream = reinterpret_cast<cudaStream_t>(piece.stream);
	size_t addr = piece.addr, size = piece.requested ? piece.requested : piece.size;

	if constexpr (std::is_constructible_v<T, Action, Device, size_t, size_t, cudaStream_t, Id, c10::approx_time_t,
					      Context, std::string, std::string>)
		return T(action, device, addr, size, stream, id_of(piece), time, std::move(context),
			 compile_contexts().empty() ? "" : compile_contexts().back(), user_metadata());
	else if constexpr (std::is_constructible_v<T, Action, Device, size_t, size_t, cudaStream_t, Id,
						   c10::approx_time_t, Context, std::string>)
		return T(action, device, addr, size, stream, id_of(piece), time, std::move(context),
			 compile_contexts().empty() ? "" : compile_contexts().back());
	else if constexpr (std::is_constructible_v<T, Action, Device, size_t, size_t, cudaStream_t, Id,
						   c10::approx_time_t, Context>)
		return T(action, device, addr, size, stream, id_of(piece), time, std::move(context));
	else
		return T(action, device, addr, size, stream, time, std::move(context));
}

/* A later version's action is looked up by its type alone. */
template <typename T> bool is_annotate(typename T::Action action)
{
	if constexpr (has_annotate<T>::value)
		return action == T::ANNOTATE;
	return false;
}

/* Why an entry is left out: its action is one of those that the program has named. */
inline const char *name_of(Trace::Action action)
{
	switch (action) {
	case Trace::ALLOC:
		return "alloc";
	case Trace::FREE_REQUESTED:
		return "free_requested";
	case Trace::FREE_COMPLETED:
		return "free_completed";
	case Trace::SEGMENT_ALLOC:
		return "segment_alloc";
	case Trace::SEGMENT_FREE:
		return "segment_free";
	case Trace::SEGMENT_MAP:
		return "segment_map";
	case Trace::SEGMENT_UNMAP:
		return "segment_unmap";
	case Trace::SNAPSHOT:
		return "snapshot";
	default:
		return is_annotate<Trace>(action) ? "annotate" : "oom";
	}
}

/*
 * Its lock is the innermost: nothing is called under it but trackers, which PyTorch tells to take no lock that could
 * come before. Contexts are gathered before any lock is taken, as that wants the interpreter's, and let go after.
 */
class History {
public:
	bool enabled() const
	{
		return level_.load(std::memory_order_relaxed) != off;
	}

	bool wants(Level level) const
	{
		return level_.load(std::memory_order_relaxed) >= static_cast<int>(level);
	}

	/* Whether there is anyone to tell of what happens. */
	bool listens() const
	{
		return enabled() || tracked_.load(std::memory_order_relaxed);
	}

	Context gather(Level level) const
	{
		auto gatherer = gatherer_.load();

		return wants(level) && gatherer ? gatherer() : nullptr;
	}

	void start(bool enabled, native::CreateContextFn gatherer, size_t most, Level level, bool clear,
		   const std::vector<std::string> &skipped)
	{
		std::vector<Trace> before;
		std::unordered_map<void *, Context> contexts;
		std::lock_guard<std::mutex> guard(lock_);

		gatherer_ = gatherer;
		most_ = most ? most : 1;
		skipped_ = std::set<std::string>(skipped.begin(), skipped.end());
		/* The oldest entry comes first again: entries are added at the end as long as there is room. */
		std::rotate(traces_.begin(), traces_.begin() + static_cast<ptrdiff_t>(next_), traces_.end());
		next_ = 0;
		/* Whoever ends it has no use for it any more, as with PyTorch's own. */
		before.swap(traces_);
		if (enabled && !clear)
			traces_.assign(before.end() - static_cast<ptrdiff_t>(std::min(before.size(), most_)), before.end());
		if (!enabled)
			contexts.swap(contexts_);
		level_ = enabled ? static_cast<int>(level) : off;
	}

	void track(Tracker tracker)
	{
		std::lock_guard<std::mutex> guard(lock_);

		trackers_.push_back(std::move(tracker));
		tracked_ = true;
	}

	/* The context of a block that is allocated. */
	void keep(void *ptr, Context context)
	{
		std::lock_guard<std::mutex> guard(lock_);

		contexts_[ptr].swap(context);
	}

	Context drop(void *ptr)
	{
		std::lock_guard<std::mutex> guard(lock_);
		auto at = contexts_.find(ptr);
		Context context;

		if (at != contexts_.end()) {
			context = std::move(at->second);
			contexts_.erase(at);
		}
		return context;
	}

	Context context_of(const void *ptr)
	{
		std::lock_guard<std::mutex> guard(lock_);
		auto at = contexts_.find(const_cast<void *>(ptr));

		return at == contexts_.end() ? nullptr : at->second;
	}

	void record(Trace::Action action, const torch_piece &piece, Context context)
	{
		Trace entry = make_trace<Trace>(action, piece, c10::getApproximateTime(),
						wants(Level::ALLOC) ? std::move(context) : nullptr);
		std::lock_guard<std::mutex> guard(lock_);

		for (auto &tracker : trackers_)
			tracker(entry);
		if (!enabled() || skipped_.count(name_of(action)))
			return;
		if (traces_.size() < most_) {
			traces_.push_back(std::move(entry));
			return;
		}
		/* The entry that is replaced goes with this function, after the lock. */
		std::swap(traces_[next_], entry);
		next_ = (next_ + 1) % most_;
	}

	/* Text about a block that was allocated before, in versions that have such entries. */
	template <typename T> void annotate(const torch_piece &block, const std::string &text)
	{
		if constexpr (has_annotate<T>::value) {
			std::string before = user_metadata();

			user_metadata() = text;
			record(T::ANNOTATE, block, nullptr);
			user_metadata() = before;
		}
	}

	template <typename Annotations>
	void add_annotation(c10::DeviceIndex device, const std::vector<std::pair<std::string, std::string>> &pairs)
	{
		if constexpr (has_annotations<Annotations>::value) {
			typename decltype(Annotations::external_annotations)::value_type entry(
				device, c10::getApproximateTime());

			for (auto &pair : pairs)
				entry.recordUserMetadata(pair.first, pair.second);
			std::lock_guard<std::mutex> guard(lock_);
			annotations_.push_back(entry.metadata_);
			annotation_times_.emplace_back(device, entry.time_.approx_t_);
		}
	}

	/* Entries in order, with the time of the clock. */
	template <typename Info> void copy(Info &info, size_t devices)
	{
		auto to_ns = converter_.makeConverter();
		std::lock_guard<std::mutex> guard(lock_);

		info.device_traces.resize(devices);
		for (size_t i = 0; i < traces_.size(); i++) {
			Trace entry = traces_[(next_ + i) % traces_.size()];

			entry.time_.t_ = to_ns(entry.time_.approx_t_) / 1000;
			if (static_cast<size_t>(entry.device_) < devices)
				info.device_traces[static_cast<size_t>(entry.device_)].push_back(std::move(entry));
		}
		if constexpr (has_annotations<Info>::value)
			for (size_t i = 0; i < annotations_.size(); i++) {
				info.external_annotations.emplace_back(annotation_times_[i].first,
								       annotation_times_[i].second);
				auto &entry = info.external_annotations.back();
				entry.metadata_ = annotations_[i];
				entry.time_.t_ = to_ns(annotation_times_[i].second) / 1000;
			}
	}

private:
	static constexpr int off = -1;

	/* From the beginning, as it compares two clocks over the time between. */
	c10::ApproximateClockToUnixTimeConverter converter_;
	std::mutex lock_;
	std::atomic<int> level_{ off };
	std::atomic<bool> tracked_{ false };
	std::atomic<native::CreateContextFn> gatherer_{ nullptr };
	std::set<std::string> skipped_;
	std::vector<Tracker> trackers_;
	std::vector<Trace> traces_;
	std::vector<std::unordered_map<std::string, std::string>> annotations_;
	std::vector<std::pair<c10::DeviceIndex, c10::approx_time_t>> annotation_times_;
	std::unordered_map<void *, Context> contexts_;
	size_t most_ = 1, next_ = 0;
};

template <typename T> void set_counter(T &segment, int32_t counter)
{
	if constexpr (has_counter<T>::value)
		segment.registration_counter = counter;
}

/* Segments of a list, each followed by its blocks. */
inline void add_segments(std::vector<Segment> &segments, const torch_piece *pieces, size_t count, History &history)
{
	for (size_t i = 0; i < count; i++) {
		const torch_piece &piece = pieces[i];

		if (piece.segment) {
			segments.emplace_back();
			Segment &segment = segments.back();
			segment.device = static_cast<c10::DeviceIndex>(piece.device);
			segment.address = piece.addr;
			segment.total_size = piece.size;
			segment.stream = reinterpret_cast<cudaStream_t>(piece.stream);
			segment.is_large = piece.large;
			segment.is_expandable = piece.grows;
			segment.owner_private_pool_id = id_of(piece);
			set_counter(segment, static_cast<int32_t>(segments.size()));
			continue;
		}
		Segment &segment = segments.back();
		Block block;
		block.size = piece.size;
		block.requested_size = piece.requested;
		block.allocated = piece.allocated;
		block.active = piece.active;
		if (piece.allocated)
			block.context_when_allocated = history.context_of(reinterpret_cast<void *>(piece.addr));
		segment.requested_size += piece.requested;
		segment.allocated_size += piece.allocated ? piece.size : 0;
		segment.active_size += piece.active ? piece.size : 0;
		segment.blocks.push_back(std::move(block));
	}
}

} // namespace vpmm

#endif /* VPMM_TORCH_HISTORY_HPP */
