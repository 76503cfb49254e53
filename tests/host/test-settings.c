// SPDX-License-Identifier: LGPL-2.1-or-later
/* Settings: every variable and option, good and bad. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "backend/backend.h"
#include "settings/options.h"
#include "settings/settings.h"
#include "support/fixture.h"
#include "util/env.h"

static void clear_env(void)
{
	for_each_option(option) {
		if (option->variable)
			g_unsetenv(option->variable);
	}
}

static void test_sizes(void)
{
	static const struct {
		const char *text;
		uint64_t value;
	} good[] = {
		{ "0", 0 },
		{ "1", 1 },
		{ "2097152", 2097152 },
		{ "3k", 3072 },
		{ "2M", 2097152 },
		{ "2m", 2097152 },
		{ "1G", 1073741824 },
		{ "8T", UINT64_C(8) << 40 },
		{ "18446744073709551615", UINT64_MAX },
		{ "16777215T", UINT64_C(16777215) << 40 },
	};
	static const char *const bad[] = {
		"", " 1", "1 ", "-1", "+1", "M", "1MB", "1MiB", "1P", "0x10", "1.5G", "1e9", "18446744073709551616",
		"16777216T", "99999999999999999999999",
	};
	uint64_t value;

	for (size_t i = 0; i < G_N_ELEMENTS(good); i++) {
		assert_ok(env_parse_number("X", good[i].text, "a number of bytes", &value));
		g_assert_cmpuint(value, ==, good[i].value);
	}
	for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
		value = 7;
		assert_error(env_parse_number("X", bad[i], "a number of bytes", &value), EINVAL, "X=");
		g_assert_cmpuint(value, ==, 7);
	}
}

static void test_env_unset(void)
{
	struct vpmm_opts opts = { .size = sizeof(opts) };

	clear_env();
	g_setenv("VPMM_LOG", "", TRUE);
	assert_ok(vpmm_opts_from_env(&opts));
	g_assert_cmpuint(opts.page_size, ==, 0);
	g_assert_cmpuint(opts.va_size, ==, 0);
	g_assert_cmpuint(opts.pages, ==, 0);
	g_assert_cmpint(opts.reuse, ==, VPMM_REUSE_ASYNC);
	g_assert_cmpint(opts.log_level, ==, VPMM_LOG_NONE);
	g_assert_null(opts.backend);
	g_assert_cmpuint(opts.extent_max, ==, 0);
	g_assert_cmpint(opts.small, ==, VPMM_SMALL_POOL);
	g_assert_cmpint(opts.frag_ratio, ==, 0);
	g_assert_cmpint(opts.overhead, ==, 0);
	g_assert_cmpint(opts.overlap, ==, 0);
	g_assert_cmpuint(opts.limit, ==, 0);
	g_assert_cmpint(opts.limit_percent, ==, 0);
	g_assert_cmpuint(opts.keep, ==, 0);
	g_assert_cmpint(opts.scrub, ==, VPMM_SCRUB_NONE);
	clear_env();
}

static void test_env_set(void)
{
	struct vpmm_opts opts = { .size = sizeof(opts) };

	clear_env();
	g_setenv("VPMM_PAGE_SIZE", "4M", TRUE);
	g_setenv("VPMM_VA_SIZE", "1T", TRUE);
	g_setenv("VPMM_PAGES", "12", TRUE);
	g_setenv("VPMM_REUSE", "block", TRUE);
	g_setenv("VPMM_LOG", "warning", TRUE);
	g_setenv("VPMM_BACKEND", "host", TRUE);
	g_setenv("VPMM_EXTENT_MAX", "64M", TRUE);
	g_setenv("VPMM_SMALL", "driver", TRUE);
	g_setenv("VPMM_FRAG_RATIO", "100", TRUE);
	g_setenv("VPMM_OVERHEAD", "25", TRUE);
	g_setenv("VPMM_OVERLAP", "1000", TRUE);
	g_setenv("VPMM_LIMIT", "3G", TRUE);
	g_setenv("VPMM_KEEP", "512M", TRUE);
	g_setenv("VPMM_SCRUB", "always", TRUE);
	assert_ok(vpmm_opts_from_env(&opts));
	g_assert_cmpuint(opts.page_size, ==, 4 << 20);
	g_assert_cmpuint(opts.va_size, ==, (size_t)1 << 40);
	g_assert_cmpuint(opts.pages, ==, 12);
	g_assert_cmpint(opts.reuse, ==, VPMM_REUSE_BLOCK);
	g_assert_cmpint(opts.log_level, ==, VPMM_LOG_WARNING);
	g_assert_cmpstr(opts.backend, ==, "host");
	g_assert_cmpuint(opts.extent_max, ==, 64 << 20);
	g_assert_cmpint(opts.small, ==, VPMM_SMALL_DRIVER);
	g_assert_cmpint(opts.frag_ratio, ==, 100);
	g_assert_cmpint(opts.overhead, ==, 25);
	g_assert_cmpint(opts.overlap, ==, 1000);
	g_assert_cmpuint(opts.limit, ==, (size_t)3 << 30);
	g_assert_cmpint(opts.limit_percent, ==, 0);
	g_assert_cmpuint(opts.keep, ==, 512 << 20);
	g_assert_cmpint(opts.scrub, ==, VPMM_SCRUB_ALWAYS);
	clear_env();
}

/* 0 in struct vpmm_opts is the default; the variable says 0 for none. */
static void test_env_overlap(void)
{
	static const struct {
		const char *text;
		int opts, info;
	} samples[] = {
		{ "auto", VPMM_OVERLAP_AUTO, VPMM_OVERLAP_AUTO }, { "0", VPMM_OVERLAP_NONE, 0 }, { "1", 1, 1 },
		{ "", 0, VPMM_OVERLAP_AUTO },
	};

	for (size_t i = 0; i < G_N_ELEMENTS(samples); i++) {
		struct vpmm_opts opts = { .size = sizeof(opts) };
		struct vpmm_info info = { .size = sizeof(info) };
		struct vpmm_pool *pool;

		clear_env();
		g_setenv("VPMM_BACKEND", "host", TRUE);
		g_setenv("VPMM_OVERLAP", samples[i].text, TRUE);
		assert_ok(vpmm_opts_from_env(&opts));
		g_assert_cmpint(opts.overlap, ==, samples[i].opts);
		assert_ok(vpmm_pool_create(&pool, &opts));
		assert_ok(vpmm_pool_info(pool, &info));
		g_assert_cmpint(info.overlap, ==, samples[i].info);
		vpmm_pool_destroy(pool);
	}
	clear_env();
}

