/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Rows: small pieces of a CUDA program, each of which says in one line what the driver's calls answered and whether
 * they waited. Lines hold no address, amount or time, so two runs compare by diff: one without the preload object and
 * one with it. It needs a C library and a driver alone, so that it builds on any machine with a GPU.
 */
#ifndef ROWS_H
#define ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int result;
typedef unsigned long long address;

/* As in cuda.h. */
struct pool_props {
	int type;			/* 1: pinned */
	int handles;
	int location_type;		/* 1: a device */
	int location_id;
	void *security;
	size_t max_size;
	unsigned short usage;
	unsigned char reserved[54];
};

struct pool_access {
	int location_type;
	int location_id;
	int flags;			/* 0: none, 3: read and write */
};

/* X(name as the driver exports it, arguments) */
#define ROWS_CALLS(X) \
	X(cuInit, (unsigned int flags)) \
	X(cuDeviceGet, (int *device, int ordinal)) \
	X(cuDevicePrimaryCtxRetain, (void **context, int device)) \
	X(cuDevicePrimaryCtxRelease_v2, (int device)) \
	X(cuDevicePrimaryCtxReset, (int device)) \
	X(cuDevicePrimaryCtxReset_v2, (int device)) \
	X(cuDevicePrimaryCtxGetState, (int device, unsigned int *flags, int *active)) \
	X(cuDeviceTotalMem_v2, (size_t *bytes, int device)) \
	X(cuDeviceGetDefaultMemPool, (void **pool, int device)) \
	X(cuDeviceGetMemPool, (void **pool, int device)) \
	X(cuDeviceSetMemPool, (int device, void *pool)) \
	X(cuCtxCreate_v2, (void **context, unsigned int flags, int device)) \
	X(cuCtxDestroy_v2, (void *context)) \
	X(cuCtxGetCurrent, (void **context)) \
	X(cuCtxSetCurrent, (void *context)) \
	X(cuCtxSynchronize, (void)) \
	X(cuGetProcAddress_v2, (const char *name, void **call, int version, unsigned long long flags, int *status)) \
	X(cuMemAlloc_v2, (address *va, size_t size)) \
	X(cuMemAllocPitch_v2, (address *va, size_t *pitch, size_t width, size_t height, unsigned int element)) \
	X(cuMemFree_v2, (address va)) \
	X(cuMemAllocHost_v2, (void **to, size_t size)) \
	X(cuMemFreeHost, (void *from)) \
	X(cuMemAllocAsync, (address *va, size_t size, void *stream)) \
	X(cuMemAllocAsync_ptsz, (address *va, size_t size, void *stream)) \
	X(cuMemAllocFromPoolAsync, (address *va, size_t size, void *pool, void *stream)) \
	X(cuMemFreeAsync, (address va, void *stream)) \
	X(cuMemFreeAsync_ptsz, (address va, void *stream)) \
	X(cuMemGetInfo_v2, (size_t *free, size_t *total)) \
	X(cuMemGetAddressRange_v2, (address *base, size_t *size, address va)) \
	X(cuMemGetHandleForAddressRange, (void *handle, address va, size_t size, int type, unsigned long long flags)) \
	X(cuMemRetainAllocationHandle, (unsigned long long *handle, void *at)) \
	X(cuMemRelease, (unsigned long long handle)) \
	X(cuMemPoolCreate, (void **pool, const struct pool_props *props)) \
	X(cuMemPoolDestroy, (void *pool)) \
	X(cuMemPoolTrimTo, (void *pool, size_t keep)) \
	X(cuMemPoolGetAttribute, (void *pool, int attribute, void *value)) \
	X(cuMemPoolSetAttribute, (void *pool, int attribute, void *value)) \
	X(cuMemPoolSetAccess, (void *pool, const struct pool_access *access, size_t count)) \
	X(cuMemPoolGetAccess, (int *flags, void *pool, const int *location)) \
	X(cuMemcpyHtoD_v2, (address to, const void *from, size_t size)) \
	X(cuMemcpyDtoH_v2, (void *to, address from, size_t size)) \
	X(cuMemsetD8Async, (address va, unsigned char value, size_t size, void *stream)) \
	X(cuPointerGetAttribute, (void *value, int attribute, address va)) \
	X(cuPointerGetAttributes, (unsigned int count, const int *attributes, void **values, address va)) \
	X(cuPointerSetAttribute, (const void *value, int attribute, address va)) \
	X(cuIpcGetMemHandle, (void *handle, address va)) \
	X(cuStreamCreate, (void **stream, unsigned int flags)) \
	X(cuStreamDestroy_v2, (void *stream)) \
	X(cuStreamSynchronize, (void *stream)) \
	X(cuStreamBeginCapture_v2, (void *stream, int mode)) \
	X(cuStreamEndCapture, (void *stream, void **graph)) \
	X(cuGraphInstantiateWithFlags, (void **exec, void *graph, unsigned long long flags)) \
	X(cuGraphLaunch, (void *exec, void *stream)) \
	X(cuGraphExecDestroy, (void *exec)) \
	X(cuGraphDestroy, (void *graph)) \
	X(cuEventCreate, (void **event, unsigned int flags)) \
	X(cuEventDestroy_v2, (void *event)) \
	X(cuEventRecord, (void *event, void *stream)) \
	X(cuEventQuery, (void *event)) \
	X(cuModuleLoadData, (void **module, const void *image)) \
	X(cuModuleGetFunction, (void **function, void *module, const char *name)) \
	X(cuLaunchKernel, (void *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, \
		unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, \
		void *stream, void **params, void **extra))

