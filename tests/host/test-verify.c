// SPDX-License-Identifier: LGPL-2.1-or-later
/* What --verify and --lag of vpmm-replay do, and that they would notice. */
#include <errno.h>
#include <glib.h>
#include <string.h>
#include <sys/mman.h>

#include "device.h"
#include "driver.h"
#include "fail.h"
#include "pattern.h"
#include "replay.h"
#include "vpmm-host.h"

#define MIB ((size_t)1 << 20)
#define MARKS 4

static const size_t sizes[] = { 1, 3, 4, 5, 64, 65536, 65537, 65539, 2 * MIB, 2 * MIB + 1, 5 * MIB + 7 };

static struct device *open_device(bool lag, uint64_t lag_us)
{
	struct device_opts opts = { .streams = 2, .marks = MARKS, .verify = true, .lag = lag, .lag_us = lag_us };
	struct device *dev;

	g_assert_cmpint(device_host.open(&opts, &dev), ==, 0);
	return dev;
}

static void *map_memory(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	g_assert_true(memory != MAP_FAILED);
	return memory;
}

static struct device_work work_on(void *ptr, size_t size, size_t mark)
{
	return (struct device_work){ .ptr = ptr, .size = size, .key = pattern_key((uint32_t)mark), .mark = mark };
}

/* Bit n of what is returned is set if mark n was noted. */
static unsigned int damaged(struct device *dev)
{
	uint32_t marks[MARKS];
	unsigned int set = 0;

	g_assert_cmpint(dev->ops->synchronize(dev), ==, 0);
	g_assert_cmpint(dev->ops->damaged(dev, marks), ==, 0);
	for (unsigned int i = 0; i < MARKS; i++)
		set |= marks[i] ? 1U << i : 0;
	return set;
}

static void test_intact(void)
{
	struct device *dev = open_device(false, 0);

	for (unsigned int i = 0; i < G_N_ELEMENTS(sizes); i++) {
		void *memory = map_memory(sizes[i]);
		struct device_work work = work_on(memory, sizes[i], 1);

		g_assert_cmpint(dev->ops->born(dev, 0, &work), ==, 0);
		g_assert_cmpint(dev->ops->dying(dev, 0, &work), ==, 0);

		g_assert_cmpuint(damaged(dev), ==, 0);
		munmap(memory, sizes[i]);
	}
	dev->ops->close(dev);
}

static void spoil(struct device *dev, size_t size, size_t at)
{
	unsigned char *memory = map_memory(size);
	struct device_work work = work_on(memory, size, 2);

	g_assert_cmpint(dev->ops->born(dev, 0, &work), ==, 0);
	memory[at] ^= 1;
	g_assert_cmpint(dev->ops->dying(dev, 0, &work), ==, 0);

	g_assert_cmpuint(damaged(dev), ==, 1 << 2);
	g_assert_cmpuint(damaged(dev), ==, 0);
	munmap(memory, size);
}

static void test_spoilt(void)
{
	struct device *dev = open_device(false, 0);

	for (unsigned int i = 0; i < G_N_ELEMENTS(sizes); i++) {
		spoil(dev, sizes[i], 0);
		spoil(dev, sizes[i], sizes[i] - 1);
		spoil(dev, sizes[i], sizes[i] / 2 / (2 * MIB) * (2 * MIB));
	}
	spoil(dev, 65536, 40000);
	dev->ops->close(dev);
}

static void test_overwritten(void)
{
	struct device *dev = open_device(false, 0);
	void *memory = map_memory(4 * MIB);
	struct device_work first = work_on(memory, 4 * MIB, 0), second = work_on(memory, 2 * MIB, 1);

	g_assert_cmpint(dev->ops->born(dev, 0, &first), ==, 0);
	g_assert_cmpint(dev->ops->born(dev, 1, &second), ==, 0);
	g_assert_cmpint(dev->ops->dying(dev, 1, &second), ==, 0);
	g_assert_cmpint(dev->ops->dying(dev, 0, &first), ==, 0);

	g_assert_cmpuint(damaged(dev), ==, 1 << 0);
	munmap(memory, 4 * MIB);
	dev->ops->close(dev);
}

