// SPDX-License-Identifier: LGPL-2.1-or-later
/* Contexts: none, others, the last release, resets and use after them; and what calls answer after a kernel failed. */
#define _GNU_SOURCE 1
#include <string.h>
#include <time.h>

#include "rows.h"

#define SIZE ((size_t)3000000)
#define MIB ((size_t)1 << 20)

static void without(int arg)
{
	address va = get(SIZE), async = get_async(SIZE, NULL), got = 0;
	size_t free, total;
	unsigned long long value;

	(void)arg;
	said("sync", CU(cuCtxSynchronize));
	said("none", CU(cuCtxSetCurrent, NULL));
	said("alloc", CU(cuMemAlloc_v2, &got, SIZE));
	said("info", CU(cuMemGetInfo_v2, &free, &total));
	said("attribute", CU(cuPointerGetAttribute, &value, 11, va));
	said("free", CU(cuMemFree_v2, va));
	said("free-of-async", CU(cuMemFree_v2, async));
	said("back", CU(cuCtxSetCurrent, primary));
	said("gone", CU(cuMemFree_v2, va));
}

static void without_async(int arg)
{
	address va = get_async(SIZE, NULL), got = 0;

	(void)arg;
	said("sync", CU(cuCtxSynchronize));
	said("none", CU(cuCtxSetCurrent, NULL));
	said("alloc", CU(cuMemAllocAsync, &got, SIZE, NULL));
	said("free", CU(cuMemFreeAsync, va, NULL));
	said("back", CU(cuCtxSetCurrent, primary));
	said("free", CU(cuMemFreeAsync, va, NULL));
	said("sync", CU(cuCtxSynchronize));
}

static void other_context(int arg)
{
	void *context = NULL, *at = NULL;
	address va = 0, async = 0, mine = get(SIZE);
	size_t free, total;

	(void)arg;
	said("create", CU(cuCtxCreate_v2, &context, 0, device));
	said("alloc", CU(cuMemAlloc_v2, &va, SIZE));
	said("attribute", CU(cuPointerGetAttribute, &at, 1, va));
	fact("its", at == context);
	said("info", CU(cuMemGetInfo_v2, &free, &total));
	said("async", CU(cuMemAllocAsync, &async, SIZE, NULL));
	said("async-free", CU(cuMemFreeAsync, async, NULL));
	said("free-of-primary", CU(cuMemFree_v2, mine));
	said("primary", CU(cuCtxSetCurrent, primary));
	said("free-of-other", CU(cuMemFree_v2, va));
	mine = get(SIZE);
	said("destroy", CU(cuCtxDestroy_v2, context));
	said("free", CU(cuMemFree_v2, mine));
}

/* Only the work of the memory's own context is waited for. */
static void wait_for_owner(int arg)
{
	void *context = NULL, *stream = new_stream();
	address va = 0, mine = get(SIZE);

	(void)arg;
	said("create", CU(cuCtxCreate_v2, &context, 0, device));
	said("alloc", CU(cuMemAlloc_v2, &va, SIZE));
	said("primary", CU(cuCtxSetCurrent, primary));
	busy(stream);
	said("free-of-other", CU(cuMemFree_v2, va));
	waited();
	busy(stream);
	said("other", CU(cuCtxSetCurrent, context));
	said("free-of-primary", CU(cuMemFree_v2, mine));
	said("primary", CU(cuCtxSetCurrent, primary));
	waited();
	said("stream-destroy", CU(cuStreamDestroy_v2, stream));
	said("destroy", CU(cuCtxDestroy_v2, context));
}

static void use(void)
{
	unsigned char out[1000], in[1000] = { 0 };
	address va = 0;

	memset(out, 0x5a, sizeof(out));
	said("alloc", CU(cuMemAlloc_v2, &va, SIZE));
	said("write", CU(cuMemcpyHtoD_v2, va, out, sizeof(out)));
	said("read", CU(cuMemcpyDtoH_v2, in, va, sizeof(in)));
	fact("equal", !memcmp(in, out, sizeof(in)));
	said("free", CU(cuMemFree_v2, va));
	va = 0;
	said("async", CU(cuMemAllocAsync, &va, SIZE, NULL));
	said("async-free", CU(cuMemFreeAsync, va, NULL));
	said("sync", CU(cuCtxSynchronize));
}

/* After a reset, or the last release. */
static void renew(void)
{
	void *again = NULL;

	kernels_lost = true;
	said("retain", CU(cuDevicePrimaryCtxRetain, &again, device));
	fact("same", again == primary);
	if (again)
		primary = again;
	said("current", CU(cuCtxSetCurrent, primary));
}

/* Blocks, streams and work that the program leaves behind. */
static void leave(void)
{
	void *stream = new_stream();

	get(512 * MIB);
	get(1000);
	get_async(64 * MIB, stream);
	said("async-free", CU(cuMemFreeAsync, get_async(SIZE, stream), stream));
	spin(stream, 300);
}

