// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Many operations by several threads on streams that they all share: soak [OPERATIONS [SEED]], on a pool in whole
 * pages, on one with extents, and some of them on one that waits on the host.
 *
 * Most are pairs, as a program's loop has them: what a thread allocates on a stream, it frees there at once. The others
 * take slots at random from a table that all threads share: an empty one is allocated and filled on a stream, a full
 * one verified and freed, on its stream or on another that waits for it, whichever thread had it before; and now and
 * then another call of the library is made. Work completes at any time, on whatever thread that is.
 *
 * The operations come in phases, and after each, with no thread left, some streams are destroyed and others take their
 * place, everything is held against the rest, and the process may not have taken more of the host's memory.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "progress.h"
#include "support/fixture.h"
#include "util/assume.h"

#define THREADS 8
#define SOAK_STREAMS 16
#define SLOTS 256
#define CHECK_EVERY 20000
#define PHASES 16

/* Of so many steps, one is on a slot, the others are pairs; of so many of those on slots, one makes another call. */
#define SLOT_EVERY 2
#define OTHER_EVERY 32

/* Of so many pairs, one has work between its two calls. */
#define WORK_EVERY 16

/* In this many phases a process takes the memory that it is going to have; in MiB, and a part, what may come on top. */
#define WARM_PHASES 4
#define GROWTH_MIB 16
#define GROWTH_PART 10

struct slot {
	pthread_mutex_t lock;
	char *ptr;
	size_t size;
	struct CUstream_st *stream;
	uint64_t pattern;
};

struct soak {
	struct vpmm_pool *pool;
	bool paged;
	struct CUstream_st *streams[SOAK_STREAMS];
	struct slot slots[SLOTS];
	uint64_t operations;		/* of each thread in a phase */
	uint64_t done;			/* of all, in the phases before */
	uint64_t total;
	FILE *dump;
	struct progress bar;
};

struct worker {
	struct soak *soak;
	pthread_t thread;
	guint32 seed;
	uint64_t patterns;
};

struct work {
	char *ptr;
	size_t size;
	uint64_t pattern;
};

static uint64_t *first_of(const struct work *work)
{
	return (uint64_t *)(void *)work->ptr;
}

static uint64_t *last_of(const struct work *work)
{
	return (uint64_t *)(void *)(work->ptr + work->size - 8);
}

static void fill(void *data)
{
	struct work *work = data;

	*first_of(work) = work->pattern;
	*last_of(work) = ~work->pattern;
	g_free(work);
}

static void verify(void *data)
{
	struct work *work = data;

	g_assert_cmphex(*first_of(work), ==, work->pattern);
	g_assert_cmphex(*last_of(work), ==, ~work->pattern);
	g_free(work);
}

static void launch(const struct slot *slot, vpmm_host_fn fn)
{
	struct work *work = g_new(struct work, 1);

	*work = (struct work){ .ptr = slot->ptr, .size = slot->size, .pattern = slot->pattern };
	assert_ok(vpmm_host_stream_launch(slot->stream, fn, work));
}

static struct CUstream_st *any_stream(struct soak *soak, GRand *rand)
{
	return soak->streams[g_rand_int_range(rand, 0, SOAK_STREAMS)];
}

static void fill_slot(struct worker *w, struct slot *slot, GRand *rand)
{
	void *ptr;

	/* Mostly one page or two, some larger, some small, some that leave part of a page. */
	switch (g_rand_int_range(rand, 0, 8)) {
	case 3:
		slot->size = (size_t)g_rand_int_range(rand, 8192, 4 * (gint32)PAGE) & ~(size_t)15;
		break;
	case 0:
		slot->size = (size_t)g_rand_int_range(rand, 3, 9) * PAGE;
		break;
	case 1: case 2:
		slot->size = (size_t)g_rand_int_range(rand, 1, 8192) * 16;
		break;
	default:
		slot->size = (size_t)g_rand_int_range(rand, 1, 3) * PAGE;
	}
	slot->stream = any_stream(w->soak, rand);
	slot->pattern = (uint64_t)w->seed << 48 | ++w->patterns;
	assert_ok(vpmm_malloc(w->soak->pool, &ptr, slot->size, slot->stream));
	slot->ptr = ptr;
	launch(slot, fill);
}

