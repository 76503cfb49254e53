// SPDX-License-Identifier: LGPL-2.1-or-later
/* Streams and events by their handles: every call takes the one lock of all streams. */
#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <stdbool.h>

#include "host/capture.h"
#include "host/clock.h"
#include "host/device.h"
#include "host/forks.h"
#include "host/queue.h"
#include "host/streams.h"
#include "util/error.h"
#include "vpmm.h"

/* The per-thread streams of one thread. */
struct own_streams {
	struct CUstream_st *of_device[HOST_DEVICES_MAX];
};

static void own_streams_free(void *data);

/* A set of the streams of host_stream_create(). */
static GHashTable *created GUARDED_BY(host_streams_lock);
static struct CUstream_st *defaults[HOST_DEVICES_MAX] GUARDED_BY(host_streams_lock);

static GPrivate own_streams = G_PRIVATE_INIT(own_streams_free);

REQUIRES(host_streams_lock)
static struct CUstream_st *own_stream_of(int device)
{
	struct own_streams *own = g_private_get(&own_streams);

	if (!own) {
		own = g_new0(struct own_streams, 1);
		g_private_set(&own_streams, own);
	}
	if (!own->of_device[device])
		own->of_device[device] = host_queue_new(device);
	return own->of_device[device];
}

struct CUstream_st *host_stream_resolve(int device, struct CUstream_st *handle)
{
	lock_assert_held(&host_streams_lock);
	if (!handle || handle == VPMM_HOST_STREAM_LEGACY) {
		if (!defaults[device]) {
			defaults[device] = host_queue_new(device);
			defaults[device]->legacy = true;
		}
		return defaults[device];
	}
	if (handle == VPMM_HOST_STREAM_PER_THREAD)
		return own_stream_of(device);
	if (created && g_hash_table_contains(created, handle))
		return handle;
	error_set(-EINVAL, "%p is not a stream of the host backend", (void *)handle);
	return NULL;
}

static void own_streams_free(void *data)
{
	struct own_streams *own = data;
	struct CUstream_st *stream;
	int i;

	host_acquire(&host_streams_lock);
	for (i = 0; i < HOST_DEVICES_MAX; i++) {
		stream = own->of_device[i];
		if (!stream)
			continue;
		host_capture_leave(stream);
		stream->orphan = true;
		if (stream->head && stream->head->kind == ITEM_WORK)
			host_queue_advance(stream);
		host_queue_unref(stream);
	}
	host_queue_run_orphans();
	lock_release(&host_streams_lock);
	g_free(own);
}

struct CUstream_st *host_stream_create(int device)
{
	struct CUstream_st *stream;

	host_acquire(&host_streams_lock);
	if (!created)
		created = g_hash_table_new(NULL, NULL);
	stream = host_queue_new(device);
	g_hash_table_add(created, stream);
	lock_release(&host_streams_lock);
	return stream;
}

int host_stream_destroy(struct CUstream_st *stream)
{
	int ret = host_queue_not_in_work("destroy a stream");

	if (ret)
		return ret;
	host_acquire(&host_streams_lock);
	if (!created || !g_hash_table_contains(created, stream)) {
		ret = error_set(-EINVAL, "%p is not a stream of vpmm_host_stream_create()", (void *)stream);
		goto unlock;
	}
	stream->refs++;
	ret = host_queue_complete(stream, UINT64_MAX, UINT64_MAX, false);
	if (!ret && g_hash_table_remove(created, stream)) {
		host_capture_leave(stream);
		stream->orphan = true;
		host_queue_unref(stream);
	}
	host_queue_unref(stream);
	host_queue_run_orphans();
unlock:
	lock_release(&host_streams_lock);
	return ret;
}

/* The stream of a device that a handle means; NULL: none. */
REQUIRES(host_streams_lock)
static struct CUstream_st *resolve_on(int device, struct CUstream_st *handle)
{
	struct CUstream_st *found = host_stream_resolve(device, handle);

