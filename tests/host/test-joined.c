// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Memory that several streams used is free once it is freed: whoever has it next comes after all of them on the GPU,
 * and the host waits for nobody.
 */
#include <errno.h>
#include <stdlib.h>

#include "calls/pool.h"
#include "host/host-streams.h"
#include "support/kinds.h"

/* Those that have the memory themselves. */
static const struct kind kinds[] = { KIND_PACKED, KIND_SLAB, KIND_PAGED };

/* Work on a stream cannot run before that of another. */
static void assert_behind(struct CUstream_st *stream, struct CUstream_st *other)
{
	fixture_submit_waits(stream);
	fixture_complete(other);
	assert_ok(vpmm_host_stream_complete(stream, UINT_MAX));
}

/* It is free at once: the next to ask gets it, by one wait on the GPU and none on the host. */
static void test_free_behind_user(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *a, *b;

	fixture_open(&f, kind->opts);
	a = fixture_malloc_used(&f, kind->size);
	fixture_free(&f, a, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	g_assert_cmpuint(fixture_stats(&f).live, ==, 0);
	b = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	g_assert_true(kind->size < PAGE || a == b);
	g_assert_cmpuint(fixture_stats(&f).waits, ==, a == b);
	g_assert_cmpuint(pending(f.streams[1]), ==, 1);
	if (a == b)
		assert_behind(f.streams[0], f.streams[1]);
	fixture_close(&f);
}

/* A third stream comes after all who used it, whichever of them is done first. */
static void test_behind_several(gconstpointer data)
{
	int first = GPOINTER_TO_INT(data), last = 1 - first;
	struct fixture f;
	char *a;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	a = fixture_malloc_used(&f, 3 * PAGE);
	fixture_free_at_work(&f, a, f.streams[0]);
	g_assert_true(fixture_malloc(&f, 3, f.streams[2]) == a);
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 2);
	fixture_submit_waits(f.streams[2]);
	fixture_complete(f.streams[first]);
	fixture_assert_waits(f.streams[2]);
	fixture_complete(f.streams[last]);
	assert_ok(vpmm_host_stream_complete(f.streams[2], 1));
	fixture_close(&f);
}

/* Once all but one are done, that one needs no wait. */
static void test_left_to_one(gconstpointer data)
{
	int left = GPOINTER_TO_INT(data);
	struct vpmm_forecast forecast = { .size = sizeof(forecast) };
	struct fixture f;
	char *a;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	a = fixture_malloc_used(&f, 3 * PAGE);
	fixture_free_at_work(&f, a, f.streams[0]);
	assert_ok(vpmm_pool_query(f.pool, 3 * PAGE, f.streams[2], &forecast));
	g_assert_cmpint(forecast.way, ==, VPMM_WAY_REUSE);
	g_assert_cmpuint(forecast.waits, ==, 2);
	fixture_complete(f.streams[1 - left]);
	assert_ok(vpmm_pool_query(f.pool, 3 * PAGE, f.streams[2], &forecast));
	g_assert_cmpuint(forecast.waits, ==, 1);
	assert_ok(vpmm_pool_check(f.pool));
	g_assert_true(fixture_malloc(&f, 3, f.streams[left]) == a);
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 0);
	g_assert_cmpuint(pending(f.streams[left]), ==, 1);
	fixture_close(&f);
}

/* Neighbours that the same streams used serve one request together, behind the later of each stream's events. */
static void test_neighbours(void)
{
	struct fixture f;
	char *a, *b;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	a = fixture_malloc(&f, 6, f.streams[0]);
	fixture_free(&f, a, f.streams[0]);
	a = fixture_malloc_used(&f, 3 * PAGE);
	b = fixture_malloc_used(&f, 3 * PAGE);
	fixture_free_at_work(&f, a, f.streams[0]);
	fixture_free(&f, b, f.streams[0]);
	assert_ok(vpmm_pool_check(f.pool));
	g_assert_true(fixture_malloc(&f, 6, f.streams[2]) == MIN(a, b));
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 2);
	g_assert_cmpuint(fixture_stats(&f).grown, ==, 6 * PAGE);
	fixture_complete(f.streams[0]);
	assert_behind(f.streams[2], f.streams[1]);
	fixture_close(&f);
}

