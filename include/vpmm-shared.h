/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One address space for the CPU and the device.
 *
 * A shared range is addresses that both use, for as long as the range lives. Each of its pages is on the device or on
 * the host. The CPU's touch of a page that is on the device waits until the page has come back; the device reads and
 * writes pages on the host over the bus. The calls follow the conventions of vpmm.h: 0 or a negative errno value,
 * errno set, vpmm_last_error(). vpmm-shared(7) has the whole.
 */
#ifndef VPMM_SHARED_H
#define VPMM_SHARED_H

#include <stddef.h>
#include <stdint.h>
#include "vpmm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For vpmm_shared_alloc(): pages of the smallest size, however large the range is. Since: 0.1 */
#define VPMM_SHARED_FINE 0x1u

/**
 * enum vpmm_location - where a page is
 * @VPMM_HOST: in host memory; the device reaches it over the bus
 * @VPMM_DEVICE: in device memory; the CPU's touch brings it back
 *
 * Since: 0.1
 */
enum vpmm_location {
	VPMM_HOST,
	VPMM_DEVICE
};

/* Flags of struct vpmm_page. Since: 0.1 */
#define VPMM_PAGE_EMPTY 0x1u	/* not used yet: it has no memory anywhere and reads as zero */
#define VPMM_PAGE_PREFER_HOST 0x2u
#define VPMM_PAGE_PREFER_DEVICE 0x4u
#define VPMM_PAGE_MOVING 0x8u	/* mirrors were notified of a move, and its location may change at any moment */
#define VPMM_PAGE_READ_MOSTLY 0x10u
#define VPMM_PAGE_DUPLICATE 0x20u	/* it is on the device, and host memory holds the same; the CPU can read that */
#define VPMM_PAGE_PINNED 0x40u

/**
 * struct vpmm_page - a page of a shared range
 * @addr: where it starts
 * @size: bytes
 * @location: where it is; VPMM_HOST if it is nowhere
 * @flags: VPMM_PAGE_EMPTY, VPMM_PAGE_MOVING, VPMM_PAGE_DUPLICATE, VPMM_PAGE_PINNED, and what was advised
 * @sequence: changes at the end of each move of the page, and where one was tried
 *
 * Since: 0.1
 */
struct vpmm_page {
	void *addr;
	size_t size;
	enum vpmm_location location;
	unsigned int flags;
	uint64_t sequence;
};

/**
 * enum vpmm_advice - what is known of a range
 * @VPMM_ADVISE_NONE: nothing, as at first
 * @VPMM_ADVISE_PREFER_HOST: pages stay on the host, vpmm_migrate() leaves them there, and the device reaches them over
 *	the bus
 * @VPMM_ADVISE_PREFER_DEVICE: when memory runs out, pages of other ranges go to the host first
 * @VPMM_ADVISE_READ_MOSTLY: pages that go to the device keep their host memory, and the CPU reads that without having
 *	them come back. Work of the device must not write to them
 *
 * Since: 0.1
 */
enum vpmm_advice {
	VPMM_ADVISE_NONE,
	VPMM_ADVISE_PREFER_HOST,
	VPMM_ADVISE_PREFER_DEVICE,
	VPMM_ADVISE_READ_MOSTLY
};

/* For alloc_and_copy() to set in struct vpmm_move. Since: 0.1 */
#define VPMM_MOVE_SKIP 0x1u	/* the page stays where it is */
#define VPMM_MOVE_COPIED 0x2u	/* the copy is made, or will be made in the order of the stream */
/* Set for finalize_and_map(). Since: 0.1 */
#define VPMM_MOVE_DONE 0x4u	/* the page has moved */

/**
 * struct vpmm_move - a page that is about to move
 * @addr: where it starts
 * @size: bytes
 * @from: where its contents are: a device address, valid during alloc_and_copy(), of memory that nobody writes
 * @to: where they go: a device address, likewise
 * @flags: see above
 *
 * Since: 0.1
 */
struct vpmm_move {
	void *addr;
	size_t size;
	void *from;
	void *to;
	unsigned int flags;
};

typedef void (*vpmm_alloc_and_copy_fn)(void *data, struct vpmm_move *moves, size_t count, struct CUstream_st *stream);
typedef void (*vpmm_finalize_and_map_fn)(void *data, const struct vpmm_move *moves, size_t count);

/**
 * struct vpmm_migrate_ops - takes part in a migration
 * @size: of the structure
 * @alloc_and_copy: called for a batch of pages once nothing uses them; it may decline each, or copy it. It may use
 *	@stream for the copies, or be done with them when it returns. NULL: none declined, none copied
 * @finalize_and_map: called when the batch has moved. NULL: not called
 *
 * Neither may call the library, or touch shared ranges of any pool: the thread that serves touches may wait for the
 * move.
 *
 * Since: 0.1
 */
