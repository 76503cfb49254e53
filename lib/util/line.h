/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lines of the processor's caches. */
#ifndef LINE_H
#define LINE_H

#include <glib.h>
#include <stddef.h>

/* Bytes of a line. */
#define LINE_SIZE 64

/* False sharing: the processor prefetches lines in pairs. */
#define LINE_PAIR (2 * LINE_SIZE)

/**
 * line_alloc() - allocate memory that shares no line with other allocations
 * @size: bytes
 * @align: LINE_SIZE or LINE_PAIR
 *
 * Return: the memory, zeroed, for g_aligned_free().
 */
static inline void *line_alloc(size_t size, size_t align)
{
	return g_aligned_alloc0(1, (size + align - 1) / align * align, align);
}

#endif /* LINE_H */