/* A limit can be a part of the device. */
static void test_env_limits(void)
{
	struct vpmm_opts opts = { .size = sizeof(opts) };
	struct vpmm_info info = { .size = sizeof(info) };
	struct vpmm_pool *pool;

	clear_env();
	g_setenv("VPMM_LIMIT", "80%", TRUE);
	g_setenv("VPMM_BACKEND", "host", TRUE);
	g_setenv("VPMM_VA_SIZE", "1G", TRUE);
	assert_ok(vpmm_opts_from_env(&opts));
	g_assert_cmpuint(opts.limit, ==, 0);
	g_assert_cmpint(opts.limit_percent, ==, 80);
	assert_ok(vpmm_pool_create(&pool, NULL));
	assert_ok(vpmm_pool_info(pool, &info));
	g_assert_cmpuint(info.limit, ==, info.memory_total * 80 / 100);
	vpmm_pool_destroy(pool);
	clear_env();
	fixture_assert_nothing_left();
}

/* What the environment says to keep and what options say mean the same; but 0 is the default in options alone. */
/* Whatever is on or off takes the same words. */
static void test_switches(void)
{
	static const char *const names[] = { "VPMM_RDMA", "VPMM_BUDGET_THREAD", "VPMM_TOP", "VPMM_PAUSABLE",
					     "VPMM_PAUSE_POISON" };
	static const char *const words[] = { "off", "on", "none", "0", "1" }, *const bad[] = { "yes", "2", "often" };
	struct vpmm_pool *pool;
	bool on;

	clear_env();
	g_setenv("VPMM_BACKEND", "host", TRUE);
	for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
		for (size_t j = 0; j < G_N_ELEMENTS(words); j++) {
			g_setenv(names[i], words[j], TRUE);
			assert_ok(vpmm_pool_create(&pool, NULL));
			vpmm_pool_destroy(pool);
			assert_ok(env_switch(names[i], &on));
			g_assert_cmpint(on, ==, j == 1 || j == 4);
		}
		for (size_t j = 0; j < G_N_ELEMENTS(bad); j++) {
			g_setenv(names[i], bad[j], TRUE);
			assert_error(vpmm_pool_create(&pool, NULL), EINVAL, names[i]);
			assert_error(env_switch(names[i], &on), EINVAL, names[i]);
		}
		g_unsetenv(names[i]);
	}
	g_unsetenv("VPMM_BACKEND");
}

