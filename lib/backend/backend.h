/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The contract with the driver. The rest of the library sees a device only through one const table of operations.
 *
 * Every operation returns 0 or a negative errno value, and has explained the latter by error_set(), with the driver's
 * call and the name and number of its error:
 *
 *	-ENOMEM	memory, address space or mappings are exhausted; the sentence says which
 *	-EINVAL	a precondition does not hold, or the stream is not one
 *	-EBUSY	a guard that must be complete is pending
 *	-EIO	the driver reports an earlier asynchronous failure, or has shut down
 *	-ENODEV	no driver or device
 *	-ESTALE	the context that the device was opened in was reset or destroyed
 *	-ENOTSUP	the device cannot
 *	-EMFILE	the process can open no more file descriptors
 *
 * An operation that fails has changed nothing. All may be called from several threads at once. All but open, close,
 * current, gone and abandon are called between enter and leave, which make the device's context current on the calling
 * thread.
 */
#ifndef BACKEND_H
#define BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct backend;

/* One event of the driver; each backend has its own inside. */
struct backend_event;

/* Streams that are stopped; each backend has its own inside. */
struct backend_gate;

/* How memory is shared with other processes; the values are in messages between processes. */
enum backend_handles {
	BACKEND_HANDLES_NONE = 0,
	BACKEND_HANDLES_FD = 1,		/* file descriptors */
	BACKEND_HANDLES_FABRIC = 2,	/* 64 bytes, for all machines that share a fabric */
};

#define BACKEND_FABRIC_SIZE 64

/* What stands for memory in another process. */
struct backend_export {
	enum backend_handles type;
	int fd;
	unsigned char fabric[BACKEND_FABRIC_SIZE];
};

#define BACKEND_UUID_SIZE 16

/* Sets of devices are bits by ordinal, so devices from this ordinal on can be in none. */
#define BACKEND_PEERS_MOST 64

struct backend_info {
	const char *name;		/* of the backend: "cuda" or "host" */
	int device;
	char device_name[128];
	unsigned char uuid[BACKEND_UUID_SIZE];	/* the same in all processes; 0: the driver does not tell */
	int driver_version;
	bool mapless;			/* no virtual memory management: only small_alloc gives memory */
	size_t granularity;		/* of sizes and addresses of mappings */
	uint64_t memory_total;
	uint64_t memory_free;
	uint64_t mapping_limit;		/* 0: not known */
	uint64_t space;			/* bytes of address space to reserve at a time at most; 0: as many as there are */
};

/*
 * Those that each backend has: OP(type, name, parameters). What most calls of a program need is together, as it is
 * seldom in the processor's caches.
 */
