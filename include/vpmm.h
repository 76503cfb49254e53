/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libvpmm: a GPU memory pool that makes one block out of scattered free pieces.
 *
 * This header needs no other: neither GLib's nor CUDA's. Device addresses are void pointers, streams are pointers to
 * the structure that CUDA calls both CUstream and cudaStream_t, so either fits without a cast.
 *
 * Structures that start with their size may grow. The size is what sizeof was in any version of this header; one that is
 * larger than this library knows, up to 4096 bytes, is of a later version: the library clears what it does not know, or,
 * in struct vpmm_opts, wants it to be zero. Any other size is -EINVAL.
 *
 * Every call returns 0 or a negative errno value, and sets errno to match. What a call returns through a pointer is
 * untouched when it fails. vpmm_last_error() has the sentence that goes with the error.
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
 * VPMM_VERSION_AT_LEAST() - whether this header is of a version or a later one
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
 * enum vpmm_scrub - which memory is cleared before it is handed out
 * @VPMM_SCRUB_NONE: none: it holds what its last user left (the default)
 * @VPMM_SCRUB_STREAM: what the stream has not itself had last: another stream's, and what is new from the device
 * @VPMM_SCRUB_ALWAYS: all
 *
 * Since: 0.1
 */
enum vpmm_scrub {
	VPMM_SCRUB_NONE = 0,
	VPMM_SCRUB_STREAM = 1,
	VPMM_SCRUB_ALWAYS = 2
};

/**
 * vpmm_log_fn - receives what a pool says
 * @data: log_data of struct vpmm_opts
 * @level: one of enum vpmm_log_level
 * @message: one line without its newline; valid during the call only
 *
 * It may call the library, but must return. Messages of the calls that it makes are delivered once it has returned; those
 * of calls made during that delivery are dropped, so it is never entered twice on a thread. A pool that fails to be
 * created, or is destroyed, inside a callback says nothing about it. "pool destroyed" arrives while the pool can still be
 * used. A pool must not be destroyed while a callback on another thread may still have called it.
 *
 * Context: called on the thread whose call caused the message, with no lock held.
 */
typedef void (*vpmm_log_fn)(void *data, int level, const char *message);

/**
 * vpmm_pressure_fn - is asked to give memory back, before an allocation fails for want of it
 * @data: pressure_data of struct vpmm_opts
 * @pool: the pool
 * @size: bytes of the allocation
 *
 * It may free what it can do without, in this pool or another, trim other pools, or let go of what it holds of the
 * device by other means. It is not asked where a request is larger than the limit or than the device's memory.
 *
 * Context: called on the thread whose allocation would fail, with no lock held, so it may call the library; what the
 *	thread allocates meanwhile fails without asking again.
 * Return: not 0 when it gave something back: the allocation is tried again, and if that is not enough, it is asked
 *	again; 0 when it has nothing.
 */
typedef int (*vpmm_pressure_fn)(void *data, struct vpmm_pool *pool, size_t size);

/**
 * vpmm_exhausted_fn - is told that an allocation fails for want of memory
 * @data: pressure_data of struct vpmm_opts
 * @pool: the pool
 * @size: bytes of the allocation
 * @message: why, as vpmm_last_error() will have it; valid during the call only
 *
 * Context: as vpmm_pressure_fn.
 */
typedef void (*vpmm_exhausted_fn)(void *data, struct vpmm_pool *pool, size_t size, const char *message);

