/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Loans: free memory that is pinned, and too small to be of other use to large requests, serves small requests until
 * all of it is free again. The policy decides what is lent.
 */
#ifndef LOAN_H
#define LOAN_H

#include <stdbool.h>
#include <stddef.h>

struct region;
struct stream;
struct core;

/**
 * loan_return() - return a loan, if nothing of it is allocated
 * @core: the pool's core
 * @region: a region for small requests that was just freed
 */
void loan_return(struct core *core, struct region *region);

/**
 * loan_return_all() - return all loans of which nothing is allocated
 * @core: the pool's core
 *
 * A loan that is divided among several streams is returned only if no event of it is pending.
 */
void loan_return_all(struct core *core);

#endif /* LOAN_H */
