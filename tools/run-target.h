/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The program that vpmm-run is to start, and whether the dynamic linker would preload anything into it. */
#ifndef RUN_TARGET_H
#define RUN_TARGET_H

enum { TARGET_NOT_EXECUTABLE = 126, TARGET_NOT_FOUND = 127 };

/**
 * target_find() - find a program as a shell does
 * @name: as the user has it; without a slash it is looked for in PATH
 * @path: receives its file, for g_free()
 *
 * Return: 0, or the exit status of a shell that does not find it, or may not run it; explained by fail_set().
 */
int target_find(const char *name, char **path);

/**
 * target_check() - find out whether the dynamic linker reads LD_PRELOAD for a program
 * @path: its file; of a script, that of its interpreter counts
 *
 * What cannot be read is taken for good.
 *
 * Return: 0, or -EINVAL explained by fail_set().
 */
int target_check(const char *path);

#endif /* RUN_TARGET_H */
