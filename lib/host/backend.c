// SPDX-License-Identifier: LGPL-2.1-or-later
/* The operations of the host backend: they check what a driver demands, and call the files beside. */
#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "backend/backend.h"
#include "host/backend.h"
#include "host/device.h"
#include "host/forks.h"
#include "host/graphs.h"
#include "host/opened.h"
#include "host/order.h"
#include "host/shared.h"
#include "host/small.h"
#include "host/space.h"
#include "host/streams.h"
#include "util/error.h"
#include "util/lock.h"

static _Atomic uint64_t open_count;
static _Atomic uint64_t small_count;
static _Atomic uint64_t abandoned_count;

static GQueue open_backends GUARDED_BY(host_opens_lock) = G_QUEUE_INIT;

int host_op_current_device(int *device)
{
	*device = host_entered.depth ? host_device_ordinal(host_entered.be[host_entered.depth - 1]->dev) :
		  host_device_current();
	return 0;
}

int host_op_open(int device, struct backend **be)
{
	struct host_backend *host;
	struct host_device *dev;
	int ret;

	ret = host_device_open(device, &dev);
	if (ret)
		return ret;
	host = g_new0(struct host_backend, 1);
	host->base.ops = &backend_host;
	host->dev = dev;
	host->space = host_space_new(dev);
	host->small = host_small_new(dev);
	host->link.data = host;
	host_acquire(&host_opens_lock);
	g_queue_push_tail_link(&open_backends, &host->link);
	lock_release(&host_opens_lock);
	open_count++;
	*be = &host->base;
	return 0;
}

void host_op_close(struct backend *be)
{
	struct host_backend *host = host_backend(be);
	uint64_t small;

	host_acquire(&host_opens_lock);
	g_queue_unlink(&open_backends, &host->link);
	lock_release(&host_opens_lock);
	small = host_small_destroy(host->small);
	small_count -= small;
	/* The stream-ordered allocator's memory goes with the reset. */
	abandoned_count += (host->gone ? 0 : small) + host_space_destroy(host->space);
	host_device_close(host->dev);
	open_count--;
	g_free(host->misordered);
	g_free(host);
}

int host_op_enter(struct backend *be)
{
	if (host_entered.depth == HOST_ENTER_DEPTH)
		return error_set(-EINVAL, "enter: backends are entered %d deep", HOST_ENTER_DEPTH);
	if (host_backend(be)->gone)
		return error_set(-ESTALE, "host device %d, on which the pool was created, was reset since",
				 host_device_ordinal(host_backend(be)->dev));
	host_entered.be[host_entered.depth++] = host_backend(be);
	return 0;
}

bool host_op_gone(struct backend *be)
{
	return host_backend(be)->gone;
}

/* The stream-ordered allocator's memory goes with the context, and not only when the backend is closed. */
static void drop_small(struct host_backend *host)
{
	small_count -= host_small_destroy(host->small);
	host->small = host_small_new(host->dev);
}

int host_op_abandon(struct backend *be)
{
	if (host_entered.depth == HOST_ENTER_DEPTH)
		return error_set(-EINVAL, "abandon: backends are entered %d deep", HOST_ENTER_DEPTH);
	drop_small(host_backend(be));
	host_entered.be[host_entered.depth++] = host_backend(be);
	return 0;
}

int backend_host_reset(int device)
{
	int ret;

	ret = host_stream_reset(device);
	if (ret)
		return ret;
	host_acquire(&host_opens_lock);
	for (GList *link = open_backends.head; link; link = link->next) {
		struct host_backend *host = link->data;

		host->gone = host->gone || host_device_ordinal(host->dev) == device;
	}
	lock_release(&host_opens_lock);
	return 0;
}

void host_op_leave(struct backend *be)
{
	if (host_entered.depth && host_entered.be[host_entered.depth - 1] == host_backend(be))
		host_entered.depth--;
}

int host_op_configure(struct backend *be, enum backend_handles handles, bool rdma)
{
	int ret = host_check_there(be, "configure");

	(void)rdma;
	if (!ret && handles != BACKEND_HANDLES_NONE && handles != BACKEND_HANDLES_FD)
		ret = error_set(-ENOTSUP, "host device %d can export memory as file descriptors only",
				host_device_ordinal(host_backend(be)->dev));
	if (!ret)
		host_backend(be)->handles = handles;
	return ret;
}

int host_op_peer_check(struct backend *be, int device)
{
	int own, count, ret = host_check_there(be, "peer_check");

	own = host_device_ordinal(host_backend(be)->dev);
	if (!ret && device == own)
		ret = error_set(-EINVAL, "peer_check: host device %d is the backend's own", device);
	if (!ret)
		ret = host_device_count(&count);
	if (!ret && (device < 0 || device >= count))
		ret = error_set(-ENODEV, "there is no host device %d: VPMM_HOST_DEVICES is %d", device, count);
	return ret;
}

