/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The real driver behind the hooks. */
#ifndef PRELOAD_DRIVER_H
#define PRELOAD_DRIVER_H

#include <stdbool.h>

#include "preload/hooks.h"

/**
 * driver_is_loaded() - whether the process has libcuda.so.1
 *
 * Context: any thread. Takes no lock of its own, as a caller may hold the dynamic linker's. May change dlerror().
 */
bool driver_is_loaded(void);

/**
 * driver_lacks() - whether a call has a hook, and the driver is from before the call existed
 * @name: of the call
 *
 * Context: any thread, after driver_is_loaded() was true.
 */
bool driver_lacks(const char *name);

/**
 * driver_call() - what a hook passes its call on to
 * @call: which
 *
 * The driver's, or that of an object behind ours that stands in front of the driver. Where there is no driver it is
 * what the program would have found without us, so that a test double keeps working.
 *
 * Context: any thread.
 * Return: NULL if there is none.
 */
void *driver_call(enum preload_call call);

/**
 * driver_is() - whether an address is a call of the driver's, or what stands in front of that behind us
 * @call: which
 * @address: what a lookup has found
 *
 * Context: any thread, after driver_is_loaded() was true.
 */
bool driver_is(enum preload_call call, const void *address);

/**
 * driver_find() - look up what a call of the driver is to be passed on to
 * @library: a handle of libcuda.so.1, or of any other object
 * @name: of the call; it need not have a hook
 *
 * Context: any thread.
 * Return: as driver_call(); NULL if @library does not have it.
 */
void *driver_find(void *library, const char *name);

/**
 * driver_is_behind() - whether an address is in an object behind ours that stands in front of the driver
 * @address: such as that of a caller
 *
 * Context: any thread. Takes no lock of its own.
 */
bool driver_is_behind(const void *address);

/* Passes a call on as it came. A driver from before the call existed has nothing to pass it to. */
#define FORWARD(name, ...) \
	({ \
		__typeof__(&name) forward_call = (__typeof__(&name))driver_call(CALL_##name); \
		forward_call ? forward_call(__VA_ARGS__) : DRV_ERROR_STUB_LIBRARY; \
	})

#endif /* PRELOAD_DRIVER_H */
