// SPDX-License-Identifier: LGPL-2.1-or-later
/* The virtual clock of the host backend: what moves it, and what it tells. */
#include "host/clock-bench.h"

static int is_complete(const struct bench *b, struct backend_event *event)
{
	int complete = -1;

	assert_ok(ops->event_query(b->be, event, &complete));
	return complete;
}

static void append(void *data)
{
	g_string_append_c(data, 'x');
}

static void test_time_passes_when_told(void)
{
	struct backend_event *event;
	struct bench b;

	bench_open(&b);
	submit_for(b.streams[0], VPMM_HOST_COMPUTE, 10);
	event = record(&b, b.streams[0]);
	g_assert_cmpuint(elapsed(&b), ==, 0);
	assert_ok(vpmm_host_time_pass(9));

	g_assert_cmpuint(elapsed(&b), ==, 9);
	g_assert_cmpuint(pending(b.streams[0]), ==, 1);
	g_assert_cmpint(is_complete(&b, event), ==, 0);
	assert_ok(vpmm_host_time_pass(1));
	g_assert_cmpuint(pending(b.streams[0]), ==, 0);
	g_assert_cmpint(is_complete(&b, event), ==, 1);
	g_assert_cmpuint(completed_at(&b, event), ==, 10);
	bench_close(&b);
}

static void test_questions_take_no_time(void)
{
	struct vpmm_opts opts = { .size = sizeof(opts), .backend = "host" };
	struct vpmm_stats stats = { .size = sizeof(stats) };
	struct backend_event *event;
	struct vpmm_pool *pool;
	struct bench b;
	void *ptr;

	bench_open(&b);
	assert_ok(vpmm_pool_create(&pool, &opts));
	assert_ok(vpmm_malloc(pool, &ptr, PAGE, b.streams[0]));
	submit_for(b.streams[0], VPMM_HOST_COMPUTE, 10);
	assert_ok(vpmm_free(pool, ptr, b.streams[0]));
	event = record(&b, b.streams[0]);
	for (int i = 0; i < 100; i++) {
		is_complete(&b, event);
		pending(b.streams[0]);
		assert_ok(vpmm_pool_stats(pool, &stats));
		assert_ok(vpmm_pool_check(pool));
	}

	g_assert_cmpuint(elapsed(&b), ==, 0);
	ops->event_destroy(b.be, event);
	vpmm_pool_destroy(pool);
	g_assert_cmpuint(elapsed(&b), ==, 10);
	bench_close(&b);
}

static void test_events_tell_their_time(void)
{
	struct backend_event *event;
	uint64_t ns = UNTOUCHED;
	struct bench b;

	bench_open(&b);
	assert_ok(ops->event_create(b.be, &event));
	assert_refused(host_event_time(event, &ns), -EINVAL, "never recorded");
	submit_for(b.streams[0], VPMM_HOST_COMPUTE, 3);
	assert_ok(ops->event_record(b.be, event, b.streams[0]));
	assert_refused(host_event_time(event, &ns), -EBUSY, "pending");
	g_assert_cmpuint(ns, ==, UNTOUCHED);
	assert_ok(vpmm_host_time_pass(100));
	g_assert_cmpuint(completed_at(&b, event), ==, 3);

	event = record(&b, b.streams[0]);
	g_assert_cmpuint(completed_at(&b, event), ==, 100);
	bench_close(&b);
}

static struct backend_event *record_timed(const struct bench *b, struct CUstream_st *stream)
{
	struct backend_event *event;

	assert_ok(ops->event_create_timed(b->be, &event));
	assert_ok(ops->event_record(b->be, event, stream));
	return event;
}

static int64_t between(const struct bench *b, struct backend_event *start, struct backend_event *end)
{
	int64_t ns = INT64_MIN;

	assert_ok(ops->event_elapsed(b->be, start, end, &ns));
	return ns;
}

static void test_elapsed_is_of_the_clock(void)
{
	struct backend_event *start, *end, *other;
	struct bench b;

	bench_open(&b);
	start = record_timed(&b, b.streams[0]);
	submit_for(b.streams[0], VPMM_HOST_COMPUTE, 10);
	end = record_timed(&b, b.streams[0]);
	submit_for(b.streams[1], VPMM_HOST_COPY_IN, 3);
	other = record_timed(&b, b.streams[1]);
	assert_ok(vpmm_host_time_finish());

	g_assert_cmpint(between(&b, start, end), ==, 10);
	g_assert_cmpint(between(&b, start, other), ==, 3);
	g_assert_cmpint(between(&b, end, other), ==, -7);
	ops->event_destroy(b.be, start);
	ops->event_destroy(b.be, end);
	ops->event_destroy(b.be, other);
	bench_close(&b);
}

