/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A chunk as one line of text, in the format of vpmm_pool_dump(3). */
#ifndef LAYOUT_H
#define LAYOUT_H

#include <stddef.h>

struct chunk;
struct core;
struct stream;

/**
 * layout_line() - the regions of a chunk
 * @core: the pool's core
 * @chunk: the chunk
 *
 * Return: a line without newline, for g_free().
 */
char *layout_line(const struct core *core, const struct chunk *chunk);

/**
 * layout_say() - log what was done for a block, with the layout of its chunk, at VPMM_LOG_DEBUG
 * @core: the pool's core
 * @chunk: the chunk
 * @what: the verb, in the past
 * @bytes: so many; 0: log nothing
 * @stream: the stream that it was done for
 */
void layout_say(struct core *core, const struct chunk *chunk, const char *what, size_t bytes,
		const struct stream *stream);

#endif /* LAYOUT_H */