/* On a device, byte @at is spoilt, or none if that is beyond the end. */
static void spoil_on_device(struct device *dev, struct allocator *a, size_t size, size_t at)
{
	struct device_work work;
	unsigned char byte;
	void *ptr;

	g_assert_cmpint(driver_open(), ==, 0);
	g_assert_cmpint(a->ops->alloc(a, &ptr, size, dev->streams[0]), ==, 0);
	work = work_on(ptr, size, 3);
	g_assert_cmpint(dev->ops->born(dev, 0, &work), ==, 0);
	g_assert_cmpint(dev->ops->synchronize(dev), ==, 0);
	if (at < size) {
		drv_deviceptr va = (drv_deviceptr)(uintptr_t)ptr + at;

		g_assert_cmpint(driver.cuMemcpyDtoH(&byte, va, 1), ==, 0);
		g_assert_cmpuint(byte, ==, pattern_word(at / 4, work.key) >> (at % 4 * 8) & 255);
		byte ^= 1;
		g_assert_cmpint(driver.cuMemcpyHtoD(va, &byte, 1), ==, 0);
	}
	g_assert_cmpint(dev->ops->wait(dev, 1, 0), ==, 0);
	g_assert_cmpint(dev->ops->dying(dev, 1, &work), ==, 0);

	g_assert_cmpuint(damaged(dev), ==, at < size ? 1 << 3 : 0);
	g_assert_cmpuint(damaged(dev), ==, 0);
	g_assert_cmpint(a->ops->free(a, ptr, dev->streams[0]), ==, 0);
}

static void test_device(void)
{
	struct device_opts opts = { .streams = 2, .marks = MARKS, .verify = true };
	struct allocator *a;
	struct device *dev;

	if (device_cuda.open(&opts, &dev)) {
		g_test_skip(fail_text());
		return;
	}
	g_assert_cmpint(dev->ops->malloc(dev, &a), ==, 0);
	for (unsigned int i = 0; i < G_N_ELEMENTS(sizes); i++) {
		spoil_on_device(dev, a, sizes[i], sizes[i]);
		spoil_on_device(dev, a, sizes[i], 0);
		spoil_on_device(dev, a, sizes[i], sizes[i] / 2);
		spoil_on_device(dev, a, sizes[i], sizes[i] - 1);
	}
	a->ops->destroy(a);
	dev->ops->close(dev);
}

static void test_lag(void)
{
	struct device *dev = open_device(true, 100);
	uint32_t *memory = map_memory(64);
	struct device_work work = work_on(memory, 64, 1);

	g_assert_cmpint(dev->ops->advance(dev, 1000), ==, 0);
	g_assert_cmpint(dev->ops->born(dev, 0, &work), ==, 0);
	g_assert_cmpint(dev->ops->advance(dev, 1099), ==, 0);
	g_assert_cmpuint(memory[0], ==, 0);
	g_assert_cmpint(dev->ops->advance(dev, 1100), ==, 0);

	g_assert_cmpuint(memory[0], ==, pattern_word(0, work.key));
	munmap(memory, 64);
	dev->ops->close(dev);
}

static void test_lag_across_streams(void)
{
	struct device *dev = open_device(true, 100);
	uint32_t *memory = map_memory(64);
	struct device_work work = work_on(memory, 64, 1);

	g_assert_cmpint(dev->ops->born(dev, 1, &work), ==, 0);
	g_assert_cmpint(dev->ops->wait(dev, 0, 1), ==, 0);
	g_assert_cmpint(dev->ops->dying(dev, 0, &work), ==, 0);
	g_assert_cmpint(dev->ops->advance(dev, 100), ==, 0);

	g_assert_cmpuint(damaged(dev), ==, 0);
	munmap(memory, 64);
	dev->ops->close(dev);
}

