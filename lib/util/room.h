/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Address space under a limit of the process (RLIMIT_AS, ulimit -v).
 *
 * A pool reserves address space in advance, as it costs nothing. Under a limit it does: what is reserved is missing to
 * the heap, to stacks and to the driver, and GLib ends the program where malloc() fails. So of what the rest of the
 * process does not use, the pools together reserve no more than two fifths in advance, or for small requests: a block
 * has 512 bytes or more, and the library needs nearly as much of the heap for one, so another two fifths go there. For
 * a large request they go up to three quarters, as it will not be cut into blocks that small.
 */
#ifndef ROOM_H
#define ROOM_H

#include <stdbool.h>
#include <stdint.h>

/**
 * room_ahead() - how much address space may be reserved in advance
 *
 * Half of what may be at all, so that the next reservation has some too.
 *
 * Context: any thread. Makes system calls where there is a limit.
 * Return: bytes, perhaps 0; UINT64_MAX without a limit.
 */
uint64_t room_ahead(void);

/**
 * room_check() - whether a reservation that a request needs leaves enough to the rest of the process
 * @size: bytes
 * @small: they are for small requests
 *
 * Context: as room_ahead().
 * Return: 0 or -ENOMEM.
 */
int room_check(uint64_t size, bool small);

/**
 * room_add() - count what was reserved
 * @size: bytes
 *
 * Context: any thread.
 */
void room_add(uint64_t size);

/**
 * room_sub() - count what was given back
 * @size: bytes
 *
 * Context: any thread.
 */
void room_sub(uint64_t size);

#endif /* ROOM_H */