static void test_work_that_is_told_takes_no_time_of_its_own(void)
{
	struct backend_event *start, *end, *last;
	struct bench b;

	bench_open(&b);
	start = record_timed(&b, b.streams[0]);
	submit(b.streams[0]);
	end = record_timed(&b, b.streams[0]);
	submit(b.streams[0]);
	last = record_timed(&b, b.streams[0]);
	complete(b.streams[0], 1);
	assert_ok(vpmm_host_time_pass(100));
	complete(b.streams[0], 1);

	g_assert_cmpint(between(&b, start, end), ==, 0);
	g_assert_cmpint(between(&b, end, last), ==, 100);
	ops->event_destroy(b.be, start);
	ops->event_destroy(b.be, end);
	ops->event_destroy(b.be, last);
	bench_close(&b);
}

/* A pool that waits on the host: its wait is the only thing here that can move the clock. */
static void test_a_wait_of_the_pool_moves_the_clock(void)
{
	struct vpmm_opts opts = { .size = sizeof(opts), .backend = "host", .reuse = VPMM_REUSE_BLOCK };
	struct vpmm_pool *pool;
	struct bench b;
	void *ptr;

	bench_open(&b);
	assert_ok(vpmm_pool_create(&pool, &opts));
	assert_ok(vpmm_malloc(pool, &ptr, 64 * MIB, b.streams[0]));
	submit_for(b.streams[0], VPMM_HOST_COMPUTE, 1000);
	assert_ok(vpmm_free(pool, ptr, b.streams[0]));
	submit_for(b.streams[0], VPMM_HOST_COMPUTE, 500);
	g_assert_cmpuint(elapsed(&b), ==, 0);
	assert_ok(vpmm_malloc(pool, &ptr, 64 * MIB, b.streams[1]));

	g_assert_cmpuint(elapsed(&b), ==, 1000);
	assert_ok(vpmm_free(pool, ptr, b.streams[1]));
	vpmm_pool_destroy(pool);
	bench_close(&b);
}

static void test_a_wait_on_the_device_does_not(void)
{
	struct vpmm_opts opts = { .size = sizeof(opts), .backend = "host" };
	struct vpmm_pool *pool;
	struct bench b;
	void *ptr;

	bench_open(&b);
	assert_ok(vpmm_pool_create(&pool, &opts));
	assert_ok(vpmm_malloc(pool, &ptr, 64 * MIB, b.streams[0]));
	submit_for(b.streams[0], VPMM_HOST_COMPUTE, 1000);
	assert_ok(vpmm_free(pool, ptr, b.streams[0]));
	assert_ok(vpmm_malloc(pool, &ptr, 64 * MIB, b.streams[1]));
	submit_for(b.streams[1], VPMM_HOST_COPY_IN, 300);
	g_assert_cmpuint(elapsed(&b), ==, 0);
	assert_ok(vpmm_host_time_finish());

	g_assert_cmpuint(elapsed(&b), ==, 1300);
	assert_ok(vpmm_free(pool, ptr, b.streams[1]));
	vpmm_pool_destroy(pool);
	bench_close(&b);
}

static void test_completing_moves_the_clock(void)
{
	struct bench b;

	bench_open(&b);
	submit_for(b.streams[0], VPMM_HOST_COMPUTE, 10);
	stream_wait(b.streams[1], b.streams[0]);
	submit_for(b.streams[0], VPMM_HOST_COMPUTE, 10);
	submit_for(b.streams[1], VPMM_HOST_COPY_OUT, 3);
	submit_for(b.streams[1], VPMM_HOST_COPY_OUT, 3);
	complete(b.streams[1], 1);

	g_assert_cmpuint(elapsed(&b), ==, 13);
	g_assert_cmpuint(pending(b.streams[1]), ==, 1);
	complete(b.streams[1], UINT_MAX);
	g_assert_cmpuint(elapsed(&b), ==, 16);
	g_assert_cmpuint(pending(b.streams[0]), ==, 1);
	bench_close(&b);
}

