/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What libvpmm needs of the CUDA driver's binary interface: its types, constants and calls.
 *
 * The driver is opened at run time, so neither its library nor the CUDA Toolkit is there at build time. All names start
 * with drv_ or DRV_, so that cuda.h can stand beside this header: check.c, compiled where there is a Toolkit,
 * compares every line of the lists below with it.
 *
 * What is required is in CUDA 12.0 (driver 525), where cuStreamGetId appeared.
 */
#ifndef CUDA_ABI_H
#define CUDA_ABI_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct CUctx_st;
struct CUevent_st;
struct CUmod_st;
struct CUfunc_st;
struct CUgraph_st;
struct CUgraphNode_st;
struct CUgraphExec_st;
struct CUuserObject_st;
struct CUmemPoolHandle_st;

typedef int drv_result;			/* CUresult, an enumeration */
typedef int drv_enum;			/* an enumeration in a structure */
typedef int drv_device_attribute;
typedef int drv_granularity;
typedef int drv_capture_status;
typedef int drv_capture_mode;
typedef int drv_pool_attribute;
typedef int drv_handle_type;
typedef int drv_device;
typedef uint64_t drv_deviceptr;
typedef uint64_t drv_handle;		/* CUmemGenericAllocationHandle */
typedef uint64_t drv_u64;		/* unsigned long long */
typedef struct CUctx_st *drv_context;
typedef struct CUstream_st *drv_stream;
typedef struct CUevent_st *drv_event;
typedef struct CUmod_st *drv_module;
typedef struct CUfunc_st *drv_function;
typedef struct CUgraph_st *drv_graph;
typedef struct CUgraphNode_st *drv_graph_node;
typedef struct CUgraphExec_st *drv_graph_exec;
typedef struct CUuserObject_st *drv_user_object;
typedef struct CUmemPoolHandle_st *drv_mem_pool;

typedef struct {
	char bytes[16];
} drv_uuid;

typedef struct {
	drv_enum type;
	int id;
} drv_location;

typedef struct {
	drv_enum type;
	drv_enum handle_types;
	drv_location location;
	void *win32;
	struct {
		unsigned char compression_type;
		unsigned char gpu_direct_rdma;
		unsigned short usage;
		unsigned char reserved[4];
	} flags;
} drv_allocation_prop;

typedef struct {
	drv_location location;
	drv_enum flags;
} drv_access_desc;

/* One of cuStreamBatchMemOp(). */
typedef union {
	drv_enum operation;
	struct {
		drv_enum operation;
		drv_deviceptr address;
		uint64_t value;		/* of 32 bits in the lower half */
		unsigned int flags;
		drv_deviceptr alias;
	} value;
	uint64_t pad[6];
} drv_batch_op;

/* Later versions name some of what is reserved here; zero means the default to all of them. */
typedef struct {
	drv_enum type;
	drv_enum handle_types;
	drv_location location;
	void *win32;
	unsigned char reserved[64];
} drv_mem_pool_props;

