// SPDX-License-Identifier: LGPL-2.1-or-later
/* Devices and memory of the host backend: its variables, its limits, and what is left when it is closed. */
#define _GNU_SOURCE 1
#include <sys/mman.h>
#include <unistd.h>

#include "host/host-bench.h"
#include "host/ranges.h"
#include "support/rlimit.h"
#include "util/assume.h"

/* CUDA's limit, or what the kernel allows the process, less a part for the rest of the process. */
static uint64_t mappings_by_default(void)
{
	uint64_t most;
	char *text;

	g_assert_true(g_file_get_contents("/proc/sys/vm/max_map_count", &text, NULL, NULL));
	most = g_ascii_strtoull(text, NULL, 10);
	g_free(text);
	return MIN(most - most / 16, 524090);
}

static void test_defaults(void)
{
	struct backend_info info;
	struct backend *be;

	unsetenv("VPMM_HOST_CAPACITY");
	unsetenv("VPMM_HOST_DEVICES");
	unsetenv("VPMM_HOST_MAPPINGS");
	be = open_entered(0);
	assert_ok(ops->info(be, &info));

	g_assert_cmpstr(info.name, ==, "host");
	g_assert_cmpstr(info.device_name, ==, "libvpmm host device 0");
	g_assert_cmpint(info.driver_version, ==, 0);
	g_assert_cmpuint(info.granularity, ==, PAGE);
	g_assert_cmpuint(info.memory_total, ==, 80 * GIB);
	g_assert_cmpuint(info.memory_free, ==, 80 * GIB);
	g_assert_cmpuint(info.mapping_limit, ==, mappings_by_default());
	close_left(be);
}

static void test_variables(void)
{
	struct backend *first, *second;
	struct backend_info info;

	set("64M", "1", "7");
	first = open_entered(0);
	set("32M", "1", "5");
	second = open_entered(0);
	assert_ok(ops->info(second, &info));
	g_assert_cmpuint(info.memory_total, ==, 64 * MIB);
	g_assert_cmpuint(info.mapping_limit, ==, 7);
	ops->leave(second);
	ops->close(second);
	close_left(first);

	first = open_entered(0);
	assert_ok(ops->info(first, &info));
	g_assert_cmpuint(info.memory_total, ==, 32 * MIB);
	g_assert_cmpuint(info.mapping_limit, ==, 5);
	close_left(first);
}

static void test_bad_variables(void)
{
	static const char *const bad_sizes[] = { "x", "-1", "1Q", "0", "1M", "99999999999T" };
	static const char *const bad_counts[] = { "x", "-1", "0", "65", "1.5" };
	struct backend *be = NULL;
	size_t i;

	for (i = 0; i < G_N_ELEMENTS(bad_sizes); i++) {
		set(bad_sizes[i], "1", "7");
		assert_refused(ops->open(0, &be), -EINVAL, "VPMM_HOST_CAPACITY");
	}
	for (i = 0; i < G_N_ELEMENTS(bad_counts); i++) {
		set("64M", bad_counts[i], "7");
		assert_refused(ops->open(0, &be), -EINVAL, "VPMM_HOST_DEVICES");
		assert_refused(vpmm_host_set_device(0), -EINVAL, "VPMM_HOST_DEVICES");
	}
	for (i = 0; i < 3; i++) {
		set("64M", "1", bad_counts[i]);
		assert_refused(ops->open(0, &be), -EINVAL, i == 2 ? "VPMM_HOST_MAPPINGS is 0" : "a number of mappings");
	}
	g_assert_null(be);
	g_assert_false(host_left());
}

