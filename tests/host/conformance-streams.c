// SPDX-License-Identifier: LGPL-2.1-or-later
#include "host/conformance-bench.h"

static void check_stream_ids(struct bench *b)
{
	struct CUstream_st *first = stream_new(b), *second = stream_new(b);
	uint64_t id = stream_id(b, NULL);

	g_assert_cmpuint(stream_id(b, STREAM_LEGACY), ==, id);
	g_assert_cmpuint(stream_id(b, STREAM_PER_THREAD), !=, id);
	g_assert_cmpuint(stream_id(b, STREAM_PER_THREAD), ==, stream_id(b, STREAM_PER_THREAD));
	g_assert_cmpuint(stream_id(b, first), !=, id);
	g_assert_cmpuint(stream_id(b, first), !=, stream_id(b, STREAM_PER_THREAD));
	g_assert_cmpuint(stream_id(b, first), !=, stream_id(b, second));
	g_assert_cmpuint(stream_id(b, first), ==, stream_id(b, first));
	stream_end(b, first);
	stream_end(b, second);
}

static void check_stream_ids_not_reused(struct bench *b)
{
	GHashTable *ids = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
	int i;

	for (i = 0; i < 100; i++) {
		struct CUstream_st *stream = stream_new(b);
		uint64_t *id = g_new(uint64_t, 1);

		*id = stream_id(b, stream);
		g_assert_true(g_hash_table_add(ids, id));
		stream_end(b, stream);
	}
	g_hash_table_destroy(ids);
}

static gpointer per_thread_id(gpointer data)
{
	struct bench *b = data;
	uint64_t *id = g_new(uint64_t, 1);

	assert_ok(b->ops->enter(b->be));
	*id = stream_id(b, STREAM_PER_THREAD);
	b->ops->event_destroy(b->be, record(b, STREAM_PER_THREAD));
	b->ops->leave(b->be);
	return id;
}

static void check_stream_per_thread(struct bench *b)
{
	uint64_t own = stream_id(b, STREAM_PER_THREAD);
	uint64_t *first = g_thread_join(g_thread_new("first", per_thread_id, b));
	uint64_t *second = g_thread_join(g_thread_new("second", per_thread_id, b));

	g_assert_cmpuint(*first, !=, own);
	g_assert_cmpuint(*second, !=, own);
	g_assert_cmpuint(*first, !=, *second);
	g_free(first);
	g_free(second);
}

static void check_stream_bad(struct bench *b)
{
	struct CUstream_st *dead = stream_new(b);
	struct CUstream_st *bad[] = { dead, (struct CUstream_st *)&dead, (struct CUstream_st *)0x3 };
	uint64_t value = UNTOUCHED, va = small_alloc(b, 100, NULL);
	struct backend_event *event, *recorded = record(b, NULL);
	size_t i;

	stream_end(b, dead);
	assert_ok(b->ops->event_create(b->be, &event));
	for (i = 0; i < G_N_ELEMENTS(bad); i++) {
		assert_refused(b->ops->stream_id(b->be, bad[i], &value), -EINVAL);
		assert_refused(b->ops->stream_wait(b->be, bad[i], recorded), -EINVAL);
		assert_refused(b->ops->event_record(b->be, event, bad[i]), -EINVAL);
		assert_refused(b->ops->small_alloc(b->be, 100, bad[i], &value), -EINVAL);
		assert_refused(b->ops->small_free(b->be, va, bad[i]), -EINVAL);
	}

	g_assert_cmpuint(value, ==, UNTOUCHED);
	assert_ok(b->ops->event_record(b->be, event, NULL));
	small_free(b, va, NULL);
	b->ops->event_destroy(b->be, event);
	b->ops->event_destroy(b->be, recorded);
}

static void check_event_of_idle_stream(struct bench *b)
{
	struct CUstream_st *stream = stream_new(b);
	struct backend_event *event = record(b, stream), *other = record(b, NULL), *own = record(b, STREAM_PER_THREAD);

	assert_completes(b, event);
	assert_completes(b, other);
	assert_completes(b, own);
	b->ops->event_destroy(b->be, event);
	b->ops->event_destroy(b->be, other);
	b->ops->event_destroy(b->be, own);
	stream_end(b, stream);
}

