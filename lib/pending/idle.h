/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Streams that nothing belongs to any more. */
#ifndef IDLE_H
#define IDLE_H

struct stream;
struct pending;

/**
 * idle_forget() - forget a stream, unless something belongs to it
 * @pending: what the pool has pending
 * @stream: the stream; it may be gone afterwards
 */
void idle_forget(struct pending *pending, struct stream *stream);

/**
 * idle_forget_streams() - forget all such streams, when many have come since it was last done
 * @pending: what the pool has pending, its backend entered
 * @stream: one that stays
 *
 * A stream that was destroyed without a word goes like one that has long been idle: nothing tells them apart. One that
 * calls again is met again.
 */
void idle_forget_streams(struct pending *pending, const struct stream *stream);

#endif /* IDLE_H */