static void test_devices(void)
{
	struct backend *be = NULL, *first, *last;
	struct CUstream_st *stream;
	uint64_t handle, id, other;
	struct backend_info info;
	int device;

	set("64M", "3", "7");
	assert_refused(ops->open(3, &be), -ENODEV, "3");
	assert_refused(ops->open(-1, &be), -ENODEV, "-1");
	g_assert_null(be);

	first = open_entered(0);
	handle = create(first, 64 * MIB);
	stream = stream_new();
	assert_ok(ops->stream_id(first, NULL, &id));
	last = open_entered(2);
	assert_ok(ops->current_device(&device));
	g_assert_cmpint(device, ==, 2);
	assert_ok(ops->info(last, &info));
	g_assert_cmpint(info.device, ==, 2);
	g_assert_cmpuint(info.memory_free, ==, 64 * MIB);
	assert_ok(ops->stream_id(last, NULL, &other));
	g_assert_cmpuint(other, !=, id);
	assert_refused(ops->stream_id(last, stream, &other), -EINVAL, "device");
	assert_refused(ops->release(last, handle), -EINVAL, "handle");
	ops->leave(last);
	ops->close(last);

	assert_ok(ops->release(first, handle));
	assert_ok(vpmm_host_stream_destroy(stream));
	close_left(first);
}

static void test_entered_device_is_current(void)
{
	struct backend *be;
	int device = -1;

	set("64M", "2", "7");
	assert_ok(vpmm_host_set_device(1));
	be = open_entered(0);
	assert_ok(ops->current_device(&device));
	g_assert_cmpint(device, ==, 0);
	ops->leave(be);
	assert_ok(ops->current_device(&device));
	g_assert_cmpint(device, ==, 1);

	assert_ok(ops->enter(be));
	assert_ok(vpmm_host_set_device(0));
	close_left(be);
}

static void test_enter_has_an_end(void)
{
	struct backend *be;
	int deep = 0;

	set("64M", "1", "7");
	be = open_entered(0);
	while (!ops->enter(be)) {
		deep++;
		g_assert_cmpint(deep, <, 1000);
	}

	g_assert_nonnull(strstr(error_get(), "enter"));
	g_assert_cmpint(deep, >=, 8);
	while (deep-- > 0)
		ops->leave(be);
	close_left(be);
}

static void test_info_needs_enter(void)
{
	struct backend_info info = { .device = 77 };
	struct backend *be;

	set("64M", "1", "7");
	assert_ok(ops->open(0, &be));

	assert_refused(ops->info(be, &info), -EINVAL, "info: the thread has not entered");

	g_assert_cmpint(info.device, ==, 77);
	ops->close(be);
	g_assert_false(host_left());
}

static void test_no_file_descriptors(void)
{
	struct backend *be = NULL;
	rlim_t before;

	set("64M", "1", "7");
	before = rlimit_set(RLIMIT_NOFILE, 0);

	assert_refused(ops->open(0, &be), -ENOMEM, "memfd_create");

	rlimit_set(RLIMIT_NOFILE, before);
	g_assert_null(be);
	close_left(open_entered(0));
}

/* The device refuses what the kernel would end the program for. */
static void test_files_are_limited(void)
{
	struct backend_info info;
	uint64_t handle = UNTOUCHED;
	struct backend *be;
	rlim_t before;

	set("64M", "1", "7");
	be = open_entered(0);
	before = rlimit_set(RLIMIT_FSIZE, PAGE);

	assert_refused(ops->create(be, 2 * PAGE, &handle), -ENOMEM, "RLIMIT_FSIZE");

	rlimit_set(RLIMIT_FSIZE, before);
	g_assert_cmpuint(handle, ==, UNTOUCHED);
	assert_ok(ops->info(be, &info));
	g_assert_cmpuint(info.memory_free, ==, 64 * MIB);
	assert_ok(ops->release(be, create(be, 64 * MIB)));
	close_left(be);
}

static void test_two_backends_of_a_device(void)
{
	struct backend *first, *second;
	struct backend_info info;
	uint64_t va, handle;

	set("64M", "1", "7");
	first = open_entered(0);
	va = reserve(first, 2 * PAGE);
	handle = create(first, PAGE);
	assert_ok(ops->map(first, va, PAGE, handle));
	second = open_entered(0);
	assert_ok(ops->info(second, &info));
	g_assert_cmpuint(info.memory_free, ==, 64 * MIB - PAGE);
	assert_refused(ops->map(second, va + PAGE, PAGE, handle), -EINVAL, "handle");
	assert_refused(ops->access(second, va, PAGE), -EINVAL, "reservation");
	assert_refused(ops->unmap(second, va, PAGE, NULL), -EINVAL, "reservation");
	assert_refused(ops->unreserve(second, va, 2 * PAGE), -EINVAL, "reserved");
	ops->leave(second);
	ops->close(second);

	assert_ok(ops->unmap(first, va, PAGE, NULL));
	assert_ok(ops->release(first, handle));
	assert_ok(ops->unreserve(first, va, 2 * PAGE));
	close_left(first);
}

