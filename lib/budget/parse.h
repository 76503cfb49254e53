/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What VPMM_BUDGET says. Depends on nothing else in the library, as vpmm-run is built with it. */
#ifndef BUDGET_PARSE_H
#define BUDGET_PARSE_H

#include <stddef.h>
#include <stdint.h>

/* Longest name of a budget that is no path. */
#define BUDGET_NAME_MOST 64

/**
 * budget_parse() - take NAME[:SIZE] apart
 * @text: it
 * @name: receives the length of NAME
 * @size: receives SIZE; 0: there is none
 *
 * A name without a slash is one of letters, digits, ".", "_" and "-" that does not begin with a full stop; one with a
 * slash is an absolute path.
 *
 * Return: NULL, or what is wrong with it.
 */
const char *budget_parse(const char *text, size_t *name, uint64_t *size);

#endif /* BUDGET_PARSE_H */
