// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <glib.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "host/capture.h"
#include "host/device.h"
#include "host/queue.h"
#include "host/streams.h"
#include "util/error.h"

struct backend_event {
	unsigned int refs;
	uint64_t records;		/* how often it was recorded; only the last counts */
	unsigned int waits;		/* how many waits for it stand in queues, and threads that wait */
	bool complete;
	struct CUstream_st *stream;	/* in whose queue its marker is, while there is one */
	struct CUstream_st *waiting;	/* streams whose head waits for it */
};

/* The per-thread streams of one thread. */
struct own_streams {
	struct CUstream_st *of_device[HOST_DEVICES_MAX];
};

static void own_streams_free(void *data);

struct lock host_streams_lock = LOCK_INIT(LOCK_HOST_STREAMS);
struct CUstream_st *host_streams;
static pthread_cond_t work_done = PTHREAD_COND_INITIALIZER;
/* A set of the streams of host_stream_create(). */
static GHashTable *created GUARDED_BY(host_streams_lock);
static struct CUstream_st *defaults[HOST_DEVICES_MAX] GUARDED_BY(host_streams_lock);
static struct CUstream_st *ready_orphans GUARDED_BY(host_streams_lock);
static uint64_t last_id GUARDED_BY(host_streams_lock);
static uint64_t event_count GUARDED_BY(host_streams_lock);

static GPrivate own_streams = G_PRIVATE_INIT(own_streams_free);
static _Thread_local bool in_work;

REQUIRES(host_streams_lock)
static struct CUstream_st *stream_new(int device)
{
	struct CUstream_st *stream = g_new0(struct CUstream_st, 1);

	stream->id = ++last_id;
	stream->device = device;
	stream->refs = 1;
	stream->tail = &stream->head;
	stream->older = host_streams;
	if (host_streams)
		host_streams->newer = stream;
	host_streams = stream;
	return stream;
}

REQUIRES(host_streams_lock)
static void stream_settle(struct CUstream_st *stream)
{
	if (stream->refs || stream->head || stream->ready)
		return;
	if (stream->newer)
		stream->newer->older = stream->older;
	else
		host_streams = stream->older;
	if (stream->older)
		stream->older->newer = stream->newer;
	g_free(stream);
}

REQUIRES(host_streams_lock)
static void stream_unref(struct CUstream_st *stream)
{
	stream->refs--;
	stream_settle(stream);
}

REQUIRES(host_streams_lock)
static struct CUstream_st *own_stream(int device)
{
	struct own_streams *own = g_private_get(&own_streams);

	if (!own) {
		own = g_new0(struct own_streams, 1);
		g_private_set(&own_streams, own);
	}
	if (!own->of_device[device])
		own->of_device[device] = stream_new(device);
	return own->of_device[device];
}

struct CUstream_st *host_stream_resolve(int device, struct CUstream_st *handle)
{
	lock_assert_held(&host_streams_lock);
	if (!handle || handle == VPMM_HOST_STREAM_LEGACY) {
		if (!defaults[device]) {
			defaults[device] = stream_new(device);
			defaults[device]->legacy = true;
		}
		return defaults[device];
	}
	if (handle == VPMM_HOST_STREAM_PER_THREAD)
		return own_stream(device);
	if (created && g_hash_table_contains(created, handle))
		return handle;
	error_set(-EINVAL, "%p is not a stream of the host backend", (void *)handle);
	return NULL;
}

REQUIRES(host_streams_lock)
static void event_drop(struct backend_event *event)
{
	if (--event->refs)
		return;
	event_count--;
	g_free(event);
}

REQUIRES(host_streams_lock)
static struct item *push(struct CUstream_st *stream, enum item_kind kind, struct backend_event *event)
{
	struct item *item = g_new0(struct item, 1);

	item->kind = kind;
	item->event = event;
	if (event) {
		item->record = event->records;
		event->waits += kind == ITEM_WAIT;
		event->refs++;
	}
	*stream->tail = item;
	stream->tail = &item->next;
	return item;
}

REQUIRES(host_streams_lock)
static void pop(struct CUstream_st *stream)
{
	struct item *item = stream->head;

	stream->head = item->next;
	if (!stream->head)
		stream->tail = &stream->head;
	if (item->event) {
		item->event->waits -= item->kind == ITEM_WAIT;
		event_drop(item->event);
	}
	g_free(item);
}

REQUIRES(host_streams_lock)
static struct CUstream_st *event_finish(struct backend_event *event, struct CUstream_st *todo)
{
	struct CUstream_st *stream;