struct vpmm_migrate_ops {
	size_t size;
	vpmm_alloc_and_copy_fn alloc_and_copy;
	vpmm_finalize_and_map_fn finalize_and_map;
};

/**
 * struct vpmm_shared_stats - what the shared ranges of a pool have and did
 * @size: of the structure, set by the caller
 * @ranges: how many there are
 * @device: bytes of device memory, unused ones included
 * @device_unused: bytes of those that no page has
 * @host: bytes of host memory, unused ones included
 * @host_unused: bytes of those that no page has
 * @faults: touches of the CPU that were served
 * @read_ahead: pages that came back before they were touched
 * @to_device: bytes that were copied to the device
 * @to_host: bytes that were copied to the host
 * @pages_to_device: pages that went to the device, empty ones that got memory there included
 * @pages_to_host: pages that went to the host, likewise
 * @evicted: pages of @pages_to_host that went because device memory had run out
 * @skipped: pages that migrations left where they were
 * @retries: how often touches had to be served again, for lack of memory above all
 * @fault_ns: nanoseconds in which touches were served
 * @migrate_ns: nanoseconds in vpmm_migrate() and vpmm_fault()
 * @duplicates: bytes of @host that hold the same as pages on the device
 * @read_copies: how often the CPU got a copy of such a page to read
 *
 * Since: 0.1
 */
struct vpmm_shared_stats {
	size_t size;
	uint64_t ranges;
	uint64_t device;
	uint64_t device_unused;
	uint64_t host;
	uint64_t host_unused;
	uint64_t faults;
	uint64_t read_ahead;
	uint64_t to_device;
	uint64_t to_host;
	uint64_t pages_to_device;
	uint64_t pages_to_host;
	uint64_t evicted;
	uint64_t skipped;
	uint64_t retries;
	uint64_t fault_ns;
	uint64_t migrate_ns;
	uint64_t duplicates;
	uint64_t read_copies;
};

/**
 * vpmm_shared_alloc() - allocate addresses that the CPU and the device share
 * @pool: the pool; NULL: the default pool
 * @addr: receives where the range starts
 * @size: bytes, rounded up to pages of the range
 * @flags: VPMM_SHARED_FINE or 0
 *
 * Nothing of it takes memory until it is touched, and it reads as zero until it is written. Pages of the range have a
 * 128th of its size, but 2 MiB, or the device's granularity, at least and 32 MiB at most.
 *
 * Context: any thread. May wait for a thread to start.
 * Return: 0, or
 *	-EINVAL @addr is NULL, @size is 0 or @flags has an unknown bit; or VPMM_HOST_KEEP or
 *	VPMM_SHARED_TOUCH has a bad value,
 *	-ENOMEM address space or the memory that empty pages read is exhausted,
 *	-ENOTSUP the driver cannot, or the kernel allows neither userfaultfd nor a handler for SIGSEGV,
 *	-EMFILE the process cannot open more files,
 *	-EBUSY the process was forked from one that had used the library,
 *	-ESTALE the context of the pool was reset or destroyed,
 *	or an error of the driver.
 * Since: 0.1
 */
int vpmm_shared_alloc(struct vpmm_pool *pool, void **addr, size_t size, unsigned int flags);

/**
 * vpmm_shared_free() - free a range
 * @pool: the pool; NULL: whichever has it
 * @addr: where the range starts; NULL does nothing
 * @stream: a stream that has used it; other streams are those of vpmm_use() and vpmm_migrate(). VPMM_STREAM_ANY: all
 *	streams of the context
 *
 * Context: any thread, but none that handles a signal; nobody touches the range any more. Waits for the work of the
 *	streams, and for other threads' calls that use the range.
 * Return: 0, or
 *	-EINVAL no range starts there, or another thread has freed it meanwhile, or @stream is not a stream,
 *	-ENOTSUP @stream is the default stream of each thread, or 4096 others use the range,
 *	-EBUSY the process was forked, or a piece of work of the host backend makes the call; or pages are pinned,
 *	-ESTALE the context of the pool was reset or destroyed,
 *	or an error of the driver; the range stays.
 * Since: 0.1
 */
int vpmm_shared_free(struct vpmm_pool *pool, void *addr, struct CUstream_st *stream);

