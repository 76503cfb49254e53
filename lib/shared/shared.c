// SPDX-License-Identifier: LGPL-2.1-or-later
/* The ranges of the process. */
#include "shared/shared.h"

struct lock shared_lock = LOCK_INIT(LOCK_SHARED);
GPtrArray *shared_ranges;
gint shared_exist;

void shared_forked(void)
{
	lock_init(&shared_lock, LOCK_SHARED);
}

struct range *shared_find(uint64_t addr)
{
	lock_assert_held(&shared_lock);
	for (guint i = 0; shared_ranges && i < shared_ranges->len; i++) {
		struct range *range = shared_ranges->pdata[i];

		if (addr - range->at < range->size)
			return range;
	}
	return NULL;
}

struct shared *shared_hold(struct shared **at)
{
	struct shared *shared;

	lock_acquire(&shared_lock);
	shared = *at;
	if (shared)
		shared->holds++;
	lock_release(&shared_lock);
	return shared;
}

void shared_drop(struct shared *shared)
{
	shared_count(&shared->holds, -1);
}

struct shared *shared_take(struct shared **at)
{
	struct shared *shared;

	lock_acquire(&shared_lock);
	shared = *at;
	g_atomic_pointer_set(at, NULL);
	lock_release(&shared_lock);
	return shared;
}

/* What is counted lasts about as long as a driver call. */
void shared_wait(const unsigned int *count)
{
	bool busy = true;

	while (busy) {
		lock_acquire(&shared_lock);
		busy = *count;
		lock_release(&shared_lock);
		if (busy)
			g_usleep(20);
	}
}
