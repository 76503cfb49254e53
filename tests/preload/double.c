// SPDX-License-Identifier: LGPL-2.1-or-later
/* A double of the driver, such as a program's tests may have: it is no libcuda.so.1, and has one call. */
#include "cuda/abi.h"

drv_result cuMemAlloc_v2(drv_deviceptr *va, size_t size);

drv_result cuMemAlloc_v2(drv_deviceptr *va, size_t size)
{
	*va = size;
	return 77;
}