/* For keep of struct vpmm_opts, where 0 is the default: the pool keeps nothing that is free. */
#define VPMM_KEEP_NONE ((size_t)1)

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
 * @overhead: percent, to 25; about how much more memory than is allocated the pool may take so as to create it in
 *	fewer and larger pieces, which take fewer driver calls; 0: 1
 * @limit: bytes; the most device memory that the pool may hold, what the driver's allocator serves for it included; 0:
 *	as much as there is
 * @limit_percent: the same as a percentage of the device's memory; of two limits the smaller counts; 0: no limit
 * @keep: bytes; the pool holds on to so much device memory. When it holds more, what is free is given back to the
 *	device, as far as nobody has to wait for it, but for pages of small requests, which vpmm_pool_trim() gives back;
 *	VPMM_KEEP_NONE, or less than a page: nothing is kept; 0, the default: everything is
 * @scrub: one of enum vpmm_scrub
 * @pressure: asked for memory before an allocation fails; NULL: nobody is
 * @exhausted: told when it does; NULL: nobody is
 * @pressure_data: passed to both
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
 * @overhead: percent
 * @scrub: one of enum vpmm_scrub
 * @limit: bytes; UINT64_MAX: none
 * @keep: bytes; UINT64_MAX: everything
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
 * @streams: streams that the pool has met and not forgotten, and captures
 * @driver_ns: nanoseconds spent in the five kinds of driver calls above
 * @peak_small: bytes; the most that @small_mapped has been
 * @peak_taken: bytes; the most that @mapped and @small_mapped have been together, as seen whenever memory was created
 *	and whenever the statistics were read
 * @stuck: bytes of @free in extents of which something is allocated, and which therefore cannot move
 * @spans: bytes of @mapped that are kept for small requests, or borrowed for them
 * @mappings: places where extents are mapped; one that has moved stays mapped where it was, for when it is wanted there
 * @held: bytes of @live or @small_live that were freed, and that are kept for graphs, or until the streams that
 *	vpmm_use() named are past the free
 * @given_back: bytes of device memory that were given back to the device
 * @scrubbed: bytes that were cleared
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
};

/**
 * enum vpmm_way - how a request would be served
 * @VPMM_WAY_NONE: not as things are: it would fail with -ENOMEM, unless the end of pending work, what is held for other
 *	streams, or what the driver's allocator holds, helps
 * @VPMM_WAY_REUSE: by memory that is mapped and free
 * @VPMM_WAY_HARVEST: by free pieces that are mapped again as one block
 * @VPMM_WAY_GROW: by memory that is created, together with what is free
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
 * struct vpmm_forecast - what a request would take
 * @size: sizeof(struct vpmm_forecast), set by the caller
 * @way: one of enum vpmm_way
 * @waits: other streams whose work the stream would wait for
 * @remapped: bytes that would be mapped again elsewhere
 * @grown: bytes that would be created
 * @calls: driver calls, about
 * @largest: bytes of the largest request that could be served now, with all that the device has free
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
 * Context: any thread. Waits for no stream, unless the pool was created with VPMM_REUSE_BLOCK, or @stream is being
 *	captured, or it would fail otherwise.
 * Return: 0, or
 *	-EINVAL @ptr is NULL, or the stream is not one,
 *	-ENOMEM neither the pool nor the device has the memory, or the pool may not hold more,
 *	-ENOTSUP @size is below a page, and the device has no stream-ordered allocator, or @stream is being captured and
 *	the pool leaves every request to the driver,
 *	-EIO the driver reports an earlier failure,
 *	-EBUSY the process was forked after the pool was created, or @stream is the legacy default stream while another
 *	is being captured, or its capture was invalidated,
 *	and, for a NULL @pool, what vpmm_pool_create() returns.
 * Since: 0.1
 */
int vpmm_malloc(struct vpmm_pool *pool, void **ptr, size_t size, struct CUstream_st *stream);

/* For vpmm_malloc_flags(): the memory is cleared, in the order of the stream. */
#define VPMM_ZERO 0x1u

/**
 * vpmm_malloc_flags() - allocate device memory in a certain way
 * @pool: as vpmm_malloc()
 * @ptr: likewise
 * @size: likewise
 * @stream: likewise
 * @flags: 0, or VPMM_ZERO
 *
 * Context: as vpmm_malloc().
 * Return: as vpmm_malloc(), and -EINVAL for a flag that is not known.
 * Since: 0.1
 */
