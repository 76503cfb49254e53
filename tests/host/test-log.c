// SPDX-License-Identifier: LGPL-2.1-or-later
/* What a pool says, to whom, and what a callback may do meanwhile. */
#include <errno.h>
#include <string.h>

#include "support/fixture.h"

struct gathered {
	struct vpmm_pool **pool;
	int lines;
	int worst;
};

/* A callback may use the pool that it hears from. */
static void gather(void *data, int level, const char *message)
{
	struct gathered *gathered = data;
	struct vpmm_stats stats = { .size = sizeof(stats) };

	g_assert_null(strchr(message, '\n'));
	gathered->lines++;
	gathered->worst = gathered->worst ? MIN(gathered->worst, level) : level;
	if (*gathered->pool)
		assert_ok(vpmm_pool_stats(*gathered->pool, &stats));
}

static void test_callback(void)
{
	struct vpmm_pool *pool = NULL;
	struct gathered gathered = { .pool = &pool };
	struct vpmm_opts opts = { FIXTURE_OPTS, .log = gather, .log_data = &gathered, .log_level = VPMM_LOG_DEBUG };
	void *ptr;

	assert_ok(vpmm_pool_create(&pool, &opts));
	g_assert_cmpint(gathered.lines, >, 0);
	g_assert_cmpint(gathered.worst, ==, VPMM_LOG_INFO);
	assert_ok(vpmm_malloc(pool, &ptr, PAGE, NULL));
	g_assert_cmpint(vpmm_free(pool, &opts, NULL), ==, -EINVAL);
	g_assert_cmpint(gathered.worst, ==, VPMM_LOG_ERROR);
	vpmm_pool_destroy(pool);
	fixture_assert_nothing_left();
}

/* A floor is a promise that a pool without a budget cannot keep. */
static void test_floor_without_budget(void)
{
	struct vpmm_pool *pool = NULL;
	struct gathered gathered = { .pool = &pool };
	struct vpmm_opts opts = { FIXTURE_OPTS, .log = gather, .log_data = &gathered, .log_level = VPMM_LOG_WARNING };

	assert_ok(vpmm_pool_create(&pool, &opts));
	g_assert_cmpint(gathered.lines, ==, 0);
	vpmm_pool_destroy(pool);
	pool = NULL;
	opts.budget_floor = PAGE;
	assert_ok(vpmm_pool_create(&pool, &opts));
	g_assert_cmpint(gathered.lines, ==, 1);
	g_assert_cmpint(gathered.worst, ==, VPMM_LOG_WARNING);
	vpmm_pool_destroy(pool);
	fixture_assert_nothing_left();
}

/* Silence is the default: nothing reaches standard output or standard error unless it is asked for. */
static void test_silence(void)
{
	if (g_test_subprocess()) {
		struct vpmm_opts opts = { FIXTURE_OPTS };
		struct vpmm_pool *pool;

		assert_ok(vpmm_pool_create(&pool, &opts));
		g_assert_cmpint(vpmm_free(pool, &opts, NULL), ==, -EINVAL);
		vpmm_pool_destroy(pool);
		return;
	}
	g_test_trap_subprocess(NULL, 0, 0);
	g_test_trap_assert_passed();
	g_test_trap_assert_stderr_unmatched("*vpmm*");
	g_test_trap_assert_stdout_unmatched("*vpmm*");
}

static void test_standard_error(void)
{
	if (g_test_subprocess()) {
		struct vpmm_opts opts = { FIXTURE_OPTS, .log_level = VPMM_LOG_ERROR };
		struct vpmm_pool *pool;

		assert_ok(vpmm_pool_create(&pool, &opts));
		g_assert_cmpint(vpmm_free(pool, &opts, NULL), ==, -EINVAL);
		vpmm_pool_destroy(pool);
		opts.page_size = PAGE + 1;
		g_assert_cmpint(vpmm_pool_create(&pool, &opts), ==, -EINVAL);
		return;
	}
	g_test_trap_subprocess(NULL, 0, 0);
	g_test_trap_assert_passed();
	g_test_trap_assert_stderr("*vpmm: error: vpmm_free: *no allocation*vpmm: error: vpmm_pool_create: page_size *");
}

