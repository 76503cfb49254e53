// SPDX-License-Identifier: LGPL-2.1-or-later
/* Every option of a pool: set in the environment and in struct vpmm_opts, read back through struct vpmm_info. */
#include <stdbool.h>
#include <string.h>

#include "settings/options.h"
#include "support/fixture.h"

#define SIZE_OF(type, member) sizeof(((struct type *)NULL)->member)
#define IN_OPTS(field) offsetof(struct vpmm_opts, field), SIZE_OF(vpmm_opts, field)
#define IN_INFO(field) offsetof(struct vpmm_info, field), SIZE_OF(vpmm_info, field)

/* A value other than the default. */
static const struct sample {
	const char *variable;
	const char *text;
	size_t opts, opts_size;
	uint64_t value;
	size_t info, info_size;
	uint64_t in_force;
} samples[] = {
	{ "VPMM_PAGE_SIZE", "4M", IN_OPTS(page_size), 4 << 20, IN_INFO(page_size), 4 << 20 },
	{ "VPMM_VA_SIZE", "512m", IN_OPTS(va_size), 512 << 20, IN_INFO(va_size), 512 << 20 },
	{ "VPMM_PAGES", "3", IN_OPTS(pages), 3, IN_INFO(pages), 3 },
	{ "VPMM_REUSE", "block", IN_OPTS(reuse), VPMM_REUSE_BLOCK, IN_INFO(reuse), VPMM_REUSE_BLOCK },
	{ "VPMM_EXTENT_MAX", "64M", IN_OPTS(extent_max), 64 << 20, IN_INFO(extent_max), 64 << 20 },
	{ "VPMM_SMALL", "driver", IN_OPTS(small), VPMM_SMALL_DRIVER, IN_INFO(small), VPMM_SMALL_DRIVER },
	{ "VPMM_FRAG_RATIO", "100", IN_OPTS(frag_ratio), 100, IN_INFO(frag_ratio), 100 },
	{ "VPMM_OVERHEAD", "25", IN_OPTS(overhead), 25, IN_INFO(overhead), 25 },
	{ "VPMM_OVERLAP", "150", IN_OPTS(overlap), 150, IN_INFO(overlap), 150 },
	{ "VPMM_OVERLAP", "0", IN_OPTS(overlap), (uint64_t)VPMM_OVERLAP_NONE, IN_INFO(overlap), 0 },
	{ "VPMM_LIMIT", "3G", IN_OPTS(limit), (uint64_t)3 << 30, IN_INFO(limit), (uint64_t)3 << 30 },
	{ "VPMM_LIMIT", "50%", IN_OPTS(limit_percent), 50, IN_INFO(limit), (uint64_t)4 << 30 },
	{ "VPMM_KEEP", "1G", IN_OPTS(keep), 1 << 30, IN_INFO(keep), 1 << 30 },
	{ "VPMM_KEEP", "none", IN_OPTS(keep), VPMM_KEEP_NONE, IN_INFO(keep), 0 },
	{ "VPMM_SCRUB", "always", IN_OPTS(scrub), VPMM_SCRUB_ALWAYS, IN_INFO(scrub), VPMM_SCRUB_ALWAYS },
	{ "VPMM_EXPORT", "fd", IN_OPTS(export_as), VPMM_EXPORT_FD, IN_INFO(export_as), VPMM_EXPORT_FD },
	{ "VPMM_EXPORT", "auto", IN_OPTS(export_as), VPMM_EXPORT_AUTO, IN_INFO(export_as), VPMM_EXPORT_FD },
	{ "VPMM_RDMA", "on", IN_OPTS(rdma), VPMM_RDMA_ON, IN_INFO(rdma), VPMM_RDMA_ON },
	{ "VPMM_PEERS", "1,3", IN_OPTS(peers), 0xa, IN_INFO(peers), 0xa },
	{ "VPMM_PEERS", "all", IN_OPTS(peers), VPMM_PEERS_ALL, IN_INFO(peers), 0xe },
	{ "VPMM_STACKS", "512K", IN_OPTS(stacks), 512 << 10, IN_INFO(stacks), 512 << 10 },
	{ "VPMM_BUDGET_FLOOR", "64M", IN_OPTS(budget_floor), 64 << 20, IN_INFO(budget_floor), 64 << 20 },
	{ "VPMM_BUDGET_WEIGHT", "3", IN_OPTS(budget_weight), 3, IN_INFO(budget_weight), 3 },
	{ "VPMM_BUDGET_WAIT", "250", IN_OPTS(budget_wait), 250, IN_INFO(budget_wait), 250 },
	{ "VPMM_BUDGET_WAIT", "none", IN_OPTS(budget_wait), (uint64_t)VPMM_BUDGET_WAIT_NONE, IN_INFO(budget_wait), 0 },
	{ "VPMM_BUDGET_THREAD", "0", IN_OPTS(budget_thread), VPMM_BUDGET_THREAD_OFF, IN_INFO(budget_thread),
	  VPMM_BUDGET_THREAD_OFF },
	{ "VPMM_TOP", "1", IN_OPTS(top), VPMM_TOP_ON, IN_INFO(top), VPMM_TOP_ON },
	{ "VPMM_LOG", "error", IN_OPTS(log_level), VPMM_LOG_ERROR, IN_INFO(log_level), VPMM_LOG_ERROR },
};

