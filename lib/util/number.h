/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Numbers as people write them. Needs nothing else of the library: the tools have it too. */
#ifndef NUMBER_H
#define NUMBER_H

#include <stdint.h>

/**
 * number_parse() - read the decimal number that a text starts with
 * @text: the text
 * @end: receives what follows the digits
 * @value: receives the number
 *
 * Return: 0, -EINVAL when @text does not start with a digit, or -ERANGE when the number needs more than 64 bits.
 */
int number_parse(const char *text, const char **end, uint64_t *value);

/**
 * number_parse_scaled() - read a decimal number, plain or with a suffix K, M, G or T for a power of 1024
 * @text: the number and nothing else
 * @value: receives it
 *
 * Return: 0, -EINVAL when @text is anything else, or -ERANGE when the number needs more than 64 bits.
 */
int number_parse_scaled(const char *text, uint64_t *value);

#endif /* NUMBER_H */
