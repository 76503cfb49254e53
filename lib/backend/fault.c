// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A backend that wraps another, counts calls, and fails on demand. For tests, so one lock for all of its state is good
 * enough.
 */
#include <errno.h>
#include <glib.h>

#include "backend/backend.h"
#include "util/error.h"
#include "util/lock.h"

struct arm {
	unsigned int skip;
	unsigned int count;
	int err;
};

struct fault {
	struct backend base;
	struct backend *inner;
	struct lock lock;		/* of all below */
	struct arm arms[BACKEND_OP_COUNT + 1];	/* the last is of all operations, and so is its count */
	uint64_t calls[BACKEND_OP_COUNT + 1];
	struct backend_left left;
	GTree *mappings;		/* by address, as one unmap takes any number of them */
};

static const char *const op_names[BACKEND_OP_COUNT] = {
#define X(name) #name,
	BACKEND_FAULT_OPS(X)
#undef X
};

static struct fault *fault_of(struct backend *be)
{
	return (struct fault *)be;
}

static struct backend *inner_of(struct backend *be)
{
	return fault_of(be)->inner;
}

static int fire(struct arm *arm)
{
	if (!arm->count)
		return 0;
	if (arm->skip) {
		arm->skip--;
		return 0;
	}
	arm->count--;
	return arm->err;
}

/* Counts a call, and returns whether it is to fail. */
static int count_call(struct backend *be, enum backend_op op)
{
	struct fault *fault = fault_of(be);
	int err, any;

	lock_acquire(&fault->lock);
	fault->calls[op]++;
	fault->calls[BACKEND_OP_COUNT]++;
	err = fire(&fault->arms[op]);
	any = fire(&fault->arms[BACKEND_OP_COUNT]);
	err = err ? err : any;
	lock_release(&fault->lock);
	return err ? error_set(err, "%s fails, as the test wants it", op_names[op]) : 0;
}

static void count_change(struct backend *be, uint64_t *what, int change)
{
	struct fault *fault = fault_of(be);

	lock_acquire(&fault->lock);
	*what += (uint64_t)change;
	lock_release(&fault->lock);
}

static int compare_va(const void *a, const void *b, void *data)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	(void)data;
	return (x > y) - (x < y);
}

static void forget_fault_mappings(struct fault *fault, uint64_t va, size_t size)
{
	GTreeNode *node;

	while ((node = g_tree_lower_bound(fault->mappings, &va))) {
		const uint64_t *start = g_tree_node_key(node);

		if (*start - va >= size)
			return;
		g_tree_remove(fault->mappings, start);
		fault->left.mappings--;
	}
}

static int fault_current_device(int *device)
{
	(void)device;
	return error_set(-ENOTSUP, "a wrapper has no device but that of the backend it wraps");
}

static int fault_open(int device, struct backend **be)
{
	(void)device;
	(void)be;
	return error_set(-ENOTSUP, "a wrapper is made from an open backend");
}

static void fault_close(struct backend *be)
{
	struct fault *fault = fault_of(be);

	fault->inner->ops->close(fault->inner);
	g_tree_unref(fault->mappings);
	lock_destroy(&fault->lock);
	g_free(fault);
}

static int fault_enter(struct backend *be)
{
	int err = count_call(be, BACKEND_OP_enter);

	return err ? err : inner_of(be)->ops->enter(inner_of(be));
}

static void fault_leave(struct backend *be)
{
	inner_of(be)->ops->leave(inner_of(be));
}

static int fault_configure(struct backend *be, enum backend_handles handles, bool rdma)
{
	int err = count_call(be, BACKEND_OP_configure);

	return err ? err : inner_of(be)->ops->configure(inner_of(be), handles, rdma);
}

static bool fault_gone(struct backend *be)
{
	return inner_of(be)->ops->gone(inner_of(be));
}

static int fault_abandon(struct backend *be)
{
	return inner_of(be)->ops->abandon(inner_of(be));
}

static int fault_peer_check(struct backend *be, int device)
{
	int err = count_call(be, BACKEND_OP_peer_check);

	return err ? err : inner_of(be)->ops->peer_check(inner_of(be), device);
}

static int fault_peers(struct backend *be, uint64_t devices)
{
	int err = count_call(be, BACKEND_OP_peers);

	return err ? err : inner_of(be)->ops->peers(inner_of(be), devices);
}

static int fault_info(struct backend *be, struct backend_info *info)
{
	int err = count_call(be, BACKEND_OP_info);

	return err ? err : inner_of(be)->ops->info(inner_of(be), info);
}

