// SPDX-License-Identifier: LGPL-2.1-or-later
/* Shared ranges, and what those of a pool have in common. */
#include <errno.h>
#include <inttypes.h>

#include "shared/gates.h"
#include "shared/mirror.h"
#include "shared/piece.h"
#include "shared/shared.h"
#include "shared/touch.h"
#include "util/env.h"
#include "util/error.h"
#include "util/room.h"

int shared_new(struct core *core, struct shared **made)
{
	struct shared *shared;
	uint64_t keep;
	int err;

	err = env_keep("VPMM_HOST_KEEP", &keep);
	if (err)
		return err;
	shared = g_new0(struct shared, 1);
	shared->core = core;
	lock_init(&shared->mover, LOCK_MOVER);
	lock_init(&shared->watching, LOCK_WATCHING);
	shared->ranges = g_ptr_array_new();
	shared->zeros = g_ptr_array_new();
	shared->events = g_ptr_array_new();
	shared->mirrors = g_ptr_array_new();
	shared->watchers = g_ptr_array_new();
	shared->host_keep = keep;
	*made = shared;
	return 0;
}

/* A driver that has no such streams can have mirrors all the same. */
static int need_stream(struct shared *shared)
{
	struct backend *be = shared->core->backend;

	return shared->stream ? 0 : be->ops->stream_create(be, &shared->stream);
}

size_t range_choose_page(const struct shared *shared, size_t size, bool fine)
{
	size_t page = shared->core->granularity;

	while (!fine && page * 2 <= SHARED_PAGE_MOST && page * 2 <= size / SHARED_PAGES)
		page *= 2;
	return page;
}

static int map_zero(struct range *range)
{
	int err = 0;

	for (size_t i = 0; i < range->count && !err; i++)
		err = range_ops(range)->map(range_backend(range), page_va(range, i), range->page_size, range->zero->handle);
	return err ? err : range_ops(range)->access_read(range_backend(range), range->va, range->size);
}

/* Whether the driver takes back the addresses and what is mapped there. */
static int unmap_all(struct range *range)
{
	return range_ops(range)->unmap(range_backend(range), range->va, range->size, NULL) ?
	       range_ops(range)->unmap(range_backend(range), range->va, range->size, NULL) : 0;
}

static int reserve_range(struct range *range)
{
	int err;

	err = room_check(range->size, false);
	if (!err)
		err = range_ops(range)->reserve(range_backend(range), range->size, range->page_size, &range->va);
	if (err)
		return err;
	err = range_ops(range)->room(range_backend(range), range->va, range->size, &range->at);
	if (err)
		piece_give_addresses(range->shared, range->va, range->size, false);
	else
		room_add(range->size);
	return err;
}

static void unreserve_range(struct range *range, bool mapped)
{
	range_ops(range)->room_end(range_backend(range), range->va, range->size, range->at);
	piece_give_addresses(range->shared, range->va, range->size, mapped);
	room_sub(range->size);
}

static void delete_range(struct range *range)
{
	g_ptr_array_free(range->users, TRUE);
	g_free(range->pages);
	g_free(range);
}

static void index_range(struct range *range)
{
	struct shared *shared = range->shared;

	lock_acquire(&shared_lock);
	if (!shared_ranges)
		shared_ranges = g_ptr_array_new();
	g_ptr_array_add(shared_ranges, range);
	g_ptr_array_add(shared->ranges, range);
	shared->stats.ranges++;
	g_atomic_int_set(&shared_exist, 1);
	lock_release(&shared_lock);
}

static void unindex_range(struct range *range)
{
	struct shared *shared = range->shared;

	lock_acquire(&shared_lock);
	range->going = true;
	g_ptr_array_remove(shared_ranges, range);
	g_ptr_array_remove(shared->ranges, range);
	if (!shared_ranges->len) {
		g_ptr_array_free(shared_ranges, TRUE);
		shared_ranges = NULL;
		g_atomic_int_set(&shared_exist, 0);
	}
	shared->stats.ranges--;
	/* The touch that failed may have gone with the range, and a later one gets its own time. */
	shared->failing = 0;
	for (size_t i = 0; i < range->count; i++)
		shared->stats.duplicates -= range->pages[i].duplicate ? range->page_size : 0;
	lock_release(&shared_lock);
}

/*
 * Everything the range has goes; nothing can fail any more. Nobody finds it, and the mover is not held. @mapped: the
 * driver has refused to unmap it.
 */
static void take_down(struct range *range, bool mapped)
{
	/* Who has found it earlier takes the mover once more. */
	shared_wait(&range->holds);
	/* Before another range can have the addresses. */
	touch_unwatch(range->at);
	unreserve_range(range, mapped);
	for (size_t i = 0; i < range->count; i++) {
		if (range->pages[i].piece)
			piece_keep(range->shared, range->pages[i].piece);
		if (range->pages[i].duplicate)
			piece_keep(range->shared, range->pages[i].duplicate);
	}
	piece_zero_end(range->shared, range->zero);
	delete_range(range);
	touch_end();
}

/* A range that the program has not got. A touch of its addresses may have found it. */
static void withdraw(struct range *range)
{
	struct shared *shared = range->shared;
	bool mapped = false, going;
	struct error_kept kept;

	error_keep(&kept);
	lock_acquire(&shared->mover);
	going = range->going;
	if (!going) {
		mapped = unmap_all(range);
		unindex_range(range);
	}
	lock_release(&shared->mover);
	shared_count(&range->holds, -1);
	if (!going)
		take_down(range, mapped);
	error_restore(&kept);
}

static struct range *make_range(struct shared *shared, size_t size, bool fine)
{
	struct range *range = g_new0(struct range, 1);

