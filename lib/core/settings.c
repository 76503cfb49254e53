// SPDX-License-Identifier: LGPL-2.1-or-later
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "core/settings.h"
#include "util/error.h"
#include "util/log.h"
#include "util/sized.h"
#include "util/variables.h"

/* Device addresses and address space by the terabyte; CUDA is nowhere else. */
_Static_assert(sizeof(size_t) == sizeof(uint64_t), "libvpmm needs a machine of 64 bits");

#define DEFAULT_PAGE_SIZE (UINT64_C(2) << 20)
#define DEFAULT_VA_SIZE (UINT64_C(8) << 40)
#define DEFAULT_EXTENT_MAX (UINT64_C(1) << 30)
#define DEFAULT_OVERHEAD 1

/* With more there is little left to save. */
#define OVERHEAD_MOST 10

/* A word that a setting can be, and the value that it stands for. */
struct word {
	const char *name;
	int value;
};

static const struct word reuse_words[] = {
	{ "async", VPMM_REUSE_ASYNC },
	{ "block", VPMM_REUSE_BLOCK },
	{ NULL, 0 },
};

static const struct word small_words[] = {
	{ "pool", VPMM_SMALL_POOL },
	{ "driver", VPMM_SMALL_DRIVER },
	{ NULL, 0 },
};

static const struct word scrub_words[] = {
	{ "none", VPMM_SCRUB_NONE },
	{ "stream", VPMM_SCRUB_STREAM },
	{ "always", VPMM_SCRUB_ALWAYS },
	{ NULL, 0 },
};

static const struct word log_words[] = {
	{ "none", VPMM_LOG_NONE },
	{ "error", VPMM_LOG_ERROR },
	{ "warning", VPMM_LOG_WARNING },
	{ "info", VPMM_LOG_INFO },
	{ "debug", VPMM_LOG_DEBUG },
	{ NULL, 0 },
};

static const struct word backend_words[] = {
	{ "cuda", 0 },
	{ "host", 0 },
	{ "auto", 0 },
	{ NULL, 0 },
};

static int word_find(const struct word *words, const char *name)
{
	for (int i = 0; words[i].name; i++) {
		if (!strcmp(words[i].name, name))
			return i;
	}
	return -1;
}

static int word_error(const struct word *words, const char *what, const char *value)
{
	char list[128] = "";

	for (int i = 0; words[i].name; i++) {
		if (i > 0)
			strcat(list, words[i + 1].name ? ", " : " or ");
		strcat(list, words[i].name);
	}
	return error_set(-EINVAL, "%s=%s: expected %s", what, value, list);
}

static bool word_has_value(const struct word *words, int value)
{
	for (int i = 0; words[i].name; i++) {
		if (words[i].value == value)
			return true;
	}
	return false;
}

/* A number of @what. */
static int parse_number(const char *name, const char *text, const char *what, uint64_t *value)
{
	static const char suffixes[] = "KMGT";
	const char *suffix;
	unsigned int shift = 0;
	uint64_t number;
	char *end;

	/* strtoull takes white space and a minus sign, which no size has. */
	if (!isdigit((unsigned char)text[0]))
		goto bad;
	errno = 0;
	number = strtoull(text, &end, 10);
	if (errno)
		goto large;
	if (*end) {
		suffix = strchr(suffixes, toupper((unsigned char)*end));
		if (!suffix || end[1])
			goto bad;
		shift = 10 * (unsigned int)(suffix - suffixes + 1);
	}
	if (number > UINT64_MAX >> shift)
		goto large;
	*value = number << shift;
	return 0;

large:
	return error_set(-EINVAL, "%s=%s: larger than 64 bits can say", name, text);
bad:
	return error_set(-EINVAL, "%s=%s: expected a number of %s, plain or with a suffix K, M, G or T", name, text,
			 what);
}

int settings_parse_size(const char *name, const char *text, uint64_t *value)
{
	return parse_number(name, text, "bytes", value);
}

