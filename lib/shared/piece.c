// SPDX-License-Identifier: LGPL-2.1-or-later
/* Memory for pages of shared ranges. */
#include <errno.h>

#include "core/account.h"
#include "policy/reclaim.h"
#include "policy/trim.h"
#include "shared/piece.h"
#include "shared/touch.h"
#include "util/error.h"

static uint64_t *bytes_of(struct shared *shared, const struct piece *piece, bool unused)
{
	if (piece->host)
		return unused ? &shared->stats.host_unused : &shared->stats.host;
	return unused ? &shared->stats.device_unused : &shared->stats.device;
}

static void count_piece(struct shared *shared, const struct piece *piece, bool more)
{
	uint64_t *bytes = bytes_of(shared, piece, false);

	lock_acquire(&shared_lock);
	*bytes = more ? *bytes + piece->size : *bytes - piece->size;
	lock_release(&shared_lock);
}

/* Device memory counts towards the pool's limit. */
static void count_device(struct core *core, int64_t change)
{
	lock_assert_held(&core->lock);
	core->shared += (uint64_t)change;
	core_count_apart(core);
}

static int map_alias(struct shared *shared, struct piece *piece)
{
	const struct backend_ops *ops = shared_ops(shared);
	int err;

	err = ops->map(shared_backend(shared), piece->alias, piece->size, piece->handle);
	if (err)
		return err;
	piece->mapped = true;
	return piece->host ? ops->host_access(shared_backend(shared), piece->alias, piece->size) :
	       ops->access(shared_backend(shared), piece->alias, piece->size);
}

/* Of a piece that may be incomplete: whether all of it has gone. Each step is tried once more. */
static bool release_piece(struct shared *shared, struct piece *piece)
{
	const struct backend_ops *ops = shared_ops(shared);
	struct backend *be = shared_backend(shared);
	struct error_kept kept;
	bool gone;

	error_keep(&kept);
	piece->mapped = piece->mapped && !piece->lost;
	if (piece->lost)
		piece->alias = 0;
	if (piece->mapped && (!ops->unmap(be, piece->alias, piece->size, NULL) ||
			      !ops->unmap(be, piece->alias, piece->size, NULL)))
		piece->mapped = false;
	if (piece->handle && !piece->mapped && (!ops->release(be, piece->handle) || !ops->release(be, piece->handle)))
		piece->handle = 0;
	if (piece->alias && !piece->mapped && (!ops->unreserve(be, piece->alias, piece->size) ||
					       !ops->unreserve(be, piece->alias, piece->size)))
		piece->alias = 0;
	error_restore(&kept);
	gone = !piece->handle && !piece->alias;
	if (gone)
		g_free(piece);
	return gone;
}

/* What the driver has not taken back counts, so that the limit holds, and the next trim tries again. */
static void keep_unreleased(struct shared *shared, struct piece *piece)
{
	lock_acquire(&shared_lock);
	piece->stray = false;
	piece->next = shared->strays;
	shared->strays = piece;
	if (piece->handle)
		*bytes_of(shared, piece, false) += piece->size;
	lock_release(&shared_lock);
}

/* Of one that no longer counts. Returns how many bytes have gone. */
static size_t release_uncounted(struct shared *shared, struct piece *piece)
{
	size_t size = piece->handle ? piece->size : 0;

	if (release_piece(shared, piece))
		return size;
	size = piece->handle ? 0 : size;
	keep_unreleased(shared, piece);
	return size;
}

/* Takes what was not taken back before out of the strays, a list. */
static struct piece *take_rest(struct shared *shared, bool host)
{
	struct piece **link = &shared->strays, *list = NULL, *piece;

	lock_acquire(&shared_lock);
	while ((piece = *link)) {
		if (piece->stray || piece->host != host) {
			link = &piece->next;
			continue;
		}
		*link = piece->next;
		piece->next = list;
		list = piece;
		if (piece->handle)
			*bytes_of(shared, piece, false) -= piece->size;
	}
	lock_release(&shared_lock);
	return list;
}

static uint64_t retry_rest(struct shared *shared, bool host)
{
	struct piece *list = take_rest(shared, host);
	uint64_t bytes = 0;

	while (list) {
		struct piece *next = list->next;

		bytes += release_uncounted(shared, list);
		list = next;
	}
	return bytes;
}

