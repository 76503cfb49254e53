// SPDX-License-Identifier: LGPL-2.1-or-later
/* Collects the latest event of each other stream, and waits for them, on the device or on the host. */
#include "core/region.h"
#include "core/stream.h"
#include "core/wait-set.h"

static void release_event(gpointer event)
{
	event_unref(event);
}

void order_init(struct order *order, struct stream *stream)
{
	*order = (struct order){ .stream = stream };
}

void order_clear(struct order *order)
{
	if (order->others)
		g_ptr_array_free(order->others, TRUE);
	event_unref(order->own);
}

static void keep_own(struct order *order, struct event *event)
{
	if (order->own && order->own->seq >= event->seq)
		return;
	event_unref(order->own);
	order->own = event_ref(event);
}

static void add_one(struct order *order, struct event *event)
{
	if (event->passed)
		return;
	if (event->stream == order->stream) {
		keep_own(order, event);
		return;
	}
	for (guint i = 0; i < order_waits(order); i++) {
		struct event *known = order->others->pdata[i];

		if (known->stream != event->stream)
			continue;
		if (known->seq < event->seq) {
			order->others->pdata[i] = event_ref(event);
			event_unref(known);
		}
		return;
	}
	if (!order->others)
		order->others = g_ptr_array_new_with_free_func(release_event);
	g_ptr_array_add(order->others, event_ref(event));
}

void order_add_event(struct order *order, struct event *event)
{
	if (!event_pending(event))
		return;
	if (!event->count)
		add_one(order, event);
	for (guint i = 0; i < event->count; i++)
		add_one(order, event->parts[i].event);
}

void order_add(struct order *order, const struct region *region)
{
	order_add_event(order, region->event);
}

void order_add_range(struct order *order, struct region_map *map, uint64_t addr, size_t size)
{
	for (struct region *region = region_at(map, addr); region && region->addr < addr + size; region = region->next)
		order_add(order, region);
}

struct event *order_join(struct order *order, struct stream_map *map)
{
	for (guint i = order_waits(order); i > 0; i--) {
		if (!event_pending(order->others->pdata[i - 1]))
			g_ptr_array_remove_index_fast(order->others, i - 1);
	}
	if (!order_waits(order))
		return NULL;
	return order->others->len == 1 ? event_ref(order->others->pdata[0]) : event_join(map, order->others);
}

int order_poll(struct order *order)
{
	int err;

	for (guint i = order_waits(order); i > 0; i--) {
		struct event *event = order->others->pdata[i - 1];

		err = event->passed ? 0 : stream_poll(event->stream);
		if (err)
			return err;
		if (event->passed)
			g_ptr_array_remove_index_fast(order->others, i - 1);
	}
	return 0;
}

static int wait_on_host(struct order *order, uint64_t *waits)
{
	int err;

	while (order_waits(order)) {
		struct event *event = order->others->pdata[order->others->len - 1];

		err = event->passed ? 0 : event_sync(event);
		if (err)
			return err;
		g_ptr_array_remove_index(order->others, order->others->len - 1);
		++*waits;
	}
	return 0;
}

static int wait_on_device(struct order *order, struct CUstream_st *handle, uint64_t *waits)
{
	struct stream_map *map = order->stream->map;
	struct stall stall = stall_begin(map, handle);
	struct event *event;
	int err = 0;

	for (guint i = 0; i < order->others->len && !err; i++) {
		err = event_wait(order->others->pdata[i], handle);
		*waits += !err;
	}
	stall_end(map, handle, &stall, err ? 0 : order->others->len);
	if (err)
		return err;
	err = stream_record(order->stream, handle, &event);
	if (err)
		return err;
	event_unref(order->own);
	order->own = event;
	g_ptr_array_set_size(order->others, 0);
	return 0;
}

int order_wait(struct order *order, struct CUstream_st *handle, bool block, uint64_t *waits)
{
	/* Work outside of a graph cannot be waited for on the device under capture. */
	if (block || order->stream->captured)
		return wait_on_host(order, waits);
	return order_waits(order) ? wait_on_device(order, handle, waits) : 0;
}
