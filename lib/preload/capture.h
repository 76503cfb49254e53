/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Whether the process captures streams. */
#ifndef PRELOAD_CAPTURE_H
#define PRELOAD_CAPTURE_H

#include <stdbool.h>

/**
 * capture_is_running() - whether any stream of the process is under capture
 *
 * The driver has no such question.
 *
 * Context: any thread.
 */
bool capture_is_running(void);

#endif /* PRELOAD_CAPTURE_H */
