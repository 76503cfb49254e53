// SPDX-License-Identifier: LGPL-2.1-or-later
/* The pool on a real GPU, through the public API, with kernels that prove whose memory is whose. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "gpu-fixture.h"

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)
#define SLOTS 64
#define THREADS 8

/* A pool and its streams. */
struct bench {
	struct fixture f;
	drv_stream s[STREAMS];
};

/* An allocation with a pattern in it. */
struct slot {
	void *ptr;
	size_t size;
	uint64_t seed;
	drv_stream stream;
};

static struct vpmm_pool *pool_new(struct vpmm_opts opts)
{
	struct vpmm_pool *pool;

	opts.size = sizeof(opts);
	opts.backend = "cuda";
	assert_ok(vpmm_pool_create(&pool, &opts));
	return pool;
}

/* False, and the test is skipped, where there is no GPU. */
static bool open_bench(struct bench *b, struct vpmm_opts opts)
{
	int i;

	if (!gpu_ready())
		return false;
	b->f.pool = pool_new(opts);
	for (i = 0; i < STREAMS; i++)
		b->s[i] = gpu_stream();
	return true;
}

static void close_bench(struct bench *b)
{
	int i;

	g_assert_cmpuint(gpu_wrong(), ==, 0);
	assert_ok(vpmm_pool_check(b->f.pool));
	vpmm_pool_destroy(b->f.pool);
	for (i = 0; i < STREAMS; i++)
		gpu_ok(cu.cuStreamDestroy(b->s[i]));
}

static struct vpmm_stats stats_of(struct vpmm_pool *pool)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };

	assert_ok(vpmm_pool_stats(pool, &stats));
	return stats;
}

/* Allocates, and writes a pattern that no other allocation has. */
static struct slot take(struct vpmm_pool *pool, size_t size, drv_stream stream)
{
	static _Atomic uint64_t seeds = 1;
	struct slot slot = { .size = size, .stream = stream };

	slot.seed = atomic_fetch_add(&seeds, 1) * 0xd1342543de82ef95u;
	assert_ok(vpmm_malloc(pool, &slot.ptr, size, stream));
	g_assert_nonnull(slot.ptr);
	gpu_fill(slot.ptr, size, slot.seed, stream);
	return slot;
}

/* Has its pattern checked, and frees it. */
static void give(struct vpmm_pool *pool, struct slot *slot)
{
	gpu_check(slot->ptr, slot->size, slot->seed, slot->stream);
	assert_ok(vpmm_free(pool, slot->ptr, slot->stream));
	slot->ptr = NULL;
}

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

