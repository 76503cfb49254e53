// SPDX-License-Identifier: LGPL-2.1-or-later
/* The operations of the host backend: they check what a driver demands, and call the files beside. */
#include <errno.h>
#include <glib.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backend/backend.h"
#include "host/backend.h"
#include "host/device.h"
#include "host/small.h"
#include "host/space.h"
#include "host/streams.h"
#include "util/error.h"

#define ENTER_DEPTH 64

struct host_backend {
	struct backend base;
	struct host_device *dev;
	struct host_space *space;
	struct host_small *small;
};

/* Which backends the thread is between enter and leave of, the innermost last. */
static _Thread_local struct {
	struct host_backend *be[ENTER_DEPTH];
	int depth;
} entered;

static _Atomic uint64_t open_count;
static _Atomic uint64_t small_count;
static _Atomic uint64_t abandoned_count;

static struct host_backend *host_backend(struct backend *be)
{
	return (struct host_backend *)be;
}

/* A driver needs a context of the device for every call; where it is forgotten, it shows here. */
static int check_entered(struct backend *be, const char *call)
{
	if (entered.depth && entered.be[entered.depth - 1] == host_backend(be))
		return 0;
	return error_set(-EINVAL, "%s: the thread has not entered this backend of host device %d", call,
			 host_device_ordinal(host_backend(be)->dev));
}

static int check_stream(struct backend *be, const char *call, struct CUstream_st *stream, int *device)
{
	int ret = check_entered(be, call);

	if (ret)
		return ret;
	*device = host_device_ordinal(host_backend(be)->dev);
	ret = host_stream_check(*device, stream);
	return ret ? error_add(ret, "%s", call) : 0;
}

static int host_current_device(int *device)
{
	*device = entered.depth ? host_device_ordinal(entered.be[entered.depth - 1]->dev) : host_device_current();
	return 0;
}

static int host_open(int device, struct backend **be)
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
	open_count++;
	*be = &host->base;
	return 0;
}

static void host_close(struct backend *be)
{
	struct host_backend *host = host_backend(be);
	uint64_t small = host_small_destroy(host->small);

	small_count -= small;
	abandoned_count += small + host_space_destroy(host->space);
	host_device_close(host->dev);
	open_count--;
	g_free(host);
}

static int host_enter(struct backend *be)
{
	if (entered.depth == ENTER_DEPTH)
		return error_set(-EINVAL, "enter: backends are entered %d deep", ENTER_DEPTH);
	entered.be[entered.depth++] = host_backend(be);
	return 0;
}

static void host_leave(struct backend *be)
{
	if (entered.depth && entered.be[entered.depth - 1] == host_backend(be))
		entered.depth--;
}

static int host_info(struct backend *be, struct backend_info *info)
{
	struct host_backend *host = host_backend(be);
	uint64_t used;
	int ret = check_entered(be, "info");

	if (ret)
		return ret;
	memset(info, 0, sizeof(*info));
	info->name = backend_host.name;
	info->device = host_device_ordinal(host->dev);
	snprintf(info->device_name, sizeof(info->device_name), "libvpmm host device %d", info->device);
	info->granularity = HOST_GRANULARITY;
	host_device_usage(host->dev, &info->memory_total, &used, &info->mapping_limit);
	info->memory_free = info->memory_total - used;
	return 0;
}

