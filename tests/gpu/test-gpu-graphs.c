// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Memory of graphs that nobody retires comes back, on a real driver, when the last that can be launched is gone.
 *
 * What the driver does with a user object that cuGraphRetainUserObject() has attached to the graph under capture, which
 * cuStreamGetCaptureInfo() tells. Seen on an H200, driver 580.159.04 (CUDA 13.0), by a program that did each of these
 * once and looked for 300 ms; the tests below do most of them:
 *
 *	the graph is destroyed                    released, in the call, unless an instance, a clone, or a graph that
 *	has it as a child, or an instance of one of these, is left: then with the last of them, in whatever order
 *	instance destroyed while a launch runs    the call takes 0.03 ms; released on a thread of the driver's (named
 *	cuda-EvtHandlr) 0.12 to 0.24 ms after the launch is complete, never before, also where it has not begun, and
 *	where its stream is destroyed instance destroyed after its last launch  released on that thread, 0.12 ms later
 *	instance updated (cuGraphExecUpdate)      the earlier graph's is released then, or behind a launch that runs;
 *	the instance has the other graph's; an update that fails changes nothing child of an instance replaced          
 *	  likewise capture invalidated                       neither id nor graph is told any more; released when the
 *	capture ends,
 *	                                          in cuStreamEndCapture(), which fails
 *	a forked stream not joined, two captures
 *	that meet, a wait for what is outside     likewise
 *	capturing stream destroyed                released in the call
 *	captured to a graph of the program's      the graph told is that one; of an invalid capture it is gone as well
 *	instance launched into a capture          the driver refuses, and the capture is invalid
 *	context destroyed, or reset               not released, but for that of a capture under way
 *
 * To ask, create and attach takes 0.28 us, and leaves the capture valid in each mode.
 */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "gpu/gpu-bench.h"

#define SIZE (3 * PAGE)

/* What no program of the library calls. */
static struct {
	drv_result (*cuGraphCreate)(drv_graph *graph, unsigned int flags);
	drv_result (*cuGraphClone)(drv_graph *clone, drv_graph graph);
	drv_result (*cuGraphAddChildGraphNode)(drv_graph_node *node, drv_graph graph, const drv_graph_node *nodes,
					       size_t count, drv_graph child);
	drv_result (*cuGraphExecUpdate)(drv_graph_exec exec, drv_graph graph, void *result);
} more;

static void find_more(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	g_assert_nonnull(library);
	*(void **)&more.cuGraphCreate = dlsym(library, "cuGraphCreate");
	*(void **)&more.cuGraphClone = dlsym(library, "cuGraphClone");
	*(void **)&more.cuGraphAddChildGraphNode = dlsym(library, "cuGraphAddChildGraphNode");
	*(void **)&more.cuGraphExecUpdate = dlsym(library, "cuGraphExecUpdate_v2");
	g_assert_true(more.cuGraphCreate && more.cuGraphClone && more.cuGraphAddChildGraphNode &&
		      more.cuGraphExecUpdate);
}

static drv_deviceptr begin_scratch(struct bench *b)
{
	void *ptr;

	gpu_ok(cu.cuStreamBeginCapture(b->s[0], DRV_STREAM_CAPTURE_MODE_GLOBAL));
	assert_ok(vpmm_malloc(b->f.pool, &ptr, SIZE, b->s[0]));
	gpu_ok(cu.cuMemsetD8Async((drv_deviceptr)(uintptr_t)ptr, 1, SIZE, b->s[0]));
	assert_ok(vpmm_free(b->f.pool, ptr, b->s[0]));
	return (drv_deviceptr)(uintptr_t)ptr;
}

static drv_graph capture(struct bench *b)
{
	drv_graph graph;

	begin_scratch(b);
	gpu_ok(cu.cuStreamEndCapture(b->s[0], &graph));
	return graph;
}

