// SPDX-License-Identifier: LGPL-2.1-or-later
/* What the device has at the addresses of a page. */
#include "shared/there.h"
#include "util/error.h"

static int unmap_there(struct range *range, size_t index)
{
	struct page *page = &range->pages[index];
	int err;

	if (page->unmapped)
		return 0;
	err = range_ops(range)->unmap(range_backend(range), page_va(range, index), range->page_size, NULL);
	page->unmapped = !err;
	return err;
}

/* What fails half way is unmapped, or if even that fails, by whoever maps something there next. */
static int map_there(struct range *range, size_t index, const struct piece *piece)
{
	const struct piece *memory = piece ? piece : range->zero;
	uint64_t va = page_va(range, index);
	int err;

	err = unmap_there(range, index);
	if (!err)
		err = range_ops(range)->map(range_backend(range), va, range->page_size, memory->handle);
	if (err)
		return err;
	range->pages[index].unmapped = false;
	err = piece ? range_ops(range)->access(range_backend(range), va, range->page_size) :
	      range_ops(range)->access_read(range_backend(range), va, range->page_size);
	if (err && unmap_there(range, index))
		unmap_there(range, index);
	return err;
}

/* Whether the device has something else there than what the page has. */
static void set_wrong(struct range *range, size_t index, bool wrong)
{
	struct page *page = &range->pages[index];

	lock_assert_held(&range->shared->mover);
	if (page->wrong != wrong)
		range->wrong += wrong ? 1 : SIZE_MAX;
	page->wrong = wrong;
}

void there_mapped(struct range *range, size_t index)
{
	set_wrong(range, index, false);
}

void there_restore(struct range *range, size_t index)
{
	const struct piece *piece = range->pages[index].piece;
	struct error_kept kept;

	error_keep(&kept);
	set_wrong(range, index, map_there(range, index, piece) && map_there(range, index, piece));
	error_restore(&kept);
}

int there_remap(struct range *range, size_t index, const struct piece *piece)
{
	int err;

	err = unmap_there(range, index);
	if (err)
		return err;
	err = map_there(range, index, piece);
	if (err)
		there_restore(range, index);
	return err;
}

void there_mend(struct range *range)
{
	struct error_kept kept;

	error_keep(&kept);
	for (size_t i = 0; i < range->count && range->wrong; i++) {
		if (range->pages[i].wrong && !map_there(range, i, range->pages[i].piece))
			set_wrong(range, i, false);
	}
	error_restore(&kept);
}