static void test_out_of_memory_says_why(void)
{
	struct backend *be;
	uint64_t handle, other = UNTOUCHED;

	set("10M", "1", "7");
	be = open_entered(0);
	handle = create(be, 3 * PAGE);
	assert_refused(ops->create(be, 3 * PAGE, &other), -ENOMEM, " 6 MiB ");
	g_assert_nonnull(strstr(error_get(), " 10 MiB "));
	assert_refused(ops->small_alloc(be, 3 * PAGE, NULL, &other), -ENOMEM, " 6 MiB ");
	g_assert_cmpuint(other, ==, UNTOUCHED);
	assert_ok(ops->release(be, handle));
	close_left(be);
}

/* Addresses with memory of their own. */
static uint64_t map_new(struct backend *be, size_t size, uint64_t *handle)
{
	uint64_t va = reserve(be, size);

	*handle = create(be, size);
	assert_ok(ops->map(be, va, size, *handle));
	assert_ok(ops->access(be, va, size));
	return va;
}

static void unmap_all(struct backend *be, uint64_t va, size_t size, uint64_t handle)
{
	assert_ok(ops->unmap(be, va, size, NULL));
	assert_ok(ops->release(be, handle));
	assert_ok(ops->unreserve(be, va, size));
}

static void test_memory_is_given_back(void)
{
	struct backend *be;
	uint64_t va, handle;

	set("4M", "1", "7");
	be = open_entered(0);
	va = map_new(be, 2 * PAGE, &handle);
	memset((void *)(uintptr_t)va, 0xff, 2 * PAGE);
	assert_ok(ops->release(be, handle));
	assert_ok(ops->unmap(be, va, 2 * PAGE, NULL));

	handle = create(be, PAGE);
	assert_ok(ops->map(be, va, PAGE, handle));
	assert_ok(ops->access(be, va, PAGE));
	g_assert_cmpint(*(char *)(uintptr_t)va, ==, 0);
	assert_ok(ops->unmap(be, va, PAGE, NULL));
	assert_ok(ops->release(be, handle));
	assert_ok(ops->unreserve(be, va, 2 * PAGE));
	close_left(be);
}

static void test_memory_is_sparse(void)
{
	uint64_t va, handle, at;
	struct backend *be;

	set("60G", "1", "7");
	be = open_entered(0);
	va = map_new(be, 43 * GIB, &handle);
	for (at = va; at < va + 43 * GIB; at += 64 * MIB)
		*(uint64_t *)(uintptr_t)at = at;
	for (at = va; at < va + 43 * GIB; at += 64 * MIB)
		g_assert_cmpuint(*(uint64_t *)(uintptr_t)at, ==, at);

	unmap_all(be, va, 43 * GIB, handle);
	at = small(be, 16 * GIB, NULL);
	*(uint64_t *)(uintptr_t)(at + 16 * GIB - 8) = 1;
	g_assert_cmpuint(held(be), ==, 16 * GIB);
	assert_ok(ops->small_free(be, at, NULL));
	close_left(be);
}

static bool takes_memory(uint64_t va, size_t size)
{
	size_t pages = size / (size_t)sysconf(_SC_PAGESIZE);
	unsigned char *resident = g_malloc(pages);
	bool some;

	g_assert_cmpint(mincore((void *)(uintptr_t)va, size, resident), ==, 0);
	some = memchr(resident, 1, pages);
	g_free(resident);
	return some;
}

