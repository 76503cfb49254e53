/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The lines of a trace, each for itself: vpmm-trace(5) has the records of both versions. */
#ifndef TRACE_RECORD_H
#define TRACE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * struct trace_place - where a reader is, for its messages
 * @name: of the file
 * @line: the number of the line, from 1
 * @version: of the trace
 * @fields: that the line should have
 * @known: the file is a trace: it says so, or a line before was one
 * @hexadecimal: numbers can be, behind 0x
 */
struct trace_place {
	const char *name;
	uint32_t line;
	unsigned int version;
	const char *fields;
	bool known;
	bool hexadecimal;
};

/* Bytes of a tag's name, at most. */
#define TRACE_NAME_MOST 63

/* The stream of a free that is behind all work of the context. */
#define TRACE_ANY UINT64_MAX

/**
 * struct trace_record - a line
 * @us: microseconds
 * @op: the letter of the record
 * @id: of an allocation
 * @to: its id once it is resized
 * @bytes: a size
 * @max: how far the allocation may grow; 0: it is no growable one
 * @moved: bytes of a freed block that were copied to a larger one before
 * @stream: of the file's numbers, or TRACE_ANY
 * @capture: the capture that the stream is under, or whose graph it is; 0: none
 * @pool: from 1
 * @other: the group of a capture; or what only has to be a number
 * @flags: TRACE_ZERO, TRACE_IDLE, TRACE_COPIED, TRACE_USED, TRACE_DROP, TRACE_STAY and TRACE_PAUSABLE of trace.h
 * @tag: the name of the tag; empty: none
 */
struct trace_record {
	uint64_t us;
	char op;
	uint64_t id;
	uint64_t to;
	uint64_t bytes;
	uint64_t max;
	uint64_t moved;
	uint64_t stream;
	uint64_t capture;
	uint64_t pool;
	uint64_t other;
	unsigned int flags;
	char tag[TRACE_NAME_MOST + 1];
};

/**
 * trace_damaged() - explain what is wrong with a line
 * @place: which line of which file
 * @format: the sentence
 *
 * Return: -EBADMSG, explained by fail_set().
 */
int trace_damaged(const struct trace_place *place, const char *format, ...) __attribute__((format(printf, 2, 3)));

/**
 * trace_refuse() - explain what is wrong with a field
 * @place: which line it is of
 * @before: the sentence, up to the field
 * @field: is quoted, its beginning, with what does not print escaped
 * @after: the rest of the sentence
 *
 * Return: -EBADMSG, explained by fail_set().
 */
int trace_refuse(const struct trace_place *place, const char *before, const char *field, const char *after);

/**
 * trace_parse_number() - read a number
 * @place: which line it is of
 * @field: the number
 * @what: it is, for the message
 * @most: it can be
 * @value: receives it
 *
 * Return: 0, or -EBADMSG, explained by fail_set().
 */
int trace_parse_number(const struct trace_place *place, const char *field, const char *what, uint64_t most,
		       uint64_t *value);

/**
 * trace_parse_version() - read what the first line says of the version
 * @place: receives the version: 1 if the line does not say
 * @line: the line
 *
 * Return: 0, or -EBADMSG for a version that is unknown.
 */
int trace_parse_version(struct trace_place *place, const char *line);

/**
 * trace_parse_record() - read a line
 * @place: which it is
 * @line: the line, which is taken apart; no comment
 * @record: receives the fields
 *
 * Return: 0, or -EBADMSG, explained by fail_set().
 */
int trace_parse_record(struct trace_place *place, char *line, struct trace_record *record);

#endif /* TRACE_RECORD_H */
