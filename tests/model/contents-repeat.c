// SPDX-License-Identifier: LGPL-2.1-or-later
/* A worker that repeats itself on one stream, until others begin. */
#include <limits.h>

#include "model/contents-repeat.h"

/* Blocks that go from the one stream to another. */
#define GIVEN 40

void repeat_choose(struct run *run, GRand *rand)
{
	run->repeats = run->steps - run->steps / 8;
	run->pass = (unsigned int)g_rand_int_range(rand, 40, 160);
	run->plain = g_rand_int_range(rand, 0, 3);
	run->odd = g_rand_int_range(rand, 0, 2) ? 2 * (gint32)run->pass : 0;
}

void repeat_step(struct worker *w, void (*step)(struct worker *w))
{
	const struct run *run = w->run;
	GRand *rand = w->rand;

	if (w->step % run->pass == 0) {
		while (w->live->len)
			block_release(w, w->live->pdata[w->live->len - 1], w->streams->pdata[0]);
		g_rand_set_seed(rand, run->seed);
	}
	/* Later, once the pool has had the time to settle. */
	if (!run->odd || w->step < run->repeats / 3 * 2 || g_rand_int_range(w->odd, 0, run->odd)) {
		step(w);
		return;
	}
	w->rand = w->odd;
	if (w->live->len && contents_one_in(w, 2))
		block_resize(w, block_any(w), w->streams->pdata[0]);
	else
		step(w);
	w->rand = rand;
}

/*
 * Another stream frees blocks that nobody has touched, so that the program need not order it behind the one stream.
 * Their memory was used on that until now, and whoever gets it on the other stream has to come after that.
 */
static void give(struct worker *w, struct stream *first, struct stream *other)
{
	for (int i = contents_one_in(w, 2) ? GIVEN : 0; i > 0; i--) {
		struct block *b = block_any(w);

		if (b && contents_one_in(w, 2)) {
			block_access(w, b, first, false);
			block_release(w, b, first);
		}
		block_new(w, first, 0);
	}
	for (guint i = w->live->len; i > 0; i--) {
		struct block *b = w->live->pdata[i - 1];

		if (!b->records->len)
			block_release(w, b, other);
	}
	for (int i = 0; i < GIVEN; i++)
		block_new(w, other, 0);
	stream_complete(w, other, UINT_MAX);
}

void repeat_end(struct worker *w)
{
	struct stream *first = w->streams->pdata[0];

	/* The other begins while the work of the first is pending, or has just completed. */
	if (w->streams->len > 1 && !contents_one_in(w, 3))
		give(w, first, w->streams->pdata[1]);
	else if (contents_one_in(w, 2))
		stream_complete(w, first, UINT_MAX);
}
