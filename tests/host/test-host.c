// SPDX-License-Identifier: LGPL-2.1-or-later
/* The calls of vpmm-host.h, as a program that tests its own streams makes them. */
#include <errno.h>
#include <glib.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "host/host-streams.h"
#include "vpmm-host.h"
#include "vpmm.h"

#define NO_STREAM ((struct CUstream_st *)0x1234)

#define assert_refused(call, err, naming)						\
	do {										\
		errno = 0;								\
		g_assert_cmpint((call), ==, err);					\
		g_assert_cmpint(errno, ==, -(err));					\
		g_assert_nonnull(strstr(vpmm_last_error(), naming));			\
	} while (0)

/* Work that writes down that it ran. */
struct note {
	GString *log;
	char letter;
};

static void write_note(void *data)
{
	struct note *note = data;

	g_string_append_c(note->log, note->letter);
	g_free(note);
}

static void launch(struct CUstream_st *stream, GString *log, char letter)
{
	struct note *note = g_new(struct note, 1);

	note->log = log;
	note->letter = letter;
	assert_ok(vpmm_host_stream_launch(stream, write_note, note));
}

static void test_counts(void)
{
	struct CUstream_st *stream = stream_new();

	g_assert_cmpuint(pending(stream), ==, 0);
	complete(stream, 1);
	submit(stream);
	submit(stream);
	submit(stream);
	g_assert_cmpuint(pending(stream), ==, 3);
	complete(stream, 0);
	g_assert_cmpuint(pending(stream), ==, 3);
	complete(stream, 1);
	g_assert_cmpuint(pending(stream), ==, 2);
	complete(stream, UINT_MAX);

	g_assert_cmpuint(pending(stream), ==, 0);
	destroy(stream);
}

static void test_order(void)
{
	struct CUstream_st *stream = stream_new(), *other = stream_new();
	GString *log = g_string_new("");

	launch(stream, log, 'a');
	launch(other, log, 'x');
	launch(stream, log, 'b');
	launch(stream, log, 'c');
	g_assert_cmpstr(log->str, ==, "");
	complete(stream, 2);
	complete(other, 1);
	complete(stream, 1);

	g_assert_cmpstr(log->str, ==, "abxc");
	destroy(stream);
	destroy(other);
	g_string_free(log, true);
}

static void test_wait(void)
{
	struct CUstream_st *first = stream_new(), *second = stream_new();
	GString *log = g_string_new("");

	launch(first, log, 'a');
	launch(second, log, 'x');
	stream_wait(second, first);
	launch(second, log, 'y');
	launch(first, log, 'b');
	assert_refused(vpmm_host_stream_complete(second, 2), -EBUSY, "waits");
	g_assert_cmpstr(log->str, ==, "x");
	g_assert_cmpuint(pending(second), ==, 1);
	complete(first, 1);
	complete(second, 1);

	g_assert_cmpstr(log->str, ==, "xay");
	destroy(first);
	g_assert_cmpstr(log->str, ==, "xayb");
	destroy(second);
	g_string_free(log, true);
}

static void test_wait_for_idle(void)
{
	struct CUstream_st *first = stream_new(), *second = stream_new();

	stream_wait(second, first);
	submit(first);
	submit(second);
	stream_wait(second, second);
	submit(second);
	complete(second, 2);

	g_assert_cmpuint(pending(second), ==, 0);
	destroy(first);
	destroy(second);
}

static void test_wait_without_work_behind(void)
{
	struct CUstream_st *first = stream_new(), *second = stream_new();

	submit(first);
	stream_wait(second, first);
	complete(second, UINT_MAX);
	submit(second);
	complete(second, 0);
	assert_refused(vpmm_host_stream_complete(second, UINT_MAX), -EBUSY, "waits");
	complete(first, 1);

	complete(second, 1);
	g_assert_cmpuint(pending(second), ==, 0);
	destroy(first);
	destroy(second);
}

