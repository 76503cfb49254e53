// SPDX-License-Identifier: LGPL-2.1-or-later
/* Memory that other streams use besides the one that frees it: who those are, and what happens when no event tells. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "calls/pool.h"
#include "pending/deferred-free.h"
#include "support/kinds.h"

static const struct kind kinds[] = { KINDS_EACH };

static void open_kind(struct fixture *f, const struct kind *kind)
{
	fixture_open(f, kind->opts);
}

/* What the driver's allocator has is held until the host sees the users done. */
static void test_driver_waits_for_user(void)
{
	static const struct kind driver = KIND_DRIVER, *kind = &driver;
	struct fixture f;
	char *a, *b, *c;

	open_kind(&f, kind);
	a = fixture_malloc_used(&f, kind->size);
	fixture_free(&f, a, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).held, ==, kind->size);
	b = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	g_assert_true(a != b);

	fixture_complete(f.streams[1]);
	c = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	g_assert_true(c == a);
	fixture_close(&f);
}

/* The stream that frees it is waited for like any other. */
static void test_waits_for_freer(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *a, *b;

	open_kind(&f, kind);
	a = fixture_malloc_used(&f, kind->size);
	fixture_free_at_work(&f, a, f.streams[0]);
	fixture_complete(f.streams[1]);
	b = fixture_malloc_bytes(&f, kind->size, f.streams[2]);
	g_assert_true(a != b || vpmm_host_stream_complete(f.streams[2], 0) == 0);
	if (a == b) {
		fixture_submit_waits(f.streams[2]);
	}
	fixture_close(&f);
}

/* What a stream uses and frees itself waits for nobody. */
static void test_own_use_is_free_at_once(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *a, *b;

	open_kind(&f, kind);
	a = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	assert_ok(vpmm_use(f.pool, a, f.streams[0]));
	fixture_free_at_work(&f, a, f.streams[0]);
	b = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	/* The driver's allocator may have it again only when the stream is past it. */
	g_assert_true(a == b || !strcmp(kind->name, "driver"));
	fixture_close(&f);
}

static void test_freed_twice(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	char *a;

	open_kind(&f, kind);
	a = fixture_malloc_used(&f, kind->size);
	fixture_free(&f, a, f.streams[0]);
	assert_error(vpmm_free(f.pool, a, f.streams[0]), EINVAL, "no allocation");
	assert_error(vpmm_free(f.pool, a, f.streams[1]), EINVAL, "no allocation");
	assert_error(vpmm_use(f.pool, a, f.streams[2]), EINVAL, "vpmm_use");
	fixture_close(&f);
}

/* The pool goes with memory held; it waits for the streams, as for all that was freed. */
static void test_destroy_while_held(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;

	open_kind(&f, kind);
	fixture_free(&f, fixture_malloc_used(&f, kind->size), f.streams[0]);
	fixture_close(&f);
}

static void test_destroy_while_used(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;

	open_kind(&f, kind);
	fixture_malloc_used(&f, kind->size);
	fixture_complete(f.streams[1]);
	fixture_close(&f);
}

/* A user that was retired counts up to there, and its handle is not touched any more. */
static void test_user_retired(gconstpointer data)
{
	const struct kind *kind = data;
	struct CUstream_st *user;
	struct fixture f;
	char *a, *b;

	open_kind(&f, kind);
	assert_ok(vpmm_host_stream_create(&user));
	a = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	assert_ok(vpmm_use(f.pool, a, user));
	assert_ok(vpmm_host_stream_submit(user));
	assert_ok(vpmm_stream_retire(f.pool, user));
	assert_ok(vpmm_host_stream_complete(user, UINT_MAX));
	assert_ok(vpmm_host_stream_destroy(user));
	fixture_free(&f, a, f.streams[0]);
	b = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	g_assert_true(a == b);
	g_assert_cmpuint(g_hash_table_size(f.pool->pending.silent), ==, 0);
	fixture_close(&f);
}

/* A user that is gone without a word is past all its work once the device is; nothing else tells. */
static void test_user_gone(gconstpointer data)
{
	bool replaced = GPOINTER_TO_INT(data);
	struct CUstream_st *user, *other = NULL;
	struct fixture f;
	char *a;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .limit = 8 * PAGE });
	assert_ok(vpmm_host_stream_create(&user));
	a = fixture_malloc(&f, 6, f.streams[0]);
	assert_ok(vpmm_use(f.pool, a, user));
	assert_ok(vpmm_host_stream_destroy(user));
	if (replaced)
		assert_ok(vpmm_host_stream_create(&other));
	fixture_free(&f, a, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 6 * PAGE);
	g_assert_nonnull(fixture_malloc(&f, 7, f.streams[0]));
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	if (replaced)
		assert_ok(vpmm_host_stream_destroy(other));
	fixture_close(&f);
}

