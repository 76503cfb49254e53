/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Pausing and resuming of an arena. The lock of the arena is held while its maps and mappings change, and not while
 * bytes are copied: its state keeps others from allocating meanwhile, and whatever a free does to the maps changes no
 * mapping (core.resting).
 */
#ifndef PAUSE_H
#define PAUSE_H

#include <stdint.h>

struct CUstream_st;
struct tags;
struct vpmm_pool;

/**
 * pause_arena() - save the contents of an arena, and give its memory back
 * @tags: the tags of the pool that the program knows
 * @arena: the arena, its backend entered, its lock not held
 * @flags: of vpmm_pause()
 *
 * Waits for all work of the device.
 *
 * Return: 0, also if it is paused; -EBUSY if another thread pauses or resumes it; or an error of the backend.
 */
int pause_arena(struct tags *tags, struct vpmm_pool *arena, unsigned int flags);

/**
 * resume_arena() - create memory for an arena, and restore its contents
 * @tags: the tags of the pool that the program knows
 * @arena: the arena, its backend entered, its lock not held
 *
 * All is done on return.
 *
 * Return: 0, also if it is not paused; -EBUSY if another thread pauses or resumes it; -ENOMEM, or another error of the
 *	backend: it is paused as before.
 */
int resume_arena(struct tags *tags, struct vpmm_pool *arena);

/**
 * pause_measure() - how many bytes pausing would save
 * @tags: the tags of the pool that the program knows
 * @arena: the arena, its lock not held
 *
 * Return: bytes.
 */
uint64_t pause_measure(struct tags *tags, struct vpmm_pool *arena);

#endif /* PAUSE_H */
