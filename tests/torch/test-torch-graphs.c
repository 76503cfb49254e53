// SPDX-License-Identifier: LGPL-2.1-or-later
/* Captures as PyTorch tells of them: pools of graphs by their ids, what they share, and when they end. */
#include <errno.h>

#include "torch/torch-fixture.h"

static const struct torch_pool_id mine = { .a = 1 }, other = { .b = 7 };

static struct CUstream_st *new_stream(void)
{
	struct CUstream_st *stream;

	assert_ok(vpmm_host_stream_create(&stream));
	return stream;
}

static void begin(struct torch_pool_id id, struct CUstream_st *stream)
{
	torch.vpmm_torch_begin(0, id, NULL);
	assert_ok(vpmm_host_capture_begin(stream));
}

static void end(struct torch_pool_id id, struct CUstream_st *stream)
{
	struct vpmm_host_graph *graph;

	assert_ok(vpmm_host_capture_end(stream, &graph));
	torch.vpmm_torch_end(0, id);
	assert_ok(vpmm_host_graph_destroy(graph));
}

/* A graph that allocates and frees a block. Returns where it was. */
static char *capture(struct torch_pool_id id, size_t size, struct CUstream_st *stream)
{
	char *a;

	begin(id, stream);
	a = torch_new(size, 0, stream);
	torch.vpmm_torch_free(a, size, 0, stream);
	end(id, stream);
	return a;
}

static void assert_nothing_left(void)
{
	struct vpmm_torch_counts counts = torch_counts(0);

	g_assert_cmpuint(counts.pools, ==, 0);
	g_assert_cmpuint(counts.graphs, ==, 0);
	g_assert_cmpuint(counts.kept, ==, 0);
	g_assert_cmpuint(torch_stats(0).held, ==, 0);
	g_assert_cmpuint(torch_stats(0).live, ==, 0);
	assert_ok(vpmm_pool_check(NULL));
}

static void test_shares(void)
{
	struct CUstream_st *stream = new_stream();
	char *a, *b, *c;

	/* Two graphs of one pool, and one of another. */
	a = capture(mine, 4 * MIB, stream);
	b = capture(mine, 4 * MIB, stream);
	c = capture(other, 4 * MIB, stream);
	g_assert_true(b == a);
	g_assert_true(c != a);
	g_assert_cmpuint(torch_counts(0).pools, ==, 2);
	g_assert_cmpuint(torch_counts(0).graphs, ==, 3);
	g_assert_cmpuint(torch_stats(0).held, ==, 8 * MIB);

	/* The first pool was begun twice, so it ends when both graphs have gone. */
	torch.vpmm_torch_release(0, mine);
	g_assert_cmpuint(torch_stats(0).held, ==, 8 * MIB);
	torch.vpmm_torch_release(0, mine);
	g_assert_cmpuint(torch_stats(0).held, ==, 4 * MIB);
	torch.vpmm_torch_release(0, other);
	assert_nothing_left();
	assert_ok(vpmm_host_stream_destroy(stream));
}

static void test_result(void)
{
	struct CUstream_st *stream = new_stream();
	char *a, *b;

	/* A result outlives its capture, and is the pool's once it is freed. */
	begin(mine, stream);
	a = torch_new(4 * MIB, 0, stream);
	end(mine, stream);
	b = capture(mine, 4 * MIB, stream);
	g_assert_true(b != a);
	torch.vpmm_torch_free(a, 4 * MIB, 0, stream);
	g_assert_cmpuint(torch_stats(0).held, ==, 8 * MIB);
	b = torch_new(4 * MIB, 0, stream);
	g_assert_true(b != a);
	torch.vpmm_torch_free(b, 4 * MIB, 0, stream);
	g_assert_true(capture(mine, 4 * MIB, stream) == a);
	for (int i = 0; i < 3; i++)
		torch.vpmm_torch_release(0, mine);
	assert_nothing_left();
	assert_ok(vpmm_host_stream_destroy(stream));
}

