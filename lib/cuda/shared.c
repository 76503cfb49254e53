// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * What a CUDA device needs for addresses that it has in common with the CPU: host memory with a handle, the CPU's view
 * of it, and streams that are stopped while a mapping changes.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda/device.h"
#include "util/clock.h"
#include "util/error.h"

/* Memory of the NUMA node that the device is near to. */
static drv_allocation_prop host_prop(const struct cuda *cuda)
{
	int node = 0;

	if (drv.cuDeviceGetAttribute(&node, DRV_DEVICE_ATTRIBUTE_HOST_NUMA_ID, cuda->device) || node < 0)
		node = 0;
	return (drv_allocation_prop){
		.type = DRV_MEM_ALLOCATION_TYPE_PINNED,
		.location = { DRV_MEM_LOCATION_TYPE_HOST_NUMA, node },
	};
}

int cuda_host_create(struct backend *be, size_t size, uint64_t *handle)
{
	drv_allocation_prop prop = host_prop(cuda_of(be));
	drv_result result;
	drv_handle got;

	cuda_relax();
	result = drv.cuMemCreate(&got, size, &prop, 0);
	if (result == DRV_ERROR_INVALID_VALUE || result == DRV_ERROR_INVALID_DEVICE)
		result = DRV_ERROR_NOT_SUPPORTED;
	if (!result)
		*handle = got;
	return cuda_check(result, "cuMemCreate of %zu bytes of host memory", size);
}

int cuda_host_access(struct backend *be, uint64_t va, size_t size)
{
	drv_access_desc descs[2 + BACKEND_PEERS_MOST];
	struct cuda *cuda = cuda_of(be);

	descs[0] = cuda_desc(cuda->device, true);
	descs[1] = (drv_access_desc){ host_prop(cuda).location, DRV_MEM_ACCESS_FLAGS_PROT_READWRITE };
	return cuda_set_access(va, size, descs, 2 + cuda_descs(cuda->peers, true, descs + 2));
}

int cuda_access_read(struct backend *be, uint64_t va, size_t size)
{
	drv_access_desc descs[1 + BACKEND_PEERS_MOST];
	struct cuda *cuda = cuda_of(be);
	size_t count;

	descs[0] = cuda_desc(cuda->device, true);
	count = 1 + cuda_descs(cuda->peers, true, descs + 1);
	for (size_t i = 0; i < count; i++)
		descs[i].flags = DRV_MEM_ACCESS_FLAGS_PROT_READ;
	return cuda_set_access(va, size, descs, count);
}

/* What is reserved for the device is inaccessible memory of the process, so the CPU can have its own there. */
int cuda_room(struct backend *be, uint64_t va, size_t size, uint64_t *at)
{
	(void)be;
	(void)size;
	if (!drv.cuStreamBatchMemOp || !drv.cuStreamGetFlags)
		return error_set(-ENOTSUP, "the CUDA driver has no %s, which shared ranges need to stop streams",
				 drv.cuStreamBatchMemOp ? "cuStreamGetFlags" : "cuStreamBatchMemOp, which CUDA 12 has");
	*at = va;
	return 0;
}

void cuda_room_end(struct backend *be, uint64_t va, size_t size, uint64_t at)
{
	(void)be;
	(void)va;
	/* As the driver had it. */
	if (mmap((void *)(uintptr_t)at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
		 0) == MAP_FAILED)
		mprotect((void *)(uintptr_t)at, size, PROT_NONE);
}

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/*
 * The driver's mapping cannot be made twice, so it moves. What it leaves has to be taken again at once, as the driver
 * will map something there; if another thread has mapped something there meanwhile, the driver must not.
 */
int cuda_show(struct backend *be, uint64_t at, uint64_t from, size_t size)
{
	void *left = (void *)(uintptr_t)from;

	(void)be;
	if (mremap((void *)(uintptr_t)from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)(uintptr_t)at) ==
	    MAP_FAILED)
		return error_set(-ENOMEM, "mremap of %zu bytes of host memory to %#" PRIx64 ": %s", size,
				 at, g_strerror(errno));
	/* A child of the process has nothing of a range. */
	madvise((void *)(uintptr_t)at, size, MADV_DONTFORK);
	return mmap(left, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0) !=
	       left;
}

int cuda_stream_create(struct backend *be, struct CUstream_st **stream)
{
	(void)be;
	if (!drv.cuStreamCreate || !drv.cuStreamDestroy)
		return error_set(-ENOTSUP, "the CUDA driver has no cuStreamCreate");
	return cuda_check(drv.cuStreamCreate(stream, DRV_STREAM_NON_BLOCKING), "cuStreamCreate");
}

void cuda_stream_destroy(struct backend *be, struct CUstream_st *stream)
{
	if (!cuda_of(be)->abandoned)
		drv.cuStreamDestroy(stream);
}

/*
 * A stream of a gate writes the number of the gate to a word and then waits until another word has it, as one
 * operation: nothing that another thread submits comes between. The numbers only grow, so what is left of an earlier
 * gate, whose streams had not got there when it was opened again, is in nobody's way.
 */
struct gate_words {
	_Atomic uint32_t reached;
	_Atomic uint32_t open;
	uint32_t apart[2];
};

struct backend_gate {
	size_t count;
	uint32_t number;
};

#define GATE_BYTES ((int)(BACKEND_GATE_STREAMS * sizeof(struct gate_words)))

static int gates_take(struct cuda *cuda)
{
	drv_result result;

	if (cuda->gates)
		return 0;
	cuda_relax();
	result = drv.cuMemAllocHost(&cuda->gates, GATE_BYTES);
	if (!result)
		memset(cuda->gates, 0, GATE_BYTES);
	else
		cuda->gates = NULL;
	return cuda_check(result, "cuMemAllocHost of %d bytes", GATE_BYTES);
}

