// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Two streams hand memory on: what the pool does when one of them has not finished yet. Runs without a GPU.
 *
 *	cc streams.c $(pkg-config --cflags --libs vpmm) && ./a.out
 *
 * In what it prints, [+4] is four pages just allocated, [4] allocated earlier, [-4] free, [~4] addresses whose memory
 * is mapped elsewhere now, [*4] unmapped: see vpmm_pool_dump(3).
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vpmm.h>
#include <vpmm-host.h>

#define PAGE ((size_t)2 << 20)

static struct vpmm_pool *pool;

static void expect(const char *what, int result, int expected)
{
	if (result != expected) {
		fprintf(stderr, "%s: %s\n", what, result ? vpmm_last_error() : "succeeded, which is wrong");
		exit(1);
	}
}

/* Every region of the pool, without the metrics that a dump begins with. */
static void show(const char *step)
{
	FILE *dump = tmpfile();
	char line[256];

	if (!dump) {
		perror("tmpfile");
		exit(1);
	}
	printf("\n%s\n", step);
	expect("dump", vpmm_pool_dump(pool, dump), 0);
	rewind(dump);
	while (fgets(line, sizeof(line), dump)) {
		if (!strncmp(line, "chunk ", 6) || line[0] == ' ')
			fputs(line, stdout);
	}
	fclose(dump);
}

/* The kernels: this is what runs when a stream's work completes. */
static void fill(void *buffer)
{
	memset(buffer, 'x', 4 * PAGE);
}

static void verify(void *buffer)
{
	const char *bytes = buffer;

	printf("compute reads '%c' and '%c'\n", bytes[0], bytes[4 * PAGE - 1]);
}

int main(void)
{
	/* Each page on its own, so that every step can be seen; without that, the pool moves less and larger pieces. */
	struct vpmm_opts opts = { .size = sizeof(opts), .backend = "host", .page_size = PAGE, .extent_max = PAGE,
				  .small = VPMM_SMALL_DRIVER };
	struct CUstream_st *copy, *compute;
	void *input, *weights, *next, *result;

	expect("create", vpmm_pool_create(&pool, &opts), 0);
	expect("create", vpmm_host_stream_create(&copy), 0);
	expect("create", vpmm_host_stream_create(&compute), 0);

	/* The copy stream is to fill a buffer. Nothing has run yet. */
	expect("malloc", vpmm_malloc(pool, &input, 4 * PAGE, copy), 0);
	expect("launch", vpmm_host_stream_launch(copy, fill, input), 0);
	expect("malloc", vpmm_malloc(pool, &weights, PAGE, compute), 0);
	show("copy has a buffer of 4 pages, compute has 1 page");

	/* The compute stream reads it behind the copy, and is its last user: so the free is for compute. */
	expect("wait", vpmm_host_stream_wait(compute, copy), 0);
	expect("launch", vpmm_host_stream_launch(compute, verify, input), 0);
	expect("free", vpmm_free(pool, input, compute), 0);
	show("compute gives the buffer back, its work still to come");

	/* Nobody waits here, and the pool grows by 2 pages only: copy is made to wait for compute instead. */
	expect("malloc", vpmm_malloc(pool, &next, 6 * PAGE, copy), 0);
	expect("submit", vpmm_host_stream_submit(copy), 0);
	show("copy has 6 pages: those 4, at another address now, and 2 new ones");

	/* The order that holds: the first fill, then compute, and only then what copy does with the 6 pages. */
	expect("complete", vpmm_host_stream_complete(compute, 1), -EBUSY);
	printf("\ncompute cannot go on: %s\n", vpmm_last_error());
	expect("complete", vpmm_host_stream_complete(copy, UINT_MAX), -EBUSY);
	printf("copy did the fill and cannot go on: %s\n", vpmm_last_error());
	expect("complete", vpmm_host_stream_complete(compute, 1), 0);
	expect("complete", vpmm_host_stream_complete(copy, UINT_MAX), 0);

	/* Compute is past its free, so the old addresses can go. So is copy, and what it had is anybody's. */
	expect("free", vpmm_free(pool, next, copy), 0);
	expect("malloc", vpmm_malloc(pool, &result, 3 * PAGE, compute), 0);
	show("compute has 3 of copy's 6 pages, without a wait");

	expect("free", vpmm_free(pool, result, compute), 0);
	expect("free", vpmm_free(pool, weights, compute), 0);
	expect("check", vpmm_pool_check(pool), 0);
	vpmm_pool_destroy(pool);
	expect("destroy", vpmm_host_stream_destroy(copy), 0);
	expect("destroy", vpmm_host_stream_destroy(compute), 0);
	return 0;
}
