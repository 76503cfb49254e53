// SPDX-License-Identifier: LGPL-2.1-or-later
/* Settings from the environment and from options: what can be checked without a device. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "budget/parse.h"
#include "settings/options.h"
#include "settings/settings.h"
#include "util/env.h"
#include "util/error.h"
#include "util/log.h"
#include "util/sized.h"
#include "util/tag.h"
#include "util/text.h"

/* An error lists the constants up to this number of them. */
#define CONSTANTS_LISTED 3

/* As many as a set has bits. */
#define DEVICES_MOST 64

static void store(void *structure, size_t offset, uint64_t value, size_t size)
{
	unsigned int small = (unsigned int)value;

	memcpy((char *)structure + offset, size == sizeof(small) ? (const void *)&small : &value, size);
}

static void set(struct vpmm_opts *opts, enum option_id id, uint64_t value)
{
	store(opts, pool_options[id].opts, value, pool_options[id].size);
}

static const void *field_of(const struct vpmm_opts *opts, const struct option *option)
{
	return (const char *)opts + option->opts;
}

static const struct option_word *find_word(const struct option *option, const char *name)
{
	const struct option_word *word = option->words;

	while (word->name && strcmp(word->name, name))
		word++;
	return word->name ? word : NULL;
}

static int word_error(const struct option *option, const char *prefix, const char *name, const char *text)
{
	char list[128] = "";

	for (const struct option_word *word = option->words; word->name; word++) {
		if (word != option->words)
			strcat(list, word[1].name ? ", " : " or ");
		strcat(list, word->name);
	}
	return error_set(-EINVAL, "%s%s=%.200s: expected %s", prefix, name, text, list);
}

/*
 * The parsers of variables. Each stores the value of @text, or returns -EINVAL with an error that names the variable.
 * Of a value errors have 200 bytes at most, so that there is room to say what would be right.
 */

#define WORDS_TEXT 32

/* The words that an option has whatever its type: ", or auto", ", none or all". */
static const char *or_words(const struct option *option, char text[WORDS_TEXT])
{
	const char *none = option->nothing, *all = option->unlimited;

	*text = '\0';
	if (none && all)
		g_snprintf(text, WORDS_TEXT, ", %s or %s", none, all);
	else if (none || all)
		g_snprintf(text, WORDS_TEXT, ", or %s", none ? none : all);
	return text;
}

/* Whether it is one of these words. */
static bool parse_words(enum option_id id, const char *text, struct vpmm_opts *opts)
{
	const struct option *option = &pool_options[id];
	bool none = !g_strcmp0(text, option->nothing);

	if (!none && g_strcmp0(text, option->unlimited))
		return false;
	set(opts, id, none ? option->nothing_opts : option->unlimited_opts);
	return true;
}

/* A number of 0 is none, as 0 in struct vpmm_opts is the default. */
static void set_number(enum option_id id, uint64_t number, struct vpmm_opts *opts)
{
	set(opts, id, number ? number : pool_options[id].nothing_opts);
}

/* "none" is 0 of whatever can be 0. */
static int parse_plain(const char *text, const char **end, uint64_t *number)
{
	if (strcmp(text, "none"))
		return number_parse(text, end, number);
	*number = 0;
	*end = "";
	return 0;
}

static int parse_bytes(enum option_id id, const char *text, struct vpmm_opts *opts)
{
	const struct option *option = &pool_options[id];
	char words[WORDS_TEXT];
	uint64_t number;
	int err;

	err = number_parse_scaled(text, &number);
	if (err == -ERANGE)
		return env_too_large(option->variable, text);
	if (err)
		return error_set(-EINVAL,
				 "%s=%.200s: expected %sa number of bytes, plain or with a suffix K, M, G or T%s",
				 option->variable, text,
				 option->type == OPTION_IS_LIMIT ? "a percentage, 1% to 100%, " : "",
				 or_words(option, words));
	if (!number && !option->nothing)
		return error_set(-EINVAL, "%s=%.200s: expected more than 0 bytes%s", option->variable, text,
				 or_words(option, words));
	set_number(id, number, opts);
	return 0;
}

static int parse_count(enum option_id id, const char *text, struct vpmm_opts *opts)
{
	uint64_t number;
	const char *end;
	int err = parse_plain(text, &end, &number);

	if (err == -ERANGE)
		return env_too_large(pool_options[id].variable, text);
	if (err || *end)
		return error_set(-EINVAL, "%s=%.200s: expected a number, or none", pool_options[id].variable, text);
	set_number(id, number, opts);
	return 0;
}

static const char *noun(const struct option *option)
{
	return option->type == OPTION_IS_PERCENT ? "a percentage" : "a number";
}

static int parse_percent(enum option_id id, const char *text, struct vpmm_opts *opts)
{
	const struct option *option = &pool_options[id];
	char words[WORDS_TEXT];
	uint64_t number;
	const char *end;
	int err = parse_plain(text, &end, &number);

	if (err == -ERANGE)
		return env_too_large(option->variable, text);
	if (err || *end || number < (uint64_t)option->least || number > (uint64_t)option->most)
		return error_set(-EINVAL, "%s=%.200s: expected %s, %d to %d%s", option->variable, text,
				 noun(option), option->least, option->most,
				 option->nothing || option->least ? or_words(option, words) : ", or none");
	set_number(id, number, opts);
	return 0;
}

