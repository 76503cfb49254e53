// SPDX-License-Identifier: LGPL-2.1-or-later
/* Streams of the host backend under a backend's events, and with several threads. */
#include "host/host-bench.h"

static void append(void *data)
{
	GString *order = data;

	g_string_append_c(order, (char)('a' + order->len));
}

static void test_sync_does_the_work(void)
{
	struct CUstream_st *first = stream_new(), *second = stream_new();
	struct backend_event *event;
	GString *order = g_string_new("");
	struct backend *be;

	set("64M", "1", "7");
	be = open_entered(0);
	assert_ok(vpmm_host_stream_launch(first, append, order));
	assert_ok(vpmm_host_stream_wait(second, first));
	assert_ok(vpmm_host_stream_submit(first));
	assert_ok(vpmm_host_stream_launch(second, append, order));
	assert_ok(ops->event_create(be, &event));
	assert_ok(ops->event_record(be, event, second));
	assert_ok(vpmm_host_stream_submit(second));
	assert_ok(ops->event_sync(be, event));

	g_assert_cmpstr(order->str, ==, "ab");
	g_assert_cmpuint(pending(first), ==, 1);
	g_assert_cmpuint(pending(second), ==, 1);
	ops->event_destroy(be, event);
	assert_ok(vpmm_host_stream_destroy(first));
	assert_ok(vpmm_host_stream_destroy(second));
	g_string_free(order, true);
	close_left(be);
}

static void test_device_sync_does_all_work(void)
{
	struct CUstream_st *first = stream_new(), *second = stream_new(), *elsewhere;
	struct backend *be;

	set("64M", "2", "7");
	be = open_entered(0);
	assert_ok(vpmm_host_set_device(1));
	elsewhere = stream_new();
	assert_ok(vpmm_host_set_device(0));
	submit(first);
	stream_wait(second, first);
	submit(second);
	submit(elsewhere);
	submit(VPMM_HOST_STREAM_PER_THREAD);
	submit(NULL);
	assert_ok(ops->sync(be));

	g_assert_cmpuint(pending(first) + pending(second), ==, 0);
	g_assert_cmpuint(pending(VPMM_HOST_STREAM_PER_THREAD) + pending(NULL), ==, 0);
	g_assert_cmpuint(pending(elsewhere), ==, 1);
	destroy(first);
	destroy(second);
	destroy(elsewhere);
	close_left(be);
}

static void test_sync_through_many_streams(void)
{
	enum { N = 20000 };
	struct CUstream_st **streams = g_new(struct CUstream_st *, N);
	struct backend_event *event;
	struct backend *be;
	int i, complete;

	set("64M", "1", "7");
	be = open_entered(0);
	for (i = 0; i < N; i++) {
		streams[i] = stream_new();
		if (i)
			assert_ok(vpmm_host_stream_wait(streams[i], streams[i - 1]));
		else
			assert_ok(vpmm_host_stream_submit(streams[i]));
	}
	assert_ok(ops->event_create(be, &event));
	assert_ok(ops->event_record(be, event, streams[N - 1]));
	assert_ok(ops->event_query(be, event, &complete));
	g_assert_cmpint(complete, ==, 0);
	assert_ok(ops->event_sync(be, event));
	assert_ok(ops->event_query(be, event, &complete));

	g_assert_cmpint(complete, ==, 1);
	ops->event_destroy(be, event);
	for (i = 0; i < N; i++)
		assert_ok(vpmm_host_stream_destroy(streams[i]));
	g_free(streams);
	close_left(be);
}

static void test_events_of_a_destroyed_stream_wait(void)
{
	struct CUstream_st *first = stream_new(), *second = stream_new();
	struct backend_event *event;
	struct backend *be;
	int complete = -1;

	set("64M", "1", "7");
	be = open_entered(0);
	assert_ok(vpmm_host_stream_submit(first));
	assert_ok(vpmm_host_stream_wait(second, first));
	assert_ok(ops->event_create(be, &event));
	assert_ok(ops->event_record(be, event, second));
	assert_ok(vpmm_host_stream_destroy(second));
	assert_ok(ops->event_query(be, event, &complete));
	g_assert_cmpint(complete, ==, 0);
	assert_ok(vpmm_host_stream_complete(first, 1));

	assert_ok(ops->event_query(be, event, &complete));
	g_assert_cmpint(complete, ==, 1);
	ops->event_destroy(be, event);
	assert_ok(vpmm_host_stream_destroy(first));
	close_left(be);
}

struct ended {
	struct backend *be;
	struct CUstream_st *first;
	struct backend_event *event;
	GString *order;
};

static gpointer leave_work(gpointer data)
{
	struct ended *ended = data;

	assert_ok(ops->enter(ended->be));
	assert_ok(vpmm_host_stream_launch(VPMM_HOST_STREAM_PER_THREAD, append, ended->order));
	if (ended->first)
		assert_ok(vpmm_host_stream_wait(VPMM_HOST_STREAM_PER_THREAD, ended->first));
	assert_ok(vpmm_host_stream_launch(VPMM_HOST_STREAM_PER_THREAD, append, ended->order));
	assert_ok(ops->event_create(ended->be, &ended->event));
	assert_ok(ops->event_record(ended->be, ended->event, VPMM_HOST_STREAM_PER_THREAD));
	ops->leave(ended->be);
	return NULL;
}

