/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libvpmm: a GPU memory pool that undoes fragmentation by remapping free memory.
 *
 * This header needs no other: neither GLib's nor CUDA's. Device addresses are void pointers, streams are pointers to
 * the structure that CUDA calls both CUstream and cudaStream_t, so either fits without a cast.
 *
 * Structures that start with their size may grow. The caller sets the size to sizeof, which may be that of any released
 * version of this header. A larger structure, up to 4096 bytes, is one of a later version: the library clears the
 * fields that it does not know, or, where it reads the structure, requires them to be zero. Any other size is -EINVAL.
 *
 * Every call returns 0 or a negative errno value, and sets errno to match. When it fails, it leaves untouched what it
 * would return through a pointer, and vpmm_last_error() has the reason.
 *
 * Each call on a pool can fail for these reasons, whether or not its comment names them:
 *	-EIO the driver reports an earlier failure, or has shut down,
 *	-EBUSY the process was forked after the pool was created,
 *	-ESTALE the device was reset since the pool was created; default pools begin anew instead,
 *	and, if NULL stands for a default pool that has to be created, the errors of vpmm_pool_create().
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
 * @VPMM_LOG_ERROR: calls that failed inside a pool, with the text of vpmm_last_error(); not those that were refused
 *	before: NULL pointers, unknown flags, pools that were reset or belong to the process before a fork
 * @VPMM_LOG_WARNING: differences from the settings, such as a smaller reservation of address space
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
 * enum vpmm_reuse - how a stream waits for memory on which another stream's work is pending
 * @VPMM_REUSE_ASYNC: the stream waits, on the GPU (the default)
 * @VPMM_REUSE_BLOCK: the calling thread waits, on the host
 *
 * Since: 0.1
 */
enum vpmm_reuse {
	VPMM_REUSE_ASYNC = 0,
	VPMM_REUSE_BLOCK = 1
};

/**
 * enum vpmm_small - the allocator of small requests
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
 * enum vpmm_export - how memory can be handed to other processes
 * @VPMM_EXPORT_NONE: not at all (the default)
 * @VPMM_EXPORT_FD: by file descriptors, to processes of this machine
 * @VPMM_EXPORT_FABRIC: by fabric handles, where the device has them (NVLink networks with IMEX)
 * @VPMM_EXPORT_AUTO: by file descriptors if the device can, and else not at all; vpmm_pool_info() returns which
 *
 * Since: 0.1
 */
enum vpmm_export {
	VPMM_EXPORT_NONE = 0,
	VPMM_EXPORT_FD = 1,
	VPMM_EXPORT_FABRIC = 2,
	VPMM_EXPORT_AUTO = 3
};

/**
 * enum vpmm_top - whether vpmm-top(1) can see the pool
 * @VPMM_TOP_OFF: no; the default
 * @VPMM_TOP_ON: yes; a thread of the library publishes what the pool has, a few times a second
 *
 * Since: 0.1
 */
enum vpmm_top {
	VPMM_TOP_OFF,
	VPMM_TOP_ON
};

/**
 * enum vpmm_rdma - whether network cards can read and write the memory (GPUDirect RDMA)
 * @VPMM_RDMA_OFF: not necessarily (the default)
 * @VPMM_RDMA_ON: yes
 *
 * Since: 0.1
 */
enum vpmm_rdma {
	VPMM_RDMA_OFF = 0,
	VPMM_RDMA_ON = 1
};

/**
 * vpmm_log_fn - receives the log messages of a pool
 * @data: log_data of struct vpmm_opts
 * @level: one of enum vpmm_log_level
 * @message: one line without its newline; valid during the call only
 *
 * It may call the library, but must return. It is never entered twice on a thread: messages of the calls that it makes
 * are delivered after it has returned, and messages of calls that it makes during that delivery are dropped. Messages
 * of a pool that is destroyed, or fails to be created, inside a callback are dropped. It must not destroy the pool
 * whose message it was given, nor may another thread meanwhile. During "pool destroyed", which arrives while the pool
 * can still be used, vpmm_pool_destroy() does nothing.
 *
 * Context: called on the thread whose call caused the message, with no lock held.
 * Since: 0.1
 */
typedef void (*vpmm_log_fn)(void *data, int level, const char *message);

/**
 * vpmm_pressure_fn - may give memory back before an allocation fails for want of it
 * @data: pressure_data of struct vpmm_opts
 * @pool: the pool
 * @size: bytes of the allocation
 *
 * It may free blocks of this pool or another, trim other pools, or release device memory by other means, but it must
 * not destroy @pool. It is not called for a request that is larger than the limit or than the device's memory, nor for
 * one beyond the limit of a tag. vpmm_receive() calls it for want of mappings or address space, with the bytes of the
 * mapping, which the limit does not count.
 *
 * Context: called on the thread whose allocation would fail, with no lock held, so it may call the library; an
 *	allocation that fails in there does not call it again.
 * Return: not 0 if it gave something back: the allocation is tried again, and the callback is called again if that
 *	fails. 0 if it has nothing to give: the allocation fails.
 * Since: 0.1
 */
typedef int (*vpmm_pressure_fn)(void *data, struct vpmm_pool *pool, size_t size);

/**
 * vpmm_exhausted_fn - is called when an allocation fails for want of memory
 * @data: pressure_data of struct vpmm_opts
 * @pool: the pool
 * @size: bytes of the allocation
 * @message: why, as vpmm_last_error() will have it; valid during the call only
 *
 * It is not called for an allocation beyond the limit of a tag, and must not destroy @pool.
 *
 * Context: called on the thread whose allocation fails, with no lock held, so it may call the library.
 * Since: 0.1
 */
typedef void (*vpmm_exhausted_fn)(void *data, struct vpmm_pool *pool, size_t size, const char *message);

/**
 * enum vpmm_budget_thread - how the pool gives memory back when other pools of its budget need it
 * @VPMM_BUDGET_THREAD_ON: by a thread of the library, even while the program makes no call (the default)
 * @VPMM_BUDGET_THREAD_OFF: in calls of the program, other than those that a cache serves
 *
 * Since: 0.1
 */
enum vpmm_budget_thread {
	VPMM_BUDGET_THREAD_ON = 0,
	VPMM_BUDGET_THREAD_OFF = 1
};

/* For budget_wait of struct vpmm_opts, where 0 is the default: the pool does not wait for others. Since: 0.1 */
#define VPMM_BUDGET_WAIT_NONE (-1)

