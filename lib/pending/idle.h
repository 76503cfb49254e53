/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Forgets streams that nothing refers to any more. */
#ifndef IDLE_H
#define IDLE_H

struct stream;
struct pending;

/**
 * idle_forget() - forget a stream, unless something refers to it
 * @pending: what the pool has pending
 * @stream: the stream, which may be gone afterwards
 */
void idle_forget(struct pending *pending, struct stream *stream);

/**
 * idle_forget_streams() - forget all idle streams, if many streams were met since the last time
 * @pending: what the pool has pending, its backend entered
 * @stream: a stream that stays
 *
 * An idle stream and one that was destroyed without notice look alike. A stream that calls again is met as a new one.
 */
void idle_forget_streams(struct pending *pending, const struct stream *stream);

#endif /* IDLE_H */
