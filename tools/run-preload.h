/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* libvpmm-preload.so: its place in LD_PRELOAD, and whether the dynamic linker would preload anything into a program. */
#ifndef RUN_PRELOAD_H
#define RUN_PRELOAD_H

/**
 * object_preload() - put the preload object into LD_PRELOAD, behind what is there
 *
 * It is that which VPMM_PRELOAD_OBJECT names, or that of the build tree which this program is in, or that which was
 * installed.
 *
 * Return: 0, or explained by fail_set(): there is none, or its name has what LD_PRELOAD takes for the end of a name.
 */
int object_preload(void);

/**
 * target_check() - find out whether the dynamic linker reads LD_PRELOAD for a program
 * @path: its file; of a script, that of its interpreter counts
 *
 * A file that cannot be read passes.
 *
 * Return: 0, or -EINVAL explained by fail_set().
 */
int target_check(const char *path);

#endif /* RUN_PRELOAD_H */
