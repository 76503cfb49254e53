/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libvpmm: a GPU memory pool that makes one block out of scattered free pieces.
 *
 * This header needs no other: neither GLib's nor CUDA's. Device addresses are void pointers, streams are pointers to
 * the structure that CUDA calls both CUstream and cudaStream_t, so either fits without a cast.
 *
 * Every call returns 0 or a negative errno value, and sets errno to match. What a call returns through a pointer is
 * untouched when it fails. vpmm_last_error() has the sentence that goes with the error.
 */
#ifndef VPMM_H
#define VPMM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vpmm_pool;
struct CUstream_st;

/**
 * enum vpmm_log_level - how much a pool says
 * @VPMM_LOG_NONE: nothing, the default
 * @VPMM_LOG_ERROR: calls that failed, with the sentence of vpmm_last_error()
 * @VPMM_LOG_WARNING: what still works, but not as was asked
 * @VPMM_LOG_INFO: pools created and destroyed, address space reserved, growth
 * @VPMM_LOG_DEBUG: every block that is made from pieces, with the layout of the chunk after that; slow
 *
 * Since: 0.1
 */
enum vpmm_log_level {
	VPMM_LOG_NONE = 0,
	VPMM_LOG_ERROR = 1,
	VPMM_LOG_WARNING = 2,
	VPMM_LOG_INFO = 3,
	VPMM_LOG_DEBUG = 4
};

/**
 * enum vpmm_reuse - how memory goes from one stream to another while its last work is still pending
 * @VPMM_REUSE_ASYNC: the stream that takes it waits on the GPU; the caller never waits (the default)
 * @VPMM_REUSE_BLOCK: the caller waits on the host
 *
 * Since: 0.1
 */
enum vpmm_reuse {
	VPMM_REUSE_ASYNC = 0,
	VPMM_REUSE_BLOCK = 1
};

/**
 * enum vpmm_small - who serves small requests
 * @VPMM_SMALL_POOL: the pool; those below a sixteenth of a page from pages that it keeps for them (the default)
 * @VPMM_SMALL_DRIVER: the driver's stream-ordered allocator those below a page, the pool the others
 *
 * Since: 0.1
 */
enum vpmm_small {
	VPMM_SMALL_POOL = 0,
	VPMM_SMALL_DRIVER = 1
};

/**
 * vpmm_log_fn - receives what a pool says
 * @data: log_data of struct vpmm_opts
 * @level: one of enum vpmm_log_level
 * @message: one line without its newline; valid during the call only
 *
 * Context: called on the thread whose call caused the message, with no lock held, so it may call the library.
 */
typedef void (*vpmm_log_fn)(void *data, int level, const char *message);

/**
 * struct vpmm_opts - how a pool is to be
 * @size: sizeof(struct vpmm_opts), set by the caller
 * @backend: "cuda", "host", or "auto" for cuda where there is a device and host elsewhere; NULL: "cuda"
 * @device: the device's ordinal; NULL: the calling thread's current device
 * @page_size: bytes; what device memory is taken in multiples of, itself a multiple of the device's granularity, or
 *	SIZE_MAX for a pool that leaves every request to the driver; 0: 2 MiB, or the next multiple of the granularity
 * @va_size: bytes of address space to reserve at a time, a multiple of the page size; 0: 8 TiB
 * @pages: how many pages to create and map at once; 0: none
 * @reuse: one of enum vpmm_reuse
 * @log_level: one of enum vpmm_log_level
 * @log: receives what the pool says; NULL: standard error
 * @log_data: passed to @log
 * @extent_max: bytes; the largest piece that device memory is created in, a multiple of the page size; 0: 1 GiB, or
 *	the largest such multiple below. With one page and VPMM_SMALL_DRIVER, requests are rounded up to whole pages, and
 *	each page can move by itself
 * @small: one of enum vpmm_small
 * @frag_ratio: percent; free pieces smaller than this part of what is missing are not gathered into a block: new memory
 *	is created instead, so that a large block does not take hundreds of driver calls; 0, the default: all are
 *
 * A field that is zero stands for its default. The environment is not read for a pool that is created with options;
 * vpmm_opts_from_env() reads it into options.
 *
 * Since: 0.1
 */
