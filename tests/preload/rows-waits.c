// SPDX-License-Identifier: LGPL-2.1-or-later
/* Which calls wait for a kernel that runs, and which do not. */
#include "rows.h"

#define SIZE ((size_t)8 << 20)

enum stream { LEGACY, PER_THREAD, OWN };

static void *own;

static void *stream_of(int which)
{
	own = NULL;
	if (which == LEGACY)
		return NULL;
	if (which == PER_THREAD)
		return (void *)2;
	own = new_stream();
	return own;
}

static void done(void)
{
	waited();
	if (own)
		said("destroy", CU(cuStreamDestroy_v2, own));
}

static void free_large(int which)
{
	void *stream = stream_of(which);
	address va = get(SIZE);

	busy(stream);
	said("free", CU(cuMemFree_v2, va));
	done();
}

static void free_small(int which)
{
	void *stream = stream_of(which);
	address va = get(1000);

	busy(stream);
	said("free", CU(cuMemFree_v2, va));
	done();
}

static void free_async_memory(int which)
{
	void *stream = stream_of(which);
	address va = get_async(SIZE, stream);

	busy(stream);
	said("free", CU(cuMemFree_v2, va));
	done();
}

static void free_in_order(int which)
{
	void *stream = stream_of(which);
	address va = get_async(SIZE, stream);

	busy(stream);
	said("free", CU(cuMemFreeAsync, va, stream));
	done();
}

static void free_plain_in_order(int which)
{
	void *stream = stream_of(which);
	address va = get(SIZE);

	busy(stream);
	said("free", CU(cuMemFreeAsync, va, stream));
	done();
}

static void free_nothing(int which)
{
	busy(stream_of(which));
	said("free", CU(cuMemFree_v2, 0));
	done();
}

static void free_wrong(int which)
{
	address va = get(SIZE);

	busy(stream_of(which));
	said("free", CU(cuMemFree_v2, va + 512));
	done();
	said("free", CU(cuMemFree_v2, va));
}

static void free_without_context(int which)
{
	address va = get(SIZE);

	busy(stream_of(which));
	said("none", CU(cuCtxSetCurrent, NULL));
	said("free", CU(cuMemFree_v2, va));
	said("back", CU(cuCtxSetCurrent, primary));
	done();
}

static void free_of_host(int which)
{
	void *host = NULL;

	said("alloc", CU(cuMemAllocHost_v2, &host, 100000));
	busy(stream_of(which));
	said("free", CU(cuMemFreeHost, host));
	done();
}

static void alloc(int which)
{
	address va = 0;

	busy(stream_of(which));
	said("alloc", CU(cuMemAlloc_v2, &va, SIZE));
	done();
	said("free", CU(cuMemFree_v2, va));
}

/* What the kernel still uses is for no other stream to write to. */
static void alloc_beside_pending(int which)
{
	void *stream = stream_of(which);
	address pending = get_async(SIZE, stream), va = 0;

	busy(stream);
	said("free", CU(cuMemFreeAsync, pending, stream));
	said("alloc", CU(cuMemAlloc_v2, &va, SIZE));
	fact("other", va != pending);
	done();
	said("free", CU(cuMemFree_v2, va));
}

static void alloc_async(int which)
{
	void *stream = stream_of(which);
	address va = 0;

	busy(stream);
	said("alloc", CU(cuMemAllocAsync, &va, SIZE, stream));
	done();
	said("free", CU(cuMemFreeAsync, va, NULL));
}

static void alloc_async_elsewhere(int which)
{
	void *stream = stream_of(which), *other = new_stream();
	address pending = get_async(SIZE, stream), va = 0;

	busy(stream);
	said("free", CU(cuMemFreeAsync, pending, stream));
	said("alloc", CU(cuMemAllocAsync, &va, SIZE, other));
	done();
	said("free", CU(cuMemFreeAsync, va, NULL));
	said("destroy", CU(cuStreamDestroy_v2, other));
}

static void alloc_pitch(int which)
{
	size_t pitch;
	address va = 0;

	busy(stream_of(which));
	said("alloc", CU(cuMemAllocPitch_v2, &va, &pitch, 1000, 1000, 4));
	done();
	said("free", CU(cuMemFree_v2, va));
}

static void info(int which)
{
	size_t free, total;

	busy(stream_of(which));
	said("info", CU(cuMemGetInfo_v2, &free, &total));
	done();
}

static void attributes(int which)
{
	address va = get(SIZE), base;
	unsigned long long value;
	size_t size;

	busy(stream_of(which));
	said("attribute", CU(cuPointerGetAttribute, &value, 11, va));
	said("range", CU(cuMemGetAddressRange_v2, &base, &size, va));
	done();
	said("free", CU(cuMemFree_v2, va));
}

static void pool_trim(int which)
{
	void *stream = stream_of(which), *pool;
	address va = get_async(SIZE, stream);
	unsigned long long used;

	said("pool", CU(cuDeviceGetDefaultMemPool, &pool, device));
	busy(stream);
	said("free", CU(cuMemFreeAsync, va, stream));
	said("used", CU(cuMemPoolGetAttribute, pool, 7, &used));
	said("trim", CU(cuMemPoolTrimTo, pool, 0));
	done();
}

static void destroy(int which)
{
	void *stream = stream_of(which);
	address va = get_async(SIZE, stream);

	busy(stream);
	said("free", CU(cuMemFreeAsync, va, stream));
	own = NULL;
	said("destroy", CU(cuStreamDestroy_v2, stream));
	done();
}

#define KINDS "frees memory by the call of its kind only"

static const struct row rows[] = {
	{ "wait-free-legacy", free_large, LEGACY },
	{ "wait-free-per-thread", free_large, PER_THREAD },
	{ "wait-free", free_large, OWN },
	{ "wait-free-small-legacy", free_small, LEGACY },
	{ "wait-free-small", free_small, OWN },
	{ "wait-free-of-async-legacy", free_async_memory, LEGACY, DIFFERS_WAIT, KINDS },
	{ "wait-free-of-async", free_async_memory, OWN, DIFFERS_WAIT, KINDS },
	{ "wait-free-async-legacy", free_in_order, LEGACY },
	{ "wait-free-async", free_in_order, OWN },
	{ "wait-free-async-of-plain", free_plain_in_order, OWN, .lacks = KINDS },
	{ "wait-free-nothing", free_nothing, OWN },
	{ "wait-free-wrong", free_wrong, OWN },
	{ "wait-free-without-context", free_without_context, OWN, .lacks = "frees nothing without a context" },
	{ "wait-free-host", free_of_host, OWN },
	{ "wait-alloc-legacy", alloc, LEGACY },
	{ "wait-alloc", alloc, OWN },
	{ "wait-alloc-beside-pending", alloc_beside_pending, OWN },
	{ "wait-alloc-async-legacy", alloc_async, LEGACY },
	{ "wait-alloc-async", alloc_async, OWN },
	{ "wait-alloc-async-elsewhere", alloc_async_elsewhere, OWN },
	{ "wait-pitch", alloc_pitch, OWN },
	{ "wait-info", info, OWN },
	{ "wait-attributes", attributes, OWN },
	{ "wait-trim", pool_trim, OWN },
	{ "wait-stream-destroy", destroy, OWN },
};

const struct rows rows_waits = ROWS("waits", rows);