/* Set to nothing is the same as not set: it is how a shell script takes a setting back. */
static const char *env_get(const char *name)
{
	const char *text = getenv(name);

	return text && *text ? text : NULL;
}

int settings_env_number(const char *name, const char *what, uint64_t fallback, uint64_t *value)
{
	const char *text = env_get(name);

	if (!text) {
		*value = fallback;
		return 0;
	}
	return parse_number(name, text, what, value);
}

int settings_env_size(const char *name, uint64_t fallback, uint64_t *value)
{
	return settings_env_number(name, "bytes", fallback, value);
}

static int env_memory_size(const char *name, size_t *value)
{
	uint64_t number;
	int err;

	err = settings_env_size(name, 0, &number);
	if (err)
		return err;
	if (!number && env_get(name))
		return error_set(-EINVAL, "%s=%s: expected more than 0 bytes", name, env_get(name));
	if (number > SIZE_MAX)
		return error_set(-EINVAL, "%s=%s: more than this machine can address", name, env_get(name));
	*value = number;
	return 0;
}

static int env_count(const char *name, size_t *value)
{
	const char *text = env_get(name);
	char *end;

	*value = 0;
	if (!text)
		return 0;
	errno = 0;
	*value = strtoull(text, &end, 10);
	if (errno || *end || !isdigit((unsigned char)text[0]))
		return error_set(-EINVAL, "%s=%s: expected a number", name, text);
	return 0;
}

/* Where it is not set, 0. */
static int env_percent(const char *name, size_t least, size_t most, int *value)
{
	const char *text = env_get(name);
	size_t number;
	int err;

	err = env_count(name, &number);
	if (err)
		return err;
	if (text && (number < least || number > most))
		return error_set(-EINVAL, "%s=%s: expected a percentage, %zu to %zu", name, text, least, most);
	*value = (int)number;
	return 0;
}

/* Bytes, or a percentage of the device's memory. */
static int env_limit(const char *name, size_t *bytes, int *percent)
{
	const char *text = env_get(name);
	unsigned long number;
	char *end;

	*bytes = 0;
	*percent = 0;
	if (!text || text[strlen(text) - 1] != '%')
		return env_memory_size(name, bytes);
	errno = 0;
	number = strtoul(text, &end, 10);
	if (errno || end[0] != '%' || end[1] || !isdigit((unsigned char)text[0]) || !number || number > 100)
		return error_set(-EINVAL, "%s=%s: expected a number of bytes, or a percentage, 1%% to 100%%", name,
				 text);
	*percent = (int)number;
	return 0;
}

/* Words for what numbers say badly: 0 is the default here as it is in struct vpmm_opts. */
static int env_keep(const char *name, size_t *value)
{
	const char *text = env_get(name);
	uint64_t number;
	int err;

	*value = 0;
	if (!text || !strcmp(text, "all"))
		return 0;
	if (!strcmp(text, "none")) {
		*value = VPMM_KEEP_NONE;
		return 0;
	}
	err = settings_parse_size(name, text, &number);
	if (err)
		return error_set(err, "%s=%s: expected all, none, or a number of bytes, plain or with a suffix K, M, G "
				 "or T", name, text);
	*value = number;
	return 0;
}

static int env_word(const char *name, const struct word *words, int *index)
{
	const char *text = env_get(name);

	*index = 0;
	if (!text)
		return 0;
	*index = word_find(words, text);
	return *index < 0 ? word_error(words, name, text) : 0;
}

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