static void test_wait_goes_through_streams(void)
{
	struct CUstream_st *first = stream_new(), *second = stream_new(), *third = stream_new();

	submit(first);
	stream_wait(second, first);
	stream_wait(third, second);
	submit(third);
	assert_refused(vpmm_host_stream_complete(third, 1), -EBUSY, "waits");
	complete(first, 1);

	complete(third, 1);
	g_assert_cmpuint(pending(third), ==, 0);
	destroy(first);
	destroy(second);
	destroy(third);
}

static void test_wait_for_several(void)
{
	struct CUstream_st *first = stream_new(), *second = stream_new(), *third = stream_new();

	submit(first);
	submit(second);
	stream_wait(third, first);
	stream_wait(third, second);
	submit(third);
	complete(second, 1);
	assert_refused(vpmm_host_stream_complete(third, 1), -EBUSY, "waits");
	complete(first, 1);

	complete(third, 1);
	destroy(first);
	destroy(second);
	destroy(third);
}

static void test_several_wait(void)
{
	struct CUstream_st *first = stream_new(), *waiting[3];
	size_t i;

	submit(first);
	for (i = 0; i < G_N_ELEMENTS(waiting); i++) {
		waiting[i] = stream_new();
		stream_wait(waiting[i], first);
		submit(waiting[i]);
		assert_refused(vpmm_host_stream_complete(waiting[i], 1), -EBUSY, "waits");
	}
	complete(first, 1);

	for (i = 0; i < G_N_ELEMENTS(waiting); i++) {
		complete(waiting[i], 1);
		destroy(waiting[i]);
	}
	destroy(first);
}

/* Two streams that wait for each other's earlier work: no circle. */
static void test_ping_pong(void)
{
	struct CUstream_st *first = stream_new(), *second = stream_new();
	GString *log = g_string_new("");
	int i;

	for (i = 0; i < 3; i++) {
		launch(first, log, 'a');
		stream_wait(second, first);
		launch(second, log, 'b');
		stream_wait(first, second);
	}
	for (i = 0; i < 3; i++) {
		assert_refused(vpmm_host_stream_complete(second, 1), -EBUSY, "waits");
		complete(first, 1);
		complete(second, 1);
	}

	g_assert_cmpstr(log->str, ==, "ababab");
	destroy(first);
	destroy(second);
	g_string_free(log, true);
}

static void test_default_stream(void)
{
	GString *log = g_string_new("");

	launch(NULL, log, 'a');
	launch(VPMM_HOST_STREAM_LEGACY, log, 'b');
	launch(VPMM_HOST_STREAM_PER_THREAD, log, 'x');
	g_assert_cmpuint(pending(NULL), ==, 2);
	g_assert_cmpuint(pending(VPMM_HOST_STREAM_LEGACY), ==, 2);
	g_assert_cmpuint(pending(VPMM_HOST_STREAM_PER_THREAD), ==, 1);
	complete(VPMM_HOST_STREAM_PER_THREAD, 1);
	complete(VPMM_HOST_STREAM_LEGACY, 1);
	complete(NULL, 1);

	g_assert_cmpstr(log->str, ==, "xab");
	g_string_free(log, true);
}

static gpointer use_own_stream(gpointer data)
{
	GString *log = data;

	g_assert_cmpuint(pending(VPMM_HOST_STREAM_PER_THREAD), ==, 0);
	submit(VPMM_HOST_STREAM_PER_THREAD);
	g_assert_cmpuint(pending(VPMM_HOST_STREAM_PER_THREAD), ==, 1);
	launch(VPMM_HOST_STREAM_PER_THREAD, log, 'b');
	launch(NULL, log, 'c');
	return NULL;
}

static void test_per_thread_stream(void)
{
	GString *log = g_string_new("");

	launch(VPMM_HOST_STREAM_PER_THREAD, log, 'a');
	g_thread_join(g_thread_new("other", use_own_stream, log));
	g_assert_cmpstr(log->str, ==, "b");
	g_assert_cmpuint(pending(VPMM_HOST_STREAM_PER_THREAD), ==, 1);
	complete(VPMM_HOST_STREAM_PER_THREAD, UINT_MAX);
	complete(NULL, UINT_MAX);

	g_assert_cmpstr(log->str, ==, "bac");
	g_string_free(log, true);
}

