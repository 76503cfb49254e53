/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a stream has to wait for before it can have some memory. All of it is under core.lock. */
#ifndef WAIT_SET_H
#define WAIT_SET_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct CUstream_st;
struct event;
struct region;
struct region_map;
struct stream;
struct stream_map;

/**
 * struct order - a wait set: events that a stream is not ordered after yet
 * @stream: the stream; NULL: none yet, as for memory that is being freed
 * @others: of struct event: the latest of each other stream, which covers the earlier ones; NULL: none yet
 * @own: the latest event of its own; NULL: none
 */
struct order {
	struct stream *stream;
	GPtrArray *others;
	struct event *own;
};

/**
 * order_init() - make an empty wait set
 * @order: the wait set
 * @stream: the stream that waits; NULL: none, so that all streams are others
 */
void order_init(struct order *order, struct stream *stream);

/**
 * order_clear() - drop the events
 * @order: the wait set
 */
void order_clear(struct order *order);

/**
 * order_add_event() - add an event
 * @order: the wait set
 * @event: the event; joined: each of its parts; NULL: none
 */
void order_add_event(struct order *order, struct event *event);

/**
 * order_add() - add the event of a region
 * @order: the wait set
 * @region: the region
 */
void order_add(struct order *order, const struct region *region);

/**
 * order_add_range() - add the events of all regions in a range
 * @order: the wait set
 * @map: their map
 * @addr: where the range starts
 * @size: bytes
 */
void order_add_range(struct order *order, struct region_map *map, uint64_t addr, size_t size);

/**
 * order_join() - one event that stands for all of a wait set
 * @order: the wait set, of no stream; events that have passed are dropped
 * @map: the streams of the pool
 *
 * Return: the event, with one reference, joined if there are several; NULL: there are none.
 */
struct event *order_join(struct order *order, struct stream_map *map);

/**
 * order_waits() - the number of other streams to wait for
 * @order: the wait set
 */
static inline guint order_waits(const struct order *order)
{
	return order->others ? order->others->len : 0;
}

/**
 * order_is_ready() - whether there is no other stream to wait for
 * @order: the wait set
 */
static inline bool order_is_ready(const struct order *order)
{
	return !order_waits(order);
}

/**
 * order_poll() - drop the events that are complete by now
 * @order: the wait set. Regions that were added to it may have merged with others afterwards
 *
 * Return: 0, or what the backend's event_query returns.
 */
int order_poll(struct order *order);

/**
 * order_wait() - wait for all events
 * @order: the wait set
 * @handle: a handle of the stream
 * @block: wait on the host instead of the device
 * @waits: is increased by the number of waits
 *
 * Afterwards @own is an event of @stream that is ordered after all of them.
 *
 * Return: 0, or an error of the backend.
 */
int order_wait(struct order *order, struct CUstream_st *handle, bool block, uint64_t *waits);

#endif /* WAIT_SET_H */