static void empty_slot(struct worker *w, struct slot *slot, GRand *rand)
{
	struct CUstream_st *stream = slot->stream;

	if (!g_rand_int_range(rand, 0, 8))
		stream = any_stream(w->soak, rand);
	if (stream != slot->stream)
		assert_ok(vpmm_host_stream_wait(stream, slot->stream));
	slot->stream = stream;
	launch(slot, verify);
	assert_ok(vpmm_free(w->soak->pool, slot->ptr, stream));
	slot->ptr = NULL;
}

static void complete(struct soak *soak, GRand *rand)
{
	int err = vpmm_host_stream_complete(any_stream(soak, rand), (unsigned int)g_rand_int_range(rand, 1, 16));

	g_assert_true(err == 0 || err == -EBUSY);
}

static void check(struct soak *soak)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };

	assert_ok(vpmm_pool_check(soak->pool));
	assert_ok(vpmm_pool_stats(soak->pool, &stats));
	g_assert_cmpuint(stats.live + stats.free, ==, stats.mapped);
	g_assert_cmpuint(stats.mapped + stats.given_back, ==, stats.grown);
	g_assert_cmpuint(stats.grown, >=, stats.peak_live);
	g_assert_cmpuint(stats.held, <=, stats.live + stats.small_live);
	g_assert_cmpuint(stats.live + stats.free + stats.holes + stats.zombies, ==, stats.reserved);
}

/* What threads do beside, with a slot that is theirs, full or empty. */
static void use_stats(struct worker *w, struct slot *slot, GRand *rand)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };

	assert_ok(vpmm_pool_stats(w->soak->pool, &stats));
	g_assert_cmpuint(stats.live + stats.free, ==, stats.mapped);
}

static void use_info(struct worker *w, struct slot *slot, GRand *rand)
{
	struct vpmm_info info = { .size = sizeof(info) };

	assert_ok(vpmm_pool_info(w->soak->pool, &info));
	g_assert_cmpuint(info.page_size, ==, PAGE);
}

static void use_dump(struct worker *w, struct slot *slot, GRand *rand)
{
	if (w->seed % THREADS)
		return;
	rewind(w->soak->dump);
	assert_ok(vpmm_pool_dump(w->soak->pool, w->soak->dump));
}

static void use_wrongly(struct worker *w, struct slot *slot, GRand *rand)
{
	void *ptr = NULL;

	assert_error(vpmm_free(w->soak->pool, w, any_stream(w->soak, rand)), EINVAL, "no allocation");
	assert_error(vpmm_malloc(w->soak->pool, &ptr, SIZE_MAX / 2, any_stream(w->soak, rand)), ENOMEM, "wanted: ");
}

static void use_own_stream(struct worker *w, struct slot *slot, GRand *rand)
{
	void *ptr;

	assert_ok(vpmm_malloc(w->soak->pool, &ptr, PAGE, VPMM_HOST_STREAM_PER_THREAD));
	assert_ok(vpmm_free(w->soak->pool, ptr, VPMM_HOST_STREAM_PER_THREAD));
}

static void verify_slot(struct worker *w, struct slot *slot, GRand *rand)
{
	if (slot->ptr)
		launch(slot, verify);
}

/* All that is done with it beside: another stream looks at it, and need not be done when it is freed. */
static void use_slot(struct worker *w, struct slot *slot, GRand *rand)
{
	struct slot seen = *slot;

	if (!slot->ptr)
		return;
	seen.stream = any_stream(w->soak, rand);
	if (seen.stream != slot->stream)
		assert_ok(vpmm_host_stream_wait(seen.stream, slot->stream));
	assert_ok(vpmm_use(w->soak->pool, slot->ptr, seen.stream));
	launch(&seen, verify);
}

/* One that nothing names, as it may be used again at once. */
static void use_retired(struct worker *w, struct slot *slot, GRand *rand)
{
	struct CUstream_st *stream;
	void *ptr;

	assert_ok(vpmm_host_stream_create(&stream));
	assert_ok(vpmm_malloc(w->soak->pool, &ptr, PAGE, stream));
	assert_ok(vpmm_free(w->soak->pool, ptr, stream));
	assert_ok(vpmm_stream_retire(w->soak->pool, stream));
	assert_ok(vpmm_host_stream_destroy(stream));
}

