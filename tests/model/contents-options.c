// SPDX-License-Identifier: LGPL-2.1-or-later
#include <glib/gstdio.h>
#include <string.h>

#include "model/contents-options.h"

static bool one_in(GRand *rand, int n)
{
	return !g_rand_int_range(rand, 0, n);
}

static void ignore(void *data, int level, const char *message)
{
	g_assert_cmpstr(message, !=, "");
}

void options_choose_device(struct run *run, GRand *rand)
{
	bool small = one_in(rand, 6), few = one_in(rand, 8);

	g_setenv("VPMM_HOST_CAPACITY", small ? "112M" : "80G", TRUE);
	g_setenv("VPMM_HOST_DEVICES", G_STRINGIFY(CONTENTS_DEVICES), TRUE);
	g_setenv("VPMM_HOST_MAPPINGS", few ? "90" : "524090", TRUE);
	run->limited = small || few;
	/* A touch waits for a mapping, and may wait for the program itself, which has them all. */
	run->ranges = run->ranges && !few;
	g_string_append_printf(run->text, "%u workers, lazy %u, capacity %s, mappings %s", run->n_workers, run->lazy,
			       small ? "112M" : "80G", few ? "90" : "524090");
}

/* @run: a stream that is alone leaves nothing open in a pool of pages. */
static void choose_extents(const struct run *run, struct vpmm_opts *opts, GRand *rand)
{
	size_t page_size = one_in(rand, 6) ? 2 * PAGE : PAGE;

	opts->page_size = page_size == PAGE ? 0 : page_size;
	switch (g_rand_int_range(rand, run->repeats ? 3 : 0, 12)) {
	case 0: case 1: case 2:
		opts->extent_max = page_size;
		opts->small = VPMM_SMALL_DRIVER;
		break;
	case 3:
		opts->extent_max = page_size;
		break;
	case 4: case 5:
		opts->extent_max = 2 * page_size;
		break;
	case 6:
		opts->small = VPMM_SMALL_DRIVER;
		break;
	case 7:
		opts->page_size = one_in(rand, 2) ? SIZE_MAX : 0;
		break;
	default:
		break;
	}
}

static void choose_sizes(struct vpmm_opts *opts, GRand *rand)
{
	if (one_in(rand, 3))
		opts->va_size = one_in(rand, 2) ? 8 * PAGE : 64 * PAGE;
	if (one_in(rand, 4) && opts->page_size != SIZE_MAX)
		opts->pages = (size_t)g_rand_int_range(rand, 1, 20);
	if (one_in(rand, 4))
		opts->keep = one_in(rand, 2) ? 1 : (size_t)g_rand_int_range(rand, 1, 60) * PAGE;
	if (one_in(rand, 8))
		opts->limit = (size_t)g_rand_int_range(rand, 16, 50) * PAGE;
	else if (one_in(rand, 8))
		opts->limit_percent = g_rand_int_range(rand, 60, 101);
	opts->frag_ratio = one_in(rand, 4) ? g_rand_int_range(rand, 1, 101) : 0;
	opts->overhead = one_in(rand, 4) ? g_rand_int_range(rand, 1, 26) : 0;
	opts->overlap = one_in(rand, 4) ? g_rand_int_range(rand, VPMM_OVERLAP_NONE, 201) : 0;
}

/* A file of the run; valid as long as that. */
static const char *name_file(struct run *run, unsigned int pool, const char *what)
{
	char name[32];

	g_snprintf(name, sizeof(name), "%s%u", what, pool);
	g_ptr_array_add(run->names, g_build_filename(run->folder, name, NULL));
	return g_ptr_array_index(run->names, run->names->len - 1);
}

static void choose_files(struct run *run, unsigned int pool, struct vpmm_opts *opts, GRand *rand)
{
	if (one_in(rand, 4) && opts->page_size != SIZE_MAX)
		opts->plan = name_file(run, pool, "plan");
	if (one_in(rand, 8))
		opts->trace = name_file(run, pool, "trace");
	if (one_in(rand, 8))
		opts->oom_dump = name_file(run, pool, "dump");
	if (one_in(rand, 8))
		opts->stacks = (size_t)1 << 16;
	if (one_in(rand, 8))
		opts->top = VPMM_TOP_ON;
}

/* Two pools of a run may have the same. */
static void choose_budget(struct vpmm_opts *opts, GRand *rand)
{
	if (!one_in(rand, 6))
		return;
	opts->budget = "contents:120M";
	opts->budget_wait = one_in(rand, 2) ? 2 : VPMM_BUDGET_WAIT_NONE;
	opts->budget_thread = one_in(rand, 2) ? VPMM_BUDGET_THREAD_OFF : VPMM_BUDGET_THREAD_ON;
}

