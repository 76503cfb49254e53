// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <glib.h>

#include "calls/pool.h"
#include "shared/shared.h"
#include "shared/touch.h"
#include "support/ranges.h"

const struct ranges_way ranges_ways[RANGES_WAYS] = {
	[RANGES_USERFAULTFD] = { "userfaultfd", true },
	[RANGES_USER] = { "user", false },
	[RANGES_SIGNAL] = { "signal", false },
};

bool ranges_open(struct fixture *f, const struct ranges_way *way, struct vpmm_opts opts, char **at, size_t size)
{
	void *addr;
	int err;

	g_setenv("VPMM_SHARED_TOUCH", way->name, TRUE);
	fixture_open(f, opts);
	err = vpmm_shared_alloc(f->pool, &addr, size, VPMM_SHARED_FINE);
	g_unsetenv("VPMM_SHARED_TOUCH");
	if (err == -ENOTSUP) {
		fixture_close(f);
		g_test_skip("the kernel does not allow it");
		return false;
	}
	assert_ok(err);
	*at = addr;
	return true;
}

void *ranges_alloc(struct fixture *f, size_t size)
{
	void *addr = NULL;

	assert_ok(vpmm_shared_alloc(f->pool, &addr, size, VPMM_SHARED_FINE));
	return addr;
}

void *ranges_open_packed(struct fixture *f, size_t size)
{
	fixture_open(f, (struct vpmm_opts){ FIXTURE_PACKED });
	return ranges_alloc(f, size);
}

void ranges_close(struct fixture *f, void *at)
{
	assert_ok(vpmm_shared_free(f->pool, at, NULL));
	fixture_close(f);
}

struct vpmm_shared_stats ranges_stats(struct fixture *f)
{
	struct vpmm_shared_stats stats = { .size = sizeof(stats) };

	assert_ok(vpmm_shared_stats(f->pool, &stats));
	return stats;
}

struct range *ranges_first(struct fixture *f)
{
	return f->pool->shared->ranges->pdata[0];
}

struct vpmm_page ranges_page(struct fixture *f, const void *addr)
{
	struct vpmm_page page;

	g_assert_cmpint(vpmm_locate(f->pool, addr, 1, &page), ==, 1);
	return page;
}

int ranges_migrate(struct fixture *f, void *at, size_t size, enum vpmm_location to)
{
	return vpmm_migrate(f->pool, at, size, to, NULL, NULL, NULL);
}

char ranges_look(const char *at)
{
	return *(const volatile char *)at;
}

void ranges_touch(const void *one, const void *other)
{
	GArray *touched = g_array_new(FALSE, FALSE, sizeof(uint64_t));
	uint64_t addrs[] = { (uintptr_t)one, (uintptr_t)other };

	g_array_append_vals(touched, addrs, 2);
	serve_touches(touched);
	g_array_free(touched, TRUE);
}

/* Touches are served in their order. */
void ranges_settle(struct fixture *f)
{
	char *at = ranges_alloc(f, PAGE);

	at[0] = 1;
	assert_ok(vpmm_shared_free(f->pool, at, NULL));
	assert_ok(vpmm_pool_trim(f->pool, 0, NULL));
}
