/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Programs that the policy is judged by: recorded traces, copies of them with other sizes or lifetimes, and programs
 * that a generator writes. Each is a struct trace, so all are replayed alike.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "trace.h"

/* A trace under construction. */
struct program;

/**
 * program_begin() - start writing a program
 * @name: what it is called in tables
 *
 * Return: the program, for program_end().
 */
struct program *program_begin(const char *name);

/**
 * program_malloc() - append an allocation
 * @p: the program
 * @bytes: how many, not 0
 * @stream: number of the stream
 *
 * Return: the allocation, for program_free().
 */
uint32_t program_malloc(struct program *p, size_t bytes, uint32_t stream);

/**
 * program_free() - append the free of an allocation
 * @p: the program
 * @alloc: the allocation
 * @stream: number of the stream that frees it
 */
void program_free(struct program *p, uint32_t alloc, uint32_t stream);

/**
 * program_end() - finish a program; what is allocated stays so until the pass ends
 * @p: the program; gone afterwards
 *
 * Return: the trace, for trace_free().
 */
struct trace *program_end(struct program *p);

/**
 * copy_sizes() - the same program with other sizes
 * @trace: the program
 * @seed: of the random factors
 *
 * Each distinct size is multiplied by a factor between 3/4 and 5/4, and rounded up to 512 bytes: the program of another
 * model or another data set.
 *
 * Return: the trace, for trace_free().
 */
struct trace *copy_sizes(const struct trace *trace, uint32_t seed);

/**
 * copy_lifetimes() - the same program with other lifetimes
 * @trace: the program
 * @seed: of the random factors
 *
 * Each free comes earlier or later by up to a quarter of the allocation's lifetime, counted in operations.
 *
 * Return: the trace, for trace_free().
 */
struct trace *copy_lifetimes(const struct trace *trace, uint32_t seed);

/* A family of generated programs. */
struct family {
	const char *name;
	void (*write)(struct program *p, uint32_t seed);
};

extern const struct family families[];
extern const size_t n_families;

/**
 * family_program() - one program of a family
 * @family: the family
 * @seed: of its random numbers; the same seed writes the same program
 *
 * Return: the trace, for trace_free().
 */
struct trace *family_program(const struct family *family, uint32_t seed);

#endif /* PROGRAM_H */
