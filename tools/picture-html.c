// SPDX-License-Identifier: LGPL-2.1-or-later
#include "picture-html.h"

#include <inttypes.h>

#include "picture-svg.h"

/* Nothing that the page might be made to hold can load or send anything. */
static const char head[] =
	"<meta charset=\"utf-8\"/>\n"
	"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
	"style-src 'unsafe-inline'; script-src 'unsafe-inline'\"/>\n"
	"<style>\n"
	"body { margin: 8px; background: #fff; color: #111; font: 13px Verdana, Arial, sans-serif }\n"
	"#picture { width: 100%; max-width: 1500px; height: auto; display: block; touch-action: none }\n"
	"#help { color: #444; margin: 0 0 4px }\n"
	"#where { min-height: 3em; margin: 4px 0 0; white-space: pre-wrap; font-family: monospace }\n"
	".cross { stroke: #d00; stroke-width: 1; fill: none; pointer-events: none }\n"
	"</style>\n";

static const char body[] =
	"<p id=\"help\">Wheel: zoom in time. Shift and wheel: zoom the plot's other axis. Drag: move. "
	"Double click, or 0: all of it. Keys: + and -, arrows.</p>\n";

/*
 * The plots are elements "svg" of their own, so that zooming changes their view boxes; axes are drawn anew. A view
 * is the part of each axis that shows, 0 to 1; vertical ones count from the top.
 */
