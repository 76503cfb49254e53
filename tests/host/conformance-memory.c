// SPDX-License-Identifier: LGPL-2.1-or-later
#include "host/conformance-bench.h"

static void check_reserve_aligned(struct bench *b)
{
	uint64_t va[4];
	size_t i, j;

	for (i = 0; i < G_N_ELEMENTS(va); i++)
		assert_ok(b->ops->reserve(b->be, (i + 1) * b->page, b->page << (2 * i), &va[i]));

	for (i = 0; i < G_N_ELEMENTS(va); i++) {
		g_assert_cmpuint(va[i] % (b->page << (2 * i)), ==, 0);
		for (j = 0; j < i; j++)
			g_assert_true(va[i] + (i + 1) * b->page <= va[j] || va[j] + (j + 1) * b->page <= va[i]);
		g_assert_false(reachable(b, va[i], false));
	}
	for (i = 0; i < G_N_ELEMENTS(va); i++)
		unreserve(b, va[i], i + 1);
}

static void check_reserve_much(struct bench *b)
{
	uint64_t va = UNTOUCHED;

	assert_ok(b->ops->reserve(b->be, 16 * GIB, b->page, &va));
	assert_ok(b->ops->unreserve(b->be, va, 16 * GIB));

	va = UNTOUCHED;
	assert_refused(b->ops->reserve(b->be, (size_t)1 << 56, b->page, &va), -ENOMEM);
	g_assert_cmpuint(va, ==, UNTOUCHED);
}

static void check_reserve_bad(struct bench *b)
{
	uint64_t va = UNTOUCHED;

	assert_refused(b->ops->reserve(b->be, 0, b->page, &va), -EINVAL);
	assert_refused(b->ops->reserve(b->be, b->page + 4096, b->page, &va), -EINVAL);
	assert_refused(b->ops->reserve(b->be, b->page, 0, &va), -EINVAL);
	assert_refused(b->ops->reserve(b->be, b->page, 3 * b->page, &va), -EINVAL);
	assert_refused(b->ops->reserve(b->be, SIZE_MAX - b->page + 1, (size_t)1 << 62, &va), -ENOMEM);
	g_assert_cmpuint(va, ==, UNTOUCHED);
}

static void check_reserve_at(struct bench *b)
{
	uint64_t va = reserve(b, 4), handle = create(b, 1);

	assert_refused(b->ops->reserve_at(b->be, va, 4 * b->page), -EADDRINUSE);
	unreserve(b, va, 4);
	assert_ok(b->ops->reserve_at(b->be, va, 4 * b->page));
	assert_refused(b->ops->reserve_at(b->be, va + b->page, b->page), -EADDRINUSE);
	map_access(b, va + b->page, 1, handle);
	g_assert_true(reachable(b, va + b->page, true));
	unmap(b, va + b->page, 1);
	unreserve(b, va, 4);
	release(b, handle);
}

static void check_reserve_at_bad(struct bench *b)
{
	uint64_t va = reserve(b, 1);

	unreserve(b, va, 1);
	assert_refused(b->ops->reserve_at(b->be, va, 0), -EINVAL);
	assert_refused(b->ops->reserve_at(b->be, va, b->page + 4096), -EINVAL);
	assert_refused(b->ops->reserve_at(b->be, va + 4096, b->page), -EINVAL);
	g_assert_cmpint(b->ops->reserve_at(b->be, va, (size_t)1 << 56), <, 0);
}

static void check_unreserve_bad(struct bench *b)
{
	uint64_t va = reserve(b, 4), handle = create(b, 1);

	assert_refused(b->ops->unreserve(b->be, va, 3 * b->page), -EINVAL);
	assert_refused(b->ops->unreserve(b->be, va + b->page, 3 * b->page), -EINVAL);
	assert_refused(b->ops->unreserve(b->be, va + 4 * b->page, b->page), -EINVAL);
	map(b, va + 3 * b->page, 1, handle);
	assert_refused(b->ops->unreserve(b->be, va, 4 * b->page), -EINVAL);

	unmap(b, va, 4);
	unreserve(b, va, 4);
	assert_refused(b->ops->unreserve(b->be, va, 4 * b->page), -EINVAL);
	release(b, handle);
}

