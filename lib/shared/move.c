// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * How a page moves. Streams that use the range stand still, and the CPU's touch sleeps, from before the copy until
 * the page is where it goes: nobody writes to what is copied, and nobody reads what has not been.
 *
 *	to the device	cover it for the CPU, copy, map the device memory in place of the host's
 *	to the host	copy, map the host memory in place of the device's, show it to the CPU
 *
 * A page that is read mostly keeps its host memory when it goes to the device, as a duplicate. The CPU's read of it
 * gets a copy of that, which is write-protected; a write has the page go to the host, and nothing is copied for that,
 * as neither has changed. The driver's own view cannot be write-protected by userfaultfd, hence the copy.
 *
 * The copies of a batch go through one stream. As the streams of the program stand still, the device's mappings change
 * while its copies are under way.
 */
#include <errno.h>

#include "shared/gates.h"
#include "shared/mirror.h"
#include "shared/move.h"
#include "shared/piece.h"
#include "shared/there.h"
#include "shared/touch.h"
#include "util/error.h"

/* What is known of each page while its batch moves. */
struct step {
	struct backend_event *event;	/* the copy is done; NULL: there is none */
	bool covered;			/* the CPU had it, and it was the host's */
	bool left;			/* it stays */
	bool moved;
};

static struct page *page_of(const struct batch *batch, size_t i)
{
	return &batch->range->pages[batch->index[i]];
}

size_t batch_most(const struct range *range)
{
	return CLAMP(SHARED_BATCH_BYTES / range->page_size, 1, SHARED_BATCH);
}

static int take_event(struct range *range, struct backend_event **event)
{
	GPtrArray *events = range->shared->events;

	if (!events->len)
		return range_ops(range)->event_create(range_backend(range), event);
	*event = g_ptr_array_remove_index_fast(events, events->len - 1);
	return 0;
}

static void put_event(struct range *range, struct step *step)
{
	if (step->event)
		g_ptr_array_add(range->shared->events, step->event);
	step->event = NULL;
}

int move_show(struct range *range, size_t index)
{
	struct page *page = &range->pages[index];
	struct piece *piece = page->piece;
	int err;

	err = piece_renew(range->shared, piece);
	if (!err)
		err = piece_show(range->shared, piece, page_at(range, index));
	if (err)
		return err;
	lock_acquire(&shared_lock);
	page->hidden = false;
	lock_release(&shared_lock);
	touch_wake(page_at(range, index), range->page_size);
	return 0;
}

static void count_copy(struct range *range, size_t index, bool made)
{
	struct vpmm_shared_stats *stats = &range->shared->stats;

	lock_acquire(&shared_lock);
	range->pages[index].readable = made;
	stats->faults += made ? 1 : UINT64_MAX;
	stats->read_copies += made ? 1 : UINT64_MAX;
	lock_release(&shared_lock);
}

/* It counts before the CPU can tell that it is there. */
int move_copy(struct range *range, size_t index)
{
	struct piece *piece = range->pages[index].duplicate;
	int err;

	err = piece_renew(range->shared, piece);
	if (err)
		return err;
	count_copy(range, index, true);
	err = touch_copy(page_at(range, index), range->page_size, piece->alias);
	if (err)
		count_copy(range, index, false);
	else
		touch_wake(page_at(range, index), range->page_size);
	return err;
}

int move_uncopy(struct range *range, size_t index)
{
	struct page *page = &range->pages[index];
	int err;

	if (!page->readable)
		return 0;
	err = touch_cover(page_at(range, index), range->page_size);
	if (err)
		return err;
	lock_acquire(&shared_lock);
	page->readable = false;
	lock_release(&shared_lock);
	return 0;
}

static struct piece *detach_duplicate(struct range *range, size_t index)
{
	struct page *page = &range->pages[index];
	struct piece *piece = page->duplicate;

	if (!piece)
		return NULL;
	lock_acquire(&shared_lock);
	page->duplicate = NULL;
	range->shared->stats.duplicates -= range->page_size;
	lock_release(&shared_lock);
	return piece;
}

void move_single(struct range *range, size_t index)
{
	struct piece *piece = detach_duplicate(range, index);

	if (piece)
		piece_keep(range->shared, piece);
}

static bool has_duplicate(const struct range *range, size_t *index)
{
	lock_assert_held(&shared_lock);
	for (*index = 0; *index < range->count; ++*index) {
		if (range->pages[*index].duplicate)
			return true;
	}
	return false;
}

/* One of the same size before others. */
static struct range *find_duplicate(const struct shared *shared, size_t size, size_t *index)
{
	struct range *found = NULL;
	size_t there;

