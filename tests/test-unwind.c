// SPDX-License-Identifier: LGPL-2.1-or-later
/* What fails has changed nothing, where the pool does not keep to pages: each call of the driver fails in turn. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "backend.h"
#include "fixture.h"
#include "pool.h"

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

/* What another stream works on has it all. */
static void stage_taken(struct scene *s)
{
	void *a;

	a = fixture_malloc(&s->f, 4, s->f.streams[1]);
	s->live = fixture_malloc(&s->f, 1, s->f.streams[0]);
	assert_ok(vpmm_host_stream_submit(s->f.streams[1]));
	fixture_free(&s->f, a, s->f.streams[1]);
	s->size = 3 * PAGE + 512;
}

/* Memory that has moved, and is asked for where it was. */
static void stage_recalled(struct scene *s)
{
	void *a, *b, *block;

	a = fixture_malloc(&s->f, 2, s->f.streams[0]);
	s->live = fixture_malloc(&s->f, 1, s->f.streams[0]);
	b = fixture_malloc(&s->f, 2, s->f.streams[0]);
	fixture_malloc(&s->f, 1, s->f.streams[0]);
	fixture_free(&s->f, a, s->f.streams[0]);
	fixture_free(&s->f, b, s->f.streams[0]);
	block = fixture_malloc(&s->f, 4, s->f.streams[1]);
	assert_ok(vpmm_host_stream_submit(s->f.streams[1]));
	fixture_free(&s->f, block, s->f.streams[1]);
	s->size = 2 * PAGE;
}

/* Small requests have all that their pages have. */
static void stage_span(struct scene *s)
{
	for (int i = 0; i < 64; i++)
		s->live = fixture_malloc_bytes(&s->f, PAGE / 64, s->f.streams[0]);
	s->size = 512;
}

/* Small memory of two streams, one of them at work. */
static void stage_pending_span(struct scene *s)
{
	void *small[64];

	for (int i = 0; i < 64; i++)
		small[i] = fixture_malloc_bytes(&s->f, PAGE / 64, s->f.streams[1]);
	s->live = fixture_malloc(&s->f, 1, s->f.streams[0]);
	assert_ok(vpmm_host_stream_submit(s->f.streams[1]));
	for (int i = 0; i < 64; i++)
		fixture_free(&s->f, small[i], s->f.streams[1]);
	s->size = PAGE / 32;
}

static void assert_as_before(struct fixture *f, const struct vpmm_stats *before, const struct backend_left *held)
{
	struct vpmm_stats after = fixture_stats(f);
	struct backend_left left;

	g_assert_cmpuint(after.mapped, ==, before->mapped);
	g_assert_cmpuint(after.live, ==, before->live);
	g_assert_cmpuint(after.free, ==, before->free);
	g_assert_cmpuint(after.spans, ==, before->spans);
	g_assert_cmpuint(after.extents, ==, before->extents);
	g_assert_cmpuint(after.reserved, ==, before->reserved);
	g_assert_cmpuint(after.chunks, ==, before->chunks);
	g_assert_cmpuint(after.mallocs, ==, before->mallocs);
	g_assert_cmpuint(after.peak_live, ==, before->peak_live);
	backend_fault_left(f->pool->backend, &left);
	g_assert_cmpuint(left.handles, ==, held->handles);
	g_assert_cmpuint(left.reservations, ==, held->reservations);
}

/* The n-th call of one operation fails: the error comes back, all is as before, and then the same request succeeds. */
static bool fails_whole(struct vpmm_opts opts, void (*stage)(struct scene *s), enum backend_op op, unsigned int skip,
			int err)
{
	struct scene s = { .stream = 0 };
	struct vpmm_stats before;
	struct backend_left held;
	void *block = NULL;
	bool hit;

	fixture_open_faulty(&s.f, opts);
	fixture_uncache(&s.f);
	stage(&s);
	strcpy(s.live, "alive");
	before = fixture_stats(&s.f);
	backend_fault_left(s.f.pool->backend, &held);

	backend_fault_arm(s.f.pool->backend, op, skip, 1, err);
	hit = vpmm_malloc(s.f.pool, &block, s.size, s.f.streams[s.stream]) == err;
	backend_fault_arm(s.f.pool->backend, op, 0, 0, 0);
	assert_ok(vpmm_pool_check(s.f.pool));
	if (hit) {
		g_test_message("op %d, call %u", op, skip);
		g_assert_null(block);
		assert_as_before(&s.f, &before, &held);
		block = fixture_malloc_bytes(&s.f, s.size, s.f.streams[s.stream]);
	}
	g_assert_nonnull(block);
	g_assert_cmpstr(s.live, ==, "alive");
	memset(block, 1, s.size);
	g_assert_cmpstr(s.live, ==, "alive");
	fixture_close(&s.f);
	return hit;
}