/* For keep of struct vpmm_opts, where 0 is the default: the pool keeps no free memory. Since: 0.1 */
#define VPMM_KEEP_NONE ((size_t)1)

/* For the overlap of struct vpmm_opts: the pool guesses how much, which is the default; or none. Since: 0.1 */
#define VPMM_OVERLAP_AUTO (-1)
#define VPMM_OVERLAP_NONE (-2)

/* For the peers of struct vpmm_opts: all devices that can. Since: 0.1 */
#define VPMM_PEERS_ALL UINT64_MAX

/**
 * struct vpmm_opts - the options of a pool
 * @size: sizeof(struct vpmm_opts), set by the caller
 * @backend: "cuda", "host", or "auto" for cuda where there is a device and host elsewhere; NULL: "cuda"
 * @device: the device's ordinal; NULL: the calling thread's current device
 * @page_size: bytes of a page, the unit in which device memory is taken, a multiple of the device's granularity;
 *	SIZE_MAX leaves every request to the driver; 0: 2 MiB, or the next multiple of the granularity
 * @va_size: bytes of address space to reserve at a time, a multiple of the page size; 0: 8 TiB, less in a
 *	process with many pools
 * @pages: how many pages to create with the pool; 0: none
 * @reuse: one of enum vpmm_reuse
 * @log_level: one of enum vpmm_log_level
 * @log: receives the log messages; NULL: standard error
 * @log_data: passed to @log
 * @extent_max: bytes of the largest extent (one physical allocation), a multiple of the page size; 0: 1 GiB, or the
 *	next smaller multiple. With one page and VPMM_SMALL_DRIVER the pool is in paged mode, see vpmm(7)
 * @small: one of enum vpmm_small
 * @frag_ratio: percent; free extents smaller than this part of what a block needs remapped are left out, and memory is
 *	created instead, to save driver calls; 0: none is left out
 * @overhead: percent, up to 25; about how much more memory than the peak of what is allocated the pool may hold, to
 *	save driver calls; 0: 1
 * @limit: bytes; the most device memory that the pool may hold, including what the driver's allocator serves for it:
 *	what is allocated, not what that keeps in its units of 32 MiB; 0: no limit
 * @limit_percent: the same as a percentage of the device's memory; the smaller of two limits counts; 0: no limit
 * @keep: bytes; while the pool holds more device memory, it gives free memory back that no work is pending on (slabs
 *	only by vpmm_pool_trim()); VPMM_KEEP_NONE, or less than a page: no free memory is kept; 0: all is
 * @scrub: one of enum vpmm_scrub
 * @pressure: called before an allocation fails for want of memory; NULL: none
 * @exhausted: called when it fails; NULL: none
 * @pressure_data: passed to both
 * @trace: the name of a file in which the calls on the pool are recorded, see vpmm-trace(5); %p in it is the process
 *	id, %% a percent sign, and .gz at its end has it compressed; NULL: none
 * @overlap: percent, up to 1000; how much more memory than the peak of what is allocated the pool may create rather
 *	than make a stream wait for another stream's work; VPMM_OVERLAP_NONE: none; VPMM_OVERLAP_AUTO: a guess from
 *	the blocks that streams wait for; 0: VPMM_OVERLAP_AUTO, while VPMM_OVERLAP=0 in the environment is none
 * @export_as: one of enum vpmm_export; VPMM_SHAREABLE needs another than VPMM_EXPORT_NONE
 * @rdma: one of enum vpmm_rdma
 * @peers: other devices whose kernels can read and write the pool's memory, as bits by ordinal: 1 << 3 is device 3; the
 *	pool's own device does not count; VPMM_PEERS_ALL: all that can; 0: none; see vpmm_pool_set_peers()
 * @stacks: bytes; the call stack of one allocation in so many bytes is sampled, see vpmm-owners(7); 1: of every
 *	allocation; 0: of none
 * @oom_dump: the name of a file that is written at the pool's first failure for want of memory, with % as in @trace;
 *	NULL: none
 * @budget: NAME or NAME:SIZE; the pools of a device in all processes of the user with the same NAME share SIZE bytes of
 *	its memory, see vpmm-budget(7); NULL: none
 * @budget_floor: bytes of the budget that no other pool can take; 0: none
 * @budget_weight: up to 1000; the weight by which pools share what is beyond all floors; 0: 1
 * @budget_wait: milliseconds, up to 60000; how long an allocation waits for other pools to give memory back;
 *	VPMM_BUDGET_WAIT_NONE: it does not; 0: 100
 * @budget_thread: one of enum vpmm_budget_thread
 * @top: one of enum vpmm_top
 * @plan: the name of a file that the pool begins with, and writes when it ends, with % as in @trace; NULL: none
 *
 * A field that is zero stands for its default, whatever 0 means in the environment. The environment is not read for a
 * pool that is created with options; vpmm_opts_from_env() reads it into options.
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
	int overlap;
	int export_as;
	int rdma;
	uint64_t peers;
	size_t stacks;
	const char *oom_dump;
	const char *budget;
	size_t budget_floor;
	int budget_weight;
	int budget_wait;
	int budget_thread;
	int top;
	const char *plan;
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
 * @overlap: percent, 0 for none, or VPMM_OVERLAP_AUTO; 0 is not that in struct vpmm_opts
 * @export_as: one of enum vpmm_export
 * @rdma: one of enum vpmm_rdma
 * @peers: other devices that can access the pool's memory now, as bits by ordinal
 * @stacks: bytes; 0: no stacks are sampled
 * @oom_dump: as @trace; NULL: none
 * @budget: NAME:SIZE of the pool's budget, valid as long as the process; NULL: none
 * @budget_floor: bytes of it that no other pool can take
 * @budget_weight: the weight by which pools share what is beyond all floors
 * @budget_wait: milliseconds; 0: it does not wait for other pools
 * @budget_thread: one of enum vpmm_budget_thread
 * @top: one of enum vpmm_top
 * @plan: as @trace; NULL: none
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
	int overlap;
	int export_as;
	int rdma;
	uint64_t peers;
	uint64_t stacks;
	const char *oom_dump;
	const char *budget;
	uint64_t budget_floor;
	int budget_weight;
	int budget_wait;
	int budget_thread;
	int top;
	const char *plan;
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
 * @defrags: allocations for which memory was remapped
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
 * @peak_taken: bytes; the most that @mapped, @small_mapped, @shareable and @shared have been together, as seen whenever
 *	memory was created and whenever the statistics were read
 * @stuck: bytes of @free that are pinned: in extents of which another part is allocated, so that they cannot be
 *	remapped
 * @spans: bytes of @mapped in slabs
 * @mappings: ranges of addresses at which extents are mapped; an extent can have several
 * @held: bytes of @live, @small_live, @shareable or @imported whose free is deferred: for graphs, for streams that
 *	cannot be recorded, and for pending work on what is not the pool's alone
 * @given_back: bytes of device memory that were given back to the device
 * @scrubbed: bytes that were cleared
 * @waits_sampled: how many of @waits were measured, all on the GPU
 * @wait_ns: nanoseconds that streams were stalled in the measured waits, all together
 * @requested: bytes of @live, @small_live, shareable blocks and received ones, as they were requested
 * @peak_requested: the most that @requested has been
 * @shareable: bytes of device memory of blocks of VPMM_SHAREABLE, which count towards the limit and towards
 *	@peak_taken, and are in neither @mapped nor @live
 * @imported: bytes of other processes' device memory, of blocks of vpmm_receive(); they count for nothing else
 * @shared: bytes of device memory of shared ranges, unused ones included, which count towards the limit and towards
 *	@peak_taken, and are in neither @mapped nor @live; vpmm_shared_stats() has more
 * @budget_size: bytes of the pool's budget (VPMM_BUDGET); 0: none
 * @budget_left: bytes of it that the pool can still take at once
 * @budget_idle: bytes of it that other pools have free, by their latest reports
 * @paused: bytes of @live whose tag is paused, so that they are not in @mapped
 * @saved: bytes of host memory that have the contents of those
 * @overlap: bytes that the pool may hold over the peak of what is allocated now, rather than make a stream wait for
 *	another stream's work: the percentage of that peak, or what VPMM_OVERLAP_AUTO came to, which is 0 until one
 *	waits
 * @stranded: bytes of @grown that the pool created beyond its peak because as many free bytes were pinned
 * @unsettled: driver calls in the latest 4096 allocations that no cache served, as known after each 4096 of them; 0:
 *	the program has settled, or has made fewer
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
	uint64_t shareable;
	uint64_t imported;
	uint64_t shared;
	uint64_t budget_size;
	uint64_t budget_left;
	uint64_t budget_idle;
	uint64_t paused;
	uint64_t saved;
	uint64_t overlap;
	uint64_t stranded;
	uint64_t unsettled;
};

/**
 * enum vpmm_way - how a request would be served
 * @VPMM_WAY_NONE: not at all, with -ENOMEM; unless a wait for pending work, deferred frees, or memory that the driver's
 *	allocator holds would help
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
 * @largest: bytes that could be served now, with all free memory of the device; a little more may be served once
 *	old mappings are unmapped, which a query of that size does
 *
 * The driver's mappings and the address space are not considered, neither in @way nor in @largest.
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
 *	-ENODEV there is no driver, or no such device, or one of @peers does not exist,
 *	-ENOTSUP the device has neither virtual memory management nor memory pools, or no memory as @export_as, @rdma
 *	and @peers require it; or the driver is older than CUDA 12.0,
 *	-ENOMEM there is not enough address space, or not enough memory for the initial pages,
 *	-EIO the driver reports an earlier failure,
 *	-EBUSY the process was forked from one that had a pool; or 256 pools have the budget, or a stopped process keeps
 *	others from joining it,
 *	or the negative errno value of the call that could not open the file of a budget, or the socket of
 *	VPMM_PAUSABLE.
 * Since: 0.1
 */
