// SPDX-License-Identifier: LGPL-2.1-or-later
/* The tables of programs whose streams overlap. */
#include <glib.h>
#include <stdio.h>
#include <string.h>

#include "overlap.h"

enum figure { COLD, WARM, WORST, TAKEN, LEAST, CALLS, FIGURES };

static double slower(const struct overlap_measured *result, int pass)
{
	return (double)result->ns[pass] / (double)result->ideal[pass];
}

static double warm_mean(const struct overlap_measured *result)
{
	double sum = 0;

	for (int pass = OVERLAP_WARM; pass < OVERLAP_PASSES; pass++)
		sum += slower(result, pass);
	return sum / (OVERLAP_PASSES - OVERLAP_WARM);
}

static double warm_worst(const struct overlap_measured *result)
{
	double worst = 0;

	for (int pass = OVERLAP_WARM; pass < OVERLAP_PASSES; pass++)
		worst = MAX(worst, slower(result, pass));
	return worst;
}

static double figure(const struct overlap_measured *result, enum figure which)
{
	switch (which) {
	case COLD:
		return slower(result, 0);
	case WARM:
		return warm_mean(result);
	case WORST:
		return warm_worst(result);
	case TAKEN:
		return (double)result->taken / (double)result->live;
	case CALLS:
		return result->calls * 1e6 / (double)result->ideal[OVERLAP_PASSES - 1];
	default:
		return (double)result->least / (double)result->live;
	}
}

void overlap_print_each(const GPtrArray *programs, const struct overlap_measured *results)
{
	printf("%-30s %8s %8s %8s %8s %8s %8s %9s %9s\n", "streams that overlap", "time", "slowest", "first", "taken",
	       "least", "calls", "live MB", "ideal ms");
	for (guint i = 0; i < programs->len; i++) {
		const struct overlap *p = programs->pdata[i];

		printf("%-30s %8.4f %8.4f %8.4f %8.4f %8.4f %8.4f %9.1f %9.1f%s\n", p->name, figure(&results[i], WARM),
		       figure(&results[i], WORST), figure(&results[i], COLD), figure(&results[i], TAKEN), figure(&results[i], LEAST),
		       figure(&results[i], CALLS),
		       (double)results[i].live / 1e6, (double)results[i].ideal[0] / 1e6, results[i].failed ? "  FAILED" : "");
	}
}

static void print_row(const char *name, const struct overlap_measured *results, guint from, guint to)
{
	double sum[FIGURES] = { 0 }, worst[FIGURES] = { 0 };
	guint n = to - from;

	for (guint i = from; i < to; i++) {
		for (enum figure f = 0; f < FIGURES; f++) {
			sum[f] += figure(&results[i], f);
			worst[f] = MAX(worst[f], figure(&results[i], f));
		}
	}
	printf("%-30s %4u", name, n);
	for (enum figure f = 0; f < FIGURES; f++)
		printf("  %7.4f %7.4f", sum[f] / n, worst[f]);
	printf("\n");
}

struct overlap_means overlap_means(const GPtrArray *programs, const struct overlap_measured *results, bool drawn)
{
	struct overlap_means means = { 0 };
	guint n = 0;

	for (guint i = 0; i < programs->len; i++) {
		const struct overlap *p = programs->pdata[i];

		if (g_str_has_prefix(p->family, "drawn") != drawn)
			continue;
		means.first += figure(&results[i], COLD);
		means.time += figure(&results[i], WARM);
		means.worst = MAX(means.worst, figure(&results[i], WORST));
		means.memory += figure(&results[i], TAKEN);
		means.calls += figure(&results[i], CALLS);
		n++;
	}
	n = MAX(n, 1);
	means.first /= n;
	means.time /= n;
	means.memory /= n;
	means.calls /= n;
	return means;
}

static const char *family_of(const GPtrArray *programs, guint i)
{
	const struct overlap *p = programs->pdata[i];

	return p->family;
}

void overlap_print_families(const GPtrArray *programs, const struct overlap_measured *results)
{
	const char *family;
	guint from, to;

	if (!programs->len)
		return;
	printf("%-30s %4s  %7s %7s  %7s %7s  %7s %7s  %7s %7s  %7s %7s  %7s %7s\n", "streams that overlap", "", "first",
	       "worst", "time", "worst", "slowest", "worst", "taken", "worst", "least", "worst", "calls", "worst");
	for (from = 0; from < programs->len; from = to) {
		family = family_of(programs, from);
		for (to = from + 1; to < programs->len && !strcmp(family_of(programs, to), family); to++)
			;
		print_row(family, results, from, to);
	}
	print_row("all", results, 0, programs->len);
}