/* A bad setting that is no option is noticed when the others are read, and not where it is used. */
static void test_others(void)
{
	static const char *const names[] = { "VPMM_PAUSABLE", "VPMM_PAUSE_POISON", "VPMM_PAUSE_HOST", "VPMM_HOST_KEEP",
					     "VPMM_TAG", "VPMM_SHARED_TOUCH" };
	struct vpmm_opts opts = { .size = sizeof(opts), .backend = "host" };
	struct vpmm_pool *pool;

	clear_env();
	for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
		g_setenv(names[i], "lots,lots", TRUE);
		assert_error(vpmm_pool_create(&pool, &opts), EINVAL, names[i]);
		assert_error(vpmm_pool_create(&pool, NULL), EINVAL, names[i]);
		assert_error(vpmm_opts_from_env(&opts), EINVAL, names[i]);
		g_unsetenv(names[i]);
	}
}

/* What is kept by a setting that is no option can be none as well. */
static void test_none(void)
{
	uint64_t value;

	g_setenv("VPMM_PAUSE_HOST", "none", TRUE);
	assert_ok(env_keep("VPMM_PAUSE_HOST", &value));
	g_assert_cmpuint(value, ==, 0);
	g_unsetenv("VPMM_PAUSE_HOST");
	assert_ok(env_keep("VPMM_PAUSE_HOST", &value));
	g_assert_cmpuint(value, ==, UINT64_MAX);
}

static void test_keep(void)
{
	static const struct {
		const char *text;
		size_t keep;
		uint64_t in_force;
	} cases[] = {
		{ "", 0, UINT64_MAX }, { "all", 0, UINT64_MAX }, { "0", VPMM_KEEP_NONE, 0 }, { "0M", VPMM_KEEP_NONE, 0 },
		{ "none", VPMM_KEEP_NONE, 0 }, { "1", 1, 0 }, { "1M", 1 << 20, 0 }, { "2M", PAGE, PAGE },
	};
	struct vpmm_info info = { .size = sizeof(info) };
	struct vpmm_pool *pool;

	clear_env();
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		struct vpmm_opts from_env = { .size = sizeof(from_env) };
		struct vpmm_opts opts = { FIXTURE_PACKED, .keep = cases[i].keep };

		g_setenv("VPMM_KEEP", cases[i].text, TRUE);
		assert_ok(vpmm_opts_from_env(&from_env));
		g_assert_cmpuint(from_env.keep, ==, cases[i].keep);
		assert_ok(vpmm_pool_create(&pool, &opts));
		assert_ok(vpmm_pool_info(pool, &info));
		g_assert_cmpuint(info.keep, ==, cases[i].in_force);
		vpmm_pool_destroy(pool);
	}
	clear_env();
	fixture_assert_nothing_left();
}