	event->complete = true;
	event->stream = NULL;
	while ((stream = event->waiting)) {
		event->waiting = stream->next;
		stream->next = todo;
		todo = stream;
	}
	return todo;
}

REQUIRES(host_streams_lock)
static struct CUstream_st *pass_markers(struct CUstream_st *stream, struct CUstream_st *todo)
{
	struct item *item;

	while ((item = stream->head) && item->kind != ITEM_WORK) {
		if (item->kind == ITEM_CLEAR) {
			memset(item->task.data, 0, item->task.size);
		} else if (item->kind == ITEM_RECORD) {
			if (item->record == item->event->records)
				todo = event_finish(item->event, todo);
		} else if (!item->event->complete) {
			stream->next = item->event->waiting;
			item->event->waiting = stream;
			return todo;
		}
		pop(stream);
	}
	if (stream->orphan && stream->head && !stream->ready) {
		stream->ready = true;
		stream->next_ready = ready_orphans;
		ready_orphans = stream;
	}
	stream_settle(stream);
	return todo;
}

/* Passes the markers at the head of a stream, and of those that waited for them. Not for a stream that waits. */
REQUIRES(host_streams_lock)
static void advance(struct CUstream_st *stream)
{
	struct CUstream_st *todo = stream;

	stream->next = NULL;
	while ((stream = todo)) {
		todo = stream->next;
		todo = pass_markers(stream, todo);
	}
}

void host_stream_push(struct CUstream_st *stream, const struct host_task *task)
{
	bool first = !stream->head;

	lock_assert_held(&host_streams_lock);
	push(stream, task->clear ? ITEM_CLEAR : ITEM_WORK, NULL)->task = *task;
	if (!task->clear)
		stream->submitted++;
	else if (first)
		advance(stream);
}

/* Completes the work at the head of a stream, which the caller has a reference to. Drops the lock meanwhile. */
REQUIRES(host_streams_lock)
static void run_head(struct CUstream_st *stream)
{
	struct item *item = stream->head;

	if (item->task.fn) {
		stream->running = true;
		lock_release(&host_streams_lock);
		in_work = true;
		lock_as_another(item->task.fn, item->task.data);
		in_work = false;
		lock_acquire(&host_streams_lock);
		stream->running = false;
		pthread_cond_broadcast(&work_done);
	}
	pop(stream);
	stream->completed++;
	advance(stream);
}

/* Completes what nobody can name, and nothing holds up any more. */
REQUIRES(host_streams_lock)
static void run_orphans(void)
{
	struct CUstream_st *stream;

	while ((stream = ready_orphans)) {
		ready_orphans = stream->next_ready;
		stream->ready = false;
		stream->refs++;
		while (!stream->running && stream->head && stream->head->kind == ITEM_WORK)
			run_head(stream);
		stream_unref(stream);
	}
}

/* Completes up to @n pieces of those before the @last one. The caller has a reference. */
REQUIRES(host_streams_lock)
static int complete(struct CUstream_st *stream, uint64_t n, uint64_t last)
{
	while (n && stream->completed < last) {
		if (stream->running) {
			lock_wait(&host_streams_lock, &work_done);
		} else if (stream->head->kind == ITEM_WAIT) {
			return error_set(-EBUSY, "stream %" G_GUINT64_FORMAT " waits for stream %" G_GUINT64_FORMAT
					 "; pieces of work behind the wait: %" G_GUINT64_FORMAT, stream->id,
					 stream->head->event->stream->id, stream->submitted - stream->completed);
		} else {
			run_head(stream);
			n--;
		}
	}
	return 0;
}

static int not_in_work(const char *call)
{
	return in_work ? error_set(-EBUSY, "a piece of work must not %s", call) : 0;
}

static void own_streams_free(void *data)
{
	struct own_streams *own = data;
	struct CUstream_st *stream;
	int i;

	lock_acquire(&host_streams_lock);
	for (i = 0; i < HOST_DEVICES_MAX; i++) {
		stream = own->of_device[i];
		if (!stream)
			continue;
		host_capture_leave(stream);
		stream->orphan = true;
		if (stream->head && stream->head->kind == ITEM_WORK)
			advance(stream);
		stream_unref(stream);
	}
	run_orphans();
	lock_release(&host_streams_lock);
	g_free(own);
}

struct CUstream_st *host_stream_create(int device)
{
	struct CUstream_st *stream;

	lock_acquire(&host_streams_lock);
	if (!created)
		created = g_hash_table_new(NULL, NULL);
	stream = stream_new(device);
	g_hash_table_add(created, stream);
	lock_release(&host_streams_lock);
	return stream;
}

