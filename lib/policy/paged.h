/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The policy of whole pages, as others use it. A harvest is one block of scattered free pages, and of new memory if they
 * are not enough.
 */
#ifndef PAGED_H
#define PAGED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct core;
struct event;
struct region;
struct request;
struct stream;

/**
 * harvest_into() - harvest a block at a given address, whatever is free elsewhere
 * @core: the pool's core; its lock is held, its backend entered
 * @request: the request
 * @addr: where the pages are mapped; all of it is unmapped
 * @beside: a free region that stays where it is; NULL: none
 * @behind: what else the stream is to be ordered after; NULL: nothing
 * @event: receives a point in the stream behind all of that, with a reference
 *
 * Return: 0, or an error of the backend; nothing has changed then.
 */
int harvest_into(struct core *core, const struct request *request, uint64_t addr, const struct region *beside,
		 struct event *behind, struct event **event);

#endif /* PAGED_H */
