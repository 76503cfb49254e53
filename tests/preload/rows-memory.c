// SPDX-License-Identifier: LGPL-2.1-or-later
/* What calls for memory answer: sizes, pointers, alignment, errors, the stream-ordered allocator and its pools. */
#include <string.h>

#include "rows.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

enum {
	POOL_RELEASE_THRESHOLD = 4,
	POOL_RESERVED = 5,
	POOL_RESERVED_HIGH = 6,
	POOL_USED = 7,
	POOL_USED_HIGH = 8,
};

static void alloc_sizes(int arg)
{
	static const size_t sizes[] = { 1, 256, 1000, 4 * KIB, MIB, 2 * MIB + 1, 64 * MIB };
	address va[sizeof(sizes) / sizeof(*sizes)];
	size_t i;

	(void)arg;
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		va[i] = 0;
		said("alloc", CU(cuMemAlloc_v2, &va[i], sizes[i]));
		fact("aligned", !(va[i] % 512));
	}
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		said("free", CU(cuMemFree_v2, va[i]));
}

static void alloc_nothing(int arg)
{
	address va = 1;

	(void)arg;
	said("alloc", CU(cuMemAlloc_v2, &va, 0));
	fact("untouched", va == 1);
}

static void alloc_nowhere(int arg)
{
	(void)arg;
	said("alloc", CU(cuMemAlloc_v2, NULL, 1000));
	said("of-nothing", CU(cuMemAlloc_v2, NULL, 0));
}

static void alloc_too_much(int arg)
{
	address va = 1;

	(void)arg;
	said("petabyte", CU(cuMemAlloc_v2, &va, (size_t)1 << 50));
	said("all", CU(cuMemAlloc_v2, &va, SIZE_MAX));
	va = get(MIB);
	said("free", CU(cuMemFree_v2, va));
}

static void pitch(int arg)
{
	static const size_t widths[] = { 1, 512, 513, 4096, 100000 };
	static const unsigned int elements[] = { 4, 8, 16, 0, 1, 2, 3, 12, 32 };
	size_t i, got;
	address va;

	(void)arg;
	for (i = 0; i < sizeof(widths) / sizeof(*widths); i++) {
		got = 0;
		if (!said("width", CU(cuMemAllocPitch_v2, &va, &got, widths[i], 100, 4)))
			said("free", CU(cuMemFree_v2, va));
		number("pitch", (long long)got);
	}
	for (i = 0; i < sizeof(elements) / sizeof(*elements); i++)
		if (!said("element", CU(cuMemAllocPitch_v2, &va, &got, 1000, 10, elements[i])))
			said("free", CU(cuMemFree_v2, va));
	said("too-wide", CU(cuMemAllocPitch_v2, &va, &got, SIZE_MAX - 1000, 100, 4));
}

static void pitch_nothing(int arg)
{
	size_t got = 0;
	address va = 0;

	(void)arg;
	if (!said("width-0", CU(cuMemAllocPitch_v2, &va, &got, 0, 10, 4)))
		said("free", CU(cuMemFree_v2, va));
	va = 0;
	if (!said("height-0", CU(cuMemAllocPitch_v2, &va, &got, 1000, 0, 4)))
		said("free", CU(cuMemFree_v2, va));
	said("no-address", CU(cuMemAllocPitch_v2, NULL, &got, 1000, 10, 4));
	said("no-pitch", CU(cuMemAllocPitch_v2, &va, NULL, 1000, 10, 4));
}

static void free_answers(int arg)
{
	address va = get(3000000), small = get(1000);

	(void)arg;
	said("null", CU(cuMemFree_v2, 0));
	said("interior", CU(cuMemFree_v2, va + 512));
	said("interior-of-small", CU(cuMemFree_v2, small + 256));
	said("unknown", CU(cuMemFree_v2, 0x1234));
	said("free", CU(cuMemFree_v2, va));
	said("twice", CU(cuMemFree_v2, va));
	said("free-small", CU(cuMemFree_v2, small));
	said("small-twice", CU(cuMemFree_v2, small));
}

static void free_host(int arg)
{
	void *host = NULL;
	int here = 0;

	(void)arg;
	said("alloc", CU(cuMemAllocHost_v2, &host, 100000));
	said("as-device", CU(cuMemFree_v2, (address)host));
	said("of-program", CU(cuMemFree_v2, (address)&here));
	said("free", CU(cuMemFreeHost, host));
}

