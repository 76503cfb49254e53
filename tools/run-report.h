/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The tables that vpmm-run prints of a program with --monitor and with --report, and the files that its processes write
 * for that: where they are, and whose they are.
 */
#ifndef RUN_REPORT_H
#define RUN_REPORT_H

#include <glib.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define TABLE_UNKNOWN UINT64_MAX

/**
 * struct run_report - a program to tell of
 * @program: its name
 * @main: the process that vpmm-run has started; others are its descendants
 * @files: what its processes have written: traces, or reports as VPMM_PRELOAD_REPORT says
 * @out: where to tell it
 */
struct run_report {
	const char *program;
	pid_t main;
	const struct traces *files;
	FILE *out;
};

/**
 * monitor_check() - see whether there can be replays, with the settings of the environment
 *
 * Return: 0, or a negative errno value explained by fail_set().
 */
int monitor_check(void);

/**
 * monitor_tell() - replay the traces, and print for each process and device what it asked of the driver, and what
 *	libvpmm would have taken for it
 * @report: the program
 *
 * Processes that still run have a trace so far.
 *
 * Return: 0, or a negative errno value, where standard error has what is wrong:
 *	-EINTR interrupt_signal was set,
 *	another: a trace cannot be read or replayed; the tables of others are there.
 */
int monitor_tell(const struct run_report *report);

/**
 * served_tell() - print for each pool of each process what libvpmm did for it
 * @report: the program
 *
 * Return: 0, or a negative errno value, where standard error has what is wrong: a report cannot be read.
 */
int served_tell(const struct run_report *report);

/**
 * table_begin() - the first line of a table
 * @report: the program
 * @pid: the process; 0: not known
 * @device: the number of the device
 * @what: of the table
 */
void table_begin(const struct run_report *report, pid_t pid, unsigned int device, const char *what);

/**
 * table_count() - a number and what it means
 * @remark: may be empty
 */
void table_count(FILE *out, const char *label, uint64_t count, const char *remark, ...)
	__attribute__((format(printf, 4, 5)));

/**
 * table_memory_begin() - the heading of table_memory()
 */
void table_memory_begin(FILE *out);

/**
 * table_memory() - the most bytes there were at once
 * @bytes: TABLE_UNKNOWN: nobody knows
 * @requested: of which this many were requested; 0: no ratio is shown
 */
void table_memory(FILE *out, const char *label, uint64_t bytes, uint64_t requested);

/**
 * struct traces - the files
 * @pattern: their name, with %p for the process id, from the root on
 * @folder: of our own, which goes away with the files; NULL: the user has named them
 * @single: the name that the file of one process is to have in the end, where the user has named no %p
 * @before: files of such a name that were there before, each with the time of its last change
 */
struct traces {
	char *pattern;
	char *folder;
	char *single;
	GHashTable *before;
};

/**
 * struct traces_file - a file
 * @name: its own
 * @pid: of its process; 0: the name does not tell
 */
struct traces_file {
	char *name;
	pid_t pid;
};

/**
 * traces_absolute() - a name that means the same wherever the process is
 * @option: whose value it is, for the sentence
 * @name: as the user has it, where %p and %% have their meaning
 * @pattern: receives it, for g_free()
 *
 * Return: 0, or explained by fail_set(): it has another %, there is no folder to write it to, or no file of this name
 * can be written.
 */
int traces_absolute(const char *option, const char *name, char **pattern);

/**
 * traces_replaceable() - whether traces_end() can give a file the name
 * @option: whose value it is, for the sentence
 * @pattern: by traces_absolute()
 *
 * Return: 0, or explained by fail_set(): there is a device, a pipe or a folder of this name, or it is too long for a
 * process id behind it.
 */
int traces_replaceable(const char *option, const char *pattern);

/**
 * traces_begin() - before the program starts
 * @traces: the files
 * @pattern: by traces_absolute(); NULL: a folder for them is created
 * @suffix: of their names there
 *
 * A pattern without %p gets one, so that no process writes over what another has written.
 *
 * Return: 0, or explained by fail_set().
 */
int traces_begin(struct traces *traces, const char *pattern, const char *suffix);

/**
 * traces_list() - find what was written since
 * @traces: the files
 *
 * Return: of struct traces_file, in the order of their processes; for g_array_unref().
 */
GArray *traces_list(const struct traces *traces);

/**
 * traces_end() - remove the folder, or give the files their names, and free everything
 *
 * If several processes have written one without %p in its name, each keeps its process id behind the name.
 */
void traces_end(struct traces *traces);

#endif /* RUN_REPORT_H */
