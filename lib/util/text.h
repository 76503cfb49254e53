/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Texts of settings and messages: numbers, byte counts, and what % stands for in names of files. Depends on nothing
 * else in the library, as the tools are built with it, and needs no GLib, as the preload object has it.
 */
#ifndef TEXT_H
#define TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * number_parse() - parse the decimal number at the start of a text
 * @text: the text
 * @end: receives what follows the digits
 * @value: receives the number
 *
 * Return: 0, -EINVAL when @text does not start with a digit, or -ERANGE when the number needs more than 64 bits.
 */
int number_parse(const char *text, const char **end, uint64_t *value);

/**
 * number_parse_scaled() - parse a decimal number, plain or with a suffix K, M, G or T for a power of 1024
 * @text: the number and nothing else
 * @value: receives it
 *
 * Return: 0, -EINVAL when @text is anything else, or -ERANGE when the number needs more than 64 bits.
 */
int number_parse_scaled(const char *text, uint64_t *value);

/**
 * number_parse_switch() - parse a word or a digit that says on or off
 * @text: off, none or 0; on or 1
 * @on: receives whether it says on
 *
 * Return: 0, or -EINVAL when @text is anything else.
 */
int number_parse_switch(const char *text, bool *on);

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

/**
 * text_warn() - print to standard error
 * @format: the text, with its newline
 *
 * fprintf() may take 8 KiB of the stack, as the stream has no buffer; a thread of the program may have 16 KiB in all.
 */
void text_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/**
 * name_unknown() - find what a name must not have
 * @name: as the user has it
 *
 * Return: the first "%" that neither "p" nor "%" follows; NULL: there is none.
 */
const char *name_unknown(const char *name);

/**
 * name_expand() - put in what % stands for: %p is the process id, %% a percent sign
 * @name: one without an unknown %
 * @to: receives the name, if there is room for it
 * @room: bytes there, the null byte at the end included; with 0 @to can be NULL
 *
 * Return: bytes of the name without the null byte; if they are @room or more, @to has only its beginning.
 */
size_t name_expand(const char *name, char *to, size_t room);

#endif /* TEXT_H */