static void test_thread_ends_with_work(void)
{
	struct ended ended = { .order = g_string_new("") };
	int complete = -1;

	set("64M", "1", "7");
	ended.be = open_entered(0);
	g_thread_join(g_thread_new("leave", leave_work, &ended));

	assert_ok(ops->event_query(ended.be, ended.event, &complete));
	g_assert_cmpint(complete, ==, 1);
	g_assert_cmpstr(ended.order->str, ==, "ab");
	ops->event_destroy(ended.be, ended.event);
	g_string_free(ended.order, true);
	close_left(ended.be);
}

static void test_thread_ends_with_work_that_waits(void)
{
	struct ended ended = { .order = g_string_new(""), .first = stream_new() };
	int complete = -1;

	set("64M", "1", "7");
	ended.be = open_entered(0);
	assert_ok(vpmm_host_stream_submit(ended.first));
	g_thread_join(g_thread_new("leave", leave_work, &ended));
	assert_ok(ops->event_query(ended.be, ended.event, &complete));
	g_assert_cmpint(complete, ==, 0);
	g_assert_cmpstr(ended.order->str, ==, "a");
	assert_ok(vpmm_host_stream_complete(ended.first, 1));

	assert_ok(ops->event_query(ended.be, ended.event, &complete));
	g_assert_cmpint(complete, ==, 1);
	g_assert_cmpstr(ended.order->str, ==, "ab");
	ops->event_destroy(ended.be, ended.event);
	assert_ok(vpmm_host_stream_destroy(ended.first));
	g_string_free(ended.order, true);
	close_left(ended.be);
}

enum { PIECES = 2000, THREADS = 4 };

struct sequence {
	struct CUstream_st *stream;
	int next;			/* without a lock: the stream keeps its work in order */
	int running;
};

struct step {
	struct sequence *sequence;
	int number;
};

static void take_step(void *data)
{
	struct step *step = data;

	g_assert_cmpint(step->sequence->running++, ==, 0);
	g_assert_cmpint(step->sequence->next++, ==, step->number);
	step->sequence->running--;
	g_free(step);
}

static gpointer complete_some(gpointer data)
{
	struct sequence *sequence = data;
	int i;

	for (i = 0; i < PIECES / THREADS; i++)
		complete(sequence->stream, 1);
	return NULL;
}

static void test_threads_complete_one_stream(void)
{
	struct sequence sequence = { .stream = stream_new() };
	GThread *threads[THREADS];
	int i;

	for (i = 0; i < PIECES; i++) {
		struct step *step = g_new(struct step, 1);

		step->sequence = &sequence;
		step->number = i;
		assert_ok(vpmm_host_stream_launch(sequence.stream, take_step, step));
	}
	for (i = 0; i < THREADS; i++)
		threads[i] = g_thread_new("complete", complete_some, &sequence);
	for (i = 0; i < THREADS; i++)
		g_thread_join(threads[i]);

	g_assert_cmpint(sequence.next, ==, PIECES);
	g_assert_cmpuint(pending(sequence.stream), ==, 0);
	destroy(sequence.stream);
}

struct slow {
	struct CUstream_st *stream;
	int begun;
	int done;
};

static void work_slowly(void *data)
{
	struct slow *slow = data;

	g_atomic_int_set(&slow->begun, 1);
	g_usleep(50000);
	g_atomic_int_set(&slow->done, 1);
}

static gpointer complete_one(gpointer data)
{
	complete(((struct slow *)data)->stream, 1);
	return NULL;
}

/* Has another thread begin a piece of work, and the stream's event behind it. */
static GThread *begin_slowly(struct backend *be, struct slow *slow, struct backend_event **event)
{
	GThread *thread;

	*slow = (struct slow){ .stream = stream_new() };
	assert_ok(vpmm_host_stream_launch(slow->stream, work_slowly, slow));
	assert_ok(ops->event_create(be, event));
	assert_ok(ops->event_record(be, *event, slow->stream));
	thread = g_thread_new("complete", complete_one, slow);
	while (!g_atomic_int_get(&slow->begun))
		g_thread_yield();
	return thread;
}

static void end_slowly(struct backend *be, struct slow *slow, struct backend_event *event, GThread *thread)
{
	g_thread_join(thread);
	ops->event_destroy(be, event);
	destroy(slow->stream);
}

