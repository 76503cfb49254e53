/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The picture of a replay as a drawing. */
#ifndef PICTURE_SVG_H
#define PICTURE_SVG_H

#include <glib.h>
#include <stdint.h>

#include "picture.h"

/* Where the two plots are, in units of the drawing; the page needs them to draw axes anew. */
enum {
	SVG_WIDTH = 1000,
	SVG_HEIGHT = 920,
	SVG_LEFT = 78,
	SVG_PLOT_WIDTH = 900,
	SVG_MEMORY_TOP = 160,
	SVG_MEMORY_HEIGHT = 220,
	SVG_MAP_TOP = 456,
	SVG_MAP_HEIGHT = 400,
};

/**
 * svg_draw() - append the drawing
 * @picture: what is drawn
 * @out: receives an element "svg", well-formed, of ASCII and of UTF-8 in names
 */
void svg_draw(const struct picture *picture, GString *out);

/**
 * svg_escape() - text for XML
 * @text: any bytes
 *
 * Return: the same with entities; what XML cannot have is replaced. For g_free().
 */
char *svg_escape(const char *text);

/**
 * svg_memory_top() - bytes at the top of the upper plot
 */
uint64_t svg_memory_top(const struct picture *picture);

/**
 * svg_short_name() - the name of the trace without folder and suffixes, for g_free()
 */
char *svg_short_name(const struct picture *picture);

/* By enum map_state. */
extern const char *const svg_state_names[MAP_STATES];
extern const uint32_t svg_state_colours[MAP_STATES];

#endif /* PICTURE_SVG_H */
