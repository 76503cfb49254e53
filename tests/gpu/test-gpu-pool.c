// SPDX-License-Identifier: LGPL-2.1-or-later
/* The pool on a real GPU, through the public API, with kernels that prove whose memory is whose. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gpu/gpu-bench.h"

#define SLOTS 64
#define THREADS 8

static size_t random_size(GRand *rand, size_t pages)
{
	if (!g_rand_int_range(rand, 0, 4))
		return (size_t)g_rand_int_range(rand, 8, (gint32)PAGE);
	return (size_t)g_rand_int_range(rand, 1, (gint32)pages + 1) * PAGE - (size_t)g_rand_int_range(rand, 0, 4096);
}

static void test_info(void)
{
	struct vpmm_info info = { .size = sizeof(info) };
	struct bench b;

	if (!open_bench(&b, (struct vpmm_opts){ .pages = 3 }))
		return;
	assert_ok(vpmm_pool_info(b.f.pool, &info));

	g_assert_cmpstr(info.backend, ==, "cuda");
	g_assert_cmpint(info.device, ==, 0);
	g_assert_cmpuint(info.page_size, ==, 2 * MIB);
	g_assert_cmpuint(info.pages, ==, 3);
	g_assert_cmpuint(stats_of(b.f.pool).mapped, ==, 3 * info.page_size);
	close_bench(&b);
}

/* Whatever is allocated and freed, on whichever stream, each allocation keeps its own data. */
static void test_data(void)
{
	GRand *rand = g_rand_new_with_seed(1);
	struct slot slots[SLOTS] = { 0 };
	struct bench b;
	int i;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		goto free_rand;
	for (i = 0; i < 3000; i++) {
		struct slot *slot = &slots[g_rand_int_range(rand, 0, SLOTS)];

		if (slot->ptr)
			give(b.f.pool, slot);
		else
			*slot = take(b.f.pool, random_size(rand, 24), b.s[g_rand_int_range(rand, 0, STREAMS)]);
		if (i % 100 == 0)
			assert_ok(vpmm_pool_check(b.f.pool));
	}
	for (i = 0; i < SLOTS; i++)
		if (slots[i].ptr)
			give(b.f.pool, &slots[i]);
	close_bench(&b);
free_rand:
	g_rand_free(rand);
}

/* The same while streams are held up now and then, so that memory moves before its last work is done. */
static void test_data_behind_work(void)
{
	GRand *rand = g_rand_new_with_seed(2);
	struct slot slots[SLOTS] = { 0 };
	uint64_t remapped;
	struct bench b;
	int i, held = 0;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		goto free_rand;
	for (i = 0; i < 3000; i++) {
		struct slot *slot = &slots[g_rand_int_range(rand, 0, SLOTS)];

		if (i % 100 == 0)
			assert_ok(gpu_hold(b.s[held]));
		if (slot->ptr)
			give(b.f.pool, slot);
		else
			*slot = take(b.f.pool, random_size(rand, 24), b.s[g_rand_int_range(rand, 0, STREAMS)]);
		if (i % 100 == 50) {
			assert_ok(vpmm_pool_check(b.f.pool));
			assert_ok(gpu_finish(b.s[held]));
			held = (held + 1) % STREAMS;
		}
	}
	for (i = 0; i < SLOTS; i++)
		if (slots[i].ptr)
			give(b.f.pool, &slots[i]);
	remapped = stats_of(b.f.pool).remapped;
	g_assert_cmpuint(remapped, >, 0);
	close_bench(&b);
free_rand:
	g_rand_free(rand);
}

