/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which of the driver's calls have a hook. */
#ifndef PRELOAD_DOORS_H
#define PRELOAD_DOORS_H

#include <stdbool.h>

/**
 * door_hook() - the hook of an address
 * @address: what a lookup has found
 *
 * Return: the hook, if @address is a call of libcuda.so.1 that has one; else @address.
 */
void *door_hook(void *address);

/**
 * door_is_hook() - whether an address is one of ours
 * @address: what a lookup has found
 */
bool door_is_hook(const void *address);

#endif /* PRELOAD_DOORS_H */
