/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The sampled call stacks in a dump of a pool, as vpmm_pool_dump(3) and VPMM_OOM_DUMP write it, and their exports.
 *
 * What can fail returns 0, or a negative errno value explained by fail_set().
 */
#ifndef STACKS_H
#define STACKS_H

#include <glib.h>
#include <stdint.h>
#include <stdio.h>

/**
 * struct stack_frame - a call
 * @function: its name; NULL: not known
 * @object: the file of its code; NULL: it is not known, or one of Python
 * @offset: of the call in @object, as addr2line(1) wants it
 * @file: of its source; NULL: not known
 * @line: of that
 */
struct stack_frame {
	char *function;
	char *object;
	uint64_t offset;
	char *file;
	uint64_t line;
};

/**
 * struct stack - who allocated
 * @live: bytes
 * @blocks: how many
 * @peak: the most bytes
 * @frames: of struct stack_frame, the innermost first
 */
struct stack {
	uint64_t live;
	uint64_t blocks;
	uint64_t peak;
	GArray *frames;
};

/**
 * stacks_new() - stacks, none yet
 *
 * Return: of struct stack, for g_ptr_array_unref().
 */
GPtrArray *stacks_new(void);

/**
 * stacks_add_line() - read a line of a dump
 * @stacks: receives a stack, or the last of them another frame; a line of something else does nothing
 * @line: the line, without its newline
 */
void stacks_add_line(GPtrArray *stacks, const char *line);

/**
 * stacks_sort() - put those first that hold most, and of those that hold nothing, those that held most
 * @stacks: of struct stack
 *
 * A dump has a list for the pool, and one for each pausable tag.
 */
void stacks_sort(GPtrArray *stacks);

/**
 * stacks_load() - read the stacks of a dump
 * @name: of the file; "-": standard input
 * @stacks: receives them, sorted, of struct stack, for g_ptr_array_unref()
 *
 * Return: 0; -EBADMSG: the file has none.
 */
int stacks_load(const char *name, GPtrArray **stacks);

/**
 * stacks_resolve() - find the functions and lines of native frames, as far as addr2line(1) is there and knows them
 * @stacks: of struct stack
 */
void stacks_resolve(GPtrArray *stacks);

/**
 * stacks_print() - write them as text
 * @stacks: of struct stack, sorted
 * @most: how many
 * @out: where to
 */
void stacks_print(const GPtrArray *stacks, guint most, FILE *out);

/**
 * stacks_write_pprof() - write them in the format of pprof, compressed
 * @stacks: of struct stack
 * @out: where to
 *
 * Return: 0, or -ENOMEM; whether all arrived is for the caller to find out.
 */
int stacks_write_pprof(const GPtrArray *stacks, FILE *out);

#endif /* STACKS_H */
