// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Thrust and CUB on a GPU with memory from vpmm.hpp, beside the driver's stream-ordered allocator: sort and scan of 10^8
 * elements, with every result checked, several streams, a graph, and running out of memory. TAP, and a table of what it
 * took. It is no part of make check, as it wants nvcc and a GPU:
 *
 *	nvcc -std=c++17 -O2 -arch=sm_90 -Iinclude -o test-cccl tests/gpu/test-cccl.cu -Lbuild/lib/.libs -lvpmm
 *	LD_LIBRARY_PATH=build/lib/.libs ./test-cccl [ELEMENTS]
 */
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#define VPMM_WITH_CCCL
#define VPMM_WITH_THRUST
#include <vpmm.hpp>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

static const int ROUNDS = 5;
static std::size_t elements = 100000000;
static int count, failures;

static void verdict(bool good, const char *name)
{
	std::printf("%sok %d - %s\n", good ? "" : "not ", ++count, name);
	failures += !good;
}

#define CUDA(call) \
	do { \
		cudaError_t result_ = (call); \
		if (result_ != cudaSuccess) { \
			std::printf("Bail out! %s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(result_)); \
			std::exit(1); \
		} \
	} while (0)

/* The driver's allocator, as a resource and as an allocator. */
struct async_resource {
	cudaMemPool_t pool;

	void *allocate_async(std::size_t bytes, std::size_t, cuda::stream_ref stream)
	{
		void *ptr;

		if (cudaMallocFromPoolAsync(&ptr, bytes, pool, stream.get()) != cudaSuccess)
			throw std::bad_alloc();
		return ptr;
	}
	void deallocate_async(void *ptr, std::size_t, std::size_t, cuda::stream_ref stream)
	{
		cudaFreeAsync(ptr, stream.get());
	}
};

struct async_allocator {
	using value_type = char;
	async_resource resource;
	cudaStream_t stream;

	char *allocate(std::size_t size)
	{
		return static_cast<char *>(resource.allocate_async(size, 256, stream));
	}
	void deallocate(char *ptr, std::size_t size) { resource.deallocate_async(ptr, size, 256, stream); }
};

using clock_type = std::chrono::steady_clock;

static double since(clock_type::time_point start)
{
	return std::chrono::duration<double, std::milli>(clock_type::now() - start).count();
}

/* What the host spends in the calls of an allocator, in ms. */
static double in_calls;

template <class Allocator>
struct timed {
	using value_type = char;
	Allocator inner;

	char *allocate(std::size_t size)
	{
		auto start = clock_type::now();
		char *ptr = inner.allocate(size);

		in_calls += since(start);
		return ptr;
	}
	void deallocate(char *ptr, std::size_t size)
	{
		auto start = clock_type::now();

		inner.deallocate(ptr, size);
		in_calls += since(start);
	}
};

/* Elements that are the same in every run, and no two programs' by chance. */
struct scatter {
	__host__ __device__ std::uint32_t operator()(std::uint64_t i) const
	{
		i = (i + 1) * 0x9e3779b97f4a7c15ull;
		i = (i ^ (i >> 30)) * 0xbf58476d1ce4e5b9ull;
		return static_cast<std::uint32_t>(i >> 32);
	}
};
struct digest {
	__host__ __device__ std::uint64_t operator()(std::uint32_t x) const
	{
		std::uint64_t h = (x + 1ull) * 0xd6e8feb86659fd93ull;

		return h ^ (h >> 32);
	}
};
struct descends {
	const std::uint32_t *data;

	__host__ __device__ std::uint64_t operator()(std::size_t i) const { return data[i] > data[i + 1]; }
};
struct no_sum {
	const std::uint32_t *sums;

	__host__ __device__ std::uint64_t operator()(std::size_t i) const
	{
		return sums[i] - (i ? sums[i - 1] : 0) != scatter()(i);
	}
};

static void generate(std::uint32_t *data, std::size_t n, cudaStream_t stream)
{
	thrust::transform(thrust::cuda::par_nosync.on(stream), thrust::counting_iterator<std::uint64_t>(0),
		thrust::counting_iterator<std::uint64_t>(n), thrust::cuda::pointer<std::uint32_t>(data), scatter());
}

/* The elements of generate(), in order, and all of them. */
static bool sorted(const std::uint32_t *data, std::size_t n, cudaStream_t stream)
{
	auto policy = thrust::cuda::par.on(stream);
	thrust::counting_iterator<std::size_t> index(0);
	static std::size_t known;
	static std::uint64_t expected;

	if (known != n) {
		expected = 0;
		for (std::size_t i = 0; i < n; i++)
			expected += digest()(scatter()(i));
		known = n;
	}
	return thrust::transform_reduce(policy, index, index + n - 1, descends{data}, std::uint64_t(0),
			thrust::plus<std::uint64_t>()) == 0 &&
		thrust::transform_reduce(policy, thrust::cuda::pointer<const std::uint32_t>(data),
			thrust::cuda::pointer<const std::uint32_t>(data + n), digest(), std::uint64_t(0),
			thrust::plus<std::uint64_t>()) == expected;
}

static bool scanned(const std::uint32_t *data, std::size_t n, cudaStream_t stream)
{
	thrust::counting_iterator<std::size_t> index(0);

	return thrust::transform_reduce(thrust::cuda::par.on(stream), index, index + n, no_sum{data}, std::uint64_t(0),
		thrust::plus<std::uint64_t>()) == 0;
}

enum operation { CUB_SORT, CUB_SCAN, THRUST_SORT, THRUST_SCAN, OPERATIONS };
static const char *const operation_names[] = { "cub sort", "cub scan", "thrust::sort", "thrust::scan" };

struct result {
	bool good;
	double ms, calls_ms;
};

/* One operation with all memory that it takes, and without what checks it. */
template <class Resource, class Allocator>
static result perform(operation what, Resource &resource, Allocator plain, cudaStream_t stream, std::size_t n)
{
	timed<Allocator> allocator{plain};
	std::size_t bytes = n * sizeof(std::uint32_t), temporary_bytes = 0;
	std::uint32_t *in, *out = nullptr;
	void *temporary = nullptr;
	result r = {};

	auto take = [&](std::size_t size) {
		auto start = clock_type::now();
		void *ptr = resource.allocate_async(size, 256, cuda::stream_ref(stream));

		in_calls += since(start);
		return ptr;
	};
	auto give = [&](void *ptr, std::size_t size) {
		auto start = clock_type::now();

		resource.deallocate_async(ptr, size, 256, cuda::stream_ref(stream));
		in_calls += since(start);
	};

	CUDA(cudaDeviceSynchronize());
	in_calls = 0;
	auto start = clock_type::now();
	in = static_cast<std::uint32_t *>(take(bytes));
	generate(in, n, stream);
	if (what == CUB_SORT || what == CUB_SCAN) {
		out = static_cast<std::uint32_t *>(take(bytes));
		auto call = [&] {
			return what == CUB_SORT ?
				cub::DeviceRadixSort::SortKeys(temporary, temporary_bytes, in, out, n, 0, 32, stream) :
				cub::DeviceScan::InclusiveSum(temporary, temporary_bytes, in, out, n, stream);
		};
		CUDA(call());
		temporary = take(temporary_bytes);
		CUDA(call());
		give(temporary, temporary_bytes);
	} else {
		thrust::cuda::pointer<std::uint32_t> data(in);
		auto policy = thrust::cuda::par_nosync(allocator).on(stream);

		if (what == THRUST_SORT)
			thrust::sort(policy, data, data + n);
		else
			thrust::inclusive_scan(policy, data, data + n, data);
	}
	CUDA(cudaStreamSynchronize(stream));
	r.ms = since(start);

	const std::uint32_t *seen = out ? out : in;
	r.good = what == CUB_SORT || what == THRUST_SORT ? sorted(seen, n, stream) : scanned(seen, n, stream);
	CUDA(cudaDeviceSynchronize());

	start = clock_type::now();
	give(in, bytes);
	if (out)
		give(out, bytes);
	CUDA(cudaStreamSynchronize(stream));
	r.ms += since(start);
	r.calls_ms = in_calls;
	return r;
}

struct contender {
	const char *name;
	std::function<result(operation)> run;
	result first[OPERATIONS];
	std::vector<result> rounds[OPERATIONS];
};

static double median(const std::vector<result> &rounds, double result::*field)
{
	std::vector<double> values;

	for (const result &r : rounds)
		values.push_back(r.*field);
	std::sort(values.begin(), values.end());
	return values[values.size() / 2];
}

static cudaMemPool_t driver_pool(std::uint64_t threshold)
{
	cudaMemPoolProps props = {};
	cudaMemPool_t pool;

	props.allocType = cudaMemAllocationTypePinned;
	props.location.type = cudaMemLocationTypeDevice;
	CUDA(cudaMemPoolCreate(&pool, &props));
	CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
	return pool;
}

static void test_side_by_side(cudaStream_t stream)
{
	vpmm::resource ours;
	async_resource giving{driver_pool(0)}, keeping{driver_pool(UINT64_MAX)};
	contender contenders[] = {
		{ "libvpmm", [&](operation what) {
			return perform(what, ours, vpmm::allocator<>(stream), stream, elements);
		}, {}, {} },
		{ "cudaMallocAsync, default", [&](operation what) {
			return perform(what, giving, async_allocator{giving, stream}, stream, elements);
		}, {}, {} },
		{ "cudaMallocAsync, keeps all", [&](operation what) {
			return perform(what, keeping, async_allocator{keeping, stream}, stream, elements);
		}, {}, {} },
	};
	bool good[OPERATIONS] = { true, true, true, true };

	for (int round = -1; round < ROUNDS; round++) {
		for (int what = 0; what < OPERATIONS; what++) {
			for (contender &c : contenders) {
				result r = c.run(static_cast<operation>(what));

				good[what] = good[what] && r.good;
				if (round < 0)
					c.first[what] = r;
				else
					c.rounds[what].push_back(r);
			}
		}
	}
	for (int what = 0; what < OPERATIONS; what++)
		verdict(good[what], operation_names[what]);

	std::printf("# %zu elements of 4 bytes; ms of the first time, and the median, least and most of %d in turn;\n"
		"# in calls: ms of the median that the host was in the allocator's calls\n", elements, ROUNDS);
	std::printf("# %-14s %-28s %9s %9s %9s %9s %9s\n", "", "", "first", "median", "least", "most", "in calls");
	for (int what = 0; what < OPERATIONS; what++) {
		for (const contender &c : contenders) {
			double least = 1e9, most = 0;

			for (const result &r : c.rounds[what]) {
				least = std::min(least, r.ms);
				most = std::max(most, r.ms);
			}
			std::printf("# %-14s %-28s %9.3f %9.3f %9.3f %9.3f %9.4f\n", operation_names[what], c.name,
				c.first[what].ms, median(c.rounds[what], &result::ms), least, most,
				median(c.rounds[what], &result::calls_ms));
		}
	}

	struct vpmm_stats stats = {};
	stats.size = sizeof(stats);
	vpmm_pool_stats(nullptr, &stats);
	std::printf("# memory held over the most requested, MiB: libvpmm %.0f / %.0f", stats.peak_taken / 1048576.0,
		stats.peak_requested / 1048576.0);
	for (const async_resource &resource : { giving, keeping }) {
		std::uint64_t reserved, used;

		CUDA(cudaMemPoolGetAttribute(resource.pool, cudaMemPoolAttrReservedMemHigh, &reserved));
		CUDA(cudaMemPoolGetAttribute(resource.pool, cudaMemPoolAttrUsedMemHigh, &used));
		std::printf(", %s %.0f / %.0f", resource.pool == giving.pool ? "default" : "keeps all", reserved / 1048576.0,
			used / 1048576.0);
		CUDA(cudaMemPoolDestroy(resource.pool));
	}
	std::printf("\n");
	verdict(stats.requested == 0, "all memory was freed");
	verdict(!vpmm_pool_check(nullptr), "the pool's invariants hold");
}

/* Streams that take, use and free memory at the same time, without the host waiting in between. */
static void test_streams()
{
	const std::size_t n = std::min<std::size_t>(elements / 10, 10000000), bytes = n * sizeof(std::uint32_t);
	const int streams = 4, steps = 12;
	cudaStream_t stream[streams];
	std::uint32_t *data[streams][steps];
	bool good = true;

	for (cudaStream_t &s : stream)
		CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	for (int step = 0; step < steps; step++) {
		for (int i = 0; i < streams; i++) {
			vpmm::allocator<> allocator(stream[i]);
			std::uint32_t *scratch = reinterpret_cast<std::uint32_t *>(allocator.allocate(bytes));

			/* Frees what others get, while work on it is pending. */
			generate(scratch, n, stream[i]);
			thrust::sort(thrust::cuda::par_nosync(allocator).on(stream[i]),
				thrust::cuda::pointer<std::uint32_t>(scratch), thrust::cuda::pointer<std::uint32_t>(scratch + n));
			data[i][step] = reinterpret_cast<std::uint32_t *>(allocator.allocate(bytes));
			CUDA(cudaMemcpyAsync(data[i][step], scratch, bytes, cudaMemcpyDeviceToDevice, stream[i]));
			allocator.deallocate(reinterpret_cast<char *>(scratch), bytes);
		}
	}
	for (int step = 0; step < steps; step++) {
		for (int i = 0; i < streams; i++) {
			good = good && sorted(data[i][step], n, stream[i]);
			vpmm::allocator<>(stream[i]).deallocate(reinterpret_cast<char *>(data[i][step]), bytes);
		}
	}
	for (cudaStream_t s : stream) {
		good = good && !vpmm_stream_retire(nullptr, s);
		CUDA(cudaStreamSynchronize(s));
		CUDA(cudaStreamDestroy(s));
	}
	verdict(good, "four streams sort at the same time");
}

static void test_device_vector()
{
	using vector = thrust::device_vector<int, vpmm::thrust_allocator<int>>;
	bool good;

	{
		vector v(1000000, 7), w;

		w = v;
		w.resize(2000000, 1);
		for (int i = 0; i < 100; i++)
			v.push_back(i);
		thrust::sort(v.begin(), v.end());
		good = thrust::reduce(v.begin(), v.end()) == 7000000 + 4950 && thrust::reduce(w.begin(), w.end()) == 8000000 &&
			v.front() == 0 && v.back() == 99;

		struct vpmm_allocation found = {};
		found.size = sizeof(found);
		good = good && !vpmm_lookup(thrust::raw_pointer_cast(v.data()), &found);
	}
	verdict(good, "thrust::device_vector with thrust_allocator");
}

static void test_reference(cudaStream_t stream)
{
	vpmm::resource resource;
#if CCCL_VERSION >= 3001000
	cuda::mr::resource_ref<cuda::mr::device_accessible> reference(resource);
	void *ptr = reference.allocate(cuda::stream_ref(stream), 1000, 256);
#else
	cuda::mr::async_resource_ref<cuda::mr::device_accessible> reference(resource);
	void *ptr = reference.allocate_async(1000, 256, cuda::stream_ref(stream));
#endif
	bool good = cudaMemsetAsync(ptr, 1, 1000, stream) == cudaSuccess;

#if CCCL_VERSION >= 3001000
	reference.deallocate(cuda::stream_ref(stream), ptr, 1000, 256);
#else
	reference.deallocate_async(ptr, 1000, 256, cuda::stream_ref(stream));
#endif
	verdict(good && cudaStreamSynchronize(stream) == cudaSuccess, "a reference of cuda::mr to the resource");
}

/* CUB under capture, with temporary storage from the pool; the graph is launched three times, with other work between. */
static void test_graph(cudaStream_t stream)
{
	const std::size_t n = std::min<std::size_t>(elements / 10, 1000000), bytes = n * sizeof(std::uint32_t);
	vpmm::resource resource;
	cuda::stream_ref ref(stream);
	std::uint32_t *in = static_cast<std::uint32_t *>(resource.allocate(ref, bytes)),
		*out = static_cast<std::uint32_t *>(resource.allocate(ref, bytes));
	std::size_t size = 0;
	cudaGraphExec_t exec;
	cudaGraph_t graph;
	std::uint64_t id = 0;
	void *temporary;
	bool good = true;

	CUDA(cub::DeviceScan::InclusiveSum(nullptr, size, in, out, n, stream));
	CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	good = good && !vpmm_capture_id(nullptr, stream, &id) && id;
	temporary = resource.allocate(ref, size);
	CUDA(cub::DeviceScan::InclusiveSum(temporary, size, in, out, n, stream));
	resource.deallocate(ref, temporary, size);
	CUDA(cudaStreamEndCapture(stream, &graph));
	CUDA(cudaGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < 3; i++) {
		/* Would be the graph's temporary storage, if that were not the graph's until it is retired. */
		void *other = resource.allocate(ref, size);

		CUDA(cudaMemsetAsync(other, 0xff, size, stream));
		generate(in, n, stream);
		CUDA(cudaGraphLaunch(exec, stream));
		good = good && scanned(out, n, stream);
		resource.deallocate(ref, other, size);
	}
	good = good && !vpmm_graph_retire(nullptr, id, stream);
	resource.deallocate(ref, in, bytes);
	resource.deallocate(ref, out, bytes);
	CUDA(cudaStreamSynchronize(stream));
	CUDA(cudaGraphExecDestroy(exec));
	CUDA(cudaGraphDestroy(graph));
	verdict(good, "CUB under capture");
}

static void test_exhausted(cudaStream_t stream)
{
	std::size_t free_bytes, total;
	vpmm::resource resource;
	std::string text;

	CUDA(cudaMemGetInfo(&free_bytes, &total));
	try {
		resource.allocate(cuda::stream_ref(stream), 2 * total);
	} catch (const std::bad_alloc &error) {
		text = error.what();
	}
	std::printf("# %s\n", text.substr(0, text.find('\n')).c_str());
	verdict(text.find("vpmm_malloc") == 0, "too much is a std::bad_alloc with the reason");

	text.clear();
	try {
		thrust::device_vector<char, vpmm::thrust_allocator<char>> v(2 * total);
	} catch (const std::bad_alloc &error) {
		text = error.what();
	}
	verdict(!text.empty() && cudaGetLastError() == cudaSuccess, "so it is from a vector, and CUDA has seen no error");
	verdict(perform(THRUST_SORT, resource, vpmm::allocator<>(stream), stream, 1000000).good, "it works on after that");
}

int main(int argc, char **argv)
{
	int devices = 0;
	cudaStream_t stream;

	if (argc > 1)
		elements = std::strtoull(argv[1], nullptr, 0);
	if (elements < 1000) {
		std::fprintf(stderr, "usage: test-cccl [ELEMENTS], 1000 or more\n");
		return 1;
	}
	if (cudaGetDeviceCount(&devices) != cudaSuccess || !devices) {
		std::printf("1..0 # SKIP there is no GPU\n");
		return 0;
	}
	CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	try {
		test_side_by_side(stream);
		test_streams();
		test_device_vector();
		test_reference(stream);
		test_graph(stream);
		test_exhausted(stream);
		verdict(!vpmm_pool_check(nullptr), "the pool's invariants hold in the end");
	} catch (const std::exception &error) {
		std::printf("Bail out! %s\n", error.what());
		return 1;
	}
	std::printf("1..%d\n", count);
	return failures != 0;
}
