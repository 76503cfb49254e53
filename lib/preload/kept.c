// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "preload/kept.h"
#include "preload/library.h"

struct kept {
	struct kept *next;
	void *base;
	int device;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept *all;
static atomic_uint count;

drv_result kept_free(void *base)
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
static bool is_kept(const void *base)
{
	const struct kept *kept;

	for (kept = all; kept; kept = kept->next) {
		if (kept->base == base)
			return true;
	}
	return false;
}

drv_result kept_add(const struct vpmm_allocation *block)
{
	struct kept *kept = malloc(sizeof(*kept));
	drv_result result = DRV_SUCCESS;

	if (!kept)
		return DRV_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&lock);
	if (is_kept(block->base)) {
		free(kept);
		result = DRV_ERROR_INVALID_VALUE;
	} else {
		*kept = (struct kept){ .next = all, .base = block->base, .device = block->device };
		all = kept;
		count++;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

/* Takes the blocks of a device out, or of all with a negative one. */
static struct kept *take(int device)
{
	struct kept **at = &all, *taken = NULL;

	pthread_mutex_lock(&lock);
	while (*at) {
		struct kept *kept = *at;

		if (device >= 0 && kept->device != device) {
			at = &kept->next;
			continue;
		}
		*at = kept->next;
		kept->next = taken;
		taken = kept;
		count--;
	}
	pthread_mutex_unlock(&lock);
	return taken;
}

void kept_release(void)
{
	struct kept *kept, *next;

	if (!count)
		return;
	for (kept = take(-1); kept; kept = next) {
		next = kept->next;
		kept_free(kept->base);
		free(kept);
	}
}

void kept_forget(int device)
{
	struct kept *kept, *next;

	for (kept = take(device); kept; kept = next) {
		next = kept->next;
		free(kept);
	}
}
