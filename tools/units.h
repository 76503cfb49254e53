/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Numbers and names as people write and read them, and lines as wide as their terminal. */
#ifndef UNITS_H
#define UNITS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Room for what units_format_*() write. */
#define UNITS_TEXT 32

/**
 * units_parse_bytes() - a number of bytes, plain or with a suffix K, M, G or T, which are powers of 1024
 * @name: what it is the value of, for the sentence
 * @text: the value
 * @bytes: receives it
 *
 * Return: 0, or -EINVAL explained by fail_set().
 */
int units_parse_bytes(const char *name, const char *text, uint64_t *bytes);

/**
 * units_parse_count() - read a decimal number
 * @name: the option, for the error
 * @text: the value; NULL: the option was not given, and @count stays
 * @least: the smallest number there can be
 * @most: the largest
 * @count: receives the number
 *
 * Return: 0, or -EINVAL explained by fail_set().
 */
int units_parse_count(const char *name, const char *text, unsigned int least, unsigned int most, unsigned int *count);

/**
 * units_parse_time() - a span of time: a decimal number with one of the units us, ms and s
 * @name: what it is the value of, for the sentence
 * @text: the value
 * @us: receives it in microseconds, rounded to the nearest
 *
 * Return: 0, or -EINVAL explained by fail_set().
 */
int units_parse_time(const char *name, const char *text, uint64_t *us);

/**
 * units_trace_name() - a trace's file as people call it, without folder and suffixes, and units_printable(); to be
 *	freed
 * with g_free()
 */
char *units_trace_name(const char *trace);

/**
 * units_printable() - replace control characters, which a terminal would obey, and what is no UTF-8 by question marks
 * @text: a text of somebody else, such as the name of a process
 *
 * Return: @text.
 */
char *units_printable(char *text);

/**
 * units_fit() - count the bytes of a text that a terminal shows in some columns
 * @text: UTF-8; a byte that is none counts as a column
 * @columns: how many; a character of East Asia takes two, and a combining one none
 * @left: receives the columns that stay free
 *
 * Return: the bytes, of whole characters.
 */
size_t units_fit(const char *text, unsigned int columns, unsigned int *left);

/**
 * units_print_cell() - print a text in a column of a table
 * @out: where to
 * @text: as units_printable() has left it
 * @width: columns of the terminal: a longer text is cut, behind a shorter one there are blanks
 */
void units_print_cell(FILE *out, const char *text, unsigned int width);

/**
 * units_print_padded() - as units_print_cell(), but a longer text is printed whole
 */
void units_print_padded(FILE *out, const char *text, unsigned int width);

/**
 * units_terminal() - query the size of a terminal
 * @fd: the terminal
 * @lines: receives its lines; NULL: not wanted
 *
 * Return: its columns. A size that is not known is UINT_MAX.
 */
unsigned int units_terminal(int fd, unsigned int *lines);

/**
 * units_format_bytes() - bytes in the largest unit of which there is one, such as "2.00 MiB"
 */
void units_format_bytes(char text[UNITS_TEXT], uint64_t bytes);

/**
 * units_format_count() - a number with a comma before every three digits
 */
void units_format_count(char text[UNITS_TEXT], uint64_t count);

/**
 * units_format_seconds() - a span of time in the largest unit of which there is one, such as "1.50 ms"
 */
void units_format_seconds(char text[UNITS_TEXT], double seconds);

/**
 * units_print_wrapped() - print a line, broken between words where it is longer than a terminal is wide
 * @out: where to
 * @indent: columns before what is broken off
 * @format: the line, without its newline
 */
void units_print_wrapped(FILE *out, unsigned int indent, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif /* UNITS_H */
