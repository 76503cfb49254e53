// SPDX-License-Identifier: LGPL-2.1-or-later
/* VPMM_STACKS and VPMM_OOM_DUMP: who holds memory, exactly where all are sampled and nearly where some are. */
#include <errno.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/tag-fixture.h"
#include "trace/sampler.h"

#define MIB ((size_t)1 << 20)

static struct fixture f;

static void open_pool(size_t stacks, const char *oom_dump)
{
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .stacks = stacks, .oom_dump = oom_dump,
					     .limit = 512 * MIB });
}

/* Two that allocate, so that their stacks differ. Their names are no symbols that the dynamic linker knows. */
static void *__attribute__((noinline)) allocate_here(size_t size)
{
	void *ptr = NULL;

	assert_ok(vpmm_malloc(f.pool, &ptr, size, f.streams[0]));
	return ptr;
}

static void *__attribute__((noinline)) allocate_there(size_t size)
{
	void *ptr = NULL;

	assert_ok(vpmm_malloc(f.pool, &ptr, size, f.streams[1]));
	return ptr;
}

struct sums {
	unsigned int stacks;
	unsigned int frames;
	uint64_t live;
	uint64_t blocks;
	uint64_t peaks;
	uint64_t first;
};

/* What the stacks of a dump hold, all together, and that they come in their order. */
static struct sums sum_up(const char *text)
{
	struct sums sums = { 0 };
	uint64_t before = UINT64_MAX;

	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		unsigned long long live, blocks, peak;

		sums.frames += g_str_has_prefix(line, "    #");
		if (sscanf(line, "stack live %llu blocks %llu peak %llu", &live, &blocks, &peak) != 3)
			continue;
		g_assert_cmpuint(live, <=, before);
		g_assert_cmpuint(live, <=, peak);
		before = live;
		sums.first = sums.stacks++ ? sums.first : live;
		sums.live += live;
		sums.blocks += blocks;
		sums.peaks += peak;
	}
	return sums;
}

static struct sums sums_now(void)
{
	char *dump = fixture_dump(&f);
	struct sums sums = sum_up(dump);

	free(dump);
	return sums;
}

static void assert_held(uint64_t live, uint64_t blocks)
{
	struct sums sums = sums_now();

	g_assert_cmpuint(sums.live, ==, live);
	g_assert_cmpuint(sums.blocks, ==, blocks);
}

static void test_off(void)
{
	char *dump;

	open_pool(0, NULL);
	vpmm_free(f.pool, allocate_here(MIB), f.streams[0]);
	dump = fixture_dump(&f);
	g_assert_null(strstr(dump, "stack"));
	free(dump);
	fixture_close(&f);
}

static void test_exact(void)
{
	void *here[8], *there;
	struct sums sums;

	open_pool(1, NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(here); i++)
		here[i] = allocate_here(MIB + i);
	there = allocate_there(100 * MIB);
	sums = sums_now();
	g_assert_cmpuint(sums.stacks, >=, 2);
	g_assert_cmpuint(sums.frames, >, 2 * sums.stacks);
	g_assert_cmpuint(sums.first, ==, 100 * MIB);
	assert_held(108 * MIB + 28, 9);
	assert_ok(vpmm_free(f.pool, there, f.streams[1]));
	for (size_t i = 0; i < G_N_ELEMENTS(here); i += 2)
		assert_ok(vpmm_free(f.pool, here[i], f.streams[0]));
	assert_held(4 * MIB + 16, 4);
	/* From the cache, whose blocks are sampled as any others. */
	here[0] = allocate_here(MIB);
	assert_held(5 * MIB + 16, 5);
	g_assert_cmpuint(sums_now().peaks, >=, 108 * MIB + 28);
	for (size_t i = 1; i < G_N_ELEMENTS(here); i += 2)
		assert_ok(vpmm_free(f.pool, here[i], VPMM_STREAM_ANY));
	assert_ok(vpmm_free(NULL, here[0], f.streams[0]));
	assert_held(0, 0);
	fixture_close(&f);
}