static void use_trim(struct worker *w, struct slot *slot, GRand *rand)
{
	size_t keep = (size_t)g_rand_int_range(rand, 0, 2 * SLOTS) * PAGE, released = 0;

	assert_ok(vpmm_pool_trim(w->soak->pool, keep, &released));
	g_assert_cmpuint(released % PAGE, ==, 0);
}

static void use_query(struct worker *w, struct slot *slot, GRand *rand)
{
	struct vpmm_forecast forecast = { .size = sizeof(forecast) };
	size_t size = (size_t)g_rand_int_range(rand, 1, 9 * (gint32)PAGE);

	assert_ok(vpmm_pool_query(w->soak->pool, size, any_stream(w->soak, rand), &forecast));
	g_assert_cmpint(forecast.way, !=, VPMM_WAY_NONE);
}

static void verify_zero(void *data)
{
	struct work *work = data;

	g_assert_cmphex(*first_of(work), ==, 0);
	g_assert_cmphex(*last_of(work), ==, 0);
	g_free(work);
}

static void use_zeroed(struct worker *w, struct slot *slot, GRand *rand)
{
	struct slot zeroed = { .size = (size_t)g_rand_int_range(rand, 1, 8192) * 16 };
	void *ptr;

	zeroed.stream = any_stream(w->soak, rand);
	assert_ok(vpmm_malloc_flags(w->soak->pool, &ptr, zeroed.size, zeroed.stream, VPMM_ZERO));
	zeroed.ptr = ptr;
	launch(&zeroed, verify_zero);
	launch(&zeroed, fill);
	assert_ok(vpmm_free(w->soak->pool, ptr, zeroed.stream));
}

static void verify_kept(void *data)
{
	struct work *work = data;

	g_assert_cmphex(*first_of(work), ==, work->pattern);
	g_assert_cmphex(*last_of(work), ==, ~work->pattern);
}

static void fill_kept(void *data)
{
	struct work *work = data;

	*first_of(work) = work->pattern;
	*last_of(work) = ~work->pattern;
}

/* A graph of its own, launched twice, on a stream of its own; other threads have the pool meanwhile. */
static void use_graph(struct worker *w, struct slot *slot, GRand *rand)
{
	struct work work = { .size = (size_t)g_rand_int_range(rand, 1, 3) * PAGE, .pattern = ++w->patterns };
	struct vpmm_host_graph *graph;
	struct CUstream_st *stream;
	uint64_t id = 0;
	void *ptr;

	assert_ok(vpmm_host_stream_create(&stream));
	assert_ok(vpmm_host_capture_begin(stream));
	assert_ok(vpmm_capture_id(w->soak->pool, stream, &id));
	assert_ok(vpmm_malloc(w->soak->pool, &ptr, work.size, stream));
	work.ptr = ptr;
	assert_ok(vpmm_host_stream_launch(stream, fill_kept, &work));
	assert_ok(vpmm_host_stream_launch(stream, verify_kept, &work));
	assert_ok(vpmm_free(w->soak->pool, ptr, stream));
	assert_ok(vpmm_host_capture_end(stream, &graph));
	for (int i = 0; i < 2; i++) {
		assert_ok(vpmm_host_graph_launch(graph, stream));
		assert_ok(vpmm_host_stream_complete(stream, UINT_MAX));
	}
	assert_ok(vpmm_host_graph_destroy(graph));
	assert_ok(vpmm_graph_retire(w->soak->pool, id, stream));
	assert_ok(vpmm_stream_retire(w->soak->pool, stream));
	assert_ok(vpmm_host_stream_destroy(stream));
}

static void (*const others[])(struct worker *w, struct slot *slot, GRand *rand) = {
	use_stats,
	use_info,
	use_dump,
	use_wrongly,
	use_own_stream,
	verify_slot,
	use_slot,
	use_retired,
	use_trim,
	use_query,
	use_zeroed,
	use_graph,
};