static void set_field(void *structure, size_t offset, size_t size, uint64_t value)
{
	int number = (int)value;

	memcpy((char *)structure + offset, size == sizeof(number) ? (const void *)&number : &value, size);
}

static uint64_t get_field(const void *structure, size_t offset, size_t size)
{
	uint64_t value = 0;
	int number;

	if (size != sizeof(number)) {
		memcpy(&value, (const char *)structure + offset, size);
		return value;
	}
	memcpy(&number, (const char *)structure + offset, size);
	return (uint64_t)number;
}

/* What a pool that is created with these options says of the sample. */
static uint64_t in_force(const struct sample *sample, const struct vpmm_opts *opts)
{
	struct vpmm_info info = { .size = sizeof(info) };
	struct vpmm_pool *pool;

	assert_ok(vpmm_pool_create(&pool, opts));
	assert_ok(vpmm_pool_info(pool, &info));
	vpmm_pool_destroy(pool);
	fixture_assert_nothing_left();
	return get_field(&info, sample->info, sample->info_size);
}

static void begin(void)
{
	for_each_option(option) {
		if (option->variable)
			g_unsetenv(option->variable);
	}
	g_setenv("VPMM_HOST_CAPACITY", "8G", TRUE);
	g_setenv("VPMM_HOST_DEVICES", "4", TRUE);
}

static void test_environment(void)
{
	for (size_t i = 0; i < G_N_ELEMENTS(samples); i++) {
		const struct sample *sample = &samples[i];
		struct vpmm_opts opts = { .size = sizeof(opts) };

		begin();
		g_setenv("VPMM_BACKEND", "host", TRUE);
		g_setenv("VPMM_VA_SIZE", "1G", TRUE);
		g_setenv(sample->variable, sample->text, TRUE);
		g_test_message("%s=%s", sample->variable, sample->text);
		assert_ok(vpmm_opts_from_env(&opts));
		g_assert_cmpuint(get_field(&opts, sample->opts, sample->opts_size), ==, sample->value);
		g_assert_cmpuint(in_force(sample, NULL), ==, sample->in_force);
		g_assert_cmpuint(in_force(sample, &opts), ==, sample->in_force);
	}
	begin();
	g_unsetenv("VPMM_HOST_CAPACITY");
}

static void test_opts(void)
{
	begin();
	for (size_t i = 0; i < G_N_ELEMENTS(samples); i++) {
		const struct sample *sample = &samples[i];
		struct vpmm_opts opts = { FIXTURE_PACKED };

		g_test_message("%s=%s", sample->variable, sample->text);
		g_assert_cmpuint(in_force(sample, &opts), !=, sample->in_force);
		set_field(&opts, sample->opts, sample->opts_size, sample->value);
		g_assert_cmpuint(in_force(sample, &opts), ==, sample->in_force);
	}
	g_unsetenv("VPMM_HOST_CAPACITY");
}

