/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What pools of a run are created with: the device, options, and files in a folder of the run. */
#ifndef CONTENTS_OPTIONS_H
#define CONTENTS_OPTIONS_H

#include "model/contents.h"

/**
 * options_choose_device() - set up a device, which has as little as some options ask for, or more than a run can use
 * @run: the run
 * @rand: what is drawn
 */
void options_choose_device(struct run *run, GRand *rand);

/**
 * options_choose() - the options of a pool
 * @run: the run
 * @pool: index of the pool
 * @rand: what is drawn
 *
 * If that is a plan, it is written before, by a pool of the same options.
 */
void options_choose(struct run *run, unsigned int pool, GRand *rand);

/**
 * options_clear() - remove the folder
 * @run: the run, its pools destroyed
 */
void options_clear(struct run *run);

#endif /* CONTENTS_OPTIONS_H */