static drv_graph_exec instance(drv_graph graph)
{
	drv_graph_exec exec;

	gpu_ok(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	gpu_ok(cu.cuGraphDestroy(graph));
	return exec;
}

static uint64_t held(struct bench *b)
{
	assert_ok(vpmm_pool_trim(b->f.pool, 0, NULL));
	assert_ok(vpmm_pool_check(b->f.pool));
	return stats_of(b->f.pool).held;
}

/* The driver may tell on a thread of its own, a moment later. */
static void assert_stays(struct bench *b)
{
	for (int i = 0; i < 5; i++) {
		g_assert_cmpuint(held(b), ==, SIZE);
		g_usleep(1000);
	}
}

static void assert_comes_back(struct bench *b)
{
	for (int i = 0; i < 5000 && held(b); i++)
		g_usleep(1000);
	g_assert_cmpuint(held(b), ==, 0);
	g_assert_cmpuint(stats_of(b->f.pool).live, ==, 0);
}

static void graph_alone(struct bench *b)
{
	drv_graph graph = capture(b);

	assert_stays(b);
	gpu_ok(cu.cuGraphDestroy(graph));
}

static void graph_instance(struct bench *b)
{
	drv_graph_exec exec = instance(capture(b));

	gpu_ok(cu.cuGraphLaunch(exec, b->s[1]));
	gpu_sync(b->s[1]);
	assert_stays(b);
	gpu_ok(cu.cuGraphExecDestroy(exec));
}

static void graph_running(struct bench *b)
{
	drv_graph_exec exec = instance(capture(b));

	assert_ok(gpu_hold(b->s[1]));
	gpu_ok(cu.cuGraphLaunch(exec, b->s[1]));
	gpu_ok(cu.cuGraphExecDestroy(exec));
	assert_stays(b);
	assert_ok(gpu_finish(b->s[1]));
}

static void graph_clone(struct bench *b)
{
	drv_graph graph = capture(b), clone;
	drv_graph_exec exec;

	gpu_ok(more.cuGraphClone(&clone, graph));
	gpu_ok(cu.cuGraphDestroy(graph));
	assert_stays(b);
	exec = instance(clone);
	assert_stays(b);
	gpu_ok(cu.cuGraphExecDestroy(exec));
}

static void graph_child(struct bench *b)
{
	drv_graph graph = capture(b), parent;
	drv_graph_node node;
	drv_graph_exec exec;

	gpu_ok(more.cuGraphCreate(&parent, 0));
	gpu_ok(more.cuGraphAddChildGraphNode(&node, parent, NULL, 0, graph));
	gpu_ok(cu.cuGraphDestroy(graph));
	assert_stays(b);
	exec = instance(parent);
	assert_ok(gpu_hold(b->s[1]));
	gpu_ok(cu.cuGraphLaunch(exec, b->s[1]));
	gpu_ok(cu.cuGraphExecDestroy(exec));
	assert_stays(b);
	assert_ok(gpu_finish(b->s[1]));
}

/* The memory that an instance had before an update is its until a launch from before is complete. */
static void graph_updated(struct bench *b)
{
	drv_graph_exec exec = instance(capture(b));
	char result[64];
	drv_graph other;

	assert_ok(gpu_hold(b->s[1]));
	gpu_ok(cu.cuGraphLaunch(exec, b->s[1]));
	other = capture(b);
	g_assert_cmpuint(held(b), ==, 2 * SIZE);
	gpu_ok(more.cuGraphExecUpdate(exec, other, result));
	g_assert_cmpuint(held(b), ==, 2 * SIZE);
	gpu_ok(cu.cuGraphDestroy(other));
	assert_ok(gpu_finish(b->s[1]));
	for (int i = 0; i < 5000 && held(b) > SIZE; i++)
		g_usleep(1000);
	assert_stays(b);
	gpu_ok(cu.cuGraphExecDestroy(exec));
}

static void fail_capture(struct bench *b)
{
	drv_graph graph;

	g_assert_cmpint(cu.cuStreamQuery(b->s[0]), !=, 0);
	g_assert_cmpint(cu.cuStreamEndCapture(b->s[0], &graph), !=, 0);
}

static void capture_invalidated(struct bench *b)
{
	begin_scratch(b);
	fail_capture(b);
}

/* What it has not freed yet is freed like any other block. */
static void capture_live(struct bench *b)
{
	void *ptr;

	gpu_ok(cu.cuStreamBeginCapture(b->s[0], DRV_STREAM_CAPTURE_MODE_GLOBAL));
	assert_ok(vpmm_malloc(b->f.pool, &ptr, SIZE, b->s[0]));
	fail_capture(b);
	assert_ok(vpmm_free(b->f.pool, ptr, b->s[0]));
}

static void capture_unjoined(struct bench *b)
{
	drv_deviceptr scratch;
	drv_graph graph;
	drv_event event;

	gpu_ok(cu.cuEventCreate(&event, DRV_EVENT_DISABLE_TIMING));
	scratch = begin_scratch(b);
	gpu_ok(cu.cuEventRecord(event, b->s[0]));
	gpu_ok(cu.cuStreamWaitEvent(b->s[1], event, 0));
	gpu_ok(cu.cuMemsetD8Async(scratch, 0, SIZE, b->s[1]));
	g_assert_cmpint(cu.cuStreamEndCapture(b->s[0], &graph), !=, 0);
	gpu_ok(cu.cuEventDestroy(event));
}

static void capture_given_up(struct bench *b)
{
	gpu_ok(cu.cuStreamDestroy(b->s[0]));
	b->s[0] = gpu_stream();
	begin_scratch(b);
	gpu_ok(cu.cuStreamDestroy(b->s[0]));
	b->s[0] = gpu_stream();
}

/* More than memory has room for, one after another, without a word to the pool in between. */
static void captures_in_a_row(struct bench *b)
{
	for (int i = 0; i < 20; i++) {
		begin_scratch(b);
		fail_capture(b);
	}
	g_assert_cmpuint(stats_of(b->f.pool).peak_live, <=, 2 * SIZE);
}

static const struct way {
	const char *name;
	void (*go)(struct bench *b);
} ways[] = {
	{ "alone", graph_alone },
	{ "instance", graph_instance },
	{ "running", graph_running },
	{ "clone", graph_clone },
	{ "child", graph_child },
	{ "updated", graph_updated },
	{ "given-up", capture_given_up },
}, refused[] = {
	{ "invalidated", capture_invalidated },
	{ "invalidated-live", capture_live },
	{ "unjoined", capture_unjoined },
	{ "in-a-row", captures_in_a_row },
};

static void test_comes_back(gconstpointer data)
{
	const struct way *way = data;
	struct bench b;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		return;
	find_more();
	way->go(&b);
	assert_comes_back(&b);
	close_bench(&b);
}

/* A request for all memory waits for the last launch of a graph that is destroyed. */
static void test_waited_for(void)
{
	drv_graph_exec exec;
	struct bench b;
	void *ptr;

	if (!open_bench(&b, (struct vpmm_opts){ .limit = SIZE + PAGE }))
		return;
	exec = instance(capture(&b));
	for (int i = 0; i < 100; i++)
		gpu_ok(cu.cuGraphLaunch(exec, b.s[1]));
	gpu_ok(cu.cuGraphExecDestroy(exec));
	assert_ok(vpmm_malloc(b.f.pool, &ptr, SIZE, b.s[2]));
	assert_ok(vpmm_free(b.f.pool, ptr, b.s[2]));
	assert_comes_back(&b);
	close_bench(&b);
}

void gpu_graph_tests(bool errors)
{
	fixture_add_rows("/gpu/graphs", ways, test_comes_back);
	if (errors)
		fixture_add_rows("/gpu/graphs", refused, test_comes_back);
	g_test_add_func("/gpu/graphs/waited-for", test_waited_for);
}