static void check_create_counts(struct bench *b)
{
	uint64_t before = memory_free(b), handle = create(b, 3);

	g_assert_cmpuint(memory_free(b), ==, before - 3 * b->page);
	release(b, handle);
	g_assert_cmpuint(memory_free(b), ==, before);
}

static void check_create_too_much(struct bench *b)
{
	size_t all = memory_total(b) / b->page * b->page;
	uint64_t handle = UNTOUCHED;

	assert_refused(b->ops->create(b->be, all + b->page, &handle), -ENOMEM);
	g_assert_cmpuint(handle, ==, UNTOUCHED);
	release(b, create(b, 1));
}

static void check_create_until_full(struct bench *b)
{
	uint64_t last = create(b, 1), most = create(b, memory_free(b) / b->page), handle = UNTOUCHED;

	assert_refused(b->ops->create(b->be, b->page, &handle), -ENOMEM);
	g_assert_nonnull(strstr(error_get(), "memory"));
	g_assert_cmpuint(handle, ==, UNTOUCHED);

	release(b, last);
	release(b, create(b, 1));
	release(b, most);
}

static void check_create_bad(struct bench *b)
{
	uint64_t handle = UNTOUCHED, before = memory_free(b);

	assert_refused(b->ops->create(b->be, 0, &handle), -EINVAL);
	assert_refused(b->ops->create(b->be, b->page / 2, &handle), -EINVAL);
	assert_refused(b->ops->create(b->be, SIZE_MAX, &handle), -EINVAL);
	g_assert_cmpuint(handle, ==, UNTOUCHED);
	g_assert_cmpuint(memory_free(b), ==, before);
}

static void check_release_bad(struct bench *b)
{
	uint64_t handle = create(b, 1), other;

	release(b, handle);
	assert_refused(b->ops->release(b->be, handle), -EINVAL);
	assert_refused(b->ops->release(b->be, UNTOUCHED), -EINVAL);
	other = create(b, 1);
	g_assert_cmpuint(other, !=, handle);
	assert_refused(b->ops->release(b->be, handle), -EINVAL);
	release(b, other);
}

static void check_map(struct bench *b)
{
	uint64_t va = reserve(b, 8), handle = create(b, 3);

	map_access(b, va + b->page, 3, handle);
	put(b, va + b->page, 11);
	put(b, va + 4 * b->page - 8, 12);

	g_assert_cmpuint(get(b, va + b->page), ==, 11);
	g_assert_cmpuint(get(b, va + 4 * b->page - 8), ==, 12);
	unmap(b, va + b->page, 3);
	unreserve(b, va, 8);
	release(b, handle);
}

static void check_map_without_access(struct bench *b)
{
	uint64_t va = reserve(b, 3), handle = create(b, 1);

	g_assert_false(reachable(b, va + b->page, false));
	map(b, va + b->page, 1, handle);
	g_assert_false(reachable(b, va + b->page, false));
	assert_ok(b->ops->access(b->be, va + b->page, b->page));
	g_assert_true(reachable(b, va + b->page, true));
	g_assert_true(reachable(b, va + 2 * b->page - 1, true));
	g_assert_false(reachable(b, va + b->page - 1, false));
	g_assert_false(reachable(b, va + 2 * b->page, false));
	unmap(b, va + b->page, 1);
	g_assert_false(reachable(b, va + b->page, false));

	unreserve(b, va, 3);
	release(b, handle);
}

static void check_map_again_without_access(struct bench *b)
{
	uint64_t va = reserve(b, 1), handle = create(b, 1);

	map_access(b, va, 1, handle);
	unmap(b, va, 1);
	map(b, va, 1, handle);

	g_assert_false(reachable(b, va, false));
	unmap(b, va, 1);
	unreserve(b, va, 1);
	release(b, handle);
}

