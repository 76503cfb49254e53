// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * limited SECONDS COMMAND [ARGUMENT...]: runs a test in a process group of its own, and stops it when its time is over.
 * First it says what each thread was doing, so that a deadlock can be told from a machine under load. The test has a
 * folder of its own for temporary files and budgets, and fails if it leaves anything there.
 */
#define _GNU_SOURCE 1
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The first as a test has it that fails, the others as timeout(1) has them. */
enum { STATUS_LEFT = 1, STATUS_STOPPED = 124, STATUS_FAILED = 125, STATUS_NOT_FOUND = 127 };

/* How long the threads are looked at, and how long the group may take to end. */
#define LOOK_S 1
#define GRACE_S 9

/* Threads that are told of. */
#define MOST 256

/* Prints all stacks of a process. */
#define DEBUGGER "exec </dev/null 2>&1; pid=%ld; " \
	"if command -v gdb >/dev/null; then timeout 60 gdb -nx -batch -p $pid -ex 'thread apply all backtrace 24'; " \
	"elif command -v eu-stack >/dev/null; then timeout 60 eu-stack -n 24 -p $pid; fi"

struct thread {
	long pid;
	long tid;
	unsigned long ticks;
};

static pid_t group;

/* The first bytes of a file of a thread, without the newline; "?": it cannot be read. */
static void read_of(const struct thread *thread, const char *name, char *text, size_t size)
{
	char path[128];
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%ld/task/%ld/%s", thread->pid, thread->tid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, size - 1);
		close(fd);
	}
	snprintf(n > 0 ? text + n : text, n > 0 ? 1 : size, "%s", n > 0 ? "" : "?");
	if (n > 0 && text[n - 1] == '\n')
		text[n - 1] = '\0';
}

/* Its state, the group of its process, and the time that it ran, in ticks; false: it is gone. */
static bool read_stat(const struct thread *thread, char *state, long *pgrp, unsigned long *ticks)
{
	unsigned long user, kernel;
	char text[1024], *at;

	read_of(thread, "stat", text, sizeof(text));
	at = strrchr(text, ')');
	if (!at || sscanf(at + 1, " %c %*d %ld %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", state, pgrp, &user, &kernel) != 4)
		return false;
	*ticks = user + kernel;
	return true;
}

static size_t add_threads(long pid, struct thread *threads, size_t count)
{
	const struct dirent *entry;
	char path[64], state;
	long pgrp;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%ld/task", pid);
	tasks = opendir(path);
	if (!tasks)
		return count;
	while (count < MOST && (entry = readdir(tasks))) {
		struct thread thread = { .pid = pid, .tid = atol(entry->d_name) };

		if (thread.tid && read_stat(&thread, &state, &pgrp, &thread.ticks) && pgrp == group)
			threads[count++] = thread;
	}
	closedir(tasks);
	return count;
}

static size_t find_threads(struct thread *threads)
{
	DIR *all = opendir("/proc");
	const struct dirent *entry;
	size_t count = 0;

	while (all && (entry = readdir(all))) {
		if (isdigit((unsigned char)*entry->d_name))
			count = add_threads(atol(entry->d_name), threads, count);
	}
	if (all)
		closedir(all);
	return count;
}

static void tell_thread(const struct thread *thread)
{
	char name[64], where[128], call[256], state;
	unsigned long ticks;
	long pgrp;

	if (!read_stat(thread, &state, &pgrp, &ticks))
		return;
	read_of(thread, "comm", name, sizeof(name));
	read_of(thread, "wchan", where, sizeof(where));
	read_of(thread, "syscall", call, sizeof(call));
	printf("# process %ld, thread %ld (%s): %s, state %c, ran %lu %% of the last second, in %s, system call %s\n",
	       thread->pid, thread->tid, name, state == 'R' ? "running" : "asleep", state,
	       (ticks - thread->ticks) * 100 / (unsigned long)sysconf(_SC_CLK_TCK) / LOOK_S, where, call);
}

