// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * What an address says about itself. The driver's answers for mapped memory are the truth, and what NCCL, UCX and MPI
 * can handle; only its ranges are of no use to anybody: they are those of the reservation.
 */
#include "preload/driver.h"
#include "preload/lent.h"
#include "preload/library.h"
#include "preload/primary.h"
#include "preload/settings.h"

/* As in cuda.h. */
enum {
	POINTER_SYNC_MEMOPS = 6,
	POINTER_RANGE_START_ADDR = 11,
	POINTER_RANGE_SIZE = 12,
	CTX_SYNC_MEMOPS = 0x80,
};

static bool is_range(drv_enum attribute)
{
	return attribute == POINTER_RANGE_START_ADDR || attribute == POINTER_RANGE_SIZE;
}

static void set_range(void *value, drv_enum attribute, const struct vpmm_allocation *block)
{
	if (attribute == POINTER_RANGE_START_ADDR)
		*(drv_deviceptr *)value = (drv_deviceptr)block->base;
	else
		*(size_t *)value = block->bytes;
}

drv_result cuPointerGetAttribute(void *value, drv_enum attribute, drv_deviceptr va)
{
	drv_result result = FORWARD(cuPointerGetAttribute, value, attribute, va);
	struct vpmm_allocation block;

	if (!result && value && is_range(attribute) && library_find(va, &block))
		set_range(value, attribute, &block);
	return result;
}

drv_result cuPointerGetAttributes(unsigned int count, drv_enum *attributes, void **values, drv_deviceptr va)
{
	drv_result result = FORWARD(cuPointerGetAttributes, count, attributes, values, va);
	struct vpmm_allocation block;
	unsigned int i;

	if (result || !library_find(va, &block))
		return result;
	for (i = 0; i < count; i++)
		if (is_range(attributes[i]))
			set_range(values[i], attributes[i], &block);
	return result;
}

/* For one block of mapped memory the driver cannot do it, but for a context. */
static bool synchronize_memops(int device)
{
	drv_result result;
	unsigned int flags;

	if (primary_push(device))
		return false;
	result = FORWARD(cuCtxGetFlags, &flags);
	if (!result)
		result = FORWARD(cuCtxSetFlags, flags | CTX_SYNC_MEMOPS);
	primary_pop();
	return !result;
}

drv_result cuPointerSetAttribute(const void *value, drv_enum attribute, drv_deviceptr va)
{
	struct vpmm_allocation block;
	drv_result result;

	/* Cleared for one block, it stays set for the context, as other blocks may need it. */
	if (attribute == POINTER_SYNC_MEMOPS && value && library_find(va, &block) &&
	    (!*(const int *)value || synchronize_memops(block.device)))
		return DRV_SUCCESS;
	result = FORWARD(cuPointerSetAttribute, value, attribute, va);
	/* Of mapped memory the driver says so of any attribute, also of those that cannot be set. */
	if (result == DRV_ERROR_NOT_SUPPORTED && attribute != POINTER_SYNC_MEMOPS && library_find(va, &block))
		result = DRV_ERROR_INVALID_VALUE;
	return result;
}

/*
 * A handle of legacy IPC stands for the start of a block, or for that of a mapping in it. Programs find out by this how
 * far behind that an address is, so from then on the mapping that the block starts in is not to begin before the block.
 */
static void begin_with_block(drv_deviceptr *base, size_t *size, drv_deviceptr va)
{
	struct vpmm_allocation block;
	drv_deviceptr start = 0;
	size_t bytes = 0;

	if (!lent_any() || !library_find(va, &block) || !lent_number(block.base) ||
	    FORWARD(cuMemGetAddressRange_v2, &start, &bytes, va) || start >= (drv_deviceptr)block.base)
		return;
	if (base)
		*base = (drv_deviceptr)block.base;
	if (size)
		*size = bytes - (size_t)((drv_deviceptr)block.base - start);
}

/* Of a block of several extents the driver tells the range of one. Some walk from one to the next by that. */
drv_result cuMemGetAddressRange_v2(drv_deviceptr *base, size_t *size, drv_deviceptr va)
{
	struct vpmm_allocation block;
	drv_result result;

	if (!settings()->range_block || !library_find(va, &block)) {
		result = FORWARD(cuMemGetAddressRange_v2, base, size, va);
		if (!result)
			begin_with_block(base, size, va);
		return result;
	}
	if (base)
		*base = (drv_deviceptr)block.base;
	if (size)
		*size = block.bytes;
	return DRV_SUCCESS;
}