struct rows_calls {
#define X(name, args) result (*name) args;
	ROWS_CALLS(X)
#undef X
};
extern struct rows_calls cu_calls;

/* A call of the driver. Where it has none of this name, the row ends, and its line says so. */
#define CU(name, ...) (cu_calls.name ? cu_calls.name(__VA_ARGS__) : (row_lacks(#name), 0))

_Noreturn void row_lacks(const char *name);

/*
 * What the preload object changes, in the words of vpmm-preload(7), joined and without markup. A row whose @differs is
 * one of these may have another line under the object; every other row may not. Where the sentence is of waits, only
 * what waited may be another; where it is of frees, all may; elsewhere, all but the codes of frees and
 * synchronisations.
 */
#define DIFFERS_TRUTH "Queries about addresses go to the driver, which describes mapped memory"
#define DIFFERS_RANGE "cuMemGetAddressRange returns the range of one mapping, of which a block can have several"
#define DIFFERS_WAIT "With the object it also waits for memory of cudaMallocAsync, for which the driver would not wait."
#define DIFFERS_BESIDE "During a capture, allocations and frees on other streams work in every capture mode"
#define DIFFERS_AFTER "After a reset, a free of memory from before the reset fails"
#define DIFFERS_UNRETAINED "After a reset, memory can be allocated and freed without another retain"
#define DIFFERS_IPC "cudaIpcGetMemHandle also shares memory of cudaMallocAsync, which the driver refuses"
#define DIFFERS_RESET "Before a primary context is reset, or released for the last time, the object waits for its work"

/*
 * lacks: what the suite's own driver does not do as the real one does, so that the row needs that one.
 */
struct row {
	const char *name;
	void (*run)(int arg);
	int arg;
	const char *differs;
	const char *lacks;
};

struct rows {
	const char *group;
	const struct row *rows;
	size_t count;
};

#define ROWS(group, rows) { group, rows, sizeof(rows) / sizeof(*(rows)) }

extern const struct rows rows_memory, rows_attributes, rows_waits, rows_captures, rows_contexts, rows_faults;

extern int device;
extern void *primary;
extern bool kernels_lost;		/* with the context that they were loaded in */

/* Adds to the line: the code of a call, a truth, a small number. */
result said(const char *what, result code);
bool fact(const char *what, bool is);
void number(const char *what, long long value);

/* Ends the row if the call failed. */
void must(const char *what, result code);

/* Memory, which the row cannot do without. */
address get(size_t size);
address get_async(size_t size, void *stream);

void *new_stream(void);			/* which does not wait for the legacy one */
size_t memory_free(void);

/* A kernel of so many milliseconds; the suite's own driver has work instead that ends when somebody waits for it. */
void spin(void *stream, unsigned int ms);

/* A kernel that writes to an address that does not exist. */
void fault(void);

/*
 * Between the two the row makes the call that it is about; waited() says whether the 300 ms on the stream were over by
 * then, and waits for them.
 */
void busy(void *stream);
void waited(void);

#endif /* ROWS_H */