#define BACKEND_OPS(OP) \
	OP(int, stream_id, (struct backend *be, struct CUstream_st *stream, uint64_t *id)) \
	OP(int, enter, (struct backend *be)) \
	OP(void, leave, (struct backend *be)) \
	OP(int, event_record, (struct backend *be, struct backend_event *event, struct CUstream_st *stream)) \
	OP(int, current_device, (int *device)) \
	OP(bool, gone, (struct backend *be)) \
	OP(int, abandon, (struct backend *be)) \
	OP(int, open, (int device, struct backend **be)) \
	OP(void, close, (struct backend *be)) \
	OP(int, configure, (struct backend *be, enum backend_handles handles, bool rdma)) \
	OP(int, peer_check, (struct backend *be, int device)) \
	OP(int, peers, (struct backend *be, uint64_t devices)) \
	OP(int, info, (struct backend *be, struct backend_info *info)) \
	OP(int, reserve, (struct backend *be, size_t size, size_t align, uint64_t *va)) \
	OP(int, reserve_at, (struct backend *be, uint64_t va, size_t size)) \
	OP(int, unreserve, (struct backend *be, uint64_t va, size_t size)) \
	OP(int, create, (struct backend *be, size_t size, uint64_t *handle)) \
	OP(int, create_export, (struct backend *be, size_t size, uint64_t *handle)) \
	OP(int, export, (struct backend *be, uint64_t handle, struct backend_export *export)) \
	OP(int, import, (struct backend *be, const struct backend_export *export, size_t size, uint64_t *handle)) \
	OP(int, release, (struct backend *be, uint64_t handle)) \
	OP(int, map, (struct backend *be, uint64_t va, size_t size, uint64_t handle)) \
	OP(int, access, (struct backend *be, uint64_t va, size_t size)) \
	OP(int, deny, (struct backend *be, uint64_t va, size_t size, uint64_t devices)) \
	OP(int, unmap, (struct backend *be, uint64_t va, size_t size, struct backend_event *guard)) \
	OP(int, stream_capture, (struct backend *be, struct CUstream_st *stream, uint64_t *id)) \
	OP(int, graph_watch, (struct backend *be, struct CUstream_st *stream, void (*gone)(void *data), void *data)) \
	OP(int, stream_wait, (struct backend *be, struct CUstream_st *stream, struct backend_event *event)) \
	OP(int, event_create, (struct backend *be, struct backend_event **event)) \
	OP(int, event_create_timed, (struct backend *be, struct backend_event **event)) \
	OP(void, event_destroy, (struct backend *be, struct backend_event *event)) \
	OP(int, event_record_all, (struct backend *be, struct backend_event *event)) \
	OP(int, event_query, (struct backend *be, struct backend_event *event, int *complete)) \
	OP(int, event_sync, (struct backend *be, struct backend_event *event)) \
	OP(int, event_elapsed, (struct backend *be, struct backend_event *start, \
	   struct backend_event *end, int64_t *ns)) \
	OP(int, sync, (struct backend *be)) \
	OP(int, clear, (struct backend *be, uint64_t va, size_t size, struct CUstream_st *stream)) \
	OP(int, copy, (struct backend *be, uint64_t to, uint64_t from, size_t size, struct CUstream_st *stream)) \
	OP(int, small_alloc, (struct backend *be, size_t size, struct CUstream_st *stream, uint64_t *va)) \
	OP(int, small_free, (struct backend *be, uint64_t va, struct CUstream_st *stream)) \
	OP(int, small_held, (struct backend *be, uint64_t *bytes, uint64_t *peak)) \
	OP(int, small_trim, (struct backend *be, uint64_t keep, bool *pending)) \
	OP(int, host_create, (struct backend *be, size_t size, uint64_t *handle)) \
	OP(int, host_access, (struct backend *be, uint64_t va, size_t size)) \
	OP(int, access_read, (struct backend *be, uint64_t va, size_t size)) \
	OP(int, room, (struct backend *be, uint64_t va, size_t size, uint64_t *at)) \
	OP(void, room_end, (struct backend *be, uint64_t va, size_t size, uint64_t at)) \
	OP(int, show, (struct backend *be, uint64_t at, uint64_t from, size_t size)) \
	OP(int, stream_create, (struct backend *be, struct CUstream_st **stream)) \
	OP(void, stream_destroy, (struct backend *be, struct CUstream_st *stream)) \
	OP(int, gate, (struct backend *be, struct CUstream_st *const *streams, size_t count, \
	   struct backend_gate **gate)) \
	OP(void, gate_open, (struct backend *be, struct backend_gate *gate))