	range->shared = shared;
	range->requested = size;
	range->page_size = range_choose_page(shared, size, fine);
	range->count = (size + range->page_size - 1) / range->page_size;
	range->size = range->count * range->page_size;
	range->pages = g_try_new0(struct page, range->count);
	range->users = g_ptr_array_new();
	return range;
}

int range_new(struct shared *shared, size_t size, bool fine, uint64_t *at)
{
	struct error_kept kept;
	struct range *range;
	int err;

	if (size > SHARED_RANGE_MOST)
		return error_set(-ENOMEM, "%zu bytes are more than there are addresses", size);
	err = need_stream(shared);
	if (err)
		return err;
	range = make_range(shared, size, fine);
	if (!range->pages) {
		err = error_set(-ENOMEM, "no memory for a table of %zu pages", range->count);
		goto err_delete;
	}
	err = touch_begin(serve_touches, serve_idle);
	if (err)
		goto err_delete;
	/* First, as it says whether the driver can do any of this. */
	err = reserve_range(range);
	if (err)
		goto err_end;
	err = piece_zero(shared, range->page_size, &range->zero);
	if (err)
		goto err_unreserve;
	err = map_zero(range);
	if (!err)
		err = touch_watch(range->at, range->size);
	if (err)
		goto err_unmap;
	/* From here on a touch finds the range, and so does another thread that frees an earlier one twice. */
	*at = range->at;
	range->holds = 1;
	/*
	 * A late touch of the range that had these addresses before may find this one. The mover keeps it from bringing
	 * back a page that the cover would hide.
	 */
	lock_acquire(&shared->mover);
	index_range(range);
	err = touch_cover(range->at, range->size);
	lock_release(&shared->mover);
	if (err)
		withdraw(range);
	else
		shared_count(&range->holds, -1);
	return err;

err_unmap:
	error_keep(&kept);
	unreserve_range(range, unmap_all(range));
	error_restore(&kept);
	piece_zero_end(shared, range->zero);
	goto err_end;
err_unreserve:
	error_keep(&kept);
	unreserve_range(range, false);
	error_restore(&kept);
err_end:
	touch_end();
err_delete:
	delete_range(range);
	return err;
}

static struct range *find_start(const struct shared *shared, uint64_t at)
{
	struct range *range;

	lock_assert_held(&shared_lock);
	range = shared_find(at);
	return range && range->at == at && range->shared == shared && !range->going ? range : NULL;
}

/* The first step, which can fail: nobody knows the range after it. */
static int unmap_told(struct range *range)
{
	struct backend_gate *gate = NULL;
	int err;

	mirror_tell_range(range);
	err = gates_close(range, &gate);
	if (!err)
		err = unmap_all(range);
	if (gate)
		gates_open(range, gate);
	if (err)
		mirror_told(range, NULL, range->count);
	else
		unindex_range(range);
	return err;
}

static int check_pins(const struct range *range)
{
	lock_assert_held(&shared_lock);
	for (size_t i = 0; i < range->count; i++) {
		if (range->pages[i].pins)
			return error_set(-EBUSY, "the page at %#" PRIx64 " of the shared range is pinned",
					 page_at(range, i));
	}
	return 0;
}

int range_free(struct shared *shared, uint64_t at, struct CUstream_st *stream)
{
	struct range *range;
	int err = 0;

	if (stream != VPMM_STREAM_ANY)
		err = gates_check(shared, stream);
	if (err)
		return err;
	lock_acquire(&shared->mover);
	lock_acquire(&shared_lock);
	/* Another thread may have freed it while this one waited for the mover. */
	range = find_start(shared, at);
	err = range ? check_pins(range) :
	      error_set(-EINVAL, "no shared range of the pool starts at %#" PRIx64, at);
	if (!err && stream != VPMM_STREAM_ANY)
		err = gates_add(range, stream);
	lock_release(&shared_lock);
	if (!err && stream == VPMM_STREAM_ANY)
		err = shared->core->backend->ops->sync(shared->core->backend);
	if (!err)
		err = unmap_told(range);
	lock_release(&shared->mover);
	if (err)
		return err;
	take_down(range, false);
	piece_trim_host(shared, shared->host_keep);
	return 0;
}

static void empty(struct shared *shared)
{
	struct range *range;
	bool mapped = false;

	do {
		lock_acquire(&shared->mover);
		range = shared->ranges->len ? shared->ranges->pdata[0] : NULL;
		if (range) {
			mirror_tell_range(range);
			mapped = unmap_all(range);
			unindex_range(range);
		}
		lock_release(&shared->mover);
		if (range)
			take_down(range, mapped);
	} while (range);
}

void shared_empty(struct shared *shared, bool wait)
{
	const struct backend_ops *ops = shared_ops(shared);
	struct backend *be = shared_backend(shared);

	if (wait && shared->stream)
		ops->sync(be);
	empty(shared);
	/* A call that has found the pool before it was to end may have made another range meanwhile. */
	shared_wait(&shared->holds);
	empty(shared);
	piece_clear(shared);
	for (guint i = 0; i < shared->events->len; i++)
		ops->event_destroy(be, shared->events->pdata[i]);
	if (shared->stream)
		ops->stream_destroy(be, shared->stream);
}

void shared_delete(struct shared *shared)
{
	mirror_leave_all(shared);
	shared_wait(&shared->holds);
	g_ptr_array_free(shared->ranges, TRUE);
	g_ptr_array_free(shared->zeros, TRUE);
	g_ptr_array_free(shared->events, TRUE);
	g_ptr_array_free(shared->mirrors, TRUE);
	g_ptr_array_free(shared->watchers, TRUE);
	lock_destroy(&shared->watching);
	lock_destroy(&shared->mover);
	g_free(shared);
}