/* A free that is refused leaves the sample; what is resized is there once. */
static void test_other_calls(void)
{
	void *ptr = NULL, *growable = NULL, *clear = NULL, *aligned = NULL;

	open_pool(1, NULL);
	ptr = allocate_here(3 * MIB);
	g_assert_cmpint(vpmm_free(f.pool, (char *)ptr + 512, f.streams[0]), ==, -EINVAL);
	assert_held(3 * MIB, 1);
	assert_ok(vpmm_realloc(f.pool, &ptr, 70 * MIB, f.streams[0]));
	assert_held(70 * MIB, 1);
	g_assert_cmpint(vpmm_realloc(f.pool, &ptr, 900 * MIB, f.streams[0]), ==, -ENOMEM);
	assert_held(70 * MIB, 1);
	assert_ok(vpmm_malloc_growable(f.pool, &growable, MIB, 9 * MIB, f.streams[0]));
	assert_ok(vpmm_realloc(f.pool, &growable, 5 * MIB, f.streams[0]));
	assert_ok(vpmm_malloc_flags(f.pool, &clear, 7, f.streams[1], VPMM_ZERO));
	assert_ok(vpmm_malloc_aligned(f.pool, &aligned, 100, 65536, f.streams[1]));
	assert_held(75 * MIB + 107, 4);
	assert_ok(vpmm_realloc(f.pool, &growable, 0, f.streams[0]));
	assert_ok(vpmm_free(f.pool, clear, f.streams[1]));
	assert_held(70 * MIB + 100, 2);
	g_assert_cmpint(vpmm_free(f.pool, clear, f.streams[1]), ==, -EINVAL);
	/* The pool ends with blocks of it that are allocated. */
	fixture_close(&f);
	open_pool(1, NULL);
	assert_held(0, 0);
	fixture_close(&f);
}

/* The log callback of a pool whose free fails; ends another pool. */
static void end_other(void *data, int level, const char *message)
{
	struct vpmm_pool **other = data;

	(void)level;
	(void)message;
	vpmm_pool_destroy(*other);
	*other = NULL;
}

/* A pool ends while the free of the only block that is sampled is about to fail: the block's sample is there again. */
static void test_other_ends(void)
{
	struct CUstream_st *gone;
	struct vpmm_pool *other;
	const struct vpmm_opts opts = { FIXTURE_PACKED, .stacks = 1, .log = end_other, .log_data = &other,
					.log_level = VPMM_LOG_ERROR };
	void *ptr;

	open_pool(1, NULL);
	other = f.pool;
	assert_ok(vpmm_pool_create(&f.pool, &opts));
	assert_ok(vpmm_host_stream_create(&gone));
	assert_ok(vpmm_host_stream_destroy(gone));
	ptr = allocate_here(MIB);
	g_assert_cmpint(vpmm_free(f.pool, ptr, gone), ==, -EINVAL);
	g_assert_null(other);
	assert_held(MIB, 1);
	assert_ok(vpmm_free(f.pool, ptr, f.streams[0]));
	fixture_close(&f);
}

/* Of 32 MiB in small blocks and a mebibyte of large ones, sampled each 16 KiB: within a fifth in all seeds. */
static void test_estimate(void)
{
	const size_t sizes[] = { 512, 3000, 65536 };
	static void *blocks[20000];
	size_t n, bytes;

	for (size_t s = 0; s < G_N_ELEMENTS(sizes); s++) {
		n = MIN(G_N_ELEMENTS(blocks), 64 * MIB / sizes[s]);
		bytes = n * sizes[s];
		open_pool(16384, NULL);
		for (size_t i = 0; i < n; i++)
			blocks[i] = allocate_here(sizes[s]);
		g_assert_cmpuint(sums_now().live, >, bytes / 5 * 4);
		g_assert_cmpuint(sums_now().live, <, bytes / 5 * 6);
		g_assert_cmpuint(sums_now().blocks, >, n / 5 * 4);
		g_assert_cmpuint(sums_now().blocks, <, n / 5 * 6);
		for (size_t i = 0; i < n; i++)
			assert_ok(vpmm_free(f.pool, blocks[i], f.streams[0]));
		assert_held(0, 0);
		fixture_close(&f);
	}
}

static void *churn(void *stream)
{
	for (unsigned int i = 0; i < 2000; i++) {
		void *ptr = NULL;

		assert_ok(vpmm_malloc(f.pool, &ptr, 1000 + i, stream));
		if (i % 2)
			assert_ok(vpmm_realloc(f.pool, &ptr, 500 + i, stream));
		assert_ok(vpmm_free(f.pool, ptr, stream));
	}
	return NULL;
}

static void test_threads(void)
{
	GThread *threads[STREAMS];

	open_pool(2000, NULL);
	for (size_t i = 0; i < STREAMS; i++)
		threads[i] = g_thread_new("churn", churn, f.streams[i]);
	for (unsigned int i = 0; i < 20; i++)
		sums_now();
	for (size_t i = 0; i < STREAMS; i++)
		g_thread_join(threads[i]);
	assert_held(0, 0);
	fixture_close(&f);
}

