/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* File descriptors of the library's own. */
#ifndef DESCRIPTOR_H
#define DESCRIPTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A descriptor that stays open, and what it is of. */
struct descriptor {
	int fd;			/* -1: none */
	dev_t dev;
	ino_t ino;
};

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

/**
 * descriptor_most() - how large a file may become
 *
 * Return: bytes; UINT64_MAX: there is no RLIMIT_FSIZE.
 */
uint64_t descriptor_most(void);

/**
 * descriptor_may_have() - whether a file may have so many bytes
 * @fd: its descriptor
 * @size: bytes
 *
 * To be called before it grows. Beyond RLIMIT_FSIZE the kernel does not only refuse: it sends SIGXFSZ, which ends the
 * program.
 *
 * Return: false with errno set to EFBIG. What is no regular file may always.
 */
bool descriptor_may_have(int fd, uint64_t size);

/**
 * descriptor_note() - remember what a descriptor is of
 * @fd: an open descriptor
 *
 * Return: what descriptor_is_own() and descriptor_close() take.
 */
struct descriptor descriptor_note(int fd);

/**
 * descriptor_is_own() - whether a descriptor is still of what it was of
 * @descriptor: the descriptor
 *
 * A program may close all descriptors that it does not know, as daemons do. The next file that it opens can have the
 * number.
 *
 * Return: false as well if it is closed, or there is none.
 */
bool descriptor_is_own(const struct descriptor *descriptor);

/**
 * descriptor_close() - close a descriptor, unless the number is another's
 * @descriptor: the descriptor; none afterwards
 */
void descriptor_close(struct descriptor *descriptor);

#endif /* DESCRIPTOR_H */