/* X(name, value): DRV_name is what cuda.h has as CUDA_name. */
#define DRV_RESULTS(X) \
	X(SUCCESS, 0) \
	X(ERROR_INVALID_VALUE, 1) \
	X(ERROR_OUT_OF_MEMORY, 2) \
	X(ERROR_NOT_INITIALIZED, 3) \
	X(ERROR_DEINITIALIZED, 4) \
	X(ERROR_STUB_LIBRARY, 34) \
	X(ERROR_DEVICE_UNAVAILABLE, 46) \
	X(ERROR_NO_DEVICE, 100) \
	X(ERROR_INVALID_DEVICE, 101) \
	X(ERROR_INVALID_CONTEXT, 201) \
	X(ERROR_MAP_FAILED, 205) \
	X(ERROR_ALREADY_MAPPED, 208) \
	X(ERROR_NOT_MAPPED, 211) \
	X(ERROR_ECC_UNCORRECTABLE, 214) \
	X(ERROR_PEER_ACCESS_UNSUPPORTED, 217) \
	X(ERROR_INVALID_HANDLE, 400) \
	X(ERROR_NOT_FOUND, 500) \
	X(ERROR_NOT_READY, 600) \
	X(ERROR_ILLEGAL_ADDRESS, 700) \
	X(ERROR_LAUNCH_TIMEOUT, 702) \
	X(ERROR_CONTEXT_IS_DESTROYED, 709) \
	X(ERROR_ASSERT, 710) \
	X(ERROR_TOO_MANY_PEERS, 711) \
	X(ERROR_HARDWARE_STACK_ERROR, 714) \
	X(ERROR_LAUNCH_FAILED, 719) \
	X(ERROR_NOT_PERMITTED, 800) \
	X(ERROR_NOT_SUPPORTED, 801) \
	X(ERROR_SYSTEM_NOT_READY, 802) \
	X(ERROR_SYSTEM_DRIVER_MISMATCH, 803) \
	X(ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, 804) \
	X(ERROR_STREAM_CAPTURE_UNSUPPORTED, 900) \
	X(ERROR_STREAM_CAPTURE_INVALIDATED, 901) \
	X(ERROR_STREAM_CAPTURE_MERGE, 902) \
	X(ERROR_STREAM_CAPTURE_UNMATCHED, 903) \
	X(ERROR_STREAM_CAPTURE_UNJOINED, 904) \
	X(ERROR_STREAM_CAPTURE_ISOLATION, 905) \
	X(ERROR_STREAM_CAPTURE_IMPLICIT, 906) \
	X(ERROR_CAPTURED_EVENT, 907) \
	X(ERROR_STREAM_CAPTURE_WRONG_THREAD, 908) \
	X(ERROR_UNKNOWN, 999)

/* X(name, value): DRV_name is what cuda.h has as CU_name. */
#define DRV_CONSTANTS(X) \
	X(DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16) \
	X(DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75) \
	X(DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76) \
	X(DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 102) \
	X(DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 103) \
	X(DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 110) \
	X(DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 115) \
	X(MEM_ALLOCATION_TYPE_PINNED, 1) \
	X(MEM_HANDLE_TYPE_NONE, 0) \
	X(MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1) \
	X(MEM_LOCATION_TYPE_DEVICE, 1) \
	X(MEM_ACCESS_FLAGS_PROT_NONE, 0) \
	X(MEM_ACCESS_FLAGS_PROT_READ, 1) \
	X(MEM_ACCESS_FLAGS_PROT_READWRITE, 3) \
	X(MEM_ALLOC_GRANULARITY_MINIMUM, 0) \
	X(MEM_ALLOC_GRANULARITY_RECOMMENDED, 1) \
	X(MEMPOOL_ATTR_RELEASE_THRESHOLD, 4) \
	X(MEMPOOL_ATTR_RESERVED_MEM_CURRENT, 5) \
	X(MEMPOOL_ATTR_RESERVED_MEM_HIGH, 6) \
	X(MEMPOOL_ATTR_USED_MEM_CURRENT, 7) \
	X(MEMPOOL_ATTR_USED_MEM_HIGH, 8) \
	X(STREAM_NON_BLOCKING, 1) \
	X(STREAM_MEM_OP_WAIT_VALUE_32, 1) \
	X(STREAM_MEM_OP_WRITE_VALUE_32, 2) \
	X(STREAM_WAIT_VALUE_GEQ, 0) \
	X(STREAM_CAPTURE_STATUS_NONE, 0) \
	X(STREAM_CAPTURE_STATUS_ACTIVE, 1) \
	X(STREAM_CAPTURE_STATUS_INVALIDATED, 2) \
	X(STREAM_CAPTURE_MODE_GLOBAL, 0) \
	X(STREAM_CAPTURE_MODE_THREAD_LOCAL, 1) \
	X(STREAM_CAPTURE_MODE_RELAXED, 2) \
	X(USER_OBJECT_NO_DESTRUCTOR_SYNC, 1) \
	X(GRAPH_USER_OBJECT_MOVE, 1) \
	X(EVENT_DEFAULT, 0) \
	X(EVENT_BLOCKING_SYNC, 1) \
	X(EVENT_DISABLE_TIMING, 2)