static void test_env_bad(void)
{
	static const struct {
		const char *variable;
		const char *value;
	} bad[] = {
		{ "VPMM_PAGE_SIZE", "0" },
		{ "VPMM_PAGE_SIZE", "two" },
		{ "VPMM_PAGE_SIZE", "-2M" },
		{ "VPMM_PAGE_SIZE", "3000000" },
		{ "VPMM_PAGE_SIZE", "4611686018427387904" },
		{ "VPMM_PAGE_SIZE", "18446744073709551616" },
		{ "VPMM_VA_SIZE", "0" },
		{ "VPMM_VA_SIZE", "all" },
		{ "VPMM_VA_SIZE", "3M" },
		{ "VPMM_VA_SIZE", "16777215T" },
		{ "VPMM_PAGES", "2M" },
		{ "VPMM_PAGES", "-1" },
		{ "VPMM_PAGES", "many" },
		{ "VPMM_PAGES", "18446744073709551615" },
		{ "VPMM_PAGES", "18446744073709551616" },
		{ "VPMM_REUSE", "sync" },
		{ "VPMM_REUSE", "ASYNC" },
		{ "VPMM_LOG", "verbose" },
		{ "VPMM_LOG", "3" },
		{ "VPMM_BACKEND", "fault" },
		{ "VPMM_BACKEND", "opencl" },
		{ "VPMM_EXTENT_MAX", "0" },
		{ "VPMM_EXTENT_MAX", "page" },
		{ "VPMM_EXTENT_MAX", "3M" },
		{ "VPMM_EXTENT_MAX", "1M" },
		{ "VPMM_EXTENT_MAX", "16777214T" },
		{ "VPMM_SMALL", "yes" },
		{ "VPMM_SMALL", "Pool" },
		{ "VPMM_SCRUB", "all" },
		{ "VPMM_SCRUB", "Stream" },
		{ "VPMM_FRAG_RATIO", "101" },
		{ "VPMM_FRAG_RATIO", "-1" },
		{ "VPMM_FRAG_RATIO", "5%" },
		{ "VPMM_FRAG_RATIO", "18446744073709551616" },
		{ "VPMM_OVERHEAD", "0" },
		{ "VPMM_OVERHEAD", "26" },
		{ "VPMM_OVERHEAD", "2.5" },
		{ "VPMM_OVERLAP", "1001" },
		{ "VPMM_OVERLAP", "-1" },
		{ "VPMM_OVERLAP", "automatic" },
		{ "VPMM_OVERLAP", "25%" },
		{ "VPMM_OVERLAP", "much" },
		{ "VPMM_LIMIT", "0" },
		{ "VPMM_LIMIT", "half" },
		{ "VPMM_LIMIT", "-1" },
		{ "VPMM_LIMIT", "%" },
		{ "VPMM_LIMIT", "0%" },
		{ "VPMM_LIMIT", "101%" },
		{ "VPMM_LIMIT", "-5%" },
		{ "VPMM_LIMIT", "5G%" },
		{ "VPMM_LIMIT", "5%%" },
		{ "VPMM_LIMIT", "18446744073709551617%" },
		{ "VPMM_PEERS", "some" },
		{ "VPMM_PEERS", "1,,2" },
		{ "VPMM_PEERS", "1," },
		{ "VPMM_PEERS", ",1" },
		{ "VPMM_PEERS", "1 2" },
		{ "VPMM_PEERS", "-1" },
		{ "VPMM_PEERS", "2,3,2" },
		{ "VPMM_PEERS", "64" },
		{ "VPMM_PEERS", "18446744073709551616" },
		{ "VPMM_PEERS", "all,1" },
		{ "VPMM_KEEP", "some" },
		{ "VPMM_KEEP", "5%" },
		{ "VPMM_KEEP", "-1" },
		{ "VPMM_KEEP", "16777216T" },
		{ "VPMM_HOST_CAPACITY", "lots" },
		{ "VPMM_HOST_DEVICES", "none" },
		{ "VPMM_HOST_MAPPINGS", "1.5" },
		{ "VPMM_HOST_KERNELS", "some" },
		{ "VPMM_HOST_KERNELS", "0" },
		{ "VPMM_HOST_KEEP", "some" },
		{ "VPMM_SHARED_TOUCH", "never" },
		{ "VPMM_PAUSABLE", "maybe" },
		{ "VPMM_PAUSE_HOST", "all" },
		{ "VPMM_PAUSE_POISON", "2" },
	};

	for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
		struct vpmm_pool *pool = (struct vpmm_pool *)&pool;

		g_assert_true(variables_is_known(bad[i].variable));
		clear_env();
		g_setenv("VPMM_BACKEND", "host", TRUE);
		g_setenv(bad[i].variable, bad[i].value, TRUE);
		assert_error(vpmm_pool_create(&pool, NULL), EINVAL, bad[i].variable);
		/* The value is said as it was given, or in bytes. */
		if (!g_ascii_isdigit(bad[i].value[0]))
			g_assert_nonnull(strstr(vpmm_last_error(), bad[i].value));
		g_assert_true(pool == (struct vpmm_pool *)&pool);
		fixture_assert_nothing_left();
		g_unsetenv(bad[i].variable);
	}
	clear_env();
}

/* A number that is too large is one all the same, and where a text is long the end of the sentence is there still. */
static void test_env_large(void)
{
	static const struct {
		const char *variable;
		const char *value;
	} large[] = {
		{ "VPMM_PAGE_SIZE", "18446744073709551616" },
		{ "VPMM_PAGES", "18446744073709551616" },
		{ "VPMM_FRAG_RATIO", "18446744073709551616" },
		{ "VPMM_LIMIT", "16777216T" },
		{ "VPMM_LIMIT", "18446744073709551617%" },
		{ "VPMM_KEEP", "16777216T" },
		{ "VPMM_PEERS", "1,18446744073709551616" },
	};
	static const char *const variables[] = {
		"VPMM_PAGE_SIZE", "VPMM_PAGES", "VPMM_FRAG_RATIO", "VPMM_OVERLAP", "VPMM_SMALL", "VPMM_BACKEND",
		"VPMM_LIMIT", "VPMM_KEEP", "VPMM_PEERS", "VPMM_HOST_CAPACITY",
	};
	static const char *const ends[] = { "", "%" };
	struct vpmm_pool *pool;

	clear_env();
	for (size_t i = 0; i < G_N_ELEMENTS(large); i++) {
		g_setenv("VPMM_BACKEND", "host", TRUE);
		g_setenv(large[i].variable, large[i].value, TRUE);
		assert_error(vpmm_pool_create(&pool, NULL), EINVAL, large[i].variable);
		g_assert_nonnull(strstr(vpmm_last_error(), ": larger than 64 bits can hold"));
		g_unsetenv(large[i].variable);
	}
	for (size_t i = 0; i < G_N_ELEMENTS(variables) * G_N_ELEMENTS(ends); i++) {
		const char *variable = variables[i / G_N_ELEMENTS(ends)];
		char *digits = g_strnfill(3000, '7'), *text = g_strconcat(digits, ends[i % G_N_ELEMENTS(ends)], NULL);

		g_setenv("VPMM_BACKEND", "host", TRUE);
		g_setenv(variable, text, TRUE);
		assert_error(vpmm_pool_create(&pool, NULL), EINVAL, variable);
		g_assert_true(strstr(vpmm_last_error(), ": expected ") || strstr(vpmm_last_error(), ": larger than "));
		g_unsetenv(variable);
		g_free(text);
		g_free(digits);
	}
	clear_env();
	fixture_assert_nothing_left();
}

