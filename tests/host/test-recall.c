// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A program of one stream that repeats itself gets its addresses back, and memory goes from one of them to another for
 * that, which the pool may note late. Whoever comes next finds it right. No test checks the pool earlier, as that looks
 * at everything. The only stream waits for nothing, so what another stream waits for later has to be noted all the
 * same.
 */
#include <errno.h>

#include "calls/pool.h"
#include "support/fault.h"
#include "support/fixture.h"

static void inside(struct core *core) NO_LOCK_ANALYSIS;
static void inside(struct core *core)
{
	lock_acquire(&core->lock);
	assert_ok(core->backend->ops->enter(core->backend));
}

static void outside(struct core *core) NO_LOCK_ANALYSIS;
static void outside(struct core *core)
{
	core->backend->ops->leave(core->backend);
	lock_release(&core->lock);
}

/* The pool learns which work of a stream is complete, and meets another before that, if there is one. */
static void poll_stream(struct fixture *f, struct CUstream_st *handle, struct CUstream_st *other)
{
	struct core *core = &f->pool->core;
	struct stream *stream;

	inside(core);
	if (other)
		assert_ok(stream_get(&core->streams, other, &stream));
	assert_ok(stream_get(&core->streams, handle, &stream));
	assert_ok(stream_poll(stream));
	outside(core);
}

static void *get(struct fixture *f, size_t size)
{
	void *ptr;

	assert_ok(vpmm_malloc(f->pool, &ptr, size, f->streams[0]));
	return ptr;
}

static void *put(struct fixture *f, void *ptr)
{
	assert_ok(vpmm_free(f->pool, ptr, f->streams[0]));
	return ptr;
}

static void resize(struct fixture *f, void **ptr, size_t size)
{
	assert_ok(vpmm_realloc(f->pool, ptr, size, f->streams[0]));
}

/* Nothing stays in a cache, so each malloc is one that misses, and each free has an event. */
static void open_pool(struct fixture *f)
{
	fixture_open_faulty(f, (struct vpmm_opts){ FIXTURE_PACKED });
	fixture_uncache(f);
}

/*
 * @block: a block of a page; the page behind it is free, and behind that is a hole. Return: the address where that page
 * was before: there a recall of three pages takes it.
 */
static void *stage(struct fixture *f, void **block)
{
	void *three, *two;

	open_pool(f);
	three = get(f, 3 * PAGE);
	*block = get(f, PAGE);
	put(f, three);
	g_assert_true(put(f, get(f, 3 * PAGE)) == three);
	two = get(f, 2 * PAGE);
	resize(f, block, 2 * PAGE);
	resize(f, block, PAGE);
	put(f, two);
	return three;
}

/* The pool meets a second stream, and learns that the work of the first is complete before anything else happens. */
static void test_second_stream(void)
{
	void *three, *block;
	struct fixture f;

	three = stage(&f, &block);
	g_assert_true(get(&f, 3 * PAGE) == three);
	fixture_complete(f.streams[0]);
	poll_stream(&f, f.streams[0], f.streams[1]);
	assert_ok(vpmm_pool_check(f.pool));
	fixture_malloc(&f, 1, f.streams[1]);
	fixture_free(&f, block, f.streams[0]);
	fixture_close(&f);
}

/* A block that is to move takes the page behind it to where it would go, but cannot be copied, and grows in place. */
static void test_realloc(void)
{
	uint64_t copies;
	struct fixture f;
	void *block;

	stage(&f, &block);
	copies = backend_fault_calls(f.pool->core.backend, BACKEND_OP_copy);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_map, 0, 1, -ENOMEM);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_copy, 0, 1, -ENOMEM);
	resize(&f, &block, 3 * PAGE);
	g_assert_cmpuint(backend_fault_calls(f.pool->core.backend, BACKEND_OP_copy), >, copies);
	assert_ok(vpmm_pool_check(f.pool));
	fixture_free(&f, block, f.streams[0]);
	fixture_close(&f);
}

/* Half of a page is freed at one address, and all of it used at another: others wait for the later use. */
static void test_latest(void)
{
	void *block, *two, *half, *page;
	struct fixture f;

	open_pool(&f);
	two = get(&f, 2 * PAGE);
	block = get(&f, PAGE);
	put(&f, two);
	g_assert_true(get(&f, PAGE) == two);
	half = put(&f, get(&f, PAGE / 2));
	resize(&f, &block, 2 * PAGE);
	resize(&f, &block, PAGE);
	page = put(&f, get(&f, PAGE));
	g_assert_true((char *)page == (char *)block + PAGE);
	g_assert_true(put(&f, get(&f, PAGE / 2)) == half);
	g_assert_true(get(&f, PAGE) == page);
	fixture_complete(f.streams[0]);
	poll_stream(&f, f.streams[0], NULL);
	assert_ok(vpmm_host_stream_submit(f.streams[0]));
	put(&f, page);
	g_assert_true(get(&f, PAGE / 2) == half);
	g_assert_true(fixture_malloc_bytes(&f, PAGE / 2, f.streams[1]) == (char *)half + PAGE / 2);
	fixture_submit_waits(f.streams[1]);
	fixture_close(&f);
}

