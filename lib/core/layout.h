/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A chunk as one line of text, in the format of vpmm_pool_dump(3). */
#ifndef LAYOUT_H
#define LAYOUT_H

struct chunk;
struct core;

/**
 * layout_line() - the regions of a chunk
 * @core: the pool's core
 * @chunk: the chunk
 *
 * Return: a line without newline, for g_free().
 */
char *layout_line(const struct core *core, const struct chunk *chunk);

#endif /* LAYOUT_H */
