// SPDX-License-Identifier: LGPL-2.1-or-later
/* Ordinary memory as a list of segments and blocks, from the dump of its pool. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "torch/arena.h"
#include "torch/books.h"
#include "torch/ordinary.h"
#include "torch/torch.h"

/* The segment that is being listed. */
struct run {
	struct pieces *pieces;
	size_t head;		/* its place in the list */
	uint64_t end;		/* 0: there is none yet */
};

int64_t ordinary_small(int device, int64_t bytes)
{
	int64_t blocks[TORCH_KINDS], unit = (int64_t)arena_segment_size(1), small, most;

	books_ordinary(device, blocks);
	small = (blocks[TORCH_SMALL] + unit - 1) / unit * unit;
	most = bytes - blocks[TORCH_LARGE];
	if (small > most)
		small = most;
	return small > 0 ? small : 0;
}

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
	piece->large = arena_is_large(entry.size);
	piece->requested = entry.requested;
	piece->stream = entry.stream;
	return true;
}

static void read_line(struct pieces *regions, int device, const char *line)
{
	struct torch_piece piece = { .device = device, .large = 1, .grows = 1 };
	char kind[16];

	if (sscanf(line, "  0x%" SCNx64 " %" SCNu64 " %15s", &piece.addr, &piece.size, kind) != 3 ||
	    (strcmp(kind, "malloc") && strcmp(kind, "free")))
		return;
	if (region_judge(&piece, *kind == 'm'))
		pieces_add(regions, &piece);
}

static int read_dump(struct pieces *regions, int device)
{
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
		read_line(regions, device, line);
	}
	free(text);
	return err ? err : regions->failed ? -ENOMEM : 0;
}

/* A part of @size bytes, and before it a segment's head, unless it goes on with the one before. */
static void run_add(struct run *run, const struct torch_piece *region, uint64_t size)
{
	struct torch_piece part = *region, head = {
		.addr = region->addr, .device = region->device, .large = region->large, .grows = 1, .segment = 1,
	};

	if (!size || run->pieces->failed)
		return;
	if (part.addr != run->end || part.large != run->pieces->all[run->head].large) {
		run->head = run->pieces->count;
		pieces_add(run->pieces, &head);
	}
	part.size = size;
	pieces_add(run->pieces, &part);
	if (!run->pieces->failed)
		run->pieces->all[run->head].size += size;
	run->end = part.addr + size;
}

/* Of what no block of the program has, which is free or others', @small bytes are listed as small blocks' memory. */
static void list_regions(struct pieces *pieces, const struct pieces *regions, int64_t small)
{
	struct run run = { .pieces = pieces };
	struct torch_piece region;
	uint64_t part;
	size_t i;

	for (i = 0; i < regions->count; i++) {
		region = regions->all[i];
		if (!region.allocated && small > 0) {
			part = (uint64_t)small < region.size ? (uint64_t)small : region.size;
			region.large = 0;
			run_add(&run, &region, part);
			region.addr += part;
			region.size -= part;
			region.large = 1;
			small -= (int64_t)part;
		}
		run_add(&run, &region, region.size);
	}
}

int ordinary_list(struct pieces *pieces, int device)
{
	struct pieces regions = { 0 };
	int64_t bytes = 0, small = 0;
	size_t i;
	int err = read_dump(&regions, device);

	for (i = 0; i < regions.count; i++) {
		bytes += (int64_t)regions.all[i].size;
		small += regions.all[i].large ? 0 : (int64_t)regions.all[i].size;
	}
	if (!err)
		list_regions(pieces, &regions, ordinary_small(device, bytes) - small);
	free(regions.all);
	return err ? err : pieces->failed ? -ENOMEM : 0;
}
