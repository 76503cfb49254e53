// SPDX-License-Identifier: LGPL-2.1-or-later
/* VPMM_STREAM_ANY: a free behind all work of the context, whoever submitted it, without a wait where the driver can. */
#include <errno.h>

#include "calls/pool.h"
#include "host/host-streams.h"
#include "support/fault.h"
#include "support/kinds.h"

static const struct kind kinds[] = { KINDS_EACH };

/* Those that have to give out the same memory again, or grow. */
static const struct kind large_kinds[] = { KIND_PACKED, KIND_PAGED };

/* A block of the first stream; work on that, on another, and on the default stream, of which the pool knows nothing. */
static char *freed_at_work(struct fixture *f, size_t size)
{
	char *ptr = fixture_malloc_bytes(f, size, f->streams[0]);

	submit(f->streams[0]);
	submit(f->streams[1]);
	submit(NULL);
	fixture_free(f, ptr, VPMM_STREAM_ANY);
	return ptr;
}

static bool is_stuck(struct CUstream_st *stream)
{
	return vpmm_host_stream_complete(stream, 1) == -EBUSY;
}

/* Whatever stream gets the memory next comes after all of that work. */
static void test_next_is_behind_all(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *a, *b;

	fixture_open(&f, kind->opts);
	a = freed_at_work(&f, kind->size);
	g_assert_cmpuint(pending(f.streams[0]) + pending(f.streams[1]) + pending(NULL), ==, 3);

	b = fixture_malloc_bytes(&f, kind->size, f.streams[2]);

	g_assert_true(b < a + kind->size && a < b + kind->size);
	submit(f.streams[2]);
	fixture_complete(f.streams[0]);
	g_assert_true(is_stuck(f.streams[2]));
	fixture_complete(NULL);
	g_assert_true(is_stuck(f.streams[2]));
	fixture_complete(f.streams[1]);
	fixture_complete(f.streams[2]);
	fixture_free(&f, b, VPMM_STREAM_ANY);
	fixture_close(&f);
}

/* Its own stream, too, waits for the others. */
static void test_own_waits_for_others(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *a, *b;

	fixture_open(&f, kind->opts);
	a = freed_at_work(&f, kind->size);

	b = fixture_malloc_bytes(&f, kind->size, f.streams[0]);

	g_assert_true(b < a + kind->size && a < b + kind->size);
	submit(f.streams[0]);
	assert_ok(vpmm_host_stream_complete(f.streams[0], 1));
	g_assert_true(is_stuck(f.streams[0]));
	fixture_complete(NULL);
	fixture_complete(f.streams[1]);
	fixture_complete(f.streams[0]);
	fixture_close(&f);
}

/* What is submitted after the free is nothing to it. */
static void test_later_work_does_not_count(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *a, *b;

	fixture_open(&f, kind->opts);
	a = freed_at_work(&f, kind->size);
	submit(f.streams[1]);
	submit(f.streams[3]);
	assert_ok(vpmm_host_stream_complete(f.streams[1], 1));
	fixture_complete(f.streams[0]);
	fixture_complete(NULL);

	b = fixture_malloc_bytes(&f, kind->size, f.streams[2]);

	g_assert_true(b < a + kind->size && a < b + kind->size);
	submit(f.streams[2]);
	fixture_complete(f.streams[2]);
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 0);
	fixture_complete(f.streams[1]);
	fixture_complete(f.streams[3]);
	fixture_close(&f);
}

/* Frees that are behind one another merge, and are found again as one block. */
static void test_frees_merge(void)
{
	struct fixture f;
	char *a, *b, *c;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	a = fixture_malloc(&f, 1, f.streams[0]);
	b = fixture_malloc(&f, 1, f.streams[0]);
	submit(f.streams[1]);
	fixture_free(&f, a, VPMM_STREAM_ANY);
	submit(f.streams[1]);
	fixture_free(&f, b, VPMM_STREAM_ANY);

	c = fixture_malloc(&f, 2, f.streams[2]);

	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 2 * PAGE);
	submit(f.streams[2]);
	assert_ok(vpmm_host_stream_complete(f.streams[1], 1));
	g_assert_true(is_stuck(f.streams[2]));
	fixture_complete(f.streams[1]);
	fixture_complete(f.streams[2]);
	fixture_free(&f, c, f.streams[2]);
	fixture_close(&f);
}

