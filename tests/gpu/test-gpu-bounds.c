// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Where a pool on a real GPU begins and ends: small requests, other pools and devices, wrong calls, all of the memory.
 */
#include <errno.h>
#include <string.h>

#include "gpu/gpu-bench.h"

/* What was freed on a stream can be had when the stream is gone. */
static void test_stream_destroyed(void)
{
	drv_stream stream;
	struct slot slot;
	struct bench b;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		return;
	stream = gpu_stream();
	slot = take(b.f.pool, 32 * PAGE, stream);
	give(b.f.pool, &slot);
	gpu_ok(cu.cuStreamDestroy(stream));

	slot = take(b.f.pool, 32 * PAGE, b.s[0]);

	g_assert_cmpuint(stats_of(b.f.pool).mapped, ==, 32 * PAGE);
	give(b.f.pool, &slot);
	close_bench(&b);
}

static void test_small_by_driver(void)
{
	static const size_t sizes[] = { 8, 256, 1000, 4096, 65536, MIB, 2 * MIB - 8 };
	struct slot slots[G_N_ELEMENTS(sizes)];
	struct vpmm_stats stats;
	size_t i, sum = 0;
	struct bench b;

	if (!open_bench(&b, (struct vpmm_opts){ .small = VPMM_SMALL_DRIVER }))
		return;
	for (i = 0; i < G_N_ELEMENTS(sizes); i++) {
		slots[i] = take(b.f.pool, sizes[i], b.s[i % STREAMS]);
		g_assert_cmpuint((uintptr_t)slots[i].ptr % 256, ==, 0);
		sum += sizes[i];
	}
	stats = stats_of(b.f.pool);
	g_assert_cmpuint(stats.small_live, ==, sum);
	g_assert_cmpuint(stats.small_mapped, >=, sum);
	g_assert_cmpuint(stats.mapped, ==, 0);

	for (i = 0; i < G_N_ELEMENTS(sizes); i++)
		give(b.f.pool, &slots[i]);
	g_assert_cmpuint(stats_of(b.f.pool).small_live, ==, 0);
	close_bench(&b);
}

/* Small ones of the pool's own keep their data beside large ones, and take little more than they are. */
static void test_small(void)
{
	static const size_t sizes[] = { 8, 256, 1000, 4096, 65536, MIB, 2 * MIB - 8 };
	struct slot slots[64 * G_N_ELEMENTS(sizes)];
	struct vpmm_stats stats;
	struct bench b;
	size_t i;

	if (!open_bench(&b, (struct vpmm_opts){ .extent_max = GIB }))
		return;
	for (i = 0; i < G_N_ELEMENTS(slots); i++) {
		slots[i] = take(b.f.pool, sizes[i % G_N_ELEMENTS(sizes)], b.s[i % STREAMS]);
		g_assert_cmpuint((uintptr_t)slots[i].ptr % 512, ==, 0);
	}
	stats = stats_of(b.f.pool);
	g_assert_cmpuint(stats.small_live, ==, 0);
	g_assert_cmpuint(stats.mapped, <=, stats.live + stats.live / 50);

	for (i = 0; i < G_N_ELEMENTS(slots); i++)
		give(b.f.pool, &slots[i]);
	g_assert_cmpuint(stats_of(b.f.pool).live, ==, 0);
	close_bench(&b);
}

static void test_all_to_driver(void)
{
	struct slot slot;
	struct bench b;

	if (!open_bench(&b, (struct vpmm_opts){ .page_size = SIZE_MAX }))
		return;
	slot = take(b.f.pool, 64 * MIB, b.s[0]);

	g_assert_cmpuint(stats_of(b.f.pool).small_live, ==, 64 * MIB);
	g_assert_cmpuint(stats_of(b.f.pool).mapped, ==, 0);
	give(b.f.pool, &slot);
	close_bench(&b);
}

static void test_two_pools(void)
{
	struct vpmm_pool *second;
	struct slot mine, other;
	struct bench b;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		return;
	second = bench_pool((struct vpmm_opts){ .page_size = 4 * PAGE });
	mine = take(b.f.pool, 16 * PAGE, b.s[0]);
	other = take(second, 16 * PAGE, b.s[0]);

	assert_error(vpmm_free(second, mine.ptr, b.s[0]), EINVAL, "no allocation of this pool starts there");
	assert_error(vpmm_free(b.f.pool, other.ptr, b.s[0]), EINVAL, "no allocation of this pool starts there");
	give(b.f.pool, &mine);
	give(second, &other);
	assert_ok(vpmm_pool_check(second));
	vpmm_pool_destroy(second);
	close_bench(&b);
}

