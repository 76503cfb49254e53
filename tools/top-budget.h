/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Budgets that processes share (VPMM_BUDGET), as their files have them: see budget/file.h. */
#ifndef TOP_BUDGET_H
#define TOP_BUDGET_H

#include <glib.h>
#include <stdint.h>
#include <sys/types.h>

struct top_process;

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

/* An array of struct top_budget without any, for g_array_unref(). */
GArray *top_budgets_new(void);

/**
 * top_budget_may_be() - whether the file of a budget may have this name
 * @path: its path
 */
gboolean top_budget_may_be(const char *path);

/**
 * top_budgets_look() - enter the budget of a file that a process has open, and what pools of the process have of it
 * @budgets: the budgets
 * @process: the process
 * @fd: the file, for reading; it may be no budget's
 * @path: where it is
 */
void top_budgets_look(GArray *budgets, const struct top_process *process, int fd, const char *path);

/* In order of names, and their pools by size. */
void top_budgets_sort(GArray *budgets);

/* A table for each budget. */
void top_budgets_print(const GArray *budgets);

/* A line for each budget. */
void top_budgets_print_json(const GArray *budgets);

/* Families of samples, without the end. */
void top_budgets_print_openmetrics(const GArray *budgets);

#endif /* TOP_BUDGET_H */
