/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Memory that is none of the library's pools: the driver's own, and that of other processes. */
#ifndef VPMM_TORCH_MEMORY_HPP
#define VPMM_TORCH_MEMORY_HPP

#include <array>
#include <atomic>
#include <cerrno>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include <c10/cuda/CUDAException.h>
#include <cuda_runtime_api.h>

#include "torch_class.h"

namespace vpmm {

const torch_class *table;

/* Whether a call has worked that the program knows nothing of: its error is not to be found behind a later one. */
bool has_worked(cudaError_t result)
{
	if (result != cudaSuccess)
		(void)cudaGetLastError();
	return result == cudaSuccess;
}

void delete_uncached(void *ptr)
{
	(void)has_worked(cudaFree(ptr));
}

/* Without a deleter nothing but its address tells that memory has come from the driver. */
class Uncached {
public:
	void *take(size_t size)
	{
		void *ptr = nullptr;

		C10_CUDA_CHECK(cudaMalloc(&ptr, size));
		std::lock_guard<std::mutex> guard(lock_);
		all_.insert(ptr);
		count_ = all_.size();
		return ptr;
	}

	/* False: it is none of these. */
	bool give(void *ptr)
	{
		if (C10_LIKELY(!count_.load(std::memory_order_relaxed)))
			return false;
		std::unique_lock<std::mutex> guard(lock_);
		bool found = all_.erase(ptr);

		count_ = all_.size();
		guard.unlock();
		if (found)
			delete_uncached(ptr);
		return found;
	}

private:
	std::mutex lock_;
	std::set<void *> all_;
	std::atomic<size_t> count_{ 0 };
};

Uncached &uncached = *new Uncached;

/*
 * Memory of other processes that is mapped here, by what its blocks' names begin with, as long as somebody has it. Of
 * small blocks the latest memory stays mapped until the cache is emptied, as the next ones are likely in it, too.
 */
class Taken {
public:
	/* Where it starts. */
	std::shared_ptr<void> take(const std::string &block, c10::DeviceIndex device)
	{
		const std::string name = block.substr(0, block.rfind('/') + 1);
		/* Goes after the lock, which its end takes. */
		std::shared_ptr<void> oldest;
		std::lock_guard<std::mutex> guard(lock_);
		std::shared_ptr<void> found = all_[name].lock();
		void *ptr = nullptr;
		size_t lead = 0, size = 0;
		int err;

		if (found)
			return found;
		err = table->take_shared(block.c_str(), device, &ptr, &lead, &size);
		if (err)
			all_.erase(name);
		TORCH_CHECK(!err, "libvpmm-torch: a CUDA tensor of another process: ", table->explain_sharing(err));
		found = std::shared_ptr<void>(static_cast<char *>(ptr) - lead,
					      [this, name, ptr](void *) { drop(name, ptr); });
		all_[name] = found;
		if (size <= small) {
			oldest.swap(latest_[next_]);
			latest_[next_] = found;
			next_ = (next_ + 1) % most;
		}
		return found;
	}

	void forget_latest()
	{
		std::array<std::shared_ptr<void>, most> before;
		std::lock_guard<std::mutex> guard(lock_);

		before.swap(latest_);
	}

private:
	static constexpr size_t small = 2 << 20, most = 4;

	void drop(const std::string &name, void *ptr)
	{
		std::lock_guard<std::mutex> guard(lock_);
		auto at = all_.find(name);

		table->drop_shared(ptr);
		/* Another thread may have mapped it anew. */
		if (at != all_.end() && at->second.expired())
			all_.erase(at);
	}

	std::mutex lock_;
	std::map<std::string, std::weak_ptr<void>> all_;
	std::array<std::shared_ptr<void>, most> latest_;
	size_t next_ = 0;
};

Taken &taken = *new Taken;

} // namespace vpmm

#endif /* VPMM_TORCH_MEMORY_HPP */
