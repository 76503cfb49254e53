/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Traces: what a program allocated and freed, in order. vpmm-trace(5) has the format, in two versions: the first, of
 * one pool, and what the library writes where VPMM_TRACE says so.
 */
#ifndef TRACE_H
#define TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum trace_kind {
	TRACE_FREE,
	TRACE_ALLOC,
	/* Of the second version only: */
	TRACE_RESIZE,
	TRACE_USE,
	TRACE_TRIM,
	TRACE_RETIRE_STREAM,
	TRACE_GROUP,
	TRACE_RETIRE_GRAPH,
	TRACE_PAUSE,
	TRACE_RESUME,
};

enum trace_flag {
	TRACE_ZERO = 1,		/* TRACE_ALLOC: with VPMM_ZERO */
	TRACE_IDLE = 2,		/* TRACE_ALLOC: with VPMM_IDLE */
	TRACE_ON_ANY = 4,	/* TRACE_FREE: on VPMM_STREAM_ANY */
	TRACE_COPIED = 8,	/* TRACE_RESIZE: by a copy, during which both blocks were allocated */
	TRACE_LAST = 16,	/* nothing follows of the capture */
	TRACE_USED = 32,	/* TRACE_FREE: between the copy to a larger block and this there was other work */
	TRACE_DROP = 64,	/* TRACE_ALLOC: with VPMM_TAG_DROP; TRACE_PAUSE: with VPMM_PAUSE_DROP */
	TRACE_STAY = 128,	/* TRACE_ALLOC: with VPMM_TAG_STAY */
	TRACE_PAUSABLE = 256,	/* of a record: the tag is; struct trace_tag has it */
};

/**
 * struct trace_op - one operation
 * @us: microseconds, on the trace's own clock
 * @bytes: of the allocation, also where it is freed, or used, and once it is resized; TRACE_TRIM: to be kept
 * @id: TRACE_ALLOC: what the file calls the allocation: in the second version, mostly, its address
 * @max: TRACE_ALLOC: how far it may grow; 0: it is no growable one; TRACE_GROUP: the group;
 *	TRACE_FREE: bytes that the program had copied to the start of a larger block, 0: it had not copied all of it
 * @slot: the number of the allocation among those that live, below slots of struct trace; used again after the free
 * @stream: the number of the stream in order of first appearance, below streams of struct trace; where it is any
 *	stream, that of the allocation
 * @line: of the file, from 1
 * @capture: the number of the capture that the stream is under, that joins a group, or whose graph is retired, from 1;
 *	0: none
 * @kind: one of enum trace_kind
 * @flags: of enum trace_flag
 * @tag: TRACE_ALLOC, TRACE_PAUSE, TRACE_RESUME: the number of the tag, from 1; 0: none
 */
struct trace_op {
	uint64_t us;
	size_t bytes;
	uint64_t id;
	size_t max;
	uint32_t slot;
	uint32_t stream;
	uint32_t line;
	uint32_t capture;
	uint8_t kind;
	uint8_t flags;
	uint8_t tag;
};

/* Tags that there can be. */
#define TRACE_TAGS 255

/**
 * struct trace_tag - a tag
 * @name: of it
 * @pausable: whether it was opened so
 */
struct trace_tag {
	char *name;
	bool pausable;
};

/**
 * struct trace - all that was asked of one pool
 * @name: as it was opened; with "#" and @pool behind it if the file has several pools
 * @ops: the operations
 * @n_ops: how many, at least one
 * @allocs: how many of them allocate, at least one
 * @slots: the most that live at once
 * @streams: how many streams there are
 * @captures: how many captures there are
 * @tags: the tags
 * @n_tags: how many there are
 * @pool: the number of the pool in the file, from 1
 * @device: the number of its device; 0 in the first version
 * @next: of the next pool in the same file; NULL: there is none
 */
struct trace {
	char *name;
	struct trace_op *ops;
	size_t n_ops;
	size_t allocs;
	uint32_t slots;
	uint32_t streams;
	uint32_t captures;
	struct trace_tag *tags;
	uint32_t n_tags;
	unsigned int pool;
	unsigned int device;
	struct trace *next;
};

/**
 * trace_progress_fn - hears how far the reading has come
 * @data: as given to trace_load()
 * @done: bytes of the file read
 * @total: bytes of the file; 0: not known
 *
 * Return: whether to read on.
 */
typedef bool (*trace_progress_fn)(void *data, uint64_t done, uint64_t total);

/**
 * trace_load() - read a trace
 * @name: the file, plain or compressed by gzip; "-": standard input, which may be either too
 * @progress: hears about it; NULL: nobody
 * @data: for @progress
 * @trace: receives the trace of the first pool that allocated, and behind it those of the others, for trace_free()
 *
 * Strict: what is wrong with a trace would be wrong with every number that comes out of its replay. All fields are
 * there and no others, every record and the version are known, numbers fit, time does not go back, an id that is
 * allocated is not live, one that is freed is and had this size, the last line is whole, the compressed data are whole,
 * and there is at least one operation. Requests that failed are checked and left out.
 *
 * Return: 0, or explained by fail_set(), which names the file:
 *	-EBADMSG it is damaged; the sentence has the line's number,
 *	-EINTR @progress would not have it read on,
 *	another negative errno value: it cannot be read.
 */
int trace_load(const char *name, trace_progress_fn progress, void *data, struct trace **trace);

/**
 * trace_load_so_far() - read a trace that is still being written, or whose program was killed
 *
 * As trace_load(), but the last line need not be whole, and is left out then, and without an allocation @trace receives
 * NULL.
 */
int trace_load_so_far(const char *name, trace_progress_fn progress, void *data, struct trace **trace);

/**
 * trace_free() - free a trace, and those behind it
 * @trace: the trace; NULL does nothing
 */
void trace_free(struct trace *trace);

#endif /* TRACE_H */
