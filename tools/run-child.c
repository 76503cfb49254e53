// SPDX-License-Identifier: LGPL-2.1-or-later
#define _GNU_SOURCE 1
#include "run-child.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fail.h"

/* What others may send to vpmm-run, and mean the program. */
static const int passed[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2 };

static bool is_ignored(int signal)
{
	struct sigaction action;

	return !sigaction(signal, NULL, &action) && action.sa_handler == SIG_IGN;
}

void child_look(struct child_before *before)
{
	for (int fd = 0; fd < (int)G_N_ELEMENTS(before->closed); fd++)
		before->closed[fd] = fcntl(fd, F_GETFD) < 0 && errno == EBADF;
	before->file_size_ignored = is_ignored(SIGXFSZ);
}

int child_exec(const struct child *child)
{
	int err;

	for (int fd = 0; fd < (int)G_N_ELEMENTS(child->before.closed); fd++) {
		if (child->before.closed[fd])
			close(fd);
	}
	signal(SIGXFSZ, child->before.file_size_ignored ? SIG_IGN : SIG_DFL);
	/* As a shell does, and execve() does not, it runs a script without "#!". */
	execvp(child->path, child->argv);
	err = errno;
	if (err == EACCES && g_file_test(child->path, G_FILE_TEST_IS_DIR))
		err = EISDIR;
	fail_set(-err, "%s: %s", child->path, g_strerror(err));
	return err == ENOENT || err == ENOTDIR ? CHILD_NOT_FOUND : CHILD_NOT_EXECUTABLE;
}

/*
 * They are waited for instead of handled, so that none comes at the wrong moment. What is to be ignored stays so, for
 * the program as well; but whoever ignores SIGCHLD cannot wait for it.
 */
void child_hold_signals(struct child *child)
{
	struct child_signals *signals = &child->signals;

	sigemptyset(&signals->waited);
	for (unsigned int i = 0; i < G_N_ELEMENTS(passed); i++) {
		if (!is_ignored(passed[i]))
			sigaddset(&signals->waited, passed[i]);
	}
	sigaddset(&signals->waited, SIGCHLD);
	sigaction(SIGCHLD, &(struct sigaction){ .sa_handler = SIG_DFL }, &signals->of_children);
	sigprocmask(SIG_BLOCK, &signals->waited, &signals->mask);
}

static void release_signals(const struct child *child)
{
	const struct child_signals *signals = &child->signals;

	sigaction(SIGCHLD, &signals->of_children, NULL);
	sigprocmask(SIG_SETMASK, &signals->mask, NULL);
}

/* A signal that comes before the program has begun ends it: a handler of vpmm-run would lose it. */
static pid_t start(const struct child *child)
{
	pid_t pid = fork();
	int status;

	if (pid)
		return pid;
	for (unsigned int i = 0; i < G_N_ELEMENTS(passed); i++) {
		if (sigismember(&child->signals.waited, passed[i]))
			signal(passed[i], SIG_DFL);
	}
	release_signals(child);
	status = child_exec(child);
	fprintf(stderr, "%s: %s\n", g_get_prgname(), fail_text());
	_exit(status);
}

/* Meanwhile the program goes on, and may end. */
static void answer(const struct child *child, GArray *answering)
{
	pid_t pid = fork();

	if (pid > 0)
		g_array_append_val(answering, pid);
	if (pid)
		return;
	/* Who asks once more asks all processes of that name. */
	signal(SIGUSR1, SIG_IGN);
	release_signals(child);
	child->asked(child, child->data);
	fflush(stderr);
	_exit(0);
}

static void forget(GArray *answering, pid_t pid)
{
	for (guint i = 0; i < answering->len; i++) {
		if (g_array_index(answering, pid_t, i) == pid) {
			g_array_remove_index_fast(answering, i);
			return;
		}
	}
}

/* Whether the program has ended. There may be children of whoever this process was before. */
static bool reap(const struct child *child, GArray *answering, int *status)
{
	bool ended = false;
	int one;
	pid_t pid;

	while ((pid = waitpid(-1, &one, WNOHANG)) > 0) {
		if (pid == child->pid) {
			*status = one;
			ended = true;
		} else {
			forget(answering, pid);
		}
	}
	return ended;
}

/*
 * Signals from the terminal come from the kernel, which sends them to the program as well. Only those that came before
 * the program had a process are passed on.
 */
static void pass(struct child *child, const siginfo_t *info)
{
	const bool early = sigismember(&child->signals.early, info->si_signo) == 1;

	sigdelset(&child->signals.early, info->si_signo);
	if (early || info->si_code != SI_KERNEL)
		kill(child->pid, info->si_signo);
}

static void wait_for(struct child *child, GArray *answering, int *status)
{
	bool ended = false;
	siginfo_t info;

	while (!ended || answering->len) {
		if (sigwaitinfo(&child->signals.waited, &info) < 0)
			continue;
		if (info.si_signo == SIGCHLD)
			ended |= reap(child, answering, status);
		else if (info.si_signo == SIGUSR1 && child->asked)
			answer(child, answering);
		else if (!ended)
			pass(child, &info);
		else
			break;
	}
}

int child_run(struct child *child, int *status)
{
	GArray *answering;
	int err;

	child->pid = start(child);
	if (child->pid < 0) {
		err = -errno;
		release_signals(child);
		return fail_set(err, "no process for %s: %s", child->path, g_strerror(-err));
	}
	sigpending(&child->signals.early);
	answering = g_array_new(FALSE, FALSE, sizeof(pid_t));
	wait_for(child, answering, status);
	g_array_free(answering, TRUE);
	/* What was meant for the program has come late; and who asks is about to be told. */
	signal(SIGUSR1, SIG_IGN);
	signal(SIGUSR2, SIG_IGN);
	release_signals(child);
	return 0;
}

