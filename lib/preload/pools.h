/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The default memory pools of devices, which the library's default pools stand for. */
#ifndef PRELOAD_POOLS_H
#define PRELOAD_POOLS_H

#include <stdbool.h>

#include "preload/hooks.h"

/**
 * pools_default() - the default memory pool of a device
 * @device: its ordinal, below DEVICES_KNOWN
 *
 * Context: any thread. The driver is asked once.
 * Return: NULL if the driver does not tell.
 */
drv_mem_pool pools_default(int device);

/**
 * pools_forget() - the primary context of a device is gone, and the driver is to be asked again
 * @device: its ordinal
 *
 * Context: any thread.
 */
void pools_forget(int device);

/**
 * pools_is_default() - whether a memory pool is the default one of a device whose primary context the program has
 * @pool: the memory pool
 * @device: receives its device's ordinal
 *
 * Context: any thread.
 */
bool pools_is_default(drv_mem_pool pool, int *device);

#endif /* PRELOAD_POOLS_H */
