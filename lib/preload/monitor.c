// SPDX-License-Identifier: LGPL-2.1-or-later
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <pthread.h>
#include <search.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "preload/monitor.h"
#include "preload/primary.h"
#include "preload/settings.h"
#include "util/captures.h"
#include "util/clock.h"
#include "util/text.h"

/*
 * So many records of a second are written at once, so that of a program that allocates and then computes nothing is
 * missing. What follows in that second stays in memory until there is a buffer of it, or the first record of another.
 */
#define FLUSH_US UINT64_C(1000000)
#define FLUSH_RECORDS 1000

/* What a reader takes for the unit of the allocator; the driver tells none. */
#define PAGE (2 << 20)

/* Allocators ask for sizes rounded up to this at least, and so their users do not copy all of a block. */
#define ROUNDED 512

/*
 * A block that is allocated.
 * number: that of its allocation; later ones have higher numbers
 * moved: bytes of it that were copied to the start of a larger block; 0: not all of them were
 * to, to_number: that block
 * submissions: how many there were when it had been copied
 */
struct block {
	drv_deviceptr va;
	size_t size;
	uint64_t number;
	size_t moved;
	drv_deviceptr to;
	uint64_t to_number;
	uint64_t submissions;
};

static atomic_ullong submissions;

/* Of all that follows. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static enum { CLOSED, OPEN, FAILED } state;
static FILE *file;
static struct {
	void *blocks;			/* tree of struct block */
	unsigned int pool;		/* its number in the file; 0: none yet */
} devices[DEVICES_KNOWN];
static unsigned int last_pool;
static uint64_t last_block;
static uint64_t started, second;	/* when the second began that @flushes are of */
static unsigned int flushes;

static int compare_blocks(const void *a, const void *b)
{
	drv_deviceptr one = ((const struct block *)a)->va, other = ((const struct block *)b)->va;

	return (one > other) - (one < other);
}

static uint64_t now(void)
{
	return clock_ns() / 1000;
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

/* When the process was started, in the kernel's ticks: it remains the same when it executes another program. */
static unsigned long long process_start(void)
{
	FILE *stat = fopen("/proc/self/stat", "re");
	unsigned long long ticks = 0;
	char line[1024], *at;

	if (!stat)
		return 0;
	/* The name of the program is in parentheses, and may have some itself. */
	if (fgets(line, sizeof(line), stat) && (at = strrchr(line, ')')))
		sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
		       &ticks);
	fclose(stat);
	return ticks;
}

/* VPMM_TRACE is also read by the pools of a program that uses libvpmm itself, which would replace the file. */
static const char *variable(void)
{
	return setting_value("VPMM_PRELOAD_TRACE") ? "VPMM_PRELOAD_TRACE" : "VPMM_TRACE";
}

/* A record that is missing would make all that follow wrong. */
static void stop_monitor(void)
{
	text_warn("libvpmm-preload: %s=%s: %m; nothing more is recorded\n", variable(), getenv(variable()));
	state = FAILED;
}

static void open_trace(void)
{
	char line[128];
	const char *name = setting_value(variable());
	size_t length = name ? strlen(name) : 0;

	state = FAILED;
	if (!length || (length > 3 && !strcmp(name + length - 3, ".gz"))) {
		fputs("libvpmm-preload: VPMM_PRELOAD_MONITOR=1 needs VPMM_PRELOAD_TRACE or VPMM_TRACE, and does not compress\n", stderr);
		return;
	}
	/* What the process had recorded before it executed this program is not to be lost. */
	snprintf(line, sizeof(line), "# vpmm-trace 2 source=vpmm-preload process=%ld started=%llu\n", (long)getpid(),
		 process_start());
	file = file_open(variable(), O_TRUNC, line);
	if (!file || pthread_atfork(before_fork, parent_of_fork, child_of_fork))
		return;
	started = second = now();
	fputs(line, file);
	state = OPEN;
}

/* Locks, and starts a record with the time; false, and nothing is locked, if there is nothing to write to. */
static bool begin_record(uint64_t *time)
{
	if (!settings()->monitor)
		return false;
	pthread_mutex_lock(&lock);
	if (state == CLOSED)
		open_trace();
	if (state == OPEN) {
		*time = now() - started;
		return true;
	}
	pthread_mutex_unlock(&lock);
	return false;
}

