// SPDX-License-Identifier: LGPL-2.1-or-later
/* vpmm_migrate(), vpmm_fault(), vpmm_locate(), vpmm_advise(), vpmm_pin(), and what goes when memory runs out. */
#include <errno.h>
#include <inttypes.h>

#include "shared/gates.h"
#include "shared/migrate.h"
#include "shared/move.h"
#include "shared/piece.h"
#include "shared/touch.h"
#include "util/clock.h"
#include "util/error.h"

/* The pages of one call: the next one, the end, and up to where those that are skipped have been counted. */
struct span {
	struct range *range;
	size_t first;
	size_t end;
	size_t counted;
};

static int find_span(struct shared *shared, uint64_t addr, size_t size, struct span *span)
{
	struct range *range;

	lock_assert_held(&shared_lock);
	range = shared_find(addr);
	if (!range || range->shared != shared || range->going || !size || size > range->size - (addr - range->at))
		return error_set(-EINVAL, "%zu bytes at %#" PRIx64 " are not in one shared range of the"
				 " pool", size, addr);
	span->range = range;
	span->first = (addr - range->at) / range->page_size;
	span->end = (addr - range->at + size - 1) / range->page_size + 1;
	return 0;
}

/* From the look-up on, so that the range stays while no lock is held. */
static int hold_span(struct shared *shared, uint64_t addr, size_t size, struct span *span)
{
	int err;

	lock_acquire(&shared_lock);
	err = find_span(shared, addr, size, span);
	if (!err)
		span->range->holds++;
	lock_release(&shared_lock);
	return err;
}

/* Each time that the mover is taken for a range that is held. */
static int check_there(const struct range *range)
{
	lock_assert_held(&range->shared->mover);
	return range->going ? error_set(-EINVAL, "the shared range at %#" PRIx64 " was freed meanwhile",
					range->at) : 0;
}

/* Whether an advice or a pin keeps it on the host. */
static bool is_bound_to_host(const struct page *page)
{
	return page->advice == VPMM_ADVISE_PREFER_HOST || page->pins;
}

/* Whether a page can go; @there: it is there already, or another pass of the call is for it. */
static bool can_migrate(const struct page *page, const struct migration *want, bool *there)
{
	*there = page->state == (want->to == VPMM_DEVICE ? PAGE_DEVICE : PAGE_HOST) ||
		 (want->only_empty && page->state != PAGE_EMPTY) ||
		 (want->fill && want->to == VPMM_DEVICE && page->state == PAGE_EMPTY && is_bound_to_host(page));
	if (*there || (page->state == PAGE_EMPTY && !want->fill))
		return false;
	return want->to != VPMM_DEVICE || !is_bound_to_host(page);
}

/* The next pages that can go. */
static void choose_pages(struct batch *batch, const struct migration *want, struct span *span, uint64_t *skipped)
{
	size_t most = batch_most(batch->range);
	bool there;

	batch->count = 0;
	lock_acquire(&shared_lock);
	for (; span->first < span->end && batch->count < most; span->first++) {
		if (can_migrate(&batch->range->pages[span->first], want, &there))
			batch->index[batch->count++] = span->first;
		else
			*skipped += !there && span->first >= span->counted;
	}
	span->counted = MAX(span->counted, span->first);
	lock_release(&shared_lock);
}

/*
 * Host memory gets its view back when there is time, on another thread; but the driver's calls exclude each other, and
 * one of those takes as long as many of a move to the device, which needs no host memory. So they wait for its end,
 * unless pages have to go to the host for it.
 */
static void enter_quiet(struct batch *batch)
{
	if (batch->to != VPMM_DEVICE)
		return;
	batch->quiet = true;
	shared_count(&batch->range->shared->quiet, 1);
}

static void leave_quiet(struct batch *batch)
{
	if (!batch->quiet)
		return;
	batch->quiet = false;
	shared_count(&batch->range->shared->quiet, -1);
	touch_nudge();
}

