// SPDX-License-Identifier: LGPL-2.1-or-later
#include "picture.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "picture-svg.h"

/* The lines of picture.html. Three of them stand for what differs from one picture to another. */
static const char *const page[] = {
#include "tools/picture-page.h"
};

static void put_series(const struct picture *picture, enum picture_line line, GString *out)
{
	static const char *const names[PICTURE_LINES] = { "allocated", "libvpmm", "cudaMallocAsync", "cudaMalloc" };

	g_string_append_printf(out, "{\"name\": \"%s\", \"most\": [", names[line]);
	for (unsigned int i = 0; i < picture->columns; i++)
		g_string_append_printf(out, "%s%" PRIu64, i ? "," : "",
				       (uint64_t)picture->series[line].most[i]);
	g_string_append(out, "]},\n");
}

/* Addresses are too large for numbers of JavaScript, so they are strings. */
static void put_ranges(const struct picture *picture, GString *out)
{
	g_string_append(out, "\"ranges\": [");
	for (guint i = 0; i < picture->map.ranges->len; i++) {
		const struct map_range *range = &g_array_index(picture->map.ranges, struct map_range, i);

		g_string_append_printf(out, "%s[\"%" PRIu64 "\",\"%" PRIu64 "\",\"%" PRIu64
				       "\"]", i ? ",\n" : "", (uint64_t)range->addr,
				       (uint64_t)(range->below + range->size), (uint64_t)range->below);
	}
	g_string_append(out, "],\n");
}

static void put_data(const struct picture *picture, GString *out)
{
	g_string_append_printf(out, "const data = {\n\"operations\": %" PRIu64 ", \"columns\": %u, "
			       "\"passes\": %u,\n", (uint64_t)picture->operations, picture->columns, picture->passes);
	g_string_append_printf(out, "\"left\": %d, \"width\": %d, \"memoryTop\": %d, \"memoryHeight\": %d, \"mapTop\": %d, "
			       "\"mapHeight\": %d,\n", SVG_LEFT, SVG_PLOT_WIDTH, SVG_MEMORY_TOP, SVG_MEMORY_HEIGHT,
			       SVG_MAP_TOP, SVG_MAP_HEIGHT);
	g_string_append_printf(out, "\"memoryBytes\": %" PRIu64 ", \"mapBytes\": %" PRIu64 ",\n",
			       (uint64_t)svg_memory_top(picture), (uint64_t)picture->map.used);
	g_string_append(out, "\"states\": [");
	for (unsigned int i = 0; i < MAP_STATES; i++)
		g_string_append_printf(out, "{\"colour\": %u, \"name\": \"%s\"},\n", (unsigned int)svg_state_colours[i],
				       svg_state_names[i]);
	g_string_append(out, "],\n");
	put_ranges(picture, out);
	g_string_append(out, "\"series\": [");
	for (unsigned int i = 0; i < PICTURE_LINES; i++) {
		if (picture->series[i].measured)
			put_series(picture, (enum picture_line)i, out);
	}
	g_string_append(out, "] };\n");
}

static void put_title(const struct picture *picture, GString *out)
{
	g_autofree char *name = svg_short_name(picture), *title = svg_escape(name);

	g_string_append_printf(out, "<title>%s</title>\n", title);
}

/* A page that zooms, well-formed as XML too, and loads nothing from elsewhere. */
static void html_draw(const struct picture *picture, GString *out)
{
	for (unsigned int i = 0; i < G_N_ELEMENTS(page); i++) {
		if (strcmp(page[i], "<!-- title -->") == 0)
			put_title(picture, out);
		else if (strcmp(page[i], "<!-- picture -->") == 0)
			svg_draw(picture, out);
		else if (strcmp(page[i], "// data") == 0)
			put_data(picture, out);
		else
			g_string_append_printf(out, "%s\n", page[i]);
	}
}

/*
 * Of the drawing a cell is a pixel; the page has more, to zoom into. Noise in all cells would take 3 bits for each, and
 * a third more in base64: 0.2 and 1 MB.
 */
#define DRAWING_COLUMNS 900
#define DRAWING_ROWS 400
#define PAGE_COLUMNS 2000
#define PAGE_ROWS 1000

/*
 * Writing and reading a line of a dump takes 0.7 us, so that all of them take some seconds. A pool with more regions
 * has fewer dumps, each for several columns.
 */
#define DUMPED_LINES 10000000

static bool is_page(const char *file)
{
	return g_str_has_suffix(file, ".html");
}

int picture_check_name(const char *file)
{
	if (is_page(file) || g_str_has_suffix(file, ".svg"))
		return 0;
	return fail_set(-EINVAL, "--picture: %s: expected a name that ends in .svg or .html", file);
}

int picture_open(struct picture *picture, const char *file)
{
	bool html = is_page(file);
	int err;

	*picture = (struct picture){
		.file = file,
		.html = html,
		.rows = html ? PAGE_ROWS : DRAWING_ROWS,
		.columns = html ? PAGE_COLUMNS : DRAWING_COLUMNS,
	};
	map_init(&picture->map);
	err = output_begin(&picture->output, file);
	return err ? fail_set(err, "--picture: %s: %s", file, g_strerror(-err)) : 0;
}

