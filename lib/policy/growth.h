/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * How much device memory a pool may create: it holds no more than the peak of live bytes, and the allowance, by which
 * it may hold more rather than let a stream wait for another. That is VPMM_OVERLAP: a percentage, or "auto": a guess
 * from what streams wait for, right from the first wait on. Nothing is measured, so a program that repeats itself
 * settles.
 */
#ifndef GROWTH_H
#define GROWTH_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/core.h"

struct region_map;
struct request;

/**
 * struct growth - the effect of the latest trim
 * @past: the most that was ever live, at the latest trim; a later peak counts only above that
 * @held: bytes that the pool held after that trim; they count until then
 */
struct growth {
	uint64_t past;
	uint64_t held;
};

/**
 * struct allowance_row - blocks that a stream has asked for one after another, and nothing was freed between
 * @stream: the id of the stream
 * @bytes: of all
 * @live: bytes that were live then, with them
 * @blocks: how many
 * @waited: the stream had to wait for the first
 */
struct allowance_row {
	uint64_t stream;
	uint64_t bytes;
	uint64_t live;
	guint blocks;
	bool waited;
};

/**
 * struct allowance_seen - what some waits were for
 * @waits: how many
 * @bytes: of all
 * @block: bytes of the largest block
 * @row: bytes of the largest batch
 * @streams: that waited in turn
 * @begun: waits for the first block of a row
 * @bare: those of @begun whose stream had no longer what it waited for before: it has one buffer at a time
 */
struct allowance_seen {
	guint waits;
	uint64_t bytes;
	uint64_t block;
	uint64_t row;
	guint streams;
	guint begun;
	guint bare;
};

#define ALLOWANCE_STREAMS 8

/**
 * struct allowance - what VPMM_OVERLAP=auto knows, under core.lock
 * @row: the latest
 * @now: the waits of the latest requests
 * @before: those of as many requests before them as make a generation
 * @requests: since @now began
 * @waited: the ids of streams that waited, the latest first; 0: none
 * @waited_for: the block that each waited for
 * @stepped: the allowance when it last doubled or halved
 * @surplus: bytes by which it was lowered then, and which the pool has not given back yet
 */
struct allowance {
	struct allowance_row row;
	struct allowance_seen now;
	struct allowance_seen before;
	guint requests;
	uint64_t waited[ALLOWANCE_STREAMS];
	uint64_t waited_for[ALLOWANCE_STREAMS];
	uint64_t stepped;
	uint64_t surplus;
};

/* How much more memory the pool may create for a request of @size bytes, in whole pages. */
size_t growth_room(struct core *core, size_t size);

/* The same with the allowance: rather than wait for another stream. */
size_t growth_room_overlap(struct core *core, size_t size);

/* Bytes that the pool may hold, so that no stream need wait; @size: of a request that is about to be served, or 0. */
uint64_t growth_most(struct core *core, size_t size);

/**
 * growth_note_trim() - the pool was trimmed: the peak so far no longer justifies creating memory
 * @core: the pool's core
 * @released: bytes that the trim has given back; if most of the pool, the worst gaps are forgotten
 */
void growth_note_trim(struct core *core, uint64_t released);

/**
 * growth_allows() - whether the pool may exchange memory for other memory
 * @core: the pool's core
 * @size: bytes of the request
 * @without: bytes that are given back
 * @with: bytes that are created
 */
bool growth_allows(struct core *core, size_t size, size_t without, size_t with);

/* Lets the pool hold the @size bytes that it is created with. */
void growth_start(struct core *core, size_t size);

/**
 * growth_map() - map new memory into a hole
 * @core: the pool's core, its backend entered
 * @map: the map that has the hole
 * @addr: where the memory is mapped; it becomes free there, of no stream
 * @bytes: how much, a multiple of the page size
 * @piece: bytes of each extent, likewise
 *
 * Return: 0, or an error of the backend; then there is as much memory as before.
 */
int growth_map(struct core *core, struct region_map *map, uint64_t addr, size_t bytes, size_t piece);

/* Whether the allowance changes by itself, by allowance_note(). */
static inline bool allowance_is_sought(const struct core *core)
{
	return region_map_ages(&core->regions) && core->settings.overlap == VPMM_OVERLAP_AUTO;
}

/* The allowance in bytes of a pool that may hold @most bytes without it. */
uint64_t allowance_bytes(const struct core *core, uint64_t most);

/* Whether another stream's work could be pending on free memory, and more may be taken than wait. */
static inline bool overlap_matters(const struct core *core)
{
	return region_map_ages(&core->regions) && allowance_bytes(core, 100);
}

/**
 * allowance_note() - note a request that was served
 * @core: the pool's core
 * @request: the request
 * @waited: whether its stream had to wait for another
 * @addr: its block
 */
void allowance_note(struct core *core, const struct request *request, bool waited, uint64_t addr);

#endif /* GROWTH_H */