static int compare_addresses(const void *a, const void *b)
{
	const char *x = *(char *const *)a, *y = *(char *const *)b;

	return x < y ? -1 : x > y;
}

/* Neither of two neighbours covers the other, as one has a user from before it was retired; a third covers both. */
static void test_neighbours_merge_late(void)
{
	struct fixture f;
	char *blocks[3];

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	fixture_free(&f, fixture_malloc(&f, 9, f.streams[0]), f.streams[0]);
	for (int i = 0; i < 3; i++)
		blocks[i] = fixture_malloc(&f, 3, f.streams[0]);
	qsort(blocks, 3, sizeof(*blocks), compare_addresses);
	g_assert_true(blocks[0] + 6 * PAGE == blocks[2]);
	assert_ok(vpmm_host_stream_submit(f.streams[0]));
	assert_ok(vpmm_host_stream_submit(f.streams[1]));
	assert_ok(vpmm_use(f.pool, blocks[1], f.streams[1]));
	assert_ok(vpmm_stream_retire(f.pool, f.streams[1]));
	assert_ok(vpmm_use(f.pool, blocks[0], f.streams[1]));
	assert_ok(vpmm_use(f.pool, blocks[2], f.streams[1]));
	for (int i = 0; i < 3; i++)
		fixture_free(&f, blocks[i], f.streams[0]);
	assert_ok(vpmm_pool_check(f.pool));
	g_assert_true(fixture_malloc(&f, 9, f.streams[2]) == blocks[0]);
	g_assert_cmpuint(fixture_stats(&f).waits, ==, 2);
	fixture_complete(f.streams[0]);
	assert_behind(f.streams[2], f.streams[1]);
	fixture_close(&f);
}

#define SMALL_BLOCKS 20000
#define LARGE_BLOCKS 32

/* Blocks of stream 0 that another uses too, freed while that is at work. */
static void leave_used(struct fixture *f, size_t size, size_t count, struct CUstream_st *user)
{
	void **blocks = g_new(void *, count);

	for (size_t i = 0; i < count; i++) {
		assert_ok(vpmm_malloc(f->pool, &blocks[i], size, f->streams[0]));
		assert_ok(vpmm_use(f->pool, blocks[i], user));
		assert_ok(vpmm_host_stream_submit(user));
	}
	for (size_t i = 0; i < count; i++)
		assert_ok(vpmm_free(f->pool, blocks[i], f->streams[0]));
	g_free(blocks);
}

/* However many blocks wait for one stream, those whose users are done are found, given back, and seen by a query. */
static void test_many_wait(void)
{
	struct vpmm_forecast forecast = { .size = sizeof(forecast) };
	struct fixture f;
	size_t released;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	leave_used(&f, 1024, SMALL_BLOCKS, f.streams[1]);
	leave_used(&f, 4 * PAGE, LARGE_BLOCKS, f.streams[2]);
	fixture_complete(f.streams[2]);
	assert_ok(vpmm_pool_query(f.pool, 4 * LARGE_BLOCKS * PAGE, f.streams[3], &forecast));
	g_assert_cmpuint(forecast.grown, ==, 0);
	g_assert_cmpuint(forecast.waits, ==, 0);
	assert_ok(vpmm_pool_trim(f.pool, 0, &released));
	g_assert_cmpuint(released, >=, 4 * LARGE_BLOCKS * PAGE);
	g_assert_cmpuint(pending(f.streams[1]), ==, SMALL_BLOCKS);
	assert_ok(vpmm_pool_check(f.pool));
	fixture_complete(f.streams[1]);
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 0);
	fixture_close(&f);
}

/* Users that are done, and retired or not, keep nothing from being given back. */
static void test_trim(gconstpointer data)
{
	const struct kind *kind = data;
	struct CUstream_st *user;
	struct fixture f;

	fixture_open(&f, kind->opts);
	assert_ok(vpmm_host_stream_create(&user));
	for (int retired = 0; retired < 2; retired++) {
		char *a = fixture_malloc_bytes(&f, kind->size, f.streams[0]);

		assert_ok(vpmm_use(f.pool, a, user));
		assert_ok(vpmm_host_stream_submit(user));
		fixture_free(&f, a, f.streams[0]);
		if (retired)
			assert_ok(vpmm_stream_retire(f.pool, user));
		assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
		g_assert_cmpuint(fixture_stats(&f).mapped, >, 0);
		assert_ok(vpmm_host_stream_complete(user, UINT_MAX));
		assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
		g_assert_cmpuint(fixture_stats(&f).mapped, ==, 0);
	}
	assert_ok(vpmm_host_stream_destroy(user));
	fixture_close(&f);
}

