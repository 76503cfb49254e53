// SPDX-License-Identifier: LGPL-2.1-or-later
/* The exported calls: every wrong argument of each, the default pool, forks, what a check finds. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/backend.h"
#include "calls/pool.h"
#include "config.h"
#include "support/fault.h"
#include "support/fixture.h"

#define THREADS 8

static struct CUstream_st *const no_stream = (struct CUstream_st *)0x1234;

static void test_create(void)
{
	struct vpmm_opts opts = { FIXTURE_OPTS };

	assert_error(vpmm_pool_create(NULL, &opts), EINVAL, "pool is NULL");
	fixture_assert_nothing_left();
}

/* The default is cuda; a machine without a GPU has a clear error. */
static void test_create_without_device(void)
{
	struct vpmm_opts opts = { .size = sizeof(opts) };
	struct vpmm_pool *pool = NULL;

	switch (vpmm_pool_create(&pool, &opts)) {
	case 0:
		vpmm_pool_destroy(pool);
		g_test_skip("there is a GPU");
		break;
	case -ENODEV:
		g_assert_null(pool);
		g_assert_nonnull(strstr(vpmm_last_error(), "cu"));
		g_assert_nonnull(strstr(vpmm_last_error(), "\nwithout a GPU, VPMM_BACKEND=host "));
		break;
	default:
		g_error("expected -ENODEV: %s", vpmm_last_error());
	}
	fixture_assert_nothing_left();
}

static void test_create_too_deep(void)
{
	struct vpmm_opts opts = { FIXTURE_OPTS };
	struct vpmm_pool *pool = NULL;
	struct backend *be;
	int depth = 0;

	assert_ok(backend_open("host", NULL, &be));
	while (!be->ops->enter(be))
		depth++;

	assert_error(vpmm_pool_create(&pool, &opts), EINVAL, "vpmm_pool_create: enter");

	g_assert_null(pool);
	while (depth--)
		be->ops->leave(be);
	be->ops->close(be);
	fixture_assert_nothing_left();
}

static void test_destroy(void)
{
	vpmm_pool_destroy(NULL);
}

static void test_destroy_with_live(void)
{
	struct fixture f;
	void *small;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS, .pages = 4 });
	fixture_malloc(&f, 2, f.streams[0]);
	assert_ok(vpmm_malloc(f.pool, &small, 100, f.streams[0]));
	assert_ok(vpmm_host_stream_submit(f.streams[1]));
	fixture_free(&f, fixture_malloc(&f, 9, f.streams[1]), f.streams[1]);
	fixture_close(&f);
}

static void test_malloc(void)
{
	struct fixture f;
	void *ptr = &f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS });
	assert_error(vpmm_malloc(f.pool, NULL, PAGE, f.streams[0]), EINVAL, "ptr is NULL");
	assert_error(vpmm_malloc(f.pool, &ptr, PAGE, no_stream), EINVAL, "stream");
	assert_error(vpmm_malloc(f.pool, &ptr, 100, no_stream), EINVAL, "stream");
	assert_error(vpmm_malloc(f.pool, &ptr, SIZE_MAX, f.streams[0]), ENOMEM, "more than a device");
	assert_error(vpmm_malloc(f.pool, &ptr, SIZE_MAX / 4, f.streams[0]), ENOMEM, "address space");
	assert_error(vpmm_malloc(f.pool, &ptr, (size_t)1 << 40, f.streams[0]), ENOMEM, "1048576 MiB");
	g_assert_true(ptr == &f);
	assert_ok(vpmm_pool_check(f.pool));
	g_assert_cmpuint(fixture_stats(&f).mallocs, ==, 0);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 0);
	assert_ok(vpmm_malloc(f.pool, &ptr, 0, f.streams[0]));
	g_assert_null(ptr);
	fixture_close(&f);
}

static void test_free(void)
{
	struct fixture f;
	char *ptr;
	int local;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS });
	ptr = fixture_malloc(&f, 2, f.streams[0]);
	assert_ok(vpmm_free(f.pool, NULL, f.streams[0]));
	assert_ok(vpmm_free(f.pool, NULL, no_stream));
	assert_error(vpmm_free(f.pool, &local, f.streams[0]), EINVAL, "no allocation");
	assert_error(vpmm_free(f.pool, ptr + 1, f.streams[0]), EINVAL, "no allocation");
	assert_error(vpmm_free(f.pool, ptr + PAGE, f.streams[0]), EINVAL, "no allocation");
	assert_error(vpmm_free(f.pool, ptr, no_stream), EINVAL, "stream");
	g_assert_cmpuint(fixture_stats(&f).live, ==, 2 * PAGE);
	fixture_free(&f, ptr, f.streams[0]);
	assert_error(vpmm_free(f.pool, ptr, f.streams[0]), EINVAL, "no allocation");
	g_assert_cmpuint(fixture_stats(&f).frees, ==, 1);
	fixture_close(&f);
}

