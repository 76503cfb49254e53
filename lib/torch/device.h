/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Devices: which one is current, and what is known of each. */
#ifndef TORCH_DEVICE_H
#define TORCH_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Devices above have no default pool either. */
#define DEVICES 64

/* What PyTorch has done with a device. */
struct device {
	atomic_bool used;		/* has a pool that PyTorch has allocated from */
	atomic_bool joined;		/* accesses the pools of the others that were used before, and they access its */
	_Atomic uint64_t allocs;
	_Atomic uint64_t frees;
	_Atomic uint64_t alloc_bytes;
	_Atomic uint64_t free_bytes;
	_Atomic uint64_t blocks;	/* allocated now: the difference of two counters, read one by one, can be below 0 */
	_Atomic uint64_t peak_blocks;
	_Atomic uint64_t retries;
	_Atomic uint64_t ooms;
	_Atomic uint64_t limit;		/* bytes that its pool may hold, as a fraction has set; 0: none has */
	_Atomic uint64_t limit_before;	/* as the pool had it without that, UINT64_MAX for none; 0: not known yet */
};

/**
 * device_of() - what is known of a device
 * @ordinal: any number
 *
 * Return: NULL if it is none of DEVICES.
 */
struct device *device_of(int ordinal);

/* How many devices PyTorch has; 0 as long as it has not said. */
void device_set_count(int count);

/**
 * device_enter() - make a device current, until device_leave()
 * @ordinal: the device
 * @entered: for device_leave()
 *
 * PyTorch allocates for the device that it takes for the current one. The driver may have another, as PyTorch puts off
 * to make a device current that has no context yet.
 *
 * Return: whether it is current; if not, another one may be, and device_leave() is not to be called.
 */
bool device_enter(int ordinal, bool *entered) __attribute__((warn_unused_result));
void device_leave(bool entered);

/**
 * device_wait() - wait for all work of a device
 * @ordinal: the device, between device_enter() and device_leave()
 *
 * No capture suffers from that. The host backend has nothing of the kind: streams there run when they are told to.
 *
 * Return: whether all work is done.
 */
bool device_wait(int ordinal);

/**
 * device_use() - PyTorch has allocated from a device
 * @ordinal: the device, which is current
 *
 * PyTorch copies between devices by letting the one access the memory of the other, which for mapped memory is the
 * pool's matter. So the first allocation lets in all devices that are used already, and the device at theirs, where
 * the devices can. Where one of them cannot be made current, the next allocation tries again.
 */
void device_use(int ordinal);

/**
 * device_let_in() - let another device access the memory of the current one
 * @peer: its ordinal
 *
 * Where it cannot, copies go another way.
 *
 * Return: 0, or an error of vpmm_pool_set_peers().
 */
int device_let_in(int peer);

#endif /* TORCH_DEVICE_H */
