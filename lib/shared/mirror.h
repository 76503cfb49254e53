/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Who keeps a copy of where memory is, and is told before that changes. */
#ifndef MIRROR_H
#define MIRROR_H

#include "shared/shared.h"

/**
 * mirror_tell() - pages are about to move
 * @range: the range; the mover is held
 * @index: which pages
 * @count: how many
 *
 * Returns when all mirrors have dealt with it. What one learns of the pages between that and mirror_told() is marked,
 * as nobody would tell it of the change.
 */
void mirror_tell(struct range *range, const size_t *index, size_t count);

/**
 * mirror_told() - those that have not moved stay where they are
 * @range: the range; the mover is held
 * @index: which pages; NULL: the first
 * @count: how many
 */
void mirror_told(struct range *range, const size_t *index, size_t count);

/**
 * mirror_tell_range() - a whole range is about to go
 * @range: the range; the mover is held
 */
void mirror_tell_range(struct range *range);

/**
 * mirror_add() - a mirror begins
 * @shared: of its pool
 * @mirror: receives it
 * @ops: what it does
 * @data: passed to @ops
 */
void mirror_add(struct shared *shared, struct vpmm_mirror **mirror, const struct vpmm_mirror_ops *ops, void *data);

/**
 * mirror_remove() - a mirror ends; no update of it is called any more
 * @mirror: the mirror
 */
void mirror_remove(struct vpmm_mirror *mirror);

/**
 * mirror_leave_all() - a pool ends: its mirrors are left to mirror_remove(), which frees them alone
 * @shared: of the pool
 */
void mirror_leave_all(struct shared *shared);

/**
 * mirror_watch() - have a pool, or an arena of it, tell the mirrors of its own regions
 * @shared: of the pool
 * @core: of the pool, or of the arena; its lock is held
 */
void mirror_watch(struct shared *shared, struct core *core);

#endif /* MIRROR_H */
