/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The CUDA driver, for programs: opened when it is first asked for. */
#ifndef DRIVER_H
#define DRIVER_H

#include "cuda/abi.h"

/* Its calls, once driver_open() has succeeded. */
extern struct drv_program driver;

/**
 * driver_open() - open and initialise the driver
 *
 * Return: 0, or explained by fail_set():
 *	-ENODEV there is no driver, it lacks a call, or it cannot be initialised.
 */
int driver_open(void);

/**
 * driver_fail() - say which call failed, with the driver's name for its error
 * @result: what the call returned
 * @format: the call, with its arguments as far as they matter
 *
 * Return: -ENOMEM where memory is exhausted, -EINVAL for a bad argument, else -EIO; for fail_set()'s sentence.
 */
int driver_fail(drv_result result, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Makes a call. Return: 0, or as driver_fail(). */
#define DRIVER_CALL(call, ...) \
	({ \
		drv_result result_ = driver.call(__VA_ARGS__); \
		\
		result_ ? driver_fail(result_, #call) : 0; \
	})

#endif /* DRIVER_H */
