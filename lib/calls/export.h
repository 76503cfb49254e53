/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What vpmm_send(), vpmm_lend() and vpmm_receive() do with a block. What goes through the socket: message.h. */
#ifndef EXPORT_H
#define EXPORT_H

#include <stddef.h>
#include <stdint.h>

#include "calls/message.h"
#include "core/shareable.h"

struct vpmm_pool;

/**
 * struct parcel - a block of another process
 * @message: what has come about it
 * @from: all handles of its memory; parcel_clear() closes its descriptors
 */
struct parcel {
	struct message message;
	struct shareable_import from;
};

/**
 * parcel_receive() - read all messages about a block from a socket
 * @socket: a connected Unix socket
 * @parcel: receives them, for parcel_clear() if this succeeds
 *
 * Context: does not wait for the first message, but for what has to follow it.
 * Return: as message_receive().
 */
int parcel_receive(int socket, struct parcel *parcel);

/**
 * parcel_clear() - close what has come, and free the lists
 * @parcel: from parcel_receive()
 */
void parcel_clear(struct parcel *parcel);

/**
 * export_block() - make the message about a block
 * @pool: the pool, its backend entered
 * @addr: where the block starts
 * @message: receives the message
 * @fd: receives the descriptor that goes with it, which the caller closes; -1: none
 *
 * The descriptor keeps the memory, whatever happens to the block meanwhile.
 *
 * Return: 0, -EINVAL, or an error of the backend.
 */
int export_block(struct vpmm_pool *pool, uint64_t addr, struct message *message, int *fd);

/**
 * lend_begin() - make the message about a block and the extents under it
 * @pool: the pool, its backend entered
 * @addr: where the block starts
 * @message: receives the message, of MESSAGE_LENT
 *
 * Return: 0, -EINVAL, -ENOTSUP, or an error of the backend.
 */
int lend_begin(struct vpmm_pool *pool, uint64_t addr, struct message *message);

/**
 * lend_key() - tell which memory that is
 * @pool: the pool, its backend entered
 * @addr: where the block starts
 * @key: receives three numbers, see vpmm_lend_key()
 * @offset: receives where the block starts in it
 *
 * Return: 0, -EINVAL or -ENOTSUP.
 */
int lend_key(struct vpmm_pool *pool, uint64_t addr, uint64_t *key, size_t *offset);

/**
 * lend_part() - make the message about one of these extents
 * @pool: the pool, its backend entered
 * @addr: where the block starts
 * @done: bytes of those before
 * @message: receives the message, of MESSAGE_PART
 * @fd: receives the descriptor that goes with it, which the caller closes; -1: none
 *
 * Return: 0; -EINVAL: the block was freed or has another size; or an error of the backend.
 */
int lend_part(struct vpmm_pool *pool, uint64_t addr, uint64_t done, struct message *message, int *fd);

/**
 * import_block() - map the block of a parcel
 * @pool: the pool, its backend entered
 * @parcel: the parcel, from parcel_receive()
 * @addr: receives the address
 *
 * Waits on the host if only that gives the mappings or addresses which it takes.
 *
 * Return: 0, -EXDEV for memory of another backend, or of a device that the pool's device cannot access, -EPROTO for
 * memory that is not as the message says, -ENOMEM, or another error of the backend.
 */
int import_block(struct vpmm_pool *pool, const struct parcel *parcel, uint64_t *addr);

#endif /* EXPORT_H */
