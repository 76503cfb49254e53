// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Records of the legacy default stream that are put off while it is the only stream of a pool: nobody asks for them
 * then. Whoever asks later comes after the work all the same.
 */
#include <errno.h>

#include "backend/backend.h"
#include "calls/pool.h"
#include "core/stream.h"
#include "host/capture-fixture.h"
#include "host/host-streams.h"
#include "support/fault.h"

#define MISSES 320

/* Sizes that no cache has. */
static void miss(struct fixture *f, struct CUstream_st *stream)
{
	for (size_t i = 0; i < MISSES; i++)
		fixture_free(f, fixture_malloc_bytes(f, PAGE / 4 + (i * 37 % MISSES) * 1024, stream), stream);
}

static uint64_t records_of(struct fixture *f, struct CUstream_st *stream)
{
	uint64_t before = backend_fault_calls(f->pool->core.backend, BACKEND_OP_event_record);

	miss(f, stream);
	return backend_fault_calls(f->pool->core.backend, BACKEND_OP_event_record) - before;
}

static void test_few_are_made(void)
{
	struct fixture f;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	g_assert_cmpuint(records_of(&f, NULL), <=, MISSES / EVENT_SHARES + 1);
	fixture_close(&f);
}

/* A stream that can be destroyed can be recorded only while it calls; and with a second stream somebody asks. */
static void test_others_are_made(void)
{
	struct fixture f;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	g_assert_cmpuint(records_of(&f, f.streams[0]), >, MISSES / 2);
	fixture_close(&f);
	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	fixture_malloc(&f, 1, NULL);
	fixture_malloc(&f, 1, f.streams[0]);
	g_assert_cmpuint(records_of(&f, NULL), >, MISSES / 2);
	fixture_close(&f);
}

/* All that the pool may hold is free, behind records that were put off and work that is pending. */
static void open_full(struct fixture *f, enum vpmm_reuse reuse)
{
	char *large;

	fixture_open(f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 8 * PAGE, .reuse = reuse,
					    .export_as = VPMM_EXPORT_FD });
	large = fixture_malloc_bytes(f, 7 * PAGE, NULL);
	fixture_free_at_work(f, large, NULL);
	for (size_t i = 1; i < 6; i++)
		fixture_free_at_work(f, fixture_malloc(f, i, NULL), NULL);
	fixture_free(f, fixture_malloc_bytes(f, PAGE / 2, NULL), NULL);
}

static void test_next_comes_after(void)
{
	struct fixture f;

	open_full(&f, VPMM_REUSE_ASYNC);
	fixture_malloc(&f, 6, f.streams[0]);
	fixture_submit_waits(f.streams[0]);
	fixture_complete(NULL);
	fixture_complete(f.streams[0]);
	fixture_close(&f);
}

static void test_host_waits(void)
{
	unsigned int left = 1;
	struct fixture f;

	open_full(&f, VPMM_REUSE_BLOCK);
	fixture_malloc(&f, 6, f.streams[0]);
	assert_ok(vpmm_host_stream_pending(NULL, &left));
	g_assert_cmpuint(left, ==, 0);
	fixture_close(&f);
}

/* Once a later event is complete, so is what was freed earlier, whatever the stream does next. */
static void test_later_event_is_complete(void)
{
	struct core *core;
	unsigned int left;
	struct fixture f;
	void *grows;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_ok(vpmm_malloc_growable(f.pool, &grows, PAGE, PAGE, NULL));
	fixture_free_at_work(&f, fixture_malloc(&f, 2, NULL), NULL);
	fixture_free_at_work(&f, fixture_malloc(&f, 1, NULL), NULL);
	/* No cache has it, so that its event is recorded at once. */
	fixture_free_at_work(&f, grows, NULL);
	assert_ok(vpmm_host_stream_submit(NULL));
	core = &f.pool->core;
	g_assert_cmpuint(core->streams.busy.length, ==, 1);
	lock_acquire(&core->lock);
	assert_ok(core->backend->ops->enter(core->backend));
	assert_ok(stream_sync_busy(&core->streams));
	core->backend->ops->leave(core->backend);
	lock_release(&core->lock);
	g_assert_cmpuint(core->streams.busy.length, ==, 0);
	assert_ok(vpmm_host_stream_pending(NULL, &left));
	g_assert_cmpuint(left, ==, 1);
	fixture_complete(NULL);
	fixture_close(&f);
}

