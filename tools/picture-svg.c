// SPDX-License-Identifier: LGPL-2.1-or-later
#include "picture-svg.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <zlib.h>

#include "units.h"

#define BITS_PER_PIXEL 8
#define COLOUR_TYPE_PALETTE 3

static void append_word(GByteArray *out, uint32_t word)
{
	guint32 big = GUINT32_TO_BE(word);

	g_byte_array_append(out, (const guint8 *)&big, sizeof(big));
}

static void append_chunk(GByteArray *out, const char type[4], const guint8 *data, guint size)
{
	guint begin;

	append_word(out, size);
	begin = out->len;
	g_byte_array_append(out, (const guint8 *)type, 4);
	if (size)
		g_byte_array_append(out, data, size);
	append_word(out, (uint32_t)crc32(0, out->data + begin, out->len - begin));
}

static void append_header(GByteArray *out, uint32_t width, uint32_t height)
{
	static const guint8 rest[] = { BITS_PER_PIXEL, COLOUR_TYPE_PALETTE, 0, 0, 0 };
	GByteArray *header = g_byte_array_new();

	append_word(header, width);
	append_word(header, height);
	g_byte_array_append(header, rest, sizeof(rest));
	append_chunk(out, "IHDR", header->data, header->len);
	g_byte_array_unref(header);
}

static void append_palette(GByteArray *out, const uint32_t *colours, unsigned int n)
{
	guint8 palette[256 * 3];

	for (unsigned int i = 0; i < n; i++) {
		palette[3 * i] = (guint8)(colours[i] >> 16);
		palette[3 * i + 1] = (guint8)(colours[i] >> 8);
		palette[3 * i + 2] = (guint8)colours[i];
	}
	append_chunk(out, "PLTE", palette, 3 * n);
}

/* Each row begins with the number of its filter; 0: none, which is best for flat colours. */
static void append_pixels(GByteArray *out, const unsigned char *cells, uint32_t width, uint32_t height)
{
	size_t stride = (size_t)width + 1;
	guint8 *rows = g_malloc0(stride * height), *packed;
	uLongf size = compressBound((uLong)(stride * height));

	for (uint32_t row = 0; row < height; row++)
		memcpy(rows + stride * row + 1, cells + (size_t)width * row, width);
	packed = g_malloc(size);
	if (compress2(packed, &size, rows, (uLong)(stride * height), Z_BEST_COMPRESSION) != Z_OK)
		g_error("zlib has no memory");
	append_chunk(out, "IDAT", packed, (guint)size);
	g_free(packed);
	g_free(rows);
}

/* An image of few colours in the format PNG: @cells has the colour of each pixel, row by row from the top. */
static GByteArray *png_encode(const unsigned char *cells, uint32_t width, uint32_t height, const uint32_t *colours,
			      unsigned int n_colours)
{
	static const guint8 signature[] = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n' };
	GByteArray *out = g_byte_array_new();

	g_byte_array_append(out, signature, sizeof(signature));
	append_header(out, width, height);
	append_palette(out, colours, n_colours);
	append_pixels(out, cells, width, height);
	append_chunk(out, "IEND", NULL, 0);
	return out;
}

#define LINE_HEIGHT 15

/* Letters of a line of small print, as wide as the drawing. */
#define SMALL_PRINT 145

/* Of the name of a trace in the title. */
#define NAME_LETTERS 40

/* Colours that differ in lightness too, for those who see or print few of them. */
const char *const svg_state_names[MAP_STATES] = {
	[MAP_HOLE] = "not mapped",
	[MAP_ZOMBIE] = "old mapping: its memory is in use elsewhere",
	[MAP_FREE] = "free",
	[MAP_PENDING] = "free, behind an event",
	[MAP_ALLOCATED] = "allocated",
};
const uint32_t svg_state_colours[MAP_STATES] = {
	[MAP_HOLE] = 0xffffff,
	[MAP_ZOMBIE] = 0xe4e4e4,
	[MAP_FREE] = 0x8cc5ec,
	[MAP_PENDING] = 0xf2b84b,
	[MAP_ALLOCATED] = 0x1f4e79,
};

static const char *const series_styles[PICTURE_LINES] = {
	[PICTURE_TAKEN] = "stroke=\"#000000\" stroke-width=\"1.6\"",
	[PICTURE_ASYNC] = "stroke=\"#b0124f\" stroke-width=\"1.6\" stroke-dasharray=\"7 3\"",
	[PICTURE_MALLOC] = "stroke=\"#2a7f3f\" stroke-width=\"1\"",
};

