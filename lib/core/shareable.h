/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Blocks that other processes can map (VPMM_SHAREABLE), and blocks that came from other processes.
 *
 * Each has an allocation handle and a reservation of its own, outside of the region maps: whoever maps the handle
 * reaches nothing else, and nobody can tell when the last other process has let go of it, so the memory never serves
 * another request. The pool knows such a block as a struct small with a struct shareable. Its free is always deferred,
 * as it is unmapped once the host has seen its uses complete.
 */
#ifndef SHAREABLE_H
#define SHAREABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct backend_export;
struct core;

/**
 * struct shareable - the memory of one such block
 * @addr: where it is mapped, and where its reservation starts
 * @bytes: of the memory and of the reservation, a multiple of the granularity
 * @handle: the driver's handle
 * @imported: it is another process's memory
 * @created: there is a handle
 * @reserved: there is a reservation
 * @mapped: the one is mapped at the other
 * @grown: the pool has grown by it, and gives it back; otherwise it is imported, or its allocation has failed
 */
struct shareable {
	uint64_t addr;
	uint64_t bytes;
	uint64_t handle;
	bool imported;
	bool created;
	bool reserved;
	bool mapped;
	bool grown;
};

/**
 * shareable_create() - create memory that can be exported, and map it
 * @core: the pool's core; its lock is held, its backend entered
 * @size: bytes of the request
 * @made: receives the memory, for small_add_shareable()
 *
 * Return: 0, -ENOMEM, or an error of the backend.
 */
int shareable_create(struct core *core, size_t size, struct shareable **made);

/**
 * shareable_import() - map what another process has exported
 * @core: the pool's core; its lock is held, its backend entered
 * @export: what stands for it; the descriptor stays the caller's
 * @bytes: of the memory, a multiple of the granularity
 * @made: receives the memory, for small_add_shareable()
 *
 * Return: 0, -ENOMEM, or an error of the backend.
 */
int shareable_import(struct core *core, const struct backend_export *export, uint64_t bytes, struct shareable **made);

/**
 * shareable_release() - unmap a block and give back what it has
 * @core: the pool's core; its lock is held, its backend entered
 * @it: the memory, with no pending work
 *
 * May be called again after an error, and goes on where that was.
 *
 * Return: 0, or an error of the backend.
 */
int shareable_release(struct core *core, struct shareable *it);

/**
 * shareable_retry() - try again to give back what the driver did not take when a call failed
 * @core: the pool's core; its lock is held, its backend entered
 */
void shareable_retry(struct core *core);

/**
 * shareable_clear() - the last try, as the pool goes
 * @core: the pool's core, its backend entered
 */
void shareable_clear(struct core *core);

#endif /* SHAREABLE_H */
