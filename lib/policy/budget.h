/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How much device memory a pool may take: no more than the most that was live. */
#ifndef BUDGET_H
#define BUDGET_H

#include <stddef.h>
#include <stdint.h>

struct core;

/**
 * struct budget - what the pool was trimmed to
 * @past: peak_live when the pool was trimmed last; the peak counts again once it is above that
 * @held: bytes that the pool held after that trim, which count instead until then
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
size_t budget_room(const struct core *core, size_t size);

/**
 * budget_note_trim() - the pool was trimmed: the peak so far is no reason to take as much again
 * @core: the pool's core; its lock is held
 */
void budget_note_trim(struct core *core);

#endif /* BUDGET_H */