/* Memory for the batch: what cannot be had otherwise, pages of other calls give. */
static int take_device(struct batch *batch, struct piece **list)
{
	struct shared *shared = batch->range->shared;
	size_t size = batch->range->page_size, wanted = batch->count;
	struct piece *more;
	int err;

	*list = NULL;
	do {
		err = piece_take_device(shared, size, wanted, &more);
		while (more) {
			struct piece *next = more->next;

			more->next = *list;
			*list = more;
			more = next;
			wanted--;
		}
		if (err == -ENOMEM)
			leave_quiet(batch);
	} while (err == -ENOMEM && migrate_evict(shared, wanted * size, batch->call) >= size);
	return err;
}

static int take_duplicate(struct shared *shared, size_t size, struct piece **piece)
{
	int err;

	lock_acquire(&shared->mover);
	err = move_take_host(shared, size, piece);
	lock_release(&shared->mover);
	return err;
}

static int take_host(struct batch *batch, struct piece **list)
{
	struct shared *shared = batch->range->shared;
	size_t size = batch->range->page_size, single = batch_single(batch);
	struct piece *piece;
	int err = 0;

	*list = NULL;
	for (size_t i = 0; i < single && !err; i++) {
		err = piece_take_host(shared, size, &piece);
		if (err == -ENOMEM)
			err = take_duplicate(shared, size, &piece);
		if (err)
			break;
		piece->next = *list;
		*list = piece;
	}
	return err;
}

/*
 * What has changed since the pages were chosen is left out; the rest get a piece each, as far as there are any, or up
 * to the first that there is none for, which is told.
 */
static size_t hand_out(struct batch *batch, const struct migration *want, struct piece **list, bool all,
		       uint64_t *skipped, uint64_t *lacking)
{
	size_t left = 0, first = 0;
	bool there, can;

	for (size_t i = 0; i < batch->count && (all || !*lacking); i++) {
		size_t index = batch->index[i];

		lock_acquire(&shared_lock);
		can = can_migrate(&batch->range->pages[index], want, &there);
		lock_release(&shared_lock);
		*skipped += !can && !there;
		if (!can)
			continue;
		if (batch_take(batch, left, index, list))
			left++;
		else if (!(*lacking)++)
			first = index;
	}
	batch->count = left;
	return first;
}

static int move_batch(struct batch *batch, const struct migration *want, struct span *span, uint64_t *skipped)
{
	struct shared *shared = batch->range->shared;
	uint64_t lacking = 0;
	struct piece *list;
	size_t first = 0;
	int lack, err;

	lack = want->to == VPMM_DEVICE ? take_device(batch, &list) : take_host(batch, &list);
	batch->moved = 0;
	lock_acquire(&shared->mover);
	err = check_there(batch->range);
	if (!err && (!lack || lack == -ENOMEM))
		first = hand_out(batch, want, &list, lack, skipped, &lacking);
	else
		batch->count = 0;
	/* A duplicate that was counted on has gone meanwhile. */
	if (!lack && lacking)
		span->first = first;
	else if (!want->fill)
		*skipped += lacking;
	if (batch->count) {
		err = batch_move(batch);
		*skipped += err && (err != -ENOMEM || want->fill) ? 0 : batch->count - batch->moved;
	}
	batch_keep(batch);
	lock_release(&shared->mover);
	piece_keep_all(shared, list);
	return err ? err : lack;
}

static int begin_migration(struct shared *shared, const struct migration *want, struct span *span)
{
	int err = 0;

	if (want->streamed)
		err = gates_check(shared, want->stream);
	if (err)
		return err;
	err = hold_span(shared, want->addr, want->size, span);
	if (err)
		return err;
	/*
	 * While pages move the gate is closed without this stream, and no page of the call may make it wait. And a page
	 * that is on its way, behind a touch that has gone on, must have got there before it is looked at.
	 */
	lock_acquire(&shared->mover);
	err = check_there(span->range);
	lock_acquire(&shared_lock);
	if (!err && want->streamed)
		err = gates_add(span->range, want->stream);
	lock_release(&shared_lock);
	lock_release(&shared->mover);
	if (err)
		shared_count(&span->range->holds, -1);
	return err;
}

