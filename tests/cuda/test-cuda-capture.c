// SPDX-License-Identifier: LGPL-2.1-or-later
/* The cuda backend beside captures, and on streams that are captured. */
#include <errno.h>
#include <glib.h>
#include <string.h>

#include "cuda/cuda-fixture.h"

/* Under capture no event can be recorded: the stream is refused, and nothing else comes of it. */
static void test_refused(void)
{
	drv_stream stream;
	drv_graph graph;
	struct backend *be;
	uint64_t id;

	be = open_entered(0);
	assert_ok(cu.cuStreamCreate(&stream, DRV_STREAM_NON_BLOCKING));
	assert_ok(cu.cuStreamBeginCapture(stream, DRV_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	assert_error(be->ops->stream_id(be, stream, &id), EBUSY, "captured");
	assert_ok(cu.cuStreamEndCapture(stream, &graph));
	assert_ok(cu.cuGraphDestroy(graph));
	assert_ok(be->ops->stream_id(be, stream, &id));
	assert_ok(cu.cuStreamDestroy(stream));
	leave_close(be);
}

/* What the thread may do beside captures is as it was when it has left; a call that asks nothing costs nothing. */
static void test_mode(void)
{
	drv_capture_mode mode = DRV_STREAM_CAPTURE_MODE_THREAD_LOCAL;
	struct backend *be;
	uint64_t id, calls;
	int complete;
	struct backend_event *event;

	assert_ok(backend_cuda.open(0, &be));
	assert_ok(cu.cuThreadExchangeStreamCaptureMode(&mode));
	calls = fake.calls("cuThreadExchangeStreamCaptureMode");
	assert_ok(be->ops->enter(be));
	assert_ok(be->ops->stream_id(be, NULL, &id));
	assert_ok(be->ops->stream_capture(be, NULL, &id));
	be->ops->leave(be);
	g_assert_cmpuint(fake.calls("cuThreadExchangeStreamCaptureMode"), ==, calls);

	assert_ok(be->ops->enter(be));
	assert_ok(be->ops->event_create(be, &event));
	assert_ok(be->ops->event_record(be, event, NULL));
	assert_ok(be->ops->enter(be));
	assert_ok(be->ops->event_query(be, event, &complete));
	be->ops->leave(be);
	assert_ok(be->ops->event_query(be, event, &complete));
	be->ops->event_destroy(be, event);
	g_assert_cmpuint(fake.calls("cuThreadExchangeStreamCaptureMode") - calls, ==, 1);
	be->ops->leave(be);
	g_assert_cmpuint(fake.calls("cuThreadExchangeStreamCaptureMode") - calls, ==, 2);
	mode = DRV_STREAM_CAPTURE_MODE_GLOBAL;
	assert_ok(cu.cuThreadExchangeStreamCaptureMode(&mode));
	g_assert_cmpint(mode, ==, DRV_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	be->ops->close(be);
}

/* Where the mode cannot be had, the driver says of what it was wanted for whether that can be done. */
static void test_mode_fails(void)
{
	struct backend *be;
	uint64_t handle = 77;

	be = open_entered(0);
	fake.fail("cuThreadExchangeStreamCaptureMode", 0, 2, DRV_ERROR_DEINITIALIZED);
	fake.fail("cuMemCreate", 0, 1, DRV_ERROR_DEINITIALIZED);
	assert_error(be->ops->create(be, PAGE, &handle), EIO, "cuMemCreate");
	g_assert_cmpuint(handle, ==, 77);
	assert_ok(be->ops->create(be, PAGE, &handle));
	assert_ok(be->ops->release(be, handle));
	leave_close(be);
}

/* A capture that was invalidated is one until its end, but the driver does not tell its id any more. */
static void test_invalidated(void)
{
	uint64_t id, own;
	drv_stream stream;
	struct backend *be;
	drv_graph graph;

	be = open_entered(0);
	assert_ok(cu.cuStreamCreate(&stream, DRV_STREAM_NON_BLOCKING));
	assert_ok(cu.cuStreamBeginCapture(stream, DRV_STREAM_CAPTURE_MODE_RELAXED));
	assert_ok(be->ops->stream_capture(be, stream, &id));
	g_assert_cmpint(cu.cuStreamGetId(stream, &own), ==, DRV_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	assert_error(be->ops->stream_capture(be, stream, &id), EBUSY, "invalidated");
	assert_error(be->ops->clear(be, PAGE, 0, stream), EBUSY, "cuMemsetD8Async");
	assert_error(be->ops->stream_capture(be, NULL, &id), EBUSY, "cuStreamGetCaptureInfo");
	g_assert_cmpint(cu.cuStreamEndCapture(stream, &graph), ==, DRV_ERROR_STREAM_CAPTURE_INVALIDATED);
	assert_ok(cu.cuStreamDestroy(stream));
	leave_close(be);
}

/* The driver would fail and invalidate the capture; the default stream tells beforehand. */
static void test_record_all(void)
{
	struct backend_event *event;
	drv_stream stream;
	struct backend *be;
	drv_graph graph;

	be = open_entered(0);
	assert_ok(cu.cuStreamCreate(&stream, DRV_STREAM_NON_BLOCKING));
	assert_ok(be->ops->event_create(be, &event));
	assert_ok(cu.cuStreamBeginCapture(stream, DRV_STREAM_CAPTURE_MODE_RELAXED));

	assert_error(be->ops->event_record_all(be, event), EBUSY, "default stream");

	assert_ok(cu.cuStreamEndCapture(stream, &graph));
	assert_ok(cu.cuGraphDestroy(graph));
	assert_ok(be->ops->event_record_all(be, event));
	fake.fail("cuCtxRecordEvent", 0, 1, DRV_ERROR_LAUNCH_FAILED);
	assert_error(be->ops->event_record_all(be, event), EIO, "cuCtxRecordEvent: CUDA_ERROR_LAUNCH_FAILED (719)");
	be->ops->event_destroy(be, event);
	assert_ok(cu.cuStreamDestroy(stream));
	leave_close(be);
}

static void note_gone(void *data)
{
	(*(unsigned int *)data)++;
}

/* Whichever call fails, its error arrives, nothing is watched, and nothing is left of the attempt. */
static void test_watch_fails(void)
{
	static const char *const calls[] = { "cuStreamGetCaptureInfo", "cuUserObjectCreate", "cuGraphRetainUserObject" };
	unsigned int gone = 0;
	drv_stream stream;
	struct backend *be;
	drv_graph graph;

	be = open_entered(0);
	assert_ok(cu.cuStreamCreate(&stream, DRV_STREAM_NON_BLOCKING));
	for (size_t i = 0; i < G_N_ELEMENTS(calls); i++) {
		assert_ok(cu.cuStreamBeginCapture(stream, DRV_STREAM_CAPTURE_MODE_GLOBAL));
		fake.fail(calls[i], 0, 1, DRV_ERROR_OUT_OF_MEMORY);
		assert_error(be->ops->graph_watch(be, stream, note_gone, &gone), ENOMEM, calls[i]);
		assert_ok(cu.cuStreamEndCapture(stream, &graph));
		assert_ok(cu.cuGraphDestroy(graph));
		g_assert_cmpuint(gone, ==, 0);
	}
	assert_ok(cu.cuStreamBeginCapture(stream, DRV_STREAM_CAPTURE_MODE_GLOBAL));
	assert_ok(be->ops->graph_watch(be, stream, note_gone, &gone));
	assert_ok(cu.cuStreamEndCapture(stream, &graph));
	assert_ok(cu.cuGraphDestroy(graph));
	g_assert_cmpuint(gone, ==, 1);
	assert_ok(cu.cuStreamDestroy(stream));
	leave_close(be);
}

static struct vpmm_stats stats_of(struct vpmm_pool *pool)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };

	assert_ok(vpmm_pool_trim(pool, 0, NULL));
	assert_ok(vpmm_pool_check(pool));
	assert_ok(vpmm_pool_stats(pool, &stats));
	return stats;
}

/* A block that is allocated and freed under a capture, which is ended if @valid, or else fails. Returns its graph. */
static drv_graph capture_block(struct vpmm_pool *pool, drv_stream stream, uint64_t *id, bool valid)
{
	drv_graph graph = NULL;
	uint64_t own;
	void *ptr;

	assert_ok(cu.cuStreamBeginCapture(stream, DRV_STREAM_CAPTURE_MODE_GLOBAL));
	assert_ok(vpmm_capture_id(pool, stream, id));
	assert_ok(vpmm_malloc(pool, &ptr, 2 * PAGE, stream));
	assert_ok(vpmm_free(pool, ptr, stream));
	if (!valid)
		cu.cuStreamGetId(stream, &own);
	g_assert_cmpint(cu.cuStreamEndCapture(stream, &graph), ==, valid ? 0 : DRV_ERROR_STREAM_CAPTURE_INVALIDATED);
	return graph;
}

/* What a graph or a failed capture had comes back by itself; where the driver cannot say when, it is told. */
static void test_comes_back(void)
{
	static const char *const calls[] = { "cuUserObjectCreate", "cuGraphRetainUserObject" };
	struct vpmm_opts opts = { .size = sizeof(opts), .backend = "cuda" };
	struct vpmm_pool *pool;
	drv_stream stream;
	drv_graph graph;
	uint64_t id;

	enter_primary(0);
	assert_ok(cu.cuStreamCreate(&stream, DRV_STREAM_NON_BLOCKING));
	assert_ok(vpmm_pool_create(&pool, &opts));
	capture_block(pool, stream, &id, false);
	g_assert_cmpuint(stats_of(pool).held, ==, 0);
	graph = capture_block(pool, stream, &id, true);
	g_assert_cmpuint(stats_of(pool).held, ==, 2 * PAGE);
	assert_ok(cu.cuGraphDestroy(graph));
	g_assert_cmpuint(stats_of(pool).held, ==, 0);
	for (size_t i = 0; i < G_N_ELEMENTS(calls); i++) {
		fake.fail(calls[i], 0, UINT_MAX, DRV_ERROR_OUT_OF_MEMORY);
		graph = capture_block(pool, stream, &id, true);
		fake.fail(calls[i], 0, 0, DRV_SUCCESS);
		assert_ok(cu.cuGraphDestroy(graph));
		g_assert_cmpuint(stats_of(pool).held, ==, 2 * PAGE);
		assert_ok(vpmm_graph_retire(pool, id, stream));
		g_assert_cmpuint(stats_of(pool).held, ==, 0);
	}
	graph = capture_block(pool, stream, &id, true);
	vpmm_pool_destroy(pool);
	assert_ok(cu.cuGraphDestroy(graph));
	assert_ok(cu.cuStreamDestroy(stream));
	leave_primary(0);
}

void cuda_capture_tests(void)
{
	cuda_add("/cuda/capture/watch-fails", test_watch_fails);
	cuda_add("/cuda/capture/comes-back", test_comes_back);
	cuda_add("/cuda/capture/record-all", test_record_all);
	cuda_add("/cuda/capture/refused", test_refused);
	cuda_add("/cuda/capture/mode", test_mode);
	cuda_add("/cuda/capture/mode-fails", test_mode_fails);
	cuda_add("/cuda/capture/invalidated", test_invalidated);
}