int vpmm_malloc_flags(struct vpmm_pool *pool, void **ptr, size_t size, struct CUstream_st *stream, unsigned int flags);

/**
 * vpmm_free() - give device memory back, in the order of a stream
 * @pool: the pool that it was allocated from; NULL: the default pool of the current device
 * @ptr: what vpmm_malloc() gave; NULL does nothing
 * @stream: the stream whose work submitted so far is the last to use it; not necessarily the one it was allocated for,
 *	but, for what the driver serves (VPMM_SMALL_DRIVER), behind the allocation
 *
 * A block that was allocated for @stream goes to the stream's cache, which serves later requests of the same size. A
 * stream that frees and never calls again may keep a little memory from others; vpmm_stream_retire(3) has the bound.
 *
 * Context: any thread; does not wait.
 * Return: 0, or
 *	-EINVAL @ptr is not allocated from this pool (any more), or the stream is not one; nothing changes,
 *	-ENOMEM the driver has no memory for an event; the memory stays allocated,
 *	-EIO the driver reports an earlier failure; the memory stays allocated,
 *	-EBUSY the process was forked after the pool was created, or @stream is the legacy default stream while another
 *	is being captured, or its capture was invalidated; the memory stays allocated.
 * Since: 0.1
 */
int vpmm_free(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream);

/**
 * vpmm_use() - an allocation is also used on another stream
 * @pool: the pool that it was allocated from; NULL: the default pool of the current device
 * @ptr: what vpmm_malloc() gave; NULL does nothing
 * @stream: the stream
 *
 * Once it is freed, the memory goes to others only when @stream, too, is past what is submitted to it before the free.
 * That the work on @stream comes after the allocation is the caller's to see to.
 *
 * A stream that is destroyed before the free has to be retired with vpmm_stream_retire() first. Under capture, the
 * memory stays with the graph, see vpmm_graph_retire().
 *
 * Context: any thread; does not wait.
 * Return: 0, or
 *	-EINVAL @ptr is not allocated from this pool (any more), or the stream is not one,
 *	-EIO the driver reports an earlier failure,
 *	-EBUSY the process was forked after the pool was created, or @stream is the legacy default stream while another
 *	is being captured, or its capture was invalidated.
 * Since: 0.1
 */
int vpmm_use(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream);

/**
 * vpmm_stream_retire() - a stream is about to be destroyed
 * @pool: the pool; NULL: the default pool of the current device
 * @stream: the stream, with all its work submitted
 *
 * All memory that it has freed becomes available to other streams, behind its work so far, and the pool forgets it. The
 * stream may go on after the call; to the pool it is a new stream then. vpmm_stream_retire(3) says what stays behind if a
 * stream is destroyed without this.
 *
 * Context: any thread; for the per-thread default stream, the thread that it belongs to. Does not wait.
 * Return: 0, or
 *	-EINVAL the stream is not one,
 *	-ENOMEM the driver has no memory for an event,
 *	-EIO the driver reports an earlier failure,
 *	-EBUSY the process was forked after the pool was created, or the stream is being captured, or is the legacy
 *	default stream while another is.
 * Since: 0.1
 */
int vpmm_stream_retire(struct vpmm_pool *pool, struct CUstream_st *stream);

/**
 * vpmm_capture_id() - which capture a stream is under
 * @pool: the pool; NULL: the default pool of the current device
 * @stream: the stream
 * @id: receives what cuStreamGetCaptureInfo() calls the capture's id; 0: the stream is not being captured
 *
 * Context: any thread; does not wait, and does not invalidate the capture.
 * Return: 0, or
 *	-EINVAL @id is NULL, or the stream is not one,
 *	-EIO the driver reports an earlier failure,
 *	-EBUSY the process was forked after the pool was created, or @stream is the legacy default stream while another
 *	is being captured, or its capture was invalidated.
 * Since: 0.1
 */