int child_end_like(int status)
{
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	/* The program has left a core where there is to be one. */
	prctl(PR_SET_DUMPABLE, 0);
	signal(WTERMSIG(status), SIG_DFL);
	raise(WTERMSIG(status));
	return 128 + WTERMSIG(status);
}

#define OBJECT "libvpmm-preload.so"
#define VARIABLE "VPMM_PRELOAD_OBJECT"

/* The object of the build tree that this program is in: both are in a folder .libs. NULL: it is in no build tree. */
static char *find_built(void)
{
	g_autofree char *self = g_file_read_link("/proc/self/exe", NULL);
	char *built = self ? g_strrstr(self, "/tools/.libs/") : NULL;

	if (!built || strchr(built + strlen("/tools/.libs/"), '/'))
		return NULL;
	*built = '\0';
	return g_build_filename(self, "lib", ".libs", OBJECT, NULL);
}

static bool is_divided(const char *name)
{
	return strpbrk(name, " \t\n:");
}

/* The program may change its folder and start another one; but a name that cannot be in LD_PRELOAD is of no use. */
static char *complete(const char *named)
{
	g_autofree char *object = g_canonicalize_filename(named, NULL);

	return !is_divided(object) || is_divided(named) ? g_steal_pointer(&object) : g_strdup(named);
}

static char *find_object(void)
{
	const char *named = g_getenv(VARIABLE);
	char *object;

	if (named && *named)
		return complete(named);
	object = find_built();
	return object ? object : g_build_filename(PRELOAD_DIR, OBJECT, NULL);
}

static int check_object(const char *object)
{
	if (is_divided(object))
		return fail_set(-EINVAL, "LD_PRELOAD cannot have a name with a space or a colon: %s; " VARIABLE
				" can name it in another way", object);
	if (access(object, R_OK)) {
		int err = errno;

		return fail_set(-err, "the object to preload, %s: %s", object, g_strerror(err));
	}
	return 0;
}

int object_preload(void)
{
	const char *before = g_getenv("LD_PRELOAD");
	g_autofree char *object = find_object(), *list = NULL;
	int err = check_object(object);

	list = before && *before ? g_strconcat(before, ":", object, NULL) : g_strdup(object);
	if (!err)
		g_setenv("LD_PRELOAD", list, TRUE);
	return err;
}

/* How much of a script's first line the kernel reads, and how many interpreters it follows. */
#define LINE 256
#define INTERPRETERS 5

/* With the rights of another user or group the linker trusts the environment no more. */
static int check_rights(int fd, const char *path)
{
	const mode_t group = S_ISGID | S_IXGRP;
	struct stat st;

	if (fstat(fd, &st))
		return 0;
	if ((st.st_mode & S_ISUID && st.st_uid != getuid()) || ((st.st_mode & group) == group && st.st_gid != getgid()))
		return fail_set(-EINVAL, "%s is a set-%s-ID program, for which the dynamic linker ignores LD_PRELOAD",
				path, st.st_mode & S_ISUID ? "user" : "group");
	return 0;
}

static bool read_at(int fd, void *to, size_t size, off_t at)
{
	return pread(fd, to, size, at) == (ssize_t)size;
}

static int check_elf(int fd, const char *path)
{
	Elf64_Ehdr header;
	Elf64_Phdr segment;

	if (!read_at(fd, &header, sizeof(header), 0))
		return 0;
	if (header.e_ident[EI_CLASS] != ELFCLASS64)
		return fail_set(-EINVAL, "%s is a 32-bit program, and libvpmm is for 64 bits", path);
	for (unsigned int i = 0; i < header.e_phnum; i++) {
		if (!read_at(fd, &segment, sizeof(segment), (off_t)(header.e_phoff + i * sizeof(segment))))
			return 0;
		if (segment.p_type == PT_INTERP)
			return 0;
	}
	return fail_set(-EINVAL, "%s is linked statically: there is no dynamic linker to preload libvpmm", path);
}

/* What "#!" names; NULL: nothing. */
static char *interpreter(const char *line)
{
	const char *name = line + 2 + strspn(line + 2, " \t");
	size_t length = strcspn(name, " \t\n");

	return length ? g_strndup(name, length) : NULL;
}

static int check_target(const char *path, unsigned int depth);

static int check_contents(int fd, const char *path, unsigned int depth)
{
	g_autofree char *name = NULL;
	char line[LINE] = "";

	if (pread(fd, line, sizeof(line) - 1, 0) < 2)
		return 0;
	if (memcmp(line, ELFMAG, SELFMAG) == 0)
		return check_elf(fd, path);
	if (strncmp(line, "#!", 2) != 0 || depth == INTERPRETERS)
		return 0;
	name = interpreter(line);
	return name ? check_target(name, depth + 1) : 0;
}

/* The kernel ignores the bits of a script. */
static int check_target(const char *path, unsigned int depth)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err;
	char magic[2] = "";

	if (fd < 0)
		return 0;
	if (pread(fd, magic, sizeof(magic), 0) == 2 && memcmp(magic, "#!", 2) == 0)
		err = 0;
	else
		err = check_rights(fd, path);
	if (!err)
		err = check_contents(fd, path, depth);
	close(fd);
	return err;
}

int target_check(const char *path)
{
	return check_target(path, 0);
}
