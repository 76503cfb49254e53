// SPDX-License-Identifier: LGPL-2.1-or-later
/* Completes settings for a device: defaults that depend on it, and limits that it has. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backend/backend.h"
#include "settings/options.h"
#include "settings/settings.h"
#include "util/error.h"

/* No size or count of bytes may exceed it, so that sums of them do not overflow. */
#define BYTES_MOST (SIZE_MAX / 4)

static int refuse(enum option_id id, size_t value, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Reports an invalid value. The user may have set either the field or the variable. */
static int refuse(enum option_id id, size_t value, const char *format, ...)
{
	char what[256];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	return error_set(-EINVAL, "%s (%s) is %zu%s", pool_options[id].field, pool_options[id].variable, value, what);
}

/* Checks that a size is a number of pages. */
static int check_pages(enum option_id id, size_t size, size_t page_size)
{
	if (size % page_size)
		return refuse(id, size, ": expected a multiple of the page size, %zu", page_size);
	if (size > BYTES_MOST)
		return refuse(id, size, ": more than a device can address");
	return 0;
}

static uint64_t round_up(uint64_t size, size_t unit)
{
	return (size + unit - 1) / unit * unit;
}

/* No request can be larger than the device. */
void settings_set_limit(struct settings *settings, uint64_t limit, uint64_t total)
{
	settings->limit = limit;
	settings->most = limit < total ? limit : total;
}

/* The smaller limit counts. */
static void fit_limit(struct settings *settings, uint64_t total)
{
	unsigned int percent = (unsigned int)settings->limit_percent;
	uint64_t part = total / 100 * percent + total % 100 * percent / 100;

	settings_set_limit(settings, part && part < settings->limit ? part : settings->limit, total);
}

static int fit_driver(struct settings *settings)
{
	if (settings->pages)
		return refuse(OPTION_PAGES, settings->pages,
			      ": expected 0 with a page size that leaves all to the driver");
	settings->paged = true;
	settings->cache = false;
	settings->small = VPMM_SMALL_DRIVER;
	settings->extent_max = settings->page_size;
	return 0;
}

static int fit_page_size(const struct settings *settings, size_t granularity)
{
	if (settings->page_size % granularity)
		return refuse(OPTION_PAGE_SIZE, settings->page_size,
			      ": expected a multiple of the granularity, %zu, or %zu "
			      "for a pool that leaves all to the driver", granularity, SIZE_MAX);
	if (settings->page_size > BYTES_MOST)
		return refuse(OPTION_PAGE_SIZE, settings->page_size, ": more than a device can address");
	return 0;
}

static int fit_sizes(struct settings *settings, const struct backend_info *info)
{
	size_t page_size = settings->page_size;
	uint64_t extent_max = pool_options[OPTION_EXTENT_MAX].fallback, space = pool_options[OPTION_VA_SIZE].fallback;
	int err;

	settings->va_shared = !settings->va_size;
	if (info->space && info->space < space)
		space = info->space;
	if (settings->va_shared)
		settings->va_size = round_up(space, page_size);
	err = check_pages(OPTION_VA_SIZE, settings->va_size, page_size);
	if (err)
		return err;
	if (settings->pages > BYTES_MOST / page_size)
		return refuse(OPTION_PAGES, settings->pages, ", of %zu bytes each: more than a device can address",
			      page_size);
	if (!settings->extent_max)
		settings->extent_max = page_size > extent_max ? page_size : extent_max / page_size * page_size;
	return check_pages(OPTION_EXTENT_MAX, settings->extent_max, page_size);
}

int settings_fit(struct settings *settings, const struct backend_info *info)
{
	size_t granularity = info->granularity;
	int err;

	if (!granularity || granularity > BYTES_MOST)
		return error_set(-EINVAL, "the device's granularity is %zu: no page can be a multiple of it",
				 granularity);
	fit_limit(settings, info->memory_total);
	if (info->mapless) {
		settings->page_size = SIZE_MAX;
		settings->pages = 0;
	}
	if (!settings->page_size)
		settings->page_size = round_up(pool_options[OPTION_PAGE_SIZE].fallback, granularity);
	if (settings->keep < settings->page_size)
		settings->keep = 0;
	if (settings->overlap == VPMM_OVERLAP_NONE)
		settings->overlap = 0;
	if (settings->budget_wait == VPMM_BUDGET_WAIT_NONE)
		settings->budget_wait = 0;
	if (settings->page_size == SIZE_MAX)
		return fit_driver(settings);
	err = fit_page_size(settings, granularity);
	if (!err)
		err = fit_sizes(settings, info);
	if (err)
		return err;
	settings->paged = settings->extent_max == settings->page_size && settings->small == VPMM_SMALL_DRIVER;
	/* Blocks that a cache serves are never cleared, so VPMM_SCRUB=always excludes caches. */
	settings->cache = !settings->paged && settings->scrub != VPMM_SCRUB_ALWAYS;
	return 0;
}

void settings_tell(const struct settings *settings, struct vpmm_info *info)
{
	for_each_option(option) {
		if (option->size && option->info)
			memcpy((char *)info + option->info, (const char *)settings + option->settings, option->size);
	}
}