static void test_destroy_completes(void)
{
	struct CUstream_st *stream = stream_new();
	GString *log = g_string_new("");

	launch(stream, log, 'a');
	submit(stream);
	launch(stream, log, 'b');
	destroy(stream);

	g_assert_cmpstr(log->str, ==, "ab");
	g_string_free(log, true);
}

static void test_destroy_waiting(void)
{
	struct CUstream_st *first = stream_new(), *second = stream_new();
	GString *log = g_string_new("");

	submit(first);
	launch(second, log, 'a');
	stream_wait(second, first);
	launch(second, log, 'b');
	assert_refused(vpmm_host_stream_destroy(second), -EBUSY, "waits");
	g_assert_cmpstr(log->str, ==, "a");
	g_assert_cmpuint(pending(second), ==, 1);
	complete(first, 1);

	destroy(second);
	g_assert_cmpstr(log->str, ==, "ab");
	destroy(first);
	g_string_free(log, true);
}

static void test_destroy_waited_for(void)
{
	struct CUstream_st *first = stream_new(), *second = stream_new();

	submit(first);
	stream_wait(second, first);
	submit(second);
	destroy(first);

	complete(second, 1);
	destroy(second);
}

static void test_destroy_waiting_for_nothing(void)
{
	struct CUstream_st *first = stream_new(), *second = stream_new();

	submit(first);
	stream_wait(second, first);
	destroy(second);
	complete(first, 1);
	destroy(first);
}

static void each_call_refuses(struct CUstream_st *stream)
{
	struct CUstream_st *good = stream_new();
	unsigned int n = 7;

	assert_refused(vpmm_host_stream_submit(stream), -EINVAL, "vpmm_host_stream_submit");
	assert_refused(vpmm_host_stream_launch(stream, write_note, NULL), -EINVAL, "vpmm_host_stream_launch");
	assert_refused(vpmm_host_stream_wait(stream, good), -EINVAL, "vpmm_host_stream_wait");
	assert_refused(vpmm_host_stream_wait(good, stream), -EINVAL, "vpmm_host_stream_wait");
	assert_refused(vpmm_host_stream_complete(stream, 1), -EINVAL, "vpmm_host_stream_complete");
	assert_refused(vpmm_host_stream_complete(stream, 0), -EINVAL, "vpmm_host_stream_complete");
	assert_refused(vpmm_host_stream_pending(stream, &n), -EINVAL, "vpmm_host_stream_pending");
	assert_refused(vpmm_host_stream_destroy(stream), -EINVAL, "vpmm_host_stream_destroy");
	g_assert_cmpuint(n, ==, 7);
	destroy(good);
}

static void test_not_a_stream(void)
{
	struct CUstream_st *dead = stream_new();

	each_call_refuses(NO_STREAM);
	each_call_refuses((struct CUstream_st *)&dead);
	destroy(dead);
	assert_refused(vpmm_host_stream_submit(dead), -EINVAL, "stream");
	assert_refused(vpmm_host_stream_destroy(dead), -EINVAL, "stream");
}

static void test_wrong_arguments(void)
{
	struct CUstream_st *stream = stream_new();

	assert_refused(vpmm_host_stream_create(NULL), -EINVAL, "vpmm_host_stream_create");
	assert_refused(vpmm_host_stream_launch(stream, NULL, NULL), -EINVAL, "fn");
	assert_refused(vpmm_host_stream_pending(stream, NULL), -EINVAL, "vpmm_host_stream_pending");
	assert_refused(vpmm_host_stream_destroy(NULL), -EINVAL, "vpmm_host_stream_destroy");
	assert_refused(vpmm_host_stream_destroy(VPMM_HOST_STREAM_LEGACY), -EINVAL, "vpmm_host_stream_destroy");
	assert_refused(vpmm_host_stream_destroy(VPMM_HOST_STREAM_PER_THREAD), -EINVAL, "vpmm_host_stream_destroy");
	g_assert_cmpuint(pending(stream), ==, 0);
	destroy(stream);
}