static void check_alias(struct bench *b)
{
	uint64_t va = reserve(b, 4), handle = create(b, 2);

	map_access(b, va, 2, handle);
	map_access(b, va + 2 * b->page, 2, handle);
	put(b, va, 21);
	put(b, va + 3 * b->page, 22);
	g_assert_cmpuint(get(b, va + 2 * b->page), ==, 21);
	g_assert_cmpuint(get(b, va + b->page), ==, 22);

	unmap(b, va, 2);
	g_assert_cmpuint(get(b, va + 2 * b->page), ==, 21);
	put(b, va + 2 * b->page, 23);
	map_access(b, va, 2, handle);
	g_assert_cmpuint(get(b, va), ==, 23);

	unmap(b, va, 4);
	unreserve(b, va, 4);
	release(b, handle);
}

static void check_remap_keeps_data(struct bench *b)
{
	uint64_t first = reserve(b, 2), second = reserve(b, 2), handle = create(b, 2);

	map_access(b, first, 2, handle);
	put(b, first + b->page, 31);
	unmap(b, first, 2);
	map_access(b, second, 2, handle);

	g_assert_cmpuint(get(b, second + b->page), ==, 31);
	unmap(b, second, 2);
	unreserve(b, first, 2);
	unreserve(b, second, 2);
	release(b, handle);
}

static void check_release_mapped(struct bench *b)
{
	uint64_t before = memory_free(b), va = reserve(b, 2), handle = create(b, 1);

	map_access(b, va, 1, handle);
	map_access(b, va + b->page, 1, handle);
	put(b, va, 41);
	release(b, handle);
	g_assert_cmpuint(get(b, va + b->page), ==, 41);
	unmap(b, va, 1);
	g_assert_cmpuint(get(b, va + b->page), ==, 41);

	if (b->device->strict) {
		g_assert_cmpuint(memory_free(b), ==, before - b->page);
		assert_refused(b->ops->map(b->be, va, b->page, handle), -EINVAL);
	}
	unmap(b, va + b->page, 1);
	if (b->device->strict)
		g_assert_cmpuint(memory_free(b), ==, before);
	unreserve(b, va, 2);
}

static void check_map_bad(struct bench *b)
{
	uint64_t va = reserve(b, 4), handle = create(b, 2), other = create(b, 1);

	assert_invalid(b, b->ops->map(b->be, va, b->page, handle));
	assert_invalid(b, b->ops->map(b->be, va, 3 * b->page, handle));
	assert_invalid(b, b->ops->map(b->be, va + b->page / 2, 2 * b->page, handle));
	/* What lies behind a reservation may be a reservation too: a driver is seen to let this pass. */
	if (b->device->strict)
		assert_invalid(b, b->ops->map(b->be, va + 3 * b->page, 2 * b->page, handle));
	map_access(b, va + b->page, 2, handle);
	put(b, va + b->page, 51);
	assert_invalid(b, b->ops->map(b->be, va, 2 * b->page, handle));
	assert_invalid(b, b->ops->map(b->be, va + b->page, b->page, other));
	assert_invalid(b, b->ops->map(b->be, va + 2 * b->page, b->page, other));

	g_assert_cmpuint(get(b, va + b->page), ==, 51);
	map_access(b, va, 1, other);
	map_access(b, va + 3 * b->page, 1, other);
	unmap(b, va, 4);
	unreserve(b, va, 4);
	assert_invalid(b, b->ops->map(b->be, va, b->page, other));
	release(b, other);
	release(b, handle);
}

static void check_access_many(struct bench *b)
{
	uint64_t va = reserve(b, 16), handle[16];
	size_t i;

	for (i = 16; i-- > 0;) {
		handle[i] = create(b, 1);
		map(b, va + i * b->page, 1, handle[i]);
	}
	assert_ok(b->ops->access(b->be, va, 16 * b->page));
	assert_ok(b->ops->access(b->be, va + 3 * b->page, 2 * b->page));
	for (i = 0; i < 16; i++)
		put(b, va + i * b->page, 100 + i);

	for (i = 0; i < 16; i++)
		g_assert_cmpuint(get(b, va + i * b->page), ==, 100 + i);
	unmap(b, va, 16);
	for (i = 0; i < 16; i++)
		release(b, handle[i]);
	unreserve(b, va, 16);
}

