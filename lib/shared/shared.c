// SPDX-License-Identifier: LGPL-2.1-or-later
/* The ranges of the process. */
#include "shared/shared.h"

struct lock shared_lock = LOCK_INIT(LOCK_SHARED);
GPtrArray *shared_ranges;
gint shared_exist;

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
