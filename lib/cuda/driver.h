/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The CUDA driver: opened at the first use, and its errors explained. */
#ifndef CUDA_DRIVER_H
#define CUDA_DRIVER_H

#include "cuda/abi.h"

/* The driver's calls. Written by cuda_driver_open() alone; any thread may read them after that has succeeded. */
extern struct drv_library drv;

/**
 * cuda_driver_open() - open and initialise the driver, once
 *
 * A failure is not remembered: the next call tries again, so that a program can outlive the cause, and each caller
 * gets the error's text. The driver's library is never closed, not even after a failure, as a driver that has started
 * threads cannot be unloaded.
 *
 * Context: any thread.
 * Return: 0, or
 *	-ENODEV there is no driver, or it has no device,
 *	-ENOTSUP the driver is too old,
 *	or what cuda_check() makes of what cuInit() says.
 */
int cuda_driver_open(void);

/**
 * cuda_check() - explain an error of the driver
 * @result: what the call has returned
 * @format: the call, and what it was asked to do
 *
 * Return: 0, or the errno value that stands for @result.
 */
int cuda_check(drv_result result, const char *format, ...) __attribute__((format(printf, 2, 3)));

/**
 * cuda_check_memory() - the same for a call that takes device memory
 * @result: what it has returned; out of memory says how much there is
 * @call: the call
 * @size: how many bytes it was to take
 *
 * Context: the device's context is current.
 * Return: 0, or the errno value that stands for @result.
 */
int cuda_check_memory(drv_result result, const char *call, size_t size);

/**
 * cuda_check_mapping() - the same for a call on mappings
 * @result: what it has returned; out of memory while there is memory means that there are too many mappings, and
 *	says so
 * @call: the call
 * @size: bytes of the range
 * @va: its address
 *
 * Context: the device's context is current.
 * Return: 0, or the errno value that stands for @result.
 */
int cuda_check_mapping(drv_result result, const char *call, size_t size, uint64_t va);

#endif /* CUDA_DRIVER_H */
