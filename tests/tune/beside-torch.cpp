// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * One pass of a program on PyTorch's caching allocator. tests/tune/beside.py builds it against the PyTorch that it finds,
 * and calls it; nothing else in the tree needs PyTorch or C++.
 */
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <vector>

namespace allocator = c10::cuda::CUDACachingAllocator;

extern "C" {

/* An operation, as struct trace_op of tools/trace.h has it. beside.py has the same structures. */
struct op {
	uint64_t bytes;
	uint32_t slot;
	uint32_t stream;
	uint32_t alloc;
	uint32_t unused;
};

struct pass {
	uint64_t errors;
	uint64_t peak_live;
	uint64_t peak_taken;
	double wall_s;
	double op_us_max;
};

void replay_pass(const struct op *ops, uint64_t n_ops, uint64_t slots, const uint64_t *streams, struct pass *pass);

}

using steady = std::chrono::steady_clock;

struct block {
	void *ptr;
	uint64_t bytes;
	uint32_t stream;
};

struct run {
	const uint64_t *streams;
	struct pass *pass;
	std::vector<struct block> blocks;
	uint64_t live;
};

static cudaStream_t stream_of(const struct run *run, uint32_t stream)
{
	return reinterpret_cast<cudaStream_t>(run->streams[stream]);
}

static void allocate(struct run *run, const struct op *op)
{
	struct block *block = &run->blocks[op->slot];

	block->ptr = allocator::raw_alloc_with_stream(op->bytes, stream_of(run, op->stream));
	block->bytes = op->bytes;
	block->stream = op->stream;
}

/* PyTorch frees on the stream that allocated; another one that has used the block is told of before. */
static void record_use(const struct run *run, const struct block *block, uint32_t stream)
{
	c10::DataPtr ptr(block->ptr, block->ptr, allocator::get()->raw_deleter(), c10::Device(c10::kCUDA, 0));

	allocator::recordStream(ptr, c10::cuda::getStreamFromExternal(stream_of(run, stream), 0));
	ptr.release_context();
}

static void release(const struct run *run, const struct op *op)
{
	const struct block *block = &run->blocks[op->slot];

	if (op->stream != block->stream)
		record_use(run, block, op->stream);
	allocator::raw_delete(block->ptr);
}

static void count(struct run *run, const struct op *op)
{
	if (op->alloc) {
		run->live += op->bytes;
		run->pass->peak_live = std::max(run->pass->peak_live, run->live);
	} else {
		run->live -= op->bytes;
		run->blocks[op->slot].ptr = nullptr;
	}
}

/* The clock is read around each call, as vpmm-replay does, so that both have the same to carry. */
static void perform(struct run *run, const struct op *op)
{
	if (!op->alloc && !run->blocks[op->slot].ptr)
		return;
	try {
		steady::time_point start = steady::now();

		if (op->alloc)
			allocate(run, op);
		else
			release(run, op);
		run->pass->op_us_max = std::max(run->pass->op_us_max,
						std::chrono::duration<double, std::micro>(steady::now() - start).count());
		count(run, op);
	} catch (const std::exception &error) {
		if (!run->pass->errors++)
			fprintf(stderr, "%.300s\n", error.what());
	}
}

void replay_pass(const struct op *ops, uint64_t n_ops, uint64_t slots, const uint64_t *streams, struct pass *pass)
{
	struct run run = { streams, pass, std::vector<struct block>(slots), 0 };
	steady::time_point start = steady::now();

	*pass = {};
	for (uint64_t i = 0; i < n_ops; i++)
		perform(&run, &ops[i]);
	pass->wall_s = std::chrono::duration<double>(steady::now() - start).count();
	for (struct block &block : run.blocks) {
		if (block.ptr)
			allocator::raw_delete(block.ptr);
	}
	/* The first of the statistics is that of all pools together. */
	pass->peak_taken = static_cast<uint64_t>(allocator::getDeviceStats(0).reserved_bytes[0].peak);
}
