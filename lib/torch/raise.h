/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Errors as PyTorch wants them: exceptions of C++. */
#ifndef TORCH_RAISE_H
#define TORCH_RAISE_H

#include <stddef.h>

/**
 * raise_exhausted() - throw that there is no memory
 * @size: bytes wanted
 * @device: ordinal
 * @limit: bytes that set_per_process_memory_fraction() lets the pool hold; 0: all
 *
 * The text begins with "CUDA out of memory.", which programs look for before they try again with less, and has that of
 * vpmm_last_error(). Returns only if the process has no PyTorch.
 */
void raise_exhausted(size_t size, int device, size_t limit);

/* The same for any other failure, and for one of set_per_process_memory_fraction(). */
void raise_failed(size_t size, int device, const char *reason);
void raise_fraction(int device, const char *reason);

#endif /* TORCH_RAISE_H */