char *svg_escape(const char *text)
{
	g_autofree char *valid = g_utf8_make_valid(text, -1);

	/* XML has no way to write these at all, and a tab or a newline would not show as such. */
	for (char *c = valid; *c; c++) {
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	}
	return g_markup_escape_text(valid, -1);
}

char *svg_short_name(const struct picture *picture)
{
	g_autofree char *name = units_trace_name(picture->trace);
	char *valid = g_utf8_make_valid(name, -1);

	if (g_utf8_strlen(valid, -1) > NAME_LETTERS)
		*g_utf8_offset_to_pointer(valid, NAME_LETTERS) = '\0';
	return valid;
}

/* What a line is called in the legend. */
static const char *svg_series_name(const struct picture *picture, enum picture_line line)
{
	switch (line) {
	case PICTURE_LIVE:
		return "allocated by the program";
	case PICTURE_TAKEN:
		return "taken by libvpmm";
	case PICTURE_ASYNC:
		return "taken by cudaMallocAsync";
	default:
		return "cudaMalloc in units of 2 MiB";
	}
}

static double times_live(const struct picture *picture, enum picture_line line)
{
	uint64_t live = picture->series[PICTURE_LIVE].peak;

	return live ? (double)picture->series[line].peak / (double)live : 0;
}

uint64_t svg_memory_top(const struct picture *picture)
{
	uint64_t most = 1;

	for (unsigned int i = 0; i < PICTURE_LINES; i++) {
		if (picture->series[i].measured)
			most = MAX(most, picture->series[i].peak);
	}
	return most + most / 25;
}

/* Whatever the locale. */
static void put_number(GString *out, double number)
{
	char text[G_ASCII_DTOSTR_BUF_SIZE];
	size_t length;

	g_ascii_formatd(text, sizeof(text), "%.1f", number);
	length = strlen(text);
	if (g_str_has_suffix(text, ".0"))
		length -= 2;
	g_string_append_len(out, text, (gssize)length);
}

static void put_text(GString *out, double x, double y, const char *attributes, const char *text)
{
	g_autofree char *escaped = svg_escape(text);

	g_string_append(out, "<text x=\"");
	put_number(out, x);
	g_string_append(out, "\" y=\"");
	put_number(out, y);
	g_string_append_printf(out, "\"%s%s>%s</text>\n", *attributes ? " " : "", attributes, escaped);
}

/* Beside an axis, upwards. */
static void put_side_label(GString *out, int y, const char *text)
{
	g_autofree char *attributes = g_strdup_printf("transform=\"rotate(-90 14 %d)\" text-anchor=\"middle\"", y);

	put_text(out, 14, y, attributes, text);
}

/* A step of 1, 2 or 5 times a power of ten, of which @span has at most @most. */
static double nice_step(double span, unsigned int most)
{
	static const double steps[] = { 2, 2.5, 2 };
	double step = 1;

	for (unsigned int i = 0; span / step > most; i++)
		step *= steps[i % G_N_ELEMENTS(steps)];
	return step;
}

static void put_grid_line(GString *out, double x1, double y1, double x2, double y2)
{
	g_string_append(out, "<path d=\"M");
	put_number(out, x1);
	g_string_append_c(out, ' ');
	put_number(out, y1);
	g_string_append_c(out, 'L');
	put_number(out, x2);
	g_string_append_c(out, ' ');
	put_number(out, y2);
	g_string_append(out, "\"/>\n");
}

