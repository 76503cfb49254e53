// SPDX-License-Identifier: LGPL-2.1-or-later
/* Blocks of the program whose size changes, that go from pool to pool, and what loops do with blocks. */
#include <errno.h>

#include "model/contents-block.h"
#include "model/contents-work.h"

#define MOST_BURST 300

/*
 * A stream that was named may be one that cannot be waited for. To a capture that is any: also one that was retired,
 * and one that a graph of the block was retired on.
 */
static bool refusal_expected(struct worker *w, int err, const struct block *b, const struct stream *s)
{
	bool named = (s->captured && b->shared) || (b->kept && err == -EBUSY);

	for (guint i = 0; i < b->records->len; i++)
		named |= g_array_index(b->records, struct record, i).named;
	return block_may_fail(w, err, s, &w->run->opts[b->pool]) || (named && (err == -EBUSY || err == -EINVAL));
}

/*
 * Behind all that writes it, where graphs do: what they leave there is what is copied. A growable block that becomes
 * smaller waits for the streams that were named itself.
 */
static bool may_resize(struct worker *w, struct block *b, size_t size, struct stream *s)
{
	if (b->apart || tag_is_paused(w, b))
		return false;
	if (b->max && (size > b->max || b->graphs->len || b->graphed))
		return false;
	if (b->max && size >= b->shadow->size && !block_behind_uses(b, s, true))
		return false;
	if (b->unborn || w->bytes + size > CONTENTS_MOST_BYTES / w->run->n_workers || !block_may_release(w, b, s))
		return false;
	if ((b->graphs->len || b->graphed) && !block_behind_uses(b, s, false))
		return false;
	/* Whoever is behind a write is behind the allocation; the library's own zeros are only there behind that. */
	return !b->written || b->key || !b->first || b->first == s || stream_behind(s, b->first, b->born);
}

/*
 * A stream may see what is in a block that it was given, whoever left that there, and where the block's memory goes
 * later. So that only what it must not see is another stream's, it overwrites all that first.
 */
static bool hand_over(struct worker *w, struct block *b, struct stream *s)
{
	if (w->run->opts[b->pool].scrub != VPMM_SCRUB_STREAM || b->first == s)
		return true;
	if (b->graphs->len || b->graphed || !block_behind_uses(b, s, true))
		return false;
	block_note(b, s, work_submit(w, b, s, FILL), true);
	b->written = true;
	return true;
}

/* Streams stay named, and have to be retired before they go. */
static void keep_names(struct block *now, const struct block *before)
{
	for (guint i = 0; before->max && i < before->records->len; i++) {
		const struct record *r = &g_array_index(before->records, struct record, i);
		struct record *kept;

		if (!r->named)
			continue;
		g_atomic_int_inc(&r->stream->named);
		kept = block_record(now, r->stream);
		kept->named = true;
		kept->epoch = r->epoch;
	}
}

struct block *block_replace(struct worker *w, struct block *b, struct stream *s, size_t size)
{
	struct vpmm_pool *pool = contents_pool(w, b->pool);
	void *ptr = b->shadow->ptr;
	struct block *now;
	int err;

	work_note(w, b, s, "resize");
	/* What is asked for memory meanwhile must not free it. */
	g_ptr_array_remove_fast(w->live, b);
	err = contents_call(w, b->pool, contents_end(w, vpmm_realloc(pool, &ptr, size, s->handle)));
	g_ptr_array_add(w->live, b);
	if (err && w->armed) {
		b->kept = true;
		return NULL;
	}
	if (err && refusal_expected(w, err, b, s))
		return NULL;
	if (err)
		contents_fail(w->run, "worker %u, step %u: %zu bytes to %zu: %d, %s", w->index, w->step,
			      b->shadow->size, size, err, vpmm_last_error());
	if (b->max && ptr != b->shadow->ptr)
		contents_fail(w->run, "worker %u, step %u: a growable block moves", w->index, w->step);
	now = block_add(w, b->pool, ptr, size, b->max, s);
	keep_names(now, b);
	block_released(w, b);
	__atomic_fetch_add(&w->run->mallocs[b->pool], 1, __ATOMIC_RELAXED);
	now->shadow->before = b->shadow;
	now->key = b->key;
	now->graphed = b->graphed;
	now->group = b->group;
	now->joined = b->joined;
	now->shared = b->max && b->shared;
	now->word = b->word;
	return now;
}