int host_stream_destroy(struct CUstream_st *stream)
{
	int ret = not_in_work("destroy a stream");

	if (ret)
		return ret;
	lock_acquire(&host_streams_lock);
	if (!created || !g_hash_table_contains(created, stream)) {
		ret = error_set(-EINVAL, "%p is not a stream of vpmm_host_stream_create()", (void *)stream);
		goto unlock;
	}
	stream->refs++;
	while (!ret && stream->completed < stream->submitted)
		ret = complete(stream, UINT64_MAX, stream->submitted);
	if (!ret && g_hash_table_remove(created, stream)) {
		host_capture_leave(stream);
		stream->orphan = true;
		stream_unref(stream);
	}
	stream_unref(stream);
	run_orphans();
unlock:
	lock_release(&host_streams_lock);
	return ret;
}

int host_stream_check(int device, struct CUstream_st *stream)
{
	struct CUstream_st *found;
	int ret = 0;

	lock_acquire(&host_streams_lock);
	found = host_stream_resolve(device, stream);
	if (!found)
		ret = -EINVAL;
	else if (found->device != device)
		ret = error_set(-EINVAL, "stream %" G_GUINT64_FORMAT " belongs to host device %d, not to %d", found->id,
				found->device, device);
	lock_release(&host_streams_lock);
	return ret;
}

int host_stream_id(int device, struct CUstream_st *stream, uint64_t *id)
{
	struct CUstream_st *found;
	uint64_t capture = 0;
	int ret = -EINVAL;

	lock_acquire(&host_streams_lock);
	found = host_stream_resolve(device, stream);
	if (found)
		ret = host_capture_ask(found, &capture);
	if (!ret && capture)
		ret = error_set(-EBUSY, "stream %" G_GUINT64_FORMAT " is being captured into a graph", found->id);
	if (!ret)
		*id = found->id;
	lock_release(&host_streams_lock);
	return ret;
}

int host_stream_capture(int device, struct CUstream_st *stream, uint64_t *id)
{
	struct CUstream_st *found;
	int ret;

	lock_acquire(&host_streams_lock);
	found = host_stream_resolve(device, stream);
	ret = found ? host_capture_ask(found, id) : -EINVAL;
	lock_release(&host_streams_lock);
	return ret;
}

static int submit_task(int device, struct CUstream_st *stream, const struct host_task *task)
{
	struct CUstream_st *found;
	int ret;

	lock_acquire(&host_streams_lock);
	found = host_stream_resolve(device, stream);
	ret = found ? host_capture_task(found, task) : -EINVAL;
	lock_release(&host_streams_lock);
	return ret;
}

int host_stream_submit(int device, struct CUstream_st *stream, vpmm_host_fn fn, void *data)
{
	const struct host_task task = { .fn = fn, .data = data };

	return submit_task(device, stream, &task);
}

int host_stream_clear(int device, struct CUstream_st *stream, uint64_t va, size_t size)
{
	const struct host_task task = { .clear = true, .data = (void *)(uintptr_t)va, .size = size };

	return submit_task(device, stream, &task);
}

int host_stream_complete(int device, struct CUstream_st *stream, unsigned int n)
{
	struct CUstream_st *found;
	int ret = not_in_work("complete work");

	if (ret)
		return ret;
	lock_acquire(&host_streams_lock);
	found = host_stream_resolve(device, stream);
	if (!found) {
		ret = -EINVAL;
		goto unlock;
	}
	found->refs++;
	ret = complete(found, n, found->submitted);
	stream_unref(found);
	run_orphans();
unlock:
	lock_release(&host_streams_lock);
	return ret;
}

int host_stream_pending(int device, struct CUstream_st *stream, unsigned int *n)
{
	struct CUstream_st *found;

	lock_acquire(&host_streams_lock);
	found = host_stream_resolve(device, stream);
	if (found)
		*n = (unsigned int)MIN(found->submitted - found->completed, UINT_MAX);
	lock_release(&host_streams_lock);
	return found ? 0 : -EINVAL;
}

REQUIRES(host_streams_lock)
static void wait_for(struct CUstream_st *stream, struct backend_event *event)
{
	bool first = !stream->head;

	if (event->complete)
		return;
	push(stream, ITEM_WAIT, event);
	if (first)
		advance(stream);
}

