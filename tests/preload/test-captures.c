// SPDX-License-Identifier: LGPL-2.1-or-later
/* cuMemAlloc() and cuMemFree() beside captures, and as captures begin: what they answer, and that captures live. */
#include <glib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/fake-cuda-inside.h"
#include "host/backend.h"
#include "preload/preload-fixture.h"

#define SIZE 3000000

static void free_beside_capture(void)
{
	drv_stream stream;
	drv_graph graph;
	drv_deviceptr va;

	/* A stream is under capture in the usual mode when the program frees. */
	use_primary(0);
	stream = new_stream();
	va = alloc_bytes(SIZE);
	begin_capture(stream, DRV_STREAM_CAPTURE_MODE_GLOBAL);
	g_assert_cmpint(cuMemFree_v2(va), ==, DRV_ERROR_STREAM_CAPTURE_UNSUPPORTED);

	/* That fails and ends the capture, as it does without us; the block is still there. */
	g_assert_cmpint(cuStreamEndCapture(stream, &graph), ==, DRV_ERROR_STREAM_CAPTURE_INVALIDATED);
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);

	/* Beside a relaxed capture it works, with no event, and the capture lives. */
	va = alloc_bytes(SIZE);
	begin_capture(stream, DRV_STREAM_CAPTURE_MODE_RELAXED);
	g_assert_cmpuint(driver_calls("cuEventSynchronize"), ==, 1);
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);
	g_assert_cmpuint(driver_calls("cuEventSynchronize"), ==, 1);
	end_capture(stream);
}

static drv_stream forked_stream;

/* In the child the driver itself answers, that it does not work there. */
static void begin_in_child(void)
{
	drv_result result;
	int status;
	pid_t pid;

	pid = fork();
	if (!pid) {
		alarm(10);
		result = cuStreamBeginCapture_v2(forked_stream, DRV_STREAM_CAPTURE_MODE_RELAXED);
		_exit(result != DRV_ERROR_NOT_INITIALIZED);
	}
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	g_assert_cmpint(status, ==, 0);
}

static void fork_beside_free(void)
{
	/* A process forks while a free keeps captures from beginning. */
	use_primary(0);
	forked_stream = new_stream();
	fake_cuda_meanwhile("cuCtxRecordEvent", begin_in_child);
	g_assert_cmpint(cuMemFree_v2(alloc_bytes(SIZE)), ==, 0);

	/* The parent goes on. */
	begin_capture(forked_stream, DRV_STREAM_CAPTURE_MODE_GLOBAL);
	end_capture(forked_stream);
}

#define RACES 10000

/* Begins and ends captures until it is told to stop. */
static gpointer capture_often(gpointer stop)
{
	drv_stream stream;
	int i;

	use_primary(0);
	stream = new_stream();
	for (i = 0; !g_atomic_int_get((int *)stop); i++) {
		begin_capture(stream, i % 2 ? DRV_STREAM_CAPTURE_MODE_RELAXED : DRV_STREAM_CAPTURE_MODE_THREAD_LOCAL);
		end_capture(stream);
	}
	return NULL;
}

static void free_as_capture_begins(void)
{
	GThread *thread;
	drv_deviceptr va;
	int stop = 0;

	/* A thread frees while another begins and ends captures that let it. */
	use_primary(0);
	thread = g_thread_new("capture", capture_often, &stop);
	for (int i = 0; i < RACES; i++) {
		va = alloc_bytes(SIZE);
		g_assert_cmpint(cuMemFree_v2(va), ==, 0);
	}

	/* All calls succeed, with VPMM_SCRUB too, and so do all captures. */
	g_atomic_int_set(&stop, 1);
	g_thread_join(thread);
}

static void freed_beside(bool full)
{
	drv_stream stream, other;
	drv_deviceptr va;

	/* A non-blocking stream is under a relaxed capture: nothing but the calls that begin captures tells. */
	use_primary(0);
	stream = new_stream();
	other = new_stream();
	va = alloc_bytes(SIZE);
	begin_capture(stream, DRV_STREAM_CAPTURE_MODE_RELAXED);
	if (full)
		fake_cuda_fail("cuMemAlloc", 0, 1, DRV_ERROR_OUT_OF_MEMORY);

	/* A free works beside it, once, and waits for what uses the memory. */
	g_assert_cmpint(fake_cuda_submit(other), ==, 0);
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);
	g_assert_cmpint(cuStreamQuery(other), ==, 0);
	if (!full)
		g_assert_cmpint(cuMemFree_v2(va), ==, DRV_ERROR_INVALID_VALUE);

	/* What was freed is there for others, and the capture lives. */
	g_assert_cmphex(alloc_bytes(SIZE), ==, va);
	end_capture(stream);
}

