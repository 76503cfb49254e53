// SPDX-License-Identifier: LGPL-2.1-or-later
/* What PyTorch calls: allocations, frees and the hooks. */
#include <errno.h>

#include "torch/alloc.h"
#include "torch/device.h"
#include "torch/graphs.h"
#include "torch/kept.h"
#include "torch/raise.h"
#include "torch/torch.h"
#include "util/captures.h"

static int (*_Atomic pressure)(int device, size_t size);

void vpmm_torch_set_pressure(int (*fn)(int device, size_t size))
{
	pressure = fn;
}

bool alloc_ask(int device, size_t size, bool *given)
{
	static _Thread_local bool asking;
	int (*fn)(int device, size_t size) = pressure;

	if (!fn || !*given)
		return false;
	*given = false;
	if (!asking) {
		asking = true;
		*given = fn(device, size);
		asking = false;
	}
	kept_retry();
	return true;
}

static int alloc_pressed(void **ptr, size_t size, int ordinal, struct CUstream_st *stream)
{
	bool given = true;
	int err = -ENOMEM;

	if (graphs_retry())
		err = vpmm_malloc(NULL, ptr, size, stream);
	while (err == -ENOMEM && alloc_ask(ordinal, size, &given))
		err = vpmm_malloc(NULL, ptr, size, stream);
	return err;
}

/* The library has given back and waited for what it could by then. */
static int allocate_retrying(void **ptr, size_t size, int ordinal, struct CUstream_st *stream)
{
	int err = vpmm_malloc(NULL, ptr, size, stream);

	if (err != -ENOMEM)
		return err;
	device_of(ordinal)->retries++;
	return alloc_pressed(ptr, size, ordinal, stream);
}

static void count_alloc(struct device *device, size_t size)
{
	uint64_t blocks, peak = device->peak_blocks;

	atomic_fetch_add_explicit(&device->alloc_bytes, size, memory_order_relaxed);
	atomic_fetch_add_explicit(&device->allocs, 1, memory_order_relaxed);
	blocks = atomic_fetch_add_explicit(&device->blocks, 1, memory_order_relaxed) + 1;
	while (blocks > peak && !atomic_compare_exchange_weak(&device->peak_blocks, &peak, blocks))
		;
}

void *vpmm_torch_alloc(ssize_t size, int ordinal, struct CUstream_st *stream)
{
	struct device *device = device_of(ordinal);
	void *ptr = NULL;
	bool entered;
	int err;

	if (!size)
		return NULL;
	/* Memory of another device would be taken for this one's. */
	if (!device_enter(ordinal, &entered)) {
		raise_failed((size_t)size, ordinal, NOT_CURRENT);
		return NULL;
	}
	kept_retry();
	if (captures_any())
		graphs_note(ordinal, stream);
	err = allocate_retrying(&ptr, (size_t)size, ordinal, stream);
	if (!err) {
		if (!device->joined)
			device_use(ordinal);
		count_alloc(device, (size_t)size);
	} else if (err == -ENOMEM) {
		device->ooms++;
	}
	device_leave(entered);
	if (err == -ENOMEM)
		raise_exhausted((size_t)size, ordinal, device->limit);
	else if (err)
		raise_failed((size_t)size, ordinal, vpmm_last_error());
	return ptr;
}

/*
 * As graphs_note(), of a device that need not be current. Where it cannot be, the next call of the stream finds the
 * capture: another device's pool has other ones.
 */
static void note(int ordinal, struct CUstream_st *stream)
{
	bool entered;

	if (!device_enter(ordinal, &entered))
		return;
	graphs_note(ordinal, stream);
	device_leave(entered);
}

void vpmm_torch_free(void *ptr, size_t size, int ordinal, struct CUstream_st *stream)
{
	struct device *device = device_of(ordinal);

	if (!ptr)
		return;
	if (captures_any())
		note(ordinal, stream);
	if (!kept_free(ptr, stream) || !device)
		return;
	atomic_fetch_sub_explicit(&device->blocks, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&device->frees, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&device->free_bytes, size, memory_order_relaxed);
}

void vpmm_torch_init(int device_count)
{
	device_set_count(device_count);
	kept_begin();
}

/* torch.cuda.empty_cache(). PyTorch calls it before each capture as well. */
void vpmm_torch_reset(void)
{
	int i;

	kept_retry();
	graphs_retry();
	for (i = 0; i < DEVICES; i++)
		vpmm_torch_trim(i, NULL);
}

int alloc_set_limit(struct device *device, double fraction)
{
	struct vpmm_info info = { .size = sizeof(info) };
	uint64_t limit = 0, most;
	int err = vpmm_pool_info(NULL, &info);

	if (err)
		return err;
	if (!device->limit_before)
		device->limit_before = info.limit;
	most = device->limit_before;
	if (fraction < 1) {
		limit = (uint64_t)((double)info.memory_total * fraction);
		/* 0 would be no limit. */
		limit = limit ? limit : 1;
		most = limit < most ? limit : most;
	}
	err = vpmm_pool_set_limit(NULL, most == UINT64_MAX ? 0 : (size_t)most);
	if (!err)
		device->limit = limit;
	return err;
}

void vpmm_torch_memory_fraction(double fraction, int ordinal)
{
	struct device *device = device_of(ordinal);
	bool entered;
	int err;

	if (!device)
		return;
	if (!device_enter(ordinal, &entered)) {
		raise_fraction(ordinal, NOT_CURRENT);
		return;
	}
	err = alloc_set_limit(device, fraction);
	device_leave(entered);
	if (err)
		raise_fraction(ordinal, vpmm_last_error());
}

void *vpmm_torch_base(void *ptr, size_t *size)
{
	struct vpmm_allocation block = { .size = sizeof(block) };

	if (vpmm_lookup(ptr, &block))
		return ptr;
	if (size)
		*size = block.bytes;
	return block.base;
}

void vpmm_torch_record_stream(void *ptr, struct CUstream_st *stream)
{
	struct vpmm_allocation block = { .size = sizeof(block) };

	if (!ptr)
		return;
	if (captures_any() && !vpmm_lookup(ptr, &block))
		note(block.device, stream);
	kept_use(ptr, stream);
}