/* A text of 3000 bytes leaves room for what would be right, whatever is wrong with it. */
static void test_env_long(void)
{
	static const struct {
		const char *variable;
		const char *before;
		char many;
		const char *behind;
		const char *end;
	} bad[] = {
		{ "VPMM_SMALL", "", 'x', "", ": expected pool or driver" },
		{ "VPMM_PAGE_SIZE", "", 'x', "", ": expected a number of bytes, plain or with a suffix K, M, G or T" },
		{ "VPMM_PAGE_SIZE", "", '0', "", ": expected more than 0 bytes" },
		{ "VPMM_PAGES", "", 'x', "", ": expected a number, or none" },
		{ "VPMM_FRAG_RATIO", "", 'x', "", ": expected a percentage, 0 to 100, or none" },
		{ "VPMM_FRAG_RATIO", "", '0', "101", ": expected a percentage, 0 to 100, or none" },
		{ "VPMM_LIMIT", "", 'x', "%", ", plain or with a suffix K, M, G or T, or none" },
		{ "VPMM_PEERS", "", 'x', "", " or ordinals of devices with commas between" },
		{ "VPMM_PEERS", "", '0', "64", ": device 64: expected ordinals up to 63" },
		{ "VPMM_PEERS", "7,", '0', "7", ": device 7 is there twice" },
		{ "VPMM_TRACE", "", 'x', "%q", ": what \"%q\" stands for is not known: expected %p or %%" },
		{ "VPMM_BUDGET", "", '-', "", " characters" },
		{ "VPMM_PAUSE_POISON", "", 'x', "", ": expected off, on, none, 0 or 1" },
		{ "VPMM_HOST_CAPACITY", "", 'x', "", ", plain or with a suffix K, M, G or T" },
	};
	struct vpmm_opts opts = { FIXTURE_OPTS };
	struct vpmm_pool *pool;

	clear_env();
	for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
		g_autofree char *many = g_strnfill(3000, bad[i].many);
		g_autofree char *text = g_strconcat(bad[i].before, many, bad[i].behind, NULL);

		g_setenv("VPMM_BACKEND", "host", TRUE);
		g_setenv(bad[i].variable, text, TRUE);
		assert_error(vpmm_pool_create(&pool, NULL), EINVAL, bad[i].variable);
		g_assert_true(g_str_has_suffix(vpmm_last_error(), bad[i].end));
		g_unsetenv(bad[i].variable);
		if (!strcmp(bad[i].variable, "VPMM_TRACE")) {
			opts.trace = text;
			assert_error(vpmm_pool_create(&pool, &opts), EINVAL, "vpmm_opts.trace is ");
			g_assert_true(g_str_has_suffix(vpmm_last_error(), bad[i].end));
		}
	}
	clear_env();
	fixture_assert_nothing_left();
}

static void count_unknown(void *data, const char *name)
{
	g_ptr_array_add(data, g_strdup(name));
}