static void test_stats(void)
{
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS });
	fixture_malloc(&f, 2, f.streams[0]);
	assert_error(vpmm_pool_stats(f.pool, NULL), EINVAL, "vpmm_pool_stats: stats is NULL");
	g_assert_cmpuint(fixture_stats(&f).live, ==, 2 * PAGE);
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 2 * PAGE);
	fixture_close(&f);
}

static void test_info(void)
{
	struct fixture f;
	struct vpmm_info info = { .size = sizeof(info) };

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS, .pages = 3, .reuse = VPMM_REUSE_BLOCK });
	assert_error(vpmm_pool_info(f.pool, NULL), EINVAL, "info is NULL");
	assert_ok(vpmm_pool_info(f.pool, &info));
	g_assert_cmpstr(info.backend, ==, "host");
	g_assert_cmpint(info.device, ==, 0);
	g_assert_cmpuint(info.page_size, ==, PAGE);
	g_assert_cmpuint(info.granularity, ==, PAGE);
	g_assert_cmpuint(info.va_size, ==, (size_t)1 << 30);
	g_assert_cmpuint(info.pages, ==, 3);
	g_assert_cmpint(info.reuse, ==, VPMM_REUSE_BLOCK);
	g_assert_cmpuint(info.memory_total - info.memory_free, ==, 3 * PAGE);
	fixture_close(&f);
}

static void test_dump(void)
{
	struct fixture f;
	FILE *full = fopen("/dev/full", "w");

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS });
	assert_error(vpmm_pool_dump(f.pool, NULL), EINVAL, "out is NULL");
	if (full) {
		assert_error(vpmm_pool_dump(f.pool, full), EIO, "writing failed");
		fclose(full);
	}
	fixture_close(&f);
}

/* What the backend cannot do, the call that needs it says; the caller's structure stays as it was. */
static void test_backend_fails(void)
{
	struct vpmm_stats stats = { .size = sizeof(stats), .mapped = 77 };
	struct vpmm_info info = { .size = sizeof(info), .device = 77 };
	struct vpmm_forecast forecast = { .size = sizeof(forecast), .largest = 77 };
	size_t released = 77;
	struct backend *be;
	struct fixture f;

	fixture_open_faulty(&f, (struct vpmm_opts){ FIXTURE_OPTS });
	be = f.pool->core.backend;

	backend_fault_arm(be, BACKEND_OP_enter, 0, 6, -EIO);
	assert_error(vpmm_pool_trim(f.pool, 0, &released), EIO, "vpmm_pool_trim: ");
	assert_error(vpmm_pool_query(f.pool, 1, NULL, &forecast), EIO, "vpmm_pool_query: ");
	assert_error(vpmm_pool_stats(f.pool, &stats), EIO, "vpmm_pool_stats: ");
	assert_error(vpmm_pool_info(f.pool, &info), EIO, "vpmm_pool_info: ");
	assert_error(vpmm_pool_dump(f.pool, stderr), EIO, "vpmm_pool_dump: ");
	assert_error(vpmm_pool_check(f.pool), EIO, "vpmm_pool_check: ");
	backend_fault_arm(be, BACKEND_OP_info, 0, 2, -EIO);
	assert_error(vpmm_pool_info(f.pool, &info), EIO, "vpmm_pool_info: ");
	assert_error(vpmm_pool_query(f.pool, 1, NULL, &forecast), EIO, "vpmm_pool_query: ");
	backend_fault_arm(be, BACKEND_OP_stream_id, 0, 1, -EINVAL);
	assert_error(vpmm_pool_query(f.pool, 1, NULL, &forecast), EINVAL, "vpmm_pool_query: ");
	backend_fault_arm(be, BACKEND_OP_small_held, 0, 2, -EIO);
	assert_error(vpmm_pool_stats(f.pool, &stats), EIO, "vpmm_pool_stats: ");
	assert_error(vpmm_pool_dump(f.pool, stderr), EIO, "vpmm_pool_dump: ");

	g_assert_cmpuint(stats.mapped, ==, 77);
	g_assert_cmpint(info.device, ==, 77);
	g_assert_cmpuint(forecast.largest, ==, 77);
	g_assert_cmpuint(released, ==, 77);
	fixture_close(&f);
}