/* The largest of these units of which there are a few. */
static const char *byte_unit(uint64_t top, double *unit)
{
	static const char *const names[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
	unsigned int i = 0;

	for (*unit = 1; i + 1 < G_N_ELEMENTS(names) && (double)top / *unit >= 2048; i++)
		*unit *= 1024;
	return names[i];
}

static void draw_byte_axis(GString *out, const char *id, uint64_t bytes, int top, int height, bool grid)
{
	const char *name;
	double unit, step;

	name = byte_unit(bytes, &unit);
	step = nice_step((double)bytes / unit, 7);
	g_string_append_printf(out, "<g id=\"%s\" class=\"axis\">\n", id);
	for (unsigned int i = 0; i * step <= (double)bytes / unit; i++) {
		double at = i * step;
		double y = top + height - at * unit / (double)bytes * height;
		char text[UNITS_TEXT];

		put_grid_line(out, SVG_LEFT - 4, y, grid ? SVG_LEFT + SVG_PLOT_WIDTH : SVG_LEFT, y);
		g_snprintf(text, sizeof(text), at > 0 ? "%.0f %s" : "0", at, name);
		put_text(out, SVG_LEFT - 7, y + 4, "text-anchor=\"end\"", text);
	}
	g_string_append(out, "</g>\n");
}

static void draw_time_axis(const struct picture *picture, GString *out)
{
	double step = nice_step((double)picture->operations, 9), bottom = SVG_MAP_TOP + SVG_MAP_HEIGHT;

	g_string_append(out, "<g id=\"time\" class=\"axis\">\n");
	for (unsigned int i = 0; i * step <= (double)picture->operations; i++) {
		double at = i * step;
		double x = SVG_LEFT + at / (double)picture->operations * SVG_PLOT_WIDTH;
		bool last = x > SVG_WIDTH - 40;
		char text[UNITS_TEXT];

		put_grid_line(out, x, SVG_MEMORY_TOP, x, SVG_MEMORY_TOP + SVG_MEMORY_HEIGHT + 4);
		put_grid_line(out, x, bottom, x, bottom + 4);
		units_format_count(text, (uint64_t)at);
		put_text(out, last ? SVG_WIDTH - 4 : x, bottom + 18, last ? "text-anchor=\"end\"" : "text-anchor=\"middle\"", text);
	}
	g_string_append(out, "</g>\n");
}

static void draw_passes(const struct picture *picture, GString *out)
{
	if (picture->passes < 2 || picture->passes > 20)
		return;
	g_string_append(out, "<g id=\"passes\">\n");
	for (unsigned int i = 0; i < picture->passes; i++) {
		double x = SVG_LEFT + (double)i / picture->passes * SVG_PLOT_WIDTH;
		char text[UNITS_TEXT];

		if (i)
			g_string_append_printf(out, "<path class=\"pass\" d=\"M%.0f %dV%dM%.0f %dV%d\"/>\n", x,
					       SVG_MEMORY_TOP, SVG_MEMORY_TOP + SVG_MEMORY_HEIGHT, x, SVG_MAP_TOP,
					       SVG_MAP_TOP + SVG_MAP_HEIGHT);
		g_snprintf(text, sizeof(text), "pass %u", i + 1);
		put_text(out, x + 3, SVG_MEMORY_TOP + SVG_MEMORY_HEIGHT + 16, "class=\"small\"", text);
	}
	g_string_append(out, "</g>\n");
}

/* The upper edge of the series, a step for each column. */
static void put_steps(const struct picture *picture, const uint64_t *most, GString *out)
{
	double top = (double)svg_memory_top(picture), width = (double)SVG_PLOT_WIDTH / picture->columns;
	unsigned int next;

	for (unsigned int i = 0; i < picture->columns; i = next) {
		for (next = i + 1; next < picture->columns && most[next] == most[i];)
			next++;
		g_string_append(out, i ? "V" : "M0 ");
		put_number(out, SVG_MEMORY_HEIGHT - (double)most[i] / top * SVG_MEMORY_HEIGHT);
		g_string_append_c(out, 'H');
		put_number(out, next * width);
	}
}

static void draw_area(const struct picture *picture, enum picture_line line, enum map_state state, GString *out)
{
	g_string_append_printf(out, "<path fill=\"#%06x\" d=\"", svg_state_colours[state]);
	put_steps(picture, picture->series[line].most, out);
	g_string_append_printf(out, "V%dH0z\"/>\n", SVG_MEMORY_HEIGHT);
}

static void draw_memory(const struct picture *picture, GString *out)
{
	draw_byte_axis(out, "memory-axis", svg_memory_top(picture), SVG_MEMORY_TOP, SVG_MEMORY_HEIGHT, true);
	g_string_append_printf(out, "<svg id=\"memory\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
			       "preserveAspectRatio=\"none\">\n", SVG_LEFT, SVG_MEMORY_TOP, SVG_PLOT_WIDTH,
			       SVG_MEMORY_HEIGHT, SVG_PLOT_WIDTH, SVG_MEMORY_HEIGHT);
	draw_area(picture, PICTURE_TAKEN, MAP_FREE, out);
	draw_area(picture, PICTURE_LIVE, MAP_ALLOCATED, out);
	for (unsigned int i = PICTURE_LINES - 1; i >= PICTURE_TAKEN; i--) {
		if (!picture->series[i].measured)
			continue;
		g_string_append_printf(out, "<path class=\"line\" %s d=\"", series_styles[i]);
		put_steps(picture, picture->series[i].most, out);
		g_string_append(out, "\"/>\n");
	}
	g_string_append(out, "</svg>\n");
}

/* A column of a short trace is repeated: wide pixels are not sharp in every viewer. */
static unsigned char *widen(unsigned char *cells, unsigned int columns, unsigned int rows, unsigned int times)
{
	unsigned char *wide = g_malloc((size_t)columns * rows * times);

	for (size_t i = 0; i < (size_t)columns * rows; i++)
		memset(wide + i * times, cells[i], times);
	g_free(cells);
	return wide;
}

static void draw_map(const struct picture *picture, GString *out)
{
	unsigned int times = (SVG_PLOT_WIDTH + picture->columns - 1) / picture->columns;
	g_autoptr(GByteArray) png = NULL;
	g_autofree char *text = NULL;
	unsigned char *cells;

	if (!picture->map.used)
		return;
	cells = widen(map_draw(&picture->map, picture->rows), picture->columns, picture->rows, times);
	png = png_encode(cells, picture->columns * times, picture->rows, svg_state_colours, MAP_STATES);
	g_free(cells);
	text = g_base64_encode(png->data, png->len);
	g_string_append_printf(out, "<svg id=\"map\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
			       "preserveAspectRatio=\"none\">\n", SVG_LEFT, SVG_MAP_TOP, SVG_PLOT_WIDTH, SVG_MAP_HEIGHT,
			       SVG_PLOT_WIDTH, SVG_MAP_HEIGHT);
	g_string_append_printf(out, "<image width=\"%d\" height=\"%d\" preserveAspectRatio=\"none\" "
			       "image-rendering=\"optimizeSpeed\" xlink:href=\"data:image/png;base64,%s\"/>\n</svg>\n",
			       SVG_PLOT_WIDTH, SVG_MAP_HEIGHT, text);
	draw_byte_axis(out, "map-axis", picture->map.used, SVG_MAP_TOP, SVG_MAP_HEIGHT, false);
}

static void draw_frames(GString *out)
{
	g_string_append_printf(out, "<rect class=\"frame\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", SVG_LEFT,
			       SVG_MEMORY_TOP, SVG_PLOT_WIDTH, SVG_MEMORY_HEIGHT);
	g_string_append_printf(out, "<rect class=\"frame\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", SVG_LEFT,
			       SVG_MAP_TOP, SVG_PLOT_WIDTH, SVG_MAP_HEIGHT);
}

static void draw_swatch(GString *out, int x, int y, uint32_t colour)
{
	g_string_append_printf(out, "<rect x=\"%d\" y=\"%d\" width=\"22\" height=\"11\" fill=\"#%06x\" stroke=\"#666\" "
			       "stroke-width=\"0.6\"/>\n", x, y - 10, colour);
}

static char *describe_series(const struct picture *picture, enum picture_line line)
{
	const struct picture_series *series = &picture->series[line];
	GString *text = g_string_new(svg_series_name(picture, line));
	char bytes[UNITS_TEXT], ratio[G_ASCII_DTOSTR_BUF_SIZE];

	units_format_bytes(bytes, series->peak);
	g_string_append_printf(text, ": peak %s", bytes);
	if (line != PICTURE_LIVE && times_live(picture, line) > 0)
		g_string_append_printf(text, " (%s times)", g_ascii_formatd(ratio, sizeof(ratio), "%.3f",
									   times_live(picture, line)));
	if (series->failed)
		g_string_append_printf(text, ", %" PRIu64 " errors", (uint64_t)series->failed);
	return g_string_free(text, FALSE);
}

static void draw_memory_legend(const struct picture *picture, GString *out)
{
	for (unsigned int i = 0, place = 0; i < PICTURE_LINES; i++) {
		int x = SVG_LEFT + (int)(place % 2) * 450, y = SVG_MEMORY_TOP - 31 + (int)(place / 2) * 18;
		char *text;

		if (!picture->series[i].measured)
			continue;
		place++;
		if (i == PICTURE_LIVE)
			draw_swatch(out, x, y, svg_state_colours[MAP_ALLOCATED]);
		else if (i == PICTURE_TAKEN)
			g_string_append_printf(out, "<path fill=\"#%06x\" d=\"M%d %dh26v8h-26z\"/>\n",
					       svg_state_colours[MAP_FREE], x - 2, y - 7);
		if (i != PICTURE_LIVE)
			g_string_append_printf(out, "<path class=\"line\" %s d=\"M%d %dh26\"/>\n", series_styles[i], x - 2,
					       i == PICTURE_TAKEN ? y - 8 : y - 4);
		text = describe_series(picture, (enum picture_line)i);
		put_text(out, x + 30, y, "", text);
		g_free(text);
	}
}

static void draw_map_legend(const struct picture *picture, GString *out)
{
	static const struct {
		enum map_state state;
		int x;
	} places[] = {
		{ MAP_ALLOCATED, 0 },
		{ MAP_FREE, 112 },
		{ MAP_PENDING, 190 },
		{ MAP_ZOMBIE, 370 },
		{ MAP_HOLE, 690 },
	};
	char *text, bytes[UNITS_TEXT];

	units_format_bytes(bytes, picture->map.used);
	text = !picture->map.used ? g_strdup("The pool mapped nothing.") :
		g_strdup_printf("Where free memory lies in pieces, it is mapped once more, in one piece, at other addresses. "
			       "Only the %s of addresses ever mapped are shown.", bytes);
	put_text(out, SVG_LEFT, SVG_MAP_TOP - 44, "class=\"head\"", "Addresses over time");
	put_text(out, SVG_LEFT, SVG_MAP_TOP - 27, "class=\"small\"", text);
	g_free(text);
	for (unsigned int i = 0; i < G_N_ELEMENTS(places); i++) {
		draw_swatch(out, SVG_LEFT + places[i].x, SVG_MAP_TOP - 9, svg_state_colours[places[i].state]);
		put_text(out, SVG_LEFT + places[i].x + 28, SVG_MAP_TOP - 9, "", svg_state_names[places[i].state]);
	}
}

static void append_setup(const struct picture *picture, GString *text)
{
	const struct report_run *run = picture->run;
	const struct vpmm_info *info = &run->choice->info;
	char memory[UNITS_TEXT], seconds[UNITS_TEXT];

	units_format_bytes(memory, info->memory_total);
	g_string_append_printf(text, "%s (backend %s) with %s of memory; libvpmm %s", info->device_name, info->backend,
			       memory, vpmm_version());
	for (unsigned int i = 0; i < run->settings.n; i++) {
		const struct pool_setting *setting = &run->settings.all[i];

		if (strcmp(setting->source, "environment") == 0 && strcmp(setting->variable, "VPMM_BACKEND") != 0)
			g_string_append_printf(text, ", %s=%s", setting->variable, setting->value);
	}
	if (run->lag) {
		units_format_seconds(seconds, (double)run->lag_us / 1e6);
		g_string_append_printf(text, ", work completes %s after it was submitted", seconds);
	}
	if (run->verify)
		g_string_append(text, ", contents verified");
}

/* Breaks between words where a line is full. */
static void put_wrapped(GString *out, double y, const char *text)
{
	while (strlen(text) > SMALL_PRINT) {
		size_t length = SMALL_PRINT;
		char *line;

		while (length && text[length] != ' ')
			length--;
		if (!length)
			break;
		line = g_strndup(text, length);
		put_text(out, SVG_LEFT, y, "class=\"small\"", line);
		g_free(line);
		text += length + 1;
		y += LINE_HEIGHT;
	}
	put_text(out, SVG_LEFT, y, "class=\"small\"", text);
}

/* What the picture shows, in a sentence. */
static char *headline(const struct picture *picture)
{
	char ratio[G_ASCII_DTOSTR_BUF_SIZE];
	GString *text = g_string_new(NULL);

	if (times_live(picture, PICTURE_TAKEN) > 0) {
		g_ascii_formatd(ratio, sizeof(ratio), "%.2f", times_live(picture, PICTURE_TAKEN));
		g_string_append_printf(text, "libvpmm took %s times the memory that was allocated", ratio);
	}
	if (picture->series[PICTURE_ASYNC].measured && !picture->series[PICTURE_ASYNC].failed &&
	    times_live(picture, PICTURE_ASYNC) > 0) {
		g_ascii_formatd(ratio, sizeof(ratio), "%.2f", times_live(picture, PICTURE_ASYNC));
		g_string_append_printf(text, ", cudaMallocAsync %s times", ratio);
	}
	return g_string_free(text, FALSE);
}

static void draw_head(const struct picture *picture, GString *out)
{
	char operations[UNITS_TEXT], each[UNITS_TEXT];
	g_autofree char *name = svg_short_name(picture), *sentence = headline(picture);
	GString *text = g_string_new(NULL);

	put_text(out, SVG_LEFT, 28, "class=\"title\"", name);
	put_text(out, SVG_LEFT, 49, "class=\"head\"", sentence);
	units_format_count(operations, picture->operations / picture->passes);
	units_format_count(each, (picture->operations + picture->columns - 1) / picture->columns);
	g_string_append_printf(text, "%s operations", operations);
	if (picture->passes > 1)
		g_string_append_printf(text, ", %u passes", picture->passes);
	g_string_append(text, " on ");
	append_setup(picture, text);
	put_wrapped(out, 67, text->str);
	g_string_printf(text, "A column is %s operation%s: the most memory within, the addresses at the end.", each,
			strcmp(each, "1") ? "s" : "");
	put_text(out, SVG_LEFT + SVG_PLOT_WIDTH, SVG_HEIGHT - 10, "class=\"small\" text-anchor=\"end\"", text->str);
	g_string_free(text, TRUE);
}

/* The statistics to the byte, for programs and tests. */
static void put_data(const struct picture *picture, GString *out)
{
	static const char *const names[PICTURE_LINES] = { "live", "taken", "async", "malloc" };

	for (unsigned int i = 0; i < PICTURE_LINES; i++) {
		if (picture->series[i].measured)
			g_string_append_printf(out, " data-peak-%s=\"%" PRIu64 "\"", names[i],
					       (uint64_t)picture->series[i].peak);
	}
}

static const char style[] =
	"<style>\n"
	"text { font: 12px \"DejaVu Sans\", Verdana, Arial, sans-serif; fill: #111 }\n"
	"text.title { font-size: 17px; font-weight: bold }\n"
	"text.head { font-size: 13px; font-weight: bold }\n"
	"text.small { font-size: 11px; fill: #444 }\n"
	".axis path { stroke: #ccc; stroke-width: 1; fill: none }\n"
	".line { fill: none; stroke-linejoin: round; vector-effect: non-scaling-stroke }\n"
	".pass { stroke: #555; stroke-width: 1; stroke-dasharray: 4 3; fill: none }\n"
	".frame { fill: none; stroke: #333; stroke-width: 1 }\n"
	"image { image-rendering: pixelated }\n"
	"</style>\n";

void svg_draw(const struct picture *picture, GString *out)
{
	g_autofree char *title = svg_short_name(picture), *escaped = svg_escape(title);

	g_string_append_printf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" "
			       "xmlns:xlink=\"http://www.w3.org/1999/xlink\" id=\"picture\" width=\"%d\" height=\"%d\" "
			       "viewBox=\"0 0 %d %d\"", SVG_WIDTH, SVG_HEIGHT, SVG_WIDTH, SVG_HEIGHT);
	put_data(picture, out);
	g_string_append_printf(out, ">\n<title>%s</title>\n%s<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n",
			       escaped, style, SVG_WIDTH, SVG_HEIGHT);
	draw_head(picture, out);
	put_text(out, SVG_LEFT, SVG_MEMORY_TOP - 50, "class=\"head\"", "Memory over time");
	draw_memory_legend(picture, out);
	draw_time_axis(picture, out);
	draw_memory(picture, out);
	draw_map_legend(picture, out);
	draw_map(picture, out);
	draw_frames(out);
	draw_passes(picture, out);
	put_text(out, SVG_LEFT + SVG_PLOT_WIDTH / 2.0, SVG_MAP_TOP + SVG_MAP_HEIGHT + 36, "text-anchor=\"middle\"",
		 "operations of the trace");
	put_side_label(out, SVG_MEMORY_TOP + SVG_MEMORY_HEIGHT / 2, "memory");
	put_side_label(out, SVG_MAP_TOP + SVG_MAP_HEIGHT / 2, "addresses");
	g_string_append(out, "</svg>\n");
}
