/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A CUDA device, as the files of this folder see it. */
#ifndef CUDA_DEVICE_H
#define CUDA_DEVICE_H

#include <glib.h>
#include <stdbool.h>

#include "backend/backend.h"
#include "cuda/driver.h"
#include "cuda/frees.h"
#include "util/lock.h"

/* An open device. */
struct cuda {
	struct backend base;
	int ordinal;
	drv_device device;
	drv_context context;
	drv_u64 context_id;		/* a reset changes it, and never the handle of a primary context */
	int retained;			/* the primary context, to be released */
	_Atomic bool abandoned;		/* the context is gone: nothing of it is touched any more */
	bool mapless;			/* no virtual memory management */
	bool rdma;
	enum backend_handles handles;	/* that memory is created for */
	uint64_t peers;			/* as bits by ordinal */
	drv_mem_pool pool;		/* of small allocations; NULL: the device has none */
	_Atomic uint64_t legacy_id;	/* of the legacy default stream; LEGACY_UNKNOWN: not asked for yet */
	void *gates;			/* the words that streams of a gate write and wait for; NULL: none yet */
	uint32_t gate;			/* the number of the latest */
	char apart[128];		/* keeps what every call reads off the cache lines that some calls write */
	struct lock lock;		/* guards the rest */
	GPtrArray *spare;		/* unused events, of drv_event */
	GPtrArray *spare_timed;		/* the same, of events that keep time */
	struct cuda_frees frees;	/* of small allocations */
};

#define LEGACY_UNKNOWN UINT64_MAX

static inline struct cuda *cuda_of(struct backend *be)
{
	return (struct cuda *)be;
}

/**
 * cuda_context_take() - get the context that a device is used in
 * @cuda: the device
 *
 * Return: 0, or an error of the driver.
 */
int cuda_context_take(struct cuda *cuda);

/**
 * cuda_context_put() - release the context
 * @cuda: the device
 */
void cuda_context_put(struct cuda *cuda);

/**
 * cuda_relax() - keep the following driver calls from invalidating captures of other threads
 *
 * Call it before a call that cannot be captured. It holds until the thread has left all devices.
 */
void cuda_relax(void);

/**
 * cuda_small_open() - make the memory pool for small allocations, if the device supports it
 * @cuda: the device, entered
 *
 * Return: 0, or an error of the driver.
 */
int cuda_small_open(struct cuda *cuda);

/**
 * cuda_prop() - what memory is created as
 * @cuda: the device
 *
 * Return: the properties.
 */
drv_allocation_prop cuda_prop(const struct cuda *cuda);

/**
 * cuda_tell_uuid() - the identity of a device, the same in all processes
 * @cuda: the device
 * @uuid: receives it; stays as it is where the driver does not tell
 */
void cuda_tell_uuid(const struct cuda *cuda, unsigned char *uuid);

/* A context has one legacy default stream as long as it lives. */
static inline bool cuda_is_legacy(const struct CUstream_st *stream)
{
	return (uintptr_t)stream <= (uintptr_t)DRV_STREAM_LEGACY;
}

/* Lets a device read and write, or do neither. */
static inline drv_access_desc cuda_desc(drv_device device, bool access)
{
	return (drv_access_desc){
		.location = { DRV_MEM_LOCATION_TYPE_DEVICE, device },
		.flags = access ? DRV_MEM_ACCESS_FLAGS_PROT_READWRITE : DRV_MEM_ACCESS_FLAGS_PROT_NONE,
	};
}

/**
 * cuda_descs() - describe the access of devices
 * @devices: as bits by ordinal
 * @access: whether they can read and write
 * @descs: receives a description of each, at most BACKEND_PEERS_MOST
 *
 * Return: how many there are.
 */
size_t cuda_descs(uint64_t devices, bool access, drv_access_desc *descs);

/**
 * cuda_set_access() - set which devices can access mapped memory
 * @va: its address
 * @size: bytes
 * @descs: a description of each device; others keep what they have
 * @count: how many
 *
 * Return: 0 or a negative error.
 */
int cuda_set_access(uint64_t va, size_t size, const drv_access_desc *descs, size_t count);

/**
 * cuda_small_access() - set which devices can access small allocations, past and future
 * @cuda: the device, entered
 * @descs: a description of each device; others keep what they have
 * @count: how many
 *
 * Return: 0, -ENOTSUP where the driver cannot, or an error of the driver.
 */
int cuda_small_access(struct cuda *cuda, const drv_access_desc *descs, size_t count);

/* All memory of a backend is created as it was configured, so that it can be exported or not. */
#define cuda_create_export cuda_create

/* The operations of backend.h. */
const void *cuda_current(void);
#define OP(type, name, parameters) type cuda_##name parameters;
BACKEND_OPS(OP)
#undef OP

/**
 * cuda_gates_drop() - give back what gates need
 * @cuda: the device, entered
 */
void cuda_gates_drop(struct cuda *cuda);

#endif /* CUDA_DEVICE_H */
