/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Parts of the text format of OpenMetrics. */
#ifndef TOP_PRINT_H
#define TOP_PRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * top_print_family() - print what comes before the samples of a family
 * @name: without "vpmm_" and the unit
 * @unit: with which the name ends; NULL: none
 * @help: a sentence
 * @counter: whether it is a counter; otherwise it is a gauge
 */
void top_print_family(const char *name, const char *unit, const char *help, bool counter);

/* The value of a label, in quotes; what is no UTF-8 is replaced. */
void top_print_label(const char *text);

/* The number at an offset of a structure. */
uint64_t top_number(const void *structure, size_t offset);

#endif /* TOP_PRINT_H */
