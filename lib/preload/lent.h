/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Blocks that the program has given to other processes by CUDA's legacy IPC, and those that it has opened. */
#ifndef PRELOAD_LENT_H
#define PRELOAD_LENT_H

#include <stdbool.h>
#include <stdint.h>

#include "preload/hooks.h"
#include "util/lender.h"

/**
 * struct lent_opened - a handle of another process that the program has opened
 * @handle: the handle
 * @device: whose primary context was current
 * @base: the block here
 * @va: the address in it that the program was told
 */
struct lent_opened {
	struct lender_name handle;
	int device;
	void *base;
	drv_deviceptr va;
};

/**
 * lent_any() - whether there is anything of either kind
 *
 * Context: any thread.
 * Return: false as well in a forked child.
 */
bool lent_any(void);

/**
 * lent_give() - note a block that the program gives to other processes
 * @base: where it begins
 * @device: its device
 *
 * Context: any thread.
 * Return: a number of its own, the same for each call; 0: there is no memory.
 */
uint64_t lent_give(const void *base, int device);

/**
 * lent_number() - the number of a block that was given
 * @base: where it begins
 *
 * Context: any thread.
 * Return: 0 if it was not, or was freed.
 */
uint64_t lent_number(const void *base);

/**
 * lent_open_again() - count one more open of a handle
 * @handle: the handle
 * @device: whose primary context is current
 * @va: receives the address
 *
 * Context: any thread.
 * Return: false if it is not open on that device.
 */
bool lent_open_again(const struct lender_name *handle, int device, drv_deviceptr *va);

/**
 * lent_open() - note the first open of a handle
 * @opened: what was opened
 *
 * Context: any thread.
 * Return: false if there is no memory.
 */
bool lent_open(const struct lent_opened *opened);

struct given;

/**
 * lent_free() - a block is about to be freed, and its handles are good no more
 * @base: where it begins; any other address does nothing
 * @note: receives what lent_freed() needs, which has to follow
 *
 * Context: any thread.
 * Return: false if the block is another process's, which only cuIpcCloseMemHandle() gives back. Nothing follows then.
 */
bool lent_free(const void *base, struct given **note);

/**
 * lent_freed() - the free is over
 * @note: as lent_free() gave it
 * @freed: otherwise the block is still there, and its handles are good again
 *
 * Context: any thread.
 */
void lent_freed(struct given *note, bool freed);

/**
 * lent_close() - count one open less
 * @va: the address that the program was told
 * @opened: receives what it was
 *
 * The last one is followed by a free, which lent_free() no longer forbids, and by lent_closed().
 *
 * Context: any thread.
 * Return: how many opens are left, or -1: nothing is open there.
 */
long lent_close(drv_deviceptr va, struct lent_opened *opened);

/**
 * lent_closed() - the free after the last close is over
 * @va: the address
 * @freed: otherwise it has failed, and the handle is still open
 *
 * Context: any thread.
 */
void lent_closed(drv_deviceptr va, bool freed);

/**
 * lent_forget() - the memory of a device is gone
 * @device: its ordinal
 *
 * Context: any thread.
 */
void lent_forget(int device);

#endif /* PRELOAD_LENT_H */
