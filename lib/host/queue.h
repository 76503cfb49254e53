/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The queues behind the streams of the host backend, for the files that share their lock. */
#ifndef HOST_QUEUE_H
#define HOST_QUEUE_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/lock.h"
#include "vpmm-host.h"

/* How many engines a device has: the values of enum vpmm_host_engine. */
#define HOST_ENGINES 3

struct host_capture;
struct host_life;

struct backend_event {
	unsigned int refs;
	uint64_t records;		/* times it was recorded; only the last counts */
	unsigned int waits;		/* waits for it in queues, and threads that wait */
	bool timed;			/* its time may be asked for through the backend */
	uint64_t serial;		/* of the item of the last record */
	bool complete;
	uint64_t time;			/* on the virtual clock, when it completed */
	struct CUstream_st *stream;	/* the stream whose queue has its marker, if any */
	struct CUstream_st *waiting;	/* streams whose head waits for it */
};

/* A task of a stream: done once, or, if captured, at every launch of the graph. */
struct host_task {
	bool clear;			/* set @size bytes at @data to zero */
	bool release;			/* the program frees @size bytes at @data: nothing is done */
	const void *from;		/* copy @size bytes from here to @data; NULL and none of these: a piece of work */
	bool timed;			/* work of @ns for an engine; otherwise it ends when it is told to */
	enum vpmm_host_engine engine;
	uint64_t ns;
	vpmm_host_fn fn;		/* called by the piece of work; NULL: nothing */
	void *data;
	size_t size;
	struct host_life *life;		/* of the graph that is launched; NULL: it is no graph's */
};

enum item_kind {
	ITEM_WORK,
	ITEM_TIMED,
	ITEM_CLEAR,
	ITEM_COPY,
	ITEM_RELEASE,
	ITEM_RECORD,
	ITEM_WAIT,
	ITEM_LAUNCHED
};

/* An entry of a stream's queue. */
struct item {
	struct item *next;
	enum item_kind kind;
	struct host_task task;
	struct backend_event *event;
	uint64_t serial;		/* in the order in which items came into queues */
	uint64_t record;		/* the number of the event's record */
	struct host_life *life;		/* of the graph whose clear or copy it is, or whose launch ends here */
	GList work;			/* of a clear, a copy or a release, among all of them */
	uint64_t seen;			/* the last search of host_queue_unordered() that has met it */
	struct CUstream_st *stream;	/* of a clear, a copy, a release or timed work; the next two are timed work's alone */
	uint64_t number;		/* in the order of submission */
	uint64_t at;			/* when it became ready; once it runs, when it completes */
};

/*
 * Between calls, the head of a queue is a piece of work, or a wait for an event that is not complete. In the latter
 * case the stream is in that event's list. A timed piece at the head is with its engine, see clock.h.
 */
struct CUstream_st {
	uint64_t id;
	int device;
	unsigned int refs;		/* its handle, and threads that work on it */
	bool legacy;			/* the default stream of its device */
	bool orphan;			/* its handle is gone: its work completes as soon as it can */
	const bool *running;		/* host_queue_in_work of the thread that is in the function of the head; NULL: none */
	bool ready;			/* in ready_orphans */
	bool loose;			/* has captured work that the capture's first stream does not wait for */
	struct host_capture *capture;	/* NULL: none */
	struct item *head;
	struct item **tail;
	uint64_t submitted;		/* pieces of work, ever */
	uint64_t completed;
	uint64_t search;		/* the last search of host_queue_unordered() that came here */
	struct item *unmarked;		/* the first item that it has not marked; NULL: none */
	struct CUstream_st *next;	/* in an event's list, or in advance()'s */
	struct CUstream_st *older;	/* in host_streams */
	struct CUstream_st *newer;
	struct CUstream_st *next_ready;
};

/* One lock for all streams, as a wait or a completion goes through several; acquired by host_acquire(). */
extern struct lock host_streams_lock;

/* All streams, the newest first. */
extern struct CUstream_st *host_streams GUARDED_BY(host_streams_lock);

/* How many events there are. */
extern uint64_t host_event_total GUARDED_BY(host_streams_lock);

/* Whether this thread is in the function of a piece of work. */
extern _Thread_local bool host_queue_in_work;

/**
 * host_queue_new() - make a stream
 * @device: ordinal
 *
 * Return: the stream, with one reference.
 */
struct CUstream_st *host_queue_new(int device) REQUIRES(host_streams_lock);

/**
 * host_queue_renumber() - make a stream another one to those who know it by its number
 * @stream: the stream
 */
void host_queue_renumber(struct CUstream_st *stream) REQUIRES(host_streams_lock);

/**
 * host_queue_unref() - drop a reference; the stream is freed without references and with an empty queue
 * @stream: the stream
 */
void host_queue_unref(struct CUstream_st *stream) REQUIRES(host_streams_lock);

/**
 * host_queue_push() - append to a queue
 * @stream: the stream
 * @kind: what is appended
 * @event: the event of a record or of a wait; NULL: none
 *
 * If the item becomes the head and is no piece of work, call host_queue_advance() next.
 *
 * Return: the item.
 */
struct item *host_queue_push(struct CUstream_st *stream, enum item_kind kind, struct backend_event *event)
	REQUIRES(host_streams_lock);