static void test_untimed_work_holds_up_timed_work(void)
{
	struct bench b;

	bench_open(&b);
	submit(b.streams[0]);
	submit_for(b.streams[0], VPMM_HOST_COMPUTE, 10);
	stream_wait(b.streams[1], b.streams[0]);
	submit_for(b.streams[1], VPMM_HOST_COPY_IN, 10);
	submit_for(b.streams[2], VPMM_HOST_COMPUTE, 4);
	assert_refused(vpmm_host_stream_complete(b.streams[1], 1), -EBUSY, "waits for stream");
	g_assert_cmpuint(elapsed(&b), ==, 0);
	assert_refused(vpmm_host_time_finish(), -EBUSY, "pending until a call completes it");

	g_assert_cmpuint(elapsed(&b), ==, 4);
	g_assert_cmpuint(pending(b.streams[0]), ==, 2);
	complete(b.streams[0], 1);
	g_assert_cmpuint(elapsed(&b), ==, 4);
	assert_ok(vpmm_host_time_finish());
	g_assert_cmpuint(elapsed(&b), ==, 24);
	bench_close(&b);
}

static void test_a_destroyed_stream_goes_on(void)
{
	struct backend_event *event;
	GString *order = g_string_new("");
	struct CUstream_st *stream;
	struct bench b;

	bench_open(&b);
	stream = stream_new();
	submit_for(stream, VPMM_HOST_COMPUTE, 10);
	assert_ok(vpmm_host_stream_launch(stream, append, order));
	submit_for(stream, VPMM_HOST_COMPUTE, 10);
	event = record(&b, stream);
	stream_wait(b.streams[0], stream);
	submit_for(b.streams[0], VPMM_HOST_COPY_IN, 1);
	destroy(stream);
	g_assert_cmpuint(elapsed(&b), ==, 0);
	g_assert_cmpstr(order->str, ==, "");
	assert_ok(vpmm_host_time_finish());

	g_assert_cmpstr(order->str, ==, "x");
	g_assert_cmpuint(completed_at(&b, event), ==, 20);
	g_assert_cmpuint(elapsed(&b), ==, 21);
	g_string_free(order, true);
	bench_close(&b);
}

static void test_a_stream_that_waits_is_destroyed(void)
{
	struct CUstream_st *timed, *untimed;
	struct bench b;

	bench_open(&b);
	timed = stream_new();
	untimed = stream_new();
	submit_for(b.streams[0], VPMM_HOST_COMPUTE, 10);
	submit(b.streams[1]);
	stream_wait(timed, b.streams[0]);
	submit_for(timed, VPMM_HOST_COPY_IN, 10);
	stream_wait(untimed, b.streams[1]);
	submit_for(untimed, VPMM_HOST_COPY_OUT, 10);
	destroy(timed);
	assert_refused(vpmm_host_stream_destroy(untimed), -EBUSY, "waits for stream");
	complete(b.streams[1], 1);
	destroy(untimed);
	assert_ok(vpmm_host_time_finish());

	g_assert_cmpuint(elapsed(&b), ==, 20);
	bench_close(&b);
}

static gpointer leave_timed(gpointer data)
{
	struct bench *b = data;

	assert_ok(ops->enter(b->be));
	submit_for(VPMM_HOST_STREAM_PER_THREAD, VPMM_HOST_COMPUTE, 10);
	stream_wait(b->streams[0], VPMM_HOST_STREAM_PER_THREAD);
	ops->leave(b->be);
	return NULL;
}

static void test_a_thread_ends_with_timed_work(void)
{
	struct bench b;

	bench_open(&b);
	g_thread_join(g_thread_new("leave", leave_timed, &b));
	submit_for(b.streams[0], VPMM_HOST_COPY_IN, 5);
	g_assert_cmpuint(elapsed(&b), ==, 0);
	assert_ok(ops->sync(b.be));

	g_assert_cmpuint(elapsed(&b), ==, 15);
	bench_close(&b);
}

