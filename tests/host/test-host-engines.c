// SPDX-License-Identifier: LGPL-2.1-or-later
/* The engines of the host backend: how long timed work of streams takes on them, and in which order. */
#include <inttypes.h>

#include "host/clock-bench.h"

static void test_an_engine_does_one_piece_at_a_time(void)
{
	struct backend_event *first, *second;
	struct bench b;

	bench_open(&b);
	submit_for(b.streams[0], VPMM_HOST_COPY_IN, 10);
	submit_for(b.streams[1], VPMM_HOST_COPY_IN, 7);
	first = record(&b, b.streams[0]);
	second = record(&b, b.streams[1]);
	assert_ok(vpmm_host_time_finish());

	g_assert_cmpuint(completed_at(&b, first), ==, 10);
	g_assert_cmpuint(completed_at(&b, second), ==, 17);
	g_assert_cmpuint(elapsed(&b), ==, 17);
	bench_close(&b);
}

static void test_engines_overlap(void)
{
	struct bench b;

	bench_open(&b);
	submit_for(b.streams[0], VPMM_HOST_COPY_IN, 10);
	submit_for(b.streams[1], VPMM_HOST_COMPUTE, 12);
	submit_for(b.streams[2], VPMM_HOST_COPY_OUT, 11);
	assert_ok(vpmm_host_time_finish());

	g_assert_cmpuint(elapsed(&b), ==, 12);
	bench_close(&b);
}

static void test_devices_have_their_own_engines(void)
{
	struct CUstream_st *elsewhere;
	struct bench b;

	bench_open(&b);
	assert_ok(vpmm_host_set_device(1));
	elsewhere = stream_new();
	submit_for(elsewhere, VPMM_HOST_COMPUTE, 10);
	assert_ok(vpmm_host_set_device(0));
	submit_for(b.streams[0], VPMM_HOST_COMPUTE, 10);
	assert_ok(vpmm_host_time_finish());

	g_assert_cmpuint(elapsed(&b), ==, 10);
	destroy(elsewhere);
	bench_close(&b);
}

static void test_first_ready_is_served_first(void)
{
	struct backend_event *second, *third;
	struct bench b;

	bench_open(&b);
	submit_for(b.streams[0], VPMM_HOST_COMPUTE, 10);
	submit_for(b.streams[1], VPMM_HOST_COPY_IN, 3);
	submit_for(b.streams[1], VPMM_HOST_COMPUTE, 5);
	submit_for(b.streams[2], VPMM_HOST_COPY_OUT, 2);
	submit_for(b.streams[2], VPMM_HOST_COMPUTE, 7);
	second = record(&b, b.streams[1]);
	third = record(&b, b.streams[2]);
	assert_ok(vpmm_host_time_finish());

	g_assert_cmpuint(completed_at(&b, third), ==, 17);
	g_assert_cmpuint(completed_at(&b, second), ==, 22);
	bench_close(&b);
}

/* The two copies complete at one time; the stream whose kernel was submitted last is passed first. */
static void test_ties_go_to_what_was_submitted_first(void)
{
	struct backend_event *first, *second;
	struct bench b;

	bench_open(&b);
	submit_for(b.streams[1], VPMM_HOST_COPY_IN, 3);
	submit_for(b.streams[0], VPMM_HOST_COPY_OUT, 3);
	submit_for(b.streams[0], VPMM_HOST_COMPUTE, 10);
	submit_for(b.streams[1], VPMM_HOST_COMPUTE, 10);
	first = record(&b, b.streams[0]);
	second = record(&b, b.streams[1]);
	assert_ok(vpmm_host_time_finish());

	g_assert_cmpuint(completed_at(&b, first), ==, 13);
	g_assert_cmpuint(completed_at(&b, second), ==, 23);
	bench_close(&b);
}