/**
 * vpmm_migrate() - move pages to the device or to the host
 * @pool: the pool; NULL: whichever has the range
 * @addr: where the pages start, anywhere in a page
 * @size: bytes; each page that the bytes are in moves whole
 * @to: where to
 * @stream: the stream that the moves are ordered on, which uses the range from now on
 * @ops: callbacks that take part in the migration; NULL: none
 * @data: passed to @ops
 *
 * A page moves once the work is complete that was submitted to the streams of the range. Work that is submitted to them
 * meanwhile waits on the device until the batch of pages has moved. Pages that are there already, empty ones, those
 * that an advice or vpmm_pin() keeps, and those for which there is no memory are skipped.
 *
 * Context: any thread. Waits for the work of the streams that use the range, and for the copies.
 * Return: how many pages have moved, or
 *	-EINVAL @addr and @size are not in one range, @to is no location, @stream is not a stream, or @ops has
 *	the size of no version,
 *	-E2BIG @ops is larger than this library knows, and not zero beyond that,
 *	-EBUSY the process was forked,
 *	-ESTALE the context of the pool was reset or destroyed,
 *	-ENOTSUP @stream is the default stream of each thread, or 4096 others use the range,
 *	or an error of the driver; each page is where it was or where it was to go. If the driver refuses three times to
 *	put a page back, kernels that use it fault until the next call that moves pages of the range has put it back.
 * Since: 0.1
 */
int vpmm_migrate(struct vpmm_pool *pool, void *addr, size_t size, enum vpmm_location to, struct CUstream_st *stream,
		 const struct vpmm_migrate_ops *ops, void *data);

/**
 * vpmm_locate() - where pages are
 * @pool: the pool; NULL: whichever has the range
 * @addr: where they start, anywhere in a page
 * @size: bytes
 * @pages: receives one entry for each page that the bytes are in; NULL: count them
 *
 * Nothing moves. To use the result while pages move, take the lock that a mirror's update takes, and call again: if a
 * sequence number has changed or VPMM_PAGE_MOVING is set, release the lock and begin anew.
 *
 * Context: any thread. Does not wait.
 * Return: how many pages there are, or
 *	-EINVAL @addr and @size are not in one range,
 *	-EBUSY the process was forked.
 * Since: 0.1
 */
int vpmm_locate(struct vpmm_pool *pool, const void *addr, size_t size, struct vpmm_page *pages);

/**
 * vpmm_fault() - bring all pages of a range to a place before they are used
 * @pool: the pool; NULL: whichever has the range
 * @addr: where they start, anywhere in a page
 * @size: bytes
 * @to: where to
 * @flags: 0
 *
 * As vpmm_migrate() without a stream, but empty pages get memory there, or on the host where an advice keeps them, and
 * it is an error if a page cannot go. A kernel may write to pages that are not empty alone.
 *
 * Context: any thread. Waits as vpmm_migrate().
 * Return: how many pages have moved or got memory; all pages are there then, but those that an advice or vpmm_pin()
 *	keeps; or
 *	-EINVAL @addr and @size are not in one range, @to is no location, or @flags is not 0,
 *	-ENOMEM memory there is exhausted; some pages may have moved,
 *	-EBUSY the process was forked,
 *	-ESTALE the context of the pool was reset or destroyed,
 *	or an error of the driver.
 * Since: 0.1
 */
int vpmm_fault(struct vpmm_pool *pool, void *addr, size_t size, enum vpmm_location to, unsigned int flags);

/**
 * vpmm_advise() - set where pages are preferred, or that they are mostly read
 * @pool: the pool; NULL: whichever has the range
 * @addr: where they start, anywhere in a page
 * @size: bytes
 * @advice: what is known
 *
 * Nothing moves. A page that was read mostly and no longer is loses the host's duplicate.
 *
 * Context: any thread. Waits for moves that are under way if VPMM_ADVISE_READ_MOSTLY is given or taken back, and does
 *	not wait otherwise.
 * Return: 0, or
 *	-EINVAL @addr and @size are not in one range, or there is no such @advice,
 *	-ENOMEM the kernel has no mapping left to take the copy from the CPU; the advice stays as it was,
 *	-EBUSY the process was forked.
 * Since: 0.1
 */
int vpmm_advise(struct vpmm_pool *pool, void *addr, size_t size, enum vpmm_advice advice);

/**
 * vpmm_pin() - have pages stay on the host
 * @pool: the pool; NULL: whichever has the range
 * @addr: where they start, anywhere in a page
 * @size: bytes
 *
 * The call brings them there as vpmm_fault() does, empty ones too. vpmm_migrate() and vpmm_fault() leave them there
 * until vpmm_unpin() was called as often. The CPU's touch of them never waits, so direct memory access without a touch
 * can use them: O_DIRECT, io_uring, a network card. The device reaches them over the bus.
 *
 * Context: any thread. Waits as vpmm_migrate().
 * Return: 0, or
 *	-EINVAL @addr and @size are not in one range,
 *	-ENOMEM host memory is exhausted,
 *	-EBUSY the process was forked,
 *	-ESTALE the context of the pool was reset or destroyed,
 *	or an error of the driver. Pages may have moved then, and none is pinned by the call.
 * Since: 0.1
 */