static void test_devices(void)
{
	struct CUstream_st *stream;

	setenv("VPMM_HOST_DEVICES", "2", 1);
	assert_refused(vpmm_host_set_device(2), -EINVAL, "2");
	assert_refused(vpmm_host_set_device(-1), -EINVAL, "-1");
	submit(NULL);
	submit(VPMM_HOST_STREAM_PER_THREAD);
	assert_ok(vpmm_host_set_device(1));
	g_assert_cmpuint(pending(NULL), ==, 0);
	g_assert_cmpuint(pending(VPMM_HOST_STREAM_PER_THREAD), ==, 0);
	stream = stream_new();
	submit(stream);
	stream_wait(NULL, stream);
	submit(NULL);
	assert_ok(vpmm_host_set_device(0));

	g_assert_cmpuint(pending(NULL), ==, 1);
	g_assert_cmpuint(pending(VPMM_HOST_STREAM_PER_THREAD), ==, 1);
	g_assert_cmpuint(pending(stream), ==, 1);
	destroy(stream);
	assert_ok(vpmm_host_set_device(1));
	complete(NULL, 1);
	assert_ok(vpmm_host_set_device(0));
	complete(NULL, 1);
	complete(VPMM_HOST_STREAM_PER_THREAD, 1);
	setenv("VPMM_HOST_DEVICES", "many", 1);
	assert_refused(vpmm_host_set_device(0), -EINVAL,
		       "vpmm_host_set_device: VPMM_HOST_DEVICES=many: expected a number of devices");
	unsetenv("VPMM_HOST_DEVICES");
	assert_refused(vpmm_host_set_device(1), -EINVAL, "1");
	assert_ok(vpmm_host_set_device(0));
}

struct nested {
	struct CUstream_st *stream;
	int complete;
	int destroy;
};

static void call_the_library(void *data)
{
	struct nested *nested = data;

	nested->complete = vpmm_host_stream_complete(nested->stream, 1);
	nested->destroy = vpmm_host_stream_destroy(nested->stream);
}

static void test_work_that_calls_back(void)
{
	struct nested nested = { .stream = stream_new() };

	assert_ok(vpmm_host_stream_launch(nested.stream, call_the_library, &nested));
	complete(nested.stream, 1);

	g_assert_cmpint(nested.complete, ==, -EBUSY);
	g_assert_cmpint(nested.destroy, ==, -EBUSY);
	destroy(nested.stream);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/host-stream/counts", test_counts);
	g_test_add_func("/host-stream/order", test_order);
	g_test_add_func("/host-stream/wait", test_wait);
	g_test_add_func("/host-stream/wait-for-idle", test_wait_for_idle);
	g_test_add_func("/host-stream/wait-without-work-behind", test_wait_without_work_behind);
	g_test_add_func("/host-stream/wait-goes-through-streams", test_wait_goes_through_streams);
	g_test_add_func("/host-stream/wait-for-several", test_wait_for_several);
	g_test_add_func("/host-stream/several-wait", test_several_wait);
	g_test_add_func("/host-stream/ping-pong", test_ping_pong);
	g_test_add_func("/host-stream/default-stream", test_default_stream);
	g_test_add_func("/host-stream/per-thread-stream", test_per_thread_stream);
	g_test_add_func("/host-stream/destroy-completes", test_destroy_completes);
	g_test_add_func("/host-stream/destroy-waiting", test_destroy_waiting);
	g_test_add_func("/host-stream/destroy-waited-for", test_destroy_waited_for);
	g_test_add_func("/host-stream/destroy-waiting-for-nothing", test_destroy_waiting_for_nothing);
	g_test_add_func("/host-stream/not-a-stream", test_not_a_stream);
	g_test_add_func("/host-stream/wrong-arguments", test_wrong_arguments);
	g_test_add_func("/host-stream/devices", test_devices);
	g_test_add_func("/host-stream/work-that-calls-back", test_work_that_calls_back);
	return g_test_run();
}
