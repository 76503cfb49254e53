// SPDX-License-Identifier: LGPL-2.1-or-later
#include "picture-png.h"

#include <string.h>
#include <zlib.h>

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

GByteArray *png_encode(const unsigned char *cells, uint32_t width, uint32_t height, const uint32_t *colours,
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