static uint64_t fault_now(struct backend *be)
{
	return inner_of(be)->ops->now(inner_of(be));
}

static int fault_reserve(struct backend *be, size_t size, size_t align, uint64_t *va)
{
	int err = count_call(be, BACKEND_OP_reserve);

	if (!err)
		err = inner_of(be)->ops->reserve(inner_of(be), size, align, va);
	if (!err)
		count_change(be, &fault_of(be)->left.reservations, 1);
	return err;
}

static int fault_unreserve(struct backend *be, uint64_t va, size_t size)
{
	int err = count_call(be, BACKEND_OP_unreserve);

	if (!err)
		err = inner_of(be)->ops->unreserve(inner_of(be), va, size);
	if (!err)
		count_change(be, &fault_of(be)->left.reservations, -1);
	return err;
}

static int fault_create(struct backend *be, size_t size, uint64_t *handle)
{
	int err = count_call(be, BACKEND_OP_create);

	if (!err)
		err = inner_of(be)->ops->create(inner_of(be), size, handle);
	if (!err)
		count_change(be, &fault_of(be)->left.handles, 1);
	return err;
}

static int fault_create_export(struct backend *be, size_t size, uint64_t *handle)
{
	int err = count_call(be, BACKEND_OP_create_export);

	if (!err)
		err = inner_of(be)->ops->create_export(inner_of(be), size, handle);
	if (!err)
		count_change(be, &fault_of(be)->left.handles, 1);
	return err;
}

static int fault_export(struct backend *be, uint64_t handle, struct backend_export *export)
{
	int err = count_call(be, BACKEND_OP_export);

	return err ? err : inner_of(be)->ops->export(inner_of(be), handle, export);
}

static int fault_import(struct backend *be, const struct backend_export *export, size_t size, uint64_t *handle)
{
	int err = count_call(be, BACKEND_OP_import);

	if (!err)
		err = inner_of(be)->ops->import(inner_of(be), export, size, handle);
	if (!err)
		count_change(be, &fault_of(be)->left.handles, 1);
	return err;
}

static int fault_release(struct backend *be, uint64_t handle)
{
	int err = count_call(be, BACKEND_OP_release);

	if (!err)
		err = inner_of(be)->ops->release(inner_of(be), handle);
	if (!err)
		count_change(be, &fault_of(be)->left.handles, -1);
	return err;
}

/* A range may be mapped again as soon as it is unmapped, so both happen to it and to its record in one step. */
static int fault_map(struct backend *be, uint64_t va, size_t size, uint64_t handle)
{
	struct fault *fault = fault_of(be);
	int err = count_call(be, BACKEND_OP_map);

	if (err)
		return err;
	lock_acquire(&fault->lock);
	err = fault->inner->ops->map(fault->inner, va, size, handle);
	if (!err) {
		g_tree_insert(fault->mappings, g_memdup2(&va, sizeof(va)), NULL);
		fault->left.mappings++;
	}
	lock_release(&fault->lock);
	return err;
}

static int fault_access(struct backend *be, uint64_t va, size_t size)
{
	int err = count_call(be, BACKEND_OP_access);

	return err ? err : inner_of(be)->ops->access(inner_of(be), va, size);
}

static int fault_deny(struct backend *be, uint64_t va, size_t size, uint64_t devices)
{
	int err = count_call(be, BACKEND_OP_deny);

	return err ? err : inner_of(be)->ops->deny(inner_of(be), va, size, devices);
}

static int fault_unmap(struct backend *be, uint64_t va, size_t size, struct backend_event *guard)
{
	struct fault *fault = fault_of(be);
	int err = count_call(be, BACKEND_OP_unmap);

	if (err)
		return err;
	lock_acquire(&fault->lock);
	err = fault->inner->ops->unmap(fault->inner, va, size, guard);
	if (!err)
		forget_fault_mappings(fault, va, size);
	lock_release(&fault->lock);
	return err;
}

static int fault_stream_id(struct backend *be, struct CUstream_st *stream, uint64_t *id)
{
	int err = count_call(be, BACKEND_OP_stream_id);

	return err ? err : inner_of(be)->ops->stream_id(inner_of(be), stream, id);
}

static int fault_stream_capture(struct backend *be, struct CUstream_st *stream, uint64_t *id)
{
	int err = count_call(be, BACKEND_OP_stream_capture);

	return err ? err : inner_of(be)->ops->stream_capture(inner_of(be), stream, id);
}