static void *come_and_go(void *data)
{
	struct vpmm_opts opts = { FIXTURE_PACKED, .stacks = 1 };
	struct vpmm_pool *pool;
	void *ptr;

	for (int i = 0; i < 200; i++) {
		assert_ok(vpmm_pool_create(&pool, &opts));
		for (int k = 0; k < 8; k++)
			assert_ok(vpmm_malloc(pool, &ptr, MIB, NULL));
		vpmm_pool_destroy(pool);
	}
	return data;
}

/* A pool that ends beside others has no sample left when they can get its addresses. */
static void test_pools_end(void)
{
	GThread *threads[4];

	for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
		threads[i] = g_thread_new("pools", come_and_go, NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
		g_thread_join(threads[i]);
	fixture_assert_nothing_left();
}

/* Two pools, and a block of the second. */
struct two {
	struct vpmm_pool *first;
	struct vpmm_pool *second;
	void *ptr;
	void (*act)(struct two *two);
};

static void free_block(struct two *two)
{
	assert_ok(vpmm_free(two->second, two->ptr, NULL));
}

static void end_second(struct two *two)
{
	vpmm_pool_destroy(two->second);
	two->second = NULL;
}

static void act(void *data, int level, const char *message)
{
	struct two *two = data;

	(void)level;
	(void)message;
	two->act(two);
}

/* A free that names a wrong pool leaves the block's sample to the owner, which frees the block or ends meanwhile. */
static void test_wrong_pool(void)
{
	static void (*const acts[])(struct two *two) = { free_block, end_second };

	for (size_t i = 0; i < G_N_ELEMENTS(acts); i++) {
		struct two two = { .act = acts[i] };
		const struct vpmm_opts first = { FIXTURE_PACKED, .stacks = 1, .log = act, .log_data = &two,
						 .log_level = VPMM_LOG_ERROR };
		const struct vpmm_opts second = { FIXTURE_PACKED, .stacks = 1 };

		assert_ok(vpmm_pool_create(&two.first, &first));
		assert_ok(vpmm_pool_create(&two.second, &second));
		assert_ok(vpmm_malloc(two.second, &two.ptr, MIB, NULL));
		g_assert_cmpuint(sampler_live, ==, 1);
		assert_error(vpmm_free(two.first, two.ptr, NULL), EINVAL, "another pool");
		g_assert_cmpuint(sampler_live, ==, 0);
		vpmm_pool_destroy(two.second);
		vpmm_pool_destroy(two.first);
		fixture_assert_nothing_left();
	}
}

/* A free that fails as its pool has ended gives its sample back to nobody. */
static void test_ended_meanwhile(void)
{
	struct sampler *sampler = sampler_new(1);
	struct sample *sample;

	sampler_note(sampler, MIB, MIB);
	sample = sampler_take(NULL, MIB);
	g_assert_nonnull(sample);
	sampler_free(sampler);
	sampler_end(sample, true);
	g_assert_cmpuint(sampler_live, ==, 0);
	g_assert_null(sampler_take(NULL, MIB));
}

/* A block of a program that frees it twice at once can have been sampled anew in between. */
static void test_twice(void)
{
	struct sampler *sampler = sampler_new(1);
	struct sample *sample;

	sampler_note(sampler, MIB, MIB);
	sample = sampler_take(sampler, MIB);
	sampler_note(sampler, MIB, MIB);
	sampler_end(sample, true);
	g_assert_cmpuint(sampler_live, ==, 1);
	sampler_free(sampler);
	g_assert_cmpuint(sampler_live, ==, 0);
}

static void test_exhausted(void)
{
	void *ptr = NULL;

	open_pool(1, NULL);
	allocate_here(400 * MIB);
	assert_error(vpmm_malloc(f.pool, &ptr, 200 * MIB, f.streams[0]), ENOMEM, "\nheld: 400 MiB in 1 blocks by ");
	fixture_close(&f);
}

/* Memory under a tag with an arena counts like the rest, whichever of the two finds too little. */
static void test_exhausted_tags(void)
{
	static const char *const held = "*\nheld: 300 MiB in 1 blocks by *\nheld: 100 MiB in 1 blocks by *";
	vpmm_tag tag = tag_get("a", VPMM_TAG_PAUSABLE);
	void *ptr = NULL;

	for (int first = 0; first < 2; first++) {
		open_pool(1, NULL);
		for (int i = 0; i < 2; i++) {
			vpmm_tag_set(i == first ? tag : 0);
			allocate_here((i ? 300 : 100) * MIB);
		}
		for (int i = 0; i < 2; i++) {
			vpmm_tag_set(i ? tag : 0);
			assert_error(vpmm_malloc(f.pool, &ptr, 200 * MIB, f.streams[0]), ENOMEM, "limit");
			g_assert_true(g_pattern_match_simple(held, vpmm_last_error()));
		}
		vpmm_tag_set(0);
		fixture_close(&f);
	}
}

static void test_oom_dump(void)
{
	char *name = g_strdup_printf("%s/vpmm-oom-%%p-%%%%", g_get_tmp_dir()), *text;
	char *made = g_strdup_printf("%s/vpmm-oom-%d-%%", g_get_tmp_dir(), (int)getpid());
	struct vpmm_info info = { .size = sizeof(info) };
	vpmm_tag weights, cache;
	void *ptr = NULL;

	open_pool(1, name);
	assert_ok(vpmm_pool_info(f.pool, &info));
	g_assert_cmpstr(info.oom_dump, ==, made);
	assert_ok(vpmm_tag_open("weights", 0, &weights));
	vpmm_tag_set(weights);
	allocate_here(100 * MIB);
	assert_ok(vpmm_tag_open("cache", VPMM_TAG_PAUSABLE, &cache));
	vpmm_tag_set(cache);
	allocate_there(100 * MIB);
	vpmm_tag_set(0);
	allocate_here(200 * MIB);
	g_assert_false(g_file_test(made, G_FILE_TEST_EXISTS));
	assert_error(vpmm_malloc(f.pool, &ptr, 200 * MIB, f.streams[0]), ENOMEM, "200 MiB wanted");
	g_assert_true(g_file_get_contents(made, &text, NULL, NULL));
	g_assert_true(g_str_has_prefix(text, "# vpmm-oom-dump 1\n"));
	g_assert_nonnull(strstr(text, "\nwanted: 209715200\n"));
	g_assert_nonnull(strstr(text, "\nerror: "));
	g_assert_nonnull(strstr(text, "\ntag weights live 104857600 requested 104857600 blocks 1 peak 104857600\n"));
	g_assert_nonnull(strstr(text, "\ntag cache live 104857600 "));
	g_assert_nonnull(strstr(text, "\nchunk 0x"));
	g_assert_nonnull(strstr(text, " bytes, stream "));
	g_assert_nonnull(strstr(text, "209715200 bytes, stream "));
	g_assert_cmpuint(sum_up(text).live, ==, 400 * MIB);
	g_free(text);
	/* Only the first failure of a pool is written. */
	g_unlink(made);
	assert_error(vpmm_malloc(f.pool, &ptr, 300 * MIB, f.streams[0]), ENOMEM, "300 MiB wanted");
	g_assert_false(g_file_test(made, G_FILE_TEST_EXISTS));
	fixture_close(&f);
	g_free(made);
	g_free(name);
}

/* What cannot be written is said once, and the error of the call is its own. */
static void test_no_dump(void)
{
	void *ptr = NULL;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .oom_dump = "/nowhere/at/all", .limit = 512 * MIB,
					     .log_level = VPMM_LOG_WARNING });
	assert_error(vpmm_malloc(f.pool, &ptr, 600 * MIB, f.streams[0]), ENOMEM, "600 MiB wanted");
	g_assert_nonnull(strstr(f.log->str, "/nowhere/at/all (VPMM_OOM_DUMP) cannot be written: No such file"));
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/stacks/off", test_off);
	g_test_add_func("/stacks/exact", test_exact);
	g_test_add_func("/stacks/other-calls", test_other_calls);
	g_test_add_func("/stacks/other-ends", test_other_ends);
	g_test_add_func("/stacks/estimate", test_estimate);
	g_test_add_func("/stacks/threads", test_threads);
	g_test_add_func("/stacks/pools-end", test_pools_end);
	g_test_add_func("/stacks/wrong-pool", test_wrong_pool);
	g_test_add_func("/stacks/ended-meanwhile", test_ended_meanwhile);
	g_test_add_func("/stacks/twice", test_twice);
	g_test_add_func("/stacks/exhausted", test_exhausted);
	g_test_add_func("/stacks/exhausted/tags", test_exhausted_tags);
	g_test_add_func("/stacks/oom-dump", test_oom_dump);
	g_test_add_func("/stacks/no-oom-dump", test_no_dump);
	return g_test_run();
}