int host_op_peers(struct backend *be, uint64_t devices)
{
	int ret = host_check_there(be, "peers");

	for (int device = 0; device < BACKEND_PEERS_MOST && !ret; device++) {
		if (devices >> device & 1)
			ret = host_op_peer_check(be, device);
	}
	if (!ret)
		host_backend(be)->peers = devices;
	return ret;
}

/* Devices of one number are one device to all processes. */
static void tell_uuid(int ordinal, unsigned char *uuid)
{
	snprintf((char *)uuid, BACKEND_UUID_SIZE, "host device %d", ordinal);
}

/* As host_check_there(), and whether a handle is a stream; receives the ordinal of the device. */
static int host_check_stream(struct backend *be, const char *call, struct CUstream_st *stream, int *device)
{
	int ret = host_check_there(be, call);

	if (ret)
		return ret;
	*device = host_device_ordinal(host_backend(be)->dev);
	ret = host_stream_check(*device, stream);
	return ret ? error_add(ret, "%s", call) : 0;
}

int host_op_info(struct backend *be, struct backend_info *info)
{
	struct host_backend *host = host_backend(be);
	uint64_t used;
	int ret = host_check_there(be, "info");

	if (ret)
		return ret;
	memset(info, 0, sizeof(*info));
	info->name = backend_host.name;
	info->device = host_device_ordinal(host->dev);
	snprintf(info->device_name, sizeof(info->device_name), "libvpmm host device %d", info->device);
	tell_uuid(info->device, info->uuid);
	info->granularity = HOST_GRANULARITY;
	host_device_usage(host->dev, &info->memory_total, &used, &info->mapping_limit);
	info->memory_free = info->memory_total - used;
	return 0;
}

/* Operations that other files perform, if they are possible: FORWARD(operation, its parameters, the call). */
#define FORWARD_IF(check, op, params, ...)		\
	int host_op_##op params				\
	{						\
		int ret = check;			\
							\
		return ret ? ret : (__VA_ARGS__);	\
	}
#define FORWARD(op, ...) FORWARD_IF(host_check_there(be, #op), op, __VA_ARGS__)
/* Operations that give something back are possible after a reset, too. */
#define FORWARD_ENTERED(op, ...) FORWARD_IF(host_check_entered(be, #op), op, __VA_ARGS__)
#define FORWARD_ON(op, ...) FORWARD_IF(host_check_stream(be, #op, stream, &(int){ 0 }), op, __VA_ARGS__)

/* Adds what asks to the text of an error, if it is that of a wrong argument. */
static int host_explain(int ret, const char *call)
{
	return G_UNLIKELY(ret == -EINVAL) ? error_add(ret, "%s", call) : ret;
}

/*
 * The time on the virtual clock. Work that is completed by a call, not by the clock, takes no time of its own: an event
 * behind it has the time that the clock shows at that call.
 */
static int host_event_elapsed(struct backend_event *start, struct backend_event *end, int64_t *ns)
{
	uint64_t from, to;
	int ret;

	if (!start->timed || !end->timed)
		return error_set(-EINVAL, "an event that keeps no time cannot be asked for it");
	ret = host_event_time(start, &from);
	if (!ret)
		ret = host_event_time(end, &to);
	if (!ret)
		*ns = (int64_t)(to - from);
	return ret;
}

FORWARD(reserve, (struct backend *be, size_t size, size_t align, uint64_t *va),
	host_space_reserve(host_backend(be)->space, size, align, va))
FORWARD(reserve_at, (struct backend *be, uint64_t va, size_t size),
	host_space_reserve_at(host_backend(be)->space, va, size))
FORWARD_ENTERED(unreserve, (struct backend *be, uint64_t va, size_t size),
		host_space_unreserve(host_backend(be)->space, va, size))
FORWARD(create, (struct backend *be, size_t size, uint64_t *handle),
	host_space_create(host_backend(be)->space, size, handle))
FORWARD(export, (struct backend *be, uint64_t handle, struct backend_export *export),
	host_space_export(host_backend(be)->space, handle, export))
FORWARD_ENTERED(release, (struct backend *be, uint64_t handle), host_space_release(host_backend(be)->space, handle))
FORWARD(map, (struct backend *be, uint64_t va, size_t size, uint64_t handle),
	host_space_map(host_backend(be)->space, va, size, handle))