static void test_query(void)
{
	struct vpmm_forecast forecast = { .size = sizeof(forecast) };
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS });
	assert_error(vpmm_pool_query(f.pool, 1, NULL, NULL), EINVAL, "vpmm_pool_query: forecast is NULL");
	assert_ok(vpmm_pool_query(f.pool, 3 * PAGE, f.streams[0], &forecast));
	g_assert_cmpint(forecast.way, ==, VPMM_WAY_GROW);
	g_assert_cmpuint(forecast.grown, ==, 3 * PAGE);
	fixture_close(&f);
}

static void test_opts_from_env(void)
{
	assert_error(vpmm_opts_from_env(NULL), EINVAL, "vpmm_opts_from_env: opts is NULL");
}

static void test_version(void)
{
	g_assert_cmpstr(vpmm_version(), ==, PACKAGE_VERSION);
}

/* Default pools live as long as the process, so each is looked at in a process of its own. */
static void test_default_pool(void)
{
	if (g_test_subprocess()) {
		struct vpmm_stats stats = { .size = sizeof(stats) };
		void *first, *second;

		g_setenv("VPMM_BACKEND", "host", TRUE);
		g_setenv("VPMM_HOST_DEVICES", "2", TRUE);
		g_setenv("VPMM_VA_SIZE", "1G", TRUE);
		assert_ok(vpmm_malloc(NULL, &first, PAGE, NULL));
		assert_ok(vpmm_host_set_device(1));
		assert_ok(vpmm_malloc(NULL, &second, 3 * PAGE, NULL));
		assert_ok(vpmm_pool_stats(NULL, &stats));
		g_assert_cmpuint(stats.live, ==, 3 * PAGE);
		assert_ok(vpmm_host_set_device(0));
		assert_ok(vpmm_pool_stats(NULL, &stats));
		g_assert_cmpuint(stats.live, ==, PAGE);
		assert_ok(vpmm_free(NULL, first, NULL));
		assert_ok(vpmm_pool_check(NULL));
		return;
	}
	g_test_trap_subprocess(NULL, 0, 0);
	g_test_trap_assert_passed();
}

static void test_default_pool_bad_env(void)
{
	if (g_test_subprocess()) {
		void *ptr = NULL;

		g_setenv("VPMM_BACKEND", "host", TRUE);
		g_setenv("VPMM_PAGES", "x", TRUE);
		assert_error(vpmm_malloc(NULL, &ptr, PAGE, NULL), EINVAL, "VPMM_PAGES=x");
		g_assert_null(ptr);
		g_setenv("VPMM_PAGES", "1", TRUE);
		g_setenv("VPMM_VA_SIZE", "1G", TRUE);
		assert_ok(vpmm_malloc(NULL, &ptr, PAGE, NULL));
		return;
	}
	g_test_trap_subprocess(NULL, 0, 0);
	g_test_trap_assert_passed();
}

static void *malloc_first(void *barrier)
{
	void *ptr;

	pthread_barrier_wait(barrier);
	assert_ok(vpmm_malloc(NULL, &ptr, PAGE, NULL));
	return ptr;
}

/* Whichever thread comes first, there is one default pool, and all have their memory from it. */
static void test_default_pool_of_threads(void)
{
	if (g_test_subprocess()) {
		struct vpmm_stats stats = { .size = sizeof(stats) };
		pthread_barrier_t barrier;
		pthread_t threads[THREADS];
		void *ptr;

		g_setenv("VPMM_BACKEND", "host", TRUE);
		g_setenv("VPMM_VA_SIZE", "1G", TRUE);
		g_setenv("VPMM_PAGES", "256", TRUE);
		pthread_barrier_init(&barrier, NULL, THREADS);
		for (int i = 0; i < THREADS; i++)
			g_assert_cmpint(pthread_create(&threads[i], NULL, malloc_first, &barrier), ==, 0);
		for (int i = 0; i < THREADS; i++) {
			g_assert_cmpint(pthread_join(threads[i], &ptr), ==, 0);
			assert_ok(vpmm_pool_stats(NULL, &stats));
			g_assert_cmpuint(stats.frees, ==, i);
			assert_ok(vpmm_free(NULL, ptr, NULL));
		}
		assert_ok(vpmm_pool_stats(NULL, &stats));
		g_assert_cmpuint(stats.mallocs, ==, THREADS);
		g_assert_cmpuint(stats.chunks, ==, 1);
		pthread_barrier_destroy(&barrier);
		return;
	}
	g_test_trap_subprocess(NULL, 0, 0);
	g_test_trap_assert_passed();
}

