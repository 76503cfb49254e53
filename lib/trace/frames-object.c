// SPDX-License-Identifier: LGPL-2.1-or-later
#define _GNU_SOURCE 1
#include <elf.h>
#include <link.h>

#include "trace/frames.h"

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