int vpmm_pin(struct vpmm_pool *pool, void *addr, size_t size);

/**
 * vpmm_unpin() - undo vpmm_pin()
 * @pool: the pool; NULL: whichever has the range
 * @addr: where the pages start, anywhere in a page
 * @size: bytes
 *
 * Nothing moves.
 *
 * Context: any thread. Does not wait.
 * Return: 0, or
 *	-EINVAL @addr and @size are not in one range, or a page of them is not pinned: all stay as they were,
 *	-EBUSY the process was forked.
 * Since: 0.1
 */
int vpmm_unpin(struct vpmm_pool *pool, void *addr, size_t size);

struct vpmm_mirror;

/**
 * enum vpmm_mirror_action - what is about to change
 * @VPMM_MIRROR_MOVE: pages go elsewhere; they are valid again, at the same addresses, when vpmm_locate() returns
 *	another sequence number, without VPMM_PAGE_MOVING
 * @VPMM_MIRROR_UNMAP: the addresses lose the memory that they have. Those of a range become invalid; those of the pool
 *	can be allocated again, with other memory
 * @VPMM_MIRROR_MAP: addresses of the pool that lost their memory when a tag was paused have memory again, with the
 *	contents that they had
 *
 * Since: 0.1
 */
enum vpmm_mirror_action {
	VPMM_MIRROR_MOVE,
	VPMM_MIRROR_UNMAP,
	VPMM_MIRROR_MAP
};

typedef void (*vpmm_update_fn)(struct vpmm_mirror *mirror, void *data, enum vpmm_mirror_action action, void *start,
			       void *end);

/**
 * struct vpmm_mirror_ops - what a mirror does
 * @size: of the structure
 * @update: called before pages of a shared range change, or addresses of the pool lose their memory; the change
 *	waits for its return. After that the mirror uses nothing that it knew of the addresses from @start to below
 *	@end. It may take locks of the mirror's own, under which vpmm_locate() alone may be called; it may not touch
 *	shared ranges of any pool, or call the library otherwise. Any thread that calls the library may call it, or the
 *	one that serves touches, and two at once if one is about a range. If a change fails, the notification was
 *	spurious
 *
 * Since: 0.1
 */
struct vpmm_mirror_ops {
	size_t size;
	vpmm_update_fn update;
};

/**
 * vpmm_mirror_register() - be notified before mappings change
 * @pool: the pool; NULL: the default pool
 * @mirror: receives the mirror
 * @ops: what it does; copied
 * @data: passed to @ops
 *
 * The mirror is notified of changes of the pool's shared ranges, and of all memory that the pool maps itself: any later
 * call on the pool can unmap the memory of a freed block. The mirror is not notified of small blocks that the driver's
 * allocator has served.
 *
 * Context: any thread, but not in an update.
 * Return: 0, or
 *	-EINVAL @mirror, @ops or its update is NULL, or @ops has the size of no version,
 *	-E2BIG @ops is larger than this library knows, and not zero beyond that,
 *	-EBUSY the process was forked,
 *	-ESTALE the context of the pool was reset or destroyed,
 *	or an error of the driver.
 * Since: 0.1
 */
int vpmm_mirror_register(struct vpmm_pool *pool, struct vpmm_mirror **mirror, const struct vpmm_mirror_ops *ops,
			 void *data);

/**
 * vpmm_mirror_unregister() - end a mirror
 * @mirror: the mirror; NULL does nothing
 *
 * Call it even after the pool has ended, as it frees the mirror. The end of the pool notifies the mirror that all
 * ranges and all memory of the pool go.
 *
 * Context: any thread, but not in an update. Waits for updates that are under way.
 * Since: 0.1
 */
void vpmm_mirror_unregister(struct vpmm_mirror *mirror);

/* Where a function has the name of a structure, g++ -Wshadow says that it hides the constructor. C has none. */
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

/**
 * vpmm_shared_stats() - what the shared ranges of a pool have and did
 * @pool: the pool; NULL: the default pool
 * @stats: receives it, with its size set by the caller
 *
 * Context: any thread. Does not wait.
 * Return: 0, or
 *	-EINVAL @stats is NULL or has the size of no version,
 *	-EBUSY the process was forked,
 *	or an error of vpmm_pool_create() for a NULL @pool.
 * Since: 0.1
 */
int vpmm_shared_stats(struct vpmm_pool *pool, struct vpmm_shared_stats *stats);

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#ifdef __cplusplus
}
#endif

#endif /* VPMM_SHARED_H */
