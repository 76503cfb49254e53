/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The allowance: how much more memory than the peak a pool may create rather than let a stream wait for another.
 * VPMM_OVERLAP is a percentage, or "auto": a guess from what streams wait for, right from the first wait on. Nothing is
 * measured, so a program that repeats itself settles.
 */
#ifndef ALLOWANCE_H
#define ALLOWANCE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"

struct request;

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

/**
 * allowance_is_sought() - whether the allowance changes by itself, by allowance_note()
 * @core: the pool's core; its lock is held
 */
static inline bool allowance_is_sought(const struct core *core)
{
	return core->settings.overlap == VPMM_OVERLAP_AUTO && core->regions.ages && !core->streams.sole;
}

/**
 * allowance_bytes() - the allowance
 * @core: the pool's core; its lock is held
 * @most: bytes that the pool may hold without it
 *
 * Return: bytes.
 */
uint64_t allowance_bytes(const struct core *core, uint64_t most);

/**
 * allowance_note() - note a request that was served
 * @core: the pool's core; its lock is held
 * @request: the request
 * @waited: whether its stream had to wait for another
 * @addr: its block
 */
void allowance_note(struct core *core, const struct request *request, bool waited, uint64_t addr);

#endif /* ALLOWANCE_H */