	lock_acquire(&shared_lock);
	for (guint i = 0; shared->stats.duplicates && i < shared->ranges->len; i++) {
		struct range *range = shared->ranges->pdata[i];

		if ((found && range->page_size != size) || !has_duplicate(range, &there))
			continue;
		found = range;
		*index = there;
		if (range->page_size == size)
			break;
	}
	lock_release(&shared_lock);
	return found;
}

/* Of what a page has twice, another that has nothing gets one, or room for one. */
static bool give_duplicate(struct shared *shared, size_t size)
{
	struct range *range;
	size_t index = 0;

	range = find_duplicate(shared, size, &index);
	if (!range || move_uncopy(range, index))
		return false;
	move_single(range, index);
	return true;
}

int move_take_host(struct shared *shared, size_t size, struct piece **piece)
{
	struct error_kept kept;
	bool given = true;
	int err;

	lock_assert_held(&shared->mover);
	err = piece_take_host(shared, size, piece);
	while (err == -ENOMEM && given) {
		error_keep(&kept);
		given = give_duplicate(shared, size);
		error_restore(&kept);
		if (given)
			err = piece_take_host(shared, size, piece);
	}
	return err;
}

/* A page that stays after all. A touch tries again what fails here. */
static void uncover(struct range *range, size_t index)
{
	struct error_kept kept;

	lock_acquire(&shared_lock);
	range->pages[index].hidden = true;
	lock_release(&shared_lock);
	error_keep(&kept);
	if (move_show(range, index))
		touch_wake(page_at(range, index), range->page_size);
	error_restore(&kept);
}

static int submit_copy(struct batch *batch, size_t i, unsigned int flags)
{
	struct range *range = batch->range;
	const struct page *page = page_of(batch, i);
	const struct piece *piece = batch->pieces[i];

	if (flags & VPMM_MOVE_COPIED || piece == page->duplicate)
		return 0;
	if (page->piece)
		return range_ops(range)->copy(range_backend(range), piece->alias, page->piece->alias, range->page_size,
					      range->shared->stream);
	return piece->fresh ? 0 : range_ops(range)->clear(range_backend(range), piece->alias, range->page_size,
							  range->shared->stream);
}

static int submit(struct batch *batch, size_t i, struct step *step, unsigned int flags)
{
	struct range *range = batch->range;
	int err;

	err = take_event(range, &step->event);
	if (!err)
		err = submit_copy(batch, i, flags);
	if (!err)
		err = range_ops(range)->event_record(range_backend(range), step->event, range->shared->stream);
	return err;
}

/*
 * All copies that were submitted have to be over before their memory is anybody else's, also those whose event could
 * not be had or recorded. Returns whether they are known to be.
 */
static bool wait_for_copies(struct range *range)
{
	struct step last = { .event = NULL };
	struct error_kept kept;
	bool over;

	error_keep(&kept);
	over = !take_event(range, &last.event) &&
	       !range_ops(range)->event_record(range_backend(range), last.event, range->shared->stream) &&
	       !range_ops(range)->event_sync(range_backend(range), last.event);
	put_event(range, &last);
	error_restore(&kept);
	return over;
}

/*
 * The same by a wait for the whole device, with the streams going on: they would never get past a gate meanwhile. What
 * may still be written to even then is nobody's.
 */
static void wait_for_whole_device(struct batch *batch)
{
	if (!range_ops(batch->range)->sync(range_backend(batch->range)))
		return;
	for (size_t i = 0; i < batch->count; i++) {
		if (batch->pieces[i])
			batch->pieces[i]->stray = true;
	}
}

static int cover_page(struct batch *batch, size_t i, struct step *step)
{
	const struct page *page = page_of(batch, i);
	int err;

	/* If the view failed later, the CPU would go on with a copy that is out of date. */
	if (batch->to == VPMM_HOST)
		return move_uncopy(batch->range, batch->index[i]);
	if (page->state != PAGE_HOST || page->hidden)
		return 0;
	err = touch_cover(page_at(batch->range, batch->index[i]), batch->range->page_size);
	step->covered = !err;
	return err;
}

/* Who copies itself may have changed what is there. */
static bool is_kept(const struct batch *batch, const struct page *page, unsigned int flags)
{
	return batch->to == VPMM_DEVICE && page->piece && page->advice == VPMM_ADVISE_READ_MOSTLY &&
	       !(flags & VPMM_MOVE_COPIED);
}

