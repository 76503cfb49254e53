// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Brings pages back that the CPU has touched. Touches of one range that wait at the same time are one batch, so that
 * many threads are served side by side; and where touches run in one direction, pages ahead come with them.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "shared/move.h"
#include "shared/piece.h"
#include "shared/touch.h"
#include "util/clock.h"
#include "util/error.h"

/* How many pages come back ahead at most, and how many bytes: the streams stand still meanwhile. */
#define AHEAD_MOST 16
#define AHEAD_BYTES ((size_t)256 << 20)

/* Where in the batch a page is; @count of the batch: it is not there. */
static size_t find_page(const struct batch *batch, size_t index)
{
	size_t i = 0;

	while (i < batch->count && batch->index[i] != index)
		i++;
	return i;
}

/* Whether there is room for it. */
static bool add_page(struct batch *batch, size_t index, uint64_t addr)
{
	size_t i = find_page(batch, index);

	if (i == batch_most(batch->range))
		return false;
	if (i == batch->count || addr & TOUCH_WRITE)
		batch->addr[i] = addr;
	batch->count += i == batch->count;
	batch->index[i] = index;
	return true;
}

/* The kernel takes whole pages of its own, which have 64 KiB on some machines. */
static void leave_page(uint64_t addr)
{
	uint64_t page = (uint64_t)getpagesize();

	touch_leave(addr / page * page, page, addr, false);
}

static void leave_touch(const struct batch *batch, size_t i)
{
	const struct range *range = batch->range;

	touch_leave(page_at(range, batch->index[i]), range->page_size, batch->addr[i],
		    range->pages[batch->index[i]].readable);
}

/* Takes those of one range out of the list. NULL: the first is in none, and was dropped. */
static struct range *take_touches(GArray *touched, struct batch *batch)
{
	struct range *range;
	uint64_t first;

	lock_acquire(&shared_lock);
	first = g_array_index(touched, uint64_t, 0);
	range = shared_find(first);
	if (range) {
		range->holds++;
		range->shared->holds++;
	}
	batch->range = range;
	batch->count = 0;
	for (guint i = 0; i < touched->len;) {
		uint64_t addr = g_array_index(touched, uint64_t, i);
		size_t index;

		if (!range ? addr != first : addr - range->at >= range->size) {
			i++;
			continue;
		}
		index = range ? (addr - range->at) / range->page_size : 0;
		if (range && !add_page(batch, index, addr))
			break;
		g_array_remove_index(touched, i);
	}
	/* Before a range can begin there. */
	if (!range)
		leave_page(first);
	lock_release(&shared_lock);
	return range;
}

static void put_back(GArray *touched, const struct batch *batch)
{
	g_array_append_vals(touched, batch->addr, (guint)batch->count);
}

/*
 * If there is a whole copy already, the touch was told before it was made; one of which the program has discarded a
 * part is made again. What was given up is the CPU's.
 */
static bool is_read(struct batch *batch, size_t i)
{
	struct range *range = batch->range;
	size_t index = batch->index[i];
	const struct page *page = &range->pages[index];

	if (!page->duplicate || (batch->addr[i] & TOUCH_WRITE && !page->given_up))
		return false;
	if (page->readable && !touch_has_copy(page_at(range, index), range->page_size) && move_uncopy(range, index))
		return false;
	if (!page->readable && !page->given_up)
		return !move_copy(range, index);
	leave_touch(batch, i);
	return true;
}

static void keep_one(struct batch *batch, size_t left, size_t i)
{
	batch->index[left] = batch->index[i];
	batch->addr[left] = batch->addr[i];
}

/*
 * Those that the CPU has by now go on, those that it only has to be shown, and those of which it can read a copy.
 * Leaves the others.
 */
static int sort_out_pages(struct batch *batch)
{
	struct range *range = batch->range;
	size_t left = 0;
	int err = 0, shown;

	for (size_t i = 0; i < batch->count; i++) {
		const struct page *page = &range->pages[batch->index[i]];

		if (is_read(batch, i))
			continue;
		if (page->state != PAGE_HOST) {
			keep_one(batch, left++, i);
		} else if (!page->hidden) {
			leave_touch(batch, i);
		} else {
			shown = move_show(range, batch->index[i]);
			err = err ? err : shown;
		}
	}
	batch->count = left;
	return err;
}

/* As the kernel reads files: twice as far each time that the guess was right, and half as far when it was wrong. */
static void guess_ahead(struct batch *batch)
{
	struct range *range = batch->range;
	size_t most = CLAMP(AHEAD_BYTES / range->page_size, 1, AHEAD_MOST);
	size_t last = batch->index[batch->count - 1];

	if (find_page(batch, range->next) < batch->count)
		range->ahead = MIN(MAX(range->ahead * 2, 1), most);
	else
		range->ahead /= 2;
	for (size_t i = 1; i <= range->ahead && batch->count < batch_most(range) && last + i < range->count; i++) {
		if (range->pages[last + i].state != PAGE_DEVICE || range->pages[last + i].duplicate)
			break;
		add_page(batch, last + i, page_at(range, last + i));
	}
	range->next = MAX(last, batch->index[batch->count - 1]) + 1;
}

/* Those that have to come back are the first of the batch. */
static int bring_back(struct batch *batch)
{
	int err;

	batch->touched = batch->count;
	guess_ahead(batch);
	/* What there is memory for can go on. */
	err = batch_take_host(batch);
	if (err)
		return err;
	err = batch_move(batch);
	batch_keep(batch);
	return !err && batch->count < batch->touched ? -ENOMEM : err;
}