static void event_follows_work(struct bench *b, struct CUstream_st *stream)
{
	struct backend_event *before = record(b, stream), *event, *later;

	assert_ok(b->device->hold(stream));
	event = record(b, stream);
	later = record(b, stream);
	assert_completes(b, before);
	g_assert_false(is_complete(b, event));
	g_assert_false(is_complete(b, later));
	assert_ok(b->device->finish(stream));
	assert_completes(b, event);
	assert_completes(b, later);
	assert_ok(b->device->hold(stream));
	g_assert_true(is_complete(b, event));

	assert_ok(b->device->finish(stream));
	b->ops->event_destroy(b->be, before);
	b->ops->event_destroy(b->be, event);
	b->ops->event_destroy(b->be, later);
}

static void check_event_follows_work(struct bench *b)
{
	struct CUstream_st *stream = stream_new(b);

	event_follows_work(b, stream);
	event_follows_work(b, NULL);
	event_follows_work(b, STREAM_PER_THREAD);
	stream_end(b, stream);
}

static void check_event_of_busy_stream_only(struct bench *b)
{
	struct CUstream_st *busy = stream_new(b), *idle = stream_new(b);
	struct backend_event *event;

	assert_ok(b->device->hold(busy));
	event = record(b, idle);
	assert_completes(b, event);
	b->ops->event_destroy(b->be, event);
	stream_end(b, busy);
	stream_end(b, idle);
}

static void check_event_outlives_stream(struct bench *b)
{
	struct CUstream_st *stream = stream_new(b), *other = stream_new(b);
	struct backend_event *event;

	assert_ok(b->device->hold(stream));
	event = record(b, stream);
	stream_end(b, stream);

	assert_ok(b->ops->event_sync(b->be, event));
	g_assert_true(is_complete(b, event));
	assert_ok(b->ops->stream_wait(b->be, other, event));
	b->ops->event_destroy(b->be, event);
	stream_end(b, other);
}

static void check_event_destroyed_pending(struct bench *b)
{
	struct CUstream_st *stream = stream_new(b), *other = stream_new(b);
	struct backend_event *event, *behind, *unrecorded;

	assert_ok(b->ops->event_create(b->be, &unrecorded));
	b->ops->event_destroy(b->be, unrecorded);
	assert_ok(b->device->hold(stream));
	event = record(b, stream);
	assert_ok(b->ops->stream_wait(b->be, other, event));
	b->ops->event_destroy(b->be, event);
	behind = record(b, other);

	g_assert_false(is_complete(b, behind));
	assert_ok(b->device->finish(stream));
	assert_completes(b, behind);
	b->ops->event_destroy(b->be, behind);
	stream_end(b, stream);
	stream_end(b, other);
}

static void check_event_bad(struct bench *b)
{
	struct CUstream_st *stream = stream_new(b);
	struct backend_event *event;
	int complete = 7;

	assert_ok(b->ops->event_create(b->be, &event));
	assert_refused(b->ops->event_query(b->be, event, &complete), -EINVAL);
	assert_refused(b->ops->event_sync(b->be, event), -EINVAL);
	assert_refused(b->ops->stream_wait(b->be, stream, event), -EINVAL);
	g_assert_cmpint(complete, ==, 7);
	assert_ok(b->device->hold(stream));
	assert_ok(b->ops->event_record(b->be, event, stream));
	assert_ok(b->ops->stream_wait(b->be, NULL, event));
	assert_refused(b->ops->event_record(b->be, event, stream), -EINVAL);
	assert_ok(b->device->finish(stream));
	g_assert_true(is_complete(b, event));
	b->ops->event_destroy(b->be, event);
	stream_end(b, stream);
}