int vpmm_pool_create(struct vpmm_pool **pool, const struct vpmm_opts *opts);

/**
 * vpmm_pool_destroy() - give back everything that a pool holds
 * @pool: the pool, which no other thread uses; NULL or a default pool: does nothing
 *
 * Blocks that are still allocated are freed too.
 *
 * Context: any thread; waits for work that was submitted before the frees, perhaps for all work of the context. The
 *	caller makes sure that no work is pending on blocks that are still allocated.
 * Since: 0.1
 */
void vpmm_pool_destroy(struct vpmm_pool *pool);

/**
 * vpmm_pool_abandon() - destroy a pool whose CUDA context is gone or going
 * @pool: the pool; NULL: the default pool of the current device, if there is one
 *
 * Frees all of the pool, and waits for nothing: work that uses its memory must have completed, unless the context is
 * gone. Later calls with a NULL pool create a new default pool.
 *
 * After cuDevicePrimaryCtxReset() or cudaDeviceReset(), calls on the pools of that context return -ESTALE, and default
 * pools end by themselves. Before any other context is destroyed, this call or vpmm_pool_destroy() is needed.
 *
 * Context: no other call on @pool may run or follow. If no context is current, it may create the
 *	device's primary one and destroy it again.
 * Return: 0, or
 *	-EBUSY the process is a forked child, or the pool is being destroyed,
 *	-EIO the driver reports an earlier asynchronous failure, or has shut down, and @pool is NULL.
 * Since: 0.1
 */
int vpmm_pool_abandon(struct vpmm_pool *pool);

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
 *	-ENOMEM device memory, the budget, the limit of the pool or of the thread's tag, address space or mappings are
 *	exhausted,
 *	-ENOTSUP the driver would have to serve the request and cannot, or @stream is under capture and the pool leaves
 *	every request to the driver,
 *	-EIO the driver reports an earlier failure,
 *	-EBUSY the process was forked after the pool was created; or the thread's tag is paused; or the memory would
 *	have to be cleared (VPMM_SCRUB), and @stream is the legacy default stream while another is under capture, or its
 *	capture was invalidated,
 *	and, for a NULL @pool, what vpmm_pool_create() returns.
 * Since: 0.1
 */
int vpmm_malloc(struct vpmm_pool *pool, void **ptr, size_t size, struct CUstream_st *stream);

/* For vpmm_malloc_flags(): the memory is cleared, in the order of the stream. Since: 0.1 */
#define VPMM_ZERO 0x1u

/*
 * The memory may be used by any stream at once, without an order after the stream of the call: it has no work pending.
 * Since: 0.1
 */
#define VPMM_IDLE 0x2u

/*
 * The block has device memory of its own, which vpmm_send() hands to other processes; it is new, so it is idle as well.
 * Since: 0.1
 */
#define VPMM_SHAREABLE 0x4u

