// SPDX-License-Identifier: LGPL-2.1-or-later
/* What the Python module asks. A device that PyTorch has not used has no pool, and gets none by the question. */
#include <errno.h>
#include <string.h>

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
 * Makes a device with a pool current, until device_leave(): 1; 0: it has none; -EINVAL: there is no such device;
 * -ENXIO: it cannot be made current.
 */
static int enter_used(int ordinal, bool *entered)
{
	const struct device *device = device_of(ordinal);

	if (!device)
		return -EINVAL;
	if (!device->used)
		return 0;
	return device_enter(ordinal, entered) ? 1 : -ENXIO;
}

int vpmm_torch_stats(int ordinal, struct vpmm_stats *stats)
{
	bool entered;
	int err;

	if (!device_of(ordinal) || !stats || stats->size != sizeof(*stats))
		return -EINVAL;
	err = enter_used(ordinal, &entered);
	if (err <= 0) {
		memset(stats, 0, sizeof(*stats));
		stats->size = sizeof(*stats);
		return err;
	}
	err = vpmm_pool_stats(NULL, stats);
	device_leave(entered);
	return err;
}

int vpmm_torch_reset_peaks(int ordinal)
{
	struct device *device = device_of(ordinal);
	bool entered;
	int err;

	if (!device)
		return -EINVAL;
	device->peak_blocks = device->allocs - device->frees;
	err = enter_used(ordinal, &entered);
	if (err <= 0)
		return err;
	err = vpmm_pool_reset_peaks(NULL);
	device_leave(entered);
	return err;
}

int vpmm_torch_trim(int ordinal, size_t *released)
{
	bool entered;
	int err;

	if (!device_of(ordinal))
		return -EINVAL;
	if (released)
		*released = 0;
	err = enter_used(ordinal, &entered);
	if (err <= 0)
		return err;
	err = vpmm_pool_trim(NULL, 0, released);
	device_leave(entered);
	return err;
}

int vpmm_torch_dump(int ordinal, FILE *out)
{
	bool entered;
	int err;

	if (!device_of(ordinal) || !out)
		return -EINVAL;
	err = enter_used(ordinal, &entered);
	if (err <= 0)
		return err;
	err = vpmm_pool_dump(NULL, out);
	device_leave(entered);
	return err;
}

int vpmm_torch_pause(int ordinal, vpmm_tag tag, unsigned int flags)
{
	bool entered;
	int err;

	err = enter_used(ordinal, &entered);
	if (err <= 0)
		return err;
	err = vpmm_pause(NULL, tag, flags);
	device_leave(entered);
	return err;
}

int vpmm_torch_resume(int ordinal, vpmm_tag tag)
{
	bool entered;
	int err;

	err = enter_used(ordinal, &entered);
	if (err <= 0)
		return err;
	err = vpmm_resume(NULL, tag, VPMM_STREAM_ANY);
	device_leave(entered);
	return err;
}

int vpmm_torch_pause_prepare(int ordinal, vpmm_tag tag)
{
	bool entered;
	int err;

	err = enter_used(ordinal, &entered);
	if (err <= 0)
		return err;
	err = vpmm_pause_prepare(NULL, tag);
	device_leave(entered);
	return err;
}

int vpmm_torch_tag_stats(int ordinal, vpmm_tag tag, struct vpmm_tag_stats *stats)
{
	bool entered;
	int err;

	if (!device_of(ordinal) || !stats || stats->size != sizeof(*stats))
		return -EINVAL;
	err = enter_used(ordinal, &entered);
	if (err <= 0) {
		memset(stats, 0, sizeof(*stats));
		stats->size = sizeof(*stats);
		return err;
	}
	err = vpmm_tag_stats(NULL, tag, stats);
	device_leave(entered);
	return err;
}
