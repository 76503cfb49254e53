// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * All public calls beside one another: threads make calls at random, on pools that stay, on the default pool and on
 * pools that come and go. ThreadSanitizer looks on.
 */
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/budget-fixture.h"
#include "support/fixture.h"
#include "support/folder.h"
#include "support/setting.h"
#include "util/assume.h"
#include "vpmm-shared.h"

#define MIB ((size_t)1 << 20)
#define THREADS 6
#define POOLS 3
#define BLOCKS 48
#define RANGES 4
#define RANGE_BYTES (4 * MIB)
#define TAGS 3

/* Calls of each thread. */
#define STEPS 400

/* A child that hangs is a failure; nothing else depends on how long this is. */
#define HANGS_SECONDS 120

/* A block, which the thread that has taken it out of its place may use; the pool is NULL for the default pool. */
struct block {
	void *ptr;
	struct vpmm_pool *pool;
	struct CUstream_st *stream;
	size_t size;
};

static struct vpmm_pool *pools[POOLS];
static struct CUstream_st *streams[STREAMS];
static struct block *_Atomic places[BLOCKS];
static _Atomic(void *) ranges[RANGES];
/*
 * Addresses that may be of anything, or of nothing any more. A thread gives calls no such start of a block, but to look
 * it up, as the pool of a block may end while a call that has found it goes on.
 */
static _Atomic uintptr_t addresses[BLOCKS];
static vpmm_tag tags[TAGS];
static _Atomic unsigned int updates, messages;

/* A thread has a stream for captures, and a pool that all its calls are for, or NULL: any. */
struct caller {
	GRand *rand;
	struct CUstream_st *own;
	struct vpmm_pool *pool;
};

static unsigned int any(struct caller *c, unsigned int n)
{
	return (unsigned int)g_rand_int_range(c->rand, 0, (gint32)n);
}

static struct vpmm_pool *any_pool(struct caller *c)
{
	return c->pool ? c->pool : pools[any(c, POOLS)];
}

static struct CUstream_st *any_stream(struct caller *c)
{
	return any(c, 8) ? streams[any(c, STREAMS)] : c->own;
}

static size_t any_size(struct caller *c)
{
	static const size_t sizes[] = { 700, 4096, 65536, 3 * MIB, PAGE, 5 * MIB, 9 * MIB };

	return sizes[any(c, G_N_ELEMENTS(sizes))];
}

static void *any_address(struct caller *c)
{
	return (void *)(addresses[any(c, BLOCKS)] + any(c, 2) * 512);
}

static struct block *take(struct caller *c)
{
	return atomic_exchange(&places[any(c, BLOCKS)], NULL);
}

/* A call may return these errors, as others take memory, tags or ranges away. */
static void expect(int err)
{
	switch (err) {
	case -ENOMEM:
	case -EBUSY:
	case -EINVAL:
	case -ENOTSUP:
	case -EALREADY:
	case -EAGAIN:
	case -EPROTO:
	case -EXDEV:
		return;
	default:
		if (err < 0)
			g_error("%d: %s", err, vpmm_last_error());
	}
}

/* Frees what was there. */
static void put(struct caller *c, struct block *block)
{
	unsigned int i = any(c, BLOCKS);

	if (block)
		addresses[i] = (uintptr_t)block->ptr;
	block = atomic_exchange(&places[i], block);
	if (!block)
		return;
	expect(vpmm_free(any(c, 3) ? block->pool : NULL, block->ptr, any(c, 3) ? block->stream : any_stream(c)));
	g_free(block);
}

static void allocate(struct caller *c, int (*fn)(struct caller *c, struct block *block))
{
	struct block block = { .pool = any_pool(c), .stream = any_stream(c), .size = any_size(c) };
	int err = fn(c, &block);

	expect(err);
	if (!err && block.ptr)
		put(c, g_memdup2(&block, sizeof(block)));
}

static int malloc_plain(struct caller *c, struct block *b)
{
	(void)c;
	return vpmm_malloc(b->pool, &b->ptr, b->size, b->stream);
}

static int malloc_flags(struct caller *c, struct block *b)
{
	static const unsigned int flags[] = { VPMM_ZERO, VPMM_IDLE, VPMM_SHAREABLE, VPMM_ZERO | VPMM_IDLE };

	return vpmm_malloc_flags(b->pool, &b->ptr, b->size, b->stream, flags[any(c, 4)]);
}