static void freed_beside_capture(void)
{
	freed_beside(false);
}

/* The driver has no memory for a free of the same kind, by which we learn what it answers. */
static void freed_beside_full_device(void)
{
	freed_beside(true);
}

static void captures_overlap(void)
{
	drv_stream stream[] = { NULL, NULL };
	drv_deviceptr first, va;

	/* The captures of a program overlap, so that one is always running, and it allocates and frees meanwhile. */
	use_primary(0);
	stream[0] = new_stream();
	stream[1] = new_stream();
	first = alloc_bytes(SIZE);
	g_assert_cmpint(cuMemFree_v2(first), ==, 0);
	begin_capture(stream[0], DRV_STREAM_CAPTURE_MODE_RELAXED);
	for (int i = 0; i < 20; i++) {
		va = alloc_bytes(SIZE);
		g_assert_cmpint(cuMemFree_v2(va), ==, 0);
		begin_capture(stream[~i & 1], DRV_STREAM_CAPTURE_MODE_RELAXED);
		end_capture(stream[i & 1]);

		/* It takes no more memory than without captures. */
		g_assert_cmphex(va, ==, first);
	}
	end_capture(stream[0]);
}

static void wait_fails(void)
{
	static const char *const calls[] = { "cuStreamCreate", "cuMemAllocHost", "cuMemFreeHost" };
	drv_stream stream;
	drv_deviceptr va;

	/* What the free does beside a capture fails: the wait, or its stream. */
	use_primary(0);
	stream = new_stream();
	va = alloc_async(SIZE, stream);
	begin_capture(stream, DRV_STREAM_CAPTURE_MODE_RELAXED);
	for (size_t i = 0; i < G_N_ELEMENTS(calls); i++) {
		fake_cuda_fail(calls[i], 0, 1, DRV_ERROR_OUT_OF_MEMORY);
		g_assert_cmpint(cuMemFree_v2(va), ==, DRV_ERROR_OUT_OF_MEMORY);
		fake_cuda_fail(calls[i], 0, 0, 0);
	}

	/* The block is still there, and the capture lives. */
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);
	end_capture(stream);
}

static void scrubbed_beside_capture(void)
{
	drv_stream stream;

	/* A program allocates memory that is cleared first, beside a capture. */
	use_primary(0);
	stream = new_stream();
	begin_capture(stream, DRV_STREAM_CAPTURE_MODE_RELAXED);
	alloc_bytes(SIZE);

	/* We serve it, as the clear is on no stream of the program's, and the capture lives. */
	g_assert_cmpuint(driver_calls("cuMemAlloc"), ==, 0);
	end_capture(stream);
}

static void reset_beside_capture(void)
{
	drv_stream stream;
	drv_deviceptr va;
	uint64_t waits;

	/* The device is reset beside a capture, beside which something was freed. */
	use_primary(0);
	stream = new_stream();
	va = alloc_bytes(SIZE);
	begin_capture(stream, DRV_STREAM_CAPTURE_MODE_RELAXED);
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);
	g_assert_cmpint(cuDevicePrimaryCtxReset_v2(0), ==, 0);

	/* What is allocated afterwards, at whatever address, stays. */
	use_primary(0);
	va = alloc_bytes(SIZE);
	g_assert_cmphex(alloc_bytes(SIZE), !=, va);

	/* The capture is gone, so a free waits by an event again, and what it frees is there for others. */
	waits = driver_calls("cuEventSynchronize");
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);
	g_assert_cmpuint(driver_calls("cuEventSynchronize"), ==, waits + 1);
	g_assert_cmphex(alloc_bytes(SIZE), ==, va);
}

static void end_of_other_capture(void)
{
	drv_stream stream;
	drv_graph graph;
	drv_deviceptr va;

	/* A stream is under capture, and a program ends the captures of streams that it has not begun on. */
	use_primary(0);
	stream = new_stream();
	va = alloc_bytes(SIZE);
	begin_capture(stream, DRV_STREAM_CAPTURE_MODE_RELAXED);
	fake_cuda_fail("cuStreamEndCapture", 0, 2, DRV_ERROR_STREAM_CAPTURE_UNMATCHED);
	g_assert_cmpint(cuStreamEndCapture(stream, &graph), ==, DRV_ERROR_STREAM_CAPTURE_UNMATCHED);
	g_assert_cmpint(cuStreamEndCapture(new_stream(), &graph), ==, DRV_ERROR_STREAM_CAPTURE_UNMATCHED);

	/* The capture is still running, and a free does not wait by an event beside it. */
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);
	g_assert_cmpuint(driver_calls("cuEventSynchronize"), ==, 0);

	/* Once it has ended, also as an invalid one, a free waits. */
	va = alloc_bytes(SIZE);
	end_capture(stream);
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);
	g_assert_cmpuint(driver_calls("cuEventSynchronize"), ==, 1);
}