/* The same, of CUDA 12.4. */
#define DRV_CONSTANTS_NEW(X) \
	X(DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 128) \
	X(DEVICE_ATTRIBUTE_HOST_NUMA_ID, 134) \
	X(MEM_LOCATION_TYPE_HOST_NUMA, 3) \
	X(MEM_HANDLE_TYPE_FABRIC, 8)

enum {
#define X(name, value) DRV_##name = value,
	DRV_RESULTS(X)
	DRV_CONSTANTS(X)
	DRV_CONSTANTS_NEW(X)
#undef X
};

#define DRV_STREAM_LEGACY ((drv_stream)0x1)
#define DRV_STREAM_PER_THREAD ((drv_stream)0x2)

/*
 * The calls: X(name, version, arguments). The driver exports each as its name with its version behind; all return
 * drv_result. Those whose default stream is the calling thread's (_ptds, _ptsz) are not used: a null stream is to mean
 * what it means to a program that was compiled without that option, and DRV_STREAM_PER_THREAD says the other.
 *
 * First what the library cannot do without, and of that first what most of its calls call.
 */
#define DRV_CALLS_REQUIRED(X) \
	X(cuCtxGetId,, (drv_context context, drv_u64 *id)) \
	X(cuStreamIsCapturing,, (drv_stream stream, drv_capture_status *status)) \
	X(cuStreamGetId,, (drv_stream stream, drv_u64 *id)) \
	X(cuEventRecord,, (drv_event event, drv_stream stream)) \
	X(cuInit,, (unsigned int flags)) \
	X(cuDriverGetVersion,, (int *version)) \
	X(cuDeviceGetCount,, (int *count)) \
	X(cuDeviceGet,, (drv_device *device, int ordinal)) \
	X(cuDeviceGetName,, (char *name, int size, drv_device device)) \
	X(cuDeviceGetAttribute,, (int *value, drv_device_attribute attribute, drv_device device)) \
	X(cuDeviceCanAccessPeer,, (int *can, drv_device device, drv_device peer)) \
	X(cuDevicePrimaryCtxRetain,, (drv_context *context, drv_device device)) \
	X(cuDevicePrimaryCtxRelease, _v2, (drv_device device)) \
	X(cuDevicePrimaryCtxGetState,, (drv_device device, unsigned int *flags, int *active)) \
	X(cuCtxGetCurrent,, (drv_context *context)) \
	X(cuCtxGetDevice,, (drv_device *device)) \
	X(cuCtxPushCurrent, _v2, (drv_context context)) \
	X(cuCtxPopCurrent, _v2, (drv_context *context)) \
	X(cuMemAllocHost, _v2, (void **to, size_t size)) \
	X(cuMemFreeHost,, (void *from)) \
	X(cuMemGetInfo, _v2, (size_t *free, size_t *total)) \
	X(cuMemGetAllocationGranularity,, (size_t *bytes, const drv_allocation_prop *prop, drv_granularity which)) \
	X(cuMemAddressReserve,, (drv_deviceptr *va, size_t size, size_t align, drv_deviceptr at, drv_u64 flags)) \
	X(cuMemAddressFree,, (drv_deviceptr va, size_t size)) \
	X(cuMemCreate,, (drv_handle *handle, size_t size, const drv_allocation_prop *prop, drv_u64 flags)) \
	X(cuMemRelease,, (drv_handle handle)) \
	X(cuMemMap,, (drv_deviceptr va, size_t size, size_t offset, drv_handle handle, drv_u64 flags)) \
	X(cuMemSetAccess,, (drv_deviceptr va, size_t size, const drv_access_desc *desc, size_t count)) \
	X(cuMemUnmap,, (drv_deviceptr va, size_t size)) \
	X(cuMemsetD8Async,, (drv_deviceptr va, unsigned char value, size_t size, drv_stream stream)) \
	X(cuMemcpyDtoDAsync, _v2, (drv_deviceptr to, drv_deviceptr from, size_t size, drv_stream stream)) \
	X(cuStreamGetCaptureInfo, _v2, (drv_stream stream, drv_capture_status *status, uint64_t *id, \
		drv_graph *graph, const drv_graph_node **dependencies, size_t *count)) \
	X(cuThreadExchangeStreamCaptureMode,, (drv_capture_mode *mode)) \
	X(cuStreamWaitEvent,, (drv_stream stream, drv_event event, unsigned int flags)) \
	X(cuEventCreate,, (drv_event *event, unsigned int flags)) \
	X(cuEventDestroy, _v2, (drv_event event)) \
	X(cuEventQuery,, (drv_event event)) \
	X(cuEventSynchronize,, (drv_event event)) \
	X(cuEventElapsedTime,, (float *ms, drv_event start, drv_event end))

