/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A pool whose streams keep what they free, for tests of that. */
#ifndef CACHE_FIXTURE_H
#define CACHE_FIXTURE_H

#include "support/fixture.h"

/*
 * On a device of 80 GiB, the 5 MiB that a stream may free without a record are two pages, and the 40 MiB of one that is
 * alone are 20.
 */
#define LIMIT_PAGES 2
#define SOLE_PAGES 20

/* On the fault backend around the host backend, as fixture_open_faulty(). */
void open_cached(struct fixture *f);

/* How often an event was recorded. */
uint64_t records(struct fixture *f);

/* After somebody was short of memory, streams record each free for a while; not any more after this. */
void calm(struct fixture *f, struct CUstream_st *stream);

/* A block of a stream, freed and allocated again with work before the free that is still pending. */
void *reused(struct fixture *f, size_t pages, struct CUstream_st *stream);

/* From here on nothing of the stream is unmarked. */
void mark(struct fixture *f, struct CUstream_st *handle);

/* The stream waits for another. */
void assert_waits(struct CUstream_st *stream);

/* The tests of the other files of this program. */
void cache_life_tests(void);
void cache_limit_tests(void);

#endif /* CACHE_FIXTURE_H */
