/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared ranges for tests. */
#ifndef RANGES_H
#define RANGES_H

#include <stdbool.h>
#include <stddef.h>

#include "support/fixture.h"
#include "vpmm-shared.h"

/* How touches of the CPU are noticed; the kernel may not allow the first two. */
struct ranges_way {
	const char *name;
	bool calls;			/* system calls can be given such an address */
};

enum { RANGES_USERFAULTFD, RANGES_USER, RANGES_SIGNAL, RANGES_WAYS };

extern const struct ranges_way ranges_ways[RANGES_WAYS];

/**
 * ranges_open() - open a fixture with a range whose touches are noticed in one way
 * @f: the fixture
 * @way: the way
 * @opts: of the pool
 * @at: receives where the range starts
 * @size: bytes
 *
 * Return: false if the kernel does not allow it: the test is skipped, and the fixture closed.
 */
bool ranges_open(struct fixture *f, const struct ranges_way *way, struct vpmm_opts opts, char **at, size_t size);

/* A range of so many bytes, in pages of the smallest size. */
void *ranges_alloc(struct fixture *f, size_t size);

/* Opens a fixture with a packed pool and such a range. */
void *ranges_open_packed(struct fixture *f, size_t size);

/* Frees a range, and closes the fixture. */
void ranges_close(struct fixture *f, void *at);

struct vpmm_shared_stats ranges_stats(struct fixture *f);

/* Where a page is. */
struct vpmm_page ranges_page(struct fixture *f, const void *addr);

/* What the pool knows of its first range. */
struct range *ranges_first(struct fixture *f);

/* vpmm_migrate() on the default stream, with nobody taking part. */
int ranges_migrate(struct fixture *f, void *at, size_t size, enum vpmm_location to);

/* A touch, whatever the compiler knows of the value. */
char ranges_look(const char *at);

/* Has two touches served that come late, or that the kernel has told of twice. */
void ranges_touch(const void *one, const void *other);

/*
 * Waits until what was touched before has been served, if it was told twice, too, as the handler of a signal does that
 * sleeps for too long. Gives back unused host memory.
 */
void ranges_settle(struct fixture *f);

#endif /* RANGES_H */
