/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Variables of the environment by name. Needs nothing of the library but the options: vpmm-info has it too. */
#ifndef VARIABLES_H
#define VARIABLES_H

#include <stdbool.h>

/**
 * variables_is_known() - whether the library reads a variable
 * @name: of the variable
 */
bool variables_is_known(const char *name);

/**
 * variables_nearest() - the known variable that a name comes closest to
 * @name: of a variable
 *
 * Return: the name that takes the fewest characters inserted, left out or replaced.
 */
const char *variables_nearest(const char *name);

/**
 * variables_each_unknown() - find variables that nobody reads, though they look like the library's
 * @fn: is called for each variable of the environment whose name begins with VPMM_, but not with VPMM_TEST_, and is
 *	none of those that are known
 * @data: passed to @fn
 *
 * Context: no other thread may change the environment.
 */
void variables_each_unknown(void (*fn)(void *data, const char *name), void *data);

#endif /* VARIABLES_H */
