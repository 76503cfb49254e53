/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names of traces: what % stands for in them. */
#ifndef NAME_H
#define NAME_H

/**
 * name_unknown() - find what a name must not have
 * @name: as the user has it
 *
 * Return: the first "%" that neither "p" nor "%" follows; NULL: there is none.
 */
const char *name_unknown(const char *name);

/**
 * name_expand() - put in what % stands for
 * @name: one without an unknown %
 *
 * Return: the name, for g_free(): %p is the process id, %% a percent sign.
 */
char *name_expand(const char *name);

#endif /* NAME_H */
