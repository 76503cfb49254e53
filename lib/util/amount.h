/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Byte counts as text, for messages. */
#ifndef AMOUNT_H
#define AMOUNT_H

#include <stdint.h>

struct amount {
	char text[32];
};

/**
 * amount() - bytes in MiB, or in bytes where it is less than one
 * @bytes: the number
 *
 * Whole MiB have no decimal.
 *
 * Return: the text; amount(bytes).text is valid to the end of the full expression, so it can be an argument of printf.
 */
struct amount amount(uint64_t bytes);

#endif /* AMOUNT_H */
