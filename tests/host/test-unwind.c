// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * What fails has changed nothing, where the pool does not keep to pages: some memory is missing, and undoing fails too.
 * tests/sweep/sweep.c has the rest.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "backend/backend.h"
#include "calls/pool.h"
#include "support/fault.h"
#include "support/fixture.h"

/* A pool, and a request that is going to take one particular way. */
struct scene {
	struct fixture f;
	char *live;
	void *held;
	size_t size;
	int stream;
};

/* Extents of two streams, one of them at work, and a shortfall. */
static void stage_donors(struct scene *s)
{
	void *a, *b;

	a = fixture_malloc(&s->f, 2, s->f.streams[0]);
	s->live = fixture_malloc(&s->f, 1, s->f.streams[0]);
	b = fixture_malloc(&s->f, 2, s->f.streams[1]);
	assert_ok(vpmm_host_stream_submit(s->f.streams[1]));
	fixture_free(&s->f, a, s->f.streams[0]);
	fixture_free(&s->f, b, s->f.streams[1]);
	s->size = 7 * PAGE;
}

/* Free ends and beginnings of extents of which the rest is allocated. */
static void stage_parts(struct scene *s)
{
	void *parts[3];

	for (int i = 0; i < 3; i++) {
		parts[i] = fixture_malloc_bytes(&s->f, PAGE * 3 / 2, s->f.streams[i % 2]);
		s->live = fixture_malloc_bytes(&s->f, PAGE / 2, s->f.streams[0]);
	}
	assert_ok(vpmm_host_stream_submit(s->f.streams[1]));
	for (int i = 0; i < 3; i++)
		fixture_free(&s->f, parts[i], s->f.streams[i % 2]);
	s->size = 6 * PAGE + 512;
}

/* A free region with a hole behind it, which another stream works on. */
static void stage_base(struct scene *s)
{
	void *a;

	s->live = fixture_malloc(&s->f, 1, s->f.streams[0]);
	a = fixture_malloc(&s->f, 3, s->f.streams[1]);
	assert_ok(vpmm_host_stream_submit(s->f.streams[1]));
	fixture_free(&s->f, a, s->f.streams[1]);
	s->size = 5 * PAGE;
}

/* Small requests have all that their pages have. */
static void stage_span(struct scene *s)
{
	for (int i = 0; i < 64; i++)
		s->live = fixture_malloc_bytes(&s->f, PAGE / 64, s->f.streams[0]);
	s->size = 512;
}

/* All is as before, but that free memory may have been given back for the request. */
static void assert_as_released(struct fixture *f, const struct vpmm_stats *before)
{
	struct vpmm_stats after = fixture_stats(f);

	assert_ok(vpmm_pool_check(f->pool));
	g_assert_cmpuint(after.live, ==, before->live);
	g_assert_cmpuint(after.mapped + after.given_back - after.grown, ==,
			 before->mapped + before->given_back - before->grown);
	g_assert_cmpuint(after.mapped, <=, before->mapped);
	g_assert_cmpuint(after.reserved, ==, before->reserved);
	g_assert_cmpuint(after.mallocs, ==, before->mallocs);
}

#define PAGED_EXTENTS ((struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE })

/* Memory or mappings that are not there once are no reason to fail, and neither is a whole call's worth of failures. */
static void test_donors_without_memory(void)
{
	static const enum backend_op ops[] = { BACKEND_OP_create, BACKEND_OP_map, BACKEND_OP_access };

	for (size_t i = 0; i < G_N_ELEMENTS(ops); i++) {
		for (unsigned int count = 1; count < 4; count++) {
			struct scene s = { .stream = 0 };
			struct vpmm_stats before;
			void *block = NULL;

			fixture_open_faulty(&s.f, PAGED_EXTENTS);
			fixture_uncache(&s.f);
			stage_donors(&s);
			strcpy(s.live, "alive");
			before = fixture_stats(&s.f);
			backend_fault_arm(s.f.pool->core.backend, ops[i], 0, count, -ENOMEM);
			if (vpmm_malloc(s.f.pool, &block, s.size, s.f.streams[0])) {
				g_assert_cmpint(errno, ==, ENOMEM);
				assert_as_released(&s.f, &before);
				backend_fault_arm(s.f.pool->core.backend, ops[i], 0, 0, 0);
				block = fixture_malloc_bytes(&s.f, s.size, s.f.streams[0]);
			}
			backend_fault_arm(s.f.pool->core.backend, ops[i], 0, 0, 0);
			memset(block, 1, s.size);
			g_assert_cmpstr(s.live, ==, "alive");
			fixture_close(&s.f);
		}
	}
}

