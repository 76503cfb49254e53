// SPDX-License-Identifier: LGPL-2.1-or-later
#define _GNU_SOURCE 1
#include "top-budget.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "budget/file.h"
#include "json.h"
#include "top-scan.h"
#include "units.h"

/* As budget_path() ends: a full stop and the UUID. */
#define SUFFIX (1 + 2 * BUDGET_UUID)

/* Behind the path of a file that was removed. */
#define REMOVED " (deleted)"

static void clear_budget(gpointer data)
{
	struct top_budget *budget = data;

	g_free(budget->path);
	g_free(budget->name);
	g_free(budget->uuid);
	g_array_unref(budget->holders);
}

GArray *top_budgets_new(void)
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

gboolean top_budget_may_be(const char *path)
{
	size_t length = length_of(path);
	const char *suffix;

	if (*path != '/' || length <= SUFFIX)
		return FALSE;
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
	added->path = g_strndup(path, length_of(path));
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

void top_budgets_look(GArray *budgets, const struct top_process *process, int fd, const char *path)
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

void top_budgets_sort(GArray *budgets)
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

static void print_budget(const struct top_budget *budget)
{
	char taken[UNITS_TEXT], size[UNITS_TEXT], idle[UNITS_TEXT], floor[UNITS_TEXT];

	units_format_bytes(taken, taken_of(budget));
	units_format_bytes(size, budget->size);
	printf("\nbudget %s: %s of %s taken\n\n", budget->name, taken, size);
	printf("%7s %-15s %8s %8s %8s\n", "PID", "COMMAND", "TAKEN", "IDLE", "FLOOR");
	for (guint i = 0; i < budget->holders->len; i++) {
		const struct top_holder *holder = &g_array_index(budget->holders, struct top_holder, i);

		units_format_bytes(taken, holder->taken);
		units_format_bytes(idle, holder->idle);
		units_format_bytes(floor, holder->floor);
		printf("%7ld %-15.15s %8s %8s %8s\n", (long)holder->pid, holder->command, taken, idle, floor);
	}
}

void top_budgets_print(const GArray *budgets)
{
	for (guint i = 0; i < budgets->len; i++)
		print_budget(&g_array_index(budgets, struct top_budget, i));
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
