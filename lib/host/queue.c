// SPDX-License-Identifier: LGPL-2.1-or-later
/* The queues of streams: work, markers between pieces of work, and how both are passed. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/clock.h"
#include "host/life.h"
#include "host/queue.h"
#include "util/error.h"

struct CUstream_st *host_streams;
static pthread_cond_t work_done = PTHREAD_COND_INITIALIZER;
static struct CUstream_st *ready_orphans GUARDED_BY(host_streams_lock);
static uint64_t last_id GUARDED_BY(host_streams_lock);
uint64_t host_event_total;
_Thread_local bool host_queue_in_work;
static unsigned int held GUARDED_BY(host_streams_lock);

/* Clears, copies and releases that are in queues, and the number of the last search in host_queue_unordered(). */
static GQueue works GUARDED_BY(host_streams_lock) = G_QUEUE_INIT;
_Atomic unsigned int host_queue_works_count;
static uint64_t searches GUARDED_BY(host_streams_lock);

/* Items that ever came into a queue. */
static uint64_t pushes GUARDED_BY(host_streams_lock);

struct CUstream_st *host_queue_new(int device)
{
	struct CUstream_st *stream = g_new0(struct CUstream_st, 1);

	lock_assert_held(&host_streams_lock);
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

void host_queue_renumber(struct CUstream_st *stream)
{
	lock_assert_held(&host_streams_lock);
	stream->id = ++last_id;
}

REQUIRES(host_streams_lock)
static void delete_unused(struct CUstream_st *stream)
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

void host_queue_unref(struct CUstream_st *stream)
{
	lock_assert_held(&host_streams_lock);
	stream->refs--;
	delete_unused(stream);
}

void host_event_drop(struct backend_event *event)
{
	lock_assert_held(&host_streams_lock);
	if (--event->refs)
		return;
	host_event_total--;
	g_free(event);
}

struct item *host_queue_push(struct CUstream_st *stream, enum item_kind kind, struct backend_event *event)
{
	struct item *item = g_new0(struct item, 1);

	lock_assert_held(&host_streams_lock);
	item->kind = kind;
	item->event = event;
	item->serial = ++pushes;
	if (event) {
		item->record = event->records;
		event->waits += kind == ITEM_WAIT;
		event->refs++;
	}
	*stream->tail = item;
	stream->tail = &item->next;
	return item;
}

static bool has_memory(const struct item *item)
{
	return item->kind == ITEM_CLEAR || item->kind == ITEM_COPY || item->kind == ITEM_RELEASE;
}

REQUIRES(host_streams_lock)
static void add_work(struct item *item)
{
	g_queue_push_tail_link(&works, &item->work);
	host_queue_works_count++;
}

REQUIRES(host_streams_lock)
static void remove_work(struct item *item)
{
	g_queue_unlink(&works, &item->work);
	host_queue_works_count--;
}

REQUIRES(host_streams_lock)
static void pop(struct CUstream_st *stream)
{
	struct item *item = stream->head;

	stream->head = item->next;
	if (!stream->head)
		stream->tail = &stream->head;
	if (has_memory(item))
		remove_work(item);
	if (item->event) {
		item->event->waits -= item->kind == ITEM_WAIT;
		host_event_drop(item->event);
	}
	if (item->life)
		host_life_unref(item->life);
	g_free(item);
}

REQUIRES(host_streams_lock)
static struct CUstream_st *event_finish(struct backend_event *event, struct CUstream_st *todo)
{
	struct CUstream_st *stream;

	event->complete = true;
	event->time = host_clock_now();
	event->stream = NULL;
	while ((stream = event->waiting)) {
		event->waiting = stream->next;
		stream->next = todo;
		todo = stream;
	}
	return todo;
}

static bool is_work(const struct item *item)
{
	return item->kind == ITEM_WORK || item->kind == ITEM_TIMED;
}

/* The stream has a new head, or none. */
REQUIRES(host_streams_lock)
static void note_head(struct CUstream_st *stream)
{
	if (stream->head && stream->head->kind == ITEM_TIMED) {
		host_clock_ready(stream);
	} else if (stream->orphan && stream->head && !stream->ready) {
		stream->ready = true;
		stream->next_ready = ready_orphans;
		ready_orphans = stream;
	}
	delete_unused(stream);
}

/* Drops whole pages of the kernel's, so that cleared memory is not resident, and writes the rest. */
static void clear(char *start, size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *end = start + size, *first = start + -(uintptr_t)start % page, *last = end - (uintptr_t)end % page;

	if (first < last && !madvise(first, (size_t)(last - first), MADV_REMOVE)) {
		memset(start, 0, (size_t)(first - start));
		start = last;
	}
	memset(start, 0, (size_t)(end - start));
}

REQUIRES(host_streams_lock)
static struct CUstream_st *pass_markers(struct CUstream_st *stream, struct CUstream_st *todo)
{
	struct item *item;