int vpmm_capture_id(struct vpmm_pool *pool, struct CUstream_st *stream, uint64_t *id);

/**
 * vpmm_graph_retire() - a graph will not be launched any more
 * @pool: the pool; NULL: the default pool of the current device
 * @id: of the capture that made it, see vpmm_capture_id(); one that the pool has no memory for does nothing
 * @stream: a stream behind its last launch
 *
 * All memory that was allocated, freed or used under the capture belongs to the graph until then. What was freed, during
 * the capture or since, becomes free in the order of @stream; what was not stays allocated, and can be freed as usual.
 *
 * Context: any thread; does not wait.
 * Return: 0, or
 *	-EINVAL the stream is not one,
 *	-ENOMEM the driver has no memory for an event; nothing has changed,
 *	-EIO the driver reports an earlier failure; nothing has changed,
 *	-EBUSY the process was forked after the pool was created, or @stream is being captured, or is the legacy
 *	default stream while another is; nothing has changed.
 * Since: 0.1
 */
int vpmm_graph_retire(struct vpmm_pool *pool, uint64_t id, struct CUstream_st *stream);

/**
 * vpmm_pool_trim() - give free memory back to the device
 * @pool: the pool; NULL: the default pool of the current device
 * @keep: bytes of device memory that the pool is to hold on to, allocated or not
 * @released: receives how many bytes were given back; NULL: that is of no interest
 *
 * What has been freed, but whose streams are not known to be past it, and what is free within pieces of which something
 * is allocated, stays.
 *
 * Context: any thread; does not wait for streams; takes some 20 us for each piece of memory.
 * Return: 0, or
 *	-EIO the driver reports an earlier failure,
 *	-EBUSY the process was forked after the pool was created.
 * Since: 0.1
 */
int vpmm_pool_trim(struct vpmm_pool *pool, size_t keep, size_t *released);

/**
 * vpmm_pool_query() - whether a request could be served, and at what price
 * @pool: the pool; NULL: the default pool of the current device
 * @size: bytes
 * @stream: the stream that it would be for
 * @forecast: receives the answer; its size is set by the caller
 *
 * Nothing is allocated or reserved: another thread, or another process, may be first.
 *
 * Context: any thread; does not wait. Takes what other streams have cached and others can have out of the caches.
 * Return: 0, also where the request would fail for want of memory, or
 *	-EINVAL @forecast is NULL or its size is that of no version, or the stream is not one,
 *	-EIO the driver reports an earlier failure,
 *	-EBUSY the process was forked after the pool was created, or the stream is being captured, or is the legacy
 *	default stream while another is.
 * Since: 0.1
 */
int vpmm_pool_query(struct vpmm_pool *pool, size_t size, struct CUstream_st *stream, struct vpmm_forecast *forecast);

/**
 * vpmm_pool_stats() - what a pool holds and what it has done
 * @pool: the pool; NULL: the default pool of the current device
 * @stats: receives the statistics; its size is set by the caller
 *
 * Context: any thread; does not wait.
 * Return: 0, or
 *	-EINVAL @stats is NULL or its size is that of no version,
 *	-EIO the driver reports an earlier failure,
 *	-EBUSY the process was forked after the pool was created.
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
 *	-EINVAL @info is NULL or its size is that of no version,
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
 * vpmm_pool_dump(3) describes the format.
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
 *	-EIO the driver reports an earlier failure,
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
 *	-EINVAL @opts is NULL or its size is that of no version, or a variable has a bad value; vpmm_last_error() names it.
 * Since: 0.1
 */
int vpmm_opts_from_env(struct vpmm_opts *opts);

/**
 * vpmm_last_error() - what the calling thread's last failed call has to say
 *
 * Which call, which driver's error, what was asked and what was there.
 *
 * Context: any thread.
 * Return: a sentence, valid until the thread's next call that fails; empty before the first. Where memory ran out or
 *	a GPU is missing, a second line, after a newline, says what can be done about it.
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
