// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Streams of a real GPU that use what others allocated and free, and that come and go.
 *
 * VPMM_TEST_ROUNDS says how often sixteen of them do.
 */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/gpu-bench.h"
#include "support/kinds.h"

#define CHURN 16
#define ROUNDS 200
#define ROUNDS_ALONE 3000

static const struct kind kinds[] = { KINDS_SERVING(0, FIXTURE_PAGED, 3 * PAGE) };

#define OTHERS (3 * STREAMS)

/* No memory is granted in place of a wait, as a pool may do where a tool makes the host slow: the waits are tested. */
static bool open_kind(struct bench *b, const struct kind *kind)
{
	struct vpmm_opts opts = kind->opts;

	opts.overlap = VPMM_OVERLAP_NONE;
	return open_bench(b, opts);
}

/* An allocation of the first stream that the user reads when its work is let go on. */
static struct slot used_by(struct bench *b, size_t size, drv_stream user)
{
	struct slot slot = take(b->f.pool, size, b->s[0]);

	gpu_sync(b->s[0]);
	assert_ok(vpmm_use(b->f.pool, slot.ptr, user));
	assert_ok(gpu_hold(user));
	gpu_check(slot.ptr, slot.size, slot.seed, user);
	return slot;
}

/* The driver's allocator knows no events of ours, so what it serves is freed when the host has seen them complete. */
static bool free_is_deferred(struct bench *b, const struct slot *slot)
{
	struct vpmm_info info = { .size = sizeof(info) };

	assert_ok(vpmm_pool_info(b->f.pool, &info));
	return slot->size < PAGE && info.small == VPMM_SMALL_DRIVER;
}

static void assert_deferred(struct bench *b, const struct slot *slot)
{
	if (free_is_deferred(b, slot))
		g_assert_cmpuint(stats_of(b->f.pool).held, >=, slot->size);
	else
		g_assert_cmpuint(stats_of(b->f.pool).held, ==, 0);
}

/* Freed: whoever is given it comes after the user, and so fills it only when the user has read it. */
static void free_and_take_others(struct bench *b, const struct slot *slot, struct slot *others)
{
	bool deferred = free_is_deferred(b, slot);
	int i;

	assert_ok(vpmm_free(b->f.pool, slot->ptr, b->s[0]));
	assert_deferred(b, slot);
	assert_error(vpmm_free(b->f.pool, slot->ptr, b->s[0]), EINVAL, "no allocation");
	for (i = 0; i < OTHERS; i++) {
		others[i] = take(b->f.pool, slot->size, b->s[i % STREAMS]);
		g_assert_true(!deferred || others[i].ptr != slot->ptr);
	}
	assert_ok(vpmm_pool_check(b->f.pool));
	assert_deferred(b, slot);
}

/* Small memory of the pool's comes from pages that it has anyway, so only the address tells. */
static void assert_found(struct bench *b, const void *ptr, size_t size)
{
	void *got = NULL;
	size_t i;

	for (i = 0; i < 4 * PAGE / 512 && got != ptr; i++)
		assert_ok(vpmm_malloc(b->f.pool, &got, size, b->s[0]));
	g_assert_true(got == ptr);
}

/*
 * The pool sees that a stream is past a point when it is asked for something; then the memory serves a request, so no
 * more is ever mapped than was live.
 */
static void assert_to_be_had(struct bench *b, const struct slot *slot)
{
	struct vpmm_stats stats;
	struct slot again;

	again = take(b->f.pool, 2 * PAGE, b->s[3]);
	g_assert_cmpuint(stats_of(b->f.pool).held, ==, 0);
	give(b->f.pool, &again);
	if (slot->size < PAGE)
		return;
	again = take(b->f.pool, slot->size, b->s[2]);
	stats = stats_of(b->f.pool);
	g_assert_cmpuint(stats.mapped, <=, stats.peak_live);
	give(b->f.pool, &again);
}

static void give_others(struct bench *b, struct slot *others)
{
	int i;

	for (i = 0; i < OTHERS; i++)
		give(b->f.pool, &others[i]);
}