static int malloc_aligned(struct caller *c, struct block *b)
{
	return vpmm_malloc_aligned(b->pool, &b->ptr, b->size, (size_t)1 << any(c, 24), b->stream);
}

static int malloc_growable(struct caller *c, struct block *b)
{
	(void)c;
	return vpmm_malloc_growable(b->pool, &b->ptr, b->size, 3 * b->size, b->stream);
}

static int malloc_tagged(struct caller *c, struct block *b)
{
	vpmm_tag before = vpmm_tag_set(tags[any(c, TAGS)] | (any(c, 2) ? VPMM_TAG_DROP : 0) |
				       (any(c, 2) ? VPMM_TAG_STAY : 0));
	int err = any(c, 4) ? malloc_plain(c, b) : malloc_growable(c, b);

	vpmm_tag_set(before);
	return err;
}

static void call_malloc(struct caller *c)
{
	allocate(c, malloc_plain);
}

static void call_malloc_flags(struct caller *c)
{
	allocate(c, malloc_flags);
}

static void call_malloc_aligned(struct caller *c)
{
	allocate(c, malloc_aligned);
}

static void call_malloc_growable(struct caller *c)
{
	allocate(c, malloc_growable);
}

static void call_malloc_tagged(struct caller *c)
{
	allocate(c, malloc_tagged);
}

static void call_free(struct caller *c)
{
	put(c, NULL);
}

static void call_realloc(struct caller *c)
{
	struct block *block = take(c);

	if (!block)
		return;
	expect(vpmm_realloc(any(c, 3) ? block->pool : NULL, &block->ptr, any_size(c), block->stream));
	put(c, block);
}

static void call_use(struct caller *c)
{
	struct block *block = take(c);

	if (!block)
		return;
	expect(vpmm_use(any(c, 3) ? block->pool : NULL, block->ptr, streams[any(c, STREAMS)]));
	put(c, block);
}

static void call_lookup(struct caller *c)
{
	struct vpmm_allocation found = { .size = sizeof(found) };

	expect(vpmm_lookup(any_address(c), &found));
	vpmm_host_view(any_address(c));
	/* No block starts there, so the pool of the address may end meanwhile. */
	expect(vpmm_free(NULL, (char *)any_address(c) + 1, any_stream(c)));
	expect(vpmm_use(NULL, (char *)any_address(c) + 1, streams[any(c, STREAMS)]));
}

static void call_look(struct caller *c)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };
	struct vpmm_info info = { .size = sizeof(info) };
	struct vpmm_forecast forecast = { .size = sizeof(forecast) };
	struct vpmm_tag_stats counts = { .size = sizeof(counts) };
	struct vpmm_shared_stats shared = { .size = sizeof(shared) };
	struct vpmm_pool *pool = any_pool(c);

	expect(vpmm_pool_stats(pool, &stats));
	expect(vpmm_pool_info(pool, &info));
	expect(vpmm_pool_query(pool, any_size(c), any_stream(c), &forecast));
	expect(vpmm_tag_stats(pool, tags[any(c, TAGS)], &counts));
	expect(vpmm_shared_stats(pool, &shared));
}

static void call_check(struct caller *c)
{
	expect(vpmm_pool_check(any_pool(c)));
}

static void call_dump(struct caller *c)
{
	FILE *out = fopen("/dev/null", "w");

	expect(vpmm_pool_dump(any_pool(c), out));
	fclose(out);
}

static void call_trim(struct caller *c)
{
	size_t released;

	expect(vpmm_pool_trim(any_pool(c), any(c, 3) * MIB, &released));
}

static void call_set(struct caller *c)
{
	struct vpmm_pool *pool = any_pool(c);
	const int devices[] = { 1 };

	switch (any(c, 6)) {
	case 0:
		expect(vpmm_pool_set_limit(pool, any(c, 2) ? 0 : 100 * MIB));
		break;
	case 1:
		expect(vpmm_pool_set_peers(pool, devices, any(c, 2)));
		break;
	case 2:
		expect(vpmm_pool_reset_peaks(pool));
		break;
	case 3:
		expect(vpmm_pool_save_plan(pool));
		break;
	case 4:
		expect(vpmm_tag_limit(pool, tags[any(c, TAGS)], any(c, 2) ? 0 : 20 * MIB));
		break;
	default:
		expect(vpmm_tag_open("one", VPMM_TAG_PAUSABLE, &(vpmm_tag){ 0 }));
	}
}