static int parse_word(enum option_id id, const char *text, struct vpmm_opts *opts)
{
	const struct option *option = &pool_options[id];
	const struct option_word *word = find_word(option, text);

	if (!word)
		return word_error(option, "", option->variable, text);
	set(opts, id, option->type == OPTION_IS_NAME ? (uintptr_t)word->name : (uint64_t)word->value);
	return 0;
}

static int parse_limit(enum option_id id, const char *text, struct vpmm_opts *opts)
{
	uint64_t number;
	const char *end;

	if (number_parse(text, &end, &number) || strcmp(end, "%") || !number || number > 100)
		return parse_bytes(id, text, opts);
	set(opts, OPTION_LIMIT_PERCENT, number);
	return 0;
}

static int parse_devices(enum option_id id, const char *text, struct vpmm_opts *opts)
{
	const struct option *option = &pool_options[id];
	uint64_t number, devices = 0;
	const char *at = text;
	int err;

	for (;; at++) {
		err = number_parse(at, &at, &number);
		if (err == -ERANGE)
			return env_too_large(option->variable, text);
		if (err || (*at && *at != ','))
			return error_set(-EINVAL,
					 "%s=%.200s: expected %s, %s, or ordinals of devices with commas between",
					 option->variable, text, option->nothing, option->unlimited);
		if (number >= DEVICES_MOST)
			return error_set(-EINVAL, "%s=%.200s: device %" PRIu64 ": expected ordinals up to %d",
					 option->variable, text, number, DEVICES_MOST - 1);
		if (devices >> number & 1)
			return error_set(-EINVAL, "%s=%.200s: device %" PRIu64 " is there twice", option->variable,
					 text, number);
		devices |= UINT64_C(1) << number;
		if (!*at)
			break;
	}
	set(opts, id, devices);
	return 0;
}

/* Says why a text is refused; the caller frees it with g_free(). NULL: the text is good. */
static char *judge_text(const struct option *option, const char *text)
{
	const char *unknown;
	uint64_t size;
	size_t name;

	if (option->type == OPTION_IS_BUDGET)
		return g_strdup(budget_parse(text, &name, &size));
	unknown = name_unknown(text);
	return unknown ? g_strdup_printf("what \"%.2s\" stands for is not known: expected %%p or %%%%", unknown) : NULL;
}

static int parse_text(enum option_id id, const char *text, struct vpmm_opts *opts)
{
	g_autofree char *why = judge_text(&pool_options[id], text);

	if (why)
		return error_set(-EINVAL, "%s=%.200s: %s", pool_options[id].variable, text, why);
	set(opts, id, (uintptr_t)text);
	return 0;
}

/* The checks of fields. Each returns 0, or -EINVAL with an error that names the field. */

static int check_percent(const struct option *option, const void *field)
{
	int value = *(const int *)field;

	if (!value || (value >= option->least && value <= option->most))
		return 0;
	if ((option->unlimited && value == (int)option->unlimited_opts) ||
	    (option->nothing && value == (int)option->nothing_opts))
		return 0;
	return error_set(-EINVAL, "vpmm_opts.%s is %d: expected %s, %d to %d%s%s", option->field, value, noun(option),
			 option->least, option->most, option->least ? ", or 0" : "",
			 option->unlimited ? ", VPMM_OVERLAP_AUTO or VPMM_OVERLAP_NONE" :
			 option->nothing ? ", or VPMM_BUDGET_WAIT_NONE" : "");
}

static int constant_error(const struct option *option, int value)
{
	const struct option_word *last = option->words;
	char list[128] = "";

	while (last[1].name)
		last++;
	if (last - option->words >= CONSTANTS_LISTED)
		return error_set(-EINVAL, "vpmm_opts.%s is %d: expected %s to %s", option->field, value,
				 option->words->constant, last->constant);
	for (const struct option_word *word = option->words; word <= last; word++) {
		if (word != option->words)
			strcat(list, word < last ? ", " : " or ");
		strcat(list, word->constant);
	}
	return error_set(-EINVAL, "vpmm_opts.%s is %d: expected %s", option->field, value, list);
}

static int check_word(const struct option *option, const void *field)
{
	int value = *(const int *)field;

	for (const struct option_word *word = option->words; word->name; word++) {
		if (word->value == value)
			return 0;
	}
	return constant_error(option, value);
}

static int check_name(const struct option *option, const void *field)
{
	const char *name = *(const char *const *)field;

	return !name || find_word(option, name) ? 0 : word_error(option, "vpmm_opts.", option->field, name);
}

static int check_text(const struct option *option, const void *field)
{
	const char *text = *(const char *const *)field;
	g_autofree char *why = NULL;

	if (text && !*text && option->type == OPTION_IS_FILE)
		return error_set(-EINVAL, "vpmm_opts.%s is empty: expected the name of a file, or NULL", option->field);
	why = text ? judge_text(option, text) : NULL;
	return why ? error_set(-EINVAL, "vpmm_opts.%s is %.200s: %s", option->field, text, why) : 0;
}