static void check_event_recorded_again(struct bench *b)
{
	struct CUstream_st *first = stream_new(b), *second = stream_new(b);
	struct backend_event *event = record(b, first);

	assert_completes(b, event);
	assert_ok(b->device->hold(first));
	assert_ok(b->ops->event_record(b->be, event, first));
	g_assert_false(is_complete(b, event));
	assert_ok(b->ops->event_record(b->be, event, second));
	assert_completes(b, event);
	assert_ok(b->device->hold(second));
	assert_ok(b->ops->event_record(b->be, event, second));
	assert_ok(b->device->finish(first));
	g_assert_false(is_complete(b, event));
	assert_ok(b->device->finish(second));
	assert_completes(b, event);
	b->ops->event_destroy(b->be, event);
	stream_end(b, first);
	stream_end(b, second);
}

/* An event that keeps time is an event like any other. */
static void check_timed_event_follows_work(struct bench *b)
{
	struct CUstream_st *stream = stream_new(b), *other = stream_new(b);
	struct backend_event *event, *behind;

	assert_ok(b->device->hold(stream));
	event = record_timed(b, stream);
	assert_ok(b->ops->stream_wait(b->be, other, event));
	behind = record_timed(b, other);
	g_assert_false(is_complete(b, event));
	g_assert_false(is_complete(b, behind));
	assert_ok(b->device->finish(stream));
	assert_completes(b, event);
	assert_completes(b, behind);
	b->ops->event_destroy(b->be, event);
	b->ops->event_destroy(b->be, behind);
	stream_end(b, stream);
	stream_end(b, other);
}

static void check_elapsed_pending(struct bench *b)
{
	struct CUstream_st *stream = stream_new(b);
	struct backend_event *start = record_timed(b, stream), *end;
	int64_t ns = INT64_MIN;

	assert_ok(b->device->hold(stream));
	end = record_timed(b, stream);
	assert_refused(b->ops->event_elapsed(b->be, start, end, &ns), -EBUSY);
	assert_refused(b->ops->event_elapsed(b->be, end, start, &ns), -EBUSY);
	g_assert_cmpint(ns, ==, INT64_MIN);
	assert_ok(b->device->finish(stream));
	b->ops->event_destroy(b->be, start);
	b->ops->event_destroy(b->be, end);
	stream_end(b, stream);
}

static void check_elapsed(struct bench *b)
{
	struct CUstream_st *first = stream_new(b), *second = stream_new(b);
	struct backend_event *start = record_timed(b, first), *end, *behind;

	assert_ok(b->device->hold(first));
	end = record_timed(b, first);
	assert_ok(b->ops->stream_wait(b->be, second, end));
	behind = record_timed(b, second);
	assert_ok(b->device->finish(first));
	assert_ok(b->ops->event_sync(b->be, behind));

	g_assert_cmpint(elapsed(b, start, start), ==, 0);
	g_assert_cmpint(elapsed(b, start, end), >=, 0);
	g_assert_cmpint(elapsed(b, start, behind), >=, elapsed(b, start, end));
	g_assert_cmpint(elapsed(b, end, start), ==, -elapsed(b, start, end));
	b->ops->event_destroy(b->be, start);
	b->ops->event_destroy(b->be, end);
	b->ops->event_destroy(b->be, behind);
	stream_end(b, first);
	stream_end(b, second);
}

/* Whatever becomes of destroyed events, one that was asked to keep time does. */
static void check_elapsed_after_others(struct bench *b)
{
	struct backend_event *timed[4], *plain[4];
	int round, i;

	for (round = 0; round < 3; round++) {
		for (i = 0; i < 4; i++) {
			plain[i] = record(b, NULL);
			timed[i] = record_timed(b, NULL);
		}
		assert_ok(b->ops->event_sync(b->be, timed[3]));
		for (i = 0; i < 4; i++)
			g_assert_cmpint(elapsed(b, timed[0], timed[i]), >=, 0);
		for (i = 0; i < 4; i++) {
			b->ops->event_destroy(b->be, round % 2 ? timed[i] : plain[i]);
			b->ops->event_destroy(b->be, round % 2 ? plain[i] : timed[i]);
		}
	}
}

