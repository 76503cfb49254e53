// SPDX-License-Identifier: LGPL-2.1-or-later
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <elf.h>
#include <inttypes.h>
#include <link.h>
#include <string.h>

#include "trace/frames.h"

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

struct search {
	uintptr_t addr;
	uintptr_t low;
	uintptr_t high;
	int found;
	int number;
};

static int look_at(struct dl_phdr_info *info, size_t size, void *data)
{
	struct search *search = data;
	uintptr_t low = UINTPTR_MAX, high = 0;

	(void)size;
	for (unsigned int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type != PT_LOAD)
			continue;
		low = MIN(low, info->dlpi_addr + segment->p_vaddr);
		high = MAX(high, info->dlpi_addr + segment->p_vaddr + segment->p_memsz);
	}
	search->number++;
	if (search->addr < low || search->addr >= high)
		return 0;
	search->low = low;
	search->high = high;
	/* The program comes first. */
	search->found = search->number == 1;
	return 1;
}

int frames_object(uintptr_t addr, uintptr_t *low, uintptr_t *high)
{
	struct search search = { .addr = addr, .found = -1 };

	if (!dl_iterate_phdr(look_at, &search))
		return -1;
	*low = search.low;
	*high = search.high;
	return search.found;
}
