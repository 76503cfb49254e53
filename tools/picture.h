/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The picture of a replay: memory over time of the pool and of the allocators it is compared with, and the pool's
 * addresses over time.
 *
 * What can fail returns 0, or a negative errno value explained by fail_set().
 */
#ifndef PICTURE_H
#define PICTURE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "output.h"
#include "picture-map.h"
#include "replay.h"
#include "report.h"

enum picture_line { PICTURE_LIVE, PICTURE_TAKEN, PICTURE_ASYNC, PICTURE_MALLOC, PICTURE_LINES };

/**
 * struct picture_series - memory of one allocator over time
 * @most: the most bytes in each column
 * @peak: the most bytes of all, from the statistics of the replay
 * @failed: calls that failed
 * @measured: whether there was such a replay
 */
struct picture_series {
	uint64_t *most;
	uint64_t peak;
	uint64_t failed;
	bool measured;
};

/**
 * struct picture - what is drawn
 * @file: the name of the file
 * @output: the file
 * @html: whether it is to be a page that zooms, not a drawing
 * @rows: of the map
 * @columns: of the map and of all series; each stands for as many operations, to within one
 * @operations: of all passes
 * @passes: how many
 * @series: by enum picture_line
 * @map: the addresses of the pool, a column for the end of each
 * @dump_lines: of regions that the last dump had
 * @trace: the name of the trace
 * @run: what was run on what
 * @watched: the allocator that is being watched
 * @line: which series its memory belongs to
 * @err: why it could not be watched; 0: it could
 * @why: the sentence that explains @err
 */
struct picture {
	const char *file;
	struct output output;
	bool html;
	unsigned int rows;
	unsigned int columns;
	uint64_t operations;
	unsigned int passes;
	struct picture_series series[PICTURE_LINES];
	struct map map;
	uint64_t dump_lines;
	const char *trace;
	const struct report_run *run;
	struct allocator *watched;
	enum picture_line line;
	int err;
	char *why;
};

/**
 * picture_check_name() - whether the ending of a file's name says which kind of picture it is to be
 * @file: its name
 *
 * Return: 0, or -EINVAL.
 */
int picture_check_name(const char *file);

/**
 * picture_open() - open the file, before anything is run
 * @picture: receives the picture; picture_close() is due, even if this fails
 * @file: its name
 */
int picture_open(struct picture *picture, const char *file);

/**
 * picture_begin() - begin the replay of a pool
 * @picture: the picture
 * @trace: what is replayed
 * @passes: how many times
 */
void picture_begin(struct picture *picture, const struct trace *trace, unsigned int passes);

/**
 * picture_watch() - watch the replays that follow
 * @picture: the picture
 * @allocator: what they run on
 * @line: the series that its memory belongs to; of PICTURE_TAKEN come what is live, and the map, too
 *
 * Return: for struct replay_setup; valid as long as @picture.
 */
struct replay_watch picture_watch(struct picture *picture, struct allocator *allocator, enum picture_line line);

/**
 * picture_note() - note what the statistics of a watched pass say
 * @picture: the picture
 * @result: of the pass
 */
void picture_note(struct picture *picture, const struct replay_result *result);

/**
 * picture_write() - draw it
 * @picture: the picture
 * @run: what was run on what
 */
int picture_write(struct picture *picture, const struct report_run *run);

/**
 * picture_close() - close the file and free everything
 * @picture: the picture
 */
void picture_close(struct picture *picture);

#endif /* PICTURE_H */