/*
 * Without these, the library does less: it allocates nothing smaller than a page, shares no memory with other
 * processes, does not hear of graphs that are gone, and calls errors by number.
 */
#define DRV_CALLS_OPTIONAL(X) \
	X(cuGetErrorName,, (drv_result error, const char **name)) \
	X(cuGetErrorString,, (drv_result error, const char **text)) \
	X(cuDeviceGetUuid, _v2, (drv_uuid *uuid, drv_device device)) \
	X(cuMemExportToShareableHandle,, (void *out, drv_handle handle, drv_handle_type type, drv_u64 flags)) \
	X(cuMemImportFromShareableHandle,, (drv_handle *handle, void *in, drv_handle_type type)) \
	X(cuMemPoolCreate,, (drv_mem_pool *pool, const drv_mem_pool_props *props)) \
	X(cuMemPoolDestroy,, (drv_mem_pool pool)) \
	X(cuMemPoolSetAttribute,, (drv_mem_pool pool, drv_pool_attribute attribute, void *value)) \
	X(cuMemPoolGetAttribute,, (drv_mem_pool pool, drv_pool_attribute attribute, void *value)) \
	X(cuMemPoolTrimTo,, (drv_mem_pool pool, size_t keep)) \
	X(cuMemPoolSetAccess,, (drv_mem_pool pool, const drv_access_desc *descs, size_t count)) \
	X(cuMemAllocFromPoolAsync,, (drv_deviceptr *va, size_t size, drv_mem_pool pool, drv_stream stream)) \
	X(cuMemFreeAsync,, (drv_deviceptr va, drv_stream stream)) \
	X(cuUserObjectCreate,, (drv_user_object *object, void *data, void (*destroy)(void *data), unsigned int count, \
		unsigned int flags)) \
	X(cuUserObjectRelease,, (drv_user_object object, unsigned int count)) \
	X(cuGraphRetainUserObject,, (drv_graph graph, drv_user_object object, unsigned int count, unsigned int flags)) \
	X(cuStreamCreate,, (drv_stream *stream, unsigned int flags)) \
	X(cuStreamDestroy, _v2, (drv_stream stream))

/* The same, of CUDA 12.5: there is no program that needs it. */
#define DRV_CALLS_NEW(X) \
	X(cuCtxRecordEvent,, (drv_context context, drv_event event)) \
	X(cuStreamGetFlags,, (drv_stream stream, unsigned int *flags)) \
	X(cuStreamBatchMemOp, _v2, (drv_stream stream, unsigned int count, drv_batch_op *ops, unsigned int flags))

