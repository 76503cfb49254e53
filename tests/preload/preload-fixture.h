/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Programs under the preload object. A test program of this kind is linked with the suite's own libcuda.so.1, as one
 * with -lcuda would be, and starts itself once more with LD_PRELOAD. Each of its tests runs in a process of its own,
 * with its own environment: what the object knows, it knows for good.
 */
#ifndef PRELOAD_FIXTURE_H
#define PRELOAD_FIXTURE_H

#include <stdbool.h>

#include "cuda/fake-cuda.h"
#include "preload/hooks.h"

struct preload_test {
	const char *name;
	void (*run)(void);
	const char *environment[4];	/* NAME=VALUE */
	const char *before;		/* another object in front of ours; NULL: none */
	const char *behind;
};

/* The main() of such a program. */
int preload_main(int argc, char **argv, const struct preload_test *tests, size_t count);

/* A test starts nothing under the preload object; from here on it does. */
void preload_again(void);

/* Makes the primary context of a device the current one. */
drv_context use_primary(int device);

/* Calls of the driver that must succeed. A stream is non-blocking; the graph of a capture is destroyed. */
drv_deviceptr alloc_bytes(size_t size);
drv_deviceptr alloc_async(size_t size, drv_stream stream);
drv_stream new_stream(void);
void begin_capture(drv_stream stream, drv_capture_mode mode);
void end_capture(drv_stream stream);

/* How often the driver itself was called. */
uint64_t driver_calls(const char *name);

/* dlopen() of the driver. */
void *driver_handle(void);

/* Calls @act with @va. What is written to standard error meanwhile is for g_free(). */
char *said_by(void (*act)(drv_deviceptr va), drv_deviceptr va);

/* Whether an address is in an object of this name. */
bool is_of(const void *address, const char *object);

#endif /* PRELOAD_FIXTURE_H */