static int move_pages(struct shared *shared, const struct migration *want)
{
	/* The caller's may be on a page that moves, and with the mover held nobody would serve its touch. */
	struct vpmm_migrate_ops ops = want->ops ? *want->ops : (struct vpmm_migrate_ops){ 0 };
	struct batch batch = { .to = want->to, .ops = want->ops ? &ops : NULL, .data = want->data };
	uint64_t begun = clock_ns(), skipped = 0;
	struct span span = { 0 };
	size_t moved = 0;
	int err;

	err = begin_migration(shared, want, &span);
	if (err)
		return err;
	lock_acquire(&shared_lock);
	batch.call = ++shared->calls;
	/* Those that are there already count, too: what the call brings must not push them out. */
	for (size_t i = span.first; i < span.end && want->to == VPMM_DEVICE; i++)
		span.range->pages[i].call = batch.call;
	lock_release(&shared_lock);
	batch.range = span.range;
	enter_quiet(&batch);
	do {
		choose_pages(&batch, want, &span, &skipped);
		if (batch.count)
			err = move_batch(&batch, want, &span, &skipped);
		moved += batch.count ? batch.moved : 0;
		/* Without memory for some, there is none for the rest: that is no error of a migration. */
		if (err == -ENOMEM && !want->fill) {
			skipped += span.end - span.first;
			span.first = span.end;
			err = 0;
		}
	} while (!err && span.first < span.end);
	leave_quiet(&batch);
	shared_count(&span.range->holds, -1);
	if (want->to == VPMM_DEVICE)
		piece_trim_host(shared, shared->host_keep);
	if (want->moved)
		*want->moved += moved;
	lock_acquire(&shared_lock);
	shared->stats.skipped += skipped;
	shared->stats.migrate_ns += clock_ns() - begun;
	lock_release(&shared_lock);
	return err ? err : (int)MIN(moved, INT_MAX);
}

int migrate_pages(struct shared *shared, const struct migration *want)
{
	struct migration rest = *want;
	int moved, filled;

	moved = move_pages(shared, want);
	if (moved < 0 || !want->fill || want->to != VPMM_DEVICE)
		return moved;
	/* A kernel may write to those too that an advice keeps on the host. */
	rest.to = VPMM_HOST;
	rest.only_empty = true;
	filled = move_pages(shared, &rest);
	return filled < 0 ? filled : (int)MIN((size_t)moved + (size_t)filled, INT_MAX);
}

size_t migrate_missing(struct shared *shared, const struct migration *want)
{
	struct span span = { 0 };
	size_t bytes = 0;
	bool there;

	lock_acquire(&shared_lock);
	if (!find_span(shared, want->addr, want->size, &span)) {
		for (; span.first < span.end; span.first++)
			bytes += can_migrate(&span.range->pages[span.first], want, &there) ? span.range->page_size : 0;
	}
	lock_release(&shared_lock);
	return bytes;
}

/* Whether the clock takes a page when it comes by for the @round-th time. */
static bool is_cold(struct page *page, int round, uint64_t call)
{
	bool was = page->recent;

	if (page->state != PAGE_DEVICE || (call && page->call == call))
		return false;
	page->recent = false;
	if (page->advice == VPMM_ADVISE_PREFER_DEVICE && round < 2)
		return false;
	return !was;
}

