// SPDX-License-Identifier: LGPL-2.1-or-later
/* The options of a pool: names, types, ranges and defaults. And the known variable nearest to an unknown name. */
#include <glib.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "settings/options.h"
#include "settings/settings.h"

/* Sizes are device addresses and address space; CUDA has no 32-bit hosts. */
_Static_assert(sizeof(size_t) == sizeof(uint64_t), "libvpmm needs a machine of 64 bits");

#define WORD(word, value) { (word), #value, (value) }

static const struct option_word reuse_words[] = {
	WORD("async", VPMM_REUSE_ASYNC),
	WORD("block", VPMM_REUSE_BLOCK),
	{ NULL, NULL, 0 }
};

static const struct option_word small_words[] = {
	WORD("pool", VPMM_SMALL_POOL),
	WORD("driver", VPMM_SMALL_DRIVER),
	{ NULL, NULL, 0 }
};

static const struct option_word scrub_words[] = {
	WORD("none", VPMM_SCRUB_NONE),
	WORD("stream", VPMM_SCRUB_STREAM),
	WORD("always", VPMM_SCRUB_ALWAYS),
	{ NULL, NULL, 0 }
};

static const struct option_word export_words[] = {
	WORD("none", VPMM_EXPORT_NONE),
	WORD("fd", VPMM_EXPORT_FD),
	WORD("fabric", VPMM_EXPORT_FABRIC),
	WORD("auto", VPMM_EXPORT_AUTO),
	{ NULL, NULL, 0 }
};