static void test_cleared_is_sparse(void)
{
	struct backend *be;
	uint64_t va, handle;

	set("64M", "1", "7");
	be = open_entered(0);
	va = map_new(be, 64 * MIB, &handle);
	memset((void *)(uintptr_t)(va + PAGE), 0xff, PAGE);
	g_assert_true(takes_memory(va, 64 * MIB));

	assert_ok(ops->clear(be, va, 64 * MIB, NULL));
	assert_ok(ops->sync(be));

	g_assert_false(takes_memory(va, 64 * MIB));
	g_assert_cmpint(*(char *)(uintptr_t)(va + PAGE), ==, 0);
	unmap_all(be, va, 64 * MIB, handle);
	close_left(be);
}

static void test_pieces_are_used_again(void)
{
	uint64_t handle[8], big;
	struct backend *be;
	size_t i;

	set("16M", "1", "7");
	be = open_entered(0);
	for (i = 0; i < 8; i++)
		handle[i] = create(be, PAGE);
	for (i = 0; i < 8; i += 2)
		assert_ok(ops->release(be, handle[i]));
	big = create(be, 4 * PAGE);
	for (i = 1; i < 8; i += 2)
		assert_ok(ops->release(be, handle[i]));
	assert_ok(ops->release(be, big));
	assert_ok(ops->release(be, create(be, 8 * PAGE)));
	close_left(be);
}

/* The start of the smallest run of true that is long enough, the first of several; SIZE_MAX if there is none. */
static size_t smallest_run(const bool *is_free, size_t count, size_t size)
{
	size_t best = SIZE_MAX, best_size = SIZE_MAX, start, end;

	for (start = 0; start < count; start = end + 1) {
		for (end = start; end < count && is_free[end]; end++)
			;
		if (end - start >= size && end - start < best_size) {
			best = start;
			best_size = end - start;
		}
	}
	return best;
}

static void test_ranges_at_random(void)
{
	enum { COUNT = 200, STEPS = 20000 };
	struct host_ranges *ranges = host_ranges_new();
	bool is_free[COUNT] = { false };
	uint64_t start, expected, size;
	int i;

	for (i = 0; i < STEPS; i++) {
		size = (uint64_t)g_test_rand_int_range(1, 12);
		start = (uint64_t)g_test_rand_int_range(0, COUNT - (int)size + 1);
		if (g_test_rand_int_range(0, 3)) {
			while (size && is_free[start + size - 1])
				size--;
			if (!size || memchr(&is_free[start], 1, size))
				continue;
			host_ranges_give(ranges, start, size);
			memset(&is_free[start], true, size);
			continue;
		}
		expected = smallest_run(is_free, COUNT, size);
		g_assert_cmpint(host_ranges_take(ranges, size, &start), ==, expected != SIZE_MAX);
		if (expected == SIZE_MAX)
			continue;
		g_assert_cmpuint(start, ==, expected);
		memset(&is_free[start], false, size);
	}
	host_ranges_destroy(ranges);
}