FORWARD(stream_id, (struct backend *be, struct CUstream_st *stream, uint64_t *id),
	host_explain(host_stream_id(host_ordinal(be), stream, id), "stream_id"))
FORWARD(event_record, (struct backend *be, struct backend_event *event, struct CUstream_st *stream),
	host_explain(host_event_record(host_ordinal(be), event, stream), "event_record"))
FORWARD(event_record_all, (struct backend *be, struct backend_event *event),
	host_event_record_all(host_ordinal(be), event))
FORWARD(event_query, (struct backend *be, struct backend_event *event, int *complete),
	host_event_query(event, complete))
FORWARD(event_sync, (struct backend *be, struct backend_event *event), host_event_sync(event))
FORWARD(event_elapsed, (struct backend *be, struct backend_event *start, struct backend_event *end, int64_t *ns),
	host_event_elapsed(start, end, ns))
FORWARD(sync, (struct backend *be), host_stream_sync_all(host_ordinal(be)))
FORWARD_ON(stream_capture, (struct backend *be, struct CUstream_st *stream, uint64_t *id),
	   host_stream_capture(host_ordinal(be), stream, id))
FORWARD_ON(graph_watch, (struct backend *be, struct CUstream_st *stream, void (*gone)(void *data), void *data),
	   host_graph_watch(host_ordinal(be), stream, gone, data))
FORWARD_ON(stream_wait, (struct backend *be, struct CUstream_st *stream, struct backend_event *event),
	   host_stream_wait(host_ordinal(be), stream, event))

int host_op_create_export(struct backend *be, size_t size, uint64_t *handle)
{
	int ret = host_check_there(be, "create_export");

	if (!ret && host_backend(be)->handles == BACKEND_HANDLES_NONE)
		ret = error_set(-EINVAL, "create_export: no type of handles was configured");
	return ret ? ret : host_space_create_export(host_backend(be)->space, size, handle);
}

int host_op_import(struct backend *be, const struct backend_export *export, size_t size, uint64_t *handle)
{
	int ret = host_check_there(be, "import");

	if (!ret && export->type != BACKEND_HANDLES_FD)
		ret = error_set(-ENOTSUP, "import: the host backend exports memory as file descriptors only");
	return ret ? ret : host_space_import(host_backend(be)->space, export, size, handle);
}

/* Those that can access memory of the backend: its own and its peers. */
static uint64_t devices_of(struct host_backend *host)
{
	return host->peers | UINT64_C(1) << host_device_ordinal(host->dev);
}

int backend_host_access(struct backend *be, uint64_t va, size_t size, uint64_t devices)
{
	int ret = host_check_there(be, "access");

	return ret ? ret : host_space_access(host_backend(be)->space, va, size, devices);
}

int host_op_access(struct backend *be, uint64_t va, size_t size)
{
	return backend_host_access(be, va, size, devices_of(host_backend(be)));
}

/* The CPU does the work of the device, and has what the device has. */
int host_op_access_read(struct backend *be, uint64_t va, size_t size)
{
	int ret = host_op_access(be, va, size);

	return ret ? ret : host_shared_protect(be, va, size);
}

int host_op_deny(struct backend *be, uint64_t va, size_t size, uint64_t devices)
{
	int ret = host_check_there(be, "deny");

	if (!ret && (!devices || devices >> host_device_ordinal(host_backend(be)->dev) & 1))
		ret = error_set(-EINVAL, "deny: the devices are none, or the backend's own is one of them");
	return ret ? ret : host_space_deny(host_backend(be)->space, va, size, devices);
}

int host_op_unmap(struct backend *be, uint64_t va, size_t size, struct backend_event *guard)
{
	int ret = host_check_entered(be, "unmap");

	if (!ret)
		ret = host_order_check_unmap(host_backend(be), va, size);
	return ret ? ret : host_space_unmap(host_backend(be)->space, va, size, guard);
}

int host_op_event_create(struct backend *be, struct backend_event **event)
{
	int ret = host_check_there(be, "event_create");

	if (!ret)
		*event = host_event_create();
	return ret;
}

static struct backend_event *host_event_create_timed(void)
{
	struct backend_event *event = host_event_create();

	event->timed = true;
	return event;
}

int host_op_event_create_timed(struct backend *be, struct backend_event **event)
{
	int ret = host_check_there(be, "event_create_timed");

	if (!ret)
		*event = host_event_create_timed();
	return ret;
}

void host_op_event_destroy(struct backend *be, struct backend_event *event)
{
	(void)be;
	host_event_unref(event);
}

/* Whether a range can be read and written: one that is mapped, or of the stream-ordered allocator. */
static int check_reachable(struct backend *be, const char *call, uint64_t va, size_t size)
{
	struct host_backend *host = host_backend(be);

	if (host_small_has(host->small, va, size))
		return 0;
	return host_space_reachable(host->space, host_device_ordinal(host->dev), call, va, size);
}

