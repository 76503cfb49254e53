/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Environment variables. */
#ifndef ENV_H
#define ENV_H

#include <stdbool.h>
#include <stdint.h>

/**
 * env_get() - the value of a variable
 * @name: the variable
 *
 * Return: the value; NULL if it is not set, or empty, as a shell script unsets a setting.
 */
const char *env_get(const char *name);

/**
 * env_too_large() - report a number that needs more than 64 bits
 * @name: the variable
 * @text: its value
 *
 * Return: -EINVAL.
 */
int env_too_large(const char *name, const char *text);

/**
 * env_parse_number() - parse a number as variables have it, plain or with a suffix K, M, G or T
 * @name: the variable, for the error's text
 * @text: its value
 * @what: such as "a number of bytes", for the error's text
 * @value: receives the number
 *
 * Return: 0, or -EINVAL if @text is no such number or does not fit into 64 bits.
 */
int env_parse_number(const char *name, const char *text, const char *what, uint64_t *value);

/**
 * env_switch() - read a variable that is on or off
 * @name: the variable
 * @on: receives whether it is on; it is off if it is not set
 *
 * Return: 0, or -EINVAL if it is neither off, none or 0 nor on or 1.
 */
int env_switch(const char *name, bool *on);

/**
 * env_number() - read a number from a variable, plain or with a suffix K, M, G or T
 * @name: the variable
 * @what: such as "a number of bytes", for the error's text
 * @fallback: the value if the variable is not set
 * @value: receives the number
 *
 * Return: 0, or -EINVAL.
 */
int env_number(const char *name, const char *what, uint64_t fallback, uint64_t *value);

/**
 * env_keep() - read how many bytes to keep from a variable: a number as env_number() takes it, or none
 * @name: the variable
 * @bytes: receives the number; UINT64_MAX if the variable is not set
 *
 * Return: 0, or -EINVAL.
 */
int env_keep(const char *name, uint64_t *bytes);

#endif /* ENV_H */