/* A stream takes over what another still works on: the GPU waits, the host does not. */
static void test_takeover(void)
{
	struct vpmm_stats before, after;
	struct slot a, other;
	struct bench b;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		return;
	a = take(b.f.pool, 64 * PAGE, b.s[0]);
	assert_ok(gpu_hold(b.s[0]));
	gpu_fill(a.ptr, a.size, 7, b.s[0]);
	assert_ok(vpmm_free(b.f.pool, a.ptr, b.s[0]));
	before = stats_of(b.f.pool);

	other = take(b.f.pool, 64 * PAGE, b.s[1]);
	gpu_check(other.ptr, other.size, other.seed, b.s[1]);
	g_assert_true(gpu_busy(b.s[0]));
	g_assert_true(gpu_busy(b.s[1]));
	after = stats_of(b.f.pool);
	g_assert_cmpuint(after.mapped, ==, before.mapped);
	g_assert_cmpuint(after.waits, >, before.waits);
	assert_ok(vpmm_pool_check(b.f.pool));

	assert_ok(gpu_finish(b.s[0]));
	gpu_sync(b.s[1]);
	give(b.f.pool, &other);
	close_bench(&b);
}

/* A block is made out of scattered free ones, between others that stay as they are. */
static void test_scattered(void)
{
	struct slot slots[16], big;
	struct vpmm_stats before, after;
	struct bench b;
	size_t i;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		return;
	for (i = 0; i < G_N_ELEMENTS(slots); i++)
		slots[i] = take(b.f.pool, 8 * PAGE, b.s[0]);
	for (i = 0; i < G_N_ELEMENTS(slots); i += 2)
		give(b.f.pool, &slots[i]);
	before = stats_of(b.f.pool);

	big = take(b.f.pool, 64 * PAGE, b.s[0]);

	after = stats_of(b.f.pool);
	g_assert_cmpuint(after.mapped, ==, before.mapped);
	g_assert_cmpuint(after.remapped - before.remapped, >, 0);
	for (i = 1; i < G_N_ELEMENTS(slots); i += 2)
		give(b.f.pool, &slots[i]);
	give(b.f.pool, &big);
	close_bench(&b);
}

/*
 * Buffers that go from a stream to the next take no more memory than one buffer, however far the host runs ahead, if
 * nothing may be taken rather than wait.
 */
static void test_pipeline(void)
{
	drv_event ready;
	struct bench b;
	int i;

	if (!open_bench(&b, (struct vpmm_opts){ .overlap = VPMM_OVERLAP_NONE }))
		return;
	for (i = 0; i < 200; i++) {
		struct slot slot = take(b.f.pool, 16 * PAGE, b.s[0]);

		gpu_ok(cu.cuEventCreate(&ready, DRV_EVENT_DISABLE_TIMING));
		gpu_ok(cu.cuEventRecord(ready, b.s[0]));
		gpu_ok(cu.cuStreamWaitEvent(b.s[1], ready, 0));
		gpu_ok(cu.cuEventDestroy(ready));
		slot.stream = b.s[1];
		give(b.f.pool, &slot);
	}

	g_assert_cmpuint(stats_of(b.f.pool).peak_mapped, ==, 16 * PAGE);
	close_bench(&b);
}

/*
 * The walkthrough of tests/host/test-walkthrough.c on a GPU; each case with its number of spare pages, and the layouts
 * after its five calls, in the format of vpmm_pool_dump(3).
 */
static const struct walk {
	size_t x;
	const char *after[5];
} walks[] = {
	{ 11, { "[+10][-12]", "[10][+1][-11]", "[-10][1][-11]", "[+4][-6][1][-11]", "[4][-6][1][+11]" } },
	{ 5, { "[+10][-6]", "[10][+1][-5]", "[-10][1][-5]", "[-10][1][+4][-1]", "[*10][1][4][+11]" } },
	{ 4, { "[+10][-5]", "[10][+1][-4]", "[-10][1][-4]", "[-10][1][+4]", "[*10][1][4][+11]" } },
	{ 0, { "[+10][-1]", "[10][+1]", "[-10][1]", "[+4][-6][1]", "[4][*6][1][+11]" } },
};

