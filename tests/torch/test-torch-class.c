// SPDX-License-Identifier: LGPL-2.1-or-later
/* What the allocator class calls, without PyTorch: pools as PyTorch's own allocator has them. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "torch/class-fixture.h"

static void test_ordinary(void)
{
	struct torch_stats before = stats_now(), now;
	struct torch_piece block;
	size_t size;
	void *base;
	char *a, *b;

	/* The first allocation sets what the program has been allowed. */
	g_assert_cmpfloat(table->fraction(0), ==, 0.5);
	a = new_block(1000, NULL, NULL);
	g_assert_cmpfloat(table->fraction(0), ==, 0.5);
	assert_ok(table->set_fraction(0, 1));
	b = new_block(3 * MIB, NULL, NULL);
	now = stats_now();
	g_assert_cmpint(now.allocation[TORCH_ALL].current, ==, before.allocation[TORCH_ALL].current + 2);
	g_assert_cmpint(now.allocation[TORCH_SMALL].current, ==, before.allocation[TORCH_SMALL].current + 1);
	g_assert_cmpint(now.requested_bytes[TORCH_ALL].current, ==,
			before.requested_bytes[TORCH_ALL].current + 1000 + 3 * MIB);
	g_assert_cmpint(now.allocated_bytes[TORCH_SMALL].current, ==,
			before.allocated_bytes[TORCH_SMALL].current + 1024);
	g_assert_cmpint(now.reserved_bytes[TORCH_ALL].current, >=, now.allocated_bytes[TORCH_ALL].current);
	assert_ok(table->base(b + MIB, &base, &size));
	g_assert_true(base == b);
	g_assert_cmpuint(size, ==, 3 * MIB);
	/* A block is found by its start alone. */
	assert_ok(table->find(b, &block));
	g_assert_cmpuint(block.addr, ==, (uintptr_t)b);
	g_assert_cmpuint(block.requested, ==, 3 * MIB);
	g_assert_true(block.allocated && block.active && block.grows && block.large);
	g_assert_cmpint(table->find(b + MIB, &block), ==, -EINVAL);
	drop(a);
	drop(b);
	g_assert_cmpint(table->find(b, &block), ==, -EINVAL);
	/* What is no block is refused, and changes nothing. */
	g_assert_cmpint(table->release(b, &block), ==, -EINVAL);
	g_assert_cmpuint(torch_counts(0).unknown, ==, 1);
	now = stats_now();
	g_assert_cmpint(now.allocated_bytes[TORCH_ALL].current, ==, before.allocated_bytes[TORCH_ALL].current);
	g_assert_cmpint(now.allocated_bytes[TORCH_ALL].peak, >=, 3 * MIB);
	table->reset_peaks(0);
	table->reset_accumulated(0);
	now = stats_now();
	g_assert_cmpint(now.allocated_bytes[TORCH_ALL].peak, ==, now.allocated_bytes[TORCH_ALL].current);
	g_assert_cmpint(now.allocation[TORCH_ALL].allocated, ==, 0);
	/* What vpmm.torch tells knows no reset. */
	g_assert_cmpuint(torch_counts(0).allocs, >=, 2);
}

/* Sizes of segments, places in them, and merging: as PyTorch's own allocator shows them. */
static void test_places(void)
{
	const struct torch_id id = { 0, 1 };
	struct torch_pool *pool = table->begin(0, id, 1);
	struct torch_piece block;
	char *a, *b, *c, *large;
	size_t size;
	void *base;

	a = new_block(1, NULL, pool);
	b = new_block(513, NULL, pool);
	c = new_block(MIB, NULL, pool);
	g_assert_true(b == a + 512 && c == b + 1024);
	assert_ok(table->base(b, &base, &size));
	g_assert_true(base == a);
	g_assert_cmpuint(size, ==, 2 * MIB);
	assert_ok(table->find(b, &block));
	g_assert_cmpuint(block.size, ==, 1024);
	g_assert_true(block.id.b == id.b && !block.grows && !block.large);
	large = new_block(MIB + 1, NULL, pool);
	assert_ok(table->base(large, &base, &size));
	g_assert_cmpuint(size, ==, 20 * MIB);
	g_assert_cmpuint(count_segments(id), ==, 2);
	/* The smallest that fits, and the lowest of those. */
	drop(b);
	g_assert_true(new_block(1024, NULL, pool) == b);
	drop(b);
	drop(a);
	g_assert_true(new_block(1536, NULL, pool) == a);
	/* Another stream has nothing of it. */
	drop(a);
	g_assert_cmpuint(stats_now().inactive_split[TORCH_SMALL].current, >, 0);
	drop(c);
	drop(large);
	g_assert_cmpuint(stats_now().inactive_split[TORCH_ALL].current, ==, 0);
	end_pool(id);
	g_assert_cmpuint(class_come, ==, class_gone);
	g_assert_cmpint(stats_now().segment[TORCH_SMALL].current, ==, 0);
}

