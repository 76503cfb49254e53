// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Pausing and resuming on a real driver: contents, graphs, what is left while a tag is paused, and how long it takes.
 * VPMM_TEST_PAUSE_GIB says how much memory the last of them has, in 1,000 blocks; it prints its figures.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu-bench.h"

static vpmm_tag open_tag(const char *name)
{
	vpmm_tag tag;

	assert_ok(vpmm_tag_open(name, VPMM_TAG_PAUSABLE, &tag));
	return tag;
}

static struct slot take_tagged(struct bench *b, vpmm_tag word, size_t size, drv_stream stream)
{
	vpmm_tag before = vpmm_tag_set(word);
	struct slot slot = take(b->f.pool, size, stream);

	vpmm_tag_set(before);
	return slot;
}

static struct vpmm_tag_stats tag_stats_of(struct vpmm_pool *pool, vpmm_tag tag)
{
	struct vpmm_tag_stats stats = { .size = sizeof(stats) };

	assert_ok(vpmm_tag_stats(pool, tag, &stats));
	return stats;
}

/* Blocks of every size, beside others, again and again: words compared on the device. */
static void gpu_pause_contents(void)
{
	static const size_t sizes[] = { 1000, 64 * 1024, PAGE, 3 * PAGE + 4096, 33 * MIB };
	vpmm_tag tag = open_tag("contents");
	struct slot slots[40], other, small;
	struct bench b;
	size_t before;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		return;
	other = take(b.f.pool, 5 * PAGE, b.s[0]);
	/* Where the driver serves small blocks, they stay, and its first takes 32 MiB. */
	small = take(b.f.pool, 1000, b.s[0]);
	gpu_sync(b.s[0]);
	before = gpu_memory_free();
	for (int i = 0; i < 40; i++)
		slots[i] = take_tagged(&b, tag, sizes[i % 5], b.s[i % STREAMS]);
	for (int round = 0; round < 4; round++) {
		assert_ok(vpmm_pause(b.f.pool, tag, 0));
		g_test_message("round %d: %zu bytes of the device free, %zu before", round, gpu_memory_free(), before);
		g_assert_cmpuint(gpu_memory_free() + tag_stats_of(b.f.pool, tag).kept + 2 * MIB, >=, before);
		assert_ok(vpmm_resume(b.f.pool, tag, round % 2 ? VPMM_STREAM_ANY : b.s[1]));
		for (int i = 0; i < 40; i++)
			gpu_check(slots[i].ptr, slots[i].size, slots[i].seed, b.s[1]);
		gpu_check(other.ptr, other.size, other.seed, b.s[1]);
		g_assert_cmpuint(gpu_wrong(), ==, 0);
	}
	for (int i = 0; i < 40; i++)
		give(b.f.pool, &slots[i]);
	give(b.f.pool, &small);
	give(b.f.pool, &other);
	close_bench(&b);
}

