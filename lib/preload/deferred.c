// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "preload/deferred.h"
#include "preload/library.h"
#include "preload/running.h"

struct deferred {
	struct deferred *next;
	void *base;
	int device;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct deferred *all;
static atomic_uint count;

static drv_result free_behind_all(void *base)
{
	/* The pool is found by the address, as it may have ended. */
	switch (LIBRARY(vpmm_free, NULL, base, VPMM_STREAM_ANY)) {
	case 0:
		return DRV_SUCCESS;
	case -ENOMEM:
		return DRV_ERROR_OUT_OF_MEMORY;
	case -EINVAL:
		/* Another thread was faster. */
		return DRV_ERROR_INVALID_VALUE;
	default:
		return DRV_ERROR_UNKNOWN;
	}
}

/* Called with the lock held. */
static bool is_deferred(const void *base)
{
	const struct deferred *deferred;

	for (deferred = all; deferred; deferred = deferred->next) {
		if (deferred->base == base)
			return true;
	}
	return false;
}

static drv_result deferred_add(const struct vpmm_allocation *block)
{
	struct deferred *deferred = malloc(sizeof(*deferred));
	drv_result result = DRV_SUCCESS;

	if (!deferred)
		return DRV_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&lock);
	if (is_deferred(block->base)) {
		free(deferred);
		result = DRV_ERROR_INVALID_VALUE;
	} else {
		*deferred = (struct deferred){ .next = all, .base = block->base, .device = block->device };
		all = deferred;
		count++;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

bool deferred_has(const void *base)
{
	bool has;

	if (!count)
		return false;
	pthread_mutex_lock(&lock);
	has = is_deferred(base);
	pthread_mutex_unlock(&lock);
	return has;
}

/* Takes the blocks of a device out, or of all with a negative one. */
static struct deferred *take(int device)
{
	struct deferred **at = &all, *taken = NULL;

	pthread_mutex_lock(&lock);
	while (*at) {
		struct deferred *deferred = *at;

		if (device >= 0 && deferred->device != device) {
			at = &deferred->next;
			continue;
		}
		*at = deferred->next;
		deferred->next = taken;
		taken = deferred;
		count--;
	}
	pthread_mutex_unlock(&lock);
	return taken;
}

static void put_back(struct deferred *deferred)
{
	pthread_mutex_lock(&lock);
	deferred->next = all;
	all = deferred;
	count++;
	pthread_mutex_unlock(&lock);
}

void deferred_release(void)
{
	struct deferred *deferred, *next;
	drv_result result;

	if (!count || !capture_hold_off())
		return;
	for (deferred = take(-1); deferred; deferred = next) {
		next = deferred->next;
		result = free_behind_all(deferred->base);
		/* One may have begun that nobody told us of. */
		if (result && result != DRV_ERROR_INVALID_VALUE)
			put_back(deferred);
		else
			free(deferred);
	}
	capture_let_begin();
}

void deferred_forget(int device)
{
	struct deferred *deferred, *next;

	for (deferred = take(device); deferred; deferred = next) {
		next = deferred->next;
		free(deferred);
	}
}

drv_result free_without_stream(const struct vpmm_allocation *block)
{
	drv_result result;

	deferred_release();
	if (capture_hold_off()) {
		result = free_behind_all(block->base);
		capture_let_begin();
		return result;
	}
	result = deferred_add(block);
	/* Its end may have come before the note, and found nothing to release. */
	deferred_release();
	return result;
}
