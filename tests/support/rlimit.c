// SPDX-License-Identifier: LGPL-2.1-or-later
#include <glib.h>

#include "support/rlimit.h"

rlim_t rlimit_set(int resource, rlim_t soft)
{
	struct rlimit limits;
	rlim_t before;

	g_assert_cmpint(getrlimit(resource, &limits), ==, 0);
	before = limits.rlim_cur;
	limits.rlim_cur = soft;
	g_assert_cmpint(setrlimit(resource, &limits), ==, 0);
	return before;
}
