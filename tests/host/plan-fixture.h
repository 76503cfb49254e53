/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Files of VPMM_PLAN, whole ones and others, and a program whose pool has something to learn. */
#ifndef PLAN_FIXTURE_H
#define PLAN_FIXTURE_H

#include <glib/gstdio.h>
#include <inttypes.h>
#include <string.h>

#include "support/fixture.h"

#define BLOCKS 24
#define STEPS 240

static char *folder, *file;

static inline void plan_begin(void)
{
	folder = g_dir_make_tmp("vpmm-plan-XXXXXX", NULL);
	g_assert_nonnull(folder);
	file = g_build_filename(folder, "plan", NULL);
}

static inline void plan_end(void)
{
	g_remove(file);
	g_rmdir(folder);
	g_free(file);
	g_free(folder);
}

static inline struct vpmm_opts plan_opts(const char *name)
{
	return (struct vpmm_opts){ FIXTURE_PACKED, .plan = name, .log_level = VPMM_LOG_INFO };
}

static inline uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

/*
 * A program that leaves gaps, so that memory is remapped; each pass requests the same. Returns what stands for all
 * addresses that it had of blocks from @least bytes on.
 */
static inline uint64_t run_pass_from(struct vpmm_pool *pool, struct CUstream_st *stream, uint32_t seed, size_t least)
{
	void *blocks[BLOCKS] = { NULL };
	uint64_t sum = 0;

	for (int i = 0; i < STEPS; i++) {
		void **block = &blocks[next_random(&seed) % BLOCKS];
		size_t size = next_random(&seed) % 8 ? (1 + next_random(&seed) % 12) * PAGE / 2 : 1000;

		if (*block)
			assert_ok(vpmm_free(pool, *block, stream));
		assert_ok(vpmm_malloc(pool, block, size, stream));
		if (size >= least)
			sum = (sum ^ sum >> 29 ^ (uintptr_t)*block) * UINT64_C(0x100000001b3);
	}
	for (int i = 0; i < BLOCKS; i++)
		assert_ok(vpmm_free(pool, blocks[i], stream));
	assert_ok(vpmm_pool_check(pool));
	return sum;
}

static inline uint64_t run_pass(struct vpmm_pool *pool, struct CUstream_st *stream, uint32_t seed)
{
	return run_pass_from(pool, stream, seed, 0);
}

/* Writes a plan of @passes in this process, and returns its text. */
static inline char *written(int passes)
{
	struct fixture f;
	char *text;

	g_remove(file);
	fixture_open(&f, plan_opts(file));
	while (passes--)
		run_pass(f.pool, f.streams[0], 1);
	fixture_close(&f);
	g_assert_true(g_file_get_contents(file, &text, NULL, NULL));
	return text;
}

static inline void put(const char *text, gssize length)
{
	g_assert_true(g_file_set_contents(file, text, length, NULL));
}

/* As the last line has it; what is changed by hand is taken for whole. */
static inline char *summed(const char *text)
{
	const char *last = g_strrstr(text, "end 0x");
	uint64_t sum = UINT64_C(0xcbf29ce484222325);

	for (const char *at = text; at < last; at++)
		sum = (sum ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
	return g_strdup_printf("%.*send 0x%016" PRIx64 "\n", (int)(last - text), text, sum);
}

/* A pool with such a file serves; whether it says that it does not use the plan. */
static inline bool serves_without(void)
{
	struct fixture f;
	bool without;

	fixture_open(&f, plan_opts(file));
	without = strstr(f.log->str, "is not used") != NULL;
	if (without)
		g_assert_cmpuint(fixture_stats(&f).mapped, ==, 0);
	assert_ok(vpmm_pool_check(f.pool));
	run_pass(f.pool, f.streams[0], 2);
	fixture_close(&f);
	return without;
}

#endif /* PLAN_FIXTURE_H */
