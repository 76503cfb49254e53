// SPDX-License-Identifier: LGPL-2.1-or-later
/* What a program is asked and told when there is no memory for a request, and which remedies it is told of. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "calls/pool.h"
#include "support/fixture.h"
#include "vpmm-shared.h"

/* What a program does when it is asked, and what it was told. */
struct program {
	struct vpmm_pool *other;
	void *blocks[4];
	struct CUstream_st *stream;
	int asked;
	int told;
	int gives;
	size_t size;
	char *message;
};

static int give(void *data, struct vpmm_pool *pool, size_t size)
{
	struct program *p = data;
	void *none;

	p->size = size;
	/* What fails meanwhile is nobody's business, and nobody is asked again. */
	assert_error(vpmm_malloc(pool, &none, size, p->stream), ENOMEM, "live");
	assert_error(vpmm_free(pool, p, p->stream), EINVAL, "no allocation");
	if (++p->asked > p->gives)
		return 0;
	if (p->other)
		assert_ok(vpmm_pool_trim(p->other, 0, NULL));
	else
		assert_ok(vpmm_free(pool, p->blocks[p->asked - 1], p->stream));
	return 1;
}

static void note(void *data, struct vpmm_pool *pool, size_t size, const char *message)
{
	struct program *p = data;
	void *none;

	assert_error(vpmm_malloc(pool, &none, size, p->stream), ENOMEM, "live");
	g_assert_cmpuint(size, ==, p->size);
	p->told++;
	g_free(p->message);
	p->message = g_strdup(message);
}

static void open_asking(struct fixture *f, struct program *p, struct vpmm_opts opts)
{
	opts.limit = 8 * PAGE;
	opts.log_level = VPMM_LOG_ERROR;
	opts.pressure = give;
	opts.exhausted = note;
	opts.pressure_data = p;
	fixture_open(f, opts);
	p->stream = f->streams[0];
	for (int i = 0; i < 4; i++)
		p->blocks[i] = fixture_malloc(f, 2, f->streams[0]);
}

/* It is asked as long as it gives something and that is not enough; nobody is told of an error then. */
static void test_asked(void)
{
	const struct vpmm_opts opts[] = { { FIXTURE_PACKED }, { FIXTURE_OPTS } };
	struct fixture f;

	for (size_t i = 0; i < G_N_ELEMENTS(opts); i++) {
		struct program p = { .gives = 4 };

		open_asking(&f, &p, opts[i]);
		memset(fixture_malloc(&f, 5, f.streams[0]), 1, 5 * PAGE);
		g_assert_cmpint(p.asked, ==, 3);
		g_assert_cmpint(p.told, ==, 0);
		g_assert_cmpuint(p.size, ==, 5 * PAGE);
		fixture_close(&f);
	}
}

/* It keeps what it has where all of it would not do: beyond the limit, the device or the address space. */
static void test_not_asked(void)
{
	struct program p = { .gives = 4, .size = 8 * PAGE + 1 };
	struct fixture f;
	void *none = NULL;

	open_asking(&f, &p, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_error(vpmm_malloc(f.pool, &none, 8 * PAGE + 1, f.streams[0]), ENOMEM, ": limit: ");
	g_assert_cmpint(p.asked, ==, 0);
	g_assert_cmpint(p.told, ==, 1);
	p.size = PAGE;
	assert_error(vpmm_malloc_growable(f.pool, &none, PAGE, SIZE_MAX, f.streams[0]), ENOMEM, "growable: max is ");
	g_assert_cmpint(p.asked, ==, 0);
	g_assert_cmpint(p.told, ==, 2);
	g_assert_cmpstr(p.message, ==, vpmm_last_error());
	g_free(p.message);
	assert_error(vpmm_shared_alloc(f.pool, &none, SIZE_MAX, VPMM_SHARED_FINE), ENOMEM,
		     "more than there are addresses");
	g_assert_cmpint(p.asked, ==, 0);
	fixture_close(&f);
	g_setenv("VPMM_HOST_CAPACITY", "32M", TRUE);
	p = (struct program){ 0 };
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .pressure = give, .pressure_data = &p });
	p.stream = f.streams[0];
	assert_error(vpmm_malloc(f.pool, &none, 16 * PAGE + 1, f.streams[0]), ENOMEM, ": device memory: ");
	g_assert_cmpint(p.asked, ==, 0);
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_CAPACITY");
}