/* The clock goes over all pages, at most three times round: pages that are called recent, those that are preferred. */
static bool choose_cold(struct shared *shared, struct batch *batch, uint64_t bytes, uint64_t call)
{
	struct range *range;
	size_t most;

	batch->range = NULL;
	batch->count = 0;
	lock_acquire(&shared_lock);
	for (guint looked = 0; looked <= shared->ranges->len * 3 && shared->ranges->len; looked++) {
		shared->clock_range %= shared->ranges->len;
		range = shared->ranges->pdata[shared->clock_range];
		most = MIN(batch_most(range), (bytes + range->page_size - 1) / range->page_size);
		for (; shared->clock_page < range->count && batch->count < most; shared->clock_page++) {
			if (is_cold(&range->pages[shared->clock_page], (int)(looked / shared->ranges->len), call))
				batch->index[batch->count++] = shared->clock_page;
		}
		if (batch->count) {
			batch->range = range;
			break;
		}
		shared->clock_page = 0;
		shared->clock_range++;
	}
	lock_release(&shared_lock);
	return batch->count;
}

uint64_t migrate_evict(struct shared *shared, uint64_t bytes, uint64_t call)
{
	struct batch batch = { .to = VPMM_HOST };
	struct error_kept kept;
	uint64_t freed = 0;
	bool going = true;

	error_keep(&kept);
	while (going && freed < bytes) {
		lock_acquire(&shared->mover);
		going = choose_cold(shared, &batch, bytes - freed, call) && !batch_take_host(&batch);
		if (going) {
			going = !batch_move(&batch);
			batch_keep(&batch);
			freed += batch.moved * batch.range->page_size;
			lock_acquire(&shared_lock);
			shared->stats.evicted += batch.moved;
			lock_release(&shared_lock);
		}
		lock_release(&shared->mover);
	}
	error_restore(&kept);
	return freed;
}

int migrate_locate(struct shared *shared, uint64_t addr, size_t size, struct vpmm_page **pages)
{
	struct span span;
	int count;

	lock_acquire(&shared_lock);
	count = find_span(shared, addr, size, &span);
	if (!count)
		count = (int)MIN(span.end - span.first, INT_MAX);
	if (count > 0 && pages)
		*pages = g_new0(struct vpmm_page, count);
	for (int i = 0; i < count && pages; i++) {
		const struct page *page = &span.range->pages[span.first + (size_t)i];

		(*pages)[i] = (struct vpmm_page){
			.addr = (void *)(uintptr_t)page_at(span.range, span.first + (size_t)i),
			.size = span.range->page_size,
			.location = page->state == PAGE_DEVICE ? VPMM_DEVICE : VPMM_HOST,
			.flags = (page->state == PAGE_EMPTY ? VPMM_PAGE_EMPTY : 0) |
				 (page->moving ? VPMM_PAGE_MOVING : 0) |
				 (page->advice == VPMM_ADVISE_PREFER_HOST ? VPMM_PAGE_PREFER_HOST : 0) |
				 (page->advice == VPMM_ADVISE_PREFER_DEVICE ? VPMM_PAGE_PREFER_DEVICE : 0) |
				 (page->advice == VPMM_ADVISE_READ_MOSTLY ? VPMM_PAGE_READ_MOSTLY : 0) |
				 (page->duplicate ? VPMM_PAGE_DUPLICATE : 0) |
				 (page->pins ? VPMM_PAGE_PINNED : 0),
			.sequence = page->sequence,
		};
	}
	lock_release(&shared_lock);
	return count;
}

REQUIRES(shared_lock)
static void set_advice(const struct span *span, enum vpmm_advice advice)
{
	for (size_t i = span->first; i < span->end; i++) {
		span->range->pages[i].advice = (uint8_t)advice;
		span->range->pages[i].recent = true;
	}
}

REQUIRES(shared_lock)
static bool is_read_mostly(const struct span *span)
{
	for (size_t i = span->first; i < span->end; i++) {
		if (span->range->pages[i].advice == VPMM_ADVISE_READ_MOSTLY)
			return true;
	}
	return false;
}

/*
 * With the mover: what was submitted before the advice may write, and is complete when the next move makes a duplicate;
 * and what is submitted after it was taken back may write, so there is none any more.
 */
