/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Drivers of the suite's own for tests of the cuda backend.
 *
 * A library that was opened under a path is found again by its own name, so opening one of them first is all it takes
 * to have the backend use it. A process has one driver for good; tests of other drivers run in processes of their own.
 */
#ifndef CUDA_FIXTURE_H
#define CUDA_FIXTURE_H

#include <stdbool.h>

#include "backend/backend.h"
#include "cuda/fake-cuda.h"
#include "support/fixture.h"

#define DEVICES 3

/* The whole driver, and what tests do with it; after use_fake(). */
extern struct drv_program cu;
extern struct fake_cuda fake;

/* Where one of the drivers is: "fake", "fake-old" or "fake-bare". NULL, and the test is skipped, if it is not built. */
char *driver_path(const char *which);

/* Opens one of them; NULL likewise. */
void *driver_open(const char *which);

/* Opens the whole driver; false, and the test is skipped, if it was not built. */
bool use_fake(void);

/* Fails the test if anything is left in the driver. */
void assert_nothing_left(void);

/* Adds a test that runs if the driver was built, and fails if it leaves anything there. */
void cuda_add(const char *path, void (*test)(void));

/* Retains a device's primary context, makes it current and returns it; the reverse. */
drv_context enter_primary(int device);
void leave_primary(int device);

/* Opens the backend and enters it, which must succeed. */
struct backend *open_entered(int device);

/* The reverse. */
void leave_close(struct backend *be);

/* Fails the test if the backend, on device 0, has anything for small requests. */
void assert_no_small(struct backend *be);

/* The tests of the other files of this program. */
void cuda_cache_tests(void);
void cuda_capture_tests(void);
void cuda_context_tests(void);
void cuda_driver_tests(void);
void cuda_error_tests(void);
void cuda_peers_tests(void);
void cuda_reset_tests(void);

#endif /* CUDA_FIXTURE_H */
