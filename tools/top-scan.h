/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Finds the pools that processes of this machine publish, see util/top-page.h, and the budgets that they share
 * (VPMM_BUDGET), as their files have them, see budget/file.h. And prints what they have.
 */
#ifndef TOP_SCAN_H
#define TOP_SCAN_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "util/top-page.h"

/**
 * struct top_holder - a pool that has part of a budget
 * @slot: its number in the budget
 * @pid: of its process
 * @command: of that
 * @taken: bytes that it has
 * @idle: bytes of those that it could give back, as of its latest call on the slow path
 * @floor: bytes that it is sure of
 * @weight: of its share beyond all floors
 */
struct top_holder {
	unsigned int slot;
	pid_t pid;
	char command[32];
	uint64_t taken;
	uint64_t idle;
	uint64_t floor;
	uint32_t weight;
};

/**
 * struct top_budget - a budget
 * @device: of its file, with @inode
 * @inode: of its file
 * @path: of its file
 * @name: as VPMM_BUDGET has it, without the folder
 * @uuid: of the GPU, in hexadecimal
 * @size: bytes that the pools share
 * @holders: of struct top_holder, the largest first
 */
struct top_budget {
	dev_t device;
	ino_t inode;
	char *path;
	char *name;
	char *uuid;
	uint64_t size;
	GArray *holders;
};

/* A table for each budget. */
void top_budgets_print(FILE *out, const GArray *budgets);

/* A line for each budget. */
void top_budgets_print_json(const GArray *budgets);

/* Families of samples, without the end. */
void top_budgets_print_openmetrics(const GArray *budgets);

/**
 * struct top_row - a pool
 * @pid: of its process
 * @command: of that
 * @updated_ns: when it was published, by CLOCK_MONOTONIC
 * @pool: what it has
 */
struct top_row {
	pid_t pid;
	char command[32];
	uint64_t updated_ns;
	struct top_pool pool;
};

/**
 * top_scan() - look at all processes
 * @budgets: receives the budgets that they have part of, of struct top_budget, for g_array_unref()
 *
 * Processes of other users are left out, unless this one may look at them.
 *
 * Return: of struct top_row, in order of processes, for g_array_unref().
 */
GArray *top_scan(GArray **budgets);

/**
 * top_print_family() - print what comes before the samples of a family
 * @name: without "vpmm_" and the unit
 * @unit: with which the name ends; NULL: none
 * @help: a sentence
 * @counter: whether it is a counter; otherwise it is a gauge
 */
void top_print_family(const char *name, const char *unit, const char *help, bool counter);

/* The value of a label, in quotes; what is no UTF-8 is replaced. */
void top_print_label(const char *text);

/* The number at an offset of a structure. */
uint64_t top_number(const void *structure, size_t offset);

#endif /* TOP_SCAN_H */