static void test_streams(void)
{
	const struct torch_id id = { 0, 2 }, other = { 0, 3 };
	struct torch_pool *pool = table->begin(0, id, 1);
	struct CUstream_st *stream;
	struct torch_stats now;
	char *a, *b;

	assert_ok(vpmm_host_stream_create(&stream));
	a = new_block(4096, NULL, pool);
	b = new_block(4096, stream, pool);
	g_assert_true(ABS(a - b) >= (ptrdiff_t)MIB);
	/* In a pool that is begun no event can be recorded; the block waits for that, and then for the event. */
	table->use(a, stream);
	class_passed = false;
	drop(a);
	g_assert_cmpuint(class_events, ==, 0);
	now = stats_now();
	g_assert_cmpint(now.active[TORCH_ALL].current, ==, now.allocation[TORCH_ALL].current + 1);
	table->end(0, id, 1);
	now = stats_now();
	g_assert_cmpuint(class_events, ==, 1);
	g_assert_cmpint(now.active[TORCH_ALL].current, ==, now.allocation[TORCH_ALL].current + 1);
	class_captures = table->begin(0, other, 1);
	g_assert_true(new_block(4096, NULL, pool) != a);
	class_captures = false;
	end_pool(other);
	class_passed = true;
	now = stats_now();
	g_assert_cmpuint(class_events, ==, 0);
	g_assert_cmpint(now.active[TORCH_ALL].current, ==, now.allocation[TORCH_ALL].current);
	drop(new_block(4096, NULL, pool));
	drop(a + 4096);
	drop(b);
	assert_ok(table->drop(0, id));
	table->trim(0, none);
	g_assert_cmpint(table->uses(0, id), ==, -ENOENT);
	assert_ok(vpmm_host_stream_complete(stream, UINT_MAX));
	assert_ok(vpmm_host_stream_destroy(stream));
}

/*
 * A use that there is no host memory for: the block serves nobody any more, as nothing tells when the stream is done.
 */
static void test_use_without_memory(void)
{
	const struct torch_id id = { 0, 25 };
	struct CUstream_st *streams[2];
	struct torch_pool *pool;
	char *a, *b;

	if (!class_has_realloc()) {
		g_test_skip("another realloc() has taken the place of this program's, as under valgrind");
		return;
	}
	pool = table->begin(0, id, 0);
	assert_ok(vpmm_host_stream_create(&streams[0]));
	assert_ok(vpmm_host_stream_create(&streams[1]));
	a = new_block(4096, NULL, pool);
	b = new_block(4096, NULL, pool);
	table->use(b, streams[0]);
	class_no_memory = true;
	table->use(a, streams[0]);
	table->use(b, streams[1]);
	class_no_memory = false;
	table->use(a, streams[0]);
	drop(a);
	drop(b);
	g_assert_true(new_block(4096, NULL, pool) == b + 4096);
	drop(b + 4096);
	table->end(0, id, 0);
	assert_ok(table->drop(0, id));
	table->trim(0, id);
	g_assert_cmpuint(count_segments(id), ==, 1);
	assert_ok(vpmm_host_stream_destroy(streams[0]));
	assert_ok(vpmm_host_stream_destroy(streams[1]));
}