/* When it has nothing more to give it is told, once, and in the words that the caller gets. */
static void test_told(void)
{
	struct program p = { .gives = 2 };
	struct fixture f;
	void *none = NULL;

	open_asking(&f, &p, (struct vpmm_opts){ FIXTURE_PACKED });
	g_string_truncate(f.log, 0);
	assert_error(vpmm_malloc(f.pool, &none, 7 * PAGE, f.streams[0]), ENOMEM, ": limit: ");
	g_assert_cmpint(p.asked, ==, 3);
	g_assert_cmpint(p.told, ==, 1);
	g_assert_cmpstr(p.message, ==, vpmm_last_error());
	g_assert_nonnull(strstr(f.log->str, p.message));
	g_free(p.message);
	fixture_close(&f);
}

/* It may let go of what another pool has. */
static void test_other_pool(void)
{
	struct vpmm_opts opts = { FIXTURE_PACKED, .pages = 8 };
	struct program p = { .gives = 1 };
	struct fixture f;

	g_setenv("VPMM_HOST_CAPACITY", "32M", TRUE);
	assert_ok(vpmm_pool_create(&p.other, &opts));
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .pressure = give, .pressure_data = &p });
	p.stream = f.streams[0];
	memset(fixture_malloc(&f, 16, f.streams[0]), 1, 16 * PAGE);
	g_assert_cmpint(p.asked, ==, 1);
	vpmm_pool_destroy(p.other);
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_CAPACITY");
}

/* One line says what was wanted and what there is, and one what would help. */
static void test_explained(void)
{
	struct vpmm_opts opts = { FIXTURE_PACKED, .pages = 3 };
	struct vpmm_pool *other;
	void *block = NULL, *a;
	char *want, **lines;
	struct fixture f;

	g_setenv("VPMM_HOST_CAPACITY", "32M", TRUE);
	assert_ok(vpmm_pool_create(&other, &opts));
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS });
	a = fixture_malloc(&f, 4, f.streams[0]);
	fixture_malloc(&f, 5, f.streams[0]);
	fixture_free_at_work(&f, a, f.streams[0]);
	assert_error(vpmm_malloc(f.pool, &block, 10 * PAGE, f.streams[1]), ENOMEM, ": device memory: ");
	lines = g_strsplit(vpmm_last_error(), "\n", -1);
	g_assert_cmpuint(g_strv_length(lines), ==, 2);
	g_assert_true(g_str_has_prefix(lines[0], "vpmm_malloc: 20 MiB wanted: "));
	g_assert_true(g_str_has_suffix(lines[0], "; the pool has 10 MiB live and 8 MiB free; the largest block to be "
					 "had is 16 MiB; others hold 6 MiB of 32 MiB"));
	want = g_strdup_printf("try this: let pending work finish (8 MiB on stream %" PRIu64 "); have other "
			       "pools ", ((struct stream *)f.pool->core.streams.busy.head->data)->id);
	g_assert_true(g_str_has_prefix(lines[1], want));
	g_assert_null(strstr(vpmm_last_error(), "raise the limit"));
	g_assert_null(strstr(vpmm_last_error(), " bytes"));
	g_free(want);
	g_strfreev(lines);
	fixture_complete(f.streams[0]);
	vpmm_pool_destroy(other);
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_CAPACITY");
}

/* What shared ranges of the pool have is not others'. */
static void test_shared_explained(void)
{
	void *block = NULL, *at;
	struct fixture f;

	g_setenv("VPMM_HOST_CAPACITY", "32M", TRUE);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_ok(vpmm_shared_alloc(f.pool, &at, PAGE, VPMM_SHARED_FINE));
	assert_error(vpmm_malloc(f.pool, &block, 16 * PAGE, f.streams[0]), ENOMEM,
		     "; 2 MiB are in shared ranges; others hold 0 MiB of 32 MiB\n");
	g_assert_null(strstr(vpmm_last_error(), "other pools and processes"));
	assert_ok(vpmm_shared_free(f.pool, at, NULL));
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_CAPACITY");
}

/* The text accounts for all that counts towards the limit, whichever tag the request has. */
static void test_tags_explained(void)
{
	void *kept, *none = NULL;
	struct fixture f;
	vpmm_tag tag;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 16 * PAGE });
	assert_ok(vpmm_tag_open("exhausted", VPMM_TAG_PAUSABLE, &tag));
	fixture_malloc(&f, 2, f.streams[0]);
	vpmm_tag_set(tag);
	assert_ok(vpmm_malloc(f.pool, &kept, 9 * PAGE, f.streams[0]));

	assert_error(vpmm_malloc(f.pool, &none, 8 * PAGE, f.streams[0]), ENOMEM,
		     "; the pool has 18 MiB live and 0 MiB free; ");
	g_assert_nonnull(strstr(vpmm_last_error(), "; the pool holds 4 MiB more outside of this pausable tag; "));
	vpmm_tag_set(0);
	assert_error(vpmm_malloc(f.pool, &none, 8 * PAGE, f.streams[0]), ENOMEM,
		     "; the pool has 4 MiB live and 0 MiB free; ");
	g_assert_nonnull(strstr(vpmm_last_error(), "; the pool holds 18 MiB more under pausable tags; "));

	assert_ok(vpmm_pause(f.pool, tag, VPMM_PAUSE_DROP));
	assert_error(vpmm_malloc(f.pool, &none, 15 * PAGE, f.streams[0]), ENOMEM, "limit: ");
	g_assert_null(strstr(vpmm_last_error(), "pausable"));
	fixture_free(&f, kept, f.streams[0]);
	fixture_close(&f);
}

