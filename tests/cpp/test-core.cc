// SPDX-License-Identifier: LGPL-2.1-or-later
/* What needs no framework: pools, exceptions and the allocator. */
#include <vpmm.hpp>
#include <vpmm.hpp>

#include <limits>
#include <type_traits>
#include <utility>

#include "check.hpp"

static void test_pool()
{
	struct vpmm_opts opts = {};
	struct vpmm_pool *handle;

	opts.size = sizeof(opts);
	opts.backend = "host";
	opts.limit = 8 * MIB;
	vpmm::pool first(&opts);
	handle = first.get();
	CHECK(handle);

	vpmm::pool second(std::move(first));
	CHECK(second.get() == handle && !first.get());
	vpmm::pool third(&opts);
	third = std::move(second);
	CHECK(third.get() == handle);
	CHECK(!std::is_copy_constructible<vpmm::pool>::value && !std::is_copy_assignable<vpmm::pool>::value);

	opts.limit_percent = 101;
	try {
		vpmm::pool bad(&opts);
		CHECK(!"a pool of these options");
	} catch (const vpmm::error &error) {
		CHECK(error.code() == std::errc::invalid_argument);
		CHECK(std::strstr(error.what(), "limit_percent"));
	}
	opts.limit_percent = 0;
	opts.pages = 1 << 20;
	CHECK(*thrown<std::bad_alloc>([&] { vpmm::pool bad(&opts); }));
}

/* A tag ends with its object, and what was allocated keeps it. */
static void test_tagged()
{
	struct vpmm_tag_stats stats = {};
	struct vpmm_opts opts = {};
	vpmm_tag tag = 0;
	void *ptr = nullptr;

	opts.size = sizeof(opts);
	opts.backend = "host";
	vpmm::pool pool(&opts);
	CHECK(!vpmm_tag_open("weights", VPMM_TAG_PAUSABLE, &tag));
	{
		vpmm::tagged weights("weights");
		{
			vpmm::tagged dropped(tag | VPMM_TAG_DROP);
			CHECK(vpmm_tag_set(tag | VPMM_TAG_DROP) == (tag | VPMM_TAG_DROP));
		}
		{
			vpmm::tagged none(0);
			CHECK(vpmm_tag_set(0) == 0);
		}
		CHECK(!vpmm_malloc(pool.get(), &ptr, 1000, nullptr));
	}
	CHECK(vpmm_tag_set(0) == 0);
	stats.size = sizeof(stats);
	CHECK(!vpmm_tag_stats(pool.get(), tag, &stats) && stats.requested == 1000);
	CHECK(!vpmm_pause(pool.get(), tag, 0) && !vpmm_resume(pool.get(), tag, nullptr));
	CHECK(!vpmm_free(pool.get(), ptr, nullptr));
	try {
		const char *const missing = nullptr;
		vpmm::tagged bad(missing);
		CHECK(!"a tag without a name");
	} catch (const vpmm::error &error) {
		CHECK(error.code() == std::errc::invalid_argument);
	}
	try {
		vpmm::tagged bad("weights", 0);
		CHECK(!"a tag with other flags");
	} catch (const vpmm::error &error) {
		CHECK(error.code() == std::errc::invalid_argument);
	}
}

static void test_pool_of_its_own()
{
	struct vpmm_opts opts = {};
	struct vpmm_allocation found = {};

	opts.size = sizeof(opts);
	opts.backend = "host";
	vpmm::pool pool(&opts);
	vpmm::allocator<> allocator(nullptr, pool.get());
	char *ptr = allocator.allocate(1000);

	found.size = sizeof(found);
	CHECK(!vpmm_lookup(ptr, &found));
	CHECK(found.pool == pool.get() && found.bytes == 1000);
	allocator.deallocate(ptr, 1000);
	CHECK(stats_of(pool.get()).requested == 0);
	CHECK(stats_of(pool.get()).frees == 1);
}

static void test_allocator()
{
	streams s;
	vpmm::allocator<double> doubles(s.a);
	vpmm::allocator<> chars(doubles);
	double *ptr = doubles.allocate(100);

	CHECK(bytes_at(ptr) == 100 * sizeof(double));
	doubles.deallocate(ptr, 100);
	CHECK(!doubles.allocate(0));
	CHECK(chars.stream() == s.a);
	CHECK(chars == doubles);
	CHECK(chars != vpmm::allocator<>(s.b));

	CHECK(*thrown<std::bad_array_new_length>([&] {
		(void)doubles.allocate(std::numeric_limits<std::size_t>::max() / 4);
	}));
	CHECK(explains(thrown<std::bad_alloc>([&] { (void)chars.allocate(TOO_MUCH); })));
	CHECK(explains(thrown<vpmm::bad_alloc>([&] { (void)chars.allocate(TOO_MUCH); })));

	struct alignas(1024) wide { char bytes[1024]; };
	vpmm::allocator<wide> wides(s.a);
	wide *each[8];

	for (wide *&one : each) {
		(void)chars.allocate(512);
		one = wides.allocate(1);
		CHECK(reinterpret_cast<std::uintptr_t>(one) % alignof(wide) == 0);
	}
	for (wide *one : each)
		wides.deallocate(one, 1);
}

/* An exception is copied where it is thrown and where it is kept, and must not throw then. */
static void test_exceptions()
{
	CHECK(std::is_nothrow_copy_constructible<vpmm::bad_alloc>::value);
	CHECK(std::is_nothrow_copy_constructible<vpmm::error>::value);

	vpmm::bad_alloc *first = new vpmm::bad_alloc("text"), second(*first);

	delete first;
	CHECK(!std::strcmp(second.what(), "text"));
}

int main()
{
	test_pool();
	test_tagged();
	test_pool_of_its_own();
	test_allocator();
	test_exceptions();
	check_ordered([](std::size_t size, struct CUstream_st *stream) -> void * {
		return vpmm::allocator<>(stream).allocate(size);
	}, [](void *ptr, std::size_t size, struct CUstream_st *stream) {
		vpmm::allocator<>(stream).deallocate(static_cast<char *>(ptr), size);
	});
	vpmm::allocator<> any(VPMM_STREAM_ANY);
	check_unordered([&](std::size_t size) -> void * { return any.allocate(size); },
		[&](void *ptr, std::size_t size) { any.deallocate(static_cast<char *>(ptr), size); });
	return failures != 0;
}
