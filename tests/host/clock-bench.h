/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the tests of the virtual clock of the host backend are written with. */
#ifndef CLOCK_BENCH_H
#define CLOCK_BENCH_H

#include "host/host-bench.h"
#include "host/streams.h"
#include "vpmm.h"

/* Streams that a test uses, and the time at which it started: the process has one clock for all tests. */
struct bench {
	struct backend *be;
	struct CUstream_st *streams[3];
	uint64_t start;
};

static inline void bench_open(struct bench *b)
{
	set("64M", "2", "77");
	b->be = open_entered(0);
	for (int i = 0; i < 3; i++)
		b->streams[i] = stream_new();
	b->start = vpmm_host_time();
}

static inline void bench_close(struct bench *b)
{
	for (int i = 0; i < 3; i++)
		destroy(b->streams[i]);
	assert_ok(vpmm_host_time_finish());
	close_left(b->be);
}

static inline void submit_for(struct CUstream_st *stream, enum vpmm_host_engine engine, uint64_t ns)
{
	assert_ok(vpmm_host_stream_submit_for(stream, engine, ns));
}

static inline struct backend_event *record(const struct bench *b, struct CUstream_st *stream)
{
	struct backend_event *event;

	assert_ok(ops->event_create(b->be, &event));
	assert_ok(ops->event_record(b->be, event, stream));
	return event;
}

static inline uint64_t elapsed(const struct bench *b)
{
	return vpmm_host_time() - b->start;
}

/* When an event completed, counted from the start of the test; destroys it. */
static inline uint64_t completed_at(const struct bench *b, struct backend_event *event)
{
	uint64_t ns = UNTOUCHED;

	assert_ok(host_event_time(event, &ns));
	ops->event_destroy(b->be, event);
	return ns - b->start;
}

#endif /* CLOCK_BENCH_H */