/**
 * struct backend_ops - what a backend performs
 * @name: as VPMM_BACKEND has it
 * @roams: event_create may be called outside of enter and leave, and so may stream_id and event_record for a created
 *	stream; they can fail there where they would not inside
 *
 * @current: which context is current on the calling thread, to compare with @place of struct backend; NULL: none, or
 *	the driver does not say. Needs an open backend.
 * @current_device: the ordinal of the calling thread's current device; 0 where it has none. Needs no open backend.
 * @open: open the device of an ordinal. Initialises the driver at the first use.
 * @close: close it. Preconditions: every mapping, handle, reservation, event and small allocation is gone.
 *
 * @enter: make the device's context current on the calling thread, and let its calls be made beside captures of other
 *	threads. Pairs nest.
 * @leave: put back what was current before the enter. Never fails.
 * @gone: whether the context was reset since the device was opened; enter is -ESTALE then. Of a context that is neither
 *	the device's primary one nor current it is not known: then false.
 * @abandon: in place of enter, once that was -ESTALE: until the leave, memory can be given back. Only unmap, release
 *	and unreserve are called, and event_destroy, which forgets the event. No later enter succeeds, and close leaves
 *	alone what was the context's.
 *
 * @configure: what memory is created from now on: of which type its handles can be exported, and whether network cards
 *	can read and write it. It can change the granularity. -ENOTSUP where the device cannot. Precondition: nothing
 *	was created yet.
 * @peer_check: whether another device can access this one's memory. -ENODEV if there is no device of that ordinal,
 *	-ENOTSUP if it cannot. Precondition: it is not this device.
 * @peers: which other devices, as bits by ordinal, can read and write what access is called for from now on, and what
 *	small_alloc has given and will give. At first there are none. Precondition: peer_check accepts each.
 * @info: facts about the device. @info->memory_free is as of the call.
 * @now: nanoseconds of a clock that never goes back.
 *
 * @reserve: reserve @size bytes of address space at a multiple of @align. Preconditions: @size is a multiple of the
 *	granularity, @align a power of two.
 * @reserve_at: reserve @size bytes of address space that start at @va. -EADDRINUSE if the process or the driver has
 *	something there, -ENOTSUP if the driver cannot be asked for addresses. Preconditions: both are multiples of the
 *	granularity.
 * @unreserve: give a reservation back. Preconditions: exactly what reserve gave, nothing mapped in it.
 * @create: create @size bytes of device memory. Precondition: @size is a multiple of the granularity.
 * @create_export: the same for memory whose handle can be exported. Precondition: configure has set a type.
 * @export: export a handle of create_export as the type that configure has set; the caller closes the descriptor of
 *	@export, which is close-on-exec. The memory lives on as long as that is open or imported.
 * @import: make a handle of memory that another process has exported. The descriptor stays the caller's. -EINVAL if it
 *	is none of such memory; a driver tells only when it is mapped that the memory has another size than @size.
 * @release: release a handle. Its memory lives on until its last mapping goes.
 * @map: map a whole handle, once more if it already is mapped elsewhere. Preconditions: @va and @size are multiples
 *	of the granularity, @size is the handle's, the range lies in one reservation and nothing is mapped there. The
 *	mapping starts without access.
 * @access: let the device (on the host backend: the CPU) and its peers read and write a range. Other devices keep the
 *	access that they have. Precondition: the range lies in one reservation, all of it is mapped, and its ends are
 *	ends of mappings.
 * @deny: take the access to a range from other devices, as bits by ordinal. Precondition: as for access, which was
 *	called for all of it; they are not none, and the device itself is not one of them.
 * @unmap: unmap a range of whole mappings; parts of it may be unmapped already. Precondition: @guard, an event behind
 *	all uses of these addresses, is complete; NULL: no stream ever used them.
 *
 * @stream_id: the driver's id of a stream, the same for every handle that means the same stream now, never used for
 *	another stream again. -EBUSY while the stream is captured into a graph, as no event can be recorded on it.
 * @stream_capture: the driver's id of the capture that a stream is under, never used for another; 0 if it is under
 *	none. -EBUSY for the legacy default stream while another stream's capture makes it unusable, and for an
 *	invalidated capture whose id the driver no longer tells.
 * @graph_watch: have @gone called, once and with @data, when the graph of @stream's capture cannot run any more:
 *	when the capture has failed, or the graph is destroyed, and with it all that was made of it (instances, clones,
 *	graphs that it is a child of), and the launches of all of them are complete. That may be within a call of the
 *	driver or on a thread of its own, with locks held, and after close: @gone must not wait, nor call the backend.
 *	It is not called if this fails, and need not be called once the context was reset. -ENOTSUP where the driver
 *	cannot; -EBUSY where the stream is under no capture that it tells the graph of.
 * @stream_wait: make what is submitted to @stream from now on wait for @event, on the device.
 * @event_create: create an event, not yet recorded.
 * @event_create_timed: create an event that keeps time, not yet recorded. It can be used as any other, but a record
 *	of it costs the device and the caller several times as much.
 * @event_destroy: destroy an event of either kind, recorded or not, pending or not. Never fails.
 * @event_record: make @event stand for all work submitted to @stream so far, and no longer for what it stood for
 *	before. Precondition: no stream and no thread waits for it. The event outlives the stream.
 * @event_record_all: make @event stand for all work submitted to any stream of the device's context so far, those that
 *	the library has never seen included, likewise. -ENOTSUP where the driver cannot; -EBUSY where it tells of a
 *	capture that would be in the way, which is not touched then. Precondition: those of event_record, and no stream
 *	of the context is under a capture that the driver does not tell of, as it would invalidate that.
 * @event_query: *@complete tells whether that work has completed. Precondition: recorded.
 * @event_sync: wait on the host until it has. Precondition: recorded.
 * @event_elapsed: *@ns is the time on the device from the completion of what @start stands for to the completion of
 *	what @end stands for, in nanoseconds; negative if @end came first. The streams may be different ones of this
 *	device. -EBUSY if one of the two is pending. Precondition: both keep time and are recorded.
 * @sync: wait on the host until all work submitted to the device's streams so far has completed, that of streams which
 *	were destroyed too. Captures go on.
 *
 * @clear: set @size bytes at @va to zero in the order of @stream, under capture as a part of the graph. Precondition:
 *	they lie in mappings with access.
 * @copy: copy @size bytes from @from to @to likewise. Preconditions: both ranges lie in mappings with access, and do
 *	not overlap.
 *
 * @hand_out: note that the library lets a stream have @size bytes at @va, which may be mapped elsewhere as well;
 *	@stream is the driver's id of it, or no stream's id if the memory is for a graph, or for all streams at once.
 *	NULL: the backend does not look.
 * @check: whether clears, copies, unmaps and what @hand_out noted all came after the clears and copies that were
 *	pending on their memory. -EUCLEAN if one did not. NULL: the backend does not look.
 *
 * @small_alloc: allocate @size bytes, at least 1, from the driver's stream-ordered allocator, in a memory pool of this
 *	backend's own that keeps what it has.
 * @small_free: free it in the order of @stream. Precondition: it was given by small_alloc and not freed since.
 * @small_held: bytes that this memory pool holds, now and at most so far.
 * @small_trim: release unused memory of this memory pool, as long as it still holds @keep bytes. Does not wait: memory
 *	freed behind pending work stays, and *@pending says whether there is any.
 *
 * For addresses that the CPU and the device have in common:
 *
 * @host_create: create @size bytes of host memory, cleared, that the device can access; release gives it back. -ENOTSUP
 *	where the driver cannot. Precondition: @size is a multiple of the granularity.
 * @host_access: as access, and for the CPU too. Precondition: that of access, and the memory is of host_create.
 * @access_read: as access, but to read only.
 * @room: *@at is where the CPU sees the addresses that the device has at @va: the same addresses, or as many others
 *	where the device's are the CPU's already. Preconditions: exactly what reserve gave, nothing mapped in it.
 * @room_end: undo room, whatever the CPU has there by now. Preconditions: the values of room.
 * @show: let the CPU have at @at, in a room, what it has at @from, in one step for all threads. It may have
 *	nothing at @from after that. 1: done, but another thread got the CPU's addresses at @from, which must not be
 *	unmapped or unreserved any more; the device has there what it had. Precondition: host_access was called for
 *	@from, which is a whole mapping, and no show since.
 * @stream_create: create a stream that waits for no other.
 * @stream_destroy: destroy it. Precondition: it has no pending work.
 * @gate: wait until all that was submitted to @streams so far has completed, and hold back what is submitted later.
 *	-ENOTSUP where the driver cannot. Preconditions: none of them is under capture, and no gate of this backend is
 *	closed.
 * @gate_open: let the streams of a gate go on. Never fails.
 */
struct backend_ops {
	const char *name;
	bool roams;
	const void *(*current)(void);
#define OP(type, name, parameters) type (*name) parameters;
	BACKEND_OPS(OP)
#undef OP
	void (*hand_out)(struct backend *be, uint64_t va, size_t size, uint64_t stream);
	int (*check)(struct backend *be);
};

/**
 * struct backend - an open device; the first member of each backend's own structure
 * @ops: what it performs
 * @place: the context that enter makes current, if no other can ever be mistaken for it. A thread on which it is
 *	current may do without enter and leave what @roams says, for every stream. NULL: no thread may
 */
struct backend {
	const struct backend_ops *ops;
	const void *place;
};

extern const struct backend_ops backend_cuda;
extern const struct backend_ops backend_host;

/**
 * backend_open() - open a device of the backend of a name
 * @name: "cuda", "host", or "auto" for cuda where there is a device that can, else host
 * @device: the device's ordinal; NULL: the calling thread's current device
 * @be: receives the open backend
 *
 * Return: 0, or what the backend's current_device and open return.
 */
int backend_open(const char *name, const int *device, struct backend **be);

/* How many streams one gate can hold back. */
#define BACKEND_GATE_STREAMS 4096

#endif /* BACKEND_H */
