// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The invariants of shared ranges: each page has the memory that its state says, each piece of memory is a page's,
 * kept, or what empty pages read, and the sums are those of the statistics.
 */
#include <errno.h>
#include <inttypes.h>

#include "shared/shared.h"
#include "util/error.h"
#include "util/held.h"

/* Bytes on the device and on the host. */
struct sums {
	uint64_t used[2];
	uint64_t kept[2];
	uint64_t duplicates;
};

static int check_page(const struct range *range, size_t index, struct sums *sums)
{
	const struct page *page = &range->pages[index];
	const struct piece *piece = page->piece, *duplicate = page->duplicate;

	if (piece ? page->state != (piece->host ? PAGE_HOST : PAGE_DEVICE) || piece->size != range->page_size :
	    page->state != PAGE_EMPTY)
		return error_set(-EUCLEAN, "the page at %#" PRIx64 " is in state %d with %s memory",
				 page_at(range, index), page->state, !piece ? "no" : piece->host ? "host" : "device");
	if (duplicate ? page->state != PAGE_DEVICE || !duplicate->host || duplicate->size != range->page_size :
	    page->readable)
		return error_set(-EUCLEAN, "the page at %#" PRIx64 " is in state %d with %s duplicate",
				 page_at(range, index), page->state, duplicate ? "a" : "no");
	if (duplicate && page->advice != VPMM_ADVISE_READ_MOSTLY)
		return error_set(-EUCLEAN, "the page at %#" PRIx64 " has a duplicate without the advice",
				 page_at(range, index));
	if (piece)
		sums->used[!piece->host] += piece->size;
	if (duplicate) {
		sums->used[VPMM_HOST] += duplicate->size;
		sums->duplicates += duplicate->size;
	}
	return 0;
}

static int bound(uint64_t there, uint64_t most, const char *what)
{
	return there <= most ? 0 : error_set(-EUCLEAN, "bytes of %s of shared ranges: %" PRIu64 " are in use, %" PRIu64
					     " are counted", what, there, most);
}

static int expect_shared(uint64_t there, uint64_t counted, const char *what)
{
	return there == counted ? 0 : error_set(-EUCLEAN, "bytes of %s of shared ranges: %" PRIu64 " are there, %"
						PRIu64 " are counted", what, there, counted);
}

static int check_all(const struct shared *shared)
{
	const struct vpmm_shared_stats *stats = &shared->stats;
	struct sums sums = { 0 };
	int err = 0;

	for (guint i = 0; i < shared->ranges->len; i++) {
		const struct range *range = shared->ranges->pdata[i];

		for (size_t page = 0; page < range->count && !err; page++)
			err = check_page(range, page, &sums);
	}
	for (guint i = 0; i < shared->zeros->len; i++)
		sums.used[VPMM_DEVICE] += ((struct piece *)shared->zeros->pdata[i])->size;
	for (int where = 0; where < 2; where++) {
		for (const struct piece *piece = shared->kept[where]; piece; piece = piece->next)
			sums.kept[where] += piece->size;
	}
	if (!err)
		err = expect_shared(sums.kept[VPMM_DEVICE], stats->device_unused, "unused device memory");
	if (!err)
		err = expect_shared(sums.kept[VPMM_HOST], stats->host_unused, "unused host memory");
	if (!err)
		err = expect_shared(sums.duplicates, stats->duplicates, "duplicates");
	if (!err)
		err = bound(sums.used[VPMM_DEVICE] + stats->device_unused, stats->device, "device memory");
	if (!err)
		err = bound(sums.used[VPMM_HOST] + stats->host_unused, stats->host, "host memory");
	return err;
}

/* A piece that a call has taken for a page is none of these for a while, so the sums are bounds. */
static int check_shared(struct shared *shared)
{
	int err;

	lock_assert_held(&shared->core->lock);
	lock_acquire(&shared->mover);
	lock_acquire(&shared_lock);
	err = shared->renewing ? 0 : check_all(shared);
	/* Of another call it may be on its way. */
	if (!err)
		err = (shared->holds > 1 ? bound : expect_shared)(shared->stats.device, shared->core->shared,
								  "device memory under the limit");
	lock_release(&shared_lock);
	lock_release(&shared->mover);
	return err;
}

int shared_check(struct shared **at)
{
	struct shared *shared;
	struct held held;
	int err = 0;

	if (!g_atomic_pointer_get(at))
		return 0;
	held_begin(&held);
	shared = shared_hold(at);
	if (shared) {
		err = check_shared(shared);
		shared_drop(shared);
	}
	held_end(&held);
	return err;
}
