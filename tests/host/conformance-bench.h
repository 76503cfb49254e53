/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the checks of the conformance suite are written with. */
#ifndef CONFORMANCE_BENCH_H
#define CONFORMANCE_BENCH_H

#include <errno.h>
#include <glib.h>
#include <string.h>

#include "backend/backend.h"
#include "host/conformance.h"
#include "support/assert.h"
#include "util/error.h"

#define STREAM_LEGACY ((struct CUstream_st *)0x1)
#define STREAM_PER_THREAD ((struct CUstream_st *)0x2)
#define UNTOUCHED 0x5a5a5a5a5a5a5a5aull
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

/* What a check works with. */
struct bench {
	struct backend *be;
	const struct backend_ops *ops;
	const struct conformance_device *device;
	size_t page;			/* the granularity */
};

#define assert_refused(call, err)							\
	do {										\
		int ret_;								\
		errno = 0;								\
		error_set(0, "%s", "");							\
		ret_ = (call);								\
		g_assert_cmpint(ret_, ==, err);						\
		g_assert_cmpint(errno, ==, -(err));					\
		g_assert_cmpstr(error_get(), !=, "");					\
	} while (0)

/* A driver refuses it in one way or another; the host backend says which. */
#define assert_invalid(b, call)								\
	do {										\
		int why_ = (call);							\
		g_assert_cmpint(why_, <, 0);						\
		if ((b)->device->strict)						\
			g_assert_cmpint(why_, ==, -EINVAL);				\
	} while (0)

static inline uint64_t reserve(struct bench *b, size_t pages)
{
	uint64_t va = UNTOUCHED;

	assert_ok(b->ops->reserve(b->be, pages * b->page, b->page, &va));
	return va;
}

static inline void unreserve(struct bench *b, uint64_t va, size_t pages)
{
	assert_ok(b->ops->unreserve(b->be, va, pages * b->page));
}

static inline uint64_t create(struct bench *b, size_t pages)
{
	uint64_t handle = UNTOUCHED;

	assert_ok(b->ops->create(b->be, pages * b->page, &handle));
	return handle;
}

static inline void release(struct bench *b, uint64_t handle)
{
	assert_ok(b->ops->release(b->be, handle));
}

static inline void unmap(struct bench *b, uint64_t va, size_t pages)
{
	assert_ok(b->ops->unmap(b->be, va, pages * b->page, NULL));
}

static inline void map(struct bench *b, uint64_t va, size_t pages, uint64_t handle)
{
	assert_ok(b->ops->map(b->be, va, pages * b->page, handle));
}

static inline void map_access(struct bench *b, uint64_t va, size_t pages, uint64_t handle)
{
	map(b, va, pages, handle);
	assert_ok(b->ops->access(b->be, va, pages * b->page));
}

static inline void put(struct bench *b, uint64_t va, uint64_t value)
{
	assert_ok(b->device->write(va, &value, sizeof(value)));
}

static inline uint64_t get(struct bench *b, uint64_t va)
{
	uint64_t value = UNTOUCHED;

	assert_ok(b->device->read(va, &value, sizeof(value)));
	return value;
}

static inline bool reachable(struct bench *b, uint64_t va, bool otherwise)
{
	return b->device->reachable ? b->device->reachable(va) : otherwise;
}

static inline uint64_t memory_free(struct bench *b)
{
	struct backend_info info;

	assert_ok(b->ops->info(b->be, &info));
	return info.memory_free;
}

static inline uint64_t memory_total(struct bench *b)
{
	struct backend_info info;

	assert_ok(b->ops->info(b->be, &info));
	return info.memory_total;
}

static inline struct CUstream_st *stream_new(struct bench *b)
{
	struct CUstream_st *stream = NULL;

	assert_ok(b->device->stream_create(&stream));
	return stream;
}

static inline void stream_end(struct bench *b, struct CUstream_st *stream)
{
	assert_ok(b->device->finish(stream));
	assert_ok(b->device->stream_destroy(stream));
}

static inline uint64_t stream_id(struct bench *b, struct CUstream_st *stream)
{
	uint64_t id = UNTOUCHED;

	assert_ok(b->ops->stream_id(b->be, stream, &id));
	return id;
}

static inline struct backend_event *record(struct bench *b, struct CUstream_st *stream)
{
	struct backend_event *event = NULL;

	assert_ok(b->ops->event_create(b->be, &event));
	assert_ok(b->ops->event_record(b->be, event, stream));
	return event;
}

static inline struct backend_event *record_timed(struct bench *b, struct CUstream_st *stream)
{
	struct backend_event *event = NULL;

	assert_ok(b->ops->event_create_timed(b->be, &event));
	assert_ok(b->ops->event_record(b->be, event, stream));
	return event;
}

static inline int64_t elapsed(struct bench *b, struct backend_event *start, struct backend_event *end)
{
	int64_t ns = INT64_MIN;

	assert_ok(b->ops->event_elapsed(b->be, start, end, &ns));
	return ns;
}

static inline bool is_complete(struct bench *b, struct backend_event *event)
{
	int complete = -1;

	assert_ok(b->ops->event_query(b->be, event, &complete));
	g_assert_true(complete == 0 || complete == 1);
	return complete;
}

/* Waits for what a device may take its time for; the host backend has to have done it. */
static inline void assert_completes(struct bench *b, struct backend_event *event)
{
	if (!b->device->strict)
		assert_ok(b->ops->event_sync(b->be, event));
	g_assert_true(is_complete(b, event));
	assert_ok(b->ops->event_sync(b->be, event));
}

static inline uint64_t small_alloc(struct bench *b, size_t size, struct CUstream_st *stream)
{
	uint64_t va = UNTOUCHED;

	assert_ok(b->ops->small_alloc(b->be, size, stream, &va));
	g_assert_cmpuint(va % 256, ==, 0);
	return va;
}

static inline void small_free(struct bench *b, uint64_t va, struct CUstream_st *stream)
{
	assert_ok(b->ops->small_free(b->be, va, stream));
}

/* A check, and whether only a backend that enforces every rule can pass. A table ends with a NULL name. */
struct check {
	const char *name;
	bool strict;
	void (*run)(struct bench *b);
};

extern const struct check checks_of_clearing[];
extern const struct check checks_of_captures[];
extern const struct check checks_of_exports[];
extern const struct check checks_of_peers[];
extern const struct check checks_of_memory[];
extern const struct check checks_of_streams[];
extern const struct check checks_of_small[];

#endif /* CONFORMANCE_BENCH_H */