/* Uses, and what becomes of memory without one. */
static void test_uses(void)
{
	const struct torch_id id = { 7, 0 };
	struct torch_pool *pool;
	char *a;

	g_assert_cmpint(table->drop(0, id), ==, -ENOENT);
	assert_ok(table->join(0, id, NULL));
	pool = table->begin(0, id, 1);
	g_assert_cmpint(table->uses(0, id), ==, 2);
	g_assert_cmpuint(torch_counts(0).pools, ==, 1);
	a = new_block(100, NULL, pool);
	table->end(0, id, 1);
	assert_ok(table->drop(0, id));
	/* In use: nothing goes. */
	table->trim(0, id);
	g_assert_cmpuint(count_segments(id), ==, 1);
	assert_ok(table->drop(0, id));
	table->trim(0, none);
	g_assert_cmpuint(count_segments(id), ==, 1);
	drop(a);
	table->trim(0, none);
	g_assert_cmpint(table->uses(0, id), ==, -ENOENT);
}

/* Segments share no page with one another or with ordinary memory: what goes leaves nothing behind. */
static void test_whole_pages(void)
{
	const struct torch_id id = { 11, 0 };
	char *odd = new_block(10 * MIB - 512, NULL, NULL), *first, *second;
	struct torch_stats before = stats_now(), after;
	struct torch_pool *pool = table->begin(0, id, 1);

	first = new_block(10 * MIB - 512, NULL, pool);
	drop(new_block(10 * MIB - 512, NULL, pool));
	second = new_block(11 * MIB, NULL, pool);
	table->end(0, id, 1);
	assert_ok(table->drop(0, id));
	drop(first);
	table->trim(0, none);
	after = stats_now();
	g_assert_cmpint(after.reserved_bytes[TORCH_LARGE].current - before.reserved_bytes[TORCH_LARGE].current, ==,
			12 * MIB);
	g_assert_cmpuint((uintptr_t)second % (2 * MIB), ==, 0);
	drop(second);
	drop(odd);
	g_assert_cmpint(table->trim(0, none), ==, 0);
	g_assert_cmpint(table->uses(0, id), ==, -ENOENT);
}

/* The cache is emptied of memory that work is pending on as soon as that is done. */
static void test_trim_pending(void)
{
	struct CUstream_st *stream;
	char *a;

	assert_ok(vpmm_host_stream_create(&stream));
	table->trim(0, none);
	a = new_block(6 * MIB, stream, NULL);
	assert_ok(vpmm_host_stream_submit(stream));
	drop(a);
	g_assert_cmpint(table->trim(0, none), ==, 1);
	/* A wait would invalidate a capture. */
	table->begin(0, (struct torch_id){ 12, 0 }, 1);
	g_assert_cmpint(table->trim(0, none), ==, 0);
	end_pool((struct torch_id){ 12, 0 });
	assert_ok(vpmm_host_stream_complete(stream, UINT_MAX));
	g_assert_cmpint(table->trim(0, none), ==, 0);
	assert_ok(vpmm_stream_retire(NULL, stream));
	assert_ok(vpmm_host_stream_destroy(stream));
}

/* So it is of memory of a pool without a use that other streams use: it goes at once when they have passed. */
static void test_trim_waiting(void)
{
	const struct torch_id id = { 0, 16 };
	struct torch_pool *pool = table->begin(0, id, 0);
	struct CUstream_st *stream;
	char *a;

	assert_ok(vpmm_host_stream_create(&stream));
	a = new_block(6 * MIB, NULL, pool);
	table->use(a, stream);
	class_passed = false;
	drop(a);
	table->end(0, id, 0);
	g_assert_cmpint(table->trim(0, id), ==, 0);
	assert_ok(table->drop(0, id));
	g_assert_cmpint(table->trim(0, id), ==, 1);
	g_assert_cmpint(table->trim(0, none), ==, 1);
	g_assert_cmpint(table->trim(0, (struct torch_id){ 0, 17 }), ==, 0);
	table->begin(0, (struct torch_id){ 12, 0 }, 1);
	g_assert_cmpint(table->trim(0, none), ==, 0);
	end_pool((struct torch_id){ 12, 0 });
	class_passed = true;
	g_assert_cmpint(table->trim(0, id), ==, 0);
	g_assert_cmpint(table->uses(0, id), ==, -ENOENT);
	assert_ok(vpmm_host_stream_destroy(stream));
}

