/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Numbers that most programs never reach: bounds on the time of a call and on the memory of tables, and counts after
 * which something happens. A library that is built with -DBOUNDS_LOW has the second number of each, so that the random
 * programs of tests/model come to what lies behind them (lib/HACKING). A number that the interface promises is none.
 */
#ifndef BOUND_H
#define BOUND_H

#ifdef BOUNDS_LOW
#define BOUND(usual, low) (low)
#else
#define BOUND(usual, low) (usual)
#endif

#endif