/* Where mappings have run out, how much memory there is tells nothing. */
static void test_mappings_explained(void)
{
	const struct vpmm_opts opts[] = { { FIXTURE_PACKED, .extent_max = PAGE }, { FIXTURE_OPTS } };
	void *none = NULL;
	struct fixture f;

	g_setenv("VPMM_HOST_MAPPINGS", "4", TRUE);
	for (size_t i = 0; i < G_N_ELEMENTS(opts); i++) {
		fixture_open(&f, opts[i]);
		assert_error(vpmm_malloc(f.pool, &none, 5 * PAGE, f.streams[0]), ENOMEM, ": mappings: ");
		g_assert_null(strstr(vpmm_last_error(), "largest"));
		g_assert_nonnull(strstr(vpmm_last_error(), "; others hold 0 MiB of "));
		g_assert_nonnull(strstr(vpmm_last_error(), "\ntry this: let extents be larger "));
		fixture_malloc(&f, 4, f.streams[0]);
		fixture_close(&f);
	}
	g_unsetenv("VPMM_HOST_MAPPINGS");
}

/* A setting is named only where another value of it would help. */
static void test_extent_sizes_explained(void)
{
	void *none = NULL;
	struct fixture f;

	g_setenv("VPMM_HOST_MAPPINGS", "8", TRUE);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	for (int i = 0; i < 8; i++)
		fixture_malloc(&f, 1, f.streams[0]);
	assert_error(vpmm_malloc(f.pool, &none, PAGE, f.streams[0]), ENOMEM, ": mappings: ");
	g_assert_null(strstr(vpmm_last_error(), "VPMM_EXTENT_MAX"));
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_MAPPINGS");
	/* Free memory beside something live, in extents that cannot be smaller, and in some that can. */
	for (size_t pages = 1; pages <= 64; pages += 63) {
		fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .extent_max = pages * PAGE, .overhead = 25,
						   .limit = 64 * PAGE });
		fixture_uncache(&f);
		/* Extents with pending work are not exchanged for smaller ones. */
		assert_ok(vpmm_host_stream_submit(f.streams[0]));
		fixture_free(&f, fixture_malloc(&f, 64, f.streams[0]), f.streams[0]);
		fixture_malloc_bytes(&f, PAGE + PAGE / 2, f.streams[0]);
		fixture_complete(f.streams[0]);
		g_assert_cmpuint(fixture_stats(&f).stuck, >, 0);
		assert_error(vpmm_malloc(f.pool, &none, 64 * PAGE, f.streams[0]), ENOMEM, "limit: ");
		g_assert_cmpint(!!strstr(vpmm_last_error(), "let extents be smaller (VPMM_EXTENT_MAX)"), ==, pages > 1);
		fixture_close(&f);
	}
}

/* Of many streams those with most are named. */
static void test_pending_of_many(void)
{
	struct fixture f;
	void *a[STREAMS], *none = NULL;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_OPTS, .limit = 16 * PAGE });
	for (int i = 0; i < STREAMS; i++)
		a[i] = fixture_malloc(&f, (size_t)i + 1, f.streams[i]);
	for (int i = 0; i < STREAMS; i++) {
		assert_ok(vpmm_host_stream_submit(f.streams[i]));
		fixture_free(&f, a[i], f.streams[i]);
	}
	assert_error(vpmm_malloc(f.pool, &none, 17 * PAGE, f.streams[0]), ENOMEM,
		     "let pending work finish (8 MiB on stream ");
	g_assert_nonnull(strstr(vpmm_last_error(), " and some on 1 others"));
	for (int i = 0; i < STREAMS; i++)
		fixture_complete(f.streams[i]);
	fixture_close(&f);
}

/* Uses an allocation under a capture, whose graph is never launched. Returns the id of the capture. */
static uint64_t use_in_graph(struct fixture *f, void *ptr)
{
	struct vpmm_host_graph *graph;
	uint64_t id = 0;

	assert_ok(vpmm_host_capture_begin(f->streams[3]));
	assert_ok(vpmm_capture_id(f->pool, f->streams[3], &id));
	assert_ok(vpmm_use(f->pool, ptr, f->streams[3]));
	assert_ok(vpmm_host_capture_end(f->streams[3], &graph));
	fixture_keep_graph(graph);
	return id;
}

