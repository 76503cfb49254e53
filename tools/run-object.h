/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* libvpmm-preload.so, and its place in LD_PRELOAD. */
#ifndef RUN_OBJECT_H
#define RUN_OBJECT_H

/**
 * object_preload() - put the preload object into LD_PRELOAD, behind what is there
 *
 * It is that which VPMM_PRELOAD_OBJECT names, or that of the build tree which this program is in, or that which was
 * installed.
 *
 * Return: 0, or explained by fail_set(): there is none, or its name has what LD_PRELOAD takes for the end of a name.
 */
int object_preload(void);

#endif /* RUN_OBJECT_H */
