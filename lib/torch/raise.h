/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Errors as PyTorch wants them: exceptions of C++. */
#ifndef TORCH_RAISE_H
#define TORCH_RAISE_H

#include <stddef.h>

/**
 * raise_exhausted() - throw that there is no memory
 * @size: bytes wanted
 * @device: ordinal
 *
 * The text begins with "CUDA out of memory.", which programs look for before they try again with less, and has that of
 * vpmm_last_error(). Returns only if the process has no PyTorch.
 */
void raise_exhausted(size_t size, int device);

/* The same for a limit of set_per_process_memory_fraction(), and for any other failure. */
void raise_limited(size_t size, int device, size_t live, size_t limit);
void raise_failed(size_t size, int device, const char *reason);

#endif /* TORCH_RAISE_H */
