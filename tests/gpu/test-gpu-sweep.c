// SPDX-License-Identifier: LGPL-2.1-or-later
/* All or nothing, for every call of the driver in every action: the sweep on a real GPU. */
#include <string.h>

#include "gpu/gpu-fixture.h"
#include "support/driver-calls.h"
#include "sweep/sweep.h"

/* Of a block, so much is looked at, so far apart, and at its end; or all of it. */
#define WINDOW ((size_t)64 << 10)
#define STEP ((size_t)512 << 10)
#define WINDOWS 128

/* In this mode the suite's own copies are not in the way of it. */
static int capture_begin(struct CUstream_st *stream)
{
	return cu.cuStreamBeginCapture(stream, DRV_STREAM_CAPTURE_MODE_RELAXED);
}

static size_t step_of(size_t size)
{
	if (sweep_is_full())
		return WINDOW;
	return MAX(STEP, size / WINDOWS / WINDOW * WINDOW);
}

static void words_of(uint64_t *words, size_t from, size_t size, uint64_t seed)
{
	for (size_t i = 0; i < size / sizeof(*words); i++)
		words[i] = sweep_word(seed, from / sizeof(*words) + i);
}

/* Where the window after this one starts; the last one ends where the block does. */
static size_t next_window(size_t size, size_t from)
{
	size_t last = size > WINDOW ? (size - WINDOW) & -sizeof(uint64_t) : 0;

	return from == last ? size : MIN(from + step_of(size), last);
}

static void fill(void *ptr, size_t size, uint64_t seed)
{
	static uint64_t words[WINDOW / sizeof(uint64_t)];

	for (size_t from = 0; from < size; from = next_window(size, from)) {
		size_t bytes = MIN(WINDOW, size - from) & -sizeof(*words);

		words_of(words, from, bytes, seed);
		gpu_ok(gpu_write((uint64_t)ptr + from, words, bytes));
	}
}

static bool intact(void *ptr, size_t size, uint64_t seed)
{
	static uint64_t words[WINDOW / sizeof(uint64_t)], got[WINDOW / sizeof(uint64_t)];

	for (size_t from = 0; from < size; from = next_window(size, from)) {
		size_t bytes = MIN(WINDOW, size - from) & -sizeof(*words);

		words_of(words, from, bytes, seed);
		gpu_ok(gpu_read((uint64_t)ptr + from, got, bytes));
		if (memcmp(words, got, bytes))
			return false;
	}
	return true;
}

static const struct conformance_device gpu = {
	.open = driver_open_backend,
	.stream_create = driver_stream_create,
	.stream_destroy = driver_stream_destroy,
	.capture_begin = capture_begin,
	.capture_end = driver_capture_end,
	.graph_launch = driver_graph_launch,
	.graph_destroy = driver_graph_destroy,
	.hold = gpu_hold,
	.finish = gpu_finish,
};

static const struct sweep_device on_gpu = {
	.name = "a GPU",
	.device = &gpu,
	.fill = fill,
	.intact = intact,
	.settle = gpu_sync,
};

int main(int argc, char **argv)
{
	int ret;

	g_test_init(&argc, &argv, NULL);
	sweep_add("/gpu/sweep", &on_gpu, gpu_ready, NULL);
	ret = g_test_run();
	gpu_close();
	return ret;
}
