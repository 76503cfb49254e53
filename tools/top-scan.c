// SPDX-License-Identifier: LGPL-2.1-or-later
#define _GNU_SOURCE 1
#include "top-scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "top-budget.h"

/* As the kernel names a file of memfd_create(). */
#define LINK "/memfd:" TOP_NAME " (deleted)"

/* A page that is being written is read again so often. */
#define TRIES 100

/* The process's own number, which is another one in a container. 0: it is gone. */
static uint32_t inner_pid(int proc)
{
	static const char key[] = "\nNSpid:";
	char text[4096], *line;
	uint32_t pid = 0;
	ssize_t n;
	int fd;

	fd = openat(proc, "status", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[MAX(n, 0)] = '\0';
	line = strstr(text, key);
	/* The last of the line is the innermost. */
	for (line = line ? line + strlen(key) : NULL; line && *line && *line != '\n';) {
		char *end;

		pid = (uint32_t)strtoul(line, &end, 10);
		line = end > line ? end : NULL;
	}
	return pid;
}

static void read_command(int proc, char *command, size_t size)
{
	ssize_t n = -1;
	int fd;

	fd = openat(proc, "comm", O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, command, size - 1);
		close(fd);
	}
	command[MAX(n, 0)] = '\0';
	command[strcspn(command, "\n")] = '\0';
}

static bool read_page(int fd, struct top_page *page)
{
	for (unsigned int i = 0; i < TRIES; i++) {
		uint64_t before;

		if (pread(fd, page, sizeof(*page), 0) != (ssize_t)sizeof(*page) || page->magic != TOP_MAGIC)
			return false;
		before = page->sequence;
		/* The copy is whole if nobody wrote from before its first byte to behind its last. */
		if (before % 2 == 0 && pread(fd, &page->sequence, sizeof(page->sequence),
					     offsetof(struct top_page, sequence)) ==
		    (ssize_t)sizeof(page->sequence) && page->sequence == before)
			return page->count <= TOP_POOLS;
		g_usleep(100);
	}
	return false;
}

static void add_rows(GArray *rows, const struct top_process *process, struct top_page *page)
{
	struct top_row row = { .pid = process->pid, .updated_ns = page->updated_ns };

	g_strlcpy(row.command, process->command, sizeof(row.command));
	for (uint32_t i = 0; i < page->count; i++) {
		row.pool = page->pools[i];
		row.pool.backend[sizeof(row.pool.backend) - 1] = '\0';
		row.pool.tag_count = MIN(row.pool.tag_count, TOP_TAGS);
		for (uint32_t tag = 0; tag < row.pool.tag_count; tag++)
			row.pool.tags[tag].name[sizeof(row.pool.tags[tag].name) - 1] = '\0';
		g_array_append_val(rows, row);
	}
}

/* What is found, and room for a page. */
struct scan {
	GArray *rows;
	GArray *budgets;
	struct top_page page;
};

static void read_process(int proc, pid_t pid, struct top_process *process)
{
	struct stat st;

	process->pid = pid;
	process->inner = inner_pid(proc);
	process->space = fstatat(proc, "ns/pid", &st, 0) ? 0 : st.st_ino;
	read_command(proc, process->command, sizeof(process->command));
}

/* A forked child has the page of its parent open. */
static void look_at_file(struct scan *scan, int proc, int fds, const char *name, pid_t pid)
{
	struct top_process process;
	char target[PATH_MAX];
	bool page;
	ssize_t n;
	int fd;

	n = readlinkat(fds, name, target, sizeof(target) - 1);
	target[MAX(n, 0)] = '\0';
	page = !strcmp(target, LINK);
	if (!page && !top_budget_may_be(target))
		return;
	fd = openat(fds, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return;
	read_process(proc, pid, &process);
	if (!page)
		top_budgets_look(scan->budgets, &process, fd, target);
	else if (read_page(fd, &scan->page) && scan->page.pid == process.inner)
		add_rows(scan->rows, &process, &scan->page);
	close(fd);
}

static void look_at_process(struct scan *scan, int all, const char *name)
{
	const struct dirent *entry;
	int proc, fds;
	DIR *files;

	proc = openat(all, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (proc < 0)
		return;
	fds = openat(proc, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	files = fds >= 0 ? fdopendir(fds) : NULL;
	while (files && (entry = readdir(files))) {
		if (g_ascii_isdigit(*entry->d_name))
			look_at_file(scan, proc, fds, entry->d_name, (pid_t)strtol(name, NULL, 10));
	}
	if (files)
		closedir(files);
	else if (fds >= 0)
		close(fds);
	close(proc);
}

GArray *top_scan(GArray *budgets)
{
	GArray *rows = g_array_new(FALSE, FALSE, sizeof(struct top_row));
	struct scan *scan = g_new(struct scan, 1);
	const struct dirent *entry;
	DIR *all;

	scan->rows = rows;
	scan->budgets = budgets;
	all = opendir("/proc");
	while (all && (entry = readdir(all))) {
		if (g_ascii_isdigit(*entry->d_name))
			look_at_process(scan, dirfd(all), entry->d_name);
	}
	if (all)
		closedir(all);
	g_free(scan);
	return rows;
}