/**
 * vpmm_malloc_flags() - allocate device memory with flags
 * @pool: the pool; NULL: the default pool of the current device
 * @ptr: receives the address
 * @size: bytes; 0 makes *@ptr NULL
 * @stream: the stream whose later work may use the memory
 * @flags: 0, which makes it vpmm_malloc(), or some of VPMM_ZERO, VPMM_IDLE and VPMM_SHAREABLE
 *
 * With VPMM_IDLE the call waits on the host only where no memory is idle and none can be created; with VPMM_ZERO or
 * VPMM_SCRUB as well, until the memory is cleared. The block belongs to @stream, but under capture to no stream and no
 * graph.
 *
 * With VPMM_SHAREABLE the block takes whole pages. They go back to the device once it is freed and no work is pending
 * on it. vpmm_realloc() cannot change its size.
 *
 * Context: that of vpmm_malloc(); may wait on the host with VPMM_IDLE or VPMM_SHAREABLE.
 * Return: 0, an error of vpmm_malloc(), or
 *	-EINVAL @flags has an unknown flag,
 *	-ENOTSUP VPMM_IDLE, and the pool leaves every request to the driver; or VPMM_SHAREABLE, and the pool has no
 *	VPMM_EXPORT,
 *	-EBUSY VPMM_IDLE with VPMM_ZERO or VPMM_SCRUB, and @stream cannot be recorded because of a capture,
 *	-EIO the driver failed to clear the memory; the block is free again.
 * Since: 0.1
 */
int vpmm_malloc_flags(struct vpmm_pool *pool, void **ptr, size_t size, struct CUstream_st *stream, unsigned int flags);

/*
 * In place of a stream. For vpmm_free(): the memory is free once all work is complete that was submitted before the
 * call to any stream of the pool's context. For vpmm_malloc_aligned(), vpmm_shared_free() and vpmm_resume(): see there.
 * No stream has this handle. Since: 0.1
 */
#define VPMM_STREAM_ANY ((struct CUstream_st *)UINTPTR_MAX)

/**
 * vpmm_free() - free device memory, in the order of a stream
 * @pool: the pool of the block; NULL: the pool that it is allocated from, whatever device is current
 * @ptr: the block; NULL does nothing
 * @stream: a stream that is ordered after every use of the block. Its own work up to now is. It need not be the stream
 *	of the allocation, but must be ordered after that if the driver served it (VPMM_SMALL_DRIVER). Or
 *	VPMM_STREAM_ANY
 *
 * A stream that frees and never calls again may keep a little memory from others; vpmm_stream_retire(3) has the bound.
 * On failure the block stays allocated.
 *
 * Context: any thread; does not wait, but that VPMM_STREAM_ANY waits for the device where the driver is older than CUDA
 *	12.5, or the pool has graphs. It invalidates captures of which the pool does not know.
 * Return: 0, or
 *	-EINVAL @ptr is not allocated from this pool (any more), or @stream is not a stream,
 *	-ENOMEM the driver has no memory for an event,
 *	-EIO the driver reports an earlier failure,
 *	-EBUSY the process was forked after the pool was created; perhaps also if the capture of @stream was
 *	invalidated.
 * Since: 0.1
 */
int vpmm_free(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream);

/**
 * vpmm_realloc() - change the size of a block, in the order of a stream
 * @pool: the pool of the block; NULL: the pool that it is allocated from; of a new block, the default pool of the
 *	current device
 * @ptr: the block, which is replaced by the new address, often the same; NULL in it makes this vpmm_malloc()
 * @size: the new size in bytes; 0 makes this vpmm_free(), and *@ptr NULL
 * @stream: a stream that is behind every use of the block but those announced by vpmm_use(), as for vpmm_free(). The
 *	block belongs to it afterwards, as if it had been allocated for it
 *
 * The contents are kept up to the smaller of both sizes; what comes behind is as vpmm_malloc() gives it. The block
 * stays where it is if there is room behind it, or if it becomes smaller and not a small request: one below a sixteenth
 * of a page, or below a page with VPMM_SMALL_DRIVER. Otherwise it moves to another address, a large block by
 * remapping, a small one by a copy on @stream, and the old address is freed on @stream. In each case
 * @stream waits for the streams that vpmm_use() has named, which are to be named anew if they use the block again. On
 * failure the block is as it was, at the same address.
 *
 * Under capture, and of a block that a graph uses, the contents are always copied: the copy becomes part of the graph
 * that @stream is captured into, and a graph that uses the old block has it until it is gone or retired.
 *
 * Context: that of vpmm_malloc().
 * Return: 0, an error of vpmm_malloc() or vpmm_free(), or
 *	-EINVAL @ptr is NULL, or no block of the pool starts at *@ptr, or a stream that vpmm_use() has named was
 *	destroyed without vpmm_stream_retire(),
 *	-ENOTSUP the block is shareable or was received, and @size is neither its size nor 0,
 *	-EBUSY a stream that vpmm_use() has named cannot be waited for, as it is under capture or another thread's
 *	default stream; or @stream is under capture and streams that vpmm_use() named still use the block; or the tag of
 *	the block is paused.
 * Since: 0.1
 */
int vpmm_realloc(struct vpmm_pool *pool, void **ptr, size_t size, struct CUstream_st *stream);

/**
 * vpmm_malloc_aligned() - allocate device memory at a multiple of a power of two
 * @pool: the pool; NULL: the default pool of the current device
 * @ptr: receives the address
 * @size: bytes; 0 gives NULL
 * @alignment: a power of two that divides the size of a page; every block has 256, and every block of the pool's own
 *	memory has 512
 * @stream: the stream that the memory is for; VPMM_STREAM_ANY: any may use it at once, as with VPMM_IDLE
 *
 * The block is freed and used as any other. vpmm_realloc() may move it to where it is not so aligned. Beyond what every
 * block has, no stream's cache serves the request; the driver's allocator does not either, and the pool gives it a
 * page.
 *
 * Context: as vpmm_malloc(); with VPMM_STREAM_ANY, as vpmm_malloc_flags() with VPMM_IDLE.
 * Return: 0, an error of vpmm_malloc_flags(), or
 *	-EINVAL @ptr is NULL, or @alignment is no such power of two,
 *	-ENOTSUP the pool leaves every request to the driver, and @alignment is more than 256 or @stream is
 *	VPMM_STREAM_ANY.
 * Since: 0.1
 */
int vpmm_malloc_aligned(struct vpmm_pool *pool, void **ptr, size_t size, size_t alignment, struct CUstream_st *stream);