/* A variable that looks like the library's and is none is found, but for those of the tests and the preload object. */
static void test_unknown(void)
{
	GPtrArray *found = g_ptr_array_new_with_free_func(g_free);

	clear_env();
	for_each_option(option) {
		if (option->variable) {
			g_assert_cmpstr(variables_nearest(option->variable), ==, option->variable);
			g_setenv(option->variable, "", TRUE);
		}
	}
	g_setenv("VPMM_TEST_SOMETHING", "1", TRUE);
	g_setenv("VPMM_PRELOAD_FREE", "sync", TRUE);
	g_setenv("VPMM_TORCH_BUILD", "never", TRUE);
	g_setenv("VPMM_HOST_KEEP", "1G", TRUE);
	g_setenv("VPMM_SHARED_TOUCH", "user", TRUE);
	g_setenv("MY_VPMM_PAGES", "1", TRUE);
	variables_each_unknown(count_unknown, found);
	g_assert_cmpuint(found->len, ==, 0);
	g_setenv("VPMM_PAGESIZE", "", TRUE);
	variables_each_unknown(count_unknown, found);
	g_assert_cmpuint(found->len, ==, 1);
	g_assert_cmpstr(found->pdata[0], ==, "VPMM_PAGESIZE");
	g_unsetenv("VPMM_PAGESIZE");
	g_unsetenv("VPMM_TEST_SOMETHING");
	g_unsetenv("VPMM_TORCH_BUILD");
	g_unsetenv("VPMM_PRELOAD_FREE");
	g_unsetenv("VPMM_HOST_KEEP");
	g_unsetenv("VPMM_SHARED_TOUCH");
	g_unsetenv("MY_VPMM_PAGES");
	clear_env();
	g_ptr_array_free(found, TRUE);
}

/* One character too few, too many, or another; or a word left out. */
static void test_nearest(void)
{
	char *endless = g_strnfill(5000, 'X');

	g_assert_cmpstr(variables_nearest("VPMM_PAGESIZE"), ==, "VPMM_PAGE_SIZE");
	g_assert_cmpstr(variables_nearest("VPMM_PAGE"), ==, "VPMM_PAGES");
	g_assert_cmpstr(variables_nearest("VPMM_LIMITS"), ==, "VPMM_LIMIT");
	g_assert_cmpstr(variables_nearest("VPMM_BACKENT"), ==, "VPMM_BACKEND");
	g_assert_cmpstr(variables_nearest("VPMM_CAPACITY"), ==, "VPMM_HOST_CAPACITY");
	g_assert_cmpstr(variables_nearest("VPMM_SCRUBB"), ==, "VPMM_SCRUB");
	g_assert_cmpstr(variables_nearest("VPMM_HOSTKEEP"), ==, "VPMM_HOST_KEEP");
	g_assert_nonnull(variables_nearest(endless));
	g_assert_nonnull(variables_nearest(""));
	g_free(endless);
}

/* The log has a misspelt variable where it has warnings, and says nothing else of it. */
static void test_misspelt(void)
{
	if (g_test_subprocess()) {
		struct vpmm_opts opts = { .size = sizeof(opts) };
		struct vpmm_pool *pool;

		assert_ok(vpmm_pool_create(&pool, NULL));
		vpmm_pool_destroy(pool);
		assert_ok(vpmm_opts_from_env(&opts));
		return;
	}
	clear_env();
	g_setenv("VPMM_BACKEND", "host", TRUE);
	g_setenv("VPMM_VA_SIZE", "1G", TRUE);
	g_setenv("VPMM_PAGESIZE", "4M", TRUE);
	g_test_trap_subprocess(NULL, 0, 0);
	g_test_trap_assert_passed();
	g_test_trap_assert_stderr_unmatched("*VPMM_PAGESIZE*");
	g_setenv("VPMM_LOG", "error", TRUE);
	g_test_trap_subprocess(NULL, 0, 0);
	g_test_trap_assert_stderr_unmatched("*VPMM_PAGESIZE*");
	g_setenv("VPMM_LOG", "warning", TRUE);
	g_test_trap_subprocess(NULL, 0, 0);
	g_test_trap_assert_passed();
	g_test_trap_assert_stderr("*vpmm: warning: VPMM_PAGESIZE *VPMM_PAGE_SIZE*"
				  "vpmm: warning: VPMM_PAGESIZE *VPMM_PAGE_SIZE*");
	g_unsetenv("VPMM_PAGESIZE");
	clear_env();
}

static void assert_opts_bad(struct vpmm_opts opts, int expected, const char *word)
{
	struct vpmm_pool *pool = NULL;

	assert_error(vpmm_pool_create(&pool, &opts), expected, word);
	g_assert_null(pool);
	fixture_assert_nothing_left();
}

