/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What vpmm_send() and vpmm_receive() do with a block. What goes through the socket: message.h. */
#ifndef EXPORT_H
#define EXPORT_H

#include <stddef.h>
#include <stdint.h>

struct message;
struct vpmm_pool;

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
 * import_block() - map the block of a message
 * @pool: the pool, its backend entered
 * @message: the message, from message_receive()
 * @fd: what came with it, which stays the caller's
 * @addr: receives the address
 *
 * Waits on the host if only that gives the mappings or addresses which it takes.
 *
 * Return: 0, -EXDEV for memory of another device or backend, -EPROTO for memory that is not as the message says,
 * -ENOMEM, or another error of the backend.
 */
int import_block(struct vpmm_pool *pool, const struct message *message, int fd, uint64_t *addr);

#endif /* EXPORT_H */
