// SPDX-License-Identifier: LGPL-2.1-or-later
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload/driver.h"
#include "preload/library.h"
#include "preload/primary.h"
#include "preload/real.h"
#include "preload/report.h"
#include "preload/settings.h"

/* As vpmm_pool_stats(3) has them. */
#define REPORTED(X) \
	X(mallocs) X(frees) X(reuses) X(steals) X(defrags) X(grows) X(waits) \
	X(peak_requested) X(peak_live) X(peak_taken) X(live) X(mapped) \
	X(creates) X(maps) X(accesses) X(unmaps) X(releases) X(driver_ns) X(grown) X(remapped) X(waits_sampled) X(wait_ns)

/* The process exits, and all has been reported; the program may release its contexts after that. */
static atomic_bool over;
/* The process that has had a primary context, which its children have not; and a pool had something to report. */
static _Atomic pid_t user;
static atomic_bool served;

/* The sampled stacks, as a dump of the pool has them behind everything else; NULL: none, or for free(). */
static char *read_stacks(void)
{
	static const char begin[] = "\nstacks: ";
	char *dump = NULL, *stacks;
	size_t size;
	FILE *out;
	int err;

	if (!getenv("VPMM_STACKS"))
		return NULL;
	out = open_memstream(&dump, &size);
	if (!out)
		return NULL;
	err = LIBRARY(vpmm_pool_dump, NULL, out);
	if (fclose(out))
		err = -1;
	stacks = err ? NULL : strstr(dump, begin);
	if (stacks)
		stacks = strdup(stacks + 1);
	free(dump);
	return stacks;
}

/* Opened and closed for each pool, whose lines are written at once: several processes can have one file. */
void report_pool(int device)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };
	char *stacks;
	FILE *file;

	if (!settings()->report || over || LIBRARY(vpmm_pool_stats, NULL, &stats) || !stats.mallocs)
		return;
	served = true;
	file = file_open("VPMM_PRELOAD_REPORT", O_APPEND, NULL);
	if (!file)
		return;
	fprintf(file, "{\"pid\": %ld, \"device\": %d", (long)getpid(), device);
#define X(name) fprintf(file, ", \"" #name "\": %" PRIu64, stats.name);
	REPORTED(X)
#undef X
	fputs("}\n", file);
	stacks = read_stacks();
	if (stacks)
		fputs(stacks, file);
	file_close("VPMM_PRELOAD_REPORT", file);
	free(stacks);
}

static void report_all(void)
{
	int device;

	for (device = 0; device < DEVICES_KNOWN && library_used(); device++) {
		if (!primary_retains(device) || primary_push(device))
			continue;
		report_pool(device);
		primary_pop();
	}
	over = true;
}

static void register_once(void)
{
	atexit(report_all);
}

void report_at_exit(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (!settings()->report)
		return;
	user = getpid();
	pthread_once(&once, register_once);
}

/* Where programs come to the driver's calls: by dlsym(), or by a call's name. NULL: nobody stands in front of us. */
static const char *in_front(void)
{
	static const char *const doors[] = { "dlsym", "cuMemAlloc_v2" };
	/* A lookup by RTLD_DEFAULT would begin with us, as we are linked. */
	void *all = dlopen(NULL, RTLD_LAZY);
	Dl_info first;
	size_t i;

	for (i = 0; all && i < sizeof(doors) / sizeof(*doors); i++) {
		if (dladdr(real_dlsym(all, doors[i]), &first) && first.dli_fbase != real_object(doors))
			return first.dli_fname;
	}
	dlerror();
	return NULL;
}

/*
 * Bytes of the character of UTF-8 that a text begins with; 0: it begins with none. The second byte has bounds of its
 * own for characters that need fewer bytes, for surrogates, and beyond the last character.
 */
static size_t character_size(const unsigned char *text)
{
	const unsigned char first = text[0];
	size_t size = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
	unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
	unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
	size_t i;

	for (i = 1; i < size; i++, low = 0x80, high = 0xbf)
		if (text[i] < low || text[i] > high)
			return 0;
	return size;
}

/* A text of JSON: control characters and bytes that are no UTF-8 become question marks. */
static void print_text(FILE *file, const char *text)
{
	size_t size;

	fputc('"', file);
	for (; *text; text += size ? size : 1) {
		size = character_size((const unsigned char *)text);
		if (*text == '"' || *text == '\\')
			fputc('\\', file);
		if (!size || (unsigned char)*text < ' ')
			fputc('?', file);
		else
			fwrite(text, 1, size, file);
	}
	fputc('"', file);
}

/*
 * That nothing was served. Whoever is passed by is called by nobody, but at the end; what is in front then is known
 * without a context.
 */
static void __attribute__((destructor)) report_nothing(void)
{
	const char *front;
	FILE *file;

	if (!setting_value("VPMM_PRELOAD_REPORT") || served || !driver_is_loaded() || !settings()->on || settings()->monitor)
		return;
	front = in_front();
	file = front || user == getpid() ? file_open("VPMM_PRELOAD_REPORT", O_APPEND, NULL) : NULL;
	if (!file)
		return;
	fprintf(file, "{\"pid\": %ld, \"mallocs\": 0", (long)getpid());
	if (front) {
		fputs(", \"in_front\": ", file);
		print_text(file, front);
	}
	fputs("}\n", file);
	file_close("VPMM_PRELOAD_REPORT", file);
}
