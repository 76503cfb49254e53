// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Mirrors. Those of a pool are in two lists, as no lock is held both where a page of a range moves and where a region
 * of the pool is unmapped.
 */
#include <errno.h>

#include "shared/mirror.h"
#include "util/error.h"

struct vpmm_mirror {
	struct shared *shared;		/* under shared_lock; NULL: its pool is gone */
	struct vpmm_mirror_ops ops;
	void *data;
};

static void notify_mirrors(const GPtrArray *mirrors, uint64_t start, uint64_t end, enum vpmm_mirror_action action)
{
	for (guint i = 0; i < mirrors->len; i++) {
		struct vpmm_mirror *mirror = mirrors->pdata[i];

		mirror->ops.update(mirror, mirror->data, action, (void *)(uintptr_t)start, (void *)(uintptr_t)end);
	}
}

/* Those that are not moving any more have been in their place since. @index: which pages; NULL: the first. */
static void mark(struct range *range, const size_t *index, size_t count, bool moving)
{
	lock_assert_held(&range->shared->mover);
	lock_acquire(&shared_lock);
	for (size_t i = 0; i < count; i++) {
		struct page *page = &range->pages[index ? index[i] : i];

		if (moving)
			page->moving = true;
		else if (page->moving)
			page_stays(page);
	}
	lock_release(&shared_lock);
}

/* Pages that follow one another are one range. */
void mirror_tell(struct range *range, const size_t *index, size_t count)
{
	size_t first = 0;

	mark(range, index, count, true);
	if (!range->shared->mirrors->len)
		return;
	for (size_t i = 1; i <= count; i++) {
		if (i < count && index[i] == index[i - 1] + 1)
			continue;
		notify_mirrors(range->shared->mirrors, page_at(range, index[first]), page_at(range, index[i - 1] + 1),
			       VPMM_MIRROR_MOVE);
		first = i;
	}
}

void mirror_told(struct range *range, const size_t *index, size_t count)
{
	mark(range, index, count, false);
}

void mirror_tell_range(struct range *range)
{
	mark(range, NULL, range->count, true);
	notify_mirrors(range->shared->mirrors, range->at, range->at + range->size, VPMM_MIRROR_UNMAP);
}

/* What update leaves in errno or as the last error is not of the call that needs the memory. */
static void tell_of_region(struct shared *shared, uint64_t addr, size_t size, enum vpmm_mirror_action action)
{
	struct error_kept kept;
	int errno_kept = errno;

	error_keep(&kept);
	lock_acquire(&shared->watching);
	notify_mirrors(shared->watchers, addr, addr + size, action);
	lock_release(&shared->watching);
	error_restore(&kept);
	errno = errno_kept;
}

static void tell_of_loss(void *data, uint64_t addr, size_t size)
{
	tell_of_region(data, addr, size, VPMM_MIRROR_UNMAP);
}

static void tell_of_return(void *data, uint64_t addr, size_t size)
{
	tell_of_region(data, addr, size, VPMM_MIRROR_MAP);
}

void mirror_watch(struct shared *shared, struct core *core)
{
	lock_assert_held(&core->lock);
	core->extents.losing = tell_of_loss;
	core->extents.regained = tell_of_return;
	core->extents.told_data = shared;
}

/* As long as nobody listens, nobody tells. An arena does, and finds nobody. */
static void watch_extents(struct shared *shared, struct vpmm_mirror *mirror, bool add)
{
	struct core *core = shared->core;

	lock_acquire(&core->lock);
	lock_acquire(&shared->watching);
	if (add)
		g_ptr_array_add(shared->watchers, mirror);
	else
		g_ptr_array_remove(shared->watchers, mirror);
	if (shared->watchers->len)
		mirror_watch(shared, core);
	else
		core->extents.losing = core->extents.regained = NULL;
	lock_release(&shared->watching);
	lock_release(&core->lock);
}

void mirror_add(struct shared *shared, struct vpmm_mirror **made, const struct vpmm_mirror_ops *ops, void *data)
{
	struct vpmm_mirror *mirror = g_new0(struct vpmm_mirror, 1);

	mirror->shared = shared;
	mirror->ops = *ops;
	mirror->data = data;
	lock_acquire(&shared->mover);
	g_ptr_array_add(shared->mirrors, mirror);
	lock_release(&shared->mover);
	watch_extents(shared, mirror, true);
	*made = mirror;
}

/* A default pool may end meanwhile, as another call has found that its device was reset. */
void mirror_remove(struct vpmm_mirror *mirror)
{
	struct shared *shared;

	lock_acquire(&shared_lock);
	shared = mirror->shared;
	if (shared)
		shared->holds++;
	lock_release(&shared_lock);
	if (shared) {
		watch_extents(shared, mirror, false);
		lock_acquire(&shared->mover);
		g_ptr_array_remove(shared->mirrors, mirror);
		lock_release(&shared->mover);
		shared_drop(shared);
	}
	g_free(mirror);
}

void mirror_leave_all(struct shared *shared)
{
	lock_acquire(&shared->core->lock);
	shared->core->extents.losing = shared->core->extents.regained = NULL;
	lock_release(&shared->core->lock);
	lock_acquire(&shared->watching);
	g_ptr_array_set_size(shared->watchers, 0);
	lock_release(&shared->watching);
	lock_acquire(&shared->mover);
	lock_acquire(&shared_lock);
	for (guint i = 0; i < shared->mirrors->len; i++)
		((struct vpmm_mirror *)shared->mirrors->pdata[i])->shared = NULL;
	lock_release(&shared_lock);
	lock_release(&shared->mover);
}