/* A failure, and a second one while the first is being undone: what stays mapped is unmapped later, and not used. */
static void undoing_fails(void (*stage)(struct scene *s), enum backend_op op, enum backend_op undoing)
{
	struct scene s = { .stream = 0 };
	struct vpmm_stats before, after;
	void *block = NULL;

	fixture_open_faulty(&s.f, PAGED_EXTENTS);
	fixture_uncache(&s.f);
	stage(&s);
	strcpy(s.live, "alive");
	before = fixture_stats(&s.f);
	backend_fault_arm(s.f.pool->core.backend, op, 0, 1, -EIO);
	backend_fault_arm(s.f.pool->core.backend, undoing, 0, 2, -EINVAL);
	assert_error(vpmm_malloc(s.f.pool, &block, s.size, s.f.streams[0]), EIO, "vpmm_malloc");
	assert_ok(vpmm_pool_check(s.f.pool));
	g_assert_cmpuint(fixture_stats(&s.f).mapped, ==, before.mapped);
	backend_fault_arm(s.f.pool->core.backend, undoing, 0, 0, 0);
	block = fixture_malloc_bytes(&s.f, s.size, s.f.streams[0]);
	memset(block, 1, s.size);
	g_assert_cmpstr(s.live, ==, "alive");
	after = fixture_stats(&s.f);
	if (undoing == BACKEND_OP_unmap)
		g_assert_cmpuint(after.unmaps, >=, before.unmaps + 2);
	g_assert_null(circle_first(&s.f.pool->core.regions.dead));
	g_assert_null(circle_first(&s.f.pool->core.spans.dead));
	fixture_close(&s.f);
}

static void test_undoing(void)
{
	undoing_fails(stage_donors, BACKEND_OP_access, BACKEND_OP_unmap);
	undoing_fails(stage_donors, BACKEND_OP_access, BACKEND_OP_release);
	undoing_fails(stage_base, BACKEND_OP_access, BACKEND_OP_unmap);
	undoing_fails(stage_parts, BACKEND_OP_access, BACKEND_OP_unmap);
}

static void test_undoing_span(void)
{
	undoing_fails(stage_span, BACKEND_OP_access, BACKEND_OP_unmap);
}

/* A stray range that still cannot be unmapped is no reason to hand it out: the next call says why it failed. */
static void test_stray_stays(void)
{
	struct scene s = { .stream = 0 };
	void *block = NULL;

	fixture_open_faulty(&s.f, PAGED_EXTENTS);
	fixture_uncache(&s.f);
	stage_donors(&s);
	backend_fault_arm(s.f.pool->core.backend, BACKEND_OP_access, 0, 1, -EIO);
	backend_fault_arm(s.f.pool->core.backend, BACKEND_OP_unmap, 0, 2, -EINVAL);
	assert_error(vpmm_malloc(s.f.pool, &block, s.size, s.f.streams[0]), EIO, "access");
	assert_error(vpmm_malloc(s.f.pool, &block, s.size, s.f.streams[0]), EINVAL, "unmap");
	g_assert_null(block);
	fixture_malloc_bytes(&s.f, s.size, s.f.streams[0]);
	fixture_close(&s.f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/unwind/donors-without-memory", test_donors_without_memory);
	g_test_add_func("/unwind/undoing", test_undoing);
	g_test_add_func("/unwind/undoing-span", test_undoing_span);
	g_test_add_func("/unwind/stray-stays", test_stray_stays);
	return g_test_run();
}