void picture_begin(struct picture *picture, const struct trace *trace, unsigned int passes)
{
	picture->trace = trace->name;
	picture->passes = passes;
	picture->operations = (uint64_t)trace->n_ops * passes;
	picture->columns = (unsigned int)MIN(picture->columns, picture->operations);
	for (unsigned int i = 0; i < PICTURE_LINES; i++)
		picture->series[i].most = g_new0(uint64_t, picture->columns);
}

/* The first columns have one operation more than the others, where they cannot all have as many. */
static unsigned int column_of(const struct picture *picture, uint64_t operation)
{
	uint64_t each = picture->operations / picture->columns, more = picture->operations % picture->columns;
	uint64_t first = more * (each + 1);

	return (unsigned int)(operation < first ? operation / (each + 1) : more + (operation - first) / each);
}

static void fail_watching(struct picture *picture, int err, const char *why)
{
	picture->err = err;
	picture->why = g_strdup_printf("--picture: %s: %s", picture->file, why);
}

static void add_to_map(struct picture *picture)
{
	char *dump = NULL;
	size_t size;
	FILE *out;
	int err;

	out = open_memstream(&dump, &size);
	if (!out)
		return fail_watching(picture, -errno, g_strerror(errno));
	err = picture->watched->ops->dump(picture->watched, out);
	if (fclose(out) && !err)
		err = fail_set(-errno, "%s", g_strerror(errno));
	else if (err)
		fail_set(err, "%s", picture->watched->ops->error());
	picture->dump_lines = picture->map.lines;
	if (!err)
		err = map_add(&picture->map, dump);
	picture->dump_lines = picture->map.lines - picture->dump_lines;
	if (err)
		fail_watching(picture, err, fail_text());
	free(dump);
}

/* Whether the dumps so far and one more like the last stay within what is due for the columns so far. */
static bool dump_is_due(const struct picture *picture, unsigned int column)
{
	double due = (double)DUMPED_LINES * (column + 1) / picture->columns;

	return (double)(picture->map.lines + picture->dump_lines) <= due;
}

static void raise_to(struct picture_series *series, unsigned int column, uint64_t bytes)
{
	series->most[column] = MAX(series->most[column], bytes);
}

/* After every operation: what the pool has taken between two columns must not be missed. */
static void see(void *data, uint64_t operation, uint64_t live)
{
	struct picture *picture = data;
	unsigned int column = column_of(picture, operation);
	struct vpmm_stats stats;
	int err;

	if (picture->err)
		return;
	err = picture->watched->ops->stats(picture->watched, &stats);
	if (err)
		return fail_watching(picture, err, picture->watched->ops->error());
	raise_to(&picture->series[picture->line], column, stats.mapped + stats.small_mapped);
	if (picture->line != PICTURE_TAKEN)
		return;
	raise_to(&picture->series[PICTURE_LIVE], column, live);
	if (operation + 1 < picture->operations && column_of(picture, operation + 1) == column)
		return;
	if (!column || dump_is_due(picture, column))
		add_to_map(picture);
	else
		map_repeat(&picture->map);
}

struct replay_watch picture_watch(struct picture *picture, struct allocator *allocator, enum picture_line line)
{
	picture->watched = allocator;
	picture->line = line;
	picture->series[line].measured = true;
	if (line == PICTURE_TAKEN)
		picture->series[PICTURE_LIVE].measured = true;
	return (struct replay_watch){ .see = see, .data = picture };
}

static void note_peak(struct picture_series *series, uint64_t peak, uint64_t failed)
{
	series->peak = MAX(series->peak, peak);
	series->failed += failed;
}

void picture_note(struct picture *picture, const struct replay_result *result)
{
	note_peak(&picture->series[picture->line], result->stats.peak_taken, result->errors);
	if (picture->line == PICTURE_TAKEN)
		note_peak(&picture->series[PICTURE_LIVE], result->peak_live, 0);
}

int picture_write(struct picture *picture, const struct report_run *run)
{
	GString *text;
	int err;

	if (picture->err)
		return fail_set(picture->err, "%s", picture->why);
	picture->run = run;
	text = g_string_new(NULL);
	if (picture->html)
		html_draw(picture, text);
	else
		svg_draw(picture, text);
	errno = 0;
	fwrite(text->str, 1, text->len, picture->output.file);
	g_string_free(text, TRUE);
	err = output_finish(&picture->output);
	return err ? fail_set(err, "--picture: writing %s failed: %s", picture->file, g_strerror(-err)) : 0;
}

void picture_close(struct picture *picture)
{
	output_drop(&picture->output);
	for (unsigned int i = 0; i < PICTURE_LINES; i++)
		g_free(picture->series[i].most);
	map_clear(&picture->map);
	g_free(picture->why);
}
