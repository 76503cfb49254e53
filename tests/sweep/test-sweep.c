// SPDX-License-Identifier: LGPL-2.1-or-later
/* All or nothing, for every call of the backend in every action: on the host backend, and on the suite's own driver. */
#include <limits.h>

#include "cuda/cuda-fixture.h"
#include "host/budget-fixture.h"
#include "support/driver-calls.h"
#include "support/host-calls.h"
#include "sweep/sweep.h"

/* Bytes between the words that are written and looked at: memory moves by pages, which have many of them. */
#define STRIDE ((size_t)64 << 10)

/* So many are enough of a large block. */
#define WORDS_MOST 2048

static size_t stride(size_t size)
{
	if (sweep_is_full())
		return 1;
	return MAX(STRIDE, size / WORDS_MOST) / sizeof(uint64_t);
}

static void fill(void *ptr, size_t size, uint64_t seed)
{
	uint64_t *words = ptr;
	size_t count = size / sizeof(*words), step = stride(size);

	for (size_t i = 0; i < count; i += step)
		words[i] = sweep_word(seed, i);
	words[count - 1] = sweep_word(seed, count - 1);
}

static bool intact(void *ptr, size_t size, uint64_t seed)
{
	const uint64_t *words = ptr;
	size_t count = size / sizeof(*words), step = stride(size);

	for (size_t i = 0; i < count; i += step) {
		if (words[i] != sweep_word(seed, i))
			return false;
	}
	return words[count - 1] == sweep_word(seed, count - 1);
}

/* The host backend */

static int open_host(struct backend **be)
{
	return backend_host.open(0, be);
}

static int host_finish(struct CUstream_st *stream)
{
	vpmm_host_stream_complete(stream, UINT_MAX);
	return 0;
}

static const struct conformance_device host = {
	.open = open_host,
	.stream_create = vpmm_host_stream_create,
	.stream_destroy = vpmm_host_stream_destroy,
	.capture_begin = vpmm_host_capture_begin,
	.capture_end = host_capture_end_graph,
	.graph_launch = host_graph_launch_any,
	.graph_destroy = host_graph_destroy_any,
	.hold = vpmm_host_stream_submit,
	.finish = host_finish,
};

static bool host_reaches(int device, void *ptr, size_t size)
{
	return !vpmm_host_check_access(device, ptr, size);
}

/* All of them take longer than the rest of the suite. */
static const struct sweep_device on_host = {
	.name = "the host backend",
	.pairs = 2,
	.each = 3,
	.devices = DEVICES,
	.device = &host,
	.completes = true,
	.capacity = true,
	.fill = fill,
	.intact = intact,
	.reaches = host_reaches,
};

static bool always(void)
{
	return true;
}

/* The cuda backend, on the driver that stands on the host backend */

static int cuda_hold(struct CUstream_st *stream)
{
	return fake.submit(stream);
}

static int cuda_finish(struct CUstream_st *stream)
{
	fake.complete(stream, UINT_MAX);
	return 0;
}

static bool cuda_reaches(int device, void *ptr, size_t size)
{
	return !fake.check_access(device, (uintptr_t)ptr, size);
}

static const struct conformance_device cuda = {
	.open = driver_open_backend,
	.stream_create = driver_stream_create,
	.stream_destroy = driver_stream_destroy,
	.capture_begin = driver_capture_begin,
	.capture_end = driver_capture_end,
	.graph_launch = driver_graph_launch,
	.graph_destroy = driver_graph_destroy,
	.hold = cuda_hold,
	.finish = cuda_finish,
};

/* The pool is the same, and that the backend's errors arrive is tested elsewhere; a part will do. */
static const struct sweep_device on_cuda = {
	.name = "the cuda backend",
	.pairs = 1,
	.each = 7,
	.devices = DEVICES,
	.device = &cuda,
	.completes = true,
	.capacity = true,
	.fill = fill,
	.intact = intact,
	.reaches = cuda_reaches,
};

int main(int argc, char **argv)
{
	int result;

	g_test_init(&argc, &argv, NULL);
	g_setenv("VPMM_HOST_DEVICES", G_STRINGIFY(DEVICES), TRUE);
	sweep_add("/sweep/host", &on_host, always, fixture_assert_nothing_left);
	sweep_add("/sweep/cuda", &on_cuda, use_fake, assert_nothing_left);
	budget_folder();
	result = g_test_run();
	budget_remove_folder();
	return result;
}
