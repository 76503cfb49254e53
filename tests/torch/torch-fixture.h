/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* libvpmm-torch.so as PyTorch has it: opened by name, on the host backend, with a function of PyTorch's that throws. */
#ifndef TORCH_FIXTURE_H
#define TORCH_FIXTURE_H

#include <setjmp.h>

#include "support/assert.h"
#include "torch/torch.h"
#include "vpmm-host.h"

#define MIB ((size_t)1 << 20)

/* What each device of the host backend has. */
#define CAPACITY (64 * MIB)
#define DEVICE_COUNT 2

/* The calls of the object. */
#define TORCH_CALLS(X) \
	X(vpmm_torch_alloc) \
	X(vpmm_torch_free) \
	X(vpmm_torch_init) \
	X(vpmm_torch_reset) \
	X(vpmm_torch_memory_fraction) \
	X(vpmm_torch_base) \
	X(vpmm_torch_record_stream) \
	X(vpmm_torch_begin) \
	X(vpmm_torch_end) \
	X(vpmm_torch_release) \
	X(vpmm_torch_begun) \
	X(vpmm_torch_capture_failed) \
	X(vpmm_torch_counts) \
	X(vpmm_torch_stats) \
	X(vpmm_torch_reset_peaks) \
	X(vpmm_torch_trim) \
	X(vpmm_torch_dump) \
	X(vpmm_torch_set_pressure) \
	X(vpmm_torch_class)

struct torch_calls {
#define X(name) __typeof__(&name) name;
	TORCH_CALLS(X)
#undef X
};

extern struct torch_calls torch;

/* What frees fail with, as on a stream whose capture was invalidated; 0: they are done. */
extern int torch_free_fails;

/* How often statistics or a trim were asked for, either of which takes the locks of all caches. */
extern unsigned int torch_looks;

/* Opens the object. To be called first. */
void torch_open(void);

/* Sets *@ptr to memory, and gives the text of what was thrown, which lasts until the next; NULL: nothing was. */
const char *torch_try(void **ptr, ssize_t size, int device, struct CUstream_st *stream);

/* The same of set_per_process_memory_fraction(). */
const char *torch_try_fraction(double fraction, int device);

/* Memory, without an exception. */
char *torch_new(size_t size, int device, struct CUstream_st *stream);

/* What is known of a device. */
struct vpmm_torch_counts torch_counts(int device);
struct vpmm_stats torch_stats(int device);

#endif /* TORCH_FIXTURE_H */