void piece_give_addresses(struct shared *shared, uint64_t at, size_t size, bool mapped)
{
	struct piece *piece = g_new0(struct piece, 1);

	piece->size = size;
	piece->host = true;
	piece->alias = at;
	piece->mapped = mapped;
	release_uncounted(shared, piece);
}

static int create_device_handle(struct shared *shared, struct piece *piece)
{
	struct core *core = shared->core;
	int err;

	count_device(core, (int64_t)piece->size);
	err = extent_judge_counted(&core->extents, piece->size);
	if (!err)
		err = shared_ops(shared)->create(shared_backend(shared), piece->size, &piece->handle);
	if (err)
		count_device(core, -(int64_t)piece->size);
	return err;
}

/* The memory of one that was not made whole may still be the device's, and then it counts. */
static void unmake(struct shared *shared, struct piece *piece)
{
	size_t counted = piece->handle && !piece->host ? piece->size : 0;
	bool gone = release_piece(shared, piece);

	if (counted && (gone || !piece->handle))
		count_device(shared->core, -(int64_t)counted);
	if (!gone)
		keep_unreleased(shared, piece);
}

/* Notes where there is host memory, and no address or no mapping for it. */
static void note_cramped(struct shared *shared)
{
	lock_acquire(&shared_lock);
	shared->cramped = true;
	lock_release(&shared_lock);
}

static int make_piece(struct shared *shared, size_t size, bool host, struct piece **made)
{
	const struct backend_ops *ops = shared_ops(shared);
	struct piece *piece = g_new0(struct piece, 1);
	struct backend *be = shared_backend(shared);
	int err;

	piece->size = size;
	piece->host = host;
	piece->fresh = host;
	err = host ? ops->host_create(be, size, &piece->handle) : create_device_handle(shared, piece);
	if (!err)
		err = ops->reserve(be, size, shared->core->granularity, &piece->alias);
	if (!err)
		err = map_alias(shared, piece);
	if (err == -ENOMEM && host && piece->handle)
		note_cramped(shared);
	if (err) {
		unmake(shared, piece);
		return err;
	}
	*made = piece;
	return 0;
}

/* Host memory with a view before one without. */
static struct piece *take_kept(struct shared *shared, size_t size, bool host)
{
	struct piece **link, **best = NULL, *piece = NULL;

	lock_acquire(&shared_lock);
	for (link = &shared->kept[!host]; *link; link = &(*link)->next) {
		if ((*link)->size == size && (!best || (*best)->viewless))
			best = link;
		if (best && !(*best)->viewless)
			break;
	}
	if (best) {
		piece = *best;
		*best = piece->next;
		piece->next = NULL;
		*bytes_of(shared, piece, true) -= size;
	}
	lock_release(&shared_lock);
	return piece;
}

void piece_keep(struct shared *shared, struct piece *piece)
{
	struct piece **list = piece->stray ? &shared->strays : &shared->kept[!piece->host];

	lock_acquire(&shared_lock);
	piece->fresh = false;
	piece->next = *list;
	*list = piece;
	if (!piece->stray)
		*bytes_of(shared, piece, true) += piece->size;
	lock_release(&shared_lock);
}

void piece_keep_all(struct shared *shared, struct piece *pieces)
{
	while (pieces) {
		struct piece *next = pieces->next;

		piece_keep(shared, pieces);
		pieces = next;
	}
}

int piece_show(struct shared *shared, struct piece *piece, uint64_t at)
{
	int err;

	err = shared_ops(shared)->show(shared_backend(shared), at, piece->alias, piece->size);
	if (err < 0)
		return err;
	piece->viewless = true;
	piece->lost = err;
	return 0;
}

int piece_renew(struct shared *shared, struct piece *piece)
{
	int err;

	if (!piece->viewless)
		return 0;
	/* Addresses that another thread has got are left to it. */
	if (piece->lost) {
		err = shared_ops(shared)->reserve(shared_backend(shared), piece->size, shared->core->granularity, &piece->alias);
		if (err)
			return err;
		piece->lost = piece->mapped = false;
	}
	if (piece->mapped) {
		err = shared_ops(shared)->unmap(shared_backend(shared), piece->alias, piece->size, NULL);
		if (err)
			return err;
		piece->mapped = false;
	}
	err = map_alias(shared, piece);
	piece->viewless = piece->blind = err;
	return err;
}