static void call_pause(struct caller *c)
{
	vpmm_tag tag = any(c, 4) ? tags[any(c, TAGS)] : VPMM_TAG_ALL;
	struct vpmm_pool *pool = any_pool(c);

	if (!any(c, 3))
		expect(vpmm_pause_prepare(pool, tag));
	expect(vpmm_pause(pool, tag, any(c, 2) ? VPMM_PAUSE_DROP : 0));
	if (any(c, 4))
		expect(vpmm_resume(pool, tag, any(c, 2) ? any_stream(c) : VPMM_STREAM_ANY));
}

static void call_resume(struct caller *c)
{
	expect(vpmm_resume(any_pool(c), VPMM_TAG_ALL, any_stream(c)));
}

static void call_stream(struct caller *c)
{
	expect(vpmm_host_stream_submit(any_stream(c)));
	if (!any(c, 2))
		expect(vpmm_host_stream_complete(any_stream(c), UINT_MAX));
	if (!any(c, 8))
		expect(vpmm_stream_retire(any_pool(c), streams[any(c, STREAMS)]));
}

static void call_capture(struct caller *c)
{
	struct vpmm_host_graph *graph;
	struct vpmm_pool *pool = any_pool(c);
	void *ptr = NULL;
	uint64_t id = 0;
	int err;

	expect(vpmm_host_stream_complete(c->own, UINT_MAX));
	err = vpmm_host_capture_begin(c->own);
	expect(err);
	if (err)
		return;
	expect(vpmm_capture_id(pool, c->own, &id));
	expect(vpmm_capture_group(pool, id, 1 + any(c, 2)));
	err = vpmm_malloc(pool, &ptr, any_size(c), c->own);
	expect(err);
	if (!err)
		expect(vpmm_free(pool, ptr, c->own));
	err = vpmm_host_capture_end(c->own, &graph);
	expect(err);
	if (!err) {
		expect(vpmm_host_graph_launch(graph, c->own));
		expect(vpmm_host_stream_complete(c->own, UINT_MAX));
		expect(vpmm_host_graph_destroy(graph));
	}
	if (id && any(c, 2))
		expect(vpmm_graph_retire(pool, id, c->own));
}

static void call_send(struct caller *c)
{
	struct block got = { .pool = any_pool(c), .stream = any_stream(c) }, *block = take(c);
	int ends[2], err = -EINVAL;
	uint64_t key[3];
	size_t offset;

	if (!block)
		return;
	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), ==, 0);
	expect(vpmm_lend_key(block->pool, block->ptr, key, &offset));
	err = vpmm_send(NULL, block->ptr, ends[0]);
	expect(err);
	if (!err) {
		err = vpmm_receive(got.pool, &got.ptr, &got.size, ends[1]);
		expect(err);
		if (!err)
			put(c, g_memdup2(&got, sizeof(got)));
	}
	close(ends[0]);
	close(ends[1]);
	put(c, block);
}

/* With the address of a range that this thread alone has. */

static void touch_range(struct caller *c, char *at)
{
	at[any(c, RANGE_BYTES)] = 1;
	if (any(c, 2))
		at[any(c, RANGE_BYTES)]++;
}

static void call_shared(struct caller *c)
{
	unsigned int i = any(c, RANGES);
	void *at = atomic_exchange(&ranges[i], NULL);
	struct vpmm_pool *pool = c->pool;

	if (at && any(c, 3)) {
		touch_range(c, at);
		at = atomic_exchange(&ranges[i], at);
	}
	if (at)
		expect(vpmm_shared_free(NULL, at, any(c, 2) ? any_stream(c) : VPMM_STREAM_ANY));
	else if (!vpmm_shared_alloc(pool ? pool : pools[0], &at, RANGE_BYTES, any(c, 2) ? VPMM_SHARED_FINE : 0)) {
		at = atomic_exchange(&ranges[i], at);
		if (at)
			expect(vpmm_shared_free(NULL, at, VPMM_STREAM_ANY));
	}
}

static void call_pages(struct caller *c)
{
	char *at = ranges[any(c, RANGES)];
	size_t size = PAGE * (1 + any(c, 2));
	struct vpmm_page pages[8];

	if (!at)
		return;
	switch (any(c, 7)) {
	case 0:
		expect(vpmm_migrate(NULL, at, size, any(c, 2), any_stream(c), NULL, NULL));
		break;
	case 1:
		expect(vpmm_fault(NULL, at, size, any(c, 2), 0));
		break;
	case 2:
		expect(vpmm_advise(NULL, at, size, any(c, 4)));
		break;
	case 3:
		if (!vpmm_pin(NULL, at, size))
			expect(vpmm_unpin(NULL, at, size));
		break;
	case 4:
		expect(vpmm_use(NULL, at, streams[any(c, STREAMS)]));
		break;
	default:
		expect(vpmm_locate(NULL, at, size, pages));
	}
}

