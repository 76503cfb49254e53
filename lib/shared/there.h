/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the device has at the addresses of a page. */
#ifndef THERE_H
#define THERE_H

#include "shared/shared.h"

/**
 * there_remap() - give the device other memory at a page
 * @range: the range; the mover is held, its streams stand still, the backend is entered
 * @index: the page
 * @piece: the memory; NULL: what empty pages read
 *
 * Return: 0, or an error of the backend: the device has what the page has, or the page is wrong.
 */
int there_remap(struct range *range, size_t index, const struct piece *piece);

/**
 * there_restore() - give it back what the page has, or the page is wrong
 * @range: the range, as above
 * @index: the page
 */
void there_restore(struct range *range, size_t index);

/**
 * there_mapped() - what the device has is what the page has from now on
 * @range: the range; the mover is held
 * @index: the page
 */
void there_mapped(struct range *range, size_t index);

/**
 * there_mend() - try again to give back what pages have that are wrong
 * @range: the range, as above
 *
 * Streams that go on must find it, and only a call that stops them can see to that. So this is done at the beginning
 * of a move and, if it has failed, at its end.
 */
void there_mend(struct range *range);

#endif /* THERE_H */
