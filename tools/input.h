/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reads a file that is plain or compressed by gzip.
 *
 * zlib's gzread() does nearly that, but takes garbage after the compressed data for the end of the file.
 */
#ifndef INPUT_H
#define INPUT_H

#include <stddef.h>
#include <stdint.h>

struct input;

/**
 * input_open() - open a file
 * @name: the file; "-": standard input
 * @input: receives it, for input_close()
 *
 * Return: 0, or a negative errno value explained by fail_set(), without the name of the file.
 */
int input_open(const char *name, struct input **input);

/**
 * input_read() - read some of it, decompressed
 * @input: the file
 * @buffer: receives the bytes
 * @size: how many fit, at least one
 * @got: receives how many there are; 0: the file has ended, and was whole
 *
 * Return: 0, or explained by fail_set(), without the name of the file:
 *	-EBADMSG what is compressed is damaged, and all before the damage was read,
 *	-EINTR a signal came first; nothing is lost,
 *	another negative errno value: it cannot be read.
 */
int input_read(struct input *input, char *buffer, size_t size, size_t *got);

/**
 * input_done() - how many bytes of the file were used so far, as they are stored
 */
uint64_t input_done(const struct input *input);

/**
 * input_size() - how many bytes the file has, as they are stored; 0: not known
 */
uint64_t input_size(const struct input *input);

/**
 * input_close() - close it
 * @input: the file; NULL does nothing
 */
void input_close(struct input *input);

#endif /* INPUT_H */
