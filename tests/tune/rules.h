/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A table of what each rule of the policy gives. */
#ifndef RULES_H
#define RULES_H

#include <glib.h>

#include "tune.h"

/**
 * rules_print() - print a row for the policy as it is, and one for each of its rules switched off
 * @programs: what was measured
 * @results: of struct results, the first with all rules
 *
 * The last column is the largest difference to the first row, in percent. A rule without one is none that these
 * programs need.
 */
void rules_print(const struct programs *programs, const GArray *results);

#endif /* RULES_H */