	while ((item = stream->head) && !is_work(item)) {
		if (item->kind == ITEM_CLEAR) {
			clear(item->task.data, item->task.size);
		} else if (item->kind == ITEM_COPY) {
			memcpy(item->task.data, item->task.from, item->task.size);
		} else if (item->kind == ITEM_RECORD) {
			if (item->record == item->event->records)
				todo = event_finish(item->event, todo);
		} else if (item->kind == ITEM_WAIT && !item->event->complete) {
			stream->next = item->event->waiting;
			item->event->waiting = stream;
			return todo;
		}
		pop(stream);
	}
	note_head(stream);
	return todo;
}

/*
 * Passes completed markers at the head of a stream, and of streams that waited for them. The head must not be a
 * pending wait.
 */
void host_queue_advance(struct CUstream_st *stream)
{
	struct CUstream_st *todo = stream;

	lock_assert_held(&host_streams_lock);
	stream->next = NULL;
	while ((stream = todo)) {
		todo = stream->next;
		todo = pass_markers(stream, todo);
	}
}

void host_queue_record(struct CUstream_st *stream, struct backend_event *event)
{
	bool first = !stream->head;

	lock_assert_held(&host_streams_lock);
	event->records++;
	event->complete = false;
	event->stream = stream;
	/* Behind nothing it is complete at once. */
	if (first && !event->waiting) {
		event->serial = ++pushes;
		event_finish(event, NULL);
		return;
	}
	event->serial = host_queue_push(stream, ITEM_RECORD, event)->serial;
	if (first)
		host_queue_advance(stream);
}

static enum item_kind kind_of(const struct host_task *task)
{
	if (task->clear)
		return ITEM_CLEAR;
	if (task->from)
		return ITEM_COPY;
	if (task->release)
		return ITEM_RELEASE;
	return task->timed ? ITEM_TIMED : ITEM_WORK;
}

void host_stream_push(struct CUstream_st *stream, const struct host_task *task)
{
	enum item_kind kind = kind_of(task);
	bool first = !stream->head;
	struct item *item;

	lock_assert_held(&host_streams_lock);
	item = host_queue_push(stream, kind, NULL);
	item->task = *task;
	item->stream = stream;
	item->work.data = item;
	if (is_work(item))
		stream->submitted++;
	if (has_memory(item)) {
		item->life = task->life ? host_life_ref(task->life) : NULL;
		add_work(item);
	}
	if (kind == ITEM_TIMED)
		host_clock_add(stream, item);
	if (first && kind != ITEM_WORK)
		host_queue_advance(stream);
}

void host_queue_launched(struct CUstream_st *stream, struct host_life *life)
{
	bool first = !stream->head;

	lock_assert_held(&host_streams_lock);
	host_queue_push(stream, ITEM_LAUNCHED, NULL)->life = host_life_ref(life);
	if (first)
		host_queue_advance(stream);
}

/* The work at the head has completed. A stream without a handle may be gone afterwards. */
REQUIRES(host_streams_lock)
static void finish_head(struct CUstream_st *stream)
{
	pop(stream);
	stream->completed++;
	host_queue_advance(stream);
}

/* Completes the work at the head of a stream, which the caller has a reference to. Drops the lock meanwhile. */
REQUIRES(host_streams_lock)
static void run_head(struct CUstream_st *stream)
{
	struct item *item = stream->head;

	if (item->task.fn) {
		stream->running = &host_queue_in_work;
		lock_release(&host_streams_lock);
		host_queue_in_work = true;
		lock_as_another(item->task.fn, item->task.data);
		host_queue_in_work = false;
		lock_acquire(&host_streams_lock);
		stream->running = NULL;
		pthread_cond_broadcast(&work_done);
	}
	finish_head(stream);
}

/* Completes the work of streams without handles, as far as it waits for nothing. */
void host_queue_run_orphans(void)
{
	struct CUstream_st *stream;

	lock_assert_held(&host_streams_lock);
	while (!held && (stream = ready_orphans)) {
		ready_orphans = stream->next_ready;
		stream->ready = false;
		stream->refs++;
		while (!held && !stream->running && stream->head && stream->head->kind == ITEM_WORK)
			run_head(stream);
		host_queue_unref(stream);
	}
}

/* Waits are for earlier records, so there is no cycle. */
struct CUstream_st *host_queue_holder(struct CUstream_st *stream)
{
	lock_assert_held(&host_streams_lock);
	while (stream->head->kind == ITEM_WAIT)
		stream = stream->head->event->stream;
	return stream;
}

struct CUstream_st *host_queue_busy(int device)
{
	struct CUstream_st *stream = host_streams;

