/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A block of another process: the message about it, and all handles of its memory. */
#ifndef PARCEL_H
#define PARCEL_H

#include "calls/message.h"
#include "core/shareable.h"

/**
 * struct parcel - what has come
 * @message: what it is about
 * @from: the memory; parcel_clear() closes its descriptors
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

#endif /* PARCEL_H */