/* A driver that has no such event, or is not in a position to record one: the host waits. */
static void test_waits_without_the_event(gconstpointer data)
{
	static const int errors[] = { -ENOTSUP, -EBUSY };
	const struct kind *kind = data;
	struct fixture f;

	for (size_t i = 0; i < G_N_ELEMENTS(errors); i++) {
		fixture_open_faulty(&f, kind->opts);
		backend_fault_arm(f.pool->core.backend, BACKEND_OP_event_record_all, 0, 1, errors[i]);

		freed_at_work(&f, kind->size);

		g_assert_cmpuint(pending(f.streams[0]) + pending(f.streams[1]) + pending(NULL), ==, 0);
		fixture_malloc_bytes(&f, kind->size, f.streams[2]);
		g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
		fixture_close(&f);
	}
}

static void test_event_fails(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *ptr;

	fixture_open_faulty(&f, kind->opts);
	ptr = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	backend_fault_arm(f.pool->core.backend, BACKEND_OP_event_record_all, 0, 1, -EIO);

	assert_error(vpmm_free(f.pool, ptr, VPMM_STREAM_ANY), EIO, "event_record_all");

	assert_ok(vpmm_pool_check(f.pool));
	fixture_free(&f, ptr, VPMM_STREAM_ANY);
	fixture_close(&f);
}

/* The event would invalidate the capture, of which the pool knows. */
static void test_beside_capture(gconstpointer data)
{
	const struct kind *kind = data;
	struct vpmm_host_graph *graph;
	struct fixture f;
	void *ptr, *captured;
	uint64_t id;

	fixture_open(&f, kind->opts);
	ptr = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	submit(f.streams[0]);
	assert_ok(vpmm_host_capture_begin(f.streams[1]));
	assert_ok(vpmm_capture_id(f.pool, f.streams[1], &id));
	assert_ok(vpmm_malloc(f.pool, &captured, PAGE, f.streams[1]));

	assert_ok(vpmm_free(f.pool, ptr, VPMM_STREAM_ANY));

	g_assert_cmpuint(pending(f.streams[0]), ==, 0);
	assert_ok(vpmm_pool_check(f.pool));
	assert_ok(vpmm_host_capture_end(f.streams[1], &graph));
	assert_ok(vpmm_free(f.pool, captured, VPMM_STREAM_ANY));
	g_assert_cmpuint(fixture_stats(&f).held, >=, PAGE);
	assert_ok(vpmm_graph_retire(f.pool, id, f.streams[0]));
	vpmm_host_graph_destroy(graph);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 0);
	fixture_close(&f);
}

/* vpmm_use() has named streams that are gone, and one that only its own thread can record. */
static void test_users(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *a, *b;

	fixture_open(&f, kind->opts);
	a = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	assert_ok(vpmm_use(f.pool, a, f.streams[1]));
	submit(f.streams[1]);
	assert_ok(vpmm_use(f.pool, a, f.streams[3]));
	submit(f.streams[3]);
	assert_ok(vpmm_stream_retire(f.pool, f.streams[3]));

	fixture_free(&f, a, VPMM_STREAM_ANY);

	b = fixture_malloc_bytes(&f, kind->size, f.streams[2]);
	g_assert_true(b != a || kind->size != 3 * PAGE || fixture_stats(&f).waits > 0);
	submit(f.streams[2]);
	fixture_complete(f.streams[1]);
	fixture_complete(f.streams[3]);
	fixture_complete(f.streams[2]);
	fixture_close(&f);
}