static void check_elapsed_bad(struct bench *b)
{
	struct backend_event *timed = record_timed(b, NULL), *plain = record(b, NULL), *unrecorded;
	int64_t ns = INT64_MIN;

	assert_ok(b->ops->event_create_timed(b->be, &unrecorded));
	assert_refused(b->ops->event_elapsed(b->be, timed, plain, &ns), -EINVAL);
	assert_refused(b->ops->event_elapsed(b->be, plain, timed, &ns), -EINVAL);
	assert_refused(b->ops->event_elapsed(b->be, timed, unrecorded, &ns), -EINVAL);
	assert_refused(b->ops->event_elapsed(b->be, unrecorded, timed, &ns), -EINVAL);
	b->ops->leave(b->be);
	assert_refused(b->ops->event_elapsed(b->be, timed, timed, &ns), -EINVAL);
	assert_refused(b->ops->event_create_timed(b->be, &plain), -EINVAL);
	assert_ok(b->ops->enter(b->be));
	g_assert_cmpint(ns, ==, INT64_MIN);
	b->ops->event_destroy(b->be, timed);
	b->ops->event_destroy(b->be, plain);
	b->ops->event_destroy(b->be, unrecorded);
}

static void check_sync(struct bench *b)
{
	struct CUstream_st *first = stream_new(b), *second = stream_new(b), *gone = stream_new(b);
	struct backend_event *event, *behind, *last;

	assert_ok(b->ops->sync(b->be));
	assert_ok(b->device->hold(first));
	event = record(b, first);
	assert_ok(b->ops->stream_wait(b->be, second, event));
	assert_ok(b->ops->stream_wait(b->be, gone, event));
	behind = record(b, second);
	last = record(b, gone);
	assert_ok(b->device->finish(first));
	assert_ok(b->device->stream_destroy(gone));
	assert_ok(b->ops->sync(b->be));
	g_assert_true(is_complete(b, event));
	g_assert_true(is_complete(b, behind));
	g_assert_true(is_complete(b, last));
	b->ops->event_destroy(b->be, event);
	b->ops->event_destroy(b->be, behind);
	b->ops->event_destroy(b->be, last);
	stream_end(b, first);
	stream_end(b, second);
}

static void check_wait(struct bench *b)
{
	struct CUstream_st *first = stream_new(b), *second = stream_new(b), *third = stream_new(b);
	struct backend_event *event, *behind, *last;

	assert_ok(b->device->hold(first));
	event = record(b, first);
	assert_ok(b->ops->stream_wait(b->be, second, event));
	behind = record(b, second);
	assert_ok(b->ops->stream_wait(b->be, third, behind));
	last = record(b, third);
	g_assert_false(is_complete(b, behind));
	g_assert_false(is_complete(b, last));
	assert_ok(b->device->finish(first));

	assert_completes(b, last);
	g_assert_true(is_complete(b, behind));
	g_assert_true(is_complete(b, event));
	b->ops->event_destroy(b->be, event);
	b->ops->event_destroy(b->be, behind);
	b->ops->event_destroy(b->be, last);
	stream_end(b, first);
	stream_end(b, second);
	stream_end(b, third);
}

static void check_wait_is_for_later_work(struct bench *b)
{
	struct CUstream_st *first = stream_new(b), *second = stream_new(b);
	struct backend_event *event, *before;

	assert_ok(b->device->hold(first));
	event = record(b, first);
	before = record(b, second);
	assert_ok(b->ops->stream_wait(b->be, second, event));
	assert_completes(b, before);
	b->ops->event_destroy(b->be, event);
	b->ops->event_destroy(b->be, before);
	stream_end(b, first);
	stream_end(b, second);
}