/*
 * The only stream gathers a block from a range whose work is complete and from extents whose work is not. It waits for
 * neither, but another stream that frees the block is ordered after that work.
 */
static void test_gathered(void)
{
	void *pages[2], *two, *block;
	struct fixture f;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE, .limit = 5 * PAGE });
	fixture_uncache(&f);
	two = get(&f, 2 * PAGE);
	pages[0] = get(&f, PAGE);
	get(&f, PAGE);
	pages[1] = get(&f, PAGE);
	put(&f, two);
	fixture_complete(f.streams[0]);
	poll_stream(&f, f.streams[0], NULL);
	assert_ok(vpmm_host_stream_submit(f.streams[0]));
	put(&f, pages[0]);
	put(&f, pages[1]);
	block = get(&f, 4 * PAGE);
	g_assert_cmpuint(fixture_stats(&f).defrags, ==, 1);
	fixture_free(&f, block, f.streams[1]);
	g_assert_true(fixture_malloc(&f, 4, f.streams[1]) == block);
	fixture_submit_waits(f.streams[1]);
	fixture_close(&f);
}

/* The same for a block of the only stream that grows where it is, into such extents. */
static void test_grown(void)
{
	void *block, *pages[2];
	struct fixture f;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE, .limit = 4 * PAGE });
	fixture_uncache(&f);
	pages[0] = get(&f, PAGE);
	get(&f, PAGE);
	pages[1] = get(&f, PAGE);
	block = get(&f, PAGE);
	fixture_complete(f.streams[0]);
	poll_stream(&f, f.streams[0], NULL);
	assert_ok(vpmm_host_stream_submit(f.streams[0]));
	put(&f, pages[0]);
	put(&f, pages[1]);
	resize(&f, &block, 3 * PAGE);
	fixture_free(&f, block, f.streams[1]);
	g_assert_true(fixture_malloc(&f, 3, f.streams[1]) == block);
	fixture_submit_waits(f.streams[1]);
	fixture_close(&f);
}

/*
 * Old mappings are in the way of a growable block, and the work through one that a recall left is complete, but nobody
 * has asked: they go, lest the pool reserve another chunk.
 */
static void test_growable(void)
{
	void *three, *block, *two, *growable;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ .size = sizeof(struct vpmm_opts), .backend = "host",
					     .va_size = 16 * PAGE });
	fixture_uncache(&f);
	three = get(&f, 3 * PAGE);
	block = get(&f, PAGE);
	put(&f, three);
	g_assert_true(put(&f, get(&f, 3 * PAGE)) == three);
	two = get(&f, 2 * PAGE);
	resize(&f, &block, 2 * PAGE);
	assert_ok(vpmm_host_stream_submit(f.streams[0]));
	resize(&f, &block, PAGE);
	put(&f, two);
	g_assert_true(get(&f, 3 * PAGE) == three);
	fixture_complete(f.streams[0]);
	assert_ok(vpmm_malloc_growable(f.pool, &growable, PAGE, 12 * PAGE, f.streams[0]));
	g_assert_cmpuint(fixture_stats(&f).chunks, ==, 1);
	assert_ok(vpmm_pool_check(f.pool));
	fixture_close(&f);
}

/* A block that grows into the hole behind what was freed behind it. */
static void test_hole(void)
{
	void *block, *old;
	struct fixture f;

	open_pool(&f);
	old = block = get(&f, PAGE);
	put(&f, get(&f, PAGE));
	resize(&f, &block, 4 * PAGE);
	g_assert_true(block == old);
	fixture_free(&f, block, f.streams[0]);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/recall/second-stream", test_second_stream);
	g_test_add_func("/recall/realloc", test_realloc);
	g_test_add_func("/recall/latest", test_latest);
	g_test_add_func("/recall/gathered", test_gathered);
	g_test_add_func("/recall/grown", test_grown);
	g_test_add_func("/recall/growable", test_growable);
	g_test_add_func("/recall/hole", test_hole);
	return g_test_run();
}