static void test_the_clock_does_not_overflow(void)
{
	struct vpmm_host_graph *graph;
	struct bench b;

	bench_open(&b);
	assert_ok(vpmm_host_time_pass(1));
	assert_refused(vpmm_host_stream_submit_for(b.streams[0], VPMM_HOST_COMPUTE, UINT64_MAX), -EINVAL, "count");
	submit_for(b.streams[0], VPMM_HOST_COMPUTE, UINT64_MAX / 2);
	assert_refused(vpmm_host_stream_submit_for(b.streams[1], VPMM_HOST_COPY_IN, UINT64_MAX / 2 + 1), -EINVAL,
		       "count");
	assert_refused(vpmm_host_time_pass(UINT64_MAX / 2 + 1), -EINVAL, "count");
	g_assert_cmpuint(elapsed(&b), ==, 1);
	assert_ok(vpmm_host_capture_begin(b.streams[1]));
	for (int i = 0; i < 3; i++)
		submit_for(b.streams[1], VPMM_HOST_COMPUTE, UINT64_MAX / 4);
	assert_ok(vpmm_host_capture_end(b.streams[1], &graph));
	assert_refused(vpmm_host_graph_launch(graph, b.streams[1]), -EINVAL, "count");

	g_assert_cmpuint(pending(b.streams[1]), ==, 0);
	assert_ok(vpmm_host_graph_destroy(graph));
	bench_close(&b);
}

static void let_time_pass(void *data)
{
	GString *order = data;

	assert_refused(vpmm_host_time_pass(1), -EBUSY, "piece of work");
	assert_refused(vpmm_host_time_finish(), -EBUSY, "piece of work");
	g_string_append_c(order, 'x');
}

static void test_work_cannot_let_time_pass(void)
{
	GString *order = g_string_new("");
	struct bench b;

	bench_open(&b);
	assert_ok(vpmm_host_stream_launch(b.streams[0], let_time_pass, order));
	complete(b.streams[0], 1);

	g_assert_cmpstr(order->str, ==, "x");
	g_assert_cmpuint(elapsed(&b), ==, 0);
	g_string_free(order, true);
	bench_close(&b);
}

enum { THREADS = 4, PIECES = 500 };

static gpointer use_the_clock(gpointer data)
{
	struct CUstream_st *stream = stream_new();

	(void)data;
	for (int i = 0; i < PIECES; i++) {
		submit_for(stream, VPMM_HOST_COMPUTE, 2);
		stream_wait(NULL, stream);
		submit_for(NULL, VPMM_HOST_COPY_IN, 1);
		if (i % 16 == 0)
			complete(stream, 3);
		if (i % 16 == 8)
			assert_ok(vpmm_host_time_pass(1));
	}
	destroy(stream);
	return NULL;
}

static void test_threads_share_the_clock(void)
{
	GThread *threads[THREADS];
	struct bench b;

	bench_open(&b);
	for (int i = 0; i < THREADS; i++)
		threads[i] = g_thread_new("clock", use_the_clock, NULL);
	for (int i = 0; i < THREADS; i++)
		g_thread_join(threads[i]);
	assert_ok(vpmm_host_time_finish());

	g_assert_cmpuint(pending(NULL), ==, 0);
	g_assert_cmpuint(elapsed(&b), >=, (uint64_t)THREADS * PIECES * 2);
	bench_close(&b);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	unsetenv("VPMM_HOST_KERNELS");
	g_test_add_func("/host-clock/time-passes-when-told", test_time_passes_when_told);
	g_test_add_func("/host-clock/questions-take-no-time", test_questions_take_no_time);
	g_test_add_func("/host-clock/events-tell-their-time", test_events_tell_their_time);
	g_test_add_func("/host-clock/elapsed", test_elapsed_is_of_the_clock);
	g_test_add_func("/host-clock/elapsed-told", test_work_that_is_told_takes_no_time_of_its_own);
	g_test_add_func("/host-clock/a-wait-of-the-pool", test_a_wait_of_the_pool_moves_the_clock);
	g_test_add_func("/host-clock/a-wait-on-the-device", test_a_wait_on_the_device_does_not);
	g_test_add_func("/host-clock/completing", test_completing_moves_the_clock);
	g_test_add_func("/host-clock/untimed-work", test_untimed_work_holds_up_timed_work);
	g_test_add_func("/host-clock/destroyed-stream", test_a_destroyed_stream_goes_on);
	g_test_add_func("/host-clock/destroyed-stream-that-waits", test_a_stream_that_waits_is_destroyed);
	g_test_add_func("/host-clock/thread-ends", test_a_thread_ends_with_timed_work);
	g_test_add_func("/host-clock/work-cannot", test_work_cannot_let_time_pass);
	g_test_add_func("/host-clock/threads", test_threads_share_the_clock);
	/* The last one: it leaves the clock half-way to its end. */
	g_test_add_func("/host-clock/overflow", test_the_clock_does_not_overflow);
	return g_test_run();
}