static gpointer use_per_thread(gpointer data)
{
	void **args = data;

	assert_ok(vpmm_use(args[0], args[1], VPMM_HOST_STREAM_PER_THREAD));
	return NULL;
}

/* Nobody can mark another thread's stream: it is heard when it calls, or when the device has done everything. */
static void test_silent_user(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	struct backend *be;
	char *a, *b;
	void *args[2];

	open_kind(&f, kind);
	be = f.pool->core.backend;
	a = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	args[0] = f.pool;
	args[1] = a;
	g_thread_join(g_thread_new("user", use_per_thread, args));
	fixture_free(&f, a, f.streams[0]);
	g_assert_cmpuint(g_hash_table_size(f.pool->pending.silent), ==, 1);
	b = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	g_assert_true(a != b);
	fixture_free(&f, b, f.streams[0]);

	assert_ok(be->ops->enter(be));
	lock_acquire(&f.pool->core.lock);
	hold_synced(&f.pool->pending, f.streams[0], false);
	lock_release(&f.pool->core.lock);
	be->ops->leave(be);
	g_assert_cmpuint(g_hash_table_size(f.pool->pending.silent), ==, 0);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	fixture_close(&f);
}

struct talk {
	struct fixture *f;
	void *ptr;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int step;
};

static void step_wait(struct talk *talk, int step)
{
	pthread_mutex_lock(&talk->lock);
	while (talk->step < step)
		pthread_cond_wait(&talk->changed, &talk->lock);
	pthread_mutex_unlock(&talk->lock);
}

static void step_done(struct talk *talk)
{
	pthread_mutex_lock(&talk->lock);
	talk->step++;
	pthread_cond_broadcast(&talk->changed);
	pthread_mutex_unlock(&talk->lock);
}

static gpointer use_and_call_later(gpointer data)
{
	struct talk *talk = data;
	void *other;

	assert_ok(vpmm_use(talk->f->pool, talk->ptr, VPMM_HOST_STREAM_PER_THREAD));
	step_done(talk);
	step_wait(talk, 2);
	assert_ok(vpmm_malloc(talk->f->pool, &other, PAGE, VPMM_HOST_STREAM_PER_THREAD));
	assert_ok(vpmm_free(talk->f->pool, other, VPMM_HOST_STREAM_PER_THREAD));
	return NULL;
}

static void test_user_heard_later(gconstpointer data)
{
	const struct kind *kind = data;
	struct fixture f;
	struct talk talk = { .f = &f };
	GThread *thread;

	open_kind(&f, kind);
	pthread_mutex_init(&talk.lock, NULL);
	pthread_cond_init(&talk.changed, NULL);
	talk.ptr = fixture_malloc_bytes(&f, kind->size, f.streams[0]);
	thread = g_thread_new("user", use_and_call_later, &talk);
	step_wait(&talk, 1);
	fixture_free(&f, talk.ptr, f.streams[0]);
	g_assert_cmpuint(g_hash_table_size(f.pool->pending.silent), ==, 1);
	step_done(&talk);
	g_thread_join(thread);

	g_assert_cmpuint(g_hash_table_size(f.pool->pending.silent), ==, 0);
	fixture_free(&f, fixture_malloc(&f, 1, f.streams[2]), f.streams[2]);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	pthread_mutex_destroy(&talk.lock);
	pthread_cond_destroy(&talk.changed);
	fixture_close(&f);
}

/* The same of what a graph has, too, or two of them: then they have to go as well. */
static void test_user_heard_of_graphs(gconstpointer data)
{
	uint64_t ids[2];
	struct fixture f;
	struct talk talk = { .f = &f };
	GThread *thread;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	pthread_mutex_init(&talk.lock, NULL);
	pthread_cond_init(&talk.changed, NULL);
	talk.ptr = fixture_malloc(&f, 1, f.streams[0]);
	for (int i = 0; i < GPOINTER_TO_INT(data); i++) {
		struct vpmm_host_graph *graph;

		assert_ok(vpmm_host_capture_begin(f.streams[0]));
		assert_ok(vpmm_capture_id(f.pool, f.streams[0], &ids[i]));
		assert_ok(vpmm_use(f.pool, talk.ptr, f.streams[0]));
		assert_ok(vpmm_host_capture_end(f.streams[0], &graph));
		fixture_keep_graph(graph);
	}
	thread = g_thread_new("user", use_and_call_later, &talk);
	step_wait(&talk, 1);
	fixture_free(&f, talk.ptr, f.streams[0]);
	step_done(&talk);
	g_thread_join(thread);

	g_assert_cmpuint(g_hash_table_size(f.pool->pending.silent), ==, 0);
	assert_ok(vpmm_pool_check(f.pool));
	for (int i = 0; i < GPOINTER_TO_INT(data); i++) {
		g_assert_cmpuint(fixture_stats(&f).held, ==, PAGE);
		assert_ok(vpmm_graph_retire(f.pool, ids[i], f.streams[0]));
	}
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	pthread_mutex_destroy(&talk.lock);
	pthread_cond_destroy(&talk.changed);
	fixture_close(&f);
}

