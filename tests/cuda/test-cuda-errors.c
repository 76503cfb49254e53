// SPDX-License-Identifier: LGPL-2.1-or-later
/* The cuda backend when a call of the driver fails: the errno value, and the sentence. */
#include <errno.h>
#include <glib.h>
#include <string.h>

#include "cuda/cuda-fixture.h"
#include "util/error.h"
#include "util/text.h"
#include "vpmm-shared.h"

/* What each operation is called with, and where it writes. */
struct call {
	struct backend *be;
	struct backend_info info;
	struct backend_event *event;
	struct backend_export export;
	uint64_t out;
	uint64_t more;
	int64_t ns;
	int flag;
	bool pending;
};

#define OPERATION(name, ...) \
	static int call_##name(struct call *c) \
	{ \
		return c->be->ops->name(c->be, ##__VA_ARGS__); \
	}
OPERATION(info, &c->info)
OPERATION(reserve, PAGE, PAGE, &c->out)
OPERATION(unreserve, PAGE, PAGE)
OPERATION(create, PAGE, &c->out)
OPERATION(configure, BACKEND_HANDLES_FD, true)
OPERATION(create_export, PAGE, &c->out)
OPERATION(export, 77, &c->export)
OPERATION(import, &(struct backend_export){ .type = BACKEND_HANDLES_FD }, PAGE, &c->out)
OPERATION(release, 77)
OPERATION(map, PAGE, PAGE, 77)
OPERATION(access, PAGE, PAGE)
OPERATION(unmap, PAGE, PAGE, NULL)
OPERATION(stream_id, NULL, &c->out)
OPERATION(stream_capture, NULL, &c->out)
OPERATION(graph_watch, NULL, g_free, NULL)
OPERATION(stream_wait, NULL, c->event)
OPERATION(event_create, &c->event)
OPERATION(event_create_timed, &c->event)
OPERATION(event_record, c->event, NULL)
OPERATION(event_query, c->event, &c->flag)
OPERATION(event_sync, c->event)
OPERATION(event_elapsed, c->event, c->event, &c->ns)
OPERATION(sync)
OPERATION(clear, PAGE, PAGE, NULL)
OPERATION(copy, PAGE, 2 * PAGE, PAGE, NULL)
OPERATION(small_alloc, 100, NULL, &c->out)
OPERATION(small_free, PAGE, NULL)
OPERATION(small_held, &c->out, &c->more)
OPERATION(small_trim, 0, &c->pending)

static const struct {
	const char *name;		/* the driver's call */
	int (*call)(struct call *c);
} operations[] = {
	{ "cuDeviceGetName", call_info },
	{ "cuDriverGetVersion", call_info },
	{ "cuMemGetAllocationGranularity", call_info },
	{ "cuMemGetInfo", call_info },
	{ "cuMemAddressReserve", call_reserve },
	{ "cuMemAddressFree", call_unreserve },
	{ "cuMemCreate", call_create },
	{ "cuDeviceGetAttribute", call_configure },
	{ "cuMemCreate", call_create_export },
	{ "cuMemExportToShareableHandle", call_export },
	{ "cuMemImportFromShareableHandle", call_import },
	{ "cuMemRelease", call_release },
	{ "cuMemMap", call_map },
	{ "cuMemSetAccess", call_access },
	{ "cuMemUnmap", call_unmap },
	{ "cuStreamIsCapturing", call_stream_id },
	{ "cuStreamGetId", call_stream_id },
	{ "cuStreamGetCaptureInfo", call_stream_capture },
	{ "cuStreamGetCaptureInfo", call_graph_watch },
	{ "cuStreamWaitEvent", call_stream_wait },
	{ "cuEventCreate", call_event_create },
	{ "cuEventCreate", call_event_create_timed },
	{ "cuEventRecord", call_event_record },
	{ "cuEventQuery", call_event_query },
	{ "cuEventSynchronize", call_event_sync },
	{ "cuEventElapsedTime", call_event_elapsed },
	{ "cuMemAllocHost", call_sync },
	{ "cuMemFreeHost", call_sync },
	{ "cuMemsetD8Async", call_clear },
	{ "cuMemcpyDtoDAsync", call_copy },
	{ "cuMemAllocFromPoolAsync", call_small_alloc },
	{ "cuMemFreeAsync", call_small_free },
	{ "cuMemPoolGetAttribute", call_small_held },
	{ "cuMemPoolTrimTo", call_small_trim },
};

/* Whichever driver's call fails, its error arrives, in words, and nothing is written. */
static void test_errors_arrive(void)
{
	struct call c, before;
	size_t i;

	memset(&c, 0x5a, sizeof(c));
	c.be = open_entered(0);
	before = c;
	for (i = 0; i < G_N_ELEMENTS(operations); i++) {
		fake.fail(operations[i].name, 0, 1, DRV_ERROR_ILLEGAL_ADDRESS);

		assert_error(operations[i].call(&c), EIO, operations[i].name);
		g_assert_nonnull(strstr(error_get(), "CUDA_ERROR_ILLEGAL_ADDRESS (700), says the fake driver"));
		g_assert_cmpmem(&c, sizeof(c), &before, sizeof(before));
	}
	leave_close(c.be);
}

static void test_current_device_fails(void)
{
	static const char *const steps[] = { "cuCtxGetCurrent", "cuCtxGetDevice" };
	struct backend *be = NULL;
	int ordinal = 77;
	size_t i;

	enter_primary(1);
	for (i = 0; i < G_N_ELEMENTS(steps); i++) {
		fake.fail(steps[i], 0, 1, DRV_ERROR_ILLEGAL_ADDRESS);
		assert_error(backend_cuda.current_device(&ordinal), EIO, steps[i]);
		fake.fail(steps[i], 0, 1, DRV_ERROR_ILLEGAL_ADDRESS);
		assert_error(backend_cuda.open(1, &be), EIO, steps[i]);
	}

	g_assert_cmpint(ordinal, ==, 77);
	g_assert_null(be);
	leave_primary(1);
}

static void test_errors_map(void)
{
	static const struct {
		drv_result result;
		int err;
	} cases[] = {
		{ 1, EINVAL }, { 2, ENOMEM }, { 3, EBUSY }, { 4, EIO }, { 34, ENODEV }, { 46, ENODEV }, { 100, ENODEV },
		{ 101, ENODEV }, { 201, EINVAL }, { 208, EINVAL }, { 211, EINVAL }, { 214, EIO }, { 400, EINVAL },
		{ 500, EINVAL }, { 600, EBUSY }, { 700, EIO }, { 702, EIO }, { 709, ESTALE }, { 710, EIO }, { 714, EIO },
		{ 719, EIO }, { 800, ENOTSUP }, { 801, ENOTSUP }, { 802, ENODEV }, { 803, ENODEV }, { 804, ENODEV },
		{ 217, ENOTSUP }, { 711, ENOTSUP },
		{ 900, EBUSY }, { 901, EBUSY }, { 902, EBUSY }, { 903, EBUSY }, { 904, EBUSY }, { 905, EBUSY }, { 906, EBUSY },
		{ 907, EBUSY }, { 908, EBUSY }, { 999, EIO }, { 31337, EIO },
	};
	struct backend *be;
	uint64_t handle;
	size_t i;

	be = open_entered(0);
	for (i = 0; i < G_N_ELEMENTS(cases); i++) {
		char *number = g_strdup_printf("cuMemCreate of 2 MiB: CUDA%s", cases[i].result == 31337 ?
					       " error (31337), which the driver does not explain" : "_ERROR_");

		fake.fail("cuMemCreate", 0, 1, cases[i].result);
		assert_error(be->ops->create(be, PAGE, &handle), cases[i].err, number);
		g_free(number);
	}
	leave_close(be);
}

static void test_out_of_memory(void)
{
	struct backend_info info;
	struct backend *be;
	uint64_t handle;
	char *want;

	be = open_entered(0);
	assert_ok(be->ops->info(be, &info));

	want = g_strdup_printf("device memory: cuMemCreate of %s: CUDA_ERROR_OUT_OF_MEMORY (2), out of memory; "
			       "%s of %s are free", amount(info.memory_total + PAGE).text, amount(info.memory_free).text,
			       amount(info.memory_total).text);
	assert_error(be->ops->create(be, info.memory_total + PAGE, &handle), ENOMEM, want);
	g_assert_cmpstr(error_get(), ==, want);

	g_free(want);
	leave_close(be);
}

/* Out of memory with memory to spare: it is mappings that have run out. */
static void test_out_of_mappings(void)
{
	uint64_t va, handle;
	struct backend *be;

	g_setenv("VPMM_HOST_MAPPINGS", "2", TRUE);
	be = open_entered(0);
	assert_ok(be->ops->reserve(be, 4 * PAGE, PAGE, &va));
	assert_ok(be->ops->create(be, PAGE, &handle));
	assert_ok(be->ops->map(be, va, PAGE, handle));
	assert_ok(be->ops->map(be, va + PAGE, PAGE, handle));
	assert_ok(be->ops->map(be, va + 2 * PAGE, PAGE, handle));

	assert_error(be->ops->access(be, va, 3 * PAGE), ENOMEM, "the most mappings");

	assert_ok(be->ops->unmap(be, va, 4 * PAGE, NULL));
	assert_ok(be->ops->release(be, handle));
	assert_ok(be->ops->unreserve(be, va, 4 * PAGE));
	leave_close(be);
	g_unsetenv("VPMM_HOST_MAPPINGS");
}

/* A request for what a device cannot do fails and changes nothing. A pool names the option. */
static void test_cannot_export(void)
{
	static const struct {
		drv_device_attribute attribute;
		enum backend_handles handles;
		bool rdma;
		const char *word;
		const char *option;
	} cases[] = {
		{ DRV_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, BACKEND_HANDLES_FD, false,
		  "device 0 cannot export memory as file descriptors", "export_as (VPMM_EXPORT): " },
		{ DRV_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, BACKEND_HANDLES_FABRIC, false,
		  "device 0 cannot export memory as fabric handles", "export_as (VPMM_EXPORT): " },
		{ DRV_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, BACKEND_HANDLES_NONE, true,
		  "GPUDirect RDMA", "rdma (VPMM_RDMA): " },
	};
	const struct vpmm_opts opts[G_N_ELEMENTS(cases)] = {
		{ .size = sizeof(*opts), .backend = "cuda", .export_as = VPMM_EXPORT_FD },
		{ .size = sizeof(*opts), .backend = "cuda", .export_as = VPMM_EXPORT_FABRIC },
		{ .size = sizeof(*opts), .backend = "cuda", .rdma = VPMM_RDMA_ON },
	};
	struct vpmm_pool *pool;
	struct backend *be;
	uint64_t handle;

	be = open_entered(0);
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		fake.attribute(cases[i].attribute, 0);
		assert_error(be->ops->configure(be, cases[i].handles, cases[i].rdma), ENOTSUP, cases[i].word);
		assert_error(vpmm_pool_create(&pool, &opts[i]), ENOTSUP, cases[i].option);
		g_assert_nonnull(strstr(vpmm_last_error(), cases[i].word));
		fake.attribute(cases[i].attribute, cases[i].handles != BACKEND_HANDLES_FABRIC);
	}
	assert_ok(be->ops->create(be, PAGE, &handle));
	assert_ok(be->ops->release(be, handle));
	assert_ok(be->ops->configure(be, BACKEND_HANDLES_FD, true));
	assert_ok(be->ops->create(be, PAGE, &handle));
	assert_ok(be->ops->release(be, handle));
	leave_close(be);
}