bool piece_renew_kept(struct shared *shared)
{
	struct piece **link, *piece;
	struct error_kept kept;
	int err;

	lock_acquire(&shared_lock);
	for (link = &shared->kept[VPMM_HOST]; *link && !(*link)->viewless; link = &(*link)->next)
		;
	piece = *link;
	if (piece)
		*link = piece->next;
	lock_release(&shared_lock);
	if (!piece)
		return false;
	error_keep(&kept);
	err = piece_renew(shared, piece);
	error_restore(&kept);
	lock_acquire(&shared_lock);
	piece->next = shared->kept[VPMM_HOST];
	shared->kept[VPMM_HOST] = piece;
	lock_release(&shared_lock);
	return !err;
}

static int create_host(struct shared *shared, size_t size, struct piece **piece)
{
	int err;

	err = make_piece(shared, size, true, piece);
	if (err == -ENOMEM && piece_trim_host(shared, 0))
		err = make_piece(shared, size, true, piece);
	if (!err)
		count_piece(shared, *piece, true);
	return err;
}

int piece_take_host(struct shared *shared, size_t size, struct piece **piece)
{
	struct piece *got = take_kept(shared, size, true);
	int err;

	/* What gets a view is kept again in a moment. */
	if (!got) {
		shared_wait(&shared->renewing);
		got = take_kept(shared, size, true);
	}
	if (!got)
		return create_host(shared, size, piece);
	err = piece_renew(shared, got);
	if (err)
		piece_keep(shared, got);
	else
		*piece = got;
	return err;
}

/* What the pool has free goes back to the device, if there is no other memory. */
static int free_device_memory(struct core *core, size_t size)
{
	uint64_t mapped, before, given;
	int err;

	err = reclaim_unused(core);
	if (err)
		return err;
	mapped = core_mapped(core);
	before = core->extents.given_back;
	err = trim_pool(core, mapped > size ? mapped - size : 0, NULL);
	given = core->extents.given_back - before;
	/* An extent that is larger than what is still to go has stayed. */
	return err || given >= size ? err : trim_bytes(core, size - given);
}

void piece_make_mappings(struct shared *shared, size_t size)
{
	struct core *core = shared->core;
	bool cramped;

	lock_acquire(&shared_lock);
	cramped = shared->cramped;
	shared->cramped = false;
	lock_release(&shared_lock);
	if (!cramped || !lock_try(&core->lock))
		return;
	free_device_memory(core, size);
	lock_release(&core->lock);
}

static int create_device(struct shared *shared, size_t size, struct piece **piece)
{
	struct core *core = shared->core;
	struct error_kept kept;
	int err;

	lock_acquire(&core->lock);
	err = extent_judge(&core->extents, size, size);
	if (!err)
		err = make_piece(shared, size, false, piece);
	if (err == -ENOMEM) {
		error_keep(&kept);
		err = free_device_memory(core, size);
		error_restore(&kept);
		if (!err)
			err = extent_judge(&core->extents, size, size);
		if (!err)
			err = make_piece(shared, size, false, piece);
	}
	if (!err)
		account_note_taken(core);
	account_tell(core);
	lock_release(&core->lock);
	if (!err)
		count_piece(shared, *piece, true);
	return err;
}

static struct piece *pop_kept(struct shared *shared, enum vpmm_location where, uint64_t keep)
{
	const uint64_t *unused = where == VPMM_HOST ? &shared->stats.host_unused : &shared->stats.device_unused;
	struct piece *piece = NULL;

	lock_acquire(&shared_lock);
	if (*unused > keep)
		piece = shared->kept[where];
	if (piece) {
		shared->kept[where] = piece->next;
		*bytes_of(shared, piece, true) -= piece->size;
		*bytes_of(shared, piece, false) -= piece->size;
	}
	lock_release(&shared_lock);
	return piece;
}

