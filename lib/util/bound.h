/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Bounds on the time of a call and on the memory of tables, which most programs never reach. A library that is built
 * with -DBOUNDS_LOW has the second number of each, so that the random programs of tests/model come to what lies behind
 * them (lib/HACKING).
 */
#ifndef BOUND_H
#define BOUND_H

#ifdef BOUNDS_LOW
#define BOUND(usual, low) (low)
#else
#define BOUND(usual, low) (usual)
#endif

#endif
