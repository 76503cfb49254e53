/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Blocks that other processes get, by a name that PyTorch carries there. */
#ifndef TORCH_SHARE_H
#define TORCH_SHARE_H

#include <stddef.h>

/**
 * share_give() - let other processes have a block as long as it is allocated
 * @ptr: the block
 * @name: receives the name, a text of at most TORCH_NAME bytes
 * @offset: receives where the block starts in what vpmm_torch_take() gives
 *
 * Names of one block are the same; those of blocks in one memory, up to the last '/'. The first call starts a thread
 * that hands out what they stand for.
 *
 * Return: 0; -EINVAL: it is no block; -ENOTSUP: its memory cannot be exported; -EBUSY: the process was forked since;
 *	-errno: no socket or thread. vpmm_torch_explain() has the words.
 */
int share_give(void *ptr, char *name, size_t *offset);

#endif /* TORCH_SHARE_H */
