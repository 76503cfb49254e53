/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* File descriptors of the library's own. */
#ifndef DESCRIPTOR_H
#define DESCRIPTOR_H

/**
 * descriptor_raise() - move a new descriptor above standard error
 * @fd: a descriptor that nothing else knows yet, or -1, the result of the call that should have made it
 *
 * The kernel hands out the lowest free number. In a program that was started with a standard descriptor closed that
 * number is 0, 1 or 2, and whatever the program prints would go to the library's file.
 *
 * Return: a descriptor above STDERR_FILENO, with close-on-exec; -1 with errno set, and @fd closed.
 */
int descriptor_raise(int fd);

#endif /* DESCRIPTOR_H */