static int fault_graph_watch(struct backend *be, struct CUstream_st *stream, void (*gone)(void *data), void *data)
{
	int err = count_call(be, BACKEND_OP_graph_watch);

	return err ? err : inner_of(be)->ops->graph_watch(inner_of(be), stream, gone, data);
}

static int fault_stream_wait(struct backend *be, struct CUstream_st *stream, struct backend_event *event)
{
	int err = count_call(be, BACKEND_OP_stream_wait);

	return err ? err : inner_of(be)->ops->stream_wait(inner_of(be), stream, event);
}

static int fault_event_create(struct backend *be, struct backend_event **event)
{
	int err = count_call(be, BACKEND_OP_event_create);

	if (!err)
		err = inner_of(be)->ops->event_create(inner_of(be), event);
	if (!err)
		count_change(be, &fault_of(be)->left.events, 1);
	return err;
}

static int fault_event_create_timed(struct backend *be, struct backend_event **event)
{
	int err = count_call(be, BACKEND_OP_event_create_timed);

	if (!err)
		err = inner_of(be)->ops->event_create_timed(inner_of(be), event);
	if (!err)
		count_change(be, &fault_of(be)->left.events, 1);
	return err;
}

static void fault_event_destroy(struct backend *be, struct backend_event *event)
{
	inner_of(be)->ops->event_destroy(inner_of(be), event);
	count_change(be, &fault_of(be)->left.events, -1);
}

static int fault_event_record(struct backend *be, struct backend_event *event, struct CUstream_st *stream)
{
	int err = count_call(be, BACKEND_OP_event_record);

	return err ? err : inner_of(be)->ops->event_record(inner_of(be), event, stream);
}

static int fault_event_record_all(struct backend *be, struct backend_event *event)
{
	int err = count_call(be, BACKEND_OP_event_record_all);

	return err ? err : inner_of(be)->ops->event_record_all(inner_of(be), event);
}

static int fault_event_query(struct backend *be, struct backend_event *event, int *complete)
{
	int err = count_call(be, BACKEND_OP_event_query);

	return err ? err : inner_of(be)->ops->event_query(inner_of(be), event, complete);
}

static int fault_event_sync(struct backend *be, struct backend_event *event)
{
	int err = count_call(be, BACKEND_OP_event_sync);

	return err ? err : inner_of(be)->ops->event_sync(inner_of(be), event);
}

static int fault_event_elapsed(struct backend *be, struct backend_event *start, struct backend_event *end, int64_t *ns)
{
	int err = count_call(be, BACKEND_OP_event_elapsed);

	return err ? err : inner_of(be)->ops->event_elapsed(inner_of(be), start, end, ns);
}

static int fault_sync(struct backend *be)
{
	int err = count_call(be, BACKEND_OP_sync);

	return err ? err : inner_of(be)->ops->sync(inner_of(be));
}

static int fault_clear(struct backend *be, uint64_t va, size_t size, struct CUstream_st *stream)
{
	int err = count_call(be, BACKEND_OP_clear);

	return err ? err : inner_of(be)->ops->clear(inner_of(be), va, size, stream);
}

static int fault_copy(struct backend *be, uint64_t to, uint64_t from, size_t size, struct CUstream_st *stream)
{
	int err = count_call(be, BACKEND_OP_copy);

	return err ? err : inner_of(be)->ops->copy(inner_of(be), to, from, size, stream);
}

static void fault_hand_out(struct backend *be, uint64_t va, size_t size, uint64_t stream)
{
	if (inner_of(be)->ops->hand_out)
		inner_of(be)->ops->hand_out(inner_of(be), va, size, stream);
}

static int fault_look(struct backend *be)
{
	return inner_of(be)->ops->check ? inner_of(be)->ops->check(inner_of(be)) : 0;
}

static int fault_small_alloc(struct backend *be, size_t size, struct CUstream_st *stream, uint64_t *va)
{
	int err = count_call(be, BACKEND_OP_small_alloc);

	if (!err)
		err = inner_of(be)->ops->small_alloc(inner_of(be), size, stream, va);
	if (!err)
		count_change(be, &fault_of(be)->left.small, 1);
	return err;
}

static int fault_small_free(struct backend *be, uint64_t va, struct CUstream_st *stream)
{
	int err = count_call(be, BACKEND_OP_small_free);

	if (!err)
		err = inner_of(be)->ops->small_free(inner_of(be), va, stream);
	if (!err)
		count_change(be, &fault_of(be)->left.small, -1);
	return err;
}

static int fault_small_held(struct backend *be, uint64_t *bytes, uint64_t *peak)
{
	int err = count_call(be, BACKEND_OP_small_held);

	return err ? err : inner_of(be)->ops->small_held(inner_of(be), bytes, peak);
}

