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
 *	or what cuda_fail() makes of what cuInit() says.
 */
int cuda_driver_open(void);

/**
 * cuda_fail() - explain an error of the driver
 * @result: the error
 * @note: what else there is to know, put behind the sentence as it is; may be empty
 * @format: the call, and what it was asked to do
 *
 * Return: the errno value that stands for @result.
 */
int cuda_fail(drv_result result, const char *note, const char *format, ...) __attribute__((format(printf, 3, 4)));

/**
 * cuda_fail_memory() - explain an error of a call that takes device memory
 * @result: the error; out of memory says how much there is
 * @call: the call
 * @size: how many bytes it was to take
 *
 * Context: the device's context is current.
 * Return: the errno value that stands for @result.
 */
int cuda_fail_memory(drv_result result, const char *call, size_t size);

/**
 * cuda_fail_mapping() - explain an error of a call on mappings
 * @result: the error; out of memory while there is memory means that there are too many mappings, and says so
 * @call: the call
 * @size: bytes of the range
 * @va: its address
 *
 * Context: the device's context is current.
 * Return: the errno value that stands for @result.
 */
int cuda_fail_mapping(drv_result result, const char *call, size_t size, uint64_t va);

#endif /* CUDA_DRIVER_H */
