/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What streams and the CPU do with blocks, and what they find. */
#ifndef CONTENTS_WORK_H
#define CONTENTS_WORK_H

#include "model/contents.h"

enum kind {
	WRITE,		/* the pattern of a new key */
	FILL,		/* the same in each word, so that nothing of others is left; it is the stream's own */
	VERIFY,		/* the pattern is there */
	ZEROED,		/* zeros are there, and are what there is from now on */
	OWN,		/* nothing is there but zeros and what the stream alone has had */
	GAINED,		/* the same of what the block has more than before its size changed */
	CLEARED,	/* nothing but zeros is there */
	KEPT,		/* what the block held before its size changed is there, as far as both go */
	MAPPED,		/* the same of one that has the memory of another, as it is */
	TICK		/* nothing; that it was run is known */
};

/**
 * work_shadow() - what is to be known of a block's memory
 * @w: who allocates it
 * @ptr: the memory
 * @size: bytes
 *
 * Return: the shadow, which lives as long as the run.
 */
struct shadow *work_shadow(struct worker *w, void *ptr, size_t size);

/**
 * work_shadow_free() - let go of it
 * @data: the shadow
 */
void work_shadow_free(gpointer data);

/**
 * work_note() - add to a block's trail
 * @w: the worker
 * @b: the block
 * @s: the stream
 * @what: was done
 */
void work_note(struct worker *w, struct block *b, const struct stream *s, const char *what);

/**
 * work_submit() - submit work on a block
 * @w: the worker
 * @b: the block; NULL for TICK
 * @s: the worker's own stream, not under capture
 * @kind: which
 *
 * Return: its position.
 */
uint64_t work_submit(struct worker *w, struct block *b, struct stream *s, enum kind kind);

/**
 * work_now() - do on the CPU what would be submitted
 * @w: the worker
 * @b: the block, which no work uses that is not complete
 * @s: for OWN: the stream; or NULL
 * @kind: which
 */
void work_now(struct worker *w, struct block *b, const struct stream *s, enum kind kind);

/**
 * work_capture() - submit work on a block under capture, so that each launch does it
 * @w: the worker
 * @b: the block
 * @s: the stream
 * @kind: which
 */
void work_capture(struct worker *w, struct block *b, struct stream *s, enum kind kind);

#endif /* CONTENTS_WORK_H */
