/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The files that the processes of the program write for vpmm-run: where they are, and whose they are. */
#ifndef RUN_TRACES_H
#define RUN_TRACES_H

#include <glib.h>
#include <sys/types.h>

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
 * Return: 0, or explained by fail_set(): it has another %, or there is no folder to write it to.
 */
int traces_absolute(const char *option, const char *name, char **pattern);

/**
 * traces_replaceable() - whether traces_end() can give a file the name
 * @option: whose value it is, for the sentence
 * @pattern: by traces_absolute()
 *
 * Return: 0, or explained by fail_set(): there is a device, a pipe or a folder of this name.
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

#endif /* RUN_TRACES_H */