/* As a wait on the host does: what it completed must not count as what is due. */
static void test_lag_completed_by_others(void)
{
	struct device *dev = open_device(true, 100);
	uint32_t *memory = map_memory(128);
	struct device_work first = work_on(memory, 64, 1), second = work_on(memory + 16, 64, 2);

	g_assert_cmpint(dev->ops->born(dev, 0, &first), ==, 0);
	g_assert_cmpint(vpmm_host_stream_complete(dev->streams[0], 1), ==, 0);
	g_assert_cmpint(dev->ops->advance(dev, 50), ==, 0);
	g_assert_cmpint(dev->ops->born(dev, 0, &second), ==, 0);
	g_assert_cmpint(dev->ops->advance(dev, 149), ==, 0);
	g_assert_cmpuint(memory[16], ==, 0);
	g_assert_cmpint(dev->ops->advance(dev, 150), ==, 0);

	g_assert_cmpuint(memory[16], ==, pattern_word(0, second.key));
	munmap(memory, 128);
	dev->ops->close(dev);
}

static void test_malloc_waits(void)
{
	struct device *dev = open_device(true, 100);
	struct vpmm_stats stats;
	struct allocator *a;
	struct device_work work;
	void *ptr, *other;

	g_assert_cmpint(dev->ops->malloc(dev, &a), ==, 0);
	g_assert_cmpint(a->ops->alloc(a, &ptr, 5, dev->streams[0]), ==, 0);
	g_assert_cmpint(a->ops->alloc(a, &other, 64, dev->streams[0]), ==, 0);
	work = work_on(other, 64, 1);
	g_assert_cmpint(dev->ops->born(dev, 1, &work), ==, 0);
	g_assert_cmpint(a->ops->free(a, ptr, dev->streams[0]), ==, 0);
	g_assert_cmpuint(*(uint32_t *)other, ==, pattern_word(0, work.key));
	g_assert_cmpint(a->ops->free(a, ptr, dev->streams[0]), ==, -EINVAL);
	g_assert_cmpint(a->ops->free(a, other, dev->streams[0]), ==, 0);

	g_assert_cmpint(a->ops->stats(a, &stats), ==, 0);
	g_assert_cmpuint(stats.peak_taken, ==, 4 * MIB);
	g_assert_cmpuint(stats.mapped, ==, 0);
	a->ops->destroy(a);
	dev->ops->close(dev);
}

static void test_malloc_is_limited(void)
{
	struct device *dev;
	struct allocator *a;
	void *ptr = &dev;

	g_setenv("VPMM_HOST_CAPACITY", "8M", TRUE);
	dev = open_device(false, 0);
	g_assert_cmpint(dev->ops->malloc(dev, &a), ==, 0);
	g_unsetenv("VPMM_HOST_CAPACITY");
	g_assert_cmpint(a->ops->alloc(a, &ptr, 8 * MIB + 1, dev->streams[0]), ==, -ENOMEM);
	g_assert_cmpstr(fail_text(), ==, "10485760 bytes are more than the 8388608 left of the device's 8388608");
	g_assert_true(ptr == &dev);
	g_assert_cmpint(a->ops->alloc(a, &ptr, 8 * MIB, dev->streams[0]), ==, 0);
	g_assert_cmpint(a->ops->free(a, ptr, dev->streams[0]), ==, 0);
	a->ops->destroy(a);
	dev->ops->close(dev);
}

static void test_async_keeps_small(void)
{
	struct device *dev = open_device(false, 0);
	struct vpmm_stats stats;
	struct allocator *a;
	void *ptr;

	g_assert_cmpint(dev->ops->async(dev, &a), ==, 0);
	g_assert_cmpint(a->ops->alloc(a, &ptr, 16 * MIB, dev->streams[0]), ==, 0);
	g_assert_cmpint(a->ops->free(a, ptr, dev->streams[0]), ==, 0);

	g_assert_cmpint(a->ops->stats(a, &stats), ==, 0);
	g_assert_cmpuint(stats.peak_mapped, ==, 0);
	g_assert_cmpuint(stats.peak_small, >=, 16 * MIB);
	a->ops->destroy(a);
	dev->ops->close(dev);
}

/* An allocator that has only one block, and gives it to everybody. */
static void *block;

static int same_alloc(struct allocator *a, void **ptr, size_t size, struct CUstream_st *stream)
{
	(void)a;
	(void)stream;
	if (size > 4 * MIB)
		return fail_set(-ENOMEM, "no");
	*ptr = block;
	return 0;
}