/* The debugger's lines begin with a number sign, as remarks do in TAP. */
static void tell_stacks(long pid)
{
	char command[512], line[1024];
	FILE *from;

	snprintf(command, sizeof(command), DEBUGGER, pid);
	from = popen(command, "re");
	while (from && fgets(line, sizeof(line), from))
		printf("# %s", line);
	if (from)
		pclose(from);
}

static void tell_all(const char *seconds)
{
	struct thread threads[MOST];
	size_t count = find_threads(threads);
	char load[64] = "?";
	FILE *file = fopen("/proc/loadavg", "re");

	if (file && !fgets(load, sizeof(load), file))
		strcpy(load, "?");
	if (file)
		fclose(file);
	load[strcspn(load, "\n")] = '\0';
	sleep(LOOK_S);
	printf("# stopped after %s s; the load of the machine is %s\n", seconds, load);
	for (size_t i = 0; i < count; i++)
		tell_thread(&threads[i]);
	fflush(stdout);
	for (size_t i = 0; i < count; i++) {
		if (threads[i].pid == threads[i].tid)
			tell_stacks(threads[i].pid);
	}
	fflush(stdout);
}

static char folder[PATH_MAX];
static unsigned int left;

/* Short, as the name of a socket in it has 107 bytes at most. */
static bool make_folder(void)
{
	const char *parent = getenv("TMPDIR");

	snprintf(folder, sizeof(folder), "%s/vpmm-XXXXXX", parent && *parent ? parent : "/tmp");
	return mkdtemp(folder) && !setenv("TMPDIR", folder, 1) && !setenv("XDG_RUNTIME_DIR", folder, 1);
}

/* Pipes of valgrind's and a folder of ccache's are no test's. */
static bool is_foreign(const char *name)
{
	return !strncmp(name, "vgdb-pipe-", 10) || !strncmp(name, "ccache-", 7);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	/* Folders come behind what they have. */
	if (at->level == 1 && !is_foreign(path + at->base)) {
		printf("# left in $TMPDIR, which is also $XDG_RUNTIME_DIR: %s\n", path + at->base);
		left++;
	}
	remove(path);
	return 0;
}

/* The status of the test, unless that succeeded and has left something. */
static int remove_folder(int status)
{
	nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return status || !left ? status : STATUS_LEFT;
}

static void pass_on(int number)
{
	kill(-group, number);
}

/* Whether the command has ended, by a time. */
static bool await_end(long seconds, int *status)
{
	const time_t until = time(NULL) + seconds;
	sigset_t child;
	pid_t ended;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	while (!(ended = waitpid(group, status, WNOHANG)) && time(NULL) < until)
		sigtimedwait(&child, NULL, &(struct timespec){ 1, 0 });
	if (ended < 0)
		*status = STATUS_FAILED << 8;
	return ended;
}

int main(int argc, char **argv)
{
	const struct sigaction action = { .sa_handler = pass_on, .sa_flags = SA_RESTART };
	static const int passed[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM };
	sigset_t child, before;
	int status = 0;

	if (argc < 3 || atol(argv[1]) <= 0) {
		fprintf(stderr, "usage: limited SECONDS COMMAND [ARGUMENT...]\n");
		return STATUS_FAILED;
	}
	if (!make_folder()) {
		perror(folder);
		return STATUS_FAILED;
	}
	/* A process that ignores this signal does not learn how its child ended. */
	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, &before);
	group = fork();
	if (!group) {
		setpgid(0, 0);
		sigprocmask(SIG_SETMASK, &before, NULL);
		execvp(argv[2], argv + 2);
		perror(argv[2]);
		_exit(STATUS_NOT_FOUND);
	}
	if (group < 0) {
		perror("fork");
		return STATUS_FAILED;
	}
	setpgid(group, group);
	for (size_t i = 0; i < sizeof(passed) / sizeof(*passed); i++)
		sigaction(passed[i], &action, NULL);
	if (!await_end(atol(argv[1]), &status)) {
		tell_all(argv[1]);
		kill(-group, SIGTERM);
		await_end(GRACE_S, &status);
		kill(-group, SIGKILL);
		return remove_folder(STATUS_STOPPED);
	}
	return remove_folder(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}
