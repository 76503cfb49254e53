/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Rows for fixture_add_rows(): pools that do the same in different ways. */
#ifndef KINDS_H
#define KINDS_H

#include "support/fixture.h"

/**
 * struct kind - a kind of pool
 * @name: for the path of a test
 * @opts: the pool's
 * @size: bytes of a request that it serves in a way of its own
 */
struct kind {
	const char *name;
	struct vpmm_opts opts;
	size_t size;
};

/*
 * Each way of a pool to serve a request, with options of a packed pool and of a paged one, and bytes of a large block.
 */
#define KINDS_SERVING(packed, paged, large) \
	{ "packed", { packed }, large }, \
	{ "slab", { packed }, 1000 }, \
	{ "paged", { paged }, large }, \
	{ "driver", { paged }, 1000 }

/* The same one by one, with the usual options. */
#define KIND_PACKED { "packed", { FIXTURE_PACKED }, 3 * PAGE }
#define KIND_SLAB { "slab", { FIXTURE_PACKED }, 1000 }
#define KIND_PAGED { "paged", { FIXTURE_OPTS }, 3 * PAGE }
#define KIND_DRIVER { "driver", { FIXTURE_OPTS }, 1000 }
#define KINDS_EACH KIND_PACKED, KIND_SLAB, KIND_PAGED, KIND_DRIVER

/* Settings that change how memory is handed on, added to options. */
#define KIND_BLOCK(...) { "block", { __VA_ARGS__, .reuse = VPMM_REUSE_BLOCK }, 3 * PAGE }
#define KINDS_SCRUB(...) \
	{ "scrub", { __VA_ARGS__, .scrub = VPMM_SCRUB_STREAM }, 3 * PAGE }, \
	{ "scrub-always", { __VA_ARGS__, .scrub = VPMM_SCRUB_ALWAYS }, 3 * PAGE }
#define KINDS_SETTINGS \
	KIND_PACKED, \
	KIND_PAGED, \
	KINDS_SCRUB(FIXTURE_PACKED), \
	{ "scrub-paged", { FIXTURE_OPTS, .scrub = VPMM_SCRUB_STREAM }, 3 * PAGE }, \
	KIND_BLOCK(FIXTURE_PACKED)

/* Submits work behind that of another stream: unless the pool has waited on the host, the stream has to wait. */
static inline void kind_submit_behind(const struct kind *kind, struct CUstream_st *stream)
{
	assert_ok(vpmm_host_stream_submit(stream));
	if (kind->opts.reuse != VPMM_REUSE_BLOCK)
		fixture_assert_waits(stream);
}

#endif /* KINDS_H */