static void commit_page(struct batch *batch, size_t i, unsigned int flags)
{
	struct vpmm_shared_stats *stats = &batch->range->shared->stats;
	struct page *page = page_of(batch, i);
	struct piece *old = page->piece;
	bool device = batch->to == VPMM_DEVICE, kept, had = page->duplicate;

	lock_acquire(&shared_lock);
	kept = is_kept(batch, page, flags);
	page->duplicate = kept ? old : NULL;
	stats->duplicates += kept ? batch->range->page_size : 0;
	stats->duplicates -= had ? batch->range->page_size : 0;
	page->piece = batch->pieces[i];
	page->piece->fresh = false;
	page->piece->stray = false;
	page->state = device ? PAGE_DEVICE : PAGE_HOST;
	page->recent = true;
	page->hidden = false;
	page->given_up = false;
	there_mapped(batch->range, batch->index[i]);
	page->call = batch->call;
	page_stays(page);
	*(device ? &stats->pages_to_device : &stats->pages_to_host) += 1;
	if (old && !had)
		*(device ? &stats->to_device : &stats->to_host) += batch->range->page_size;
	if (batch->serves)
		*(i < batch->touched ? &stats->faults : &stats->read_ahead) += 1;
	lock_release(&shared_lock);
	batch->pieces[i] = NULL;
	batch->moved++;
	if (old && !kept)
		piece_keep(batch->range->shared, old);
}

/* It counts as the host's before the CPU can tell that it is. Whoever touches it has a view that fails tried again. */
static int show_there(struct batch *batch, size_t i)
{
	struct range *range = batch->range;
	struct page *page = page_of(batch, i);
	int err;

	err = piece_show(range->shared, page->piece, page_at(range, batch->index[i]));
	if (!err)
		return 0;
	lock_acquire(&shared_lock);
	page->hidden = true;
	lock_release(&shared_lock);
	return err;
}

/* The first that goes on. */
static void begin_trail(struct batch *batch)
{
	if (!batch->serves || batch->trails)
		return;
	batch->trails = true;
	lock_acquire(&shared_lock);
	batch->range->shared->trailing++;
	lock_release(&shared_lock);
}

static int finish(struct batch *batch, size_t i, struct step *step, unsigned int flags)
{
	struct range *range = batch->range;
	int err;

	err = there_remap(range, batch->index[i], batch->pieces[i]);
	if (err)
		return err;
	err = range_ops(range)->event_sync(range_backend(range), step->event);
	/* The page is not copied, so the device gets back what the page has. */
	if (err) {
		there_restore(range, batch->index[i]);
		return err;
	}
	commit_page(batch, i, flags);
	step->covered = false;
	step->moved = true;
	if (batch->to == VPMM_HOST)
		err = show_there(batch, i);
	begin_trail(batch);
	touch_wake(page_at(range, batch->index[i]), range->page_size);
	return err;
}

static void ask_program(struct batch *batch, struct vpmm_move *moves)
{
	for (size_t i = 0; i < batch->count; i++) {
		const struct page *page = page_of(batch, i);

		moves[i] = (struct vpmm_move){
			.addr = (void *)(uintptr_t)page_at(batch->range, batch->index[i]),
			.size = batch->range->page_size,
			.from = page->piece ? (void *)(uintptr_t)page->piece->alias : NULL,
			.to = (void *)(uintptr_t)batch->pieces[i]->alias,
		};
	}
	if (batch->ops && batch->ops->alloc_and_copy)
		batch->ops->alloc_and_copy(batch->data, moves, batch->count, batch->range->shared->stream);
}

static void tell_program(struct batch *batch, const struct step *steps, struct vpmm_move *moves)
{
	/* Who was not asked is not told. */
	if (!batch->ops || !batch->ops->finalize_and_map || !moves[0].size)
		return;
	for (size_t i = 0; i < batch->count; i++) {
		if (steps[i].moved)
			moves[i].flags |= VPMM_MOVE_DONE;
	}
	batch->ops->finalize_and_map(batch->data, moves, batch->count);
}

