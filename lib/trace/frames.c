// SPDX-License-Identifier: LGPL-2.1-or-later
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <inttypes.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "trace/frames.h"

/* Calls of our own between the program and the walk, at most. */
#define OURS 16

/* Where our own code is, which no stack shows. Of a program that we are linked into nothing is left out. */
static uintptr_t own_low, own_high;

static void find_own(void)
{
	uintptr_t low, high;

	if (frames_object((uintptr_t)find_own, &low, &high) == 0) {
		own_low = low;
		own_high = high;
	}
}

unsigned int frames_walk(struct frame *frames)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	void *pcs[FRAMES_MOST + OURS];
	struct frame python[FRAMES_MOST];
	unsigned int count = 0, pythons;
	int n, i = 1;

	pthread_once(&once, find_own);
	n = backtrace(pcs, FRAMES_MOST + OURS);
	while (i < n && (uintptr_t)pcs[i] >= own_low && (uintptr_t)pcs[i] < own_high)
		i++;
	pythons = frames_python(python, FRAMES_MOST);
	for (; i < n && count < FRAMES_MOST; i++) {
		/* Those of the interpreter stand for Python's, which come in their place. */
		if (pythons && frames_in_python((uintptr_t)pcs[i]))
			break;
		frames[count++] = (struct frame){ .pc = (uintptr_t)pcs[i] };
	}
	for (unsigned int j = 0; j < pythons && count < FRAMES_MOST; j++)
		frames[count++] = python[j];
	return count;
}

/*
 * Finds the object of a frame, the address in it as addr2line(1) wants it, and the function unless @info->dli_sname is
 * NULL. The call is in front of the address at which it goes on. A symbol that ends before it is another function's.
 */
static bool look_up(const struct frame *frame, Dl_info *info, uintptr_t *offset)
{
	uintptr_t call = frame->pc - 1;
	const struct link_map *map;
	const ElfW(Sym) *symbol;
	void *extra = NULL;

	if (!dladdr1((void *)call, info, &extra, RTLD_DL_LINKMAP))
		return false;
	map = extra;
	*offset = call - map->l_addr;
	extra = NULL;
	dladdr1((void *)call, info, &extra, RTLD_DL_SYMENT);
	symbol = extra;
	if (!symbol || call - (uintptr_t)info->dli_saddr >= symbol->st_size)
		info->dli_sname = NULL;
	return true;
}

void frames_describe(const struct frame *frame, GString *out)
{
	uintptr_t offset;
	Dl_info info;

	if (frame->text) {
		g_string_append(out, frame->text);
	} else if (!look_up(frame, &info, &offset)) {
		g_string_append_printf(out, "?? (0x%" PRIxPTR ")", frame->pc);
	} else {
		g_string_append_printf(out, "%s (%s+0x%" PRIxPTR ")", info.dli_sname ? info.dli_sname : "??",
				       info.dli_fname, offset);
	}
}

void frames_name(const struct frame *frame, GString *out)
{
	const char *slash;
	uintptr_t offset;
	Dl_info info;

	if (frame->text) {
		g_string_append(out, frame->text);
	} else if (!look_up(frame, &info, &offset)) {
		g_string_append(out, "??");
	} else if (info.dli_sname) {
		g_string_append(out, info.dli_sname);
	} else {
		slash = strrchr(info.dli_fname, '/');
		g_string_append_printf(out, "%s+0x%" PRIxPTR, slash ? slash + 1 : info.dli_fname,
				       offset);
	}
}
