// SPDX-License-Identifier: LGPL-2.1-or-later
#define _GNU_SOURCE 1
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "calls/pool.h"
#include "host/backend.h"
#include "host/device.h"
#include "host/streams.h"
#include "support/fault.h"
#include "support/fixture.h"
#include "trace/sampler.h"

static void keep_log(void *data, int level, const char *message)
{
	GString *log = data;

	(void)level;
	g_string_append_printf(log, "%s\n", message);
}

void fixture_open(struct fixture *f, struct vpmm_opts opts)
{
	f->log = g_string_new(NULL);
	opts.log = keep_log;
	opts.log_data = f->log;
	assert_ok(vpmm_pool_create(&f->pool, &opts));
	for (int i = 0; i < STREAMS; i++)
		assert_ok(vpmm_host_stream_create(&f->streams[i]));
}

void fixture_open_faulty(struct fixture *f, struct vpmm_opts opts)
{
	struct settings settings;
	struct backend *host, *be;

	f->log = g_string_new(NULL);
	assert_ok(settings_from_opts(&settings, &opts));
	assert_ok(backend_open("host", NULL, &host));
	assert_ok(backend_fault_wrap(host, &be));
	assert_ok(be->ops->enter(be));
	assert_ok(pool_new(&f->pool, be, &settings));
	be->ops->leave(be);
	for (int i = 0; i < STREAMS; i++)
		assert_ok(vpmm_host_stream_create(&f->streams[i]));
}

void fixture_uncache(struct fixture *f)
{
	f->pool->core.settings.cache = false;
	f->pool->core.direct = false;
}

void fixture_assert_nothing_left(void)
{
	struct host_left left;

	backend_host_left(&left);
	g_assert_cmpuint(left.opens, ==, 0);
	g_assert_cmpuint(left.reservations, ==, 0);
	g_assert_cmpuint(left.handles, ==, 0);
	g_assert_cmpuint(left.mappings, ==, 0);
	g_assert_cmpuint(left.events, ==, 0);
	g_assert_cmpuint(left.small, ==, 0);
	g_assert_cmpuint(left.abandoned, ==, 0);
	g_assert_cmpuint(left.touched, ==, 0);
	g_assert_cmpuint(left.misordered, ==, 0);
	g_assert_cmpuint(sampler_live, ==, 0);
}

static GSList *graphs;

void fixture_keep_graph(struct vpmm_host_graph *graph)
{
	graphs = g_slist_prepend(graphs, graph);
}

static void destroy_graph(gpointer graph)
{
	assert_ok(vpmm_host_graph_destroy(graph));
}

void fixture_close_beside(struct fixture *f)
{
	g_slist_free_full(g_steal_pointer(&graphs), destroy_graph);
	assert_ok(vpmm_pool_check(f->pool));
	vpmm_pool_destroy(f->pool);
	for (int i = 0; i < STREAMS; i++)
		fixture_complete(f->streams[i]);
	for (int i = 0; i < STREAMS; i++)
		assert_ok(vpmm_host_stream_destroy(f->streams[i]));
	g_string_free(f->log, TRUE);
}

void fixture_close(struct fixture *f)
{
	fixture_close_beside(f);
	fixture_assert_nothing_left();
}

char *fixture_malloc_bytes(struct fixture *f, size_t size, struct CUstream_st *stream)
{
	void *ptr = NULL;

	assert_ok(vpmm_malloc(f->pool, &ptr, size, stream));
	assert_ok(vpmm_pool_check(f->pool));
	return ptr;
}

void *fixture_malloc(struct fixture *f, size_t pages, struct CUstream_st *stream)
{
	return fixture_malloc_bytes(f, pages * PAGE, stream);
}

void fixture_freeing(void *ptr, struct CUstream_st *stream)
{
	struct vpmm_allocation found = { .size = sizeof(found) };

	if (!vpmm_lookup(ptr, &found))
		host_stream_release(host_device_current(), stream, (uintptr_t)ptr, found.bytes);
}

void fixture_free(struct fixture *f, void *ptr, struct CUstream_st *stream)
{
	fixture_freeing(ptr, stream);
	assert_ok(vpmm_free(f->pool, ptr, stream));
	assert_ok(vpmm_pool_check(f->pool));
}

void fixture_free_at_work(struct fixture *f, void *ptr, struct CUstream_st *stream)
{
	assert_ok(vpmm_host_stream_submit(stream));
	fixture_free(f, ptr, stream);
}

