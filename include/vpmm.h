/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libvpmm: a GPU memory pool that undoes fragmentation by remapping free memory.
 *
 * This header needs no other: neither GLib's nor CUDA's. Device addresses are void pointers, streams are pointers to
 * the structure that CUDA calls both CUstream and cudaStream_t, so either fits without a cast.
 *
 * Structures that start with their size may grow. The caller sets the size to sizeof, which may be that of any released
 * version of this header. A larger structure, up to 4096 bytes, is one of a later version: the library clears the
 * fields that it does not know, or, in struct vpmm_opts, requires them to be zero. Any other size is -EINVAL.
 *
 * Every call returns 0 or a negative errno value, and sets errno to match. When it fails, it leaves untouched what it
 * would return through a pointer, and vpmm_last_error() has the reason.
 */
#ifndef VPMM_H
#define VPMM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * The version of this header, for #if; vpmm_version() has that of the library in use. Since: 0.1
 */
#define VPMM_VERSION_MAJOR 0
#define VPMM_VERSION_MINOR 1
#define VPMM_VERSION_PATCH 0

/**
 * VPMM_VERSION_ENCODE() - a version as one number, larger for a later version
 * @major: 0 or more
 * @minor: 0 to 999
 * @patch: 0 to 999
 *
 * Since: 0.1
 */
#define VPMM_VERSION_ENCODE(major, minor, patch) ((major) * 1000000 + (minor) * 1000 + (patch))

/* The version of this header as one number. Since: 0.1 */
#define VPMM_VERSION_NUMBER VPMM_VERSION_ENCODE(VPMM_VERSION_MAJOR, VPMM_VERSION_MINOR, VPMM_VERSION_PATCH)

/**
 * VPMM_VERSION_AT_LEAST() - whether this header is of at least a version
 * @major: 0 or more
 * @minor: 0 to 999
 * @patch: 0 to 999
 *
 * Since: 0.1
 */
#define VPMM_VERSION_AT_LEAST(major, minor, patch) (VPMM_VERSION_NUMBER >= VPMM_VERSION_ENCODE(major, minor, patch))