/* Memory of the stream-ordered allocator is its device's and its peers', and no part of the space. */
static bool can_access(struct host_backend *host, int device, uint64_t va, size_t size)
{
	if (host_small_has(host->small, va, size))
		return devices_of(host) >> device & 1;
	return !host_space_reachable(host->space, device, "access", va, size);
}

int backend_host_check_access(int device, uint64_t va, size_t size)
{
	struct error_kept kept;
	bool can = false;

	error_keep(&kept);
	host_acquire(&host_opens_lock);
	for (GList *link = open_backends.head; link && !can; link = link->next)
		can = can_access(link->data, device, va, size);
	lock_release(&host_opens_lock);
	error_restore(&kept);
	if (can)
		return 0;
	return error_set(-EACCES, "host device %d cannot access all of the %zu bytes at 0x%" PRIx64,
			 device, size, va);
}

int host_op_clear(struct backend *be, uint64_t va, size_t size, struct CUstream_st *stream)
{
	const struct host_access access = { .what = "a clear", .to = va, .size = size };
	int device, ret = host_check_stream(be, "clear", stream, &device);

	if (!ret)
		ret = check_reachable(be, "clear", va, size);
	if (!ret)
		host_order_check_handle(host_backend(be), &access, stream);
	return ret ? ret : host_stream_clear(host_ordinal(be), stream, va, size);
}

int host_op_copy(struct backend *be, uint64_t to, uint64_t from, size_t size, struct CUstream_st *stream)
{
	const struct host_access access = { .what = "a copy", .to = to, .from = from, .size = size };
	int device, ret = host_check_stream(be, "copy", stream, &device);

	if (!ret)
		ret = check_reachable(be, "copy", from, size);
	if (!ret)
		ret = check_reachable(be, "copy", to, size);
	if (!ret && (to > from ? to - from : from - to) < size)
		ret = error_set(-EINVAL, "copy: the %zu bytes at %#" PRIx64 " overlap those at %#"
				PRIx64, size, from, to);
	if (!ret)
		host_order_check_handle(host_backend(be), &access, stream);
	return ret ? ret : host_stream_copy(host_ordinal(be), stream, to, from, size);
}

int host_op_small_alloc(struct backend *be, size_t size, struct CUstream_st *stream, uint64_t *va)
{
	int device, ret = host_check_stream(be, "small_alloc", stream, &device);

	if (!ret)
		ret = host_small_alloc(host_backend(be)->small, size, stream, va);
	if (!ret)
		small_count++;
	return ret;
}

int host_op_small_free(struct backend *be, uint64_t va, struct CUstream_st *stream)
{
	const struct host_access access = { .what = "a free", .to = va, .size = 1 };
	int device, ret = host_check_stream(be, "small_free", stream, &device);

	if (!ret)
		host_order_check_handle(host_backend(be), &access, stream);
	if (!ret)
		ret = host_small_free(host_backend(be)->small, va, stream);
	if (!ret)
		small_count--;
	return ret;
}

int host_op_small_held(struct backend *be, uint64_t *bytes, uint64_t *peak)
{
	int ret = host_check_there(be, "small_held");

	if (!ret)
		host_small_held(host_backend(be)->small, bytes, peak);
	return ret;
}

int host_op_small_trim(struct backend *be, uint64_t keep, bool *pending)
{
	int ret = host_check_there(be, "small_trim");

	if (!ret)
		*pending = host_small_trim(host_backend(be)->small, keep);
	return ret;
}

static void host_hand_out(struct backend *be, uint64_t va, size_t size, uint64_t stream)
{
	const struct host_access access = { .what = "given away", .to = va, .size = size };

	host_order_check(host_backend(be), &access, stream);
}

static int host_order_found(struct host_backend *host)
{
	const char *text = host->misordered;

	return text ? error_set(-EUCLEAN, "%s", text) : 0;
}

static int host_found(struct backend *be)
{
	return host_order_found(host_backend(be));
}

void backend_host_left(struct host_left *left)
{
	host_space_count(&left->reservations, &left->handles, &left->mappings);
	left->opens = open_count;
	left->events = host_event_count();
	left->small = small_count;
	left->abandoned = abandoned_count;
	left->touched = host_touched;
	left->misordered = host_misordered;
}

const struct backend_ops backend_host = {
	.name = "host",
#define OP(type, call, parameters) .call = host_op_##call,
	BACKEND_OPS(OP)
#undef OP
	.hand_out = host_hand_out,
	.check = host_found,
};