static void take_slot(struct worker *w, uint64_t i, GRand *rand)
{
	struct slot *slot = &w->soak->slots[g_rand_int_range(rand, 0, SLOTS)];

	pthread_mutex_lock(&slot->lock);
	if (i % OTHER_EVERY == 0)
		others[g_rand_int_range(rand, 0, G_N_ELEMENTS(others))](w, slot, rand);
	if (slot->ptr)
		empty_slot(w, slot, rand);
	else
		fill_slot(w, slot, rand);
	pthread_mutex_unlock(&slot->lock);
	if (i % 2)
		complete(w->soak, rand);
}

/* On streams that are the thread's own but for what slots have on them. */
static void take_pair(struct worker *w, uint64_t i)
{
	static const size_t sizes[] = { PAGE, 512, 3 * PAGE, 65536 + 48 };
	struct slot slot = { .size = sizes[i / 64 % G_N_ELEMENTS(sizes)] };
	void *ptr;

	slot.stream = w->soak->streams[w->seed % THREADS + i / 1024 % 2 * THREADS];
	assert_ok(vpmm_malloc(w->soak->pool, &ptr, slot.size, slot.stream));
	slot.ptr = ptr;
	if (i % WORK_EVERY == 0) {
		slot.pattern = (uint64_t)w->seed << 48 | ++w->patterns;
		launch(&slot, fill);
		launch(&slot, verify);
	}
	assert_ok(vpmm_free(w->soak->pool, ptr, slot.stream));
}

static void *work(void *data)
{
	struct worker *w = data;
	struct soak *soak = w->soak;
	GRand *rand = g_rand_new_with_seed(w->seed);

	for (uint64_t i = 1, done = 0; done < soak->operations; i++) {
		if (i % SLOT_EVERY == 0) {
			take_slot(w, i / SLOT_EVERY, rand);
			done++;
		} else {
			take_pair(w, i);
			done += 2;
		}
		if (i % CHECK_EVERY == 0)
			check(soak);
		if (i % PROGRESS_STRIDE)
			continue;
		if (w->seed % THREADS == 0)
			progress_show(&soak->bar, soak->done + done * THREADS, soak->total);
	}
	/* What a thread has on its own stream, no other can complete. */
	assert_ok(vpmm_host_stream_complete(VPMM_HOST_STREAM_PER_THREAD, UINT_MAX));
	g_rand_free(rand);
	return NULL;
}

static void soak_open(struct soak *soak, struct vpmm_opts opts)
{
	soak->dump = tmpfile();
	g_assert_nonnull(soak->dump);
	assert_ok(vpmm_pool_create(&soak->pool, &opts));
	for (int i = 0; i < SOAK_STREAMS; i++)
		assert_ok(vpmm_host_stream_create(&soak->streams[i]));
	for (int i = 0; i < SLOTS; i++)
		pthread_mutex_init(&soak->slots[i].lock, NULL);
}

static void complete_all(struct soak *soak)
{
	bool busy = true;

	while (busy) {
		busy = false;
		for (int i = 0; i < SOAK_STREAMS; i++)
			busy |= vpmm_host_stream_complete(soak->streams[i], UINT_MAX) == -EBUSY;
	}
}

/*
 * As all work is done, what an old stream had is a new one's without a wait. Those that were named have to be retired.
 */
static void renew_streams(struct soak *soak, unsigned int phase)
{
	complete_all(soak);
	for (unsigned int i = phase % 4; i < SOAK_STREAMS; i += 4) {
		struct CUstream_st *old = soak->streams[i];

		assert_ok(vpmm_stream_retire(soak->pool, old));
		assert_ok(vpmm_host_stream_destroy(old));
		assert_ok(vpmm_host_stream_create(&soak->streams[i]));
		for (int j = 0; j < SLOTS; j++) {
			if (soak->slots[j].stream == old)
				soak->slots[j].stream = soak->streams[i];
		}
	}
}

