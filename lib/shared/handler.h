/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The handler of SIGSEGV, in which a touch sleeps where the kernel does not allow userfaultfd. The callers of
 * handler_begin(), handler_end(), handler_watch() and handler_unwatch() share one lock, and hold it.
 */
#ifndef HANDLER_H
#define HANDLER_H

#include <stddef.h>
#include <stdint.h>

/**
 * handler_begin() - install the handler
 * @to: a descriptor to which it writes the addresses that were touched, of uint64_t, with TOUCH_WRITE
 *
 * Return: 0 or -ENOTSUP.
 */
int handler_begin(int to);

/**
 * handler_end() - undo handler_begin(), if it was called
 *
 * The handler stays where a later one of the program would call it, and passes everything on.
 */
void handler_end(void);

/**
 * handler_watch() - know addresses as those of a range
 * @at: where they start
 * @size: bytes
 *
 * Return: 0, or -ENOMEM if there are too many ranges.
 */
int handler_watch(uint64_t at, size_t size);

/**
 * handler_unwatch() - undo handler_watch(), if it was called
 * @at: where they start
 */
void handler_unwatch(uint64_t at);

/* Lets sleeping touches be tried again. */
void handler_wake(void);

/**
 * handler_leave() - leave a touch to the program if its own protection of the page stops it
 * @addr: the address that was touched, with TOUCH_WRITE; the CPU has it, and does not lose it meanwhile
 *
 * The handler then calls the previous one. handler_wake() has to follow.
 */
void handler_leave(uint64_t addr);

#endif /* HANDLER_H */
