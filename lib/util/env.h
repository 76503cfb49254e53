/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Variables of the environment. */
#ifndef ENV_H
#define ENV_H

#include <stdint.h>

/**
 * env_get() - the value of a variable
 * @name: the variable
 *
 * Return: the value; NULL where the variable is not set, or set to nothing, which is how a shell script takes a setting
 *	back.
 */
const char *env_get(const char *name);

/**
 * env_parse_number() - a number as variables have it, plain or with a suffix K, M, G or T
 * @name: the variable, for the error's sentence
 * @text: its value
 * @what: what it is a number of, for the error's sentence
 * @value: receives the number
 *
 * Return: 0, or -EINVAL when @text is no such number or it needs more than 64 bits.
 */
int env_parse_number(const char *name, const char *text, const char *what, uint64_t *value);

/**
 * env_number() - read a number from a variable, plain or with a suffix K, M, G or T
 * @name: the variable
 * @what: what it is a number of, for the error's sentence
 * @fallback: its value where it is not set
 * @value: receives the number
 *
 * Return: 0, or -EINVAL.
 */
int env_number(const char *name, const char *what, uint64_t fallback, uint64_t *value);

#endif /* ENV_H */