/* Buffers that go from a stream to the next take no more memory than one buffer, however far the host runs ahead. */
static void test_pipeline(void)
{
	drv_event ready;
	struct bench b;
	int i;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
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

/* The walkthrough of vpmm(7); each case with its number of spare pages, and the layouts after its five calls. */
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

	if (!open_bench(&b, (struct vpmm_opts){ .pages = 11 + walk->x }))
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

/* Under capture no event can be recorded, so the pool refuses, and the capture goes on to its end. */
static void test_capture(void)
{
	struct slot large, small;
	void *ptr = NULL;
	drv_graph graph;
	struct bench b;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		return;
	large = take(b.f.pool, 3 * PAGE, b.s[0]);
	small = take(b.f.pool, 3000, b.s[0]);
	gpu_ok(cu.cuStreamBeginCapture(b.s[0], DRV_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	assert_error(vpmm_malloc(b.f.pool, &ptr, PAGE, b.s[0]), EBUSY, "captured");
	assert_error(vpmm_malloc(b.f.pool, &ptr, 100, b.s[0]), EBUSY, "captured");
	assert_error(vpmm_free(b.f.pool, large.ptr, b.s[0]), EBUSY, "captured");
	assert_error(vpmm_free(b.f.pool, small.ptr, b.s[0]), EBUSY, "captured");
	g_assert_null(ptr);
	gpu_ok(cu.cuStreamEndCapture(b.s[0], &graph));
	if (graph)
		gpu_ok(cu.cuGraphDestroy(graph));
	give(b.f.pool, &large);
	give(b.f.pool, &small);
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

/* What was freed on a stream can be had when the stream is gone. */
static void test_stream_destroyed(void)
{
	drv_stream stream;
	struct slot slot;
	struct bench b;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		return;
	stream = gpu_stream();
	slot = take(b.f.pool, 32 * PAGE, stream);
	give(b.f.pool, &slot);
	gpu_ok(cu.cuStreamDestroy(stream));

	slot = take(b.f.pool, 32 * PAGE, b.s[0]);

	g_assert_cmpuint(stats_of(b.f.pool).mapped, ==, 32 * PAGE);
	give(b.f.pool, &slot);
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

static void test_small(void)
{
	static const size_t sizes[] = { 8, 256, 1000, 4096, 65536, MIB, 2 * MIB - 8 };
	struct slot slots[G_N_ELEMENTS(sizes)];
	struct vpmm_stats stats;
	size_t i, sum = 0;
	struct bench b;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		return;
	for (i = 0; i < G_N_ELEMENTS(sizes); i++) {
		slots[i] = take(b.f.pool, sizes[i], b.s[i % STREAMS]);
		g_assert_cmpuint((uintptr_t)slots[i].ptr % 256, ==, 0);
		sum += sizes[i];
	}
	stats = stats_of(b.f.pool);
	g_assert_cmpuint(stats.small_live, ==, sum);
	g_assert_cmpuint(stats.small_mapped, >=, sum);
	g_assert_cmpuint(stats.mapped, ==, 0);

	for (i = 0; i < G_N_ELEMENTS(sizes); i++)
		give(b.f.pool, &slots[i]);
	g_assert_cmpuint(stats_of(b.f.pool).small_live, ==, 0);
	close_bench(&b);
}

static void test_all_to_driver(void)
{
	struct slot slot;
	struct bench b;

	if (!open_bench(&b, (struct vpmm_opts){ .page_size = SIZE_MAX }))
		return;
	slot = take(b.f.pool, 64 * MIB, b.s[0]);

	g_assert_cmpuint(stats_of(b.f.pool).small_live, ==, 64 * MIB);
	g_assert_cmpuint(stats_of(b.f.pool).mapped, ==, 0);
	give(b.f.pool, &slot);
	close_bench(&b);
}

static void test_two_pools(void)
{
	struct vpmm_pool *second;
	struct slot mine, other;
	struct bench b;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		return;
	second = pool_new((struct vpmm_opts){ .page_size = 4 * PAGE });
	mine = take(b.f.pool, 16 * PAGE, b.s[0]);
	other = take(second, 16 * PAGE, b.s[0]);

	assert_error(vpmm_free(second, mine.ptr, b.s[0]), EINVAL, "no allocation of this pool starts there");
	assert_error(vpmm_free(b.f.pool, other.ptr, b.s[0]), EINVAL, "no allocation of this pool starts there");
	give(b.f.pool, &mine);
	give(second, &other);
	assert_ok(vpmm_pool_check(second));
	vpmm_pool_destroy(second);
	close_bench(&b);
}

static void test_bad_free(void)
{
	struct vpmm_stats before, after;
	drv_deviceptr foreign;
	struct slot slot;
	struct bench b;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		return;
	gpu_ok(cu.cuMemAlloc(&foreign, PAGE));
	slot = take(b.f.pool, 4 * PAGE, b.s[0]);
	before = stats_of(b.f.pool);

	assert_error(vpmm_free(b.f.pool, (void *)foreign, b.s[0]), EINVAL, "no allocation of this pool starts there");
	assert_error(vpmm_free(b.f.pool, (char *)slot.ptr + PAGE, b.s[0]), EINVAL, "no allocation of this pool starts there");
	give(b.f.pool, &slot);
	assert_ok(vpmm_pool_check(b.f.pool));
	after = stats_of(b.f.pool);
	g_assert_cmpuint(after.frees, ==, before.frees + 1);
	close_bench(&b);
	gpu_ok(cu.cuMemFree(foreign));
}

static void test_double_free(void)
{
	struct slot slot, small;
	void *ptr, *small_ptr;
	struct bench b;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		return;
	slot = take(b.f.pool, 4 * PAGE, b.s[0]);
	small = take(b.f.pool, 4096, b.s[0]);
	ptr = slot.ptr;
	small_ptr = small.ptr;
	give(b.f.pool, &slot);
	give(b.f.pool, &small);

	assert_error(vpmm_free(b.f.pool, ptr, b.s[0]), EINVAL, "no allocation of this pool starts there");
	assert_error(vpmm_free(b.f.pool, small_ptr, b.s[0]), EINVAL, "no allocation of this pool starts there");

	g_assert_cmpuint(stats_of(b.f.pool).frees, ==, 2);
	assert_ok(vpmm_pool_check(b.f.pool));
	close_bench(&b);
}

/* More than a chunk of addresses has, at once and in sum. */
static void test_chunks(void)
{
	struct slot slots[4];
	struct bench b;
	size_t i;

	if (!open_bench(&b, (struct vpmm_opts){ .va_size = 64 * PAGE }))
		return;
	for (i = 0; i < G_N_ELEMENTS(slots); i++)
		slots[i] = take(b.f.pool, (i == 2 ? 200 : 40) * PAGE, b.s[0]);
	g_assert_cmpuint(stats_of(b.f.pool).chunks, >=, 3);

	for (i = 0; i < G_N_ELEMENTS(slots); i++)
		give(b.f.pool, &slots[i]);
	close_bench(&b);
}

/* All that a pool took is there again when it is gone, also what was still allocated. */
static void test_destroy(void)
{
	struct slot kept, small, freed;
	size_t before, after;
	struct bench b;

	if (!gpu_ready())
		return;
	before = gpu_memory_free();
	open_bench(&b, (struct vpmm_opts){ .pages = 64 });
	kept = take(b.f.pool, 2 * GIB, b.s[0]);
	freed = take(b.f.pool, GIB, b.s[1]);
	small = take(b.f.pool, MIB, b.s[2]);
	give(b.f.pool, &freed);
	g_assert_cmpuint(before - gpu_memory_free(), >=, 3 * GIB);
	g_assert_nonnull(kept.ptr);
	g_assert_nonnull(small.ptr);

	close_bench(&b);

	gpu_ok(cu.cuCtxSynchronize());
	after = gpu_memory_free();
	g_assert_cmpuint(before, <=, after + 64 * MIB);
}

/* The device's memory runs out: the call fails, with numbers, the pool is as it was, and goes on. */
static void test_exhaustion(void)
{
	struct slot slots[64] = { 0 };
	struct vpmm_stats full, after;
	size_t before, piece, n, i;
	struct bench b;
	void *ptr = NULL;
	int err = 0;

	if (!gpu_ready())
		return;
	before = gpu_memory_free();
	open_bench(&b, (struct vpmm_opts){ 0 });
	piece = before / 16 / PAGE * PAGE;
	for (n = 0; n < G_N_ELEMENTS(slots); n++) {
		slots[n] = (struct slot){ .size = piece, .seed = n, .stream = b.s[0] };
		err = vpmm_malloc(b.f.pool, &slots[n].ptr, piece, b.s[0]);
		if (err)
			break;
		gpu_fill(slots[n].ptr, piece, n, b.s[0]);
	}
	g_assert_cmpint(err, ==, -ENOMEM);
	g_test_message("%s", vpmm_last_error());
	/* So much is asked for beforehand; the driver itself is asked to fill the rest, a page at a time. */
	g_assert_nonnull(strstr(vpmm_last_error(), "device memory"));
	g_assert_cmpuint(n, >=, 14);
	while (!(err = vpmm_malloc(b.f.pool, &slots[n].ptr, 512 * MIB, b.s[0]))) {
		slots[n].size = 512 * MIB;
		slots[n].seed = n;
		slots[n].stream = b.s[0];
		gpu_fill(slots[n].ptr, slots[n].size, slots[n].seed, b.s[0]);
		n++;
		g_assert_cmpuint(n, <, G_N_ELEMENTS(slots));
	}
	g_assert_cmpint(err, ==, -ENOMEM);
	g_test_message("%s", vpmm_last_error());
	g_assert_nonnull(strstr(vpmm_last_error(), "CUDA_ERROR_OUT_OF_MEMORY"));
	assert_ok(vpmm_pool_check(b.f.pool));
	full = stats_of(b.f.pool);
	g_assert_cmpint(vpmm_malloc(b.f.pool, &ptr, 2 * piece, b.s[1]), ==, -ENOMEM);
	g_assert_null(ptr);

	/* Two pieces that are not neighbours make one of their size. */
	give(b.f.pool, &slots[1]);
	give(b.f.pool, &slots[3]);
	slots[1] = take(b.f.pool, 2 * piece, b.s[1]);
	after = stats_of(b.f.pool);
	g_assert_cmpuint(after.live, ==, full.live);
	for (i = 0; i < n; i++)
		if (slots[i].ptr)
			give(b.f.pool, &slots[i]);
	close_bench(&b);
	gpu_ok(cu.cuCtxSynchronize());
	g_assert_cmpuint(before, <=, gpu_memory_free() + 64 * MIB);
}

void gpu_pool_tests(bool errors)
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
	g_test_add_func("/gpu/pool/capture", test_capture);
	g_test_add_func("/gpu/pool/stream-destroyed", test_stream_destroyed);
	g_test_add_func("/gpu/pool/block", test_block);
	g_test_add_func("/gpu/pool/small", test_small);
	g_test_add_func("/gpu/pool/all-to-driver", test_all_to_driver);
	g_test_add_func("/gpu/pool/two-pools", test_two_pools);
	g_test_add_func("/gpu/pool/bad-free", test_bad_free);
	g_test_add_func("/gpu/pool/double-free", test_double_free);
	g_test_add_func("/gpu/pool/chunks", test_chunks);
	g_test_add_func("/gpu/pool/destroy", test_destroy);
	if (errors)
		g_test_add_func("/gpu/pool/exhaustion", test_exhaustion);
}
