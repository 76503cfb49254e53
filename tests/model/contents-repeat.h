/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A worker that repeats itself on one stream for most of a run, as a program does that settles. Then its other streams
 * begin, first with what the one stream has left.
 */
#ifndef CONTENTS_REPEAT_H
#define CONTENTS_REPEAT_H

#include "model/contents.h"

/**
 * contents_repeats() - whether a worker repeats itself on one stream, so that it does nothing that a pool takes for
 * another stream's: captures, frees on any stream, blocks for the CPU, streams that come and go
 * @w: the worker
 *
 * Return: whether it does.
 */
static inline bool contents_repeats(const struct worker *w)
{
	return w->step < w->run->repeats;
}

/**
 * contents_is_plain() - whether a worker leaves out calls by which a pool may tidy up what it has left for later
 * @w: the worker
 *
 * Return: whether it does.
 */
static inline bool contents_is_plain(const struct worker *w)
{
	return contents_repeats(w) && w->run->plain && w->rand != w->odd;
}

/**
 * repeat_choose() - how a run repeats itself
 * @run: the run, of CONTENTS_ONE_STREAM
 * @rand: what chooses
 */
void repeat_choose(struct run *run, GRand *rand);

/**
 * repeat_step() - the same step as in the pass before, but for a few, from the same blocks on: none
 * @w: the worker
 * @step: what makes a step
 */
void repeat_step(struct worker *w, void (*step)(struct worker *w));

/**
 * repeat_end() - have another stream of a worker begin
 * @w: the worker, whose last step was one that it repeats
 */
void repeat_end(struct worker *w);

#endif /* CONTENTS_REPEAT_H */
