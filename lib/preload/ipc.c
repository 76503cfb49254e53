// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * CUDA's legacy IPC for memory of the library, which the driver's does not know. A handle of ours is the name of a
 * block, which its process answers to (util/lender.h); all others go to the driver.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "preload/driver.h"
#include "preload/lent.h"
#include "preload/library.h"
#include "preload/own.h"
#include "preload/settings.h"
#include "preload/wait.h"
#include "util/lender.h"

/* In a handle of the driver's these bytes are others. */
#define KIND UINT32_C(0x6d6d7076)

/* As in cuda.h; the driver documents no other, and none is needed. */
#define IPC_MEM_LAZY_ENABLE_PEER_ACCESS 1u

/* Of those who open and close at once one is first. Never held while the process answers to others. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void watch_lender_forks(void)
{
	pthread_atfork(NULL, NULL, lender_enter_child);
}

/* Before anything is shared. */
static void begin_sharing(void)
{
	static pthread_once_t watched = PTHREAD_ONCE_INIT;

	pthread_once(&watched, watch_lender_forks);
}

static bool find_given(const struct lender_name *name, void **base)
{
	struct vpmm_allocation block;

	if (name->kind != KIND || !library_find(name->addr, &block) || !name->serial ||
	    lent_number(block.base) != name->serial)
		return false;
	*base = block.base;
	return true;
}

static int given_key(struct vpmm_pool *pool, const void *ptr, uint64_t *key, size_t *offset)
{
	return LIBRARY(vpmm_lend_key, pool, ptr, key, offset);
}

static int lend_given(struct vpmm_pool *pool, const void *ptr, int socket)
{
	return LIBRARY(vpmm_lend, pool, ptr, socket);
}

static const struct lender_ops ops = { .find = find_given, .lend_key = given_key, .lend = lend_given };

/* Programs ask for the base of an address by the same call. The base is never before the block. */
static drv_deviceptr base_of(drv_deviceptr va, const struct vpmm_allocation *block)
{
	const drv_deviceptr start = (drv_deviceptr)block->base;
	drv_deviceptr base;

	return cuMemGetAddressRange_v2(&base, NULL, va) || base < start ? start : base;
}

static bool give_handle(void *handle, drv_deviceptr va, const struct vpmm_allocation *block)
{
	struct lender_name name = { .kind = KIND, .addr = base_of(va, block) };
	uint64_t key[3];
	size_t offset;

	/* The block is noted only if it can be lent. */
	if (given_key(NULL, block->base, key, &offset))
		return false;
	begin_sharing();
	name.serial = lent_give(block->base, block->device);
	if (!name.serial || lender_give(&ops, &name, &offset))
		return false;
	memcpy(handle, &name, sizeof(name));
	return true;
}

drv_result cuIpcGetMemHandle(void *handle, drv_deviceptr va)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	struct vpmm_allocation block;
	bool ours = library_find(va, &block);
	drv_result result;

	if (ours && handle && give_handle(handle, va, &block))
		return DRV_SUCCESS;
	result = FORWARD(cuIpcGetMemHandle, handle, va);
	if (result && ours && handle && !atomic_flag_test_and_set(&said))
		fputs("libvpmm-preload: cuIpcGetMemHandle: this memory of libvpmm cannot be shared; "
		      "set VPMM_EXPORT=auto, or VPMM_PRELOAD_IPC=driver\n", stderr);
	return result;
}

static drv_result result_of_open(int err)
{
	switch (err) {
	case 0:
		return DRV_SUCCESS;
	case -ESRCH:
	case -ENOENT:
	case -EPERM:
		return DRV_ERROR_INVALID_HANDLE;
	case -ENOMEM:
		return DRV_ERROR_OUT_OF_MEMORY;
	case -EBUSY:
		return DRV_ERROR_NOT_INITIALIZED;
	default:
		return DRV_ERROR_MAP_FAILED;
	}
}

/* The memory of the name, into the default pool of the current device. */
static int receive_named(const struct lender_name *name, struct lent_opened *opened)
{
	struct lender_answer answer;
	int fd, err;

	err = lender_ask(name, &answer, &fd);
	if (err)
		return err;
	err = LIBRARY(vpmm_receive, NULL, &opened->base, NULL, fd);
	close(fd);
	opened->va = (drv_deviceptr)opened->base + answer.within;
	return err;
}

static drv_result open_first(const struct lender_name *name, int device, drv_deviceptr *va)
{
	struct lent_opened opened = { .handle = *name, .device = device };
	int err = receive_named(name, &opened);

	if (!err && !lent_open(&opened)) {
		LIBRARY(vpmm_free, NULL, opened.base, VPMM_STREAM_ANY);
		err = -ENOMEM;
	}
	if (!err)
		*va = opened.va;
	return result_of_open(err);
}

/* The driver would take its own bytes for what they are not. */
static drv_result open_ours(drv_deviceptr *va, const struct lender_name *name, unsigned int flags)
{
	drv_result result = DRV_SUCCESS;
	drv_context context;
	int device;

	if (!va || flags & ~IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		return DRV_ERROR_INVALID_VALUE;
	if (lender_is_own(name) || !library_serves(&device))
		return FORWARD(cuCtxGetCurrent, &context) ?: DRV_ERROR_INVALID_CONTEXT;
	begin_sharing();
	pthread_mutex_lock(&lock);
	if (!lent_open_again(name, device, va))
		result = open_first(name, device, va);
	pthread_mutex_unlock(&lock);
	return result;
}

#define OPENS(call) \
	drv_result call(drv_deviceptr *va, struct drv_ipc_handle handle, unsigned int flags) \
	{ \
		struct lender_name name; \
		\
		memcpy(&name, &handle, sizeof(name)); \
		if (settings()->on && name.kind == KIND) \
			return open_ours(va, &name, flags); \
		return FORWARD(call, va, handle, flags); \
	}
OPENS(cuIpcOpenMemHandle)
OPENS(cuIpcOpenMemHandle_v2)

/* Work that is under way may use it, and its process may free it as soon as this returns. */
static drv_result free_opened(const struct lent_opened *opened)
{
	struct vpmm_allocation block;
	drv_result result;
	bool captured;

	if (!library_find((drv_deviceptr)opened->base, &block))
		return DRV_ERROR_INVALID_VALUE;
	result = wait_for_device(block.device, &captured);
	return result ? result : free_without_stream(&block);
}

static drv_result close_ours(drv_deviceptr va, bool *ours)
{
	drv_result result = DRV_SUCCESS;
	struct lent_opened opened;
	long left;

	pthread_mutex_lock(&lock);
	left = lent_close(va, &opened);
	if (!left) {
		result = free_opened(&opened);
		lent_closed(va, !result);
	}
	pthread_mutex_unlock(&lock);
	*ours = left >= 0;
	return result;
}

drv_result cuIpcCloseMemHandle(drv_deviceptr va)
{
	drv_result result;
	bool ours = false;

	if (lent_any()) {
		result = close_ours(va, &ours);
		if (ours)
			return result;
	}
	return FORWARD(cuIpcCloseMemHandle, va);
}