	if (!found || found->device == device)
		return found;
	error_set(-EINVAL, "stream %" PRIu64 " belongs to host device %d, not to %d", found->id, found->device, device);
	return NULL;
}

int host_stream_check(int device, struct CUstream_st *stream)
{
	int ret;

	host_acquire(&host_streams_lock);
	ret = resolve_on(device, stream) ? 0 : -EINVAL;
	lock_release(&host_streams_lock);
	return ret;
}

int host_stream_id(int device, struct CUstream_st *stream, uint64_t *id)
{
	struct CUstream_st *found;
	uint64_t capture = 0;
	int ret = -EINVAL;

	host_acquire(&host_streams_lock);
	found = resolve_on(device, stream);
	if (found)
		ret = host_capture_ask(found, &capture);
	if (!ret && capture)
		ret = error_set(-EBUSY, "stream %" PRIu64 " is being captured into a graph", found->id);
	if (!ret)
		*id = found->id;
	lock_release(&host_streams_lock);
	return ret;
}

int host_stream_capture(int device, struct CUstream_st *stream, uint64_t *id)
{
	return HOST_ON_STREAM(device, stream, host_capture_ask(found, id));
}

static int submit_task(int device, struct CUstream_st *stream, const struct host_task *task)
{
	return HOST_ON_STREAM(device, stream, host_capture_task(found, task));
}

int host_stream_submit(int device, struct CUstream_st *stream, vpmm_host_fn fn, void *data)
{
	const struct host_task task = { .fn = fn, .data = data };

	return submit_task(device, stream, &task);
}

/* The most pieces of timed work that a stream has pending. A driver takes as many before it blocks the host. */
#define QUEUE_MOST 1024

/* Lets the clock move until the stream can take another piece. Work that is pending until a call completes it stays. */
REQUIRES(host_streams_lock)
static void hold_back(struct CUstream_st *stream)
{
	if (host_queue_in_work)
		return;
	stream->refs++;
	while (stream->submitted - stream->completed >= QUEUE_MOST &&
	       host_queue_holder(stream)->head->kind == ITEM_TIMED && host_queue_step(UINT64_MAX))
		;
	host_queue_unref(stream);
}

int host_stream_submit_for(int device, struct CUstream_st *stream, enum vpmm_host_engine engine, uint64_t ns)
{
	const struct host_task task = { .timed = true, .engine = engine, .ns = ns };
	struct CUstream_st *found;
	unsigned int kernels;
	int ret;

	if ((unsigned int)engine >= HOST_ENGINES)
		return error_set(-EINVAL, "there is no engine %d", (int)engine);
	ret = host_device_kernels(&kernels);
	if (ret)
		return ret;
	host_acquire(&host_streams_lock);
	found = host_stream_resolve(device, stream);
	ret = found ? host_clock_room(ns) : -EINVAL;
	if (!ret) {
		host_clock_kernels(found->device, kernels);
		hold_back(found);
		ret = host_capture_task(found, &task);
	}
	lock_release(&host_streams_lock);
	return ret;
}

int host_stream_clear(int device, struct CUstream_st *stream, uint64_t va, size_t size)
{
	const struct host_task task = { .clear = true, .data = (void *)(uintptr_t)va, .size = size };

	return submit_task(device, stream, &task);
}

int host_stream_copy(int device, struct CUstream_st *stream, uint64_t to, uint64_t from, size_t size)
{
	const struct host_task task = { .data = (void *)(uintptr_t)to, .from = (const void *)(uintptr_t)from,
					.size = size };

	return submit_task(device, stream, &task);
}

void host_stream_release(int device, struct CUstream_st *stream, uint64_t va, size_t size)
{
	const struct host_task task = { .release = true, .data = (void *)(uintptr_t)va, .size = size };
	const struct CUstream_st *found;

	host_acquire(&host_streams_lock);
	found = stream == VPMM_STREAM_ANY ? NULL : host_stream_resolve(device, stream);
	for (struct CUstream_st *it = host_streams; it; it = it->older) {
		if ((it == found || stream == VPMM_STREAM_ANY) && it->device == device && it->head && !it->capture)
			host_stream_push(it, &task);
	}
	lock_release(&host_streams_lock);
}

