// SPDX-License-Identifier: LGPL-2.1-or-later
#include <pthread.h>
#include <search.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "preload/file.h"
#include "preload/monitor.h"
#include "preload/primary.h"
#include "preload/settings.h"

/* How long a record may stay in memory: as long as libvpmm's own. */
#define FLUSH_US UINT64_C(1000000)

/* What a reader takes for the unit of the allocator; the driver tells none. */
#define PAGE (2 << 20)

struct block {
	drv_deviceptr va;
	int device;
};

/* Of all that follows. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static enum { CLOSED, OPEN, FAILED } state;
static FILE *file;
static void *blocks;			/* tree of struct block, by address */
static unsigned int pools[DEVICES_KNOWN];	/* number of each device's in the file; 0: none yet */
static unsigned int last_pool;
static uint64_t started, flushed;

static int compare(const void *a, const void *b)
{
	const struct block *one = a, *other = b;

	return (one->va > other->va) - (one->va < other->va);
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
}

/* A child must not write again what its parent has not written yet, nor anything of its own. */
static void before_fork(void)
{
	pthread_mutex_lock(&lock);
	if (file)
		fflush(file);
}

static void parent_of_fork(void)
{
	pthread_mutex_unlock(&lock);
}

static void child_of_fork(void)
{
	state = FAILED;
	pthread_mutex_unlock(&lock);
}

static void open_file(void)
{
	const char *name = getenv("VPMM_TRACE");
	size_t length = name ? strlen(name) : 0;

	state = FAILED;
	if (!length || (length > 3 && !strcmp(name + length - 3, ".gz"))) {
		fputs("libvpmm-preload: VPMM_PRELOAD_MONITOR=1 needs VPMM_TRACE, and does not compress\n", stderr);
		return;
	}
	file = file_open("VPMM_TRACE", "we");
	if (!file || pthread_atfork(before_fork, parent_of_fork, child_of_fork))
		return;
	started = flushed = now();
	fputs("# vpmm-trace 2 source=vpmm-preload\n", file);
	state = OPEN;
}

/* Locks, and starts a record with the time; false, and nothing is locked, if there is nothing to write to. */
static bool begin(uint64_t *time)
{
	if (!settings()->monitor)
		return false;
	pthread_mutex_lock(&lock);
	if (state == CLOSED)
		open_file();
	if (state == OPEN) {
		*time = now() - started;
		return true;
	}
	pthread_mutex_unlock(&lock);
	return false;
}

static void end(uint64_t time)
{
	if (time + started - flushed >= FLUSH_US) {
		fflush(file);
		flushed = time + started;
	}
	pthread_mutex_unlock(&lock);
}

static unsigned int pool_of(int device, uint64_t time)
{
	if (!pools[device]) {
		pools[device] = ++last_pool;
		fprintf(file, "%llu p %u cuda %d %d\n", (unsigned long long)time, last_pool, device, PAGE);
	}
	return pools[device];
}

static void add(drv_deviceptr va, int device)
{
	struct block *block = malloc(sizeof(*block));

	if (!block)
		return;
	*block = (struct block){ va, device };
	if (!tsearch(block, &blocks, compare))
		free(block);
}

drv_result monitor_allocated(drv_result result, const drv_deviceptr *va, size_t size, drv_stream stream)
{
	const bool any = stream == MONITOR_ANY;
	unsigned int pool;
	uint64_t time;
	int device;

	if (!settings()->monitor || result || !va || !*va || !primary_device(&device) || !begin(&time))
		return result;
	if (!tfind(&(struct block){ *va, 0 }, &blocks, compare)) {
		pool = pool_of(device, time);
		add(*va, device);
		fprintf(file, "%llu a %#llx %zu %#llx pool=%u%s\n", (unsigned long long)time, (unsigned long long)*va,
			size, any ? 0 : (unsigned long long)(uintptr_t)stream, pool, any ? " idle" : "");
	}
	end(time);
	return result;
}

void monitor_free(drv_deviceptr va, drv_stream stream)
{
	struct block **at, *block;
	uint64_t time;

	if (!va || !begin(&time))
		return;
	at = tfind(&(struct block){ va, 0 }, &blocks, compare);
	if (at) {
		block = *at;
		tdelete(block, &blocks, compare);
		if (stream == MONITOR_ANY)
			fprintf(file, "%llu f %#llx any pool=%u\n", (unsigned long long)time, (unsigned long long)va,
				pools[block->device]);
		else
			fprintf(file, "%llu f %#llx %#llx pool=%u\n", (unsigned long long)time, (unsigned long long)va,
				(unsigned long long)(uintptr_t)stream, pools[block->device]);
		free(block);
	}
	end(time);
}

/* A tree cannot be changed while it is walked, so one block of the device is taken out at a time. */
static _Thread_local struct block *found;
static _Thread_local int wanted;

static void look(const void *node, VISIT visit, int depth)
{
	struct block *block = *(struct block *const *)node;

	(void)depth;
	if ((visit == preorder || visit == leaf) && block->device == wanted)
		found = block;
}

void monitor_reset(int device)
{
	uint64_t time;

	if (device < 0 || device >= DEVICES_KNOWN || !begin(&time))
		return;
	wanted = device;
	do {
		found = NULL;
		twalk(blocks, look);
		if (found) {
			tdelete(found, &blocks, compare);
			free(found);
		}
	} while (found);
	if (pools[device])
		fprintf(file, "%llu e %u\n", (unsigned long long)time, pools[device]);
	pools[device] = 0;
	end(time);
}