static void contents(int arg)
{
	unsigned char out[1000], in[1000];
	address va = get(sizeof(out));

	(void)arg;
	memset(out, 0x5a, sizeof(out));
	memset(in, 0, sizeof(in));
	said("write", CU(cuMemcpyHtoD_v2, va, out, sizeof(out)));
	said("read", CU(cuMemcpyDtoH_v2, in, va, sizeof(in)));
	fact("equal", !memcmp(out, in, sizeof(in)));
	said("free", CU(cuMemFree_v2, va));
}

static void info(int arg)
{
	size_t free = 0, total = 0, device_total = 0, before = memory_free();
	address va;

	(void)arg;
	said("info", CU(cuMemGetInfo_v2, &free, &total));
	fact("within", free && free <= total);
	va = get(256 * MIB);
	fact("less", memory_free() + 256 * MIB <= before);
	said("free", CU(cuMemFree_v2, va));
	fact("back", memory_free() + 4 * MIB >= before);
	said("total", CU(cuDeviceTotalMem_v2, &device_total, device));
	fact("total-is", device_total == total);
}

static void info_nulls(int arg)
{
	size_t value;

	(void)arg;
	said("no-free", CU(cuMemGetInfo_v2, NULL, &value));
	said("no-total", CU(cuMemGetInfo_v2, &value, NULL));
	said("neither", CU(cuMemGetInfo_v2, NULL, NULL));
}

static void async_nothing(int arg)
{
	address va = 1;

	(void)arg;
	said("alloc", CU(cuMemAllocAsync, &va, 0, NULL));
	fact("null", !va);
	said("free", CU(cuMemFreeAsync, 0, NULL));
}

static void async_nowhere(int arg)
{
	(void)arg;
	said("alloc", CU(cuMemAllocAsync, NULL, 1000, NULL));
}

static void async_streams(int arg)
{
	void *per_thread = (void *)2, *stream = new_stream(), *other = new_stream();
	void *streams[] = { NULL, per_thread, stream };
	address va = 0;
	size_t i;

	(void)arg;
	for (i = 0; i < sizeof(streams) / sizeof(*streams); i++) {
		said("alloc", CU(cuMemAllocAsync, &va, 3000000, streams[i]));
		fact("aligned", !(va % 512));
		said("fill", CU(cuMemsetD8Async, va, 1, 3000000, streams[i]));
		said("free", CU(cuMemFreeAsync, va, streams[i]));
		said("alloc", CU(cuMemAllocAsync, &va, 1000, streams[i]));
		said("sync", CU(cuStreamSynchronize, streams[i]));
		said("free-elsewhere", CU(cuMemFreeAsync, va, other));
	}
	said("sync", CU(cuCtxSynchronize));
	said("destroy", CU(cuStreamDestroy_v2, stream));
	said("destroy", CU(cuStreamDestroy_v2, other));
}

static void async_per_thread(int arg)
{
	address va = 0;

	(void)arg;
	said("alloc", CU(cuMemAllocAsync_ptsz, &va, 3000000, NULL));
	said("free", CU(cuMemFreeAsync_ptsz, va, NULL));
	said("sync", CU(cuCtxSynchronize));
}

static void async_mixed(int arg)
{
	address va = get(3000000), async = get_async(3000000, NULL);

	(void)arg;
	said("async-free-of-alloc", CU(cuMemFreeAsync, va, NULL));
	said("sync", CU(cuCtxSynchronize));
	said("gone", CU(cuMemFree_v2, va));
	said("free-of-async", CU(cuMemFree_v2, async));
	said("gone", CU(cuMemFree_v2, async));
}

static void async_wrong(int arg)
{
	address va = get_async(3000000, NULL);

	(void)arg;
	said("sync", CU(cuCtxSynchronize));
	said("interior", CU(cuMemFreeAsync, va + 512, NULL));
	said("unknown", CU(cuMemFreeAsync, 0x1234, NULL));
	said("free", CU(cuMemFreeAsync, va, NULL));
	said("sync", CU(cuCtxSynchronize));
	said("too-much", CU(cuMemAllocAsync, &va, (size_t)1 << 50, NULL));
}

static void async_twice(int arg)
{
	address va = get_async(3000000, NULL);

	(void)arg;
	said("free", CU(cuMemFreeAsync, va, NULL));
	said("sync", CU(cuCtxSynchronize));
	said("twice", CU(cuMemFreeAsync, va, NULL));
}

static void stream_destroyed(int arg)
{
	void *stream = new_stream(), *other = new_stream();
	address kept = get_async(3000000, stream), freed = get_async(3000000, stream), va = 0;

	(void)arg;
	said("free", CU(cuMemFreeAsync, freed, stream));
	said("destroy", CU(cuStreamDestroy_v2, stream));
	said("alloc", CU(cuMemAllocAsync, &va, 3000000, other));
	said("free-elsewhere", CU(cuMemFreeAsync, kept, other));
	said("free", CU(cuMemFreeAsync, va, other));
	said("sync", CU(cuCtxSynchronize));
	said("destroy", CU(cuStreamDestroy_v2, other));
}