int settings_from_env(struct vpmm_opts *opts)
{
	struct vpmm_opts found = { .size = opts->size };
	int reuse, small, scrub, log_level, backend;
	int err;

	err = env_memory_size("VPMM_PAGE_SIZE", &found.page_size);
	if (!err)
		err = env_memory_size("VPMM_VA_SIZE", &found.va_size);
	if (!err)
		err = env_count("VPMM_PAGES", &found.pages);
	if (!err)
		err = env_word("VPMM_REUSE", reuse_words, &reuse);
	if (!err)
		err = env_memory_size("VPMM_EXTENT_MAX", &found.extent_max);
	if (!err)
		err = env_percent("VPMM_FRAG_RATIO", 0, 100, &found.frag_ratio);
	if (!err)
		err = env_percent("VPMM_OVERHEAD", 1, OVERHEAD_MOST, &found.overhead);
	if (!err)
		err = env_limit("VPMM_LIMIT", &found.limit, &found.limit_percent);
	if (!err)
		err = env_keep("VPMM_KEEP", &found.keep);
	if (!err)
		err = env_word("VPMM_SMALL", small_words, &small);
	if (!err)
		err = env_word("VPMM_SCRUB", scrub_words, &scrub);
	if (!err)
		err = env_word("VPMM_LOG", log_words, &log_level);
	if (!err)
		err = env_word("VPMM_BACKEND", backend_words, &backend);
	if (err)
		return err;
	found.reuse = reuse_words[reuse].value;
	found.small = small_words[small].value;
	found.scrub = scrub_words[scrub].value;
	found.log_level = log_words[log_level].value;
	found.backend = env_get("VPMM_BACKEND") ? backend_words[backend].name : NULL;
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

int settings_from_opts(struct settings *settings, const struct vpmm_opts *opts)
{
	struct vpmm_opts known = { .size = sizeof(known) };
	int err;

	err = opts ? opts_import(&known, opts) : settings_from_env(&known);
	if (err)
		return err;
	if (known.backend && word_find(backend_words, known.backend) < 0)
		return word_error(backend_words, "vpmm_opts.backend", known.backend);
	if (!word_has_value(reuse_words, known.reuse))
		return error_set(-EINVAL, "vpmm_opts.reuse is %d: expected VPMM_REUSE_ASYNC or VPMM_REUSE_BLOCK",
				 known.reuse);
	if (!word_has_value(small_words, known.small))
		return error_set(-EINVAL, "vpmm_opts.small is %d: expected VPMM_SMALL_POOL or VPMM_SMALL_DRIVER",
				 known.small);
	if (!word_has_value(scrub_words, known.scrub))
		return error_set(-EINVAL, "vpmm_opts.scrub is %d: expected VPMM_SCRUB_NONE, VPMM_SCRUB_STREAM or "
				 "VPMM_SCRUB_ALWAYS", known.scrub);
	if (known.frag_ratio < 0 || known.frag_ratio > 100)
		return error_set(-EINVAL, "vpmm_opts.frag_ratio is %d: expected a percentage, 0 to 100",
				 known.frag_ratio);
	if (known.overhead < 0 || known.overhead > OVERHEAD_MOST)
		return error_set(-EINVAL, "vpmm_opts.overhead is %d: expected a percentage, 1 to %d, or 0",
				 known.overhead, OVERHEAD_MOST);
	if (!word_has_value(log_words, known.log_level))
		return error_set(-EINVAL, "vpmm_opts.log_level is %d: expected VPMM_LOG_NONE to VPMM_LOG_DEBUG",
				 known.log_level);
	if (known.device && *known.device < 0)
		return error_set(-EINVAL, "vpmm_opts.device is %d: expected an ordinal from 0", *known.device);
	if (known.limit_percent < 0 || known.limit_percent > 100)
		return error_set(-EINVAL, "vpmm_opts.limit_percent is %d: expected a percentage, 0 to 100",
				 known.limit_percent);
	settings->limit_percent = known.limit_percent;
	settings->limit = known.limit ? known.limit : UINT64_MAX;
	settings->keep = known.keep ? known.keep : UINT64_MAX;
	settings->pressure = known.pressure;
	settings->exhausted = known.exhausted;
	settings->pressure_data = known.pressure_data;
	settings->backend = known.backend ? known.backend : backend_words[0].name;
	settings->device = known.device;
	settings->page_size = known.page_size;
	settings->va_size = known.va_size;
	settings->pages = known.pages;
	settings->reuse = known.reuse;
	settings->extent_max = known.extent_max;
	settings->small = known.small;
	settings->frag_ratio = (unsigned int)known.frag_ratio;
	settings->overhead = known.overhead ? (unsigned int)known.overhead : DEFAULT_OVERHEAD;
	settings->scrub = known.scrub;
	settings->log_level = known.log_level;
	settings->log = known.log;
	settings->log_data = known.log_data;
	return 0;
}

int settings_fit(struct settings *settings, const struct backend_info *info)
{
	size_t granularity = info->granularity;
	uint64_t limit;

	if (!granularity || granularity > SIZE_MAX / 4)
		return error_set(-EINVAL, "the device's granularity is %zu: no page can be a multiple of it", granularity);
	limit = info->memory_total / 100 * (unsigned int)settings->limit_percent +
		info->memory_total % 100 * (unsigned int)settings->limit_percent / 100;
	if (limit && limit < settings->limit)
		settings->limit = limit;
	settings->most = settings->limit < info->memory_total ? settings->limit : info->memory_total;
	if (!settings->page_size)
		settings->page_size = (DEFAULT_PAGE_SIZE + granularity - 1) / granularity * granularity;
	if (settings->keep < settings->page_size)
		settings->keep = 0;
	if (settings->page_size == SIZE_MAX) {
		if (settings->pages)
			return error_set(-EINVAL, "pages (VPMM_PAGES) is %zu: expected 0 with a page size that leaves all to the driver",
					 settings->pages);
		settings->paged = true;
		settings->cache = false;
		settings->small = VPMM_SMALL_DRIVER;
		settings->extent_max = settings->page_size;
		return 0;
	}
	if (settings->page_size % granularity)
		return error_set(-EINVAL, "page_size (VPMM_PAGE_SIZE) is %zu: expected a multiple of the granularity, "
				 "%zu, or %zu for a pool that leaves all to the driver", settings->page_size,
				 granularity, SIZE_MAX);
	if (settings->page_size > SIZE_MAX / 4)
		return error_set(-EINVAL, "page_size (VPMM_PAGE_SIZE) is %zu: more than a device can address",
				 settings->page_size);
	if (!settings->va_size)
		settings->va_size = (DEFAULT_VA_SIZE + settings->page_size - 1) / settings->page_size *
				    settings->page_size;
	if (settings->va_size % settings->page_size)
		return error_set(-EINVAL, "va_size (VPMM_VA_SIZE) is %zu: expected a multiple of the page size, "
				 "%zu", settings->va_size, settings->page_size);
	if (settings->va_size > SIZE_MAX / 4)
		return error_set(-EINVAL, "va_size (VPMM_VA_SIZE) is %zu: more than a device can address",
				 settings->va_size);
	if (settings->pages > SIZE_MAX / 4 / settings->page_size)
		return error_set(-EINVAL, "pages (VPMM_PAGES) is %zu, of %zu bytes each: more than a device can address",
				 settings->pages, settings->page_size);
	if (!settings->extent_max)
		settings->extent_max = settings->page_size > DEFAULT_EXTENT_MAX ? settings->page_size :
				       DEFAULT_EXTENT_MAX / settings->page_size * settings->page_size;
	if (settings->extent_max % settings->page_size)
		return error_set(-EINVAL, "extent_max (VPMM_EXTENT_MAX) is %zu: expected a multiple of the page size, "
				 "%zu", settings->extent_max, settings->page_size);
	if (settings->extent_max > SIZE_MAX / 4)
		return error_set(-EINVAL, "extent_max (VPMM_EXTENT_MAX) is %zu: more than a device can address",
				 settings->extent_max);
	settings->paged = settings->extent_max == settings->page_size && settings->small == VPMM_SMALL_DRIVER;
	/* What a cache serves is not looked at. */
	settings->cache = !settings->paged && settings->scrub != VPMM_SCRUB_ALWAYS;
	return 0;
}
