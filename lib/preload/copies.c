// SPDX-License-Identifier: LGPL-2.1-or-later
/* Copies of one range, which are passed on. What they copy is of interest to VPMM_PRELOAD_MONITOR=1. */
#include "preload/driver.h"
#include "preload/gate.h"
#include "preload/monitor.h"
#include "preload/settings.h"

static drv_result note_copy(drv_result result, drv_deviceptr to, drv_deviceptr from, size_t size)
{
	if (!result && settings()->monitor)
		monitor_copied(to, from, size);
	return result;
}

#define COPY(name) \
	drv_result name(drv_deviceptr to, drv_deviceptr from, size_t size) \
	{ \
		return note_copy(GATED(FORWARD(name, to, from, size)), to, from, size); \
	}
#define COPY_ASYNC(name) \
	drv_result name(drv_deviceptr to, drv_deviceptr from, size_t size, drv_stream stream) \
	{ \
		return note_copy(GATED(FORWARD(name, to, from, size, stream)), to, from, size); \
	}

COPY(cuMemcpy)
COPY(cuMemcpy_ptds)
COPY(cuMemcpyDtoD_v2)
COPY(cuMemcpyDtoD_v2_ptds)
COPY_ASYNC(cuMemcpyAsync)
COPY_ASYNC(cuMemcpyAsync_ptsz)
COPY_ASYNC(cuMemcpyDtoDAsync_v2)
COPY_ASYNC(cuMemcpyDtoDAsync_v2_ptsz)