static void *default_pool(void)
{
	void *pool = NULL;

	said("default", CU(cuDeviceGetDefaultMemPool, &pool, device));
	return pool;
}

static unsigned long long pool_value(void *pool, int attribute)
{
	unsigned long long value = 0;

	said("get", CU(cuMemPoolGetAttribute, pool, attribute, &value));
	return value;
}

static void from_pool(int arg)
{
	void *pool = default_pool(), *current = NULL;
	address va = 0;

	(void)arg;
	said("current", CU(cuDeviceGetMemPool, &current, device));
	fact("same", current == pool);
	said("alloc", CU(cuMemAllocFromPoolAsync, &va, 3000000, pool, NULL));
	said("free", CU(cuMemFreeAsync, va, NULL));
	said("sync", CU(cuCtxSynchronize));
}

static void own_pool(int arg)
{
	const struct pool_props props = { .type = 1, .location_type = 1, .location_id = device };
	unsigned long long keep = ~0ULL;
	void *preset = default_pool(), *pool = NULL, *current = NULL;
	address va = 0;

	(void)arg;
	said("create", CU(cuMemPoolCreate, &pool, &props));
	said("keep", CU(cuMemPoolSetAttribute, pool, POOL_RELEASE_THRESHOLD, &keep));
	said("alloc", CU(cuMemAllocFromPoolAsync, &va, 3000000, pool, NULL));
	fact("used", pool_value(pool, POOL_USED) >= 3000000);
	said("free", CU(cuMemFreeAsync, va, NULL));
	said("set-current", CU(cuDeviceSetMemPool, device, pool));
	said("current", CU(cuDeviceGetMemPool, &current, device));
	fact("is", current == pool);
	said("alloc", CU(cuMemAllocAsync, &va, 3000000, NULL));
	fact("used", pool_value(pool, POOL_USED) >= 3000000);
	said("back", CU(cuDeviceSetMemPool, device, preset));
	said("free", CU(cuMemFreeAsync, va, NULL));
	said("sync", CU(cuCtxSynchronize));
	said("trim", CU(cuMemPoolTrimTo, pool, 0));
	fact("empty", !pool_value(pool, POOL_RESERVED));
	said("destroy", CU(cuMemPoolDestroy, pool));
}

static void pool_settings(int arg)
{
	void *pool = default_pool();
	unsigned long long value = 64 * MIB;
	int flag = -1, i;

	(void)arg;
	number("threshold", (long long)pool_value(pool, POOL_RELEASE_THRESHOLD));
	said("set", CU(cuMemPoolSetAttribute, pool, POOL_RELEASE_THRESHOLD, &value));
	number("threshold", (long long)pool_value(pool, POOL_RELEASE_THRESHOLD));
	value = 0;
	said("set", CU(cuMemPoolSetAttribute, pool, POOL_RELEASE_THRESHOLD, &value));
	for (i = 1; i <= 3; i++) {
		said("get-reuse", CU(cuMemPoolGetAttribute, pool, i, &flag));
		number("is", flag);
		said("set-reuse", CU(cuMemPoolSetAttribute, pool, i, &flag));
	}
	said("no-such", CU(cuMemPoolGetAttribute, pool, 99, &value));
}

static void pool_counts(int arg)
{
	void *pool = default_pool();
	unsigned long long used, value;
	address va;

	(void)arg;
	CU(cuCtxSynchronize);
	CU(cuMemPoolTrimTo, pool, 0);
	used = pool_value(pool, POOL_USED);
	va = get_async(64 * MIB, NULL);
	fact("used", pool_value(pool, POOL_USED) >= used + 64 * MIB);
	fact("used-high", pool_value(pool, POOL_USED_HIGH) >= pool_value(pool, POOL_USED));
	fact("reserved-high", pool_value(pool, POOL_RESERVED_HIGH) >= pool_value(pool, POOL_RESERVED));
	said("free", CU(cuMemFreeAsync, va, NULL));
	CU(cuCtxSynchronize);
	fact("unused", pool_value(pool, POOL_USED) == used);
	value = 0;
	said("clear", CU(cuMemPoolSetAttribute, pool, POOL_USED_HIGH, &value));
	said("clear", CU(cuMemPoolSetAttribute, pool, POOL_RESERVED_HIGH, &value));
	fact("cleared", pool_value(pool, POOL_USED_HIGH) < used + 64 * MIB);
	value = 1;
	said("to-1", CU(cuMemPoolSetAttribute, pool, POOL_USED_HIGH, &value));
	said("set-used", CU(cuMemPoolSetAttribute, pool, POOL_USED, &value));
}