static void test_bad_free(void)
{
	struct vpmm_stats before, after;
	drv_deviceptr foreign;
	struct slot slot;
	struct bench b;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		return;
	gpu_ok(cu.cuMemAlloc(&foreign, PAGE));
	slot = take(b.f.pool, 4 * PAGE, b.s[0]);
	before = stats_of(b.f.pool);

	assert_error(vpmm_free(b.f.pool, (void *)foreign, b.s[0]), EINVAL, "no allocation of this pool starts there");
	assert_error(vpmm_free(b.f.pool, (char *)slot.ptr + PAGE, b.s[0]), EINVAL, "no allocation of this pool starts there");
	give(b.f.pool, &slot);
	assert_ok(vpmm_pool_check(b.f.pool));
	after = stats_of(b.f.pool);
	g_assert_cmpuint(after.frees, ==, before.frees + 1);
	close_bench(&b);
	gpu_ok(cu.cuMemFree(foreign));
}

static void test_double_free(void)
{
	struct slot slot, small;
	void *ptr, *small_ptr;
	struct bench b;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		return;
	slot = take(b.f.pool, 4 * PAGE, b.s[0]);
	small = take(b.f.pool, 4096, b.s[0]);
	ptr = slot.ptr;
	small_ptr = small.ptr;
	give(b.f.pool, &slot);
	give(b.f.pool, &small);

	assert_error(vpmm_free(b.f.pool, ptr, b.s[0]), EINVAL, "no allocation of this pool starts there");
	assert_error(vpmm_free(b.f.pool, small_ptr, b.s[0]), EINVAL, "no allocation of this pool starts there");

	g_assert_cmpuint(stats_of(b.f.pool).frees, ==, 2);
	assert_ok(vpmm_pool_check(b.f.pool));
	close_bench(&b);
}

/* More than a chunk of addresses has, at once and in sum. */
static void test_chunks(void)
{
	struct slot slots[4];
	struct bench b;
	size_t i;

	if (!open_bench(&b, (struct vpmm_opts){ .va_size = 64 * PAGE }))
		return;
	for (i = 0; i < G_N_ELEMENTS(slots); i++)
		slots[i] = take(b.f.pool, (i == 2 ? 200 : 40) * PAGE, b.s[0]);
	g_assert_cmpuint(stats_of(b.f.pool).chunks, >=, 3);

	for (i = 0; i < G_N_ELEMENTS(slots); i++)
		give(b.f.pool, &slots[i]);
	close_bench(&b);
}

/* All that a pool took is there again when it is gone, also what was still allocated. */
static void test_destroy(void)
{
	struct slot kept, small, freed;
	size_t before, after;
	struct bench b;

	if (!gpu_ready())
		return;
	before = gpu_memory_free();
	open_bench(&b, (struct vpmm_opts){ .pages = 64 });
	kept = take(b.f.pool, 2 * GIB, b.s[0]);
	freed = take(b.f.pool, GIB, b.s[1]);
	small = take(b.f.pool, MIB, b.s[2]);
	give(b.f.pool, &freed);
	g_assert_cmpuint(before - gpu_memory_free(), >=, 3 * GIB);
	g_assert_nonnull(kept.ptr);
	g_assert_nonnull(small.ptr);

	close_bench(&b);

	gpu_ok(cu.cuCtxSynchronize());
	after = gpu_memory_free();
	g_assert_cmpuint(before, <=, after + 64 * MIB);
}

/* The device's memory runs out: the call fails, with numbers, the pool is as it was, and goes on. */
static void test_exhaustion(void)
{
	GPtrArray *pages;
	struct slot slots[64] = { 0 };
	struct vpmm_stats full, after;
	size_t before, piece, n, i;
	struct bench b;
	void *ptr = NULL;
	int err = 0;

	if (!gpu_ready())
		return;
	pages = g_ptr_array_new();
	before = gpu_memory_free();
	open_bench(&b, (struct vpmm_opts){ 0 });
	piece = before / 16 / PAGE * PAGE;
	for (n = 0; n < G_N_ELEMENTS(slots); n++) {
		slots[n] = (struct slot){ .size = piece, .seed = n, .stream = b.s[0] };
		err = vpmm_malloc(b.f.pool, &slots[n].ptr, piece, b.s[0]);
		if (err)
			break;
		gpu_fill(slots[n].ptr, piece, n, b.s[0]);
	}
	g_assert_cmpint(err, ==, -ENOMEM);
	g_test_message("%s", vpmm_last_error());
	/* What takes several extents is asked for beforehand. */
	g_assert_nonnull(strstr(vpmm_last_error(), "device memory"));
	g_assert_cmpuint(n, >=, 14);
	while (!(err = vpmm_malloc(b.f.pool, &slots[n].ptr, 512 * MIB, b.s[0]))) {
		slots[n].size = 512 * MIB;
		slots[n].seed = n;
		slots[n].stream = b.s[0];
		gpu_fill(slots[n].ptr, slots[n].size, slots[n].seed, b.s[0]);
		n++;
		g_assert_cmpuint(n, <, G_N_ELEMENTS(slots));
	}
	g_assert_cmpint(err, ==, -ENOMEM);
	g_assert_nonnull(strstr(vpmm_last_error(), "device memory"));
	/* A single extent is not: the driver itself refuses the last. */
	while (!(err = vpmm_malloc(b.f.pool, &ptr, PAGE, b.s[0])))
		g_ptr_array_add(pages, ptr);
	g_assert_cmpint(err, ==, -ENOMEM);
	g_test_message("%s", vpmm_last_error());
	g_assert_nonnull(strstr(vpmm_last_error(), "CUDA_ERROR_OUT_OF_MEMORY"));
	ptr = NULL;
	assert_ok(vpmm_pool_check(b.f.pool));
	full = stats_of(b.f.pool);
	g_assert_cmpint(vpmm_malloc(b.f.pool, &ptr, 2 * piece, b.s[1]), ==, -ENOMEM);
	g_assert_null(ptr);

	/* Two pieces that are not neighbours make one of their size. */
	give(b.f.pool, &slots[1]);
	give(b.f.pool, &slots[3]);
	slots[1] = take(b.f.pool, 2 * piece, b.s[1]);
	after = stats_of(b.f.pool);
	g_assert_cmpuint(after.live, ==, full.live);
	for (i = 0; i < n; i++)
		if (slots[i].ptr)
			give(b.f.pool, &slots[i]);
	for (i = 0; i < pages->len; i++)
		assert_ok(vpmm_free(b.f.pool, pages->pdata[i], b.s[0]));
	g_ptr_array_free(pages, TRUE);
	close_bench(&b);
	gpu_ok(cu.cuCtxSynchronize());
	g_assert_cmpuint(before, <=, gpu_memory_free() + 64 * MIB);
}