/* Streams come and go; those that somebody has to wait for stay known. */
static void test_streams_stay(void)
{
	struct fixture f;
	char *a;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	a = fixture_malloc_used(&f, 3 * PAGE);
	fixture_free_at_work(&f, a, f.streams[0]);
	for (int i = 0; i < 300; i++) {
		struct CUstream_st *stream;

		assert_ok(vpmm_host_stream_create(&stream));
		fixture_free(&f, fixture_malloc(&f, 1, stream), stream);
		assert_ok(vpmm_host_stream_complete(stream, 0));
		assert_ok(vpmm_host_stream_destroy(stream));
	}
	assert_ok(vpmm_stream_retire(f.pool, f.streams[0]));
	assert_ok(vpmm_stream_retire(f.pool, f.streams[1]));
	assert_ok(vpmm_pool_check(f.pool));
	g_assert_cmpuint(pending(f.streams[1]), ==, 1);
	fixture_complete(f.streams[0]);
	fixture_complete(f.streams[1]);
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	g_assert_cmpuint(fixture_stats(&f).mapped, ==, 0);
	fixture_close(&f);
}

/* A dump names the streams that are waited for, and only those. */
static void test_dump(void)
{
	struct fixture f;
	char *a, *text;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	a = fixture_malloc_used(&f, 3 * PAGE);
	assert_ok(vpmm_use(f.pool, a, f.streams[2]));
	for (int i = 0; i < 3; i++)
		assert_ok(vpmm_host_stream_submit(f.streams[i]));
	fixture_free(&f, a, f.streams[0]);
	text = fixture_dump(&f);
	g_assert_true(g_regex_match_simple(" free stream [0-9]+,[0-9]+,[0-9]+ pending\n", text, 0, 0));
	free(text);
	fixture_complete(f.streams[0]);
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	text = fixture_dump(&f);
	g_assert_true(g_regex_match_simple(" free stream [0-9]+,[0-9]+ pending\n", text, 0, 0));
	free(text);
	fixture_complete(f.streams[1]);
	assert_ok(vpmm_pool_trim(f.pool, 0, NULL));
	text = fixture_dump(&f);
	g_assert_true(g_regex_match_simple(" free stream [0-9]+ pending\n", text, 0, 0));
	free(text);
	fixture_complete(f.streams[2]);
	fixture_close(&f);
}

/* A joined event that miscounts what it waits for, or is not known to it. */
static void test_check(void)
{
	struct event *joined;
	struct fixture f;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_ok(vpmm_host_stream_submit(f.streams[0]));
	fixture_free(&f, fixture_malloc_used(&f, PAGE), f.streams[0]);
	joined = f.pool->core.streams.joined->pending.head->data;
	joined->left++;
	assert_error(vpmm_pool_check(f.pool), EUCLEAN, "pending parts of a joined event");
	joined->left--;
	joined->parts[1].joined = NULL;
	assert_error(vpmm_pool_check(f.pool), EUCLEAN, "not known to a part");
	joined->parts[1].joined = joined;
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	fixture_add_rows("/joined/free-behind-user", kinds, test_free_behind_user);
	fixture_add_rows("/joined/trim", kinds, test_trim);
	g_test_add_data_func("/joined/behind-several/user-first", GINT_TO_POINTER(1), test_behind_several);
	g_test_add_data_func("/joined/behind-several/freer-first", GINT_TO_POINTER(0), test_behind_several);
	g_test_add_data_func("/joined/left-to-one/user", GINT_TO_POINTER(1), test_left_to_one);
	g_test_add_data_func("/joined/left-to-one/freer", GINT_TO_POINTER(0), test_left_to_one);
	g_test_add_func("/joined/neighbours", test_neighbours);
	g_test_add_func("/joined/neighbours-merge-late", test_neighbours_merge_late);
	g_test_add_func("/joined/many-wait", test_many_wait);
	g_test_add_func("/joined/streams-stay", test_streams_stay);
	g_test_add_func("/joined/dump", test_dump);
	g_test_add_func("/joined/check", test_check);
	return g_test_run();
}
