/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Blocks that other processes can map (VPMM_SHAREABLE), and blocks that came from other processes.
 *
 * Each has an allocation handle and a reservation of its own, outside of the region maps: whoever maps the handle
 * reaches nothing else, and nobody can tell when the last other process has let go of it, so the memory never serves
 * another request. What another process lends (vpmm_lend()) has a handle for each of the extents there. The pool knows
 * such a block as a struct small with a struct shareable. Its free is always deferred, as it is unmapped once the host
 * has seen its uses complete.
 */
#ifndef SHAREABLE_H
#define SHAREABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct backend_export;
struct core;

/**
 * struct shareable_import - memory of another process
 * @parts: what stands for each handle; the descriptors stay the caller's
 * @sizes: bytes of each, multiples of the granularity
 * @count: how many there are, at least one
 * @offset: where the block starts in them
 */
struct shareable_import {
	const struct backend_export *parts;
	const uint64_t *sizes;
	unsigned int count;
	uint64_t offset;
};

/**
 * struct shareable - the memory of one such block
 * @addr: where it is mapped, and where its reservation starts
 * @bytes: of the memory and of the reservation, a multiple of the granularity
 * @offset: where the block starts in it
 * @handles: the driver's handles, in the order of their addresses
 * @sizes: bytes of each
 * @count: how many there are; 0: none any more
 * @imported: it is another process's memory
 * @counted: the pool counts @bytes, as long as there is a handle
 * @reserved: there is a reservation
 * @mapped: bytes from @addr on at which the handles are mapped
 * @grown: the pool has grown by it, and gives it back; otherwise it is imported, or its allocation has failed
 */
struct shareable {
	uint64_t addr;
	uint64_t bytes;
	uint64_t offset;
	uint64_t *handles;
	uint64_t *sizes;
	unsigned int count;
	uint64_t mapped;
	bool imported;
	bool counted;
	bool reserved;
	bool grown;
};

/**
 * shareable_bytes() - the bytes of memory that a block gets
 * @core: the pool's core
 * @size: bytes of the request
 *
 * Return: bytes.
 */
size_t shareable_bytes(const struct core *core, size_t size);

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
 * @from: the memory
 * @made: receives the memory, for small_add_shareable()
 *
 * Return: 0, -ENOMEM, or an error of the backend.
 */
int shareable_import(struct core *core, const struct shareable_import *from, struct shareable **made);

/**
 * shareable_free() - free the structure
 * @it: what has nothing any more; or NULL
 */
void shareable_free(struct shareable *it);

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
 * shareable_clear() - the last try, as the pool goes
 * @core: the pool's core, its backend entered
 */
void shareable_clear(struct core *core);

#endif /* SHAREABLE_H */
