/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* VPMM_PLAN: the file that a pool begins with, and writes when it ends. */
#ifndef PLAN_FILE_H
#define PLAN_FILE_H

#include <glib.h>

struct backend_info;
struct vpmm_pool;
struct warm;

/**
 * plan_file_begin() - take the pool's file for the pool
 * @pool: a pool that nobody else knows, with VPMM_PLAN; its settings have the name of the file from now on
 * @info: its device
 *
 * The second pool of a process that has one name has the file of that name with ".2" at the end, and so on. The pool's
 * first chunks are to be where those of other processes' pools are.
 */
void plan_file_begin(struct vpmm_pool *pool, const struct backend_info *info);

/**
 * plan_file_read() - read what an earlier pool has learned
 * @pool: the pool, after plan_file_begin(); its lock is held
 * @info: its device
 *
 * Return: for warm_free(); NULL: there is nothing that the pool can use, and its log says why. The log
 * also says if the file cannot be written later.
 */
struct warm *plan_file_read(struct vpmm_pool *pool, const struct backend_info *info);

/**
 * plan_file_settle() - note where the pool is, so that no later pool is to begin there
 * @pool: any pool that nobody else knows, with what it begins with; its lock not held
 *
 * Its plan may be of a pool that had other addresses.
 */
void plan_file_settle(struct vpmm_pool *pool);

/**
 * plan_file_text() - what a pool has learned by now
 * @pool: the pool, with a plan; its lock is held. No driver call is made
 *
 * Return: for plan_file_write().
 */
GString *plan_file_text(struct vpmm_pool *pool);

/**
 * plan_file_write() - put that in the place of the file
 * @name: of the file
 * @text: of plan_file_text(); it is freed
 *
 * Other processes see the old file or the new one. A file that is no plan stays as it is.
 *
 * Return: 0, or a negative errno value with a text.
 */
int plan_file_write(const char *name, GString *text);

/**
 * plan_file_end() - write it for the last time, and give the file up
 * @pool: any pool, its lock not held, still with all that it had
 *
 * A pool that has served nothing leaves the file as it is. The log has what went wrong.
 */
void plan_file_end(struct vpmm_pool *pool);

#endif /* PLAN_FILE_H */
