/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The numbers of the policy by name, in a library that is built to measure them. */
#ifndef TUNING_TABLE_H
#define TUNING_TABLE_H

#include <stdint.h>

/**
 * struct tuning_number - one number
 * @name: its name in tuning.h
 * @value: where it is
 * @off: the value with which its rule does nothing
 */
struct tuning_number {
	const char *name;
	int64_t *value;
	int64_t off;
};

/* Ends with a row without a name. */
extern const struct tuning_number tuning_numbers[];

#endif /* TUNING_TABLE_H */
