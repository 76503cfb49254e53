/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Names of blocks for other processes, and the socket of this process that lends what a name stands for. For the
 * objects beside the library, each of which has a socket of its own; needs no GLib.
 */
#ifndef LENDER_H
#define LENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vpmm_pool;

/* Other processes read it: no byte of it is padding. It has the size of a handle of CUDA's legacy IPC. */
struct lender_name {
	int32_t pid;
	uint32_t kind;		/* what the object says that it is */
	uint64_t token[2];	/* of the process, which nobody can guess */
	uint64_t key[3];	/* of vpmm_lend_key() */
	uint64_t addr;
	uint64_t serial;	/* of this block, as another may get its address */
};

/**
 * struct lender_ops - what an object does for its names
 * @find: whether the block of a name is still there, and where it starts; by its kind, address and serial
 * @lend_key: vpmm_lend_key()
 * @lend: vpmm_lend()
 */
struct lender_ops {
	bool (*find)(const struct lender_name *name, void **base);
	int (*lend_key)(struct vpmm_pool *pool, const void *ptr, uint64_t *key, size_t *offset);
	int (*lend)(struct vpmm_pool *pool, const void *ptr, int socket);
};

/**
 * struct lender_answer - what the process of a name says of it
 * @err: 0, or a negative number: there is nothing to receive
 * @lead: where the block starts in the memory that is sent, in bytes
 * @within: where the address of the name is in the block
 */
struct lender_answer {
	int64_t err;
	uint64_t lead;
	uint64_t within;
};

/**
 * lender_give() - let other processes have a block as long as it is allocated
 * @ops: the object's, always the same
 * @name: has kind, address and serial, and receives the rest
 * @offset: receives where the address is in the memory that is sent, in bytes
 *
 * The first call starts a thread that hands out what names stand for.
 *
 * Context: any thread.
 * Return: 0; -EINVAL: there is no such block; an error of vpmm_lend_key(); -EBUSY: the process was forked since;
 *	-errno:
 *	no socket or thread.
 */
int lender_give(const struct lender_ops *ops, struct lender_name *name, size_t *offset);

/**
 * lender_ask() - ask the process of a name to lend its block
 * @name: the name
 * @answer: receives the answer
 * @socket: receives the socket that vpmm_receive() gets the block from, which the caller closes
 *
 * Context: any thread; waits for the other process, at most 30 s if that says nothing.
 * Return: 0; -ESRCH: that process has ended; -ENOENT: the block was freed, or cannot be lent; -EPERM: it is another
 *	user's; -EBUSY: this process was forked since; or an error of the socket.
 */
int lender_ask(const struct lender_name *name, struct lender_answer *answer, int *socket);

/**
 * lender_is_own() - whether a name is of this process
 * @name: the name
 *
 * Context: any thread.
 */
bool lender_is_own(const struct lender_name *name);

/* The process is the child of a fork. */
void lender_enter_child(void);
bool lender_in_child(void);

#endif /* LENDER_H */
