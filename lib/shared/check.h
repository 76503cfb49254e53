/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The invariants of shared ranges. */
#ifndef SHARED_CHECK_H
#define SHARED_CHECK_H

#include "shared/shared.h"

/**
 * shared_check() - check that pages and memory are as they should be
 * @at: where a pool has its ranges; core.lock is held
 *
 * Return: 0, or -EUCLEAN with what is wrong.
 */
int shared_check(struct shared **at);

#endif /* SHARED_CHECK_H */
