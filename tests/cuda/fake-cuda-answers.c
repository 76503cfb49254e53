// SPDX-License-Identifier: LGPL-2.1-or-later
/* What a driver says of mapped memory, as measured on driver 580, and the access of contexts to each other's memory. */
#include <glib.h>
#include <stdbool.h>
#include <string.h>

#include "cuda/fake-cuda-inside.h"
#include "preload/hooks.h"

/* As in cuda.h. */
enum {
	POINTER_CONTEXT = 1,
	POINTER_SYNC_MEMOPS = 6,
	POINTER_RANGE_START_ADDR = 11,
	POINTER_RANGE_SIZE = 12,
};

#define RESERVATION (UINT64_C(8) << 40)
#define MAPPING ((size_t)2 << 20)

static unsigned int flags_of_contexts;

drv_result cuPointerGetAttribute(void *value, drv_enum attribute, drv_deviceptr va)
{
	BEGIN(cuPointerGetAttribute);
	switch (attribute) {
	case POINTER_CONTEXT:
		*(drv_context *)value = NULL;
		return DRV_SUCCESS;
	case POINTER_RANGE_START_ADDR:
		*(drv_deviceptr *)value = va & ~(RESERVATION - 1);
		return DRV_SUCCESS;
	case POINTER_RANGE_SIZE:
		*(size_t *)value = RESERVATION;
		return DRV_SUCCESS;
	default:
		return DRV_ERROR_INVALID_VALUE;
	}
}

drv_result cuPointerGetAttributes(unsigned int count, drv_enum *attributes, void **values, drv_deviceptr va)
{
	for (unsigned int i = 0; i < count; i++) {
		drv_result result = cuPointerGetAttribute(values[i], attributes[i], va);

		if (result)
			return result;
	}
	return DRV_SUCCESS;
}

drv_result cuPointerSetAttribute(const void *value, drv_enum attribute, drv_deviceptr va)
{
	(void)value;
	(void)va;
	BEGIN(cuPointerSetAttribute);
	return attribute == POINTER_SYNC_MEMOPS ? DRV_ERROR_NOT_SUPPORTED : DRV_ERROR_INVALID_VALUE;
}

drv_result cuMemGetAddressRange_v2(drv_deviceptr *base, size_t *size, drv_deviceptr va)
{
	BEGIN(cuMemGetAddressRange);
	if (base)
		*base = va & ~(MAPPING - 1);
	if (size)
		*size = MAPPING;
	return DRV_SUCCESS;
}

drv_result cuIpcGetMemHandle(void *handle, drv_deviceptr va)
{
	(void)handle;
	(void)va;
	BEGIN(cuIpcGetMemHandle);
	return DRV_ERROR_INVALID_VALUE;
}

/* No other process has a handle of its memory. */
drv_result cuIpcOpenMemHandle_v2(drv_deviceptr *va, struct drv_ipc_handle handle, unsigned int flags)
{
	(void)va;
	(void)handle;
	(void)flags;
	BEGIN(cuIpcOpenMemHandle);
	return DRV_ERROR_INVALID_VALUE;
}

drv_result cuIpcOpenMemHandle(drv_deviceptr *va, struct drv_ipc_handle handle, unsigned int flags)
{
	return cuIpcOpenMemHandle_v2(va, handle, flags);
}

drv_result cuIpcCloseMemHandle(drv_deviceptr va)
{
	(void)va;
	BEGIN(cuIpcCloseMemHandle);
	return DRV_ERROR_INVALID_VALUE;
}

drv_result cuCtxGetFlags(unsigned int *flags)
{
	BEGIN_IN(cuCtxGetFlags, context);
	*flags = flags_of_contexts;
	return DRV_SUCCESS;
}

drv_result cuCtxSetFlags(unsigned int flags)
{
	BEGIN_IN(cuCtxSetFlags, context);
	flags_of_contexts = flags;
	return DRV_SUCCESS;
}

/* Mapped memory is not concerned. */
drv_result cuCtxEnablePeerAccess(drv_context peer, unsigned int flags)
{
	const uint64_t bit = UINT64_C(1) << peer->device;

	BEGIN_IN(cuCtxEnablePeerAccess, context);
	if (flags || peer == context || context->enabled & bit)
		return DRV_ERROR_INVALID_VALUE;
	context->enabled |= bit;
	return DRV_SUCCESS;
}

drv_result cuCtxDisablePeerAccess(drv_context peer)
{
	const uint64_t bit = UINT64_C(1) << peer->device;

	BEGIN_IN(cuCtxDisablePeerAccess, context);
	if (!(context->enabled & bit))
		return DRV_ERROR_INVALID_VALUE;
	context->enabled &= ~bit;
	return DRV_SUCCESS;
}
