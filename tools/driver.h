/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The CUDA driver, for programs: opened when it is first asked for. */
#ifndef DRIVER_H
#define DRIVER_H

#include "cuda/abi.h"

/**
 * driver_open() - open and initialise the driver
 * @drv: receives its calls, valid until the program ends
 *
 * Return: 0, or explained by fail_set():
 *	-ENODEV there is no driver, it lacks a call, or it cannot be initialised.
 */
int driver_open(const struct drv_program **drv);

/**
 * driver_fail() - say which call failed, with the driver's name for its error
 * @drv: the driver
 * @result: what the call returned
 * @format: the call, with its arguments as far as they matter
 *
 * Return: -ENOMEM where memory is exhausted, -EINVAL for a bad argument, else -EIO; for fail_set()'s sentence.
 */
int driver_fail(const struct drv_program *drv, drv_result result, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif /* DRIVER_H */
