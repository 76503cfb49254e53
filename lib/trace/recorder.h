/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Records the calls on pools in a file, for VPMM_TRACE.
 *
 * A recorder is a file and a thread that writes it. Pools that name the same file share one, and its records are in one
 * order. Calls leave their records in a ring; the thread formats, compresses and writes them, a few times a second or
 * when the ring fills. So a call waits for the file only while the ring is full; and what is in the file survives
 * whatever becomes of the process, compressed or not, as each write is whole in itself.
 *
 * The thread and the ring last as long as one of the pools. A pool that names the file later continues it, as this is
 * the same process. Pools that still exist when the process exits have their records written by a destructor of the
 * library, which runs after those of whoever uses it; records that come even later are written one by one.
 */
#ifndef RECORDER_H
#define RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/record.h"

struct recorder;

/**
 * recorder_join() - begin to record a pool
 * @name: of the file, with % as name_expand() has it
 * @begin: a record of RECORD_POOL, without its pool
 * @recorder: receives the recorder
 * @pool: receives the pool's number
 *
 * Return: 0, -EINVAL if the file cannot be written, or -ENOMEM.
 */
int recorder_join(const char *name, const struct record *begin, struct recorder **recorder, uint32_t *pool);

/**
 * recorder_leave() - end the recording of a pool, and wait until all of it is written
 * @recorder: the recorder; it remains for recorder_name() and recorder_news()
 * @pool: the pool's number
 */
void recorder_leave(struct recorder *recorder, uint32_t pool);

/**
 * recorder_add() - record a call
 * @recorder: the recorder
 * @record: the call; its @time is set here, and the tag of a malloc
 *
 * Context: any lock may be held. If the call makes memory available to others, it must not have let go of the lock that
 *	still prevents that. Waits only while the ring is full.
 */
void recorder_add(struct recorder *recorder, const struct record *record);

/**
 * recorder_add_cached() - record a malloc or a free that a cache has served, with no flags
 * @recorder: the recorder
 * @pool: the pool's number
 * @op: RECORD_MALLOC or RECORD_FREE
 * @addr: of the block
 * @bytes: as struct record has it
 * @stream: the same
 *
 * Context: as recorder_add().
 */
void recorder_add_cached(struct recorder *recorder, uint32_t pool, enum record_op op, uint64_t addr, uint64_t bytes,
			 uint64_t stream);

/* A file that takes no byte for so long is given up, while a call or the end of the process waits for it. */
extern unsigned int recorder_stalled_ms;

/**
 * recorder_name() - the name of the file
 * @recorder: the recorder
 *
 * Return: the name, with its % replaced; valid as long as the process.
 */
const char *recorder_name(const struct recorder *recorder);

/**
 * recorder_news() - why the trace has ended before its time
 * @recorder: the recorder
 *
 * Return: a reason, valid as long as the process, to exactly one caller; NULL: there is none, or somebody knows it.
 */
const char *recorder_news(struct recorder *recorder);

/**
 * recorder_has_news() - whether recorder_news() has something to tell
 * @recorder: the recorder
 */
bool recorder_has_news(const struct recorder *recorder);

/**
 * recorder_ended() - whether nothing is recorded any more, whoever knows it
 * @recorder: the recorder
 *
 * Return: the reason, valid as long as the process; NULL: what is added is recorded, as far as is known.
 */
const char *recorder_ended(struct recorder *recorder);

#endif /* RECORDER_H */
