/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The tags of a trace: those that were recorded, and those that vpmm-replay gives to its blocks. */
#ifndef TRACE_TAGS_H
#define TRACE_TAGS_H

#include <glib.h>

#include "trace-record.h"
#include "trace.h"

/**
 * trace_tags_number() - the number of the tag of a record
 * @place: which line it is of
 * @tags: of struct trace_tag: those of the pool so far; receives one that is new
 * @record: the record
 * @number: receives the number, from 1; 0: the record has no tag
 *
 * Return: 0, or -EBADMSG, explained by fail_set().
 */
int trace_tags_number(const struct trace_place *place, GArray *tags, const struct trace_record *record,
		      uint8_t *number);

/**
 * trace_tags_clear() - free the tags of a trace
 * @trace: the trace
 */
void trace_tags_clear(struct trace *trace);

/**
 * trace_tags_check() - check the name of a rule
 * @rule: the rule
 *
 * Return: 0, or -EINVAL, explained by fail_set().
 */
int trace_tags_check(const char *rule);

/**
 * trace_tags_give() - give each block of a trace a pausable tag in place of its own
 * @trace: the trace
 * @rule: "kept": one for what the trace never frees, and one for the rest; "stream": one for each stream; "size": one
 *	for each power of 16 of the size
 */
void trace_tags_give(struct trace *trace, const char *rule);

#endif /* TRACE_TAGS_H */
