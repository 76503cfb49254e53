/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the operations of fuzz-pool work on, and those that have files of their own. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "model/model.h"

#define MOST_GRAPHS 4
#define MOST_LIVE 60
#define MOST_POOLS 3
#define MOST_STREAMS 16

/* What was captured, of whichever pools. */
struct graph {
	struct vpmm_host_graph *graph;
	uint64_t id;
	uint64_t group;			/* 0: none */
	struct CUstream_st *last;	/* where it was launched last */
};

/**
 * struct program - what is under way
 * @data: the bytes
 * @at: of the operation
 * @done: how many operations were performed
 * @repeating: whether one makes others be performed again
 * @m: the pools
 * @opts: of each
 * @pools: how many there are
 * @caching: whether streams keep what they free to themselves: 1 always, 2 never, 0 and 3 as usual
 * @streams: what all pools are used on
 * @n_streams: how many there are
 * @defaults: the last two are the default streams
 * @dump: a file
 * @capture: what is being captured
 * @group: the group that it is to join; 0: none
 * @graphs: what was, and is not retired yet, in the order of the captures
 * @n_graphs: how many they are
 */
struct program {
	const uint8_t *data;
	size_t at;
	unsigned int done;
	bool repeating;
	struct model m[MOST_POOLS];
	struct vpmm_opts opts[MOST_POOLS];
	unsigned int pools;
	unsigned int caching;
	struct CUstream_st *streams[MOST_STREAMS];
	unsigned int n_streams;
	bool defaults;
	FILE *dump;
	struct model_capture capture;
	uint64_t group;
	struct graph graphs[MOST_GRAPHS];
	unsigned int n_graphs;
};

/**
 * program_stream() - the stream that a byte means
 * @p: the program
 * @byte: the byte
 *
 * Return: the stream.
 */
static inline struct CUstream_st *program_stream(const struct program *p, uint8_t byte)
{
	return p->streams[byte % p->n_streams];
}

/**
 * program_size() - as much as may be asked for: what is cleared takes memory of the host's, to the last byte
 * @m: the model of the pool
 * @size: bytes
 *
 * Return: bytes.
 */
size_t program_size(const struct model *m, size_t size);

/**
 * program_stream_outside() - the same, of those that are not captured
 * @p: the program
 * @byte: the byte
 * @stream: receives the stream
 *
 * Return: whether there is one.
 */
bool program_stream_outside(const struct program *p, uint8_t byte, struct CUstream_st **stream);

/**
 * program_complete() - complete the work of all streams
 * @p: the program
 */
void program_complete(struct program *p);

/**
 * program_open_pool() - create a pool as its options say
 * @p: the program
 * @m: its model
 */
void program_open_pool(struct program *p, struct model *m);

/**
 * program_drop_graphs() - end the capture, destroy all graphs, and retire them in all pools but one
 * @p: the program, with all work complete
 * @but: the model of a pool that goes; NULL: none does
 */
void program_drop_graphs(struct program *p, const struct model *but);

/* Operations. */
void fuzz_capture(struct program *p, struct model *m, uint8_t a, uint8_t b);
void fuzz_captured(struct program *p, struct model *m, uint8_t a, uint8_t b);
void fuzz_launch(struct program *p, struct model *m, uint8_t a, uint8_t b);
void fuzz_retire_graph(struct program *p, struct model *m, uint8_t a, uint8_t b);
void fuzz_use(struct program *p, struct model *m, uint8_t a, uint8_t b);
void fuzz_retire_stream(struct program *p, struct model *m, uint8_t a, uint8_t b);
void fuzz_realloc(struct program *p, struct model *m, uint8_t a, uint8_t b);
void fuzz_zeroed(struct program *p, struct model *m, uint8_t a, uint8_t b);
void fuzz_share(struct program *p, struct model *m, uint8_t a, uint8_t b);
void fuzz_growable(struct program *p, struct model *m, uint8_t a, uint8_t b);
void fuzz_trim(struct program *p, struct model *m, uint8_t a, uint8_t b);
void fuzz_query(struct program *p, struct model *m, uint8_t a, uint8_t b);
void fuzz_options(struct program *p, struct model *m, uint8_t a, uint8_t b);
void fuzz_arm(struct program *p, struct model *m, uint8_t a, uint8_t b);
void fuzz_aligned(struct program *p, struct model *m, uint8_t a, uint8_t b);
void fuzz_bound(struct program *p, struct model *m, uint8_t a, uint8_t b);
void fuzz_lose_graph(struct program *p, struct model *m, uint8_t a, uint8_t b);

/**
 * program_create_streams() - create the streams that are not the default ones
 * @p: the program
 */
void program_create_streams(struct program *p);

/**
 * program_reset() - reset the device, which ends all pools and streams, and begin anew
 * @p: the program
 * @b: a bit for each pool: whether it is abandoned, not destroyed
 */
void program_reset(struct program *p, uint8_t b);

/**
 * program_renew_stream() - destroy a stream and create another
 * @p: the program
 * @index: of the stream
 */
void program_renew_stream(struct program *p, unsigned int index);

#endif /* PROGRAM_H */