/* What is said to help is what would: each remedy where it is one, and not elsewhere. */
static void test_remedies(void)
{
	void *a, *b, *none = NULL;
	struct fixture f;
	uint64_t id;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 8 * PAGE });
	assert_error(vpmm_malloc(f.pool, &none, 9 * PAGE, f.streams[0]), ENOMEM, ": limit: ");
	g_assert_cmpstr(strchr(vpmm_last_error(), '\n'), ==, "\ntry this: raise the limit (VPMM_LIMIT); ask for less");
	a = fixture_malloc(&f, 4, f.streams[0]);
	b = fixture_malloc(&f, 2, f.streams[0]);
	assert_ok(vpmm_host_stream_submit(f.streams[0]));
	assert_ok(vpmm_host_stream_submit(f.streams[1]));
	assert_ok(vpmm_use(f.pool, b, f.streams[1]));
	fixture_free(&f, b, f.streams[0]);
	id = use_in_graph(&f, a);
	fixture_free(&f, a, f.streams[2]);
	assert_error(vpmm_malloc(f.pool, &none, 9 * PAGE, f.streams[0]), ENOMEM, ": limit: ");
	g_assert_nonnull(strstr(vpmm_last_error(), "(4 MiB on several streams); "));
	g_assert_nonnull(strstr(vpmm_last_error(), "held for (8 MiB); "));
	g_assert_nonnull(strstr(vpmm_last_error(), "free some of what is live"));
	assert_ok(vpmm_graph_retire(f.pool, id, f.streams[2]));
	fixture_complete(f.streams[0]);
	fixture_complete(f.streams[1]);
	fixture_close(&f);

	/* Nothing that is given back makes the device larger. */
	g_setenv("VPMM_HOST_CAPACITY", "32M", TRUE);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_ok(vpmm_host_stream_submit(f.streams[0]));
	fixture_free(&f, fixture_malloc(&f, 4, f.streams[0]), f.streams[0]);
	assert_error(vpmm_malloc(f.pool, &none, 17 * PAGE, f.streams[1]), ENOMEM, "device memory: ");
	g_assert_cmpstr(strchr(vpmm_last_error(), '\n'), ==, "\ntry this: ask for less than the device has");
	fixture_complete(f.streams[0]);
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_CAPACITY");
}

static struct CUstream_st *at_work;
static int (*small_trim)(struct backend *be, uint64_t keep, bool *pending);
static int trims;

/* The second time, the work that kept the driver's allocator from giving memory back has just come to its end. */
static int trim_when_complete(struct backend *be, uint64_t keep, bool *pending)
{
	if (++trims == 2)
		fixture_complete(at_work);
	return small_trim(be, keep, pending);
}

/* A request is tried again if the driver's allocator gave memory back between two looks at it. */
static void test_small_given_back_between(void)
{
	struct backend_ops ops;
	struct fixture f;
	void *ptr;

	g_setenv("VPMM_HOST_CAPACITY", "64M", TRUE);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .small = VPMM_SMALL_DRIVER });
	fixture_free_at_work(&f, fixture_malloc_bytes(&f, PAGE / 2, f.streams[1]), f.streams[1]);
	ops = *f.pool->core.backend->ops;
	at_work = f.streams[1];
	small_trim = ops.small_trim;
	ops.small_trim = trim_when_complete;
	f.pool->core.backend->ops = &ops;
	trims = 0;
	assert_ok(vpmm_malloc(f.pool, &ptr, 32 * PAGE, f.streams[0]));
	g_assert_cmpint(trims, >=, 2);
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_CAPACITY");
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/exhausted/asked", test_asked);
	g_test_add_func("/exhausted/not-asked", test_not_asked);
	g_test_add_func("/exhausted/told", test_told);
	g_test_add_func("/exhausted/other-pool", test_other_pool);
	g_test_add_func("/exhausted/explained", test_explained);
	g_test_add_func("/exhausted/shared-explained", test_shared_explained);
	g_test_add_func("/exhausted/tags-explained", test_tags_explained);
	g_test_add_func("/exhausted/mappings-explained", test_mappings_explained);
	g_test_add_func("/exhausted/extent-sizes-explained", test_extent_sizes_explained);
	g_test_add_func("/exhausted/pending-of-many", test_pending_of_many);
	g_test_add_func("/exhausted/small-given-back-between", test_small_given_back_between);
	g_test_add_func("/exhausted/remedies", test_remedies);
	return g_test_run();
}