/* A callback that calls the library whenever it hears something, and cannot bear to be called meanwhile. */
struct caller {
	struct vpmm_pool **pool;
	int (*call)(struct caller *caller);
	const char *word;	/* only for messages that have it */
	int depth;
	int lines;
	int calls;
};

static void hear(void *data, int level, const char *message)
{
	struct caller *caller = data;

	g_assert_cmpint(level, >, VPMM_LOG_NONE);
	g_assert_cmpint(caller->depth, ==, 0);
	caller->depth++;
	caller->lines++;
	g_assert_cmpint(caller->lines, <, 1000);
	if (*caller->pool && strstr(message, caller->word)) {
		caller->calls++;
		caller->call(caller);
	}
	caller->depth--;
}

static struct vpmm_opts opts_of(struct caller *caller, int level)
{
	return (struct vpmm_opts){ FIXTURE_OPTS, .log = hear, .log_data = caller, .log_level = level };
}

static int free_nonsense(struct caller *caller)
{
	g_assert_cmpint(vpmm_free(*caller->pool, caller, NULL), ==, -EINVAL);
	return 0;
}

/* Once for the call that failed, once for the one that failed in the callback, and there it ends. */
static void test_failing_callback(void)
{
	struct vpmm_pool *pool = NULL;
	struct caller caller = { .pool = &pool, .call = free_nonsense, .word = "" };
	struct vpmm_opts opts = opts_of(&caller, VPMM_LOG_ERROR);

	assert_ok(vpmm_pool_create(&pool, &opts));
	assert_error(vpmm_malloc(pool, NULL, 1, NULL), EINVAL, "ptr is NULL");
	g_assert_cmpint(caller.lines, ==, 0);
	assert_error(vpmm_free(pool, &pool, NULL), EINVAL, "vpmm_free: ");
	g_assert_cmpint(caller.lines, ==, 2);
	assert_error(vpmm_free(pool, &pool, NULL), EINVAL, "vpmm_free: ");
	g_assert_cmpint(caller.lines, ==, 4);
	vpmm_pool_destroy(pool);
	fixture_assert_nothing_left();
}

/* The sentence and errno are those of the call that the callback was called for. */
static void test_sentence_stays(void)
{
	struct vpmm_pool *pool = NULL;
	struct caller caller = { .pool = &pool, .call = free_nonsense, .word = "vpmm_use" };
	struct vpmm_opts opts = opts_of(&caller, VPMM_LOG_ERROR);

	assert_ok(vpmm_pool_create(&pool, &opts));
	assert_error(vpmm_use(pool, &pool, NULL), EINVAL, "vpmm_use: ");
	g_assert_cmpint(caller.calls, ==, 1);
	g_assert_cmpint(caller.lines, ==, 2);
	vpmm_pool_destroy(pool);
	fixture_assert_nothing_left();
}

/* Two pools that tell one callback are no way round. */
static struct vpmm_pool *second;

static int free_in_both(struct caller *caller)
{
	g_assert_cmpint(vpmm_free(second, caller, NULL), ==, -EINVAL);
	return free_nonsense(caller);
}

static void test_two_pools(void)
{
	struct vpmm_pool *pool = NULL;
	struct caller caller = { .pool = &pool, .call = free_in_both, .word = "" };
	struct vpmm_opts opts = opts_of(&caller, VPMM_LOG_ERROR);

	assert_ok(vpmm_pool_create(&pool, &opts));
	assert_ok(vpmm_pool_create(&second, &opts));
	assert_error(vpmm_free(pool, &pool, NULL), EINVAL, "vpmm_free: ");
	g_assert_cmpint(caller.lines, ==, 3);
	vpmm_pool_destroy(second);
	vpmm_pool_destroy(pool);
	fixture_assert_nothing_left();
}

