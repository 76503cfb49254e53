/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What can be seen of a pool from outside, in the notation of vpmm(7). */
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
 * Writing it is for a caller who holds no lock: that may take for ever.
 *
 * Return: 0, or what the backend's small_held returns.
 */
int dump_pool(struct vpmm_pool *pool, GString **text);

#endif /* DUMP_H */
