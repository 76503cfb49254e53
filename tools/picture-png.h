/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Images in the format PNG. */
#ifndef PICTURE_PNG_H
#define PICTURE_PNG_H

#include <glib.h>
#include <stdint.h>

/**
 * png_encode() - an image of few colours
 * @cells: a byte for each pixel, the number of its colour, row by row from the top
 * @width: pixels
 * @height: pixels
 * @colours: 0xRRGGBB
 * @n_colours: at most 256
 *
 * Return: the file, for g_byte_array_unref().
 */
GByteArray *png_encode(const unsigned char *cells, uint32_t width, uint32_t height, const uint32_t *colours,
		       unsigned int n_colours);

#endif /* PICTURE_PNG_H */
