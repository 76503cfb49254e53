// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Two models, each larger than half of what there is, take turns: one is paused while the other runs, and each finds its
 * weights where they were. Runs without a GPU, in a pool that may hold 64 MiB.
 *
 *	cc turns.c $(pkg-config --cflags --libs vpmm) && ./a.out
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vpmm.h>

#define MIB ((size_t)1 << 20)
#define SIZE (40 * MIB)

static struct vpmm_pool *pool;

static void expect(const char *what, int result)
{
	if (!result)
		return;
	fprintf(stderr, "%s: %s\n", what, vpmm_last_error());
	exit(1);
}

struct model {
	vpmm_tag tag;
	char *weights;
};

/* Whatever this thread allocates here has the tag of the model. */
static struct model load(const char *name, int value)
{
	struct model model;
	vpmm_tag before;

	expect("tag", vpmm_tag_open(name, VPMM_TAG_PAUSABLE, &model.tag));
	before = vpmm_tag_set(model.tag);
	expect("malloc", vpmm_malloc(pool, (void **)&model.weights, SIZE, NULL));
	vpmm_tag_set(before);
	memset(model.weights, value, SIZE);
	return model;
}

int main(void)
{
	struct vpmm_opts opts = { .size = sizeof(opts), .backend = "host", .limit = 64 * MIB };
	struct model models[2];

	expect("create", vpmm_pool_create(&pool, &opts));
	models[0] = load("first", 1);
	expect("pause", vpmm_pause(pool, models[0].tag, 0));
	models[1] = load("second", 2);
	for (int turn = 0; turn < 10; turn++) {
		const struct model *next = &models[turn % 2], *other = &models[1 - turn % 2];

		expect("pause", vpmm_pause(pool, other->tag, 0));
		expect("resume", vpmm_resume(pool, next->tag, NULL));
		printf("turn %d: weights of %d\n", turn, next->weights[SIZE - 1]);
	}
	vpmm_pool_destroy(pool);
	return 0;
}