int host_stream_complete(int device, struct CUstream_st *stream, unsigned int n)
{
	struct CUstream_st *found;
	int ret = host_queue_not_in_work("complete work");

	if (ret)
		return ret;
	host_acquire(&host_streams_lock);
	found = host_stream_resolve(device, stream);
	if (!found) {
		ret = -EINVAL;
		goto unlock;
	}
	found->refs++;
	ret = host_queue_complete(found, n, found->submitted, true);
	host_queue_unref(found);
	host_queue_run_orphans();
unlock:
	lock_release(&host_streams_lock);
	return ret;
}

int host_stream_pending(int device, struct CUstream_st *stream, unsigned int *n)
{
	struct CUstream_st *found;

	host_acquire(&host_streams_lock);
	found = host_stream_resolve(device, stream);
	if (found)
		*n = (unsigned int)MIN(found->submitted - found->completed, UINT_MAX);
	lock_release(&host_streams_lock);
	return found ? 0 : -EINVAL;
}

REQUIRES(host_streams_lock)
static void wait_for_recorded(struct CUstream_st *stream, struct backend_event *event)
{
	bool first = !stream->head;

	if (event->complete)
		return;
	host_queue_push(stream, ITEM_WAIT, event);
	if (first)
		host_queue_advance(stream);
}

int host_stream_wait(int device, struct CUstream_st *stream, struct backend_event *event)
{
	struct CUstream_st *found;
	int ret;

	host_acquire(&host_streams_lock);
	found = host_stream_resolve(device, stream);
	if (!found)
		ret = -EINVAL;
	else if (!event->records)
		ret = error_set(-EINVAL, "an event that was never recorded cannot be waited for");
	else
		ret = host_capture_refuse(found, "a wait for an event from outside");
	if (!ret)
		wait_for_recorded(found, event);
	lock_release(&host_streams_lock);
	return ret;
}

struct backend_event *host_event_create(void)
{
	struct backend_event *event = g_new0(struct backend_event, 1);

	event->refs = 1;
	host_acquire(&host_streams_lock);
	host_event_total++;
	lock_release(&host_streams_lock);
	return event;
}

void host_event_unref(struct backend_event *event)
{
	if (!event)
		return;
	host_acquire(&host_streams_lock);
	host_event_drop(event);
	lock_release(&host_streams_lock);
}

int host_event_record(int device, struct backend_event *event, struct CUstream_st *stream)
{
	struct CUstream_st *found;
	int ret;

	host_acquire(&host_streams_lock);
	found = resolve_on(device, stream);
	if (!found)
		ret = -EINVAL;
	else if (event->waits)
		ret = error_set(-EINVAL, "an event that is waited for cannot be recorded again");
	else
		ret = host_capture_refuse(found, "an event that is to be queried");
	if (!ret)
		host_queue_record(found, event);
	lock_release(&host_streams_lock);
	return ret;
}

/*
 * The stream of each device that waits for all others, for host_event_record_all(). It has nothing in its queue but
 * records and waits.
 */
static struct CUstream_st *collectors[HOST_DEVICES_MAX] GUARDED_BY(host_streams_lock);

REQUIRES(host_streams_lock)
static struct CUstream_st *collector_of(int device)
{
	if (!collectors[device])
		collectors[device] = host_queue_new(device);
	return collectors[device];
}

/* Streams without anything to do need not be waited for. */
REQUIRES(host_streams_lock)
static void wait_for_streams(struct CUstream_st *collector)
{
	struct CUstream_st *stream, *next;

	for (stream = host_streams; stream; stream = next) {
		struct backend_event *event;

		next = stream->older;
		if (stream == collector || stream->device != collector->device || !stream->head)
			continue;
		event = g_new0(struct backend_event, 1);
		event->refs = 1;
		host_event_total++;
		host_queue_record(stream, event);
		wait_for_recorded(collector, event);
		host_event_drop(event);
	}
}