/* What was copied is looked for before any graph writes the old block again. */
static void see_kept(struct worker *w, struct block *before, struct block *now, struct stream *s)
{
	uint64_t position = work_submit(w, now, s, KEPT);

	block_record(now, s)->last = position;
	block_record(before, s)->last = position;
}

/* What it has more than before is as a stream that allocates would find it. */
static void see_gained(struct worker *w, struct block *now, struct stream *s)
{
	enum vpmm_scrub scrub = w->run->opts[now->pool].scrub;

	if (!scrub || now->shadow->size <= now->shadow->before->size || contents_one_in(w, 3))
		return;
	block_record(now, s)->last = work_submit(w, now, s, scrub == VPMM_SCRUB_ALWAYS ? CLEARED : GAINED);
}

static struct block *resize(struct worker *w, struct block *b, struct stream *s, size_t size)
{
	struct block *now;

	if (!may_resize(w, b, size, s) || !hand_over(w, b, s))
		return NULL;
	now = block_replace(w, b, s, size);
	if (!now)
		return NULL;
	/* It may be the same memory: who frees it has to be behind what the stream is behind. */
	if (b->records->len && !s->captured)
		block_record(now, s)->last = now->born;
	block_make_own(now->shadow, s);
	see_gained(w, now, s);
	if (b->written)
		see_kept(w, b, now, s);
	now->key = 0;
	now->graphed = false;
	return now;
}

/* Any size, or a little more or less, which the block may have where it is. */
static size_t other_size(struct worker *w, const struct block *b)
{
	const struct vpmm_opts *opts = &w->run->opts[b->pool];
	size_t size = block_any_size(w, opts, false), most = contents_one_in(w, 2) ? PAGE / 2 : 512;

	if (contents_one_in(w, 2))
		return size;
	size = contents_one_in(w, 2) ? b->shadow->size + size % most : b->shadow->size - MIN(b->shadow->size - 1, size % most);
	return opts->scrub == VPMM_SCRUB_STREAM ? (size + 7) & ~(size_t)7 : size;
}

void block_resize(struct worker *w, struct block *b, struct stream *s)
{
	struct block *now = resize(w, b, s, other_size(w, b));

	if (now && !contents_one_in(w, 3))
		block_access(w, now, s, true);
}

static void *receive(struct worker *w, struct block *b, unsigned int pool)
{
	size_t size = 0;
	void *ptr = NULL;
	int err;

	contents_ok(w->run, vpmm_send(contents_pool(w, b->pool), b->shadow->ptr, w->sockets[0]));
	/* What is asked for mappings meanwhile must not free it. */
	g_ptr_array_remove(w->live, b);
	err = contents_call(w, pool, vpmm_receive(w->run->pools[pool], &ptr, &size, w->sockets[1]));
	g_ptr_array_add(w->live, b);
	/* The message may be there still. */
	if (err)
		contents_connect(w);
	if (err ? !w->armed && (err != -ENOMEM || !w->run->limited) : size != b->shadow->size)
		contents_fail(w->run, "step %u: %zu bytes are received as %zu: %d, %s", w->step, b->shadow->size, size,
			      err, vpmm_last_error());
	return ptr;
}