static void test_opts_bad(void)
{
	static const int none = -1, far = 99;

	assert_opts_bad((struct vpmm_opts){ FIXTURE_OPTS, .scrub = 3 }, EINVAL, "scrub");
	assert_opts_bad((struct vpmm_opts){ FIXTURE_OPTS, .scrub = -1 }, EINVAL, "scrub");
	assert_opts_bad((struct vpmm_opts){ FIXTURE_OPTS, .page_size = 12345 }, EINVAL, "page_size");
	assert_opts_bad((struct vpmm_opts){ FIXTURE_OPTS, .page_size = SIZE_MAX - 1 }, EINVAL, "page_size");
	assert_opts_bad((struct vpmm_opts){ FIXTURE_OPTS, .page_size = 3 * PAGE }, EINVAL, "va_size");
	assert_opts_bad((struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE + 1 }, EINVAL,
			"extent_max (VPMM_EXTENT_MAX) is 2097153: expected a multiple of the page size, 2097152");
	assert_opts_bad((struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE / 2 }, EINVAL, "is 1048576: expected");
	assert_opts_bad((struct vpmm_opts){ FIXTURE_PACKED, .extent_max = (size_t)1 << 63 }, EINVAL,
			"extent_max (VPMM_EXTENT_MAX) is 9223372036854775808: more than");
	assert_opts_bad((struct vpmm_opts){ FIXTURE_PACKED, .page_size = 2 * PAGE, .extent_max = PAGE }, EINVAL,
			"extent_max (VPMM_EXTENT_MAX) is 2097152: expected a multiple of the page size, 4194304");
	assert_opts_bad((struct vpmm_opts){ FIXTURE_PACKED, .small = 2 }, EINVAL, "small is 2: expected VPMM_SMALL_POOL");
	assert_opts_bad((struct vpmm_opts){ FIXTURE_PACKED, .small = -1 }, EINVAL, "small is -1");
	assert_opts_bad((struct vpmm_opts){ FIXTURE_PACKED, .frag_ratio = 101 }, EINVAL, "frag_ratio is 101");
	assert_opts_bad((struct vpmm_opts){ FIXTURE_PACKED, .frag_ratio = -1 }, EINVAL, "frag_ratio is -1");
	assert_opts_bad((struct vpmm_opts){ FIXTURE_PACKED, .overhead = 26 }, EINVAL,
			"overhead is 26: expected a percentage, 1 to 25, or 0");
	assert_opts_bad((struct vpmm_opts){ FIXTURE_PACKED, .overhead = -1 }, EINVAL, "overhead is -1");
	assert_opts_bad((struct vpmm_opts){ FIXTURE_PACKED, .overlap = 1001 }, EINVAL,
			"overlap is 1001: expected a percentage, 0 to 1000, VPMM_OVERLAP_AUTO or VPMM_OVERLAP_NONE");
	assert_opts_bad((struct vpmm_opts){ FIXTURE_PACKED, .overlap = -3 }, EINVAL, "overlap is -3");
	assert_opts_bad((struct vpmm_opts){ FIXTURE_PACKED, .limit_percent = 101 }, EINVAL, "limit_percent is 101");
	assert_opts_bad((struct vpmm_opts){ FIXTURE_PACKED, .limit_percent = -1 }, EINVAL, "limit_percent is -1");
	assert_opts_bad((struct vpmm_opts){ FIXTURE_OPTS, .pages = SIZE_MAX / 2 }, EINVAL, "pages");
	assert_opts_bad((struct vpmm_opts){ FIXTURE_OPTS, .page_size = SIZE_MAX, .pages = 1 }, EINVAL, "pages");
	assert_opts_bad((struct vpmm_opts){ FIXTURE_OPTS, .reuse = 2 }, EINVAL, "reuse");
	assert_opts_bad((struct vpmm_opts){ FIXTURE_OPTS, .reuse = -1 }, EINVAL, "reuse");
	assert_opts_bad((struct vpmm_opts){ FIXTURE_OPTS, .log_level = 5 }, EINVAL, "log_level");
	assert_opts_bad((struct vpmm_opts){ .size = sizeof(struct vpmm_opts), .backend = "" }, EINVAL, "backend");
	assert_opts_bad((struct vpmm_opts){ FIXTURE_OPTS, .device = &none }, EINVAL, "device");
	assert_opts_bad((struct vpmm_opts){ FIXTURE_OPTS, .device = &far }, ENODEV, "99");
}

/* With options, the environment has no say. */
static void test_opts_over_env(void)
{
	struct vpmm_opts opts = { FIXTURE_OPTS };
	struct vpmm_info info = { .size = sizeof(info) };
	struct vpmm_pool *pool;

	clear_env();
	g_setenv("VPMM_PAGE_SIZE", "junk", TRUE);
	g_setenv("VPMM_BACKEND", "junk", TRUE);
	assert_ok(vpmm_pool_create(&pool, &opts));
	assert_ok(vpmm_pool_info(pool, &info));
	g_assert_cmpuint(info.page_size, ==, PAGE);
	vpmm_pool_destroy(pool);
	clear_env();
	fixture_assert_nothing_left();
}

