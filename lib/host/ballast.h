/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Mappings of the kernel in reserve. At the kernel's limit of mappings nothing could be unmapped either, as what an
 * unmap leaves behind is a mapping to the kernel. So some are kept from the first map on: pages of alternating
 * protection, one mapping each.
 */
#ifndef BALLAST_H
#define BALLAST_H

#include <stdbool.h>

/**
 * ballast_load() - put mappings in reserve, unless they are
 * @ballast: the pages, NULL at first
 *
 * Return: whether they are there; errno is set otherwise.
 */
bool ballast_load(char **ballast);

/**
 * ballast_drop() - give the mappings back to the kernel
 * @ballast: the pages
 *
 * Return: whether there were any to give back.
 */
bool ballast_drop(char **ballast);

#endif /* BALLAST_H */