static void test_walk(gconstpointer data)
{
	static const size_t pages[] = { 10, 1, 0, 4, 11 };
	const struct walk *walk = data;
	struct slot slots[G_N_ELEMENTS(pages)];
	struct bench b;
	size_t i;

	if (!open_bench(&b, (struct vpmm_opts){ .pages = 11 + walk->x, .extent_max = PAGE, .small = VPMM_SMALL_DRIVER }))
		return;
	for (i = 0; i < G_N_ELEMENTS(pages); i++) {
		if (pages[i])
			slots[i] = take(b.f.pool, pages[i] * PAGE, b.s[0]);
		else
			give(b.f.pool, &slots[0]);
		assert_layout(&b.f, walk->after[i]);
		gpu_sync(b.s[0]);
	}

	give(b.f.pool, &slots[1]);
	give(b.f.pool, &slots[3]);
	give(b.f.pool, &slots[4]);
	close_bench(&b);
}

struct worker {
	struct vpmm_pool *pool;
	drv_context context;
	guint32 seed;
};

static void *run_worker(void *data)
{
	struct worker *worker = data;
	GRand *rand = g_rand_new_with_seed(worker->seed);
	struct slot slots[8] = { 0 };
	size_t i;

	gpu_ok(cu.cuCtxSetCurrent(worker->context));
	for (i = 0; i < 500; i++) {
		struct slot *slot = &slots[g_rand_int_range(rand, 0, G_N_ELEMENTS(slots))];

		if (slot->ptr)
			give(worker->pool, slot);
		else
			*slot = take(worker->pool, random_size(rand, 16), DRV_STREAM_PER_THREAD);
	}
	for (i = 0; i < G_N_ELEMENTS(slots); i++)
		if (slots[i].ptr)
			give(worker->pool, &slots[i]);
	/* Threads that end with work on their streams, and have used the driver's allocator, can hang in driver 580. */
	gpu_sync(DRV_STREAM_PER_THREAD);
	g_rand_free(rand);
	return NULL;
}

/* One handle, and in each thread another stream. */
static void test_threads(void)
{
	struct worker workers[THREADS];
	GThread *threads[THREADS];
	drv_context context;
	struct bench b;
	guint32 i;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		return;
	gpu_ok(cu.cuCtxGetCurrent(&context));
	for (i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .pool = b.f.pool, .context = context, .seed = i };
		threads[i] = g_thread_new("worker", run_worker, &workers[i]);
	}
	for (i = 0; i < THREADS; i++)
		g_thread_join(threads[i]);

	g_assert_cmpuint(stats_of(b.f.pool).streams, ==, THREADS);
	close_bench(&b);
}

/* A thread that has no context gets its memory all the same, and has none afterwards. */
static void *run_bare(void *data)
{
	struct bench *b = data;
	drv_context context;
	void *ptr;

	assert_ok(vpmm_malloc(b->f.pool, &ptr, 4 * PAGE, b->s[0]));
	assert_ok(vpmm_free(b->f.pool, ptr, b->s[0]));
	gpu_ok(cu.cuCtxGetCurrent(&context));
	g_assert_null(context);
	return NULL;
}

static void test_thread_without_context(void)
{
	struct bench b;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		return;
	g_thread_join(g_thread_new("bare", run_bare, &b));
	close_bench(&b);
}

static void test_default_streams(void)
{
	static const drv_stream streams[] = { NULL, DRV_STREAM_LEGACY, DRV_STREAM_PER_THREAD };
	struct slot slot;
	struct bench b;
	size_t i;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		return;
	for (i = 0; i < G_N_ELEMENTS(streams); i++) {
		slot = take(b.f.pool, 3 * PAGE, streams[i]);
		give(b.f.pool, &slot);
		slot = take(b.f.pool, 3000, streams[i]);
		give(b.f.pool, &slot);
	}
	g_assert_cmpuint(stats_of(b.f.pool).streams, ==, 2);
	close_bench(&b);
}

struct blocked {
	struct bench *b;
	void *ptr;
	atomic_bool done;
};