static void check_access_hole(struct bench *b)
{
	uint64_t va = reserve(b, 4), handle = create(b, 1), other = create(b, 1);

	map(b, va, 1, handle);
	map(b, va + 2 * b->page, 1, other);

	assert_refused(b->ops->access(b->be, va + b->page, b->page), -EINVAL);
	assert_refused(b->ops->access(b->be, va + 2 * b->page, 2 * b->page), -EINVAL);
	if (b->device->strict) {
		/* A driver is seen to let a hole in the middle pass. */
		assert_refused(b->ops->access(b->be, va, 3 * b->page), -EINVAL);
		g_assert_false(reachable(b, va, false));
		g_assert_false(reachable(b, va + 2 * b->page, false));
	}
	unmap(b, va, 4);
	unreserve(b, va, 4);
	release(b, handle);
	release(b, other);
}

static void check_access_cut(struct bench *b)
{
	uint64_t va = reserve(b, 4), handle = create(b, 2);

	map(b, va + b->page, 2, handle);

	assert_refused(b->ops->access(b->be, va + b->page, b->page), -EINVAL);
	assert_refused(b->ops->access(b->be, va + 2 * b->page, b->page), -EINVAL);
	assert_refused(b->ops->access(b->be, va + b->page, b->page / 2), -EINVAL);
	assert_refused(b->ops->access(b->be, va + b->page, 0), -EINVAL);
	g_assert_false(reachable(b, va + b->page, false));
	unmap(b, va, 4);
	unreserve(b, va, 4);
	release(b, handle);
}

static void check_unmap_parts(struct bench *b)
{
	uint64_t va = reserve(b, 6), handle = create(b, 1), other = create(b, 2);

	map_access(b, va + b->page, 1, handle);
	map_access(b, va + 3 * b->page, 2, other);
	unmap(b, va, 6);
	unmap(b, va, 6);

	g_assert_false(reachable(b, va + b->page, false));
	g_assert_false(reachable(b, va + 4 * b->page, false));
	map_access(b, va, 1, handle);
	put(b, va, 61);
	g_assert_cmpuint(get(b, va), ==, 61);
	unmap(b, va, 1);
	unreserve(b, va, 6);
	release(b, handle);
	release(b, other);
}

static void check_unmap_one_of_many(struct bench *b)
{
	uint64_t va = reserve(b, 3), handle[3];
	size_t i;

	for (i = 0; i < 3; i++) {
		handle[i] = create(b, 1);
		map_access(b, va + i * b->page, 1, handle[i]);
		put(b, va + i * b->page, 70 + i);
	}
	unmap(b, va + b->page, 1);

	g_assert_false(reachable(b, va + b->page, false));
	g_assert_cmpuint(get(b, va), ==, 70);
	g_assert_cmpuint(get(b, va + 2 * b->page), ==, 72);
	unmap(b, va, 3);
	unreserve(b, va, 3);
	for (i = 0; i < 3; i++)
		release(b, handle[i]);
}

static void check_unmap_bad(struct bench *b)
{
	uint64_t va = reserve(b, 4), handle = create(b, 2);

	map_access(b, va + b->page, 2, handle);
	put(b, va + b->page, 81);
	put(b, va + 2 * b->page, 82);

	assert_refused(b->ops->unmap(b->be, va, 2 * b->page, NULL), -EINVAL);
	assert_refused(b->ops->unmap(b->be, va + b->page, b->page, NULL), -EINVAL);
	assert_refused(b->ops->unmap(b->be, va + 2 * b->page, 2 * b->page, NULL), -EINVAL);
	assert_refused(b->ops->unmap(b->be, va + b->page, 2 * b->page - 4096, NULL), -EINVAL);
	assert_refused(b->ops->unmap(b->be, va + b->page, 0, NULL), -EINVAL);
	assert_refused(b->ops->unmap(b->be, va, 5 * b->page, NULL), -EINVAL);
	g_assert_cmpuint(get(b, va + b->page), ==, 81);
	g_assert_cmpuint(get(b, va + 2 * b->page), ==, 82);
	unmap(b, va, 4);
	unreserve(b, va, 4);
	assert_refused(b->ops->unmap(b->be, va, 4 * b->page, NULL), -EINVAL);
	release(b, handle);
}

