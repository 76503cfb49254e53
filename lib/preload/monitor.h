/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * With VPMM_PRELOAD_MONITOR=1 the driver serves everything, and what the program allocates is written to the file that
 * VPMM_PRELOAD_TRACE names, or else VPMM_TRACE. vpmm-trace(5) describes it.
 */
#ifndef PRELOAD_MONITOR_H
#define PRELOAD_MONITOR_H

#include "preload/hooks.h"

/* For the stream of a free: all work so far. */
#define MONITOR_ANY ((drv_stream)UINTPTR_MAX)

/**
 * monitor_allocated() - the driver has served a request that the library would have served
 * @device: the device, below DEVICES_KNOWN
 * @va: the address
 * @size: bytes requested
 * @stream: in whose order; MONITOR_ANY: any may use it at once
 *
 * Context: any thread.
 */
void monitor_allocated(int device, drv_deviceptr va, size_t size, drv_stream stream);

/**
 * monitor_free() - the driver is about to be asked to free an address
 * @va: the address; nothing happens if its allocation was not seen
 * @stream: in whose order
 *
 * Before the call, as another thread may be given the address once it is free.
 *
 * Context: any thread.
 */
void monitor_free(drv_deviceptr va, drv_stream stream);

/**
 * monitor_copied() - the driver has been asked to copy device memory, or perhaps other memory
 * @to: where to
 * @from: where from
 * @size: bytes
 *
 * The free of a block that was copied whole to the start of a larger one says so: then the program could have had it
 * grown instead. During a capture nothing is copied yet.
 *
 * Context: any thread.
 */
void monitor_copied(drv_deviceptr to, drv_deviceptr from, size_t size);

/**
 * monitor_submitted() - the driver is about to be asked for other work, of which nobody knows what memory it uses
 *
 * Context: any thread.
 */
void monitor_submitted(void);

/**
 * monitor_reset() - the memory of a device's primary context is about to go
 * @device: its ordinal
 *
 * Context: any thread.
 */
void monitor_reset(int device);

#endif /* PRELOAD_MONITOR_H */
