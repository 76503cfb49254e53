// SPDX-License-Identifier: LGPL-2.1-or-later
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "preload/settings.h"
#include "util/descriptor.h"
#include "util/text.h"

static struct preload_settings values;
static pthread_once_t once = PTHREAD_ONCE_INIT;

const char *setting_value(const char *variable)
{
	const char *value = getenv(variable);

	return value && *value && strcmp(value, "none") != 0 ? value : NULL;
}

/* Whether the variable has the second word; unset or empty, it has the first. */
static bool read_word(const char *variable, const char *first, const char *second, bool *valid)
{
	const char *value = getenv(variable);

	if (!value || !*value || !strcmp(value, first))
		return false;
	if (!strcmp(value, second))
		return true;
	text_warn("libvpmm-preload: %s=%s is neither %s nor %s; all calls go to the driver\n", variable, value,
		  first, second);
	*valid = false;
	return false;
}

/* Whether a variable is on; @on: what it is if it is unset or empty. */
static bool read_switch(const char *variable, bool on, bool *valid)
{
	const char *value = getenv(variable);

	if (!value || !*value || !number_parse_switch(value, &on))
		return on;
	text_warn("libvpmm-preload: %s=%s: expected off, on, none, 0 or 1; all calls go to the driver\n",
		  variable, value);
	*valid = false;
	return false;
}

static size_t read_size(const char *variable, size_t unset, bool *valid)
{
	const char *value = setting_value(variable);
	uint64_t size;

	if (!value)
		return unset;
	if (!number_parse_scaled(value, &size))
		return size;
	text_warn("libvpmm-preload: %s=%s: expected none or a size such as 2M; all calls go to the driver\n",
		  variable, value);
	*valid = false;
	return unset;
}

/* Device memory of the host backend would be ordinary memory, which no kernel can use. */
static bool has_no_device(void)
{
	const char *value = getenv("VPMM_BACKEND");

	if (!value || strcmp(value, "host"))
		return false;
	fputs("libvpmm-preload: VPMM_BACKEND=host has no device memory; all calls go to the driver\n", stderr);
	return true;
}

static void read_environment(void)
{
	bool valid = true;
	bool on;

	on = read_switch("VPMM_PRELOAD", true, &valid);
	values.free_ordered = read_word("VPMM_PRELOAD_FREE", "sync", "ordered", &valid);
	values.ipc_driver = read_word("VPMM_PRELOAD_IPC", "serve", "driver", &valid);
	values.async_driver = read_word("VPMM_PRELOAD_ASYNC", "serve", "driver", &valid);
	values.range_block = read_word("VPMM_PRELOAD_RANGE", "mapping", "block", &valid);
	values.monitor = read_switch("VPMM_PRELOAD_MONITOR", false, &valid);
	values.pausable = read_switch("VPMM_PAUSABLE", false, &valid);
	values.report = setting_value("VPMM_PRELOAD_REPORT");
	values.min = read_size("VPMM_PRELOAD_MIN", 0, &valid);
	values.max = read_size("VPMM_PRELOAD_MAX", SIZE_MAX, &valid);
	values.on = valid && on;
	values.monitor = values.monitor && values.on;
	/* A monitor makes no pool. */
	if (values.on && !values.monitor)
		values.on = !has_no_device();
	values.pausable = values.pausable && values.on && !values.monitor;
}

const struct preload_settings *settings(void)
{
	pthread_once(&once, read_environment);
	return &values;
}

/* The longest number that pass_over() puts behind a name. */
#define NUMBER_ROOM sizeof(".4294967295")

/* On the heap, as the stack may be a small one; with NUMBER_ROOM behind it. */
static char *expand(const char *variable, const char *name)
{
	const char *unknown;
	size_t room;
	char *path;

	unknown = name_unknown(name);
	if (unknown) {
		text_warn("libvpmm-preload: %s=%s: what \"%.2s\" stands for is not known: expected %%p or %%%%\n",
			  variable, name, unknown);
		return NULL;
	}
	room = name_expand(name, NULL, 0) + NUMBER_ROOM;
	path = malloc(room);
	if (path)
		name_expand(name, path, room);
	return path;
}

/* To open a pipe would wait for its other end, and take from what it has. */
static bool begins_with(const char *path, const char *line)
{
	char found[256];
	struct stat st;
	FILE *file;
	bool same;

	if (stat(path, &st) || !S_ISREG(st.st_mode))
		return false;
	file = fopen(path, "re");
	if (!file)
		return false;
	same = fgets(found, sizeof(found), file) && !strcmp(found, line);
	fclose(file);
	return same;
}

/* With a number behind it, the first name whose file does not begin with the line. */
static void pass_over(char *path, const char *line)
{
	const size_t length = strlen(path);
	unsigned int number = 0;

	while (begins_with(path, line))
		snprintf(path + length, NUMBER_ROOM, ".%u", ++number);
}

/* A file that is or was open. All stay in a list, which needs no lock that a fork could leave held. */
struct opened {
	struct descriptor file;
	atomic_bool in_use;
	struct opened *next;
};

static struct opened *_Atomic all_opened;

static struct opened *find_unused(void)
{
	struct opened *it = all_opened;

	while (it && atomic_exchange(&it->in_use, true))
		it = it->next;
	if (it)
		return it;
	it = calloc(1, sizeof(*it));
	if (!it)
		return NULL;
	it->in_use = true;
	it->next = all_opened;
	while (!atomic_compare_exchange_weak(&all_opened, &it->next, it))
		;
	return it;
}

/*
 * The program may have closed it with all that it does not know, and what has its number is the program's. Beyond the
 * limit of a file's size a signal would end the program.
 */
static ssize_t write_opened(void *cookie, const char *bytes, size_t size)
{
	const struct descriptor *file = &((struct opened *)cookie)->file;
	size_t done = 0;
	off_t end;
	ssize_t n;

	while (done < size) {
		if (!descriptor_is_own(file)) {
			errno = EBADF;
			break;
		}
		end = lseek(file->fd, 0, SEEK_END);
		if (!descriptor_may_have(file->fd, (end > 0 ? (uint64_t)end : 0) + size - done))
			break;
		n = write(file->fd, bytes + done, size - done);
		if (n < 0 && errno != EINTR)
			break;
		done += n > 0 ? (size_t)n : 0;
	}
	return (ssize_t)done;
}

static int close_opened(void *cookie)
{
	struct opened *it = cookie;

	descriptor_close(&it->file);
	it->in_use = false;
	return 0;
}

static FILE *make_stream(int fd)
{
	static const cookie_io_functions_t functions = { .write = write_opened, .close = close_opened };
	struct opened *it = find_unused();
	FILE *made = it ? fopencookie(it, "w", functions) : NULL;

	if (made) {
		it->file = descriptor_note(fd);
		return made;
	}
	if (it)
		it->in_use = false;
	close(fd);
	return NULL;
}

FILE *file_open(const char *variable, int flag, const char *line)
{
	const char *name = getenv(variable);
	char *path = name ? expand(variable, name) : NULL;
	FILE *file;
	int fd;

	if (!path)
		return NULL;
	if (line)
		pass_over(path, line);
	fd = descriptor_raise(open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flag, 0666));
	file = fd < 0 ? NULL : make_stream(fd);
	if (!file)
		text_warn("libvpmm-preload: %s=%s: %m\n", variable, name);
	free(path);
	return file;
}

void file_close(const char *variable, FILE *file)
{
	if (fclose(file))
		text_warn("libvpmm-preload: %s=%s: %m\n", variable, getenv(variable));
}