/* A pool on each device of two, from a thread whose context is of the first. */
static void test_two_devices(void)
{
	static const int ordinals[] = { 0, 1 };
	struct vpmm_info info = { .size = sizeof(info) };
	struct vpmm_pool *pools[2];
	drv_context contexts[2];
	drv_stream streams[2];
	void *ptrs[2];
	int count, i;

	if (!gpu_ready())
		return;
	gpu_ok(cu.cuDeviceGetCount(&count));
	if (count < 2) {
		g_test_skip("there is one device");
		return;
	}
	for (i = 0; i < 2; i++) {
		gpu_ok(cu.cuDevicePrimaryCtxRetain(&contexts[i], i));
		gpu_ok(cu.cuCtxSetCurrent(contexts[i]));
		streams[i] = gpu_stream();
		pools[i] = bench_pool((struct vpmm_opts){ .device = &ordinals[i] });
	}
	gpu_ok(cu.cuCtxSetCurrent(contexts[0]));
	for (i = 0; i < 2; i++) {
		assert_ok(vpmm_malloc(pools[i], &ptrs[i], 3 * PAGE, streams[i]));
		assert_ok(vpmm_pool_info(pools[i], &info));
		g_assert_cmpint(info.device, ==, i);
	}
	assert_error(vpmm_free(pools[0], ptrs[1], streams[0]), EINVAL, "no allocation");
	for (i = 0; i < 2; i++) {
		unsigned char byte = 0;

		gpu_ok(cu.cuCtxSetCurrent(contexts[i]));
		gpu_ok(cu.cuMemsetD8Async((drv_deviceptr)ptrs[i], (unsigned char)(i + 1), 3 * PAGE, streams[i]));
		gpu_sync(streams[i]);
		gpu_ok(cu.cuMemcpyDtoH(&byte, (drv_deviceptr)ptrs[i] + 3 * PAGE - 1, 1));
		g_assert_cmpuint(byte, ==, i + 1);
	}
	/* The second device's is current now; each pool enters its own. */
	for (i = 0; i < 2; i++) {
		assert_ok(vpmm_free(pools[i], ptrs[i], streams[i]));
		assert_ok(vpmm_pool_check(pools[i]));
		vpmm_pool_destroy(pools[i]);
	}
	for (i = 1; i >= 0; i--) {
		gpu_ok(cu.cuCtxSetCurrent(contexts[i]));
		gpu_ok(cu.cuStreamDestroy(streams[i]));
		gpu_ok(cu.cuDevicePrimaryCtxRelease(i));
	}
}

void gpu_bounds_tests(bool errors)
{
	g_test_add_func("/gpu/bounds/stream-destroyed", test_stream_destroyed);
	g_test_add_func("/gpu/bounds/small", test_small);
	g_test_add_func("/gpu/bounds/small-by-driver", test_small_by_driver);
	g_test_add_func("/gpu/bounds/all-to-driver", test_all_to_driver);
	g_test_add_func("/gpu/bounds/two-pools", test_two_pools);
	g_test_add_func("/gpu/bounds/bad-free", test_bad_free);
	g_test_add_func("/gpu/bounds/double-free", test_double_free);
	g_test_add_func("/gpu/bounds/chunks", test_chunks);
	g_test_add_func("/gpu/bounds/destroy", test_destroy);
	g_test_add_func("/gpu/bounds/two-devices", test_two_devices);
	if (errors)
		g_test_add_func("/gpu/bounds/exhaustion", test_exhaustion);
}