/**
 * vpmm_malloc_growable() - allocate a block that changes its size without changing its address
 * @pool: the pool; NULL: the default pool of the current device
 * @ptr: receives the address
 * @size: bytes, not 0
 * @max: the most bytes that the block will have, @size or more. It gets address space for them, and no memory
 * @stream: the stream that may use the block at once; others after an event on it, as with vpmm_malloc()
 *
 * vpmm_realloc() gives the block any size up to @max: its address stays the same, and nothing is copied. Addresses
 * behind the current size must not be used. The block consists of whole pages that it shares with no other, and may
 * keep more of them than it needs when it becomes smaller. vpmm_free() frees it, as any other, with the address space.
 *
 * Streams that vpmm_use() has named need not be named anew after a vpmm_realloc(). If the block becomes smaller,
 * @stream waits for them; if a graph uses the block, it keeps its memory until it is freed.
 *
 * Context: that of vpmm_malloc(). vpmm_realloc() may wait on the host if the block was larger before.
 * Return: 0, an error of vpmm_malloc(), or
 *	-EINVAL @ptr is NULL, @size is 0, or @max is less than @size; vpmm_realloc(): its size is more than @max,
 *	-ENOMEM no address space for @max,
 *	-EBUSY @stream is under capture; also from vpmm_realloc(),
 *	-ENOTSUP the pool leaves every request to the driver, whose blocks cannot grow.
 * Since: 0.1
 */
int vpmm_malloc_growable(struct vpmm_pool *pool, void **ptr, size_t size, size_t max, struct CUstream_st *stream);

/**
 * vpmm_send() - hand a block to another process
 * @pool: the pool of the block; NULL: the pool that it is allocated from, whatever device is current
 * @ptr: the block, allocated with VPMM_SHAREABLE
 * @socket: a connected Unix socket, at whose other end vpmm_receive() is called
 *
 * Both processes have the same memory afterwards, and both free it, in any order. The library does not order their
 * work; vpmm_send(3) describes how a program does.
 *
 * Context: any thread; waits until the socket takes the message, unless it is non-blocking. Sends no SIGPIPE.
 * Return: 0, or
 *	-EINVAL no block of the pool starts at @ptr, or it is not shareable, or @socket is no Unix socket,
 *	-EAGAIN the socket is non-blocking, or its SO_SNDTIMEO is over; nothing was sent,
 *	-ETIMEDOUT a part was sent: close the socket,
 *	-EPIPE the other end is closed,
 *	-EMFILE the process cannot open more files,
 *	-EIO the driver reports an earlier failure,
 *	-EBUSY the process was forked after the pool was created, or the tag of the block is paused,
 *	or another error of sendmsg().
 * Since: 0.1
 */
int vpmm_send(struct vpmm_pool *pool, const void *ptr, int socket);

/**
 * vpmm_lend() - lend the memory of a block to another process, as long as the block is allocated
 * @pool: the pool of the block; NULL: the pool that it is allocated from, whatever device is current
 * @ptr: the block, of any kind but VPMM_SHAREABLE, in a pool with VPMM_EXPORT
 * @socket: a connected Unix socket, at whose other end vpmm_receive() is called; no other thread uses either end
 *
 * Unlike vpmm_send() it takes any block. The other process gets the extents that the block is in, so it can also access
 * other blocks in them. It has to stop using the memory, or free it, before the block is freed here: the memory then
 * serves other requests.
 *
 * Context: that of vpmm_send(); the other end has to receive meanwhile, as a block can take many messages.
 * Return: 0, or an error of vpmm_send(), or
 *	-ETIMEDOUT a part was sent, and the rest could not be, for whatever reason: the socket is of no use any more,
 *	-ENOTSUP the pool has no VPMM_EXPORT, or the block is of a pausable tag, or of memory that has no extents: it is
 *	of VPMM_SHAREABLE, was received, or the driver's allocator serves it.
 * Since: 0.1
 */
int vpmm_lend(struct vpmm_pool *pool, const void *ptr, int socket);

/**
 * vpmm_lend_key() - get the identity of the memory that vpmm_lend() sends of a block
 * @pool: as in vpmm_lend()
 * @ptr: as there
 * @key: receives three numbers, which name the memory within this process
 * @offset: receives where the block starts in it, in bytes
 *
 * Blocks with the same numbers are in the same memory, and no other memory gets these numbers later. A process that has
 * received one of the blocks need not receive the others: they are in that memory, each at its offset.
 *
 * Context: any thread. A block has the same numbers as long as it is allocated and not resized.
 * Return: 0, or
 *	-EINVAL a pointer is NULL, or no block of the pool starts at @ptr,
 *	-ENOTSUP see vpmm_lend(),
 *	-EIO the driver reports an earlier failure,
 *	-EBUSY the process was forked after the pool was created.
 * Since: 0.1
 */
int vpmm_lend_key(struct vpmm_pool *pool, const void *ptr, uint64_t *key, size_t *offset);

/**
 * vpmm_receive() - map a block of another process
 * @pool: the pool that is to have it, on the same device, or on one that can access the memory of that; NULL: the
 *	default pool of the current device
 * @ptr: receives the address
 * @size: receives the bytes that the block was allocated with; may be NULL
 * @socket: a connected Unix socket, at whose other end vpmm_send() or vpmm_lend() is called
 *
 * The call checks each message, as any program may have sent it. After -EAGAIN, -EINVAL, -ENODEV and -EBUSY the socket
 * still has the message. After -EIO and -ESTALE it may be gone. After any other error it is gone, or a part of it.
 *
 * Context: any thread, several for one socket, too; waits for a message, unless the socket is non-blocking; the thread
 *	can be cancelled meanwhile. Waits for pending work if the block could not be mapped otherwise.
 * Return: 0, or
 *	-EINVAL @ptr is NULL, or @socket is no Unix socket,
 *	-EAGAIN the socket is non-blocking, or its SO_RCVTIMEO is over, and there is no message,
 *	-ETIMEDOUT a part of a message has come, and the rest has not,
 *	-EPIPE the other end is closed,
 *	-EPROTO what has come is no message of those calls, or the memory is not what the message says,
 *	-EXDEV the memory is of another backend than the pool, or of a device that the pool's device cannot access,
 *	-EMFILE the process cannot open more files,
 *	-ENOMEM there is no address space for it, or there are too many mappings,
 *	-ENOTSUP the device cannot map such memory,
 *	-EIO the driver reports an earlier failure,
 *	-ENODEV @pool is NULL, and there is no driver or device for a default pool,
 *	-ESTALE the context of the pool was reset or destroyed, perhaps while the call waited,
 *	-EBUSY the process was forked after the pool was created,
 *	or another error of recvmsg().
 * Since: 0.1
 */