static void *run_blocked(void *data)
{
	struct blocked *blocked = data;

	assert_ok(vpmm_malloc(blocked->b->f.pool, &blocked->ptr, 8 * PAGE, blocked->b->s[1]));
	atomic_store(&blocked->done, true);
	return NULL;
}

/* With the other policy it is the host that waits. */
static void test_block(void)
{
	struct blocked blocked = { 0 };
	struct slot slot;
	GThread *thread;
	struct bench b;

	if (!open_bench(&b, (struct vpmm_opts){ .reuse = VPMM_REUSE_BLOCK }))
		return;
	slot = take(b.f.pool, 8 * PAGE, b.s[0]);
	assert_ok(gpu_hold(b.s[0]));
	give(b.f.pool, &slot);
	blocked.b = &b;
	thread = g_thread_new("blocked", run_blocked, &blocked);

	g_usleep(100000);
	g_assert_false(atomic_load(&blocked.done));
	assert_ok(gpu_finish(b.s[0]));
	g_thread_join(thread);

	g_assert_cmpuint(stats_of(b.f.pool).mapped, ==, 8 * PAGE);
	assert_ok(vpmm_free(b.f.pool, blocked.ptr, b.s[1]));
	close_bench(&b);
}

/* A block goes through a socket to another pool, which has what was written when the first has freed it. */
static void test_export(void)
{
	struct vpmm_opts opts = { .size = sizeof(opts), .backend = "cuda" };
	void *here = NULL, *there = NULL;
	struct vpmm_pool *other;
	int sockets[2];
	struct bench b;
	size_t size;

	if (!open_bench(&b, (struct vpmm_opts){ .export_as = VPMM_EXPORT_FD }))
		return;
	assert_ok(vpmm_pool_create(&other, &opts));
	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), ==, 0);
	assert_ok(vpmm_malloc_flags(b.f.pool, &here, 3 * PAGE, b.s[0], VPMM_SHAREABLE));
	gpu_fill(here, 3 * PAGE, 7, b.s[0]);
	gpu_sync(b.s[0]);
	assert_ok(vpmm_send(b.f.pool, here, sockets[0]));
	assert_ok(vpmm_receive(other, &there, &size, sockets[1]));
	assert_ok(vpmm_free(b.f.pool, here, b.s[0]));

	g_assert_cmpuint(size, ==, 3 * PAGE);
	gpu_check(there, 3 * PAGE, 7, b.s[1]);
	g_assert_cmpuint(gpu_wrong(), ==, 0);
	g_assert_cmpuint(stats_of(b.f.pool).shareable, ==, 0);
	assert_ok(vpmm_free(other, there, b.s[1]));
	vpmm_pool_destroy(other);
	close(sockets[0]);
	close(sockets[1]);
	close_bench(&b);
}

void gpu_pool_tests(void)
{
	size_t i;

	g_test_add_func("/gpu/pool/info", test_info);
	g_test_add_func("/gpu/pool/data", test_data);
	g_test_add_func("/gpu/pool/data-behind-work", test_data_behind_work);
	g_test_add_func("/gpu/pool/takeover", test_takeover);
	g_test_add_func("/gpu/pool/scattered", test_scattered);
	g_test_add_func("/gpu/pool/pipeline", test_pipeline);
	for (i = 0; i < G_N_ELEMENTS(walks); i++) {
		char *path = g_strdup_printf("/gpu/pool/walkthrough/x-%zu", walks[i].x);

		g_test_add_data_func(path, &walks[i], test_walk);
		g_free(path);
	}
	g_test_add_func("/gpu/pool/threads", test_threads);
	g_test_add_func("/gpu/pool/thread-without-context", test_thread_without_context);
	g_test_add_func("/gpu/pool/default-streams", test_default_streams);
	g_test_add_func("/gpu/pool/block", test_block);
	g_test_add_func("/gpu/pool/export", test_export);
}