void cuda_gates_drop(struct cuda *cuda)
{
	if (cuda->gates)
		drv.cuMemFreeHost(cuda->gates);
	cuda->gates = NULL;
}

static int close_one(struct gate_words *words, uint32_t number, struct CUstream_st *stream)
{
	drv_deviceptr at = (uintptr_t)words;
	drv_batch_op ops[2];

	memset(ops, 0, sizeof(ops));
	ops[0].value.operation = DRV_STREAM_MEM_OP_WRITE_VALUE_32;
	ops[0].value.address = at + offsetof(struct gate_words, reached);
	ops[0].value.value = number;
	ops[1].value.operation = DRV_STREAM_MEM_OP_WAIT_VALUE_32;
	ops[1].value.address = at + offsetof(struct gate_words, open);
	ops[1].value.value = number;
	ops[1].value.flags = DRV_STREAM_WAIT_VALUE_GEQ;
	return cuda_check(drv.cuStreamBatchMemOp(stream, 2, ops, 0), "cuStreamBatchMemOp");
}

static void open_all(struct cuda *cuda, size_t count, uint32_t number)
{
	struct gate_words *words = cuda->gates;

	for (size_t i = 0; i < count; i++)
		atomic_store(&words[i].open, number);
}

/* Whether all streams have got there before the time is over. */
static bool all_reached(struct backend *be, size_t count, uint32_t number, uint64_t ns)
{
	struct gate_words *words = cuda_of(be)->gates;
	uint64_t begin = clock_ns(), spent = 0;

	for (size_t i = 0; i < count;) {
		if (atomic_load(&words[i].reached) == number) {
			i++;
			continue;
		}
		spent = clock_ns() - begin;
		if (spent > ns)
			return false;
		if (spent < 50000)
			sched_yield();
		else
			usleep(20);
	}
	return true;
}

static int wait_for_one(struct backend *be, struct CUstream_st *stream)
{
	struct backend_event *event;
	int err;

	err = cuda_event_create(be, &event);
	if (err)
		return err;
	err = cuda_event_record(be, event, stream);
	if (!err)
		err = cuda_event_sync(be, event);
	cuda_event_destroy(be, event);
	return err;
}

/*
 * A stream may wait for an event behind the gate of another one, recorded by a thread of the program meanwhile, and
 * would never get to its own. So the gate opens again after some time, what was submitted is waited for without one,
 * and it is tried again with more patience.
 */
#define PATIENCE_FIRST UINT64_C(1000000)
#define PATIENCE_MOST UINT64_C(30000000000)

static int close_gates(struct backend *be, struct CUstream_st *const *streams, size_t count)
{
	struct cuda *cuda = cuda_of(be);
	uint64_t patience = PATIENCE_FIRST;
	size_t closed;
	int err;

	err = gates_take(cuda);
	while (!err) {
		cuda->gate++;
		for (closed = 0; closed < count && !err; closed += !err)
			err = close_one((struct gate_words *)cuda->gates + closed, cuda->gate, streams[closed]);
		if (!err && all_reached(be, count, cuda->gate, patience))
			break;
		open_all(cuda, closed, cuda->gate);
		for (size_t i = 0; i < count && !err; i++)
			err = wait_for_one(be, streams[i]);
		patience = MIN(patience * 4, PATIENCE_MOST);
	}
	return err;
}

static bool any_legacy(struct CUstream_st *const *streams, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (cuda_is_legacy(streams[i]))
			return true;
	}
	return false;
}

/*
 * The legacy default stream and a blocking one wait for each other: behind its gate neither would get to the other's.
 * The gate of the legacy one is reached when the work of all blocking streams is complete, and holds back what is
 * submitted to them later, so they need none. Leaves the streams that need one.
 */
static int choose_gates(struct CUstream_st *const *streams, size_t count, struct CUstream_st **chosen, size_t *left)
{
	bool legacy = any_legacy(streams, count);
	drv_result result = 0;
	unsigned int flags;

	*left = 0;
	if (legacy)
		chosen[(*left)++] = DRV_STREAM_LEGACY;
	for (size_t i = 0; i < count; i++) {
		flags = DRV_STREAM_NON_BLOCKING;
		if (cuda_is_legacy(streams[i]))
			continue;
		if (legacy)
			result = drv.cuStreamGetFlags(streams[i], &flags);
		if (result)
			return cuda_check(result, "cuStreamGetFlags of stream %p", (void *)streams[i]);
		if (flags & DRV_STREAM_NON_BLOCKING)
			chosen[(*left)++] = streams[i];
	}
	return 0;
}

int cuda_gate(struct backend *be, struct CUstream_st *const *streams, size_t count, struct backend_gate **gate)
{
	struct CUstream_st **chosen;
	size_t left;
	int err;

	if (count > BACKEND_GATE_STREAMS)
		return error_set(-ENOTSUP, "%zu streams use one range, more than %d", count, BACKEND_GATE_STREAMS);
	chosen = g_new(struct CUstream_st *, count);
	err = choose_gates(streams, count, chosen, &left);
	if (!err)
		err = close_gates(be, chosen, left);
	g_free(chosen);
	if (err)
		return err;
	*gate = g_new(struct backend_gate, 1);
	**gate = (struct backend_gate){ left, cuda_of(be)->gate };
	return 0;
}

void cuda_gate_open(struct backend *be, struct backend_gate *gate)
{
	open_all(cuda_of(be), gate->count, gate->number);
	g_free(gate);
}
