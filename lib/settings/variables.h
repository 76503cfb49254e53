/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Environment variables by name. Depends on the option table alone, as vpmm-info is built with it. */
#ifndef VARIABLES_H
#define VARIABLES_H

#include <stdbool.h>

/**
 * variables_is_known() - whether the library reads a variable
 * @name: of the variable
 */
bool variables_is_known(const char *name);

/**
 * variables_nearest() - the known variable with the name most like another
 * @name: of a variable
 *
 * Return: the known name at the smallest edit distance.
 */
const char *variables_nearest(const char *name);

/**
 * variables_each_unknown() - find variables that look like the library's and are unknown
 * @fn: called for each variable whose name begins with VPMM_, but not with VPMM_TEST_, and is unknown
 * @data: passed to @fn
 *
 * Context: no other thread may change the environment.
 */
void variables_each_unknown(void (*fn)(void *data, const char *name), void *data);

#endif /* VARIABLES_H */