/* Two growable blocks, of which the first is freed, and others. The frees of growable blocks record events at once. */
static void open_mappings(struct fixture *f, size_t last_size, void **last, void **blocks, size_t count)
{
	void *first;

	fixture_open(f, (struct vpmm_opts){ FIXTURE_OPTS });
	f->pool->core.settings.cache = true;
	assert_ok(vpmm_malloc_growable(f->pool, &first, PAGE, PAGE, NULL));
	assert_ok(vpmm_malloc_growable(f->pool, last, last_size, last_size, NULL));
	for (size_t i = 0; i < count; i++)
		blocks[i] = fixture_malloc(f, 2, NULL);
	fixture_free_at_work(f, first, NULL);
}

/* An old mapping goes once its event has passed, even if that was with a later one, and nothing was recorded for it. */
static void test_old_mapping_goes(void)
{
	void *blocks[4], *last;
	struct fixture f;

	open_mappings(&f, PAGE, &last, blocks, G_N_ELEMENTS(blocks));
	fixture_free_at_work(&f, blocks[0], NULL);
	fixture_free_at_work(&f, blocks[2], NULL);
	fixture_malloc(&f, 4, NULL);
	g_assert_cmpuint(fixture_stats(&f).zombies, >, 0);
	fixture_free_at_work(&f, last, NULL);
	fixture_complete(NULL);
	fixture_malloc(&f, 3, NULL);
	g_assert_cmpuint(fixture_stats(&f).zombies, ==, 0);
	fixture_close(&f);
}

/* The wait of another stream makes no record that would be complete after those of later frees. */
static void test_old_mapping_goes_with_later(void)
{
	void *blocks[6], *last;
	struct fixture f;

	open_mappings(&f, 3 * PAGE, &last, blocks, G_N_ELEMENTS(blocks));
	for (size_t i = 0; i < G_N_ELEMENTS(blocks); i += 2)
		fixture_free_at_work(&f, blocks[i], NULL);
	fixture_malloc(&f, 4, NULL);
	g_assert_cmpuint(fixture_stats(&f).zombies, >, 0);
	fixture_free_at_work(&f, last, NULL);
	assert_ok(vpmm_host_stream_submit(NULL));
	fixture_malloc(&f, 2, f.streams[0]);
	f.pool->core.settings.reuse = VPMM_REUSE_BLOCK;
	fixture_malloc(&f, 3, f.streams[1]);
	fixture_malloc(&f, 3, f.streams[2]);
	g_assert_cmpuint(fixture_stats(&f).zombies, ==, 0);
	fixture_complete(NULL);
	fixture_complete(f.streams[0]);
	fixture_close(&f);
}

/* The stream cannot be recorded then, so whoever wants its memory waits for the device. */
static void test_beside_capture(gconstpointer captured)
{
	struct fixture f;

	open_full(&f, VPMM_REUSE_ASYNC);
	begin(&f, f.streams[0]);
	fixture_malloc(&f, 6, f.streams[captured ? 0 : 1]);
	fixture_complete(NULL);
	finish(f.streams[0]);
	fixture_close(&f);
}

/* Once the device is idle, what was put off is complete, though nothing can be recorded. */
static void test_released_beside_capture(void)
{
	struct fixture f;
	void *ptr;

	open_full(&f, VPMM_REUSE_ASYNC);
	begin(&f, f.streams[0]);
	assert_ok(vpmm_malloc_flags(f.pool, &ptr, 6 * PAGE, f.streams[1], VPMM_SHAREABLE));
	finish(f.streams[0]);
	fixture_free(&f, ptr, f.streams[1]);
	fixture_close(&f);
}

static void test_trim(void)
{
	struct fixture f;
	size_t released;

	open_full(&f, VPMM_REUSE_ASYNC);
	assert_ok(vpmm_pool_trim(f.pool, 0, &released));
	g_assert_cmpuint(fixture_stats(&f).mapped, >=, PAGE);
	fixture_complete(NULL);
	assert_ok(vpmm_pool_trim(f.pool, 0, &released));
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 0);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/put-off/few-are-made", test_few_are_made);
	g_test_add_func("/put-off/others-are-made", test_others_are_made);
	g_test_add_func("/put-off/next-comes-after", test_next_comes_after);
	g_test_add_func("/put-off/host-waits", test_host_waits);
	g_test_add_func("/put-off/later-event-is-complete", test_later_event_is_complete);
	g_test_add_func("/put-off/old-mapping-goes", test_old_mapping_goes);
	g_test_add_func("/put-off/old-mapping-goes/with-later", test_old_mapping_goes_with_later);
	g_test_add_data_func("/put-off/beside-capture/other", NULL, test_beside_capture);
	g_test_add_data_func("/put-off/beside-capture/captured", "captured", test_beside_capture);
	g_test_add_func("/put-off/beside-capture/released", test_released_beside_capture);
	g_test_add_func("/put-off/trim", test_trim);
	return g_test_run();
}