static int allocate_and_free(struct caller *caller)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };
	struct CUstream_st *stream = NULL;
	void *kept, *freed;

	assert_ok(vpmm_malloc(*caller->pool, &kept, 3 * PAGE, stream));
	assert_ok(vpmm_malloc(*caller->pool, &freed, PAGE, stream));
	memset(kept, 1, 3 * PAGE);
	assert_ok(vpmm_free(*caller->pool, freed, stream));
	assert_ok(vpmm_pool_stats(*caller->pool, &stats));
	g_assert_cmpuint(stats.live, >=, 3 * PAGE);
	assert_ok(vpmm_pool_check(*caller->pool));
	return 0;
}

/* A pool that says that it is destroyed answers until the callback has returned, and all goes with it then. */
static void test_destroyed(void)
{
	struct vpmm_pool *pool = NULL;
	struct caller caller = { .pool = &pool, .call = allocate_and_free, .word = "pool destroyed" };
	struct vpmm_opts opts = opts_of(&caller, VPMM_LOG_INFO);
	void *ptr;

	for (size_t i = 0; i < 2; i++) {
		assert_ok(vpmm_pool_create(&pool, &opts));
		assert_ok(vpmm_malloc(pool, &ptr, 2 * PAGE, NULL));
		assert_ok(vpmm_free(pool, ptr, NULL));
		caller.calls = 0;
		vpmm_pool_destroy(pool);
		g_assert_cmpint(caller.calls, ==, 1);
		fixture_assert_nothing_left();
		pool = NULL;
		opts.extent_max = 0;
		opts.small = VPMM_SMALL_POOL;
	}
}

static int destroy(struct caller *caller)
{
	vpmm_pool_destroy(*caller->pool);
	return 0;
}

static void test_destroyed_twice(void)
{
	struct vpmm_pool *pool = NULL;
	struct caller caller = { .pool = &pool, .call = destroy, .word = "pool destroyed" };
	struct vpmm_opts opts = opts_of(&caller, VPMM_LOG_INFO);

	assert_ok(vpmm_pool_create(&pool, &opts));
	vpmm_pool_destroy(pool);
	g_assert_cmpint(caller.calls, ==, 1);
	fixture_assert_nothing_left();
}

/* Pools that come and go, or never come, within a callback: their data is the caller's again after that. */
static int use_other_pools(struct caller *caller)
{
	struct vpmm_pool *other = NULL;
	struct caller *hearer = g_new0(struct caller, 1);
	struct vpmm_opts opts;

	*hearer = (struct caller){ .pool = &other, .call = free_nonsense, .word = "" };
	opts = opts_of(hearer, VPMM_LOG_DEBUG);
	assert_ok(vpmm_pool_create(&other, &opts));
	g_assert_cmpint(vpmm_free(other, caller, NULL), ==, -EINVAL);
	vpmm_pool_destroy(other);
	other = NULL;
	opts.page_size = PAGE + 1;
	g_assert_cmpint(vpmm_pool_create(&other, &opts), ==, -EINVAL);
	opts.page_size = PAGE;
	opts.pages = 4;
	opts.limit = PAGE;
	g_assert_cmpint(vpmm_pool_create(&other, &opts), ==, -ENOMEM);
	g_assert_cmpint(hearer->lines, ==, 0);
	g_free(hearer);
	return 0;
}

static void test_other_pools(void)
{
	struct vpmm_pool *pool = NULL;
	struct caller caller = { .pool = &pool, .call = use_other_pools, .word = "vpmm_free" };
	struct vpmm_opts opts = opts_of(&caller, VPMM_LOG_ERROR);

	assert_ok(vpmm_pool_create(&pool, &opts));
	assert_error(vpmm_free(pool, &pool, NULL), EINVAL, "vpmm_free: ");
	g_assert_cmpint(caller.calls, ==, 1);
	g_assert_cmpint(caller.lines, ==, 1);
	vpmm_pool_destroy(pool);
	fixture_assert_nothing_left();
}

