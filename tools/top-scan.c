// SPDX-License-Identifier: LGPL-2.1-or-later
#define _GNU_SOURCE 1
#include "top-scan.h"

#include <fcntl.h>
#include <glib.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "budget/file.h"
#include "json.h"
#include "units.h"

/* As budget_path() ends: a full stop and the UUID. */
#define SUFFIX (1 + 2 * BUDGET_UUID)

/* Behind the path of a file that was removed. */
#define REMOVED " (deleted)"

/**
 * struct top_process - a process
 * @pid: its number
 * @inner: its own number, which is another one in a container; 0: it is gone
 * @space: the inode of its namespace of processes; 0: not to be had
 * @command: its name
 */
struct top_process {
	pid_t pid;
	uint32_t inner;
	uint64_t space;
	char command[32];
};

static void clear_budget(gpointer data)
{
	struct top_budget *budget = data;

	g_free(budget->path);
	g_free(budget->name);
	g_free(budget->uuid);
	g_array_unref(budget->holders);
}

static GArray *budgets_new(void)
{
	GArray *budgets = g_array_new(FALSE, FALSE, sizeof(struct top_budget));

	g_array_set_clear_func(budgets, clear_budget);
	return budgets;
}

static size_t length_of(const char *path)
{
	size_t length = strlen(path);

	return g_str_has_suffix(path, REMOVED) ? length - strlen(REMOVED) : length;
}

/* Whether the file of a budget may have this name. */
static bool may_be_budget(const char *path)
{
	size_t length = length_of(path);
	const char *suffix;

	if (*path != '/' || length <= SUFFIX)
		return false;
	suffix = path + length - SUFFIX;
	return *suffix == '.' && strspn(suffix + 1, "0123456789abcdef") == SUFFIX - 1;
}

static struct top_budget *find_budget(GArray *budgets, const struct stat *st, const struct budget_file *file,
				      const char *path)
{
	g_autofree char *whole = NULL;
	struct top_budget *added;

	for (guint i = 0; i < budgets->len; i++) {
		struct top_budget *budget = &g_array_index(budgets, struct top_budget, i);

		if (budget->device == st->st_dev && budget->inode == st->st_ino)
			return budget;
	}
	g_array_set_size(budgets, budgets->len + 1);
	added = &g_array_index(budgets, struct top_budget, budgets->len - 1);
	*added = (struct top_budget){ .device = st->st_dev, .inode = st->st_ino, .size = file->size };
	added->path = units_printable(g_strndup(path, length_of(path)));
	whole = g_path_get_basename(added->path);
	added->name = g_strndup(whole, strlen(whole) - SUFFIX);
	added->uuid = g_strdup(whole + strlen(whole) - SUFFIX + 1);
	added->holders = g_array_new(FALSE, FALSE, sizeof(struct top_holder));
	return added;
}

/* A slot counts while its process has the lock. */
static gboolean is_locked(int fd, unsigned int slot)
{
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = BUDGET_BYTE_SLOT + slot, .l_len = 1 };

	return !fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;
}

static gboolean is_listed(const struct top_budget *budget, unsigned int slot)
{
	for (guint i = 0; i < budget->holders->len; i++) {
		if (g_array_index(budget->holders, struct top_holder, i).slot == slot)
			return TRUE;
	}
	return FALSE;
}

/* Of the slots, those of this process; each has a descriptor of its own. */
static void add_holders(struct top_budget *budget, const struct top_process *process, int fd,
			const struct budget_file *file)
{
	for (unsigned int i = 0; i < MIN(file->used, BUDGET_SLOTS); i++) {
		const struct budget_slot *slot = &file->slots[i];
		struct top_holder holder = { .slot = i, .pid = process->pid, .taken = slot->taken, .idle = slot->idle,
					     .floor = slot->floor, .weight = slot->weight };

		if (slot->pid != process->inner || slot->space != process->space || is_listed(budget, i) ||
		    !is_locked(fd, i))
			continue;
		g_strlcpy(holder.command, process->command, sizeof(holder.command));
		g_array_append_val(budget->holders, holder);
	}
}

/* Enters the budget of a file that a process has open, if it is one, and what pools of the process have of it. */
static void look_at_budget(GArray *budgets, const struct top_process *process, int fd, const char *path)
{
	struct budget_file *file;
	struct stat st;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size != sizeof(*file))
		return;
	file = g_malloc(sizeof(*file));
	if (pread(fd, file, sizeof(*file), 0) == sizeof(*file) &&
	    !memcmp(file->magic, BUDGET_MAGIC, sizeof(BUDGET_MAGIC)))
		add_holders(find_budget(budgets, &st, file, path), process, fd, file);
	g_free(file);
}