static void count_update(struct vpmm_mirror *mirror, void *data, enum vpmm_mirror_action action, void *start, void *end)
{
	(void)mirror;
	(void)start;
	(void)end;
	*(unsigned int *)data += action == VPMM_MIRROR_UNMAP;
}

/* A driver that cannot stop streams has no shared ranges, and a pool that works as before, with mirrors. */
static void test_cannot_share(void)
{
	const struct vpmm_mirror_ops ops = { sizeof(ops), count_update };
	const struct vpmm_opts opts = { .size = sizeof(opts), .backend = "cuda", .va_size = (size_t)1 << 30 };
	struct vpmm_shared_stats stats = { .size = sizeof(stats) };
	struct vpmm_mirror *mirror;
	struct vpmm_pool *pool;
	void *at = NULL, *block;
	unsigned int updates = 0;

	assert_ok(vpmm_pool_create(&pool, &opts));
	assert_ok(vpmm_mirror_register(pool, &mirror, &ops, &updates));
	for (int i = 0; i < 2; i++)
		assert_error(vpmm_shared_alloc(pool, &at, PAGE, 0), ENOTSUP, "cuStreamBatchMemOp");
	g_assert_null(at);
	assert_ok(vpmm_shared_stats(pool, &stats));
	g_assert_cmpuint(stats.ranges + stats.device + stats.host, ==, 0);
	assert_ok(vpmm_malloc(pool, &block, PAGE, NULL));
	assert_ok(vpmm_free(pool, block, NULL));
	assert_ok(vpmm_pool_check(pool));
	vpmm_pool_destroy(pool);
	g_assert_cmpuint(updates, >, 0);
	vpmm_mirror_unregister(mirror);
}

void cuda_error_tests(void)
{
	cuda_add("/cuda/errors/cannot-share", test_cannot_share);
	cuda_add("/cuda/errors/cannot-export", test_cannot_export);

	cuda_add("/cuda/errors/arrive", test_errors_arrive);
	cuda_add("/cuda/errors/current-device", test_current_device_fails);
	cuda_add("/cuda/errors/map", test_errors_map);
	cuda_add("/cuda/errors/out-of-memory", test_out_of_memory);
	cuda_add("/cuda/errors/out-of-mappings", test_out_of_mappings);
}
