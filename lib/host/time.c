// SPDX-License-Identifier: LGPL-2.1-or-later
/* The virtual clock, as a program moves it. */
#include <errno.h>
#include <glib.h>
#include <inttypes.h>

#include "host/clock.h"
#include "host/queue.h"
#include "host/streams.h"
#include "util/error.h"

uint64_t host_time(void)
{
	uint64_t time;

	lock_acquire(&host_streams_lock);
	time = host_clock_now();
	lock_release(&host_streams_lock);
	return time;
}

int host_time_pass(uint64_t ns)
{
	uint64_t target;
	int ret = host_queue_not_in_work("let time pass");

	if (ret)
		return ret;
	lock_acquire(&host_streams_lock);
	ret = host_clock_room(ns);
	if (ret)
		goto unlock;
	target = host_clock_now() + ns;
	while (host_queue_step(target))
		;
	host_clock_reach(target);
unlock:
	lock_release(&host_streams_lock);
	return ret;
}

/* Nothing completes by the clock any more: what is left has to be told. */
REQUIRES(host_streams_lock)
static int refuse_untimed(struct CUstream_st *stream)
{
	return error_set(-EBUSY, "stream %" PRIu64 " has work that is pending until a call completes it; "
			 "pieces: %" PRIu64, stream->id, stream->submitted - stream->completed);
}

int host_time_finish(void)
{
	struct CUstream_st *stream;
	int ret = host_queue_not_in_work("let time pass");

	if (ret)
		return ret;
	lock_acquire(&host_streams_lock);
	do {
		while (host_queue_step(UINT64_MAX))
			;
		stream = host_queue_busy(HOST_ANY_DEVICE);
		stream = stream ? host_queue_holder(stream) : NULL;
		if (stream && stream->running)
			host_queue_wait_for_work();
		else if (stream && stream->head->kind == ITEM_WORK)
			ret = refuse_untimed(stream);
	} while (stream && !ret);
	lock_release(&host_streams_lock);
	return ret;
}
