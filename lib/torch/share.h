/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Blocks that other processes get, by a name that PyTorch carries there. */
#ifndef TORCH_SHARE_H
#define TORCH_SHARE_H

#include <stddef.h>

/**
 * share_give() - let other processes have a block as long as it is allocated
 * @ptr: the block
 * @name: receives the name, a text of at most TORCH_NAME bytes
 * @offset: receives where the block starts in what share_take() gives
 *
 * Names of one block are the same; those of blocks in one memory, up to the last '/'. The first call starts a thread
 * that hands out what they stand for.
 *
 * Return: 0; -EINVAL: it is no block; -ENOTSUP: its memory cannot be exported; -EBUSY: the process was forked since;
 *	-errno: no socket or thread. vpmm_last_error() has the text of -ENOTSUP alone.
 */
int share_give(void *ptr, char *name, size_t *offset);

/**
 * share_take() - map what a name of another process stands for
 * @name: the name
 * @device: the ordinal of the device that the memory is on
 * @ptr: receives an address in it, for share_drop()
 * @lead: receives how far behind its start that is, in bytes
 * @size: receives the bytes of the block of the library that starts there
 *
 * Return: 0; -EINVAL: it is no such name; -ESRCH: that process has ended; -ENOENT: the block was freed; -EPERM: it is
 *	another user's; -ENXIO; an error of vpmm_receive(), or of the socket.
 */
int share_take(const char *name, int device, void **ptr, size_t *lead, size_t *size);

/* Unmaps it, behind all work. */
void share_drop(void *ptr);

/* The process is the child of a fork. */
void share_enter_child(void);

#endif /* TORCH_SHARE_H */