struct fault {
	enum backend_op op;
	unsigned int calls;	/* at least so many can fail */
	int err;
};

static void each_fault(struct vpmm_opts opts, void (*stage)(struct scene *s), const struct fault *faults, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		unsigned int calls = 0;

		while (fails_whole(opts, stage, faults[i].op, calls, faults[i].err))
			calls++;
		g_assert_cmpuint(calls, >=, faults[i].calls);
	}
}

#define EACH_FAULT(opts, stage, ...) \
	do { \
		static const struct fault faults_[] = { __VA_ARGS__ }; \
		each_fault(opts, stage, faults_, G_N_ELEMENTS(faults_)); \
	} while (0)

#define PAGED_EXTENTS ((struct vpmm_opts){ FIXTURE_PACKED, .extent_max = PAGE })

static void test_donors(void)
{
	EACH_FAULT(PAGED_EXTENTS, stage_donors, { BACKEND_OP_create, 3, -EIO }, { BACKEND_OP_map, 5, -EIO },
		   { BACKEND_OP_access, 1, -EIO }, { BACKEND_OP_stream_id, 1, -EINVAL }, { BACKEND_OP_enter, 1, -EIO });
}

/* Memory or mappings that are not there once are no reason to fail, and neither is a whole call's worth of failures. */
static void test_donors_without_memory(void)
{
	static const enum backend_op ops[] = { BACKEND_OP_create, BACKEND_OP_map, BACKEND_OP_access };

	for (size_t i = 0; i < G_N_ELEMENTS(ops); i++) {
		for (unsigned int count = 1; count < 4; count++) {
			struct scene s = { .stream = 0 };
			struct vpmm_stats before;
			struct backend_left held;
			void *block = NULL;

			fixture_open_faulty(&s.f, PAGED_EXTENTS);
			fixture_uncache(&s.f);
			stage_donors(&s);
			strcpy(s.live, "alive");
			before = fixture_stats(&s.f);
			backend_fault_left(s.f.pool->backend, &held);
			backend_fault_arm(s.f.pool->backend, ops[i], 0, count, -ENOMEM);
			if (vpmm_malloc(s.f.pool, &block, s.size, s.f.streams[0])) {
				g_assert_cmpint(errno, ==, ENOMEM);
				assert_as_before(&s.f, &before, &held);
				backend_fault_arm(s.f.pool->backend, ops[i], 0, 0, 0);
				block = fixture_malloc_bytes(&s.f, s.size, s.f.streams[0]);
			}
			backend_fault_arm(s.f.pool->backend, ops[i], 0, 0, 0);
			memset(block, 1, s.size);
			g_assert_cmpstr(s.live, ==, "alive");
			fixture_close(&s.f);
		}
	}
}

static void test_donors_of_others(void)
{
	EACH_FAULT(PAGED_EXTENTS, stage_donors, { BACKEND_OP_stream_wait, 1, -EIO }, { BACKEND_OP_event_query, 1, -EIO },
		   { BACKEND_OP_event_create, 1, -EIO }, { BACKEND_OP_event_record, 1, -EIO });
}

static void test_base(void)
{
	EACH_FAULT(PAGED_EXTENTS, stage_base, { BACKEND_OP_create, 1, -EIO }, { BACKEND_OP_map, 1, -EIO },
		   { BACKEND_OP_access, 1, -EIO });
}

static void test_base_of_others(void)
{
	EACH_FAULT(PAGED_EXTENTS, stage_base, { BACKEND_OP_stream_wait, 1, -EIO }, { BACKEND_OP_event_record, 1, -EIO });
}

static void test_parts(void)
{
	EACH_FAULT(((struct vpmm_opts){ FIXTURE_PACKED }), stage_parts, { BACKEND_OP_create, 1, -EIO },
		   { BACKEND_OP_map, 1, -EIO }, { BACKEND_OP_access, 1, -EIO });
}

