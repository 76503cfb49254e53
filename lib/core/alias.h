/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory at several addresses. An extent keeps its old mapping when it is remapped, so each byte of it is allocated or
 * free at one of its mappings, and a zombie at the others. A free byte can become free at another mapping without a
 * driver call.
 */
#ifndef ALIAS_H
#define ALIAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/bound.h"

struct core;
struct extent;
struct place;
struct order;
struct region;
struct region_map;

/**
 * alias_order() - what a stream has to wait for before it can have a part of an extent
 * @core: the pool's core
 * @extent: the extent
 * @from: start of the part, as an offset in the extent
 * @to: end of the part
 * @order: receives the events
 *
 * Return: whether nothing of the part is allocated, at any mapping.
 */
bool alias_order(struct core *core, const struct extent *extent, size_t from, size_t to, struct order *order);

/**
 * alias_order_sole() - add the latest event of the only stream
 * @core: the pool's core
 * @order: of that stream
 *
 * The only stream need not wait for its own events, so alias_order() and alias_reaches() leave them out. But another
 * stream that frees the block later must wait for them.
 */
void alias_order_sole(struct core *core, struct order *order);

/**
 * alias_reaches() - whether all of a range is free there, or can become so
 * @core: the pool's core
 * @addr: where it starts
 * @size: bytes
 * @order: receives what a stream has to wait for
 *
 * Return: the mapping where alias_take() is to begin; NULL: some of the range cannot be free there.
 */
struct place *alias_reaches(struct core *core, uint64_t addr, size_t size, struct order *order);

/**
 * alias_claim() - make all of a range free there
 * @core: the pool's core
 * @addr: where it starts
 * @size: bytes; alias_reaches() holds
 */
void alias_claim(struct core *core, uint64_t addr, size_t size);

/**
 * alias_take() - allocate a range of which not all need be free there
 * @core: the pool's core
 * @first: what the latest alias_reaches() returned
 * @addr: where the range starts
 * @size: bytes of it
 * @order: what alias_reaches() found, waited for since
 *
 * The same as alias_claim() and region_take(), but what comes from other mappings is not made free here between.
 *
 * Return: the region, of the stream of @order.
 */
struct region *alias_take(struct core *core, struct place *first, uint64_t addr, size_t size, struct order *order);

/**
 * alias_free_run() - how much of a loose region is free alike, or is not; the callback of a map of regions
 * @map: the map of a core
 * @loose: the region
 * @free: receives whether it is free from its start on; otherwise it is a zombie there
 *
 * Return: bytes.
 */
size_t alias_free_run(const struct region_map *map, const struct region *loose, bool *free);

/**
 * alias_unify() - gather extents without allocations at one mapping
 * @core: the pool's core
 * @addr: start of a range that was just freed; extents that lie in it become free there
 * @size: bytes
 */
void alias_unify(struct core *core, uint64_t addr, size_t size);

/**
 * alias_trim() - unmap old mappings that hold nothing allocated or free
 * @core: the pool's core, its backend entered
 *
 * Mappings with pending events stay. Remembered decisions may need a mapping that is gone now.
 *
 * Return: 0, or what the backend's unmap returns.
 */
int alias_trim(struct core *core);

/**
 * alias_trim_some() - unmap some of those, so that no call takes long: the mappings first that were used before all
 *	others
 * @core: the pool's core, its backend entered
 * @keep: unmap no more once so many mappings are left
 *
 * Looks at ALIAS_TRIM_LOOKS mappings at most, and no further once ALIAS_TRIM_NEEDED were still needed: a pool that uses
 * all of its mappings pays for those alone. Does not poll events.
 *
 * Return: 0, or what the backend's unmap returns.
 */
int alias_trim_some(struct core *core, uint64_t keep);

/* A GPU's driver takes some 3 ms for as many. */
#define ALIAS_TRIM_LOOKS BOUND(256, 4)
#define ALIAS_TRIM_NEEDED BOUND(32, 2)

/**
 * zombie_reap() - unmap zombies whose events have passed
 * @core: the pool's core, its backend entered
 *
 * Never waits.
 *
 * Return: 0, or an error of the backend's event_query or unmap; the remaining zombies stay.
 */
int zombie_reap(struct core *core);

#endif /* ALIAS_H */
