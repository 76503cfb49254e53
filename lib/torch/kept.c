// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Frees that cannot be done yet: on a stream whose capture was invalidated, until that ends, and where the driver has
 * no memory for an event. The legacy default stream beside a capture is the library's own matter. And uses that could
 * not be told to the library: such a block is freed behind all work.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "torch/kept.h"
#include "util/captures.h"
#include "vpmm.h"

struct kept {
	struct kept *next;
	void *ptr;
	struct CUstream_st *stream;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept *first;
static struct kept *uses;		/* of blocks by streams that could not be named */
static atomic_uint_least64_t waiting, noted, unknown, lost;

/* The process whose frees are kept; 0: nobody has said. */
static _Atomic pid_t owner;

void kept_begin(void)
{
	owner = getpid();
}

/* Counts a free or use that failed for good. */
static void kept_failed(int err)
{
	if (err == -EINVAL)
		unknown++;
	else
		lost++;
}

static void push_kept(struct kept *kept)
{
	pthread_mutex_lock(&lock);
	kept->next = first;
	first = kept;
	waiting++;
	pthread_mutex_unlock(&lock);
}

static struct kept *take_all(void)
{
	struct kept *all;

	pthread_mutex_lock(&lock);
	all = first;
	first = NULL;
	pthread_mutex_unlock(&lock);
	return all;
}

/* A forked child cannot free anything ever, and another thread may have had the lock when it was forked. */
bool kept_in_child(void)
{
	return owner && owner != getpid();
}

static bool can_come(int err)
{
	return err == -EBUSY || err == -ENOMEM;
}

/* Behind all work, by an event that would invalidate a capture. */
static int free_behind_all(void *ptr)
{
	int err;

	if (!captures_hold_off())
		return -EBUSY;
	err = vpmm_free(NULL, ptr, VPMM_STREAM_ANY);
	captures_let();
	return err;
}

static bool is_block(void *ptr)
{
	struct vpmm_allocation block = { .size = sizeof(block) };

	return !vpmm_lookup(ptr, &block) && block.base == ptr;
}

/* A stream that is not PyTorch's may be gone by now. */
static int free_block(void *ptr, struct CUstream_st *stream)
{
	int err;

	if (stream == VPMM_STREAM_ANY)
		return free_behind_all(ptr);
	err = vpmm_free(NULL, ptr, stream);
	return err == -EINVAL && is_block(ptr) ? free_behind_all(ptr) : err;
}

/* Takes the note of a use out. Only then is a fork asked for, which is a system call. */
static bool take_use(void *ptr)
{
	struct kept **at = &uses, *use;

	if (!noted || kept_in_child())
		return false;
	pthread_mutex_lock(&lock);
	while (*at && (*at)->ptr != ptr)
		at = &(*at)->next;
	use = *at;
	if (use) {
		*at = use->next;
		noted--;
	}
	pthread_mutex_unlock(&lock);
	free(use);
	return use;
}

void kept_use(void *ptr, struct CUstream_st *stream)
{
	int err = vpmm_use(NULL, ptr, stream);
	struct kept *use;

	if (!err)
		return;
	use = is_block(ptr) && !kept_in_child() ? malloc(sizeof(*use)) : NULL;
	if (!use) {
		kept_failed(err);
		return;
	}
	*use = (struct kept){ .ptr = ptr };
	pthread_mutex_lock(&lock);
	use->next = uses;
	uses = use;
	noted++;
	pthread_mutex_unlock(&lock);
}

bool kept_free(void *ptr, struct CUstream_st *stream)
{
	struct kept *kept;
	int err;

	/* More than one use can have been noted. */
	while (take_use(ptr))
		stream = VPMM_STREAM_ANY;
	err = free_block(ptr, stream);
	if (!err)
		return true;
	kept = can_come(err) && !kept_in_child() ? malloc(sizeof(*kept)) : NULL;
	if (!kept) {
		kept_failed(err);
		return err != -EINVAL;
	}
	kept->ptr = ptr;
	kept->stream = stream;
	push_kept(kept);
	return true;
}

void kept_retry(void)
{
	struct kept *kept, *next;
	int err;

	if (!waiting || kept_in_child())
		return;
	for (kept = take_all(); kept; kept = next) {
		next = kept->next;
		waiting--;
		err = free_block(kept->ptr, kept->stream);
		if (can_come(err)) {
			push_kept(kept);
			continue;
		}
		if (err)
			kept_failed(err);
		free(kept);
	}
}

void kept_note_unknown(void)
{
	unknown++;
}

uint64_t kept_count(void)
{
	return waiting;
}

uint64_t kept_unknown(void)
{
	return unknown;
}

uint64_t kept_lost(void)
{
	return lost;
}