static void test_parts_of_others(void)
{
	EACH_FAULT(((struct vpmm_opts){ FIXTURE_PACKED }), stage_parts, { BACKEND_OP_stream_wait, 1, -EIO },
		   { BACKEND_OP_event_record, 1, -EIO });
}

static void test_taken(void)
{
	EACH_FAULT(PAGED_EXTENTS, stage_taken, { BACKEND_OP_stream_wait, 1, -EIO }, { BACKEND_OP_event_create, 1, -EIO },
		   { BACKEND_OP_event_record, 1, -EIO }, { BACKEND_OP_event_query, 1, -EIO });
}

static void test_recalled(void)
{
	EACH_FAULT(PAGED_EXTENTS, stage_recalled, { BACKEND_OP_stream_wait, 1, -EIO },
		   { BACKEND_OP_event_record, 1, -EIO }, { BACKEND_OP_event_query, 1, -EIO });
}

/* In chunks so short that the block needs one more, which goes again. */
static void test_chunks(void)
{
	struct vpmm_opts opts = { .size = sizeof(opts), .backend = "host", .va_size = 6 * PAGE, .extent_max = PAGE };

	EACH_FAULT(opts, stage_donors, { BACKEND_OP_reserve, 1, -EIO }, { BACKEND_OP_create, 3, -EIO },
		   { BACKEND_OP_map, 3, -EIO }, { BACKEND_OP_access, 1, -EIO });
}

static void test_blocking(void)
{
	struct vpmm_opts opts = { FIXTURE_PACKED, .extent_max = PAGE, .reuse = VPMM_REUSE_BLOCK };

	EACH_FAULT(opts, stage_taken, { BACKEND_OP_event_sync, 1, -EIO });
	EACH_FAULT(opts, stage_pending_span, { BACKEND_OP_event_sync, 1, -EIO });
}

static void test_blocking_gather(void)
{
	struct vpmm_opts opts = { FIXTURE_PACKED, .extent_max = PAGE, .reuse = VPMM_REUSE_BLOCK };

	EACH_FAULT(opts, stage_donors, { BACKEND_OP_event_sync, 1, -EIO }, { BACKEND_OP_map, 5, -EIO });
}

static void test_span(void)
{
	EACH_FAULT(((struct vpmm_opts){ FIXTURE_PACKED }), stage_span, { BACKEND_OP_create, 1, -EIO },
		   { BACKEND_OP_map, 1, -EIO }, { BACKEND_OP_access, 1, -EIO });
	EACH_FAULT(((struct vpmm_opts){ FIXTURE_PACKED }), stage_pending_span, { BACKEND_OP_stream_wait, 1, -EIO },
		   { BACKEND_OP_event_record, 1, -EIO }, { BACKEND_OP_event_query, 1, -EIO });
}

static void test_first_span(void)
{
	static const enum backend_op ops[] = { BACKEND_OP_reserve, BACKEND_OP_create, BACKEND_OP_map, BACKEND_OP_access };
	struct fixture f;
	void *a = NULL;

	for (size_t i = 0; i < G_N_ELEMENTS(ops); i++) {
		fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
		backend_fault_arm(f.pool->backend, ops[i], 0, 1, -EIO);
		assert_error(vpmm_malloc(f.pool, &a, 512, f.streams[0]), EIO, "vpmm_malloc");
		assert_ok(vpmm_pool_check(f.pool));
		g_assert_cmpuint(fixture_stats(&f).mapped, ==, 0);
		g_assert_cmpuint(fixture_stats(&f).extents, ==, 0);
		memset(fixture_malloc_bytes(&f, 512, f.streams[0]), 1, 512);
		fixture_close(&f);
	}
}

static void test_free(void)
{
	static const enum backend_op ops[] = {
		BACKEND_OP_event_create, BACKEND_OP_event_record, BACKEND_OP_stream_id, BACKEND_OP_enter,
	};
	static const size_t sizes[] = { 512, PAGE + 512, 5 * PAGE };
	struct fixture f;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	fixture_uncache(&f);
	for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
		void *a = fixture_malloc_bytes(&f, sizes[i], f.streams[0]);

		for (size_t j = 0; j < G_N_ELEMENTS(ops); j++) {
			backend_fault_arm(f.pool->backend, ops[j], 0, 1, -EIO);
			assert_error(vpmm_free(f.pool, a, f.streams[0]), EIO, "vpmm_free");
			assert_ok(vpmm_pool_check(f.pool));
			g_assert_cmpuint(fixture_stats(&f).live, ==, sizes[i]);
		}
		fixture_free(&f, a, f.streams[0]);
	}
	fixture_close(&f);
}

