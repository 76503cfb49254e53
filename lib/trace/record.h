/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is recorded of a call. */
#ifndef RECORD_H
#define RECORD_H

#include <stdint.h>

enum record_op {
	RECORD_POOL,		/* a pool begins; struct recorder makes this one and the next itself */
	RECORD_END,		/* and ends */
	RECORD_MALLOC,
	RECORD_FREE,
	RECORD_REALLOC,
	RECORD_USE,
	RECORD_EXHAUSTED,	/* a request fails for want of memory */
	RECORD_STREAM_RETIRE,
	RECORD_CAPTURE_GROUP,
	RECORD_GRAPH_RETIRE,
	RECORD_TRIM,
	RECORD_PAUSE,		/* the tag is paused */
	RECORD_RESUME,		/* and awake again */
	RECORD_OPS
};

enum record_flag {
	RECORD_ZERO = 1,	/* RECORD_MALLOC: with VPMM_ZERO */
	RECORD_IDLE = 2,	/* RECORD_MALLOC: with VPMM_IDLE */
	RECORD_ANY = 4,		/* RECORD_FREE: on VPMM_STREAM_ANY; there is no stream */
	RECORD_COPIED = 8,	/* RECORD_REALLOC: by a copy, during which both blocks were allocated */
	RECORD_DROP = 16,	/* RECORD_MALLOC: with VPMM_TAG_DROP; RECORD_PAUSE: with VPMM_PAUSE_DROP */
	RECORD_STAY = 32,	/* RECORD_MALLOC: with VPMM_TAG_STAY, or as if */
	RECORD_UNTAGGED = 64,	/* RECORD_MALLOC: the tag of the thread is not for it */
};

/**
 * struct record - a call
 * @addr: RECORD_MALLOC, RECORD_FREE, RECORD_REALLOC, RECORD_USE: of the block; RECORD_POOL: the device;
 *	RECORD_CAPTURE_GROUP: the group
 * @bytes: RECORD_MALLOC, RECORD_REALLOC, RECORD_EXHAUSTED: as requested; RECORD_TRIM: to keep; RECORD_POOL: of a page
 * @stream: what tells the stream from others
 * @capture: the driver's id of the capture, or of the graph; 0: none
 * @max: RECORD_MALLOC: of a growable block, how many bytes it may grow to; 0: it is none
 * @to: RECORD_REALLOC: the new address
 * @text: RECORD_POOL: the backend, a string that lasts
 * @time: when, by clock_ns(); recorder_add() sets it
 * @pool: the pool's number, from 1
 * @op: one of enum record_op
 * @flags: of enum record_flag
 * @tag: RECORD_PAUSE, RECORD_RESUME: the tag; RECORD_MALLOC: the calling thread's, which recorder_add() sets, as it
 *	does RECORD_DROP and RECORD_STAY; 0: none
 */
struct record {
	uint64_t addr;
	uint64_t bytes;
	uint64_t stream;
	uint64_t capture;
	union {
		uint64_t max;
		uint64_t to;
		const char *text;
	};
	uint64_t time;
	uint32_t pool;
	uint8_t op;
	uint8_t flags;
	uint8_t tag;
};

#endif /* RECORD_H */
