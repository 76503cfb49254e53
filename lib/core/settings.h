/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The settings of a pool: from options, from the environment, and what is right for a device. */
#ifndef SETTINGS_H
#define SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "vpmm.h"

struct backend_info;

struct settings {
	const char *backend;		/* "cuda", "host" or "auto" */
	const int *device;		/* NULL: the current one */
	size_t page_size;
	size_t va_size;
	size_t pages;
	enum vpmm_reuse reuse;
	size_t extent_max;
	enum vpmm_small small;
	unsigned int frag_ratio;	/* percent */
	unsigned int overhead;		/* percent */
	enum vpmm_scrub scrub;
	bool paged;			/* extents are pages, and the specification is followed to the byte */
	enum vpmm_log_level log_level;
	vpmm_log_fn log;
	void *log_data;
	bool cache;			/* streams keep what they free, see cache.h */
	int limit_percent;		/* of the device's memory; 0: no such limit */
	uint64_t limit;			/* UINT64_MAX: none */
	uint64_t most;			/* no larger request can be served, whatever is given back */
	uint64_t keep;			/* UINT64_MAX: everything */
	vpmm_pressure_fn pressure;
	vpmm_exhausted_fn exhausted;
	void *pressure_data;
};

/**
 * settings_from_env() - read the environment into options
 * @opts: receives them, with its size already set
 *
 * Return: 0, or -EINVAL for a bad value; nothing is written then.
 */
int settings_from_env(struct vpmm_opts *opts);

/**
 * settings_from_opts() - take over what can be judged without a device
 * @settings: receives them; sizes that have a default of the device are left 0
 * @opts: the options; NULL: what the environment says
 *
 * Return: 0, -EINVAL or -E2BIG.
 */
int settings_from_opts(struct settings *settings, const struct vpmm_opts *opts);

/**
 * settings_fit() - complete the sizes, and judge them by the device
 * @settings: the settings
 * @info: the device
 *
 * Return: 0, or -EINVAL for a size that the device cannot have.
 */
int settings_fit(struct settings *settings, const struct backend_info *info);

/**
 * settings_tell() - fill in what struct vpmm_info has of the settings
 * @settings: of a pool, after settings_fit()
 * @info: receives them; the rest stays
 */
void settings_tell(const struct settings *settings, struct vpmm_info *info);

#endif /* SETTINGS_H */