static void update(struct vpmm_mirror *mirror, void *data, enum vpmm_mirror_action action, void *start, void *end)
{
	(void)mirror;
	(void)data;
	(void)action;
	(void)start;
	(void)end;
	updates++;
}

static void call_mirror(struct caller *c)
{
	const struct vpmm_mirror_ops ops = { .size = sizeof(ops), .update = update };
	struct vpmm_mirror *mirror;
	int err = vpmm_mirror_register(any_pool(c), &mirror, &ops, NULL);

	expect(err);
	if (err)
		return;
	g_thread_yield();
	vpmm_mirror_unregister(mirror);
}

static void note_message(void *data, int level, const char *text)
{
	struct vpmm_allocation found = { .size = sizeof(found) };

	(void)data;
	(void)level;
	if (!(messages++ % 8))
		vpmm_lookup(text, &found);
}

/* Kinds of pools, as bits. */
enum {
	WITH_PAGES = 1,
	WITH_TRACE = 2,
	WITH_STACKS = 4,
	WITH_TOP = 8,
	WITH_BUDGET = 16,
	WITH_PLAN = 32,
	WITH_EXPORT = 64,
	KINDS = 128
};

static char *trace, *plan;

static void make_pool(struct vpmm_pool **pool, unsigned int kind)
{
	struct vpmm_opts opts = { FIXTURE_PACKED, .limit = 300 * MIB, .log = note_message, .log_level = VPMM_LOG_DEBUG };

	opts.small = kind & WITH_PAGES ? VPMM_SMALL_DRIVER : VPMM_SMALL_POOL;
	opts.extent_max = kind & WITH_PAGES ? PAGE : 0;
	opts.trace = kind & WITH_TRACE ? trace : NULL;
	opts.stacks = kind & WITH_STACKS ? MIB : 0;
	opts.top = kind & WITH_TOP ? VPMM_TOP_ON : VPMM_TOP_OFF;
	opts.budget = kind & WITH_BUDGET ? BUDGET_TEXT : NULL;
	opts.plan = kind & WITH_PLAN ? plan : NULL;
	opts.export_as = kind & WITH_EXPORT ? VPMM_EXPORT_FD : VPMM_EXPORT_NONE;
	assert_ok(vpmm_pool_create(pool, &opts));
}

/* A pool of this thread's, which others look for addresses in until the end. */
static void call_life(struct caller *c)
{
	struct caller inner = { .rand = c->rand, .own = c->own };
	struct block block;

	make_pool(&inner.pool, any(c, KINDS));
	for (unsigned int i = any(c, 6); i; i--) {
		block = (struct block){ .pool = inner.pool, .stream = streams[any(c, STREAMS)], .size = any_size(c) };
		if (!(any(c, 2) ? malloc_tagged(c, &block) : malloc_plain(c, &block)))
			addresses[any(c, BLOCKS)] = (uintptr_t)block.ptr;
		if (any(c, 2))
			expect(vpmm_free(any(c, 2) ? inner.pool : NULL, block.ptr, block.stream));
		call_look(&inner);
	}
	if (any(c, 2))
		vpmm_pool_destroy(inner.pool);
	else
		expect(vpmm_pool_abandon(inner.pool));
}

/* In a child all of these fail, whatever the other threads were at. */
static void be_child(struct caller *c)
{
	static void (*const of_child[])(struct caller *c) = {
		call_malloc, call_malloc_flags, call_malloc_aligned, call_malloc_growable, call_malloc_tagged,
		call_free, call_realloc, call_use, call_lookup, call_look, call_check, call_dump, call_trim, call_set,
		call_pause, call_resume, call_send, call_pages, call_mirror,
	};

	alarm(HANGS_SECONDS);
	for (size_t i = 0; i < G_N_ELEMENTS(of_child); i++)
		of_child[i](c);
	vpmm_pool_destroy(pools[0]);
	g_assert_cmpint(vpmm_pool_abandon(NULL), ==, -EBUSY);
	_exit(0);
}

