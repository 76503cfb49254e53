// SPDX-License-Identifier: LGPL-2.1-or-later
#include "host/conformance-bench.h"

static void check_none_such(struct bench *b)
{
	assert_refused(b->ops->peer_check(b->be, -1), -ENODEV);
	assert_refused(b->ops->peer_check(b->be, BACKEND_PEERS_MOST), -ENODEV);
}

static void check_none(struct bench *b)
{
	uint64_t va = reserve(b, 1), handle = create(b, 1);

	assert_ok(b->ops->peers(b->be, 0));
	map_access(b, va, 1, handle);
	put(b, va, 5);
	g_assert_cmpuint(get(b, va), ==, 5);

	unmap(b, va, 1);
	unreserve(b, va, 1);
	release(b, handle);
}

/* Access is for several mappings at once, and may be there already. */
static void check_access_again(struct bench *b)
{
	uint64_t va = reserve(b, 3), first = create(b, 1), second = create(b, 2);

	map_access(b, va, 1, first);
	put(b, va, 5);
	map(b, va + b->page, 2, second);
	assert_ok(b->ops->access(b->be, va, 3 * b->page));
	assert_ok(b->ops->access(b->be, va, 3 * b->page));
	g_assert_cmpuint(get(b, va), ==, 5);
	g_assert_true(reachable(b, va + 3 * b->page - 1, true));

	unmap(b, va, 3);
	unreserve(b, va, 3);
	release(b, first);
	release(b, second);
}

/* Whoever comes or goes, the device itself keeps its access. */
static void check_come_and_go(struct bench *b)
{
	uint64_t va, handle, small;

	if (b->ops->peer_check(b->be, 1)) {
		g_test_skip(error_get());
		return;
	}
	va = reserve(b, 2);
	handle = create(b, 1);
	map_access(b, va, 1, handle);
	put(b, va, 5);
	small = small_alloc(b, 100, NULL);

	assert_ok(b->ops->peers(b->be, 2));
	assert_ok(b->ops->access(b->be, va, b->page));
	g_assert_cmpuint(get(b, va), ==, 5);
	assert_ok(b->ops->peers(b->be, 0));
	assert_ok(b->ops->deny(b->be, va, b->page, 2));
	assert_ok(b->ops->deny(b->be, va, b->page, 2));
	g_assert_cmpuint(get(b, va), ==, 5);
	map_access(b, va + b->page, 1, handle);
	g_assert_cmpuint(get(b, va + b->page), ==, 5);

	small_free(b, small, NULL);
	unmap(b, va, 2);
	unreserve(b, va, 2);
	release(b, handle);
}

/* The backend's own device, which is the first, and one that is not there; what was never accessible. */
static void check_bad(struct bench *b)
{
	uint64_t va = reserve(b, 2), handle = create(b, 1);

	assert_refused(b->ops->peer_check(b->be, 0), -EINVAL);
	assert_refused(b->ops->peers(b->be, 1), -EINVAL);
	assert_refused(b->ops->peers(b->be, UINT64_C(1) << (BACKEND_PEERS_MOST - 1)), -ENODEV);
	map(b, va, 1, handle);
	assert_refused(b->ops->deny(b->be, va, b->page, 2), -EINVAL);
	assert_ok(b->ops->access(b->be, va, b->page));
	assert_refused(b->ops->deny(b->be, va, b->page, 0), -EINVAL);
	assert_refused(b->ops->deny(b->be, va, b->page, 1), -EINVAL);
	assert_refused(b->ops->deny(b->be, va, 2 * b->page, 2), -EINVAL);
	unmap(b, va, 1);
	unreserve(b, va, 2);
	release(b, handle);
}

const struct check checks_of_peers[] = {
	{ "peers/none-such", false, check_none_such },
	{ "peers/none", false, check_none },
	{ "peers/access-again", false, check_access_again },
	{ "peers/come-and-go", false, check_come_and_go },
	{ "peers/bad", true, check_bad },
	{ NULL, false, NULL }
};
