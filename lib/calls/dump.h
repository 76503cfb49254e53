/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The state of a pool as text, in the format of vpmm_pool_dump(3). */
#ifndef DUMP_H
#define DUMP_H

#include <glib.h>

struct chunk;
struct vpmm_pool;

/**
 * dump_pool() - the statistics and every region of every chunk
 * @pool: the pool, its backend entered
 * @text: receives the dump
 *
 * The caller writes it to the file with no lock held, as that may block for ever.
 *
 * Return: 0, or what the backend's small_held returns.
 */
int dump_pool(struct vpmm_pool *pool, GString **text);

#endif /* DUMP_H */