void block_share(struct worker *w, struct block *b, struct stream *s)
{
	unsigned int pool = block_any_pool(w);
	struct block *now;
	void *ptr;

	if (!b->apart || b->imported || b->graphs->len || b->graphed || !b->written || !block_behind_uses(b, s, true))
		return;
	ptr = receive(w, b, pool);
	if (!ptr)
		return;
	__atomic_fetch_add(&w->run->mallocs[pool], 1, __ATOMIC_RELAXED);
	now = block_add(w, pool, ptr, b->shadow->size, 0, s);
	now->apart = now->imported = now->written = true;
	now->of_driver = false;
	now->key = b->key;
	now->shadow->before = b->shadow;
	now->shadow->stride = b->shadow->stride;
	work_note(w, now, s, "receive");
	block_record(now, s)->last = block_record(b, s)->last = work_submit(w, now, s, MAPPED);
	if (contents_one_in(w, 2) && block_release(w, b, s))
		return;
	while (!block_release(w, now, s))
		work_note(w, now, s, "again");
}

/* What a loop on one stream does; its cache serves it without an event, until another stream comes for the same. */
void block_burst(struct worker *w, struct stream *s)
{
	unsigned int pool = block_any_pool(w);
	size_t size = block_any_size(w, &w->run->opts[pool], false);
	struct stream *other = stream_any(w);

	for (int i = g_rand_int_range(w->rand, 1, MOST_BURST); i > 0; i--) {
		struct block *b = block_new_of_size(w, pool, size, s, 0);

		if (!b)
			return;
		block_access(w, b, s, true);
		block_release(w, b, s);
	}
	if (!contents_one_in(w, 4))
		block_new_of_size(w, pool, size, other, 0);
}

/*
 * What one stream has left behind the end of its block, another gets as it gets any memory: when the block becomes
 * larger on that stream, or is freed there and allocated again.
 */
void block_hand_on(struct worker *w, struct stream *s)
{
	unsigned int pool = block_any_pool(w);
	size_t size = block_any_size(w, &w->run->opts[pool], true), less = (size - MIN(size - 1, 264)) & ~(size_t)7;
	bool larger = contents_one_in(w, 2);
	struct stream *other = stream_any(w);
	struct block *b;

	b = block_new_of_size(w, pool, size, s, 0);
	if (!b)
		return;
	block_access(w, b, s, true);
	if (!block_release(w, b, s))
		return;
	b = block_new_of_size(w, pool, MAX(less, 16), s, 0);
	b = b ? resize(w, b, other, larger ? size : MAX(less, 16) - 8) : NULL;
	if (b && contents_one_in(w, larger ? 2 : 1) && block_release(w, b, other) && !larger)
		block_new_of_size(w, pool, size, other, 0);
}

/* Nobody has touched it, so any stream may free it; what clears it, or copies it, may be pending all the same. */
void block_unused(struct worker *w, struct stream *s)
{
	unsigned int pool = block_any_pool(w);
	size_t size = block_any_size(w, &w->run->opts[pool], true);
	bool copied = contents_one_in(w, 2);
	struct block *b, *now;

	b = block_new_of_size(w, pool, copied ? (size / 2 + 8) & ~(size_t)7 : size, s, copied ? 0 : VPMM_ZERO);
	now = b && copied ? resize(w, b, s, size) : NULL;
	b = now ? now : b;
	if (!b || !block_release(w, b, stream_any(w)) || contents_one_in(w, 3))
		return;
	b = block_new_of_size(w, pool, size, stream_any(w), 0);
	if (b)
		block_access(w, b, stream_any(w), true);
}

/* If the block is growable, the stream waits for the one that reads it, whether or not the block loses a page. */
void block_less(struct worker *w, struct stream *s)
{
	unsigned int pool = block_any_pool(w);
	size_t size = block_any_size(w, &w->run->opts[pool], true);
	struct stream *other = stream_any(w);
	struct block *b;

	b = block_new_of_size(w, pool, MAX(size, 64), s, 0);
	if (!b || !block_access(w, b, s, true) || !other || !block_access(w, b, other, false) || !block_name(w, b, other))
		return;
	b = resize(w, b, s, b->shadow->size - 8);
	if (b)
		block_access(w, b, s, true);
}
