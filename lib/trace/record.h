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
	RECORD_USE,
	RECORD_EXHAUSTED,	/* a malloc fails for want of memory */
	RECORD_STREAM_RETIRE,
	RECORD_GRAPH_RETIRE,
	RECORD_TRIM,
	RECORD_OPS
};

/**
 * struct record - a call
 * @addr: RECORD_MALLOC, RECORD_FREE, RECORD_USE: of the block; RECORD_POOL: the device
 * @bytes: RECORD_MALLOC, RECORD_EXHAUSTED: as requested; RECORD_TRIM: to keep; RECORD_POOL: of a page
 * @stream: what tells the stream from others
 * @capture: the driver's id of the capture, or of the graph; 0: none
 * @text: RECORD_POOL: the backend, a string that lasts
 * @ns: when; recorder_add() sets it
 * @pool: the pool's number, from 1
 * @op: one of enum record_op
 * @zero: RECORD_MALLOC: with VPMM_ZERO
 */
struct record {
	uint64_t addr;
	uint64_t bytes;
	union {
		uint64_t stream;
		const char *text;
	};
	uint64_t capture;
	uint64_t ns;
	uint32_t pool;
	uint8_t op;
	uint8_t zero;
};

#endif /* RECORD_H */