static void call_fork(struct caller *c)
{
	/* ThreadSanitizer has no children of processes with threads. */
	pid_t child = SANITIZED_THREADS ? -1 : fork();
	int status;

	if (!child)
		be_child(c);
	if (child < 0)
		return;
	g_assert_cmpint(waitpid(child, &status, 0), ==, child);
	g_assert_cmpint(status, ==, 0);
}

static void (*const calls[])(struct caller *c) = {
	call_malloc, call_malloc_flags, call_malloc_aligned, call_malloc_growable, call_malloc_tagged, call_free,
	call_realloc, call_use, call_lookup, call_look, call_check, call_dump, call_trim, call_set, call_pause,
	call_resume, call_stream, call_capture, call_send, call_shared, call_pages, call_mirror, call_life, call_fork,
};

static void *run(void *data)
{
	struct caller *c = data;

	for (guint steps = setting("VPMM_TEST_STEPS", STEPS); steps; steps--)
		calls[any(c, G_N_ELEMENTS(calls))](c);
	return NULL;
}

static void begin(void)
{
	assert_ok(vpmm_tag_open("one", VPMM_TAG_PAUSABLE, &tags[0]));
	assert_ok(vpmm_tag_open("two", VPMM_TAG_PAUSABLE, &tags[1]));
	assert_ok(vpmm_tag_open("plain", 0, &tags[2]));
	make_pool(&pools[0], WITH_TRACE | WITH_STACKS | WITH_TOP | WITH_BUDGET);
	make_pool(&pools[1], WITH_PAGES | WITH_TOP | WITH_BUDGET | WITH_PLAN | WITH_EXPORT);
	for (int i = 0; i < STREAMS; i++)
		assert_ok(vpmm_host_stream_create(&streams[i]));
}

/* The memory of graphs that are not retired is left to the end of the pools. */
static void end(void)
{
	for (int i = 0; i < BLOCKS; i++) {
		struct block *block = atomic_exchange(&places[i], NULL);

		if (block)
			assert_ok(vpmm_free(block->pool, block->ptr, streams[0]));
		g_free(block);
	}
	for (int i = 0; i < RANGES; i++)
		assert_ok(vpmm_shared_free(NULL, atomic_exchange(&ranges[i], NULL), VPMM_STREAM_ANY));
	for (int i = 0; i < STREAMS; i++)
		fixture_complete(streams[i]);
	for (int i = 0; i < POOLS; i++) {
		assert_ok(vpmm_pool_check(pools[i]));
		if (pools[i])
			vpmm_pool_destroy(pools[i]);
		else
			assert_ok(vpmm_pool_abandon(NULL));
	}
	for (int i = 0; i < STREAMS; i++)
		assert_ok(vpmm_host_stream_destroy(streams[i]));
}

static void run_threads(guint seed)
{
	struct caller callers[THREADS];
	GThread *threads[THREADS];

	begin();
	for (guint i = 0; i < THREADS; i++) {
		callers[i] = (struct caller){ .rand = g_rand_new_with_seed(seed * THREADS + i) };
		assert_ok(vpmm_host_stream_create(&callers[i].own));
		threads[i] = g_thread_new("caller", run, &callers[i]);
	}
	for (int i = 0; i < THREADS; i++) {
		g_thread_join(threads[i]);
		g_rand_free(callers[i].rand);
	}
	end();
	for (int i = 0; i < THREADS; i++)
		assert_ok(vpmm_host_stream_destroy(callers[i].own));
	fixture_assert_nothing_left();
}

static void test_all(void)
{
	setting_run_seeds(1, run_threads);
}

int main(int argc, char **argv)
{
	char *folder = g_dir_make_tmp("vpmm-beside-XXXXXX", NULL);
	int ret;

	g_setenv("VPMM_BACKEND", "host", TRUE);
	g_setenv("VPMM_VA_SIZE", "1G", TRUE);
	g_setenv("VPMM_HOST_DEVICES", "2", TRUE);
	g_setenv("VPMM_LIMIT", "300M", TRUE);
	g_test_init(&argc, &argv, NULL);
	budget_folder();
	trace = g_build_filename(folder, "trace", NULL);
	plan = g_build_filename(folder, "plan", NULL);
	g_test_add_func("/beside/all", test_all);
	ret = g_test_run();
	folder_remove(folder);
	g_free(folder);
	g_free(trace);
	g_free(plan);
	budget_remove_folder();
	return ret;
}
