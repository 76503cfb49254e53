// SPDX-License-Identifier: LGPL-2.1-or-later
/* What the tasks of a stream under capture become. */
#include <errno.h>
#include <glib.h>
#include <inttypes.h>

#include "host/capture.h"
#include "host/device.h"
#include "host/life.h"
#include "host/queue.h"
#include "util/error.h"


static uint64_t last_id GUARDED_BY(host_streams_lock);
static unsigned int captures[HOST_DEVICES_MAX] GUARDED_BY(host_streams_lock);

void host_capture_spoil(struct host_capture *capture, const char *why)
{
	if (!capture->why)
		capture->why = g_strdup(why);
}

/* Whether it is the default stream that others wait for, and one of those is captured. */
REQUIRES(host_streams_lock)
static bool is_blocked(const struct CUstream_st *stream)
{
	return stream->legacy && captures[stream->device];
}

REQUIRES(host_streams_lock)
static void invalidate_device(int device, const char *why)
{
	struct CUstream_st *stream;

	for (stream = host_streams; stream; stream = stream->older) {
		if (stream->device == device && stream->capture)
			host_capture_spoil(stream->capture, why);
	}
}

REQUIRES(host_streams_lock)
static void free_capture(struct host_capture *capture)
{
	struct CUstream_st *stream;

	captures[capture->origin->device]--;
	for (stream = host_streams; stream; stream = stream->older) {
		if (stream->capture == capture) {
			stream->capture = NULL;
			stream->loose = false;
		}
	}
	g_clear_pointer(&capture->tasks, g_array_unref);
	g_clear_pointer(&capture->life, host_life_unref);
	g_free(capture->why);
	g_free(capture);
}

static void join(struct CUstream_st *stream, struct host_capture *capture)
{
	stream->capture = capture;
	stream->loose = false;
}

int host_capture_start(struct CUstream_st *stream)
{
	struct host_capture *capture;

	lock_assert_held(&host_streams_lock);
	if (stream->legacy)
		return error_set(-EINVAL, "the legacy default stream cannot be captured");
	if (stream->capture)
		return error_set(-EINVAL, "stream %" PRIu64 " is being captured already", stream->id);
	capture = g_new0(struct host_capture, 1);
	capture->id = ++last_id;
	capture->origin = stream;
	capture->tasks = g_array_new(FALSE, FALSE, sizeof(struct host_task));
	capture->life = host_life_new();
	captures[stream->device]++;
	join(stream, capture);
	return 0;
}

REQUIRES(host_streams_lock)
static void check_capture_joined(struct host_capture *capture)
{
	struct CUstream_st *stream;
	char *why;

	for (stream = host_streams; stream; stream = stream->older) {
		if (stream->capture != capture || !stream->loose)
			continue;
		why = g_strdup_printf("stream %" PRIu64 ", on which it was begun, did not wait for stream %" PRIu64,
				      capture->origin->id, stream->id);
		host_capture_spoil(capture, why);
		g_free(why);
	}
}

int host_capture_finish(struct CUstream_st *stream, struct vpmm_host_graph **graph)
{
	struct host_capture *capture = stream->capture;
	int ret = 0;

	lock_assert_held(&host_streams_lock);
	if (!capture || capture->origin != stream)
		return error_set(-EINVAL, "no capture was begun on stream %" PRIu64, stream->id);
	check_capture_joined(capture);
	if (capture->why) {
		ret = error_set(-EINVAL, "the capture is invalid: %s", capture->why);
	} else {
		*graph = g_new0(struct vpmm_host_graph, 1);
		(*graph)->tasks = g_steal_pointer(&capture->tasks);
		(*graph)->life = g_steal_pointer(&capture->life);
	}
	free_capture(capture);
	return ret;
}

int host_capture_ask(const struct CUstream_st *stream, uint64_t *id)
{
	lock_assert_held(&host_streams_lock);
	if (is_blocked(stream))
		return error_set(-EBUSY, "the legacy default stream cannot be used while another stream is being "
				 "captured");
	*id = stream->capture ? stream->capture->id : 0;
	return 0;
}

int host_capture_task(struct CUstream_st *stream, const struct host_task *task)
{
	struct host_capture *capture = stream->capture;

	lock_assert_held(&host_streams_lock);
	if (is_blocked(stream))
		return host_capture_refuse(stream, "work");
	if (!capture) {
		host_stream_push(stream, task);
		return 0;
	}
	if (capture->why)
		return error_set(-EBUSY, "stream %" PRIu64 " is under a capture that is invalid: %s", stream->id,
				 capture->why);
	g_array_append_val(capture->tasks, *task);
	stream->loose = stream != capture->origin;
	return 0;
}

int host_capture_wait(struct CUstream_st *stream, struct CUstream_st *other)
{
	struct host_capture *capture = other->capture;

	lock_assert_held(&host_streams_lock);
	if (!capture && !stream->capture)
		return is_blocked(stream) || is_blocked(other) ?
		       host_capture_refuse(stream->legacy ? stream : other, "a wait") : 0;
	if (!capture || is_blocked(stream) || (stream->capture && stream->capture != capture) || capture->why) {
		if (capture)
			host_capture_spoil(capture, "a stream from outside, which cannot be captured with it, was to "
					   "wait for it");
		host_capture_refuse(stream, "a wait for what is outside of the capture");
		return error_set(-EBUSY, "stream %" PRIu64 " cannot wait for stream %" PRIu64
				 " while one of them is being captured, and the other is not into the same graph",
				 stream->id, other->id);
	}
	if (!stream->capture)
		join(stream, capture);
	if (other->loose && stream != other) {
		other->loose = false;
		stream->loose = stream != capture->origin;
	}
	return 1;
}

int host_capture_refuse(struct CUstream_st *stream, const char *what)
{
	char *why;

	lock_assert_held(&host_streams_lock);
	if (!stream->capture && !is_blocked(stream))
		return 0;
	why = stream->capture ?
	      g_strdup_printf("%s, on stream %" PRIu64 ", cannot be captured", what, stream->id) :
	      g_strdup_printf("%s on the legacy default stream cannot be captured, as streams wait for that one", what);
	if (stream->capture)
		host_capture_spoil(stream->capture, why);
	else
		invalidate_device(stream->device, why);
	error_set(-EBUSY, "%s", why);
	g_free(why);
	return -EBUSY;
}

int host_capture_refuse_all(int device, const char *what)
{
	char *why;

	lock_assert_held(&host_streams_lock);
	if (!captures[device])
		return 0;
	why = g_strdup_printf("%s cannot be captured", what);
	invalidate_device(device, why);
	error_set(-EBUSY, "%s", why);
	g_free(why);
	return -EBUSY;
}

void host_capture_leave(struct CUstream_st *stream)
{
	struct host_capture *capture = stream->capture;

	lock_assert_held(&host_streams_lock);
	if (!capture)
		return;
	if (capture->origin == stream) {
		free_capture(capture);
		return;
	}
	host_capture_spoil(capture, "a stream that had joined it was destroyed");
	stream->capture = NULL;
	stream->loose = false;
}
