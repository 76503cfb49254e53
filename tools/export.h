/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Exports: a trace, replayed on a pool, in the formats of programs that people open anyway.
 *
 * What can fail returns 0, or a negative errno value explained by fail_set().
 */
#ifndef EXPORT_H
#define EXPORT_H

#include <glib.h>
#include <stdint.h>
#include <stdio.h>

#include "output.h"
#include "replay.h"

enum export_kind {
	EXPORT_ALLOC,
	EXPORT_FREE,
	EXPORT_MAP,		/* memory appears at addresses: it was created, or is mapped there from now on */
	EXPORT_UNMAP,
	EXPORT_LEVEL,		/* the statistics have changed */
	EXPORT_DRIVER,		/* calls of the driver */
};

/**
 * struct export_event - something that happened
 * @us: when, on the clock of the trace
 * @addr: EXPORT_DRIVER: the nanoseconds that it took
 * @bytes: EXPORT_LEVEL: that the program has
 * @taken: EXPORT_LEVEL: bytes that the pool holds; EXPORT_DRIVER: calls of the driver
 * @stranded: EXPORT_LEVEL: bytes of it that are free and cannot be mapped elsewhere
 * @waits: EXPORT_LEVEL: that there were so far, of a stream for another
 * @stream: number of the stream
 * @kind: one of enum export_kind
 */
struct export_event {
	uint64_t us;
	uint64_t addr;
	uint64_t bytes;
	uint64_t taken;
	uint64_t stranded;
	uint64_t waits;
	uint32_t stream;
	uint8_t kind;
};

/**
 * struct export_range - addresses with memory
 */
struct export_range {
	uint64_t addr;
	uint64_t size;
};

/**
 * struct export_block - a region of the pool in the end
 * @segment: it is the first of those that lie one behind the other
 * @allocated: whether it is
 */
struct export_block {
	uint64_t addr;
	uint64_t size;
	uint64_t requested;
	uint64_t stream;
	gboolean segment;
	gboolean allocated;
};

/**
 * struct export_pool - what is known of one pool of the trace
 * @name: of its trace
 * @device: its number
 * @streams: how many
 * @events: of struct export_event, in order
 * @blocks: of struct export_block, in order of their addresses, as the trace leaves them
 */
struct export_pool {
	char *name;
	unsigned int device;
	uint32_t streams;
	GArray *events;
	GArray *blocks;
};

struct export_format;

/**
 * struct export - an export
 * @format: which
 * @file: the name of the file; NULL: standard output
 * @output: the file, if it has a name
 * @out: where to write
 * @pools: of struct export_pool
 * @allocator: that is watched
 * @trace: that it runs
 * @mapped: of struct export_range: where there is memory
 * @requested: address to bytes of what is allocated
 * @stats: as they were last
 * @lines: that all dumps so far had
 * @err: why it could not be watched; 0: it could
 */
struct export {
	const struct export_format *format;
	const char *file;
	struct output output;
	FILE *out;
	GPtrArray *pools;
	struct allocator *allocator;
	const struct trace *trace;
	GArray *mapped;
	GHashTable *requested;
	struct vpmm_stats stats;
	uint64_t lines;
	int err;
};

/**
 * export_open() - open the file, before anything is run
 * @export: receives the export; export_close() is due, even if this fails
 * @format: the name of the format
 * @file: the name of the file; NULL: standard output
 */
int export_open(struct export *export, const char *format, const char *file);

/**
 * export_watch() - watch the replay of a pool
 * @export: the export
 * @trace: what is replayed
 * @allocator: on what
 *
 * Return: for struct replay_setup; valid as long as @export.
 */
struct replay_watch export_watch(struct export *export, const struct trace *trace, struct allocator *allocator);

/**
 * export_write() - write all that was watched
 * @export: the export
 */
int export_write(struct export *export);

/**
 * export_close() - close the file and free everything
 * @export: the export
 */
void export_close(struct export *export);

/**
 * export_viz() - write a snapshot for memory_viz of PyTorch
 */
void export_viz(const struct export *export);

/**
 * export_perfetto() - write a trace for Perfetto, in the JSON of Chrome's
 */
void export_perfetto(const struct export *export);

#endif /* EXPORT_H */
