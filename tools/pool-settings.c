// SPDX-License-Identifier: LGPL-2.1-or-later
#include "pool-settings.h"

#include <glib.h>
#include <inttypes.h>
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

static void say_number(struct pool_setting *setting, uint64_t value, bool bytes)
{
	setting->number = true;
	setting->bytes = bytes;
	g_snprintf(setting->value, sizeof(setting->value), "%" PRIu64, (uint64_t)value);
}

static void say_word(struct pool_setting *setting, const char *word)
{
	g_strlcpy(setting->value, word, sizeof(setting->value));
}

/* A library that is newer than this program may know more words. */
static const char *word_of(const struct option *option, uint64_t value)
{
	const struct option_word *word = option->words;

	while (word[1].name && (uint64_t)word->value != value)
		word++;
	return word->name;
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

/* As the variable has it. */
static void say_devices(struct pool_setting *setting, uint64_t devices)
{
	for (int device = 0; device < 64; device++) {
		size_t length = strlen(setting->value);

		if (devices >> device & 1)
			g_snprintf(setting->value + length, sizeof(setting->value) - length, "%s%d",
				   length ? "," : "", device);
	}
}

static void say_value(struct pool_setting *setting, const struct option *option, uint64_t value)
{
	if (option->words)
		say_word(setting, word_of(option, value));
	else if (option->unlimited && value == UINT64_MAX)
		say_word(setting, option->unlimited);
	else if (option->nothing && !value)
		say_word(setting, option->nothing);
	else if (option->type == OPTION_IS_DEVICES)
		say_devices(setting, value);
	else
		say_number(setting, value, option->in_bytes);
}

static void say_text(struct pool_setting *setting, const struct option *option, const struct vpmm_info *info)
{
	const char *text;

	memcpy(&text, (const char *)info + option->info, sizeof(text));
	say_word(setting, text ? text : option->nothing);
}

static void add_backend(struct pool_settings *settings, const struct vpmm_info *info, bool by_option)
{
	struct pool_setting *setting = add_setting(settings, pool_options[OPTION_BACKEND].variable);

	say_word(setting, info->backend);
	if (by_option)
		setting->source = "option";
	else if (!strcmp(setting->source, "default"))
		setting->source = "auto";
}

static uint64_t option_from_info(const struct option *option, const struct vpmm_info *info)
{
	const char *at = (const char *)info + option->info;
	unsigned int small;
	uint64_t number;

	if (option->size == sizeof(small)) {
		memcpy(&small, at, sizeof(small));
		return option->unlimited && small == UINT_MAX ? UINT64_MAX : small;
	}
	memcpy(&number, at, sizeof(number));
	return number;
}

static void add_other(void *data, const char *variable, const char *value)
{
	if (value && *value)
		say_word(add_setting(data, variable), value);
}

void pool_settings_collect(struct pool_settings *settings, const struct choice *choice, bool by_option)
{
	const struct vpmm_info *info = &choice->info;
	bool on_host = !strcmp(info->backend, "host");

	settings->n = 0;
	add_backend(settings, info, by_option);
	for_each_option(option) {
		if (option->type == OPTION_IS_FILE || option->type == OPTION_IS_BUDGET)
			say_text(add_setting(settings, option->variable), option, info);
		else if (option->info && (option->type != OPTION_IS_HOST || on_host))
			say_value(add_setting(settings, option->variable), option, option_from_info(option, info));
		else if (option == &pool_options[OPTION_HOST_DEVICES] && on_host)
			say_number(add_setting(settings, option->variable), count_host_devices(), false);
		else if (option == &pool_options[OPTION_HOST_KERNELS] && on_host)
			add_other(settings, option->variable, g_getenv(option->variable));
	}
	variables_each_other(add_other, settings);
}

void pool_setting_json(struct json *json, const char *key, const struct pool_setting *setting)
{
	if (setting->number)
		json_count(json, key, g_ascii_strtoull(setting->value, NULL, 10));
	else
		json_string(json, key, setting->value);
}