static void test_kernel_limit(void)
{
	uint64_t va, pair[2], handle, limit, i, n;
	struct backend *be;
	char *text = NULL;

	/* Valgrind preloads itself. */
	if (SANITIZED || g_getenv("LD_PRELOAD")) {
		g_test_skip("a sanitizer dies when there are no mappings left for it, and valgrind takes minutes to "
			    "keep them");
		return;
	}
	if (!g_file_get_contents("/proc/sys/vm/max_map_count", &text, NULL, NULL)) {
		g_test_skip("the kernel does not say how many mappings a process can have");
		return;
	}
	limit = g_ascii_strtoull(text, NULL, 10);
	g_free(text);
	if (limit > 100000) {
		g_test_skip("vm.max_map_count is too large to be tried");
		return;
	}
	set("64M", "1", "524090");
	be = open_entered(0);
	if (ops->reserve(be, (2 * limit + 2) * PAGE, PAGE, &va)) {
		g_test_skip("the process cannot have that much address space");
		close_left(be);
		return;
	}
	for (i = 0; i < 2; i++) {
		pair[i] = create(be, PAGE);
		assert_ok(ops->map(be, va + (2 * limit + i) * PAGE, PAGE, pair[i]));
	}
	handle = create(be, PAGE);
	for (n = 0; n < limit && !ops->map(be, va + 2 * n * PAGE, PAGE, handle); n++)
		;

	g_assert_cmpuint(n, <, limit);
	g_assert_nonnull(strstr(error_get(), "mappings"));
	g_assert_nonnull(strstr(error_get(), "vm.max_map_count"));
	assert_refused(ops->map(be, va + 2 * n * PAGE, PAGE, handle), -ENOMEM, "mappings");
	assert_refused(ops->access(be, va + 2 * limit * PAGE, PAGE), -ENOMEM, "vm.max_map_count");
	assert_ok(ops->unmap(be, va, 5 * PAGE, NULL));
	assert_ok(ops->map(be, va, PAGE, handle));
	g_assert_false(host_reachable(va + 2 * limit * PAGE));
	assert_ok(ops->access(be, va + 2 * limit * PAGE, PAGE));
	g_assert_true(host_reachable(va + 2 * limit * PAGE));
	g_assert_false(host_reachable(va + (2 * limit + 1) * PAGE));
	assert_ok(ops->unmap(be, va, (2 * limit + 2) * PAGE, NULL));
	for (i = 0; i < 2; i++)
		assert_ok(ops->release(be, pair[i]));
	for (i = 0; i < 4; i++)
		g_assert_false(host_reachable(va + i * PAGE));
	assert_ok(ops->release(be, handle));
	assert_ok(ops->unreserve(be, va, (2 * limit + 2) * PAGE));
	close_left(be);
}

static void test_close_with_things_left(void)
{
	struct backend_event *event;
	struct host_left left;
	struct backend *be;
	uint64_t va, handle;

	set("64M", "1", "7");
	be = open_entered(0);
	va = reserve(be, 2 * PAGE);
	handle = create(be, PAGE);
	assert_ok(ops->map(be, va, PAGE, handle));
	assert_ok(ops->map(be, va + PAGE, PAGE, handle));
	assert_ok(ops->release(be, handle));
	create(be, PAGE);
	small(be, 100, NULL);
	assert_ok(ops->event_create(be, &event));
	ops->leave(be);
	ops->close(be);

	backend_host_left(&left);
	g_assert_cmpuint(left.abandoned, ==, 5);
	g_assert_cmpuint(left.events, ==, 1);
	g_assert_cmpuint(left.opens + left.reservations + left.handles + left.mappings + left.small, ==, 0);
	g_assert_false(host_reachable(va));
	be = open_entered(0);
	ops->event_destroy(be, event);
	assert_ok(ops->release(be, create(be, 64 * MIB)));
	ops->leave(be);
	ops->close(be);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/host-memory/defaults", test_defaults);
	g_test_add_func("/host-memory/variables", test_variables);
	g_test_add_func("/host-memory/bad-variables", test_bad_variables);
	g_test_add_func("/host-memory/devices", test_devices);
	g_test_add_func("/host-memory/entered-device-is-current", test_entered_device_is_current);
	g_test_add_func("/host-memory/enter-has-an-end", test_enter_has_an_end);
	g_test_add_func("/host-memory/info-needs-enter", test_info_needs_enter);
	g_test_add_func("/host-memory/no-file-descriptors", test_no_file_descriptors);
	g_test_add_func("/host-memory/files-are-limited", test_files_are_limited);
	g_test_add_func("/host-memory/two-backends-of-a-device", test_two_backends_of_a_device);
	g_test_add_func("/host-memory/out-of-memory-says-why", test_out_of_memory_says_why);
	g_test_add_func("/host-memory/memory-is-given-back", test_memory_is_given_back);
	g_test_add_func("/host-memory/memory-is-sparse", test_memory_is_sparse);
	g_test_add_func("/host-memory/cleared-is-sparse", test_cleared_is_sparse);
	g_test_add_func("/host-memory/pieces-are-used-again", test_pieces_are_used_again);
	g_test_add_func("/host-memory/ranges-at-random", test_ranges_at_random);
	g_test_add_func("/host-memory/kernel-limit", test_kernel_limit);
	/* Last, as it is counted for the rest of the process. */
	g_test_add_func("/host-memory/close-with-things-left", test_close_with_things_left);
	return g_test_run();
}
