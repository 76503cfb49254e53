/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory at several addresses. An extent that has moved stays mapped where it was, so each byte of it is allocated or
 * free at one of its places, and a zombie at the others; what is free can become free at another place, at no cost.
 */
#ifndef ALIAS_H
#define ALIAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct extent;
struct order;
struct core;

/**
 * alias_order() - what a stream has to come after before it may have a part of an extent
 * @core: the pool's core
 * @extent: the extent
 * @from: where the part starts in it
 * @to: where it ends
 * @order: receives it
 *
 * Return: whether nothing of the part is allocated, at any of the extent's places.
 */
bool alias_order(struct core *core, const struct extent *extent, size_t from, size_t to, struct order *order);

/**
 * alias_reaches() - whether all of a range is free, or can become free there
 * @core: the pool's core
 * @addr: where it starts
 * @size: bytes
 * @order: receives what a stream has to come after
 */
bool alias_reaches(struct core *core, uint64_t addr, size_t size, struct order *order);

/**
 * alias_claim() - let all of a range be free there
 * @core: the pool's core
 * @addr: where it starts
 * @size: bytes; alias_reaches() holds
 */
void alias_claim(struct core *core, uint64_t addr, size_t size);

/**
 * alias_unify() - let extents that nothing is allocated of be free at one place only
 * @core: the pool's core
 * @addr: where a range starts that was freed; of extents that lie in it the place there counts
 * @size: bytes
 */
void alias_unify(struct core *core, uint64_t addr, size_t size);

/**
 * alias_trim() - unmap the places where nothing is allocated or free any more
 * @core: the pool's core, its backend entered
 *
 * Those whose events have not passed stay. What was decided before may not be had any longer.
 *
 * Return: 0, or what the backend's unmap returns.
 */
int alias_trim(struct core *core);

/**
 * zombie_reap() - unmap the zombies whose events have passed
 * @core: the pool's core, its backend entered
 *
 * Waits for none.
 *
 * Return: 0, or as the backend's event_query and unmap; the rest stays as it is then.
 */
int zombie_reap(struct core *core);

#endif /* ALIAS_H */