static const char *const script[] = {
	"'use strict';",
	"const NS = 'http://www.w3.org/2000/svg';",
	"const picture = document.getElementById('picture');",
	"const where = document.getElementById('where');",
	"const plots = {",
	"  memory: { node: document.getElementById('memory'), axis: document.getElementById('memory-axis'),",
	"    top: data.memoryTop, height: data.memoryHeight, bytes: data.memoryBytes, grid: true, from: 0, to: 1 },",
	"  map: { node: document.getElementById('map'), axis: document.getElementById('map-axis'),",
	"    top: data.mapTop, height: data.mapHeight, bytes: data.mapBytes, grid: false, from: 0, to: 1 } };",
	"const time = { from: 0, to: 1 };",
	"const cross = document.createElementNS(NS, 'path');",
	"cross.setAttribute('class', 'cross');",
	"picture.appendChild(cross);",
	"",
	"function clear(node) { while (node.firstChild) node.removeChild(node.firstChild); }",
	"function path(parent, d, name) {",
	"  const node = document.createElementNS(NS, 'path');",
	"  node.setAttribute('d', d);",
	"  if (name) node.setAttribute('class', name);",
	"  parent.appendChild(node);",
	"}",
	"function text(parent, x, y, anchor, words) {",
	"  const node = document.createElementNS(NS, 'text');",
	"  node.setAttribute('x', x); node.setAttribute('y', y); node.setAttribute('text-anchor', anchor);",
	"  node.textContent = words;",
	"  parent.appendChild(node);",
	"}",
	"function step(span, most, least) {",
	"  let size = Math.pow(10, Math.floor(Math.log10(span / most)));",
	"  for (const factor of [2, 2.5, 2]) if (span / size > most) size *= factor;",
	"  return Math.max(size, least);",
	"}",
	"function unit(bytes) {",
	"  const names = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];",
	"  let i = 0, size = 1;",
	"  for (; i + 1 < names.length && bytes / size >= 2048; i++) size *= 1024;",
	"  return { name: names[i], size: size };",
	"}",
	"function short(bytes) {",
	"  const u = unit(bytes);",
	"  return (bytes / u.size).toFixed(u.size > 1 ? 1 : 0) + ' ' + u.name;",
	"}",
	"",
	"function drawBytes(plot) {",
	"  if (!plot.axis) return;",
	"  clear(plot.axis);",
	"  const low = (1 - plot.to) * plot.bytes, high = (1 - plot.from) * plot.bytes;",
	"  const u = unit(high - low);",
	"  const size = step((high - low) / u.size, 7, 0), digits = Math.max(0, -Math.floor(Math.log10(size)));",
	"  for (let at = Math.ceil(low / u.size / size - 1e-9); at * size * u.size <= high; at++) {",
	"    const y = plot.top + plot.height * (high - at * size * u.size) / (high - low);",
	"    path(plot.axis, 'M' + (data.left - 4) + ' ' + y + 'H' + (plot.grid ? data.left + data.width : data.left));",
	"    text(plot.axis, data.left - 7, y + 4, 'end', at ? (at * size).toFixed(digits) + ' ' + u.name : '0');",
	"  }",
	"}",
	"function xOf(part) { return data.left + (part - time.from) / (time.to - time.from) * data.width; }",
	"function drawTime() {",
	"  const axis = document.getElementById('time'), memory = plots.memory, map = plots.map;",
	"  const low = time.from * data.operations, high = time.to * data.operations, size = step(high - low, 9, 1);",
	"  const bottom = map.top + map.height;",
	"  clear(axis);",
	"  for (let at = Math.ceil(low / size); at * size <= high; at++) {",
	"    const x = xOf(at * size / data.operations), last = x > data.left + data.width - 20;",
	"    path(axis, 'M' + x + ' ' + memory.top + 'V' + (memory.top + memory.height + 4) + 'M' + x + ' ' + bottom + 'v4');",
	"    text(axis, last ? 996 : x, bottom + 18, last ? 'end' : 'middle', (at * size).toLocaleString('en'));",
	"  }",
	"}",
	"function drawPasses() {",
	"  const node = document.getElementById('passes'), memory = plots.memory, map = plots.map;",
	"  if (!node) return;",
	"  clear(node);",
	"  for (let i = 0; i < data.passes; i++) {",
	"    const x = xOf(i / data.passes);",
	"    if (x < data.left || x > data.left + data.width) continue;",
	"    if (i) path(node, 'M' + x + ' ' + memory.top + 'v' + memory.height + 'M' + x + ' ' + map.top + 'v' + map.height,",
	"      'pass');",
	"    text(node, x + 3, memory.top + memory.height + 16, 'start', 'pass ' + (i + 1));",
	"  }",
	"}",
	"function draw() {",
	"  for (const plot of Object.values(plots)) {",
	"    if (plot.node)",
	"      plot.node.setAttribute('viewBox', [time.from * data.width, plot.from * plot.height,",
	"        (time.to - time.from) * data.width, (plot.to - plot.from) * plot.height].join(' '));",
	"    drawBytes(plot);",
	"  }",
	"  drawTime();",
	"  drawPasses();",
	"}",
	"",
	"function fit(view, from, size, least) {",
	"  size = Math.min(1, Math.max(size, least));",
	"  view.from = Math.min(Math.max(0, from), 1 - size);",
	"  view.to = view.from + size;",
	"}",
	"function zoom(view, at, factor, least) {",
	"  const size = Math.min(1, Math.max((view.to - view.from) * factor, least));",
	"  fit(view, view.from + at * (view.to - view.from - size), size, least);",
	"}",
	"const leastTime = Math.min(1, 8 / data.columns), leastBytes = 0.01;",
	"",
	"function place(event) {",
	"  const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(picture.getScreenCTM().inverse());",
	"  const x = (point.x - data.left) / data.width;",
	"  for (const plot of Object.values(plots)) {",
	"    const y = (point.y - plot.top) / plot.height;",
	"    if (x >= 0 && x <= 1 && y >= 0 && y <= 1) return { plot: plot, x: x, y: y, at: point };",
	"  }",
	"  return null;",
	"}",
	"const pixels = document.createElement('canvas').getContext('2d', { willReadFrequently: true });",
	"const image = new Image();",
	"let loaded = false;",
	"image.onload = function () {",
	"  pixels.canvas.width = image.width; pixels.canvas.height = image.height;",
	"  pixels.drawImage(image, 0, 0);",
	"  loaded = true;",
	"};",
	"if (plots.map.node)",
	"  image.src = plots.map.node.querySelector('image').getAttributeNS('http://www.w3.org/1999/xlink', 'href') ||",
	"    plots.map.node.querySelector('image').getAttribute('xlink:href');",
	"function state(x, y) {",
	"  if (!loaded) return '';",
	"  const c = pixels.getImageData(Math.min(image.width - 1, Math.floor(x * image.width)),",
	"    Math.min(image.height - 1, Math.floor(y * image.height)), 1, 1).data;",
	"  const colour = (c[0] * 256 + c[1]) * 256 + c[2];",
	"  for (const s of data.states) if (s.colour === colour) return s.name;",
	"  return '';",
	"}",
	"function address(y) {",
	"  const at = BigInt(Math.floor((1 - y) * data.mapBytes));",
	"  for (const range of data.ranges)",
	"    if (at < BigInt(range[1])) return '0x' + (BigInt(range[0]) + at - BigInt(range[2])).toString(16);",
	"  return '';",
	"}",
	"function tell(p) {",
	"  const x = time.from + p.x * (time.to - time.from), y = p.plot.from + p.y * (p.plot.to - p.plot.from);",
	"  const column = Math.min(data.columns - 1, Math.floor(x * data.columns));",
	"  const words = ['operation ' + Math.floor(x * data.operations).toLocaleString('en')];",
	"  for (const s of data.series) words.push(s.name + ' ' + short(s.most[column]));",
	"  let line = words.join('   ');",
	"  if (p.plot === plots.map && data.mapBytes)",
	"    line += '\\n' + address(y) + '   ' + state(x, y);",
	"  where.textContent = line;",
	"  cross.setAttribute('d', 'M' + p.at.x + ' ' + plots.memory.top + 'v' + plots.memory.height + 'M' + p.at.x + ' ' +",
	"    plots.map.top + 'v' + plots.map.height);",
	"}",
	"",
	"let drag = null;",
	"picture.addEventListener('wheel', function (event) {",
	"  const p = place(event), amount = event.deltaY || event.deltaX;",
	"  if (!p || !amount) return;",
	"  event.preventDefault();",
	"  if (event.shiftKey) zoom(p.plot, p.y, amount > 0 ? 1.25 : 0.8, leastBytes);",
	"  else zoom(time, p.x, amount > 0 ? 1.25 : 0.8, leastTime);",
	"  draw();",
	"  tell(p);",
	"}, { passive: false });",
	"picture.addEventListener('pointerdown', function (event) {",
	"  const p = place(event);",
	"  if (!p) return;",
	"  event.preventDefault();",
	"  picture.setPointerCapture(event.pointerId);",
	"  drag = { plot: p.plot, x: p.at.x, y: p.at.y };",
	"});",
	"picture.addEventListener('pointermove', function (event) {",
	"  const p = place(event);",
	"  if (drag && p) {",
	"    const width = time.to - time.from, height = drag.plot.to - drag.plot.from;",
	"    fit(time, time.from - (p.at.x - drag.x) / data.width * width, width, leastTime);",
	"    fit(drag.plot, drag.plot.from - (p.at.y - drag.y) / drag.plot.height * height, height, leastBytes);",
	"    drag.x = p.at.x; drag.y = p.at.y;",
	"    draw();",
	"  }",
	"  if (p) tell(p);",
	"});",
	"for (const name of ['pointerup', 'pointercancel'])",
	"  picture.addEventListener(name, function () { drag = null; });",
	"function all() {",
	"  fit(time, 0, 1, 1);",
	"  for (const plot of Object.values(plots)) fit(plot, 0, 1, 1);",
	"  draw();",
	"}",
	"picture.addEventListener('dblclick', all);",
	"document.addEventListener('keydown', function (event) {",
	"  const size = time.to - time.from;",
	"  if (event.ctrlKey || event.metaKey || event.altKey) return;",
	"  if (event.key === '0') all();",
	"  else if (event.key === '+' || event.key === '=') zoom(time, 0.5, 0.8, leastTime);",
	"  else if (event.key === '-') zoom(time, 0.5, 1.25, leastTime);",
	"  else if (event.key === 'ArrowLeft') fit(time, time.from - size / 10, size, leastTime);",
	"  else if (event.key === 'ArrowRight') fit(time, time.from + size / 10, size, leastTime);",
	"  else return;",
	"  event.preventDefault();",
	"  draw();",
	"});",
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

void html_draw(const struct picture *picture, GString *out)
{
	char *name = svg_short_name(picture), *title = svg_escape(name);

	g_string_append_printf(out, "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n"
			       "<title>%s</title>\n%s</head>\n<body>\n%s", title, head, body);
	svg_draw(picture, out);
	g_string_append(out, "<p id=\"where\"></p>\n<script>//<![CDATA[\n");
	put_data(picture, out);
	for (unsigned int i = 0; i < G_N_ELEMENTS(script); i++)
		g_string_append_printf(out, "%s\n", script[i]);
	g_string_append(out, "draw();\n//]]></script>\n</body>\n</html>\n");
	g_free(title);
	g_free(name);
}
