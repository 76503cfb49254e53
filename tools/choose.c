// SPDX-License-Identifier: LGPL-2.1-or-later
#include "choose.h"

#include <errno.h>
#include <glib.h>
#include <string.h>

#include "fail.h"
#include "units.h"

/* Whether there can be as many initial pages: a pool that may hold next to nothing fails for want of memory if so. */
static int judge_pages(struct vpmm_opts opts)
{
	struct vpmm_pool *pool;
	int err;

	opts.limit = 1;
	opts.limit_percent = 0;
	opts.log_level = VPMM_LOG_NONE;
	err = vpmm_pool_create(&pool, &opts);
	if (!err)
		vpmm_pool_destroy(pool);
	return err == -EINVAL ? fail_set(err, "%s", vpmm_last_error()) : 0;
}

/* Without the initial pages: they may be many, and nobody is going to use this pool. */
static int look_at(const char *backend, struct choice *choice)
{
	struct vpmm_opts opts = choice->opts;
	struct vpmm_pool *pool;
	int err;

	choice->opts.backend = backend;
	opts.backend = backend;
	opts.pages = 0;
	opts.trace = NULL;
	err = vpmm_pool_create(&pool, &opts);
	if (err)
		return fail_set(err, "%s", vpmm_last_error());
	choice->info = (struct vpmm_info){ .size = sizeof(choice->info) };
	err = vpmm_pool_info(pool, &choice->info);
	if (err)
		fail_set(err, "%s", vpmm_last_error());
	choice->info.pages = choice->opts.pages;
	choice->info.trace = choice->opts.trace;
	vpmm_pool_destroy(pool);
	opts.pages = choice->opts.pages;
	return !err && opts.pages ? judge_pages(opts) : err;
}

/* The library's hint names the variable, which an option overrules. */
static void hint_at_option(int err)
{
	const char *text = fail_text(), *end = strchr(text, '\n');

	if (end)
		fail_set(err, "%.*s\nwithout a GPU, --backend=host runs on ordinary memory, as VPMM_BACKEND=host does "
			 "without the option", (int)(end - text), text);
}

static int look_automatically(struct choice *choice)
{
	int err;

	err = look_at("cuda", choice);
	if (!err) {
		choice->why = g_strdup("auto found a device");
		return 0;
	}
	if (err != -ENODEV)
		return err;
	choice->why = g_strdup_printf("auto found no device: %.*s", (int)strcspn(fail_text(), "\n"), fail_text());
	err = look_at("host", choice);
	if (err)
		g_free(choice->why);
	return err;
}

int choose_backend(const char *name, struct choice *choice)
{
	const char *variable = g_getenv("VPMM_BACKEND");
	bool from_env = !name && variable && *variable;
	int err;

	choice->opts = (struct vpmm_opts){ .size = sizeof(choice->opts) };
	err = vpmm_opts_from_env(&choice->opts);
	if (err)
		return fail_set(err, "%s", vpmm_last_error());
	if (!name)
		name = from_env ? variable : "auto";
	if (strcmp(name, "auto") == 0)
		return look_automatically(choice);
	if (strcmp(name, "cuda") != 0 && strcmp(name, "host") != 0)
		return fail_set(-EINVAL, "--backend: \"%s\": expected cuda, host or auto", name);
	err = look_at(name, choice);
	if (!err)
		choice->why = g_strdup(from_env ? "VPMM_BACKEND says so" : "--backend says so");
	else if (err == -ENODEV && !from_env)
		hint_at_option(err);
	return err;
}

bool choose_driver_serves_small(const struct vpmm_info *info)
{
	return info->small == VPMM_SMALL_DRIVER || info->page_size == SIZE_MAX;
}

char *choose_describe_pool(const struct vpmm_info *info)
{
	char page[UNITS_TEXT], most[UNITS_TEXT];

	if (info->page_size == SIZE_MAX)
		return g_strdup("switched off by its page size");
	units_format_bytes(page, info->page_size);
	units_format_bytes(most, info->extent_max);
	if (info->extent_max > info->page_size)
		return g_strdup_printf("in extents of %s to %s", page, most);
	return g_strdup_printf(choose_driver_serves_small(info) ? "in pages of %s" : "in extents of %s", page);
}
