// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>

#include "calls/note.h"
#include "trace/recorder.h"
#include "util/error.h"

/* While a stream is captured the backend tells no id, and its handle has to do. No id is as large. */
#define OF_HANDLE (UINT64_C(1) << 63)

void note_call(struct vpmm_pool *pool, struct record record, struct CUstream_st *handle)
{
	struct backend *be = pool->core.backend;
	struct error_kept kept;
	uint64_t capture = 0;

	error_keep(&kept);
	record.pool = pool->core.recorded_as;
	if (!(record.flags & RECORD_ANY) && be->ops->stream_id(be, handle, &record.stream)) {
		record.stream = OF_HANDLE | (uintptr_t)handle;
		be->ops->stream_capture(be, handle, &capture);
	}
	if (record.op != RECORD_GRAPH_RETIRE && record.op != RECORD_CAPTURE_GROUP)
		record.capture = capture;
	recorder_add(pool->core.recorder, &record);
	error_restore(&kept);
}

int note_begin(struct vpmm_pool *pool, const char *name)
{
	struct core *core = &pool->core;
	struct record begin = { .op = RECORD_POOL, .addr = (uint64_t)core->device, .bytes = core->settings.page_size,
				.text = core->ops->name };
	const char *why;
	int err;

	if (!name)
		return 0;
	err = recorder_join(name, &begin, &core->recorder, &core->recorded_as);
	if (err)
		return err;
	core->direct = false;
	core->settings.trace = recorder_name(core->recorder);
	why = recorder_ended(core->recorder);
	if (why)
		log_report(&core->log, "the trace %s (VPMM_TRACE) lacks this pool, as it has ended: %s",
			   core->settings.trace, why);
	return 0;
}

/* The messages are delivered by whoever takes them next. */
static void add_news(struct vpmm_pool *pool)
{
	const char *why = recorder_news(pool->core.recorder);

	if (!why)
		return;
	lock_acquire(&pool->core.lock);
	log_report(&pool->core.log, "the trace %s (VPMM_TRACE) ends here: %s",
		   recorder_name(pool->core.recorder), why);
	lock_release(&pool->core.lock);
}

void note_news(struct vpmm_pool *pool)
{
	GList *messages;

	add_news(pool);
	lock_acquire(&pool->core.lock);
	messages = log_take(&pool->core.log);
	lock_release(&pool->core.lock);
	log_deliver(&pool->core.log, messages);
}

void note_end(struct vpmm_pool *pool)
{
	if (!pool->core.recorder)
		return;
	recorder_leave(pool->core.recorder, pool->core.recorded_as);
	add_news(pool);
}
