/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* An open host backend, as the files of its operations see it, and which ones a thread has entered. */
#ifndef HOST_OPENED_H
#define HOST_OPENED_H

#include <glib.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "backend/backend.h"
#include "host/device.h"
#include "util/lock.h"

struct host_small;
struct host_space;

struct host_backend {
	struct backend base;
	struct host_device *dev;
	struct host_space *space;
	struct host_small *small;
	enum backend_handles handles;
	_Atomic uint64_t peers;	/* as bits by ordinal */
	_Atomic bool gone;	/* the device was reset since */
	char *_Atomic misordered;	/* what order.c found first; NULL: nothing */
	GList link;		/* in open_backends */
};

#define HOST_ENTER_DEPTH 64

/* Which backends the thread is between enter and leave of, the innermost last. */
struct host_entered {
	struct host_backend *be[HOST_ENTER_DEPTH];
	int depth;
};

extern _Thread_local struct host_entered host_entered;

/* Calls that used what is lost in a reset, after one. */
extern _Atomic uint64_t host_touched;

/* What order.c found, of all backends. */
extern _Atomic uint64_t host_misordered;

/* The lock of the list of all open backends; acquired by host_acquire(). */
extern struct lock host_opens_lock;

static inline struct host_backend *host_backend(struct backend *be)
{
	return (struct host_backend *)be;
}

static inline int host_ordinal(struct backend *be)
{
	return host_device_ordinal(host_backend(be)->dev);
}

/**
 * host_check_entered() - whether the thread has entered a backend
 * @be: the backend
 * @call: what asks, for the error's sentence
 *
 * A driver needs a context of the device for every call; where it is forgotten, it shows here.
 *
 * Return: 0 or -EINVAL.
 */
int host_check_entered(struct backend *be, const char *call);

/**
 * host_check_there() - the same for what is lost in a reset
 * @be: the backend
 * @call: what asks, for the error's sentence
 *
 * Return: 0, -EINVAL or -ESTALE.
 */
int host_check_there(struct backend *be, const char *call);

#endif /* HOST_OPENED_H */