int vpmm_receive(struct vpmm_pool *pool, void **ptr, size_t *size, int socket);

/**
 * vpmm_use() - name another stream that uses a block, as PyTorch's record_stream does
 * @pool: the pool of the block; NULL: the pool that it is allocated from, whatever device is current
 * @ptr: the block; NULL does nothing
 * @stream: the stream
 *
 * The free of the block covers the work that was submitted to @stream before it: the next user of the memory is ordered
 * after that work on the GPU. The caller orders the work on @stream after the allocation.
 *
 * A stream that is destroyed before the free must be retired with vpmm_stream_retire() first. If @stream is under
 * capture, the block stays with the graph, see vpmm_graph_retire().
 *
 * With an address of a shared range as @ptr, @stream uses that range from now on, see vpmm-shared.h.
 *
 * Context: any thread; does not wait, but while pages of a shared range move.
 * Return: 0, or
 *	-EINVAL @ptr is not allocated from this pool (any more), or @stream is not a stream,
 *	-ENOTSUP @ptr is in a shared range, and @stream is the default stream of each thread, or 4096 others use it,
 *	-EIO the driver reports an earlier failure,
 *	-EBUSY the process was forked after the pool was created, or the tag of the block is paused; perhaps also if the
 *	capture of @stream was invalidated.
 * Since: 0.1
 */
int vpmm_use(struct vpmm_pool *pool, void *ptr, struct CUstream_st *stream);

/**
 * vpmm_stream_retire() - release what a pool keeps for a stream that is about to be destroyed
 * @pool: the pool; NULL: the default pool of the current device
 * @stream: the stream, with all its work submitted
 *
 * All memory that the stream has freed becomes available to other streams, after its work so far, and the pool forgets
 * the stream. It may go on after the call; to the pool it is a new stream then. vpmm_stream_retire(3) describes what
 * other streams cannot get if a stream is destroyed without this.
 *
 * Context: any thread; for the per-thread default stream, the thread that it belongs to. Does not wait, unless @stream
 *	uses a shared range.
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
 *	is under capture; perhaps also if its capture was invalidated.
 * Since: 0.1
 */
int vpmm_capture_id(struct vpmm_pool *pool, struct CUstream_st *stream, uint64_t *id);

/**
 * vpmm_capture_group() - have captures share memory, as PyTorch's graphs with one pool do
 * @pool: the pool; NULL: the default pool of the current device
 * @capture: the id of a capture, from vpmm_capture_id(), that vpmm_graph_retire() was not called for
 * @group: a number of the program's choice for the group, not 0
 *
 * Memory that a capture of the group has freed, during the capture or since, serves captures that joined the group
 * after it, once work outside of the graphs no longer uses it. In turn the caller promises two things. Graphs of one
 * group never run at the same time. The contents of a block are read before the next launch of a graph that joined the
 * group before the block's graph; of a block that was freed, before the next launch of any other graph of the group.
 *
 * It can be called before the first allocation under the capture, later, and after the capture. Whether there is a
 * capture of that id is not checked. Graphs of a group that are not retired have their memory until all are gone.
 *
 * Context: any thread; does not wait, and does not invalidate the capture.
 * Return: 0, also if the capture is in that group already, or
 *	-EINVAL @capture or @group is 0, or the capture is in another group,
 *	-EBUSY the process was forked after the pool was created; nothing has changed.
 * Since: 0.1
 */
int vpmm_capture_group(struct vpmm_pool *pool, uint64_t capture, uint64_t group);

/**
 * vpmm_graph_retire() - release the memory of a graph that will not be launched any more
 * @pool: the pool; NULL: the default pool of the current device
 * @id: the id of its capture, from vpmm_capture_id(); an id that the pool has no memory for does nothing
 * @stream: a stream behind the graph's last launch
 *
 * Blocks of the graph that were freed, during the capture or since, become free in the order of @stream; others stay
 * allocated. On failure nothing has changed.
 *
 * All memory that was allocated, freed or used under the capture belongs to the graph until this call, or until the
 * capture has failed, or the graph and all that was made of it are destroyed and their launches complete.
 * vpmm_graph_retire(3) lists the memory that comes back later.
 *
 * Context: any thread; does not wait.
 * Return: 0, or
 *	-EINVAL @stream is not a stream,
 *	-ENOMEM the driver has no memory for an event,
 *	-EIO the driver reports an earlier failure,
 *	-EBUSY the process was forked after the pool was created, or @stream is under capture, or is the legacy default
 *	stream while another is.
 * Since: 0.1
 */
int vpmm_graph_retire(struct vpmm_pool *pool, uint64_t id, struct CUstream_st *stream);

/**
 * vpmm_pool_trim() - give free memory back to the device
 * @pool: the pool; NULL: the default pool of the current device
 * @keep: bytes of device memory that the pool is to keep, allocated or not
 * @released: receives how many bytes were given back; may be NULL
 *
 * The pool keeps memory with pending work, and free memory in extents of which another part is allocated.
 * With a @keep of 0, old mappings of allocated memory go as well, and the host memory that vpmm_pause() keeps.
 *
 * Context: any thread; does not wait for streams; takes some 20 us for each extent.
 * Return: 0, or
 *	-EIO the driver reports an earlier failure,
 *	-EBUSY the process was forked after the pool was created.
 * Since: 0.1
 */
int vpmm_pool_trim(struct vpmm_pool *pool, size_t keep, size_t *released);

/**
 * vpmm_pool_query() - forecast how a request would be served, and at what cost
 * @pool: the pool; NULL: the default pool of the current device
 * @size: bytes
 * @stream: the stream that the request would be for
 * @forecast: receives the answer; its size is set by the caller
 *
 * Nothing is allocated or reserved: another thread, or another process, may be first.
 *
 * Context: any thread; does not wait.
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
 * typedef vpmm_tag - what an allocation is for; 0: no tag
 *
 * Since: 0.1
 */
typedef uint32_t vpmm_tag;

/* For vpmm_tag_open(): vpmm_pause() can give the memory of the tag back. Since: 0.1 */
#define VPMM_TAG_PAUSABLE 0x1u

/* For vpmm_tag_set(), or-ed with the tag: pausing does not save the contents of these blocks. Since: 0.1 */
#define VPMM_TAG_DROP 0x40000000u

/* Likewise: these blocks keep their memory while the tag is paused. Since: 0.1 */
#define VPMM_TAG_STAY 0x80000000u

/* For vpmm_pause(), vpmm_resume() and vpmm_pause_prepare(): all pausable tags. Since: 0.1 */
#define VPMM_TAG_ALL 0x3fffffffu