/* What programs that stand on the library need besides: the tools and the tests. */
#define DRV_CALLS_PROGRAMS(X) \
	X(cuCtxSetCurrent,, (drv_context context)) \
	X(cuCtxSynchronize,, (void)) \
	X(cuDeviceTotalMem, _v2, (size_t *bytes, drv_device device)) \
	X(cuDevicePrimaryCtxReset, _v2, (drv_device device)) \
	X(cuStreamQuery,, (drv_stream stream)) \
	X(cuStreamBeginCapture, _v2, (drv_stream stream, drv_capture_mode mode)) \
	X(cuStreamEndCapture,, (drv_stream stream, drv_graph *graph)) \
	X(cuGraphInstantiateWithFlags,, (drv_graph_exec *exec, drv_graph graph, drv_u64 flags)) \
	X(cuGraphLaunch,, (drv_graph_exec exec, drv_stream stream)) \
	X(cuGraphExecDestroy,, (drv_graph_exec exec)) \
	X(cuGraphDestroy,, (drv_graph graph)) \
	X(cuStreamSynchronize,, (drv_stream stream)) \
	X(cuMemAlloc, _v2, (drv_deviceptr *va, size_t size)) \
	X(cuMemFree, _v2, (drv_deviceptr va)) \
	X(cuMemGetAccess,, (drv_u64 *flags, const drv_location *location, drv_deviceptr va)) \
	X(cuMemAllocAsync,, (drv_deviceptr *va, size_t size, drv_stream stream)) \
	X(cuMemcpyDtoH, _v2, (void *to, drv_deviceptr from, size_t size)) \
	X(cuMemcpyHtoD, _v2, (drv_deviceptr to, const void *from, size_t size)) \
	X(cuMemcpyDtoHAsync, _v2, (void *to, drv_deviceptr from, size_t size, drv_stream stream)) \
	X(cuMemcpyHtoDAsync, _v2, (drv_deviceptr to, const void *from, size_t size, drv_stream stream)) \
	X(cuModuleLoadData,, (drv_module *module, const void *image)) \
	X(cuModuleUnload,, (drv_module module)) \
	X(cuModuleGetFunction,, (drv_function *function, drv_module module, const char *name)) \
	X(cuLaunchKernel,, (drv_function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, \
		unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, \
		drv_stream stream, void **params, void **extra))

#define DRV_MEMBER(name, version, args) drv_result (*name) args;

/* Pointers to what the library calls, and to what a program calls; the optional ones may be NULL in the former. */
struct drv_library {
	DRV_CALLS_REQUIRED(DRV_MEMBER)
	DRV_CALLS_OPTIONAL(DRV_MEMBER)
	DRV_CALLS_NEW(DRV_MEMBER)
};

struct drv_program {
	DRV_CALLS_REQUIRED(DRV_MEMBER)
	DRV_CALLS_OPTIONAL(DRV_MEMBER)
	DRV_CALLS_PROGRAMS(DRV_MEMBER)
};

/* Looks up a call, and notes the first that is missing of those that have to be there. */
#define DRV_LOAD(name, version, args) \
	*(void **)&calls->name = dlsym(handle, #name #version); \
	if (!calls->name && required && !missing) \
		missing = #name #version;

/* Looks up the calls that the library makes. @handle: of dlopen(). Returns the name of one that is missing, or NULL. */
static inline const char *drv_load_library(void *handle, struct drv_library *calls)
{
	const char *missing = NULL;
	int required = 1;

	DRV_CALLS_REQUIRED(DRV_LOAD)
	required = 0;
	DRV_CALLS_OPTIONAL(DRV_LOAD)
	DRV_CALLS_NEW(DRV_LOAD)
	return missing;
}

/* The same for a program, to which none is optional. */
static inline const char *drv_load_program(void *handle, struct drv_program *calls)
{
	const char *missing = NULL;
	const int required = 1;

	DRV_CALLS_REQUIRED(DRV_LOAD)
	DRV_CALLS_OPTIONAL(DRV_LOAD)
	DRV_CALLS_PROGRAMS(DRV_LOAD)
	return missing;
}

#endif /* CUDA_ABI_H */
