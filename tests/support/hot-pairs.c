// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Pairs of a malloc and a free that a cache serves, for tests/scripts/test-hot.sh: as many as the first argument says.
 * With a second argument features are in use beside the pool, but not by it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "vpmm.h"

static int fail(void)
{
	fprintf(stderr, "%s\n", vpmm_last_error());
	return 1;
}

/* A block of another pool that is sampled, and a tag that no thread has. */
static int use_features(void)
{
	struct vpmm_pool *pool;
	vpmm_tag tag;
	void *ptr;

	setenv("VPMM_STACKS", "1", 1);
	if (vpmm_tag_open("unused", VPMM_TAG_PAUSABLE, &tag) || vpmm_pool_create(&pool, NULL) ||
	    vpmm_malloc(pool, &ptr, 1 << 20, NULL))
		return fail();
	unsetenv("VPMM_STACKS");
	return 0;
}

int main(int argc, char **argv)
{
	long pairs = argc > 1 ? strtol(argv[1], NULL, 10) : 1;
	struct vpmm_pool *pool;
	void *kept, *ptr;

	if (vpmm_pool_create(&pool, NULL) || vpmm_malloc(pool, &kept, 1 << 20, NULL))
		return fail();
	if (argc > 2 && use_features())
		return 1;
	for (long i = 0; i < pairs; i++) {
		if (vpmm_malloc(pool, &ptr, 4096, NULL) || vpmm_free(pool, ptr, NULL))
			return fail();
	}
	return 0;
}