/* A switch takes each of these words. */
#define SWITCH(name) \
	WORD("off", VPMM_##name##_OFF), \
	WORD("on", VPMM_##name##_ON), \
	WORD("none", VPMM_##name##_OFF), \
	WORD("0", VPMM_##name##_OFF), \
	WORD("1", VPMM_##name##_ON), \
	{ NULL, NULL, 0 }

static const struct option_word rdma_words[] = { SWITCH(RDMA) };
static const struct option_word budget_thread_words[] = { SWITCH(BUDGET_THREAD) };
static const struct option_word top_words[] = { SWITCH(TOP) };

static const struct option_word log_words[] = {
	WORD("none", VPMM_LOG_NONE),
	WORD("error", VPMM_LOG_ERROR),
	WORD("warning", VPMM_LOG_WARNING),
	WORD("info", VPMM_LOG_INFO),
	WORD("debug", VPMM_LOG_DEBUG),
	{ NULL, NULL, 0 }
};

static const struct option_word backend_words[] = {
	{ "cuda", NULL, 0 },
	{ "host", NULL, 0 },
	{ "auto", NULL, 0 },
	{ NULL, NULL, 0 }
};

#define SIZE_OF(type, member) sizeof(((struct type *)NULL)->member)

/* The size of the member @a of one structure, which does not compile unless @b of another is as large. */
#define SAME_SIZE(type_a, a, type_b, b) \
	(SIZE_OF(type_a, a) + 0 * sizeof(struct { \
		_Static_assert(SIZE_OF(type_a, a) == SIZE_OF(type_b, b), #a " and " #b " differ in size"); \
		char unused; \
	}))

/* The offsets of a field in struct vpmm_opts and in struct settings. */
#define FIELD(name) \
	.field = #name, .opts = offsetof(struct vpmm_opts, name), .settings = offsetof(struct settings, name), \
	.size = SAME_SIZE(vpmm_opts, name, settings, name)

/* The same for a field that struct vpmm_info has too. */
#define NUMBER(name) \
	FIELD(name), .info = offsetof(struct vpmm_info, name) + 0 * SAME_SIZE(vpmm_opts, name, vpmm_info, name)

const struct option pool_options[OPTIONS] = {
	[OPTION_BACKEND] = {
		"VPMM_BACKEND", FIELD(backend), .type = OPTION_IS_NAME, .words = backend_words,
	},
	[OPTION_PAGE_SIZE] = {
		"VPMM_PAGE_SIZE", NUMBER(page_size), .type = OPTION_IS_BYTES, .in_bytes = true,
		.fallback = UINT64_C(2) << 20, .of_device = true,
	},
	[OPTION_VA_SIZE] = {
		"VPMM_VA_SIZE", NUMBER(va_size), .type = OPTION_IS_BYTES, .in_bytes = true,
		.fallback = UINT64_C(8) << 40, .of_device = true,
	},
	[OPTION_PAGES] = {
		"VPMM_PAGES", NUMBER(pages), .type = OPTION_IS_COUNT,
	},
	[OPTION_REUSE] = {
		"VPMM_REUSE", NUMBER(reuse), .type = OPTION_IS_WORD, .words = reuse_words,
	},
	[OPTION_EXTENT_MAX] = {
		"VPMM_EXTENT_MAX", NUMBER(extent_max), .type = OPTION_IS_BYTES, .in_bytes = true,
		.fallback = UINT64_C(1) << 30, .of_device = true,
	},
	[OPTION_SMALL] = {
		"VPMM_SMALL", NUMBER(small), .type = OPTION_IS_WORD, .words = small_words,
	},
	[OPTION_FRAG_RATIO] = {
		"VPMM_FRAG_RATIO", NUMBER(frag_ratio), .type = OPTION_IS_PERCENT, .most = 100,
	},
	/* Above this there is little left to save. */
	[OPTION_OVERHEAD] = {
		"VPMM_OVERHEAD", NUMBER(overhead), .type = OPTION_IS_PERCENT, .least = 1, .most = 25, .fallback = 1,
	},
	[OPTION_OVERLAP] = {
		"VPMM_OVERLAP", NUMBER(overlap), .type = OPTION_IS_PERCENT, .most = 1000,
		.fallback = (uint64_t)VPMM_OVERLAP_AUTO, .unlimited = "auto", .nothing = "none",
		.unlimited_opts = (uint64_t)VPMM_OVERLAP_AUTO, .nothing_opts = (uint64_t)VPMM_OVERLAP_NONE,
	},
	[OPTION_LIMIT] = {
		"VPMM_LIMIT", NUMBER(limit), .type = OPTION_IS_LIMIT, .in_bytes = true,
		.fallback = UINT64_MAX, .unlimited = "none",
	},
	[OPTION_KEEP] = {
		"VPMM_KEEP", NUMBER(keep), .type = OPTION_IS_BYTES, .in_bytes = true,
		.fallback = UINT64_MAX, .unlimited = "all", .nothing = "none", .nothing_opts = VPMM_KEEP_NONE,
	},
	[OPTION_SCRUB] = {
		"VPMM_SCRUB", NUMBER(scrub), .type = OPTION_IS_WORD, .words = scrub_words,
	},
	[OPTION_EXPORT] = {
		"VPMM_EXPORT", NUMBER(export_as), .type = OPTION_IS_WORD, .words = export_words,
	},
	[OPTION_RDMA] = {
		"VPMM_RDMA", NUMBER(rdma), .type = OPTION_IS_WORD, .words = rdma_words,
	},
	[OPTION_PEERS] = {
		"VPMM_PEERS", NUMBER(peers), .type = OPTION_IS_DEVICES, .unlimited = "all", .nothing = "none",
		.unlimited_opts = VPMM_PEERS_ALL,
	},
	[OPTION_LOG] = {
		"VPMM_LOG", NUMBER(log_level), .type = OPTION_IS_WORD, .words = log_words,
	},
	[OPTION_TRACE] = {
		"VPMM_TRACE", NUMBER(trace), .type = OPTION_IS_FILE, .nothing = "none",
	},
	[OPTION_STACKS] = {
		"VPMM_STACKS", NUMBER(stacks), .type = OPTION_IS_BYTES, .in_bytes = true, .nothing = "none",
	},
	[OPTION_OOM_DUMP] = {
		"VPMM_OOM_DUMP", NUMBER(oom_dump), .type = OPTION_IS_FILE, .nothing = "none",
	},
	[OPTION_BUDGET] = {
		"VPMM_BUDGET", NUMBER(budget), .type = OPTION_IS_BUDGET, .nothing = "none",
	},
	[OPTION_BUDGET_FLOOR] = {
		"VPMM_BUDGET_FLOOR", NUMBER(budget_floor), .type = OPTION_IS_BYTES, .in_bytes = true, .nothing = "none",
	},
	[OPTION_BUDGET_WEIGHT] = {
		"VPMM_BUDGET_WEIGHT", NUMBER(budget_weight), .type = OPTION_IS_WHOLE, .least = 1, .most = 1000,
		.fallback = 1,
	},
	[OPTION_BUDGET_WAIT] = {
		"VPMM_BUDGET_WAIT", NUMBER(budget_wait), .type = OPTION_IS_WHOLE, .most = 60000, .fallback = 100,
		.nothing = "none", .nothing_opts = (uint64_t)VPMM_BUDGET_WAIT_NONE,
	},
	[OPTION_BUDGET_THREAD] = {
		"VPMM_BUDGET_THREAD", NUMBER(budget_thread), .type = OPTION_IS_WORD, .words = budget_thread_words,
	},
	[OPTION_TOP] = {
		"VPMM_TOP", NUMBER(top), .type = OPTION_IS_WORD, .words = top_words,
	},
	[OPTION_PLAN] = {
		"VPMM_PLAN", NUMBER(plan), .type = OPTION_IS_FILE, .nothing = "none",
	},
	[OPTION_DEVICE] = { NULL, FIELD(device), .type = OPTION_IS_ORDINAL },
	[OPTION_LIMIT_PERCENT] = { NULL, FIELD(limit_percent), .type = OPTION_IS_PERCENT, .most = 100 },
	[OPTION_LOG_FN] = { NULL, FIELD(log), .type = OPTION_IS_POINTER },
	[OPTION_LOG_DATA] = { NULL, FIELD(log_data), .type = OPTION_IS_POINTER },
	[OPTION_PRESSURE] = { NULL, FIELD(pressure), .type = OPTION_IS_POINTER },
	[OPTION_EXHAUSTED] = { NULL, FIELD(exhausted), .type = OPTION_IS_POINTER },
	[OPTION_PRESSURE_DATA] = { NULL, FIELD(pressure_data), .type = OPTION_IS_POINTER },
	[OPTION_HOST_CAPACITY] = {
		"VPMM_HOST_CAPACITY", .type = OPTION_IS_HOST, .in_bytes = true,
		.info = offsetof(struct vpmm_info, memory_total),
	},
	[OPTION_HOST_DEVICES] = { "VPMM_HOST_DEVICES", .type = OPTION_IS_HOST },
	[OPTION_HOST_KERNELS] = { "VPMM_HOST_KERNELS", .type = OPTION_IS_HOST },
	[OPTION_HOST_MAPPINGS] = {
		"VPMM_HOST_MAPPINGS", .type = OPTION_IS_HOST, .info = offsetof(struct vpmm_info, mapping_limit),
	},
};

/* A name longer than this is no misspelling of a known one. */
#define LONGEST 64

/* Those of shared ranges, of tags, of pausing, of PyTorch's plug-in and of vLLM's, which are no options of a pool. */
static const char *const others[VARIABLES_OTHER] = {
	"VPMM_HOST_KEEP", "VPMM_PAUSABLE", "VPMM_PAUSE_HOST", "VPMM_PAUSE_POISON", "VPMM_SHARED_TOUCH", "VPMM_TAG",
	"VPMM_TORCH_BUILD", "VPMM_TORCH_CLASS", "VPMM_VLLM"
};

/* Levenshtein's distance, one row of the table at a time. */
static size_t distance(const char *a, const char *b)
{
	size_t row[LONGEST + 1], length = MIN(strlen(b), LONGEST);

	for (size_t j = 0; j <= length; j++)
		row[j] = j;
	for (size_t i = 0; a[i]; i++) {
		size_t diagonal = row[0];

		row[0] = i + 1;
		for (size_t j = 0; j < length; j++) {
			size_t replaced = diagonal + (a[i] != b[j]);

			diagonal = row[j + 1];
			row[j + 1] = MIN(replaced, MIN(row[j], row[j + 1]) + 1);
		}
	}
	return row[length];
}

static void keep_nearer(const char *variable, const char *name, size_t *least, const char **nearest)
{
	size_t changes = distance(variable, name);

	if (changes < *least) {
		*least = changes;
		*nearest = variable;
	}
}

const char *variables_nearest(const char *name)
{
	const char *nearest = NULL;
	size_t least = SIZE_MAX;

	for_each_option(option) {
		if (option->variable)
			keep_nearer(option->variable, name, &least, &nearest);
	}
	for (size_t i = 0; i < G_N_ELEMENTS(others); i++)
		keep_nearer(others[i], name, &least, &nearest);
	return nearest;
}

bool variables_is_known(const char *name)
{
	for_each_option(option) {
		if (!g_strcmp0(option->variable, name))
			return true;
	}
	for (size_t i = 0; i < G_N_ELEMENTS(others); i++) {
		if (!strcmp(others[i], name))
			return true;
	}
	return false;
}

void variables_each_other(void (*fn)(void *data, const char *name, const char *value), void *data)
{
	for (size_t i = 0; i < G_N_ELEMENTS(others); i++)
		fn(data, others[i], g_getenv(others[i]));
}

static bool is_unknown(const char *name)
{
	return g_str_has_prefix(name, "VPMM_") && !g_str_has_prefix(name, "VPMM_TEST_") &&
	       !g_str_has_prefix(name, "VPMM_PRELOAD") && !variables_is_known(name);
}

void variables_each_unknown(void (*fn)(void *data, const char *name), void *data)
{
	char **names = g_listenv();

	for (char **name = names; *name; name++) {
		if (is_unknown(*name))
			fn(data, *name);
	}
	g_strfreev(names);
}
