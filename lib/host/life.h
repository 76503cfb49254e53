/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * How long a captured graph can run: as long as its capture, itself, a launch that is not complete, or another graph
 * that it is a part of.
 */
#ifndef HOST_LIFE_H
#define HOST_LIFE_H

#include "host/queue.h"

/**
 * host_life_new() - a capture begins
 *
 * Return: the life of its graph, with one reference.
 */
struct host_life *host_life_new(void) REQUIRES(host_streams_lock);

/**
 * host_life_ref() - take a reference
 * @life: the life
 *
 * Return: @life.
 */
struct host_life *host_life_ref(struct host_life *life) REQUIRES(host_streams_lock);

/**
 * host_life_unref() - drop a reference; the last one tells those who watch, and ends what the graph is made of
 * @life: the life
 */
void host_life_unref(struct host_life *life) REQUIRES(host_streams_lock);

/**
 * host_life_destroy() - let go of a reference for the program, which has destroyed the graph
 * @life: the life
 */
void host_life_destroy(struct host_life *life) REQUIRES(host_streams_lock);

/**
 * host_life_is_destroyed() - whether the program has destroyed the graph, whose launches go on
 * @life: the life
 *
 * Return: true if it has.
 */
bool host_life_is_destroyed(const struct host_life *life) REQUIRES(host_streams_lock);

/**
 * host_life_contain() - a graph becomes a part of another
 * @life: the life of the other
 * @part: that of the graph
 */
void host_life_contain(struct host_life *life, struct host_life *part) REQUIRES(host_streams_lock);

/**
 * host_life_watch() - have a function called at the end
 * @life: the life
 * @gone: the function; it is called with the lock held
 * @data: passed to @gone
 */
void host_life_watch(struct host_life *life, void (*gone)(void *data), void *data) REQUIRES(host_streams_lock);

#endif /* HOST_LIFE_H */