static gint compare_budgets(gconstpointer a, gconstpointer b)
{
	const struct top_budget *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	return order ? order : strcmp(x->path, y->path);
}

static gint compare_holders(gconstpointer a, gconstpointer b)
{
	const struct top_holder *x = a, *y = b;

	if (x->taken != y->taken)
		return x->taken > y->taken ? -1 : 1;
	return (x->slot > y->slot) - (x->slot < y->slot);
}

/* In order of names, and their pools by size. */
static void sort_budgets(GArray *budgets)
{
	g_array_sort(budgets, compare_budgets);
	for (guint i = 0; i < budgets->len; i++)
		g_array_sort(g_array_index(budgets, struct top_budget, i).holders, compare_holders);
}

static uint64_t taken_of(const struct top_budget *budget)
{
	uint64_t taken = 0;

	for (guint i = 0; i < budget->holders->len; i++)
		taken += g_array_index(budget->holders, struct top_holder, i).taken;
	return taken;
}

static void print_budget(FILE *out, const struct top_budget *budget)
{
	char taken[UNITS_TEXT], size[UNITS_TEXT], idle[UNITS_TEXT], floor[UNITS_TEXT];

	units_format_bytes(taken, taken_of(budget));
	units_format_bytes(size, budget->size);
	fprintf(out, "\nbudget %s: %s of %s taken\n\n", budget->name, taken, size);
	fprintf(out, "%7s %-15s %8s %8s %8s\n", "PID", "COMMAND", "TAKEN", "IDLE", "FLOOR");
	for (guint i = 0; i < budget->holders->len; i++) {
		const struct top_holder *holder = &g_array_index(budget->holders, struct top_holder, i);

		units_format_bytes(taken, holder->taken);
		units_format_bytes(idle, holder->idle);
		units_format_bytes(floor, holder->floor);
		fprintf(out, "%7ld ", (long)holder->pid);
		units_print_cell(out, holder->command, 15);
		fprintf(out, " %8s %8s %8s\n", taken, idle, floor);
	}
}

void top_budgets_print(FILE *out, const GArray *budgets)
{
	for (guint i = 0; i < budgets->len; i++)
		print_budget(out, &g_array_index(budgets, struct top_budget, i));
}

static void print_holder_json(struct json *json, const struct top_holder *holder)
{
	char slot[16];

	snprintf(slot, sizeof(slot), "%u", holder->slot);
	json_open(json, slot);
	json_count(json, "pid", (uint64_t)holder->pid);
	json_string(json, "command", holder->command);
	json_count(json, "taken", holder->taken);
	json_count(json, "idle", holder->idle);
	json_count(json, "floor", holder->floor);
	json_count(json, "weight", holder->weight);
	json_close(json);
}

void top_budgets_print_json(const GArray *budgets)
{
	for (guint i = 0; i < budgets->len; i++) {
		const struct top_budget *budget = &g_array_index(budgets, struct top_budget, i);
		struct json json;

		json_begin(&json, stdout);
		json_string(&json, "budget", budget->name);
		json_string(&json, "path", budget->path);
		json_string(&json, "uuid", budget->uuid);
		json_count(&json, "size", budget->size);
		json_count(&json, "taken", taken_of(budget));
		json_open(&json, "holders");
		for (guint k = 0; k < budget->holders->len; k++)
			print_holder_json(&json, &g_array_index(budget->holders, struct top_holder, k));
		json_close(&json);
		json_end(&json);
	}
}

/* Samples of one family: of a budget where @offset is 0, else of each of its holders. */
static void print_family(const GArray *budgets, const char *name, size_t offset, const char *help)
{
	top_print_family(name, "bytes", help, false);
	for (guint i = 0; i < budgets->len; i++) {
		const struct top_budget *budget = &g_array_index(budgets, struct top_budget, i);

		for (guint k = 0; k < (offset ? budget->holders->len : 1); k++) {
			const struct top_holder *holder = &g_array_index(budget->holders, struct top_holder, k);

			printf("vpmm_%s_bytes{uuid=\"%s\",budget=", name, budget->uuid);
			top_print_label(budget->name);
			/* Users can have budgets of one name. */
			printf(",file=\"%" PRIx64 ":%" PRIu64 "\"", (uint64_t)budget->device, (uint64_t)budget->inode);
			if (offset) {
				printf(",slot=\"%u\",pid=\"%ld\",command=", holder->slot, (long)holder->pid);
				top_print_label(holder->command);
			}
			printf("} %" PRIu64 "\n", offset ? top_number(holder, offset) : budget->size);
		}
	}
}

