/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * How many streams the process captures, as far as the program, or PyTorch, tells: the driver has no such question. For
 * the objects beside the library, each of which has a count of its own; needs no GLib.
 */
#ifndef CAPTURES_H
#define CAPTURES_H

#include <stdbool.h>

/**
 * captures_any() - whether any stream may be under capture
 *
 * Context: any thread.
 */
bool captures_any(void);

/**
 * captures_begin() - a capture is about to begin
 *
 * Waits for those that hold it off.
 *
 * Context: any thread.
 */
void captures_begin(void);

/**
 * captures_end() - captures have ended, or did not begin
 * @count: how many
 *
 * Context: any thread.
 */
void captures_end(unsigned int count);

/**
 * captures_hold_off() - make captures that are about to begin wait, for what would invalidate them
 *
 * The caller does nothing that waits until captures_let().
 *
 * Context: any thread, on which it is not in effect yet.
 * Return: false if one may be running; else captures_let() has to follow.
 */
bool captures_hold_off(void);

/**
 * captures_let() - the end of that
 */
void captures_let(void);

#endif /* CAPTURES_H */
