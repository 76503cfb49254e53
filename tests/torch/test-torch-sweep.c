// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * libvpmm-torch.so where the driver fails: each call that a scene makes fails once, and the scene goes on as PyTorch
 * would. Whatever fails, no memory is handed out while another stream uses it, none is lost, and every capture lives.
 */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>

#include "cuda/fake-cuda-inside.h"
#include "torch/torch-fixture.h"

#define SIZE (4 * MIB)

static drv_stream own, other, captured;
static void *spare;

/* NULL where it was refused, by an exception. */
static char *try_new(size_t size, drv_stream stream)
{
	void *ptr = NULL;

	torch_try(&ptr, (ssize_t)size, 0, stream);
	return ptr;
}

static void free_block(char *ptr, size_t size, drv_stream stream)
{
	torch.vpmm_torch_free(ptr, size, 0, stream);
}

/* Both streams are at rest. */
static void settle(void)
{
	fake_cuda_complete(other, UINT_MAX);
	fake_cuda_complete(own, UINT_MAX);
}

/* A block of @size that @other works with, whatever becomes of the calls, is not written to by @own before that. */
static void use_by_other(size_t size)
{
	char *a = try_new(size, own), *b;

	if (!a)
		return;
	torch.vpmm_torch_record_stream(a, other);
	g_assert_cmpint(fake_cuda_submit(other), ==, 0);
	free_block(a, size, own);
	b = try_new(size, own);
	g_assert_cmpint(fake_cuda_submit(own), ==, 0);
	fake_cuda_complete(own, UINT_MAX);
	if (b && b < a + size && a < b + size && cuStreamQuery(other))
		g_assert_cmpint(cuStreamQuery(own), ==, DRV_ERROR_NOT_READY);
	settle();
	free_block(b, size, own);
}

static void scene_record(void)
{
	use_by_other(SIZE);
	use_by_other(1000);
}

static int give_spare(int device, size_t size)
{
	void *given = spare;

	(void)device;
	(void)size;
	spare = NULL;
	free_block(given, given ? SIZE : 0, own);
	return given != NULL;
}

/* The device is full, and the program gives something back; then it has nothing to give. */
static void scene_exhausted(void)
{
	char *blocks[2 * CAPACITY / SIZE];
	size_t n = 0;

	torch.vpmm_torch_set_pressure(give_spare);
	spare = try_new(SIZE, own);
	while (n < G_N_ELEMENTS(blocks) && (blocks[n] = try_new(SIZE, n % 2 ? own : other)))
		n++;
	g_assert_cmpuint(n, <=, CAPACITY / SIZE);
	torch.vpmm_torch_set_pressure(NULL);
	for (size_t i = 0; i < n; i++)
		free_block(blocks[i], SIZE, i % 2 ? own : other);
	free_block(spare, spare ? SIZE : 0, own);
	spare = NULL;
	torch.vpmm_torch_reset();
}

/* A graph that has memory of its own and uses some from outside; it is released where the device is full. */
static void scene_graph(void)
{
	static struct torch_pool_id id = { .b = 7 };
	char *outside = try_new(SIZE, own), *inside, *large;
	drv_graph graph;

	id.a++;
	torch.vpmm_torch_begin(0, id, NULL);
	g_assert_cmpint(cuStreamBeginCapture_v2(captured, DRV_STREAM_CAPTURE_MODE_THREAD_LOCAL), ==, 0);
	inside = try_new(SIZE, captured);
	if (outside)
		torch.vpmm_torch_record_stream(outside, captured);
	free_block(outside, outside ? SIZE : 0, own);
	free_block(inside, inside ? SIZE : 0, captured);
	g_assert_cmpint(cuStreamEndCapture(captured, &graph), ==, 0);
	torch.vpmm_torch_end(0, id);
	g_assert_cmpint(cuGraphDestroy(graph), ==, 0);
	torch.vpmm_torch_release(0, id);
	large = try_new(CAPACITY - 2 * SIZE, own);
	free_block(large, large ? CAPACITY - 2 * SIZE : 0, own);
}

/* The driver does not tell when the graph is gone, so its memory comes back by the retire alone. */
static void scene_unwatched(void)
{
	fake_cuda_fail("cuUserObjectCreate", 0, UINT_MAX, DRV_ERROR_NOT_SUPPORTED);
	scene_graph();
	fake_cuda_fail("cuUserObjectCreate", 0, 0, DRV_SUCCESS);
}

static void scene_fraction(void)
{
	char *a;

	torch_try_fraction(0.5, 0);
	a = try_new(SIZE, own);
	free_block(a, a ? SIZE : 0, own);
	torch_try_fraction(1, 0);
}