/* A pause takes whole segments away: those of a tag have blocks of that tag alone. */
static void test_tags(void)
{
	const struct torch_id id = { 0, 22 };
	struct torch_pool *pool = table->begin(0, id, 0);
	struct torch_piece block;
	char *tagged, *plain;
	vpmm_tag tag;

	assert_ok(vpmm_tag_open("weights", VPMM_TAG_PAUSABLE, &tag));
	vpmm_tag_set(tag | VPMM_TAG_DROP);
	tagged = new_block(1000, NULL, pool);
	vpmm_tag_set(0);
	plain = new_block(1000, NULL, pool);
	*plain = 7;
	assert_ok(vpmm_pause(NULL, tag, 0));
	g_assert_cmpint(*plain, ==, 7);
	drop(new_block(100, NULL, pool));
	/* There is memory left in the segment, but it is away. */
	vpmm_tag_set(tag | VPMM_TAG_DROP);
	g_assert_cmpint(table->alloc(&block, 0, 100, 0, NULL, pool), ==, -EBUSY);
	/* Nor is it lent, to a request that began before the pause. */
	assert_ok(table->set_lends(0, id, 1));
	g_assert_cmpint(table->alloc_pressed(&block, 0, 100, 0, NULL, NULL), ==, -EBUSY);
	assert_ok(vpmm_resume(NULL, tag, VPMM_STREAM_ANY));
	assert_ok(table->alloc_pressed(&block, 0, 100, 0, NULL, NULL));
	g_assert_true((char *)(uintptr_t)block.addr == tagged + 1024);
	drop(tagged + 1024);
	assert_ok(table->set_lends(0, id, 0));
	g_assert_true(new_block(100, NULL, pool) == tagged + 1024);
	g_assert_cmpint(vpmm_tag_set(0), ==, tag | VPMM_TAG_DROP);
	g_assert_cmpuint(count_segments(id), ==, 2);
	drop(tagged);
	drop(tagged + 1024);
	drop(plain);
	table->end(0, id, 0);
	assert_ok(table->drop(0, id));
	table->trim(0, id);
	g_assert_cmpint(table->uses(0, id), ==, -ENOENT);
}

/* vpmm.torch.trim() gives back what emptying the cache does. */
static void test_trim_module(void)
{
	const struct torch_id id = { 0, 23 };
	char *a = new_block(6 * MIB, NULL, table->begin(0, id, 0));
	size_t released;

	table->end(0, id, 0);
	assert_ok(table->drop(0, id));
	drop(a);
	assert_ok(torch.vpmm_torch_trim(0, &released));
	g_assert_cmpuint(released, >=, 20 * MIB);
	g_assert_cmpint(table->uses(0, id), ==, -ENOENT);
}

/* Allocations can go to a pool for long, without a capture: that holds nothing up, and the pool stays. */
static void test_begun(void)
{
	const struct torch_id id = { 8, 0 }, other = { 9, 0 };
	struct torch_pool *pool = table->begin(0, id, 0);
	char *a = new_block(100, NULL, table->begin(0, other, 1));

	drop(a);
	table->end(0, other, 1);
	assert_ok(table->drop(0, other));
	table->trim(0, none);
	g_assert_cmpint(table->uses(0, other), ==, -ENOENT);
	drop(new_block(100, NULL, pool));
	g_assert_cmpuint(count_segments(id), ==, 1);
	assert_ok(table->drop(0, id));
	table->trim(0, none);
	g_assert_cmpuint(count_segments(id), ==, 0);
	drop(new_block(100, NULL, pool));
	table->end(0, id, 0);
	table->trim(0, none);
	g_assert_cmpint(table->uses(0, id), ==, -ENOENT);
}

/* Settings of PyTorch's make blocks larger than what was asked for. */
static void test_least(void)
{
	const struct torch_id id = { 10, 0 };
	struct torch_pool *pools[] = { NULL, table->begin(0, id, 1) };
	struct torch_stats before = stats_now(), after;
	struct torch_piece block;
	size_t size;
	void *base;

	for (size_t i = 0; i < G_N_ELEMENTS(pools); i++) {
		assert_ok(table->alloc(&block, 0, 3 * MIB, 4 * MIB, NULL, pools[i]));
		g_assert_cmpuint(block.size, ==, 4 * MIB);
		g_assert_cmpuint(block.requested, ==, 3 * MIB);
		assert_ok(table->base((void *)(uintptr_t)block.addr, &base, &size));
		g_assert_cmpuint(size, >=, 4 * MIB);
		after = stats_now();
		g_assert_cmpint(after.active_bytes->current - before.active_bytes->current, ==, 4 * MIB);
		g_assert_cmpint(after.requested_bytes->current - before.requested_bytes->current, ==, 3 * MIB);
		drop((void *)(uintptr_t)block.addr);
	}
	end_pool(id);
}

