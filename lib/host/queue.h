/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What streams of the host backend are made of, for the files that work on them under their one lock. */
#ifndef HOST_QUEUE_H
#define HOST_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/lock.h"
#include "vpmm-host.h"

struct backend_event;
struct host_capture;

/* What a stream is told to do, at once, or, captured, at every launch of the graph. */
struct host_task {
	bool clear;			/* set @size bytes at @data to zero; this is no piece of work */
	vpmm_host_fn fn;		/* what the piece of work calls; NULL: nothing */
	void *data;
	size_t size;
};

enum item_kind {
	ITEM_WORK,
	ITEM_CLEAR,
	ITEM_RECORD,
	ITEM_WAIT
};

/* One place in a stream's queue. */
struct item {
	struct item *next;
	enum item_kind kind;
	struct host_task task;
	struct backend_event *event;
	uint64_t record;		/* which of the event's records it is */
};

/*
 * After every call, the head of a queue is a piece of work, or a wait for an event that is not complete; the stream is
 * then in that event's list.
 */
struct CUstream_st {
	uint64_t id;
	int device;
	unsigned int refs;		/* whoever can name it, and threads that work on it */
	bool legacy;			/* the default stream of its device */
	bool orphan;			/* nobody can name it any more: its work completes as soon as it can */
	bool running;			/* a thread is in the function of the head */
	bool ready;			/* in ready_orphans */
	bool loose;			/* has captured what the capture's first stream is not behind */
	struct host_capture *capture;	/* NULL: none */
	struct item *head;
	struct item **tail;
	uint64_t submitted;		/* pieces of work, ever */
	uint64_t completed;
	struct CUstream_st *next;	/* in an event's list, or in advance()'s */
	struct CUstream_st *older;	/* in host_streams */
	struct CUstream_st *newer;
	struct CUstream_st *next_ready;
};

/* One lock for all streams, as a wait or a completion goes through several. */
extern struct lock host_streams_lock;

/* All streams, the newest first. */
extern struct CUstream_st *host_streams GUARDED_BY(host_streams_lock);

/**
 * host_stream_resolve() - the stream that a handle stands for
 * @device: ordinal
 * @handle: the handle
 *
 * Return: the stream; NULL after error_set() of -EINVAL if it is none.
 */
struct CUstream_st *host_stream_resolve(int device, struct CUstream_st *handle) REQUIRES(host_streams_lock);

/**
 * host_stream_push() - append what a stream is to do, without regard to captures
 * @stream: the stream
 * @task: what it is to do
 */
void host_stream_push(struct CUstream_st *stream, const struct host_task *task) REQUIRES(host_streams_lock);

#endif /* HOST_QUEUE_H */