static int same_free(struct allocator *a, void *ptr, struct CUstream_st *stream)
{
	(void)a;
	(void)stream;
	g_assert_true(ptr == block);
	return 0;
}

static int same_stats(struct allocator *a, struct vpmm_stats *stats)
{
	(void)a;
	*stats = (struct vpmm_stats){ .size = sizeof(*stats) };
	return 0;
}

static const struct allocator_ops same_ops = {
	.alloc = same_alloc,
	.free = same_free,
	.stats = same_stats,
	.error = fail_text,
};

/* Allocates once more before it stops the replay; 0: never. */
static int stop_after;
static volatile sig_atomic_t stop;

static int stopping_alloc(struct allocator *a, void **ptr, size_t size, struct CUstream_st *stream)
{
	stop = stop_after && --stop_after == 0;
	return same_alloc(a, ptr, size, stream);
}

static const struct allocator_ops stopping_ops = {
	.alloc = stopping_alloc,
	.free = same_free,
	.stats = same_stats,
	.error = fail_text,
};

/* A trace of three operations, of which the second allocates what none of them frees. */
static struct trace_op three_ops[] = {
	{ .us = 1, .bytes = 100, .slot = 0, .kind = TRACE_ALLOC },
	{ .us = 2, .bytes = 100, .slot = 1, .kind = TRACE_ALLOC },
	{ .us = 3, .bytes = 100, .slot = 0 },
};

struct three {
	struct trace trace;
	struct allocator allocator;
	struct progress progress;
	struct replay_setup setup;
};

static void three_open(struct three *t)
{
	*t = (struct three){
		.trace = { .name = (char *)"three", .ops = three_ops, .n_ops = 3, .slots = 2, .streams = 1 },
		.allocator = { .ops = &stopping_ops },
	};
	/* As many as the device has marks. */
	t->trace.allocs = MARKS;
	t->setup = (struct replay_setup){
		.trace = &t->trace,
		.dev = open_device(false, 0),
		.allocator = &t->allocator,
		.page_size = 2 * MIB,
		.passes = 3,
		.progress = &t->progress,
		.stop = &stop,
	};
	stop = 0;
	stop_after = 0;
	progress_begin(&t->progress, "three");
	block = map_memory(4 * MIB);
}

static void three_close(struct three *t)
{
	munmap(block, 4 * MIB);
	t->setup.dev->ops->close(t->setup.dev);
}

static void test_replay_progress_over_all_passes(void)
{
	struct replay_result result;
	uint64_t done = 0;
	struct three t;

	three_open(&t);

	for (unsigned int pass = 1; pass <= 3; pass++) {
		g_assert_true(replay_pass(&t.setup, pass, &result));

		g_assert_cmpuint(t.progress.total, ==, 9);
		g_assert_cmpuint(t.progress.done, >=, done);
		g_assert_cmpuint(t.progress.done, >=, 3 * (pass - 1));
		g_assert_cmpuint(t.progress.done, <=, 3 * pass);
		done = t.progress.done;
	}
	three_close(&t);
}

static void test_replay_stops_at_the_next_operation(void)
{
	struct replay_result result;
	struct three t;

	three_open(&t);
	stop_after = 2;

	g_assert_false(replay_pass(&t.setup, 1, &result));

	g_assert_cmpuint(result.operations, ==, 2);
	three_close(&t);
}

static void test_replay_is_not_stopped_behind_its_end(void)
{
	struct replay_result result;
	struct three t;

	three_open(&t);
	t.trace.n_ops = 2;
	stop_after = 2;

	g_assert_true(replay_pass(&t.setup, 1, &result));
	g_assert_false(replay_pass(&t.setup, 2, &result));

	g_assert_cmpuint(result.operations, ==, 0);
	three_close(&t);
}

static void run_on_one_block(struct trace_op *ops, size_t n_ops, struct replay_result *result)
{
	struct trace trace = { .name = (char *)"one block", .ops = ops, .n_ops = n_ops, .slots = 2, .streams = 2 };
	struct device *dev = open_device(false, 0);
	struct allocator same = { .ops = &same_ops };
	struct replay_setup setup = { .trace = &trace, .dev = dev, .allocator = &same, .page_size = 2 * MIB };

	/* As many as there are marks: what is not allocated is not noted either. */
	trace.allocs = MARKS;
	block = map_memory(4 * MIB);
	replay_pass(&setup, 1, result);
	munmap(block, 4 * MIB);
	dev->ops->close(dev);
}