static void free_beside_capture_elsewhere(void)
{
	drv_stream stream;
	drv_deviceptr va;

	/* A stream is under a relaxed capture when the program frees with no current context. */
	drv_context context = use_primary(0);
	stream = new_stream();
	va = alloc_bytes(SIZE);
	begin_capture(stream, DRV_STREAM_CAPTURE_MODE_RELAXED);
	g_assert_cmpint(cuCtxSetCurrent(NULL), ==, 0);

	/* That works as it does beside no capture. */
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);
	g_assert_cmpuint(fake_cuda_depth(), ==, 0);
	g_assert_cmpint(cuCtxSetCurrent(context), ==, 0);
	end_capture(stream);
}

static struct host_left left_of_driver(void)
{
	struct host_left left;

	fake_cuda_left(&left);
	return left;
}

static void refused_beside_capture(void)
{
	struct host_left before;
	drv_stream stream;
	drv_deviceptr va;

	/* A stream is under capture, and the driver allocates what a free is tried out with, but frees nothing. */
	use_primary(0);
	stream = new_stream();
	va = alloc_bytes(SIZE);
	begin_capture(stream, DRV_STREAM_CAPTURE_MODE_RELAXED);
	before = left_of_driver();
	fake_cuda_fail("cuMemFree", 0, 1, DRV_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	g_assert_cmpint(cuMemFree_v2(va), ==, DRV_ERROR_STREAM_CAPTURE_UNSUPPORTED);

	/* So does the free, which leaves nothing behind but the block. */
	g_assert_cmpuint(left_of_driver().handles, ==, before.handles);
	g_assert_cmpint(cuMemFree_v2(va), ==, 0);
	end_capture(stream);
}

static void refused_on_stream(void)
{
	struct host_left before;
	drv_deviceptr va;

	/* The driver has answered nothing about a stream, and allocates on it, but does not free. */
	use_primary(0);
	va = alloc_bytes(SIZE);
	before = left_of_driver();
	fake_cuda_fail("cuStreamIsCapturing", 0, 1, DRV_ERROR_STREAM_CAPTURE_IMPLICIT);
	fake_cuda_fail("cuMemFreeAsync", 0, 1, DRV_ERROR_STREAM_CAPTURE_IMPLICIT);
	g_assert_cmpint(cuMemFreeAsync(va, NULL), ==, DRV_ERROR_STREAM_CAPTURE_IMPLICIT);

	/* The free fails, and leaves nothing behind but the block. */
	g_assert_cmpuint(left_of_driver().small, ==, before.small);
	g_assert_cmpint(cuMemFreeAsync(va, NULL), ==, 0);
}

int main(int argc, char **argv)
{
	static const struct preload_test tests[] = {
		{ "/captures/fork-beside-free", fork_beside_free },
		{ "/captures/free-beside", free_beside_capture },
		{ "/captures/freed-beside", freed_beside_capture },
		{ "/captures/freed-beside-ordered", freed_beside_capture, { "VPMM_PRELOAD_FREE=ordered" } },
		{ "/captures/freed-beside-full-device", freed_beside_full_device },
		{ "/captures/free-beside-elsewhere", free_beside_capture_elsewhere },
		{ "/captures/as-one-begins", free_as_capture_begins },
		{ "/captures/as-one-begins-scrubbed", free_as_capture_begins, { "VPMM_SCRUB=stream" } },
		{ "/captures/scrubbed-beside", scrubbed_beside_capture, { "VPMM_SCRUB=stream" } },
		{ "/captures/overlap", captures_overlap },
		{ "/captures/overlap-ordered", captures_overlap, { "VPMM_PRELOAD_FREE=ordered" } },
		{ "/captures/wait-fails", wait_fails, { "VPMM_PRELOAD_FREE=ordered" } },
		{ "/captures/end-of-other", end_of_other_capture },
		{ "/captures/reset-beside", reset_beside_capture },
		{ "/captures/refused-beside", refused_beside_capture },
		{ "/captures/refused-on-stream", refused_on_stream },
	};

	return preload_main(argc, argv, tests, G_N_ELEMENTS(tests));
}