static void test_put_off(void)
{
	struct CUstream_st *first = new_stream(), *second = new_stream();

	/* A graph goes while another is captured: to wait for the device would break that. */
	capture(mine, 4 * MIB, first);
	begin(other, second);
	torch.vpmm_torch_free(torch_new(MIB, 0, second), MIB, 0, second);
	torch.vpmm_torch_release(0, mine);
	g_assert_cmpuint(torch_counts(0).pools, ==, 1);
	g_assert_cmpuint(torch_counts(0).graphs, ==, 2);

	/* It is retired when the capture ends. */
	end(other, second);
	g_assert_cmpuint(torch_counts(0).graphs, ==, 1);
	torch.vpmm_torch_release(0, other);
	g_assert_cmpuint(torch_counts(0).graphs, ==, 0);
	g_assert_cmpuint(torch_stats(0).held, ==, 0);
	assert_ok(vpmm_host_stream_destroy(first));
	assert_ok(vpmm_host_stream_destroy(second));
}

static void test_not_captured(void)
{
	struct CUstream_st *stream = new_stream();
	char *a;

	/* use_mem_pool() begins and ends without a capture. */
	torch.vpmm_torch_begin(0, mine, NULL);
	a = torch_new(MIB, 0, stream);
	torch.vpmm_torch_free(a, MIB, 0, stream);
	torch.vpmm_torch_end(0, mine);
	g_assert_cmpuint(torch_counts(0).graphs, ==, 0);
	g_assert_cmpuint(torch_stats(0).held, ==, 0);
	torch.vpmm_torch_release(0, mine);
	g_assert_cmpuint(torch_counts(0).pools, ==, 0);

	/* What was never begun can end. */
	torch.vpmm_torch_end(0, other);
	torch.vpmm_torch_release(0, other);
	assert_ok(vpmm_host_stream_destroy(stream));
}

static void test_beside(void)
{
	struct CUstream_st *stream = new_stream();
	char *a, *b;

	/* A tensor of the default stream dies during a capture, and another one is made. */
	a = torch_new(4 * MIB, 0, NULL);
	begin(mine, stream);
	torch.vpmm_torch_free(a, 4 * MIB, 0, NULL);
	b = torch_new(MIB, 0, NULL);
	end(mine, stream);

	/* Nothing is lost. */
	torch.vpmm_torch_free(b, MIB, 0, NULL);
	torch.vpmm_torch_free(torch_new(MIB, 0, NULL), MIB, 0, NULL);
	torch.vpmm_torch_release(0, mine);
	g_assert_cmpuint(torch_counts(0).failed, ==, 0);
	assert_nothing_left();
	assert_ok(vpmm_host_stream_destroy(stream));
}

static void test_invalidated(void)
{
	struct CUstream_st *stream = new_stream();
	struct vpmm_host_graph *graph;
	char *a;

	/* A capture has failed, and its memory is freed before PyTorch ends it. */
	begin(mine, stream);
	a = torch_new(4 * MIB, 0, stream);
	vpmm_host_stream_submit(NULL);
	torch_free_fails = EBUSY;
	torch.vpmm_torch_free(a, 4 * MIB, 0, stream);
	g_assert_cmpuint(torch_counts(0).kept, ==, 1);
	g_assert_cmpuint(torch_stats(0).live, ==, 4 * MIB);

	/* PyTorch fails to end it, and tells nobody. The free is done later, and the memory is no graph's any more. */
	torch.vpmm_torch_reset();
	g_assert_cmpuint(torch_counts(0).kept, ==, 1);
	g_assert_cmpuint(torch_counts(0).graphs, ==, 1);
	g_assert_cmpint(vpmm_host_capture_end(stream, &graph), <, 0);
	torch_free_fails = 0;
	torch.vpmm_torch_reset();
	torch.vpmm_torch_free(torch_new(MIB, 0, stream), MIB, 0, stream);
	assert_nothing_left();
	g_assert_cmpuint(torch_counts(0).failed, ==, 0);
	assert_ok(vpmm_host_stream_destroy(stream));
}

