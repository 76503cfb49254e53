// SPDX-License-Identifier: LGPL-2.1-or-later
/* Shows the driver which small frees are complete. */
#include "cuda/driver.h"
#include "cuda/frees.h"

/* Above this number of streams, idle ones are forgotten. */
#define FREES_MOST 64

void cuda_frees_init(struct cuda_frees *frees)
{
	lock_init(&frees->lock, LOCK_CUDA_FREES);
	frees->events = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
}

static void drop_complete(struct cuda_frees *frees)
{
	GHashTableIter iter;
	gpointer event;

	g_hash_table_iter_init(&iter, frees->events);
	while (g_hash_table_iter_next(&iter, NULL, &event)) {
		/* The synchronisation does not wait after a successful query, and is what the driver counts. */
		if (drv.cuEventQuery(event) || drv.cuEventSynchronize(event))
			continue;
		drv.cuEventDestroy(event);
		g_hash_table_iter_remove(&iter);
	}
}

static drv_event event_of_stream(struct cuda_frees *frees, drv_u64 id)
{
	drv_event event = g_hash_table_lookup(frees->events, &id);

	if (event)
		return event;
	if (g_hash_table_size(frees->events) >= FREES_MOST)
		drop_complete(frees);
	if (drv.cuEventCreate(&event, DRV_EVENT_DISABLE_TIMING))
		return NULL;
	g_hash_table_insert(frees->events, g_memdup2(&id, sizeof(id)), event);
	return event;
}

void cuda_frees_note(struct cuda_frees *frees, drv_stream stream)
{
	drv_capture_status status;
	drv_event event;
	drv_u64 id;

	/* An event recorded under capture belongs to the graph, and must not be queried. */
	if (drv.cuStreamIsCapturing(stream, &status) || status != DRV_STREAM_CAPTURE_STATUS_NONE ||
	    drv.cuStreamGetId(stream, &id))
		return;
	lock_acquire(&frees->lock);
	event = event_of_stream(frees, id);
	if (event)
		drv.cuEventRecord(event, stream);
	lock_release(&frees->lock);
}

bool cuda_frees_poll(struct cuda_frees *frees)
{
	bool pending;

	lock_acquire(&frees->lock);
	drop_complete(frees);
	pending = g_hash_table_size(frees->events);
	lock_release(&frees->lock);
	return pending;
}

void cuda_frees_drop(struct cuda_frees *frees)
{
	GHashTableIter iter;
	gpointer event;

	g_hash_table_iter_init(&iter, frees->events);
	while (g_hash_table_iter_next(&iter, NULL, &event))
		drv.cuEventDestroy(event);
}

void cuda_frees_clear(struct cuda_frees *frees)
{
	g_hash_table_destroy(frees->events);
	lock_destroy(&frees->lock);
}
