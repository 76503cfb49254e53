/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* libvpmm, opened when a program first allocates, and whether it is to serve the caller. */
#ifndef PRELOAD_LIBRARY_H
#define PRELOAD_LIBRARY_H

#include <stdbool.h>

#include "preload/hooks.h"
#include "vpmm.h"

#define PRELOAD_LIBRARY(X) \
	X(vpmm_free) \
	X(vpmm_last_error) \
	X(vpmm_lend) \
	X(vpmm_lend_key) \
	X(vpmm_lookup) \
	X(vpmm_malloc) \
	X(vpmm_malloc_flags) \
	X(vpmm_pause_guard) \
	X(vpmm_pool_abandon) \
	X(vpmm_pool_info) \
	X(vpmm_pool_reset_peaks) \
	X(vpmm_pool_set_peers) \
	X(vpmm_pool_dump) \
	X(vpmm_pool_stats) \
	X(vpmm_pool_trim) \
	X(vpmm_receive) \
	X(vpmm_stream_retire)

struct preload_library {
#define X(name) __typeof__(&name) name;
	PRELOAD_LIBRARY(X)
#undef X
};

/* Its calls. Valid for who has had true of one of the functions below. */
extern struct preload_library vpmm;

/* Whether a call of the library is under way on this thread: what that calls, its callbacks included, is not ours. */
extern _Thread_local bool library_inside;

#define LIBRARY(name, ...) \
	({ \
		__typeof__(vpmm.name(__VA_ARGS__)) library_result; \
		library_inside = true; \
		library_result = vpmm.name(__VA_ARGS__); \
		library_inside = false; \
		library_result; \
	})

/**
 * library_wants() - whether the calling thread's requests for memory are of the kind that the library answers
 * @device: receives the device whose primary context is current
 *
 * They are if the object is switched on, and the current context is a primary one.
 *
 * Context: any thread.
 */
bool library_wants(int *device);

/**
 * library_serves() - whether the library is to answer the calling thread's request for memory
 * @device: as for library_wants()
 *
 * It is if it wants to, can be opened, and the program is not only to be watched. In a child after a fork it answers
 * -EBUSY, so the driver is asked.
 *
 * Context: any thread.
 */
bool library_serves(int *device);

/**
 * library_ready() - the same for a call that does not concern the current context
 *
 * Context: any thread.
 */
bool library_ready(void);

/**
 * library_used() - whether there may be blocks of the library
 *
 * Context: any thread.
 */
bool library_used(void);

/**
 * library_look() - look an address up
 * @va: the address
 * @block: receives the block that it is in
 *
 * Context: any thread.
 * Return: what vpmm_lookup() returns; -EINVAL as well where there are no blocks.
 */
int library_look(drv_deviceptr va, struct vpmm_allocation *block);

/**
 * library_find() - find the block that an address is in
 * @va: the address
 * @block: receives the answer
 *
 * Context: any thread.
 * Return: false if it is in none of the library's.
 */
bool library_find(drv_deviceptr va, struct vpmm_allocation *block);

/**
 * library_serving() - whether any device has had memory of the library since it was reset
 *
 * Context: any thread.
 */
bool library_serving(void);

/**
 * library_served_no_more() - the pool of a device has ended
 * @device: its ordinal
 *
 * Context: any thread.
 */
void library_served_no_more(int device);

/**
 * library_answer() - make the driver's answer to a request for memory of the library's
 * @device: whose primary context is current
 * @err: what the library returned
 * @ptr: the block
 * @va: receives its address
 * @result: receives the answer
 *
 * Where the library has no memory, its free memory is given back, so that the driver can serve the request; unless the
 * user has set a limit, which holds for the whole of it. Where it cannot make a pool, as with a bad setting, it says
 * why on standard error, once. A block of the host backend is freed, and the library serves nothing from then on.
 *
 * Return: false if the driver is to be asked instead.
 */
bool library_answer(int device, int err, void *ptr, drv_deviceptr *va, drv_result *result);

/**
 * library_makes_room() - give the library's free memory back where the driver has none
 * @result: the driver's answer to a request for memory
 *
 * Context: any thread; the context of the request is current.
 * Return: whether there was any on that device, so that the driver is to be asked once more.
 */
bool library_makes_room(drv_result result);

/* Passes a request on that is not for the library. */
#define FORWARD_REQUEST(name, ...) \
	({ \
		drv_result request_result = FORWARD(name, __VA_ARGS__); \
		\
		if (library_makes_room(request_result)) \
			request_result = FORWARD(name, __VA_ARGS__); \
		request_result; \
	})

#endif /* PRELOAD_LIBRARY_H */