static unsigned int taken, given, forgotten;

static void *take(void *data, int device, size_t size, struct CUstream_st *stream)
{
	(void)device;
	(void)stream;
	if (size > *(size_t *)data)
		return NULL;
	taken++;
	return g_malloc(size);
}

static void give(void *data, int device, void *ptr)
{
	(void)data;
	(void)device;
	given++;
	g_free(ptr);
}

static void forget_source(void *data)
{
	(void)data;
	forgotten++;
}

/* A pool with an allocator of its own; whole blocks; and lending to requests that would fail. */
static void test_source(void)
{
	const struct torch_id id = { 0, 9 };
	size_t most = 32 * MIB;
	const struct torch_source source = { take, give, forget_source, &most };
	struct torch_piece block;
	struct torch_pool *pool;
	char *a, *b, *c;

	assert_ok(table->join(0, id, &source));
	assert_ok(table->set_whole(0, id));
	pool = table->begin(0, id, 1);
	a = new_block(5 * MIB, NULL, pool);
	b = new_block(5 * MIB, NULL, pool);
	g_assert_cmpuint(taken, ==, 2);
	g_assert_cmpint(table->alloc(&block, 0, 2 * most, 0, NULL, pool), ==, -ENOMEM);
	table->end(0, id, 1);
	assert_ok(table->drop(0, id));
	drop(a);
	/* It lends what is free once it is told to. */
	c = new_block(CAPACITY - 10 * MIB, NULL, NULL);
	g_assert_cmpint(table->alloc_pressed(&block, 0, 20 * MIB, 0, NULL, NULL), ==, -ENOMEM);
	assert_ok(table->set_lends(0, id, 1));
	g_assert_cmpint(table->alloc_pressed(&block, 0, 20 * MIB, 0, NULL, NULL), ==, 0);
	g_assert_true((char *)(uintptr_t)block.addr == a);
	drop(a);
	assert_ok(table->set_lends(0, id, 0));
	drop(b);
	drop(c);
	assert_ok(table->drop(0, id));
	g_assert_cmpuint(given, ==, 0);
	table->trim(0, id);
	g_assert_cmpuint(given, ==, 2);
	g_assert_cmpuint(forgotten, ==, 1);
}

static char *spare;
static unsigned int asked;

static int give_spare(int device, size_t size)
{
	g_assert_cmpint(device, ==, 0);
	g_assert_cmpuint(size, ==, 40 * MIB);
	asked++;
	if (!spare)
		return 0;
	drop(spare);
	spare = NULL;
	return 1;
}

/* The program is asked before a request fails, of ordinary memory and of a pool alike. */
static void test_pressure(void)
{
	const struct torch_id id = { 0, 15 };
	struct torch_pool *pools[] = { NULL, table->begin(0, id, 1) };
	struct torch_piece block;

	assert_ok(table->set_fraction(0, 1));
	torch.vpmm_torch_set_pressure(give_spare);
	for (size_t i = 0; i < G_N_ELEMENTS(pools); i++) {
		asked = 0;
		spare = new_block(40 * MIB, NULL, NULL);
		g_assert_cmpint(table->alloc(&block, 0, 40 * MIB, 0, NULL, pools[i]), ==, -ENOMEM);
		assert_ok(table->alloc_pressed(&block, 0, 40 * MIB, 0, NULL, pools[i]));
		g_assert_cmpuint(asked, ==, 1);
		/* Nothing is left to give: the request fails. */
		g_assert_cmpint(table->alloc_pressed(&(struct torch_piece){ 0 }, 0, 40 * MIB, 0, NULL, pools[i]), ==,
				-ENOMEM);
		g_assert_cmpuint(asked, ==, 2);
		drop((void *)(uintptr_t)block.addr);
	}
	torch.vpmm_torch_set_pressure(NULL);
	end_pool(id);
}