static void check_wait_for_complete(struct bench *b)
{
	struct CUstream_st *first = stream_new(b), *second = stream_new(b);
	struct backend_event *event = record(b, first), *behind;

	assert_ok(b->ops->event_sync(b->be, event));
	assert_ok(b->device->hold(first));
	assert_ok(b->ops->stream_wait(b->be, second, event));
	behind = record(b, second);
	assert_completes(b, behind);
	b->ops->event_destroy(b->be, event);
	b->ops->event_destroy(b->be, behind);
	stream_end(b, first);
	stream_end(b, second);
}

static struct backend_event *record_all(struct bench *b)
{
	struct backend_event *event;
	int err;

	assert_ok(b->ops->event_create(b->be, &event));
	err = b->ops->event_record_all(b->be, event);
	if (!err)
		return event;
	g_assert_cmpint(err, ==, -ENOTSUP);
	b->ops->event_destroy(b->be, event);
	g_test_skip("the driver has no events of all work");
	return NULL;
}

/* Of streams of every kind, and not of what is submitted later. */
static void check_record_all(struct bench *b)
{
	struct CUstream_st *const streams[] = { stream_new(b), stream_new(b), NULL, STREAM_PER_THREAD };
	struct CUstream_st *later = stream_new(b);
	struct backend_event *event;

	for (size_t i = 0; i < G_N_ELEMENTS(streams); i++)
		assert_ok(b->device->hold(streams[i]));
	event = record_all(b);
	assert_ok(b->device->hold(later));
	for (size_t i = 0; i < G_N_ELEMENTS(streams); i++) {
		g_assert_false(event && is_complete(b, event));
		assert_ok(b->device->finish(streams[i]));
	}
	if (event) {
		assert_completes(b, event);
		b->ops->event_destroy(b->be, event);
	}
	assert_ok(b->device->finish(later));
	stream_end(b, streams[0]);
	stream_end(b, streams[1]);
	stream_end(b, later);
}

/* A stream can wait for it, and it can be recorded again, either way. */
static void check_record_all_again(struct bench *b)
{
	struct CUstream_st *first = stream_new(b), *second = stream_new(b);
	struct backend_event *event = record_all(b), *behind;

	if (!event)
		goto out;
	assert_completes(b, event);
	assert_ok(b->device->hold(first));
	assert_ok(b->ops->event_record_all(b->be, event));
	assert_ok(b->ops->stream_wait(b->be, second, event));
	behind = record(b, second);
	g_assert_false(is_complete(b, behind));
	assert_ok(b->device->finish(first));
	assert_completes(b, behind);
	assert_completes(b, event);
	assert_ok(b->ops->event_record(b->be, event, first));
	assert_completes(b, event);
	b->ops->event_destroy(b->be, behind);
	b->ops->event_destroy(b->be, event);
out:
	stream_end(b, first);
	stream_end(b, second);
}

const struct check checks_of_streams[] = {
	{ "stream-ids", false, check_stream_ids },
	{ "stream-ids-not-reused", false, check_stream_ids_not_reused },
	{ "stream-per-thread", false, check_stream_per_thread },
	{ "stream-bad", true, check_stream_bad },
	{ "event-of-idle-stream", false, check_event_of_idle_stream },
	{ "event-follows-work", false, check_event_follows_work },
	{ "event-of-busy-stream-only", false, check_event_of_busy_stream_only },
	{ "event-outlives-stream", false, check_event_outlives_stream },
	{ "event-destroyed-pending", false, check_event_destroyed_pending },
	{ "event-bad", true, check_event_bad },
	{ "event-recorded-again", false, check_event_recorded_again },
	{ "record-all", false, check_record_all },
	{ "record-all-again", false, check_record_all_again },
	{ "timed-event-follows-work", false, check_timed_event_follows_work },
	{ "elapsed", false, check_elapsed },
	{ "elapsed-pending", false, check_elapsed_pending },
	{ "elapsed-after-others", false, check_elapsed_after_others },
	{ "elapsed-bad", true, check_elapsed_bad },
	{ "sync", false, check_sync },
	{ "wait", false, check_wait },
	{ "wait-is-for-later-work", false, check_wait_is_for_later_work },
	{ "wait-for-complete", false, check_wait_for_complete },
	{ .name = NULL }
};