/* On a full device a stream comes after the users rather than fail. */
static void test_exhausted(gconstpointer data)
{
	enum vpmm_reuse reuse = GPOINTER_TO_INT(data);
	struct fixture f;
	char *a, *b;

	g_setenv("VPMM_HOST_CAPACITY", "16M", TRUE);
	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED, .reuse = reuse });
	a = fixture_malloc_used(&f, 6 * PAGE);
	fixture_free(&f, a, f.streams[0]);
	b = fixture_malloc(&f, 7, f.streams[2]);
	g_assert_nonnull(b);
	assert_ok(vpmm_host_stream_submit(f.streams[2]));
	g_assert_cmpint(vpmm_host_stream_complete(f.streams[2], 1), ==, reuse == VPMM_REUSE_BLOCK ? 0 : -EBUSY);
	fixture_close(&f);
	g_unsetenv("VPMM_HOST_CAPACITY");
}

/* An allocation is freed into no cache while others use it, and is like any other once it is allocated again. */
static void test_cached_again_later(void)
{
	struct fixture f;
	char *a, *b;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	a = fixture_malloc_used(&f, PAGE);
	fixture_free(&f, a, f.streams[0]);
	fixture_complete(f.streams[1]);
	b = fixture_malloc(&f, 1, f.streams[0]);
	g_assert_true(a == b);
	fixture_free(&f, b, f.streams[0]);
	g_assert_cmpuint(fixture_stats(&f).held, ==, 0);
	g_assert_true(fixture_malloc(&f, 1, f.streams[0]) == a);
	fixture_close(&f);
}

static void test_arguments(void)
{
	struct fixture f;
	int local;

	fixture_open(&f, (struct vpmm_opts){ FIXTURE_PACKED });
	assert_ok(vpmm_use(f.pool, NULL, f.streams[0]));
	assert_error(vpmm_use(f.pool, &local, f.streams[0]), EINVAL, "no allocation");
	assert_error(vpmm_use(f.pool, fixture_malloc(&f, 1, f.streams[0]), (struct CUstream_st *)0x1234), EINVAL,
		     "vpmm_use");
	fixture_close(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/use/waits-for-user/driver", test_driver_waits_for_user);
	fixture_add_rows("/use/waits-for-freer", kinds, test_waits_for_freer);
	fixture_add_rows("/use/own", kinds, test_own_use_is_free_at_once);
	fixture_add_rows("/use/freed-twice", kinds, test_freed_twice);
	fixture_add_rows("/use/destroy-held", kinds, test_destroy_while_held);
	fixture_add_rows("/use/destroy-used", kinds, test_destroy_while_used);
	fixture_add_rows("/use/retired", kinds, test_user_retired);
	g_test_add_data_func("/use/gone", GINT_TO_POINTER(false), test_user_gone);
	g_test_add_data_func("/use/gone-and-replaced", GINT_TO_POINTER(true), test_user_gone);
	fixture_add_rows("/use/silent", kinds, test_silent_user);
	fixture_add_rows("/use/heard-later", kinds, test_user_heard_later);
	g_test_add_data_func("/use/heard-of-graph", GINT_TO_POINTER(1), test_user_heard_of_graphs);
	g_test_add_data_func("/use/heard-of-graphs", GINT_TO_POINTER(2), test_user_heard_of_graphs);
	g_test_add_data_func("/use/exhausted/async", GINT_TO_POINTER(VPMM_REUSE_ASYNC), test_exhausted);
	g_test_add_data_func("/use/exhausted/block", GINT_TO_POINTER(VPMM_REUSE_BLOCK), test_exhausted);
	g_test_add_func("/use/cached-again", test_cached_again_later);
	g_test_add_func("/use/arguments", test_arguments);
	return g_test_run();
}
