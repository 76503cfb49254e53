// SPDX-License-Identifier: LGPL-2.1-or-later
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
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

/*
 * So many records of a second are written at once, so that of a program that allocates and then computes nothing is
 * missing. What follows in that second stays in memory until there is a buffer of it, or the first record of another.
 */
#define FLUSH_US UINT64_C(1000000)
#define FLUSH_RECORDS 1000

/* What a reader takes for the unit of the allocator; the driver tells none. */
#define PAGE (2 << 20)

/* Of all that follows. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static enum { CLOSED, OPEN, FAILED } state;
static FILE *file;
static struct {
	void *blocks;			/* tree of addresses */
	unsigned int pool;		/* its number in the file; 0: none yet */
} devices[DEVICES_KNOWN];
static unsigned int last_pool;
static uint64_t started, second;	/* when the second began that @flushes are of */
static unsigned int flushes;

/* The addresses are the keys themselves. */
static const void *key(drv_deviceptr va)
{
	return (const void *)(uintptr_t)va;
}

static int compare(const void *a, const void *b)
{
	return ((uintptr_t)a > (uintptr_t)b) - ((uintptr_t)a < (uintptr_t)b);
}

static void free_key(void *unused)
{
	(void)unused;
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
	started = second = now();
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
	if (time + started - second >= FLUSH_US) {
		second = time + started;
		flushes = 0;
	}
	if (flushes < FLUSH_RECORDS) {
		fflush(file);
		flushes++;
	}
	pthread_mutex_unlock(&lock);
}

static unsigned int pool_of(int device, uint64_t time)
{
	if (!devices[device].pool) {
		devices[device].pool = ++last_pool;
		fprintf(file, "%llu p %u cuda %d %d\n", (unsigned long long)time, last_pool, device, PAGE);
	}
	return devices[device].pool;
}

/* Addresses are one space for all devices. */
static bool find(drv_deviceptr va, int *device)
{
	int i;

	for (i = 0; i < DEVICES_KNOWN; i++) {
		if (tfind(key(va), &devices[i].blocks, compare)) {
			*device = i;
			return true;
		}
	}
	return false;
}

void monitor_allocated(int device, drv_deviceptr va, size_t size, drv_stream stream)
{
	const bool any = stream == MONITOR_ANY;
	unsigned int pool;
	uint64_t time;
	int owner;

	if (!begin(&time))
		return;
	if (!find(va, &owner) && tsearch(key(va), &devices[device].blocks, compare)) {
		pool = pool_of(device, time);
		fprintf(file, "%llu a %#llx %zu %#llx pool=%u%s\n", (unsigned long long)time, (unsigned long long)va,
			size, any ? 0 : (unsigned long long)(uintptr_t)stream, pool, any ? " idle" : "");
	}
	end(time);
}

void monitor_free(drv_deviceptr va, drv_stream stream)
{
	uint64_t time;
	int device;

	if (!va || !begin(&time))
		return;
	if (find(va, &device)) {
		tdelete(key(va), &devices[device].blocks, compare);
		if (stream == MONITOR_ANY)
			fprintf(file, "%llu f %#llx any pool=%u\n", (unsigned long long)time, (unsigned long long)va,
				devices[device].pool);
		else
			fprintf(file, "%llu f %#llx %#llx pool=%u\n", (unsigned long long)time, (unsigned long long)va,
				(unsigned long long)(uintptr_t)stream, devices[device].pool);
	}
	end(time);
}

void monitor_reset(int device)
{
	uint64_t time;

	if (device < 0 || device >= DEVICES_KNOWN || !begin(&time))
		return;
	tdestroy(devices[device].blocks, free_key);
	devices[device].blocks = NULL;
	if (devices[device].pool)
		fprintf(file, "%llu e %u\n", (unsigned long long)time, devices[device].pool);
	devices[device].pool = 0;
	end(time);
}