/* With the streams stopped. @over: receives whether all copies are known to be. */
static int move_stopped(struct batch *batch, struct step *steps, struct vpmm_move *moves, bool *over)
{
	bool asks = batch->ops && batch->ops->alloc_and_copy;
	size_t submitted = 0;
	int err = 0;

	there_mend(batch->range);
	/*
	 * If the program copies, all pages are covered before it is asked, and duplicates become ordinary pieces.
	 * Otherwise each page is covered while the one before is copied.
	 */
	for (size_t i = 0; i < batch->count && !err && asks; i++)
		err = cover_page(batch, i, &steps[i]);
	for (size_t i = 0; i < batch->count && !err && asks; i++)
		detach_duplicate(batch->range, batch->index[i]);
	if (!err)
		ask_program(batch, moves);
	for (; submitted < batch->count && !err; submitted++) {
		if (!asks)
			err = cover_page(batch, submitted, &steps[submitted]);
		steps[submitted].left = moves[submitted].flags & VPMM_MOVE_SKIP;
		if (!err && !steps[submitted].left)
			err = submit(batch, submitted, &steps[submitted], moves[submitted].flags);
	}
	for (size_t i = 0; i < submitted && !err; i++) {
		if (!steps[i].left)
			err = finish(batch, i, &steps[i], moves[i].flags);
	}
	if (err) {
		there_mend(batch->range);
		*over = wait_for_copies(batch->range);
	}
	for (size_t i = 0; i < batch->count; i++) {
		put_event(batch->range, &steps[i]);
		if (steps[i].covered)
			uncover(batch->range, batch->index[i]);
		/* What could not be unmapped there is nobody else's. */
		if (batch->pieces[i])
			batch->pieces[i]->stray = page_of(batch, i)->wrong && !page_of(batch, i)->unmapped;
	}
	return err;
}

bool batch_take(struct batch *batch, size_t i, size_t index, struct piece **list)
{
	struct piece *piece = batch->to == VPMM_HOST ? batch->range->pages[index].duplicate : NULL;

	lock_assert_held(&batch->range->shared->mover);
	if (!piece && *list) {
		piece = *list;
		*list = piece->next;
		piece->next = NULL;
	}
	batch->index[i] = index;
	batch->pieces[i] = piece;
	return piece;
}

size_t batch_single(const struct batch *batch)
{
	size_t single = 0;

	lock_acquire(&shared_lock);
	for (size_t i = 0; i < batch->count; i++)
		single += !page_of(batch, i)->duplicate;
	lock_release(&shared_lock);
	return single;
}

/* First memory and then who gets it, as one of the pages may lose its duplicate for another. */
int batch_take_host(struct batch *batch)
{
	size_t left = 0, single = batch_single(batch);
	struct shared *shared = batch->range->shared;
	struct piece *list = NULL, *piece;
	int err = 0;

	for (size_t i = 0; i < single && !err; i++) {
		err = move_take_host(shared, batch->range->page_size, &piece);
		if (err)
			break;
		piece->next = list;
		list = piece;
	}
	for (size_t i = 0; i < batch->count; i++)
		left += batch_take(batch, left, batch->index[i], &list);
	batch->count = left;
	piece_keep_all(shared, list);
	return left ? 0 : err ? err : -ENOMEM;
}

void batch_keep(struct batch *batch)
{
	for (size_t i = 0; i < batch->count; i++) {
		if (batch->pieces[i] && batch->pieces[i] != page_of(batch, i)->duplicate)
			piece_keep(batch->range->shared, batch->pieces[i]);
		batch->pieces[i] = NULL;
	}
}

/*
 * What the CPU had at the addresses of a page was the view of its duplicate. And the memory of a page that was to be
 * shown may not be where it is to be copied from.
 */
static int renew_views(struct batch *batch)
{
	struct shared *shared = batch->range->shared;
	int err = 0;

	for (size_t i = 0; i < batch->count && !err; i++) {
		struct page *page = page_of(batch, i);

		if (batch->pieces[i] == page->duplicate)
			err = piece_renew(shared, batch->pieces[i]);
		if (!err && page->piece && page->piece->blind)
			err = piece_renew(shared, page->piece);
	}
	return err;
}

int batch_move(struct batch *batch)
{
	struct step steps[SHARED_BATCH] = { 0 };
	struct vpmm_move moves[SHARED_BATCH] = { 0 };
	struct backend_gate *gate;
	struct error_kept kept;
	bool over = true;
	int err;

	lock_assert_held(&batch->range->shared->mover);
	batch->moved = 0;
	err = renew_views(batch);
	if (err)
		return err;
	mirror_tell(batch->range, batch->index, batch->count);
	err = gates_close(batch->range, &gate);
	if (!err) {
		err = move_stopped(batch, steps, moves, &over);
		error_keep(&kept);
		gates_open(batch->range, gate);
		if (!over)
			wait_for_whole_device(batch);
		tell_program(batch, steps, moves);
		error_restore(&kept);
	}
	mirror_told(batch->range, batch->index, batch->count);
	if (batch->to == VPMM_DEVICE && batch->moved && !batch->quiet)
		touch_nudge();
	return err;
}