static void test_waits_for_user(gconstpointer data)
{
	const struct kind *kind = data;
	struct slot slot, others[OTHERS];
	struct bench b;

	if (!open_kind(&b, kind))
		return;
	slot = used_by(&b, kind->size, b.s[1]);
	free_and_take_others(&b, &slot, others);
	g_assert_true(gpu_busy(b.s[1]));

	assert_ok(gpu_finish(b.s[1]));
	gpu_ok(cu.cuCtxSynchronize());

	assert_to_be_had(&b, &slot);
	give_others(&b, others);
	gpu_ok(cu.cuCtxSynchronize());
	if (!strcmp(kind->name, "span") && !getenv("VPMM_TEST_PAGED"))
		assert_found(&b, slot.ptr, slot.size);
	close_bench(&b);
}

/* Three streams use it, and are done one after the other. */
static void test_waits_for_all(gconstpointer data)
{
	const struct kind *kind = data;
	struct slot slot, others[OTHERS];
	struct bench b;
	void *ptr;
	int i;

	if (!open_kind(&b, kind))
		return;
	slot = take(b.f.pool, kind->size, b.s[0]);
	gpu_sync(b.s[0]);
	for (i = 1; i < STREAMS; i++) {
		assert_ok(vpmm_use(b.f.pool, slot.ptr, b.s[i]));
		assert_ok(gpu_hold(b.s[i]));
		gpu_check(slot.ptr, slot.size, slot.seed, b.s[i]);
	}
	free_and_take_others(&b, &slot, others);
	for (i = 1; i < STREAMS; i++) {
		assert_ok(vpmm_malloc(b.f.pool, &ptr, (size_t)i * PAGE, b.s[0]));
		assert_ok(vpmm_free(b.f.pool, ptr, b.s[0]));
		assert_deferred(&b, &slot);
		assert_ok(gpu_finish(b.s[i]));
	}
	gpu_ok(cu.cuCtxSynchronize());

	assert_to_be_had(&b, &slot);
	give_others(&b, others);
	close_bench(&b);
}

/* It is retired while it still works, counts up to there, and is destroyed before the memory is freed or after it. */
static void retire_user(const struct kind *kind, bool busy)
{
	struct slot slot, others[OTHERS];
	drv_stream user;
	struct bench b;

	if (!open_kind(&b, kind))
		return;
	user = gpu_stream();
	slot = used_by(&b, kind->size, user);
	assert_ok(vpmm_stream_retire(b.f.pool, user));
	if (busy) {
		g_assert_true(gpu_busy(user));
		free_and_take_others(&b, &slot, others);
	}
	assert_ok(gpu_finish(user));
	gpu_sync(user);
	gpu_ok(cu.cuStreamDestroy(user));
	if (!busy)
		assert_ok(vpmm_free(b.f.pool, slot.ptr, b.s[0]));
	gpu_ok(cu.cuCtxSynchronize());

	assert_to_be_had(&b, &slot);
	if (busy)
		give_others(&b, others);
	close_bench(&b);
}

static void test_user_retired_busy(gconstpointer data)
{
	retire_user(data, true);
}

static void test_user_retired(gconstpointer data)
{
	retire_user(data, false);
}

struct user {
	struct bench *b;
	drv_context context;
	struct slot *slot;
};

static void *use_per_thread(void *data)
{
	struct user *user = data;

	gpu_ok(cu.cuCtxSetCurrent(user->context));
	assert_ok(vpmm_use(user->b->f.pool, user->slot->ptr, DRV_STREAM_PER_THREAD));
	gpu_check(user->slot->ptr, user->slot->size, user->slot->seed, DRV_STREAM_PER_THREAD);
	gpu_sync(DRV_STREAM_PER_THREAD);
	return NULL;
}

/* Nobody can tell where the stream of a thread that has ended is: the memory is kept, and goes with the pool. */
static void test_user_of_thread(gconstpointer data)
{
	const struct kind *kind = data;
	struct slot slot;
	struct bench b;
	struct user user = { .b = &b, .slot = &slot };

	if (!open_kind(&b, kind))
		return;
	slot = take(b.f.pool, kind->size, b.s[0]);
	gpu_sync(b.s[0]);
	gpu_ok(cu.cuCtxGetCurrent(&user.context));
	g_thread_join(g_thread_new("user", use_per_thread, &user));
	assert_ok(vpmm_free(b.f.pool, slot.ptr, b.s[0]));
	g_assert_cmpuint(stats_of(b.f.pool).held, >=, kind->size);
	close_bench(&b);
}