static int check_ordinal(const struct option *option, const void *field)
{
	const int *ordinal = *(const int *const *)field;

	if (!ordinal || *ordinal >= 0)
		return 0;
	return error_set(-EINVAL, "vpmm_opts.%s is %d: expected an ordinal from 0", option->field, *ordinal);
}

static const struct {
	int (*parse)(enum option_id id, const char *text, struct vpmm_opts *opts);
	int (*check)(const struct option *option, const void *field);
} types[] = {
	[OPTION_IS_BYTES] = { parse_bytes, NULL },
	[OPTION_IS_COUNT] = { parse_count, NULL },
	[OPTION_IS_PERCENT] = { parse_percent, check_percent },
	[OPTION_IS_WHOLE] = { parse_percent, check_percent },
	[OPTION_IS_WORD] = { parse_word, check_word },
	[OPTION_IS_NAME] = { parse_word, check_name },
	[OPTION_IS_LIMIT] = { parse_limit, NULL },
	[OPTION_IS_DEVICES] = { parse_devices, NULL },
	[OPTION_IS_FILE] = { parse_text, check_text },
	[OPTION_IS_BUDGET] = { parse_text, check_text },
	[OPTION_IS_ORDINAL] = { NULL, check_ordinal },
	[OPTION_IS_POINTER] = { NULL, NULL },
	[OPTION_IS_HOST] = { NULL, NULL },
};

static void warn_unknown(void *data, const char *name)
{
	char *printable = g_strescape(name, NULL);

	log_add(data, VPMM_LOG_WARNING, "%s is set, but is no variable of this library; the nearest is %s", printable,
		variables_nearest(name));
	g_free(printable);
}

/* To standard error, as the log of the environment's pools goes there. */
static void warn_of_misspelling(int log_level)
{
	struct log log;

	log_init(&log, (enum vpmm_log_level)log_level, NULL, NULL);
	if (!log_wants(&log, VPMM_LOG_WARNING))
		return;
	variables_each_unknown(warn_unknown, &log);
	log_finish(&log);
}

int settings_check_touch(void)
{
	static const char *const ways[] = { "userfaultfd", "user", "signal", NULL };
	const char *text = env_get("VPMM_SHARED_TOUCH");

	if (!text || g_strv_contains(ways, text))
		return 0;
	return error_set(-EINVAL, "VPMM_SHARED_TOUCH=%.200s: expected userfaultfd, user or signal", text);
}

/* A bad setting that is no option is noticed here. Most of them are read again where they are used. */
static int read_others(void)
{
	uint64_t bytes;
	bool on;
	int err;

	err = env_switch("VPMM_PAUSABLE", &on);
	if (!err)
		err = env_switch("VPMM_PAUSE_POISON", &on);
	if (!err)
		err = env_keep("VPMM_PAUSE_HOST", &bytes);
	if (!err)
		err = env_keep("VPMM_HOST_KEEP", &bytes);
	if (!err)
		err = tag_set_default();
	return err ? err : settings_check_touch();
}

int settings_from_env(struct vpmm_opts *opts)
{
	struct vpmm_opts found = { .size = opts->size };
	int err;

	err = read_others();
	if (err)
		return err;
	for (enum option_id id = 0; id < OPTIONS; id++) {
		const char *text = pool_options[id].variable ? env_get(pool_options[id].variable) : NULL;

		if (!text || !types[pool_options[id].type].parse || parse_words(id, text, &found))
			continue;
		err = types[pool_options[id].type].parse(id, text, &found);
		if (err)
			return err;
	}
	*opts = found;
	warn_of_misspelling(found.log_level);
	return 0;
}

static int opts_import(struct vpmm_opts *known, const struct vpmm_opts *opts)
{
	int err;

	err = sized_check(&sized_opts, "vpmm_opts", opts);
	return err ? err : sized_import(&sized_opts, known, opts);
}

/* Copies a field into the settings, or its default if it is 0. */
static void copy_option(struct settings *settings, const struct vpmm_opts *opts, const struct option *option)
{
	static const char zero[sizeof(uint64_t)];
	const void *field = field_of(opts, option);

	if (option->fallback && !option->of_device && !memcmp(field, zero, option->size))
		store(settings, option->settings, option->fallback, option->size);
	else
		memcpy((char *)settings + option->settings, field, option->size);
}

int settings_from_opts(struct settings *settings, const struct vpmm_opts *opts)
{
	struct vpmm_opts known = { .size = sizeof(known) };
	int err;

	err = opts ? opts_import(&known, opts) ?: read_others() : settings_from_env(&known);
	if (err)
		return err;
	for_each_option(option) {
		if (types[option->type].check)
			err = types[option->type].check(option, field_of(&known, option));
		if (err)
			return err;
	}
	*settings = (struct settings){ 0 };
	for_each_option(option) {
		if (option->size)
			copy_option(settings, &known, option);
	}
	if (!settings->backend)
		settings->backend = pool_options[OPTION_BACKEND].words->name;
	return 0;
}
