/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Frees into the driver's memory pool. The driver releases memory only after the host has seen that the free is
 * complete. Only a synchronisation with the stream, or with an event behind the free, counts for that: neither
 * cuEventQuery() nor a wait for the whole device does (driver 580). So the latest free of each stream has an event
 * here.
 */
#ifndef CUDA_FREES_H
#define CUDA_FREES_H

#include <glib.h>
#include <stdbool.h>

#include "cuda/abi.h"
#include "util/lock.h"

/**
 * struct cuda_frees - the latest free of each stream
 * @lock: guards the rest
 * @events: id of a stream to drv_event
 */
struct cuda_frees {
	struct lock lock;
	GHashTable *events;
};

void cuda_frees_init(struct cuda_frees *frees);

/**
 * cuda_frees_note() - note a free on a stream
 * @frees: the frees
 * @stream: the stream
 *
 * Context: the device is entered, and the thread's calls may be made beside captures.
 *
 * If that fails, the memory stays until the program synchronises with the stream.
 */
void cuda_frees_note(struct cuda_frees *frees, drv_stream stream);

/**
 * cuda_frees_poll() - let the driver know which frees are complete
 * @frees: the frees
 *
 * Context: as cuda_frees_note(). Does not wait.
 * Return: whether some are not complete.
 */
bool cuda_frees_poll(struct cuda_frees *frees);

/**
 * cuda_frees_drop() - destroy the events
 * @frees: the frees; only cuda_frees_clear() may follow
 *
 * Context: as cuda_frees_note(). At exit, the driver may have taken them already; then this is not to be called.
 */
void cuda_frees_drop(struct cuda_frees *frees);

/**
 * cuda_frees_clear() - forget them all, whether the events were destroyed or not
 * @frees: the frees
 */
void cuda_frees_clear(struct cuda_frees *frees);

#endif /* CUDA_FREES_H */
