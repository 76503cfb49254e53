/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Public structures that start with their size, and that later versions may extend. Program and library may have been
 * built with different headers; the size says which version the program has.
 */
#ifndef SIZED_H
#define SIZED_H

#include <stddef.h>

/* No version will ever be larger; a larger value means that the caller has not set the size. */
#define SIZED_MOST 4096

/**
 * struct sized - the versions of one structure
 * @name: of the structure, without "struct "
 * @sizes: sizeof the structure in each version that extended it, ascending; the last one is that of this library
 * @count: how many
 */
struct sized {
	const char *name;
	const size_t *sizes;
	size_t count;
};

extern const struct sized sized_opts;
extern const struct sized sized_info;
extern const struct sized sized_stats;
extern const struct sized sized_forecast;
extern const struct sized sized_allocation;
extern const struct sized sized_shared_stats;
extern const struct sized sized_migrate_ops;
extern const struct sized sized_tag_stats;
extern const struct sized sized_mirror_ops;

/**
 * sized_check() - check the size that a caller has set
 * @sized: the versions of the structure
 * @what: the caller's name for the structure, for the error's text
 * @theirs: the caller's structure; NULL is refused
 *
 * Return: 0 if it is the size of a known version, or larger than all of them but no larger than SIZED_MOST; or
 *	-EINVAL.
 */
int sized_check(const struct sized *sized, const char *what, const void *theirs);

/**
 * sized_import() - copy a caller's structure
 * @sized: the versions of the structure
 * @known: receives it in this library's version; members that the caller's version lacks are zero
 * @theirs: the caller's structure, whose size sized_check() has accepted
 *
 * Return: 0, or -E2BIG if the caller's structure is larger and the part that this library does not know is not zero.
 */
int sized_import(const struct sized *sized, void *known, const void *theirs);

/**
 * sized_export() - fill in a caller's structure
 * @sized: the versions of the structure
 * @theirs: the caller's structure, whose size sized_check() has accepted; its size stays, and the part that this
 *	library does not know is cleared
 * @known: the structure in this library's version
 */
void sized_export(const struct sized *sized, void *theirs, const void *known);

#endif /* SIZED_H */
