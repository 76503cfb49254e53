/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Loans: what large requests leave free in an extent that cannot move, and is too small to be of use to them otherwise,
 * serves small requests until it is free again. The policy decides what is lent.
 */
#ifndef LOAN_H
#define LOAN_H

#include <stdbool.h>
#include <stddef.h>

struct region;
struct stream;
struct core;

/**
 * loan_return() - give back what was borrowed, once nothing is allocated of it
 * @core: the pool's core
 * @region: a region for small requests that has just become free
 */
void loan_return(struct core *core, struct region *region);

/**
 * loan_return_all() - give back to the pool what was borrowed, and nothing is allocated of
 * @core: the pool's core
 *
 * Where several streams had parts of it, only what nobody has to wait for.
 */
void loan_return_all(struct core *core);

#endif /* LOAN_H */
