// SPDX-License-Identifier: LGPL-2.1-or-later
/* What an address says about itself. */
#include <string.h>
#include <unistd.h>

#include "rows.h"

#define SIZE 1000
#define LARGE ((size_t)64 << 20)

enum {
	CONTEXT = 1,
	DEVICE_POINTER = 3,
	BUFFER_ID = 7,
	SYNC_MEMOPS = 6,
	RANGE_START = 11,
	RANGE_SIZE = 12,
	MEMPOOL = 17,
	MAPPING_SIZE = 18,
	MAPPING_BASE = 19,
	BLOCK_ID = 20,
};

static void say_value(int attribute, address va, unsigned long long value)
{
	switch (attribute) {
	case CONTEXT:
		fact("primary", (void *)value == primary);
		break;
	case MEMPOOL:
	case BUFFER_ID:
	case BLOCK_ID:
		fact("set", value);
		break;
	case DEVICE_POINTER:
	case RANGE_START:
		fact("is-block", value == va);
		break;
	case MAPPING_BASE:
		fact("before", value <= va && value);
		break;
	case MAPPING_SIZE:
		fact("holds-block", value >= SIZE);
		break;
	default:
		number("is", (long long)value);
	}
}

static void attribute_of(int attribute, address va)
{
	unsigned long long value = 0;

	if (!said("get", CU(cuPointerGetAttribute, &value, attribute, va)))
		say_value(attribute, va, value);
}

static void of_plain(int attribute)
{
	address va = get(SIZE);

	attribute_of(attribute, va);
	said("free", CU(cuMemFree_v2, va));
}

static void of_async(int attribute)
{
	address va = get_async(SIZE, NULL);

	CU(cuCtxSynchronize);
	attribute_of(attribute, va);
	said("free", CU(cuMemFreeAsync, va, NULL));
	said("sync", CU(cuCtxSynchronize));
}

static void of_freed(int arg)
{
	address va = get(LARGE);
	unsigned long long value;

	(void)arg;
	said("free", CU(cuMemFree_v2, va));
	said("context", CU(cuPointerGetAttribute, &value, CONTEXT, va));
	said("range", CU(cuMemGetAddressRange_v2, NULL, NULL, va));
}

static void of_unknown(int arg)
{
	unsigned long long value;

	(void)arg;
	said("context", CU(cuPointerGetAttribute, &value, CONTEXT, 0x1234));
	said("size", CU(cuPointerGetAttribute, &value, RANGE_SIZE, 0x1234));
	said("null", CU(cuPointerGetAttribute, &value, RANGE_SIZE, 0));
	said("range", CU(cuMemGetAddressRange_v2, NULL, NULL, 0x1234));
	said("ipc", CU(cuIpcGetMemHandle, &(char[64]){ 0 }, 0x1234));
}

static void no_such(int arg)
{
	unsigned long long value;
	address va = get(SIZE);

	(void)arg;
	said("get", CU(cuPointerGetAttribute, &value, 999, va));
	said("set", CU(cuPointerSetAttribute, &value, 999, va));
	said("set-range", CU(cuPointerSetAttribute, &value, RANGE_SIZE, va));
	said("free", CU(cuMemFree_v2, va));
}

static void to_nowhere(int arg)
{
	address va = get(SIZE);

	(void)arg;
	said("get", CU(cuPointerGetAttribute, NULL, RANGE_SIZE, va));
	said("set", CU(cuPointerSetAttribute, NULL, SYNC_MEMOPS, va));
	said("range", CU(cuMemGetAddressRange_v2, NULL, NULL, va));
	said("free", CU(cuMemFree_v2, va));
}

/* Inside a block the range is the block's, too. */
static void several(int async)
{
	const int wanted[] = { 2, 8, DEVICE_POINTER, RANGE_START, RANGE_SIZE };
	address va = async ? get_async(LARGE, NULL) : get(LARGE);
	unsigned long long value[5] = { 0 };
	void *values[5];
	size_t i;

	CU(cuCtxSynchronize);
	for (i = 0; i < 5; i++)
		values[i] = &value[i];
	said("get", CU(cuPointerGetAttributes, 5, wanted, values, va + 4096));
	number("type", (long long)(value[0] & 0xffffffff));
	number("managed", (long long)(value[1] & 0xff));
	fact("same", value[2] == va + 4096);
	fact("start", value[3] == va);
	fact("size", value[4] == LARGE);
	memset(value, 0xff, sizeof(value));
	said("unknown", CU(cuPointerGetAttributes, 5, wanted, values, 0x1234));
	fact("start-zero", !value[3]);
	fact("size-zero", !value[4]);
	said("free", async ? CU(cuMemFreeAsync, va, NULL) : CU(cuMemFree_v2, va));
}

static void buffer_ids(int arg)
{
	unsigned long long first = 0, inside = 0, second = 0;
	address va = get(LARGE), other = get(LARGE);

	(void)arg;
	CU(cuPointerGetAttribute, &first, BUFFER_ID, va);
	CU(cuPointerGetAttribute, &inside, BUFFER_ID, va + 4096);
	CU(cuPointerGetAttribute, &second, BUFFER_ID, other);
	fact("one-a-block", first == inside && first != second);
	said("free", CU(cuMemFree_v2, va));
	said("free", CU(cuMemFree_v2, other));
}

static void sync_memops(int arg)
{
	unsigned int on = 1, off = 0;
	address va = get(LARGE);

	(void)arg;
	said("set", CU(cuPointerSetAttribute, &on, SYNC_MEMOPS, va));
	said("clear", CU(cuPointerSetAttribute, &off, SYNC_MEMOPS, va));
	said("free", CU(cuMemFree_v2, va));
}