struct vpmm_opts {
	size_t size;
	const char *backend;
	const int *device;
	size_t page_size;
	size_t va_size;
	size_t pages;
	int reuse;
	int log_level;
	vpmm_log_fn log;
	void *log_data;
	size_t extent_max;
	int small;
	int frag_ratio;
};

/**
 * struct vpmm_info - what a pool stands on, and the settings in force
 * @size: sizeof(struct vpmm_info), set by the caller
 * @backend: "cuda" or "host"
 * @device: the device's ordinal
 * @device_name: the device's name
 * @driver_version: as the CUDA driver has it, 1000 * major + 10 * minor; 0 on the host backend
 * @granularity: bytes; what sizes and addresses of mappings are multiples of
 * @memory_total: bytes of memory of the device
 * @memory_free: bytes of it that nobody holds, this process or another
 * @mapping_limit: how many mappings can exist at once; 0: not known
 * @page_size: bytes
 * @va_size: bytes
 * @pages: pages created with the pool
 * @reuse: one of enum vpmm_reuse
 * @log_level: one of enum vpmm_log_level
 * @extent_max: bytes
 * @small: one of enum vpmm_small
 * @frag_ratio: percent
 *
 * Since: 0.1
 */
struct vpmm_info {
	size_t size;
	char backend[16];
	int device;
	char device_name[128];
	int driver_version;
	uint64_t granularity;
	uint64_t memory_total;
	uint64_t memory_free;
	uint64_t mapping_limit;
	uint64_t page_size;
	uint64_t va_size;
	uint64_t pages;
	int reuse;
	int log_level;
	uint64_t extent_max;
	int small;
	int frag_ratio;
};

/**
 * struct vpmm_stats - what a pool holds and what it has done
 * @size: sizeof(struct vpmm_stats), set by the caller
 * @reserved: bytes of address space
 * @mapped: bytes of device memory that the pool holds
 * @live: bytes of it that are allocated, as requests are rounded up
 * @free: bytes of it that are not, what streams have cached included
 * @holes: bytes of address space that nothing is mapped to
 * @zombies: bytes of address space whose memory has moved
 * @small_live: bytes allocated through the driver's stream-ordered allocator, as requested
 * @small_mapped: bytes that the driver's allocator holds for them
 * @peak_live: the most that @live has been; less where the caches of several streams serve requests at the same time
 * @peak_mapped: the most that @mapped has been
 * @mallocs: successful allocations, small ones too
 * @frees: successful frees, small ones too
 * @reuses: allocations served from what was mapped and free, caches included
 * @steals: allocations that took what another stream had freed; in extents, only where its work was not known to be
 *	done
 * @defrags: allocations for which free regions were put together
 * @grows: allocations for which memory was created
 * @waits: waits for another stream's event on the GPU or, with VPMM_REUSE_BLOCK, for any stream's on the host
 * @creates: driver calls that created memory
 * @maps: driver calls that mapped memory
 * @accesses: driver calls that set access
 * @unmaps: driver calls that unmapped memory
 * @releases: driver calls that released memory
 * @grown: bytes created
 * @remapped: bytes mapped again elsewhere
 * @chunks: reservations of address space, and ranges that are borrowed for small requests
 * @regions: intervals that these are divided into
 * @extents: pieces of device memory
 * @streams: streams that the pool has met
 * @driver_ns: nanoseconds spent in the five kinds of driver calls above
 * @peak_small: bytes; the most that @small_mapped has been
 * @peak_taken: bytes; the most that @mapped and @small_mapped have been together, as seen whenever memory was created
 *	and whenever the statistics were read
 * @stuck: bytes of @free in extents of which something is allocated, and which therefore cannot move
 * @spans: bytes of @mapped that are kept for small requests, or borrowed for them
 * @mappings: places where extents are mapped; one that has moved stays mapped where it was, for when it is wanted there
 *
 * Since: 0.1
 */