/* What streams leave when they are retired busy is there for others at once, behind their work. */
static void test_retired_busy(void)
{
	struct slot slot, other;
	uint64_t mapped;
	drv_stream stream;
	struct bench b;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		return;
	stream = gpu_stream();
	slot = take(b.f.pool, 16 * PAGE, stream);
	assert_ok(gpu_hold(stream));
	give(b.f.pool, &slot);
	mapped = stats_of(b.f.pool).mapped;
	assert_ok(vpmm_stream_retire(b.f.pool, stream));

	other = take(b.f.pool, 16 * PAGE, b.s[1]);

	g_assert_cmpuint(stats_of(b.f.pool).mapped, ==, mapped);
	g_assert_true(gpu_busy(b.s[1]));
	assert_ok(gpu_finish(stream));
	gpu_ok(cu.cuStreamDestroy(stream));
	give(b.f.pool, &other);
	close_bench(&b);
}

static void work(void *ptr, size_t size, drv_stream stream)
{
	gpu_ok(cu.cuMemsetD8Async((drv_deviceptr)ptr, 0x5a, size, stream));
}

static void come_after(drv_stream stream, drv_stream other, drv_event event)
{
	gpu_ok(cu.cuEventRecord(event, other));
	gpu_ok(cu.cuStreamWaitEvent(stream, event, 0));
}

/* One round of streams that come, work and go; every third allocation is freed on another stream, behind its own. */
static void churn(struct vpmm_pool *pool, bool retire, drv_event event)
{
	drv_stream streams[CHURN];
	void *large[CHURN], *small;
	int i;

	for (i = 0; i < CHURN; i++) {
		streams[i] = gpu_stream();
		assert_ok(vpmm_malloc(pool, &large[i], PAGE, streams[i]));
		assert_ok(vpmm_malloc(pool, &small, 3000, streams[i]));
		work(large[i], PAGE, streams[i]);
		work(small, 3000, streams[i]);
		assert_ok(vpmm_free(pool, small, streams[i]));
	}
	for (i = 0; i < CHURN; i++) {
		int by = i % 3 ? i : (i + 1) % CHURN;

		if (by != i)
			come_after(streams[by], streams[i], event);
		work(large[i], PAGE, streams[by]);
		assert_ok(vpmm_free(pool, large[i], streams[by]));
	}
	for (i = 0; i < CHURN && retire; i++)
		assert_ok(vpmm_stream_retire(pool, streams[i]));
	for (i = 0; i < CHURN; i++)
		gpu_ok(cu.cuStreamDestroy(streams[i]));
}

/* The same without a pool. */
static void churn_alone(void *ptr, drv_event event)
{
	drv_stream streams[CHURN];
	int i;

	for (i = 0; i < CHURN; i++) {
		streams[i] = gpu_stream();
		work(ptr, PAGE, streams[i]);
		work(ptr, 3000, streams[i]);
	}
	for (i = 0; i < CHURN; i++) {
		int by = i % 3 ? i : (i + 1) % CHURN;

		if (by != i)
			come_after(streams[by], streams[i], event);
		work(ptr, PAGE, streams[by]);
	}
	for (i = 0; i < CHURN; i++)
		gpu_ok(cu.cuStreamDestroy(streams[i]));
}

/* What the process has of the host's memory: of malloc(), and in pages. */
struct memory {
	size_t used;
	size_t resident;
};

static struct memory memory_now(void)
{
	struct memory memory = { .used = mallinfo2().uordblks };
	FILE *statm = fopen("/proc/self/statm", "r");
	size_t pages = 0;

	g_assert_nonnull(statm);
	g_assert_cmpint(fscanf(statm, "%*u %zu", &pages), ==, 1);
	fclose(statm);
	memory.resident = pages * (size_t)sysconf(_SC_PAGESIZE);
	return memory;
}

