// SPDX-License-Identifier: LGPL-2.1-or-later
/* The return of loans. */
#include "core/alias.h"
#include "core/core.h"
#include "core/loan.h"

void loan_return(struct core *core, struct region *region)
{
	struct chunk *chunk = region->chunk;
	struct region *lender = chunk->lender;
	struct stream *stream = region->stream;
	uint64_t addr = chunk->addr;
	size_t size = chunk->size;
	struct event *event;
	bool split;

	lock_assert_held(&core->lock);
	if (!lender || region->size != size)
		return;
	event = event_ref(region->event);
	region_remove_lent(&core->spans, chunk);
	split = extent_sub_live(&core->extents, addr, size);
	region_set_free(&core->regions, lender, stream, event);
	event_unref(event);
	/* As in live_leave(): an extent that is whole now must be free at one mapping. */
	if (split)
		alias_unify(core, addr, size);
}

/* Whether all of a loan is free and no event of it is pending. */
static bool chunk_is_idle(const struct chunk *chunk)
{
	for (const struct region *region = chunk->first; region; region = region->next) {
		if (region->kind != REGION_FREE || event_pending(region->event))
			return false;
	}
	return true;
}

void loan_return_all(struct core *core)
{
	struct region_map *spans = &core->spans;

	lock_assert_held(&core->lock);
	for (guint i = spans->chunks->len; i > 0; i--) {
		struct chunk *chunk = spans->chunks->pdata[i - 1];
		struct region *region = chunk->first;

		if (!chunk->lender)
			continue;
		if (region->size < chunk->size && chunk_is_idle(chunk))
			region = region_isolate(spans, chunk->addr, chunk->size);
		if (region->kind == REGION_FREE)
			loan_return(core, region);
	}
}