static int advise_slowly(const struct span *span, enum vpmm_advice advice)
{
	int err = 0;

	lock_assert_held(&span->range->shared->mover);
	if (advice != VPMM_ADVISE_READ_MOSTLY) {
		for (size_t i = span->first; i < span->end && !err; i++)
			err = move_uncopy(span->range, i);
		for (size_t i = span->first; i < span->end && !err; i++)
			move_single(span->range, i);
	}
	if (err)
		return err;
	lock_acquire(&shared_lock);
	set_advice(span, advice);
	lock_release(&shared_lock);
	return 0;
}

/* What were duplicates is unused. Where the device is gone, so is the memory. */
static void trim_host(struct shared *shared)
{
	struct backend *be = shared->core->backend;
	struct error_kept kept;

	error_keep(&kept);
	if (!be->ops->enter(be)) {
		piece_trim_host(shared, shared->host_keep);
		be->ops->leave(be);
	}
	error_restore(&kept);
}

int migrate_advise(struct shared *shared, uint64_t addr, size_t size, enum vpmm_advice advice)
{
	struct span span = { 0 };
	bool slowly;
	int err;

	lock_acquire(&shared_lock);
	err = find_span(shared, addr, size, &span);
	slowly = !err && (advice == VPMM_ADVISE_READ_MOSTLY || is_read_mostly(&span));
	if (!err && !slowly)
		set_advice(&span, advice);
	lock_release(&shared_lock);
	if (!slowly)
		return err;
	lock_acquire(&shared->mover);
	lock_acquire(&shared_lock);
	err = find_span(shared, addr, size, &span);
	lock_release(&shared_lock);
	if (!err)
		err = advise_slowly(&span, advice);
	lock_release(&shared->mover);
	if (!err && advice != VPMM_ADVISE_READ_MOSTLY)
		trim_host(shared);
	return err;
}

static void add_pins(const struct span *span)
{
	lock_acquire(&shared_lock);
	for (size_t i = span->first; i < span->end; i++)
		span->range->pages[i].pins++;
	lock_release(&shared_lock);
}

int migrate_unpin(struct shared *shared, uint64_t addr, size_t size)
{
	struct span span = { 0 };
	int err;

	lock_acquire(&shared_lock);
	err = find_span(shared, addr, size, &span);
	for (size_t i = span.first; !err && i < span.end; i++) {
		if (!span.range->pages[i].pins)
			err = error_set(-EINVAL, "the page at %#" PRIx64 " is not pinned",
					page_at(span.range, i));
	}
	for (size_t i = span.first; !err && i < span.end; i++)
		span.range->pages[i].pins--;
	lock_release(&shared_lock);
	return err;
}

/* A touch that who accesses the memory does not make would not bring the view back. */
static int show_hidden(const struct span *span)
{
	int err;

	lock_acquire(&span->range->shared->mover);
	err = check_there(span->range);
	for (size_t i = span->first; i < span->end && !err; i++) {
		if (span->range->pages[i].hidden)
			err = move_show(span->range, i);
	}
	lock_release(&span->range->shared->mover);
	return err;
}

/* First they are kept there, and then they go there. What is on its way to the device has got there in between. */
int migrate_pin(struct shared *shared, uint64_t addr, size_t size)
{
	const struct migration want = { .addr = addr, .size = size, .to = VPMM_HOST, .fill = true };
	struct error_kept kept;
	struct span span;
	int err;

	err = hold_span(shared, addr, size, &span);
	if (err)
		return err;
	lock_acquire(&shared->mover);
	err = check_there(span.range);
	if (!err)
		add_pins(&span);
	lock_release(&shared->mover);
	if (err)
		goto out;
	err = migrate_pages(shared, &want);
	if (err >= 0)
		err = show_hidden(&span);
	if (err >= 0)
		goto out;
	error_keep(&kept);
	migrate_unpin(shared, addr, size);
	error_restore(&kept);
out:
	shared_count(&span.range->holds, -1);
	return MIN(err, 0);
}