/* The error of a bad value names all that the variable takes, so that its reader need not look that up. */
static void names_all(const char *variable)
{
	static const struct {
		const char *value, *name;
	} values[] = {
		{ "none", "none" }, { "all", "all" }, { "auto", "auto" }, { "on", "on" }, { "off", "off" },
		{ "50%", "percentage" }, { "16M", "suffix" },
	};
	g_autofree char *wrong = NULL;
	struct vpmm_pool *pool;

	begin();
	g_setenv("VPMM_BACKEND", "host", TRUE);
	g_setenv(variable, "?", TRUE);
	assert_error(vpmm_pool_create(&pool, NULL), EINVAL, variable);
	wrong = g_strdup(vpmm_last_error());
	for (size_t i = 0; i < G_N_ELEMENTS(values); i++) {
		g_setenv(variable, values[i].value, TRUE);
		g_test_message("%s=%s, and %s", variable, values[i].value, wrong);
		if (!vpmm_pool_create(&pool, NULL)) {
			vpmm_pool_destroy(pool);
			g_assert_nonnull(strstr(wrong, values[i].name));
		}
	}
	g_unsetenv(variable);
}

static void test_errors(void)
{
	static const char *const others[] = {
		"VPMM_HOST_KEEP", "VPMM_PAUSABLE", "VPMM_PAUSE_HOST", "VPMM_PAUSE_POISON",
	};

	for_each_option(option) {
		if (option->variable && option->type != OPTION_IS_FILE && option->type != OPTION_IS_BUDGET)
			names_all(option->variable);
	}
	for (size_t i = 0; i < G_N_ELEMENTS(others); i++)
		names_all(others[i]);
	begin();
	g_unsetenv("VPMM_HOST_CAPACITY");
	fixture_assert_nothing_left();
}

static bool has_sample(const struct option *option)
{
	for (size_t i = 0; i < G_N_ELEMENTS(samples); i++) {
		if (!strcmp(samples[i].variable, option->variable))
			return true;
	}
	return false;
}

/*
 * The backend is a name and says so itself, test-record has the name of a trace, test-budget that of a budget; the rest
 * has a sample here.
 */
static void test_all(void)
{
	for_each_option(option) {
		if (!option->variable || option->type == OPTION_IS_HOST || option->type == OPTION_IS_NAME ||
		    option->type == OPTION_IS_FILE || option->type == OPTION_IS_BUDGET)
			continue;
		if (!has_sample(option))
			g_error("%s: add a sample to this test", option->variable);
	}
}

static char *read_page(const char *name)
{
	char *path, *text = NULL;

	path = g_build_filename(g_getenv("top_srcdir"), "man", name, NULL);
	g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
	g_free(path);
	return text;
}

/* A line "@prefix@name" with nothing, or another word, behind it. */
static bool page_has(const char *page, const char *prefix, const char *name)
{
	char *pattern = g_strdup_printf("^%s%s(?![A-Za-z_])", prefix, name);
	bool has = g_regex_match_simple(pattern, page, G_REGEX_MULTILINE, (GRegexMatchFlags)0);

	g_free(pattern);
	return has;
}

/* vpmm(7) has an item for each variable, vpmm_pool_create(3) for each field, vpmm_opts_from_env(3) for each pair. */
static void test_pages(void)
{
	char *vpmm, *create, *from_env;

	if (!g_getenv("top_srcdir")) {
		g_test_skip("top_srcdir does not say where the pages are");
		return;
	}
	vpmm = read_page("vpmm.7");
	create = read_page("vpmm_pool_create.3");
	from_env = read_page("vpmm_opts_from_env.3");
	for_each_option(option) {
		char *pair = g_strdup_printf("%s Ta Fa %s", option->variable, option->field);

		g_test_message("%s, %s", option->variable, option->field);
		if (option->variable)
			g_assert_true(page_has(vpmm, "\\.It Ev ([A-Z_]+ , )*", option->variable));
		if (option->field)
			g_assert_true(page_has(create, "\\.It Fa ([a-z_]+ , )*", option->field));
		if (option->variable && option->field)
			g_assert_true(page_has(from_env, "\\.It Ev ", pair));
		g_free(pair);
	}
	g_free(vpmm);
	g_free(create);
	g_free(from_env);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/options/environment", test_environment);
	g_test_add_func("/options/opts", test_opts);
	g_test_add_func("/options/errors", test_errors);
	g_test_add_func("/options/all", test_all);
	g_test_add_func("/options/pages", test_pages);
	return g_test_run();
}
