// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Blocks of pausable tags. Each worker has a tag of its own, so that nobody else touches what it has paused. A paused
 * block can be freed and no more; once it is resumed, later work finds what it held, unless that was dropped.
 */
#include <errno.h>
#include <stdio.h>

#include "model/contents-work.h"
#include "model/contents.h"

static vpmm_tag tag_of_worker(struct worker *w)
{
	char name[32];
	vpmm_tag tag;

	snprintf(name, sizeof(name), "contents-%u", w->index);
	contents_ok(w->run, vpmm_tag_open(name, VPMM_TAG_PAUSABLE, &tag));
	return tag;
}

vpmm_tag tag_any(struct worker *w, unsigned int pool, const struct stream *s, unsigned int flags)
{
	static const vpmm_tag bits[] = { 0, 0, 0, VPMM_TAG_DROP, VPMM_TAG_STAY };

	if (!w->run->tags || s->captured || flags & VPMM_SHAREABLE || w->run->opts[pool].page_size == SIZE_MAX ||
	    w->paused[pool] || !contents_one_in(w, 3))
		return 0;
	return tag_of_worker(w) | bits[g_rand_int_range(w->rand, 0, G_N_ELEMENTS(bits))];
}

bool tag_is_paused(const struct worker *w, const struct block *b)
{
	return w->paused[b->pool] && b->word && !(b->word & VPMM_TAG_STAY);
}

/* Contents need mappings on the host, and a resume needs memory. */
static bool may_fail(const struct worker *w, int err)
{
	return w->armed || (err == -ENOMEM && w->run->limited);
}

static bool resume(struct worker *w, unsigned int pool, bool armed)
{
	struct stream *s = contents_one_in(w, 2) ? stream_any(w) : NULL;
	struct CUstream_st *handle = s ? s->handle : VPMM_STREAM_ANY;
	int err;

	if (armed)
		err = contents_call(w, pool, vpmm_resume(w->run->pools[pool], tag_of_worker(w), handle));
	else
		err = vpmm_resume(w->run->pools[pool], tag_of_worker(w), handle);
	if (err && !may_fail(w, err))
		contents_fail(w->run, "worker %u, step %u: vpmm_resume: %d, %s", w->index, w->step, err, vpmm_last_error());
	w->paused[pool] = err;
	return !err;
}

/* Nobody knows any more what is there. */
static void lose(struct worker *w, unsigned int pool, bool all)
{
	for (guint i = 0; i < w->live->len; i++) {
		struct block *b = w->live->pdata[i];

		if (b->pool == pool && tag_is_paused(w, b) && (all || b->word & VPMM_TAG_DROP))
			b->written = false;
	}
}

static void pause_tag(struct worker *w, unsigned int pool)
{
	unsigned int flags = contents_one_in(w, 4) ? VPMM_PAUSE_DROP : 0;
	int err;

	err = contents_call(w, pool, vpmm_pause(w->run->pools[pool], tag_of_worker(w), flags));
	if (err && !may_fail(w, err))
		contents_fail(w->run, "worker %u, step %u: vpmm_pause: %d, %s", w->index, w->step, err, vpmm_last_error());
	w->paused[pool] = true;
	/* The driver may have failed to undo as well. Nothing is lost then. */
	if (err)
		resume(w, pool, false);
	else
		lose(w, pool, flags);
}

static void limit_tag(struct worker *w, unsigned int pool)
{
	size_t limit = contents_one_in(w, 2) ? 0 : (size_t)g_rand_int_range(w->rand, 1, 20) * PAGE;

	contents_try(w, pool, vpmm_tag_limit(w->run->pools[pool], tag_of_worker(w), limit));
}

void tag_step(struct worker *w)
{
	unsigned int pool = (unsigned int)g_rand_int_range(w->rand, 0, (gint32)w->run->n_pools);
	int err;

	if (w->run->opts[pool].page_size == SIZE_MAX)
		return;
	if (w->run->limited && contents_one_in(w, 4)) {
		limit_tag(w, pool);
		return;
	}
	if (w->paused[pool]) {
		resume(w, pool, true);
		return;
	}
	if (contents_one_in(w, 3)) {
		err = contents_call(w, pool, vpmm_pause_prepare(w->run->pools[pool], tag_of_worker(w)));
		if (err && !may_fail(w, err))
			contents_fail(w->run, "worker %u, step %u: vpmm_pause_prepare: %d, %s", w->index, w->step, err,
				      vpmm_last_error());
	}
	pause_tag(w, pool);
}

void tag_end(struct worker *w)
{
	for (unsigned int i = 0; i < w->run->n_pools; i++) {
		if (w->paused[i])
			resume(w, i, false);
	}
}
