// SPDX-License-Identifier: LGPL-2.1-or-later
/* Calls while a stream is under capture, in the three modes: what they answer, and what becomes of the capture. */
#include "rows.h"

#define SIZE ((size_t)3000000)

static void *stream, *other;

static void begin(int mode)
{
	stream = new_stream();
	other = new_stream();
	said("sync", CU(cuCtxSynchronize));
	said("begin", CU(cuStreamBeginCapture_v2, stream, mode));
}

static void *end(void)
{
	void *graph = NULL;

	said("end", CU(cuStreamEndCapture, stream, &graph));
	fact("graph", graph);
	return graph;
}

/* What was captured can be launched as often as its allocations let it. */
static void launch(void *graph)
{
	void *exec = NULL;

	if (graph && !said("instantiate", CU(cuGraphInstantiateWithFlags, &exec, graph, 0))) {
		said("launch", CU(cuGraphLaunch, exec, stream));
		said("launch", CU(cuGraphLaunch, exec, stream));
		said("sync", CU(cuStreamSynchronize, stream));
		said("exec-destroy", CU(cuGraphExecDestroy, exec));
	}
	if (graph)
		said("graph-destroy", CU(cuGraphDestroy, graph));
}

static void finish(void)
{
	said("sync", CU(cuCtxSynchronize));
	said("destroy", CU(cuStreamDestroy_v2, stream));
	said("destroy", CU(cuStreamDestroy_v2, other));
}

static void alloc(int mode)
{
	address va = 0;
	result code;

	begin(mode);
	code = said("alloc", CU(cuMemAlloc_v2, &va, SIZE));
	launch(end());
	if (!code)
		said("free", CU(cuMemFree_v2, va));
	finish();
}

static void free_plain(int mode)
{
	address va = get(SIZE);

	begin(mode);
	said("free", CU(cuMemFree_v2, va));
	launch(end());
	/* It is still there, or gone. */
	said("free", CU(cuMemFree_v2, va));
	finish();
}

static void free_of_async(int mode)
{
	address va = get_async(SIZE, NULL);

	begin(mode);
	said("free", CU(cuMemFree_v2, va));
	launch(end());
	said("free", CU(cuMemFree_v2, va));
	finish();
}

static void info(int mode)
{
	size_t free, total;

	begin(mode);
	said("info", CU(cuMemGetInfo_v2, &free, &total));
	launch(end());
	finish();
}

static void async_inside(int mode)
{
	address va = 0;

	begin(mode);
	if (!said("alloc", CU(cuMemAllocAsync, &va, SIZE, stream))) {
		said("fill", CU(cuMemsetD8Async, va, 0, SIZE, stream));
		said("free", CU(cuMemFreeAsync, va, stream));
	}
	launch(end());
	finish();
}

static void async_free_outside(int mode)
{
	address va = get_async(SIZE, NULL);

	begin(mode);
	said("free", CU(cuMemFreeAsync, va, stream));
	launch(end());
	said("free", CU(cuMemFreeAsync, va, NULL));
	finish();
}

static void plain_free_async(int mode)
{
	address va = get(SIZE);

	begin(mode);
	said("free", CU(cuMemFreeAsync, va, stream));
	launch(end());
	said("free", CU(cuMemFree_v2, va));
	finish();
}

static void async_elsewhere(int mode)
{
	address va = 0;
	result code;

	begin(mode);
	code = said("alloc", CU(cuMemAllocAsync, &va, SIZE, other));
	launch(end());
	if (!code)
		said("free", CU(cuMemFreeAsync, va, other));
	finish();
}

static void async_free_elsewhere(int mode)
{
	address va;

	begin(mode);
	launch(end());
	va = get_async(SIZE, other);
	said("sync", CU(cuCtxSynchronize));
	said("begin", CU(cuStreamBeginCapture_v2, stream, mode));
	said("free", CU(cuMemFreeAsync, va, other));
	launch(end());
	finish();
}

/* A stream that waits for the legacy default stream, and that for it. */
static void begin_blocking(int mode)
{
	must("cuStreamCreate", CU(cuStreamCreate, &stream, 0));
	other = new_stream();
	said("sync", CU(cuCtxSynchronize));
	said("begin", CU(cuStreamBeginCapture_v2, stream, mode));
}

static void async_legacy(int mode)
{
	address va = 0;
	result code;

	begin_blocking(mode);
	code = said("alloc", CU(cuMemAllocAsync, &va, SIZE, NULL));
	launch(end());
	if (!code)
		said("free", CU(cuMemFreeAsync, va, NULL));
	finish();
}

static void async_free_legacy(int mode)
{
	address va = get_async(SIZE, NULL);

	begin_blocking(mode);
	said("free", CU(cuMemFreeAsync, va, NULL));
	launch(end());
	said("free", CU(cuMemFreeAsync, va, NULL));
	finish();
}

static void attributes(int mode)
{
	address va = get(SIZE), base;
	unsigned long long value;
	size_t size;
	void *pool;

	begin(mode);
	said("attribute", CU(cuPointerGetAttribute, &value, 12, va));
	said("range", CU(cuMemGetAddressRange_v2, &base, &size, va));
	said("pool", CU(cuDeviceGetDefaultMemPool, &pool, device));
	said("used", CU(cuMemPoolGetAttribute, pool, 7, &value));
	launch(end());
	said("free", CU(cuMemFree_v2, va));
	finish();
}

static void trim(int mode)
{
	void *pool;

	begin(mode);
	said("pool", CU(cuDeviceGetDefaultMemPool, &pool, device));
	said("trim", CU(cuMemPoolTrimTo, pool, 0));
	launch(end());
	finish();
}

/* Beside a capture, too, memory that a kernel uses is freed as without one. */
static void free_while_busy(int mode)
{
	address va = get(SIZE);
	void *graph;

	begin(mode);
	launch(end());
	busy(other);
	said("begin", CU(cuStreamBeginCapture_v2, stream, mode));
	said("free", CU(cuMemFree_v2, va));
	graph = end();
	waited();
	launch(graph);
	said("free", CU(cuMemFree_v2, va));
	finish();
}

#define MODES(name, run, ...) \
	{ "capture-global-" name, run, 0, __VA_ARGS__ }, \
	{ "capture-thread-" name, run, 1, __VA_ARGS__ }, \
	{ "capture-relaxed-" name, run, 2, __VA_ARGS__ }

static const struct row rows[] = {
	MODES("info", info, NULL, NULL),
	MODES("attributes", attributes, NULL, NULL),
	MODES("alloc", alloc, DIFFERS_BESIDE, NULL),
	MODES("free", free_plain, NULL, NULL),
	MODES("free-of-async", free_of_async, NULL, "frees memory by the call of its kind only"),
	MODES("async", async_inside, NULL, NULL),
	MODES("async-free-of-outside", async_free_outside, NULL, "answers captured frees in another way"),
	MODES("async-free-of-plain", plain_free_async, NULL, NULL),
	MODES("async-elsewhere", async_elsewhere, DIFFERS_BESIDE, NULL),
	MODES("async-free-elsewhere", async_free_elsewhere, DIFFERS_BESIDE, NULL),
	MODES("async-legacy", async_legacy, NULL, "has no blocking streams"),
	MODES("async-free-legacy", async_free_legacy, NULL, "has no blocking streams"),
	MODES("trim", trim, NULL, NULL),
	MODES("free-while-busy", free_while_busy, NULL, NULL),
};

const struct rows rows_captures = ROWS("captures", rows);
