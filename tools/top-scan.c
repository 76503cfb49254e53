// SPDX-License-Identifier: LGPL-2.1-or-later
#include "top-scan.h"

#include <fcntl.h>
#include <glib.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "top-budget.h"

/* As the kernel names a file of memfd_create(). */
#define LINK "/memfd:" TOP_NAME " (deleted)"

/* A page that is being written is read again so often. */
#define TRIES 100

/* A file of a process; NULL: it is gone. */
static char *read_file(pid_t pid, const char *name)
{
	g_autofree char *path = g_strdup_printf("/proc/%d/%s", pid, name);
	char *text;

	return g_file_get_contents(path, &text, NULL, NULL) ? text : NULL;
}

/* The process's own number, which is another one in a container. 0: it is gone. */
static uint32_t inner_pid(pid_t pid)
{
	g_autofree char *text = read_file(pid, "status");
	const char *line = text ? strstr(text, "\nNSpid:") : NULL, *end = line ? strchr(line + 1, '\n') : NULL;

	if (!end)
		return 0;
	/* The last of the line is the innermost. */
	while (g_ascii_isdigit(end[-1]))
		end--;
	return (uint32_t)strtoul(end, NULL, 10);
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

static void read_process(pid_t pid, struct top_process *process)
{
	g_autofree char *space = g_strdup_printf("/proc/%d/ns/pid", pid), *command = read_file(pid, "comm");
	struct stat st;

	process->pid = pid;
	process->inner = inner_pid(pid);
	process->space = stat(space, &st) ? 0 : st.st_ino;
	g_strlcpy(process->command, command ? g_strchomp(command) : "", sizeof(process->command));
}

/* A forked child has the page of its parent open. */
static void look_at_file(struct scan *scan, const char *path, pid_t pid)
{
	g_autofree char *target = g_file_read_link(path, NULL);
	bool page = g_strcmp0(target, LINK) == 0;
	struct top_process process;
	int fd;

	if (!target || (!page && !top_budget_may_be(target)))
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return;
	read_process(pid, &process);
	if (!page)
		top_budgets_look(scan->budgets, &process, fd, target);
	else if (read_page(fd, &scan->page) && scan->page.pid == process.inner)
		add_rows(scan->rows, &process, &scan->page);
	close(fd);
}

static void look_at_process(struct scan *scan, const char *number)
{
	g_autofree char *fds = g_build_filename("/proc", number, "fd", NULL);
	g_autoptr(GDir) files = g_dir_open(fds, 0, NULL);
	const char *name;

	while (files && (name = g_dir_read_name(files))) {
		g_autofree char *path = g_build_filename(fds, name, NULL);

		look_at_file(scan, path, (pid_t)strtol(number, NULL, 10));
	}
}

GArray *top_scan(GArray *budgets)
{
	GArray *rows = g_array_new(FALSE, FALSE, sizeof(struct top_row));
	struct scan *scan = g_new(struct scan, 1);
	g_autoptr(GDir) all = g_dir_open("/proc", 0, NULL);
	const char *name;

	scan->rows = rows;
	scan->budgets = budgets;
	while (all && (name = g_dir_read_name(all))) {
		if (g_ascii_isdigit(*name))
			look_at_process(scan, name);
	}
	g_free(scan);
	return rows;
}

uint64_t top_number(const void *structure, size_t offset)
{
	uint64_t number;

	memcpy(&number, (const char *)structure + offset, sizeof(number));
	return number;
}

void top_print_label(const char *text)
{
	g_autofree char *valid = g_utf8_make_valid(text, -1);

	putchar('"');
	for (const char *c = valid; *c; c++) {
		if (*c == '"' || *c == '\\')
			putchar('\\');
		putchar(*c);
	}
	putchar('"');
}

void top_print_family(const char *name, const char *unit, const char *help, bool counter)
{
	g_autofree char *whole = g_strconcat("vpmm_", name, unit ? "_" : NULL, unit, NULL);

	printf("# TYPE %s %s\n", whole, counter ? "counter" : "gauge");
	if (unit)
		printf("# UNIT %s %s\n", whole, unit);
	printf("# HELP %s %s\n", whole, help);
}