static unsigned int rounds_wanted(void)
{
	const char *text = getenv("VPMM_TEST_ROUNDS");
	guint64 rounds = ROUNDS;

	if (text && !g_ascii_string_to_unsigned(text, 10, 4, G_MAXUINT, &rounds, NULL))
		g_error("VPMM_TEST_ROUNDS is \"%s\", and has to be a number, 4 or more", text);
	return (unsigned int)rounds;
}

static void tell(const char *what, unsigned int rounds, struct memory half, struct memory end)
{
	g_test_message("%s: after %u rounds %zu KiB in use and %zu resident, after %u %zu and %zu", what, rounds / 2,
		       half.used >> 10, half.resident >> 10, rounds, end.used >> 10, end.resident >> 10);
}

/* What the driver keeps of streams by itself. */
static void tell_alone(unsigned int rounds, drv_event event)
{
	struct memory half = { 0 };
	drv_deviceptr at;
	unsigned int i;

	gpu_ok(cu.cuMemAlloc(&at, PAGE));
	for (i = 0; i < rounds; i++) {
		churn_alone((void *)at, event);
		if (i % 16 == 0)
			gpu_ok(cu.cuCtxSynchronize());
		if (i == rounds / 2)
			half = memory_now();
	}
	gpu_ok(cu.cuCtxSynchronize());
	tell("without a pool", rounds, half, memory_now());
	gpu_ok(cu.cuMemFree(at));
}

/* The second half of the rounds needs nothing that the first did not. */
static void test_churn(gconstpointer data)
{
	const bool retire = GPOINTER_TO_INT(data);
	const unsigned int rounds = rounds_wanted();
	struct memory half = { 0 }, end;
	struct vpmm_stats stats;
	drv_event event;
	unsigned int i;
	struct bench b;
	gint64 start;

	if (!open_bench(&b, (struct vpmm_opts){ 0 }))
		return;
	gpu_ok(cu.cuEventCreate(&event, DRV_EVENT_DISABLE_TIMING));
	tell_alone(MIN(rounds, ROUNDS_ALONE), event);
	start = g_get_monotonic_time();
	for (i = 0; i < rounds; i++) {
		churn(b.f.pool, retire, event);
		if (i % 16 == 0)
			gpu_ok(cu.cuCtxSynchronize());
		if (i == rounds / 2)
			half = memory_now();
	}
	gpu_ok(cu.cuCtxSynchronize());
	end = memory_now();
	stats = stats_of(b.f.pool);
	tell(retire ? "retired" : "not retired", rounds, half, end);
	g_test_message("%.1f us a stream; %" PRIu64 " streams known, %" PRIu64 " KiB mapped",
		       (double)(g_get_monotonic_time() - start) / rounds / CHURN, stats.streams, stats.mapped >> 10);

	g_assert_cmpuint(end.used, <=, half.used + half.used / 4);
	g_assert_cmpuint(end.resident, <=, half.resident + half.resident / 4);
	g_assert_cmpuint(stats.streams, <=, 256);
	g_assert_cmpuint(stats.live, ==, stats.held);
	g_assert_cmpuint(stats.small_live, ==, 0);
	gpu_ok(cu.cuEventDestroy(event));
	close_bench(&b);
}

static void add(const char *name, void (*test)(gconstpointer data))
{
	size_t i;

	for (i = 0; i < G_N_ELEMENTS(kinds); i++) {
		char *path = g_strdup_printf("/gpu/use/%s/%s", name, kinds[i].name);

		g_test_add_data_func(path, &kinds[i], test);
		g_free(path);
	}
}

void gpu_stream_tests(void)
{
	add("waits-for-user", test_waits_for_user);
	add("waits-for-all", test_waits_for_all);
	add("retired", test_user_retired);
	add("retired-busy", test_user_retired_busy);
	add("of-thread", test_user_of_thread);
	g_test_add_func("/gpu/retire/busy", test_retired_busy);
	g_test_add_data_func("/gpu/retire/churn/told", GINT_TO_POINTER(true), test_churn);
	g_test_add_data_func("/gpu/retire/churn/untold", GINT_TO_POINTER(false), test_churn);
}
