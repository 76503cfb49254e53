/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Whether the process captures streams. */
#ifndef PRELOAD_RUNNING_H
#define PRELOAD_RUNNING_H

#include <stdbool.h>

/**
 * capture_is_running() - whether any stream of the process is under capture
 *
 * The driver has no such question.
 *
 * Context: any thread.
 */
bool capture_is_running(void);

/**
 * capture_hold_off() - make captures that are about to begin wait, for what would invalidate them
 *
 * Whoever holds them off does nothing that waits.
 *
 * Context: any thread, on which it is not in effect yet.
 * Return: false if one is running; else capture_let_begin() has to follow.
 */
bool capture_hold_off(void);

/**
 * capture_let_begin() - the end of that
 */
void capture_let_begin(void);

/**
 * capture_count_begun() - a capture is about to begin
 *
 * Waits for those that hold it off.
 *
 * Context: any thread.
 */
void capture_count_begun(void);

/**
 * capture_count_ended() - a capture has ended, or did not begin
 *
 * Context: any thread.
 */
void capture_count_ended(void);

#endif /* PRELOAD_RUNNING_H */