/* Runs in the child: every call fails cleanly; only the exit status can tell. */
static int use_in_child(struct vpmm_pool *pool, void *live)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };
	struct vpmm_info info = { .size = sizeof(info) };
	struct vpmm_forecast forecast = { .size = sizeof(forecast) };
	struct vpmm_pool *made = NULL;
	void *ptr = NULL;

	if (vpmm_malloc(pool, &ptr, PAGE, NULL) != -EBUSY || ptr)
		return 1;
	if (vpmm_free(pool, live, NULL) != -EBUSY)
		return 2;
	if (vpmm_pool_trim(pool, 0, NULL) != -EBUSY || vpmm_pool_query(pool, 1, NULL, &forecast) != -EBUSY)
		return 8;
	if (vpmm_pool_stats(pool, &stats) != -EBUSY || vpmm_pool_info(pool, &info) != -EBUSY)
		return 3;
	if (vpmm_pool_dump(pool, stderr) != -EBUSY || vpmm_pool_check(pool) != -EBUSY)
		return 4;
	if (!strstr(vpmm_last_error(), "forked"))
		return 5;
	if (vpmm_malloc(NULL, &ptr, PAGE, NULL) != -EBUSY)
		return 6;
	if (vpmm_pool_create(&made, &(struct vpmm_opts){ FIXTURE_OPTS }) != -EBUSY || made)
		return 7;
	vpmm_pool_destroy(pool);
	return 0;
}

static void test_fork(void)
{
	struct fixture f;
	void *live;
	pid_t child;
	int status;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS });
	live = fixture_malloc(&f, 1, f.streams[0]);
	child = fork();
	g_assert_cmpint(child, >=, 0);
	if (!child)
		_exit(use_in_child(f.pool, live));
	g_assert_cmpint(waitpid(child, &status, 0), ==, child);
	g_assert_true(WIFEXITED(status));
	g_assert_cmpint(WEXITSTATUS(status), ==, 0);
	fixture_free(&f, live, f.streams[0]);
	fixture_close(&f);
}

/* Two neighbours that two streams have freed, an allocation, and the hole: "[-2][-1][3]". */
struct sound {
	struct fixture f;
	struct chunk *chunk;
	struct region *first;
	struct region *second;
	struct region *live;
	struct region *hole;
};

static void sound_open(struct sound *s)
{
	void *first, *second;

	fixture_open(&s->f, (struct vpmm_opts){ FIXTURE_OPTS });
	first = fixture_malloc(&s->f, 2, s->f.streams[0]);
	second = fixture_malloc(&s->f, 1, s->f.streams[1]);
	fixture_malloc(&s->f, 3, s->f.streams[0]);
	assert_ok(vpmm_host_stream_submit(s->f.streams[0]));
	assert_ok(vpmm_host_stream_submit(s->f.streams[1]));
	fixture_free(&s->f, first, s->f.streams[0]);
	fixture_free(&s->f, second, s->f.streams[1]);
	s->chunk = s->f.pool->core.regions.chunks->pdata[0];
	s->first = s->chunk->first;
	s->second = s->first->next;
	s->live = s->second->next;
	s->hole = s->live->next;
}

/* One thing in a sound pool is wrong: that is what the check says. It is put right again. */
#define assert_found(s, place, wrong, what) \
	do { \
		__typeof__(place) right_ = (place); \
		(place) = (wrong); \
		assert_error(vpmm_pool_check((s)->f.pool), EUCLEAN, what); \
		(place) = right_; \
		assert_ok(vpmm_pool_check((s)->f.pool)); \
	} while (0)

