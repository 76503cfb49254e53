// SPDX-License-Identifier: LGPL-2.1-or-later
/* What vpmm_receive() does before it fails: what it has taken from the socket would be lost. */
#include "backend/backend.h"
#include "calls/pool.h"
#include "host/export-fixture.h"
#include "support/fault.h"
#include "support/kinds.h"

/* The device can have these mappings: one of the block that is sent, and those of the receiver. */
#define MAPPINGS 9
#define PAGES (MAPPINGS - 1)

static const struct kind kinds[] = {
	{ "packed", { FIXTURE_PACKED, .extent_max = PAGE } },
	{ "paged", { FIXTURE_OPTS } },
};

/* What the program gives when it is asked, and what it was told. */
struct program {
	void *blocks[PAGES];
	struct CUstream_st *stream;
	guint gives;
	guint asked;
	guint told;
	size_t size;
};

static int give(void *data, struct vpmm_pool *pool, size_t size)
{
	struct program *p = data;

	p->asked++;
	p->size = size;
	if (!p->gives)
		return 0;
	p->gives--;
	assert_ok(vpmm_free(pool, p->blocks[p->gives], p->stream));
	return 1;
}

static void hear(void *data, struct vpmm_pool *pool, size_t size, const char *message)
{
	struct program *p = data;

	p->told++;
	p->size = size;
	g_assert_nonnull(strstr(message, "vpmm_receive"));
}

/* A block is under way, and the receiver's single pages take all mappings that are left. */
static void open_full(struct ends *e, struct program *p, struct vpmm_opts opts, size_t size)
{
	char *here;

	g_setenv("VPMM_HOST_MAPPINGS", G_STRINGIFY(MAPPINGS), TRUE);
	opts.log_level = VPMM_LOG_ERROR;
	opts.pressure = give;
	opts.exhausted = hear;
	opts.pressure_data = p;
	e->descriptors = count_descriptors();
	fixture_open(&e->from, (struct vpmm_opts){ FIXTURE_PACKED, .export_as = VPMM_EXPORT_FD });
	fixture_open(&e->to, opts);
	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, e->sockets), ==, 0);
	here = shareable_malloc(&e->from, size);
	here[0] = 'a';
	assert_ok(vpmm_send(e->from.pool, here, e->sockets[0]));
	for (int i = 0; i < PAGES; i++)
		p->blocks[i] = fixture_malloc(&e->to, 1, e->to.streams[0]);
	p->stream = e->to.streams[0];
	g_assert_cmpuint(fixture_stats(&e->to).mappings, ==, PAGES);
}

static void close_full(struct ends *e)
{
	ends_close(e);
	g_unsetenv("VPMM_HOST_MAPPINGS");
}

static void assert_received(struct ends *e)
{
	g_assert_cmpint(receive_block(e, NULL)[0], ==, 'a');
}

/* Free memory is of no use to it, but the mappings are. */
static void test_free_memory(gconstpointer data)
{
	const struct kind *kind = data;
	struct program p = { 0 };
	struct ends e;

	open_full(&e, &p, kind->opts, SIZE);
	fixture_free(&e.to, p.blocks[3], p.stream);

	assert_received(&e);

	g_assert_cmpuint(fixture_stats(&e.to).mappings, ==, PAGES - 1);
	g_assert_cmpuint(p.asked, ==, 0);
	close_full(&e);
}

/* Memory that becomes free when pending work is complete is waited for, even if the device has none besides. */
static void test_pending(gconstpointer data)
{
	const struct kind *kind = data;
	struct program p = { 0 };
	unsigned int pending;
	struct ends e;

	g_setenv("VPMM_HOST_CAPACITY", "32M", TRUE);
	open_full(&e, &p, kind->opts, PAGES * PAGE);
	g_assert_cmpuint(fixture_stats(&e.to).mapped, ==, 8 * PAGE);
	assert_ok(vpmm_host_stream_submit(p.stream));
	fixture_free(&e.to, p.blocks[3], p.stream);

	assert_received(&e);

	assert_ok(vpmm_host_stream_pending(p.stream, &pending));
	g_assert_cmpuint(pending, ==, 0);
	g_assert_cmpuint(p.asked, ==, 0);
	close_full(&e);
	g_unsetenv("VPMM_HOST_CAPACITY");
}

/* The program is asked for the rest, also for more than the limit, which is not about such memory. */
static void test_asked(gconstpointer data)
{
	const struct kind *kind = data;
	struct program p = { .gives = 2 };
	struct vpmm_opts opts = kind->opts;
	struct ends e;

	opts.limit = PAGES * PAGE;
	open_full(&e, &p, opts, 2 * PAGES * PAGE);
	assert_received(&e);
	g_assert_cmpuint(p.asked, ==, 1);
	g_assert_cmpuint(p.size, ==, 2 * PAGES * PAGE);
	g_assert_cmpuint(p.told, ==, 0);
	close_full(&e);

}