static void test_creation(void)
{
	static const enum backend_op ops[] = {
		BACKEND_OP_info, BACKEND_OP_reserve, BACKEND_OP_create, BACKEND_OP_map, BACKEND_OP_access,
	};
	struct vpmm_opts opts = { FIXTURE_PACKED, .pages = 30, .extent_max = 8 * PAGE };
	struct settings settings;
	struct backend *host, *be;
	struct vpmm_pool *pool;

	assert_ok(settings_from_opts(&settings, &opts));
	for (size_t i = 0; i < 2 * G_N_ELEMENTS(ops); i++) {
		assert_ok(backend_open("host", NULL, &host));
		assert_ok(backend_fault_wrap(host, &be));
		assert_ok(be->ops->enter(be));
		backend_fault_arm(be, ops[i / 2], 0, 1, -EIO);
		backend_fault_arm(be, BACKEND_OP_unmap, 0, i % 2, -EIO);
		assert_error(pool_new(&pool, be, &settings), EIO, "");
		be->ops->leave(be);
		be->ops->close(be);
		fixture_assert_nothing_left();
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
	backend_fault_arm(s.f.pool->backend, op, 0, 1, -EIO);
	backend_fault_arm(s.f.pool->backend, undoing, 0, 2, -EINVAL);
	assert_error(vpmm_malloc(s.f.pool, &block, s.size, s.f.streams[0]), EIO, "vpmm_malloc");
	assert_ok(vpmm_pool_check(s.f.pool));
	g_assert_cmpuint(fixture_stats(&s.f).mapped, ==, before.mapped);
	backend_fault_arm(s.f.pool->backend, undoing, 0, 0, 0);
	block = fixture_malloc_bytes(&s.f, s.size, s.f.streams[0]);
	memset(block, 1, s.size);
	g_assert_cmpstr(s.live, ==, "alive");
	after = fixture_stats(&s.f);
	if (undoing == BACKEND_OP_unmap)
		g_assert_cmpuint(after.unmaps, >=, before.unmaps + 2);
	g_assert_cmpuint(s.f.pool->regions.dead.length + s.f.pool->spans.dead.length, ==, 0);
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
	backend_fault_arm(s.f.pool->backend, BACKEND_OP_access, 0, 1, -EIO);
	backend_fault_arm(s.f.pool->backend, BACKEND_OP_unmap, 0, 2, -EINVAL);
	assert_error(vpmm_malloc(s.f.pool, &block, s.size, s.f.streams[0]), EIO, "access");
	assert_error(vpmm_malloc(s.f.pool, &block, s.size, s.f.streams[0]), EINVAL, "unmap");
	g_assert_null(block);
	fixture_malloc_bytes(&s.f, s.size, s.f.streams[0]);
	fixture_close(&s.f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/unwind/donors", test_donors);
	g_test_add_func("/unwind/donors-without-memory", test_donors_without_memory);
	g_test_add_func("/unwind/donors-of-others", test_donors_of_others);
	g_test_add_func("/unwind/base", test_base);
	g_test_add_func("/unwind/base-of-others", test_base_of_others);
	g_test_add_func("/unwind/parts", test_parts);
	g_test_add_func("/unwind/parts-of-others", test_parts_of_others);
	g_test_add_func("/unwind/taken", test_taken);
	g_test_add_func("/unwind/recalled", test_recalled);
	g_test_add_func("/unwind/chunks", test_chunks);
	g_test_add_func("/unwind/blocking", test_blocking);
	g_test_add_func("/unwind/blocking-gather", test_blocking_gather);
	g_test_add_func("/unwind/span", test_span);
	g_test_add_func("/unwind/first-span", test_first_span);
	g_test_add_func("/unwind/free", test_free);
	g_test_add_func("/unwind/creation", test_creation);
	g_test_add_func("/unwind/undoing", test_undoing);
	g_test_add_func("/unwind/undoing-span", test_undoing_span);
	g_test_add_func("/unwind/stray-stays", test_stray_stays);
	return g_test_run();
}
