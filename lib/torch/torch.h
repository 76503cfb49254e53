/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libvpmm-torch.so: PyTorch's memory from the default pool of each device. It is the object of a
 * torch.cuda.memory.CUDAPluggableAllocator; the Python module vpmm.torch gives it to PyTorch, with the addresses of the
 * hooks, and calls the rest. The header is not installed: object and module are of one version.
 *
 * No call prints. Those that PyTorch makes throw a C++ exception where an allocation fails, through functions that the
 * process has by then, as PyTorch takes a null pointer for memory.
 */
#ifndef VPMM_TORCH_H
#define VPMM_TORCH_H

#include <stdint.h>
#include <sys/types.h>

#include "vpmm.h"

struct torch_class;

/* c10::MempoolId_t, a pair of numbers: (n, 0) of a graph's own, (0, n) of graph_pool_handle() and MemPool. */
struct torch_pool_id {
	uint64_t a;
	uint64_t b;
};

/**
 * vpmm_torch_alloc() - allocate memory
 * @size: bytes; 0 gives NULL, which is no error
 * @device: ordinal
 * @stream: the stream of that device whose later work uses the memory
 *
 * Return: the address. Where there is no memory, throws c10::OutOfMemoryError, or c10::Error where PyTorch has that in
 *	another form, with a text that begins with "CUDA out of memory."; after any other failure c10::Error with one
 *	that begins with "libvpmm-torch: ". NULL only if the process has nothing that throws.
 */
void *vpmm_torch_alloc(ssize_t size, int device, struct CUstream_st *stream);

/**
 * vpmm_torch_free() - free memory, in the order of a stream
 * @ptr: the address; one that no pool has is counted and left alone
 * @size: bytes, as allocated
 * @device: that of the allocation
 * @stream: that of the allocation
 *
 * A free that cannot be done now is done later. Never throws: destructors call it.
 */
void vpmm_torch_free(void *ptr, size_t size, int device, struct CUstream_st *stream);

/*
 * The hooks. vpmm_torch_memory_fraction() throws as well where it fails. Those that PyTorch gives a std::function pass
 * its address, which is not needed.
 */
void vpmm_torch_init(int device_count);
void vpmm_torch_reset(void);
void vpmm_torch_memory_fraction(double fraction, int device);
void *vpmm_torch_base(void *ptr, size_t *size);
void vpmm_torch_record_stream(void *ptr, struct CUstream_st *stream);

/* Allocations for a pool begin and end. In between a stream is captured, or none, as with torch.cuda.use_mem_pool(). */
void vpmm_torch_begin(int device, struct torch_pool_id id, void *filter);
void vpmm_torch_end(int device, struct torch_pool_id id);

/* The pool is not used any more by one of those that began to. The last one retires its graphs. */
void vpmm_torch_release(int device, struct torch_pool_id id);

/**
 * vpmm_torch_begun() - count the calling thread's captures that are under way, as far as PyTorch has told
 *
 * Return: how many calls of vpmm_torch_begin() there were without one of vpmm_torch_end().
 */
unsigned int vpmm_torch_begun(void);

/**
 * vpmm_torch_capture_failed() - tell what PyTorch's hooks do not: that a capture of this thread has failed
 * @begun: what vpmm_torch_begun() was before that capture began
 *
 * Does nothing if the hooks have told, or the capture is still under way. Otherwise the memory of the capture serves
 * everything else once the device is waited for, and memory of other graphs need not wait for the capture any more.
 */
void vpmm_torch_capture_failed(unsigned int begun);

/**
 * struct vpmm_torch_counts - what PyTorch has asked for, and what became of it
 * @size: sizeof(struct vpmm_torch_counts), set by the caller
 * @allocs: allocations of the device
 * @frees: frees of the device
 * @alloc_bytes: bytes of @allocs, as requested
 * @free_bytes: bytes of @frees
 * @peak_blocks: the most blocks that there were at once since vpmm_torch_reset_peaks()
 * @retries: allocations of the device for which other memory had to be given back first
 * @ooms: those that failed for want of memory
 * @limit: the most bytes that the device's pool may hold, by set_per_process_memory_fraction(); 0: no limit
 * @kept: frees of all devices that cannot be done yet
 * @unknown: frees and uses of addresses that no pool has, none of which is in @frees
 * @failed: frees and uses that failed otherwise, as after the driver is gone; what was to be freed stays allocated
 * @pools: pools that PyTorch has not released; through the class, those that have memory as well
 * @graphs: captures that are not retired yet; 0 through the class, as no graph has memory of its own then
 */
struct vpmm_torch_counts {
	size_t size;
	uint64_t allocs;
	uint64_t frees;
	uint64_t alloc_bytes;
	uint64_t free_bytes;
	uint64_t peak_blocks;
	uint64_t retries;
	uint64_t ooms;
	uint64_t limit;
	uint64_t kept;
	uint64_t unknown;
	uint64_t failed;
	uint64_t pools;
	uint64_t graphs;
};

/* For vpmm.torch: 0, or a negative errno value; -EINVAL for a structure of another size or a device out of range. */
int vpmm_torch_counts(int device, struct vpmm_torch_counts *counts);

/*
 * The default pool of a device. One that PyTorch has not allocated from has nothing, and is not created by asking.
 * -ENXIO:
 * the device cannot be made current.
 */
int vpmm_torch_stats(int device, struct vpmm_stats *stats);
int vpmm_torch_reset_peaks(int device);
int vpmm_torch_trim(int device, size_t *released);
int vpmm_torch_dump(int device, FILE *out);
int vpmm_torch_pause(int device, vpmm_tag tag, unsigned int flags);
int vpmm_torch_resume(int device, vpmm_tag tag);
int vpmm_torch_pause_prepare(int device, vpmm_tag tag);
int vpmm_torch_tag_stats(int device, vpmm_tag tag, struct vpmm_tag_stats *stats);

/**
 * vpmm_torch_set_pressure() - have a function called before an allocation fails for want of memory
 * @fn: returns whether it has given something back, so that the allocation is tried once more; NULL: none
 *
 * Called with no lock held. It may free, and an allocation that fails in there does not call it again.
 */
void vpmm_torch_set_pressure(int (*fn)(int device, size_t size));

/**
 * vpmm_torch_class() - what the allocator class needs, in place of the hooks
 *
 * Return: a table; python/vpmm/torch_class.h has its form.
 */
const struct torch_class *vpmm_torch_class(void);

/**
 * vpmm_torch_take() - map the memory of another process's block
 * @name: the name that the process has given it
 * @device: the ordinal of the device that the memory is on
 * @ptr: receives an address in it, for vpmm_torch_drop()
 * @lead: receives how far behind its start that is, in bytes
 * @size: receives the bytes of the block of the library that starts there
 *
 * PyTorch's memory may come from anywhere in the calling process.
 *
 * Return: 0; -EINVAL: it is no such name; -ESRCH: that process has ended; -ENOENT: the block was freed; -EPERM: it is
 *	another user's; -ENXIO; an error of vpmm_receive(), or of the socket. vpmm_torch_explain() has the words.
 */
int vpmm_torch_take(const char *name, int device, void **ptr, size_t *lead, size_t *size);

/* Unmaps it, behind all work. */
void vpmm_torch_drop(void *ptr);

/* The text for an error of the thread's latest call that gives or takes a name. */
const char *vpmm_torch_explain(int err);

#endif /* VPMM_TORCH_H */
