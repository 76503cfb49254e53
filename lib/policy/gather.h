/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Gathering: one block is mapped from free extents, and from new memory if they are not enough. Extents of many sizes
 * take few driver calls for much memory; the price is that free memory in a partly allocated extent is pinned.
 */
#ifndef GATHER_H
#define GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct core;
struct gathering;

/**
 * gather_order() - find out what the stream has to wait for
 * @g: the gathering; its wait set receives the events
 */
void gather_order(struct gathering *g);

/**
 * gather_carry_out() - carry out a gathering
 * @g: the gathering, after gather_decide() and gather_order()
 * @handle: a handle of the stream
 * @addr: receives the start of a free range of the request's size, which the stream is ordered after
 *
 * The block begins with the largest run of free regions that has a hole behind it. Whole free extents are mapped
 * behind it, the largest first, then new ones. If that would exceed the budget, the block begins in the free
 * end of a partly allocated extent, or ends in the free start of one.
 *
 * Return: 0, or an error of the backend: then the pool may hold less free memory than before.
 */
int gather_carry_out(struct gathering *g, struct CUstream_st *handle, uint64_t *addr);

#endif /* GATHER_H */