	lock_assert_held(&host_streams_lock);
	while (stream && ((device != HOST_ANY_DEVICE && stream->device != device) || !stream->head))
		stream = stream->older;
	return stream;
}

int host_queue_not_in_work(const char *call)
{
	return host_queue_in_work ? error_set(-EBUSY, "a piece of work must not %s", call) : 0;
}

void host_queue_wait_for_work(void)
{
	lock_assert_held(&host_streams_lock);
	lock_wait(&host_streams_lock, &work_done);
}

void host_queue_hold(void)
{
	const struct CUstream_st *stream = host_streams;

	lock_assert_held(&host_streams_lock);
	held++;
	while (stream) {
		if (stream->running) {
			host_queue_wait_for_work();
			stream = host_streams;
		} else {
			stream = stream->older;
		}
	}
}

void host_queue_unhold(void)
{
	lock_assert_held(&host_streams_lock);
	held--;
	pthread_cond_broadcast(&work_done);
	host_queue_run_orphans();
}

bool host_queue_step(uint64_t limit)
{
	struct CUstream_st *stream;

	lock_assert_held(&host_streams_lock);
	if (!host_clock_move(limit))
		return false;
	while ((stream = host_clock_take()))
		finish_head(stream);
	host_queue_run_orphans();
	return true;
}

/* Completes up to @n pieces of those before the @last one. The caller has a reference. */
int host_queue_complete(struct CUstream_st *stream, uint64_t n, uint64_t last, bool timed)
{
	uint64_t completed;

	lock_assert_held(&host_streams_lock);
	while (n && stream->completed < MIN(last, stream->submitted)) {
		if (stream->running || held) {
			host_queue_wait_for_work();
		} else if (host_queue_holder(stream)->head->kind == ITEM_TIMED) {
			if (!timed)
				return 0;
			completed = stream->completed;
			host_queue_step(UINT64_MAX);
			n -= MIN(n, stream->completed - completed);
		} else if (stream->head->kind == ITEM_WAIT) {
			return error_set(-EBUSY, "stream %" PRIu64 " waits for stream %" PRIu64
					 "; pieces of work behind the wait: %" PRIu64, stream->id,
					 stream->head->event->stream->id, stream->submitted - stream->completed);
		} else {
			run_head(stream);
			n--;
		}
	}
	return 0;
}

void host_queue_get_on(struct CUstream_st *stream)
{
	lock_assert_held(&host_streams_lock);
	stream = host_queue_holder(stream);
	if (stream->running || held) {
		host_queue_wait_for_work();
		return;
	}
	if (stream->head->kind == ITEM_TIMED) {
		host_queue_step(UINT64_MAX);
		return;
	}
	stream->refs++;
	run_head(stream);
	host_queue_unref(stream);
}

/*
 * Marks the items of a queue up to a serial number, and notes the events that they wait for. A search comes here again,
 * for other events, and goes on from where it was.
 */
REQUIRES(host_streams_lock)
static void mark_queue(struct CUstream_st *stream, uint64_t last, GPtrArray *events)
{
	struct item *item = stream->search == searches ? stream->unmarked : stream->head;

	for (; item && item->serial <= last; item = item->next) {
		if (item->kind == ITEM_WAIT && !item->event->complete)
			g_ptr_array_add(events, item->event);
		item->seen = searches;
	}
	stream->search = searches;
	stream->unmarked = item;
}

/* Marks all that has to be done before a stream's next work. */
REQUIRES(host_streams_lock)
static void mark_before(struct CUstream_st *stream)
{
	GPtrArray *events = g_ptr_array_new();

	searches++;
	if (stream)
		mark_queue(stream, UINT64_MAX, events);
	while (events->len) {
		struct backend_event *event = g_ptr_array_steal_index_fast(events, events->len - 1);

		mark_queue(event->stream, event->serial, events);
	}
	g_ptr_array_free(events, TRUE);
}

/* Whether it is the program that orders it before what is captured. */
REQUIRES(host_streams_lock)
static bool is_of_other_graph(const struct item *item, const struct CUstream_st *stream)
{
	return stream && stream->capture && item->life && !host_life_is_destroyed(item->life);
}

GArray *host_queue_unordered(struct CUstream_st *stream)
{
	GArray *found;

	lock_assert_held(&host_streams_lock);
	if (!works.head)
		return NULL;
	mark_before(stream && !stream->capture ? stream : NULL);
	found = g_array_new(FALSE, FALSE, sizeof(struct host_pending));
	for (const GList *link = works.head; link; link = link->next) {
		const struct item *item = link->data;
		const struct host_pending pending = { .stream = item->stream->id, .to = (uintptr_t)item->task.data,
						      .from = (uintptr_t)item->task.from, .size = item->task.size,
						      .released = item->task.release };

		if (item->seen != searches && !is_of_other_graph(item, stream))
			g_array_append_val(found, pending);
	}
	return found;
}

/*
 * Work that a thread had begun which the child lacks is pending again. The condition is new: the old one counts the
 * parent's waiters, and a broadcast would wait for them.
 */
void host_queue_forked(void)
{
	struct CUstream_st *stream, *next;

	pthread_cond_init(&work_done, NULL);
	for (stream = host_streams; stream; stream = next) {
		next = stream->older;
		if (!stream->running || stream->running == &host_queue_in_work)
			continue;
		stream->running = NULL;
		note_head(stream);
	}
}