static void test_failed_early(void)
{
	struct CUstream_st *stream = new_stream();
	struct vpmm_host_graph *graph;

	/*
	 * A graph goes while a capture has failed of which nothing else is known: its memory waits for the end of that.
	 */
	capture(mine, 4 * MIB, stream);
	g_assert_cmpuint(torch.vpmm_torch_begun(), ==, 0);
	begin(other, stream);
	g_assert_cmpuint(torch.vpmm_torch_begun(), ==, 1);
	vpmm_host_stream_submit(NULL);
	g_assert_cmpint(vpmm_host_capture_end(stream, &graph), <, 0);
	torch.vpmm_torch_release(0, mine);
	torch.vpmm_torch_reset();
	g_assert_cmpuint(torch_stats(0).held, ==, 4 * MIB);
	torch.vpmm_torch_capture_failed(1);
	g_assert_cmpuint(torch_counts(0).pools, ==, 1);
	torch.vpmm_torch_capture_failed(0);
	assert_nothing_left();

	/* One that has memory, in a pool with another graph. */
	capture(mine, 4 * MIB, stream);
	begin(mine, stream);
	torch.vpmm_torch_free(torch_new(4 * MIB, 0, stream), 4 * MIB, 0, stream);
	vpmm_host_stream_submit(NULL);
	g_assert_cmpint(vpmm_host_capture_end(stream, &graph), <, 0);
	torch.vpmm_torch_capture_failed(0);
	g_assert_cmpuint(torch.vpmm_torch_begun(), ==, 0);
	g_assert_cmpuint(torch_counts(0).pools, ==, 1);
	torch.vpmm_torch_release(0, mine);
	assert_nothing_left();
	assert_ok(vpmm_host_stream_destroy(stream));
}

static void test_failed_inside(void)
{
	struct CUstream_st *stream = new_stream();
	char *a;

	/* A capture that does not begin, inside another one, which goes on. */
	begin(mine, stream);
	a = torch_new(4 * MIB, 0, stream);
	torch.vpmm_torch_begin(0, other, NULL);
	g_assert_cmpuint(torch.vpmm_torch_begun(), ==, 2);
	torch.vpmm_torch_capture_failed(1);
	g_assert_cmpuint(torch_counts(0).pools, ==, 1);

	/* What was said to have failed has not. */
	torch.vpmm_torch_capture_failed(0);
	g_assert_cmpuint(torch.vpmm_torch_begun(), ==, 1);
	g_assert_cmpuint(torch_counts(0).graphs, ==, 1);
	torch.vpmm_torch_free(a, 4 * MIB, 0, stream);
	end(mine, stream);
	torch.vpmm_torch_capture_failed(0);
	g_assert_cmpuint(torch_counts(0).graphs, ==, 1);
	g_assert_cmpuint(torch_stats(0).held, ==, 4 * MIB);
	torch.vpmm_torch_release(0, mine);
	assert_nothing_left();
	assert_ok(vpmm_host_stream_destroy(stream));
}

static void test_used(void)
{
	struct CUstream_st *stream = new_stream(), *captured = new_stream();
	char *a;

	/* A tensor from before the capture is used by it, and freed. */
	a = torch_new(4 * MIB, 0, stream);
	begin(mine, captured);
	torch.vpmm_torch_record_stream(a, captured);
	end(mine, captured);
	g_assert_cmpuint(torch_counts(0).graphs, ==, 1);
	torch.vpmm_torch_free(a, 4 * MIB, 0, stream);
	g_assert_cmpuint(torch_stats(0).held, ==, 4 * MIB);
	torch.vpmm_torch_release(0, mine);
	torch.vpmm_torch_free(torch_new(MIB, 0, stream), MIB, 0, stream);
	assert_nothing_left();
	assert_ok(vpmm_host_stream_destroy(stream));
	assert_ok(vpmm_host_stream_destroy(captured));
}

int main(int argc, char **argv)
{
	g_setenv("VPMM_BACKEND", "host", TRUE);
	g_setenv("VPMM_VA_SIZE", "1G", TRUE);
	g_setenv("VPMM_HOST_CAPACITY", "64M", TRUE);
	g_test_init(&argc, &argv, NULL);
	torch_open();
	torch.vpmm_torch_init(1);
	g_test_add_func("/torch/graphs/shares", test_shares);
	g_test_add_func("/torch/graphs/beside", test_beside);
	g_test_add_func("/torch/graphs/used", test_used);
	g_test_add_func("/torch/graphs/put-off", test_put_off);
	g_test_add_func("/torch/graphs/not-captured", test_not_captured);
	g_test_add_func("/torch/graphs/invalidated", test_invalidated);
	g_test_add_func("/torch/graphs/failed-early", test_failed_early);
	g_test_add_func("/torch/graphs/failed-inside", test_failed_inside);
	g_test_add_func("/torch/graphs/result", test_result);
	return g_test_run();
}