/* KiB of the host's memory that are the process's own, device memory apart; 0 where a sanitizer has more of it. */
static uint64_t host_memory(void)
{
	uint64_t kib = 0;
	char *text, *line;

	if (SANITIZED || g_getenv("LD_PRELOAD") || !g_file_get_contents("/proc/self/status", &text, NULL, NULL))
		return 0;
	line = strstr(text, "RssAnon:");
	if (line)
		kib = g_ascii_strtoull(line + strlen("RssAnon:"), NULL, 10);
	g_free(text);
	return kib;
}

static void soak_close(struct soak *soak)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };
	GRand *rand = g_rand_new_with_seed(0);
	struct worker w = { .soak = soak };

	for (int i = 0; i < SLOTS; i++) {
		if (soak->slots[i].ptr)
			empty_slot(&w, &soak->slots[i], rand);
		pthread_mutex_destroy(&soak->slots[i].lock);
	}
	complete_all(soak);
	check(soak);
	assert_ok(vpmm_pool_stats(soak->pool, &stats));
	g_assert_cmpuint(stats.live, ==, 0);
	g_assert_cmpuint(stats.small_live, ==, 0);
	g_assert_cmpuint(stats.mallocs, ==, stats.frees);
	vpmm_pool_destroy(soak->pool);
	for (int i = 0; i < SOAK_STREAMS; i++)
		assert_ok(vpmm_host_stream_destroy(soak->streams[i]));
	fixture_assert_nothing_left();
	fclose(soak->dump);
	g_rand_free(rand);
	printf("%" PRIu64 " allocations, of which %" PRIu64 " found a free block, %" PRIu64
	       " were gathered and %" PRIu64 " grew the pool to %" PRIu64 " MiB, after %"
	       PRIu64 " waits\n", stats.mallocs, stats.reuses, stats.defrags, stats.grows,
	       stats.peak_mapped >> 20, stats.waits);
}

static uint64_t number(const char *text)
{
	guint64 value;

	if (!g_ascii_string_to_unsigned(text, 10, 1, INT64_MAX, &value, NULL)) {
		fprintf(stderr, "soak: %s is no number of operations, nor a seed\n", text);
		exit(2);
	}
	return value;
}

static void run_phase(struct soak *soak, guint32 seed)
{
	struct worker workers[THREADS];

	for (guint32 i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .soak = soak, .seed = seed * THREADS + i };
		g_assert_cmpint(pthread_create(&workers[i].thread, NULL, work, &workers[i]), ==, 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
}

static void run(struct vpmm_opts opts, uint64_t operations, guint32 seed)
{
	static struct soak soak;
	uint64_t memory, most = 0;
	int64_t start = g_get_monotonic_time();

	soak = (struct soak){
		.operations = (operations + THREADS * PHASES - 1) / (THREADS * PHASES),
		.paged = opts.extent_max == PAGE,
		.total = operations,
	};
	soak_open(&soak, opts);
	progress_begin(&soak.bar, "soak");
	for (unsigned int phase = 0; phase < PHASES; phase++) {
		run_phase(&soak, seed * PHASES + phase);
		renew_streams(&soak, phase);
		check(&soak);
		soak.done += soak.operations * THREADS;
		memory = host_memory();
		if (phase < WARM_PHASES)
			most = MAX(most, memory);
		else if (memory > most + most / GROWTH_PART + GROWTH_MIB * 1024)
			g_error("phase %u: %" PRIu64 " KiB of the host's memory, %" PRIu64 " KiB before",
				phase, memory, most);
	}
	progress_end(&soak.bar);
	soak_close(&soak);
	printf("%.0f operations a second, %" PRIu64 " KiB of the host's memory, %" PRIu64
	       " KiB at the start\n", (double)operations * G_USEC_PER_SEC / (double)(g_get_monotonic_time() - start),
	       memory, most);
}

int main(int argc, char **argv)
{
	uint64_t operations = argc > 1 ? number(argv[1]) : 100000;
	guint32 seed = argc > 2 ? (guint32)number(argv[2]) : 1;

	run((struct vpmm_opts){ FIXTURE_OPTS }, operations / 2, seed);
	run((struct vpmm_opts){ FIXTURE_PACKED }, operations / 2 - operations / 8, seed);
	run((struct vpmm_opts){ FIXTURE_PACKED, .reuse = VPMM_REUSE_BLOCK }, operations / 8, seed);
	return 0;
}