static int serve_batch(struct batch *batch)
{
	struct shared *shared = batch->range->shared;
	uint64_t begin = clock_ns();
	int err, shown;

	lock_acquire(&shared->mover);
	if (batch->range->going) {
		lock_release(&shared->mover);
		return 0;
	}
	/* A page that cannot be shown now is in nobody's way. */
	shown = sort_out_pages(batch);
	err = batch->count ? bring_back(batch) : 0;
	lock_release(&shared->mover);
	lock_acquire(&shared_lock);
	shared->stats.fault_ns += clock_ns() - begin;
	lock_release(&shared_lock);
	return err ? err : shown;
}

/* Leaves the pages that the CPU still waits for: what it has must not be mapped over. */
static void leave_waiting(struct batch *batch)
{
	struct range *range = batch->range;
	size_t left = 0;

	lock_assert_held(&range->shared->mover);
	lock_acquire(&shared_lock);
	for (size_t i = 0; i < batch->count && !range->going; i++) {
		const struct page *page = &range->pages[batch->index[i]];

		if (page->given_up || (page->state == PAGE_HOST && !page->hidden))
			leave_touch(batch, i);
		else
			keep_one(batch, left++, i);
	}
	lock_release(&shared_lock);
	batch->count = left;
}

/* What the CPU can read is not lost, nor what it could read before a move was tried. */
static bool give_up_one(struct range *range, size_t index, bool zeros)
{
	const struct piece *piece = range->pages[index].duplicate;
	uint64_t at = page_at(range, index);

	if (range->pages[index].readable)
		return touch_free_copy(at, range->page_size);
	if (!zeros && piece && !piece->viewless && !touch_copy(at, range->page_size, piece->alias))
		return touch_free_copy(at, range->page_size);
	return touch_give_up(at, range->page_size, zeros);
}

/*
 * After a reset nobody can tell what the device had, and of a device that has failed nobody gets it. Leaves those for
 * which even that cannot be told.
 */
static void give_up_batch(struct batch *batch, bool zeros)
{
	struct range *range = batch->range;
	size_t left = 0;

	lock_acquire(&range->shared->mover);
	leave_waiting(batch);
	for (size_t i = 0; i < batch->count; i++) {
		if (!give_up_one(range, batch->index[i], zeros)) {
			keep_one(batch, left++, i);
			continue;
		}
		lock_acquire(&shared_lock);
		range->pages[batch->index[i]].given_up = true;
		range->pages[batch->index[i]].readable = false;
		lock_release(&shared_lock);
	}
	batch->count = left;
	lock_release(&range->shared->mover);
}

/* A device that fails for so long does not recover. */
#define FAILING_US G_USEC_PER_SEC

/* Whether it is time to give up what is on the device. */
static bool note_failure(struct shared *shared, int err)
{
	gint64 now = g_get_monotonic_time();
	bool lost;

	lock_acquire(&shared_lock);
	if (err != -EIO)
		shared->failing = 0;
	else if (!shared->failing)
		shared->failing = now;
	lost = err == -ESTALE || (err == -EIO && now - shared->failing > FAILING_US);
	lock_release(&shared_lock);
	return lost;
}

/* The last use of the range. */
static void note_result(struct batch *batch, int err)
{
	struct shared *shared = batch->range->shared;

	lock_acquire(&shared_lock);
	batch->range->holds--;
	shared->holds--;
	shared->trailing -= batch->trails;
	shared->stats.retries += !!err;
	lock_release(&shared_lock);
	batch->trails = false;
}

void serve_touches(GArray *touched)
{
	struct batch batch = { .to = VPMM_HOST, .serves = true };
	GArray *later = g_array_new(FALSE, FALSE, sizeof(uint64_t));

	while (touched->len) {
		struct range *range = take_touches(touched, &batch);
		struct batch all = batch;
		struct backend *be;
		int err;

		if (!range)
			continue;
		be = range->shared->core->backend;
		err = be->ops->enter(be);
		if (!err) {
			err = serve_batch(&batch);
			if (err == -ENOMEM)
				piece_make_mappings(range->shared, range->page_size);
			be->ops->leave(be);
		}
		if (note_failure(range->shared, err)) {
			give_up_batch(&all, err == -ESTALE);
			put_back(later, &all);
		} else if (err) {
			lock_acquire(&range->shared->mover);
			leave_waiting(&all);
			lock_release(&range->shared->mover);
			put_back(later, &all);
		}
		note_result(&batch, err);
	}
	g_array_append_vals(touched, later->data, later->len);
	g_array_free(later, TRUE);
}

static struct shared *find_idle(void)
{
	struct shared *found = NULL;

	lock_acquire(&shared_lock);
	for (guint i = 0; shared_ranges && i < shared_ranges->len && !found; i++) {
		struct shared *shared = ((struct range *)shared_ranges->pdata[i])->shared;
		struct piece *piece = shared->quiet ? NULL : shared->kept[VPMM_HOST];

		for (; piece && !found; piece = piece->next)
			found = piece->viewless ? shared : NULL;
	}
	if (found) {
		found->holds++;
		found->renewing++;
	}
	lock_release(&shared_lock);
	return found;
}

bool serve_idle(void)
{
	struct shared *shared = find_idle();
	struct backend *be;
	bool more = false;

	if (!shared)
		return false;
	be = shared->core->backend;
	if (!be->ops->enter(be)) {
		more = piece_renew_kept(shared);
		be->ops->leave(be);
	}
	lock_acquire(&shared_lock);
	shared->renewing--;
	shared->holds--;
	lock_release(&shared_lock);
	return more;
}
