/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a stream has to come after before it may have some memory. All of it is under the lock of the pool. */
#ifndef WAIT_SET_H
#define WAIT_SET_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct CUstream_st;
struct event;
struct region;
struct stream;

/**
 * struct order - the events that a stream is not behind by itself
 * @stream: the stream
 * @others: of struct event: of each other stream the latest, which implies those before it; NULL: there is none yet
 * @own: the latest of its own; NULL: there is none
 */
struct order {
	struct stream *stream;
	GPtrArray *others;
	struct event *own;
};

/**
 * order_init() - nothing to come after yet
 * @order: the order
 * @stream: the stream
 */
void order_init(struct order *order, struct stream *stream);

/**
 * order_clear() - let go of the events
 * @order: the order
 */
void order_clear(struct order *order);

/**
 * order_add() - come after whoever had a region last
 * @order: the order
 * @region: the region
 */
void order_add(struct order *order, const struct region *region);

/**
 * order_waits() - how many other streams there are to wait for
 * @order: the order
 */
static inline guint order_waits(const struct order *order)
{
	return order->others ? order->others->len : 0;
}

/**
 * order_is_met() - whether the stream may have it all without waiting for another
 * @order: the order
 */
static inline bool order_is_met(const struct order *order)
{
	return !order_waits(order);
}

/**
 * order_poll() - find out whether the others have passed by now
 * @order: the order, which has nothing to do with regions afterwards: those that nobody waits for any more may be gone
 *
 * Return: 0, or what the backend's event_query returns.
 */
int order_poll(struct order *order);

/**
 * order_meet() - let the stream come after all of them
 * @order: the order
 * @handle: a handle of the stream
 * @block: wait on the host; otherwise the device does the waiting
 * @waits: counts what was waited for
 *
 * Afterwards @own is the point in the stream from which on it is behind all of them.
 *
 * Return: 0, or an error of the backend.
 */
int order_meet(struct order *order, struct CUstream_st *handle, bool block, uint64_t *waits);

#endif /* WAIT_SET_H */
