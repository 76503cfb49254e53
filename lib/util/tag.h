/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The tags of the process, and that of each thread. Nothing here is of a pool. */
#ifndef TAG_H
#define TAG_H

#include <stdbool.h>

#include "vpmm.h"

/* How many tags there can be; that many arenas a pool can have. */
#define TAGS_MOST 255u

/* Bytes of a name, at most. */
#define TAG_NAME_MOST 63

/* The tag of a word that vpmm_tag_set() takes, without the bits that go with it. */
static inline vpmm_tag tag_of(vpmm_tag word)
{
	return word & ~(VPMM_TAG_DROP | VPMM_TAG_STAY);
}

/**
 * tag_open() - find or create the tag of a name
 * @name: the name
 * @flags: as for vpmm_tag_open()
 * @tag: receives the tag
 *
 * Context: any thread.
 * Return: 0, -EINVAL or -ENOSPC.
 */
int tag_open(const char *name, unsigned int flags, vpmm_tag *tag);

/**
 * tag_forked() - this is a forked child: nobody holds the lock
 */
void tag_forked(void);

/**
 * tag_check() - whether there is such a tag
 * @tag: the tag, without bits
 *
 * Return: 0 or -EINVAL.
 */
int tag_check(vpmm_tag tag);

/**
 * tag_name() - the name of a tag
 * @tag: the tag, of tag_open()
 *
 * Return: the name, valid for ever.
 */
const char *tag_name(vpmm_tag tag);

/**
 * tag_pausable() - whether a tag has VPMM_TAG_PAUSABLE
 * @tag: the tag, of tag_open()
 *
 * Return: whether it has.
 */
bool tag_pausable(vpmm_tag tag);

/**
 * tag_count() - how many tags there are: their numbers are 1 to this
 *
 * Return: the number.
 */
vpmm_tag tag_count(void);

/**
 * tag_current() - what the calling thread allocates under
 *
 * Return: the word of its latest tag_exchange(), or else that of tag_set_default().
 */
vpmm_tag tag_current(void);

/**
 * tag_exchange() - set what the calling thread allocates under
 * @word: a tag and its bits
 *
 * Return: the previous word.
 */
vpmm_tag tag_exchange(vpmm_tag word);

/**
 * tag_set_default() - set what threads allocate under that have never said so: the tag of VPMM_TAG
 *
 * Return: 0, or -EINVAL for a bad value. The variable is read once.
 */
int tag_set_default(void);

/**
 * tag_has_default() - whether there is one
 *
 * Return: whether VPMM_TAG has set one.
 */
bool tag_has_default(void);

#endif /* TAG_H */