/* For vpmm_pause(): save no contents. Since: 0.1 */
#define VPMM_PAUSE_DROP 0x1u

/**
 * struct vpmm_tag_stats - what a pool has under a tag
 * @size: sizeof(struct vpmm_tag_stats), set by the caller
 * @live: bytes that are allocated, with sizes as they are rounded up, paused ones included
 * @peak_live: the most that @live has been
 * @requested: bytes of @live, as they were requested
 * @blocks: number of allocations
 * @mapped: bytes of device memory that the pool holds for them. A tag without VPMM_TAG_PAUSABLE shares extents with
 *	others, so it is @live then
 * @limit: the limit of vpmm_tag_limit(); 0: none
 * @paused: bytes of @live that have no device memory, as the tag is paused
 * @saved: bytes of host memory that have the contents of those
 * @kept: bytes of @live that pausing leaves in device memory
 *
 * Since: 0.1
 */
struct vpmm_tag_stats {
	size_t size;
	uint64_t live;
	uint64_t peak_live;
	uint64_t requested;
	uint64_t blocks;
	uint64_t mapped;
	uint64_t limit;
	uint64_t paused;
	uint64_t saved;
	uint64_t kept;
};

/**
 * vpmm_tag_open() - find the tag of a name, or create it
 * @name: 1 to 63 bytes without control characters, such as "weights" or "kv_cache"
 * @flags: 0 or VPMM_TAG_PAUSABLE; the same whenever the tag is opened
 * @tag: receives the tag
 *
 * Tags belong to the process and are never closed. Counts, limits and pausing are those of each pool.
 *
 * Context: any thread.
 * Return: 0, or
 *	-EINVAL @name is NULL or no name, @tag is NULL, @flags has an unknown bit, or the tag was opened with other
 *	flags,
 *	-ENOSPC there are 255 tags,
 *	-EBUSY the process was forked after its first pool was created.
 * Since: 0.1
 */
int vpmm_tag_open(const char *name, unsigned int flags, vpmm_tag *tag);

/**
 * vpmm_tag_set() - set the tag of what the calling thread allocates from now on
 * @tag: the tag, with VPMM_TAG_DROP or VPMM_TAG_STAY or-ed, or with none of them; 0: no tag
 *
 * Other threads, those that this one creates included, keep theirs. A block keeps the tag that it was allocated under,
 * also when vpmm_realloc() moves it. Blocks of vpmm_receive() have none.
 *
 * Context: any thread.
 * Return: the previous tag, with its bits. A tag that vpmm_tag_open() has not given changes nothing, and sets errno to
 *	EINVAL.
 * Since: 0.1
 */
vpmm_tag vpmm_tag_set(vpmm_tag tag);

/* A function with the name of a structure is a warning of g++ -Wshadow: it hides the constructor. C has none. */
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

/**
 * vpmm_tag_stats() - get the counts of a tag
 * @pool: the pool; NULL: the default pool of the current device
 * @tag: the tag
 * @stats: receives the counts; its size is set by the caller
 *
 * Context: any thread; does not wait.
 * Return: 0, or
 *	-EINVAL there is no such tag, or @stats is NULL or has the size of no version,
 *	-EBUSY the process was forked after its first pool was created.
 * Since: 0.1
 */
int vpmm_tag_stats(struct vpmm_pool *pool, vpmm_tag tag, struct vpmm_tag_stats *stats);

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/**
 * vpmm_tag_limit() - bound what can be live under a tag
 * @pool: the pool; NULL: the default pool of the current device
 * @tag: the tag
 * @bytes: an allocation that would take the tag's live bytes, paused ones included, beyond this fails with -ENOMEM;
 *	0: no limit
 *
 * Blocks that are live already stay.
 *
 * Context: any thread; does not wait.
 * Return: 0, or
 *	-EINVAL there is no such tag,
 *	-EBUSY the process was forked after its first pool was created.
 * Since: 0.1
 */
int vpmm_tag_limit(struct vpmm_pool *pool, vpmm_tag tag, size_t bytes);

/**
 * vpmm_pause_prepare() - create the host memory that pausing a tag would need
 * @pool: the pool; NULL: the default pool of the current device
 * @tag: the tag, or VPMM_TAG_ALL
 *
 * To create host memory that a device can copy to takes far longer than the copy. The pool keeps the memory, up to
 * VPMM_PAUSE_HOST bytes, see vpmm(7).
 *
 * Context: any thread; takes about 0.3 s for each GiB.
 * Return: 0, or
 *	-EINVAL there is no such tag, or it is not pausable,
 *	-ENOMEM not enough host memory; memory that was created until then is kept,
 *	-ENOTSUP the driver has no host memory that the device can copy to,
 *	-EBUSY the process was forked after the pool was created,
 *	or another error of the driver.
 * Since: 0.1
 */
int vpmm_pause_prepare(struct vpmm_pool *pool, vpmm_tag tag);

/**
 * vpmm_pause() - give the device memory of a tag's blocks back
 * @pool: the pool; NULL: the default pool of the current device
 * @tag: the tag, or VPMM_TAG_ALL
 * @flags: 0 or VPMM_PAUSE_DROP
 *
 * Waits for all work of the device and saves the contents of the blocks to host memory, except with VPMM_PAUSE_DROP and
 * of blocks with VPMM_TAG_DROP. Then unmaps the blocks and releases their memory. The blocks keep their addresses,
 * count as live and can be freed. No kernel may access them. Other calls on them, and allocations under the tag, return
 * -EBUSY. Blocks with VPMM_TAG_STAY, of VPMM_SHAREABLE and those that the driver's allocator serves keep their memory.
 * Memory of graphs that were captured under the tag goes too: do not launch them until vpmm_resume() has returned.
 * Captures that are under way go on.
 *
 * On failure nothing is paused. With VPMM_TAG_ALL that holds for each tag, and the tags that this call has paused are
 * resumed.
 *
 * Context: any thread. Waits for the device and for the copies; other threads can allocate under other tags meanwhile.
 * Return: 0, also if the tag is paused already, or
 *	-EINVAL there is no such tag, it is not pausable, or @flags has an unknown bit,
 *	-ENOMEM not enough host memory,
 *	-ENOTSUP the driver has no host memory that the device can copy to; VPMM_PAUSE_DROP needs none,
 *	-EBUSY another thread pauses or resumes the tag,
 *	or another error of the driver.
 * Since: 0.1
 */