static void test_kernels_at_once(void)
{
	struct bench b;

	bench_open(&b);
	setenv("VPMM_HOST_KERNELS", "2", 1);
	for (int i = 0; i < 3; i++) {
		submit_for(b.streams[i], VPMM_HOST_COMPUTE, 10);
		submit_for(b.streams[i], VPMM_HOST_COPY_IN, 1);
	}
	assert_ok(vpmm_host_time_finish());
	g_assert_cmpuint(elapsed(&b), ==, 21);
	setenv("VPMM_HOST_KERNELS", "0", 1);
	assert_refused(vpmm_host_stream_submit_for(b.streams[0], VPMM_HOST_COMPUTE, 1), -EINVAL, "VPMM_HOST_KERNELS");
	unsetenv("VPMM_HOST_KERNELS");
	submit_for(b.streams[0], VPMM_HOST_COMPUTE, 10);
	submit_for(b.streams[1], VPMM_HOST_COMPUTE, 10);
	assert_ok(vpmm_host_time_finish());

	g_assert_cmpuint(elapsed(&b), ==, 41);
	bench_close(&b);
}

static void test_streams_wait_for_each_other_on_the_clock(void)
{
	struct backend_event *event;
	struct bench b;

	bench_open(&b);
	submit_for(b.streams[0], VPMM_HOST_COPY_IN, 10);
	stream_wait(b.streams[1], b.streams[0]);
	submit_for(b.streams[0], VPMM_HOST_COPY_IN, 10);
	submit_for(b.streams[1], VPMM_HOST_COMPUTE, 5);
	event = record(&b, b.streams[1]);
	assert_ok(ops->event_sync(b.be, event));

	g_assert_cmpuint(elapsed(&b), ==, 15);
	g_assert_cmpuint(pending(b.streams[0]), ==, 1);
	g_assert_cmpuint(completed_at(&b, event), ==, 15);
	bench_close(&b);
}

static void test_a_graph_takes_its_time_at_each_launch(void)
{
	struct vpmm_host_graph *graph;
	struct bench b;

	bench_open(&b);
	assert_ok(vpmm_host_capture_begin(b.streams[0]));
	submit_for(b.streams[0], VPMM_HOST_COMPUTE, 10);
	submit_for(b.streams[0], VPMM_HOST_COPY_OUT, 5);
	assert_ok(vpmm_host_capture_end(b.streams[0], &graph));
	assert_ok(vpmm_host_time_finish());
	g_assert_cmpuint(elapsed(&b), ==, 0);
	assert_ok(vpmm_host_graph_launch(graph, b.streams[0]));
	assert_ok(vpmm_host_graph_launch(graph, b.streams[1]));
	assert_ok(vpmm_host_time_finish());

	g_assert_cmpuint(elapsed(&b), ==, 25);
	assert_ok(vpmm_host_graph_destroy(graph));
	bench_close(&b);
}

static void test_work_that_takes_no_time(void)
{
	struct bench b;

	bench_open(&b);
	submit_for(b.streams[0], VPMM_HOST_COMPUTE, 0);
	submit_for(b.streams[0], VPMM_HOST_COMPUTE, 0);
	assert_ok(vpmm_host_time_pass(0));

	g_assert_cmpuint(pending(b.streams[0]), ==, 0);
	g_assert_cmpuint(elapsed(&b), ==, 0);
	bench_close(&b);
}

static void test_bad_arguments(void)
{
	struct bench b;

	bench_open(&b);
	assert_refused(vpmm_host_stream_submit_for(b.streams[0], (enum vpmm_host_engine)3, 1), -EINVAL, "engine 3");
	assert_refused(vpmm_host_stream_submit_for(b.streams[0], (enum vpmm_host_engine)-1, 1), -EINVAL, "engine -1");
	assert_refused(vpmm_host_stream_submit_for((struct CUstream_st *)0x1234, VPMM_HOST_COMPUTE, 1), -EINVAL,
		       "0x1234 is not a stream");

	g_assert_cmpuint(pending(b.streams[0]), ==, 0);
	bench_close(&b);
}

enum { RANDOM_STEPS = 400 };

