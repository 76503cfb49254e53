/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Address space under a limit of the process (RLIMIT_AS, ulimit -v).
 *
 * A pool reserves address space in advance, which costs nothing without a limit. Under a limit it takes from the heap,
 * from stacks and from the driver, and GLib ends the program when malloc() fails. So of the address space that the
 * rest of the process does not use, all pools together reserve at most two fifths in advance or for small requests. (A
 * block has at least 512 bytes, and the library needs nearly as much of the heap for it: another two fifths.) For a
 * large request they reserve up to three quarters, as it will not be cut into small blocks.
 *
 * Without a limit a process has 128 TiB on x86-64, a reservation of the default size is a sixteenth of that, and a
 * process may have hundreds of pools beside a large heap. So the default shrinks as the pools reserve more: 512
 * reservations are 104 TiB.
 */
#ifndef ROOM_H
#define ROOM_H

#include <stdbool.h>
#include <stdint.h>

/**
 * room_share() - how much address space to reserve in advance where the program does not say
 * @most: bytes: the default
 *
 * An eighth of what is left of three quarters of the address space; at least a 4,096th of that, 24 GiB.
 *
 * Context: any thread.
 * Return: bytes, no more than @most.
 */
uint64_t room_share(uint64_t most);

/**
 * room_refused() - note that the system had no room for a reservation: there is less address space than was thought
 * @size: its bytes
 *
 * Context: any thread.
 */
void room_refused(uint64_t size);

/**
 * room_ahead() - how much address space may be reserved in advance
 *
 * Half of what is allowed, so that the next reservation gets some too.
 *
 * Context: any thread. Makes system calls if there is a limit.
 * Return: bytes, perhaps 0; UINT64_MAX without a limit.
 */
uint64_t room_ahead(void);

/**
 * room_check() - whether a reservation that a request needs leaves enough to the rest of the process
 * @size: bytes
 * @small: whether it is for small requests
 *
 * Context: as room_ahead().
 * Return: 0 or -ENOMEM.
 */
int room_check(uint64_t size, bool small);

/**
 * room_add() - count a reservation
 * @size: bytes
 *
 * Context: any thread.
 */
void room_add(uint64_t size);

/**
 * room_sub() - count the release of a reservation
 * @size: bytes
 *
 * Context: any thread.
 */
void room_sub(uint64_t size);

#endif /* ROOM_H */