#ifdef __cplusplus
extern "C" {
#endif

struct vpmm_pool;
struct CUstream_st;

/**
 * enum vpmm_log_level - how much a pool logs; each level includes those before it
 * @VPMM_LOG_NONE: nothing, the default
 * @VPMM_LOG_ERROR: calls that failed, with the text of vpmm_last_error()
 * @VPMM_LOG_WARNING: what works, but not as requested
 * @VPMM_LOG_INFO: pools created and destroyed, address space reserved, memory created
 * @VPMM_LOG_DEBUG: each block that is made by remapping, with the layout of its chunk; slow
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
 * enum vpmm_reuse - who waits when a stream gets memory that another stream's work is pending on
 * @VPMM_REUSE_ASYNC: the stream, on the GPU (the default)
 * @VPMM_REUSE_BLOCK: the caller, on the host
 *
 * Since: 0.1
 */
enum vpmm_reuse {
	VPMM_REUSE_ASYNC = 0,
	VPMM_REUSE_BLOCK = 1
};

/**
 * enum vpmm_small - who serves small requests
 * @VPMM_SMALL_POOL: the pool, from slabs for those below a sixteenth of a page (the default)
 * @VPMM_SMALL_DRIVER: the driver's stream-ordered allocator, for those below a page
 *
 * Since: 0.1
 */
enum vpmm_small {
	VPMM_SMALL_POOL = 0,
	VPMM_SMALL_DRIVER = 1
};

/**
 * enum vpmm_scrub - which memory is cleared before it is handed out
 * @VPMM_SCRUB_NONE: none; a block holds what its last user left (the default)
 * @VPMM_SCRUB_STREAM: memory that another stream had last, and memory that is new from the device
 * @VPMM_SCRUB_ALWAYS: all memory; there are no caches
 *
 * Since: 0.1
 */
enum vpmm_scrub {
	VPMM_SCRUB_NONE = 0,
	VPMM_SCRUB_STREAM = 1,
	VPMM_SCRUB_ALWAYS = 2
};

/**
 * vpmm_log_fn - receives the log messages of a pool
 * @data: log_data of struct vpmm_opts
 * @level: one of enum vpmm_log_level
 * @message: one line without its newline; valid during the call only
 *
 * It may call the library, but must return. It is never entered twice on a thread: messages of the calls that it makes
 * are delivered after it has returned, and messages of calls that it makes during that delivery are dropped. Messages
 * of a pool that is destroyed, or fails to be created, inside a callback are dropped. "pool destroyed" arrives while
 * the pool can still be used. No thread may destroy a pool while a callback of that pool runs on another.
 *
 * Context: called on the thread whose call caused the message, with no lock held.
 */
typedef void (*vpmm_log_fn)(void *data, int level, const char *message);

/**
 * vpmm_pressure_fn - may give memory back before an allocation fails for want of it
 * @data: pressure_data of struct vpmm_opts
 * @pool: the pool
 * @size: bytes of the allocation
 *
 * It may free blocks of this pool or another, trim other pools, or release device memory by other means. It is not
 * called for a request that is larger than the limit or than the device's memory.
 *
 * Context: called on the thread whose allocation would fail, with no lock held, so it may call the library; an
 *	allocation that fails in there does not call it again.
 * Return: not 0 if it gave something back: the allocation is tried again, and if it fails again, so is this; 0 if it
 *	has nothing to give.
 */
typedef int (*vpmm_pressure_fn)(void *data, struct vpmm_pool *pool, size_t size);

/**
 * vpmm_exhausted_fn - is told that an allocation fails for want of memory
 * @data: pressure_data of struct vpmm_opts
 * @pool: the pool
 * @size: bytes of the allocation
 * @message: why, as vpmm_last_error() will have it; valid during the call only
 *
 * Context: called on the thread whose allocation fails, with no lock held, so it may call the library.
 */
typedef void (*vpmm_exhausted_fn)(void *data, struct vpmm_pool *pool, size_t size, const char *message);

/* For keep of struct vpmm_opts, where 0 is the default: the pool keeps no free memory. */
#define VPMM_KEEP_NONE ((size_t)1)

/**
 * struct vpmm_opts - the options of a pool
 * @size: sizeof(struct vpmm_opts), set by the caller
 * @backend: "cuda", "host", or "auto" for cuda where there is a device and host elsewhere; NULL: "cuda"
 * @device: the device's ordinal; NULL: the calling thread's current device
 * @page_size: bytes of a page, the unit in which device memory is taken, a multiple of the device's granularity;
 *	SIZE_MAX leaves every request to the driver; 0: 2 MiB, or the next multiple of the granularity
 * @va_size: bytes of address space to reserve at a time, a multiple of the page size; 0: 8 TiB
 * @pages: how many pages to create with the pool; 0: none
 * @reuse: one of enum vpmm_reuse
 * @log_level: one of enum vpmm_log_level
 * @log: receives the log messages; NULL: standard error
 * @log_data: passed to @log
 * @extent_max: bytes of the largest extent (one physical allocation), a multiple of the page size; 0: 1 GiB, or the
 *	next smaller multiple. With one page and VPMM_SMALL_DRIVER the pool is in paged mode, see vpmm(7)
 * @small: one of enum vpmm_small
 * @frag_ratio: percent; free extents smaller than this part of what is to be remapped for a block are left out, and
 *	memory is created instead, so that a large block does not take hundreds of driver calls; 0: none is left out
 * @overhead: percent, up to 25; about how much more memory than the peak of what is allocated the pool may hold, in
 *	return for larger extents, which take fewer driver calls; 0: 1
 * @limit: bytes; the most device memory that the pool may hold, including what the driver's allocator serves for it; 0:
 *	no limit
 * @limit_percent: the same as a percentage of the device's memory; the smaller of two limits counts; 0: no limit
 * @keep: bytes; while the pool holds more device memory, it gives free extents back that no work is pending on, but not
 *	slabs, which only vpmm_pool_trim() gives back; VPMM_KEEP_NONE, or less than a page: no free memory is kept; 0:
 *	all is
 * @scrub: one of enum vpmm_scrub
 * @pressure: called before an allocation fails for want of memory; NULL: none
 * @exhausted: called when it fails; NULL: none
 * @pressure_data: passed to both
 * @trace: the name of a file in which the calls on the pool are recorded, see vpmm-trace(5); %p in it is the process id,
 *	%% a percent sign, and .gz at its end has it compressed; NULL: none
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
	int limit_percent;
	int overhead;
	size_t limit;
	size_t keep;
	int scrub;
	vpmm_pressure_fn pressure;
	vpmm_exhausted_fn exhausted;
	void *pressure_data;
	const char *trace;
};

/**
 * struct vpmm_info - the device of a pool, and the settings in force
 * @size: sizeof(struct vpmm_info), set by the caller
 * @backend: "cuda" or "host"
 * @device: the device's ordinal
 * @device_name: the device's name
 * @driver_version: as the CUDA driver has it, 1000 * major + 10 * minor; 0 on the host backend
 * @granularity: bytes; sizes and addresses of mappings are multiples of it
 * @memory_total: bytes of memory of the device
 * @memory_free: bytes of it that no process holds
 * @mapping_limit: how many mappings can exist at once; 0: unknown
 * @page_size: bytes
 * @va_size: bytes
 * @pages: pages created with the pool
 * @reuse: one of enum vpmm_reuse
 * @log_level: one of enum vpmm_log_level
 * @extent_max: bytes
 * @small: one of enum vpmm_small
 * @frag_ratio: percent
 * @overhead: percent
 * @scrub: one of enum vpmm_scrub
 * @limit: bytes; UINT64_MAX: none
 * @keep: bytes; UINT64_MAX: everything
 * @trace: the name of the file in which calls are recorded, with %p replaced, valid as long as the process; NULL: none
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
	int scrub;
	int overhead;
	uint64_t limit;
	uint64_t keep;
	const char *trace;
};

/**
 * struct vpmm_stats - what a pool holds and what it has done
 * @size: sizeof(struct vpmm_stats), set by the caller
 * @reserved: bytes of address space
 * @mapped: bytes of device memory that the pool holds, without @small_mapped
 * @live: bytes of @mapped that are allocated, with sizes as they are rounded up
 * @free: bytes of @mapped that are free, cached blocks included
 * @holes: bytes of address space with nothing mapped
 * @zombies: bytes of address space that are still mapped, but whose memory is in use at another mapping
 * @small_live: bytes allocated through the driver's stream-ordered allocator, as requested
 * @small_mapped: bytes that the driver's allocator holds for them
 * @peak_live: the most that @live has been
 * @peak_mapped: the most that @mapped has been
 * @mallocs: successful allocations
 * @frees: successful frees
 * @reuses: allocations served from mapped, free memory, caches included
 * @steals: allocations for which the stream had to be ordered after another stream's work; in paged mode, those of
 *	@reuses that took another stream's region
 * @defrags: allocations that were served by remapping
 * @grows: allocations for which memory was created
 * @waits: waits for another stream's event on the GPU or, with VPMM_REUSE_BLOCK, for any stream's on the host
 * @creates: driver calls that created memory
 * @maps: driver calls that mapped memory
 * @accesses: driver calls that set access
 * @unmaps: driver calls that unmapped memory
 * @releases: driver calls that released memory
 * @grown: bytes created
 * @remapped: bytes remapped
 * @chunks: reservations of address space
 * @regions: intervals that the chunks are divided into
 * @extents: physical allocations
 * @streams: streams that the pool knows, and captures
 * @driver_ns: nanoseconds spent in the five kinds of driver calls above
 * @peak_small: bytes; the most that @small_mapped has been
 * @peak_taken: bytes; the most that @mapped and @small_mapped have been together, as seen whenever memory was created
 *	and whenever the statistics were read
 * @stuck: bytes of @free that are pinned: in extents of which another part is allocated, so that they cannot be
 *	remapped
 * @spans: bytes of @mapped in slabs
 * @mappings: ranges of addresses at which extents are mapped; an extent can have several
 * @held: bytes of @live or @small_live whose free is deferred, for graphs or for streams that cannot be recorded
 * @given_back: bytes of device memory that were given back to the device
 * @scrubbed: bytes that were cleared
 * @waits_sampled: how many of those of @waits that are on the GPU were measured
 * @wait_ns: nanoseconds that streams stood in those of @waits_sampled, together
 * @requested: bytes of @live and @small_live, as they were requested
 * @peak_requested: the most that @requested has been
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
	uint64_t held;
	uint64_t given_back;
	uint64_t scrubbed;
	uint64_t waits_sampled;
	uint64_t wait_ns;
	uint64_t requested;
	uint64_t peak_requested;
};

/**
 * enum vpmm_way - how a request would be served
 * @VPMM_WAY_NONE: it would fail with -ENOMEM, unless waiting for pending work, deferred frees, or memory that the
 *	driver's allocator holds would help
 * @VPMM_WAY_REUSE: by memory that is mapped and free
 * @VPMM_WAY_HARVEST: by remapping free memory
 * @VPMM_WAY_GROW: by creating memory, and remapping what is free
 *
 * Since: 0.1
 */
enum vpmm_way {
	VPMM_WAY_NONE = 0,
	VPMM_WAY_REUSE = 1,
	VPMM_WAY_HARVEST = 2,
	VPMM_WAY_GROW = 3
};

/**
 * struct vpmm_forecast - how a request would be served, and at what cost
 * @size: sizeof(struct vpmm_forecast), set by the caller
 * @way: one of enum vpmm_way
 * @waits: how many other streams the stream would wait for
 * @remapped: bytes that would be remapped
 * @grown: bytes that would be created
 * @calls: about how many driver calls it would take
 * @largest: bytes of the largest request that could be served now, with all free memory of the device
 *
 * Since: 0.1
 */
struct vpmm_forecast {
	size_t size;
	int way;
	uint64_t waits;
	uint64_t remapped;
	uint64_t grown;
	uint64_t calls;
	uint64_t largest;
};

/**
 * struct vpmm_allocation - the allocation that an address is in
 * @size: sizeof(struct vpmm_allocation), set by the caller
 * @pool: the pool
 * @device: ordinal of the device
 * @base: where the allocation starts, as the pool returned it
 * @bytes: its size, as requested
 *
 * Since: 0.1
 */
struct vpmm_allocation {
	size_t size;
	struct vpmm_pool *pool;
	int device;
	void *base;
	uint64_t bytes;
};

/**
 * vpmm_pool_create() - create a pool on one device
 * @pool: receives the pool
 * @opts: the options; NULL: those of the environment, see vpmm(7)
 *
 * Several pools may exist on a device; each keeps its own memory.
 *
 * Context: any thread; may initialise the driver and then takes some 100 ms. Uses the calling thread's current CUDA
 *	context if it belongs to the device, else the device's primary context.
 * Return: 0, or
 *	-EINVAL @pool is NULL, or an option or a variable of the environment has a bad value,
 *	-E2BIG @opts is larger than this library knows, and not zero beyond that,
 *	-ENODEV there is no driver, or no such device,
 *	-ENOTSUP the device has no virtual memory management, or the driver is older than CUDA 12.0,
 *	-ENOMEM there is not enough address space, or not enough memory for the initial pages,
 *	-EIO the driver reports an earlier failure,
 *	-EBUSY the process was forked from one that had a pool.
 * Since: 0.1
 */
int vpmm_pool_create(struct vpmm_pool **pool, const struct vpmm_opts *opts);

/**
 * vpmm_pool_destroy() - give back everything that a pool holds
 * @pool: the pool, which no other thread uses; NULL does nothing
 *
 * Blocks that are still allocated are freed too.
 *
 * Context: any thread; waits until all streams are past their frees, which can mean all work of the context, as not
 *	every free has an event of its own. The caller makes sure that no work is pending on blocks that are still
 *	allocated.
 * Since: 0.1
 */
void vpmm_pool_destroy(struct vpmm_pool *pool);

/**
 * vpmm_malloc() - allocate device memory, for use on a stream
 * @pool: the pool; NULL: the default pool of the current device, created with the options of the environment if there
 *	is none yet
 * @ptr: receives the address, a multiple of 512 bytes; of 256 where the driver serves it (VPMM_SMALL_DRIVER)
 * @size: bytes; 0 makes *@ptr NULL
 * @stream: the stream whose later work may use the memory; NULL, the legacy and the per-thread default stream are
 *	streams like others
 *
 * The memory is not cleared: it holds what its last user left.
 *
 * Context: any thread. Does not wait on the host, unless the pool was created with VPMM_REUSE_BLOCK, or @stream is
 *	under capture, or the request would fail otherwise.
 * Return: 0, or
 *	-EINVAL @ptr is NULL, or @stream is not a stream,
 *	-ENOMEM device memory, the limit of the pool, address space or mappings are exhausted,
 *	-ENOTSUP the driver would have to serve the request and cannot, or @stream is under capture and the pool leaves
 *	every request to the driver,
 *	-EIO the driver reports an earlier failure,
 *	-EBUSY the process was forked after the pool was created, or @stream is the legacy default stream while another
 *	is under capture, or its capture was invalidated,
 *	and, for a NULL @pool, what vpmm_pool_create() returns.
 * Since: 0.1
 */
int vpmm_malloc(struct vpmm_pool *pool, void **ptr, size_t size, struct CUstream_st *stream);

/* For vpmm_malloc_flags(): the memory is cleared, in the order of the stream. */
#define VPMM_ZERO 0x1u

/**
 * vpmm_malloc_flags() - allocate device memory with flags
 * @pool: the pool; NULL: the default pool of the current device
 * @ptr: receives the address
 * @size: bytes; 0 makes *@ptr NULL
 * @stream: the stream whose later work may use the memory
 * @flags: 0, which makes it vpmm_malloc(), or VPMM_ZERO
 *
 * Context: that of vpmm_malloc().
 * Return: 0, an error of vpmm_malloc(), or
 *	-EINVAL @flags has an unknown flag,
 *	-EIO the driver failed to clear the memory; the block is free again.
 * Since: 0.1
 */
int vpmm_malloc_flags(struct vpmm_pool *pool, void **ptr, size_t size, struct CUstream_st *stream, unsigned int flags);

/**
 * vpmm_free() - free device memory, in the order of a stream
 * @pool: the pool of the block; NULL: the default pool of the current device
 * @ptr: the block; NULL does nothing
 * @stream: a stream that is behind every use of the block, its own work up to now included. It need not be the stream
 *	of the allocation, but must be behind the allocation if the driver served it (VPMM_SMALL_DRIVER)
 *
 * A block that was allocated for @stream goes to the stream's cache, which serves later requests of the same size. A
 * stream that frees and never calls again may keep a little memory from others; vpmm_stream_retire(3) has the bound.
 *
 * Context: any thread; does not wait.
 * Return: 0, or
 *	-EINVAL @ptr is not allocated from this pool (any more), or @stream is not a stream; nothing changes,
 *	-ENOMEM the driver has no memory for an event; the memory stays allocated,
 *	-EIO the driver reports an earlier failure; the memory stays allocated,
 *	-EBUSY the process was forked after the pool was created, or @stream is the legacy default stream while another
 *	is under capture, or its capture was invalidated; the memory stays allocated.
 * Since: 0.1
 */
int vpmm_free(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream);

/**
 * vpmm_realloc() - change the size of a block, in the order of a stream
 * @pool: the pool of the block; NULL: the default pool of the current device
 * @ptr: the block, which is replaced by the new address, often the same; NULL in it makes this vpmm_malloc()
 * @size: the new size in bytes; 0 makes this vpmm_free(), and *@ptr NULL
 * @stream: a stream that is behind every use of the block but those announced by vpmm_use(), as for vpmm_free(). The
 *	block belongs to it afterwards, as if it had been allocated for it
 *
 * The contents are kept up to the smaller of both sizes; what comes behind is as vpmm_malloc() gives it. The block stays
 * where it is if there is room behind it, or if it becomes smaller. Otherwise its contents are copied to another address
 * by work on @stream, and the old block is freed on @stream. In either case @stream waits for the streams that
 * vpmm_use() has named, and they have to be named anew if they are to use the block again.
 *
 * On failure the block is as it was, at the same address.
 *
 * Under capture, and of a block that a graph uses, the contents are always copied: the copy becomes part of the graph
 * that @stream is captured into, and a graph that uses the old block has it until vpmm_graph_retire().
 *
 * Context: that of vpmm_malloc().
 * Return: 0, an error of vpmm_malloc() or vpmm_free(), or
 *	-EINVAL @ptr is NULL, or no block of the pool starts at *@ptr, or a stream that vpmm_use() has named was
 *	destroyed without vpmm_stream_retire(),
 *	-EBUSY a stream that vpmm_use() has named cannot be waited for, as it is under capture or another thread's
 *	default stream; or @stream is under capture and other streams use the block.
 * Since: 0.1
 */
int vpmm_realloc(struct vpmm_pool *pool, void **ptr, size_t size, struct CUstream_st *stream);

/**
 * vpmm_use() - name another stream that uses a block, as PyTorch's record_stream does
 * @pool: the pool of the block; NULL: the default pool of the current device
 * @ptr: the block; NULL does nothing
 * @stream: the stream
 *
 * The free of the block covers the work that was submitted to @stream before it: whoever gets the memory next is
 * ordered behind that on the GPU. The caller orders the work on @stream behind the allocation.
 *
 * A stream that is destroyed before the free must be retired with vpmm_stream_retire() first. If @stream is under
 * capture, the block stays with the graph, see vpmm_graph_retire().
 *
 * Context: any thread; does not wait.
 * Return: 0, or
 *	-EINVAL @ptr is not allocated from this pool (any more), or @stream is not a stream,
 *	-EIO the driver reports an earlier failure,
 *	-EBUSY the process was forked after the pool was created, or @stream is the legacy default stream while another
 *	is under capture, or its capture was invalidated.
 * Since: 0.1
 */
int vpmm_use(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream);

/**
 * vpmm_stream_retire() - tell a pool that a stream is about to be destroyed
 * @pool: the pool; NULL: the default pool of the current device
 * @stream: the stream, with all its work submitted
 *
 * All memory that it has freed becomes available to other streams, behind its work so far, and the pool forgets it. The
 * stream may go on after the call; to the pool it is a new stream then. vpmm_stream_retire(3) says what stays behind if
 * a stream is destroyed without this.
 *
 * Context: any thread; for the per-thread default stream, the thread that it belongs to. Does not wait.
 * Return: 0, or
 *	-EINVAL @stream is not a stream,
 *	-ENOMEM the driver has no memory for an event,
 *	-EIO the driver reports an earlier failure,
 *	-EBUSY the process was forked after the pool was created, or @stream is under capture, or is the legacy default
 *	stream while another is.
 * Since: 0.1
 */
int vpmm_stream_retire(struct vpmm_pool *pool, struct CUstream_st *stream);

/**
 * vpmm_capture_id() - get the id of the capture that a stream is under
 * @pool: the pool; NULL: the default pool of the current device
 * @stream: the stream
 * @id: receives the id, that of cuStreamGetCaptureInfo(); 0: the stream is not under capture
 *
 * Context: any thread; does not wait, and does not invalidate the capture.
 * Return: 0, or
 *	-EINVAL @id is NULL, or @stream is not a stream,
 *	-EIO the driver reports an earlier failure,
 *	-EBUSY the process was forked after the pool was created, or @stream is the legacy default stream while another
 *	is under capture, or its capture was invalidated.
 * Since: 0.1
 */
int vpmm_capture_id(struct vpmm_pool *pool, struct CUstream_st *stream, uint64_t *id);

/**
 * vpmm_graph_retire() - tell a pool that a graph will not be launched any more
 * @pool: the pool; NULL: the default pool of the current device
 * @id: the id of its capture, from vpmm_capture_id(); an id that the pool has no memory for does nothing
 * @stream: a stream behind the graph's last launch
 *
 * All memory that was allocated, freed or used under the capture belongs to the graph until this call. Blocks that were
 * freed, during the capture or since, become free in the order of @stream; others stay allocated.
 *
 * Context: any thread; does not wait.
 * Return: 0, or
 *	-EINVAL @stream is not a stream,
 *	-ENOMEM the driver has no memory for an event; nothing has changed,
 *	-EIO the driver reports an earlier failure; nothing has changed,
 *	-EBUSY the process was forked after the pool was created, or @stream is under capture, or is the legacy default
 *	stream while another is; nothing has changed.
 * Since: 0.1
 */
int vpmm_graph_retire(struct vpmm_pool *pool, uint64_t id, struct CUstream_st *stream);

/**
 * vpmm_pool_trim() - give free memory back to the device
 * @pool: the pool; NULL: the default pool of the current device
 * @keep: bytes of device memory that the pool is to keep, allocated or not
 * @released: receives how many bytes were given back; may be NULL
 *
 * Memory that work may be pending on stays, and so does free memory in extents of which another part is allocated.
 *
 * Context: any thread; does not wait for streams; takes some 20 us for each extent.
 * Return: 0, or
 *	-EIO the driver reports an earlier failure,
 *	-EBUSY the process was forked after the pool was created.
 * Since: 0.1
 */
int vpmm_pool_trim(struct vpmm_pool *pool, size_t keep, size_t *released);

/**
 * vpmm_pool_query() - tell how a request would be served, and at what cost
 * @pool: the pool; NULL: the default pool of the current device
 * @size: bytes
 * @stream: the stream that the request would be for
 * @forecast: receives the answer; its size is set by the caller
 *
 * Nothing is allocated or reserved: another thread, or another process, may be first.
 *
 * Context: any thread; does not wait. Cached blocks that an event covers leave their caches.
 * Return: 0, also if the request would fail for want of memory, or
 *	-EINVAL @forecast is NULL or has the size of no version, or @stream is not a stream,
 *	-EIO the driver reports an earlier failure,
 *	-EBUSY the process was forked after the pool was created, or @stream is under capture, or is the legacy default
 *	stream while another is.
 * Since: 0.1
 */
int vpmm_pool_query(struct vpmm_pool *pool, size_t size, struct CUstream_st *stream, struct vpmm_forecast *forecast);

/**
 * vpmm_pool_stats() - get the statistics of a pool
 * @pool: the pool; NULL: the default pool of the current device
 * @stats: receives the statistics; its size is set by the caller
 *
 * Context: any thread; does not wait.
 * Return: 0, or
 *	-EINVAL @stats is NULL or has the size of no version,
 *	-EIO the driver reports an earlier failure,
 *	-EBUSY the process was forked after the pool was created.
 * Since: 0.1
 */
int vpmm_pool_stats(struct vpmm_pool *pool, struct vpmm_stats *stats);

/**
 * vpmm_pool_reset_peaks() - let the peaks in the statistics begin anew
 * @pool: the pool; NULL: the default pool of the current device
 *
 * The peaks of struct vpmm_stats become what is there now. How much memory the pool may hold does not change.
 *
 * Context: any thread; does not wait.
 * Return: 0, or
 *	-EIO the driver reports an earlier failure; nothing has changed,
 *	-EBUSY the process was forked after the pool was created.
 * Since: 0.1
 */
int vpmm_pool_reset_peaks(struct vpmm_pool *pool);

/**
 * vpmm_pool_info() - get the device of a pool, and the settings in force
 * @pool: the pool; NULL: the default pool of the current device
 * @info: receives them; its size is set by the caller
 *
 * Context: any thread; does not wait.
 * Return: 0, or
 *	-EINVAL @info is NULL or has the size of no version,
 *	-EIO the driver reports an earlier failure,
 *	-EBUSY the process was forked after the pool was created.
 * Since: 0.1
 */
int vpmm_pool_info(struct vpmm_pool *pool, struct vpmm_info *info);

/**
 * vpmm_pool_dump() - write the layout of a pool
 * @pool: the pool; NULL: the default pool of the current device
 * @out: where to write it
 *
 * vpmm_pool_dump(3) describes the format.
 *
 * Context: any thread; other calls that take the slow path wait for it. Cached blocks that an event covers leave their
 *	caches.
 * Return: 0, or
 *	-EINVAL @out is NULL,
 *	-EIO writing failed, or the driver reports an earlier failure,
 *	-EBUSY the process was forked after the pool was created.
 * Since: 0.1
 */
int vpmm_pool_dump(struct vpmm_pool *pool, FILE *out);

/**
 * vpmm_pool_check() - check every invariant of a pool
 * @pool: the pool; NULL: the default pool of the current device
 *
 * For tests: it is slow.
 *
 * Context: any thread; other calls that take the slow path wait for it.
 * Return: 0 when all hold, or
 *	-EUCLEAN one does not; vpmm_last_error() says which,
 *	-EIO the driver reports an earlier failure,
 *	-EBUSY the process was forked after the pool was created.
 * Since: 0.1
 */
int vpmm_pool_check(struct vpmm_pool *pool);

/**
 * vpmm_lookup() - find the allocation that an address is in, in any pool of the process
 * @addr: an address, of the start of an allocation or inside
 * @allocation: receives the answer; its size is set by the caller
 *
 * Context: any thread, also while others create and destroy pools; takes the locks of pools in turn. The answer holds as
 *	long as nobody frees the allocation.
 * Return: 0, or
 *	-EINVAL @allocation is NULL or has the size of no version, or no allocation of a pool has @addr: it is foreign, or
 *	was freed,
 *	-EBUSY the process was forked after its first pool was created.
 * Since: 0.1
 */
int vpmm_lookup(const void *addr, struct vpmm_allocation *allocation);

/**
 * vpmm_opts_from_env() - read the environment into options
 * @opts: receives them; its size is set by the caller
 *
 * For programs that set a few options themselves and leave the others to the environment.
 *
 * Context: any thread, while no other changes the environment. Pointers in @opts are valid until the environment
 *	changes.
 * Return: 0, or
 *	-EINVAL @opts is NULL or has the size of no version, or a variable has a bad value; vpmm_last_error() names it.
 * Since: 0.1
 */
int vpmm_opts_from_env(struct vpmm_opts *opts);

/**
 * vpmm_last_error() - get the reason of the calling thread's last failed call
 *
 * It names the call, the driver's error, what was requested and what was there.
 *
 * Context: any thread.
 * Return: the text, valid until the thread's next call that fails; empty before the first failure. If memory ran out or
 *	there is no GPU, a second line says what would help.
 * Since: 0.1
 */
const char *vpmm_last_error(void);

/**
 * vpmm_version() - get the version of the library in use
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
