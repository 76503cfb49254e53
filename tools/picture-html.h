/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The picture of a replay as a page that zooms. */
#ifndef PICTURE_HTML_H
#define PICTURE_HTML_H

#include "picture.h"

/**
 * html_draw() - append the page
 * @picture: what is drawn
 * @out: receives a page, well-formed as XML too, that loads nothing from elsewhere
 */
void html_draw(const struct picture *picture, GString *out);

#endif /* PICTURE_HTML_H */
