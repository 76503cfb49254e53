/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The program under vpmm-run: how it is started, what reaches it, and how it ends. And libvpmm-preload.so: its place in
 * LD_PRELOAD, and whether the dynamic linker would preload anything into a program.
 */
#ifndef RUN_CHILD_H
#define RUN_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/* Exit statuses of a shell whose program cannot be started. */
enum { CHILD_NOT_EXECUTABLE = 126, CHILD_NOT_FOUND = 127 };

/**
 * struct child_before - what the program is to find as vpmm-run found it
 * @closed: which of the standard descriptors were closed
 * @file_size_ignored: whether SIGXFSZ was ignored
 */
struct child_before {
	bool closed[3];
	bool file_size_ignored;
};

/**
 * struct child_signals - the signals of the process, as child_hold_signals() found them
 * @mask: those that were blocked
 * @waited: those that are now
 * @early: those that came before there was a process to pass them on to
 * @of_children: what SIGCHLD did
 */
struct child_signals {
	sigset_t mask;
	sigset_t waited;
	sigset_t early;
	struct sigaction of_children;
};

/**
 * struct child - the program
 * @path: its file
 * @argv: its arguments, from its name on
 * @before: what it is to find
 * @asked: called in a process of its own whenever SIGUSR1 comes; NULL: that is the program's, too
 * @data: for @asked
 * @pid: the program's, once it runs
 * @signals: by child_hold_signals()
 */
struct child {
	const char *path;
	char **argv;
	struct child_before before;
	void (*asked)(const struct child *child, void *data);
	void *data;
	pid_t pid;
	struct child_signals signals;
};

/**
 * child_look() - see what vpmm-run found, before anything changes it
 */
void child_look(struct child_before *before);

/**
 * child_exec() - become the program
 *
 * Return: the exit status, explained by fail_set(), if it could not be started.
 */
int child_exec(const struct child *child);

/**
 * child_hold_signals() - keep signals for the program until child_run() passes them on
 * @child: the program
 *
 * To be called before there is anything to remove when a signal ends this process.
 */
void child_hold_signals(struct child *child);

/**
 * child_run() - start the program, wait until it and all that @asked has to say have ended
 * @child: the program, behind child_hold_signals()
 * @status: receives how it ended, as waitpid() has it
 *
 * It is in the process group of vpmm-run, so that what the terminal sends reaches it; what others send to vpmm-run is
 * passed on. SIGUSR1 and SIGUSR2 are ignored from then on.
 *
 * Return: 0, or a negative errno value explained by fail_set(): there is no process to be had.
 */
int child_run(struct child *child, int *status);

/**
 * child_end_like() - end as the program did
 * @status: as waitpid() has it
 *
 * Return: the exit status. Does not return if a signal ended the program: that ends this process as well.
 */
int child_end_like(int status);

/**
 * object_preload() - put the preload object into LD_PRELOAD, behind what is there
 *
 * It is that which VPMM_PRELOAD_OBJECT names, or that of the build tree which this program is in, or that which was
 * installed.
 *
 * Return: 0, or explained by fail_set(): there is none, or its name has what LD_PRELOAD takes for the end of a name.
 */
int object_preload(void);

/**
 * target_check() - find out whether the dynamic linker reads LD_PRELOAD for a program
 * @path: its file; of a script, that of its interpreter counts
 *
 * A file that cannot be read passes.
 *
 * Return: 0, or -EINVAL explained by fail_set().
 */
int target_check(const char *path);

#endif /* RUN_CHILD_H */