static void test_wrong(gconstpointer data)
{
	struct vpmm_forecast forecast = { .size = sizeof(forecast) };
	const struct kind *kind = data;
	void *ptr, *none = NULL;
	struct fixture f;
	uint64_t id;

	fixture_open(&f, kind->opts);
	ptr = fixture_malloc_bytes(&f, kind->size, f.streams[0]);

	assert_error(vpmm_malloc(f.pool, &none, PAGE, VPMM_STREAM_ANY), EINVAL, "vpmm_free");
	assert_error(vpmm_malloc_flags(f.pool, &none, PAGE, VPMM_STREAM_ANY, VPMM_ZERO), EINVAL, "vpmm_malloc_flags");
	assert_error(vpmm_realloc(f.pool, &ptr, PAGE, VPMM_STREAM_ANY), EINVAL, "VPMM_STREAM_ANY");
	assert_error(vpmm_use(f.pool, ptr, VPMM_STREAM_ANY), EINVAL, "VPMM_STREAM_ANY");
	assert_error(vpmm_stream_retire(f.pool, VPMM_STREAM_ANY), EINVAL, "VPMM_STREAM_ANY");
	assert_error(vpmm_capture_id(f.pool, VPMM_STREAM_ANY, &id), EINVAL, "VPMM_STREAM_ANY");
	assert_error(vpmm_graph_retire(f.pool, 1, VPMM_STREAM_ANY), EINVAL, "VPMM_STREAM_ANY");
	assert_error(vpmm_pool_query(f.pool, PAGE, VPMM_STREAM_ANY, &forecast), EINVAL, "VPMM_STREAM_ANY");
	g_assert_null(none);
	assert_error(vpmm_free(f.pool, &f, VPMM_STREAM_ANY), EINVAL, "no allocation");
	assert_ok(vpmm_free(f.pool, NULL, VPMM_STREAM_ANY));
	assert_ok(vpmm_realloc(f.pool, &ptr, 0, VPMM_STREAM_ANY));
	g_assert_null(ptr);
	fixture_close(&f);
}

static void test_twice(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *ptr;

	fixture_open(&f, kind->opts);
	ptr = freed_at_work(&f, kind->size);

	assert_error(vpmm_free(f.pool, ptr, VPMM_STREAM_ANY), EINVAL, "no allocation");
	assert_error(vpmm_free(f.pool, ptr, f.streams[0]), EINVAL, "no allocation");

	assert_ok(vpmm_pool_check(f.pool));
	fixture_complete(f.streams[0]);
	fixture_complete(f.streams[1]);
	fixture_complete(NULL);
	fixture_close(&f);
}

/* The pool goes while streams are at work that such a free comes after. */
static void test_destroy(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;

	fixture_open(&f, kind->opts);
	freed_at_work(&f, kind->size);
	fixture_close(&f);
}

static void test_dump(void)
{
	struct fixture f;
	char *text;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	freed_at_work(&f, 3 * PAGE);

	text = fixture_dump(&f);

	g_assert_nonnull(strstr(text, "free stream any pending"));
	free(text);
	fixture_complete(f.streams[0]);
	fixture_complete(f.streams[1]);
	fixture_complete(NULL);
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	fixture_add_rows("/free-any/next-is-behind-all", large_kinds, test_next_is_behind_all);
	fixture_add_rows("/free-any/own-waits-for-others", large_kinds, test_own_waits_for_others);
	fixture_add_rows("/free-any/later-work-does-not-count", large_kinds, test_later_work_does_not_count);
	g_test_add_func("/free-any/frees-merge", test_frees_merge);
	fixture_add_rows("/free-any/waits-without-the-event", kinds, test_waits_without_the_event);
	fixture_add_rows("/free-any/event-fails", kinds, test_event_fails);
	fixture_add_rows("/free-any/beside-capture", kinds, test_beside_capture);
	fixture_add_rows("/free-any/users", kinds, test_users);
	fixture_add_rows("/free-any/wrong", kinds, test_wrong);
	fixture_add_rows("/free-any/twice", kinds, test_twice);
	fixture_add_rows("/free-any/destroy", kinds, test_destroy);
	g_test_add_func("/free-any/dump", test_dump);
	return g_test_run();
}