static void (*const scenes[])(void) = { scene_record, scene_exhausted, scene_graph, scene_unwatched, scene_fraction };

/* All is given back. */
static void check_rest(const char *call, unsigned int skip, drv_result result, uint64_t failed)
{
	struct vpmm_torch_counts counts;

	settle();
	/* A user of which the driver told nothing is waited for until it calls. */
	assert_ok(vpmm_stream_retire(NULL, other));
	assert_ok(vpmm_stream_retire(NULL, own));
	for (int i = 0; i < 3; i++)
		torch.vpmm_torch_reset();
	g_assert_null(torch_try_fraction(1, 0));
	counts = torch_counts(0);
	if (counts.kept || counts.graphs || counts.pools || counts.unknown || counts.allocs != counts.frees)
		g_error("%s %u fails with %d: kept %u, graphs %u, pools %u, unknown %u, allocs %u, frees %u", call,
			skip, result, (unsigned int)counts.kept, (unsigned int)counts.graphs,
			(unsigned int)counts.pools, (unsigned int)counts.unknown, (unsigned int)counts.allocs,
			(unsigned int)counts.frees);
	/* Such an error stays, as far as anybody knows: what was to be freed is counted, and gone with the pool. */
	if (counts.failed != failed && result == DRV_ERROR_UNKNOWN)
		assert_ok(vpmm_pool_abandon(NULL));
	else if (counts.failed != failed || torch_stats(0).requested)
		g_error("%s %u fails with %d: %u failed, %u bytes are lost", call, skip, result,
			(unsigned int)(counts.failed - failed), (unsigned int)torch_stats(0).requested);
}

/* What the test itself calls. */
static bool is_own(const char *call)
{
	static const char *const own_calls[] = {
		"cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphDestroy", "cuStreamQuery",
	};

	for (size_t i = 0; i < G_N_ELEMENTS(own_calls); i++)
		if (g_str_equal(call, own_calls[i]))
			return true;
	return false;
}

static unsigned int calls_of(const char *call, void (*scene)(void))
{
	uint64_t before = fake_cuda_calls(call);

	scene();
	return (unsigned int)(fake_cuda_calls(call) - before);
}

static void sweep_call(const char *call, void (*scene)(void), drv_result result)
{
	unsigned int count = calls_of(call, scene), skip;
	uint64_t failed;

	check_rest("none of", 0, result, torch_counts(0).failed);
	for (skip = 0; skip < count; skip++) {
		failed = torch_counts(0).failed;
		fake_cuda_fail(call, skip, 1, result);
		scene();
		fake_cuda_fail(call, 0, 0, DRV_SUCCESS);
		check_rest(call, skip, result, failed);
	}
}

static void sweep(gconstpointer data)
{
	void (*const *scene)(void) = data;

#define X(name, version, args) \
	if (!is_own(#name)) { \
		sweep_call(#name, *scene, DRV_ERROR_OUT_OF_MEMORY); \
		sweep_call(#name, *scene, DRV_ERROR_UNKNOWN); \
	}
	DRV_CALLS_REQUIRED(X)
	DRV_CALLS_OPTIONAL(X)
	DRV_CALLS_PROGRAMS(X)
#undef X
}

int main(int argc, char **argv)
{
	static const char *const names[] = { "record", "exhausted", "graph", "unwatched", "fraction" };
	drv_context context;

	g_setenv("VPMM_BACKEND", "cuda", TRUE);
	g_setenv("VPMM_VA_SIZE", "1G", TRUE);
	g_setenv("VPMM_HOST_CAPACITY", "64M", TRUE);
	g_test_init(&argc, &argv, NULL);
	torch_open();
	torch.vpmm_torch_init(2);
	g_assert_cmpint(cuInit(0), ==, 0);
	g_assert_cmpint(cuDevicePrimaryCtxRetain(&context, 0), ==, 0);
	g_assert_cmpint(cuCtxSetCurrent(context), ==, 0);
	g_assert_cmpint(cuStreamCreate(&own, DRV_STREAM_NON_BLOCKING), ==, 0);
	g_assert_cmpint(cuStreamCreate(&other, DRV_STREAM_NON_BLOCKING), ==, 0);
	g_assert_cmpint(cuStreamCreate(&captured, DRV_STREAM_NON_BLOCKING), ==, 0);
	for (size_t i = 0; i < G_N_ELEMENTS(scenes); i++) {
		char *path = g_strdup_printf("/torch/sweep/%s", names[i]);

		g_test_add_data_func(path, &scenes[i], sweep);
		g_free(path);
	}
	return g_test_run();
}
