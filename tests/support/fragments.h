/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Declarations for the fragments of code in the pages: variables, CUDA's calls and the program's own. */
#ifndef FRAGMENTS_H
#define FRAGMENTS_H

#include <assert.h>
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "vpmm.h"
#include "vpmm-host.h"
#include "vpmm-shared.h"

extern struct vpmm_pool *pool;
extern struct CUstream_st *stream, *copy, *compute, *stream_of_1;
extern void *ptr, *p, *buffer, *scratch, *list, *table;
extern void *graph, *exec, *graphs[7], *filled, *allocated, *done;
extern size_t size, bytes, rows, width, batch, bytes_per_item, n, items, count;
extern uint64_t id, ids[7];
extern vpmm_tag weights;
extern int socket;

void to_our_log(void *data, int level, const char *message);

static inline int called(void)
{
	return 0;
}

#define CU_STREAM_CAPTURE_MODE_GLOBAL 0
#define cuEventRecord(...) called()
#define cuGraphDestroy(...) called()
#define cuGraphExecDestroy(...) called()
#define cuGraphInstantiate(...) called()
#define cuGraphLaunch(...) called()
#define cuStreamBeginCapture(...) called()
#define cuStreamDestroy(...) called()
#define cuStreamEndCapture(...) called()
#define cuStreamWaitEvent(...) called()
#define cudaDeviceReset() called()
#define cudaDeviceSynchronize() called()
#define cudaEventRecord(...) called()
#define cudaStreamSynchronize(...) called()
#define cudaStreamWaitEvent(...) called()

#define append(...) called()
#define build(...) called()
#define change(...) called()
#define consume(...) called()
#define fill(...) called()
#define kernel(...) called()
#define launch(...) called()
#define load_model(...) called()
#define model_step(...) called()
#define print(...) called()
#define produce(...) called()
#define train_step() called()
#define work(...) called()

#endif /* FRAGMENTS_H */
