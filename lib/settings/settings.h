/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The settings of a pool: parsed, validated, and completed for a device. */
#ifndef SETTINGS_H
#define SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "vpmm.h"

struct backend_info;

struct settings {
	bool cache;			/* streams have caches, see cache.h */
	bool paged;			/* extents are pages: the paged policy */
	enum vpmm_small small;
	size_t page_size;
	const char *backend;		/* "cuda", "host" or "auto" */
	const int *device;		/* NULL: the current one */
	size_t va_size;
	bool va_shared;			/* it is the default: the most of a share */
	size_t pages;
	enum vpmm_reuse reuse;
	size_t extent_max;
	unsigned int frag_ratio;	/* percent */
	unsigned int overhead;		/* percent */
	int overlap;			/* percent, 0 for none, or VPMM_OVERLAP_AUTO */
	enum vpmm_scrub scrub;
	enum vpmm_export export_as;
	enum vpmm_rdma rdma;
	uint64_t peers;			/* as bits by ordinal; once the pool exists, those in force */
	enum vpmm_log_level log_level;
	vpmm_log_fn log;
	void *log_data;
	int limit_percent;		/* of the device's memory; 0: no such limit */
	uint64_t limit;			/* UINT64_MAX: none */
	uint64_t most;			/* bytes of the largest request that could ever be served */
	uint64_t keep;			/* UINT64_MAX: everything */
	vpmm_pressure_fn pressure;
	vpmm_exhausted_fn exhausted;
	void *pressure_data;
	const char *budget;		/* NAME[:SIZE], once the pool exists with the size; NULL: none */
	size_t budget_floor;
	int budget_weight;
	int budget_wait;		/* milliseconds */
	int budget_thread;		/* of enum vpmm_budget_thread */
	const char *trace;		/* once the pool exists, the name of the file; NULL: none */
	size_t stacks;			/* bytes; 0: none are sampled */
	const char *oom_dump;		/* the same */
	enum vpmm_top top;
	const char *plan;		/* once the pool exists, the name of its file; NULL: none */
};

/**
 * settings_from_env() - read the environment into options
 * @opts: receives them, with its size already set
 *
 * Return: 0, or -EINVAL for a bad value; nothing is written then.
 */
int settings_from_env(struct vpmm_opts *opts);

/**
 * settings_check_touch() - check VPMM_SHARED_TOUCH
 *
 * Return: 0, or -EINVAL for a bad value.
 */
int settings_check_touch(void);

/**
 * settings_from_opts() - validate options as far as no device is needed
 * @settings: receives them; sizes whose default depends on the device are left 0
 * @opts: the options; NULL: take those of the environment
 *
 * Return: 0, -EINVAL or -E2BIG.
 */
int settings_from_opts(struct settings *settings, const struct vpmm_opts *opts);

/**
 * settings_fit() - complete the sizes, and validate them for a device
 * @settings: the settings
 * @info: the device
 *
 * Return: 0, or -EINVAL for a size that is invalid for the device.
 */
int settings_fit(struct settings *settings, const struct backend_info *info);

/**
 * settings_tell() - fill in the settings in struct vpmm_info
 * @settings: of a pool, after settings_fit()
 * @info: receives them; its other fields stay
 */
void settings_tell(const struct settings *settings, struct vpmm_info *info);

/**
 * settings_set_limit() - set the limit
 * @settings: the settings
 * @limit: bytes; UINT64_MAX: none
 * @total: bytes of the device
 */
void settings_set_limit(struct settings *settings, uint64_t limit, uint64_t total);

#endif /* SETTINGS_H */