static void describe(struct run *run, const struct vpmm_opts *opts)
{
	g_string_append_printf(run->text, "; pool: page_size %zu extent_max %zu small %d va_size %zu pages %zu "
			       "reuse %d scrub %d keep %zu limit %zu limit_percent %d frag_ratio %d overhead %d overlap %d "
			       "pressure %d export %d plan %d trace %d dump %d stacks %zu top %d budget %d wait %d thread %d",
			       opts->page_size, opts->extent_max, opts->small, opts->va_size, opts->pages, opts->reuse,
			       opts->scrub, opts->keep, opts->limit, opts->limit_percent, opts->frag_ratio,
			       opts->overhead, opts->overlap, opts->pressure != NULL, opts->export_as, opts->plan != NULL,
			       opts->trace != NULL, opts->oom_dump != NULL, opts->stacks, opts->top,
			       opts->budget != NULL, opts->budget_wait, opts->budget_thread);
}

/* A program that leaves gaps, so that there is something to learn. */
static void learn(struct run *run, struct vpmm_opts opts, GRand *rand)
{
	void *blocks[12] = { NULL };
	struct CUstream_st *stream;
	struct vpmm_pool *pool;

	contents_ok(run, vpmm_host_stream_create(&stream));
	/* These two are for workers. */
	opts.pressure = NULL;
	opts.exhausted = NULL;
	contents_ok(run, vpmm_pool_create(&pool, &opts));
	for (unsigned int i = 0; i < 60; i++) {
		void **block = &blocks[g_rand_int_range(rand, 0, G_N_ELEMENTS(blocks))];
		size_t size = (size_t)g_rand_int_range(rand, 1, 12) * PAGE / 2;

		contents_ok(run, vpmm_free(pool, *block, stream));
		*block = NULL;
		if (vpmm_malloc(pool, block, size, stream))
			g_assert_true(run->limited);
	}
	for (unsigned int i = 0; i < G_N_ELEMENTS(blocks); i++)
		contents_ok(run, vpmm_free(pool, blocks[i], stream));
	vpmm_pool_destroy(pool);
	contents_ok(run, vpmm_host_stream_destroy(stream));
}

/* For files of pools, and what pools of a user share. */
static void make_folder(struct run *run)
{
	if (run->folder)
		return;
	run->folder = g_dir_make_tmp("vpmm-contents-XXXXXX", NULL);
	g_assert_nonnull(run->folder);
	g_setenv("XDG_RUNTIME_DIR", run->folder, TRUE);
	run->names = g_ptr_array_new_with_free_func(g_free);
}

void options_choose(struct run *run, unsigned int pool, GRand *rand)
{
	struct vpmm_opts *opts = &run->opts[pool];

	make_folder(run);
	*opts = (struct vpmm_opts){ FIXTURE_PACKED, .log = ignore, .pressure = opts->pressure, .exhausted = opts->exhausted };
	choose_extents(run, opts, rand);
	choose_sizes(opts, rand);
	choose_files(run, pool, opts, rand);
	choose_budget(opts, rand);
	opts->reuse = one_in(rand, 4) ? VPMM_REUSE_BLOCK : VPMM_REUSE_ASYNC;
	opts->scrub = one_in(rand, 3) ? g_rand_int_range(rand, 1, 3) : VPMM_SCRUB_NONE;
	opts->export_as = one_in(rand, 3) ? VPMM_EXPORT_FD : VPMM_EXPORT_NONE;
	opts->log_level = one_in(rand, 8) ? VPMM_LOG_DEBUG : VPMM_LOG_NONE;
	if (opts->limit || opts->limit_percent || opts->budget) {
		opts->pages = MIN(opts->pages, 8);
		run->limited = true;
	}
	describe(run, opts);
	if (opts->plan)
		learn(run, *opts, rand);
}

/* With the files in it. */
static void remove_folder(const char *folder)
{
	GDir *dir = g_dir_open(folder, 0, NULL);
	const char *name;

	while (dir && (name = g_dir_read_name(dir))) {
		char *path = g_build_filename(folder, name, NULL);

		if (g_remove(path))
			remove_folder(path);
		g_free(path);
	}
	if (dir)
		g_dir_close(dir);
	g_rmdir(folder);
}

void options_clear(struct run *run)
{
	remove_folder(run->folder);
	g_free(run->folder);
	g_ptr_array_free(run->names, TRUE);
}