static void test_work_under_way_is_waited_for(void)
{
	struct backend_event *event;
	struct backend *be;
	struct slow slow;
	GThread *thread;

	set("64M", "1", "7");
	be = open_entered(0);

	thread = begin_slowly(be, &slow, &event);
	assert_ok(ops->event_sync(be, event));
	g_assert_cmpint(g_atomic_int_get(&slow.done), ==, 1);
	end_slowly(be, &slow, event, thread);

	thread = begin_slowly(be, &slow, &event);
	complete(slow.stream, 1);
	g_assert_cmpint(g_atomic_int_get(&slow.done), ==, 1);
	end_slowly(be, &slow, event, thread);
	close_left(be);
}

struct waiting {
	struct backend *be;
	struct backend_event *event;
	int ret;
};

static void wait_for_event(void *data)
{
	struct waiting *waiting = data;

	waiting->ret = ops->event_sync(waiting->be, waiting->event);
}

static void test_work_cannot_wait(void)
{
	struct CUstream_st *stream = stream_new();
	struct waiting waiting = { 0 };

	set("64M", "1", "7");
	waiting.be = open_entered(0);
	assert_ok(vpmm_host_stream_launch(stream, wait_for_event, &waiting));
	assert_ok(ops->event_create(waiting.be, &waiting.event));
	assert_ok(ops->event_record(waiting.be, waiting.event, stream));
	complete(stream, 1);

	g_assert_cmpint(waiting.ret, ==, -EBUSY);
	ops->event_destroy(waiting.be, waiting.event);
	destroy(stream);
	close_left(waiting.be);
}

struct relay {
	struct CUstream_st *own;
	struct CUstream_st *other;
	int done;
};

static void count_up(void *data)
{
	(*(int *)data)++;
}

static gpointer run_relay(gpointer data)
{
	struct relay *relay = data;
	int i;

	for (i = 0; i < 500; i++) {
		assert_ok(vpmm_host_stream_launch(relay->own, count_up, &relay->done));
		stream_wait(relay->own, relay->other);
		submit(VPMM_HOST_STREAM_PER_THREAD);
		stream_wait(VPMM_HOST_STREAM_PER_THREAD, relay->own);
		vpmm_host_stream_complete(relay->own, 2);
		vpmm_host_stream_complete(relay->other, 1);
		vpmm_host_stream_complete(VPMM_HOST_STREAM_PER_THREAD, 1);
	}
	return NULL;
}

static void test_threads_and_waits(void)
{
	struct CUstream_st *streams[THREADS];
	struct relay relays[THREADS] = { 0 };
	GThread *threads[THREADS];
	int i, left;

	for (i = 0; i < THREADS; i++)
		streams[i] = stream_new();
	for (i = 0; i < THREADS; i++) {
		relays[i].own = streams[i];
		relays[i].other = streams[(i + 1) % THREADS];
		threads[i] = g_thread_new("relay", run_relay, &relays[i]);
	}
	for (i = 0; i < THREADS; i++)
		g_thread_join(threads[i]);
	do {
		for (i = 0, left = 0; i < THREADS; i++) {
			vpmm_host_stream_complete(streams[i], UINT_MAX);
			left += (int)pending(streams[i]);
		}
	} while (left);

	for (i = 0; i < THREADS; i++) {
		g_assert_cmpint(relays[i].done, ==, 500);
		destroy(streams[i]);
	}
}

static gpointer create_and_destroy(gpointer data)
{
	int i;

	(void)data;
	for (i = 0; i < 500; i++) {
		struct CUstream_st *stream = stream_new();

		submit(stream);
		submit(VPMM_HOST_STREAM_PER_THREAD);
		stream_wait(NULL, stream);
		destroy(stream);
	}
	return NULL;
}

static void test_threads_create_and_destroy(void)
{
	GThread *threads[THREADS];
	int i;

	for (i = 0; i < THREADS; i++)
		threads[i] = g_thread_new("create", create_and_destroy, NULL);
	for (i = 0; i < THREADS; i++)
		g_thread_join(threads[i]);
	complete(NULL, UINT_MAX);
	g_assert_cmpuint(pending(NULL), ==, 0);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/host-streams/sync-does-the-work", test_sync_does_the_work);
	g_test_add_func("/host-streams/device-sync-does-all-work", test_device_sync_does_all_work);
	g_test_add_func("/host-streams/sync-through-many-streams", test_sync_through_many_streams);
	g_test_add_func("/host-streams/events-of-a-destroyed-stream-wait", test_events_of_a_destroyed_stream_wait);
	g_test_add_func("/host-streams/thread-ends-with-work", test_thread_ends_with_work);
	g_test_add_func("/host-streams/thread-ends-with-work-that-waits", test_thread_ends_with_work_that_waits);
	g_test_add_func("/host-streams/threads-complete-one-stream", test_threads_complete_one_stream);
	g_test_add_func("/host-streams/work-under-way-is-waited-for", test_work_under_way_is_waited_for);
	g_test_add_func("/host-streams/work-cannot-wait", test_work_cannot_wait);
	g_test_add_func("/host-streams/threads-and-waits", test_threads_and_waits);
	g_test_add_func("/host-streams/threads-create-and-destroy", test_threads_create_and_destroy);
	return g_test_run();
}