static void check_unmap_guarded(struct bench *b)
{
	struct CUstream_st *stream = stream_new(b);
	uint64_t va = reserve(b, 1), handle = create(b, 1);
	struct backend_event *event;

	map_access(b, va, 1, handle);
	assert_ok(b->device->hold(stream));
	event = record(b, stream);
	if (b->device->strict) {
		put(b, va, 91);
		assert_refused(b->ops->unmap(b->be, va, b->page, event), -EBUSY);
		g_assert_cmpuint(get(b, va), ==, 91);
	}

	assert_ok(b->device->finish(stream));
	assert_completes(b, event);
	assert_ok(b->ops->unmap(b->be, va, b->page, event));
	b->ops->event_destroy(b->be, event);
	unreserve(b, va, 1);
	release(b, handle);
	stream_end(b, stream);
}

static void check_unmap_guard_unrecorded(struct bench *b)
{
	uint64_t va = reserve(b, 1);
	struct backend_event *event;

	assert_ok(b->ops->event_create(b->be, &event));
	assert_refused(b->ops->unmap(b->be, va, b->page, event), -EINVAL);
	b->ops->event_destroy(b->be, event);
	unreserve(b, va, 1);
}

static void check_mapping_limit(struct bench *b)
{
	size_t limit = b->device->mappings, i;
	uint64_t va, handle;

	if (!limit) {
		g_test_skip("the device can have too many mappings to try them all");
		return;
	}
	va = reserve(b, limit + 1);
	handle = create(b, 1);
	for (i = 0; i < limit; i++)
		map_access(b, va + i * b->page, 1, handle);
	map(b, va + limit * b->page, 1, handle);

	assert_refused(b->ops->access(b->be, va + limit * b->page, b->page), -ENOMEM);
	assert_ok(b->ops->access(b->be, va, limit * b->page));
	unmap(b, va, 1);
	assert_ok(b->ops->access(b->be, va + limit * b->page, b->page));
	unmap(b, va, limit + 1);
	unreserve(b, va, limit + 1);
	release(b, handle);
}

const struct check checks_of_memory[] = {
	{ "reserve-aligned", false, check_reserve_aligned },
	{ "reserve-much", false, check_reserve_much },
	{ "reserve-bad", true, check_reserve_bad },
	{ "reserve-at", false, check_reserve_at },
	{ "reserve-at-bad", true, check_reserve_at_bad },
	{ "unreserve-bad", true, check_unreserve_bad },
	{ "create-counts", true, check_create_counts },
	{ "create-too-much", false, check_create_too_much },
	{ "create-until-full", true, check_create_until_full },
	{ "create-bad", true, check_create_bad },
	{ "release-bad", true, check_release_bad },
	{ "map", false, check_map },
	{ "map-without-access", false, check_map_without_access },
	{ "map-again-without-access", false, check_map_again_without_access },
	{ "alias", false, check_alias },
	{ "remap-keeps-data", false, check_remap_keeps_data },
	{ "release-mapped", false, check_release_mapped },
	{ "map-bad", false, check_map_bad },
	{ "access-many", false, check_access_many },
	{ "access-hole", false, check_access_hole },
	{ "access-cut", true, check_access_cut },
	{ "unmap-parts", false, check_unmap_parts },
	{ "unmap-one-of-many", false, check_unmap_one_of_many },
	{ "unmap-bad", true, check_unmap_bad },
	{ "unmap-guarded", false, check_unmap_guarded },
	{ "unmap-guard-unrecorded", true, check_unmap_guard_unrecorded },
	{ "mapping-limit", false, check_mapping_limit },
	{ .name = NULL }
};
