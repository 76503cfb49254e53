// SPDX-License-Identifier: LGPL-2.1-or-later
/* What the Python module asks. A device that PyTorch has not used has no pool, and gets none by the question. */
#include <errno.h>

#include "torch/books.h"
#include "torch/device.h"
#include "torch/graphs.h"
#include "torch/kept.h"
#include "torch/pools.h"
#include "torch/torch.h"

int vpmm_torch_counts(int ordinal, struct vpmm_torch_counts *counts)
{
	struct device *device = device_of(ordinal);

	if (!device || !counts || counts->size != sizeof(*counts))
		return -EINVAL;
	counts->allocs = device->allocs;
	counts->frees = device->frees;
	counts->alloc_bytes = device->alloc_bytes;
	counts->free_bytes = device->free_bytes;
	counts->peak_blocks = device->peak_blocks;
	counts->retries = device->retries;
	counts->ooms = device->ooms;
	counts->limit = device->limit;
	counts->kept = kept_count();
	counts->unknown = kept_unknown();
	counts->failed = kept_lost();
	graphs_count(&counts->pools, &counts->graphs);
	/* Of the plug-in's hooks and of the class, one has nothing. */
	books_counts(ordinal, counts);
	counts->pools += pools_count();
	return 0;
}

/*
 * Checks the arguments, and makes a device with a pool current, until leave(): 1; 0: it has none; -EINVAL: there is no
 * such device, or @valid is false; -ENXIO: it cannot be made current.
 */
static int enter_used(int ordinal, bool valid, bool *entered)
{
	const struct device *device = device_of(ordinal);

	if (!device || !valid)
		return -EINVAL;
	if (!device->used)
		return 0;
	return device_enter(ordinal, entered) ? 1 : -ENXIO;
}

/* Returns the result of the call that was made between. */
static int leave(bool entered, int result)
{
	device_leave(entered);
	return result;
}

/* The result of a call on the pool of a device, or what enter_used() has refused. */
#define IN_POOL(ordinal, valid, call) \
	({ \
		bool entered_; \
		int err_ = enter_used(ordinal, valid, &entered_); \
\
		err_ > 0 ? leave(entered_, call) : err_; \
	})

int vpmm_torch_stats(int ordinal, struct vpmm_stats *stats)
{
	if (!stats || stats->size != sizeof(*stats) || !device_of(ordinal))
		return -EINVAL;
	*stats = (struct vpmm_stats){ .size = sizeof(*stats) };
	return IN_POOL(ordinal, true, vpmm_pool_stats(NULL, stats));
}

int vpmm_torch_reset_peaks(int ordinal)
{
	struct device *device = device_of(ordinal);

	if (device)
		device->peak_blocks = device->blocks;
	return IN_POOL(ordinal, true, vpmm_pool_reset_peaks(NULL));
}

int vpmm_torch_trim(int ordinal, size_t *released)
{
	const struct torch_id all = { 0 };

	if (released && device_of(ordinal))
		*released = 0;
	if (!kept_in_child())
		pools_trim(ordinal, all);
	return IN_POOL(ordinal, true, vpmm_pool_trim(NULL, 0, released));
}

int vpmm_torch_dump(int ordinal, FILE *out)
{
	return IN_POOL(ordinal, out, vpmm_pool_dump(NULL, out));
}

int vpmm_torch_pause(int ordinal, vpmm_tag tag, unsigned int flags)
{
	return IN_POOL(ordinal, true, vpmm_pause(NULL, tag, flags));
}

int vpmm_torch_resume(int ordinal, vpmm_tag tag)
{
	return IN_POOL(ordinal, true, vpmm_resume(NULL, tag, VPMM_STREAM_ANY));
}

int vpmm_torch_pause_prepare(int ordinal, vpmm_tag tag)
{
	return IN_POOL(ordinal, true, vpmm_pause_prepare(NULL, tag));
}

int vpmm_torch_tag_stats(int ordinal, vpmm_tag tag, struct vpmm_tag_stats *stats)
{
	if (!stats || stats->size != sizeof(*stats) || !device_of(ordinal))
		return -EINVAL;
	*stats = (struct vpmm_tag_stats){ .size = sizeof(*stats) };
	return IN_POOL(ordinal, true, vpmm_tag_stats(NULL, tag, stats));
}
