// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * What the tests of vpmm.hpp share: checks that say what failed, and what has to hold of any interface that allocates,
 * on the host backend with a device of 64 MiB (tests/scripts/test-cpp.sh).
 */
#ifndef TESTS_CPP_CHECK_HPP
#define TESTS_CPP_CHECK_HPP

#include <vpmm-host.h>
#include <vpmm.h>

#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <future>
#include <thread>

inline int failures;

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			std::printf("%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition, vpmm_last_error()); \
			failures++; \
		} \
	} while (0)

constexpr std::size_t MIB = 1 << 20;
/* Two of them fit. */
constexpr std::size_t SOME = 16 * MIB;
/* No two of them do. */
constexpr std::size_t MOST = 40 * MIB;
constexpr std::size_t TOO_MUCH = std::size_t(1) << 40;

struct streams {
	struct CUstream_st *a, *b, *c;

	streams()
	{
		CHECK(!vpmm_host_stream_create(&a));
		CHECK(!vpmm_host_stream_create(&b));
		CHECK(!vpmm_host_stream_create(&c));
	}
	streams(const streams &) = delete;
	~streams()
	{
		for (struct CUstream_st *stream : {a, b, c}) {
			CHECK(!vpmm_host_stream_complete(stream, UINT_MAX));
			CHECK(!vpmm_stream_retire(nullptr, stream));
			CHECK(!vpmm_host_stream_destroy(stream));
		}
	}
};

inline struct vpmm_stats stats_of(struct vpmm_pool *pool = nullptr)
{
	struct vpmm_stats stats = {};

	stats.size = sizeof(stats);
	CHECK(!vpmm_pool_stats(pool, &stats));
	return stats;
}

/* Bytes as requested of the block that starts there; UINT64_MAX if none does. */
inline uint64_t bytes_at(const void *ptr)
{
	struct vpmm_allocation found = {};

	found.size = sizeof(found);
	return vpmm_lookup(ptr, &found) || found.base != ptr ? UINT64_MAX : found.bytes;
}

/* Whether work that is submitted to a stream now waits for another's. It is submitted. */
inline bool waits(struct CUstream_st *stream)
{
	CHECK(!vpmm_host_stream_submit(stream));
	return vpmm_host_stream_complete(stream, UINT_MAX) == -EBUSY;
}

/*
 * check_default() - what holds of allocations and frees that name a null stream
 *
 * It is the stream that the runtime has for 0 in this source. Where each thread has one of its own, what a thread has
 * freed is another's behind the work of the first.
 */
template <class Allocate, class Release>
void check_default(Allocate allocate, Release release)
{
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
	struct CUstream_st *const own = VPMM_HOST_STREAM_PER_THREAD;
#else
	struct CUstream_st *const own = nullptr;
#endif
	std::promise<void> taken, completed;
	void *first = allocate(MOST, nullptr);

	CHECK(!vpmm_host_stream_submit(own));
	release(first, MOST, nullptr);
	CHECK(allocate(MOST, nullptr) == first);
	release(first, MOST, nullptr);

	std::thread other([&] {
		void *second = allocate(MOST, nullptr);

		CHECK(bytes_at(second) == MOST);
		CHECK(waits(own) == (own != nullptr));
		taken.set_value();
		completed.get_future().wait();
		CHECK(!vpmm_host_stream_complete(own, UINT_MAX));
		release(second, MOST, nullptr);
		CHECK(!vpmm_stream_retire(nullptr, own));
	});

	taken.get_future().wait();
	CHECK(!vpmm_host_stream_complete(own, UINT_MAX));
	completed.set_value();
	other.join();
}

/*
 * check_ordered() - what holds of allocations and frees that name a stream
 * @allocate: of bytes and a stream, returns the block
 * @release: of block, bytes and stream
 */
template <class Allocate, class Release>
void check_ordered(Allocate allocate, Release release)
{
	const uint64_t before = stats_of().requested;
	streams s;
	void *first = allocate(MOST, s.a), *second;

	CHECK(bytes_at(first) == MOST);
	CHECK(reinterpret_cast<uintptr_t>(first) % 256 == 0);
	CHECK(!vpmm_host_stream_submit(s.a));
	CHECK(!vpmm_host_stream_submit(s.c));
	release(first, MOST, s.a);
	CHECK(bytes_at(first) == UINT64_MAX);

	/* What a has freed is a's at once, and b's behind the work of a, and of nobody else. */
	second = allocate(MOST, s.a);
	CHECK(second == first);
	release(second, MOST, s.a);
	second = allocate(MOST, s.b);
	CHECK(bytes_at(second) == MOST);
	CHECK(waits(s.b));
	CHECK(!vpmm_host_stream_complete(s.a, UINT_MAX));
	CHECK(!vpmm_host_stream_complete(s.b, UINT_MAX));
	release(second, MOST, s.b);
	check_default(allocate, release);
	CHECK(stats_of().requested == before);
}

/* check_unordered() - what holds of allocations and frees that name none */
template <class Allocate, class Release>
void check_unordered(Allocate allocate, Release release)
{
	const uint64_t before = stats_of().requested;
	streams s;
	void *pending, *idle, *first, *second;

	/* Any stream may use it at once, so it is not what work is pending on, though nothing else is free. */
	CHECK(!vpmm_malloc(nullptr, &pending, SOME, s.a));
	CHECK(!vpmm_pool_trim(nullptr, 0, nullptr));
	CHECK(!vpmm_host_stream_submit(s.a));
	CHECK(!vpmm_free(nullptr, pending, s.a));
	idle = allocate(SOME);
	CHECK(bytes_at(idle) != UINT64_MAX);
	CHECK(!waits(nullptr));
	CHECK(!waits(s.b));
	CHECK(!vpmm_host_stream_complete(s.a, UINT_MAX));
	release(idle, SOME);

	/* The free is behind what any stream has to do. */
	first = allocate(MOST);
	CHECK(reinterpret_cast<uintptr_t>(first) % 256 == 0);
	CHECK(!vpmm_host_stream_submit(s.a));
	release(first, MOST);
	CHECK(bytes_at(first) == UINT64_MAX);
	CHECK(!vpmm_malloc(nullptr, &second, MOST, s.b));
	CHECK(waits(s.b));
	CHECK(!vpmm_host_stream_complete(s.a, UINT_MAX));
	CHECK(!vpmm_host_stream_complete(s.b, UINT_MAX));
	CHECK(!vpmm_free(nullptr, second, s.b));
	CHECK(stats_of().requested == before);
}

/* The exception of a type that a call throws, as its text; "" if it throws none or another. */
template <class Exception, class Call>
const char *thrown(Call call)
{
	static char text[1024];

	text[0] = '\0';
	try {
		call();
	} catch (const Exception &error) {
		std::snprintf(text, sizeof(text), "%s", error.what());
	} catch (...) {
	}
	return text;
}

/* Why an allocation of TOO_MUCH failed. */
inline bool explains(const char *text)
{
	return std::strstr(text, "1048576 MiB") != nullptr;
}

#endif
