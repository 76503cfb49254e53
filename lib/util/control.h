/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What vpmm-pause and a process with VPMM_PAUSABLE=1 say to each other: a request, one packet of a Unix socket
 * (SOCK_SEQPACKET), and an answer of one packet or several. The name of the socket is abstract, so that a dead process
 * leaves none behind.
 */
#ifndef CONTROL_H
#define CONTROL_H

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "util/pids.h"

#define CONTROL_MAGIC UINT64_C(0x326573756170706d)	/* "mppause2" */

/* Of one packet. */
#define CONTROL_ROWS 64

enum control_op {
	CONTROL_PAUSE,
	CONTROL_RESUME,
	CONTROL_PREPARE,
	CONTROL_STATUS,
	CONTROL_OPS
};

/**
 * struct control_request - what is to be done
 * @magic: CONTROL_MAGIC
 * @op: of enum control_op
 * @flags: of vpmm_pause()
 * @wait_ms: milliseconds in which the program has to come to rest
 * @tag: its name, with a NUL; empty: all pausable tags
 */
struct control_request {
	uint64_t magic;
	uint32_t op;
	uint32_t flags;
	uint64_t wait_ms;
	char tag[64];
};

/**
 * struct control_row - what a pool has under a pausable tag
 * @tag: its name
 * @backend: of the pool
 * @device: ordinal of its device
 * @awake: the memory is there
 *
 * The rest is as vpmm_tag_stats(3) has it.
 */
struct control_row {
	char tag[64];
	char backend[16];
	int32_t device;
	uint32_t awake;
	uint64_t live;
	uint64_t mapped;
	uint64_t paused;
	uint64_t saved;
	uint64_t kept;
};

/**
 * struct control_answer - a packet of the answer: what has become of it
 * @magic: CONTROL_MAGIC
 * @err: 0, or a negative errno value; the same in each packet, as is @text
 * @more: another packet follows
 * @count: of @rows
 * @zero: 0
 * @text: why it failed
 * @rows: what there is now of the tag that was named, or of all pausable tags
 */
struct control_answer {
	uint64_t magic;
	int32_t err;
	uint32_t more;
	uint32_t count;
	uint32_t zero;
	char text[1024];
	struct control_row rows[CONTROL_ROWS];
};

/**
 * control_address() - the socket of a process
 * @address: receives it
 * @pid: the process, in the namespace of this one
 *
 * Abstract names are of a network, which containers with a namespace of processes each can have in common.
 *
 * Return: bytes of the address.
 */
static inline socklen_t control_address(struct sockaddr_un *address, pid_t pid)
{
	int n;

	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	n = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "vpmm-pause-%" PRIu64 "-%ld",
		     pids_namespace(), (long)pid);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

#endif /* CONTROL_H */
