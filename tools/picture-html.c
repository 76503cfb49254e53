// SPDX-License-Identifier: LGPL-2.1-or-later
#include "picture-html.h"

#include <inttypes.h>
#include <string.h>

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

void html_draw(const struct picture *picture, GString *out)
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