/* It fails when the program has nothing more, and says so once. Nothing else has changed. */
static void test_told(gconstpointer data)
{
	const struct kind *kind = data;
	struct program p = { 0 };
	struct vpmm_stats before;
	size_t size = 7;
	void *ptr = &p;
	struct ends e;

	open_full(&e, &p, kind->opts, SIZE);
	before = fixture_stats(&e.to);
	g_string_truncate(e.to.log, 0);

	assert_error(vpmm_receive(e.to.pool, &ptr, &size, e.sockets[1]), ENOMEM, ": mappings: ");

	g_assert_cmpuint(p.asked, ==, 1);
	g_assert_cmpuint(p.told, ==, 1);
	g_assert_cmpuint(p.size, ==, 3 * PAGE);
	g_assert_true(ptr == &p && size == 7);
	g_assert_nonnull(strstr(vpmm_last_error(), "6 MiB wanted"));
	g_assert_null(strstr(vpmm_last_error(), "ask for less"));
	g_assert_nonnull(strstr(e.to.log->str, "vpmm_receive"));
	g_assert_true(strstr(e.to.log->str, "vpmm_receive") == g_strrstr(e.to.log->str, "vpmm_receive"));
	g_assert_cmpuint(fixture_stats(&e.to).mappings, ==, before.mappings);
	g_assert_cmpuint(fixture_stats(&e.to).imported, ==, 0);
	g_assert_cmpuint(fixture_stats(&e.to).mallocs, ==, before.mallocs);
	assert_ok(vpmm_pool_check(e.to.pool));
	close_full(&e);
}

/* A freed block's memory, to the last byte of its pages, goes to another request once its work is done. */
static void test_freed(gconstpointer data)
{
	struct vpmm_opts opts = ((const struct kind *)data)->opts;
	struct fixture f;
	char *ptr;

	opts.limit = 4 * PAGE;
	opts.export_as = VPMM_EXPORT_FD;
	fixture_open(&f, opts);
	ptr = shareable_malloc(&f, SIZE);
	fixture_free_at_work(&f, ptr, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).shareable, ==, 3 * PAGE);

	memset(fixture_malloc(&f, 4, f.streams[1]), 1, 4 * PAGE);

	fixture_close(&f);
}

/* Neither the clear nor the free has an event, from some call on. */
static void fail_clear(const struct vpmm_opts *opts, enum backend_op op, unsigned int passes)
{
	struct fixture f;
	void *ptr = NULL;

	fixture_open_faulty(&f, *opts);
	backend_fault_arm(f.pool->core.backend, op, passes, UINT_MAX, -EIO);
	if (vpmm_malloc_flags(f.pool, &ptr, SIZE, f.streams[0], VPMM_SHAREABLE | VPMM_ZERO))
		g_assert_cmpuint(fixture_stats(&f).held, ==, fixture_stats(&f).shareable);
	backend_fault_arm(f.pool->core.backend, op, 0, 0, 0);
	if (ptr)
		fixture_free(&f, ptr, f.streams[0]);
	assert_ok(vpmm_pool_check(f.pool));

	memset(fixture_malloc(&f, 4, f.streams[1]), 1, 4 * PAGE);

	fixture_close(&f);
}

/* A block that could be neither cleared nor freed is held, and its memory goes to another request. */
static void test_failed_clear(gconstpointer data)
{
	struct vpmm_opts opts = ((const struct kind *)data)->opts;

	opts.limit = 4 * PAGE;
	opts.export_as = VPMM_EXPORT_FD;
	for (unsigned int passes = 0; passes < 3; passes++) {
		fail_clear(&opts, BACKEND_OP_event_create, passes);
		fail_clear(&opts, BACKEND_OP_event_record, passes);
	}
}

/* No one waits for what another process has: it takes no memory of the pool's. */
static void test_freed_import(gconstpointer data)
{
	struct vpmm_opts opts = ((const struct kind *)data)->opts;
	unsigned int pending;
	char *here, *there;
	void *ptr = NULL;
	struct ends e;

	opts.limit = 4 * PAGE;
	ends_open(&e, opts, SOCK_STREAM);
	pass_block(&e, &here, &there);
	fixture_malloc(&e.to, 2, e.to.streams[1]);
	assert_ok(vpmm_host_stream_submit(e.to.streams[0]));
	fixture_free(&e.to, there, e.to.streams[0]);

	assert_error(vpmm_malloc(e.to.pool, &ptr, 3 * PAGE, e.to.streams[1]), ENOMEM, ": limit: ");

	assert_ok(vpmm_host_stream_pending(e.to.streams[0], &pending));
	g_assert_cmpuint(pending, ==, 1);
	fixture_complete(e.to.streams[0]);
	ends_close(&e);
}

/* But its mapping is of use to others. */
static void test_freed_mapping(gconstpointer data)
{
	const struct kind *kind = data;
	struct program p = { 0 };
	struct ends e;
	char *there;

	open_full(&e, &p, kind->opts, SIZE);
	fixture_free(&e.to, p.blocks[3], p.stream);
	assert_ok(vpmm_pool_trim(e.to.pool, 0, NULL));
	there = receive_block(&e, NULL);
	assert_ok(vpmm_host_stream_submit(e.to.streams[1]));
	fixture_free(&e.to, there, e.to.streams[1]);

	memset(fixture_malloc(&e.to, 1, p.stream), 1, PAGE);

	g_assert_cmpuint(p.asked, ==, 0);
	g_assert_cmpuint(fixture_stats(&e.to).imported, ==, 0);
	close_full(&e);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	fixture_add_rows("/export-reclaim/free-memory", kinds, test_free_memory);
	fixture_add_rows("/export-reclaim/pending", kinds, test_pending);
	fixture_add_rows("/export-reclaim/asked", kinds, test_asked);
	fixture_add_rows("/export-reclaim/told", kinds, test_told);
	fixture_add_rows("/export-reclaim/freed", kinds, test_freed);
	fixture_add_rows("/export-reclaim/failed-clear", kinds, test_failed_clear);
	fixture_add_rows("/export-reclaim/freed-import", kinds, test_freed_import);
	fixture_add_rows("/export-reclaim/freed-mapping", kinds, test_freed_mapping);
	return g_test_run();
}
