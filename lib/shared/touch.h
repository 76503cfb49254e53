/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * How the CPU's touch of a page that it does not have is noticed, and the threads that have it served. A touch sleeps
 * in the kernel (userfaultfd), or where that is not allowed in a handler of SIGSEGV.
 *
 * Two threads run as long as there are ranges. One reads what the kernel says and does nothing else, because whoever
 * covers a page waits until it has; the other serves.
 */
#ifndef TOUCH_H
#define TOUCH_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In an address that was touched: it may have been for a write. */
#define TOUCH_WRITE UINT64_C(1)

/**
 * touch_fn - serve touches
 * @touched: addresses that were touched, of uint64_t, with TOUCH_WRITE
 *
 * Called on the thread that serves, with no lock held. It may leave addresses there that are to be served later.
 */
typedef void (*touch_fn)(GArray *touched);

/**
 * touch_idle_fn - do something for later while there is nothing to serve
 *
 * Return: whether there is more to do.
 */
typedef bool (*touch_idle_fn)(void);

/**
 * touch_begin() - a range begins; with the first, the threads do
 * @serve: serves
 * @idle: is called when there is nothing to serve
 *
 * Return: 0, -ENOTSUP if touches cannot be noticed, or -ENOMEM if a thread cannot be started.
 */
int touch_begin(touch_fn serve, touch_idle_fn idle);

/**
 * touch_end() - a range ends; with the last, the threads do
 */
void touch_end(void);

/**
 * touch_cover() - take addresses from the CPU, in one step for all threads
 * @at: where they start
 * @size: bytes, at most as many as a range has
 *
 * A touch from now on sleeps, and is told to the thread that serves. Not called by the thread that reads.
 *
 * Return: 0 or -ENOMEM; the CPU has what it had then.
 */
int touch_cover(uint64_t at, size_t size);

/**
 * touch_copy() - let the CPU read a copy of other memory at addresses that are covered, in one step for all threads
 * @at: where they start
 * @size: bytes, at most as many as a range has
 * @from: the memory, which nobody writes to
 *
 * A write sleeps from then on, and is told to the thread that serves. Not called by the thread that reads.
 *
 * Return: 0, -ENOTSUP if writes alone cannot be noticed, or -ENOMEM; the addresses are covered then.
 */
int touch_copy(uint64_t at, size_t size, uint64_t from);

/**
 * touch_has_copy() - whether a copy is there as a whole
 * @at: where it starts
 * @size: bytes
 *
 * Return: false if the program has discarded some of it, by madvise(), or perhaps if the kernel has paged it out.
 */
bool touch_has_copy(uint64_t at, size_t size);

/**
 * touch_free_copy() - let the CPU have a copy for good
 * @at: where it starts
 * @size: bytes
 *
 * Return: whether it does; otherwise writes wait.
 */
bool touch_free_copy(uint64_t at, size_t size);

/**
 * touch_wake() - let sleeping touches of addresses be tried again
 * @at: where they start
 * @size: bytes
 */
void touch_wake(uint64_t at, size_t size);

/**
 * touch_leave() - leave a touch to the program, as the CPU has the memory already
 * @at: where the page starts
 * @size: bytes
 * @addr: the address that was touched, with TOUCH_WRITE
 * @copy: whether a copy of touch_copy() is there. If not, there is no cover either, and none comes meanwhile
 *
 * The touch is tried again, and ends. Two things that a program does to its addresses would keep it from that: a cover
 * that was moved by mremap() reads as zeros from now on, and a page that was protected by mprotect() is a SIGSEGV.
 */
void touch_leave(uint64_t at, size_t size, uint64_t addr, bool copy);

/**
 * touch_give_up() - let the CPU have zeros at addresses, for good, or a SIGBUS
 * @at: where they start
 * @size: bytes
 * @zeros: which
 *
 * Return: whether it does; otherwise it has what it had, and touches wait.
 */
bool touch_give_up(uint64_t at, size_t size, bool zeros);

/**
 * touch_nudge() - there is something to do when there is nothing to serve
 */
void touch_nudge(void);

/**
 * touch_watch() - know addresses as those of a range; only a handler of SIGSEGV needs that
 * @at: where they start
 * @size: bytes
 *
 * Return: 0, or -ENOMEM if there are too many ranges.
 */
int touch_watch(uint64_t at, size_t size);

/**
 * touch_unwatch() - undo touch_watch()
 * @at: where they start
 */
void touch_unwatch(uint64_t at);

/* What this calls in turn: serve.c. */
void serve_touches(GArray *touched);
bool serve_idle(void);

#endif /* TOUCH_H */
