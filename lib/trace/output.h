/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The file of a trace, plain or compressed. */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <zlib.h>

/* So long a named pipe's reader is waited for: a shell starts it beside the program, or a moment later. */
extern unsigned int output_reader_ms;

/**
 * struct output - a file
 * @fd: its descriptor, which does not block
 * @given_up: once it is true, a write does not wait any longer for a file that takes nothing
 * @regular: it has an end to be cut off at, and another process could write it
 * @fresh: nothing was written, and what it holds from earlier is to go first
 * @compress: by gzip
 * @z: the compressor, apart, as it has a pointer to itself; NULL: none
 * @packed: receives what it makes
 * @room: bytes of @packed
 * @end: bytes that were written, and what was there before unless it goes
 * @dev: where it is
 * @ino: which file there
 */
struct output {
	int fd;
	const _Atomic bool *given_up;
	bool regular;
	bool fresh;
	bool compress;
	z_stream *z;
	unsigned char *packed;
	size_t room;
	uint64_t end;
	dev_t dev;
	ino_t ino;
};

/**
 * output_open() - open a file for writing
 * @out: the file
 * @name: its name; one that ends in ".gz" is compressed
 * @given_up: see struct output
 *
 * What it holds stays until the first write. The file is locked against other processes that open it so. The call
 * waits for a named pipe's reader, output_reader_ms at most.
 *
 * Return: 0, or -EINVAL if it cannot be written, another process does, or no process reads the pipe; or -ENOMEM.
 */
int output_open(struct output *out, const char *name, const _Atomic bool *given_up);

/**
 * output_continue() - write behind what is there instead of in its place
 * @out: the file, just opened
 */
void output_continue(struct output *out);

/**
 * output_write() - write some of it
 * @out: the file
 * @text: the bytes, which are a file by themselves as far as compression goes
 * @length: how many
 *
 * SIGXFSZ and SIGPIPE must be blocked. What a write that fails has left behind is cut off again if that is possible.
 *
 * Return: 0, or a negative errno value, without text; -ECANCELED if it was given up.
 */
int output_write(struct output *out, const char *text, size_t length);

/**
 * output_close() - close it
 * @out: the file
 */
void output_close(struct output *out);

#endif /* OUTPUT_H */
