// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Opens libvpmm. It is not among what the preload object needs at load: every program of a shell under LD_PRELOAD would
 * get it, and GLib with it, in front of the copies that the program may have brought along.
 */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preload/driver.h"
#include "preload/gate.h"
#include "preload/library.h"
#include "preload/primary.h"
#include "preload/real.h"
#include "preload/settings.h"
#include "util/text.h"

#define LIBVPMM "libvpmm.so.0"

struct preload_library vpmm;
_Thread_local bool library_inside;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Unknown as long as nobody has asked for memory. */
static enum { UNKNOWN, USED, UNUSABLE } _Atomic state;
/* Devices that have had memory of it since they were reset, as bits. */
static _Atomic uint64_t served;

/* Paths and messages are on the heap: the stack of the thread that allocates first may be the smallest there is. */
static void *open_near(const char *object, const char *where)
{
	const char *slash = strrchr(object, '/');
	void *library = NULL;
	char *path;

	if (slash && asprintf(&path, "%.*s/%s" LIBVPMM, (int)(slash - object), object, where) >= 0) {
		library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		free(path);
	}
	return library;
}

/* The one that the program has loaded already; beside us, before we were installed, or above; or that of the system. */
static void *open_library(void)
{
	void *library = dlopen(LIBVPMM, RTLD_NOW | RTLD_NOLOAD);
	Dl_info info;

	if (!library && dladdr(&vpmm, &info) && info.dli_fname) {
		library = open_near(info.dli_fname, "");
		if (!library)
			library = open_near(info.dli_fname, "../");
	}
	return library ? library : dlopen(LIBVPMM, RTLD_NOW | RTLD_LOCAL);
}

/* Return: NULL, or why not, until the thread's next dlerror(). */
static const char *load_calls(struct preload_library *found)
{
	void *library = open_library();

	if (!library)
		return dlerror() ?: "no " LIBVPMM;
#define X(name) \
	*(void **)&found->name = real_dlsym(library, #name); \
	if (!found->name) \
		return LIBVPMM " has no " #name;
	PRELOAD_LIBRARY(X)
#undef X
	return NULL;
}

static void use_library(const struct preload_library *found)
{
	vpmm = *found;
	if (settings()->pausable && !vpmm.vpmm_pause_guard(gate_guard, NULL))
		gate_begin();
}

/*
 * Threads that come first at the same time all open it, and find the same. With the lock held meanwhile, one would wait
 * for that of the dynamic linker, which another may hold in a constructor that allocates, and wait for ours.
 */
static bool library_load(void)
{
	struct preload_library found;
	const char *why;

	if (state != UNKNOWN)
		return state == USED;
	why = load_calls(&found);
	pthread_mutex_lock(&lock);
	if (state == UNKNOWN) {
		if (!why)
			use_library(&found);
		else
			text_warn("libvpmm-preload: %s; all calls go to the driver\n", why);
		state = why ? UNUSABLE : USED;
	}
	pthread_mutex_unlock(&lock);
	/* The program is not to be told of places where the library is not. */
	dlerror();
	return state == USED;
}

bool library_wants(int *device)
{
	return settings()->on && !library_inside && primary_device(device);
}

bool library_serves(int *device)
{
	return !settings()->monitor && library_wants(device) && library_load();
}

bool library_ready(void)
{
	return settings()->on && !settings()->monitor && !library_inside && library_load();
}

bool library_used(void)
{
	return state == USED && !library_inside;
}

int library_look(drv_deviceptr va, struct vpmm_allocation *block)
{
	*block = (struct vpmm_allocation){ .size = sizeof(*block) };
	return library_used() ? LIBRARY(vpmm_lookup, (const void *)va, block) : -EINVAL;
}

bool library_find(drv_deviceptr va, struct vpmm_allocation *block)
{
	return !library_look(va, block);
}

static bool has_limit(void)
{
	struct vpmm_info info = { .size = sizeof(info) };

	return !LIBRARY(vpmm_pool_info, NULL, &info) && (info.limit != UINT64_MAX || info.budget);
}

/* Without a pool, nothing is as the user has set it, such as a limit. A bad stream is for the driver to report. */
static void report_no_pool(void)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	struct vpmm_info info = { .size = sizeof(info) };

	if (LIBRARY(vpmm_pool_info, NULL, &info) && !atomic_flag_test_and_set(&said))
		text_warn("libvpmm-preload: %s; the driver serves instead\n", vpmm.vpmm_last_error());
}

bool library_serving(void)
{
	return library_used() && served;
}

void library_served_no_more(int device)
{
	atomic_fetch_and(&served, ~(UINT64_C(1) << device));
}

static bool has_served(int device)
{
	return atomic_load_explicit(&served, memory_order_relaxed) >> device & 1;
}

static void note_served(int device)
{
	if (!has_served(device))
		atomic_fetch_or(&served, UINT64_C(1) << device);
}

/*
 * Default pools are of the host backend where VPMM_BACKEND=auto finds no driver that will do, or the program has such
 * pools itself: all of a process are of one backend.
 */
static bool is_of_host(void)
{
	struct vpmm_info info = { .size = sizeof(info) };

	return !LIBRARY(vpmm_pool_info, NULL, &info) && strcmp(info.backend, "cuda");
}

static void give_up_library(void *ptr)
{
	if (ptr)
		LIBRARY(vpmm_free, NULL, ptr, VPMM_STREAM_ANY);
	if (atomic_exchange(&state, UNUSABLE) == USED)
		fputs("libvpmm-preload: the default pools are of the host backend; all calls go to the driver\n",
		      stderr);
}

bool library_answer(int device, int err, void *ptr, drv_deviceptr *va, drv_result *result)
{
	if (!has_served(device) && is_of_host()) {
		give_up_library(err ? NULL : ptr);
		return false;
	}
	if (!err) {
		note_served(device);
		*va = (drv_deviceptr)ptr;
		*result = DRV_SUCCESS;
		return true;
	}
	if (err != -ENOMEM && err != -EBUSY)
		report_no_pool();
	if (err != -ENOMEM)
		return false;
	if (has_limit()) {
		*result = DRV_ERROR_OUT_OF_MEMORY;
		return true;
	}
	LIBRARY(vpmm_pool_trim, NULL, 0, NULL);
	return false;
}

bool library_makes_room(drv_result result)
{
	size_t released = 0;
	drv_device device = 0;

	if (result != DRV_ERROR_OUT_OF_MEMORY || !library_serving() || FORWARD(cuCtxGetDevice, &device) ||
	    primary_push(device))
		return false;
	LIBRARY(vpmm_pool_trim, NULL, 0, &released);
	primary_pop();
	return released;
}
