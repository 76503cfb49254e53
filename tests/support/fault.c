// SPDX-License-Identifier: LGPL-2.1-or-later
/* One lock for all of the state of a wrapper is good enough for tests. */
#include "support/fault.h"

#include <errno.h>
#include <glib.h>

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
	struct arm next;		/* of all operations, behind the first call that fails */
	uint64_t failed;
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
	int err, any, next;

	lock_acquire(&fault->lock);
	fault->calls[op]++;
	fault->calls[BACKEND_OP_COUNT]++;
	next = fault->failed ? fire(&fault->next) : 0;
	err = fire(&fault->arms[op]);
	any = fire(&fault->arms[BACKEND_OP_COUNT]);
	err = err ? err : any ? any : next;
	fault->failed += err != 0;
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

/* Of a wrapper: its arguments, and those of the call inside, of @inner. */
#define PASS(type, op, takes, gives)				\
	static type fault_##op takes				\
	{							\
		struct backend *inner = inner_of(be);		\
								\
		return inner->ops->op gives;			\
	}
#define PASS_VOID(op, takes, gives)				\
	static void fault_##op takes				\
	{							\
		struct backend *inner = inner_of(be);		\
								\
		inner->ops->op gives;				\
	}
#define FAILS(op, takes, gives)					\
	static int fault_##op takes				\
	{							\
		struct backend *inner = inner_of(be);		\
		int err = count_call(be, BACKEND_OP_##op);	\
								\
		return err ? err : inner->ops->op gives;	\
	}
/* What a call that succeeds adds to a number of struct backend_left. */
#define COUNTED(op, what, change, takes, gives)				\
	static int fault_##op takes					\
	{								\
		struct backend *inner = inner_of(be);			\
		int err = count_call(be, BACKEND_OP_##op);		\
									\
		if (!err)						\
			err = inner->ops->op gives;			\
		if (!err)						\
			count_change(be, &fault_of(be)->left.what, change); \
		return err;						\
	}

PASS(bool, gone, (struct backend *be), (inner))
PASS(int, abandon, (struct backend *be), (inner))

PASS_VOID(leave, (struct backend *be), (inner))
PASS_VOID(room_end, (struct backend *be, uint64_t va, size_t size, uint64_t at), (inner, va, size, at))
PASS_VOID(stream_destroy, (struct backend *be, struct CUstream_st *stream), (inner, stream))
PASS_VOID(gate_open, (struct backend *be, struct backend_gate *gate), (inner, gate))

FAILS(enter, (struct backend *be), (inner))
FAILS(configure, (struct backend *be, enum backend_handles handles, bool rdma), (inner, handles, rdma))
FAILS(peer_check, (struct backend *be, int device), (inner, device))
FAILS(peers, (struct backend *be, uint64_t devices), (inner, devices))
FAILS(info, (struct backend *be, struct backend_info *info), (inner, info))
FAILS(export, (struct backend *be, uint64_t handle, struct backend_export *export), (inner, handle, export))
FAILS(access, (struct backend *be, uint64_t va, size_t size), (inner, va, size))
FAILS(deny, (struct backend *be, uint64_t va, size_t size, uint64_t devices), (inner, va, size, devices))
FAILS(stream_id, (struct backend *be, struct CUstream_st *stream, uint64_t *id), (inner, stream, id))
FAILS(stream_capture, (struct backend *be, struct CUstream_st *stream, uint64_t *id), (inner, stream, id))
FAILS(graph_watch, (struct backend *be, struct CUstream_st *stream, void (*gone)(void *data), void *data),
      (inner, stream, gone, data))
FAILS(stream_wait, (struct backend *be, struct CUstream_st *stream, struct backend_event *event),
      (inner, stream, event))
FAILS(event_record, (struct backend *be, struct backend_event *event, struct CUstream_st *stream),
      (inner, event, stream))
FAILS(event_record_all, (struct backend *be, struct backend_event *event), (inner, event))
FAILS(event_query, (struct backend *be, struct backend_event *event, int *complete), (inner, event, complete))
FAILS(event_sync, (struct backend *be, struct backend_event *event), (inner, event))
FAILS(event_elapsed, (struct backend *be, struct backend_event *start, struct backend_event *end, int64_t *ns),
      (inner, start, end, ns))
FAILS(sync, (struct backend *be), (inner))
FAILS(clear, (struct backend *be, uint64_t va, size_t size, struct CUstream_st *stream), (inner, va, size, stream))
FAILS(copy, (struct backend *be, uint64_t to, uint64_t from, size_t size, struct CUstream_st *stream),
      (inner, to, from, size, stream))
FAILS(small_held, (struct backend *be, uint64_t *bytes, uint64_t *peak), (inner, bytes, peak))
FAILS(small_trim, (struct backend *be, uint64_t keep, bool *pending), (inner, keep, pending))
FAILS(host_access, (struct backend *be, uint64_t va, size_t size), (inner, va, size))
FAILS(access_read, (struct backend *be, uint64_t va, size_t size), (inner, va, size))
FAILS(room, (struct backend *be, uint64_t va, size_t size, uint64_t *at), (inner, va, size, at))
FAILS(show, (struct backend *be, uint64_t at, uint64_t from, size_t size), (inner, at, from, size))
FAILS(stream_create, (struct backend *be, struct CUstream_st **stream), (inner, stream))
FAILS(gate, (struct backend *be, struct CUstream_st *const *streams, size_t many, struct backend_gate **gate),
      (inner, streams, many, gate))

COUNTED(reserve, reservations, 1, (struct backend *be, size_t size, size_t align, uint64_t *va),
	(inner, size, align, va))
COUNTED(reserve_at, reservations, 1, (struct backend *be, uint64_t va, size_t size), (inner, va, size))
COUNTED(unreserve, reservations, -1, (struct backend *be, uint64_t va, size_t size), (inner, va, size))
COUNTED(create, handles, 1, (struct backend *be, size_t size, uint64_t *handle), (inner, size, handle))
COUNTED(create_export, handles, 1, (struct backend *be, size_t size, uint64_t *handle), (inner, size, handle))
COUNTED(import, handles, 1, (struct backend *be, const struct backend_export *export, size_t size, uint64_t *handle),
	(inner, export, size, handle))
COUNTED(release, handles, -1, (struct backend *be, uint64_t handle), (inner, handle))
COUNTED(event_create, events, 1, (struct backend *be, struct backend_event **event), (inner, event))
COUNTED(event_create_timed, events, 1, (struct backend *be, struct backend_event **event), (inner, event))
COUNTED(small_alloc, small, 1, (struct backend *be, size_t size, struct CUstream_st *stream, uint64_t *va),
	(inner, size, stream, va))
COUNTED(small_free, small, -1, (struct backend *be, uint64_t va, struct CUstream_st *stream), (inner, va, stream))
COUNTED(host_create, handles, 1, (struct backend *be, size_t size, uint64_t *handle), (inner, size, handle))

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

static void fault_event_destroy(struct backend *be, struct backend_event *event)
{
	inner_of(be)->ops->event_destroy(inner_of(be), event);
	count_change(be, &fault_of(be)->left.events, -1);
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

static const struct backend_ops backend_fault = {
	.name = "fault",
	.current_device = fault_current_device,
	.open = fault_open,
	.close = fault_close,
	.leave = fault_leave,
	.gone = fault_gone,
	.abandon = fault_abandon,
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

void backend_fault_arm_next(struct backend *be, unsigned int skip, unsigned int count, int err)
{
	struct fault *fault = fault_of(be);

	lock_acquire(&fault->lock);
	fault->next = (struct arm){ .skip = skip, .count = count, .err = err };
	fault->failed = 0;
	lock_release(&fault->lock);
}

uint64_t backend_fault_failed(struct backend *be)
{
	struct fault *fault = fault_of(be);
	uint64_t failed;

	lock_acquire(&fault->lock);
	failed = fault->failed;
	lock_release(&fault->lock);
	return failed;
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