static void test_check_places(void)
{
	struct sound s;

	sound_open(&s);
	assert_found(&s, s.first->addr, s.first->addr + PAGE, "does not start where its neighbour ends");
	assert_found(&s, s.first->size, PAGE + 1, "is not a multiple of what sizes are rounded up to");
	assert_found(&s, s.second->prev, NULL, "is not its neighbour's neighbour");
	assert_found(&s, s.chunk->size, s.chunk->size + PAGE, "do not fill it");
	assert_found(&s, s.live->kind, REGION_UNMAPPED, "and the next are both unmapped");
	assert_found(&s, s.first->stream, s.second->stream, "and the next are free for one stream");
	fixture_close(&s.f);
}

static void test_check_indices(void)
{
	struct sound s;

	sound_open(&s);
	assert_found(&s, s.second->kind, REGION_UNMAPPED, "is unmapped, and not in the tree of holes");
	assert_found(&s, s.hole->kind, REGION_MALLOC, "is allocated, and not in the table of allocations");
	assert_found(&s, s.live->kind, REGION_FREE, "is free, and not in its stream's tree");
	assert_found(&s, s.live->kind, REGION_ZOMBIE, "bytes allocated: 0 are there");
	assert_found(&s, s.first->event->passed, true, "is free with its event passed, and not in the tree of those");
	fixture_close(&s.f);
}

static void test_check_events_and_extents(void)
{
	struct extent *extent;
	struct sound s;

	sound_open(&s);
	extent = extent_place(&s.f.pool->core.extents, s.live->addr)->extent;
	assert_found(&s, s.hole->stream, s.first->stream, "has a stream or an event that its kind does not have");
	assert_found(&s, s.first->event->stream, s.second->stream, "has another stream's event");
	assert_found(&s, s.first->event->guarded.next, &s.first->event->guarded, "is not known to its event");
	assert_found(&s, extent->size, 0, "is mapped, and not covered by extents");
	assert_found(&s, extent->size, 2 * PAGE, "bytes allocated of an extent: 4194304 are there, 2097152 are kept");
	fixture_close(&s.f);
}

/* What is kept of extents that may be partly allocated: here one, with half of its page. */
static void test_check_extents(void)
{
	struct extent_map *map;
	struct extent *extent;
	struct sound s;
	void *a;

	fixture_open(&s.f, (struct vpmm_opts){ FIXTURE_PACKED, .pages = 1 });
	map = &s.f.pool->core.extents;
	a = fixture_malloc_bytes(&s.f, PAGE / 2, s.f.streams[0]);
	extent = extent_place(map, (uint64_t)(uintptr_t)a)->extent;
	assert_found(&s, extent->live, extent->live + 512, "bytes allocated of an extent");
	assert_found(&s, map->bytes, 4 * PAGE, "bytes of all extents: 2097152 are there, 8388608 are kept");
	assert_found(&s, map->whole_bytes, map->whole_bytes + PAGE, "bytes of whole extents");
	assert_found(&s, map->stuck_bytes, map->stuck_bytes + PAGE, "bytes that are stuck");
	assert_found(&s, map->places, 3, "places of extents: 1 are there, 3 are kept");
	assert_found(&s, extent->places->above, extent->places, "places of extents: 0 are there, 1 are kept");
	assert_found(&s, extent->places->addr, extent->places->addr + 2 * PAGE,
		     "is mapped, and not covered by extents");
	assert_found(&s, map->whole.head, &extent->whole, "is in a list of whole ones, and is not whole");
	assert_found(&s, map->whole.length, 1, "whole extents in a list: 0 are there, 1 are kept");
	assert_found(&s, extent->same_size->whole.head, &extent->alike, "is in a list of whole ones, and is not whole");
	assert_found(&s, extent->same_size->extents, 2, "extents by size: 1 are there, 2 are kept");
	fixture_close(&s.f);
}

/* All of a slab counts as allocated, so that it is never remapped. */
static void test_check_slab(void)
{
	struct extent *extent;
	struct sound s;
	void *a;

	fixture_open(&s.f, (struct vpmm_opts){ FIXTURE_PACKED });
	a = fixture_malloc_bytes(&s.f, 512, s.f.streams[0]);
	extent = extent_place(&s.f.pool->core.extents, (uint64_t)(uintptr_t)a)->extent;
	g_assert_false(extent->counts);
	assert_found(&s, extent->live, 0, "bytes allocated of an extent: 2097152 are there, 0 are kept");
	fixture_close(&s.f);
}