/*
 * Free memory that lies beside what is allocated serves no large request: the pool grows over its peak, and says why.
 */
static void test_stranded(void)
{
	struct vpmm_stats before, after;
	void *blocks[64], *large;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .log_level = VPMM_LOG_INFO });
	for (size_t i = 0; i < G_N_ELEMENTS(blocks); i++)
		blocks[i] = fixture_malloc_bytes(&f, PAGE / 2, NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(blocks); i += 2)
		assert_ok(vpmm_free(f.pool, blocks[i], NULL));
	g_assert_cmpuint(fixture_stats(&f).stranded, ==, 0);
	g_assert_null(strstr(f.log->str, "pinned"));
	before = fixture_stats(&f);
	large = fixture_malloc(&f, 8, NULL);
	after = fixture_stats(&f);
	g_assert_nonnull(strstr(f.log->str, "free bytes are pinned by allocations in the same extents"));
	g_assert_cmpuint(after.peak_live, ==, before.peak_live);
	g_assert_cmpuint(after.stranded, ==, after.grown - before.grown);
	g_assert_cmpuint(after.stranded, >, 0);
	for (size_t i = 1; i < G_N_ELEMENTS(blocks); i += 2)
		assert_ok(vpmm_free(f.pool, blocks[i], NULL));
	fixture_free(&f, large, NULL);
	fixture_free(&f, fixture_malloc(&f, 30, NULL), NULL);
	g_assert_cmpuint(fixture_stats(&f).stranded, ==, after.stranded);
	fixture_close(&f);
}

static void run_sizes(struct fixture *f, size_t n)
{
	fixture_uncache(f);
	for (size_t i = 0; i < n; i++) {
		void *ptr;

		assert_ok(vpmm_malloc(f->pool, &ptr, (1 + i % 3) * PAGE, NULL));
		assert_ok(vpmm_free(f->pool, ptr, NULL));
	}
}

static void test_settled(void)
{
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .log_level = VPMM_LOG_INFO });
	run_sizes(&f, 3 * 4096);
	g_assert_cmpuint(fixture_stats(&f).unsettled, ==, 0);
	g_assert_nonnull(strstr(f.log->str, "\nsettled: no driver call in the latest 4096 of 8192 allocations"));
	g_assert_null(strstr(f.log->str, "not settled"));
	fixture_close(&f);
}

static void test_not_settled(void)
{
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .log_level = VPMM_LOG_INFO, .keep = VPMM_KEEP_NONE });
	run_sizes(&f, 3 * 4096);
	g_assert_cmpuint(fixture_stats(&f).unsettled, >=, 4096);
	g_assert_nonnull(strstr(f.log->str, "not settled: "));
	g_assert_null(strstr(f.log->str, "\nsettled"));
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/log/callback", test_callback);
	g_test_add_func("/log/floor-without-budget", test_floor_without_budget);
	g_test_add_func("/log/silence", test_silence);
	g_test_add_func("/log/standard-error", test_standard_error);
	g_test_add_func("/log/failing-callback", test_failing_callback);
	g_test_add_func("/log/sentence-stays", test_sentence_stays);
	g_test_add_func("/log/two-pools", test_two_pools);
	g_test_add_func("/log/destroyed", test_destroyed);
	g_test_add_func("/log/destroyed-twice", test_destroyed_twice);
	g_test_add_func("/log/other-pools", test_other_pools);
	g_test_add_func("/log/stranded", test_stranded);
	g_test_add_func("/log/settled", test_settled);
	g_test_add_func("/log/not-settled", test_not_settled);
	return g_test_run();
}
