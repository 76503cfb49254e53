// SPDX-License-Identifier: LGPL-2.1-or-later
#define _GNU_SOURCE 1
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "preload/driver.h"
#include "preload/gate.h"
#include "preload/primary.h"
#include "preload/settings.h"
#include "util/captures.h"
#include "util/clock.h"

/* How often to look. */
#define LOOK_NS 200000

/* Threads between gate_enter() and gate_leave(), and some that are about to wait. */
static atomic_uint inside;
static atomic_bool closed;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;

static _Thread_local unsigned int depth;

static void wait_until_open(void)
{
	pthread_mutex_lock(&lock);
	while (closed)
		pthread_cond_wait(&opened, &lock);
	pthread_mutex_unlock(&lock);
}

void gate_enter(void)
{
	if (!settings()->pausable || depth++)
		return;
	for (;;) {
		inside++;
		if (!closed)
			return;
		inside--;
		wait_until_open();
	}
}

void gate_leave(void)
{
	if (settings()->pausable && !--depth)
		inside--;
}

static void set_closed(bool value)
{
	pthread_mutex_lock(&lock);
	closed = value;
	pthread_cond_broadcast(&opened);
	pthread_mutex_unlock(&lock);
}

/* Whether there is time left to look again. */
static bool await_look(uint64_t until)
{
	const struct timespec pause = { 0, LOOK_NS };

	if (clock_ns() >= until)
		return false;
	nanosleep(&pause, NULL);
	return true;
}

static bool await_inside(uint64_t until)
{
	while (inside) {
		if (!await_look(until))
			return false;
	}
	return true;
}

/* A capture goes on only while the gate is open. */
static bool close_between_captures(uint64_t until)
{
	for (;;) {
		set_closed(true);
		if (!await_inside(until))
			return false;
		if (!captures_any())
			return true;
		set_closed(false);
		if (!await_look(until))
			return false;
	}
}

static bool await_event(drv_event event, uint64_t until)
{
	while (FORWARD(cuEventQuery, event) == DRV_ERROR_NOT_READY) {
		if (!await_look(until))
			return false;
	}
	return true;
}

/* An error is for the pause to report. Its context is current. */
static bool await_context(uint64_t until)
{
	drv_event event = NULL;
	drv_context context;
	bool done = true;

	if (!driver_call(CALL_cuCtxRecordEvent) || FORWARD(cuCtxGetCurrent, &context) ||
	    FORWARD(cuEventCreate, &event, DRV_EVENT_DISABLE_TIMING))
		return true;
	if (!FORWARD(cuCtxRecordEvent, context, event))
		done = await_event(event, until);
	FORWARD(cuEventDestroy_v2, event);
	return done;
}

static bool await_devices(uint64_t until)
{
	bool done = true;
	int device;

	for (device = 0; device < DEVICES_KNOWN && done; device++) {
		if (!primary_retains(device) || primary_push(device))
			continue;
		done = await_context(until);
		primary_pop();
	}
	return done;
}

int gate_guard(void *data, int rest)
{
	uint64_t until = clock_ns() + (uint64_t)rest * 1000000;

	(void)data;
	if (rest && close_between_captures(until) && await_devices(until))
		return 0;
	set_closed(false);
	return rest ? -EBUSY : 0;
}

/* The threads that held it are the parent's. */
static void open_in_child(void)
{
	closed = false;
	inside = depth ? 1 : 0;
}

void gate_begin(void)
{
	pthread_atfork(NULL, NULL, open_in_child);
}
