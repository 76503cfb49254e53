/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the tests of the host backend are written with. */
#ifndef HOST_BENCH_H
#define HOST_BENCH_H

#include <errno.h>
#include <glib.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "host/backend.h"
#include "host/host-streams.h"
#include "util/error.h"
#include "vpmm-host.h"

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)
#define PAGE (2 * MIB)
#define UNTOUCHED 0x5a5a5a5a5a5a5a5aull

#define assert_refused(call, err, naming)						\
	do {										\
		error_set(0, "%s", "");							\
		g_assert_cmpint((call), ==, err);					\
		g_assert_cmpint(errno, ==, -(err));					\
		g_assert_nonnull(strstr(error_get(), naming));				\
	} while (0)

static const struct backend_ops *const ops = &backend_host;

static inline void set(const char *capacity, const char *devices, const char *mappings)
{
	setenv("VPMM_HOST_CAPACITY", capacity, 1);
	setenv("VPMM_HOST_DEVICES", devices, 1);
	setenv("VPMM_HOST_MAPPINGS", mappings, 1);
}

static inline bool host_left(void)
{
	struct host_left left;

	backend_host_left(&left);
	g_test_message("left: %d backends, %d reservations, %d handles, %d mappings, %d events, %d small, %d abandoned",
		       (int)left.opens, (int)left.reservations, (int)left.handles, (int)left.mappings, (int)left.events,
		       (int)left.small, (int)left.abandoned);
	return left.opens || left.reservations || left.handles || left.mappings || left.events || left.small ||
	       left.abandoned;
}

/* As the kernel sees it, since a program that tries would not live to tell. */
static inline bool host_reachable(uint64_t va)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long long start, end;
	bool reachable = false;
	char line[4096], access[5];

	g_assert_nonnull(maps);
	while (!reachable && fgets(line, sizeof(line), maps))
		reachable = sscanf(line, "%llx-%llx %4s", &start, &end, access) == 3 && start <= va && va < end &&
			    !strncmp(access, "rw", 2);
	fclose(maps);
	return reachable;
}

static inline struct backend *open_entered(int device)
{
	struct backend *be;

	assert_ok(ops->open(device, &be));
	assert_ok(ops->enter(be));
	return be;
}

static inline void close_left(struct backend *be)
{
	ops->leave(be);
	ops->close(be);
	g_assert_false(host_left());
}

static inline uint64_t reserve(struct backend *be, size_t size)
{
	uint64_t va = UNTOUCHED;

	assert_ok(ops->reserve(be, size, PAGE, &va));
	return va;
}

static inline uint64_t create(struct backend *be, size_t size)
{
	uint64_t handle = UNTOUCHED;

	assert_ok(ops->create(be, size, &handle));
	return handle;
}

static inline uint64_t small(struct backend *be, size_t size, struct CUstream_st *stream)
{
	uint64_t va = UNTOUCHED;

	assert_ok(ops->small_alloc(be, size, stream, &va));
	g_assert_cmpuint(va % 512, ==, 0);
	return va;
}

static inline uint64_t held(struct backend *be)
{
	uint64_t bytes, peak;

	assert_ok(ops->small_held(be, &bytes, &peak));
	g_assert_cmpuint(peak, >=, bytes);
	return bytes;
}

#endif /* HOST_BENCH_H */
