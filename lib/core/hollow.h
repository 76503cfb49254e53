/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Takes the device memory from under all mappings of a pool, and puts other memory there. The maps of regions and of
 * extents stay as they are meanwhile: only handles and the driver's mappings go and come. So blocks can be freed, and
 * what walks the maps, such as the checker, knows nothing of it. What would call the driver about memory is not to be
 * called before hollow_end(): nothing may be allocated; trims only if hollow_is_complete(), and they call no driver
 * then. extent_unmap() and extent_delete() leave the driver alone meanwhile, and trims leave a pool with core.resting
 * alone.
 */
#ifndef HOLLOW_H
#define HOLLOW_H

#include <stdbool.h>

struct core;

/**
 * hollow_out() - unmap and release all memory
 * @core: the pool's core, its backend entered; no work is pending on its memory
 *
 * All is unmapped before anything is released. If that fails, what was unmapped is mapped again from its handles, so
 * that nothing has changed. If that fails as well, the pool is left hollow in part, which core->extents.hollow says,
 * with all handles, and so with its contents; hollow_fill() tries again.
 *
 * Return: 0, or what the backend's unmap returns.
 */
int hollow_out(struct core *core);

/**
 * hollow_is_complete() - whether a pool is hollow, and has no mapping and no contents
 * @core: the pool's core
 *
 * Return: whether that is so.
 */
bool hollow_is_complete(const struct core *core);

/**
 * hollow_fill() - create memory for all mappings, and map it
 * @core: the core of a hollow pool, its backend entered
 *
 * All is created before anything is mapped. The contents are undefined. The pool stays hollow until hollow_end(), as
 * contents may have to be copied first.
 *
 * Return: 0, or what extent_judge() and the backend's create, map, access and unmap return: nothing has changed then.
 */
int hollow_fill(struct core *core);

/**
 * hollow_empty() - undo hollow_fill()
 * @core: the core of a hollow pool
 *
 * Memory that has its contents, as hollow_out() failed, is not released. What the driver does not take back stays,
 * counts as held, and serves the next hollow_fill().
 */
void hollow_empty(struct core *core);

/**
 * hollow_end() - the memory of a pool is complete: it is not hollow any more
 * @core: the core, after hollow_fill()
 */
void hollow_end(struct core *core);

#endif /* HOLLOW_H */