static void test_defaults(void)
{
	struct backend_info device = { .granularity = PAGE };
	struct settings settings = { 0 };

	assert_ok(settings_fit(&settings, &device));
	g_assert_cmpuint(settings.page_size, ==, PAGE);
	g_assert_cmpuint(settings.va_size, ==, (size_t)8 << 40);
	g_assert_cmpuint(settings.extent_max, ==, 1 << 30);
	g_assert_false(settings.paged);

	device.granularity = 3 << 19;
	settings = (struct settings){ 0 };
	assert_ok(settings_fit(&settings, &device));
	g_assert_cmpuint(settings.page_size, ==, 3 << 20);
	g_assert_cmpuint(settings.va_size % settings.page_size, ==, 0);
	g_assert_cmpuint(settings.va_size, >=, (size_t)8 << 40);
	g_assert_cmpuint(settings.extent_max % settings.page_size, ==, 0);
	g_assert_cmpuint(settings.extent_max, <=, 1 << 30);
	g_assert_cmpuint(settings.extent_max + settings.page_size, >, 1 << 30);

	/* With a driver that has less address space, such as that of WSL; but what the program says stays. */
	device = (struct backend_info){ .granularity = PAGE, .space = (size_t)1 << 35 };
	settings = (struct settings){ 0 };
	assert_ok(settings_fit(&settings, &device));
	g_assert_cmpuint(settings.va_size, ==, (size_t)1 << 35);
	settings = (struct settings){ .va_size = (size_t)1 << 40 };
	assert_ok(settings_fit(&settings, &device));
	g_assert_cmpuint(settings.va_size, ==, (size_t)1 << 40);
}

/* Only extents of one page and the driver for what is small make the pool that the specification describes. */
static void test_paged(void)
{
	static const struct {
		size_t extent_max;
		enum vpmm_small small;
		size_t page_size;
		bool paged;
	} cases[] = {
		{ PAGE, VPMM_SMALL_DRIVER, PAGE, true }, { PAGE, VPMM_SMALL_POOL, PAGE, false },
		{ 2 * PAGE, VPMM_SMALL_DRIVER, PAGE, false }, { 2 * PAGE, VPMM_SMALL_DRIVER, 2 * PAGE, true },
		{ 0, VPMM_SMALL_DRIVER, PAGE, false }, { 0, VPMM_SMALL_DRIVER, (size_t)4 << 30, true },
		{ 0, VPMM_SMALL_POOL, SIZE_MAX, true },
	};
	struct backend_info device = { .granularity = PAGE };

	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		struct settings settings = { .page_size = cases[i].page_size, .extent_max = cases[i].extent_max,
					     .small = cases[i].small };

		assert_ok(settings_fit(&settings, &device));
		g_assert_cmpint(settings.paged, ==, cases[i].paged);
	}
}

/* No device says so, and a division by it would end the program. */
static void test_granularity_bad(void)
{
	struct backend_info device = { .granularity = 0 };
	struct settings settings = { 0 };

	assert_error(settings_fit(&settings, &device), EINVAL, "granularity is 0");
	device.granularity = SIZE_MAX;
	assert_error(settings_fit(&settings, &device), EINVAL, "granularity");
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/settings/sizes", test_sizes);
	g_test_add_func("/settings/env-unset", test_env_unset);
	g_test_add_func("/settings/env-set", test_env_set);
	g_test_add_func("/settings/env-overlap", test_env_overlap);
	g_test_add_func("/settings/env-limits", test_env_limits);
	g_test_add_func("/settings/env-bad", test_env_bad);
	g_test_add_func("/settings/env-large", test_env_large);
	g_test_add_func("/settings/env-long", test_env_long);
	g_test_add_func("/settings/keep", test_keep);
	g_test_add_func("/settings/switches", test_switches);
	g_test_add_func("/settings/none", test_none);
	g_test_add_func("/settings/others", test_others);
	g_test_add_func("/settings/unknown", test_unknown);
	g_test_add_func("/settings/nearest", test_nearest);
	g_test_add_func("/settings/misspelt", test_misspelt);
	g_test_add_func("/settings/opts-bad", test_opts_bad);
	g_test_add_func("/settings/opts-over-env", test_opts_over_env);
	g_test_add_func("/settings/defaults", test_defaults);
	g_test_add_func("/settings/paged", test_paged);
	g_test_add_func("/settings/granularity-bad", test_granularity_bad);
	return g_test_run();
}
