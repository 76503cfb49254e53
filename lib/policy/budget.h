/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How much device memory a pool may create: it holds no more than the peak of live bytes. */
#ifndef BUDGET_H
#define BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct core;

/**
 * struct budget - the effect of the latest trim
 * @past: the most that was ever live, at the latest trim; a later peak counts only above that
 * @held: bytes that the pool held after that trim; they count until then
 */
struct budget {
	uint64_t past;
	uint64_t held;
};

/**
 * budget_room() - how much more memory the pool may create
 * @core: the pool's core; its lock is held
 * @size: bytes of the request
 *
 * Return: bytes, whole pages.
 */
size_t budget_room(struct core *core, size_t size);

/**
 * budget_room_overlap() - how much more memory the pool may create rather than wait for another stream
 * @core: the pool's core; its lock is held
 * @size: bytes of the request
 *
 * Return: bytes, whole pages; no less than budget_room().
 */
size_t budget_room_overlap(struct core *core, size_t size);

/**
 * budget_most() - how much memory the pool may hold, so that no stream need wait
 * @core: the pool's core; its lock is held
 *
 * Return: bytes.
 */
uint64_t budget_most(struct core *core);

/**
 * budget_note_trim() - the pool was trimmed: the peak so far no longer justifies creating memory
 * @core: the pool's core; its lock is held
 */
void budget_note_trim(struct core *core);

/**
 * budget_allows() - whether the pool may exchange memory for other memory
 * @core: the pool's core; its lock is held
 * @size: bytes of the request
 * @without: bytes that are given back
 * @with: bytes that are created
 */
bool budget_allows(struct core *core, size_t size, size_t without, size_t with);

/**
 * budget_start() - let the pool hold what it is created with
 * @core: the pool's core
 * @size: bytes
 */
void budget_start(struct core *core, size_t size);

#endif /* BUDGET_H */