static uint64_t host_now(struct backend *be)
{
	struct timespec time;

	(void)be;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static int host_reserve(struct backend *be, size_t size, size_t align, uint64_t *va)
{
	int ret = check_entered(be, "reserve");

	return ret ? ret : host_space_reserve(host_backend(be)->space, size, align, va);
}

static int host_unreserve(struct backend *be, uint64_t va, size_t size)
{
	int ret = check_entered(be, "unreserve");

	return ret ? ret : host_space_unreserve(host_backend(be)->space, va, size);
}

static int host_create(struct backend *be, size_t size, uint64_t *handle)
{
	int ret = check_entered(be, "create");

	return ret ? ret : host_space_create(host_backend(be)->space, size, handle);
}

static int host_release(struct backend *be, uint64_t handle)
{
	int ret = check_entered(be, "release");

	return ret ? ret : host_space_release(host_backend(be)->space, handle);
}

static int host_map(struct backend *be, uint64_t va, size_t size, uint64_t handle)
{
	int ret = check_entered(be, "map");

	return ret ? ret : host_space_map(host_backend(be)->space, va, size, handle);
}

static int host_access(struct backend *be, uint64_t va, size_t size)
{
	int ret = check_entered(be, "access");

	return ret ? ret : host_space_access(host_backend(be)->space, va, size);
}

static int host_unmap(struct backend *be, uint64_t va, size_t size, struct backend_event *guard)
{
	int ret = check_entered(be, "unmap");

	return ret ? ret : host_space_unmap(host_backend(be)->space, va, size, guard);
}

static int host_id(struct backend *be, struct CUstream_st *stream, uint64_t *id)
{
	int device, ret = check_stream(be, "stream_id", stream, &device);

	return ret ? ret : host_stream_id(device, stream, id);
}

static int host_capture(struct backend *be, struct CUstream_st *stream, uint64_t *id)
{
	int device, ret = check_stream(be, "stream_capture", stream, &device);

	return ret ? ret : host_stream_capture(device, stream, id);
}

static int host_wait(struct backend *be, struct CUstream_st *stream, struct backend_event *event)
{
	int device, ret = check_stream(be, "stream_wait", stream, &device);

	return ret ? ret : host_stream_wait(device, stream, event);
}

static int host_new_event(struct backend *be, struct backend_event **event)
{
	int ret = check_entered(be, "event_create");

	if (!ret)
		*event = host_event_create();
	return ret;
}

static int host_new_event_timed(struct backend *be, struct backend_event **event)
{
	int ret = check_entered(be, "event_create_timed");

	if (!ret)
		*event = host_event_create_timed();
	return ret;
}

static void host_event_destroy(struct backend *be, struct backend_event *event)
{
	(void)be;
	host_event_unref(event);
}

static int host_record(struct backend *be, struct backend_event *event, struct CUstream_st *stream)
{
	int device, ret = check_stream(be, "event_record", stream, &device);

	return ret ? ret : host_event_record(device, event, stream);
}

static int host_query(struct backend *be, struct backend_event *event, int *complete)
{
	int ret = check_entered(be, "event_query");

	return ret ? ret : host_event_query(event, complete);
}

static int host_sync(struct backend *be, struct backend_event *event)
{
	int ret = check_entered(be, "event_sync");

	return ret ? ret : host_event_sync(event);
}

static int host_elapsed(struct backend *be, struct backend_event *start, struct backend_event *end, int64_t *ns)
{
	int ret = check_entered(be, "event_elapsed");

	return ret ? ret : host_event_elapsed(start, end, ns);
}

static int host_sync_all(struct backend *be)
{
	int ret = check_entered(be, "sync");

	return ret ? ret : host_stream_sync_all(host_device_ordinal(host_backend(be)->dev));
}

/* Whether a range can be read and written: one that is mapped, or of the stream-ordered allocator. */
static int check_reachable(struct backend *be, const char *call, uint64_t va, size_t size)
{
	if (host_small_has(host_backend(be)->small, va, size))
		return 0;
	return host_space_reachable(host_backend(be)->space, call, va, size);
}

static int host_clear(struct backend *be, uint64_t va, size_t size, struct CUstream_st *stream)
{
	int device, ret = check_stream(be, "clear", stream, &device);

	if (!ret)
		ret = check_reachable(be, "clear", va, size);
	return ret ? ret : host_stream_clear(device, stream, va, size);
}

static int host_copy(struct backend *be, uint64_t to, uint64_t from, size_t size, struct CUstream_st *stream)
{
	int device, ret = check_stream(be, "copy", stream, &device);

	if (!ret)
		ret = check_reachable(be, "copy", from, size);
	if (!ret)
		ret = check_reachable(be, "copy", to, size);
	if (!ret && (to > from ? to - from : from - to) < size)
		ret = error_set(-EINVAL, "copy: the %zu bytes at %#" G_GINT64_MODIFIER "x overlap those at %#"
				G_GINT64_MODIFIER "x", size, from, to);
	return ret ? ret : host_stream_copy(device, stream, to, from, size);
}

static int host_alloc(struct backend *be, size_t size, struct CUstream_st *stream, uint64_t *va)
{
	int device, ret = check_stream(be, "small_alloc", stream, &device);

	if (!ret)
		ret = host_small_alloc(host_backend(be)->small, size, stream, va);
	if (!ret)
		small_count++;
	return ret;
}

static int host_free(struct backend *be, uint64_t va, struct CUstream_st *stream)
{
	int device, ret = check_stream(be, "small_free", stream, &device);

	if (!ret)
		ret = host_small_free(host_backend(be)->small, va, stream);
	if (!ret)
		small_count--;
	return ret;
}

static int host_held(struct backend *be, uint64_t *bytes, uint64_t *peak)
{
	int ret = check_entered(be, "small_held");

	if (!ret)
		host_small_held(host_backend(be)->small, bytes, peak);
	return ret;
}

static int host_trim(struct backend *be, uint64_t keep, bool *pending)
{
	int ret = check_entered(be, "small_trim");

	if (!ret)
		*pending = host_small_trim(host_backend(be)->small, keep);
	return ret;
}

void backend_host_left(struct host_left *left)
{
	host_space_count(&left->reservations, &left->handles, &left->mappings);
	left->opens = open_count;
	left->events = host_event_count();
	left->small = small_count;
	left->abandoned = abandoned_count;
}

const struct backend_ops backend_host = {
	.name = "host",
	.current_device = host_current_device,
	.open = host_open,
	.close = host_close,
	.enter = host_enter,
	.leave = host_leave,
	.info = host_info,
	.now = host_now,
	.reserve = host_reserve,
	.unreserve = host_unreserve,
	.create = host_create,
	.release = host_release,
	.map = host_map,
	.access = host_access,
	.unmap = host_unmap,
	.stream_id = host_id,
	.stream_capture = host_capture,
	.stream_wait = host_wait,
	.event_create = host_new_event,
	.event_create_timed = host_new_event_timed,
	.event_destroy = host_event_destroy,
	.event_record = host_record,
	.event_query = host_query,
	.event_sync = host_sync,
	.event_elapsed = host_elapsed,
	.sync = host_sync_all,
	.clear = host_clear,
	.copy = host_copy,
	.small_alloc = host_alloc,
	.small_free = host_free,
	.small_held = host_held,
	.small_trim = host_trim,
};