/* Negative sizes arrive as such numbers. */
static void test_absurd(void)
{
	const struct torch_id id = { 0, 14 };
	struct torch_pool *pool = table->begin(0, id, 1);
	const size_t sizes[] = { SIZE_MAX, SIZE_MAX - 511, SIZE_MAX - MIB, (size_t)PTRDIFF_MAX + 1 };
	struct torch_piece block;

	for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
		g_assert_cmpint(table->alloc(&block, 0, sizes[i], 0, NULL, pool), ==, -ENOMEM);
		g_assert_cmpint(table->alloc(&block, 0, 1, sizes[i], NULL, pool), ==, -ENOMEM);
		g_assert_cmpint(table->alloc_pressed(&block, 0, sizes[i], 0, NULL, pool), ==, -ENOMEM);
		g_assert_cmpint(table->alloc_pressed(&block, 0, sizes[i], 0, NULL, NULL), ==, -ENOMEM);
	}
	g_assert_cmpuint(count_segments(id), ==, 0);
	end_pool(id);
}

/* Ordinary memory that is freed in a capture of its own stream does not become the graph's. */
static void test_capture(void)
{
	const struct torch_id id = { 17, 0 };
	struct CUstream_st *stream;
	struct vpmm_host_graph *graph = NULL;
	char *a;

	assert_ok(vpmm_host_stream_create(&stream));
	a = new_block(3 * MIB, stream, NULL);
	table->begin(0, id, 1);
	assert_ok(vpmm_host_capture_begin(stream));
	drop(a);
	assert_ok(vpmm_host_capture_end(stream, &graph));
	end_pool(id);
	/* Nothing waits for the graph. */
	g_assert_true(new_block(3 * MIB, stream, NULL) == a);
	drop(a);
	assert_ok(vpmm_host_graph_destroy(graph));
	assert_ok(vpmm_host_stream_complete(stream, UINT_MAX));
	assert_ok(vpmm_stream_retire(NULL, stream));
	assert_ok(vpmm_host_stream_destroy(stream));
}

static void test_fraction(void)
{
	struct torch_piece block;

	assert_ok(table->set_fraction(0, 0.25));
	g_assert_cmpfloat(table->fraction(0), ==, 0.25);
	g_assert_cmpint(table->alloc(&block, 0, CAPACITY / 2, 0, NULL, NULL), ==, -ENOMEM);
	assert_ok(table->set_fraction(0, 1));
	drop(new_block(CAPACITY / 2, NULL, NULL));
	/* The only device does not stand in for another one. */
	g_assert_cmpint(table->set_fraction(1, 0.5), ==, -ENXIO);
	g_assert_cmpfloat(table->fraction(0), ==, 1);
	drop(new_block(CAPACITY / 2, NULL, NULL));
	g_assert_cmpint(table->alloc(&block, 1, 100, 0, NULL, NULL), ==, -ENXIO);
	g_assert_cmpint(table->set_fraction(64, 1), ==, -EINVAL);
}

/* What the program sets before it allocates counts, and not what it is configured with. */
static void test_fraction_first(void)
{
	if (g_test_subprocess()) {
		assert_ok(table->set_fraction(0, 1));
		new_block(1000, NULL, NULL);
		g_assert_cmpfloat(table->fraction(0), ==, 1);
		return;
	}
	g_test_trap_subprocess(NULL, 0, 0);
	g_test_trap_assert_passed();
}

/* Threads that share a pool and ordinary memory. Each writes to what it has, and finds that again. */
static void *work_on_blocks(void *data)
{
	char *blocks[16] = { 0 };
	GRand *rand = g_rand_new_with_seed(GPOINTER_TO_UINT(g_thread_self()) | 1);
	size_t sizes[16];
	int which;

	for (int i = 0; i < 2000; i++) {
		which = g_rand_int_range(rand, 0, 16);
		if (blocks[which]) {
			g_assert_true(blocks[which][0] == which && blocks[which][sizes[which] - 1] == which);
			drop(blocks[which]);
			blocks[which] = NULL;
			continue;
		}
		sizes[which] = (size_t)g_rand_int_range(rand, 1, 40000);
		blocks[which] = new_block(sizes[which], NULL, g_rand_boolean(rand) ? data : NULL);
		blocks[which][0] = blocks[which][sizes[which] - 1] = (char)which;
	}
	for (which = 0; which < 16; which++)
		if (blocks[which])
			drop(blocks[which]);
	g_rand_free(rand);
	return NULL;
}

