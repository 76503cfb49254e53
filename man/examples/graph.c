// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A graph that allocates and frees while it is captured, and is launched several times: what the pool keeps for it, and
 * until when. Runs without a GPU.
 *
 *	cc graph.c $(pkg-config --cflags --libs vpmm) && ./a.out
 */
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vpmm.h>
#include <vpmm-host.h>

#define COUNT ((size_t)1 << 20)
#define BYTES (COUNT * sizeof(int))

static struct vpmm_pool *pool;

static void expect(const char *what, int result)
{
	if (result) {
		fprintf(stderr, "%s: %s\n", what, vpmm_last_error());
		exit(1);
	}
}

/* The kernels: this is what runs at each launch of the graph. */
struct kernel {
	const int *from;
	int *to;
};

static void square(void *data)
{
	const struct kernel *kernel = data;

	for (size_t i = 0; i < COUNT; i++)
		kernel->to[i] = kernel->from[i] * kernel->from[i];
}

static void increment(void *data)
{
	const struct kernel *kernel = data;

	for (size_t i = 0; i < COUNT; i++)
		kernel->to[i] = kernel->from[i] + 1;
}

static int *allocate(struct CUstream_st *stream)
{
	void *ptr;

	expect("malloc", vpmm_malloc(pool, &ptr, BYTES, stream));
	return ptr;
}

static void show_held(const char *when)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };

	expect("stats", vpmm_pool_stats(pool, &stats));
	printf("%s the pool holds %llu MiB that were freed\n", when, (unsigned long long)stats.held >> 20);
}

/* A program that knows nothing of the graph: it takes memory of the same size, and writes to all of it. */
static void disturb(struct CUstream_st *stream)
{
	int *other = allocate(stream);

	memset(other, 0xff, BYTES);
	expect("free", vpmm_free(pool, other, stream));
}

int main(void)
{
	struct vpmm_opts opts = { .size = sizeof(opts), .backend = "host" };
	struct CUstream_st *stream, *elsewhere;
	struct vpmm_host_graph *graph;
	struct kernel first, second;
	int *input, *squares, *output;
	uint64_t id;

	expect("create", vpmm_pool_create(&pool, &opts));
	expect("create", vpmm_host_stream_create(&stream));
	expect("create", vpmm_host_stream_create(&elsewhere));
	input = allocate(stream);

	/* Nothing runs yet. The squares are needed within the graph only, so they are freed within it. */
	expect("begin", vpmm_host_capture_begin(stream));
	expect("id", vpmm_capture_id(pool, stream, &id));
	squares = allocate(stream);
	output = allocate(stream);
	first = (struct kernel){ input, squares };
	second = (struct kernel){ squares, output };
	expect("launch", vpmm_host_stream_launch(stream, square, &first));
	expect("launch", vpmm_host_stream_launch(stream, increment, &second));
	expect("free", vpmm_free(pool, squares, stream));
	expect("end", vpmm_host_capture_end(stream, &graph));
	show_held("after the capture");

	/* The input was there before, and stays allocated as long as the graph is launched. */
	for (int i = 1; i <= 3; i++) {
		input[0] = i;
		expect("launch", vpmm_host_graph_launch(graph, stream));
		expect("complete", vpmm_host_stream_complete(stream, 1));
		disturb(elsewhere);
		expect("complete", vpmm_host_stream_complete(stream, UINT_MAX));
		printf("launch %d: %d\n", i, output[0]);
	}

	/* The output was not freed, so it is still there without the graph. */
	expect("destroy", vpmm_host_graph_destroy(graph));
	expect("retire", vpmm_graph_retire(pool, id, stream));
	show_held("without the graph");
	printf("the output is %d\n", output[0]);
	expect("free", vpmm_free(pool, output, stream));
	expect("free", vpmm_free(pool, input, stream));

	expect("check", vpmm_pool_check(pool));
	expect("retire", vpmm_stream_retire(pool, elsewhere));
	expect("retire", vpmm_stream_retire(pool, stream));
	expect("destroy", vpmm_host_stream_destroy(elsewhere));
	expect("destroy", vpmm_host_stream_destroy(stream));
	vpmm_pool_destroy(pool);
	return 0;
}