static int fault_small_trim(struct backend *be, uint64_t keep, bool *pending)
{
	int err = count_call(be, BACKEND_OP_small_trim);

	return err ? err : inner_of(be)->ops->small_trim(inner_of(be), keep, pending);
}

static int fault_host_create(struct backend *be, size_t size, uint64_t *handle)
{
	int err = count_call(be, BACKEND_OP_host_create);

	if (!err)
		err = inner_of(be)->ops->host_create(inner_of(be), size, handle);
	if (!err)
		count_change(be, &fault_of(be)->left.handles, 1);
	return err;
}

static int fault_host_access(struct backend *be, uint64_t va, size_t size)
{
	int err = count_call(be, BACKEND_OP_host_access);

	return err ? err : inner_of(be)->ops->host_access(inner_of(be), va, size);
}

static int fault_access_read(struct backend *be, uint64_t va, size_t size)
{
	int err = count_call(be, BACKEND_OP_access_read);

	return err ? err : inner_of(be)->ops->access_read(inner_of(be), va, size);
}

static int fault_room(struct backend *be, uint64_t va, size_t size, uint64_t *at)
{
	int err = count_call(be, BACKEND_OP_room);

	return err ? err : inner_of(be)->ops->room(inner_of(be), va, size, at);
}

static void fault_room_end(struct backend *be, uint64_t va, size_t size, uint64_t at)
{
	inner_of(be)->ops->room_end(inner_of(be), va, size, at);
}

static int fault_show(struct backend *be, uint64_t at, uint64_t from, size_t size)
{
	int err = count_call(be, BACKEND_OP_show);

	return err ? err : inner_of(be)->ops->show(inner_of(be), at, from, size);
}

static int fault_stream_create(struct backend *be, struct CUstream_st **stream)
{
	int err = count_call(be, BACKEND_OP_stream_create);

	return err ? err : inner_of(be)->ops->stream_create(inner_of(be), stream);
}

static void fault_stream_destroy(struct backend *be, struct CUstream_st *stream)
{
	inner_of(be)->ops->stream_destroy(inner_of(be), stream);
}

static int fault_gate(struct backend *be, struct CUstream_st *const *streams, size_t many, struct backend_gate **gate)
{
	int err = count_call(be, BACKEND_OP_gate);

	return err ? err : inner_of(be)->ops->gate(inner_of(be), streams, many, gate);
}

static void fault_gate_open(struct backend *be, struct backend_gate *gate)
{
	inner_of(be)->ops->gate_open(inner_of(be), gate);
}

static const struct backend_ops backend_fault = {
	.name = "fault",
	.current_device = fault_current_device,
	.open = fault_open,
	.close = fault_close,
	.leave = fault_leave,
	.gone = fault_gone,
	.abandon = fault_abandon,
	.now = fault_now,
	.hand_out = fault_hand_out,
	.check = fault_look,
	.event_destroy = fault_event_destroy,
	.room_end = fault_room_end,
	.stream_destroy = fault_stream_destroy,
	.gate_open = fault_gate_open,
#define X(op) .op = fault_##op,
	BACKEND_FAULT_OPS(X)
#undef X
};

int backend_fault_wrap(struct backend *inner, struct backend **be)
{
	struct fault *fault = g_try_new0(struct fault, 1);

	if (!fault)
		return error_set(-ENOMEM, "no memory for a wrapper of the %s backend", inner->ops->name);
	fault->base.ops = &backend_fault;
	fault->inner = inner;
	lock_init(&fault->lock, LOCK_FAULT);
	fault->mappings = g_tree_new_full(compare_va, NULL, g_free, NULL);
	*be = &fault->base;
	return 0;
}

void backend_fault_arm(struct backend *be, enum backend_op op, unsigned int skip, unsigned int calls, int err)
{
	struct fault *fault = fault_of(be);

	lock_acquire(&fault->lock);
	fault->arms[op] = (struct arm){ .skip = skip, .count = calls, .err = err };
	lock_release(&fault->lock);
}

uint64_t backend_fault_calls(struct backend *be, enum backend_op op)
{
	struct fault *fault = fault_of(be);
	uint64_t calls;

	lock_acquire(&fault->lock);
	calls = fault->calls[op];
	lock_release(&fault->lock);
	return calls;
}

void backend_fault_left(struct backend *be, struct backend_left *left)
{
	struct fault *fault = fault_of(be);

	lock_acquire(&fault->lock);
	*left = fault->left;
	lock_release(&fault->lock);
}