/**
 * host_queue_record() - record an event behind all that is in a queue
 * @stream: the stream
 * @event: the event
 */
void host_queue_record(struct CUstream_st *stream, struct backend_event *event) REQUIRES(host_streams_lock);

/**
 * host_queue_advance() - pass completed markers at the head of a stream, and of streams that waited for them
 * @stream: the stream, whose head is no pending wait
 */
void host_queue_advance(struct CUstream_st *stream) REQUIRES(host_streams_lock);

/**
 * host_queue_step() - move the clock to the next completion of timed work, and pass all that completes then
 * @limit: the time that the clock moves to at most
 *
 * Streams without handles go on at that time. For what they call the lock is dropped, so that other threads may have
 * moved the clock further.
 *
 * Return: whether there was one; if not, the clock has not moved.
 */
bool host_queue_step(uint64_t limit) REQUIRES(host_streams_lock);

/**
 * host_queue_holder() - the stream that has to get on before another one can
 * @stream: the other one, whose queue is not empty
 *
 * Return: the stream, whose head is a piece of work; @stream itself, if it waits for no other.
 */
struct CUstream_st *host_queue_holder(struct CUstream_st *stream) REQUIRES(host_streams_lock);

#define HOST_ANY_DEVICE (-1)

/**
 * host_queue_busy() - find a stream with something in its queue
 * @device: ordinal of its device, or HOST_ANY_DEVICE
 *
 * Return: the stream; NULL: there is none.
 */
struct CUstream_st *host_queue_busy(int device) REQUIRES(host_streams_lock);

/**
 * host_queue_not_in_work() - refuse a call that would wait for the piece of work that makes it
 * @call: what it is to do, for the error's sentence
 *
 * Return: 0, or -EBUSY in the function of a piece of work.
 */
int host_queue_not_in_work(const char *call);

/**
 * host_queue_run_orphans() - complete the work of streams without handles, as far as it waits for nothing
 */
void host_queue_run_orphans(void) REQUIRES(host_streams_lock);

/**
 * host_queue_complete() - complete pieces of work
 * @stream: the stream, with a reference of the caller
 * @n: how many at most
 * @last: the number of the last piece to complete
 * @timed: whether to move the clock for timed work; otherwise the call returns 0 where only that could go on
 *
 * Return: 0, or -EBUSY if the next piece waits for a piece of another stream that is not timed.
 */
int host_queue_complete(struct CUstream_st *stream, uint64_t n, uint64_t last, bool timed)
	REQUIRES(host_streams_lock);

/**
 * host_queue_get_on() - complete one piece of work that a stream waits for, or wait for a thread that does
 * @stream: the stream, whose queue is not empty
 *
 * For timed work it moves the clock one step, which may complete work of any stream.
 */
void host_queue_get_on(struct CUstream_st *stream) REQUIRES(host_streams_lock);

/**
 * host_event_drop() - drop a reference to an event; the last frees it
 * @event: the event
 */
void host_event_drop(struct backend_event *event) REQUIRES(host_streams_lock);

/**
 * host_queue_wait_for_work() - wait until a thread has left the function of a piece of work
 */
void host_queue_wait_for_work(void) REQUIRES(host_streams_lock);

/**
 * host_queue_hold() - let no stream begin a piece of work, and wait for those that have begun one
 *
 * Copies, clears and events go on.
 */
void host_queue_hold(void) REQUIRES(host_streams_lock);

/**
 * host_queue_unhold() - undo one host_queue_hold()
 */
void host_queue_unhold(void) REQUIRES(host_streams_lock);

/**
 * host_queue_launched() - note the end of a launch, until which the graph lives
 * @stream: the stream, which has got the tasks of the graph
 * @life: the life of the graph
 */
void host_queue_launched(struct CUstream_st *stream, struct host_life *life) REQUIRES(host_streams_lock);

/**
 * host_stream_push() - submit a task, without regard to captures
 * @stream: the stream
 * @task: the task
 */
void host_stream_push(struct CUstream_st *stream, const struct host_task *task) REQUIRES(host_streams_lock);

/**
 * struct host_pending - a clear, a copy or a release that is in a queue
 * @stream: the stream's number
 * @to: where it writes, or what the program frees
 * @from: where a copy reads; 0: it is none
 * @size: bytes
 * @released: it is a release
 */
struct host_pending {
	uint64_t stream;
	uint64_t to;
	uint64_t from;
	size_t size;
	bool released;
};

/* How many of these are in queues. What a thread submits without the lock is ordered after nothing here. */
extern _Atomic unsigned int host_queue_works_count;

/**
 * host_queue_unordered() - list those that need not be done before a stream's next work
 * @stream: the stream; NULL, or one under capture: no work comes before
 *
 * Graphs may share memory, if the program launches them one after another, see vpmm_capture_group(). So what a capture
 * has need not come after launches of graphs that exist.
 *
 * Return: of struct host_pending; NULL: none is in a queue.
 */
GArray *host_queue_unordered(struct CUstream_st *stream) REQUIRES(host_streams_lock);

/**
 * host_queue_forked() - go on in a child with the streams of its parent
 */
void host_queue_forked(void) REQUIRES(host_streams_lock);

#endif /* HOST_QUEUE_H */
