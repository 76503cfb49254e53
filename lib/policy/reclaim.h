/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What is done before a request fails for want of memory, mappings or addresses: first what costs no wait, then, if it
 * can help, the wait for all that is pending. The request is tried again after each.
 */
#ifndef RECLAIM_H
#define RECLAIM_H

struct core;
struct pending;
struct request;

/**
 * reclaim_unused() - let go of all that is not in use, without waiting
 * @core: the pool's core, its backend entered
 *
 * Caches are flushed, old places unmapped, and pages of small requests given back where nothing is in them.
 *
 * Return: 0, or an error of the backend.
 */
int reclaim_unused(struct core *core);

/**
 * reclaim_held() - the same, and let a stream have what is held for others, by coming after those
 * @pending: what the pool has pending, its backend entered
 * @request: what is wanted
 *
 * Return: 0; -ENOMEM, with the sentence as it was, where all of it is too little; or an error of the backend.
 */
int reclaim_held(struct pending *pending, const struct request *request);

/**
 * reclaim_pending() - the same, once all that was freed so far is free
 * @pending: what the pool has pending, its backend entered
 * @request: what is wanted
 *
 * Return: 0; -ENOMEM, with the sentence as it was, where nothing is pending or it is too little; or an error of the
 *	backend.
 */
int reclaim_pending(struct pending *pending, const struct request *request);

/* How often a request is tried again: after the one, and after the other. */
#define RECLAIM_ROUNDS 2

/**
 * reclaim() - what is to be done before a request is tried again
 * @pending: what the pool has pending, its backend entered
 * @request: what is wanted
 * @round: from 0 up to RECLAIM_ROUNDS
 *
 * Return: as reclaim_held() and reclaim_pending().
 */
static inline int reclaim(struct pending *pending, const struct request *request, int round)
{
	return round ? reclaim_pending(pending, request) : reclaim_held(pending, request);
}

#endif /* RECLAIM_H */