static void range(int async)
{
	address va = async ? get_async(SIZE, NULL) : get(SIZE), base = 0;
	size_t size = 0;

	CU(cuCtxSynchronize);
	said("range", CU(cuMemGetAddressRange_v2, &base, &size, va + 1));
	fact("base", base == va);
	fact("size", size == SIZE);
	said("no-base", CU(cuMemGetAddressRange_v2, NULL, &size, va));
	said("no-size", CU(cuMemGetAddressRange_v2, &base, NULL, va));
	said("free", async ? CU(cuMemFreeAsync, va, NULL) : CU(cuMemFree_v2, va));
}

static void ipc(int async)
{
	address va = async ? get_async(LARGE, NULL) : get(LARGE);
	char handle[64];

	CU(cuCtxSynchronize);
	said("handle", CU(cuIpcGetMemHandle, handle, va));
	said("free", async ? CU(cuMemFreeAsync, va, NULL) : CU(cuMemFree_v2, va));
}

static void retain(int async)
{
	address va = async ? get_async(LARGE, NULL) : get(LARGE);
	unsigned long long handle = 0;

	CU(cuCtxSynchronize);
	if (!said("retain", CU(cuMemRetainAllocationHandle, &handle, (void *)va)))
		said("release", CU(cuMemRelease, handle));
	said("free", async ? CU(cuMemFreeAsync, va, NULL) : CU(cuMemFree_v2, va));
}

static void dmabuf(int async)
{
	address va = async ? get_async(LARGE, NULL) : get(LARGE);
	int fd = -1;

	CU(cuCtxSynchronize);
	if (!said("export", CU(cuMemGetHandleForAddressRange, &fd, va, LARGE, 1, 0)))
		close(fd);
	said("free", async ? CU(cuMemFreeAsync, va, NULL) : CU(cuMemFree_v2, va));
}

#define NO_BLOCKS "knows no blocks of its own"
#define PLAIN(name, number, ...) { "attribute-" name, of_plain, number, __VA_ARGS__ }
#define ASYNC(name, number, ...) { "async-attribute-" name, of_async, number, __VA_ARGS__ }

static const struct row rows[] = {
	PLAIN("context", 1, DIFFERS_TRUTH),
	PLAIN("memory-type", 2, NULL),
	PLAIN("device-pointer", 3, NULL),
	PLAIN("host-pointer", 4, NULL),
	PLAIN("sync-memops", 6, DIFFERS_TRUTH),
	PLAIN("buffer-id", 7, NULL),
	PLAIN("is-managed", 8, NULL),
	PLAIN("device-ordinal", 9, NULL),
	PLAIN("legacy-ipc", 10, DIFFERS_TRUTH),
	PLAIN("range-start", 11, NULL, NO_BLOCKS),
	PLAIN("range-size", 12, NULL, NO_BLOCKS),
	PLAIN("mapped", 13, NULL),
	PLAIN("handle-types", 14, DIFFERS_TRUTH),
	PLAIN("rdma", 15, DIFFERS_TRUTH),
	PLAIN("access-flags", 16, DIFFERS_TRUTH),
	PLAIN("mempool", 17, NULL),
	PLAIN("mapping-size", 18, NULL),
	PLAIN("mapping-base", 19, NULL),
	PLAIN("block-id", 20, DIFFERS_TRUTH),
	PLAIN("decompress", 21, DIFFERS_TRUTH),
	ASYNC("context", 1, NULL),
	ASYNC("memory-type", 2, NULL),
	ASYNC("device-pointer", 3, NULL),
	ASYNC("host-pointer", 4, NULL),
	ASYNC("sync-memops", 6, DIFFERS_TRUTH),
	ASYNC("buffer-id", 7, NULL),
	ASYNC("is-managed", 8, NULL),
	ASYNC("device-ordinal", 9, NULL),
	ASYNC("legacy-ipc", 10, NULL),
	ASYNC("range-start", 11, NULL, NO_BLOCKS),
	ASYNC("range-size", 12, NULL, NO_BLOCKS),
	ASYNC("mapped", 13, NULL),
	ASYNC("handle-types", 14, DIFFERS_TRUTH),
	ASYNC("rdma", 15, DIFFERS_TRUTH),
	ASYNC("access-flags", 16, DIFFERS_TRUTH),
	ASYNC("mempool", 17, DIFFERS_TRUTH),
	ASYNC("mapping-size", 18, NULL),
	ASYNC("mapping-base", 19, NULL),
	ASYNC("block-id", 20, DIFFERS_TRUTH),
	ASYNC("decompress", 21, DIFFERS_TRUTH),
	{ "attribute-of-freed", of_freed, 0, DIFFERS_TRUTH },
	{ "attribute-of-unknown", of_unknown },
	{ "attribute-no-such", no_such },
	{ "attributes", several, 0, .lacks = NO_BLOCKS },
	{ "async-attributes", several, 1, .lacks = NO_BLOCKS },
	{ "buffer-ids", buffer_ids, 0, DIFFERS_TRUTH },
	{ "range", range, 0, DIFFERS_RANGE },
	{ "async-range", range, 1, DIFFERS_RANGE },
	{ "ipc", ipc, 0, .lacks = "shares no memory" },
	{ "async-ipc", ipc, 1, DIFFERS_IPC },
	{ "retain", retain, 0, DIFFERS_TRUTH },
	{ "async-retain", retain, 1, DIFFERS_TRUTH },
	{ "dmabuf", dmabuf, 0 },
	{ "async-dmabuf", dmabuf, 1 },
	{ "sync-memops", sync_memops, .lacks = NO_BLOCKS },
	{ "attribute-to-nowhere", to_nowhere, .lacks = "checks no NULL pointers" },
};

const struct rows rows_attributes = ROWS("attributes", rows);
