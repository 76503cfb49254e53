// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <stdatomic.h>

#include "preload/lent.h"
#include "preload/library.h"
#include "preload/own.h"
#include "preload/primary.h"
#include "preload/wait.h"
#include "util/captures.h"

/* By device; NULL: not needed yet. */
static drv_stream _Atomic streams[DEVICES_KNOWN];

drv_stream own_stream(int device)
{
	drv_stream stream = atomic_load_explicit(&streams[device], memory_order_acquire), known = NULL;

	if (stream || RELAXED(cuStreamCreate, &stream, DRV_STREAM_NON_BLOCKING))
		return stream;
	/* Of threads that come first at the same time, one is first. */
	if (atomic_compare_exchange_strong(&streams[device], &known, stream))
		return stream;
	FORWARD(cuStreamDestroy_v2, stream);
	return known;
}

void own_forget(int device, bool current)
{
	drv_stream stream = atomic_exchange(&streams[device], NULL);

	if (stream && current)
		FORWARD(cuStreamDestroy_v2, stream);
}

/* The pool is found by the address, as it may have ended. */
drv_result free_on(void *base, drv_stream stream)
{
	struct given *note;
	int err;

	/* Before the free: behind it, another block can be there. */
	if (!lent_free(base, &note))
		return DRV_ERROR_INVALID_VALUE;
	err = LIBRARY(vpmm_free, NULL, base, stream);
	lent_freed(note, !err || err == -EINVAL);
	switch (err) {
	case 0:
		return DRV_SUCCESS;
	case -ENOMEM:
		return DRV_ERROR_OUT_OF_MEMORY;
	case -EINVAL:
		/* Another thread was faster. */
		return DRV_ERROR_INVALID_VALUE;
	default:
		return DRV_ERROR_UNKNOWN;
	}
}

static drv_result free_beside_capture(const struct vpmm_allocation *block)
{
	drv_result result = primary_push(block->device);
	drv_stream stream;

	if (result)
		return result;
	stream = own_stream(block->device);
	result = stream ? wait_beside_capture() : DRV_ERROR_OUT_OF_MEMORY;
	if (!result)
		result = free_on(block->base, stream);
	primary_pop();
	return result;
}

drv_result free_without_stream(const struct vpmm_allocation *block)
{
	drv_result result;

	if (!captures_hold_off())
		return free_beside_capture(block);
	result = free_on(block->base, VPMM_STREAM_ANY);
	captures_let();
	return result;
}