static void end_record(uint64_t time)
{
	if (time + started - second >= FLUSH_US) {
		second = time + started;
		flushes = 0;
	}
	if (flushes < FLUSH_RECORDS) {
		fflush(file);
		flushes++;
	}
	if (ferror(file))
		stop_monitor();
	pthread_mutex_unlock(&lock);
}

static unsigned int pool_number(int device, uint64_t time)
{
	if (!devices[device].pool) {
		devices[device].pool = ++last_pool;
		fprintf(file, "%llu p %u cuda %d %d\n", (unsigned long long)time, last_pool, device, PAGE);
	}
	return devices[device].pool;
}

/* Addresses are one space for all devices. */
static struct block *find_block_at(drv_deviceptr va, int *device)
{
	const struct block key = { .va = va };
	struct block **found;
	int i;

	for (i = 0; i < DEVICES_KNOWN; i++) {
		found = tfind(&key, &devices[i].blocks, compare_blocks);
		if (found) {
			*device = i;
			return *found;
		}
	}
	return NULL;
}

static bool add_block(int device, drv_deviceptr va, size_t size)
{
	struct block *block;
	bool in_tree;
	int owner;

	if (find_block_at(va, &owner))
		return false;
	block = malloc(sizeof(*block));
	if (!block)
		return false;
	*block = (struct block){ .va = va, .size = size, .number = ++last_block };
	in_tree = tsearch(block, &devices[device].blocks, compare_blocks);
	if (!in_tree)
		free(block);
	return in_tree;
}

void monitor_allocated(int device, drv_deviceptr va, size_t size, drv_stream stream)
{
	const bool any = stream == MONITOR_ANY;
	unsigned int pool;
	uint64_t time;

	if (!begin_record(&time))
		return;
	if (add_block(device, va, size)) {
		pool = pool_number(device, time);
		fprintf(file, "%llu a %#llx %zu %#llx pool=%u%s\n", (unsigned long long)time, (unsigned long long)va,
			size, any ? 0 : (unsigned long long)(uintptr_t)stream, pool, any ? " idle" : "");
	}
	end_record(time);
}

/* Whether the larger block that it was copied to is allocated still. */
static bool has_moved(const struct block *block)
{
	const struct block *to;
	int device;

	to = block->moved ? find_block_at(block->to, &device) : NULL;
	return to && to->number == block->to_number;
}

void monitor_free(drv_deviceptr va, drv_stream stream)
{
	struct block *block;
	uint64_t time;
	int device;

	if (!va || !begin_record(&time))
		return;
	block = find_block_at(va, &device);
	if (block) {
		fprintf(file, "%llu f %#llx ", (unsigned long long)time, (unsigned long long)va);
		if (stream == MONITOR_ANY)
			fputs("any", file);
		else
			fprintf(file, "%#llx", (unsigned long long)(uintptr_t)stream);
		fprintf(file, " pool=%u", devices[device].pool);
		if (has_moved(block))
			fprintf(file, " moved=%zu%s", block->moved, block->submissions == submissions ? "" : " used");
		fputc('\n', file);
		tdelete(block, &devices[device].blocks, compare_blocks);
		free(block);
	}
	end_record(time);
}

static bool is_whole(const struct block *from, const struct block *to, size_t size)
{
	return to->number > from->number && to->size > from->size && size <= from->size && from->size - size < ROUNDED;
}

void monitor_copied(drv_deviceptr to, drv_deviceptr from, size_t size)
{
	struct block *source, *target;
	int device, of_target;
	uint64_t time;

	monitor_submitted();
	if (!size || captures_any() || !begin_record(&time))
		return;
	source = find_block_at(from, &device);
	target = source ? find_block_at(to, &of_target) : NULL;
	if (target && device == of_target && is_whole(source, target, size)) {
		source->moved = size;
		source->to = to;
		source->to_number = target->number;
		source->submissions = submissions;
	}
	end_record(time);
}

void monitor_submitted(void)
{
	submissions++;
}

void monitor_reset(int device)
{
	uint64_t time;

	if (device < 0 || device >= DEVICES_KNOWN || !begin_record(&time))
		return;
	tdestroy(devices[device].blocks, free);
	devices[device].blocks = NULL;
	if (devices[device].pool)
		fprintf(file, "%llu e %u\n", (unsigned long long)time, devices[device].pool);
	devices[device].pool = 0;
	end_record(time);
}