static void reset(int unsuffixed)
{
	address va = get(SIZE);
	size_t before = memory_free();

	leave();
	if (unsuffixed)
		said("reset", CU(cuDevicePrimaryCtxReset, device));
	else
		said("reset", CU(cuDevicePrimaryCtxReset_v2, device));
	renew();
	use();
	fact("given-back", memory_free() + 256 * MIB >= before);
	(void)va;
}

static void reset_free(int arg)
{
	address va = get(SIZE), async = get_async(SIZE, NULL);

	(void)arg;
	said("sync", CU(cuCtxSynchronize));
	said("reset", CU(cuDevicePrimaryCtxReset_v2, device));
	renew();
	said("sync", CU(cuCtxSynchronize));
	said("free", CU(cuMemFree_v2, va));
	said("free-of-async", CU(cuMemFree_v2, async));
	use();
}

static void reset_often(int arg)
{
	int i;

	(void)arg;
	for (i = 0; i < 3; i++) {
		said("reset", CU(cuDevicePrimaryCtxReset_v2, device));
		renew();
		use();
	}
}

static void reset_waits(int arg)
{
	struct timespec start, end;
	address va = get(SIZE);

	(void)arg;
	(void)va;
	spin(NULL, 2000);
	clock_gettime(CLOCK_MONOTONIC, &start);
	said("reset", CU(cuDevicePrimaryCtxReset_v2, device));
	clock_gettime(CLOCK_MONOTONIC, &end);
	fact("waited", (end.tv_sec - start.tv_sec) * 1000 + (end.tv_nsec - start.tv_nsec) / 1000000 > 1500);
	renew();
	use();
}

static void release(int arg)
{
	size_t before = memory_free();
	unsigned int flags = 0;
	int active = -1;

	(void)arg;
	leave();
	said("release", CU(cuDevicePrimaryCtxRelease_v2, device));
	said("state", CU(cuDevicePrimaryCtxGetState, device, &flags, &active));
	number("active", active);
	said("release", CU(cuDevicePrimaryCtxRelease_v2, device));
	renew();
	said("state", CU(cuDevicePrimaryCtxGetState, device, &flags, &active));
	number("active", active);
	use();
	fact("given-back", memory_free() + 256 * MIB >= before);
}

/* The handle is known, and the context is not retained. */
static void reset_unretained(int arg)
{
	(void)arg;
	said("reset", CU(cuDevicePrimaryCtxReset_v2, device));
	said("current", CU(cuCtxSetCurrent, primary));
	use();
	renew();
	use();
}

static void release_counted(int arg)
{
	address va = get(SIZE);
	void *again = NULL;

	(void)arg;
	said("retain", CU(cuDevicePrimaryCtxRetain, &again, device));
	said("release", CU(cuDevicePrimaryCtxRelease_v2, device));
	said("still", CU(cuMemsetD8Async, va, 0, SIZE, NULL));
	said("free", CU(cuMemFree_v2, va));
}

#define KEEPS "keeps what cuMemAlloc() gave at a reset"

static const struct row rows[] = {
	{ "without-context", without, .lacks = "frees nothing without a context" },
	{ "without-context-async", without_async },
	{ "other-context", other_context },
	{ "other-context-waits", wait_for_owner },
	{ "release-counted", release_counted },
	{ "release", release },
	{ "reset", reset, 0, .lacks = KEEPS },
	{ "reset-unsuffixed", reset, 1, .lacks = KEEPS },
	{ "reset-often", reset_often },
	{ "reset-free", reset_free, .differs = DIFFERS_AFTER, .lacks = KEEPS },
	{ "release-after-reset", release },
	{ "reset-waits", reset_waits, 0, DIFFERS_RESET, .lacks = "has no kernels" },
	{ "reset-unretained", reset_unretained, .differs = DIFFERS_UNRETAINED,
	  .lacks = "has no use for a context that was reset" },
};

const struct rows rows_contexts = ROWS("contexts", rows);

static void after_fault(int arg)
{
	address va = get(SIZE), async = get_async(SIZE, NULL), got = 0;
	size_t free, total;

	(void)arg;
	said("free-before", CU(cuMemFree_v2, get(SIZE)));
	fault();
	said("free", CU(cuMemFree_v2, va));
	said("free", CU(cuMemFree_v2, va));
	said("async-free", CU(cuMemFreeAsync, async, NULL));
	said("alloc", CU(cuMemAlloc_v2, &got, SIZE));
	said("async", CU(cuMemAllocAsync, &got, SIZE, NULL));
	said("info", CU(cuMemGetInfo_v2, &free, &total));
	said("sync", CU(cuCtxSynchronize));
	said("reset", CU(cuDevicePrimaryCtxReset_v2, device));
	renew();
	use();
}

static const struct row fault_rows[] = {
	{ "fault", after_fault },
};

const struct rows rows_faults = ROWS("faults", fault_rows);
