// SPDX-License-Identifier: LGPL-2.1-or-later
/* Sizes and rules are those that PyTorch's own allocator shows in its snapshots. */
#include <errno.h>
#include <stdlib.h>

#include "torch/arena.h"

#define UNIT 512
#define SMALL_MOST (UINT64_C(1) << 20)
#define SMALL_SEGMENT (UINT64_C(2) << 20)
#define LARGE_LEAST (UINT64_C(10) << 20)
#define LARGE_SEGMENT (UINT64_C(20) << 20)

uint64_t arena_round(uint64_t size)
{
	return size ? (size + UNIT - 1) / UNIT * UNIT : UNIT;
}

bool arena_is_large(uint64_t size)
{
	return size > SMALL_MOST;
}

uint64_t arena_segment_size(uint64_t size)
{
	if (!arena_is_large(size))
		return SMALL_SEGMENT;
	if (size < LARGE_LEAST)
		return LARGE_SEGMENT;
	return (size + SMALL_SEGMENT - 1) / SMALL_SEGMENT * SMALL_SEGMENT;
}

static struct part **free_list(const struct segment *segment)
{
	return &segment->arena->free[segment->large];
}

static void list_free(struct part *part)
{
	struct part **first = free_list(part->segment);

	part->free_before = NULL;
	part->free_after = *first;
	if (*first)
		(*first)->free_before = part;
	*first = part;
}

static void unlist_free(struct part *part)
{
	if (part->free_before)
		part->free_before->free_after = part->free_after;
	else
		*free_list(part->segment) = part->free_after;
	if (part->free_after)
		part->free_after->free_before = part->free_before;
}

/* Of equal sizes, the lowest address. */
static bool is_better(const struct part *part, const struct part *best)
{
	return !best || part->size < best->size || (part->size == best->size && part->addr < best->addr);
}

struct part *arena_find(const struct arena *arena, uint64_t size, struct CUstream_st *stream, uint32_t tag)
{
	struct part *best = NULL, *part;

	for (part = arena->free[arena_is_large(size)]; part; part = part->free_after)
		if (part->size >= size && part->segment->stream == stream && part->segment->tag == tag &&
		    is_better(part, best))
			best = part;
	return best;
}

struct segment *arena_add(struct arena *arena, uint64_t addr, uint64_t size, bool large, struct CUstream_st *stream,
			  uint32_t tag)
{
	struct segment *segment = malloc(sizeof(*segment));
	struct part *part = malloc(sizeof(*part));

	if (!segment || !part) {
		free(segment);
		free(part);
		return NULL;
	}
	*segment = (struct segment){ arena->segments, arena, part, addr, size, stream, tag, large };
	*part = (struct part){ .addr = addr, .size = size, .segment = segment };
	arena->segments = segment;
	list_free(part);
	return segment;
}

bool arena_is_idle(const struct segment *segment)
{
	return !segment->first->active && !segment->first->after;
}

void arena_remove(struct arena *arena, struct segment *segment)
{
	struct segment **at = &arena->segments;

	while (*at != segment)
		at = &(*at)->next;
	*at = segment->next;
	unlist_free(segment->first);
	free(segment->first);
	free(segment);
}

uint64_t arena_split(const struct part *part)
{
	return part && !part->active && (part->before || part->after) ? part->size : 0;
}

/* Cuts a part in two; the upper one is in no list. */
static struct part *part_split(struct part *part, uint64_t size)
{
	struct part *rest = malloc(sizeof(*rest));

	if (!rest)
		return NULL;
	*rest = (struct part){
		.addr = part->addr + size, .size = part->size - size, .segment = part->segment,
		.before = part, .after = part->after,
	};
	if (rest->after)
		rest->after->before = rest;
	part->after = rest;
	part->size = size;
	return rest;
}

static bool part_leaves_rest(const struct part *part, uint64_t size)
{
	uint64_t rest = part->size - size;

	if (part->segment->arena->whole)
		return false;
	return part->segment->large ? rest > SMALL_MOST : rest >= UNIT;
}

bool arena_take(struct part *part, uint64_t size, uint64_t requested)
{
	struct part *rest = NULL;

	if (part_leaves_rest(part, size)) {
		rest = part_split(part, size);
		if (!rest)
			return false;
	}
	unlist_free(part);
	if (rest)
		list_free(rest);
	part->allocated = part->active = true;
	part->requested = requested;
	return true;
}

void arena_use(struct part *part, struct CUstream_st *stream)
{
	struct CUstream_st **users;
	size_t i;

	if (stream == part->segment->stream || part->user_count == USERS_UNKNOWN)
		return;
	for (i = 0; i < part->user_count; i++)
		if (part->users[i] == stream)
			return;
	users = realloc(part->users, (part->user_count + 1) * sizeof(struct CUstream_st *));
	if (!users) {
		free(part->users);
		part->users = NULL;
		part->user_count = USERS_UNKNOWN;
		return;
	}
	users[part->user_count++] = stream;
	part->users = users;
}

void arena_release(struct part *part)
{
	part->allocated = false;
	part->requested = 0;
}

/* The upper of two parts that are next to each other goes into the lower. */
static void part_merge(struct part *lower)
{
	struct part *upper = lower->after;

	lower->size += upper->size;
	lower->after = upper->after;
	if (upper->after)
		upper->after->before = lower;
	free(upper);
}

void arena_free(struct part *part)
{
	struct part *before = part->before;

	arena_release(part);
	part->active = false;
	free(part->users);
	part->users = NULL;
	part->user_count = 0;
	if (part->after && !part->after->active) {
		unlist_free(part->after);
		part_merge(part);
	}
	if (before && !before->active) {
		part_merge(before);
		return;
	}
	list_free(part);
}

bool arena_fits(const struct segment *segment, const struct torch_piece *pieces, size_t count)
{
	uint64_t at = segment->addr;
	size_t i;

	for (i = 0; i < count; i++) {
		if (pieces[i].addr != at || !pieces[i].size || pieces[i].segment)
			return false;
		at += pieces[i].size;
	}
	return count && at == segment->addr + segment->size;
}

int arena_cut(struct segment *segment, const struct torch_piece *pieces, size_t count)
{
	struct part *part = segment->first;
	size_t i;

	if (!arena_is_idle(segment) || !arena_fits(segment, pieces, count))
		return -EINVAL;
	unlist_free(part);
	for (i = 0; i + 1 < count; i++, part = part->after)
		if (!part_split(part, pieces[i].size))
			goto undo;
	for (i = 0, part = segment->first; i < count; i++, part = part->after) {
		part->allocated = part->active = pieces[i].allocated;
		part->requested = pieces[i].allocated ? pieces[i].requested : 0;
	}
	/* A block that was freed but in use is free now, and so may be what is next to it. */
	for (part = segment->first; part; part = part->after) {
		while (!part->active && part->after && !part->after->active)
			part_merge(part);
		if (!part->active)
			list_free(part);
	}
	return 0;
undo:
	while (segment->first->after)
		part_merge(segment->first);
	list_free(segment->first);
	return -ENOMEM;
}
