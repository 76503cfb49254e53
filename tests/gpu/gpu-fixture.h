/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A real GPU for tests: streams, and kernels that write, check, and wait to be told. */
#ifndef GPU_FIXTURE_H
#define GPU_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/abi.h"
#include "support/fixture.h"

/* The driver; after gpu_ready(). */
extern struct drv_program cu;

/* The kernels of this file, for cuModuleLoadData() in another context. */
extern const char gpu_kernels[];

/*
 * gpu_missing() - why there is no GPU to test with; NULL if there is one. Opens it, and makes device 0's primary
 * context current on the calling thread, at the first call.
 * gpu_ready() - whether there is one; otherwise the test is skipped, with that reason.
 * gpu_close() - at the end of the program, let go of it.
 */
const char *gpu_missing(void);
bool gpu_ready(void);
void gpu_close(void);

/* A call of the driver, which must succeed. */
#define gpu_ok(call) \
	do { \
		drv_result result_ = (call); \
		const char *name_ = "?"; \
		if (result_) \
			cu.cuGetErrorName(result_, &name_); \
		if (result_) \
			g_error("%s:%d: %s: %s (%d)", __FILE__, __LINE__, #call, name_, result_); \
	} while (0)

/* A stream that does not wait for the default stream by itself. */
drv_stream gpu_stream(void);

/*
 * gpu_hold() - submit work that goes on until gpu_finish(); after 20 seconds it gives up by itself
 * gpu_finish() - end what is held on a stream
 * gpu_busy() - whether a stream has work
 * gpu_sync() - wait until it has none
 */
int gpu_hold(drv_stream stream);
int gpu_finish(drv_stream stream);
bool gpu_busy(drv_stream stream);
void gpu_sync(drv_stream stream);

/*
 * gpu_fill() - write a pattern of the seed's own into memory, in the order of a stream
 * gpu_check() - count the words of it that are not as gpu_fill() left them, likewise
 * gpu_mix() - write the exclusive or of two ranges and a word. A pattern and a range in which all words are one make a
 *	pattern: that of its seed with the words in it
 * gpu_wrong() - the count since the last call; waits until everything is done
 * The size counts in whole words of eight bytes.
 */
void gpu_fill(void *ptr, size_t size, uint64_t seed, drv_stream stream);
void gpu_check(void *ptr, size_t size, uint64_t seed, drv_stream stream);
void gpu_mix(void *to, const void *a, const void *b, size_t size, uint64_t word, drv_stream stream);
uint64_t gpu_wrong(void);

/* Copies that are ordered with nothing, and complete on return. */
int gpu_write(uint64_t va, const void *bytes, size_t size);
int gpu_read(uint64_t va, void *bytes, size_t size);

/* How much memory of the device nobody holds. */
size_t gpu_memory_free(void);

/* The tests of the other files of this program. */
void gpu_peers_tests(void);
void gpu_pool_tests(void);
void gpu_bounds_tests(bool errors);
void gpu_export_tests(void);
void gpu_capture_tests(void);
void gpu_graph_tests(bool errors);
void gpu_stream_tests(void);
void gpu_life_tests(bool errors);
void gpu_full_tests(void);
void gpu_pause_tests(void);

/* What the program does instead when it is started as another process that takes memory, see test-gpu-full.c. */
int gpu_take_half(void);

/* And as one that sends blocks back, see test-gpu-export.c. */
int gpu_answer(int socket);

#endif /* GPU_FIXTURE_H */