static void test_threads(void)
{
	const struct torch_id id = { 0, 19 };
	struct torch_pool *pool = table->begin(0, id, 1);
	int64_t before = stats_now().allocation[TORCH_ALL].current;
	GThread *threads[3];
	guint i;

	for (i = 0; i < G_N_ELEMENTS(threads); i++)
		threads[i] = g_thread_new("blocks", work_on_blocks, pool);
	for (i = 0; i < 20; i++) {
		table->trim(0, none);
		check_list_now(none);
		stats_now();
	}
	for (i = 0; i < G_N_ELEMENTS(threads); i++)
		g_thread_join(threads[i]);
	g_assert_cmpint(stats_now().allocation[TORCH_ALL].current, ==, before);
	end_pool(id);
}

/* A child has nothing to free, and asks for nothing. */
static void test_fork(void)
{
	char *a = new_block(100, NULL, NULL);
	struct torch_piece block;
	int status;
	pid_t pid;

	pid = fork();
	if (!pid)
		_exit(table->release(a, &block) || table->alloc(&block, 0, 100, 0, NULL, NULL) != -EBUSY);
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	g_assert_cmpint(status, ==, 0);
	drop(a);
}

static void *poll_pools(void *data)
{
	(void)data;
	stats_now();
	return NULL;
}

/* Another thread has the lock of the pools when a child is forked, in which objects release theirs. */
static void test_fork_locked(void)
{
	const struct torch_id id = { 0, 21 };
	struct torch_pool *pool = table->begin(0, id, 0);
	struct CUstream_st *stream;
	sem_t querying;
	pthread_t thread;
	int status;
	pid_t pid;
	char *a;

	assert_ok(vpmm_host_stream_create(&stream));
	a = new_block(100, NULL, pool);
	table->use(a, stream);
	class_passed = false;
	drop(a);
	sem_init(&querying, 0, 0);
	class_querying = &querying;
	g_assert_cmpint(pthread_create(&thread, NULL, poll_pools, NULL), ==, 0);
	sem_wait(&querying);
	pid = fork();
	if (!pid) {
		alarm(10);
		table->end(0, id, 0);
		_exit(table->uses(0, id) != 1 || table->drop(0, id) || table->uses(0, id) || table->trim(0, id));
	}
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	g_assert_cmpint(status, ==, 0);
	g_assert_cmpint(pthread_join(thread, NULL), ==, 0);
	class_querying = NULL;
	class_passed = true;
	table->end(0, id, 0);
	assert_ok(table->drop(0, id));
	table->trim(0, id);
	g_assert_cmpint(table->uses(0, id), ==, -ENOENT);
	sem_destroy(&querying);
	assert_ok(vpmm_host_stream_destroy(stream));
}

int main(int argc, char **argv)
{
	class_open(&argc, &argv);
	g_test_add_func("/torch-class/ordinary", test_ordinary);
	g_test_add_func("/torch-class/places", test_places);
	g_test_add_func("/torch-class/streams", test_streams);
	g_test_add_func("/torch-class/uses", test_uses);
	g_test_add_func("/torch-class/whole-pages", test_whole_pages);
	g_test_add_func("/torch-class/trim-pending", test_trim_pending);
	g_test_add_func("/torch-class/trim-waiting", test_trim_waiting);
	g_test_add_func("/torch-class/trim-module", test_trim_module);
	g_test_add_func("/torch-class/tags", test_tags);
	g_test_add_func("/torch-class/begun", test_begun);
	g_test_add_func("/torch-class/least", test_least);
	g_test_add_func("/torch-class/source", test_source);
	class_restore_tests();
	g_test_add_func("/torch-class/pressure", test_pressure);
	g_test_add_func("/torch-class/absurd", test_absurd);
	g_test_add_func("/torch-class/capture", test_capture);
	g_test_add_func("/torch-class/fraction", test_fraction);
	g_test_add_func("/torch-class/fraction-first", test_fraction_first);
	g_test_add_func("/torch-class/threads", test_threads);
	g_test_add_func("/torch-class/fork", test_fork);
	g_test_add_func("/torch-class/fork-locked", test_fork_locked);
	class_statistics_tests();
	/* Leaves what nothing gives back. */
	g_test_add_func("/torch-class/use-without-memory", test_use_without_memory);
	return g_test_run();
}
