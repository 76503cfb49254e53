/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared ranges: made and freed. */
#ifndef RANGE_H
#define RANGE_H

#include "shared/shared.h"

/**
 * range_new() - make a range
 * @shared: of the pool, its backend entered; no lock held
 * @size: bytes, not 0
 * @fine: with pages of the smallest size
 * @at: receives where it starts
 *
 * Return: 0, -ENOMEM, -ENOTSUP, or another error of the backend.
 */
int range_new(struct shared *shared, size_t size, bool fine, uint64_t *at);

/**
 * range_free() - free a range
 * @shared: of the pool, its backend entered; no lock held
 * @at: where it starts
 * @stream: a stream that uses it, besides those that are known
 *
 * Return: 0, -EINVAL if no range of the pool starts there, or an error of the backend.
 */
int range_free(struct shared *shared, uint64_t at, struct CUstream_st *stream);

#endif /* RANGE_H */
