/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names of files in settings: what % stands for in them. Needs no GLib, as the preload object has it. */
#ifndef NAME_H
#define NAME_H

#include <stddef.h>

/**
 * name_unknown() - find what a name must not have
 * @name: as the user has it
 *
 * Return: the first "%" that neither "p" nor "%" follows; NULL: there is none.
 */
const char *name_unknown(const char *name);

/**
 * name_expand() - put in what % stands for: %p is the process id, %% a percent sign
 * @name: one without an unknown %
 * @to: receives the name, if there is room for it
 * @room: bytes there, the null byte at the end included; with 0 @to can be NULL
 *
 * Return: bytes of the name without the null byte; if they are @room or more, @to has only its beginning.
 */
size_t name_expand(const char *name, char *to, size_t room);

#endif /* NAME_H */
