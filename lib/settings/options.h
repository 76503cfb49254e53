/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The options of a pool in one table, which the environment, struct vpmm_opts, struct vpmm_info and the tools go by.
 * The table needs nothing else of the library: the tools are built with it, and with the names of other variables.
 *
 * To add an option, append a field to struct vpmm_opts, to struct settings and, unless it is a callback, to struct
 * vpmm_info; add a row here; and describe it in vpmm(7), vpmm_pool_create(3), vpmm_pool_info(3) and
 * vpmm_opts_from_env(3). The tests tell what is missing.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vpmm.h"

/* The rows, in the order in which vpmm-info shows them. */
enum option_id {
	OPTION_BACKEND,
	OPTION_PAGE_SIZE,
	OPTION_VA_SIZE,
	OPTION_PAGES,
	OPTION_REUSE,
	OPTION_EXTENT_MAX,
	OPTION_SMALL,
	OPTION_FRAG_RATIO,
	OPTION_OVERHEAD,
	OPTION_OVERLAP,
	OPTION_LIMIT,
	OPTION_KEEP,
	OPTION_SCRUB,
	OPTION_EXPORT,
	OPTION_RDMA,
	OPTION_PEERS,
	OPTION_LOG,
	OPTION_TRACE,
	OPTION_STACKS,
	OPTION_OOM_DUMP,
	OPTION_BUDGET,
	OPTION_BUDGET_FLOOR,
	OPTION_BUDGET_WEIGHT,
	OPTION_BUDGET_WAIT,
	OPTION_BUDGET_THREAD,
	OPTION_TOP,
	OPTION_PLAN,
	/* Without a variable: callbacks, and options that share another option's variable. */
	OPTION_DEVICE,
	OPTION_LIMIT_PERCENT,
	OPTION_LOG_FN,
	OPTION_LOG_DATA,
	OPTION_PRESSURE,
	OPTION_EXHAUSTED,
	OPTION_PRESSURE_DATA,
	/* Not of a pool: variables that the host backend reads when its first device is opened. */
	OPTION_HOST_CAPACITY,
	OPTION_HOST_DEVICES,
	OPTION_HOST_KERNELS,
	OPTION_HOST_MAPPINGS,
	OPTIONS
};

/*
 * What a field of struct vpmm_opts holds, how a variable says it, and which values are good. A variable can have the
 * words of @unlimited and @nothing too, whatever the type; so it can have each value that vpmm-info prints.
 */
enum option_type {
	OPTION_IS_BYTES,	/* size_t: plain or with a suffix; 0 only with @nothing */
	OPTION_IS_COUNT,	/* size_t: plain */
	OPTION_IS_PERCENT,	/* int: from @least to @most */
	OPTION_IS_WHOLE,	/* int: the same, but no percentage */
	OPTION_IS_WORD,		/* int: the value of one of @words */
	OPTION_IS_NAME,		/* const char *: one of @words */
	OPTION_IS_LIMIT,	/* size_t: as bytes; or a percentage, which goes to OPTION_LIMIT_PERCENT */
	OPTION_IS_DEVICES,	/* uint64_t: bits by ordinal, as a list */
	OPTION_IS_FILE,		/* const char *: the name of one */
	OPTION_IS_BUDGET,	/* const char *: NAME[:SIZE] */
	OPTION_IS_ORDINAL,	/* const int *: from 0 */
	OPTION_IS_POINTER,	/* anything */
	OPTION_IS_HOST,		/* of no field */
};

/**
 * struct option_word - a word that an option can be
 * @name: in the environment
 * @constant: in C; NULL where the field is the word itself
 * @value: of that constant
 */
struct option_word {
	const char *name;
	const char *constant;
	int value;
};

/**
 * struct option - a row of the table
 * @variable: of the environment; NULL: none
 * @field: of struct vpmm_opts; NULL: none
 * @type: of the value
 * @words: that it can be, and an empty one at the end; the first is the default
 * @least: percent
 * @most: percent
 * @fallback: what 0 stands for
 * @of_device: @fallback is rounded to what the device can have, so it takes effect in settings_fit()
 * @opts: where the field is in struct vpmm_opts
 * @settings: where it is in struct settings
 * @info: where it is in struct vpmm_info; 0: nowhere
 * @size: bytes of the field in struct vpmm_opts and struct settings; 0: it is in neither
 * @in_bytes: the number in struct vpmm_info is one of bytes
 * @unlimited: the word for UINT64_MAX in struct vpmm_info, or for -1 of a percentage; NULL: it has no such value
 * @nothing: the word for 0 there; NULL: none
 * @unlimited_opts: what @unlimited is in struct vpmm_opts
 * @nothing_opts: what @nothing, or a number of 0, is there: 0 is the default in that structure
 */
struct option {
	const char *variable;
	const char *field;
	enum option_type type;
	const struct option_word *words;
	int least;
	int most;
	uint64_t fallback;
	bool of_device;
	size_t opts;
	size_t settings;
	size_t info;
	size_t size;
	bool in_bytes;
	const char *unlimited;
	const char *nothing;
	uint64_t unlimited_opts;
	uint64_t nothing_opts;
};

extern const struct option pool_options[OPTIONS];

#define for_each_option(option) \
	for (const struct option *option = pool_options; option < pool_options + OPTIONS; option++)

/**
 * variables_is_known() - whether the library reads a variable
 * @name: of the variable
 */
bool variables_is_known(const char *name);

/**
 * variables_nearest() - the known variable with the name most like another
 * @name: of a variable
 *
 * Return: the known name at the smallest edit distance.
 */
const char *variables_nearest(const char *name);

/* How many known variables are no options of a pool. */
#define VARIABLES_OTHER 9

/**
 * variables_each_other() - find the variables that are no options of a pool
 * @fn: called for each, with its value; NULL: it is unset
 * @data: passed to @fn
 *
 * Context: no other thread may change the environment.
 */
void variables_each_other(void (*fn)(void *data, const char *name, const char *value), void *data);

/**
 * variables_each_unknown() - find variables that look like the library's and are unknown
 * @fn: called for each variable whose name begins with VPMM_, but not with VPMM_TEST_, and is unknown
 * @data: passed to @fn
 *
 * Context: no other thread may change the environment.
 */
void variables_each_unknown(void (*fn)(void *data, const char *name), void *data);

#endif /* OPTIONS_H */
