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
/* A block with a handle of its own; one in memory that has others, too; and, behind that, each handle of this. */
#define MESSAGE_VERSION 1
#define MESSAGE_LENT 3
#define MESSAGE_PART 4

/**
 * struct message - one block, as it is on the wire, in the byte order of the machine
 * @magic: MESSAGE_MAGIC without its end
 * @version: MESSAGE_VERSION, MESSAGE_LENT or MESSAGE_PART
 * @length: bytes of the message
 * @backend: "cuda" or "host"
 * @uuid: of the device
 * @type: of enum backend_handles
 * @handles: how many there are; of MESSAGE_LENT, how many messages follow
 * @bytes: of the memory; of MESSAGE_LENT, of all of it
 * @size: bytes of the request that the block was allocated for; of MESSAGE_PART the same as @bytes
 * @granularity: what @bytes is a multiple of
 * @fabric: the handle, if it is one for a fabric
 * @offset: of MESSAGE_LENT, where the block starts in the memory
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
	union {
		unsigned char fabric[BACKEND_FABRIC_SIZE];
		uint64_t offset;
	};
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
 * message_send_part() - the same for one that belongs behind another
 * @socket: as above
 * @message: of MESSAGE_PART
 * @fd: as above
 *
 * Context: waits within SO_SNDTIMEO or some seconds, also on a non-blocking socket.
 * Return: as above, but -ETIMEDOUT in place of -EAGAIN.
 */
int message_send_part(int socket, const struct message *message, int fd);

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
 * @message: receives the message, not of MESSAGE_PART
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

/**
 * message_begin_rest() - begin to wait for messages that belong behind one that was read
 * @socket: the Unix socket
 *
 * Return: SO_RCVTIMEO or some seconds from now on, also for a non-blocking socket.
 */
struct message_wait message_begin_rest(int socket);

/**
 * message_receive_part() - the same as message_receive() for one that belongs behind another
 * @socket: a connected Unix socket
 * @rest: of message_begin_rest(), for all that belong behind the same one together
 * @message: receives the message, of MESSAGE_PART
 * @fd: as above
 *
 * Context: waits within @rest.
 * Return: as above, but -ETIMEDOUT in place of -EAGAIN, and -EPROTO in place of -EPIPE.
 */
int message_receive_part(int socket, const struct message_wait *rest, struct message *message, int *fd);

#endif /* MESSAGE_H */
