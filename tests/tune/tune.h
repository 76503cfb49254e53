/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The measurements of tune, and their results. */
#ifndef TUNE_H
#define TUNE_H

#include <glib.h>

#include "measure.h"
#include "overlap.h"
#include "policy/tuning.h"

enum kind { KIND_TRACE, KIND_SIZES, KIND_LIFETIMES, KIND_FAMILY, KINDS };

struct entry {
	enum kind kind;
	struct trace *trace;
};

/**
 * struct programs - what is measured
 * @entries: of struct entry
 * @overlaps: of struct overlap
 */
struct programs {
	GArray *entries;
	GPtrArray *overlaps;
};

/**
 * struct results - what the programs took
 * @off: the number whose rule was off, or NULL
 * @entries: of each entry
 * @overlaps: of each program whose streams overlap
 */
struct results {
	const struct tuning_number *off;
	struct measured *entries;
	struct overlap_measured *overlaps;
};

/* Memory taken over what was live at the most. */
static inline double measured_ratio(const struct measured *result)
{
	return (double)result->taken / (double)result->live;
}

#endif /* TUNE_H */