static void trim(int arg)
{
	void *pool = default_pool();
	unsigned long long keep = ~0ULL, reserved;
	size_t before;
	address va;

	(void)arg;
	CU(cuCtxSynchronize);
	said("trim", CU(cuMemPoolTrimTo, pool, 0));
	reserved = pool_value(pool, POOL_RESERVED);
	before = memory_free();
	said("keep", CU(cuMemPoolSetAttribute, pool, POOL_RELEASE_THRESHOLD, &keep));
	va = get_async(256 * MIB, NULL);
	said("free", CU(cuMemFreeAsync, va, NULL));
	said("sync", CU(cuCtxSynchronize));
	fact("kept", pool_value(pool, POOL_RESERVED) >= reserved + 256 * MIB);
	said("trim", CU(cuMemPoolTrimTo, pool, (size_t)1 << 40));
	fact("kept", pool_value(pool, POOL_RESERVED) >= reserved + 256 * MIB);
	said("trim", CU(cuMemPoolTrimTo, pool, 0));
	fact("given-back", pool_value(pool, POOL_RESERVED) <= reserved);
	fact("free-again", memory_free() + 4 * MIB >= before);
	keep = 0;
	said("threshold", CU(cuMemPoolSetAttribute, pool, POOL_RELEASE_THRESHOLD, &keep));
}

static void pool_access(int arg)
{
	struct pool_access access = { 1, device, 3 };
	void *pool = default_pool();
	const int location[] = { 1, device };
	int flags = -1;

	(void)arg;
	said("get", CU(cuMemPoolGetAccess, &flags, pool, location));
	number("flags", flags);
	said("set", CU(cuMemPoolSetAccess, pool, &access, 1));
	access.flags = 0;
	said("none", CU(cuMemPoolSetAccess, pool, &access, 1));
	access.location_id = 1000;
	said("no-such-device", CU(cuMemPoolSetAccess, pool, &access, 1));
	said("nothing", CU(cuMemPoolSetAccess, pool, NULL, 0));
}

static void resolver(int arg)
{
	static const char *const names[] = {
		"cuMemAlloc", "cuMemFree", "cuMemAllocAsync", "cuMemFreeAsync", "cuMemGetInfo", "cuNoSuchCall",
	};
	result (*alloc)(address *va, size_t size);
	int status = -1;
	void *call;
	address va;
	size_t i;

	(void)arg;
	for (i = 0; i < sizeof(names) / sizeof(*names); i++) {
		call = NULL;
		said(names[i], CU(cuGetProcAddress_v2, names[i], &call, 12000, 0, &status));
		fact("found", call);
		number("status", status);
		said("without-status", CU(cuGetProcAddress_v2, names[i], &call, 12000, 2, NULL));
	}
	said("alloc", CU(cuGetProcAddress_v2, "cuMemAlloc", &call, 3020, 0, &status));
	*(void **)&alloc = call;
	said("call", alloc(&va, 3000000));
	said("free", CU(cuMemFree_v2, va));
}

/* Those that a driver might not survive come last. */
static const struct row rows[] = {
	{ "alloc-sizes", alloc_sizes },
	{ "alloc-nothing", alloc_nothing },
	{ "alloc-too-much", alloc_too_much },
	{ "pitch", pitch },
	{ "free-answers", free_answers },
	{ "free-host", free_host },
	{ "contents", contents },
	{ "info", info },
	{ "info-nulls", info_nulls },
	{ "async-nothing", async_nothing, .lacks = "refuses nothing" },
	{ "async-streams", async_streams },
	{ "async-per-thread", async_per_thread },
	{ "async-mixed", async_mixed, .lacks = "frees memory by the call of its kind only" },
	{ "async-wrong", async_wrong },
	{ "stream-destroyed", stream_destroyed },
	{ "from-pool", from_pool },
	{ "own-pool", own_pool },
	{ "pool-settings", pool_settings },
	{ "pool-counts", pool_counts, .lacks = "counts what is free as used" },
	{ "trim", trim },
	{ "pool-access", pool_access },
	{ "resolver", resolver },
	{ "alloc-nowhere", alloc_nowhere, .lacks = "checks no NULL pointers" },
	{ "pitch-nothing", pitch_nothing, .lacks = "checks no NULL pointers" },
	{ "async-nowhere", async_nowhere, .lacks = "checks no NULL pointers" },
	{ "async-twice", async_twice },
};

const struct rows rows_memory = ROWS("memory", rows);
