/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The program that vpmm-run is to start, and whether the dynamic linker would preload anything into it. */
#ifndef RUN_TARGET_H
#define RUN_TARGET_H

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