uint64_t piece_trim_host(struct shared *shared, uint64_t keep)
{
	struct piece *piece;
	uint64_t bytes;
	bool more;

	bytes = retry_rest(shared, true);
	if (keep == UINT64_MAX)
		return bytes;
	/* None begins to get a view between the wait and the end. */
	shared_count(&shared->quiet, 1);
	shared_wait(&shared->renewing);
	while ((piece = pop_kept(shared, VPMM_HOST, keep)))
		bytes += release_uncounted(shared, piece);
	lock_acquire(&shared_lock);
	shared->quiet--;
	more = shared->kept[VPMM_HOST];
	lock_release(&shared_lock);
	if (more)
		touch_nudge();
	return bytes;
}

uint64_t piece_trim_device(struct shared *shared)
{
	struct core *core = shared->core;
	struct piece *piece;
	uint64_t bytes;

	bytes = retry_rest(shared, false);
	while ((piece = pop_kept(shared, VPMM_DEVICE, 0)))
		bytes += release_uncounted(shared, piece);
	if (bytes) {
		lock_acquire(&core->lock);
		count_device(core, -(int64_t)bytes);
		account_tell(core);
		lock_release(&core->lock);
	}
	return bytes;
}

int piece_take_device(struct shared *shared, size_t size, size_t wanted, struct piece **pieces)
{
	struct piece *piece;
	int err = 0;

	*pieces = NULL;
	while (wanted) {
		piece = take_kept(shared, size, false);
		if (!piece)
			err = create_device(shared, size, &piece);
		/* What is unused has pages of other sizes. */
		if (err == -ENOMEM && piece_trim_device(shared))
			err = create_device(shared, size, &piece);
		if (err)
			return err;
		piece->next = *pieces;
		*pieces = piece;
		wanted--;
	}
	return 0;
}

/* Memory that may still be cleared stays aside. */
static void clear_failed(struct shared *shared, struct piece *piece)
{
	struct error_kept kept;

	error_keep(&kept);
	if (shared_ops(shared)->sync(shared_backend(shared)))
		piece->stray = true;
	error_restore(&kept);
}

static int clear_now(struct shared *shared, struct piece *piece)
{
	const struct backend_ops *ops = shared_ops(shared);
	struct backend *be = shared_backend(shared);
	struct backend_event *event;
	int err;

	err = ops->event_create(be, &event);
	if (err)
		return err;
	err = ops->clear(be, piece->alias, piece->size, shared->stream);
	if (err)
		goto out;
	err = ops->event_record(be, event, shared->stream);
	if (!err)
		err = ops->event_sync(be, event);
	if (err)
		clear_failed(shared, piece);
out:
	ops->event_destroy(be, event);
	return err;
}

static struct piece *join_zero(struct shared *shared, size_t size)
{
	struct piece *found = NULL;

	lock_acquire(&shared_lock);
	for (guint i = 0; i < shared->zeros->len && !found; i++) {
		struct piece *zero = shared->zeros->pdata[i];

		if (zero->size == size)
			found = zero;
	}
	if (found)
		found->ranges++;
	lock_release(&shared_lock);
	return found;
}

int piece_zero(struct shared *shared, size_t size, struct piece **zero)
{
	struct piece *piece;
	int err;

	*zero = join_zero(shared, size);
	if (*zero)
		return 0;
	err = piece_take_device(shared, size, 1, &piece);
	if (err)
		return err;
	err = clear_now(shared, piece);
	if (err) {
		piece_keep(shared, piece);
		return err;
	}
	piece->ranges = 1;
	lock_acquire(&shared_lock);
	g_ptr_array_add(shared->zeros, piece);
	lock_release(&shared_lock);
	*zero = piece;
	return 0;
}

void piece_zero_end(struct shared *shared, struct piece *zero)
{
	bool last;

	lock_acquire(&shared_lock);
	last = !--zero->ranges;
	if (last)
		g_ptr_array_remove_fast(shared->zeros, zero);
	lock_release(&shared_lock);
	if (last)
		piece_keep(shared, zero);
}

void piece_clear(struct shared *shared)
{
	/* Without ranges there is nothing that a stray could be at. */
	for (struct piece *piece = shared->strays; piece; piece = piece->next)
		piece->stray = false;
	piece_trim_host(shared, 0);
	piece_trim_device(shared);
	/* The last try. What the driver refuses now is lost. */
	retry_rest(shared, true);
	retry_rest(shared, false);
	while (shared->strays) {
		struct piece *piece = shared->strays;

		shared->strays = piece->next;
		g_free(piece);
	}
}