int host_event_record_all(int device, struct backend_event *event)
{
	int ret;

	host_acquire(&host_streams_lock);
	if (event->waits)
		ret = error_set(-EINVAL, "an event that is waited for cannot be recorded again");
	else
		ret = host_capture_refuse_all(device, "an event of all streams");
	if (!ret) {
		wait_for_streams(collector_of(device));
		host_queue_record(collector_of(device), event);
	}
	lock_release(&host_streams_lock);
	return ret;
}

int host_stream_follow(int device, struct CUstream_st *stream, struct CUstream_st *other)
{
	struct backend_event *event = host_event_create();
	struct CUstream_st *before, *after;
	int ret;

	host_acquire(&host_streams_lock);
	before = host_stream_resolve(device, other);
	after = before ? host_stream_resolve(device, stream) : NULL;
	ret = after ? host_capture_wait(after, before) : -EINVAL;
	if (!ret) {
		host_queue_record(before, event);
		wait_for_recorded(after, event);
	}
	host_event_drop(event);
	lock_release(&host_streams_lock);
	return MIN(ret, 0);
}

int host_event_query(struct backend_event *event, int *complete)
{
	int ret = 0;

	host_acquire(&host_streams_lock);
	if (event->records)
		*complete = event->complete;
	else
		ret = error_set(-EINVAL, "an event that was never recorded cannot be queried");
	lock_release(&host_streams_lock);
	return ret;
}

int host_event_sync(struct backend_event *event)
{
	int ret = host_queue_not_in_work("wait for an event");

	if (ret)
		return ret;
	host_acquire(&host_streams_lock);
	if (!event->records) {
		ret = error_set(-EINVAL, "an event that was never recorded cannot be waited for");
		goto unlock;
	}
	event->refs++;
	event->waits++;
	while (!event->complete)
		host_queue_get_on(event->stream);
	event->waits--;
	host_event_drop(event);
	host_queue_run_orphans();
unlock:
	lock_release(&host_streams_lock);
	return ret;
}

int host_event_time(struct backend_event *event, uint64_t *ns)
{
	int ret = 0;

	host_acquire(&host_streams_lock);
	if (!event->records)
		ret = error_set(-EINVAL, "an event that was never recorded has no time");
	else if (!event->complete)
		ret = error_set(-EBUSY, "an event that is pending has no time yet");
	else
		*ns = event->time;
	lock_release(&host_streams_lock);
	return ret;
}

int host_stream_sync_all(int device)
{
	struct CUstream_st *stream;
	int ret = host_queue_not_in_work("wait for a device");

	if (ret)
		return ret;
	host_acquire(&host_streams_lock);
	while ((stream = host_queue_busy(device)))
		host_queue_get_on(stream);
	host_queue_run_orphans();
	lock_release(&host_streams_lock);
	return 0;
}

/* The stream may be gone afterwards. */
REQUIRES(host_streams_lock)
static void reset_stream(struct CUstream_st *stream)
{
	host_capture_leave(stream);
	if (!created || !g_hash_table_remove(created, stream)) {
		host_queue_renumber(stream);
		return;
	}
	stream->orphan = true;
	host_queue_unref(stream);
}

int host_stream_reset(int device)
{
	struct CUstream_st *stream, *next;
	int ret;

	ret = host_stream_sync_all(device);
	if (ret)
		return ret;
	host_acquire(&host_streams_lock);
	for (stream = host_streams; stream; stream = next) {
		next = stream->older;
		if (stream->device == device)
			reset_stream(stream);
	}
	lock_release(&host_streams_lock);
	return 0;
}

uint64_t host_event_count(void)
{
	uint64_t count;

	host_acquire(&host_streams_lock);
	count = host_event_total;
	lock_release(&host_streams_lock);
	return count;
}
