// SPDX-License-Identifier: LGPL-2.1-or-later
/* What PyTorch calls: allocations, frees and the hooks. */
#include <errno.h>

#include "torch/device.h"
#include "torch/graphs.h"
#include "torch/kept.h"
#include "torch/raise.h"
#include "torch/torch.h"

static int (*_Atomic pressure)(int device, size_t size);

void vpmm_torch_set_pressure(int (*fn)(int device, size_t size))
{
	pressure = fn;
}

/* Asks the program for memory, unless it is being asked. */
static bool ask(int device, size_t size)
{
	static _Thread_local bool asking;
	int (*fn)(int device, size_t size) = pressure;
	bool given;

	if (!fn || asking)
		return false;
	asking = true;
	given = fn(device, size);
	asking = false;
	return given;
}

/* The library has given back and waited for what it could by then. */
static int allocate(void **ptr, size_t size, int ordinal, struct CUstream_st *stream)
{
	struct device *device = device_of(ordinal);
	int err = vpmm_malloc(NULL, ptr, size, stream);
	bool given = true;

	if (err != -ENOMEM)
		return err;
	if (device)
		device->retries++;
	if (graphs_retry())
		err = vpmm_malloc(NULL, ptr, size, stream);
	/* Also where it has nothing to give: calls that it made may have changed vpmm_last_error(). */
	while (err == -ENOMEM && given && pressure) {
		given = ask(ordinal, size);
		kept_retry();
		err = vpmm_malloc(NULL, ptr, size, stream);
	}
	return err;
}

static void count_alloc(struct device *device, size_t size)
{
	uint64_t blocks, peak = device->peak_blocks;

	atomic_fetch_add_explicit(&device->alloc_bytes, size, memory_order_relaxed);
	blocks = atomic_fetch_add_explicit(&device->allocs, 1, memory_order_relaxed) + 1 - device->frees;
	while (blocks > peak && !atomic_compare_exchange_weak(&device->peak_blocks, &peak, blocks))
		;
}

/* What the pool of the current device has allocated, as torch.cuda.memory_allocated() tells. */
static uint64_t allocated(void)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };
	uint64_t all;

	if (vpmm_pool_stats(NULL, &stats))
		return 0;
	/* What is held can be another process's, which counts for nothing else. */
	all = stats.live + stats.small_live + stats.shareable;
	return all > stats.held ? all - stats.held : 0;
}

/* The limit is on what is allocated; what the pool keeps beyond it goes back. */
static void keep_limit(size_t limit)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };

	if (!vpmm_pool_stats(NULL, &stats) && stats.mapped + stats.small_mapped > limit)
		vpmm_pool_trim(NULL, limit, NULL);
}

void *vpmm_torch_alloc(ssize_t size, int ordinal, struct CUstream_st *stream)
{
	struct device *device = device_of(ordinal);
	uint64_t limit, live = 0;
	void *ptr = NULL;
	bool entered;
	int err;

	if (!size)
		return NULL;
	/* Memory of another device would be taken for this one's. */
	if (!device_try(ordinal, &entered)) {
		raise_failed((size_t)size, ordinal, "the device's primary context cannot be made current");
		return NULL;
	}
	kept_retry();
	if (graphs_begun())
		graphs_note(ordinal, stream);
	limit = device ? device->limit : 0;
	if (limit) {
		live = allocated();
		limit = live > limit || (size_t)size > limit - live ? limit : 0;
	}
	err = limit ? -ENOMEM : allocate(&ptr, (size_t)size, ordinal, stream);
	if (!err && device) {
		if (!device->used)
			device_use(ordinal);
		if (device->limit)
			keep_limit(device->limit);
		count_alloc(device, (size_t)size);
	} else if (err == -ENOMEM && device) {
		device->ooms++;
	}
	device_leave(entered);
	if (limit)
		raise_limited((size_t)size, ordinal, live, limit);
	else if (err == -ENOMEM)
		raise_exhausted((size_t)size, ordinal);
	else if (err)
		raise_failed((size_t)size, ordinal, vpmm_last_error());
	return ptr;
}

/* As graphs_note(), of a device that need not be current. */
static void note(int ordinal, struct CUstream_st *stream)
{
	bool entered = device_enter(ordinal);

	graphs_note(ordinal, stream);
	device_leave(entered);
}

void vpmm_torch_free(void *ptr, size_t size, int ordinal, struct CUstream_st *stream)
{
	struct device *device = device_of(ordinal);

	if (!ptr)
		return;
	if (graphs_begun())
		note(ordinal, stream);
	if (!kept_free(ptr, stream) || !device)
		return;
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

void vpmm_torch_memory_fraction(double fraction, int ordinal)
{
	struct vpmm_info info = { .size = sizeof(info) };
	struct device *device = device_of(ordinal);
	bool entered;

	if (!device)
		return;
	entered = device_enter(ordinal);
	if (fraction >= 1)
		device->limit = 0;
	else if (!vpmm_pool_info(NULL, &info))
		device->limit = (uint64_t)((double)info.memory_total * fraction) + !fraction;
	device_leave(entered);
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
	int err;

	if (!ptr)
		return;
	if (graphs_begun() && !vpmm_lookup(ptr, &block))
		note(block.device, stream);
	err = vpmm_use(NULL, ptr, stream);
	if (err)
		kept_failed(err);
}

void vpmm_torch_begin(int device, struct torch_pool_id id, void *filter)
{
	(void)filter;
	graphs_begin(device, id);
}

void vpmm_torch_end(int device, struct torch_pool_id id)
{
	graphs_end(device, id);
}

void vpmm_torch_release(int device, struct torch_pool_id id)
{
	graphs_release(device, id);
}

unsigned int vpmm_torch_begun(void)
{
	return graphs_begun_here();
}

void vpmm_torch_capture_failed(unsigned int begun)
{
	graphs_failed(begun);
}