int host_stream_wait(int device, struct CUstream_st *stream, struct backend_event *event)
{
	struct CUstream_st *found;
	int ret;

	lock_acquire(&host_streams_lock);
	found = host_stream_resolve(device, stream);
	if (!found)
		ret = -EINVAL;
	else if (!event->records)
		ret = error_set(-EINVAL, "an event that was never recorded cannot be waited for");
	else
		ret = host_capture_refuse(found, "a wait for an event from outside");
	if (!ret)
		wait_for(found, event);
	lock_release(&host_streams_lock);
	return ret;
}

struct backend_event *host_event_create(void)
{
	struct backend_event *event = g_new0(struct backend_event, 1);

	event->refs = 1;
	lock_acquire(&host_streams_lock);
	event_count++;
	lock_release(&host_streams_lock);
	return event;
}

void host_event_unref(struct backend_event *event)
{
	if (!event)
		return;
	lock_acquire(&host_streams_lock);
	event_drop(event);
	lock_release(&host_streams_lock);
}

REQUIRES(host_streams_lock)
static void record(struct CUstream_st *stream, struct backend_event *event)
{
	bool first = !stream->head;

	event->records++;
	event->complete = false;
	event->stream = stream;
	push(stream, ITEM_RECORD, event);
	if (first)
		advance(stream);
}

int host_event_record(int device, struct backend_event *event, struct CUstream_st *stream)
{
	struct CUstream_st *found;
	int ret;

	lock_acquire(&host_streams_lock);
	found = host_stream_resolve(device, stream);
	if (!found)
		ret = -EINVAL;
	else if (event->waits)
		ret = error_set(-EINVAL, "an event that is waited for cannot be recorded again");
	else
		ret = host_capture_refuse(found, "an event that is to be queried");
	if (!ret)
		record(found, event);
	lock_release(&host_streams_lock);
	return ret;
}

int host_stream_follow(int device, struct CUstream_st *stream, struct CUstream_st *other)
{
	struct backend_event *event = host_event_create();
	struct CUstream_st *before, *after;
	int ret;

	lock_acquire(&host_streams_lock);
	before = host_stream_resolve(device, other);
	after = before ? host_stream_resolve(device, stream) : NULL;
	ret = after ? host_capture_wait(after, before) : -EINVAL;
	if (!ret) {
		record(before, event);
		wait_for(after, event);
	}
	event_drop(event);
	lock_release(&host_streams_lock);
	return MIN(ret, 0);
}

int host_event_query(struct backend_event *event, int *complete)
{
	int ret = 0;

	lock_acquire(&host_streams_lock);
	if (event->records)
		*complete = event->complete;
	else
		ret = error_set(-EINVAL, "an event that was never recorded cannot be queried");
	lock_release(&host_streams_lock);
	return ret;
}

/* The stream that has to go on before another can. A wait is for what was recorded earlier, so there is no circle. */
REQUIRES(host_streams_lock)
static struct CUstream_st *holding_up(struct CUstream_st *stream)
{
	while (stream->head->kind == ITEM_WAIT)
		stream = stream->head->event->stream;
	return stream;
}

int host_event_sync(struct backend_event *event)
{
	struct CUstream_st *stream;
	int ret = not_in_work("wait for an event");

	if (ret)
		return ret;
	lock_acquire(&host_streams_lock);
	if (!event->records) {
		ret = error_set(-EINVAL, "an event that was never recorded cannot be waited for");
		goto unlock;
	}
	event->refs++;
	event->waits++;
	while (!event->complete) {
		stream = holding_up(event->stream);
		if (stream->running) {
			lock_wait(&host_streams_lock, &work_done);
			continue;
		}
		stream->refs++;
		run_head(stream);
		stream_unref(stream);
	}
	event->waits--;
	event_drop(event);
	run_orphans();
unlock:
	lock_release(&host_streams_lock);
	return ret;
}

REQUIRES(host_streams_lock)
static struct CUstream_st *busy_stream(int device)
{
	struct CUstream_st *stream = host_streams;

	while (stream && (stream->device != device || !stream->head))
		stream = stream->older;
	return stream;
}

int host_stream_sync_all(int device)
{
	struct CUstream_st *stream;
	int ret = not_in_work("wait for a device");

	if (ret)
		return ret;
	lock_acquire(&host_streams_lock);
	while ((stream = busy_stream(device))) {
		stream = holding_up(stream);
		if (stream->running) {
			lock_wait(&host_streams_lock, &work_done);
			continue;
		}
		stream->refs++;
		run_head(stream);
		stream_unref(stream);
	}
	run_orphans();
	lock_release(&host_streams_lock);
	return 0;
}

uint64_t host_event_count(void)
{
	uint64_t count;

	lock_acquire(&host_streams_lock);
	count = event_count;
	lock_release(&host_streams_lock);
	return count;
}