static void test_replay_one_after_another(void)
{
	struct trace_op ops[] = {
		{ .us = 1, .bytes = 100, .slot = 0, .kind = TRACE_ALLOC },
		{ .us = 2, .bytes = 100, .slot = 0, .stream = 1 },
		{ .us = 3, .bytes = 3 * MIB, .slot = 0, .kind = TRACE_ALLOC },
		{ .us = 5, .bytes = 3 * MIB, .slot = 0 },
	};
	struct replay_result result;

	run_on_one_block(ops, G_N_ELEMENTS(ops), &result);

	g_assert_cmpuint(result.errors, ==, 0);
	g_assert_cmpuint(result.operations, ==, 4);
	g_assert_cmpuint(result.streams, ==, 2);
	g_assert_cmpuint(result.small, ==, 1);
	g_assert_cmpuint(result.peak_live, ==, 3 * MIB);
	g_assert_cmpuint(result.peak_rounded, ==, 4 * MIB);
	g_assert_cmpfloat_with_epsilon(result.trace_s, 4e-6, 1e-9);
	g_assert_cmpfloat(result.op_us_p50, <=, result.op_us_p99);
	g_assert_cmpfloat(result.op_us_p99, <=, result.op_us_max);
}

static void test_replay_two_at_once(void)
{
	struct trace_op ops[] = {
		{ .us = 1, .bytes = 100, .slot = 0, .kind = TRACE_ALLOC },
		{ .us = 2, .bytes = 100, .slot = 1, .kind = TRACE_ALLOC },
		{ .us = 3, .bytes = 100, .slot = 0 },
	};
	struct replay_result result;

	run_on_one_block(ops, G_N_ELEMENTS(ops), &result);

	g_assert_cmpuint(result.errors, ==, 1);
	g_assert_cmpuint(result.peak_live, ==, 200);
	g_assert_cmpuint(result.peak_rounded, ==, 0);
}

static void test_replay_goes_on_after_a_failure(void)
{
	struct trace_op ops[] = {
		{ .us = 1, .bytes = 5 * MIB, .slot = 0, .kind = TRACE_ALLOC },
		{ .us = 2, .bytes = 100, .slot = 1, .kind = TRACE_ALLOC },
		{ .us = 3, .bytes = 5 * MIB, .slot = 0 },
		{ .us = 3, .bytes = 100, .slot = 1 },
	};
	struct replay_result result;

	run_on_one_block(ops, G_N_ELEMENTS(ops), &result);

	g_assert_cmpuint(result.errors, ==, 1);
	g_assert_cmpuint(result.peak_live, ==, 100);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/verify/intact", test_intact);
	g_test_add_func("/verify/spoilt", test_spoilt);
	g_test_add_func("/verify/overwritten", test_overwritten);
	g_test_add_func("/verify/device", test_device);
	g_test_add_func("/lag/due", test_lag);
	g_test_add_func("/lag/across-streams", test_lag_across_streams);
	g_test_add_func("/lag/completed-by-others", test_lag_completed_by_others);
	g_test_add_func("/allocators/malloc-waits", test_malloc_waits);
	g_test_add_func("/allocators/malloc-is-limited", test_malloc_is_limited);
	g_test_add_func("/allocators/async-keeps-all-small", test_async_keeps_small);
	g_test_add_func("/replay/one-after-another", test_replay_one_after_another);
	g_test_add_func("/replay/two-at-once", test_replay_two_at_once);
	g_test_add_func("/replay/goes-on-after-a-failure", test_replay_goes_on_after_a_failure);
	g_test_add_func("/replay/progress-over-all-passes", test_replay_progress_over_all_passes);
	g_test_add_func("/replay/stops-at-the-next-operation", test_replay_stops_at_the_next_operation);
	g_test_add_func("/replay/is-not-stopped-behind-its-end", test_replay_is_not_stopped_behind_its_end);
	return g_test_run();
}