void top_budgets_print_openmetrics(const GArray *budgets)
{
	print_family(budgets, "budget_size", 0, "Memory that the pools of a budget share.");
	print_family(budgets, "budget_taken", offsetof(struct top_holder, taken), "What a pool has of a budget.");
	print_family(budgets, "budget_idle", offsetof(struct top_holder, idle), "What a pool could give back of it.");
	print_family(budgets, "budget_floor", offsetof(struct top_holder, floor), "What a pool is sure of.");
}

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

/* The number of writes that have begun or ended; odd while one is under way, and where it cannot be read. */
static uint64_t read_sequence(int fd)
{
	uint64_t sequence;
	ssize_t got = pread(fd, &sequence, sizeof(sequence), offsetof(struct top_page, sequence));

	return got == (ssize_t)sizeof(sequence) ? sequence : 1;
}

/*
 * The copy is whole if nobody wrote from before it to behind it. The number in the copy does not say so: within one
 * copy, a processor may read what lies behind the number before the number.
 */
static bool read_page(int fd, struct top_page *page)
{
	for (unsigned int i = 0; i < TRIES; i++) {
		uint64_t before = read_sequence(fd);

		if (pread(fd, page, sizeof(*page), 0) != (ssize_t)sizeof(*page) || page->magic != TOP_MAGIC)
			return false;
		if (before % 2 == 0 && read_sequence(fd) == before)
			return page->count <= TOP_POOLS;
		g_usleep(100);
	}
	return false;
}

/* Names without what a terminal would obey, and each once: other users choose them. */
static void clean_tags(struct top_pool *pool)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < MIN(pool->tag_count, TOP_TAGS); i++) {
		struct top_tag *tag = &pool->tags[i];
		bool known = false;

		tag->name[sizeof(tag->name) - 1] = '\0';
		units_printable(tag->name);
		for (uint32_t k = 0; k < count; k++)
			known = known || strcmp(pool->tags[k].name, tag->name) == 0;
		if (!known)
			pool->tags[count++] = *tag;
	}
	pool->tag_count = count;
}

/* A process can have its page open several times. */
static bool is_shown(const GArray *rows, pid_t pid, uint64_t number)
{
	for (guint i = rows->len; i-- > 0 && g_array_index(rows, struct top_row, i).pid == pid;) {
		if (g_array_index(rows, struct top_row, i).pool.number == number)
			return true;
	}
	return false;
}

static void add_rows(GArray *rows, const struct top_process *process, struct top_page *page)
{
	struct top_row row = { .pid = process->pid, .updated_ns = page->updated_ns };

	g_strlcpy(row.command, process->command, sizeof(row.command));
	for (uint32_t i = 0; i < page->count; i++) {
		if (is_shown(rows, row.pid, page->pools[i].number))
			continue;
		row.pool = page->pools[i];
		row.pool.backend[sizeof(row.pool.backend) - 1] = '\0';
		units_printable(row.pool.backend);
		clean_tags(&row.pool);
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
	units_printable(process->command);
}

/* A forked child has the page of its parent open. */
static void look_at_file(struct scan *scan, const char *path, pid_t pid)
{
	g_autofree char *target = g_file_read_link(path, NULL);
	bool page = g_strcmp0(target, LINK) == 0;
	struct top_process process;
	int fd;

	if (!target || (!page && !may_be_budget(target)))
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return;
	read_process(pid, &process);
	if (!page)
		look_at_budget(scan->budgets, &process, fd, target);
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

GArray *top_scan(GArray **budgets)
{
	GArray *rows = g_array_new(FALSE, FALSE, sizeof(struct top_row));
	struct scan *scan = g_new(struct scan, 1);
	g_autoptr(GDir) all = g_dir_open("/proc", 0, NULL);
	const char *name;

	scan->rows = rows;
	scan->budgets = *budgets = budgets_new();
	while (all && (name = g_dir_read_name(all))) {
		if (g_ascii_isdigit(*name))
			look_at_process(scan, name);
	}
	g_free(scan);
	sort_budgets(*budgets);
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
		if (*c == '"' || *c == '\\' || *c == '\n')
			putchar('\\');
		putchar(*c == '\n' ? 'n' : *c);
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
