/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The records of version 2 of vpmm-trace(5), for who writes them and who reads them. */
#ifndef TRACE_LAYOUT_H
#define TRACE_LAYOUT_H

#include <stddef.h>

#include "trace/record.h"

/**
 * struct record_layout - the line of a record, behind its time
 * @letter: its first field
 * @fields: what follows, a letter a field: i the block, t the block once it is resized, b a block's size, B another
 *	size,
 *	s a stream, S a stream or "any", p the pool, w the backend, d the device, c the capture, n the group
 * @attributes: those that the record may have besides the pool and, unless it has the field c, the capture: the first
 *	letter of each, M for moved=; NULL: none, not even these
 * @names: what a message calls the fields
 */
struct record_layout {
	char letter;
	const char *fields;
	const char *attributes;
	const char *names;
};

static const struct record_layout record_layouts[RECORD_OPS] = {
	[RECORD_POOL] = { 'p', "pwdB", NULL, "microseconds p pool backend device bytes" },
	[RECORD_END] = { 'e', "p", NULL, "microseconds e pool" },
	[RECORD_MALLOC] = { 'a', "ibs", "zimtpds", "microseconds a id bytes stream" },
	[RECORD_FREE] = { 'f', "iS", "uM", "microseconds f id stream" },
	[RECORD_REALLOC] = { 'm', "itbs", "c", "microseconds m id new-id bytes stream" },
	[RECORD_USE] = { 'u', "is", "", "microseconds u id stream" },
	[RECORD_EXHAUSTED] = { 'x', "Bs", "", "microseconds x bytes stream" },
	[RECORD_STREAM_RETIRE] = { 'r', "s", "", "microseconds r stream" },
	[RECORD_CAPTURE_GROUP] = { 'c', "cn", "", "microseconds c capture group" },
	[RECORD_GRAPH_RETIRE] = { 'g', "cs", "", "microseconds g capture stream" },
	[RECORD_TRIM] = { 't', "B", "", "microseconds t bytes" },
	[RECORD_PAUSE] = { 's', "", "td", "microseconds s" },
	[RECORD_RESUME] = { 'w', "", "t", "microseconds w" },
};

#endif /* TRACE_LAYOUT_H */
