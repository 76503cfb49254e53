// SPDX-License-Identifier: LGPL-2.1-or-later
#include "pool-settings.h"

#include <glib.h>
#include <stdint.h>
#include <string.h>

#include "vpmm-host.h"

static struct pool_setting *add_setting(struct pool_settings *settings, const char *variable)
{
	struct pool_setting *setting = &settings->all[settings->n++];
	const char *text = g_getenv(variable);

	*setting = (struct pool_setting){ .variable = variable };
	setting->source = text && *text ? "environment" : "default";
	return setting;
}

static void add_number(struct pool_settings *settings, const char *variable, uint64_t value, bool bytes)
{
	struct pool_setting *setting = add_setting(settings, variable);

	setting->number = true;
	setting->bytes = bytes;
	g_snprintf(setting->value, sizeof(setting->value), "%" G_GUINT64_FORMAT, (guint64)value);
}

static struct pool_setting *add_word(struct pool_settings *settings, const char *variable, const char *value)
{
	struct pool_setting *setting = add_setting(settings, variable);

	g_strlcpy(setting->value, value, sizeof(setting->value));
	return setting;
}

/* The library has no call that tells it, so each is tried. */
static unsigned int count_host_devices(void)
{
	unsigned int count = 0;

	while (vpmm_host_set_device((int)count) == 0)
		count++;
	vpmm_host_set_device(0);
	return count;
}

/* Bytes, or a word for where there is no such number. */
static void add_bound(struct pool_settings *settings, const char *variable, uint64_t bytes, const char *without)
{
	if (bytes == UINT64_MAX)
		add_word(settings, variable, without);
	else
		add_number(settings, variable, bytes, true);
}

void pool_settings_collect(struct pool_settings *settings, const struct choice *choice, bool by_option)
{
	static const char *const scrubs[] = { "none", "stream", "always" };
	static const char *const levels[] = { "none", "error", "warning", "info", "debug" };
	const struct vpmm_info *info = &choice->info;
	struct pool_setting *backend;

	settings->n = 0;
	backend = add_word(settings, "VPMM_BACKEND", info->backend);
	if (by_option)
		backend->source = "option";
	else if (!strcmp(backend->source, "default"))
		backend->source = "auto";
	add_number(settings, "VPMM_PAGE_SIZE", info->page_size, true);
	add_number(settings, "VPMM_VA_SIZE", info->va_size, true);
	add_number(settings, "VPMM_PAGES", info->pages, false);
	add_word(settings, "VPMM_REUSE", info->reuse == VPMM_REUSE_BLOCK ? "block" : "async");
	add_number(settings, "VPMM_EXTENT_MAX", info->extent_max, true);
	add_word(settings, "VPMM_SMALL", info->small == VPMM_SMALL_DRIVER ? "driver" : "pool");
	add_number(settings, "VPMM_FRAG_RATIO", (uint64_t)info->frag_ratio, false);
	add_number(settings, "VPMM_OVERHEAD", (uint64_t)info->overhead, false);
	add_bound(settings, "VPMM_LIMIT", info->limit, "none");
	if (info->keep)
		add_bound(settings, "VPMM_KEEP", info->keep, "all");
	else
		add_word(settings, "VPMM_KEEP", "none");
	add_word(settings, "VPMM_SCRUB", scrubs[CLAMP(info->scrub, 0, (int)G_N_ELEMENTS(scrubs) - 1)]);
	add_word(settings, "VPMM_LOG", levels[CLAMP(info->log_level, 0, (int)G_N_ELEMENTS(levels) - 1)]);
	if (strcmp(info->backend, "host") != 0)
		return;
	add_number(settings, "VPMM_HOST_CAPACITY", info->memory_total, true);
	add_number(settings, "VPMM_HOST_DEVICES", count_host_devices(), false);
	add_number(settings, "VPMM_HOST_MAPPINGS", info->mapping_limit, false);
}

void pool_setting_json(struct json *json, const char *key, const struct pool_setting *setting)
{
	if (setting->number)
		json_count(json, key, g_ascii_strtoull(setting->value, NULL, 10));
	else
		json_string(json, key, setting->value);
}