int vpmm_pause(struct vpmm_pool *pool, vpmm_tag tag, unsigned int flags);

/**
 * vpmm_resume() - give paused blocks device memory again, and their contents
 * @pool: the pool; NULL: the default pool of the current device
 * @tag: the tag, or VPMM_TAG_ALL
 * @stream: a stream whose later work finds the contents; VPMM_STREAM_ANY: any stream's does. This version is complete
 *	on return either way
 *
 * The blocks are at the addresses that they had. Contents that were dropped are undefined. On failure the tag is paused
 * as before, with all that was saved, and the call can be tried again. With VPMM_TAG_ALL that holds for each tag, and
 * the tags that this call has resumed are paused again.
 *
 * Before the call fails for want of memory, the pool gives free memory back and calls @pressure, as for vpmm_malloc().
 *
 * Context: any thread. Waits for the copies.
 * Return: 0, also if the tag is not paused, or
 *	-EINVAL there is no such tag, it is not pausable, or @stream is not a stream,
 *	-ENOMEM not enough device memory, or beyond the limit of the pool,
 *	-EBUSY another thread pauses or resumes the tag, or @stream is under capture, or is the legacy default stream
 *	while another is,
 *	or another error of the driver.
 * Since: 0.1
 */
int vpmm_resume(struct vpmm_pool *pool, vpmm_tag tag, struct CUstream_st *stream);

/**
 * vpmm_guard_fn - brings the program to rest, and lets it go on
 * @data: that of vpmm_pause_guard()
 * @rest: more than 0: stop submitting work that uses tagged memory, within this many milliseconds;
 *	0: all tags that vpmm-pause(1) had paused are resumed
 *
 * It is called on a thread of the library, with no lock held, and may call the library.
 *
 * Return: 0, or a negative errno value if the program does not come to rest; then nothing is paused.
 * Since: 0.1
 */
typedef int (*vpmm_guard_fn)(void *data, int rest);

/**
 * vpmm_pause_guard() - set the callback that brings the process to rest for vpmm-pause(1)
 * @guard: called before the first tag is paused from outside, and after the last one was resumed; NULL: none, and the
 *	user of vpmm-pause(1) must make sure that no kernel uses the memory
 * @data: passed to @guard
 *
 * The guard has no effect without VPMM_PAUSABLE. A process has one guard; a later call replaces it.
 *
 * Context: any thread. Waits for a call of the guard before that is under way, unless it is made by that.
 * Return: 0, or -EBUSY the process was forked after its first pool was created.
 * Since: 0.1
 */
int vpmm_pause_guard(vpmm_guard_fn guard, void *data);

/**
 * vpmm_pool_set_limit() - change the most device memory that a pool may hold
 * @pool: the pool; NULL: the default pool of the current device
 * @bytes: the limit from now on, as @limit of struct vpmm_opts, in place of what the options or an earlier call have
 *	set; 0: no limit
 *
 * If the pool holds more, the call gives free memory back on which no work is pending. Other memory beyond the limit
 * stays and serves requests, and the pool takes no more.
 *
 * Context: any thread; does not wait for streams.
 * Return: 0, or
 *	-EIO the driver reports an earlier failure, perhaps as memory was to be given back; the limit may hold then,
 *	-EBUSY the process was forked after the pool was created,
 *	-ESTALE the device was reset since the pool was created.
 * Since: 0.1
 */
int vpmm_pool_set_limit(struct vpmm_pool *pool, size_t bytes);

/**
 * vpmm_pool_set_peers() - choose the other devices whose kernels can access a pool's memory
 * @pool: the pool; NULL: the default pool of the current device
 * @devices: their ordinals; may be NULL if @count is 0
 * @count: how many; 0: none can from now on
 *
 * The devices take the place of those that could before. They can read and write all memory of the pool: what is
 * allocated already, what the pool keeps, and what it takes later; shareable blocks, blocks that came from other
 * processes, and what the driver's allocator serves for the pool included. A device that is left out loses access, so
 * all its work with the pool's memory must have completed. Before a block is freed that another device uses, the stream
 * of the free must wait for that device's work, by an event: vpmm_use() takes streams of the pool's own device.
 *
 * Context: any thread; does not wait for streams. It makes driver calls for each mapping of the pool, while calls of
 *	other threads that no cache serves wait.
 * Return: 0, or
 *	-EINVAL a device is the pool's own, is there twice, or is negative, or @devices is NULL,
 *	-ENODEV there is no such device,
 *	-ENOTSUP a device cannot access memory of the pool's device,
 *	-ENOMEM no memory for page tables,
 *	-EIO the driver reports an earlier failure,
 *	-EBUSY the process was forked after the pool was created,
 *	-ESTALE the device was reset since the pool was created.
 *	After an error all is as before. If the call cannot undo its changes, the text of the error says so. Devices
 *	that were to gain or lose access may then have it to a part of the memory, until a later call succeeds.
 * Since: 0.1
 */
int vpmm_pool_set_peers(struct vpmm_pool *pool, const int *devices, size_t count);

/**
 * vpmm_pool_reset_peaks() - reset the peaks in the statistics
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
 * vpmm_pool_save_plan() - write the file of VPMM_PLAN now
 * @pool: the pool, created with a plan; NULL: the default pool of the current device
 *
 * The pool also writes the file when it is destroyed, and when the process exits. Another process that reads the file
 * meanwhile gets the old one or the new one.
 *
 * Context: any thread; waits for the file system.
 * Return: 0, or
 *	-EINVAL the pool was created without a plan, or the name is that of something else than a file,
 *	-EBUSY the process was forked after the pool was created,
 *	-ESTALE the device was reset since the pool was created,
 *	or the negative errno value of the call that could not write the file, which is as before then.
 * Since: 0.1
 */
int vpmm_pool_save_plan(struct vpmm_pool *pool);

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
 * Context: any thread; most other calls on the pool wait for it.
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
 * Context: any thread; most other calls on the pool wait for it.
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
 * Context: any thread, also while others create and destroy pools. The answer holds as long as nobody frees the
 *	allocation.
 * Return: 0, or
 *	-EINVAL @allocation is NULL or has the size of no version, or no allocation of a pool has @addr: it is another
 *	library's, or was freed,
 *	-EALREADY the allocation was freed, and is one that the driver served (VPMM_SMALL_DRIVER): as long as work uses
 *	it, it is allocated to the driver, which would free it for others,
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
 * Return: the text, valid until the thread's next call, whatever that returns; empty before the first failure. If
 *	memory ran out or there is no GPU, a second line says what would help.
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