struct vpmm_stats {
	size_t size;
	uint64_t reserved;
	uint64_t mapped;
	uint64_t live;
	uint64_t free;
	uint64_t holes;
	uint64_t zombies;
	uint64_t small_live;
	uint64_t small_mapped;
	uint64_t peak_live;
	uint64_t peak_mapped;
	uint64_t mallocs;
	uint64_t frees;
	uint64_t reuses;
	uint64_t steals;
	uint64_t defrags;
	uint64_t grows;
	uint64_t waits;
	uint64_t creates;
	uint64_t maps;
	uint64_t accesses;
	uint64_t unmaps;
	uint64_t releases;
	uint64_t grown;
	uint64_t remapped;
	uint64_t chunks;
	uint64_t regions;
	uint64_t extents;
	uint64_t streams;
	uint64_t driver_ns;
	uint64_t peak_small;
	uint64_t peak_taken;
	uint64_t stuck;
	uint64_t spans;
	uint64_t mappings;
};

/**
 * vpmm_pool_create() - create a pool on one device
 * @pool: receives the pool
 * @opts: how it is to be; NULL: as the environment says, and the defaults for what it does not say
 *
 * Several pools may exist on a device; each keeps its own memory.
 *
 * Context: any thread; may initialise the driver and then takes some 100 ms. Uses the calling thread's current CUDA
 *	context if it belongs to the device, else the device's primary context.
 * Return: 0, or
 *	-EINVAL @pool is NULL, or an option or a variable of the environment has a bad value,
 *	-E2BIG @opts is larger than this library knows and what it does not know is not zero,
 *	-ENODEV there is no driver, or no such device,
 *	-ENOTSUP the device has no virtual memory management, or the driver is older than CUDA 12.0,
 *	-ENOMEM the address space or the initial pages are not to be had,
 *	-EIO the driver reports an earlier failure,
 *	-EBUSY the process was forked from one that had a pool.
 * Since: 0.1
 */
int vpmm_pool_create(struct vpmm_pool **pool, const struct vpmm_opts *opts);

/**
 * vpmm_pool_destroy() - give back everything that a pool holds
 * @pool: the pool, which nobody may use any more; NULL does nothing
 *
 * What is still allocated is given back too.
 *
 * Context: any thread; waits until all streams are past the frees that they were given, which can take waiting for
 *	all work of the context, as not every free has an event of its own. The caller sees to it that no work is
 *	pending on what is still allocated.
 * Since: 0.1
 */
void vpmm_pool_destroy(struct vpmm_pool *pool);

/**
 * vpmm_malloc() - allocate device memory, for use on a stream
 * @pool: the pool; NULL: the default pool of the current device, created as the environment says if there is none yet
 * @ptr: receives the address, a multiple of 512 bytes; of 256 where the driver serves it (VPMM_SMALL_DRIVER)
 * @size: bytes; 0 makes *@ptr NULL
 * @stream: the stream whose work may use the memory from now on; NULL, the legacy and the per-thread default stream
 *	are streams like others
 *
 * The memory is not cleared: it holds what its last user left.
 *
 * Context: any thread. Waits for no stream, unless the pool was created with VPMM_REUSE_BLOCK.
 * Return: 0, or
 *	-EINVAL @ptr is NULL, or the stream is not one,
 *	-ENOMEM neither the pool nor the device has the memory,
 *	-ENOTSUP @size is below a page, and the device has no stream-ordered allocator,
 *	-EIO the driver reports an earlier failure,
 *	-EBUSY the process was forked after the pool was created, or the stream is being captured into a graph,
 *	and, for a NULL @pool, what vpmm_pool_create() returns.
 * Since: 0.1
 */
int vpmm_malloc(struct vpmm_pool *pool, void **ptr, size_t size, struct CUstream_st *stream);

