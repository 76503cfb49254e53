// SPDX-License-Identifier: LGPL-2.1-or-later
/* A table of what each rule of the policy gives. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "rules.h"

/*
 * The mean ratio of taken to live memory, and the milliseconds of driver calls in the first and second pass, of the
 * programs of each kind; then what programs whose streams overlap took, those of a known kind and those that are drawn.
 */
enum column { MEMORY, FIRST, SECOND, KIND_COLUMNS };

#define OVERLAP_COLUMNS 7
#define COLUMNS (KINDS * KIND_COLUMNS + OVERLAP_COLUMNS)

struct row {
	double columns[COLUMNS];
};

static const char *const headings[COLUMNS] = {
	"recorded", "ms", "pass 2", "sizes", "ms", "pass 2", "lifetime", "ms", "pass 2", "families", "ms", "pass 2",
	"first", "time", "worst", "memory", "calls", "drawn", "memory",
};

static void fill_kind(enum kind kind, const struct programs *programs, const struct results *results, double *columns)
{
	guint n = 0;

	for (guint i = 0; i < programs->entries->len; i++) {
		if (g_array_index(programs->entries, struct entry, i).kind != kind)
			continue;
		columns[MEMORY] += measured_ratio(&results->entries[i]);
		columns[FIRST] += results->entries[i].first;
		columns[SECOND] += results->entries[i].second;
		n++;
	}
	columns[MEMORY] /= MAX(n, 1);
}

static struct row make_row(const struct programs *programs, const struct results *results)
{
	struct overlap_means known = overlap_means(programs->overlaps, results->overlaps, false);
	struct overlap_means drawn = overlap_means(programs->overlaps, results->overlaps, true);
	struct row row = { { 0 } };
	double *overlap = &row.columns[KINDS * KIND_COLUMNS];

	for (enum kind kind = 0; kind < KINDS; kind++)
		fill_kind(kind, programs, results, &row.columns[kind * KIND_COLUMNS]);
	overlap[0] = known.first;
	overlap[1] = known.time;
	overlap[2] = known.worst;
	overlap[3] = known.memory;
	overlap[4] = known.calls;
	overlap[5] = drawn.time;
	overlap[6] = drawn.memory;
	return row;
}

/* Percent. A few milliseconds come and go by chance, and the driver calls of a settled program are next to none. */
static double difference(const struct row *a, const struct row *b)
{
	double most = 0;

	for (int i = 0; i < COLUMNS; i++) {
		double least = i < KINDS * KIND_COLUMNS && i % KIND_COLUMNS != MEMORY ? 10 : 0.1;

		most = MAX(most, fabs(a->columns[i] - b->columns[i]) / MAX(a->columns[i], least) * 100);
	}
	return most;
}

static void print_name(const struct results *results)
{
	const struct tuning_number *off = results->off;

	if (off)
		printf("%-16s %8" PRId64 " %8.2g", off->name, *off->value, (double)off->off);
	else
		printf("%-16s %8s %8s", "all rules", "", "");
}

static void print_column(double value, bool known)
{
	if (known)
		printf(value < 100 ? " %8.4f" : " %8.0f", value);
	else
		printf(" %8s", "-");
}

void rules_print(const struct programs *programs, const GArray *results)
{
	struct row all = make_row(programs, &g_array_index(results, struct results, 0));

	printf("\n%-16s %8s %8s", "rule", "value", "off");
	for (int i = 0; i < COLUMNS; i++)
		printf(" %8s", all.columns[i] > 0 ? headings[i] : "-");
	printf(" %8s\n", "differs");
	for (guint i = 0; i < results->len; i++) {
		struct row row = make_row(programs, &g_array_index(results, struct results, i));

		print_name(&g_array_index(results, struct results, i));
		for (int j = 0; j < COLUMNS; j++)
			print_column(row.columns[j], all.columns[j] > 0);
		printf(" %8.1f\n", difference(&all, &row));
	}
}
