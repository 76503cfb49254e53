/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What vpmm_send() writes to a socket and vpmm_receive() reads there: one message of a fixed size for each block, and
 * with it the descriptor of its memory, unless the handle is one for a fabric. Nothing of a pool, and no lock is held.
 *
 * What is received may come from anybody, so no field is believed before message_receive() has looked at it.
 */
#ifndef MESSAGE_H
#define MESSAGE_H

#include <stdint.h>

#include "backend/backend.h"

#define MESSAGE_MAGIC "vpmmSEND"
#define MESSAGE_VERSION 1

/**
 * struct message - one block, as it is on the wire, in the byte order of the machine
 * @magic: MESSAGE_MAGIC without its end
 * @version: of what follows
 * @length: bytes of the message
 * @backend: "cuda" or "host"
 * @uuid: of the device
 * @type: of enum backend_handles
 * @handles: how many there are
 * @bytes: of the memory
 * @size: bytes of the request that the block was allocated for
 * @granularity: what @bytes is a multiple of
 * @fabric: the handle, if it is one for a fabric
 */
struct message {
	char magic[8];
	uint32_t version;
	uint32_t length;
	char backend[16];
	unsigned char uuid[BACKEND_UUID_SIZE];
	uint32_t type;
	uint32_t handles;
	uint64_t bytes;
	uint64_t size;
	uint64_t granularity;
	unsigned char fabric[BACKEND_FABRIC_SIZE];
};

/**
 * message_send() - write a message to a socket
 * @socket: a connected Unix socket
 * @message: the message
 * @fd: the descriptor that goes with it; -1: none. It stays the caller's
 *
 * Context: waits until the socket takes the message, unless it is non-blocking.
 * Return: 0, or
 *	-EINVAL @socket is no Unix socket,
 *	-EPIPE the other end is closed,
 *	-EAGAIN nothing was sent: the socket is non-blocking, or its SO_SNDTIMEO is over,
 *	-ETIMEDOUT a part was sent, and the rest could not be,
 *	or another error of sendmsg().
 */
int message_send(int socket, const struct message *message, int fd);

/**
 * struct message_wait - how long a call may wait
 * @ms: milliseconds; -1: without end
 * @end: the time of g_get_monotonic_time() at which they are over
 */
struct message_wait {
	int ms;
	int64_t end;
};

/**
 * message_begin() - begin to wait for a message
 * @socket: a connected Unix socket
 * @wait: receives how long the socket's flags and SO_RCVTIMEO let a call wait, from now on
 *
 * Return: 0 or -EINVAL.
 */
int message_begin(int socket, struct message_wait *wait);

/**
 * message_await() - wait until there may be a message
 * @socket: a connected Unix socket
 * @wait: of message_begin(); calls on it share its time
 *
 * The thread can be cancelled meanwhile.
 *
 * Return: 0; -EAGAIN: the time is over; or another error of poll().
 */
int message_await(int socket, const struct message_wait *wait);

/**
 * message_receive() - read a message from a socket, and look whether it can be one
 * @socket: a connected Unix socket
 * @message: receives the message
 * @fd: receives the descriptor that came with it, which the caller closes; -1: there is none
 *
 * All descriptors are closed if the message is wrong.
 *
 * Context: does not wait for a message. The rest of one has to follow within SO_RCVTIMEO or some seconds.
 * Return: 0, or
 *	-EINVAL @socket is no Unix socket,
 *	-EPIPE the other end is closed, and there is no message,
 *	-EAGAIN there is no message, or another thread was faster,
 *	-ETIMEDOUT a part of one is there, and the rest does not come,
 *	-EPROTO what was read is not such a message,
 *	-EMFILE the process could not take the descriptor,
 *	or another error of recvmsg().
 */
int message_receive(int socket, struct message *message, int *fd);

#endif /* MESSAGE_H */