char *fixture_malloc_used(struct fixture *f, size_t size)
{
	char *ptr = fixture_malloc_bytes(f, size, f->streams[0]);

	assert_ok(vpmm_use(f->pool, ptr, f->streams[1]));
	assert_ok(vpmm_host_stream_submit(f->streams[1]));
	return ptr;
}

void fixture_leave_secret(struct fixture *f, size_t size, struct CUstream_st *stream)
{
	char *ptr = fixture_malloc_bytes(f, size, stream);

	memset(ptr, FIXTURE_SECRET, size);
	fixture_free(f, ptr, stream);
}

/* By words, as some blocks are large and valgrind slow. */
bool fixture_is_filled(const char *ptr, size_t size, char value)
{
	uint64_t word, wanted;
	size_t i;

	memset(&wanted, value, sizeof(wanted));
	for (i = 0; size - i >= sizeof(word); i += sizeof(word)) {
		memcpy(&word, ptr + i, sizeof(word));
		if (word != wanted)
			return false;
	}
	return !memcmp(ptr + i, &wanted, size - i);
}

bool fixture_is_clear(const char *ptr, size_t size)
{
	return fixture_is_filled(ptr, size, 0);
}

void fixture_free_apart(struct fixture *f)
{
	void *a = fixture_malloc(f, 2, f->streams[0]), *b, *c;

	fixture_malloc(f, 1, f->streams[0]);
	b = fixture_malloc(f, 2, f->streams[1]);
	fixture_malloc(f, 1, f->streams[0]);
	c = fixture_malloc(f, 1, f->streams[1]);
	assert_ok(vpmm_host_stream_submit(f->streams[0]));
	assert_ok(vpmm_host_stream_submit(f->streams[1]));
	fixture_free(f, a, f->streams[0]);
	fixture_free(f, b, f->streams[1]);
	fixture_free(f, c, f->streams[1]);
}

void fixture_complete(struct CUstream_st *stream)
{
	assert_ok(vpmm_host_stream_complete(stream, UINT_MAX));
}

void fixture_assert_waits(struct CUstream_st *stream)
{
	g_assert_cmpint(vpmm_host_stream_complete(stream, 1), ==, -EBUSY);
}

void fixture_submit_waits(struct CUstream_st *stream)
{
	assert_ok(vpmm_host_stream_submit(stream));
	fixture_assert_waits(stream);
}

struct vpmm_stats fixture_stats(struct fixture *f)
{
	struct vpmm_stats stats = { .size = sizeof(stats) };

	assert_ok(vpmm_pool_stats(f->pool, &stats));
	return stats;
}

char *fixture_dump(struct fixture *f)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	g_assert_nonnull(out);
	assert_ok(vpmm_pool_dump(f->pool, out));
	fclose(out);
	return text;
}

char *fixture_layout(struct fixture *f)
{
	char *text = fixture_dump(f), *line, *hole, *layout;

	line = strstr(text, "\nchunk ");
	g_assert_nonnull(line);
	line = strchr(line, '[');
	*strchr(line, '\n') = '\0';
	hole = strrchr(line, '[');
	if (hole[1] == '*')
		*hole = '\0';
	layout = g_strdup(line);
	free(text);
	return layout;
}

void fixture_add_each(const char *path, const void *rows, size_t size, size_t count, GTestDataFunc test)
{
	for (size_t i = 0; i < count; i++) {
		const char *const *row = (const void *)((const char *)rows + i * size);
		char *full = g_strdup_printf("%s/%s", path, *row);

		g_test_add_data_func(full, row, test);
		g_free(full);
	}
}

bool fixture_can_map_twice(void)
{
	void *page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0), *twice;

	g_assert_true(page != MAP_FAILED);
	twice = mremap(page, 0, PAGE, MREMAP_MAYMOVE);
	munmap(page, PAGE);
	if (twice == MAP_FAILED) {
		g_test_skip("no memory can be mapped twice here");
		return false;
	}
	munmap(twice, PAGE);
	return true;
}

void fixture_work(struct CUstream_st *stream, enum vpmm_host_engine engine, uint64_t ns, unsigned int ahead)
{
	unsigned int pending;

	assert_ok(vpmm_host_stream_pending(stream, &pending));
	if (pending >= ahead)
		assert_ok(vpmm_host_stream_complete(stream, pending - ahead + 1));
	assert_ok(vpmm_host_stream_submit_for(stream, engine, ns));
}
