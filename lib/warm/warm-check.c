// SPDX-License-Identifier: LGPL-2.1-or-later
/* What a file says of memory and addresses is taken for true of none: each is checked here. */
#include <errno.h>
#include <inttypes.h>

#include "core/core.h"
#include "util/error.h"
#include "warm/warm.h"

#define CHUNKS_MOST 4096

static int check_same_pool(const struct core *core, const struct warm *warm)
{
	const struct settings *settings = &core->settings;

	if (warm->page_size != settings->page_size)
		return error_set(-EINVAL, "it is of a pool with pages of %" PRIu64 " bytes, and this one has pages of %zu",
				 warm->page_size, settings->page_size);
	if (warm->paged != settings->paged || warm->piece != core->piece)
		return error_set(-EINVAL, "it is of a pool with another VPMM_EXTENT_MAX or VPMM_SMALL");
	if (warm_bytes(warm) > settings->keep)
		return error_set(-EINVAL, "it has %" PRIu64 " bytes, and VPMM_KEEP is %" PRIu64, warm_bytes(warm),
				 settings->keep);
	if (warm_bytes(warm) / settings->page_size < settings->pages)
		return error_set(-EINVAL, "it has %" PRIu64 " bytes, and VPMM_PAGES is %zu", warm_bytes(warm),
				 settings->pages);
	return 0;
}

/* Larger counts only take time: a pool has few chunks, and its memo no more decisions. */
static int check_counts(const struct warm *warm)
{
	if (warm->chunks->len > CHUNKS_MOST)
		return error_set(-EINVAL, "it has %u ranges of addresses, and not at most %d", warm->chunks->len,
				 CHUNKS_MOST);
	if (warm->decisions->len > MEMO_MOST)
		return error_set(-EINVAL, "it has %u decisions, and not at most %d", warm->decisions->len, MEMO_MOST);
	return 0;
}

static int check_each_size(const struct core *core, const struct warm *warm)
{
	for (guint i = 0; i < warm->extents->len; i++) {
		uint64_t size = g_array_index(warm->extents, uint64_t, i);

		if (!size || size % core->settings.page_size || size > core->settings.extent_max)
			return error_set(-EINVAL, "extent %u of %" PRIu64 " bytes is none that this pool can have", i, size);
	}
	return 0;
}

static int chunks_by_address(gconstpointer a, gconstpointer b)
{
	const struct warm_chunk *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

/* They may touch, as the kernel has those that ask for no address. */
static int check_chunks(const struct core *core, const GArray *sorted)
{
	uint64_t page_size = core->settings.page_size, end = 0, found = 0;

	for (guint i = 0; i < sorted->len; i++) {
		const struct warm_chunk *chunk = &g_array_index(sorted, struct warm_chunk, i);

		if (!chunk->size || chunk->size % page_size || chunk->addr % page_size || !chunk->addr || chunk->addr < end ||
		    __builtin_add_overflow(chunk->addr, chunk->size, &end) || end > INT64_MAX)
			return error_set(-EINVAL, "the %" PRIu64 " bytes of addresses at 0x%" PRIx64
					 " are none that a plan can have", chunk->size, chunk->addr);
		found += !chunk->slabs;
	}
	return found ? 0 : error_set(-EINVAL, "it has no addresses");
}

/* Whether a range is in a chunk that is not of slabs. */
static bool is_in_chunk(const GArray *sorted, uint64_t addr, uint64_t size)
{
	guint low = 0, high = sorted->len;
	const struct warm_chunk *chunk;

	while (low < high) {
		guint middle = (low + high) / 2;

		if (g_array_index(sorted, struct warm_chunk, middle).addr <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return false;
	chunk = &g_array_index(sorted, struct warm_chunk, low - 1);
	return !chunk->slabs && addr - chunk->addr < chunk->size && size <= chunk->size - (addr - chunk->addr);
}

static int mappings_by_address(gconstpointer a, gconstpointer b)
{
	const struct warm_place *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

static int refuse_place(const struct warm_place *place)
{
	return error_set(-EINVAL, "extent %" PRIu64 " cannot be mapped at 0x%" PRIx64, place->extent, place->addr);
}

/* Each extent has one home, and no two mappings overlap. */
static int check_mappings(const struct core *core, const struct warm *warm, const GArray *chunks)
{
	GArray *sorted = g_array_copy(warm->places);
	guint8 *homes = g_new0(guint8, warm->extents->len + 1);
	uint64_t end = 0, found = 0;
	int err = 0;

	g_array_sort(sorted, mappings_by_address);
	for (guint i = 0; i < sorted->len && !err; i++) {
		const struct warm_place *place = &g_array_index(sorted, struct warm_place, i);
		uint64_t size;

		if (place->extent >= warm->extents->len) {
			err = refuse_place(place);
			break;
		}
		size = g_array_index(warm->extents, uint64_t, place->extent);
		if (place->addr % core->settings.page_size || place->addr < end || !is_in_chunk(chunks, place->addr, size) ||
		    (place->home && homes[place->extent]) || (!place->home && warm->paged))
			err = refuse_place(place);
		homes[place->extent] |= place->home;
		found += place->home;
		end = place->addr + size;
	}
	g_array_free(sorted, TRUE);
	g_free(homes);
	if (!err && found != warm->extents->len)
		err = error_set(-EINVAL, "it has %u extents and %" PRIu64 " homes", warm->extents->len, found);
	return err;
}

static int check_decisions(const struct core *core, const struct warm *warm, const GArray *chunks)
{
	for (guint i = 0; i < warm->decisions->len; i++) {
		const struct decision *decision = &g_array_index(warm->decisions, struct decision, i);

		if (decision->addr % core->piece || !is_in_chunk(chunks, decision->addr, core->piece))
			return error_set(-EINVAL, "no block can be at 0x%" PRIx64, decision->addr);
	}
	return 0;
}

int warm_check(const struct core *core, const struct warm *warm)
{
	GArray *chunks;
	int err;

	err = check_same_pool(core, warm);
	if (!err)
		err = check_counts(warm);
	if (!err)
		err = check_each_size(core, warm);
	if (err)
		return err;
	chunks = g_array_copy(warm->chunks);
	g_array_sort(chunks, chunks_by_address);
	err = check_chunks(core, chunks);
	if (!err)
		err = check_mappings(core, warm, chunks);
	if (!err)
		err = check_decisions(core, warm, chunks);
	g_array_free(chunks, TRUE);
	return err;
}
