// SPDX-License-Identifier: LGPL-2.1-or-later
/* Ordinary memory as a list of segments and blocks, from the dump of its pool. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "torch/books.h"
#include "torch/ordinary.h"
#include "torch/pools.h"
#include "torch/torch.h"

/* A stretch of address space with memory in it, as far as it has been read. */
struct run {
	struct pieces *pieces;
	size_t head;		/* its place in the list */
	uint64_t end;		/* 0: none is open */
	int device;
};

/* What a region of the dump is to the program. A segment of a pool is none of ordinary memory. */
static bool region_judge(struct torch_piece *piece, bool is_allocated)
{
	struct entry entry;

	if (!is_allocated)
		return true;
	if (!books_find((void *)(uintptr_t)piece->addr, &entry)) {
		piece->active = 1;
		return !pools_has_segment(piece->device, piece->addr);
	}
	if (entry.part)
		return false;
	piece->allocated = piece->active = 1;
	piece->requested = entry.requested;
	piece->stream = entry.stream;
	return true;
}

static void run_add(struct run *run, uint64_t addr, uint64_t size, bool is_allocated)
{
	struct torch_piece piece = {
		.addr = addr, .size = size, .device = run->device, .large = 1, .grows = 1,
	};
	struct torch_piece head = piece;

	if (!region_judge(&piece, is_allocated)) {
		run->end = 0;
		return;
	}
	if (addr != run->end) {
		head.segment = 1;
		head.size = 0;
		run->head = run->pieces->count;
		pieces_add(run->pieces, &head);
	}
	pieces_add(run->pieces, &piece);
	if (!run->pieces->failed)
		run->pieces->all[run->head].size += size;
	run->end = addr + size;
}

static void read_line(struct run *run, const char *line)
{
	uint64_t addr, size;
	char kind[16];

	if (sscanf(line, "  0x%" SCNx64 " %" SCNu64 " %15s", &addr, &size, kind) != 3) {
		run->end = 0;
		return;
	}
	if (strcmp(kind, "malloc") == 0 || strcmp(kind, "free") == 0)
		run_add(run, addr, size, *kind == 'm');
	else
		run->end = 0;
}

int ordinary_list(struct pieces *pieces, int device)
{
	struct run run = { .pieces = pieces, .device = device };
	char *text = NULL, *line, *rest;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);
	int err;

	if (!out)
		return -ENOMEM;
	err = vpmm_torch_dump(device, out);
	if (fclose(out) && !err)
		err = -ENOMEM;
	for (line = text; !err && line && *line; line = rest) {
		rest = strchrnul(line, '\n');
		if (*rest)
			*rest++ = '\0';
		read_line(&run, line);
	}
	free(text);
	return err ? err : pieces->failed ? -ENOMEM : 0;
}
