/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How many captures PyTorch has begun and not ended, as far as it tells. */
#ifndef TORCH_BEGUN_H
#define TORCH_BEGUN_H

#include <stdbool.h>

/* Whether streams may be captured. */
bool begun_any(void);

/* One more is about to be; waits for those that hold it off. */
void begun_add(void);

/* So many fewer. */
void begun_sub(unsigned int n);

/**
 * begun_hold_off() - keep captures from beginning, for what would invalidate them
 *
 * Whoever holds them off does nothing that waits.
 *
 * Return: false if one may be running; else begun_let() has to follow.
 */
bool begun_hold_off(void);
void begun_let(void);

#endif /* TORCH_BEGUN_H */