/* A graph that was captured under a tag runs as before, without being captured again. */
static void gpu_pause_graph(void)
{
	vpmm_tag tag = open_tag("graph");
	struct slot a, to;
	drv_graph_exec exec;
	drv_graph graph;
	struct bench b;
	void *inside;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		return;
	a = take_tagged(&b, tag, 4 * PAGE, b.s[0]);
	to = take_tagged(&b, tag, 4 * PAGE, b.s[0]);
	gpu_sync(b.s[0]);
	gpu_ok(cu.cuStreamBeginCapture(b.s[0], DRV_STREAM_CAPTURE_MODE_GLOBAL));
	vpmm_tag_set(tag);
	assert_ok(vpmm_malloc(b.f.pool, &inside, a.size, b.s[0]));
	vpmm_tag_set(0);
	gpu_ok(cu.cuMemcpyDtoDAsync((uintptr_t)inside, (uintptr_t)a.ptr, a.size, b.s[0]));
	gpu_ok(cu.cuMemcpyDtoDAsync((uintptr_t)to.ptr, (uintptr_t)inside, a.size, b.s[0]));
	assert_ok(vpmm_free(b.f.pool, inside, b.s[0]));
	gpu_ok(cu.cuStreamEndCapture(b.s[0], &graph));
	gpu_ok(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (int i = 0; i < 20; i++) {
		assert_ok(vpmm_pause(b.f.pool, tag, 0));
		assert_ok(vpmm_resume(b.f.pool, tag, b.s[0]));
		gpu_ok(cu.cuMemsetD8Async((uintptr_t)to.ptr, 0, to.size, b.s[0]));
		gpu_ok(cu.cuGraphLaunch(exec, b.s[0]));
		gpu_check(to.ptr, a.size, a.seed, b.s[0]);
	}
	g_assert_cmpuint(gpu_wrong(), ==, 0);
	gpu_ok(cu.cuGraphExecDestroy(exec));
	gpu_ok(cu.cuGraphDestroy(graph));
	to.seed = a.seed;
	give(b.f.pool, &a);
	give(b.f.pool, &to);
	close_bench(&b);
}

/* A capture goes on beside both calls, whatever kind its stream is of, and whoever may not do what meanwhile. */
static void gpu_pause_beside(void)
{
	static const unsigned int kinds[] = { 0, DRV_STREAM_NON_BLOCKING };
	vpmm_tag tag = open_tag("beside");
	drv_graph_exec exec;
	struct slot a, to;
	drv_stream stream;
	drv_graph graph;
	struct bench b;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		return;
	a = take_tagged(&b, tag, 4 * PAGE, b.s[0]);
	to = take(b.f.pool, 4 * PAGE, b.s[0]);
	gpu_sync(b.s[0]);
	for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
		gpu_ok(cu.cuStreamCreate(&stream, kinds[i]));
		gpu_ok(cu.cuStreamBeginCapture(stream, DRV_STREAM_CAPTURE_MODE_GLOBAL));
		gpu_ok(cu.cuMemcpyDtoDAsync((uintptr_t)to.ptr, (uintptr_t)a.ptr, a.size, stream));
		assert_ok(vpmm_pause(b.f.pool, tag, 0));
		assert_ok(vpmm_resume(b.f.pool, tag, b.s[1]));
		gpu_ok(cu.cuStreamEndCapture(stream, &graph));
		gpu_ok(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
		gpu_ok(cu.cuMemsetD8Async((uintptr_t)to.ptr, 0, to.size, stream));
		gpu_ok(cu.cuGraphLaunch(exec, stream));
		gpu_check(to.ptr, a.size, a.seed, stream);
		gpu_sync(stream);
		gpu_ok(cu.cuGraphExecDestroy(exec));
		gpu_ok(cu.cuGraphDestroy(graph));
		gpu_ok(cu.cuStreamDestroy(stream));
	}
	g_assert_cmpuint(gpu_wrong(), ==, 0);
	to.seed = a.seed;
	give(b.f.pool, &a);
	give(b.f.pool, &to);
	close_bench(&b);
}

/* Another pool has the memory meanwhile: nothing changes until it gives it back. */
static void gpu_pause_full(void)
{
	vpmm_tag tag = open_tag("full");
	struct vpmm_pool *other;
	struct slot slot;
	struct bench b;
	void *ptr;
	size_t rest;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		return;
	slot = take_tagged(&b, tag, GIB, b.s[0]);
	assert_ok(vpmm_pause(b.f.pool, tag, 0));
	other = bench_pool((struct vpmm_opts){ 0 });
	rest = (gpu_memory_free() - 256 * MIB) / PAGE * PAGE;
	assert_ok(vpmm_malloc(other, &ptr, rest, b.s[1]));
	for (int i = 0; i < 2; i++)
		g_assert_cmpint(vpmm_resume(b.f.pool, tag, b.s[0]), ==, -ENOMEM);
	g_assert_cmpuint(tag_stats_of(b.f.pool, tag).paused, ==, GIB);
	assert_ok(vpmm_free(other, ptr, b.s[1]));
	vpmm_pool_destroy(other);
	assert_ok(vpmm_resume(b.f.pool, tag, b.s[0]));
	gpu_check(slot.ptr, slot.size, slot.seed, b.s[0]);
	g_assert_cmpuint(gpu_wrong(), ==, 0);
	give(b.f.pool, &slot);
	close_bench(&b);
}

static double since(int64_t start)
{
	return (double)(g_get_monotonic_time() - start) / 1e6;
}

/* Seconds for a plain copy of the same bytes each way, in pieces of pinned memory. */
static void plain_copy(size_t size, double *out, double *in)
{
	size_t piece = 512 * MIB;
	drv_deviceptr device;
	drv_stream stream = gpu_stream();
	void *host;
	int64_t start;

	gpu_ok(cu.cuMemAllocHost(&host, piece));
	gpu_ok(cu.cuMemAlloc(&device, piece));
	for (int way = 0; way < 2; way++) {
		start = g_get_monotonic_time();
		for (size_t done = 0; done < size; done += piece)
			gpu_ok(way ? cu.cuMemcpyHtoDAsync(device, host, piece, stream) :
			       cu.cuMemcpyDtoHAsync(host, device, piece, stream));
		gpu_sync(stream);
		*(way ? in : out) = since(start);
	}
	gpu_ok(cu.cuMemFree(device));
	gpu_ok(cu.cuMemFreeHost(host));
	gpu_ok(cu.cuStreamDestroy(stream));
}

static void time_once(struct bench *b, vpmm_tag tag, unsigned int flags, size_t size, size_t before, const char *what)
{
	double pause, resume;
	size_t left;
	int64_t start = g_get_monotonic_time();

	assert_ok(vpmm_pause(b->f.pool, tag, flags));
	pause = since(start);
	left = before - MIN(before, gpu_memory_free());
	start = g_get_monotonic_time();
	assert_ok(vpmm_resume(b->f.pool, tag, VPMM_STREAM_ANY));
	resume = since(start);
	g_test_message("%-22s pause %7.4f s, resume %7.4f s, left of %.1f GiB: %.3f %%", what, pause, resume,
		       (double)size / (double)GIB, 100. * (double)left / (double)size);
}

static void time_blocks(size_t size, int count)
{
	vpmm_tag tag = open_tag("speed");
	struct slot *slots;
	struct bench b;
	int64_t start;
	size_t before;
	double prepared;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		return;
	slots = g_new0(struct slot, count);
	before = gpu_memory_free();
	for (int i = 0; i < count; i++)
		slots[i] = take_tagged(&b, tag, size / (size_t)count / 512 * 512, b.s[0]);
	gpu_sync(b.s[0]);
	g_test_message("%d blocks, %" PRIu64 " extents", count, stats_of(b.f.pool).extents);
	time_once(&b, tag, VPMM_PAUSE_DROP, size, before, "dropped");
	time_once(&b, tag, VPMM_PAUSE_DROP, size, before, "dropped again");
	for (int i = 0; i < count; i++)
		gpu_fill(slots[i].ptr, slots[i].size, slots[i].seed, b.s[0]);
	start = g_get_monotonic_time();
	assert_ok(vpmm_pause_prepare(b.f.pool, tag));
	prepared = since(start);
	time_once(&b, tag, 0, size, before, "kept");
	time_once(&b, tag, 0, size, before, "kept again");
	g_test_message("preparing %.3f s", prepared);
	for (int i = 0; i < count; i++)
		give(b.f.pool, &slots[i]);
	close_bench(&b);
	g_free(slots);
}

static void gpu_pause_speed(void)
{
	const char *wanted = g_getenv("VPMM_TEST_PAUSE_GIB");
	size_t size = (wanted ? (size_t)atoi(wanted) : 1) * GIB;
	double out = 0, in = 0;

	if (!gpu_ready())
		return;
	plain_copy(size, &out, &in);
	g_test_message("plain copy of %zu GiB: %.4f s to the host, %.4f s back", size / GIB, out, in);
	time_blocks(size, 1000);
	if (wanted)
		time_blocks(size, 100000);
}

void gpu_pause_tests(void)
{
	g_test_add_func("/gpu/pause/contents", gpu_pause_contents);
	g_test_add_func("/gpu/pause/graph", gpu_pause_graph);
	g_test_add_func("/gpu/pause/beside", gpu_pause_beside);
	g_test_add_func("/gpu/pause/full", gpu_pause_full);
	g_test_add_func("/gpu/pause/speed", gpu_pause_speed);
}
