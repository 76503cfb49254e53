/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The trials of a sweep: which calls fail in each run of an action. */
#ifndef SWEEP_INSIDE_H
#define SWEEP_INSIDE_H

#include "sweep/sweep.h"

#define SWEEP_ERRORS 4

/* Which errors an operation can give, but -EIO, which all can. */
extern const int sweep_errors[BACKEND_OP_COUNT][SWEEP_ERRORS];

struct sweep_mode {
	const char *name;
	struct vpmm_opts opts;
	bool cache;
};

/**
 * struct trial - one run of one action
 * @on: the device
 * @scene: the action
 * @mode: the kind of pool
 * @op: which operation fails; BACKEND_OP_COUNT: all of them
 * @skip: how many calls pass before
 * @count: how many fail then
 * @err: with what; 0: nothing fails
 * @gap: how many calls pass behind the first that fails, before
 * @more: so many fail with -EIO; 0: none
 * @leaves: if the action fails, it is not taken again: another stream frees all there is, and memory is given back
 * @calls: receives how often the action called each operation
 * @failed: receives how many calls failed
 */
struct trial {
	const struct sweep_device *on;
	const struct sweep_scene *scene;
	const struct sweep_mode *mode;
	enum backend_op op;
	unsigned int skip;
	unsigned int count;
	int err;
	unsigned int gap;
	unsigned int more;
	bool leaves;
	uint64_t calls[BACKEND_OP_COUNT + 1];
	uint64_t failed;
};

/* The subject of a test, and its counts. */
struct plan {
	const struct sweep_device *on;
	const struct sweep_scene *scene;
	bool (*ready)(void);
	void (*settled)(void);
	uint64_t calls;
	uint64_t runs;
};

/* A trial, and one unless it is to be left out. */
void sweep_run(struct plan *p, struct trial *t);
void sweep_try(struct plan *p, struct trial t);

/*
 * Pairs of calls that fail: one at random, all, and each call with the next or all that follow. @dry: what the action
 * calls if none fails.
 */
void sweep_pair(struct plan *p, const struct trial *dry);
void sweep_all_pairs(struct plan *p, const struct trial *dry);
void sweep_next(struct plan *p, const struct trial *dry);

#endif /* SWEEP_INSIDE_H */