/* One step of a program on three streams; what it records is for @events. */
static void random_step(const struct bench *b, GRand *rand, GPtrArray *events)
{
	struct CUstream_st *stream = b->streams[g_rand_int_range(rand, 0, 3)];
	struct CUstream_st *other = b->streams[g_rand_int_range(rand, 0, 3)];

	switch (g_rand_int_range(rand, 0, 4)) {
	case 0:
	case 1:
		submit_for(stream, (enum vpmm_host_engine)g_rand_int_range(rand, 0, 3),
			   (uint64_t)g_rand_int_range(rand, 0, 4));
		g_ptr_array_add(events, record(b, stream));
		break;
	case 2:
		stream_wait(stream, other);
		break;
	default:
		assert_ok(vpmm_host_time_pass((uint64_t)g_rand_int_range(rand, 0, 3)));
	}
}

/* When each piece of a random program completed, in words. */
static char *random_times(guint32 seed)
{
	GRand *rand = g_rand_new_with_seed(seed);
	GPtrArray *events = g_ptr_array_new();
	GString *times = g_string_new("");
	struct bench b;

	bench_open(&b);
	for (int i = 0; i < RANDOM_STEPS; i++)
		random_step(&b, rand, events);
	assert_ok(vpmm_host_time_finish());
	for (guint i = 0; i < events->len; i++)
		g_string_append_printf(times, "%" PRIu64 " ", completed_at(&b, events->pdata[i]));
	g_ptr_array_free(events, true);
	g_rand_free(rand);
	bench_close(&b);
	return g_string_free(times, false);
}

static void test_the_same_program_takes_the_same_time(void)
{
	char *first = random_times(1), *second = random_times(1), *third = random_times(2);

	g_assert_cmpstr(first, ==, second);
	g_assert_cmpstr(first, !=, third);
	g_free(first);
	g_free(second);
	g_free(third);
}

/* As a driver does. What only a call completes cannot make room, so nothing is held back behind it. */
static void test_a_full_queue_holds_the_host_back(void)
{
	const unsigned int most = 1024, more = 100;
	unsigned int pending;
	struct bench b;

	bench_open(&b);
	for (unsigned int i = 0; i < most + more; i++)
		submit_for(b.streams[0], VPMM_HOST_COMPUTE, 10);
	g_assert_cmpuint(elapsed(&b), ==, more * 10);
	assert_ok(vpmm_host_stream_pending(b.streams[0], &pending));
	g_assert_cmpuint(pending, ==, most);

	assert_ok(vpmm_host_stream_submit(b.streams[1]));
	for (unsigned int i = 0; i < most + more; i++)
		submit_for(b.streams[1], VPMM_HOST_COPY_IN, 10);
	g_assert_cmpuint(elapsed(&b), ==, more * 10);
	assert_ok(vpmm_host_stream_complete(b.streams[1], UINT_MAX));
	assert_ok(vpmm_host_time_finish());
	bench_close(&b);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	unsetenv("VPMM_HOST_KERNELS");
	g_test_add_func("/host-engines/one-piece-at-a-time", test_an_engine_does_one_piece_at_a_time);
	g_test_add_func("/host-engines/engines-overlap", test_engines_overlap);
	g_test_add_func("/host-engines/devices-have-their-own", test_devices_have_their_own_engines);
	g_test_add_func("/host-engines/first-ready-first", test_first_ready_is_served_first);
	g_test_add_func("/host-engines/ties", test_ties_go_to_what_was_submitted_first);
	g_test_add_func("/host-engines/kernels-at-once", test_kernels_at_once);
	g_test_add_func("/host-engines/streams-wait", test_streams_wait_for_each_other_on_the_clock);
	g_test_add_func("/host-engines/graph", test_a_graph_takes_its_time_at_each_launch);
	g_test_add_func("/host-engines/no-time", test_work_that_takes_no_time);
	g_test_add_func("/host-engines/bad-arguments", test_bad_arguments);
	g_test_add_func("/host-engines/full-queue", test_a_full_queue_holds_the_host_back);
	g_test_add_func("/host-engines/same-time", test_the_same_program_takes_the_same_time);
	return g_test_run();
}
