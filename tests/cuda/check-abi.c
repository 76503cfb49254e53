// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Compares abi.h with the Toolkit's cuda.h: it compiles to nothing, or not at all.
 *
 * Built only where configure found a Toolkit that is new enough.
 */
/* With it, cuda.h declares every version of a call under its own name. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "cuda/abi.h"

#if CUDA_VERSION < 12000
#error "this cuda.h is older than CUDA 12.0 and lacks calls that libvpmm needs"
#endif

#define SAME_SIZE(ours, theirs) \
	_Static_assert(sizeof(ours) == sizeof(theirs), #ours " has not the size of " #theirs); \
	_Static_assert(_Alignof(ours) == _Alignof(theirs), #ours " is not aligned like " #theirs)

#define SAME_MEMBER(ours, member, theirs, their_member) \
	_Static_assert(offsetof(ours, member) == offsetof(theirs, their_member), \
		       #ours "." #member " does not lie where " #theirs "." #their_member " does"); \
	_Static_assert(sizeof(((ours *)0)->member) == sizeof(((theirs *)0)->their_member), \
		       #ours "." #member " has not the size of " #theirs "." #their_member)

SAME_SIZE(drv_result, CUresult);
SAME_SIZE(drv_device_attribute, CUdevice_attribute);
SAME_SIZE(drv_enum, CUmemAllocationType);
SAME_SIZE(drv_enum, CUmemAllocationHandleType);
SAME_SIZE(drv_enum, CUmemLocationType);
SAME_SIZE(drv_enum, CUmemAccess_flags);
SAME_SIZE(drv_granularity, CUmemAllocationGranularity_flags);
SAME_SIZE(drv_capture_status, CUstreamCaptureStatus);
SAME_SIZE(drv_capture_mode, CUstreamCaptureMode);
SAME_SIZE(drv_pool_attribute, CUmemPool_attribute);
SAME_SIZE(drv_device, CUdevice);
SAME_SIZE(drv_deviceptr, CUdeviceptr);
SAME_SIZE(drv_handle, CUmemGenericAllocationHandle);
SAME_SIZE(drv_u64, unsigned long long);
SAME_SIZE(drv_u64, cuuint64_t);

SAME_SIZE(drv_handle_type, CUmemAllocationHandleType);
SAME_SIZE(drv_uuid, CUuuid);

SAME_SIZE(drv_location, CUmemLocation);
SAME_MEMBER(drv_location, type, CUmemLocation, type);
SAME_MEMBER(drv_location, id, CUmemLocation, id);

SAME_SIZE(drv_allocation_prop, CUmemAllocationProp);
SAME_MEMBER(drv_allocation_prop, type, CUmemAllocationProp, type);
SAME_MEMBER(drv_allocation_prop, handle_types, CUmemAllocationProp, requestedHandleTypes);
SAME_MEMBER(drv_allocation_prop, location, CUmemAllocationProp, location);
SAME_MEMBER(drv_allocation_prop, win32, CUmemAllocationProp, win32HandleMetaData);
SAME_MEMBER(drv_allocation_prop, flags, CUmemAllocationProp, allocFlags);
SAME_MEMBER(drv_allocation_prop, flags.compression_type, CUmemAllocationProp, allocFlags.compressionType);
SAME_MEMBER(drv_allocation_prop, flags.gpu_direct_rdma, CUmemAllocationProp, allocFlags.gpuDirectRDMACapable);
SAME_MEMBER(drv_allocation_prop, flags.usage, CUmemAllocationProp, allocFlags.usage);
SAME_MEMBER(drv_allocation_prop, flags.reserved, CUmemAllocationProp, allocFlags.reserved);

SAME_SIZE(drv_access_desc, CUmemAccessDesc);
SAME_MEMBER(drv_access_desc, location, CUmemAccessDesc, location);
SAME_MEMBER(drv_access_desc, flags, CUmemAccessDesc, flags);

SAME_SIZE(drv_batch_op, CUstreamBatchMemOpParams);
SAME_MEMBER(drv_batch_op, operation, CUstreamBatchMemOpParams, operation);
SAME_MEMBER(drv_batch_op, value.address, CUstreamBatchMemOpParams, waitValue.address);
SAME_MEMBER(drv_batch_op, value.value, CUstreamBatchMemOpParams, waitValue.value64);
SAME_MEMBER(drv_batch_op, value.flags, CUstreamBatchMemOpParams, waitValue.flags);

SAME_SIZE(drv_mem_pool_props, CUmemPoolProps);
SAME_MEMBER(drv_mem_pool_props, type, CUmemPoolProps, allocType);
SAME_MEMBER(drv_mem_pool_props, handle_types, CUmemPoolProps, handleTypes);
SAME_MEMBER(drv_mem_pool_props, location, CUmemPoolProps, location);
SAME_MEMBER(drv_mem_pool_props, win32, CUmemPoolProps, win32SecurityAttributes);

#define X(name, value) _Static_assert(DRV_##name == (int)CUDA_##name, "DRV_" #name " is not CUDA_" #name);
DRV_RESULTS(X)
#undef X

#define X(name, value) _Static_assert(DRV_##name == (int)CU_##name, "DRV_" #name " is not CU_" #name);
DRV_CONSTANTS(X)
#if CUDA_VERSION >= 12040
DRV_CONSTANTS_NEW(X)
#endif
#undef X

/*
 * From here on our names of types stand for cuda.h's own, so the lists of calls expand to prototypes that must be
 * exactly those of cuda.h.
 */
#define drv_result CUresult
#define drv_device_attribute CUdevice_attribute
#define drv_granularity CUmemAllocationGranularity_flags
#define drv_capture_status CUstreamCaptureStatus
#define drv_capture_mode CUstreamCaptureMode
#define drv_graph CUgraph
#define drv_graph_node CUgraphNode
#define drv_graph_exec CUgraphExec
#define drv_pool_attribute CUmemPool_attribute
#define drv_handle_type CUmemAllocationHandleType
#define drv_uuid CUuuid
#define drv_device CUdevice
#define drv_deviceptr CUdeviceptr
#define drv_handle CUmemGenericAllocationHandle
#define drv_u64 unsigned long long
#define drv_context CUcontext
#define drv_stream CUstream
#define drv_event CUevent
#define drv_module CUmodule
#define drv_function CUfunction
#define drv_mem_pool CUmemoryPool
#define drv_location CUmemLocation
#define drv_allocation_prop CUmemAllocationProp
#define drv_access_desc CUmemAccessDesc
#define drv_mem_pool_props CUmemPoolProps
#define drv_batch_op CUstreamBatchMemOpParams

#define X(name, version, args) \
	_Static_assert(__builtin_types_compatible_p(__typeof__(&name##version), drv_result (*) args), \
		       #name #version " has another prototype");
DRV_CALLS_REQUIRED(X)
DRV_CALLS_OPTIONAL(X)
DRV_CALLS_PROGRAMS(X)
#if CUDA_VERSION >= 12050
DRV_CALLS_NEW(X)
#endif
#undef X

/* With integers for the streams' type, the casts of these constants leave what _Static_assert can compare. */
#undef drv_stream
#define drv_stream unsigned long
#define CUstream unsigned long
_Static_assert(DRV_STREAM_LEGACY == CU_STREAM_LEGACY, "DRV_STREAM_LEGACY is not CU_STREAM_LEGACY");
_Static_assert(DRV_STREAM_PER_THREAD == CU_STREAM_PER_THREAD, "DRV_STREAM_PER_THREAD is not CU_STREAM_PER_THREAD");