/**
 * vpmm_free() - give device memory back, in the order of a stream
 * @pool: the pool that it was allocated from; NULL: the default pool of the current device
 * @ptr: what vpmm_malloc() gave; NULL does nothing
 * @stream: the stream whose work submitted so far is the last to use it; not necessarily the one it was allocated for,
 *	but, for what the driver serves (VPMM_SMALL_DRIVER), behind the allocation
 *
 * What was allocated for @stream goes to its cache, and serves its next request of that size. A stream that frees and
 * never calls again may keep a little memory from others; vpmm(7) says how little.
 *
 * Context: any thread; does not wait.
 * Return: 0, or
 *	-EINVAL @ptr is not allocated from this pool (any more), or the stream is not one; nothing changes,
 *	-ENOMEM the driver has no memory for an event; the memory stays allocated,
 *	-EIO the driver reports an earlier failure; the memory stays allocated,
 *	-EBUSY the process was forked after the pool was created, or the stream is being captured into a graph; the
 *	memory stays allocated.
 * Since: 0.1
 */
int vpmm_free(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream);

/**
 * vpmm_pool_stats() - what a pool holds and what it has done
 * @pool: the pool; NULL: the default pool of the current device
 * @stats: receives the statistics; its size is set by the caller
 *
 * Context: any thread; does not wait.
 * Return: 0, or
 *	-EINVAL @stats is NULL or its size is too small,
 *	-EIO the driver reports an earlier failure,
 *	-EBUSY the process was forked after the pool was created.
 *	A structure larger than this library knows has the rest cleared.
 * Since: 0.1
 */
int vpmm_pool_stats(struct vpmm_pool *pool, struct vpmm_stats *stats);

/**
 * vpmm_pool_info() - what a pool stands on, and the settings in force
 * @pool: the pool; NULL: the default pool of the current device
 * @info: receives it; its size is set by the caller
 *
 * Context: any thread; does not wait.
 * Return: 0, or
 *	-EINVAL @info is NULL or its size is too small,
 *	-EIO the driver reports an earlier failure,
 *	-EBUSY the process was forked after the pool was created.
 * Since: 0.1
 */
int vpmm_pool_info(struct vpmm_pool *pool, struct vpmm_info *info);

/**
 * vpmm_pool_dump() - write what a pool holds, and every region of it
 * @pool: the pool; NULL: the default pool of the current device
 * @out: where to
 *
 * The form is described in vpmm(7).
 *
 * Context: any thread; holds up the pool while it runs, but for what caches serve, and takes out of the caches what
 *	other streams can have.
 * Return: 0, or
 *	-EINVAL @out is NULL,
 *	-EIO writing failed, or the driver reports an earlier failure,
 *	-EBUSY the process was forked after the pool was created.
 * Since: 0.1
 */
int vpmm_pool_dump(struct vpmm_pool *pool, FILE *out);

/**
 * vpmm_pool_check() - walk every invariant of a pool
 * @pool: the pool; NULL: the default pool of the current device
 *
 * For tests: it looks at everything and takes its time.
 *
 * Context: any thread; holds up the pool while it runs, but for what caches serve.
 * Return: 0 when all hold, or
 *	-EUCLEAN one does not; vpmm_last_error() says which,
 *	-EBUSY the process was forked after the pool was created.
 * Since: 0.1
 */
int vpmm_pool_check(struct vpmm_pool *pool);

/**
 * vpmm_opts_from_env() - read the environment into options
 * @opts: receives them; its size is set by the caller
 *
 * For programs that take the environment's word on all but a few options.
 *
 * Context: any thread, while no other changes the environment. What @opts points to is valid until the environment
 *	changes.
 * Return: 0, or
 *	-EINVAL @opts is NULL or its size is too small, or a variable has a bad value; vpmm_last_error() names it.
 * Since: 0.1
 */
int vpmm_opts_from_env(struct vpmm_opts *opts);

/**
 * vpmm_last_error() - what the calling thread's last failed call has to say
 *
 * Which call, which driver's error, what was asked and what was there.
 *
 * Context: any thread.
 * Return: a sentence, valid until the thread's next call that fails; empty before the first.
 * Since: 0.1
 */
const char *vpmm_last_error(void);

/**
 * vpmm_version() - the version of the library in use
 *
 * Context: any thread.
 * Return: such as "0.1.0".
 * Since: 0.1
 */
const char *vpmm_version(void);

#ifdef __cplusplus
}
#endif

#endif /* VPMM_H */