/* What is kept of an extent that is free as a whole. */
static void test_check_whole_extents(void)
{
	struct extent_map *map;
	struct extent *extent;
	struct sound s;

	fixture_open(&s.f, (struct vpmm_opts){ FIXTURE_PACKED, .pages = 1 });
	map = &s.f.pool->core.extents;
	extent = map->all.head->data;
	extent_update_whole(map);
	assert_found(&s, map->whole, (GQueue){ 0 }, "whole extents: 1 are there, 0 are kept");
	assert_found(&s, extent->same_size->whole, (GQueue){ 0 }, "whole extents by size: 1 are there, 0 are kept");
	fixture_close(&s.f);
}

static void test_check_sums(void)
{
	static const char *const kinds[] = { "bytes unmapped", "bytes allocated", "bytes free", "bytes of zombies",
					     "bytes that are loose" };
	struct region_map *map;
	GList stray = { 0 };
	struct sound s;

	sound_open(&s);
	map = &s.f.pool->core.regions;
	for (int kind = 0; kind < REGION_KINDS; kind++)
		assert_found(&s, map->bytes[kind], map->bytes[kind] + PAGE, kinds[kind]);
	assert_found(&s, map->count, 5, "regions: 4 are there, 5 are kept");
	assert_found(&s, map->by_age.length, 1, "free regions by age: 2 are there, 1 are kept");
	assert_found(&s, map->gaps.of[21].count, 0, "gaps of a class: 1 are there, 0 are kept");
	assert_found(&s, map->gaps.of[22].bytes, PAGE, "bytes of gaps of a class: 4194304 are there, 2097152 are kept");
	stray.next = &map->dead;
	assert_found(&s, map->dead.next, &stray, "zombies to be unmapped: 0 are there, 1 are kept");
	assert_found(&s, s.first->id, UINT64_MAX, "free regions are not in the order of their age");
	assert_found(&s, s.f.pool->core.small_live, 9, "bytes of small allocations: 0 are there, 9 are kept");
	fixture_close(&s.f);
}

static void test_check_streams(void)
{
	struct stream *stream;
	GList stray = { 0 };
	GList *guarded;
	struct sound s;

	sound_open(&s);
	stream = s.first->stream;
	guarded = &s.first->event->guarded;
	stray.next = guarded->next;
	assert_found(&s, stream->free[0]->by_age.length, 2, "free regions of a stream by age: 1 are there, 2 are kept");
	assert_found(&s, guarded->next, &stray, "regions with pending events: 2 are there, 3 are kept");
	assert_found(&s, stream->zombies, 1, "zombies with pending events: 0 are there, 1 are kept");
	assert_found(&s, s.f.pool->core.streams.busy.length, 1, "streams with pending events: 2 are there, 1 are kept");
	fixture_close(&s.f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/api/create", test_create);
	g_test_add_func("/api/create-without-device", test_create_without_device);
	g_test_add_func("/api/create-too-deep", test_create_too_deep);
	g_test_add_func("/api/destroy", test_destroy);
	g_test_add_func("/api/destroy-with-live", test_destroy_with_live);
	g_test_add_func("/api/malloc", test_malloc);
	g_test_add_func("/api/free", test_free);
	g_test_add_func("/api/stats", test_stats);
	g_test_add_func("/api/info", test_info);
	g_test_add_func("/api/dump", test_dump);
	g_test_add_func("/api/query", test_query);
	g_test_add_func("/api/backend-fails", test_backend_fails);
	g_test_add_func("/api/opts-from-env", test_opts_from_env);
	g_test_add_func("/api/version", test_version);
	g_test_add_func("/api/default-pool", test_default_pool);
	g_test_add_func("/api/default-pool-bad-env", test_default_pool_bad_env);
	g_test_add_func("/api/default-pool-of-threads", test_default_pool_of_threads);
	g_test_add_func("/api/fork", test_fork);
	g_test_add_func("/api/check/places", test_check_places);
	g_test_add_func("/api/check/indices", test_check_indices);
	g_test_add_func("/api/check/events-and-extents", test_check_events_and_extents);
	g_test_add_func("/api/check/extents", test_check_extents);
	g_test_add_func("/api/check/slab", test_check_slab);
	g_test_add_func("/api/check/whole-extents", test_check_whole_extents);
	g_test_add_func("/api/check/sums", test_check_sums);
	g_test_add_func("/api/check/streams", test_check_streams);
	return g_test_run();
}
